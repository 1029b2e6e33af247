"""Squared distances without the cancellation of |x|² + |y|² − 2 x·y, and without an N × M × D array.

On a GPU one kernel computes distance and covariance of each entry, without an intermediate array of distances.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Array, Float, namespace

LOOP = """
long long row = i / columns, column = i - row * columns;
double s = 0.0;
for (int d = 0; d < dim; ++d) {
  double gap = (double)left[row * dim + d] - (double)right[column * dim + d];
  s += gap * gap * weights[d];
}
out = (R)(%s);
"""


@lru_cache(maxsize=16)
def _compiled(formula: str) -> Any:
    import cupy

    return cupy.ElementwiseKernel(
        "raw T left, raw S right, raw float64 weights, int64 columns, int32 dim, float64 variance",
        "R out",
        LOOP % formula,
        "covariances",
    )


def fused(formula: str, left: Array, right: Array, weights: Float, variance: float, out: Array | None = None) -> Array:
    """``formula`` of s = Σ_d w_d (x_id − z_jd)² and the variance, for CuPy arrays x (N, D), z (M, D); shape (N, M).

    Sums are in double precision for every input type; the result has the precision of x, or of ``out``.
    """
    import cupy

    shape = (left.shape[0], right.shape[0])
    target = cupy.empty(shape, dtype=left.dtype) if out is None else out
    left, right = cupy.ascontiguousarray(left), cupy.ascontiguousarray(right)
    return _compiled(formula)(left, right, cupy.asarray(weights), shape[1], left.shape[1], variance, target)


def squared_distances(X1: Array, X2: Array, weights: Float | None = None, out: Array | None = None) -> Array:
    """Σ_d w_d (x_id − x_jd)² for the rows of X1 (N, D) and X2 (M, D); shape (N, M), exactly 0 for equal rows.

    Coordinates are subtracted as they are, so that an offset that all of them have costs no digit; ``weights`` (D,)
    are 1 by default.  If ``out`` is given, it is filled and returned; it must be (N, M), C-contiguous, with the
    precision of the inputs.
    """
    w = np.ones(X1.shape[1]) if weights is None else weights
    if namespace(X1, X2) is not np:
        return fused("s", X1, X2, w, 1.0, out)
    if out is not None and out.dtype == np.float64:
        return _weighted(X1, X2, w, out)
    squared = _weighted(X1, X2, w, None).astype(X1.dtype, copy=False)
    if out is None:
        return squared
    out[...] = squared
    return out


def _weighted(X1: Array, X2: Array, weights: Float, out: Array | None) -> Array:
    """One weight for all dimensions multiplies the sums."""
    from scipy.spatial.distance import cdist

    if weights.size and (weights != weights[0]).any():
        return cdist(X1, X2, "sqeuclidean", w=weights, out=out)
    squared = cdist(X1, X2, "sqeuclidean", out=out)
    if weights.size and weights[0] != 1.0:
        squared *= weights[0]
    return squared


def feature_distance(kernel: Any, step: float) -> float:
    """An upper bound on ‖φ(x) − φ(x + step)‖ on a line, for a kernel k = φᵀφ of |x − x'|; k is allowed 32 eps."""
    ends = np.array([[0.0], [step]])
    scale = float(kernel.max_variance)
    return math.sqrt(max(2.0 * (scale - float(kernel(ends)[0, 1])), 0.0) + 64.0 * EPS * scale)
