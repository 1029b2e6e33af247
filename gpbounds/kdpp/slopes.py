"""The derivatives of the mean of Tr(K − Q) under a k-DPP in the eigenvalues of K."""

from __future__ import annotations

import numpy as np

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.kdpp.residual import rest_ratios


def trace_slopes(eigenvalues: Float, M: int) -> tuple[Float, float]:
    """(g_i = ∂R/∂b_i, g0) for R = (M+1) e_{M+1}/e_M at b: (M+1) miss_i²(1 − r_i^(M+1)/r_i^(M)), rounded upwards.

    r_i^(m) = e_m/e_{m−1} of the others; miss_i = r_i/(b_i + r_i).

    >>> slopes, zero = trace_slopes(np.array([2.0, 1.0, 1.0]), 1)  # R = 2 e_2/e_1 = 2·5/4
    >>> slopes.round(4), round(zero, 4)
    (array([0.375, 0.875, 0.875]), 1.375)
    """
    values = validation.positive("eigenvalues", eigenvalues)
    rest, ratio = rest_ratios(values, M)
    rest_more, ratio_more = rest_ratios(values, M + 1)
    miss = 1.0 / (1.0 + values / rest)
    # 1e-13: rounding of the ratios, of which 1 is subtracted
    slopes = (M + 1.0) * miss**2 * (np.maximum(1.0 - rest_more / rest, 0.0) + 1e-13)
    zero = min((M + 1.0) * (1.0 - ratio_more / ratio + 1e-13), M + 1.0)  # r_M = τ_{M−1}/M
    return np.minimum(slopes, zero), zero
