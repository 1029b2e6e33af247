"""The Rényi objective, its gap and its gradient in mpmath, and the functions F, G, F̂, ψ, g_n that bound the gap.

The prior of (f, U) enters as its blocks Kff (N × N), Kuf (M × N), Kuu (M × M); y is N × 1; noise = σ²; β = 1 − α.
All are mpmath matrices and numbers; :func:`matrix` converts a NumPy array exactly.  A = I + (β/σ²)(K − Q) is the
matrix of ledger R, section B: its determinant and inverse through Ξ, and the gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import diag, eigsy, eye, log, mp, mpf, pi, sqrt

from gpbounds.reference import linalg
from gpbounds.reference.divergences import gaussian_kl, gaussian_renyi
from gpbounds.reference.linalg import is_positive_definite, log_det, solve, trace


def scaled_log(x: Any, beta: Any) -> Any:
    """log(1 + βx)/β, x at β = 0."""
    return mp.log(1 + beta * x) / beta if beta else mp.mpf(x)


def G(x: Any, alpha: Any) -> Any:
    """½[log(1+βx)/β - log(1+x)]."""
    return (scaled_log(x, 1 - alpha) - mp.log(1 + x)) / 2


def F(x: Any, alpha: Any) -> Any:
    """½[log(1+βx)/β + αx/(1+βx) - log(1+x)]."""
    beta = 1 - alpha
    return (scaled_log(x, beta) + alpha * x / (1 + beta * x) - mp.log(1 + x)) / 2


def tangency(alpha: Any) -> Any:
    """x0 > 0 with F'(x0) x0 = F(x0), for ½ < α < 1, by bisection in log x."""
    beta = 1 - alpha

    def turned(x: Any) -> bool:
        slope = (1 / (1 + beta * x) + alpha / (1 + beta * x) ** 2 - 1 / (1 + x)) / 2
        return bool(slope * x < F(x, alpha))

    low, high = mp.mpf(-60), mp.mpf(2) - 2 * mp.log(beta)
    for _ in range(mp.prec + 10):
        middle = (low + high) / 2
        if turned(mp.exp(middle)):
            high = middle
        else:
            low = middle
    return mp.exp(high)


def F_hat(x: Any, alpha: Any) -> Any:
    """Concave envelope of F."""
    if alpha <= mp.mpf(1) / 2:
        return F(x, alpha)
    if alpha == 1:
        return mp.mpf(x)
    x0 = tangency(alpha)
    return x / x0 * F(x0, alpha) if x < x0 else F(x, alpha)


def psi(x: Any, alpha: Any) -> Any:
    """αx/((1+βx)(1+x)) up to 1/√β, (1-√β)/(1+√β) beyond."""
    root = mp.sqrt(1 - alpha)
    if x * root >= 1:
        return (1 - root) / (1 + root)
    return alpha * x / ((1 + (1 - alpha) * x) * (1 + x))


def trace_term(T: Any, n: Any, noise: Any, alpha: Any) -> Any:
    """g_n(T) = (αn/(2β)) log(1 + βT/(nσ²))."""
    alpha, noise = mpf(alpha), mpf(noise)
    return alpha * n / 2 * scaled_log(mpf(T) / (n * noise), 1 - alpha)


def trace_floor(t: Any, n: int, alpha: Any) -> Any:
    """nǦ(t/n), Ǧ the steepest line that touches G at some u <= t/n where G is convex and is below it at t (N-floor)."""
    t, beta = mp.mpf(t), 1 - alpha
    if t == 0 or n == 0:
        return mp.mpf(0)

    def line(u: Any, x: Any) -> Any:
        return G(u, alpha) + alpha * u / (2 * (1 + beta * u) * (1 + u)) * (x - u)

    low, high = mp.mpf(0), t / n if beta == 0 else min(t / n, 1 / mp.sqrt(beta))
    if line(high, t) <= G(t, alpha):
        return n * line(high, t / n)
    for _ in range(mp.prec + 10):
        middle = (low + high) / 2
        low, high = (middle, high) if line(middle, t) <= G(t, alpha) else (low, middle)
    return n * line(low, t / n)


def matrix(array: Any) -> Any:
    """An mpmath matrix with exactly the entries of ``array``; a vector becomes a column."""
    array = np.asarray(array)
    return mp.matrix(array.tolist() if array.ndim == 2 else array[:, None].tolist())


def blocks(kernel: Any, X: Any, Z: Any, jitter: float = 0.0) -> tuple[Any, Any, Any]:
    """Kff, Kuf, Kuu with exactly the float64 entries."""
    return matrix(kernel(X)), matrix(kernel(Z, X)), matrix(kernel(Z)) + jitter * eye(np.asarray(Z).shape[0])


def nystrom(Kuf: Any, Kuu: Any) -> Any:
    """Q = Kfu Kuu⁻¹ Kuf."""
    return Kuf.T * solve(Kuu, Kuf)


def xi(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """Ξ = σ²I + (1−α)K + αQ."""
    return noise * eye(Kff.rows) + (1 - alpha) * Kff + alpha * nystrom(Kuf, Kuu)


def log_normal(y: Any, cov: Any) -> Any:
    """log N(y; 0, cov)."""
    return -(y.rows * log(2 * pi) + log_det(cov) + (y.T * solve(cov, y))[0]) / 2


def log_evidence(Kff: Any, y: Any, noise: Any) -> Any:
    """log p(y) = log N(y; 0, K + σ²I)."""
    return log_normal(y, Kff + noise * eye(y.rows))


def log_det_term(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """L_det = (α/(2β)) log|I + (β/σ²)(K − Q)|, Tr(K − Q)/(2σ²) at α = 1."""
    residual = Kff - nystrom(Kuf, Kuu)
    beta = 1 - mpf(alpha)
    if beta == 0:
        return trace(residual) / (2 * noise)
    return alpha / (2 * beta) * log_det(eye(Kff.rows) + beta / noise * residual)


def elbo(Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> Any:
    """L_α = log N(y; 0, Ξ) − L_det (R-elbo*)."""
    return log_normal(y, xi(Kff, Kuf, Kuu, noise, alpha)) - log_det_term(Kff, Kuf, Kuu, noise, alpha)


def elbo_slope(Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any) -> Any:
    """S₁ = −dL_α/dα at α = 1 (R-lim1)."""
    residual = Kff - nystrom(Kuf, Kuu)
    B_inv = linalg.inverse(noise * eye(Kff.rows) + Kff - residual)
    quadratic = (y.T * B_inv * residual * B_inv * y)[0]
    ratio = residual / noise
    return (quadratic - trace(B_inv * residual) + trace(ratio) + trace(ratio * ratio) / 2) / 2


def elbo_of(mean: Any, cov: Any, Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> Any:
    """L_α(q) = β⁻¹ log ∫ p_α(y|U) q(U)^α p(U)^β dU for any q(U) = N(mean, cov), α < 1 (R-elbo, R-pa).

    Returns None where the integral diverges.
    """
    beta, N, M = 1 - mpf(alpha), Kff.rows, Kuu.rows
    P = solve(Kuu, Kuf).T
    R = noise / beta * eye(N) + Kff - nystrom(Kuf, Kuu)  # p_α(y|U) = const · N(y; PU, R)
    const = alpha * N / 2 * log(2 * pi * noise) - mpf(N) / 2 * log(beta)
    const += -(N * log(2 * pi) + log_det(R) + (y.T * solve(R, y))[0]) / 2
    const += -alpha / 2 * (M * log(2 * pi) + log_det(cov) + (mean.T * solve(cov, mean))[0])
    const += -beta / 2 * (M * log(2 * pi) + log_det(Kuu))
    H = P.T * solve(R, P) + alpha * linalg.inverse(cov) + beta * linalg.inverse(Kuu)
    h = P.T * solve(R, y) + alpha * solve(cov, mean)
    if not is_positive_definite(H):
        return None
    return (const + (M * log(2 * pi) - log_det(H) + (h.T * solve(H, h))[0]) / 2) / beta


def jensen_of(mean: Any, cov: Any, Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> Any:
    """L_Jensen(q) = β⁻¹ E_q log p_α(y|U) − KL[q(U)‖p(U)] for q(U) = N(mean, cov), α < 1 (R-order)."""
    return fit_of(mean, cov, Kff, Kuf, Kuu, y, noise, alpha) - gaussian_kl(mean, cov, 0 * mean, Kuu)


def fit_of(mean: Any, cov: Any, Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> Any:
    """β⁻¹ E_q log p_α(y|U) with p_α(y|U) = (2πσ²)^(αN/2) β^(−N/2) N(y; PU, σ²I/β + Δ); E_q log p(y|f) at α = 1."""
    P, residual, beta, N = solve(Kuu, Kuf).T, Kff - nystrom(Kuf, Kuu), 1 - mpf(alpha), Kff.rows
    shift = y - P * mean
    if beta == 0:
        square = (shift.T * shift)[0] + trace(residual) + trace(P * cov * P.T)
        return -(N * log(2 * pi * noise) + square / noise) / 2
    R = noise / beta * eye(N) + residual
    const = alpha * N / 2 * log(2 * pi * noise) - mpf(N) / 2 * log(beta)
    return (const + log_normal(shift, R) - trace(P.T * solve(R, P) * cov) / 2) / beta


def variational_of(mean: Any, cov: Any, Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any) -> Any:
    """L_VI(q) = E_q log p(y|f) − KL[q(U)‖p(U)] (R-order)."""
    return fit_of(mean, cov, Kff, Kuf, Kuu, y, noise, mpf(1)) - gaussian_kl(mean, cov, 0 * mean, Kuu)


def inducing_posterior(Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> tuple[Any, Any]:
    """q*(U) = N(Kuf Ξ⁻¹ y, Kuu − Kuf Ξ⁻¹ Kfu) (R-qstar)."""
    inverse = linalg.inverse(xi(Kff, Kuf, Kuu, noise, alpha))
    return Kuf * inverse * y, Kuu - Kuf * inverse * Kuf.T


def joint_laws(mean: Any, cov: Any, Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any) -> tuple[Any, Any, Any, Any]:
    """Means and covariances of p(f|U) N(U; mean, cov) and of p(f, U | y); both are singular where K − Q is."""
    N, M = Kff.rows, Kuu.rows
    prior = mp.zeros(N + M)
    prior[:N, :N], prior[:N, N:], prior[N:, :N], prior[N:, N:] = Kff, Kuf.T, Kuf, Kuu
    gain = prior[:, :N] * linalg.inverse(Kff + noise * eye(N))
    lift = mp.zeros(N + M, M)
    lift[:N, :], lift[N:, :] = solve(Kuu, Kuf).T, eye(M)
    joint = lift * cov * lift.T
    joint[:N, :N] += Kff - nystrom(Kuf, Kuu)
    return lift * mean, joint, gain * y, prior - gain * prior[:N, :]


def exact_gap(Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> Any:
    """D_α(y) = log p(y) − L_α (R-id)."""
    return log_evidence(Kff, y, noise) - elbo(Kff, Kuf, Kuu, y, noise, alpha)


def gap_by_definition(Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> Any:
    """D_α[q*(f, U)‖p(f, U | y)] from the two joint Gaussian laws; needs K − Q positive definite (R-def)."""
    best = inducing_posterior(Kff, Kuf, Kuu, y, noise, alpha)
    return gaussian_renyi(*joint_laws(*best, Kff, Kuf, Kuu, y, noise), alpha)


def expected_gap(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any, second_moment: Any = None) -> Any:
    """E_y D_α for y of second moment S (K + σ²I by default), from D_α(y) = D_α(0) + ½ y'(Ξ⁻¹ − K_n⁻¹)y."""
    exact = Kff + noise * eye(Kff.rows)
    S = exact if second_moment is None else second_moment
    at_zero = exact_gap(Kff, Kuf, Kuu, mp.zeros(Kff.rows, 1), noise, alpha)
    return at_zero + trace((linalg.inverse(xi(Kff, Kuf, Kuu, noise, alpha)) - linalg.inverse(exact)) * S) / 2


def gap_variance(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """Var_y D_α for y ~ N(0, K_n): ½ Tr[(C K_n)²] for the quadratic form ½ y'Cy, C = Ξ⁻¹ − K_n⁻¹."""
    exact = Kff + noise * eye(Kff.rows)
    C = (linalg.inverse(xi(Kff, Kuf, Kuu, noise, alpha)) - linalg.inverse(exact)) * exact
    return trace(C * C) / 2


def predict(Kff: Any, Kuf: Any, Kuu: Any, y: Any, Kss: Any, Kus: Any, noise: Any, alpha: Any) -> tuple[Any, Any]:
    """Law of y* when y*|U ~ N(P_*U, K_** − Q_** + σ²I) and U ~ q*: mean and covariance (R-pred-A)."""
    mean, S = inducing_posterior(Kff, Kuf, Kuu, y, noise, alpha)
    P = solve(Kuu, Kus).T
    return P * mean, Kss - nystrom(Kus, Kuu) + P * S * P.T + noise * eye(Kss.rows)


def spectrum(A: Any) -> list[Any]:
    """Eigenvalues of a symmetric matrix, largest first."""
    return sorted(eigsy(A, eigvals_only=True), reverse=True)


def square_root(A: Any) -> Any:
    """Symmetric square root of a PSD matrix; eigenvalues below 0 by rounding count as 0."""
    values, vectors = eigsy(A)
    return vectors * diag([sqrt(max(v, mpf(0))) for v in values]) * vectors.T


def minimum_gap(eigenvalues: Any, M: int, noise: Any, alpha: Any, y: str = "any") -> Any:
    """Σ_i G(λ_{M+i}/σ²) for any y, (α/(2β)) Σ_i log(1 + βλ_{M+i}/σ²) for y from the prior (N-low)."""
    ratios = [mpf(v) / noise for v in sorted(eigenvalues, reverse=True)[M:]]
    beta = 1 - mpf(alpha)
    if y == "any":
        return sum((G(d, mpf(alpha)) for d in ratios), mpf(0))
    return sum((scaled_log(d, beta) for d in ratios), mpf(0)) * alpha / 2


def operator_gap(Kff: Any, Q: Any, noise: Any) -> Any:
    """ε = λ_max(K − Q)/σ² (N-op)."""
    residual = Kff - Q
    return spectrum((residual + residual.T) / 2)[0] / noise


def smoother(K: Any, noise: Any) -> Any:
    """S = K(K + σ²I)⁻¹, the matrix that takes y to latent means at the rows: the exact GP's, or VFE's for Q (N-op)."""
    return K * linalg.inverse(K + noise * eye(K.rows))


def risk(S: Any, f: Any, variance: Any) -> Any:
    """E|Sy − f|² for y = f + noise of mean 0 and covariance ``variance``·I: squared bias and variance (N-op)."""
    bias = S * f - f
    return (bias.T * bias)[0] + variance * trace(S * S.T)


def latent_variances(Kff: Any, Q: Any, noise: Any) -> list[Any]:
    """VFE's latent variances at the rows, the diagonal of K − Q(Q + σ²I)⁻¹Q; the exact GP's for Q = K (N-op)."""
    covariance = Kff - smoother(Q, noise) * Q
    return [covariance[i, i] for i in range(Kff.rows)]


def direction_factor(alpha: Any) -> Any:
    """max{α/(1−α), (1−α)/α} (R-dir)."""
    alpha = mpf(alpha)
    return max(alpha / (1 - alpha), (1 - alpha) / alpha)


def scaled_residual(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """A = I + (β/σ²)(K − Q), by its definition."""
    return eye(Kff.rows) + (1 - mpf(alpha)) / noise * (Kff - nystrom(Kuf, Kuu))


def scaled_residual_by_xi(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """A = (Ξ − Q)/σ² (R-appC-mat)."""
    return (xi(Kff, Kuf, Kuu, noise, alpha) - nystrom(Kuf, Kuu)) / noise


def posterior_covariance(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """Cov q*(U) = Kuu − Kuf Ξ⁻¹ Kfu (R-qstar)."""
    return inducing_posterior(Kff, Kuf, Kuu, mp.zeros(Kff.rows, 1), noise, alpha)[1]


def log_det_by_xi(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """log|A| = −N log σ² + log|Ξ| + log|Cov q*(U)| − log|Kuu| (R-appC-det); loses digits as β → 0."""
    small = log_det(posterior_covariance(Kff, Kuf, Kuu, noise, alpha)) - log_det(Kuu)
    return -Kff.rows * log(noise) + log_det(xi(Kff, Kuf, Kuu, noise, alpha)) + small


def inverse_by_xi(Kff: Any, Kuf: Any, Kuu: Any, noise: Any, alpha: Any) -> Any:
    """A⁻¹ = σ²[Ξ⁻¹ + Ξ⁻¹Kfu (Kuu − Kuf Ξ⁻¹ Kfu)⁻¹ Kuf Ξ⁻¹] (R-grad-wood)."""
    inverse = linalg.inverse(xi(Kff, Kuf, Kuu, noise, alpha))
    thin = Kuf * inverse
    return noise * (inverse + thin.T * solve(posterior_covariance(Kff, Kuf, Kuu, noise, alpha), thin))


def elbo_by_determinants(Kff: Any, Kuf: Any, Kuu: Any, y: Any, noise: Any, alpha: Any) -> Any:
    """L_α from |Ξ|, Ξ⁻¹y and two M × M determinants, α < 1 (R-appC-det):

    −(N/2) log 2π − log|Ξ|/(2β) − ½y'Ξ⁻¹y + (αN/(2β)) log σ² − (α/(2β))(log|Cov q*| − log|Kuu|).
    """
    N, beta, big = Kff.rows, 1 - mpf(alpha), xi(Kff, Kuf, Kuu, noise, alpha)
    small = log_det(posterior_covariance(Kff, Kuf, Kuu, noise, alpha)) - log_det(Kuu)
    fit = -mpf(N) / 2 * log(2 * pi) - log_det(big) / (2 * beta) - (y.T * solve(big, y))[0] / 2
    return fit + alpha * N / (2 * beta) * log(noise) - alpha / (2 * beta) * small


def nystrom_tangent(Kuf: Any, Kuu: Any, Kuf_dot: Any, Kuu_dot: Any) -> Any:
    """Q̇ = K̇fu Kuu⁻¹Kuf + Kfu Kuu⁻¹K̇uf − Kfu Kuu⁻¹ K̇uu Kuu⁻¹Kuf."""
    P = solve(Kuu, Kuf)
    half = Kuf_dot.T * P
    return half + half.T - P.T * Kuu_dot * P


def gradient(
    prior: tuple[Any, Any, Any], y: Any, noise: Any, alpha: Any, prior_dot: tuple[Any, Any, Any], noise_dot: Any
) -> tuple[Any, Any, Any]:
    """Three summands of dL_α/dθ = ½y'Ξ⁻¹Ξ̇Ξ⁻¹y − ½Tr(Ξ⁻¹Ξ̇) − (α/(2β)) Tr(A⁻¹Ȧ) (R-grad).

    ``prior`` = (Kff, Kuf, Kuu), ``prior_dot`` and ``noise_dot`` their derivatives by θ.  Ȧ contains that of σ²:
    Ȧ/β = Δ̇/σ² − Δ σ̇²/σ⁴, which leaves ½Tr(Ȧ/β) at α = 1.
    """
    (Kff, Kuf, Kuu), (Kff_dot, Kuf_dot, Kuu_dot) = prior, prior_dot
    alpha = mpf(alpha)
    residual, Q_dot = Kff - nystrom(Kuf, Kuu), nystrom_tangent(Kuf, Kuu, Kuf_dot, Kuu_dot)
    inverse = linalg.inverse(xi(Kff, Kuf, Kuu, noise, alpha))
    xi_dot = noise_dot * eye(Kff.rows) + (1 - alpha) * Kff_dot + alpha * Q_dot
    change = (Kff_dot - Q_dot) / noise - noise_dot / noise**2 * residual
    weights = inverse * y
    fit = (weights.T * xi_dot * weights)[0] / 2
    inner = linalg.inverse(scaled_residual(Kff, Kuf, Kuu, noise, alpha))
    return fit, -trace(inverse * xi_dot) / 2, -alpha / 2 * trace(inner * change)


# Noise of each row: y = f + noise of covariance S = diag(variances), a list of N numbers (N-rows-noise).


def scaled_by_noise(A: Any, variances: Any) -> Any:
    """S^(−½) A S^(−½)."""
    scale = diag([1 / sqrt(mpf(s)) for s in variances])
    return scale * A * scale


def log_evidence_of_rows(Kff: Any, y: Any, variances: Any) -> Any:
    """log N(y; 0, K + S)."""
    return log_normal(y, Kff + diag([mpf(s) for s in variances]))


def elbo_of_rows(Kff: Any, Kuf: Any, Kuu: Any, y: Any, variances: Any, alpha: Any) -> Any:
    """log N(y; 0, S + (1−α)K + αQ) − (α/(2β)) log|I + βS^(−½)(K − Q)S^(−½)|."""
    Q, beta = nystrom(Kuf, Kuu), 1 - mpf(alpha)
    ratio = scaled_by_noise(Kff - Q, variances)
    penalty = trace(ratio) / 2 if beta == 0 else alpha / (2 * beta) * log_det(eye(Kff.rows) + beta * ratio)
    return log_normal(y, diag([mpf(s) for s in variances]) + beta * Kff + alpha * Q) - penalty


def gap_of_rows(Kff: Any, Kuf: Any, Kuu: Any, y: Any, variances: Any, alpha: Any) -> Any:
    """D_α(y) = log p(y) − L_α."""
    return log_evidence_of_rows(Kff, y, variances) - elbo_of_rows(Kff, Kuf, Kuu, y, variances, alpha)


def expected_gap_of_rows(Kff: Any, Kuf: Any, Kuu: Any, variances: Any, alpha: Any) -> Any:
    """E_y D_α for y ~ N(0, K + S): D_α(0) + ½tr(Ξ⁻¹ − (K + S)⁻¹)(K + S)."""
    S, Q = diag([mpf(s) for s in variances]), nystrom(Kuf, Kuu)
    at_zero = gap_of_rows(Kff, Kuf, Kuu, mp.zeros(Kff.rows, 1), variances, alpha)
    exact, best = Kff + S, S + (1 - mpf(alpha)) * Kff + mpf(alpha) * Q
    return at_zero + (trace(linalg.inverse(best) * exact) - Kff.rows) / 2


def predict_of_rows(Kff: Any, Kfs: Any, Kss: Any, y: Any, variances: Any) -> tuple[Any, Any]:
    """Latent means and covariance of the exact GP: K_*f(K + S)⁻¹y, K_** − K_*f(K + S)⁻¹K_f*."""
    exact = Kff + diag([mpf(s) for s in variances])
    return Kfs.T * solve(exact, y), Kss - Kfs.T * solve(exact, Kfs)
