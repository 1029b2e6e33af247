"""y given, or any y of a given norm that is fixed before the draws: the best of R k-DPP draws, without a law of y."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.errors import shown
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FIXED_BEFORE, checked_draws, record, share

CERTAIN = "certain"
"""The argument ``draws`` that asks for draws until one is proved to reach a level."""
REDRAW = 0.8
"""Largest probability p with which one draw may exceed the level of redrawing: 1/(1 − p) = 5 draws are expected."""
_UNTIL = (
    "Z is drawn again until a proved upper bound on log p(y), less the objective of this order without jitter, is not "
    "above this value."
)
BEFORE_DRAWS = "y is any vector with the given squared norm, fixed before the draws."
_TRIED = tuple(1.0 - 2.0 ** (-0.5 * j) for j in range(40))
"""Values of a at which `margin` is evaluated, besides the best one for exact means: the means may be upper bounds."""
_DOWN, _UP = 1.0 - 1e-13, 1.0 + 1e-13


class MeanResidual(Protocol):
    """The functions of E(K − Q) that these bounds use: `gpbounds.kdpp.ExpectedResidual`, or its upper bounds for large
    N."""

    @property
    def miss(self) -> Float:
        """miss_i, or upper bounds."""

    @property
    def shares(self) -> Float:
        """h_i = λ_i/(λ_i + σ²)."""

    @property
    def excess(self) -> float:
        """b̄, or an upper bound."""

    def omega_above(self, a: float) -> float:
        """Ω_a, or an upper bound."""


def best_given(
    residual: MeanResidual,
    quadratic: float,
    *,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
    outputs: int = 1,
) -> Bound:
    """Bound on D_α for this y and the best of R k-DPP draws (N-given).

    With probability at least 1 − δ over the draws, with p = δ^(1/R) − tv,

        D_α ≤ α(q̄ + b̄) / (2 max_{0≤a<1} [p(1 − αa) − αΩ_a]),

    q̄ = Σ ρ_i (Vᵀy)_i²/(λ_i + σ²)², b̄ = Σ ρ_i h_i/σ², Ω_a = Σ miss_i (h_i − a)₊, h_i = λ_i/(λ_i + σ²).

    Hypotheses: y is anything that does not depend on the draws, so kernel and noise may have been fitted to (X, y); the
    draws are independent; the one with the greatest objective of order α is kept.  Other candidates may be added.

    The proof is that of N-given.  The maximum is at a = 0 or at some h_i.

    Parameters
    ----------
    residual : ExpectedResidual
        The mean of K − Q; its ``noise`` must be set.
    quadratic : float
        q̄, as ``residual.quadratic((Vᵀy)²)`` returns it, or an upper bound; summed over the outputs.
    delta : float
        Probability in (0, 1) with which the bound may fail.
    draws : int
        R ≥ 1.
    alpha : float
        Rényi order in (0, 1].
    tv : float
        Total variation distance of the law of each draw from the k-DPP.
    outputs : int
        Number P of outputs that share Z; then the bound is on the sum of their D_α, and b̄ counts P times.

    Returns
    -------
    Bound
        inf if p(1 − αa) ≤ αΩ_a for every a: large gaps, few draws.  ``terms["mean"]`` is α(q̄ + Pb̄)/2, to first order
        in K − Q the mean of D_α over one draw.

    >>> from gpbounds.kdpp import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> q = residual.quadratic(np.ones(12))
    >>> one, ten = (float(best_given(residual, q, delta=0.05, draws=R)) for R in (1, 10))
    >>> f"{one:.3g} {ten:.3g}"
    '3.95 0.205'
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    p = share(delta, draws, tv)
    value, terms = _level(residual, quadratic, p, alpha, outputs)
    assumptions = (DRAWN, BEST_OBJECTIVE, FIXED_BEFORE)
    return record(value, delta, "N-given, N-res, N-gaplin", terms, assumptions, alpha=alpha, why=why_void(p, terms))


def best_fixed(
    residual: MeanResidual,
    y_norm2: float,
    greatest: float,
    *,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
    outputs: int = 1,
) -> Bound:
    """Bound on D_α for any y with ‖y‖² = ``y_norm2`` fixed before the draws, and the best of R of them (N-fixed).

    N-given with q̄ ≤ ‖y‖² max_i ρ_i/(λ_i + σ²)², about M times below the bound for a y that may depend on Z.

    Parameters
    ----------
    residual : ExpectedResidual
        The mean of K − Q; its ``noise`` must be set.
    y_norm2 : float
        ‖y‖² ≥ 0, summed over the outputs.
    greatest : float
        max_i ρ_i/(λ_i + σ²)², as ``residual.greatest_weight`` returns it, or an upper bound.

    Others as :func:`best_given`.

    >>> from gpbounds.kdpp import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> round(float(best_fixed(residual, 12.0, residual.greatest_weight, delta=0.05, draws=10)), 4)
    0.5453
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    norm = validation.scalar(validation.non_negative, "y_norm2", y_norm2)
    p = share(delta, draws, tv)
    value, terms = _level(residual, norm * greatest, p, alpha, outputs)
    assumptions = (DRAWN, BEST_OBJECTIVE, BEFORE_DRAWS, FIXED_BEFORE)
    return record(
        value, delta, "N-fixed, N-given, N-res, N-gaplin", terms, assumptions, alpha=alpha, why=why_void(p, terms)
    )


def certain(
    residual: MeanResidual, quadratic: float, *, alpha: float = 1.0, tv: float = 0.0, outputs: int = 1
) -> Bound:
    """The level at which redrawing for this y stops, with D_α proved to be below it (N-given); 5 draws expected.

    The level is that of N-given for one draw and δ = 0.8: a draw is above it with probability at most 0.8, so at most
    1/(1 − 0.8) = 5 draws are expected until the objective is within the level of log p(y), or of a proved upper bound
    on log p(y) that is about as large.  Then D_α is at most the level with certainty: the confidence is 1.
    `gpbounds.kdpp.select` with ``method="best", draws="certain"`` makes these draws.

    Parameters as :func:`best_given`.

    >>> from gpbounds.kdpp import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> sure = certain(residual, residual.quadratic(np.ones(12)))
    >>> sure.confidence, round(sure.terms["expected_draws"], 12)
    (1.0, 5.0)
    """
    return redrawn(best_given(residual, quadratic, delta=REDRAW, alpha=alpha, tv=tv, outputs=outputs))


def draws_argument(draws: Any) -> int | str:
    """``draws`` as a checked number R ≥ 1, or "certain"."""
    if isinstance(draws, str) and draws == CERTAIN:
        return CERTAIN
    try:
        return validation.count("draws", draws)
    except ValueError:
        raise ValueError(
            f"draws: expected a whole number >= 1 of draws of which the best is kept, or {CERTAIN!r}, got "
            f"{shown(draws)}"
        ) from None


def redrawn(bound: Bound) -> Bound:
    """A bound for one draw that fails with probability at most 0.8, as the level at which redrawing ends."""
    return replace(
        bound,
        confidence=1.0,
        terms={**bound.terms, "expected_draws": 1.0 / (1.0 - REDRAW)},
        assumptions=tuple(_UNTIL if sentence == BEST_OBJECTIVE else sentence for sentence in bound.assumptions),
    )


def _level(
    residual: MeanResidual, quadratic: float, p: float, alpha: float, outputs: int
) -> tuple[float, dict[str, Any]]:
    """B with P(D_α > B) ≤ p for one draw, and its terms."""
    q = validation.scalar(validation.non_negative, "quadratic", quadratic)
    mean = 0.5 * alpha * (q + validation.count("outputs", outputs) * residual.excess)
    slack = margin(residual, p, alpha)
    value = math.inf if slack <= 0.0 else mean / slack
    return value, {"mean": mean, "p": p, "margin": slack}


def margin(residual: MeanResidual, p: float, alpha: float) -> float:
    """Lower bound on max_{0≤a<1} [p(1 − αa) − αΩ_a]."""
    points = tried(residual.shares, residual.miss, p)
    return max(p * (1.0 - alpha * a) * _DOWN - alpha * residual.omega_above(a) * _UP for a in points)


def tried(shares: Float, miss: Float, p: float) -> set[float]:
    """Values of a, among them the one with the greatest p(1 − αa) − αΩ_a if the means are exact."""
    order = np.argsort(-shares, kind="stable")
    sorted_shares, missed = shares[order], np.cumsum(miss[order])
    # the slope in a is α(Σ_{h_i > a} miss_i − p): from a = 0 on the bracket rises until less than p is missed above a
    above = np.flatnonzero(missed > p)
    return {*_TRIED, float(sorted_shares[above[0]]) if above.size else 0.0}


def why_void(p: float, terms: dict[str, Any]) -> str:
    """Why a bound for given y is infinite."""
    if p <= 0.0:
        return f"the share of draws that may fail, p = {p:.3g}, is not positive: the total variation tv is too large"
    return (
        f"max over a of p(1 - alpha a) - alpha Omega_a is {terms['margin']:.3g}: so few points miss so much of the "
        "leading eigenvectors that Markov's inequality is void. Take more points or more draws"
    )
