"""log p(y), the collapsed ELBO and predictions, computed once more in single precision: what any such library loses.

Rows, targets and entries of the kernel are rounded to single precision; factors, solves and sums are in it.  A library
may lose more, by distances |x|² + |x'|² − 2x·x' for example, and another order of sums gives other last digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular
from scipy.linalg import cholesky as lapack_cholesky

from gpbounds.arrays import Float
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.whitening import slices

ROWS = 2048
"""Rows of K that are computed at a time."""


@dataclass(frozen=True, eq=False)
class Single:
    """One computation in single precision.

    Attributes
    ----------
    evidence : float
        log p(y), or the ELBO of inducing points.
    mean, variance : arrays (n,)
        Of the latent f at the points; a variance may come out negative.
    """

    evidence: float
    mean: Float
    variance: Float


def exact_in_single(kernel: Kernel, X: Float, y: Float, X_new: Float, *, noise: float) -> Single:
    """log p(y) and predictions of the exact GP by a Cholesky factor in single precision, in 4N² bytes.

    Raises
    ------
    NotPositiveDefinite
        where K + σ²I, rounded, has no factor.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> made = exact_in_single(SquaredExponential(), X, np.array([1.0, 0.5, -0.5]), X[:1], noise=0.1)
    >>> round(made.evidence, 4), made.mean.dtype
    (-3.2002, dtype('float64'))
    """
    rows, points, targets = _rounded(X), _rounded(X_new), y.astype(np.float32)
    N = len(rows)
    A = np.empty((N, N), dtype=np.float32)
    for part in slices(N, ROWS):
        A[part, : part.stop] = kernel(rows[part], rows[: part.stop])  # only the lower triangle is read
    A.reshape(-1)[:: N + 1] += np.float32(noise)
    L = _factor(A, "K + σ²I")
    half = _solved(L, targets[:, None])[:, 0]
    logs = np.log(np.diagonal(L)).sum(dtype=np.float32)
    value = -0.5 * (float(np.float32(half @ half)) + 2.0 * float(logs) + N * math.log(2.0 * math.pi))
    cross = _solved(L, kernel(rows, points).astype(np.float32))
    prior = np.asarray(kernel.diag(points)).astype(np.float32)
    return Single(value, _double(cross.T @ half), _double(prior - (cross * cross).sum(axis=0)))


def sparse_in_single(
    kernel: Kernel, X: Float, y: Float, Z: Float, X_new: Float, *, noise: float, added: float
) -> Single:
    """The ELBO and predictions of the best posterior with inducing points Z (Titsias), in single precision.

    Raises
    ------
    NotPositiveDefinite
        where Kuu + added·I, rounded, has no factor.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> made = sparse_in_single(
    ...     SquaredExponential(), X, np.array([1.0, 0.5, -0.5]), X[::2], X[:1], noise=0.1, added=0.0
    ... )
    >>> round(made.evidence, 3)
    -4.51
    """
    rows, points, centres, targets = _rounded(X), _rounded(X_new), _rounded(Z), y.astype(np.float32)
    N, M, s2 = len(rows), len(centres), np.float32(noise)
    Kuu = kernel(centres).astype(np.float32)
    Kuu.reshape(-1)[:: M + 1] += np.float32(added)
    L = _factor(Kuu, "Kuu + jitter·I")
    gram, projected = np.zeros((M, M), dtype=np.float32), np.zeros(M, dtype=np.float32)
    for part in slices(N, ROWS):
        V = _solved(L, kernel(centres, rows[part]).astype(np.float32))
        gram += V @ V.T
        projected += V @ targets[part]
    B = np.eye(M, dtype=np.float32) + gram / s2
    LB = _factor(B, "I + VVᵀ/σ²")
    c = _solved(LB, (projected / s2)[:, None])[:, 0]
    trace = np.asarray(kernel.diag(rows)).astype(np.float32).sum(dtype=np.float32) - np.trace(gram)
    value = -0.5 * (
        N * (math.log(2.0 * math.pi) + math.log(noise))
        + 2.0 * float(np.log(np.diagonal(LB)).sum(dtype=np.float32))
        + float((targets * targets).sum(dtype=np.float32) / s2 - c @ c)
        + float(trace / s2)
    )
    V = _solved(L, kernel(centres, points).astype(np.float32))
    W = _solved(LB, V)
    prior = np.asarray(kernel.diag(points)).astype(np.float32)
    return Single(value, _double(W.T @ c), _double(prior - (V * V).sum(axis=0) + (W * W).sum(axis=0)))


def _rounded(X: Float) -> Float:
    """The rows as single precision holds them."""
    return X.astype(np.float32).astype(np.float64)


def _double(values: Any) -> Float:
    return np.asarray(values, dtype=np.float64)


def _factor(A: Any, name: str) -> Any:
    try:
        return lapack_cholesky(A, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError as error:
        raise NotPositiveDefinite(f"{name} has no Cholesky factor in single precision: {error}") from None


def _solved(L: Any, B: Any) -> Any:
    return solve_triangular(L, B, lower=True, check_finite=False)
