"""Tr(K − Q) and log|K_ZZ| of the first 1, 2, …, M inducing points at once, streamed over the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float, Indices
from gpbounds.kernels import Kernel
from gpbounds.whitening import inducing, require_residual


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Tr(K − Q) and log|K_ZZ| of the first m inducing points, m = 0 … M; the traces never increase.

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

    V = L⁻¹K_Zf has one row for each point, so Σ_s V_si² over its first m rows is the diagonal of Q for the first m
    points.  If jitter is 0, rows of X that are among the points (``indices``, and equal rows by ``groups``) give
    exactly 0.

    Raises
    ------
    NotPositiveDefinite
        if K_ZZ + jitter·I does not factorise, or so inaccurately that K − Q has a negative diagonal.

    >>> from gpbounds import SquaredExponential
    >>> X = np.array([[0.0], [0.1], [3.0]])
    >>> prefixes(SquaredExponential(), X, X[:2], np.array([0, 1]), np.arange(3), 0.0).traces.round(4)
    array([3.    , 1.0098, 0.9984])
    """
    whitener = inducing(kernel, Z, jitter)
    M = whitener.M
    position = np.full(int(groups.max()) + 1, M)  # of the point that equals the rows of a group; M if there is none
    if indices is not None and whitener.chol.jitter == 0.0:
        position[groups[indices]] = np.arange(M)
    traces, least, scale = np.zeros(M + 1), 0.0, 0.0
    for rows, V in whitener.chunks(X):
        residual = np.empty((M + 1, V.shape[1]))
        residual[0] = kernel.diag(X[rows])
        np.multiply(V, V, out=residual[1:])
        np.cumsum(residual[1:], axis=0, out=residual[1:])
        np.subtract(residual[0], residual[1:], out=residual[1:])
        least, scale = min(least, float(residual[M].min())), max(scale, float(residual[0].max()))
        first = position[groups[rows]]
        for column in np.flatnonzero(first < M):
            residual[first[column] + 1 :, column] = 0.0
        traces += np.maximum(residual, 0.0, out=residual).sum(axis=1)
    require_residual(least, scale, M)
    log_dets = np.append(0.0, 2.0 * np.cumsum(np.log(np.diagonal(whitener.chol.L))))
    return Prefixes(traces, log_dets, whitener.chol.jitter)
