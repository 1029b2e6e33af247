"""Exact samples of a k-DPP over the data: Z ⊂ X, |Z| = M, P(Z) ∝ |K_ZZ|.

A k-DPP is a mixture of projection DPPs.  Phase 1 draws which M eigenvectors take part, J with P(J) ∝ Π_{m∈J} λ_m;
phase 2 draws M points from the projection on their span, one after the other, by their leverage given those drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.arrays import Float, as_points
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kdpp.checks import kernel_matrix
from gpbounds.kdpp.esp import inclusion
from gpbounds.psd import eigen
from gpbounds.validation import count, finite

Indices = NDArray[np.int64]


def sample(K: ArrayLike, M: int, rng: np.random.Generator | int) -> Indices:
    """M distinct points drawn by the k-DPP of K: P(Z) = |K_ZZ| / e_M(λ).

    Exact up to rounding.  O(N³) for the eigendecomposition, then O(N M²); for many draws decompose once and use
    :func:`sample_eigen`.  Hypotheses: K ⪰ 0, M ≤ rank K.  Ledger: section F; the law whose residual
    :func:`~gpbounds.kdpp.expected_trace` gives.

    Parameters
    ----------
    K : array (N, N)
        Symmetric positive semi-definite.
    M : int
        0 ≤ M ≤ numerical rank, the number of eigenvalues above N·eps·λ_max; the others count as 0.
    rng : numpy.random.Generator or int
        Source of randomness, or a seed.

    Returns
    -------
    array of int64 (M,)
        Row numbers, distinct, increasing.

    Raises
    ------
    ValueError
        on a matrix that is not square, symmetric and finite, and where M exceeds the numerical rank.
    NotPositiveDefinite
        on an eigenvalue below −N·eps·λ_max.

    >>> sample(np.diag([1.0, 0.0, 2.0]), 2, np.random.default_rng(0))
    array([0, 2])
    """
    found = eigen(kernel_matrix(K), "K", vectors=True)
    assert found.vectors is not None
    return sample_eigen(found.values, found.vectors, M, rng)


def sample_eigen(eigenvalues: ArrayLike, eigenvectors: ArrayLike, M: int, rng: np.random.Generator | int) -> Indices:
    """As :func:`sample`, from K = V diag(λ) Vᵀ: O(N M²) a draw and an N × M table.

    Parameters
    ----------
    eigenvalues : array (n,)
        In any order, as ``numpy.linalg.eigh`` returns them; those within ±N·eps·λ_max count as 0.
    eigenvectors : array (N, n)
        Orthonormal columns; n < N where K has low rank.
    M : int
        0 ≤ M ≤ numerical rank.
    rng : numpy.random.Generator or int

    Raises
    ------
    ValueError
        where shapes disagree, the chosen columns are not orthonormal, or M exceeds the numerical rank.
    NotPositiveDefinite
        on an eigenvalue below −N·eps·λ_max.

    >>> values, vectors = np.linalg.eigh(np.diag([1.0, 0.0, 2.0]))
    >>> sample_eigen(values, vectors, 2, 1)
    array([0, 2])
    """
    values, vectors = finite("eigenvalues", eigenvalues), as_points(eigenvectors, "eigenvectors")
    if values.ndim != 1 or np.ndim(eigenvectors) != 2 or vectors.shape[1] != values.size:
        raise ValueError(
            "eigenvalues, eigenvectors: expected shapes (n,) and (N, n), got "
            f"{values.shape} and {np.shape(eigenvectors)}"
        )
    M = count("M", M, 0)
    rounding = vectors.shape[0] * np.finfo(np.float64).eps * max(float(values.max()), 0.0)
    if values.min() < -rounding:
        raise NotPositiveDefinite(
            f"eigenvalues: expected none below the rounding error {-rounding:.3g}, got {values.min():.3g}"
        )
    rank = int((values > rounding).sum())
    if rank < M:
        raise ValueError(
            f"M: expected at most the numerical rank, {rank} eigenvalues above {rounding:.3g}, got {M}: the k-DPP of "
            "that size is undefined. Take fewer points; duplicates and long lengthscales lower the rank"
        )
    if M == 0:
        return np.empty(0, dtype=np.int64)
    generator = np.random.default_rng(rng)
    largest = np.argsort(-values, kind="stable")[:rank]
    chosen = largest[_choose_eigenvectors(values[largest], M, generator)]
    return _sample_projection(vectors[:, chosen].astype(np.float64), generator)


def _choose_eigenvectors(values: Float, M: int, rng: np.random.Generator) -> Indices:
    """Positions J, |J| = M, with P(J) ∝ Π_{m∈J} λ_m, for positive decreasing ``values``: from the last to the first."""
    probability = inclusion(values, M)
    uniform = rng.random(values.size)
    chosen = np.empty(M, dtype=np.int64)
    left = M
    for m in range(values.size - 1, -1, -1):
        if left and uniform[m] < probability[left - 1, m]:
            left -= 1
            chosen[left] = m
    return chosen


def _sample_projection(V: Float, rng: np.random.Generator) -> Indices:
    """Z with P(Z) = |(VVᵀ)_ZZ| = |V_Z|², for V (N × M) with orthonormal columns.

    The row v_i has leverage |v_i|² minus its part in the span of the rows drawn; that span is kept as an orthonormal
    basis, orthogonalised twice, so that the leverages left always sum to the number of points still to be drawn.
    """
    M = V.shape[1]
    if np.abs(V.T @ V - np.eye(M)).max() > 1e-8:
        raise ValueError("eigenvectors: expected orthonormal columns, got VᵀV that differs from I by more than 1e-8")
    leverage = np.einsum("ij,ij->i", V, V)
    rounding = M * np.finfo(np.float64).eps * leverage
    basis = np.zeros((M, M))
    chosen = np.empty(M, dtype=np.int64)
    for t in range(M):
        sums = np.cumsum(leverage)
        i = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        direction = V[i] - basis[:t].T @ (basis[:t] @ V[i])
        direction -= basis[:t].T @ (basis[:t] @ direction)
        basis[t] = direction / np.linalg.norm(direction)
        leverage -= (V @ basis[t]) ** 2
        leverage[leverage <= rounding] = 0.0  # in the span already: duplicates of points drawn
        leverage[i] = 0.0
        chosen[t] = i
    return np.sort(chosen)
