"""The choice of a device: the host with NumPy, or a GPU with CuPy."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gpbounds.validation import choice

Device = Literal["cpu", "cuda", "auto"]


def array_module(device: Device = "cpu") -> Any:
    """``numpy`` for "cpu", ``cupy`` for "cuda", and for "auto" ``cupy`` if it works on this machine.

    Raises
    ------
    ValueError
        for "cuda" if CuPy or a GPU is missing or broken; the message says which.

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
    """The reason why CuPy does not work here, as a clause; empty if it works."""
    try:
        import cupy
    except Exception as error:
        return f"CuPy cannot be imported ({_line(error)})"
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "there is no CUDA device"
        product = cupy.ones((2, 2)) + cupy.eye(2)
        if float(cupy.linalg.cholesky(product).sum()) > 0.0:
            return ""
        return "the GPU computes a wrong Cholesky factor"
    except Exception as error:
        return f"the GPU fails ({_line(error)})"


def free_bytes(xp: Any) -> int:
    """Bytes that arrays of ``xp`` may still take on a GPU, those that CuPy holds in reserve included; 0 for NumPy.

    >>> free_bytes(np)
    0
    """
    if xp is np:
        return 0
    return int(xp.cuda.runtime.memGetInfo()[0] + xp.get_default_memory_pool().free_bytes())


def _line(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:120]}" if words else type(error).__name__
