"""Solves, products and inverses of triangular matrices, in place on chunks of rows, on NumPy or CuPy.

A chunk is C-contiguous (n, M) with one vector per row: its rows b become L⁻¹b, L⁻ᵀb, Tb.  On a CPU
`gpbounds.linalg.blas` does the work, on a GPU CuPy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpbounds.arrays import Array, Float, exactly, kind_of_caller, namespace
from gpbounds.linalg import blas, device
from gpbounds.linalg.parallel import WORTH, one_blas_thread, share

# Cholesky factors and their inverses in lanes, on NumPy.
#
# A matrix is cut into tiles of rows and columns.  Their number depends on its size only, each is computed by one
# thread, and each sum has one order: results are the same to the last bit for any number of lanes.

TILE = 192
"""Rows of a tile; a matrix with fewer than three such tiles is one tile."""

WHOLE = 640
"""Largest matrix that one thread factorises or inverts sooner than two lanes do by tiles."""


def tiles(N: int) -> list[slice]:
    """The rows of each tile of N rows.

    >>> tiles(300), len(tiles(600))
    ([slice(0, 300, None)], 4)
    """
    size = TILE if N > 2 * TILE else max(N, 1)
    return [slice(start, min(start + size, N)) for start in range(0, N, size)]


def factorise(A: Float) -> bool:
    """Overwrite ``A`` (N, N) with its Cholesky factor, 0 above the diagonal; False if A is not positive definite.

    Only the entries on and below the diagonal are read.

    >>> A = np.array([[4.0, 9.0], [2.0, 3.0]])
    >>> factorise(A), A.round(4).tolist()
    (True, [[2.0, 0.0], [1.0, 1.4142]])
    """
    parts = tiles(A.shape[0]) if A.shape[0] > WHOLE else [slice(0, A.shape[0])]
    places = [(i, j) for j in range(len(parts)) for i in range(j, len(parts))]
    number = {place: task for task, place in enumerate(places)}
    failed = np.zeros(len(parts), dtype=bool)

    def run(task: int, worker: int) -> None:
        i, j = places[task]
        rows, columns = parts[i], parts[j]
        if failed[: j + 1].any():
            return
        tile, above = A[rows, columns], A[columns, : columns.start]
        if i == j:
            failed[j] = not blas.factorise_tile(above, tile)
            blas.clear_above(tile)
            return
        if j:
            blas.product(A[rows, : columns.start], above.T, tile, keep=1.0, scale=-1.0)
        blas.solve(A[columns, columns], tile, transposed=False)
        A[columns, rows] = 0.0

    share(len(places), run, [_before(number, i, j) for i, j in places], flops=A.shape[0] ** 3 / 3.0)
    return not failed.any()


def _before(number: dict[tuple[int, int], int], i: int, j: int) -> list[int]:
    """The tasks before tile (i, j): its left neighbour, and the factor of the diagonal tile above it."""
    neighbour = [number[i, j - 1]] if j else []
    return neighbour if i == j else [*neighbour, number[j, j]]


def inverse_rows(L: Float, write: Callable[[int, Float], None]) -> None:
    """Call ``write(number, panel)`` for each tile of L⁻ᵀ's rows: panel (n, N − start) begins at their diagonal tile.

    The call may change the panel, and must not change ``L``.
    """
    # Products with inverses of the diagonal tiles take less time than a triangular solve, whose kernels are slower.
    N, parts = L.shape[0], tiles(L.shape[0])
    panels, corners = PanelMemory(N), [inverse_factor(L[rows, rows], checked=True) for rows in parts]

    def solve(number: int, worker: int) -> None:
        start, n = parts[number].start, len(corners[number])
        panel = panels.take(worker, (n, N - start))
        panel[:, :n] = corners[number].T
        for below, corner in zip(parts[number + 1 :], corners[number + 1 :], strict=True):
            before, tile = panel[:, : below.start - start], panel[:, below.start - start : below.stop - start]
            blas.product(before, L[below, start : below.start].T, tile, scale=-1.0)
            blas.multiply(corner, tile, transposed=False)
        write(number, panel)

    share(len(parts), solve, flops=N**3 / 3.0)


class PanelMemory:
    """Memory for a tile of rows of an N × N matrix in each worker."""

    def __init__(self, N: int) -> None:
        self.size = N * max(rows.stop - rows.start for rows in tiles(N))
        self.kept: dict[int, Float] = {}

    def take(self, worker: int, shape: tuple[int, int]) -> Float:
        """An array of ``shape`` with arbitrary entries; the next call for this worker takes the same memory."""
        if worker not in self.kept:
            self.kept[worker] = np.empty(self.size)
        return self.kept[worker][: shape[0] * shape[1]].reshape(shape)


# Solves, products and inverses of triangular matrices, in place on chunks of rows, on NumPy or CuPy.

ROWS = 256
"""Rows of a chunk that one worker takes at a time."""
COLUMNS = 128
"""Right-hand sides that one worker solves at a time."""
NARROW = 64
"""Rows that a symmetric matrix is mirrored by."""
_LEAF = 128
"""Largest matrix that LAPACK inverts; larger ones are halved, which takes half of the time at 500."""


@kind_of_caller
def solve_triangular(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """L⁻¹B, or L⁻ᵀB, for a lower triangular L.

    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]))
    array([1., 2.])
    """
    L, B = exactly("L", L), exactly("B", B)
    if namespace(L, B) is not np:
        from cupyx.scipy.linalg import solve_triangular as solve

        return solve(L, B, lower=True, trans=1 if transposed else 0, check_finite=False)
    if B.ndim == 2 and blas.fits(L) and B.dtype == np.float64 and L.shape[0] * B.size >= WORTH:
        turned = np.array(B.T, order="C")
        parts = [turned[start : start + COLUMNS] for start in range(0, turned.shape[0], COLUMNS)]
        share(
            len(parts),
            lambda number, worker: blas.solve(L, parts[number], transposed),
            flops=float(L.shape[0] * B.size),
        )
        return turned.T
    from scipy.linalg import solve_triangular as solve

    with one_blas_thread():
        return solve(L, B, lower=True, trans=1 if transposed else 0, check_finite=False)


def solve_rows(L: Array, B: Array) -> Array:
    """Overwrite the rows b of ``B`` (n, M) with L⁻¹b, and return it.

    >>> solve_rows(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[2.0, 3.0]]))
    array([[1., 2.]])
    """
    return _triangular(L, B, transposed=False)


def lift_rows(L: Array, B: Array) -> Array:
    """Overwrite the rows b of ``B`` (n, M) with L⁻ᵀb, and return it.

    >>> lift_rows(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[4.0, 2.0]]))
    array([[1., 2.]])
    """
    return _triangular(L, B, transposed=True)


def _triangular(L: Array, B: Array, transposed: bool) -> Array:
    if blas.fits(L, B):
        _by_rows(lambda rows: blas.solve(L, rows, transposed), B, False)
        return B
    if device.fits(L, B) and L.flags.c_contiguous and B.flags.c_contiguous:
        device.solve(L, B, transposed)
        return B
    B[...] = solve_triangular(L, B.T, transposed=transposed).T
    return B


def _by_rows(work: Callable[[Array], None], B: Array, whole: bool) -> None:
    """``work`` on ``B`` (n, M); lanes share the rows, unless ``whole``, if that is worth it."""
    if whole or B.size * B.shape[1] < WORTH:
        work(B)
        return
    parts = [B[start : start + ROWS] for start in range(0, B.shape[0], ROWS)]
    share(len(parts), lambda number, worker: work(parts[number]), flops=float(B.size * B.shape[1]))


def multiply_rows(T: Array, B: Array, *, transposed: bool = False, whole: bool = False) -> Array:
    """Overwrite the rows b of ``B`` (n, M) with Tb, or Tᵀb, for a lower triangular T, and return it.

    A lane's chunk goes ``whole`` to BLAS, which is faster than by the pieces that lanes would share.

    >>> multiply_rows(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[4.0, 2.0]]))
    array([[8., 6.]])
    """
    if blas.fits(T, B) or blas.fits(T, B, dtype=np.float32):
        _by_rows(lambda rows: blas.multiply(T, rows, transposed), B, whole)
    else:
        B[...] = B @ (T if transposed else T.T)
    return B


def mirrored(total: Array) -> Array:
    """The symmetric matrix with the upper triangle of ``total``.

    >>> mirrored(np.array([[1.0, 2.0], [9.0, 3.0]]))
    array([[1., 2.],
           [2., 3.]])
    """
    xp = namespace(total)
    if xp is not np:
        upper = xp.triu(total)
        upper += xp.triu(total, 1).T
        return upper
    both, below = np.array(total, order="C"), np.tri(min(NARROW, total.shape[0]), k=-1, dtype=bool)
    for start in range(0, total.shape[0], NARROW):
        rows = slice(start, min(start + NARROW, total.shape[0]))
        corner = both[rows, rows]
        np.copyto(corner, corner.T, where=below[: corner.shape[0], : corner.shape[0]])
        both[rows.stop :, rows] = both[rows, rows.stop :].T
    return both


def clear_above(A: Array) -> None:
    """Set the entries of ``A`` (n, n) above the diagonal to 0.

    >>> A = np.ones((2, 2))
    >>> clear_above(A)
    >>> A
    array([[1., 0.],
           [1., 1.]])
    """
    if blas.fits(A):
        blas.clear_above(A)
    else:
        A[...] = namespace(A).tril(A)


def inverse_factor(L: Array, out: Array | None = None, *, checked: bool = False) -> Array:
    """L⁻¹, lower triangular; in the memory of ``out`` (M, M) if it is given.

    With ``checked`` the caller knows, or tests, that the diagonal of L has no zero.

    >>> inverse_factor(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    xp = namespace(L)
    if not checked and not bool(xp.diagonal(L).all()):
        row = int(xp.diagonal(L).argmin())
        raise ValueError(f"L: expected a Cholesky factor, got a zero on its diagonal (row {row})")
    if xp is not np:
        inverted = _triangular(L, xp.eye(L.shape[0]), transposed=False).T
        if out is None:
            return inverted
        out[...] = inverted
        return out
    L = np.ascontiguousarray(L, dtype=np.float64)
    out = np.empty(L.shape) if out is None else out
    if L.shape[0] <= WHOLE:
        out[...] = L
        blas.clear_above(out)
        _invert(out)
        return out
    out[...], parts = 0.0, tiles(L.shape[0])

    def write(number: int, panel: Array) -> None:
        out[parts[number].start :, parts[number]] = panel.T

    inverse_rows(L, write)
    return out


def _invert(L: Float) -> None:
    """The lower triangular ``L`` becomes L⁻¹: [A 0; X B]⁻¹ = [A⁻¹ 0; −B⁻¹XA⁻¹ B⁻¹]."""
    n = L.shape[0]
    if n <= _LEAF:
        blas.invert(L)
        return
    first, last = slice(0, n // 2), slice(n // 2, n)
    _invert(L[first, first])
    _invert(L[last, last])
    blas.multiply(L[first, first], L[last, first], transposed=True)
    blas.multiply_columns(L[last, last], L[last, first], -1.0)
