"""A strict stand-in for CuPy on a machine without a GPU: see README.md beside this package."""

from typing import Any

import numpy as _np

from cupy import _counts, _functions, _kernel, _ndarray, _surface, _ufunc, cuda, linalg  # noqa: F401

__version__ = _surface.VERSION
ndarray = _ndarray.ndarray
ufunc = _ufunc.ufunc
ElementwiseKernel, ReductionKernel = _kernel.ElementwiseKernel, _kernel.ReductionKernel
_impl = _counts  # `cupy._impl.stats`: the name that other stand-ins give the counters


def __getattr__(name: str) -> Any:
    """Resolve a name on its first use."""
    value = _learnt(name)
    globals()[name] = value
    return value


def _learnt(name: str) -> Any:
    kind = _surface.entry("cupy", name)
    if kind.startswith("ufunc"):
        return _ufunc.learnt("cupy", name, _np)
    if kind.startswith("(") and hasattr(_functions, name):
        return getattr(_functions, name)
    if name in _functions.LEARNT:
        return _functions.function("cupy", name, getattr(_np, name))
    host = getattr(_np, name, ...)
    if isinstance(host, (float, type(None))) or (isinstance(host, type) and issubclass(host, _np.generic)):
        return host
    if name in ("dtype", "finfo", "iinfo"):
        return host
    raise _surface.unlearnt("cupy", name)
