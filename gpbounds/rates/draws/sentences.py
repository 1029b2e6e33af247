"""The common part of the bounds for several draws: the share p of a draw, their hypotheses, their record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpbounds import validation
from gpbounds.bound import SMALLEST, UP, Bound, upper_bound

DRAWN = "The draws are independent of each other and of y; each is a k-DPP of size M among the N inputs."
TILTED = (
    "The draws are independent of each other and of y; each is a k-DPP of size M of the eigenvalues λ(λ + σ²), "
    "P(Z) ∝ |(K² + σ²K)_ZZ|."
)
FIXED_BEFORE = "Kernel, noise and M are fixed before the draws; they may have been fitted to these data."
FROM_PRIOR = "y is drawn from the prior, with the given noise variance, and kernel and noise are not fitted to it."
BEST_OBJECTIVE = (
    "Of the draws the one with the greatest objective of this order is kept, computed without jitter (if the one with "
    "the greatest ELBO is kept, alpha times the bound of order 1 holds)."
)

KNOWN = ("before", "after")
"""When a y of which only the norm is known is chosen: before the draws, or after them."""


def share(delta: float, draws: int, tv: float = 0.0) -> float:
    """p = δ^(1/R) − tv, rounded down by 1e-15: each draw may fail with probability p if a failure needs all R.

    Draws within total variation tv of the law fail with probability at most tv more; R of them with (p + tv)^R.

    >>> round(share(0.05, 10), 4), share(0.05, 1, tv=0.1) < 0
    (0.7411, True)
    """
    return math.exp(math.log(delta) / draws) * (1.0 - 1e-15) - tv


def checked_draws(delta: float, draws: int, alpha: float, tv: float) -> tuple[float, int, float, float]:
    """(delta, draws, alpha, tv) as checked numbers."""
    return (
        validation.scalar(validation.open_unit, "delta", delta),
        validation.count("draws", draws),
        validation.scalar(validation.order, "alpha", alpha),
        validation.scalar(validation.closed_unit, "tv", tv),
    )


def record(
    value: float,
    delta: float,
    claim: str,
    terms: Mapping[str, Any],
    assumptions: tuple[str, ...],
    *,
    alpha: float,
    why: str = "",
) -> Bound:
    """The bound on D_α[q*‖p], rounded up; an infinite one has the reason ``why`` among its assumptions."""
    finite = math.isfinite(value)
    raised = max(value * UP, SMALLEST) if value > 0.0 else 0.0
    reason = () if finite else (f"Nothing is proved here: {why}.",)
    return upper_bound(
        raised if finite else math.inf,
        delta,
        claim,
        terms,
        (*assumptions, *reason),
        certified=False,
        quantity=f"D_{alpha:g}[q*||p]",
    )


# From the Kullback-Leibler divergence to the other orders.


def of_order(bound: Bound, alpha: float) -> Bound:
    """α times a bound on the Kullback-Leibler divergence is one on D_α, for the same Z and y (N-alpha).

    D_α[q*_α‖p] ≤ α D_1[q*_1‖p] for every choice of inducing variables, every y and α ∈ (0, 1].

    The proof is that of N-alpha.

    >>> kl = Bound(2.0, "upper", 0.95, "N-given", quantity="D_1[q*||p]")
    >>> print(of_order(kl, 0.5))
    D_0.5[q*||p] <= 1 with probability at least 0.95 (N-given, N-alpha).
    """
    order = validation.scalar(validation.order, "alpha", alpha)
    if order == 1.0:
        return bound
    return replace(bound, value=order * bound.value, claim=f"{bound.claim}, N-alpha", quantity=f"D_{order:g}[q*||p]")
