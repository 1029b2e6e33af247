"""The two phases of an exact k-DPP sample, both by rejection, so that neither needs a table nor O(N M) work a point.

A k-DPP is a mixture of projection DPPs.  Phase 1 draws the set J of eigenvectors that take part, P(J) ∝ Π_{m∈J} λ_m;
phase 2 draws M points from the projection on their span.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt

import numpy as np

from gpbounds.arrays import EPS, Float, Indices
from gpbounds.kdpp.tilt import log_tilt

_BLOCK = 2**19  # uniform numbers at a time


def choose_eigenvectors(log_values: Float, M: int, rng: np.random.Generator) -> Indices:
    """Positions J, |J| = M, increasing, with P(J) ∝ Π_{m∈J} λ_m, from log λ: exact, and no e_M is computed.

    Independent coins with odds sλ_m, kept when M of them come up: given their number, every s leaves P(J) ∝ Π λ_m.
    s is such that M are expected; the number's most likely value is then M (Darroch, 1964), so a trial succeeds with
    probability ≥ 1/√(1 + 12v), v = Σ p(1−p) ≤ M the variance of the number.
    """
    n = log_values.size
    if M in (0, n):
        return np.arange(M)
    from scipy.special import expit

    p = expit(log_values + log_tilt(log_values, M))  # Σ p = M
    trials = min(ceil(sqrt(1.0 + 12.0 * float((p * (1.0 - p)).sum()))), max(1, _BLOCK // n))
    while True:
        heads = rng.random((trials, n)) < p
        kept = np.flatnonzero(np.count_nonzero(heads, axis=1) == M)
        if kept.size:
            return np.flatnonzero(heads[kept[0]])


def draw_projection(row: Callable[[int], Float], leverage: Float, M: int, rng: np.random.Generator) -> Indices:
    """Z with P(Z) = |(YYᵀ)_ZZ| = |Y_Z|², increasing, for Y (N × M) with orthonormal columns.

    Point after point by the chain rule: given the rows drawn, row y_i has probability ∝ its squared distance to their
    span.  i is proposed by its leverage |y_i|² and accepted with probability distance²/leverage.  The leverages sum to
    M and the distances to M − t, so M/(M − t) proposals are expected, M(1 + ½ + … + 1/M) in all, each O(M t), whatever
    N is.  The span is kept as an orthonormal basis, orthogonalised twice.  Rows within rounding of it (duplicates of
    points drawn) are never taken.

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
