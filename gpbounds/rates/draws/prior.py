"""y from the prior, the best of R k-DPP draws: exact moments of the variable to which Markov's inequality is
applied."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtri

from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.numerics import gaussian_forms
from gpbounds.numerics.scalars import log1p_residual, trace_term
from gpbounds.rates.draws.given import MeanResidual
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FROM_PRIOR, checked_draws, record, share

DOWN = 1.0 - 1e-12
"""Relative margin for conditions that must hold despite rounding."""
SHARES = tuple(2.0**-j for j in range(1, 8))
"""Shares of δ that are tried for one of several events."""
PEAK = 1.5364
"""Székely and Bakirov's theorem holds from 1.5364 times the mean on."""


def prior_moments(
    residual: MeanResidual, *, delta: float, draws: int = 1, alpha: float = 1.0, tv: float = 0.0
) -> Bound:
    """Bound on D_α for y from the prior, best of R draws, by exact moments (N-prior): sharp for gaps up to about 1 nat.

    P(D_α > B) ≤ min_a (1 − αa)^(−R) E_y[((α/2B)(Q_y + b̄) + αΩ_a)^R],  Q_y = Σ θ_i z_i², θ_i = miss_i h_i, z ~ N(0, I),
    b̄ = Σ ρ_i h_i/σ², Ω_a = Σ miss_i (h_i − a)₊, h_i = λ_i/(λ_i + σ²), over 0 ≤ a < 1; B is where that is δ.

    The proof is that of N-prior.
    The R-th moment is computed from the cumulants of Q_y, which are positive.  For each a, B solves
    ‖(Q_y + b̄)/(2B) + Ω_a‖_R = p(1 − αa)/α, p = δ^(1/R) − tv, whose left side is convex in 1/B.

    Parameters
    ----------
    residual : ExpectedResidual or StreamedResidual
        The mean of K − Q, with ``noise`` (:func:`gpbounds.kdpp.expected_residual`).  The excess of a streamed Ω_0 =
        E Tr X is added to the greatest θ_i, where moments are greatest (they are Schur-convex).
    delta : float
        Probability in (0, 1) with which the bound may fail, over y and the draws.
    draws : int
        R ≥ 1; of more than 64 the first 64 are counted.
    alpha : float
        Rényi order in (0, 1].
    tv : float
        Total variation distance of the law of each draw from the k-DPP.

    Returns
    -------
    Bound
        inf if p(1 − αa) ≤ αΩ_a for every a: large gaps, few draws.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> one, ten = (float(prior_moments(residual, delta=0.05, draws=R)) for R in (1, 10))
    >>> f"{one:.2g} {ten:.2g}"
    '0.69 0.06'
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    R = min(draws, gaussian_forms.MOST)
    p = share(delta, R, tv)
    form = residual.miss * residual.shares
    rest = max(residual.omega_above(0.0) - float(form.sum()), 0.0)
    form[int(form.argmax())] += rest
    base, top_and_sums = residual.excess, gaussian_forms.power_sums(form, R)
    mean = float(form.sum()) + base
    terms = {"mean": 0.5 * alpha * mean, "p": p}
    assumptions = (DRAWN, BEST_OBJECTIVE, FROM_PRIOR)
    if mean == 0.0 and p > 0.0:
        return record(0.0, delta, "N-prior, N-res", terms, assumptions, alpha=alpha)
    if p <= 0.0:
        why = f"p = δ^(1/R) − tv = {p:.3g} is not positive"
        return record(math.inf, delta, "N-prior, N-res", terms, assumptions, alpha=alpha, why=why)
    knots = _Knots(residual.shares, residual.miss, rest)
    low, high, best, place = 0.0, min(1.0, knots.top), 0.0, 0.0
    for _ in range(3):
        grid = np.linspace(low, high, 17)
        scale = _largest_scale(grid, knots.omega(grid), mean, top_and_sums, p, alpha, R)
        i = int(scale.argmax())
        if scale[i] > best:
            best, place = float(scale[i]), float(grid[i])
        step = (high - low) / 16
        low, high = max(float(grid[i]) - step, 0.0), min(float(grid[i]) + step, min(1.0, knots.top))
    terms["a"] = place
    value = 0.5 / best if best > 0.0 else math.inf
    why = f"Ω_a = E Tr Π(H − a)₊ exceeds p(1 − αa)/α for every a, p = {p:.3g}; take more draws or more points"
    return record(value, delta, "N-prior, N-res", terms, assumptions, alpha=alpha, why=why)


class _Knots:
    """Ω_a = Σ miss_i (h_i − a)₊ for many a at once."""

    def __init__(self, shares: Float, miss: Float, rest: float) -> None:
        self._shares, self._miss, self._rest = shares, miss, rest
        self.top = float(shares.max())

    def omega(self, a: Float) -> Float:
        """A row of Ω_a, one for each a, rounded up by 1e-12."""
        return ((self._miss * np.maximum(self._shares - a[:, None], 0.0)).sum(axis=1) + self._rest) / DOWN


def _largest_scale(
    a: Float, omega: Float, mean: float, top_and_sums: tuple[Float, Float], p: float, alpha: float, R: int
) -> Float:
    """The largest c with ‖c(Q_y + b̄) + Ω_a‖_R ≤ p(1 − αa)/α, up to a little less, for each a; 0 where none is.

    The norm is convex in c, and Ω_a at c = 0.  Newton's steps from the right, where it is too large, stay there; the
    chord from c = 0 then crosses the level where the norm is not above it.
    """
    top, sums = top_and_sums
    level = p * (1.0 - alpha * a) / alpha * DOWN
    rest = level - omega
    possible = rest > 0.0
    c = np.where(possible, rest, 1.0) / mean  # ‖cQ + Ω‖ ≥ c·mean + Ω
    for last in (False,) * 8 + (True,):
        whole = c * mean + omega
        ratios = gaussian_forms.moment_ratios(whole, c * top, sums)
        height = whole * ratios[R] ** (1.0 / R)
        if last:
            c = c * rest / np.maximum(height - omega, rest)
        else:
            # d‖W‖_R/dc = E[W^(R−1) W']/‖W‖^(R−1) with W' = (W − Ω)/c
            slope = height * (1.0 - omega / whole * ratios[R - 1] / ratios[R]) / c
            c = np.maximum(c - (height - level) / slope, 0.5 * c)
            c = np.where(possible, c, 1.0)
    return np.where(possible, c * DOWN, 0.0)


def prior_large(
    residual: ExpectedResidual, *, delta: float, draws: int = 1, alpha: float = 1.0, tv: float = 0.0
) -> Bound:
    """Bound on D_α for y from the prior and the best of R draws, for large gaps (N-prior2).

    With Γ_a = Σ miss_i g_a(αh_i), g_a(x) = x(x − a)₊/((1 − x)(1 − a)), the smaller of, over 0 ≤ a < 1:

    - moments:   B = ‖α(Σ θ_i z_i²/(1 − a) + b̄) + Γ_a z_1²‖_R/(2p), p = δ^(1/R), θ_1 the greatest of the θ_i = miss_i
      h_i;
    - quantiles: B = [αQ*/(1 − a) + αb̄ + cΓ_a]/(2p), δ = δ₁ + δ₂ + p^R, Q* a (1 − δ₁)-quantile of Σ θ_i z_i²
      (Chernoff), c the (1 − δ₂)-quantile of χ²₁, δ₂ ≤ .2.

    The proof is that of N-prior2; the quantiles rest on the theorem of Székely and Bakirov (Probab. Theory Relat.
    Fields 126, 2003), cited.

    Parameters, result and errors as :func:`prior_moments`.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> residual = expected_residual(0.6 ** np.arange(12.0), 3, noise=0.01)
    >>> small, large = (float(bound(residual, delta=0.05, draws=10)) for bound in (prior_moments, prior_large))
    >>> small > large
    True
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    R = min(draws, gaussian_forms.MOST)
    claim, assumptions = "N-prior2, N-res", (DRAWN, BEST_OBJECTIVE, FROM_PRIOR)
    p = share(delta, R, tv)
    form, base = residual.miss * residual.shares, residual.excess
    terms = {"mean": 0.5 * alpha * (float(form.sum()) + base), "p": p}
    if p <= 0.0:
        why = f"p = δ^(1/R) − tv = {p:.3g} is not positive"
        return record(math.inf, delta, claim, terms, assumptions, alpha=alpha, why=why)
    ordered, splits = np.sort(form)[::-1], _splits(delta, R, tv)
    gaps, large = _large_parts(residual, alpha)
    weights = alpha * ordered / gaps[:, None]
    weights[:, 0] += large
    values = 0.5 * gaussian_forms.norm(weights, alpha * base, R) / p
    i = int(values.argmin())
    best, place = float(values[i]), 1.0 - float(gaps[i])
    quantiles = {d1: alpha * gaussian_forms.chernoff_quantile(form, d1) for d1 in {d1 for d1, _, _ in splits}}
    for d1, c, q in splits:
        values = 0.5 * (quantiles[d1] / gaps + alpha * base + c * large) / q
        i = int(values.argmin())
        if values[i] < best:
            best, place = float(values[i]), 1.0 - float(gaps[i])
    return record(best, delta, claim, {**terms, "a": place}, assumptions, alpha=alpha)


def _large_parts(residual: ExpectedResidual, alpha: float) -> tuple[Float, Float]:
    """(1 − a, Γ_a) for some a, from 0 to the greatest x_i = αh_i; 1 − x_i without cancellation."""
    assert residual.noise is not None
    values = residual.eigenvalues
    rest = ((1.0 - alpha) * values + residual.noise) / (values + residual.noise)  # 1 − x
    gaps = np.geomspace(1.0, float(rest.min()), 25)
    odds = alpha * values / ((1.0 - alpha) * values + residual.noise)  # x/(1 − x)
    excess = np.maximum(1.0 - rest / gaps[:, None], 0.0)  # (x − a)₊/(1 − a)
    return gaps, (residual.miss * odds * excess).sum(axis=1)


def _splits(delta: float, R: int, tv: float) -> list[tuple[float, float, float]]:
    """(δ₁, c, p) with δ₁ + δ₂ + (p + tv)^R = δ, p > 0, and c, the (1 − δ₂)-quantile of χ²₁, above 1.5364."""
    splits = []
    for second in SHARES:
        d2 = delta * second
        c = float(chdtri(1.0, d2))
        for first in SHARES:
            d1 = delta * first * 0.5
            left = delta - d1 - d2
            if left > 0.0 and c > PEAK and (p := share(left, R, tv)) > 0.0:
                splits.append((d1, c, p))
    return splits


# One draw, y from the prior: the joint mean over y and Z, and Markov's inequality (N-one).


def joint_mean(residual: ExpectedResidual, alpha: float = 1.0) -> float:
    """Upper bound on E_Z E_y D_α, y from the prior: g(τ) + ½ Σ miss_i χ(αh_i), χ(x) = 1/(1 − x) − 1 + log(1 − x)
    (N-one).

    τ = Σ ρ_i, n = rank − M, g(τ) = (αn/(2β)) log(1 + βτ/(nσ²)), β = 1 − α; at α = 1 it is Σ miss_i [d_i − ½ log(1 +
    d_i)], an equality for diagonal K.

    The proof is that of N-one.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> round(joint_mean(expected_residual([3.0, 1.0], 1, noise=1.0)), 6)  # ¼(3 − ½ log 4) + ¾(1 − ½ log 2)
    1.066783
    """
    noise = residual.noise
    if noise is None:
        raise ValueError("residual: expected one with the noise, got noise=None: pass it to expected_residual")
    values = residual.eigenvalues
    count = int((values > 0.0).sum()) - residual.M
    if count == 0:
        return 0.0
    odds = alpha * values / ((1.0 - alpha) * values + noise)  # x/(1 − x) at x = αh; χ(x) is odds − log(1 + odds)
    quadratic = 0.5 * float((residual.miss * log1p_residual(odds)).sum())
    return quadratic + float(trace_term(np.asarray(residual.trace), count, noise=noise, alpha=alpha))


def one_draw(residual: ExpectedResidual, *, delta: float, alpha: float = 1.0, draws: int = 1, tv: float = 0.0) -> Bound:
    """Bound on D_α for y from the prior: E D_α/δ by Markov's inequality, E D_α from :func:`joint_mean` (N-one).

    It also holds for the best of several draws, which is at least as good as the first, but more draws do not lower it.

    Parameters
    ----------
    residual : ExpectedResidual
        The mean of K − Q; its ``noise`` must be set.
    delta : float
        Probability in (0, 1) with which the bound may fail; tv is subtracted from it.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> round(float(one_draw(expected_residual([3.0, 1.0], 1, noise=1.0), delta=0.05)), 4)
    21.3357
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    mean, p = joint_mean(residual, alpha), delta * (1.0 - 1e-15) - tv
    value = mean / p if p > 0.0 else float("inf")
    why = f"δ − tv = {p:.3g} is not positive"
    return record(
        value, delta, "N-one, N-res", {"mean": mean, "p": p}, (DRAWN, BEST_OBJECTIVE, FROM_PRIOR), alpha=alpha, why=why
    )
