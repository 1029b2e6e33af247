"""Products with K + σ²I: K is stored if it fits in the memory given, else computed in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg.parallel import lanes, one_blas_thread, share
from gpbounds.linalg.workspace import Workspace

ENTRIES = 2**22
"""Entries of a block of K that a worker computes at a time."""
ROWS = 256
"""Most rows of such a block."""


class Products:
    """V ↦ (K + σ²I)V for rows X (N, D).  A product costs 2N²m flops, and N² kernel entries unless K is stored.

    ``memory`` is in bytes: K is stored if 8N² is at most that.  ``space`` is memory that later calls may reuse.

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
        N = int(X.shape[0])
        rows = max(1, min(ROWS if namespace(X) is np else N, ENTRIES // N))
        self.parts = [slice(start, min(start + rows, N)) for start in range(0, N, rows)]
        self.stored: Array | None = None
        if 8.0 * N * N <= memory:
            self.stored = (Workspace() if space is None else space).array("K", (N, N), namespace(X))
            self._each(lambda rows, K: None)

    def times(self, V: Array) -> Array:
        """(K + σ²I)V for V (N, m)."""
        xp = namespace(V)
        turned = xp.ascontiguousarray(V.T)  # BLAS is faster on few long rows than on few columns
        out = self.noise * turned

        def multiply(rows: slice, K: Array) -> None:
            out[:, rows] += turned @ K.T

        self._each(multiply, filled=self.stored is not None)
        return xp.ascontiguousarray(out.T)

    def _each(self, use: Any, filled: bool = False) -> None:
        """Call ``use(rows, K[rows])`` for each block of rows, computed unless ``filled``."""
        xp, N = namespace(self.X), int(self.X.shape[0])
        spare: list[Any] = [None] * (lanes() if xp is np else 1)

        def run(number: int, worker: int) -> None:
            rows = self.parts[number]
            if self.stored is not None:
                K = self.stored[rows]
            else:
                if spare[worker] is None:
                    spare[worker] = xp.empty((self.parts[0].stop, N))
                K = spare[worker][: rows.stop - rows.start]
            use(rows, K if filled else self.kernel.fill(self.X[rows], self.X, K))

        if xp is np and N * N >= ENTRIES:
            share(len(self.parts), run)
        else:
            with one_blas_thread():
                for number in range(len(self.parts)):
                    run(number, 0)
