"""Tr(K − Q) and log|K_ZZ| of the first 1, 2, …, M inducing points at once, streamed over the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float, Indices
from gpbounds.kernels import Kernel
from gpbounds.whitening import inducing, require_residual


@dataclass(frozen=True, eq=False)
class Prefixes:
    """What the first m inducing points reach, m = 0 … M; the traces never rise.

    Attributes
    ----------
    traces : array (M + 1,)
        Tr(K − Q).
    log_dets : array (M + 1,)
        log|K_ZZ + jitter·I|.
    jitter : float
    """

    traces: Float
    log_dets: Float
    jitter: float


def prefixes(kernel: Kernel, X: Float, Z: Float, indices: Indices | None, groups: Indices, jitter: float) -> Prefixes:
    """`Prefixes` of Z in its order; O(N M²) time, O(N + M²) memory.

    V = L⁻¹K_Zf has a row a point, so Σ_s V_si² over the first rows is the diagonal of Q for the first points.
    Rows of X that are among the points (``indices``, and equal ones by ``groups``) give 0 exactly where jitter is 0.

    Raises
    ------
    NotPositiveDefinite
        where K_ZZ + jitter·I does not factorise, or so badly that K − Q has a negative diagonal.

    >>> from gpbounds import SquaredExponential
    >>> X = np.array([[0.0], [0.1], [3.0]])
    >>> prefixes(SquaredExponential(), X, X[:2], np.array([0, 1]), np.arange(3), 0.0).traces.round(4)
    array([3.    , 1.0098, 0.9984])
    """
    side = inducing(kernel, Z, jitter)
    M = side.M
    place = np.full(int(groups.max()) + 1, M)  # after how many points a row is known, less one
    if indices is not None and side.chol.jitter == 0.0:
        place[groups[indices]] = np.arange(M)
    traces, least, scale = np.zeros(M + 1), 0.0, 0.0
    for rows, V in side.chunks(X):
        left = np.empty((M + 1, V.shape[1]))
        left[0] = kernel.diag(X[rows])
        np.multiply(V, V, out=left[1:])
        np.cumsum(left[1:], axis=0, out=left[1:])
        np.subtract(left[0], left[1:], out=left[1:])
        least, scale = min(least, float(left[M].min())), max(scale, float(left[0].max()))
        known = place[groups[rows]]
        for column in np.flatnonzero(known < M):
            left[known[column] + 1 :, column] = 0.0
        traces += np.maximum(left, 0.0, out=left).sum(axis=1)
    require_residual(least, scale, M)
    log_dets = np.append(0.0, 2.0 * np.cumsum(np.log(np.diagonal(side.chol.L))))
    return Prefixes(traces, log_dets, side.chol.jitter)
