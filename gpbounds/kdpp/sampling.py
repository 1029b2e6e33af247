"""Exact samples of a k-DPP over the data, Z ⊂ X, |Z| = M, P(Z) ∝ |K_ZZ|, from K or from its eigendecomposition."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float, is_cupy
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kdpp.arguments import kernel_matrix
from gpbounds.kdpp.projection import Indices, choose_eigenvectors, draw_projection
from gpbounds.linalg import eigen
from gpbounds.validation import count, finite


def sample(K: ArrayLike, M: int, rng: np.random.Generator | int) -> Indices:
    """M distinct points drawn from the k-DPP of K: P(Z) = |K_ZZ| / e_M(λ).

    Exact up to rounding.  The eigendecomposition takes O(N³), a draw much less: for many draws decompose K once
    and use :func:`sample_eigen`.  Hypotheses: K ⪰ 0, M ≤ rank K.  Ledger: section F.  The mean of Tr(K − Q) under
    this law is :func:`~gpbounds.kdpp.expected_trace`.

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
        if the matrix is not square, symmetric and finite, or M exceeds the numerical rank.
    NotPositiveDefinite
        for an eigenvalue below −N·eps·λ_max.

    >>> sample(np.diag([1.0, 0.0, 2.0]), 2, np.random.default_rng(0))
    array([0, 2])
    """
    spectrum = eigen(kernel_matrix(K), "K", vectors=True)
    assert spectrum.vectors is not None
    return sample_eigen(spectrum.values, spectrum.vectors, M, rng)


def sample_eigen(
    eigenvalues: ArrayLike,
    eigenvectors: ArrayLike,
    M: int,
    rng: np.random.Generator | int,
    *,
    weights: ArrayLike | None = None,
) -> Indices:
    """The same as :func:`sample`, from K = V diag(λ) Vᵀ, in O(N M + M³ log M + n √M) per draw.

    Parameters
    ----------
    eigenvalues : array (n,)
        In any order, as ``numpy.linalg.eigh`` returns them; those within ±N·eps·λ_max count as 0.
    eigenvectors : array (N, n)
        Orthonormal columns; n < N where K has low rank.  Only the chosen columns are read.
    M : int
        0 ≤ M ≤ numerical rank.
    rng : numpy.random.Generator or int
    weights : array (n,), optional
        μ, for the k-DPP of V diag(μ) Vᵀ instead of K, for example from `tilted_eigenvalues`; μ > 0 wherever λ counts.
        ``eigenvalues`` still determine which columns count.

    Raises
    ------
    ValueError
        where shapes disagree, the chosen columns are not orthonormal, M exceeds the numerical rank, or a weight that
        counts is not positive.
    NotPositiveDefinite
        for an eigenvalue below −N·eps·λ_max.

    >>> values, vectors = np.linalg.eigh(np.diag([1.0, 0.0, 2.0]))
    >>> sample_eigen(values, vectors, 2, 1)
    array([0, 2])
    """
    if is_cupy(eigenvalues) or is_cupy(eigenvectors):
        raise ValueError("eigenvalues, eigenvectors: expected NumPy arrays, got CuPy arrays: pass .get() of them")
    values, vectors = finite("eigenvalues", eigenvalues), finite("eigenvectors", eigenvectors)
    if values.ndim != 1 or values.size == 0 or vectors.ndim != 2 or vectors.shape[1] != values.size:
        raise ValueError(
            f"eigenvalues, eigenvectors: expected shapes (n,) and (N, n), got {values.shape} and {vectors.shape}"
        )
    M, generator = count("M", M, 0), np.random.default_rng(rng)
    rounding = vectors.shape[0] * EPS * max(float(values.max()), 0.0)
    if values.min() < -rounding:
        raise NotPositiveDefinite(
            f"eigenvalues: expected none below the rounding error {-rounding:.3g}, got {values.min():.3g}"
        )
    above = np.flatnonzero(values > rounding)
    if above.size < M:
        raise ValueError(
            f"M: expected at most the numerical rank, {above.size} eigenvalues above {rounding:.3g}, got {M}: the "
            "k-DPP of that size is undefined. Take fewer points; duplicates and long lengthscales lower the rank"
        )
    mixed = values if weights is None else _weights(weights, values.size, above)
    chosen = above[choose_eigenvectors(np.log(mixed[above]), M, generator)]
    V = np.ascontiguousarray(vectors[:, chosen], dtype=np.float64)
    if not np.abs(V.T @ V - np.eye(M)).max(initial=0.0) <= 1e-8:  # NaN, too
        raise ValueError("eigenvectors: expected orthonormal columns, got VᵀV that differs from I by more than 1e-8")
    return draw_projection(V.__getitem__, np.einsum("ij,ij->i", V, V), M, generator)


def _weights(weights: ArrayLike, n: int, above: Indices) -> Float:
    """μ of shape (n,), finite, and positive at the columns that count."""
    mixed = finite("weights", weights)
    if mixed.shape != (n,):
        raise ValueError(f"weights: expected shape ({n},), one for each eigenvalue, got {mixed.shape}")
    if not (mixed[above] > 0.0).all():
        raise ValueError(
            f"weights: expected numbers > 0 for the {above.size} eigenvalues above rounding error, got "
            f"{mixed[above].min():.3g}"
        )
    return mixed
