"""A vector with a mean and the lower triangle of a matrix, row by row: the entries of a free law q(v) = N(w, CCᵀ)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import Float


def size_of(M: int) -> int:
    """Number of entries for M variables.

    >>> size_of(3)
    9
    """
    return M + M * (M + 1) // 2


@lru_cache(maxsize=4)
def _places(M: int) -> Any:
    """Where the lower triangle stands in a matrix read row by row."""
    rows, columns = np.tril_indices(M)
    return rows * M + columns


def joined(mean: Float, matrix: Float, diagonal: Float) -> Float:
    """The entries: ``mean`` (M,), and the lower triangle of ``matrix`` (M, M) with another diagonal (M,).

    >>> joined(np.array([1.0, 2.0]), np.array([[9.0, 9.0], [4.0, 9.0]]), np.array([3.0, 5.0]))
    array([1., 2., 3., 4., 5.])
    """
    M = mean.shape[0]
    entries = np.empty(size_of(M))
    entries[:M] = mean
    np.take(matrix, _places(M), out=entries[M:], mode="clip")
    entries[M:][np.cumsum(np.arange(1, M + 1)) - 1] = diagonal
    return entries


def triangle_of(entries: Float, M: int) -> Float:
    """The lower triangular matrix (M, M) of entries.

    >>> triangle_of(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2)
    array([[3., 0.],
           [4., 5.]])
    """
    matrix = np.zeros((M, M))
    matrix.reshape(-1)[_places(M)] = entries[M:]
    return matrix
