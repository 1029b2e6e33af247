"""Greedy selection of inducing points: pivoted Cholesky on the conditional variance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.kdpp.arguments import distinct_indices, kernel_matrix
from gpbounds.linalg import cholesky
from gpbounds.linalg.pivoted import pivoted
from gpbounds.validation import count


def greedy(K: ArrayLike, M: int) -> NDArray[np.int64]:
    """M points, each of largest variance given the points before it; deterministic.

    z_{t+1} = argmax_i [K − Q_{z_1…z_t}]_ii, the smallest index among equal ones: each step multiplies |K_ZZ| by the
    largest factor that one point can give, so Z is the greedy mode of the k-DPP.  A smaller M gives a prefix of the
    same choice.  O(N M²) time, M × N memory.  Bounds that average over Z do not hold for this Z; bounds computed from
    its own Tr(K − Q) (:func:`residual_trace`) do.  :func:`select` needs no N × N matrix.

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.
    M : int
        0 ≤ M ≤ N.

    Returns
    -------
    array of int64 (M,)
        Row numbers in the order of choice.

    Raises
    ------
    ValueError
        if the largest conditional variance falls to N·eps·max K_ii before M points are chosen; the message says how
        many points there are.

    >>> greedy(np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 0.5]]), 2)
    array([0, 2])
    """
    matrix, M = kernel_matrix(K), count("M", M, 0)
    N = matrix.shape[0]
    if M > N:
        raise ValueError(f"M: expected at most N = {N} points, got {M}")
    return pivoted(lambda picked, columns: matrix[picked][:, columns], matrix.diagonal(), M).require(M).indices


def residual_trace(K: ArrayLike, indices: ArrayLike) -> float:
    """Tr(K − Q) for inducing points that are rows of the data.

    Tr(K − Q_Z) = Σ_i [K_ii − k_iZ K_ZZ⁻¹ k_Zi] ≥ 0; the rows in Z give exactly 0, and values below 0 by rounding count
    as 0.  No jitter.  Its mean over a k-DPP is :func:`~gpbounds.kdpp.expected_trace` (R-lem3).

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.
    indices : array of int (M,)
        Distinct row numbers, in any order; may be empty.

    Raises
    ------
    ValueError
        for row numbers that are out of range or repeated.
    NotPositiveDefinite
        if K_ZZ is singular.

    >>> residual_trace(np.array([[1.0, 0.5], [0.5, 1.0]]), [0])
    0.75
    """
    matrix = kernel_matrix(K)
    Z = distinct_indices(indices, matrix.shape[0])
    residual = matrix.diagonal().copy()
    if Z.size:
        V = cholesky(matrix[np.ix_(Z, Z)], name="K_ZZ").solve_lower(matrix[Z])
        residual -= np.einsum("ij,ij->j", V, V)
        residual[Z] = 0.0
    return float(np.maximum(residual, 0.0).sum())
