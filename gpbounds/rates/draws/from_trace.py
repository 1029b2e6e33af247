"""The best of several draws, from two numbers of the inputs: the means of Tr(K − Q) with M and M − 1 points."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpbounds import validation
from gpbounds.bound import Bound
from gpbounds.kdpp.streamed_residual import StreamedResidual, greatest_weight
from gpbounds.numerics.gaussian_forms import MOST
from gpbounds.rates.draws.given import BEFORE_DRAWS, margin
from gpbounds.rates.draws.norm import AFTERWARDS, LEAST_TRACE
from gpbounds.rates.draws.sentences import BEST_OBJECTIVE, DRAWN, FROM_PRIOR, TILTED, checked_draws, record, share
from gpbounds.rates.one_draw import any_markov

UP = 1.0 + 1e-12


def prior_from_trace(
    trace: float,
    ratio: float,
    *,
    noise: float,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
) -> Bound:
    """Bound on D_α for y from the prior and the best of R k-DPP draws, from τ_M and r_M = τ_{M−1}/M alone (N-trace).

    With t = τ_M/σ², ϑ = r/(√r + σ)², p = δ^(1/R) − tv: with probability at least 1 − δ over y and the draws,
    for every R up to the number of draws,

        D_α ≤ α W (p + t) / (2p (p + (1 − α)t)),   W = (Π_{i<R} (t + 2ϑi))^(1/R).

    The proof is that of N-trace.
    The bound is finite for every t. It also holds with upper bounds on τ_M and r, since it increases in both.

    Parameters
    ----------
    trace : float
        τ_M ≥ 0 or an upper bound: the mean of Tr(K − Q) over one draw of M points, given X.
    ratio : float
        r_M = τ_{M−1}/M ≥ 0 or an upper bound; inf is allowed.
    noise : float
    delta : float
        Probability in (0, 1) with which the bound may fail.
    draws : int
    alpha : float
        Rényi order in (0, 1].
    tv : float
        Total variation distance of the law of each draw from the k-DPP.

    >>> round(float(prior_from_trace(0.01, 0.002, noise=0.1, delta=0.05, draws=10)), 3)
    0.161
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    variance = validation.scalar(validation.positive, "noise", noise)
    t = validation.scalar(validation.non_negative, "trace", trace) / variance
    r = validation.scalar(validation.extended, "ratio", ratio)
    bounds = [
        _from(norm, t, delta, few, alpha, tv, (DRAWN, BEST_OBJECTIVE, FROM_PRIOR))
        for few, norm in _norms(t, _greatest_share(r, variance), draws)
    ]
    return min(bounds, key=float)


def streamed_prior(
    residual: StreamedResidual, *, delta: float, draws: int = 1, alpha: float = 1.0, tv: float = 0.0
) -> Bound:
    """:func:`prior_from_trace` with bounds on the leading eigenvalues, for K too large to decompose.

    D_α ≤ αW/(2 max{p(p + (1 − α)t)/(p + t), max_a [p(1 − αa) − αΩ_a]}): N-trace with an upper bound on the Ω_a of
    N-given.

    >>> from gpbounds.kdpp.streamed_residual import streamed_residual
    >>> values = 0.3 ** np.arange(12.0)
    >>> residual = streamed_residual(values[:10], values[10:].sum(), 6, noise=0.1)
    >>> round(float(streamed_prior(residual, delta=0.05, draws=10)), 3)
    0.111
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    t = residual.trace / residual.noise
    largest = _greatest_share(residual.ratio, residual.noise)
    bounds = [
        _from(norm, t, delta, few, alpha, tv, (DRAWN, BEST_OBJECTIVE, FROM_PRIOR), residual)
        for few, norm in _norms(t, largest, draws)
    ]
    return min(bounds, key=float)


def _greatest_share(ratio: float, noise: float) -> float:
    """ϑ = r/(√r + σ)², an upper bound on every θ_i = miss_i h_i."""
    return 1.0 if math.isinf(ratio) else ratio / (math.sqrt(ratio) + math.sqrt(noise)) ** 2


def fixed_from_trace(
    trace: float,
    ratio: float,
    y_norm2: float,
    *,
    noise: float,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
) -> Bound:
    """Bound on D_α for any y fixed before R draws and the best of them, from τ_M and r_M alone (N-trace, N-fixed).

    As :func:`prior_from_trace` with W = ‖y‖² max_λ rλ/((λ + r)(λ + σ²)²) + t, ‖y‖² = ``y_norm2``: q̄ is at most the
    first summand, b̄ at most t.

    >>> round(float(fixed_from_trace(0.01, 0.002, 10.0, noise=0.1, delta=0.05, draws=10)), 3)
    1.132
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    variance = validation.scalar(validation.positive, "noise", noise)
    t = validation.scalar(validation.non_negative, "trace", trace) / variance
    norm = validation.scalar(validation.non_negative, "y_norm2", y_norm2)
    form = norm * greatest_weight(validation.scalar(validation.non_negative, "ratio", ratio), variance) + t
    bound = _from(form, t, delta, draws, alpha, tv, (DRAWN, BEST_OBJECTIVE, BEFORE_DRAWS))
    return replace(bound, claim="N-trace, N-fixed")


def adversary_from_trace(
    trace: float,
    rest: int,
    y_norm2: float,
    *,
    noise: float,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
) -> Bound:
    """Bound on D_α for any y with ‖y‖² = ``y_norm2``, even chosen after Z, the draw of least trace, from τ_M (N-adv).

    T ≤ τ_M/p with p = δ^(1/R) − tv in R-thm2; rest = N − M.

    >>> round(float(adversary_from_trace(0.01, 90, 10.0, noise=0.1, delta=0.05, draws=10)), 3)
    6.012
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    norm = validation.scalar(validation.non_negative, "y_norm2", y_norm2)
    p = share(delta, draws, tv)
    assumptions = (DRAWN, LEAST_TRACE, AFTERWARDS)
    if p <= 0.0:
        why = f"p = δ^(1/R) − tv = {p:.3g} is not positive"
        return record(math.inf, delta, "N-adv, R-thm2", {"p": p}, assumptions, alpha=alpha, why=why)
    t = np.asarray(validation.scalar(validation.non_negative, "trace", trace))
    parts = any_markov(t, max(rest, 1), noise=noise, alpha=alpha, delta=p, y_norm2=norm)
    terms = {"p": p, **{name: float(part) for name, part in parts.items()}}
    value = terms["determinant"] + terms["quadratic"]
    return record(value, delta, "N-adv, R-thm2", terms, assumptions, alpha=alpha)


def tilted_from_trace(
    trace: float,
    ratio: float,
    *,
    noise: float,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
) -> Bound:
    """Bound on D_α for y from the prior and the best of R tilted draws, from two mean traces of KK_n (N-tilt-trace).

    D_α ≤ (α/2p)·(Π_{i<R}(t + 2ϑi))^(1/R) with probability at least 1 − δ, for every R up to the number of draws,
    t = τ_M(KK_n)/σ⁴, r = τ_{M−1}(KK_n)/M, ϑ = (r/σ²)/(2√r + σ²), K_n = K + σ²I, p = δ^(1/R) − tv.

    The proof is that of N-tilt-trace.

    Parameters
    ----------
    trace : float
        τ_M(KK_n) ≥ 0 or an upper bound; see `gpbounds.kdpp.streamed_residual.tilted_traces`.
    ratio : float
        τ_{M−1}(KK_n)/M ≥ 0 or an upper bound.

    Others as :func:`prior_from_trace`.

    >>> round(float(tilted_from_trace(0.001, 0.0002, noise=0.1, delta=0.05, draws=10)), 3)
    0.14
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    variance = validation.scalar(validation.positive, "noise", noise)
    t = validation.scalar(validation.non_negative, "trace", trace) / variance**2
    r = validation.scalar(validation.non_negative, "ratio", ratio)
    largest = r / variance / (2.0 * math.sqrt(r) + variance)
    best, claim = math.inf, "N-tilt-trace, N-tilt-prior, N-tilt"
    for few, norm in _norms(t, largest, draws):
        p = share(delta, few, tv)
        best = min(best, 0.5 * alpha * norm / p * UP) if p > 0.0 else best
    why = f"p = δ^(1/R) − tv = {share(delta, draws, tv):.3g} is not positive"
    terms = {"mean": 0.5 * alpha * t}
    return record(best, delta, claim, terms, (TILTED, BEST_OBJECTIVE, FROM_PRIOR), alpha=alpha, why=why)


def _norms(t: float, largest: float, draws: int) -> Iterator[tuple[int, float]]:
    """(R, (Π_{i<R}(t + 2·largest·i))^(1/R)) for R = 1, 2, ... as many as there are draws."""
    logs = 0.0
    for few in range(1, min(draws, MOST) + 1):  # the best of all draws is at least as good as the best of a few
        logs += math.log1p(2.0 * largest * (few - 1) / t) if t else 0.0
        yield few, t * math.exp(logs / few)


def _from(
    form: float,
    t: float,
    delta: float,
    draws: int,
    alpha: float,
    tv: float,
    assumptions: tuple[str, ...],
    residual: StreamedResidual | None = None,
) -> Bound:
    p = share(delta, draws, tv)
    value = math.inf
    if p > 0.0:  # quotients, as p² may underflow
        value = 0.5 * alpha * (form / p) * ((p + t) / (p + (1.0 - alpha) * t)) * UP
    if residual is not None and p > 0.0 and (left := margin(residual, p, alpha)) > 0.0:
        value = min(value, 0.5 * alpha * form / left * UP)
    why = f"p = δ^(1/R) − tv = {p:.3g} is not positive"
    terms = {"mean": 0.5 * alpha * t, "p": p}
    return record(value, delta, "N-trace, N-prior", terms, assumptions, alpha=alpha, why=why)
