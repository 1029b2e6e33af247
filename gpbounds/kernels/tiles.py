"""Products with K + σ²I by tiles of K, which is stored if it fits in the memory given, else computed for each product.

K is symmetric: tiles of its lower triangle serve twice, while they are in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.kernels.base import Kernel
from gpbounds.linalg.parallel import one_blas_thread, share
from gpbounds.linalg.workspace import Workspace

ENTRIES = 2**22
"""Entries of a block of rows of K that a worker computes at a time."""
ROWS = 256
"""Most rows of such a block."""
STORED, COMPUTED = (256, 512), (512, 1024)
"""Rows and columns of a tile: where K is stored, it should fit in the cache of a core; else its computation counts."""
GROUPS = 8
"""Groups of tiles whose products are added up separately, so that lanes can share them, in an order of their own."""
_SUMS = 2**24
"""Largest number of entries in the sums of all groups together, unless there are only two groups."""


class Products:
    """V ↦ (K + σ²I)V for rows X (N, D).  A product costs 2N²m flops, and N²/2 kernel entries unless K is stored.

    ``memory`` is in bytes: K is stored if 4N² is at most that.  ``space`` is memory that later calls may reuse.

    Attributes
    ----------
    parts : list of slice
        The rows of each block.
    entry_error : float
        Relative error of an entry of K in `times`, beyond that of `Kernel.fill`: 0 where K is stored.

    >>> from gpbounds.kernels import SquaredExponential
    >>> K = Products(SquaredExponential(), np.array([[0.0], [1.0]]), noise=0.5)
    >>> K.times(np.eye(2)).round(3)
    array([[1.5  , 0.607],
           [0.607, 1.5  ]])
    """

    def __init__(
        self, kernel: Kernel, X: Array, *, noise: float, memory: float = 2.0**31, space: Workspace | None = None
    ) -> None:
        self.kernel, self.X, self.noise = kernel, X, noise
        xp, N = namespace(X), int(X.shape[0])
        self.parts = _cut(N, max(1, min(ROWS if xp is np else N, ENTRIES // N)))
        self._stored: list[Array] | None = None
        ends = np.cumsum([0, *((part.stop - part.start) * part.stop for part in self.parts)])
        if 8.0 * float(ends[-1]) <= memory:
            whole = (Workspace() if space is None else space).array("K", (int(ends[-1]),), xp)
            pieces = zip(self.parts, ends[:-1], ends[1:], strict=True)
            stored = [whole[int(start) : int(stop)].reshape(-1, part.stop) for part, start, stop in pieces]
            self._shared(len(stored), lambda number, worker: self._fill(number, stored[number]))
            self._stored = stored
        self.entry_error = 0.0 if self._stored else kernel.products_error(int(X.shape[1]))
        rows, self._columns = (STORED if self._stored else COMPUTED) if xp is np else (N, N)
        self._strips = self.parts if self._stored or xp is not np else _cut(N, rows)

    def block(self, number: int) -> Array:
        """k(X[i:j], X[:j]) for [i, j) = ``parts[number]``, which must not be changed."""
        if self._stored is not None:
            return self._stored[number]
        part = self.parts[number]
        return self._fill(number, namespace(self.X).empty((part.stop - part.start, part.stop)))

    def times(self, V: Array) -> Array:
        """(K + σ²I)V for V (N, m)."""
        return self._times(V, np.float64)

    def times_single(self, V: Array) -> Array:
        """(K + σ²I)V, whose sums over the rows of a tile are in single precision."""
        xp = namespace(V)
        largest = xp.abs(V).max(axis=0)
        sizes = xp.where(largest > 0.0, largest, 1.0)
        return self._times(V / sizes, np.float32) * sizes

    def _times(self, V: Array, dtype: Any) -> Array:
        xp, strips, N = namespace(V), self._strips, int(self.X.shape[0])
        rows_of_V = xp.ascontiguousarray(V, dtype=dtype)
        transposed = xp.ascontiguousarray(V.T, dtype=dtype)
        # K[i, j]V[j] is computed as its transpose: BLAS is faster on few long rows than on few columns.
        direct = self.noise * V.T
        count = min(len(strips), max(2, min(GROUPS, _SUMS // max(V.size, 1))))
        sums = [xp.zeros(V.shape) for _ in range(count)]

        def add(group: int, worker: int) -> None:
            space = None
            for number in range(group, len(strips), count):
                rows = strips[number]
                if space is None and self._stored is None:
                    space = xp.empty(COMPUTED[0] * COMPUTED[1] if xp is np else N * (rows.stop - rows.start))
                own = self._tile(number, rows, space).astype(dtype, copy=False)
                part = transposed[:, rows] @ own.T
                for columns in _cut(rows.start, self._columns):
                    K = self._tile(number, columns, space).astype(dtype, copy=False)
                    part += transposed[:, columns] @ K.T
                    sums[group][columns] += K.T @ rows_of_V[rows]
                direct[:, rows] += part

        self._shared(count, add)
        total = sums[0]
        for part in sums[1:]:
            total += part
        total += direct.T
        return total

    def _tile(self, number: int, columns: slice, space: Array | None) -> Array:
        """k(X[I], X[J]), I the rows of this strip and J = ``columns``; symmetric for J = I."""
        rows = self._strips[number]
        if self._stored is not None:
            return self._stored[number][:, columns]
        assert space is not None
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        out = space[: shape[0] * shape[1]].reshape(shape)
        if columns == rows:
            return self.kernel.fill(self.X[rows], self.X[rows], out)
        return self.kernel.fill_products(self.X[rows], self.X[columns], out)

    def _fill(self, number: int, out: Array) -> Array:
        part = self.parts[number]
        return self.kernel.fill(self.X[part], self.X[: part.stop], out)

    def _shared(self, count: int, run: Callable[[int, int], object]) -> None:
        """Lanes share the tasks of a large K; BLAS uses one thread for each."""
        if namespace(self.X) is np and int(self.X.shape[0]) ** 2 >= ENTRIES:
            share(count, run)
        else:
            with one_blas_thread():
                for number in range(count):
                    run(number, 0)


def additions(N: int) -> int:
    """At least the number of additions in an entry of `Products.times`: within a tile, over tiles, groups and parts."""
    rows, columns = STORED[0], COMPUTED[1]
    return columns + 2 * -(-N // rows) + GROUPS + 8


def _cut(stop: int, size: int) -> list[slice]:
    """0 … stop − 1 in slices of ``size``; the last may be shorter."""
    return [slice(start, min(start + size, stop)) for start in range(0, stop, size)]
