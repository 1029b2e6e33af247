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

ACCEPTED = 32
"""Expected number of accepted proposals in a block."""
MOST = 256
"""Largest number of proposals in a block."""
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


def draw_projection(rows: Callable[[Indices], Float], leverage: Float, M: int, rng: np.random.Generator) -> Indices:
    """Z with P(Z) = |(YYᵀ)_ZZ| = |Y_Z|², increasing, for Y (N × M) with orthonormal columns.

    One point after another by the chain rule: given the rows drawn so far, row y_i has probability ∝ its squared
    distance to their span.  i is proposed by its leverage |y_i|² and accepted with probability distance²/leverage.
    The leverages sum to M and the distances to M − t, so M/(M − t) proposals are expected, M(1 + ½ + … + 1/M) in all;
    each takes O(M t), for any N, in blocks of proposals by matrix products.  The span is stored as an orthonormal
    basis, orthogonalised twice.  Rows within rounding error of it (duplicates of points drawn) are never accepted.

    Parameters
    ----------
    rows : function
        Row numbers (b,) ↦ their rows of Y (b, M).
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
        start = 0
        while start < M and t < M:
            part = slice(start, start + min(MOST, ceil(ACCEPTED * M / (M - t))))
            Y = rows(proposals[part])
            inside = Y @ basis[:t].T
            distances = leverage[proposals[part]] - np.einsum("bt,bt->b", inside, inside)
            taken = _accepted(Y @ Y.T - inside @ inside.T, distances, thresholds[part])[: M - t]
            end = t + len(taken)
            chosen[t:end] = proposals[part][taken]
            if end < M and taken:
                basis[t:end] = _directions(Y[taken], basis[:t])
            t, start = end, part.stop
    return np.sort(chosen)


def _accepted(gram: Float, distances: Float, thresholds: Float) -> list[int]:
    """Positions of the accepted proposals of a block, from their inner products and squared distances given all
    points before the block: each distance is reduced by those accepted earlier in the block."""
    left, taken = distances.copy(), list[int]()
    reduced = np.empty_like(gram)
    for j in range(left.size):
        if left[j] <= thresholds[j]:
            continue
        before = reduced[: len(taken)]
        row = (gram[j] - before[:, j] @ before) / np.sqrt(left[j])
        reduced[len(taken)] = row
        left[j + 1 :] -= row[j + 1 :] ** 2
        taken.append(j)
    return taken


def _directions(Y: Float, basis: Float) -> Float:
    """Orthonormal rows, orthogonal to ``basis``, that with it span the rows of Y too."""
    for _ in range(2):
        Y = np.linalg.qr((Y - (Y @ basis.T) @ basis).T)[0].T
    return Y
