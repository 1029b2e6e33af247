"""Pairwise squared distances without the cancellation of |x|² + |y|² - 2 x·y, and without an N × M × D array."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.kernels.fused import fused


def squared_distances(X1: Array, X2: Array, out: Array | None = None) -> Array:
    """|x_i - x_j|² for the rows of X1 (N, D) and X2 (M, D); shape (N, M), exactly 0 for equal rows.

    ``out`` is filled and returned if it is given: (N, M), C-contiguous, of the inputs' precision.
    """
    if namespace(X1, X2) is not np:
        return fused("s", X1, X2, 1.0, out)
    from scipy.spatial.distance import cdist

    if out is not None and out.dtype == np.float64:
        return cdist(X1, X2, "sqeuclidean", out=out)
    squared = cdist(X1, X2, "sqeuclidean").astype(X1.dtype, copy=False)
    if out is None:
        return squared
    out[...] = squared
    return out
