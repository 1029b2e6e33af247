"""Eigenvalues of a symmetric matrix, and the squared components of vectors in its eigenbasis, without eigenvectors."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import EPS, Array, Float, host, namespace
from gpbounds.errors import NonFinite
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.linalg.psd import Eigen, clipped, eigen, eigenvalue_rounding


def eigen_squares(A: Array, Y: Array, name: str = "matrix") -> tuple[Eigen, Float]:
    """(eigenvalues, squares) of a symmetric PSD A (n, n): squares_i = Σ_p (v_iᵀy_p)², largest eigenvalue first.

    A = H T Hᵀ with a tridiagonal T, whose eigenvectors W cost O(n²); the components are those of Wᵀ(HᵀY), so that the
    eigenvectors of A, two thirds of the work, are never formed.  If eigenvalues are equal up to rounding, only the sum
    of their squares is determined, not each square.  Errors as :func:`gpbounds.linalg.eigen`.

    >>> spectrum, squares = eigen_squares(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[1.0], [0.0]]))
    >>> spectrum.values.round(12), squares.round(12)
    (array([3., 1.]), array([0.5, 0.5]))
    """
    xp, n = namespace(A, Y), A.shape[0]
    if xp is not np or n < 3:
        return _with_vectors(A, Y, name)
    from scipy.linalg import eigh_tridiagonal
    from scipy.linalg.lapack import dormqr, dsytrd

    if not np.isfinite(A).all():
        raise NonFinite(f"{name}: expected finite entries, got NaN or infinity")
    with one_blas_thread():
        packed, diagonal, beside, tau, _ = dsytrd(A.T, lower=1, lwork=64 * n)
        rotated = np.asfortranarray(Y, dtype=np.float64).copy(order="F")
        # the reflections act on rows 1 ... n - 1
        rotated[1:], _, _ = dormqr("L", "T", packed[1:, :-1], tau, np.asfortranarray(rotated[1:]), 64 * Y.shape[1])
        try:
            values, W = eigh_tridiagonal(diagonal, beside, lapack_driver="stemr")
        except np.linalg.LinAlgError:  # "stemr" fails on some matrices that are nearly diagonal
            return _with_vectors(A, Y, name)
        components = W.T @ rotated
    spectrum = clipped(values[::-1], None, eigenvalue_rounding(values, EPS), name)
    return spectrum, (components**2).sum(axis=1)[::-1]


def _with_vectors(A: Array, Y: Array, name: str) -> tuple[Eigen, Float]:
    spectrum = eigen(A, name, vectors=True)
    assert spectrum.vectors is not None
    return spectrum, np.asarray(host(((spectrum.vectors.T @ Y) ** 2).sum(axis=1)))
