"""Greedy selection of inducing points: pivoted Cholesky on the conditional variance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.kdpp.arguments import distinct_indices, kernel_matrix
from gpbounds.linalg import cholesky
from gpbounds.linalg.pivoted import pivoted
from gpbounds.validation import count


def greedy(K: ArrayLike, M: int) -> NDArray[np.int64]:
    """M points, each the one of largest variance given those before it; deterministic.

    z_{t+1} = argmax_i [K − Q_{z_1…z_t}]_ii, ties to the least index: each step multiplies |K_ZZ| by as much as one
    point can, so Z is the greedy mode of the k-DPP.  Incremental: the first 20 of 30 are the 20.  O(N M²) time,
    M × N memory.  No ledger claim rests on it: bounds that average over Z do not cover this Z, those computed from
    Tr(K − Q) itself (:func:`residual_trace`) do.  Without an N × N matrix: :func:`select`.

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
        where the variance left falls to N·eps·max K_ii before M points are chosen; says how many there are.

    >>> greedy(np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.1], [0.0, 0.1, 0.5]]), 2)
    array([0, 2])
    """
    matrix, M = kernel_matrix(K), count("M", M, 0)
    N = matrix.shape[0]
    if M > N:
        raise ValueError(f"M: expected at most N = {N} points, got {M}")
    return pivoted(lambda picked, columns: matrix[picked][:, columns], matrix.diagonal(), M).require(M).indices


def residual_trace(K: ArrayLike, indices: ArrayLike) -> float:
    """Tr(K − Q) for inducing points that are the data in the given rows.

    Tr(K − Q_Z) = Σ_i [K_ii − k_iZ K_ZZ⁻¹ k_Zi] ≥ 0; the rows in Z give 0 exactly, and rounding below 0 counts as 0.
    No jitter.  Averaged over a k-DPP it is :func:`~gpbounds.kdpp.expected_trace` (R-lem3).

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.
    indices : array of int (M,)
        Distinct row numbers, in any order; may be empty.

    Raises
    ------
    ValueError
        on row numbers out of range or given twice.
    NotPositiveDefinite
        where K_ZZ is singular.

    >>> residual_trace(np.array([[1.0, 0.5], [0.5, 1.0]]), [0])
    0.75
    """
    matrix = kernel_matrix(K)
    Z = distinct_indices(indices, matrix.shape[0])
    left = matrix.diagonal().copy()
    if Z.size:
        V = cholesky(matrix[np.ix_(Z, Z)], name="K_ZZ").solve_lower(matrix[Z])
        left -= np.einsum("ij,ij->j", V, V)
        left[Z] = 0.0
    return float(np.maximum(left, 0.0).sum())
