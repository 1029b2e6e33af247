"""Pivoted Cholesky in blocks: exactly the greedy order, at the speed of matrix products.

Greedy choice needs the variances K_ii − |v_i|² of all N points after every step, V = L⁻¹K_Zf: one product with the
t × N factor a step, bound by memory.  But variances only fall, so those computed last are upper bounds.  The N/32
points where these are largest are kept up to date; as long as the largest among them is not below the largest upper
bound elsewhere, it is the greedy choice.  The other points are brought up to date for up to 32 choices at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Float, Indices

Rows = Callable[[Indices, Indices | slice], Float]
"""Rows of the kernel matrix: (b,) row numbers and columns -> (b, n)."""

BLOCK = 32
"""Points chosen between two passes over all N."""
CANDIDATES = 1024
"""Fewest points kept up to date; 1/BLOCK of them where that is more."""
CHUNK = 2**13
"""Columns updated at a time: 32 rows of them fit a cache."""


@dataclass(frozen=True, eq=False)
class Pivoted:
    """K = VᵀV + residual, V = L⁻¹K_Zf by rows.

    Attributes
    ----------
    indices : array of int64 (m,)
        Z in the order of choice.
    factor : array (m, N)
        V.
    variances : array (m,)
        The variance each point had when it was chosen; log|K_ZZ| is the sum of their logarithms.
    traces : array (m + 1,)
        Tr(K − Q) of the first 0, 1, …, m points.
    left : float
        The largest variance left.
    """

    indices: Indices
    factor: Float
    variances: Float
    traces: Float
    left: float

    @property
    def log_det(self) -> float:
        """log|K_ZZ|."""
        return float(np.log(self.variances).sum())

    def require(self, M: int) -> Pivoted:
        """Itself where it has M points; otherwise an error that says how many there are."""
        m = self.indices.size
        if m < M:
            raise ValueError(
                f"M: expected at most {m} points, got {M}: given {m} points the largest variance left is "
                f"{self.left:.3g}, rounding error. Take {m} points; duplicates and long lengthscales lower the rank"
            )
        return self


def pivoted(rows: Rows, diagonal: Float, M: int, goal: float | None = None, groups: Indices | None = None) -> Pivoted:
    """At most M points, each the one of largest variance given those before it; ties to the least index.

    Ends early where Tr(K − Q) ≤ ``goal``, with the fewest points that reach it, and where the variance left falls to
    N·eps·max K_ii.  N M² flops, an M × N factor; with a ``goal`` it grows with the points chosen.  ``groups`` numbers
    equal inputs alike: no two of a group are chosen.

    >>> K = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 0.5]])
    >>> found = pivoted(lambda picked, columns: K[picked][:, columns], K.diagonal(), 3, goal=0.2)
    >>> found.indices, found.traces.round(4)
    (array([0, 2]), array([2.5 , 0.69, 0.17]))
    """
    N, left = diagonal.size, diagonal.astype(np.float64)
    floor = N * EPS * float(left.max())
    factor = np.empty((M if goal is None else min(M, 8 * BLOCK), N))
    chosen = np.empty(M, dtype=np.int64)
    variances, traces = np.empty(M), np.zeros(M + 1)
    traces[0] = left.sum()
    t = 0
    while t < M and left.max() > floor and not (goal is not None and traces[t] <= goal):
        near = _candidates(left)
        some = _choose(rows, left, factor[:t], near, min(BLOCK, M - t), floor, groups)
        end = t + some.indices.size
        if end > factor.shape[0]:
            factor = np.concatenate([factor[:t], np.empty((min(M, 2 * end) - t, N))])
        chosen[t:end], variances[t:end] = some.indices, some.variances
        traces[t + 1 : end + 1] = extend(rows, factor, left, t, some, groups)
        t = end
        if goal is not None:
            reached = np.flatnonzero(traces[: t + 1] <= goal)
            t = int(reached[0]) if reached.size else t
    return Pivoted(chosen[:t], factor[:t], variances[:t], traces[: t + 1], float(left.max()))


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The points of largest variance, increasing; no other has more than ``edge``, and the first that has it is
    ``barrier``.
    """

    columns: Indices | slice
    indices: Indices
    edge: float
    barrier: int


@dataclass(frozen=True, eq=False)
class Choice:
    """Points chosen between two passes, their variances, and the lower triangle of V's new rows at them."""

    indices: Indices
    variances: Float
    triangle: Float


def _candidates(left: Float) -> _Candidates:
    N = left.size
    size = max(CANDIDATES, N // BLOCK)
    if size >= N:
        return _Candidates(slice(None), np.arange(N), -np.inf, N)
    edge = float(np.partition(left, N - size)[N - size])
    above, tied = np.flatnonzero(left > edge), np.flatnonzero(left == edge)
    room = size - above.size
    near = np.sort(np.concatenate([above, tied[:room]]))
    return _Candidates(near, near, edge, int(tied[room]) if tied.size > room else N)


def _choose(
    rows: Rows, left: Float, factor: Float, near: _Candidates, most: int, floor: float, groups: Indices | None
) -> Choice:
    """Greedy among the candidates, until one outside might have more variance."""
    left, before = left[near.columns], factor[:, near.columns]
    twins = near.indices if groups is None else groups[near.columns]
    new = np.empty((most, left.size))
    places, variances = np.empty(most, dtype=np.int64), np.empty(most)
    b = 0
    while b < most:
        j = int(left.argmax())
        i = near.indices[j]
        if left[j] <= floor or left[j] < near.edge or (left[j] == near.edge and i >= near.barrier):
            break
        row = rows(near.indices[j : j + 1], near.columns)[0] - before[:, j] @ before - new[:b, j] @ new[:b]
        new[b] = row / np.sqrt(left[j])
        places[b], variances[b] = j, left[j]
        left = left - new[b] ** 2
        b += 1
        left[np.isin(twins, twins[places[:b]])] = 0.0
    return Choice(near.indices[places[:b]], variances[:b], np.tril(new[:b, places[:b]].T))


def extend(rows: Rows, factor: Float, left: Float, t: int, some: Choice, groups: Indices | None) -> Float:
    """Write V's new rows, bring all variances up to date, and return Tr(K − Q) after each new point."""
    from scipy.linalg.blas import dtrsm

    N, b = left.size, some.indices.size
    weights = np.ascontiguousarray(factor[:t, some.indices].T)
    traces = np.zeros(b)
    gone = np.full(N, b)
    for s in range(b):
        gone[some.indices[s] if groups is None else groups == groups[some.indices[s]]] = s
    for start in range(0, N, CHUNK):
        part = slice(start, min(start + CHUNK, N))
        new = np.ascontiguousarray(rows(some.indices, part))
        if t:
            new -= weights @ factor[:t, part]
        new = dtrsm(1.0, some.triangle, new.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        factor[t : t + b, part] = new
        variance, drops = left[part], gone[part]
        some_drop = bool((drops < b).any())
        for s in range(b):
            variance -= new[s] ** 2
            if some_drop:
                variance[drops <= s] = 0.0
            traces[s] += np.maximum(variance, 0.0).sum()
        np.maximum(variance, 0.0, out=variance)
    return traces
