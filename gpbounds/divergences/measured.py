"""The factor of Kuu with a measured error: its distance from Kuu + jitter·I in 30 digits, where it is needed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpbounds.arrays import namespace
from gpbounds.divergences.errors import MARGIN, Rounding
from gpbounds.kernels.matrices import EnclosedKernel
from gpbounds.linalg.pair_inverse import LEAST, U, norm_above
from gpbounds.linalg.pair_products import multiply
from gpbounds.numerics.pairs import add
from gpbounds.whitening import Inducing

SMALL, MOST = 1e-6, 1500
"""‖F‖ up to which the a-priori error of the factor serves, and the largest M for which it is measured."""


def measured(points: Inducing, entry_error: float) -> Inducing:
    """``points`` with a ``defect`` ≥ ‖LLᵀ − Kuu − jitter·I‖_F, Kuu in 30 digits as a certificate defines it (N-pairs).

    ``points`` is unchanged where the a-priori bound of `Rounding` suffices.  Kernels without 30 digits use doubles.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.whitening import inducing
    >>> close = inducing(SquaredExponential(), [[0.0], [1e-7], [1.0]], 1e-12)
    >>> measured(close, 1e-15).defect < 1e-15
    True
    """
    xp = namespace(points.Z)
    if xp is not np or points.M > MOST or Rounding.of(points, entry_error).F <= SMALL:
        return points
    try:
        kernel = EnclosedKernel.of(points.kernel)
    except ValueError:  # a variance beyond the range of products in 30 digits
        return points
    K, error = kernel.gram(points.Z)
    M, L = points.M, points.chol.L
    rows = np.diag_indices(M)
    diagonal = add((K[0][rows], K[1][rows]), (np.full(M, points.chol.jitter), np.zeros(M)))
    K[0][rows], K[1][rows] = diagonal
    with np.errstate(under="ignore"):
        squares, rounded = multiply((L, np.zeros_like(L)), (L, np.zeros_like(L)))
        difference, _ = add(squares, (-K[0], -K[1]))
        sums = 16.0 * U * U * math.sqrt(M) * (norm_above(K[0]) + norm_above(squares[0])) + LEAST
        return replace(points, defect=MARGIN * (norm_above(difference) * (1.0 + 4.0 * U) + rounded + error + sums))
