"""Which device a computation runs on: the host with NumPy, or a GPU with CuPy."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

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
        sum_of_matrices = cupy.ones((2, 2)) + cupy.eye(2)
        if float(cupy.linalg.cholesky(sum_of_matrices).sum()) > 0.0:
            return ""
        return "the GPU computes a wrong Cholesky factor"
    except Exception as error:
        return f"the GPU does not answer ({_line(error)})"


def _line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:120]}" if words else type(error).__name__
