"""The Rényi evidence bound of every order, and the evidence itself."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.bound import Bound
from gpbounds.exact import exact
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Cholesky, Jitter, cholesky
from gpbounds.overflow import within_doubles
from gpbounds.renyi.residual import Nystrom, host_targets, nystrom, with_jitter_named
from gpbounds.row_noise import UnitNoise, noise_per_row
from gpbounds.validation import noise_variance

QUANTITY = "log p(y)"


def _log_normal(y: Float, chol: Cholesky) -> float:
    """log N(y; 0, L Lᵀ)."""
    return float(-0.5 * (y.size * np.log(2.0 * np.pi) + chol.logdet + (chol.solve_lower(y) ** 2).sum()))


@noise_per_row(UnitNoise.of_log_density)
@within_doubles
def log_evidence(kernel: Kernel, X: ArrayLike, y: ArrayLike, *, noise: Any) -> float:
    """log p(y) = log N(y; 0, K + σ²I), the evidence of the exact Gaussian process (R-gp).

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).

    Raises
    ------
    NotPositiveDefinite
        when K + σ²I does not factorise, because σ² is below the rounding error of K.

    >>> from gpbounds.kernels import SquaredExponential
    >>> round(log_evidence(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], noise=0.1), 4)
    -3.2002
    """
    as_kernel(kernel)
    points = as_host_points(X, "X").astype(np.float64, copy=False)
    targets, noise = host_targets(y, points.shape[0]), noise_variance(noise)
    return exact(kernel, points, targets[:, None], noise=noise).log_evidence


@noise_per_row(UnitNoise.of_elbo)
@within_doubles
def elbo(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, alpha: float, *, noise: Any, jitter: Jitter = "auto"
) -> Bound:
    """The Rényi bound of order α on the log evidence, at the best posterior of that order.

    L_α = log N(y; 0, Ξ) − (α/(2β)) log|I + (β/σ²)(K − Q)|, Ξ = σ²I + (1−α)K + αQ, β = 1 − α:

        L_α ≤ log p(y) for 0 ≤ α < 1 + σ²/λ_max(K − Q),        L_α ≥ log p(y) for α < 0.

    Claims R-elbo* (Yue & Kontar, Rényi divergence objective, Eq. 6), R-neg, N-range.  α = 0 is log p(y) itself
    (R-lim0), α = 1 the variational bound of Titsias (R-lim1).  L_α is non-increasing and concave in α (R-mono, N-conc);
    it equals log p(y) for every α when K = Q, for example when Z = X.  The value at α = −∞ assumes that K − Q is
    non-singular on the rows of X that are not in Z; where it is singular, the value exceeds the limit and is still an
    upper bound.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    Z : array (M, D)
        Inducing inputs.
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    alpha : float
        Order, from −inf to below 1 + σ²/λ_max(K − Q).
    jitter : float or "auto"
        Added to the diagonal of Kuu; the bound stays valid, and for α in (0, 1] jitter never makes it tighter.  Where
        it is not 0, an assumption of the bound names the amount.

    Returns
    -------
    Bound
        ``side`` is "lower" for α ≥ 0 and "upper" for α < 0; rounding is not bounded (`evidence` has ends with proof).

    Raises
    ------
    ValueError
        for α outside the range; the message names the range.
    NotPositiveDefinite
        when Kuu or Ξ does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> [round(float(elbo(SquaredExponential(), X, y, [0.0, 2.0], a, noise=0.1)), 4) for a in (-1.0, 0.0, 0.5, 1.0)]
    [-2.9174, -3.2002, -3.5277, -4.5099]
    """
    noise = noise_variance(noise)
    record = nystrom(kernel, X, Z, jitter)
    targets = host_targets(y, record.N)
    if isinstance(alpha, float | np.floating) and alpha == -np.inf:
        return _limit(record, targets, noise)
    order = record.order(alpha, noise=noise)
    fit, penalty = _log_normal(targets, record.xi(order, noise=noise)), record.log_det_term(order, noise=noise)
    return _bound(record, fit - penalty, order, {"log N(y; 0, Ξ)": fit, "log-determinant": -penalty})


def _bound(record: Nystrom, value: float, order: float, terms: dict[str, Any]) -> Bound:
    if not np.isfinite(value):
        raise ValueError(f"noise, y: expected numbers whose log N(y; 0, Ξ) is a double, got {value}: use other units")
    claim = "R-neg" if order < 0.0 else "R-elbo*" if order <= 1.0 else "N-range"
    assumptions = ("The kernel, the inducing points and the noise variance are those of the evidence that is bounded.",)
    side: Literal["lower", "upper"] = "upper" if order < 0.0 else "lower"
    stated = with_jitter_named(record.jitter, assumptions)
    return Bound(value, side, 1.0, claim, terms, stated, quantity=QUANTITY)


def _limit(record: Nystrom, y: Float, noise: float) -> Bound:
    """The limit α → −∞: log N(y_Z; 0, K_ZZ + σ²I) on the rows of Z, −½ log(2πσ²) for each other row."""
    known = record.known
    rest = -0.5 * int((~known).sum()) * np.log(2.0 * np.pi * noise)
    fit = 0.0
    if known.any():
        fit = _log_normal(y[known], cholesky(record.K[np.ix_(known, known)] + noise * np.eye(int(known.sum()))))
    return _bound(record, float(fit + rest), -np.inf, {"log N(y_Z; 0, K_ZZ + σ²I)": fit, "rest": float(rest)})
