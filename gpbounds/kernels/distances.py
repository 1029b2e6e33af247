"""Pairwise squared distances without the cancellation of |x|² + |y|² - 2 x·y, and without an N × M × D array."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Array, namespace


def squared_distances(X1: Array, X2: Array) -> Array:
    """|x_i - x_j|² for the rows of X1 (N, D) and X2 (M, D); shape (N, M), exactly 0 for equal rows."""
    xp = namespace(X1, X2)
    if xp is np:
        from scipy.spatial.distance import cdist

        return cdist(X1, X2, "sqeuclidean").astype(X1.dtype, copy=False)
    total = xp.zeros((X1.shape[0], X2.shape[0]), dtype=X1.dtype)
    for d in range(X1.shape[1]):
        total += (X1[:, d, None] - X2[None, :, d]) ** 2
    return total
