"""Pivoted Cholesky in blocks: exactly the greedy order, at the speed of matrix products.

Greedy choice needs the variances K_ii − |v_i|² of all N points after every step, V = L⁻¹K_Zf.  Each step then needs a
product with the t × N factor, which is limited by memory bandwidth.  But variances only decrease, so old values are
upper bounds.  The algorithm updates the N/32 points with the largest variances after every step.  While the largest of
them is at least the largest upper bound of the other points, it is the greedy choice.  The other points are updated
once for up to 32 choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Array, Float, Indices, host, namespace
from gpbounds.errors import NonFinite
from gpbounds.linalg.parallel import ENTRY, one_blas_thread, share
from gpbounds.linalg.psd import Eigen, clipped, eigen, eigenvalue_rounding

Rows = Callable[[Indices, Indices | slice], Float]
"""Rows of the kernel matrix: (b,) row numbers and columns -> (b, n)."""

BLOCK = 32
"""Largest number of choices between two updates of all N points."""
CANDIDATES = 1024
"""Least number of points updated after every step; it is N/BLOCK if that is larger."""
_OFTEN = 4
"""All of K − VᵀV is kept for N ≤ CANDIDATES points of which at least N/_OFTEN are chosen."""
CHUNK = 2**12
"""Columns updated at a time; 32 rows of them fit into a cache."""


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
        The variance of each point when it was chosen; log|K_ZZ| is the sum of their logarithms.
    traces : array (m + 1,)
        Tr(K − Q) of the first 0, 1, …, m points.
    residual : array (N,)
        The variances K_ii − |v_i|² that remain.
    """

    indices: Indices
    factor: Float
    variances: Float
    traces: Float
    residual: Float

    @property
    def left(self) -> float:
        """The largest residual variance."""
        return float(self.residual.max())

    @property
    def log_det(self) -> float:
        """log|K_ZZ|."""
        return float(np.log(self.variances).sum())

    def require(self, M: int) -> Pivoted:
        """Return self if it has M points; otherwise raise an error with the number of points."""
        if self.indices.size < M:
            raise too_few(self.indices.size, M, self.left)
        return self


def too_few(m: int, M: int, left: float) -> ValueError:
    """The error for a kernel matrix of numerical rank m < M, with variances of at most ``left`` beyond it."""
    return ValueError(
        f"M: expected at most {m} points, got {M}: given {m} points the largest residual variance is "
        f"{left:.3g}, rounding error. Use {m} points; duplicates and long lengthscales lower the rank"
    )


@one_blas_thread()
def pivoted(
    rows: Rows,
    diagonal: Float,
    M: int,
    target: float | None = None,
    groups: Indices | None = None,
    before: Pivoted | None = None,
) -> Pivoted:
    """Choose at most M points, each with the largest variance given the earlier ones; ties go to the least index.

    The function stops as soon as Tr(K − Q) ≤ ``target``, with the fewest points that reach it, or if the largest
    residual variance falls to N·eps·max K_ii.  It needs N M² flops and an M × N factor; with a ``target`` the factor
    grows with the number of points.  Inputs with equal numbers in ``groups`` are equal, and the function chooses at
    most one of them.  ``before`` is an earlier choice of fewer points, without a target; its points come first.

    >>> K = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 0.5]])
    >>> choice = pivoted(lambda picked, columns: K[picked][:, columns], K.diagonal(), 3, target=0.2)
    >>> choice.indices, choice.traces.round(4)
    (array([0, 2]), array([2.5 , 0.69, 0.17]))
    """
    N, left = diagonal.size, diagonal.astype(np.float64)
    floor = N * EPS * float(left.max())
    factor = np.empty((M if target is None else min(M, 8 * BLOCK), N))
    chosen = np.empty(M, dtype=np.int64)
    variances, traces = np.empty(M), np.zeros(M + 1)
    traces[0] = left.sum()
    t = 0
    if before is not None:
        t, left = before.indices.size, before.residual.copy()
        chosen[:t], factor[:t], variances[:t], traces[: t + 1] = (
            before.indices,
            before.factor,
            before.variances,
            before.traces,
        )
    unexplained = None  # K − VᵀV of few points, of which many are chosen
    if N <= min(CANDIDATES, _OFTEN * M):
        unexplained = rows(np.arange(N), slice(None)) - factor[:t].T @ factor[:t]

    while t < M and left.max() > floor and not (target is not None and traces[t] <= target):
        near = _candidates(left)
        choice = _choose(_remaining(rows, factor[:t], near, unexplained), left, near, min(BLOCK, M - t), floor, groups)
        end = t + choice.indices.size
        if end > factor.shape[0]:
            factor = np.concatenate([factor[:t], np.empty((min(M, 2 * end) - t, N))])
        chosen[t:end], variances[t:end] = choice.indices, choice.variances
        traces[t + 1 : end + 1] = extend(rows, factor, left, t, choice, groups)
        if unexplained is not None and end < M:
            unexplained -= factor[t:end].T @ factor[t:end]
        t = end
        if target is not None:
            reached = np.flatnonzero(traces[: t + 1] <= target)
            t = int(reached[0]) if reached.size else t
    return Pivoted(chosen[:t], factor[:t], variances[:t], traces[: t + 1], left)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The points of largest variance, in increasing order; the others have at most ``edge``, ``barrier`` the first of
    those with exactly ``edge``.
    """

    columns: Indices | slice
    indices: Indices
    edge: float
    barrier: int


@dataclass(frozen=True, eq=False)
class Choice:
    """Points chosen between two updates, their variances, and the lower triangle of V's new rows at them."""

    indices: Indices
    variances: Float
    triangle: Float


def _candidates(residual: Float) -> _Candidates:
    N = residual.size
    size = max(CANDIDATES, N // BLOCK)
    if size >= N:
        return _Candidates(slice(None), np.arange(N), -np.inf, N)
    edge = float(np.partition(residual, N - size)[N - size])
    above, tied = np.flatnonzero(residual > edge), np.flatnonzero(residual == edge)
    ties_kept = size - above.size
    near = np.sort(np.concatenate([above, tied[:ties_kept]]))
    return _Candidates(near, near, edge, int(tied[ties_kept]) if tied.size > ties_kept else N)


def _remaining(rows: Rows, factor: Float, near: _Candidates, unexplained: Float | None) -> Callable[[int], Float]:
    """The row of K − VᵀV at candidate j, for the candidates' columns."""
    if unexplained is not None:
        return unexplained.__getitem__
    before = factor[:, near.columns]
    return lambda j: rows(near.indices[j : j + 1], near.columns)[0] - before[:, j] @ before


def _choose(
    row: Callable[[int], Float], left: Float, near: _Candidates, most: int, floor: float, groups: Indices | None
) -> Choice:
    """Greedy choice among the candidates, until another point might have a larger variance."""
    left = left[near.columns]
    taken = np.zeros(left.size, dtype=bool)
    twins = near.indices if groups is None else groups[near.columns]
    new = np.empty((most, left.size))
    places, variances = np.empty(most, dtype=np.int64), np.empty(most)
    b = 0
    while b < most:
        j = int(left.argmax())
        i = near.indices[j]
        if left[j] <= floor or left[j] < near.edge or (left[j] == near.edge and i >= near.barrier):
            break
        new[b] = (row(j) - new[:b, j] @ new[:b]) / np.sqrt(left[j])
        places[b], variances[b] = j, left[j]
        left = left - new[b] ** 2
        b += 1
        taken |= twins == twins[j]
        left[taken] = 0.0
    return Choice(near.indices[places[:b]], variances[:b], np.tril(new[:b, places[:b]].T))


def extend(rows: Rows, factor: Float, left: Float, t: int, choice: Choice, groups: Indices | None) -> Float:
    """Write V's new rows, update all variances, and return Tr(K − Q) after each new point; lanes share the columns."""
    from scipy.linalg.blas import dtrsm

    N, b = left.size, choice.indices.size
    weights = np.ascontiguousarray(factor[:t, choice.indices].T)
    gone = np.full(N, b)
    for s in range(b):
        gone[choice.indices[s] if groups is None else groups == groups[choice.indices[s]]] = s
    starts = range(0, N, CHUNK)
    traces = np.zeros((len(starts), b))

    def update(number: int, worker: int) -> None:
        part = slice(starts[number], min(starts[number] + CHUNK, N))
        new = np.ascontiguousarray(rows(choice.indices, part))
        if t:
            new -= weights @ factor[:t, part]
        new = dtrsm(1.0, choice.triangle, new.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        factor[t : t + b, part] = new
        variance, drops = left[part], gone[part]
        some_drop = bool((drops < b).any())
        for s in range(b):
            variance -= new[s] ** 2
            if some_drop:
                variance[drops <= s] = 0.0
            traces[number, s] = np.maximum(variance, 0.0).sum()
        np.maximum(variance, 0.0, out=variance)

    share(len(starts), update, flops=N * b * (2.0 * t + ENTRY))
    return np.asarray(traces.sum(axis=0))


# Eigenvalues of a symmetric matrix, and the squared components of vectors in its eigenbasis, without eigenvectors.


def eigen_squares(A: Array, Y: Array, name: str = "matrix") -> tuple[Eigen, Float]:
    """(eigenvalues, squares) of a symmetric PSD A (n, n): squares_i = Σ_p (v_iᵀy_p)², largest eigenvalue first.

    A = H T Hᵀ with a tridiagonal T, whose eigenvectors W cost O(n²); the components are those of Wᵀ(HᵀY), so that the
    eigenvectors of A, two thirds of the work, are never formed.  If eigenvalues are equal up to rounding, only the sum
    of their squares is determined, not each square.  Errors as :func:`gpbounds.linalg.eigen`.

    >>> spectrum, squares = eigen_squares(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[1.0], [0.0]]))
    >>> spectrum.values.round(12), squares.round(12)
    (array([3., 1.]), array([0.5, 0.5]))
    """
    xp, n = namespace(A, Y), A.shape[0]
    if xp is not np or n < 3:
        return _with_vectors(A, Y, name)
    from scipy.linalg import eigh_tridiagonal
    from scipy.linalg.lapack import dormqr, dsytrd

    if not np.isfinite(A).all():
        raise NonFinite(f"{name}: expected finite entries, got NaN or infinity")
    with one_blas_thread():
        packed, diagonal, beside, tau, _ = dsytrd(A.T, lower=1, lwork=64 * n)
        rotated = np.asfortranarray(Y, dtype=np.float64).copy(order="F")
        # the reflections act on rows 1 ... n - 1
        rotated[1:], _, _ = dormqr("L", "T", packed[1:, :-1], tau, np.asfortranarray(rotated[1:]), 64 * Y.shape[1])
        try:
            values, W = eigh_tridiagonal(diagonal, beside, lapack_driver="stemr")
        except np.linalg.LinAlgError:  # "stemr" fails on some matrices that are nearly diagonal
            return _with_vectors(A, Y, name)
        components = W.T @ rotated
    spectrum = clipped(values[::-1], None, eigenvalue_rounding(values, EPS), name)
    return spectrum, (components**2).sum(axis=1)[::-1]


def _with_vectors(A: Array, Y: Array, name: str) -> tuple[Eigen, Float]:
    spectrum = eigen(A, name, vectors=True)
    assert spectrum.vectors is not None
    return spectrum, np.asarray(host(((spectrum.vectors.T @ Y) ** 2).sum(axis=1)))


# Products with a symmetric matrix given by blocks of rows: each entry is computed once, and kept if that fits.

ROWS = 512
"""Rows of a block."""
GROUPS = 8
"""Number of groups of blocks; each adds up its products in memory of its own."""
KEPT = 2**31
"""Bytes of blocks that are kept between products: half the matrix fits up to N = 23 000."""


class SymmetricProducts:
    """V ↦ AV for a symmetric A (N, N), from the blocks on and right of its diagonal.

    Parameters
    ----------
    block : function
        (rows, columns) ↦ A[rows, columns], two slices.
    N : int

    >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> SymmetricProducts(lambda rows, columns: A[rows, columns], 2)(np.eye(2))
    array([[2., 1.],
           [1., 3.]])
    """

    def __init__(self, block: Callable[[slice, slice], Float], N: int) -> None:
        self.block, self.N = block, N
        self._starts = range(0, N, ROWS)
        self._kept: list[Float | None] | None = [None] * len(self._starts) if 4 * N * (N + ROWS) <= KEPT else None

    def __call__(self, V: Float) -> Float:
        """AV for V (N, P); lanes share the blocks, whose sums are merged in a fixed order."""
        parts = [range(first, len(self._starts), GROUPS) for first in range(min(GROUPS, len(self._starts)))]
        sums = np.zeros((len(parts), self.N, V.shape[1]))

        def multiply(group: int, worker: int) -> None:
            for number in parts[group]:
                start, A = self._starts[number], self._rows(number)
                stop = start + A.shape[0]
                sums[group, start:stop] += A @ V[start:]
                sums[group, stop:] += A[:, stop - start :].T @ V[start:stop]

        share(len(parts), multiply)
        return np.asarray(sums.sum(axis=0))

    def _rows(self, number: int) -> Float:
        """The rows of a block, on and right of the diagonal."""
        kept = None if self._kept is None else self._kept[number]
        if kept is not None:
            return kept
        start = self._starts[number]
        A = self.block(slice(start, min(start + ROWS, self.N)), slice(start, self.N))
        if self._kept is not None:
            self._kept[number] = A
        return A
