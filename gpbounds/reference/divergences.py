"""Divergences of Gaussian laws in mpmath, of posteriors from their priors, and the roots that bound them (Prop. 4).

Means are n × 1, covariances n × n matrices, positive definite; singular laws are compared on the subspace where they
live, by the caller.  Of a Gaussian process: K (N × N), Kuf (M × N), Kuu (M × M), columns r = y − m(X); noise = σ².
"""

from __future__ import annotations

from typing import Any

from mpmath import diag, eigsy, expm1, eye, inf, log, mp, mpf, pi, sqrt

from gpbounds.reference import linalg
from gpbounds.reference.linalg import inverse, is_positive_definite, log_det, solve, trace


def gaussian_kl(mean1: Any, cov1: Any, mean2: Any, cov2: Any) -> Any:
    """KL[N1‖N2] = ½[Tr(Σ₂⁻¹Σ₁) − n + m'Σ₂⁻¹m + log(|Σ₂|/|Σ₁|)], m = μ₁ − μ₂."""
    shift = mean1 - mean2
    quadratic = (shift.T * solve(cov2, shift))[0]
    return (trace(inverse(cov2) * cov1) - cov1.rows + quadratic + log_det(cov2) - log_det(cov1)) / 2


def gaussian_renyi(mean1: Any, cov1: Any, mean2: Any, cov2: Any, alpha: Any) -> Any:
    """D_α[N1‖N2] = (α/2) m'Σ⁻¹m + {log|Σ| − (1−α) log|Σ₁| − α log|Σ₂|}/(2(1−α)), Σ = αΣ₂ + (1−α)Σ₁.

    Where Σ is not positive definite the integral ∫ N1^α N2^(1−α) diverges: +∞ for α > 1, −∞ for α < 0.
    """
    alpha = mpf(alpha)
    if alpha == 1:
        return gaussian_kl(mean1, cov1, mean2, cov2)
    mixed = alpha * cov2 + (1 - alpha) * cov1
    if not 0 <= alpha <= 1 and not is_positive_definite(mixed):
        return inf if alpha > 1 else -inf
    shift = mean1 - mean2
    quadratic = alpha / 2 * (shift.T * solve(mixed, shift))[0]
    volumes = log_det(mixed) - (1 - alpha) * log_det(cov1) - alpha * log_det(cov2)
    return quadratic + volumes / (2 * (1 - alpha))


def posterior_kl(K: Any, r: Any, noise: Any) -> Any:
    """½log|K + σ²I| − (N/2)log σ² − ½tr K(K + σ²I)⁻¹ + ½rᵀ(K + σ²I)⁻¹K(K + σ²I)⁻¹r  (P-22)."""
    A = K + noise * eye(K.rows)
    a = solve(A, r)
    return (log_det(A) - K.rows * log(noise) - trace(K * linalg.inverse(A)) + (a.T * K * a)[0]) / 2


def spectral_kl(K: Any, r: Any, noise: Any) -> Any:
    """½Σ[log(1 + λ/σ²) − λ/(λ+σ²)] + ½Σ λ/(λ+σ²)² (e·r)²  (P-23)."""
    values, vectors = eigsy(K)
    total = mpf(0)
    for i in range(K.rows):
        value, along = values[i], (vectors[:, i].T * r)[0]
        total += log(1 + value / noise) - value / (value + noise) + value / (value + noise) ** 2 * along**2
    return total / 2


def full_law(K: Any, Ksf: Any, Kss: Any, r: Any, noise: Any) -> tuple[Any, Any]:
    """Mean (less the prior's) and covariance of f at new points under the exact posterior  (P-20)."""
    A = K + noise * eye(K.rows)
    return Ksf * solve(A, r), Kss - Ksf * solve(A, Ksf.T)


def sparse_law(Kuu: Any, Kus: Any, Kss: Any, shift: Any, B: Any) -> tuple[Any, Any]:
    """Mean (less the prior's) and covariance of f at new points, Q(f_M) = N(m_M + shift, B)  (P-25)."""
    lift = solve(Kuu, Kus)
    return lift.T * shift, Kss - lift.T * (Kuu - B) * lift


def relative_laws(L: Any, mean1: Any, factor1: Any, mean: Any, factor: Any) -> tuple[Any, Any, Any, Any]:
    """Means and covariances of u = Lv under P: v ~ N(μ₁, C₁C₁ᵀ), and under Q: v = μ₁ + C₁z, z ~ N(μ, CCᵀ)."""
    under_prior, under_posterior = L * factor1, L * factor1 * factor
    start = L * mean1
    return start, under_prior * under_prior.T, start + under_prior * mean, under_posterior * under_posterior.T


def noises(K: Any, Kuf: Any, Kuu: Any, noise: Any, power: Any) -> Any:
    """pΛ + σ²I, Λ = diag(K − Q)."""
    Q = Kuf.T * solve(Kuu, Kuf)
    return diag([power * (K[i, i] - Q[i, i]) + noise for i in range(K.rows)])


def collapsed_law(K: Any, Kuf: Any, Kuu: Any, r: Any, noise: Any, power: Any) -> tuple[Any, Any]:
    """a − m_M and B of FITC (p = 1), VFE (p = 0) and between  (P-27)."""
    D = noises(K, Kuf, Kuu, noise, power)
    P = Kuu + Kuf * solve(D, Kuf.T)
    return Kuu * solve(P, Kuf * solve(D, r)), Kuu * solve(P, Kuu)


def collapsed_kl(K: Any, Kuf: Any, Kuu: Any, r: Any, noise: Any, power: Any) -> Any:
    """½[log|P| − log|Kuu| + tr KuuP⁻¹ − M + cᵀP⁻¹KuuP⁻¹c], c = Kuf(pΛ + σ²I)⁻¹r  (P-26, sharper)."""
    D = noises(K, Kuf, Kuu, noise, power)
    P = Kuu + Kuf * solve(D, Kuf.T)
    c = Kuf * solve(D, r)
    e = solve(P, c)
    return (log_det(P) - log_det(Kuu) + trace(Kuu * linalg.inverse(P)) - Kuu.rows + (e.T * Kuu * e)[0]) / 2


def sparse_kl(Kuu: Any, shift: Any, B: Any) -> Any:
    """KL(N(m_M + shift, B)‖N(m_M, Kuu))  (P-26)."""
    return gaussian_kl(shift, B, 0 * shift, Kuu)


def negative_log_evidence(C: Any, r: Any) -> Any:
    """−log N(y; m, C)  (P-28, Eq. 33 with C = K + σ²I)."""
    return (log_det(C) + C.rows * log(2 * pi) + (r.T * solve(C, r))[0]) / 2


def sparse_objective(K: Any, Kuf: Any, Kuu: Any, r: Any, noise: Any, G: Any, T: Any) -> Any:
    """F = −log N(y; m, Q + G + σ²I) + tr T/(2σ²)  (P-28, Eq. 34)."""
    Q = Kuf.T * solve(Kuu, Kuf)
    return negative_log_evidence(Q + G + noise * eye(K.rows), r) + trace(T) / (2 * noise)


def expected_log_likelihood(mean: Any, covariance: Any, r: Any, noise: Any) -> Any:
    """E log N(y; f, σ²I), f ~ N(m + mean, covariance)."""
    left = r - mean
    return -(left.rows * log(2 * pi * noise) + ((left.T * left)[0] + trace(covariance)) / noise) / 2


def lambert_roots(gamma: Any) -> tuple[Any, Any]:
    """(b, t) = (−W₀(z), −W₋₁(z)), z = −e^(−1−2γ) (L-32); near the branch point digits are lost, so more are carried."""
    gamma = mp.mpf(gamma)
    if gamma == 0:
        return mp.mpf(1), mp.mpf(1)
    with mp.workdps(mp.dps + 20 + max(0, int(-mp.log10(gamma)))):
        z = -mp.exp(-1 - 2 * gamma)
        return -mp.lambertw(z, 0).real, -mp.lambertw(z, -1).real


def sandwich_roots(gamma: Any) -> tuple[Any, Any, Any]:
    """(b − 1, t − 1, log b), to full relative precision, by Newton's method from the starts of L-34."""
    gamma = mp.mpf(gamma)
    if gamma == 0:
        return mp.mpf(0), mp.mpf(0), mp.mpf(0)
    digits = mp.dps
    with mp.workdps(digits + 20 + 2 * max(0, int(-mp.log10(gamma)) // 2 + 1)):
        v = 2 * mp.sqrt(gamma)
        u, s = v + 2 * gamma, -2 * gamma - min(mp.mpf(1), v)
        for _ in range(200):
            step_u = (u - mp.log(1 + u) - 2 * gamma) * (1 + u) / u
            step_s = (mp.exp(s) - 1 - s - 2 * gamma) / (mp.exp(s) - 1)
            u, s = u - step_u, s - step_s
            if max(abs(step_u / u), abs(step_s / s)) < mp.mpf(10) ** (-digits - 3):
                break
        return mp.exp(s) - 1, u, s


def sandwich_explicit(gamma: Any) -> tuple[Any, Any, Any, Any]:
    """L-33, sharper: e^(−2γ−min(1,v)) ≤ b ≤ 1 − v + 2γ and 1 + v + (4/3)γ ≤ t ≤ 1 + v + 2γ, v = 2√γ."""
    gamma = mp.mpf(gamma)
    v = 2 * mp.sqrt(gamma)
    return mp.exp(-2 * gamma - min(1, v)), 1 - v + 2 * gamma, 1 + v + 4 * gamma / 3, 1 + v + 2 * gamma


def sandwich_printed(gamma: Any) -> tuple[Any, Any]:
    """Footnote 2: b ≥ max(1 − 2√γ, e^(−1−2γ)), t ≤ 1 + max(√(8γ), 8γ)."""
    gamma = mp.mpf(gamma)
    return max(1 - 2 * mp.sqrt(gamma), mp.exp(-1 - 2 * gamma)), 1 + max(mp.sqrt(8 * gamma), 8 * gamma)


def sandwich_series(terms: int) -> list[Any]:
    """a_1, a_2, ... of w(v) = Σ a_k v^k, t = 1 + w(v): (k+1)a_k = a_(k−1) − Σ_(1<j<k) j·a_j·a_(k+1−j) (L-34)."""
    a = [mp.mpf(0), mp.mpf(1)]
    for k in range(2, terms + 1):
        total = a[k - 1] - sum((j * a[j] * a[k + 1 - j] for j in range(2, k)), mp.mpf(0))
        a.append(total / (k + 1))
    return a[1:]


def total_variation(divergence: Any) -> Any:
    """min{√(κ/2), √(1 − e^−κ)} ≥ TV(q, p) where KL[q‖p] ≤ κ  (N-event)."""
    return min(sqrt(divergence / 2), sqrt(-expm1(-divergence)))


def discrete_kl(q: Any, p: Any) -> Any:
    """Σ q_i log(q_i/p_i) of two laws on the same finite set."""
    return sum((a * log(a / b) for a, b in zip(q, p, strict=True) if a), mpf(0))
