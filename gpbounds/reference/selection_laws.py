"""Mean residuals of laws of inducing points other than the k-DPP, by enumeration of every sequence or subset."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import mpmath as mp

from gpbounds.reference.kdpp import residual


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
