"""Cholesky factors and their inverses in lanes, on NumPy.

A matrix is cut into tiles of rows and columns.  Their number depends on its size only, each is computed by one thread,
and each sum has one order: results are the same to the last bit for any number of lanes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpbounds.arrays import Float
from gpbounds.linalg import blas
from gpbounds.linalg.parallel import share

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
    N, parts = L.shape[0], tiles(L.shape[0])
    panels = Panels(N)

    def solve(number: int, worker: int) -> None:
        rows = parts[number]
        n = rows.stop - rows.start
        panel = panels.take(worker, (n, N - rows.start))
        panel[:, :n] = np.eye(n)
        panel[:, n:] = 0.0
        blas.solve(L[rows.start :, rows.start :], panel, transposed=False)
        write(number, panel)

    share(len(parts), solve, flops=N**3 / 3.0)


class Panels:
    """Memory for a tile of rows of an N × N matrix in each worker."""

    def __init__(self, N: int) -> None:
        self.size = N * max(rows.stop - rows.start for rows in tiles(N))
        self.kept: dict[int, Float] = {}

    def take(self, worker: int, shape: tuple[int, int]) -> Float:
        """An array of ``shape`` with arbitrary entries; the next call for this worker takes the same memory."""
        if worker not in self.kept:
            self.kept[worker] = np.empty(self.size)
        return self.kept[worker][: shape[0] * shape[1]].reshape(shape)
