"""The predictive law and the posterior of U under the best Rényi approximation q*."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points
from gpbounds.kernels import Kernel
from gpbounds.linalg import Cholesky, Jitter, cholesky
from gpbounds.renyi.residual import Nystrom, as_targets, nystrom
from gpbounds.small_variances import Given
from gpbounds.validation import noise_variance


def _whitened_posterior(record: Nystrom, y: Float, noise: float, alpha: float) -> tuple[Float, Cholesky]:
    """Mean and precision (factorised) of L⁻¹U under q*: I + V D⁻¹Vᵀ, D = σ²I + βΔ, in the eigenbasis of Δ."""
    weights = 1.0 / (noise + (1.0 - alpha) * record.eigenvalues)
    rows = record.rotated(record.V)
    precision = cholesky(np.eye(record.M) + (rows * weights) @ rows.T, name="I + V(σ²I + βΔ)⁻¹Vᵀ")
    return precision.solve(rows @ (weights * record.rotated(y[None, :])[0])), precision


def inducing_posterior(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, alpha: float, *, noise: float, jitter: Jitter = "auto"
) -> tuple[Float, Float]:
    """Mean (M,) and covariance (M, M) of the inducing variables under the best approximation of order α.

    q*(U) = N(Kuf Ξ⁻¹y, Kuu − Kuf Ξ⁻¹Kfu), Ξ = σ²I + (1−α)K + αQ.

    Claims R-qstar and R-pred-U (Yue & Kontar, Rényi divergence objective, Eq. 5 and App. E, where f is misprinted as
    f*), α < 1 + σ²/λ_max(K − Q).  The covariance never increases with α: q* gets more concentrated as α → 1
    (R-spread). α = 0 gives the exact posterior of U, α = 1 that of Titsias.  With jitter, U is observed with noise of
    that variance.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    Z : array (M, D)
    noise : float
        σ², in squared units of y.
    alpha : float
    jitter : float or "auto"
        Added to the diagonal of Kuu; "auto" as in `nystrom`.

    Raises
    ------
    ValueError
        for wrong arguments or α outside the range.
    NotPositiveDefinite
        when Kuu does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> mean, cov = inducing_posterior(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0], 0.5, noise=0.1)
    >>> mean.round(4), cov.round(4)
    (array([0.9314]), array([[0.0831]]))
    """
    noise = noise_variance(noise)
    record = nystrom(kernel, X, Z, jitter)
    order = record.order(alpha, noise=noise)
    mean, precision = _whitened_posterior(record, as_targets(y, record.N), noise, order)
    L = record.chol.L
    half = precision.solve_lower(L.T)
    return L @ mean, half.T @ half


def predict(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    X_new: ArrayLike,
    alpha: float,
    *,
    noise: float,
    jitter: Jitter = "auto",
    full_cov: bool = False,
    noisy: bool = False,
) -> tuple[Float, Float]:
    """Mean and variance (or covariance) of f at new inputs under the best approximation of order α.

    f* ~ N(Q_*f Ξ⁻¹y, K_** − Q_*f Ξ⁻¹Q_f*), Q_*f = K_*u Kuu⁻¹Kuf; with ``noisy`` the law of y*, whose covariance has σ²I
    added.

    Claim R-pred-A (Yue & Kontar, Rényi divergence objective, Eq. 7, whose A is misprinted: its variance can be −3.5),
    α < 1 + σ²/λ_max(K − Q).  The variance is a sum of non-negative terms; where k(x, x) − q(x, x)
    is lost in its rounding, its upper end is returned with a `RoundingWarning` (N-small).  α = 1 is the law of
    Titsias and of DTC; α = 0 is the exact GP only where Z contains the inputs.

    Parameters
    ----------
    kernel, X, y, Z, noise, alpha, jitter : as in `inducing_posterior`
    X_new : array (N*, D)
    full_cov : bool
        True for the (N*, N*) covariance instead of the variances (N*,).
    noisy : bool
        True for the law of new targets y* instead of f*.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as in `inducing_posterior`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> mean, variance = predict(SquaredExponential(), [2.0], [1.0], [0.0], [0.0], 0.9, noise=0.1, noisy=True)
    >>> mean.round(4), variance.round(4)
    (array([0.6252]), array([1.0154]))
    """
    noise = noise_variance(noise)
    record = nystrom(kernel, X, Z, jitter)
    order = record.order(alpha, noise=noise)
    targets = as_targets(y, record.N)
    new = as_host_points(X_new, "X_new", record.X.shape[1])
    mean, precision = _whitened_posterior(record, targets, noise, order)
    V = record.chol.solve_lower(kernel(record.Z, new))
    half = precision.solve_lower(V)
    added = noise if noisy else 0.0
    given = Given(kernel, record.Z, record.chol.jitter, record.chol)
    if full_cov:
        within = half.T @ half + added * np.eye(new.shape[0])
        return V.T @ mean, given.residual_covariance(new, V, within) + within
    within = added + (half**2).sum(axis=0)
    return V.T @ mean, given.residual(new, V, within) + within
