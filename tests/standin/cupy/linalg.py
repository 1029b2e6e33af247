"""``cupy.linalg``: failures and NaN pass silently, unless ``cupyx.errstate(linalg="raise")`` makes failures raise."""

import os
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from cupy import _surface
from cupy._counts import copied, stats
from cupy._ndarray import device, ndarray

FACTORISATIONS = ("eigh", "eigvalsh", "norm", "qr", "slogdet", "svd")
failures: list[int] = []
"""The size of each matrix whose factorisation has failed."""

_FAILED = os.environ.get("STANDIN_CHOLESKY", "finite")
if _FAILED not in ("finite", "nan"):
    raise ValueError(f"STANDIN_CHOLESKY: expected 'finite' or 'nan', got {_FAILED!r}")


def __getattr__(name: str) -> Any:
    if name not in FACTORISATIONS:
        raise _surface.unlearnt("cupy.linalg", name)

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        _surface.check("cupy.linalg", name, (a, *args), kwargs)
        _on_device(a)
        stats["launch"] += 1
        finite = np.isfinite(a._host)
        with np.errstate(all="ignore"):
            result = getattr(np.linalg, name)(np.where(finite, a._host, 0), *args, **kwargs)
        parts = [np.array(part) for part in (result if isinstance(result, tuple) else (result,))]
        if not finite.all():
            for part in parts:
                part.fill(np.nan)
        return tuple(map(device, parts)) if isinstance(result, tuple) else device(parts[0])

    return call


def inv(a: ndarray) -> ndarray:
    """The inverse of a matrix or of each of a stack; NaN where one is singular, as factors of NaN give."""
    _on_device(a)
    if a.ndim < 2 or a.shape[-2] != a.shape[-1]:
        raise LinAlgError("expected a square matrix or a stack of them")
    stats["launch"] += 1
    stats["flops"] += 2 * a.size * a.shape[-1]
    inverses = np.empty(a.shape)
    for place, matrix in zip(inverses.reshape(-1, *a.shape[-2:]), a._host.reshape(-1, *a.shape[-2:]), strict=True):
        try:
            place[...] = np.linalg.inv(matrix)
        except LinAlgError:
            place[...] = np.nan
    return device(inverses)


def _on_device(*arrays: Any) -> None:
    """Refuse arrays of the host as CuPy does."""
    if not all(isinstance(a, ndarray) for a in arrays):
        raise LinAlgError("cupy.linalg only supports cupy.ndarray")


def cholesky(a: ndarray) -> ndarray:
    """The lower factor; if a pivot fails, the unfinished matrix of the library, or NaN, as STANDIN_CHOLESKY says."""
    import cupyx
    from scipy.linalg.lapack import dpotrf, spotrf

    _on_device(a)
    if a.ndim < 2 or a.shape[-2] != a.shape[-1]:
        raise LinAlgError("expected a square matrix or a stack of them")
    if a.ndim > 2:  # one call of the library, whatever the number of matrices
        before = stats["launch"]
        factors = [cholesky(device(each)) for each in a._host.reshape(-1, *a.shape[-2:])]
        stats["launch"] = before + 1
        return device(np.array([factor._host for factor in factors]).reshape(a.shape))
    stats["launch"] += 1
    stats["flops"] += a.shape[0] ** 3 // 3
    factor, fault = (spotrf if a.dtype == np.float32 else dpotrf)(a._host, lower=1, clean=1)
    if cupyx._raises():
        copied("d2h", np.array(fault, dtype=np.int32))
    if fault and factor[fault - 1, fault - 1] <= 0.0:  # some builds of LAPACK report NaN too; cuSOLVER does not
        failures.append(len(factor))
        if cupyx._raises():
            raise LinAlgError(f"Error reported by potrf in cuSOLVER. devInfo = {fault}")
        if _FAILED == "nan":
            factor[np.tril_indices_from(factor)] = np.nan
    return device(np.ascontiguousarray(factor))
