"""Features: maps to R^rank, fitted once, whose inner products approximate a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, as_points, namespace
from gpbounds.kernels import Periodic, Stationary
from gpbounds.validation import count

BLOCK = 2**20
"""Numbers in a block of features, 8 MB; on a GPU blocks are 16 times as large."""


class Features(ABC):
    """A map φ: R^D → R^rank with φ(x)ᵀφ(x') ≈ k(x, x'); for N rows the matrix Ξ with ΞΞᵀ ≈ K.

    ``fit`` determines everything that depends on the inputs; calling the fitted features returns Ξ.

    Attributes
    ----------
    kernel : Stationary or Periodic
    rank : int
        Number of columns of Ξ.
    """

    def __init__(self, kernel: Stationary | Periodic, rank: int) -> None:
        self.kernel = kernel
        self.rank = count("rank", rank)
        self._dim: int | None = None

    def fit(self, X: ArrayLike | Array) -> Self:
        """Fit the map to inputs ``X`` (N, D) and return the features; a second call replaces the first."""
        points = as_points(X)
        self._learn(points)
        self._dim = int(points.shape[1])
        return self

    def __call__(self, X: ArrayLike | Array) -> Array:
        """Ξ, shape (N, rank), for the rows of ``X`` (N, D), on their device and in their precision.

        Raises
        ------
        ValueError
            before ``fit``, or for a different number of columns than ``fit`` saw.
        NonFinite
            for NaN or infinity in ``X``.
        """
        points = self._points(X)
        xp = namespace(points)
        out = xp.empty((points.shape[0], self.rank), dtype=points.dtype)
        self._write(points, out, max(8, (BLOCK if xp is np else 16 * BLOCK) // self.rank))
        return out

    def _fitted(self) -> int:
        """The number of dimensions."""
        if self._dim is None:
            raise ValueError(
                f"{type(self).__name__}: expected fitted features, got a call before fit(X): call "
                "features.fit(X), which returns the features, first"
            )
        return self._dim

    def _points(self, X: ArrayLike | Array) -> Array:
        return as_points(X, dim=self._fitted())

    @abstractmethod
    def _learn(self, points: Array) -> None:
        """Fix the map."""

    @abstractmethod
    def _write(self, points: Array, out: Array, rows: int) -> None:
        """Fill ``out`` (N, rank), about ``rows`` rows at a time."""
