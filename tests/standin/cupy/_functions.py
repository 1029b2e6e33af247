"""CuPy's functions and methods that are not elementwise; a name in ``KINDS`` adds a function to the stand-in."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from cupy import _surface, _ufunc
from cupy._counts import copied, stats
from cupy._ndarray import device, ndarray

KINDS = {
    # shares memory with its argument if NumPy's result does
    "view": "atleast_1d atleast_2d broadcast_arrays broadcast_to diagonal expand_dims ravel reshape squeeze swapaxes "
    "transpose",
    # new memory with the layout of the argument
    "like": "copy full_like ones_like zeros_like",
    # new memory in C's order
    "new": "all any argmax argmin argsort column_stack concatenate cumsum diag dot einsum ix_ max mean min outer prod "
    "repeat sort stack std sum take tensordot tile trace tril triu var vdot",
    # new memory whose size the host must wait for
    "sized": "argwhere flatnonzero nonzero unique",
    # new memory from numbers of the host
    "made": "arange eye full identity linspace ones zeros",
    # known to the host without a transfer
    "known": "ndim shape size",
}
LEARNT = {name: kind for kind, names in KINDS.items() for name in names.split()}


def function(owner: str, name: str, host: Any) -> Any:
    """``host``, a NumPy function or method, with the parameters of CuPy; host arrays are refused."""
    kind = LEARNT.get(name, "new")

    def call(*args: Any, **kwargs: Any) -> Any:
        _surface.check(owner, name, args[1:] if owner == "cupy.ndarray" else args, kwargs)
        has_device_array = any(map(_on_device, (*args, *kwargs.values())))
        if has_device_array is (kind == "made"):
            raise TypeError(f"{owner}.{name}: the stand-in takes {'no' if has_device_array else 'a'} cupy.ndarray here")
        stats["launch"] += kind not in ("view", "known")
        stats["sync"] += kind == "sized"
        with np.errstate(all="ignore"):
            result = host(*map(_memory, args), **{key: _memory(value) for key, value in kwargs.items()})
        if name == "diagonal":
            result.flags.writeable = True  # CuPy's is
        return _returned(result, kind) if kwargs.get("out") is None else kwargs["out"]

    call.__name__ = call.__qualname__ = name
    return call


def _on_device(argument: Any) -> bool:
    """Whether there is a device array in an argument."""
    if isinstance(argument, (list, tuple)):
        return any(map(_on_device, argument))
    return isinstance(argument, ndarray)


def _memory(argument: Any) -> Any:
    """The argument as NumPy needs it."""
    if isinstance(argument, np.ndarray):
        raise TypeError(f"Unsupported type {type(argument)}: move it to the device by cupy.asarray")
    if isinstance(argument, (list, tuple)):
        return type(argument)(map(_memory, argument))
    return argument._host if isinstance(argument, ndarray) else argument


def _returned(result: Any, kind: str) -> Any:
    if kind == "known" or result is None:
        return result
    if isinstance(result, (list, tuple)):
        return type(result)(_returned(part, kind) for part in result)
    return device(result if kind in ("view", "like") else np.asarray(result, order="C"))


# Functions with rules of their own.


def array(
    obj: Any,
    dtype: Any = None,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    if _on_device(obj) and not isinstance(obj, ndarray):
        if not all(map(_on_device, obj)):
            raise TypeError("Implicit conversion to a NumPy array is not allowed, as for a list of host and device")
        obj = function("cupy", "stack", np.stack)([array(part) for part in obj])
    if not isinstance(obj, ndarray):
        return device(copied("h2d", device(np.array(obj, dtype, order=order or "K", ndmin=ndmin))._host))
    memory = np.asarray(obj._host, dtype, order=order)
    if memory is obj._host and not copy and ndmin <= obj.ndim:
        return obj
    stats["launch"] += 1
    return device(np.array(memory, order=order or "K", ndmin=ndmin))


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, blocking: bool = False
) -> ndarray:
    return array(a, dtype, copy, order)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    return array(a, dtype, None, "C", ndmin=1)


def asfortranarray(a: Any, dtype: Any = None) -> ndarray:
    return array(a, dtype, None, "F")


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a, order=order)


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return _unfilled(np.empty(shape, dtype, order))


def empty_like(
    prototype: ndarray, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    return _unfilled(np.empty_like(_memory(prototype), dtype, order, shape=shape))


def _unfilled(memory: np.ndarray) -> ndarray:
    """New memory: NaN, or an absurd number if the dtype has no NaN."""
    made = device(memory)
    memory.fill(np.nan if memory.dtype.kind in "fc" else memory.dtype == bool or np.iinfo(memory.dtype).max // 3)
    return made


def where(condition: ndarray, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return function("cupy", "nonzero", np.nonzero)(condition)
    return _ufunc.where(condition.astype("?"), x, y)


def clip(a: ndarray, a_min: Any, a_max: Any, out: ndarray | None = None) -> ndarray:
    return _ufunc.clip(a, a_min, a_max, out=out)


def matmul(*args: Any, **kwargs: Any) -> ndarray:
    out = kwargs.get("out")
    if isinstance(out, ndarray) and any(isinstance(a, ndarray) and np.shares_memory(out._host, a._host) for a in args):
        raise AssertionError("matmul into the memory of an operand: CuPy does not say what comes out")
    result = function("cupy", "matmul", np.matmul)(*args, **kwargs)
    stats["gemm"] += 1
    stats["flops"] += 2 * result.size * args[0].shape[-1]
    return result


def get_default_memory_pool() -> Any:
    return SimpleNamespace(free_bytes=lambda: 0)


def get_array_module(*args: Any) -> Any:
    return sys.modules["cupy"] if any(map(_on_device, args)) else np


def _astype(
    self: ndarray, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
) -> ndarray:
    return array(self, dtype, copy, order)


ndarray.astype = _astype
ndarray.clip = lambda self, min=None, max=None, out=None: clip(self, min, max, out)
for _name in LEARNT.keys() & _surface.SURFACE["cupy.ndarray"].keys() & set(dir(np.ndarray)) - {"shape", "size", "ndim"}:
    setattr(ndarray, _name, function("cupy.ndarray", _name, getattr(np.ndarray, _name)))
