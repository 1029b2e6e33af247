"""L_α, L_Jensen and L_VI of any posterior q(U) = N(mean, covariance), not only of the best one.

With u = Lv, q(v) = N(w, CCᵀ), p(v) = N(0, I), e = y − Vᵀw and D = σ²I + βΔ, the integrand p_α(y|U) p(U)^β/q(U)^β is
exp(βg) for a quadratic g.  In z = C⁻¹(v − w), which is N(0, I) under q,

    g = g₀ + bᵀz − ½zᵀAz,      A = CᵀVD⁻¹VᵀC + CᵀC − I,      b = CᵀVD⁻¹e − Cᵀw,

    L_Jensen = E_q g = g₀ − ½Tr A,

    L_α = β⁻¹ log E_q exp(βg) = L_Jensen + ½β bᵀ(I + βA)⁻¹b + ½Σ[a − log(1 + βa)/β],

where a runs through the eigenvalues of A.  No difference of large numbers remains as β → 0.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points, as_reals, is_cupy, namespace, require_finite_rows
from gpbounds.bound import Bound
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw
from gpbounds.linalg import Cholesky, Jitter, cholesky
from gpbounds.linalg.products import gram
from gpbounds.linalg.psd import symmetric_matrix
from gpbounds.numerics.scalars import log1p_residual, scaled_log1p
from gpbounds.overflow import within_doubles
from gpbounds.renyi.objective import QUANTITY
from gpbounds.renyi.residual import Nystrom, host_targets, nystrom, with_jitter_named
from gpbounds.row_noise import UnitNoise, noise_per_row
from gpbounds.validation import closed_unit, noise_variance, scalar
from gpbounds.whitening import Inducing, as_targets, inducing, residual_diagonal, with_jitter

ASSUMPTIONS = ("The kernel, the inducing points and the noise variance are those of the evidence that is bounded.",)


@noise_per_row(UnitNoise.of_elbo)
@within_doubles
def renyi_bound(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    mean: ArrayLike,
    covariance: ArrayLike,
    alpha: float,
    *,
    noise: Any,
    jitter: Jitter = "auto",
) -> Bound:
    """The Rényi bound L_α(q) on the log evidence at any posterior q(U) = N(mean, covariance) of the inducing variables.

    L_α(q) = β⁻¹ log ∫ p_α(y|U) q(U)^α p(U)^β dU,  p_α(y|U) = ∫ p(f|U) p(y|f)^β df,  β = 1 − α  (R-elbo, R-pa):

        L_VI(q) ≤ L_Jensen(q) ≤ L_α(q) ≤ log p(y)  for 0 ≤ α < 1,        L_α(q) ≥ log p(y)  for α < 0.

    For 1 < α < 1 + σ²/λ_max(K − Q), too, L_α(q) ≤ log p(y).  Claims R-order and R-neg (Yue & Kontar, Rényi divergence
    objective, Eq. 4, §5, App. B).  L_0(q) = log p(y) for every q (R-lim0), L_1(q) = L_VI(q); it does not increase in α
    at fixed q.  `elbo` is its value at the best q of the order, `inducing_posterior` (R-qstar).  Where the integral
    diverges, which happens for α < 0 and α > 1 only, the value is +∞ or −∞, a vacuous bound.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    Z : array (M, D)
        Inducing inputs.
    mean : array (M,)
        Mean of U under q, in units of y.
    covariance : array (M, M)
        Covariance of U under q, positive definite, in squared units of y.
    alpha : float
        Order below 1 + σ²/λ_max(K − Q).
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
    jitter : float or "auto"
        Added to the diagonal of Kuu: U is then observed with noise of that variance, and an assumption names it.

    Returns
    -------
    Bound
        ``side`` is "lower" for α ≥ 0 and "upper" for α < 0.  ``terms`` hold L_Jensen(q) and the two further parts,
        which are ≥ 0 for α in [0, 1].

    Raises
    ------
    ValueError
        for wrong shapes, or α outside the range; the message names the range.
    NotPositiveDefinite
        when Kuu or ``covariance`` does not factorise.

    Proof.  By the definition, D_α[q(f, U)‖p(f, U|y)] = log p(y) − L_α(q) (R-id), and D_α is ≥ 0 for α ≥ 0 and ≤ 0 for
    α < 0.  It does not decrease in α (R-def).  The closed form is a Gaussian integral in z.  L_α(q) ≥ L_Jensen(q),
    because bᵀ(I + βA)⁻¹b ≥ 0 and log(1 + t) ≤ t, for β ≥ 0.

    >>> from gpbounds.kernels import SquaredExponential
    >>> data = SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 2.0]
    >>> q = [0.9, -0.4], [[0.1, 0.0], [0.0, 0.1]]
    >>> [round(float(renyi_bound(*data, *q, a, noise=0.1)), 4) for a in (0.0, 0.5, 1.0)]
    [-3.2002, -3.5419, -4.6581]
    """
    noise = noise_variance(noise)
    record, law = _dense(kernel, X, Z, mean, covariance, jitter)
    order, targets = record.order(alpha, noise=noise), host_targets(y, record.N)
    value, slope, curvature = _jensen(record, law, targets, noise, order)
    beta, (shifted, vectors) = 1.0 - order, np.linalg.eigh(curvature)
    turned, spread = vectors.T @ slope, order + beta * shifted  # eigenvalues of I + βA
    side: Literal["lower", "upper"] = "upper" if order < 0.0 else "lower"
    claim = "R-neg" if order < 0.0 else "R-order" if order <= 1.0 else "N-range"
    if not spread.min() > 0.0:
        diverged = np.inf if side == "upper" else -np.inf
        return _bound(diverged, side, claim, {"L_Jensen(q)": value}, record.jitter)
    shift = 0.5 * beta * float((turned**2 / spread).sum())
    volume = 0.5 * float(_residual(beta * (shifted - 1.0), spread).sum()) / beta if beta else 0.0
    terms = {"L_Jensen(q)": value, "quadratic": shift, "volume": volume}
    return _bound(value + shift + volume, side, claim, terms, record.jitter)


@noise_per_row(UnitNoise.of_elbo)
@within_doubles
def jensen_bound(
    kernel: Kernel,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    mean: ArrayLike,
    covariance: ArrayLike,
    alpha: float,
    *,
    noise: Any,
    jitter: Jitter = "auto",
) -> Bound:
    """L_Jensen(q) = β⁻¹ E_q log p_α(y|U) − KL[q(U)‖p(U)] ≤ log p(y), between `variational_bound` and `renyi_bound`.

        β⁻¹ E_q log p_α = −(N/2) log(2πσ²) − (1/(2β)) log|I + βΔ/σ²| − ½ E_q (y − PU)ᵀ(σ²I + βΔ)⁻¹(y − PU),

    P = Kfu Kuu⁻¹.  Claims R-order and R-LJ (Yue & Kontar, Rényi divergence objective, §5, App. B): at fixed q it is
    non-increasing in α, and L_VI(q) is its limit at α = 1.

    Parameters
    ----------
    kernel, X, y, Z, mean, covariance, noise, jitter : as in `renyi_bound`
    alpha : float
        Order in [0, 1].

    Raises
    ------
    ValueError, NotPositiveDefinite
        as in `renyi_bound`.

    Proof.  L_Jensen(q) ≤ L_α(q) is Jensen's inequality.  β⁻¹ log p_α(y|U) is the logarithm of the L^β norm of p(y|·)
    under p(f|U), which does not decrease in β (Lyapunov); its limit at β = 0 is E[log p(y|f)|U].

    >>> from gpbounds.kernels import SquaredExponential
    >>> data = SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 2.0]
    >>> q = [0.9, -0.4], [[0.1, 0.0], [0.0, 0.1]]
    >>> [round(float(jensen_bound(*data, *q, a, noise=0.1)), 4) for a in (0.0, 0.5, 1.0)]
    [-3.2192, -3.5586, -4.6581]
    """
    noise, order = noise_variance(noise), scalar(closed_unit, "alpha", alpha)
    record, law = _dense(kernel, X, Z, mean, covariance, jitter)
    value, _, _ = _jensen(record, law, host_targets(y, record.N), noise, order)
    return _bound(value, "lower", "R-order", {"-KL[q(U)||p(U)]": -law.kl}, record.jitter)


@noise_per_row(UnitNoise.of_elbo)
@within_doubles
def variational_bound(
    kernel: Kernel,
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    Z: ArrayLike | Array,
    mean: ArrayLike | Array,
    covariance: ArrayLike | Array,
    *,
    noise: Any,
    jitter: Jitter = "auto",
) -> Bound:
    """L_VI(q) = E_q log p(y|f) − KL[q(U)‖p(U)] ≤ log p(y): the evidence lower bound at any q(U) = N(mean, covariance).

        E_q log p(y|f) = −(N/2) log(2πσ²) − (1/(2σ²)) Σ_i [(y_i − m_i)² + s_i],

    with m_i and s_i the mean and the variance of f(x_i) under p(f|U)q(U).  Claim R-order (Yue & Kontar, Rényi
    divergence objective, §5): L_VI(q) ≤ L_Jensen(q) ≤ L_α(q).  Its maximum over q is `elbo` with alpha=1.  Streamed
    over rows in O(NM²) time, on NumPy or CuPy arrays; parameters and errors as in `renyi_bound`.

    Proof.  log p(y) − L_VI(q) = KL[q(f, U)‖p(f, U|y)] ≥ 0.

    >>> from gpbounds.kernels import SquaredExponential
    >>> data = SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], [0.0, 2.0]
    >>> round(float(variational_bound(*data, [0.9, -0.4], [[0.1, 0.0], [0.0, 0.1]], noise=0.1)), 4)
    -4.6581
    """
    noise = noise_variance(noise)
    points = as_points(X, "X")
    centres = as_points(Z, "Z", points.shape[1])
    targets = as_targets(y, points)
    if targets.ndim != 1:
        raise ValueError(f"y: expected shape ({points.shape[0]},), one target for each row of X, got {targets.shape}")

    average, root = _moments(mean, covariance, centres)

    def attempt(amount: float) -> tuple[float, FactorLaw, float]:
        whitener = inducing(kernel, centres, amount)
        law = _whitened(whitener.chol, average, root)
        parts = [_misfit(whitener, law, points[rows], targets[rows], V) for rows, V in whitener.chunks(points)]
        return float(sum(parts)), law, amount

    misfit, law, used = with_jitter(attempt, kernel, centres, jitter)
    fit = -0.5 * (points.shape[0] * float(np.log(2.0 * np.pi * noise)) + misfit / noise)
    terms = {"E_q log p(y|f)": fit, "-KL[q(U)||p(U)]": -law.kl}
    return _bound(fit - law.kl, "lower", "R-order", terms, used)


def _misfit(whitener: Inducing, law: FactorLaw, X: Array, y: Array, V: Array) -> float:
    """Σ_i [(y_i − m_i)² + s_i] of some rows."""
    means, variances = law.moments(V, residual_diagonal(whitener.kernel.diag(X), V))
    return float(((y - means[:, 0]) ** 2 + variances).sum())


def _moments(mean: ArrayLike | Array, covariance: ArrayLike | Array, Z: Array) -> tuple[Array, Array]:
    """The mean (M,) of U, and the Cholesky factor of its covariance, checked; on the device of Z (M, D)."""
    xp, M = namespace(Z, mean if is_cupy(mean) else Z, covariance if is_cupy(covariance) else Z), int(Z.shape[0])
    average = as_reals(xp, "mean", mean)
    if average.shape != (M,):
        raise ValueError(f"mean: expected shape ({M},), one number for each row of Z, got {average.shape}")
    require_finite_rows("mean", average)
    return average, cholesky(symmetric_matrix("covariance", covariance, M), name="covariance").L


def _whitened(chol: Cholesky, mean: Array, root: Array) -> FactorLaw:
    """q(v) = N(L⁻¹mean, CCᵀ), C = L⁻¹root: a product of lower triangles."""
    C = namespace(root).tril(chol.solve_lower(root))
    return FactorLaw(chol.solve_lower(mean)[:, None], C)


def _dense(
    kernel: Kernel, X: ArrayLike, Z: ArrayLike, mean: ArrayLike, covariance: ArrayLike, jitter: Jitter
) -> tuple[Nystrom, FactorLaw]:
    record = nystrom(kernel, X, Z, jitter)
    return record, _whitened(record.chol, *_moments(mean, covariance, record.Z))


def _jensen(record: Nystrom, law: FactorLaw, y: Float, noise: float, alpha: float) -> tuple[float, Float, Float]:
    """L_Jensen, and b and A + I of the quadratic g; computed in the eigenbasis of Δ, where D is diagonal."""
    beta = 1.0 - alpha
    weights = 1.0 / (noise + beta * record.eigenvalues)
    rows = record.rotated(record.V)
    misfit = record.rotated(y[None, :])[0] - law.mean[:, 0] @ rows
    half = law.factor.T @ rows
    seen = (half * weights) @ half.T
    normaliser = record.N * float(np.log(2.0 * np.pi * noise))
    normaliser += float(scaled_log1p(record.eigenvalues / noise, beta).sum())
    value = -0.5 * (normaliser + float((weights * misfit**2).sum()) + float(seen.trace())) - law.kl
    slope = half @ (weights * misfit) - law.factor.T @ law.mean[:, 0]
    return value, slope, seen + gram(law.factor)


def _residual(x: Float, above: Float) -> Float:
    """x − log(1 + x) for x > −1; ``above`` = 1 + x, which is accurate near 0."""
    return np.where(x > -0.5, log1p_residual(np.maximum(x, -0.5)), x - np.log(above))


def _bound(value: float, side: Literal["lower", "upper"], claim: str, terms: dict[str, float], jitter: float) -> Bound:
    return Bound(value, side, 1.0, claim, terms, with_jitter_named(jitter, ASSUMPTIONS), quantity=QUANTITY)
