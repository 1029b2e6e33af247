"""In-place matrix products on NumPy or CuPy; on a CPU `gpbounds.linalg.blas` computes them without a temporary."""

from __future__ import annotations

from gpbounds.arrays import Array
from gpbounds.linalg import blas


def add_gram(total: Array, B: Array) -> None:
    """Add BᵀB to ``total`` (M, M); only the upper triangle is valid; `mirrored` completes it."""
    if blas.fits(total, B):
        blas.gram(B, total)
    else:
        total += B.T @ B


def product(A: Array, B: Array, out: Array) -> Array:
    """A @ B written into ``out`` (n, m)."""
    if blas.takes(A) and blas.takes(B) and blas.fits(out):
        blas.product(A, B, out)
    else:
        out[...] = A @ B
    return out


def add_product(A: Array, B: Array, out: Array) -> Array:
    """A @ B added to ``out`` (n, m).

    >>> import numpy as np
    >>> add_product(np.array([[1.0], [2.0]]), np.array([[3.0, 4.0]]), np.ones((2, 2)))
    array([[4., 5.],
           [7., 9.]])
    """
    if blas.takes(A) and blas.takes(B) and blas.fits(out):
        blas.product(A, B, out, keep=1.0)
    else:
        out += A @ B
    return out
