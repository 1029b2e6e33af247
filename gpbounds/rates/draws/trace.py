"""The distribution of Tr(K − Q) over k-DPP draws: quantiles, variance, determinants."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import EPS
from gpbounds.bound import Bound
from gpbounds.kdpp.expectations import expected_trace, log_expected_determinant
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.rates.draws.sentences import DRAWN
from gpbounds.statements import UP, upper_bound


def trace_quantile(residual: ExpectedResidual, *, level: float) -> Bound:
    """T = Tr(K − Q) of one k-DPP draw exceeds this with probability at most ``level`` (N-order).

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
    """L_det = (α/(2β)) log|I + (β/σ²)(K − Q)| of one k-DPP draw passes this with probability <= ``level`` (N-ldet).

    (α/(2β)) [log E|I + (β/σ²)(K − Q)| + log(1/level)], β = 1 − α, with the exact mean of R-lem3: Markov's inequality
    for the determinant.

    Parameters
    ----------
    eigenvalues : array (N,)
        Of K.
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
