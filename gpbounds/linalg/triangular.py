"""Solves, products and inverses with triangular matrices, in place on chunks of rows, on NumPy or CuPy.

A chunk is C-contiguous (n, M) with one vector per row: its rows b become L⁻¹b, L⁻ᵀb, Tb.  On a CPU
`gpbounds.linalg.blas` does the work, on a GPU CuPy.
"""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.linalg import blas


def solve_triangular(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """L⁻¹B, or L⁻ᵀB, for a lower triangular L.

    >>> solve_triangular(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([2.0, 3.0]))
    array([1., 2.])
    """
    if namespace(L, B) is np:
        from scipy.linalg import solve_triangular as solve
    else:
        from cupyx.scipy.linalg import solve_triangular as solve
    return solve(L, B, lower=True, trans=1 if transposed else 0, check_finite=False)


def solve_rows(L: Array, B: Array) -> Array:
    """Overwrite the rows b of ``B`` (n, M) with L⁻¹b, and return it.

    >>> solve_rows(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[2.0, 3.0]]))
    array([[1., 2.]])
    """
    return _triangular(L, B, transposed=False)


def lift_rows(L: Array, B: Array) -> Array:
    """Overwrite the rows b of ``B`` (n, M) with L⁻ᵀb, and return it.

    >>> lift_rows(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[4.0, 2.0]]))
    array([[1., 2.]])
    """
    return _triangular(L, B, transposed=True)


def _triangular(L: Array, B: Array, transposed: bool) -> Array:
    if blas.fits(L, B):
        blas.solve(L, B, transposed)
        return B
    B[...] = solve_triangular(L, B.T, transposed=transposed).T
    return B


def multiply_rows(T: Array, B: Array, *, transposed: bool = False) -> Array:
    """Overwrite the rows b of ``B`` (n, M) with Tb, or Tᵀb, for a lower triangular T, and return it.

    >>> multiply_rows(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([[4.0, 2.0]]))
    array([[8., 6.]])
    """
    if blas.fits(T, B):
        blas.multiply(T, B, transposed)
    else:
        B[...] = B @ (T if transposed else T.T)
    return B


def mirrored(total: Array) -> Array:
    """The symmetric matrix with the upper triangle of ``total``."""
    xp = namespace(total)
    upper = xp.triu(total)
    upper += xp.triu(total, 1).T
    return upper


def inverse_factor(L: Array) -> Array:
    """L⁻¹, lower triangular.

    >>> inverse_factor(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    if namespace(L) is not np:
        return _triangular(L, namespace(L).eye(L.shape[0]), transposed=False).T
    from scipy.linalg.lapack import dtrtri

    inverted, info = dtrtri(L.T, lower=0)
    if info:
        raise ValueError(f"L: expected a Cholesky factor, got a zero on its diagonal (row {info - 1})")
    return np.ascontiguousarray(np.triu(inverted).T)


def half_inverse(L: Array) -> Array:
    """The upper triangular H with H + Hᵀ = (L Lᵀ)⁻¹, which suffices for sums Σ H_ij B_ij with symmetric B.

    H may overwrite the memory of ``L``.

    >>> half_inverse(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.25, -0.5 ],
           [ 0.  ,  0.5 ]])
    """
    xp, steps = namespace(L), L.shape[0] + 1
    if xp is not np:
        H = xp.triu(inverse(L))
        H.reshape(-1)[::steps] *= 0.5
        return H
    H = _upper_inverse(L, overwrite=True)
    H.ravel(order="K")[::steps] *= 0.5
    return H


def _upper_inverse(L: Array, *, overwrite: bool = False) -> Array:
    """The upper triangle of (L Lᵀ)⁻¹, 0 below, for L with 0 above its diagonal."""
    from scipy.linalg.lapack import dpotri

    inverted, info = dpotri(L.T, lower=0, overwrite_c=overwrite)
    if info:
        raise ValueError(f"L: expected a Cholesky factor, got a zero on its diagonal (row {info - 1})")
    return inverted


def inverse(L: Array) -> Array:
    """(L Lᵀ)⁻¹, symmetric, with two thirds of the flops of a solve for the identity.

    >>> inverse(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5, -0.5],
           [-0.5,  1. ]])
    """
    if namespace(L) is np:
        return mirrored(_upper_inverse(L))
    turned = inverse_factor(L).T
    return turned @ turned.T
