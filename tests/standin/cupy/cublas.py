"""``cupy.cublas``: products that are added to their output; as in CuPy, wrong shapes and dtypes are assertions."""

from typing import Any

import numpy as np

from cupy import _surface
from cupy._counts import stats
from cupy._ndarray import ndarray


def __getattr__(name: str) -> Any:
    raise _surface.unlearnt("cupy.cublas", name)


def gemm(
    transa: str, transb: str, a: ndarray, b: ndarray, out: ndarray | None = None, alpha: float = 1.0, beta: float = 0.0
) -> ndarray:
    """alpha op(a) op(b) + beta out; memory that is neither in C's nor in Fortran's order is copied first."""
    assert a.ndim == b.ndim == 2
    assert a.dtype == b.dtype
    assert a.dtype.char in "fd"
    left, right = _turned(transa, a), _turned(transb, b)
    assert left.shape[1] == right.shape[0]
    shape = left.shape[0], right.shape[1]
    _separate(out, a, b)
    _counted(a, b, out)
    stats["gemm"] += 1
    stats["flops"] += 2 * left.size * shape[1]
    return _added(alpha * (left @ right), out, shape, a.dtype, beta, np.ones(shape, bool))


def syrk(
    trans: str, a: ndarray, out: ndarray | None = None, alpha: float = 1.0, beta: float = 0.0, lower: bool = False
) -> ndarray:
    """One triangle of alpha op(a) op(a)^T + beta out; the other is not changed."""
    assert a.ndim == 2
    assert a.dtype.char in "fd"
    rows = _turned(trans, a)
    n = rows.shape[0]
    _separate(out, a)
    _counted(a, out)
    stats["gemm"] += 1
    stats["flops"] += rows.size * n
    triangle = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    return _added(alpha * (rows @ rows.T), out, (n, n), a.dtype, beta, triangle)


def _turned(trans: str, a: ndarray) -> np.ndarray:
    if trans not in ("N", "T"):
        raise TypeError("invalid trans")
    return a._host if trans == "N" else a._host.T


def _separate(out: ndarray | None, *operands: ndarray) -> None:
    if out is not None and any(np.shares_memory(out._host, a._host) for a in operands):
        raise AssertionError("a product into the memory of an operand: cuBLAS does not say what comes out")


def _counted(*arrays: ndarray | None) -> None:
    """One launch, and one for each array that must be copied into an order that cuBLAS reads."""
    strided = [a for a in arrays if a is not None and not (a.flags.c_contiguous or a.flags.f_contiguous)]
    stats["launch"] += 1 + len(strided)


def _added(
    product: np.ndarray, out: ndarray | None, shape: tuple[int, int], dtype: Any, beta: float, changed: np.ndarray
) -> ndarray:
    from cupy._ndarray import device

    if out is None:
        out, beta = device(np.zeros(shape, dtype, order="F")), 0.0
    assert out.ndim == 2
    assert out.shape == shape
    assert out.dtype == dtype
    with np.errstate(all="ignore"):
        whole = product if beta == 0.0 else product + beta * out._host
    out._host[changed] = whole[changed]
    return out
