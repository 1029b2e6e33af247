"""Products with K + σ²I: K is stored if it fits in the memory given, else computed in blocks of rows.

K is symmetric: blocks [i, j) × [0, j) of its lower triangle, and their transposes, are enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg.parallel import one_blas_thread, share
from gpbounds.linalg.workspace import Workspace

ENTRIES = 2**22
"""Entries of a block of K that a worker computes at a time."""
ROWS = 256
"""Most rows of such a block."""
GROUPS = 8
"""Groups of blocks whose products are added up separately, so that lanes can share them, in an order of their own."""
SUMS = 2**25
"""Numbers in all these groups together, unless there are only two."""


class Products:
    """V ↦ (K + σ²I)V for rows X (N, D).  A product costs 2N²m flops, and N²/2 kernel entries unless K is stored.

    ``memory`` is in bytes: K is stored if 4N² is at most that.  ``space`` is memory that later calls may reuse.

    Attributes
    ----------
    parts : list of slice
        The rows of each block.

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
        rows = max(1, min(ROWS if xp is np else N, ENTRIES // N))
        self.parts = [slice(start, min(start + rows, N)) for start in range(0, N, rows)]
        self._stored: list[Array] | None = None
        ends = np.cumsum([0, *((part.stop - part.start) * part.stop for part in self.parts)])
        if 8.0 * float(ends[-1]) <= memory:
            whole = (Workspace() if space is None else space).array("K", (int(ends[-1]),), xp)
            pieces = zip(self.parts, ends[:-1], ends[1:], strict=True)
            stored = [whole[int(start) : int(stop)].reshape(-1, part.stop) for part, start, stop in pieces]
            self._shared(len(stored), lambda number, worker: self._fill(number, stored[number]))
            self._stored = stored

    def block(self, number: int) -> Array:
        """k(X[i:j], X[:j]) for [i, j) = ``parts[number]``, which must not be changed."""
        if self._stored is not None:
            return self._stored[number]
        part = self.parts[number]
        return self._fill(number, namespace(self.X).empty((part.stop - part.start, part.stop)))

    def times(self, V: Array) -> Array:
        """(K + σ²I)V for V (N, m)."""
        xp = namespace(V)
        turned = xp.ascontiguousarray(V.T)  # BLAS is faster on few long rows than on few columns
        count = min(len(self.parts), max(2, min(GROUPS, SUMS // max(V.size, 1))))
        sums = [xp.zeros_like(turned) for _ in range(count)]

        def add(group: int, worker: int) -> None:
            for number in range(group, len(self.parts), count):
                rows, K, out = self.parts[number], self.block(number), sums[group]
                out[:, rows] += turned[:, : rows.stop] @ K.T
                if rows.start:
                    out[:, : rows.start] += turned[:, rows] @ K[:, : rows.start]

        self._shared(count, add)
        total = self.noise * turned
        for part in sums:
            total += part
        return xp.ascontiguousarray(total.T)

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
