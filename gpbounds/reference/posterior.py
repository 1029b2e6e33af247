"""Posteriors of GPs, full and sparse, and their divergence from the prior in mpmath, from the ledger's formulas.

Matrices are mpmath's: K (N × N), Kuf (M × N), Kuu (M × M), columns r = y − m(X); noise = σ².
"""

from __future__ import annotations

from typing import Any

from mpmath import diag, eigsy, eye, log, mpf, pi

from gpbounds.reference import matrices
from gpbounds.reference.divergences import gaussian_kl, log_det, solve, trace


def posterior_kl(K: Any, r: Any, noise: Any) -> Any:
    """½log|K + σ²I| − (N/2)log σ² − ½tr K(K + σ²I)⁻¹ + ½rᵀ(K + σ²I)⁻¹K(K + σ²I)⁻¹r  (P-22)."""
    A = K + noise * eye(K.rows)
    a = solve(A, r)
    return (log_det(A) - K.rows * log(noise) - trace(K * matrices.inverse(A)) + (a.T * K * a)[0]) / 2


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
    return (log_det(P) - log_det(Kuu) + trace(Kuu * matrices.inverse(P)) - Kuu.rows + (e.T * Kuu * e)[0]) / 2


def sparse_kl(Kuu: Any, shift: Any, B: Any) -> Any:
    """KL(N(m_M + shift, B)‖N(m_M, Kuu))  (P-26)."""
    return gaussian_kl(shift, B, 0 * shift, Kuu)


def negative_log_evidence(C: Any, r: Any) -> Any:
    """−log N(y; m, C)  (P-28, Eq. 33 with C = K + σ²I)."""
    return (log_det(C) + C.rows * log(2 * pi) + (r.T * solve(C, r))[0]) / 2


def objective(K: Any, Kuf: Any, Kuu: Any, r: Any, noise: Any, G: Any, T: Any) -> Any:
    """F = −log N(y; m, Q + G + σ²I) + tr T/(2σ²)  (P-28, Eq. 34)."""
    Q = Kuf.T * solve(Kuu, Kuf)
    return negative_log_evidence(Q + G + noise * eye(K.rows), r) + trace(T) / (2 * noise)


def expected_log_likelihood(mean: Any, covariance: Any, r: Any, noise: Any) -> Any:
    """E log N(y; f, σ²I), f ~ N(m + mean, covariance)."""
    left = r - mean
    return -(left.rows * log(2 * pi * noise) + ((left.T * left)[0] + trace(covariance)) / noise) / 2
