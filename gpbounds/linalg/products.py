"""In-place matrix products on NumPy or CuPy: `gpbounds.linalg.blas` computes them on a CPU, cuBLAS on a GPU."""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.linalg import blas, device
from gpbounds.linalg.parallel import WORTH, share

ROWS = 256
"""Rows of a large product that a lane computes at a time."""


def matmul(A: Array, B: Array) -> Array:
    """A @ B for matrices; lanes share the rows of a large product.

    >>> matmul(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 2.],
           [3., 4.]])
    """
    if namespace(A, B) is not np or A.size * B.shape[1] < WORTH:
        return A @ B
    out = np.empty((A.shape[0], B.shape[1]))
    parts = [slice(start, start + ROWS) for start in range(0, A.shape[0], ROWS)]
    share(
        len(parts),
        lambda number, worker: np.matmul(A[parts[number]], B, out=out[parts[number]]),
        flops=2.0 * A.size * B.shape[1],
    )
    return out


def gram(A: Array) -> Array:
    """AᵀA for A (k, n); lanes share the rows of a large product.

    >>> gram(np.array([[1.0, 2.0]]))
    array([[1., 2.],
           [2., 4.]])
    """
    n = A.shape[1]
    if namespace(A) is not np or A.size * n < WORTH:
        return A.T @ A
    out = np.empty((n, n))
    parts = [slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS)]

    def multiply(number: int, worker: int) -> None:
        rows = parts[number]
        out[rows, rows] = A[:, rows].T @ A[:, rows]  # NumPy makes it symmetric
        np.matmul(A[:, rows].T, A[:, rows.stop :], out=out[rows, rows.stop :])
        out[rows.stop :, rows] = out[rows, rows.stop :].T

    share(len(parts), multiply, flops=float(A.size * n))
    return out


def norm(A: Array) -> float:
    """Frobenius norm; squares neither over- nor underflow.

    >>> round(norm(np.array([3e200, 4e200])) / 1e200, 12), norm(np.zeros(2))
    (5.0, 0.0)
    """
    xp = namespace(A)
    largest = float(xp.abs(A).max()) if A.size else 0.0
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    scaled = A / largest
    return largest * float(xp.sqrt((scaled * scaled).sum()))


def norms(A: Array) -> Array:
    """The Euclidean norm of each row; squares neither over- nor underflow."""
    xp = namespace(A)
    largest = xp.abs(A).max(axis=1)
    scaled = A / xp.where(largest > 0.0, largest, 1.0)[:, None]
    return largest * xp.sqrt((scaled * scaled).sum(axis=1))


def add_gram(total: Array, B: Array, *, keep: float = 1.0, scale: float = 1.0) -> None:
    """scale·BᵀB + keep·total in ``total`` (M, M); only the upper triangle is valid; `mirrored` completes it.

    For B in single precision BᵀB is, too, and is added to a ``total`` in doubles.
    """
    if keep == 1.0 and blas.fits(total) and blas.fits(B, dtype=np.float32):
        part = np.zeros(total.shape, dtype=np.float32)
        blas.gram(B, part, scale=scale)
        total += part
        return
    if blas.fits(total, B):
        blas.gram(B, total, keep, scale)
    elif scale == 1.0 and device.fits(total, B):
        device.gram(B, total, keep)
    else:
        add_product(B.T, B, total, scale=scale, keep=keep)


def product(A: Array, B: Array, out: Array) -> Array:
    """A @ B written into ``out`` (n, m)."""
    if blas.multiplies(A, B, out):
        blas.product(A, B, out)
    elif device.fits(A, B, out):
        device.product(A, B, out)
    else:
        out[...] = A @ B
    return out


def add_product(A: Array, B: Array, out: Array, *, scale: float = 1.0, keep: float = 1.0) -> Array:
    """scale·A @ B + keep·out in ``out`` (n, m); by default A @ B is added.

    >>> import numpy as np
    >>> add_product(np.array([[1.0], [2.0]]), np.array([[3.0, 4.0]]), np.ones((2, 2)))
    array([[4., 5.],
           [7., 9.]])
    """
    if blas.multiplies(A, B, out):
        blas.product(A, B, out, keep=keep, scale=scale)
    elif device.fits(A, B, out):
        device.product(A, B, out, keep=keep, scale=scale)
    else:
        added = A @ B if scale == 1.0 else scale * (A @ B)
        out[...] = added if keep == 0.0 else keep * out + added
    return out


def accumulate(total: Array, A: Array, B: Array) -> Array:
    """total + A @ B in the memory of ``total`` (n, m), for a small product such as VᵀY.

    >>> accumulate(np.ones((1, 1)), np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[12.]])
    """
    if device.fits(A, B, total):
        device.product(A, B, total, keep=1.0)
    else:
        total += A @ B
    return total


def row_products(A: Array, B: Array) -> Array:
    """Σ_j A_ij B_ij for each row (n,).

    >>> row_products(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([11.])
    """
    return device.row_products(A, B) if device.fits(A, B) else namespace(A).einsum("ij,ij->i", A, B)


def row_sums(A: Array, B: Array) -> Array:
    """`row_products` for few columns.

    >>> row_sums(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([11.])
    """
    return device.row_products(A, B) if device.fits(A, B) else (A * B).sum(axis=1)
