"""Everything that differs between NumPy and CuPy, and the in-place linear algebra that chunks of rows need.

Chunks are C-contiguous (n, M).  On a CPU their products go to `fitting.blas`, on a GPU to CuPy.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fitting import blas
from gpbounds.arrays import Array, Float, is_cupy, namespace
from gpbounds.validation import choice

Device = Literal["cpu", "cuda", "auto"]


def array_module(device: Device = "cpu") -> Any:
    """``numpy`` for "cpu", ``cupy`` for "cuda", and for "auto" whichever the machine can run.

    Raises
    ------
    ValueError
        for "cuda" where CuPy or a GPU is missing or broken: one sentence says which.

    >>> array_module("cpu").__name__
    'numpy'
    """
    if choice("device", device, ("cpu", "cuda", "auto")) == "cpu":
        return np
    fault = cuda_fault()
    if not fault:
        import cupy

        return cupy
    if device == "auto":
        return np
    raise ValueError(f"device: expected a machine that runs CuPy for 'cuda', but {fault}; use device='cpu' or 'auto'")


def cuda_fault() -> str:
    """Why CuPy cannot work here, as half a sentence; empty where it can."""
    try:
        import cupy
    except Exception as error:
        return f"CuPy cannot be imported ({_line(error)})"
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "no CUDA device is there"
        one = cupy.ones((2, 2)) + cupy.eye(2)
        if float(cupy.linalg.cholesky(one).sum()) > 0.0:
            return ""
        return "the GPU computes a wrong Cholesky factor"
    except Exception as error:
        return f"the GPU does not answer ({_line(error)})"


def _line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:120]}" if words else type(error).__name__


def place(array: Any, xp: Any) -> Array:
    """``array`` where ``xp`` works, unchanged if it is there."""
    if xp is np:
        return array.get() if is_cupy(array) else array
    return xp.asarray(array)


def host(array: Any) -> Float:
    """``array`` in host memory."""
    return array.get() if is_cupy(array) else np.asarray(array)


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
    if namespace(L, B) is np:
        from scipy.linalg import solve_triangular
    else:
        from cupyx.scipy.linalg import solve_triangular
    B[...] = solve_triangular(L, B.T, lower=True, trans=1 if transposed else 0, check_finite=False).T
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


def add_gram(total: Array, B: Array) -> None:
    """Add BᵀB to ``total`` (M, M); only its upper triangle counts until `mirrored`."""
    if blas.fits(total, B):
        blas.gram(B, total)
    else:
        total += B.T @ B


def mirrored(total: Array) -> Array:
    """The symmetric matrix with the upper triangle of ``total``."""
    xp = namespace(total)
    upper = xp.triu(total)
    upper += xp.triu(total, 1).T
    return upper


def product(A: Array, B: Array, out: Array) -> Array:
    """A @ B written into ``out`` (n, m)."""
    if blas.takes(A) and blas.takes(B) and blas.fits(out):
        blas.product(A, B, out)
    else:
        out[...] = A @ B
    return out


def add_product(A: Array, B: Array, out: Array) -> Array:
    """A @ B added to ``out`` (n, m).

    >>> add_product(np.array([[1.0], [2.0]]), np.array([[3.0, 4.0]]), np.ones((2, 2)))
    array([[4., 5.],
           [7., 9.]])
    """
    if blas.takes(A) and blas.takes(B) and blas.fits(out):
        blas.product(A, B, out, keep=1.0)
    else:
        out += A @ B
    return out


def inverse_factor(L: Array) -> Array:
    """L⁻¹, lower triangular.

    >>> inverse_factor(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5,  0. ],
           [-0.5,  1. ]])
    """
    if namespace(L) is not np:
        return _triangular(L, namespace(L).eye(L.shape[0]), transposed=False).T
    from scipy.linalg.lapack import dtrtri

    found, info = dtrtri(L.T, lower=0)
    if info:
        raise ValueError(f"L: expected a Cholesky factor, got a zero on its diagonal (row {info - 1})")
    return np.ascontiguousarray(np.triu(found).T)


def half_inverse(L: Array) -> Array:
    """The upper triangular H with H + Hᵀ = (L Lᵀ)⁻¹: all that sums Σ H_ij B_ij with symmetric B need.

    H may take the memory of ``L``.

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

    found, info = dpotri(L.T, lower=0, overwrite_c=overwrite)
    if info:
        raise ValueError(f"L: expected a Cholesky factor, got a zero on its diagonal (row {info - 1})")
    return found


def inverse(L: Array) -> Array:
    """(L Lᵀ)⁻¹, symmetric, at two thirds of the work of solving for the identity.

    >>> inverse(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5, -0.5],
           [-0.5,  1. ]])
    """
    if namespace(L) is np:
        return mirrored(_upper_inverse(L))
    turned = inverse_factor(L).T
    return turned @ turned.T
