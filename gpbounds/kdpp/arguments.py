"""Checks of arguments of k-DPP functions: kernel matrices, row numbers, and groups of equal rows of X."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.arrays import Float, Indices, exactly, is_cupy
from gpbounds.linalg.matrices import symmetric_matrix


def kernel_matrix(K: ArrayLike) -> Float:
    """K as a finite symmetric float64 array (N, N) on the host with a diagonal ≥ 0."""
    if is_cupy(K):
        raise ValueError("K: expected a NumPy array, got a CuPy array: pass K.get()")
    matrix = symmetric_matrix("K", K, tolerance=1e-10)
    if (matrix.diagonal() < 0).any():
        row = int(matrix.diagonal().argmin())
        raise ValueError(f"K: expected variances >= 0 on the diagonal, got {matrix[row, row]} in row {row}")
    return matrix


def distinct_indices(indices: Any, N: int) -> NDArray[np.int64]:
    """Distinct row numbers in 0 … N−1."""
    rows = np.asarray(exactly("indices", indices))
    if rows.size == 0:
        return np.empty(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"indices: expected whole numbers of shape (M,), got dtype {rows.dtype}, shape {rows.shape}")
    if (rows < 0).any() or (rows >= N).any():
        raise ValueError(f"indices: expected numbers in 0 ... {N - 1}, got {rows[(rows < 0) | (rows >= N)][0]}")
    if np.unique(rows).size < rows.size:
        raise ValueError("indices: expected distinct numbers, got repeated ones")
    return rows.astype(np.int64)


def groups_of(X: Float) -> Indices:
    """A number for each row, the same for equal rows: 0 … (number of distinct rows) − 1.

    >>> groups_of(np.array([[1.0], [0.0], [1.0]])).tolist()
    [1, 0, 1]
    """
    _, groups = np.unique(X, axis=0, return_inverse=True)
    return groups.ravel()


def first_of_each(order: Indices, groups: Indices) -> Indices:
    """``order`` without the rows that equal an earlier one.

    >>> first_of_each(np.array([2, 1, 0]), np.array([5, 3, 5])).tolist()
    [2, 1]
    """
    _, first = np.unique(groups[order], return_index=True)
    return order[np.sort(first)]


def repeated(groups: Indices) -> Indices | None:
    """``groups``, or None where no two rows are equal."""
    return groups if int(groups.max()) + 1 < groups.size else None
