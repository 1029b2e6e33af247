"""The draw of least trace is kept, independently of y; y is from the prior, or the worst of its norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri

from gpbounds import validation
from gpbounds.arrays import EPS
from gpbounds.bound import UP, Bound, upper_bound
from gpbounds.kdpp.expectations import expected_trace, log_expected_determinant
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.linalg.psd import symmetric_matrix
from gpbounds.numerics.scalars import scaled_log1p
from gpbounds.rates import one_draw
from gpbounds.rates.draws.prior import PEAK, SHARES
from gpbounds.rates.draws.sentences import DRAWN, FIXED_BEFORE, FROM_PRIOR, checked_draws, record, share

# The distribution of Tr(K − Q) over k-DPP draws: quantiles, variance, determinants.


def trace_quantile(residual: ExpectedResidual, *, level: float) -> Bound:
    """A bound that T = Tr(K − Q) of one k-DPP draw exceeds with probability at most ``level`` (N-order).

    With p = level and any set G of eigenvectors, T ≤ Σ_G ρ_i/p + Σ_{i∉G} ρ_i + √((1/p − 1) Σ_{i∉G} λ_i² miss_i (1 −
    miss_i)), least over the sets that hold the greatest λ_i, or the least; G = all is Markov's inequality, ρ_i = λ_i
    miss_i.

    The proof is that of N-order.

    Parameters
    ----------
    residual : ExpectedResidual
    level : float
        In (0, 1).

    Returns
    -------
    Bound
        Upper bound on Tr(K − Q); ``terms["expected_trace"]`` is its mean.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> residual = expected_residual(0.5 ** np.arange(40.0), 10)
    >>> round(float(trace_quantile(residual, level=0.05)) / residual.trace, 1)  # Markov's inequality says 20
    12.2
    """
    p = validation.scalar(validation.open_unit, "level", level)
    order = np.argsort(-residual.eigenvalues, kind="stable")
    rho, miss, values = residual.rho[order], residual.miss[order], residual.eigenvalues[order]
    with np.errstate(divide="ignore", invalid="ignore"):
        least_miss = np.where(values > 0.0, miss * (residual.lowest[order] / values), 1.0)
    hit = np.minimum(1.0, 1.0 - least_miss + 4.0 * EPS)  # from above
    variance = values * rho * hit

    def quantiles(rest_mean: np.ndarray, rest_variance: np.ndarray) -> np.ndarray:
        whole = residual.trace
        spread = np.sqrt((1.0 / p - 1.0) * np.maximum(rest_variance, 0.0))
        return np.maximum(whole - rest_mean, 0.0) / p + rest_mean + spread

    zero = np.zeros(1)
    first = quantiles(np.append(zero, np.cumsum(rho)), np.append(zero, np.cumsum(variance)))
    last = quantiles(np.append(zero, np.cumsum(rho[::-1])), np.append(zero, np.cumsum(variance[::-1])))
    value = min(float(first.min()), float(last.min()))
    return upper_bound(
        value * UP,
        p,
        "N-order, N-res",
        {"expected_trace": residual.trace},
        (DRAWN,),
        certified=False,
        quantity="Tr(K - Q)",
    )


def trace_variance(residual: ExpectedResidual) -> Bound:
    """Upper bound on the variance of T = Tr(K − Q) over the k-DPP: the smaller of two bounds (N-vart).

    Var T = E Tr(K − Q)² − τ_M(τ_M − τ_{M+1}) exactly, τ_m = (m+1)e_{m+1}/e_m, and E Tr(K − Q)² ≤ Σ λ_i ρ_i;
    Var T ≤ Σ λ_i² miss_i (1 − miss_i).

    The proof is that of N-vart.  Chebyshev's inequality with it is rarely
    better than Markov's; N-order combines the two.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> float(trace_variance(expected_residual([2.0, 2.0, 2.0], 1)))  # every draw leaves the same trace
    0.0
    """
    values, rho, M = residual.eigenvalues, residual.rho, residual.M
    second = float((values * rho * (1.0 - residual.miss)).sum())
    mean = residual.trace
    more = float(expected_trace(values, M + 1)) if int((values > 0.0).sum()) > M else 0.0
    first = float((values * rho).sum()) - mean * (mean - more)
    value = max(min(first, second), 0.0)
    terms = {"second moment": first, "convex order": second, "expected_trace": mean}
    return Bound(value, "upper", 1.0, "N-vart, N-res", terms, (DRAWN,), quantity="Var Tr(K - Q)")


def determinant_quantile(eigenvalues: ArrayLike, M: int, *, noise: float, alpha: float, level: float) -> Bound:
    """A bound that L_det = (α/(2β)) log|I + (β/σ²)(K − Q)| of a k-DPP draw exceeds with probability <= level (N-ldet).

    (α/(2β)) [log E|I + (β/σ²)(K − Q)| + log(1/level)], β = 1 − α, with the exact mean of R-lem3: Markov's inequality
    for the determinant.

    Parameters
    ----------
    eigenvalues : array (N,)
        The eigenvalues of K.
    M : int
    noise, alpha, level : float
        σ² > 0; α in (0, 1); level in (0, 1).

    >>> round(float(determinant_quantile([3.0, 2.0, 1.0], 1, noise=1.0, alpha=0.5, level=0.05)), 4)
    2.136
    """
    order = validation.scalar(validation.open_unit, "alpha", alpha)
    p = validation.scalar(validation.open_unit, "level", level)
    beta = 1.0 - order
    log_mean = float(
        log_expected_determinant(eigenvalues, M, beta / validation.scalar(validation.positive, "noise", noise))
    )
    value = order / (2.0 * beta) * (log_mean - math.log(p))
    return upper_bound(
        value * UP, p, "N-ldet, R-lem3", {"log mean": log_mean}, (DRAWN,), certified=False, quantity="-log C_x"
    )


# The draw of least trace is kept, independently of y; y is from the prior, or the worst of its norm.

LEAST_TRACE = "Of the draws the one with the least Tr(K − Q) is kept, without using y."
AFTERWARDS = "y is any vector with the given squared norm, even one that depends on X and Z."


def least_trace(
    residual: ExpectedResidual, *, delta: float, draws: int = 1, alpha: float = 1.0, tv: float = 0.0
) -> Bound:
    """Bound on D_α for y from the prior and the draw of least trace among R, for any number of outputs (N-least).

    With δ = δ₁ + δ₂, t = T/σ² for the (1 − δ₁^(1/R))-quantile T of one draw's trace (N-order; Markov: τ/(σ²δ₁^(1/R)))
    and c the (1 − δ₂)-quantile of χ²₁, c > 1.5364: with probability at least 1 − δ, D_α ≤ (α/2)[(1 + c)t − log(1 + t)].

    The proof is that of N-least; it cites Székely and Bakirov (Probab. Theory Relat. Fields 126, 2003).  No better
    bound follows from the trace alone: a residual of rank one attains the last steps.

    Parameters
    ----------
    residual : ExpectedResidual
        The mean of K − Q; its ``noise`` must be set.
    delta : float
        Probability in (0, 1) with which the bound may fail, over y and the draws.
    draws : int
    alpha : float
        Rényi order in (0, 1].
    tv : float
        Total variation distance of the law of each draw from the k-DPP.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> f"{float(least_trace(residual, delta=0.05, draws=10)):.3g}"
    '0.183'
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    assert residual.noise is not None
    best, terms = math.inf, {}
    for part in SHARES:
        second = delta * part
        c = float(chdtri(1, second))  # P(χ²₁ >= c) = second
        p = share(delta - second, draws, tv)
        if c <= PEAK or p <= 0.0:
            continue
        trace = float(trace_quantile(residual, level=p))
        t = trace / residual.noise
        value = 0.5 * alpha * ((1.0 + c) * t - math.log1p(t))
        if value < best:
            best, terms = value, {"trace": trace, "p": p, "quantile": c}
    why = "δ^(1/R) − tv is not positive"
    return record(
        best, delta, "N-least, N-order, N-alpha", terms, (DRAWN, LEAST_TRACE, FROM_PRIOR), alpha=alpha, why=why
    )


def adversary(
    residual: ExpectedResidual,
    y_norm2: float,
    *,
    delta: float,
    draws: int = 1,
    alpha: float = 1.0,
    tv: float = 0.0,
) -> Bound:
    """Bound on D_α for any y with ‖y‖² = ``y_norm2``, even chosen after Z; Z the draw of least trace among R (N-adv).

    With probability at least 1 − δ over the draws, for all such y at once, D_α ≤ g_n(T) + ½(‖y‖²/σ²) ψ(T/σ²): R-thm2,
    where T is the (1 − δ^(1/R))-quantile of one draw's trace (N-order; at most τ/δ^(1/R)) in place of τ/δ, n = rank −
    M.

    Parameters
    ----------
    residual : ExpectedResidual
        The mean of K − Q; its ``noise`` must be set.
    y_norm2 : float
        ‖y‖² ≥ 0.
    delta : float
        Probability in (0, 1) with which the bound may fail, over the draws.

    Others as :func:`least_trace`.

    >>> from gpbounds.kdpp.residual import expected_residual
    >>> residual = expected_residual(0.3 ** np.arange(12.0), 6, noise=0.1)
    >>> one, ten = (float(adversary(residual, 10.0, delta=0.05, draws=R)) for R in (1, 10))
    >>> one > 3 * ten
    True
    """
    delta, draws, alpha, tv = checked_draws(delta, draws, alpha, tv)
    assert residual.noise is not None
    norm = validation.scalar(validation.non_negative, "y_norm2", y_norm2)
    p = share(delta, draws, tv)
    assumptions = (DRAWN, LEAST_TRACE, AFTERWARDS, FIXED_BEFORE)
    claim = "N-adv, N-order, R-thm2"
    if p <= 0.0:
        why = f"p = δ^(1/R) − tv = {p:.3g} is not positive"
        return record(math.inf, delta, claim, {"p": p}, assumptions, alpha=alpha, why=why)
    trace = float(trace_quantile(residual, level=p))
    count = max(int((residual.eigenvalues > 0.0).sum()) - residual.M, 1)
    parts = one_draw.any_markov(np.asarray(trace), count, residual.noise, alpha, 1.0, norm)
    terms = {"trace": trace, "p": p, **{name: float(part) for name, part in parts.items()}}
    return record(terms["determinant"] + terms["quadratic"], delta, claim, terms, assumptions, alpha=alpha)


# Lower bounds for every subset of the data, and for every choice that is made without y.

_SUBSET = "The inducing points are M of the data, chosen without y."
DOWN = 1.0 - 1e-11


def least_subset_trace(K: ArrayLike, M: ArrayLike) -> Any:
    """Lower bound on Tr(K − Q) of every subset of M data (N-sub).

    max{Σ_{m>M} λ_m(K), the sum of the N − M least 1/(K⁻¹)_jj}: rank Q ≤ M (Eckart, Young), and
    (K − Q)_jj = var(f_j | f_Z) ≥ var(f_j | f_i, i ≠ j) = 1/(K⁻¹)_jj for j outside Z.  Both are attained: the first by
    diagonal K for equal eigenvalues, the second at M = N − 1.

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.  Eigenvalues are lowered by their rounding error, N·eps·λ_max; where the least
        is below it the second form is 0.
    M : int or array of int
        0 ≤ M ≤ N.

    Returns
    -------
    float, or array of M's shape
        In squared units of y.

    >>> least_subset_trace(np.diag([3.0, 2.0, 1.0]), [1, 2]).round(6)
    array([3., 1.])
    """
    matrix = symmetric_matrix("K", K, tolerance=1e-10)
    N = matrix.shape[0]
    sizes = validation.whole("M", M, 0).astype(np.int64)
    if (sizes > N).any():
        raise ValueError(f"M: expected at most N = {N} of the data, got {sizes.max()}")
    values, vectors = np.linalg.eigh(matrix)
    lowest = np.maximum(values - N * EPS * values[-1], 0.0)
    tails = np.append(np.cumsum(lowest), 0.0)  # tails[k]: the k + 1 least
    by_rank = np.append(0.0, tails[:-1])[N - sizes]
    alone = np.zeros(N)
    if lowest[0] > 0.0:
        alone = np.sort(1.0 / (vectors**2 / lowest).sum(axis=1))
    by_one = np.append(0.0, np.cumsum(alone))[N - sizes]
    result = np.maximum(by_rank, by_one) * DOWN
    return result if result.ndim else float(result)


def subset_gap(K: ArrayLike, M: ArrayLike, *, noise: float, alpha: float = 1.0) -> Bound:
    """Lower bound on E_y D_α, y from the prior, of every subset of M data chosen without y (N-sub, N-lowprior).

    T/(2σ²) at α = 1; else (α/(2β)) log(1 + βT/σ²), β = 1 − α; T as in :func:`least_subset_trace`.  Also at least
    (α/(2β)) Σ_{i>M} log(1 + βλ_i/σ²), for any inducing variables (N-lowprior); the larger is returned.

    The proofs are those of N-sub and N-lowprior.

    Parameters
    ----------
    K : array (N, N)
    M : int or array of int
        1 ≤ M ≤ N.
    noise : float
        σ² > 0.
    alpha : float
        In (0, 1].

    >>> float(subset_gap(np.diag([3.0, 2.0, 1.0]), 1, noise=0.5)).__round__(6)
    3.0
    """
    from gpbounds.renyi.floors import minimum_gap

    variance = validation.scalar(validation.positive, "noise", noise)
    order = validation.scalar(validation.order, "alpha", alpha)
    beta = 1.0 - order
    trace = np.asarray(least_subset_trace(K, M))
    by_trace = 0.5 * order * scaled_log1p(trace / variance, beta)
    values = np.linalg.eigvalsh(np.asarray(K, dtype=np.float64))
    lowest = np.maximum(values - values.size * EPS * values[-1], 0.0)
    any_choice = minimum_gap(lowest, M, noise=variance, alpha=order, y="prior")
    value = np.maximum(by_trace, any_choice) * DOWN
    return Bound(
        value if value.ndim else float(value),
        "lower",
        1.0,
        "N-sub, N-lowprior",
        {"trace": trace if trace.ndim else float(trace)},
        (_SUBSET, "y is drawn from the prior; the bound is on the mean over y."),
        quantity=f"E_y D_{order:g}[q*||p]",
    )
