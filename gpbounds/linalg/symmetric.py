"""Products with a symmetric matrix given by blocks of rows: each entry is computed once, and kept if that fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from gpbounds.arrays import Float

ROWS = 512
"""Rows of a block."""
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
        self._kept: list[Float] | None = [] if 4 * N * (N + ROWS) <= KEPT else None

    def __call__(self, V: Float) -> Float:
        """AV for V (N, P)."""
        result = np.zeros((self.N, V.shape[1]))
        for start, A in self._blocks():
            stop = start + A.shape[0]
            result[start:stop] += A @ V[start:]
            result[stop:] += A[:, stop - start :].T @ V[start:stop]
        return result

    def _blocks(self) -> Iterator[tuple[int, Float]]:
        starts = range(0, self.N, ROWS)
        if self._kept and len(self._kept) == len(starts):
            yield from zip(starts, self._kept, strict=True)
            return
        computed = []
        for start in starts:
            A = self.block(slice(start, min(start + ROWS, self.N)), slice(start, self.N))
            if self._kept is not None:
                computed.append(A)
            yield start, A
        if self._kept is not None:
            self._kept = computed
