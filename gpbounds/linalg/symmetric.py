"""Products with a symmetric matrix given by blocks of rows: each entry is computed once, and kept if that fits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpbounds.arrays import Float
from gpbounds.linalg.parallel import share

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
