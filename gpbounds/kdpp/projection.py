"""The two phases of an exact k-DPP sample, both by rejection: no table, and less than O(N M) work for each point.

A k-DPP is a mixture of projection DPPs.  Phase 1 draws a set J of eigenvectors, P(J) ∝ Π_{m∈J} λ_m; phase 2 draws M
points from the projection on their span.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt

import numpy as np

from gpbounds.arrays import EPS, Float, Indices
from gpbounds.kdpp.tilt import log_tilt

_BLOCK = 2**19  # uniform numbers drawn at a time


def choose_eigenvectors(log_values: Float, M: int, rng: np.random.Generator) -> Indices:
    """Positions J, |J| = M, increasing, with P(J) ∝ Π_{m∈J} λ_m, from log λ: exactly, and without e_M.

    Independent coins with odds sλ_m are tossed until M of them show heads: given this number, P(J) ∝ Π λ_m for every s.
    s is chosen such that the expected number of heads is M; its most likely value is then M (Darroch, 1964), so a trial
    succeeds with probability ≥ 1/√(1 + 12v), where v = Σ p(1−p) ≤ M is the variance of the number.
    """
    n = log_values.size
    if M in (0, n):
        return np.arange(M)
    from scipy.special import expit

    p = expit(log_values + log_tilt(log_values, M))  # Σ p = M
    trials = min(ceil(sqrt(1.0 + 12.0 * float((p * (1.0 - p)).sum()))), max(1, _BLOCK // n))
    while True:
        heads = rng.random((trials, n)) < p
        successes = np.flatnonzero(np.count_nonzero(heads, axis=1) == M)
        if successes.size:
            return np.flatnonzero(heads[successes[0]])


def draw_projection(row: Callable[[int], Float], leverage: Float, M: int, rng: np.random.Generator) -> Indices:
    """Z with P(Z) = |(YYᵀ)_ZZ| = |Y_Z|², increasing, for Y (N × M) with orthonormal columns.

    One point after another by the chain rule: given the rows drawn so far, row y_i has probability ∝ its squared
    distance to their span.  i is proposed by its leverage |y_i|² and accepted with probability distance²/leverage.
    The leverages sum to M and the distances to M − t, so M/(M − t) proposals are expected, M(1 + ½ + … + 1/M) in all;
    each takes O(M t), for any N.  The span is stored as an orthonormal basis, orthogonalised twice.  Rows within
    rounding error of it (duplicates of points drawn) are never accepted.

    Parameters
    ----------
    row : function
        i ↦ y_i, shape (M,).
    leverage : array (N,)
        |y_i|².
    """
    sums = np.cumsum(leverage)
    rounding = M * EPS
    basis = np.zeros((M, M))
    chosen = np.empty(M, dtype=np.int64)
    t = 0
    while t < M:
        proposals = np.searchsorted(sums[:-1], rng.random(M) * sums[-1], side="right")
        thresholds = np.maximum(rng.random(M), rounding) * leverage[proposals]
        for i, threshold in zip(proposals.tolist(), thresholds.tolist(), strict=True):
            y = row(i)
            inside = basis[:t] @ y
            if float(leverage[i] - inside @ inside) <= threshold:
                continue
            direction = y - inside @ basis[:t]
            direction -= (basis[:t] @ direction) @ basis[:t]
            basis[t] = direction / np.linalg.norm(direction)
            chosen[t] = i
            t += 1
            if t == M:
                break
    return np.sort(chosen)
