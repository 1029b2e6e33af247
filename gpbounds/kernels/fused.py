"""Distance and covariance in one pass over the entries on a GPU: no array of distances is written and read again."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gpbounds.arrays import Array

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

    Sums are taken in double precision, whatever the inputs' is; the result has that of x, or of ``out``.
    """
    import cupy

    shape = (left.shape[0], right.shape[0])
    target = cupy.empty(shape, dtype=left.dtype) if out is None else out
    left, right = cupy.ascontiguousarray(left), cupy.ascontiguousarray(right)
    return _compiled(formula)(left, right, shape[1], left.shape[1], variance, target)
