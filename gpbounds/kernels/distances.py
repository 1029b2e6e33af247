"""Squared distances without the cancellation of |x|² + |y|² − 2 x·y, and without an N × M × D array.

On a GPU one kernel computes distance and covariance of each entry, without an intermediate array of distances.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace

LOOP = """
long long row = i / columns, column = i - row * columns;
double s = 0.0;
for (int d = 0; d < dim; ++d) {
  double gap = (double)left[row * dim + d] - (double)right[column * dim + d];
  s += gap * gap;
}
out = (R)(%s);
"""


@lru_cache(maxsize=16)
def _compiled(formula: str) -> Any:
    import cupy

    return cupy.ElementwiseKernel(
        "raw T left, raw S right, int64 columns, int32 dim, float64 variance", "R out", LOOP % formula, "covariances"
    )


def fused(formula: str, left: Array, right: Array, variance: float, out: Array | None = None) -> Array:
    """``formula`` of s = |x_i − z_j|² and the variance, for CuPy arrays x (N, D) and z (M, D); shape (N, M).

    Sums are in double precision for every input type; the result has the precision of x, or of ``out``.
    """
    import cupy

    shape = (left.shape[0], right.shape[0])
    target = cupy.empty(shape, dtype=left.dtype) if out is None else out
    left, right = cupy.ascontiguousarray(left), cupy.ascontiguousarray(right)
    return _compiled(formula)(left, right, shape[1], left.shape[1], variance, target)


def squared_distances(X1: Array, X2: Array, out: Array | None = None) -> Array:
    """|x_i - x_j|² for the rows of X1 (N, D) and X2 (M, D); shape (N, M), exactly 0 for equal rows.

    If ``out`` is given, it is filled and returned; it must be (N, M), C-contiguous, with the precision of the inputs.
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
