"""KL divergence of a low-rank GP in mpmath, straight from ledger L.1: laws, Woodbury, Prop. 1, the optimum, κ.

K, Sigma are N × N, features Ξ N × r mpmath matrices; noise = σ²; g = γ/(1 + γ).
"""

from __future__ import annotations

from typing import Any

from mpmath import eigsy, eye, log, mp, mpf, sqrt

from gpbounds.reference import matrices
from gpbounds.reference.divergences import gaussian_kl, log_det, solve


def noisy(K: Any, noise: Any) -> Any:
    """K + σ²I."""
    return K + noise * eye(K.rows)


def kl(K: Any, Sigma: Any, noise: Any) -> Any:
    """KL(N(0, K + σ²I)‖N(0, Sigma + σ²I)) from its closed form (L-04, L-11)."""
    zero = mp.zeros(K.rows, 1)
    return gaussian_kl(zero, noisy(K, noise), zero, noisy(Sigma, noise))


def phi(e: Any) -> Any:
    """e − log(1 + e)."""
    return e - log(1 + e)


def kl_of_ratios(ratios: Any) -> Any:
    """½Σ φ(λ_i − 1), λ_i the eigenvalues of Σ₂⁻¹Σ₁ (L-04, eq. 28)."""
    return sum((phi(v - 1) for v in ratios), mpf(0)) / 2


def ratios(S1: Any, S2: Any) -> list[Any]:
    """Eigenvalues of Σ₂^{-½}Σ₁Σ₂^{-½}, rising."""
    values, vectors = eigsy(S2)
    root = vectors * mp.diag([1 / sqrt(v) for v in values]) * vectors.T
    whitened = root * S1 * root
    return sorted(eigsy((whitened + whitened.T) / 2, eigvals_only=True))


def woodbury_inverse(features: Any, noise: Any) -> Any:
    """(ΞΞᵀ + σ²I)⁻¹ = σ⁻²I − σ⁻²Ξ(σ²I_r + ΞᵀΞ)⁻¹Ξᵀ (L-02)."""
    inner = noisy(features.T * features, noise)
    return (eye(features.rows) - features * solve(inner, features.T)) / noise


def woodbury_log_det(features: Any, noise: Any) -> Any:
    """log|ΞΞᵀ + σ²I| = (N − r) log σ² + log|σ²I_r + ΞᵀΞ| (L-03)."""
    return (features.rows - features.cols) * log(noise) + log_det(noisy(features.T * features, noise))


def predict(K: Any, cross: Any, new: Any, y: Any, noise: Any) -> tuple[Any, Any]:
    """Mean and covariance of noisy y_* given y: K_*A⁻¹y, K_** + σ²I − K_*A⁻¹K_*ᵀ, A = K + σ²I (L-01)."""
    inverse = matrices.inverse(noisy(K, noise))
    return cross * inverse * y, noisy(new, noise) - cross * inverse * cross.T


def least_gamma(S1: Any, S2: Any) -> Any:
    """The least γ ≥ 0 with (1 + γ)Σ₁ ⪰ Σ₂."""
    return max(mpf(0), 1 / ratios(S1, S2)[0] - 1)


def kl_from_excess(excess: Any, N: int, gamma: Any, form: str) -> Any:
    """L-06 from excess = Tr Σ₂⁻¹Σ₁ − N."""
    g = mpf(gamma) / (1 + gamma)
    return {
        "sharpest": ((N - 1) * phi(-g) + phi(excess + (N - 1) * g)) / 2,
        "logarithmic": (excess + N * log(1 + mpf(gamma))) / 2,
        "corrected": (excess + N * gamma) / 2,
        "printed": (excess - N * gamma) / 2,
    }[form]


def kl_from_ratio(gamma: Any, N: int, form: str) -> Any:
    """L-07."""
    return {"sharpest": N * phi(gamma) / 2, "quadratic": N * gamma**2 / 4, "printed": N * gamma}[form]


def kl_from_traces(trace1: Any, trace2: Any, N: int, noise: Any, gamma: Any, least: Any, form: str) -> Any:
    """L-08; least = λ_min(K₂)."""
    g, L, floor = mpf(gamma) / (1 + gamma), log(1 + mpf(gamma)), mpf(noise) + least
    T = (trace1 - (1 - g) * trace2 + g * N * noise) / floor
    return {
        "sharpest": ((N - 1) * phi(-g) + max(phi(-g), phi(T - g))) / 2,
        "logarithmic": (trace1 - (1 - L) * trace2 + L * N * noise) / (2 * floor),
        "corrected": (trace1 - (1 - gamma) * trace2 + gamma * N * noise) / (2 * mpf(noise)),
        "printed": (trace1 - (1 + gamma) * trace2 + gamma * N * noise) / (2 * mpf(noise)),
    }[form]


def kl_from_residual(residual: Any, noise: Any, least: Any, form: str) -> Any:
    """L-09; residual = Tr(K₁ − K₂)."""
    return phi(mpf(residual) / (noise + least)) / 2 if form == "sharpest" else mpf(residual) / (2 * mpf(noise))


def optimal_kl(eigenvalues: Any, noise: Any) -> list[Any]:
    """½Σ_{i>r} φ(λ_i/σ²) for r = 0 … N, λ falling (L-10)."""
    terms = [phi(mpf(v) / noise) / 2 for v in sorted(eigenvalues, reverse=True)]
    return [sum(terms[r:], mpf(0)) for r in range(len(terms) + 1)]


def truncation(K: Any, r: int) -> Any:
    """The r leading eigenpairs of K."""
    values, vectors = eigsy(K)
    kept = mp.diag([v if K.rows - i <= r else mpf(0) for i, v in enumerate(values)])
    return vectors * kept * vectors.T


def kappa(delta: Any) -> Any:
    """κ(Δ) = ½[Δ/(1 − Δ) + log(1 − Δ)] (L-25)."""
    with mp.workdps(mp.dps + 700):  # the leading terms cancel
        delta = mpf(delta)
        return (delta / (1 - delta) + log(1 - delta)) / 2


def kappa_inverse(eps: Any) -> Any:
    """The Δ in [0, 1) with κ(Δ) = ε, by bisection in log e, e = Δ/(1 − Δ), κ = ½(e − log(1 + e))."""
    if eps == 0:
        return mpf(0)
    digits = mp.dps
    with mp.workdps(digits + 700):  # e − log(1 + e) loses twice the digits by which e is small
        eps = mpf(eps)
        low, high = log(sqrt(eps)), log(4 * eps + 4 * sqrt(eps))
        for _ in range(4 * digits + 10):
            middle = (low + high) / 2
            low, high = (middle, high) if phi(mp.exp(middle)) / 2 < eps else (low, middle)
        e = mp.exp(high)
        return e / (1 + e)
