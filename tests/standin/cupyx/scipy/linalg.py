"""``cupyx.scipy.linalg``: triangular solves by the BLAS routine that cuBLAS has, too, without checks."""

from typing import Any

import numpy as np
from cupy import _surface
from cupy._counts import stats
from cupy._ndarray import device, ndarray
from cupy.linalg import _on_device
from scipy.linalg.blas import dtrsm, strsm


def solve_triangular(
    a: ndarray,
    b: ndarray,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
) -> ndarray:
    _on_device(a, b)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or len(a) != len(b):
        raise ValueError(f"expected a square matrix and as many rows, got {a.shape} and {b.shape}")
    if check_finite or trans not in (0, 1, "N", "T"):
        raise NotImplementedError("the stand-in implements real a and b only, without checks")
    stats["launch"] += 1
    stats["trsm"] += 1
    stats["flops"] += a.size * (b.size // len(b) if len(b) else 0)
    single = a.dtype == np.float32
    right = np.array(b._host, np.float32 if single else float, order="F")
    if not right.size:
        return device(right)
    columns = right.reshape(len(b), -1, order="F")
    solve = strsm if single else dtrsm
    solution = solve(1.0, a._host, columns, lower=lower, trans_a=trans in (1, "T"), diag=unit_diagonal)
    if overwrite_b and b.flags.f_contiguous and b.dtype == right.dtype:  # CuPy then solves in the memory of b
        b._host[...] = solution.reshape(right.shape, order="F")
        return b
    return device(solution.reshape(right.shape, order="F"))


def __getattr__(name: str) -> Any:
    raise _surface.unlearnt("cupyx.scipy.linalg", name)
