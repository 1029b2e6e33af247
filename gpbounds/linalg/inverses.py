"""The inverse of A = L Lᵀ by tiles of rows, in the memory of L; on NumPy in lanes, on CuPy at once."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.linalg import blas
from gpbounds.linalg.parallel import share
from gpbounds.linalg.triangular import PanelMemory, inverse_factor, inverse_rows, tiles


class Inverse:
    """A⁻¹ from U = L⁻ᵀ, which takes the place of the zeros of L.

    Attributes
    ----------
    parts : list of slices
        The rows of each tile.
    """

    def __init__(self, L: Float) -> None:
        """Overwrite the zeros of ``L`` outside its diagonal tiles; solves with L still work."""
        self.parts, self._L = tiles(L.shape[0]), L
        self._panels, self._results = PanelMemory(L.shape[0]), PanelMemory(L.shape[0])
        self._corners = [np.zeros((0, 0))] * len(self.parts)

        def write(number: int, panel: Float) -> None:
            rows, n = self.parts[number], panel.shape[0]
            self._corners[number] = panel[:, :n].copy()
            L[rows, rows.stop :] = panel[:, n:]

        inverse_rows(L, write)

    def _rows_of_U(self, number: int, worker: int) -> Float:
        rows, corner = self.parts[number], self._corners[number]
        n = corner.shape[0]
        panel = self._panels.take(worker, (n, self._L.shape[0] - rows.start))
        panel[:, :n], panel[:, n:] = corner, self._L[rows, rows.stop :]
        return panel

    def rows(self, number: int, worker: int) -> Float:
        """The rows of A⁻¹ in a tile (n, stop), arbitrary above the diagonal; the worker's next call overwrites them."""
        rows = self.parts[number]
        return self._product(number, self._results.take(worker, (rows.stop - rows.start, rows.stop)), worker)

    def _product(self, number: int, out: Float, worker: int) -> Float:
        start, panel = self.parts[number].start, self._rows_of_U(number, worker)
        if start:
            blas.product(panel, self._L[:start, start:].T, out[:, :start])
        blas.gram_of_rows(panel, out[:, start:])
        return out

    def squares(self) -> Float:
        """Σ_{k>i} (L⁻¹)_ki² for each i."""
        sums = np.empty(self._L.shape[0])

        def add(number: int, worker: int) -> None:
            panel = self._rows_of_U(number, worker)
            np.fill_diagonal(panel, 0.0)
            sums[self.parts[number]] = np.einsum("ij,ij->i", panel, panel)

        share(len(self.parts), add, flops=float(sums.size) ** 2)
        return sums

    def fill(self) -> Float:
        """A⁻¹ (N, N) in the memory of L."""
        A = self._L
        share(len(self.parts), lambda number, worker: self._below(number, worker), flops=A.shape[0] ** 3 / 3.0)

        def mirror(number: int, worker: int) -> None:
            rows = self.parts[number]
            A[: rows.start, rows] = A[rows, : rows.start].T

        share(len(self.parts), mirror, flops=float(A.shape[0]) ** 2)
        return A

    def _below(self, number: int, worker: int) -> None:
        rows = self.parts[number]
        corner = self._product(number, self._L[rows, : rows.stop], worker)[:, rows]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T


class Whole:
    """A⁻¹ on CuPy, as one tile; the caller tests the Cholesky factor, before or after."""

    def __init__(self, L: Array) -> None:
        self.parts, self._inverse = [slice(0, L.shape[0])], inverse_factor(L, checked=True)

    def rows(self, number: int, worker: int) -> Array:
        """A⁻¹ (N, N): the one tile holds all rows."""
        return self.fill()

    def squares(self) -> Array:
        """Σ_{k>i} (L⁻¹)_ki² for each i."""
        below = namespace(self._inverse).tril(self._inverse, -1)
        return (below * below).sum(axis=0)

    def fill(self) -> Array:
        """A⁻¹ (N, N)."""
        return self._inverse.T @ self._inverse


def inverse_by_rows(L: Array) -> Inverse | Whole:
    """The inverse of L Lᵀ by tiles of rows; ``L`` keeps only its entries on and below the diagonal.

    >>> L = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> np.tril(inverse_by_rows(L).rows(0, worker=0))
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    return Inverse(L) if namespace(L) is np and blas.fits(L) else Whole(L)


def inverse(L: Array) -> Array:
    """(L Lᵀ)⁻¹, symmetric.

    >>> inverse(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5, -0.5],
           [-0.5,  1. ]])
    """
    return inverse_by_rows(np.tril(L) if namespace(L) is np else L).fill()
