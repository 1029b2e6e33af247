"""In-place BLAS routines on C-contiguous NumPy arrays, called without Python's lock, so that threads run in parallel.

Products are in single precision where the arrays are; all else is in doubles.

SciPy exports the addresses of its routines in `scipy.linalg.cython_blas` and `cython_lapack`.  Its Python wrappers
hold the lock; these calls do not.  BLAS reads a row-major (n, m) array as a column-major m × n matrix, so no array is
transposed or copied.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_double, c_float
from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import Float


@lru_cache
def _routine(name: str) -> Any:
    from scipy.linalg import cython_blas, cython_lapack

    capsule = (cython_blas.__pyx_capi__ | cython_lapack.__pyx_capi__)[name]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    kind = signature(capsule)
    integer = ctypes.c_int if b"int *" in kind else ctypes.c_int64
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (kind.count(b",") + 1))(address(capsule, kind)), integer


def _call(name: str, *arguments: Any) -> None:
    """Call ``name``: letters become characters, ints and floats are passed by address, arrays by their first entry."""
    function, integer = _routine(name)
    real = c_float if name.startswith("s") else c_double
    passed: list[Any] = []  # what is passed by address lives until the call returns
    for value in arguments:
        if isinstance(value, np.ndarray):
            passed.append(value.ctypes.data)
        elif isinstance(value, str):
            passed.append(value.encode())
        elif isinstance(value, int):
            passed.append(byref(integer(value)))
        else:
            passed.append(byref(real(value) if isinstance(value, float) else value))
    function(*passed)


def fits(*arrays: Any, dtype: Any = np.float64) -> bool:
    """Whether all arrays are of ``dtype``, with contiguous rows that do not overlap."""
    for a in arrays:
        if not (isinstance(a, np.ndarray) and a.dtype == dtype and a.ndim == 2):
            return False
        step, entry = a.strides
        if entry != a.itemsize or step < entry * a.shape[1] or step % entry:
            return False
    return True


def multiplies(A: Any, B: Any, out: Any) -> bool:
    """Whether `product` takes these matrices: all in double or all in single precision."""
    dtype = out.dtype if out.dtype == np.float32 else np.float64
    return fits(out, dtype=dtype) and all(fits(M, dtype=dtype) or fits(M.T, dtype=dtype) for M in (A, B))


def _stride(A: Float) -> int:
    return A.strides[0] // A.itemsize


def _of(A: Float, name: str) -> str:
    """The routine ``name`` in the precision of ``A``."""
    return ("s" if A.dtype == np.float32 else "d") + name


def solve(L: Float, B: Float, transposed: bool) -> None:
    """The rows b of ``B`` (n, M) become L⁻¹b, or L⁻ᵀb."""
    n, M = B.shape
    _call("dtrsm", "L", "U", "N" if transposed else "T", "N", M, n, 1.0, L, _stride(L), B, _stride(B))


def multiply(T: Float, B: Float, transposed: bool) -> None:
    """The rows b of ``B`` (n, M) become Tb, or Tᵀb, for a lower triangular T."""
    n, M = B.shape
    _call(_of(B, "trmm"), "L", "U", "N" if transposed else "T", "N", M, n, 1.0, T, _stride(T), B, _stride(B))


def multiply_columns(T: Float, B: Float, scale: float = 1.0) -> None:
    """``B`` (M, n) becomes scale·T @ B for a lower triangular T."""
    M, n = B.shape
    _call("dtrmm", "R", "U", "N", "N", n, M, scale, T, _stride(T), B, _stride(B))


def gram(B: Float, total: Float, keep: float = 1.0, scale: float = 1.0) -> None:
    """The upper triangle of ``total`` (M, M) becomes that of scale·BᵀB + keep·total."""
    n, M = B.shape
    _call(_of(B, "syrk"), "L", "N", M, n, scale, B, _stride(B), keep, total, _stride(total))


def gram_of_rows(A: Float, out: Float) -> None:
    """The lower triangle of ``out`` (n, n) becomes that of AAᵀ; the entries above it do not change."""
    n, k = A.shape
    _call("dsyrk", "U", "T", n, k, 1.0, A, _stride(A), 0.0, out, _stride(out))


def product(A: Float, B: Float, out: Float, *, keep: float = 0.0, scale: float = 1.0) -> None:
    """``out`` (n, m) becomes scale·A @ B + keep·out; A (n, k) and B (k, m) are row-major or the transpose of such."""
    (n, k), m = A.shape, B.shape[1]
    along, across = fits(A, dtype=out.dtype), fits(B, dtype=out.dtype)
    left, right = A if along else A.T, B if across else B.T
    how = "N" if across else "T", "N" if along else "T"
    _call(_of(out, "gemm"), *how, m, n, k, scale, right, _stride(right), left, _stride(left), keep, out, _stride(out))


def invert(L: Float) -> None:
    """The lower triangle of ``L`` (n, n), whose diagonal has no 0, becomes that of L⁻¹."""
    _call("dtrtri", "U", "N", L.shape[0], L, _stride(L), _routine("dtrtri")[1](0))


def clear_above(A: Float) -> None:
    """The entries of ``A`` (n, n) above the diagonal become 0."""
    n = A.shape[0] - 1
    if n > 0:
        _call("dlaset", "L", n, n, 0.0, 0.0, A[:-1, 1:], _stride(A))


def pack(A: Float, entries: Float) -> None:
    """Write the lower triangle of ``A`` (n, n) row by row into ``entries``, n(n + 1)/2 numbers."""
    _call("dtrttp", "U", A.shape[0], A, _stride(A), entries, _routine("dtrttp")[1](0))


def unpack(entries: Float, A: Float) -> None:
    """Read the lower triangle of ``A`` (n, n) row by row from ``entries``; the entries above it do not change."""
    _call("dtpttr", "U", A.shape[0], entries, A, _stride(A), _routine("dtpttr")[1](0))


def factorise_tile(before: Float, tile: Float) -> bool:
    """The lower triangle of ``tile`` (n, n) becomes the Cholesky factor of tile − before beforeᵀ; False if that fails.

    The entries above the diagonal are neither read nor changed.
    """
    n, k = before.shape
    if k:
        _call("dsyrk", "U", "T", n, k, -1.0, before, _stride(before), 1.0, tile, _stride(tile))
    fault = _routine("dpotrf")[1](0)
    _call("dpotrf", "U", n, tile, _stride(tile), fault)
    return fault.value == 0
