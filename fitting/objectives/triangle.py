"""A vector with a mean and the lower triangle of a matrix, row by row: the entries of a free law q(v) = N(w, CCᵀ)."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float, Indices
from gpbounds.linalg import blas


def size_of(M: int) -> int:
    """Number of entries for M variables.

    >>> size_of(3)
    9
    """
    return M + M * (M + 1) // 2


def diagonal_of(M: int) -> Indices:
    """Where the diagonal of the matrix stands among the entries of its triangle.

    >>> diagonal_of(3)
    array([0, 2, 5])
    """
    return np.cumsum(np.arange(1, M + 1)) - 1


def joined(mean: Float, matrix: Float, diagonal: Float) -> Float:
    """The entries: ``mean`` (M,), and the lower triangle of ``matrix`` (M, M) with another diagonal (M,).

    >>> joined(np.array([1.0, 2.0]), np.array([[9.0, 9.0], [4.0, 9.0]]), np.array([3.0, 5.0]))
    array([1., 2., 3., 4., 5.])
    """
    M = mean.shape[0]
    entries = np.empty(size_of(M))
    entries[:M] = mean
    blas.pack(np.ascontiguousarray(matrix, dtype=np.float64), entries[M:])
    entries[M:][diagonal_of(M)] = diagonal
    return entries


def triangle_of(entries: Float, M: int) -> Float:
    """The lower triangular matrix (M, M) of entries.

    >>> triangle_of(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 2)
    array([[3., 0.],
           [4., 5.]])
    """
    return read_triangle(entries, np.empty((M, M)))


def read_triangle(entries: Float, out: Float) -> Float:
    """The same, written into ``out`` (M, M)."""
    blas.clear_above(out)
    blas.unpack(np.ascontiguousarray(entries[out.shape[0] :], dtype=np.float64), out)
    return out
