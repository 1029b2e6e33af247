"""Argument checks shared by the samplers and the greedy selection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.arrays import Float, is_cupy
from gpbounds.linalg.matrices import symmetric_matrix


def kernel_matrix(K: ArrayLike) -> Float:
    """K as a finite symmetric float64 array (N, N) on the host with a diagonal ≥ 0."""
    if is_cupy(K):
        raise ValueError("K: expected a NumPy array, got a CuPy array: pass K.get()")
    matrix = symmetric_matrix("K", K, apart=1e-10)
    if (matrix.diagonal() < 0).any():
        row = int(matrix.diagonal().argmin())
        raise ValueError(f"K: expected variances >= 0 on the diagonal, got {matrix[row, row]} in row {row}")
    return matrix


def distinct_indices(indices: Any, N: int) -> NDArray[np.int64]:
    """Distinct row numbers in 0 … N−1."""
    rows = np.asarray(indices)
    if rows.size == 0:
        return np.empty(0, dtype=np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"indices: expected whole numbers of shape (M,), got dtype {rows.dtype}, shape {rows.shape}")
    if (rows < 0).any() or (rows >= N).any():
        raise ValueError(f"indices: expected numbers in 0 ... {N - 1}, got {rows[(rows < 0) | (rows >= N)][0]}")
    if np.unique(rows).size < rows.size:
        raise ValueError("indices: expected distinct numbers, got some twice")
    return rows.astype(np.int64)
