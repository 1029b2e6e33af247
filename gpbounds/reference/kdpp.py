"""k-DPPs and other laws of inducing points in mpmath, slow and simple, at the working precision (``mpmath.workdps``).

``esp`` is the positive recurrence; laws enumerate every subset or sequence; the named functions follow the ledger's
formulas.  Matrices are lists of rows or ``mpmath.matrix``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import mpmath as mp

from gpbounds.reference.renyi import trace_term


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


def rest_ratios(eigenvalues: Sequence[Any], M: int) -> list[Any]:
    """r_i = e_M(λ without λ_i)/e_{M−1}(λ without λ_i), M ≥ 1."""
    ratios = []
    for i in range(len(eigenvalues)):
        e = esp([*eigenvalues[:i], *eigenvalues[i + 1 :]], M)
        ratios.append(e[M] / e[M - 1] if e[M - 1] else mp.mpf(0))
    return ratios


def miss(eigenvalues: Sequence[Any], M: int) -> list[Any]:
    """miss_i = e_M(λ without λ_i)/e_M(λ)  (N-res)."""
    whole = esp(eigenvalues, M)[M]
    return [esp([*eigenvalues[:i], *eigenvalues[i + 1 :]], M)[M] / whole for i in range(len(eigenvalues))]


def mean_residual(K: Any, M: int) -> Any:
    """E_Z(K − Q_Z) under the k-DPP, by enumeration; subsets of probability 0 up to rounding are left out."""
    total = mp.zeros(K.rows)
    for Z, probability in law(K, M).items():
        if probability > 1e6 * mp.eps:
            total += probability * residual(K, Z)
    return total


def slope_at_zero(values: Sequence[Any], M: int) -> Any:
    """g0 = (M+1)(1 − e_{M+1} e_{M−1}/e_M²): how R grows with an eigenvalue that is 0."""
    if M == 0:
        return mp.mpf(1)
    e = esp(values, M + 1)
    return (M + 1) * (1 - e[M + 1] * e[M - 1] / e[M] ** 2)


def slopes(values: Sequence[Any], M: int) -> list[Any]:
    """g_i = dR/dμ_i, by the quotient rule."""
    e = esp(values, M + 1)
    result = []
    for i in range(len(values)):
        rest = esp([*values[:i], *values[i + 1 :]], M + 1)
        lower = rest[M - 1] if M else mp.mpf(0)
        result.append((M + 1) * (rest[M] * e[M] - e[M + 1] * lower) / e[M] ** 2)
    return result


def one_point_less(S: Any, i: int) -> Any:
    """S − S e_i e_iᵀ S/S_ii."""
    N = S.rows
    return mp.matrix([[S[a, b] - S[a, i] * S[i, b] / S[i, i] for b in range(N)] for a in range(N)])


def rpcholesky_law(K: Any, M: int) -> dict[tuple[int, ...], Any]:
    """P(z_1 … z_M) = Π S_zz/Tr S for every sequence, S the residual of the earlier points; ends if S vanishes."""
    law: dict[tuple[int, ...], Any] = {}

    def walk(S: Any, chosen: tuple[int, ...], p: Any) -> None:
        trace = mp.fsum(S[i, i] for i in range(S.rows))
        if len(chosen) == M or trace < mp.mpf(10) ** (-30):
            law[chosen] = p
            return
        for i in range(S.rows):
            if i not in chosen and S[i, i] > mp.mpf(10) ** (-30):
                walk(one_point_less(S, i), (*chosen, i), p * S[i, i] / trace)

    walk(mp.matrix(K), (), mp.mpf(1))
    return law


def rpcholesky_mean(K: Any, M: int) -> Any:
    """E S of randomly pivoted Cholesky."""
    K = mp.matrix(K)
    mean = mp.zeros(K.rows)
    for sequence, p in rpcholesky_law(K, M).items():
        S = K
        for i in sequence:
            S = one_point_less(S, i)
        mean += p * S
    return mean


def rpcholesky_residual(eigenvalues: Any, M: int) -> list[Any]:
    """ρ ← ρ − ρ²/Σρ, M times  (N-rpc)."""
    rho = [mp.mpf(value) for value in eigenvalues]
    for _ in range(M):
        total = mp.fsum(rho)
        rho = [r - r**2 / total if total else mp.mpf(0) for r in rho]
    return rho


def uniform_mean(K: Any, M: int) -> Any:
    """E S of M points drawn uniformly without replacement, if no principal minor of size M is 0."""
    K = mp.matrix(K)
    subsets = list(combinations(range(K.rows), M))
    mean = mp.zeros(K.rows)
    for Z in subsets:
        mean += residual(K, Z) / len(subsets)
    return mean


def uniform_residual(eigenvalues: Any, M: int, variance: Any) -> list[Any]:
    """λ/(1 + cλ), c = Σ_{k<M} 1/((N − k)·variance)  (N-unif)."""
    N = len(eigenvalues)
    c = mp.fsum(1 / ((N - k) * mp.mpf(variance)) for k in range(M))
    return [mp.mpf(value) / (1 + c * mp.mpf(value)) for value in eigenvalues]
