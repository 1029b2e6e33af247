"""Both roots of x − 1 − log x = 2γ, the factors of Prop. 4 and of bounds on predictions, in balls (L-30 ... L-63)."""

from __future__ import annotations

from typing import Any

from gpbounds.enclosures.newton import root
from gpbounds.enclosures.scalars import residual


def rise(gamma: Any) -> Any:
    """t − 1 for a ball γ > 0: the root h of h − log(1 + h) = 2γ between v + v²/3 and v + v²/2, v = 2√γ (L-33)."""
    v = 2 * gamma.sqrt()
    bracket = (v + v * v / 3).union(v + v * v / 2)
    return root(lambda h: residual(h) - 2 * gamma, lambda h: h / (1 + h), bracket)


def depth(gamma: Any) -> Any:
    """−log b for a ball γ > 0: the root z of z − 1 + e^(−z) = 2γ between 2γ + 1 − e^(−v) and 2γ + min(1, v) (L-33)."""
    v = 2 * gamma.sqrt()
    bracket = (2 * gamma - (-v).expm1()).union(2 * gamma + v.min(v * 0 + 1))
    return root(lambda z: z + (-z).expm1() - 2 * gamma, lambda z: -(-z).expm1(), bracket)


def mean(gamma: Any) -> Any:
    """√(2γ) (L-30)."""
    return (2 * gamma).sqrt()


def mean_first(gamma: Any) -> Any:
    """√(e^(2γ) − 1) (N-mean)."""
    return (2 * gamma).expm1().sqrt()


def markov(eta: Any) -> Any:
    """1/η (L-62)."""
    return 1 / eta


def chernoff(eta: Any) -> Any:
    """t at γ = log(1/η) (N-tail)."""
    return 1 + rise(-eta.log())
