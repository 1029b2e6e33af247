"""Everything that differs between NumPy and CuPy, and the in-place linear algebra that chunks of rows need.

Chunks are C-contiguous (n, M): their transposes are what LAPACK and BLAS take without a copy.  On a CPU all large
products go to SciPy's BLAS, so that one pool of threads does the work.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

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
    if namespace(L, B) is np:
        from scipy.linalg.blas import dtrsm

        # L.T and B.T are Fortran-contiguous views: nothing is copied, and B is solved in place.
        solved = dtrsm(1.0, L.T, B.T, lower=0, trans_a=0 if transposed else 1, overwrite_b=1).T
    else:
        from cupyx.scipy.linalg import solve_triangular

        solved = solve_triangular(L, B.T, lower=True, trans=1 if transposed else 0, check_finite=False).T
    if solved is not B and not _same(solved, B):
        B[...] = solved
    return B


def _same(A: Array, B: Array) -> bool:
    return isinstance(A, np.ndarray) and A.ctypes.data == B.ctypes.data and A.strides == B.strides


def add_gram(total: Array, B: Array) -> None:
    """Add BᵀB to ``total`` (M, M), C-contiguous; only its upper triangle counts until `mirrored`."""
    if namespace(total, B) is np:
        from scipy.linalg.blas import dsyrk

        result = dsyrk(1.0, B.T, beta=1.0, c=total.T, lower=1, overwrite_c=1).T
        if not _same(result, total):
            total[...] = result
    else:
        total += B.T @ B


def mirrored(total: Array) -> Array:
    """The symmetric matrix with the upper triangle of ``total``."""
    xp = namespace(total)
    upper = xp.triu(total)
    upper += xp.triu(total, 1).T
    return upper


def product(A: Array, B: Array, out: Array) -> Array:
    """A @ B written into ``out`` (n, m), C-contiguous."""
    xp = namespace(A, B)
    if xp is not np:
        return xp.matmul(A, B, out=out)
    from scipy.linalg.blas import dgemm

    right, turn_right = (B.T, 0) if B.flags.c_contiguous else (B, 1)
    left, turn_left = (A.T, 0) if A.flags.c_contiguous else (A, 1)
    result = dgemm(1.0, right, left, c=out.T, trans_a=turn_right, trans_b=turn_left, overwrite_c=1).T
    if not _same(result, out):
        out[...] = result
    return out


def inverse(L: Array) -> Array:
    """(L Lᵀ)⁻¹, symmetric, at two thirds of the work of solving for the identity.

    >>> inverse(np.array([[2.0, 0.0], [1.0, 1.0]]))
    array([[ 0.5, -0.5],
           [-0.5,  1. ]])
    """
    if namespace(L) is np:
        from scipy.linalg.lapack import dpotri

        found, info = dpotri(L.T, lower=0)
        if info:
            raise ValueError(f"L: expected a Cholesky factor, got a zero on its diagonal (row {info - 1})")
        return mirrored(found)
    rows = _triangular(L, namespace(L).eye(L.shape[0]), transposed=False)  # L⁻ᵀ
    return rows @ rows.T
