"""The numbers of Prop. 4 rounded outwards: the doubles next to the ends of their balls."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.numerics.balls import residual, root
from gpbounds.rigor import rational, settled

# Both roots of x − 1 − log x = 2γ, the factors of Prop. 4 and of bounds on predictions, in balls (L-30 ... L-63).


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


# The numbers of Prop. 4 rounded outwards: the doubles next to the ends of their balls.

_BEYOND = 800.0
"""Above this γ, b < e^(−2γ) is below every double, and 1/b and √(e^(2γ) − 1) are above every double."""
EXPONENTS = 350.0
"""Above this γ, log b is −1 − 2γ in double precision: it exceeds this by b < e^(−700)."""


def _low(gamma: Any) -> Any:
    return (-depth(gamma)).exp()


def _high(gamma: Any) -> Any:
    return 1 + rise(gamma)


NUMBERS: dict[str, tuple[Callable[[Any], Any], bool, float, float]] = {
    "low": (_low, False, 1.0, 0.0),
    "high": (_high, True, 1.0, math.inf),
    "log_low": (lambda gamma: -depth(gamma), False, 0.0, -math.inf),
    "low_less_one": (lambda gamma: (-depth(gamma)).expm1(), False, 0.0, -1.0),
    "high_less_one": (rise, True, 0.0, math.inf),
    "inverse_low": (lambda gamma: 1 / _high(gamma), False, 1.0, 0.0),
    "inverse_high": (lambda gamma: depth(gamma).exp(), True, 1.0, math.inf),
    "mean": (mean, True, 0.0, math.inf),
    "mean_first": (mean_first, True, 0.0, math.inf),
}
"""name: (formula in γ, whether to round up, the value at γ = 0, the limit for γ → ∞)."""
LIMITS = ("low", "low_less_one", "inverse_high", "mean_first")
"""Numbers that equal their limits in double precision for γ above `_BEYOND`."""


def outer_end(name: str, gamma: Float, used: Float | None = None) -> Float:
    """The number ``name`` of `NUMBERS` at γ − m²/2, m = ``used``, for each entry, rounded outwards.

    >>> outer_end("mean", np.array([0.0, 2.0, np.inf])).tolist()
    [0.0, 2.0, inf]
    """
    wide, shifts = np.broadcast_arrays(gamma, 0.0 if used is None else used)
    values = [_number(name, float(g), float(m)) for g, m in zip(wide.flat, shifts.flat, strict=True)]
    return np.array(values).reshape(wide.shape)


def _number(name: str, gamma: float, used: float) -> float:
    formula, upwards, at_zero, limit = NUMBERS[name]
    if gamma == math.inf:
        return limit
    rest = Fraction(gamma) - Fraction(used) ** 2 / 2
    if rest <= 0:
        return at_zero
    if rest > _BEYOND and name in LIMITS:
        return limit
    if rest > EXPONENTS and name == "log_low":
        return settled(lambda: -1 - 2 * rational(rest), upwards)
    return settled(lambda: formula(rational(rest)), upwards)
