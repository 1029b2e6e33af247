"""k-DPP expectations in mpmath, slow and simple, at the working precision (``mpmath.workdps``).

``esp`` is the positive recurrence; ``law`` enumerates every subset; the named functions follow the ledger's formulas.
Matrices are lists of rows or ``mpmath.matrix``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import mpmath as mp


def esp(eigenvalues: Sequence[Any], k_max: int) -> list[Any]:
    """e_0 … e_kmax by e_j ← e_j + λ e_{j−1}, for one eigenvalue at a time."""
    e = [mp.mpf(1)] + [mp.mpf(0)] * k_max
    for value in map(mp.mpf, eigenvalues):
        for j in range(k_max, 0, -1):
            e[j] += value * e[j - 1]
    return e


def log_esp(eigenvalues: Sequence[Any], k_max: int) -> list[Any]:
    """log e_0 … log e_kmax; −inf where e_j = 0."""
    return [mp.log(e) if e else mp.mpf("-inf") for e in esp(eigenvalues, k_max)]


def expected_esp(eigenvalues: Sequence[Any], M: int, j: int) -> Any:
    """E_Z e_j(Δ_Z) = C(M+j, j) e_{M+j} / e_M  (R-lem3)."""
    e = esp(eigenvalues, M + j)
    return mp.binomial(M + j, j) * e[M + j] / e[M]


def expected_trace(eigenvalues: Sequence[Any], M: int) -> Any:
    """E_Z Tr Δ_Z = (M+1) e_{M+1} / e_M  (R-lem3)."""
    return expected_esp(eigenvalues, M, 1)


def log_expected_determinant(eigenvalues: Sequence[Any], M: int, c: Any) -> Any:
    """log E_Z |I + cΔ_Z| = log Σ_j c^j C(M+j, j) e_{M+j} / e_M  (R-lem3)."""
    N = len(eigenvalues)
    e = esp(eigenvalues, N)
    return mp.log1p(mp.fsum(mp.mpf(c) ** j * mp.binomial(M + j, j) * e[M + j] / e[M] for j in range(1, N - M + 1)))


def trace_term(T: Any, n: int, noise: Any, alpha: Any) -> Any:
    """g_n(T) = (αn/(2β)) log(1 + βT/(nσ²)), β = 1 − α; T/(2σ²) at α = 1."""
    alpha, noise = mp.mpf(alpha), mp.mpf(noise)
    if alpha == 1:
        return T / (2 * noise)
    beta = 1 - alpha
    return alpha * n / (2 * beta) * mp.log(1 + beta * T / (n * noise))


def expected_logdet_bound(eigenvalues: Sequence[Any], M: int, noise: Any, alpha: Any, rule: str = "sharpest") -> Any:
    """The upper bounds of E_Z[−log C_x]  (R-lem3c): rule "sharpest", "trace", "determinant" or "printed"."""
    N, alpha, noise = len(eigenvalues), mp.mpf(alpha), mp.mpf(noise)
    rank = sum(1 for value in eigenvalues if value > 0)
    if rule == "printed":
        ordered = sorted((mp.mpf(value) for value in eigenvalues), reverse=True)
        return trace_term((M + 1) * mp.fsum(ordered[M:]), N, noise, alpha)
    if rank == M:
        return mp.mpf(0)
    trace = trace_term(expected_trace(eigenvalues, M), rank - M, noise, alpha)
    if rule == "trace" or alpha == 1:
        return trace
    beta = 1 - alpha
    determinant = alpha / (2 * beta) * log_expected_determinant(eigenvalues, M, beta / noise)
    return determinant if rule == "determinant" else min(trace, determinant)


def trace_bound(tails: Sequence[Any], M: int) -> Any:
    """min_{0≤k≤M} (M+1)/(M+1−k) · tails[k]  (R-lem3)."""
    return min(mp.mpf(M + 1) / (M + 1 - k) * mp.mpf(tails[k]) for k in range(M + 1))


def tv_term(N: int, M: int, variance: Any, tv: Any) -> Any:
    """(N−M)·v·tv  (R-cor1)."""
    return (N - M) * mp.mpf(variance) * mp.mpf(tv)


def minor(K: Any, rows: Sequence[int]) -> Any:
    """|K_ZZ|; 1 for no rows."""
    return mp.det(mp.matrix([[K[i, j] for j in rows] for i in rows])) if rows else mp.mpf(1)


def law(K: Any, M: int) -> dict[tuple[int, ...], Any]:
    """P(Z) = |K_ZZ| / Σ |K_Z'Z'| for every Z of size M, by enumeration."""
    K = mp.matrix(K)
    weights = {Z: minor(K, Z) for Z in combinations(range(K.rows), M)}
    total = mp.fsum(weights.values())
    return {Z: weight / total for Z, weight in weights.items()}


def residual(K: Any, Z: Sequence[int]) -> Any:
    """Δ_Z = K − K_fZ K_ZZ⁻¹ K_Zf."""
    K = mp.matrix(K)
    if not Z:
        return K
    N, M = K.rows, len(Z)
    KZZ = mp.matrix([[K[i, j] for j in Z] for i in Z])
    KZf = mp.matrix(M, N)
    for a, i in enumerate(Z):
        for j in range(N):
            KZf[a, j] = K[i, j]
    return K - KZf.T * mp.inverse(KZZ) * KZf


def expectation(K: Any, M: int, statistic: Callable[[Any], Any]) -> Any:
    """E_Z statistic(Δ_Z) under the k-DPP, by enumeration; subsets of probability 0 are left out."""
    return mp.fsum(p * statistic(residual(K, Z)) for Z, p in law(K, M).items() if p > 0)
