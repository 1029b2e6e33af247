"""The predictive law and the posterior of U under the best Rényi approximation q*."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, as_number, kind_of_caller
from gpbounds.bound import Bound
from gpbounds.kernels import Kernel
from gpbounds.linalg import Cholesky, Jitter, cholesky
from gpbounds.overflow import within_doubles
from gpbounds.renyi.residual import Nystrom, host_targets, nystrom
from gpbounds.row_noise import noise_per_row, unchanged
from gpbounds.small_variances import Given
from gpbounds.validation import count, finite, flag, noise_variance, non_negative, open_unit, scalar


def _whitened_posterior(record: Nystrom, y: Float, noise: float, alpha: float) -> tuple[Float, Cholesky]:
    """Mean and precision (factorised) of L⁻¹U under q*: I + V D⁻¹Vᵀ, D = σ²I + βΔ, in the eigenbasis of Δ."""
    weights = 1.0 / (noise + (1.0 - alpha) * record.eigenvalues)
    rows = record.rotated(record.V)
    precision = cholesky(np.eye(record.M) + (rows * weights) @ rows.T, name="I + V(σ²I + βΔ)⁻¹Vᵀ")
    return precision.solve(rows @ (weights * record.rotated(y[None, :])[0])), precision


@kind_of_caller
@noise_per_row(unchanged)
@within_doubles
def inducing_posterior(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, alpha: float, *, noise: Any, jitter: Jitter = "auto"
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
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
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
    mean, precision = _whitened_posterior(record, host_targets(y, record.N), noise, order)
    L = record.chol.L
    half = precision.solve_lower(L.T)
    return L @ mean, half.T @ half


@kind_of_caller
@noise_per_row(unchanged)
@within_doubles
def predict(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    X_new: ArrayLike,
    alpha: float,
    *,
    noise: Any,
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
    flag("full_cov", full_cov)
    flag("noisy", noisy)
    record = nystrom(kernel, X, Z, jitter)
    order = record.order(alpha, noise=noise)
    targets = host_targets(y, record.N)
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


# Oracle inequalities between the evidence bound and the Rényi risk (the corrected Theorem 5).
#
# They involve log p_θ*(y) of the unknown truth: use them for the difference of two θ, or in simulations.  They do not
# certify a model.

TRUTH = "y is drawn from p_θ*, whose log density at y is log_true; it is unknown in practice."
_LOWER = "Each log_model is a lower bound on log p_θ(y), for instance a Rényi bound of any order in [0, 1]."


def oracle_risk_bound(
    log_true: ArrayLike, log_model: ArrayLike, N: int, alpha: ArrayLike, *, delta: ArrayLike
) -> Bound:
    """Upper bound on the Rényi risk per datum of one θ that is fixed before y is seen.

    With probability ≥ 1 − δ over y ~ p_θ*:
    N⁻¹ D_α[p_θ‖p_θ*] ≤ α/(N(1−α)) · (log p_θ*(y) − ℒ(θ; y)) + log(1/δ)/(N(1−α)), for any ℒ(θ; y) ≤ log p_θ(y).

    Claims N-risk and R-thm5 (Yue & Kontar, Rényi Gaussian process, Theorem 5, ill-defined as printed), 0 < α < 1.  An
    oracle inequality, not a certificate: log p_θ*(y) is not known.  If ℒ = log p_θ(y), Markov's inequality is the only
    step that is not an equality.

    Parameters
    ----------
    log_true, log_model : float or array
        log p_θ*(y) and ℒ(θ; y), in nats.
    N : int
        Number of data in y.
    alpha, delta : float or array in (0, 1)

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> round(float(oracle_risk_bound(-10.0, -12.0, 20, 0.5, delta=0.1)), 4)
    0.3303
    """
    a, d, n = open_unit("alpha", alpha), open_unit("delta", delta), count("N", N)
    fit = a * (finite("log_true", log_true) - finite("log_model", log_model)) / (n * (1.0 - a))
    confidence = -np.log(d) / (n * (1.0 - a))
    fixed = "θ is fixed before y is seen."
    return Bound(
        as_number(fit + confidence),
        "upper",
        as_number(1.0 - d),
        "N-risk",
        {"fit": as_number(fit), "confidence": as_number(confidence)},
        (TRUTH, _LOWER, fixed),
        quantity="D_α[p_θ‖p_θ*]/N",
    )


def pac_risk_bound(
    log_true: float,
    log_models: ArrayLike,
    N: int,
    alpha: float,
    *,
    delta: float,
    prior: ArrayLike | None = None,
    posterior: ArrayLike | None = None,
) -> Bound:
    """Upper bound on the mean Rényi risk per datum under weights ρ over finitely many θ, ρ chosen after seeing y.

    With probability ≥ 1 − δ over y ~ p_θ*, for all ρ at once:
    Σ_θ ρ_θ N⁻¹D_α[p_θ‖p_θ*] ≤ α/(N(1−α)) Σ_θ ρ_θ (log p_θ*(y) − ℒ(θ; y)) + [KL(ρ‖π) + log(1/δ)]/(N(1−α)).

    Claims N-risk and R-thm5, 0 < α < 1.  An oracle inequality, not a certificate.  By default ρ is the best one,
    ρ ∝ π exp(αℒ).

    Parameters
    ----------
    log_true : float
        log p_θ*(y), in nats.
    log_models : array (P,)
        ℒ(θ; y) ≤ log p_θ(y), one for each θ.
    N : int
        Number of data in y.
    alpha, delta : float in (0, 1)
    prior : array (P,), optional
        Weights π, fixed before y is seen, summing to 1; uniform by default.
    posterior : array (P,), optional
        Weights ρ, summing to 1, zero where π is.

    Raises
    ------
    ValueError
        for wrong arguments, or ρ not absolutely continuous with respect to π.

    >>> round(float(pac_risk_bound(-10.0, [-12.0, -11.0], 20, 0.5, delta=0.1)), 4)
    0.3022
    """
    a, d, n = scalar(open_unit, "alpha", alpha), scalar(open_unit, "delta", delta), count("N", N)
    models, truth = finite("log_models", log_models), scalar(finite, "log_true", log_true)
    if models.ndim != 1 or models.size == 0:
        raise ValueError(f"log_models: expected shape (P,), one number for each θ, got {models.shape}")
    pi = np.full(models.size, 1.0 / models.size) if prior is None else _weights("prior", prior, models.size)
    rho = _gibbs(pi, a * models) if posterior is None else _weights("posterior", posterior, models.size)
    if ((rho > 0.0) & (pi == 0.0)).any():
        raise ValueError("posterior: expected weight 0 wherever the prior has weight 0")
    support = rho > 0.0
    divergence = float((rho[support] * np.log(rho[support] / pi[support])).sum())
    scale = n * (1.0 - a)
    terms = {
        "fit": a * float(rho @ (truth - models)) / scale,
        "KL(ρ‖π)": divergence / scale,
        "confidence": -np.log(d) / scale,
    }
    weights = "The prior weights are fixed before y is seen; the posterior weights may depend on y."
    value = float(sum(terms.values()))
    return Bound(value, "upper", 1.0 - d, "N-risk", terms, (TRUTH, _LOWER, weights), quantity="Σ ρ_θ D_α[p_θ‖p_θ*]/N")


def _gibbs(pi: Float, gain: Float) -> Float:
    weights = pi * np.exp(gain - gain[pi > 0.0].max(), where=pi > 0.0, out=np.zeros_like(gain))
    return weights / weights.sum()


def _weights(name: str, values: ArrayLike, size: int) -> Float:
    weights = non_negative(name, values)
    if weights.shape != (size,) or abs(weights.sum() - 1.0) > 1e-9:
        raise ValueError(
            f"{name}: expected {size} weights that sum to 1, got shape {weights.shape} and sum {weights.sum():.6g}"
        )
    return weights
