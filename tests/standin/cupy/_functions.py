"""CuPy's functions and methods that are not elementwise.  To teach the stand-in one more, add its name to a line below."""

import sys
from typing import Any

import numpy as np
from cupy import _surface
from cupy._counts import copied, stats
from cupy._ndarray import device, ndarray
from cupy._ufunc import chosen, clipped

VIEWS = """atleast_1d atleast_2d broadcast_arrays broadcast_to diagonal expand_dims moveaxis ravel reshape squeeze
    swapaxes transpose view""".split()
NEW = """all amax amin any argmax argmin argsort array_equal concatenate copy cumsum diag dot einsum flatten hstack ix_
    matmul max mean min outer prod repeat round sort std stack sum take tensordot tile trace tril triu var vdot vstack
    full_like ones_like zeros_like""".split()
WAITS = "argwhere flatnonzero nonzero unique".split()
MADE = "arange eye full identity linspace ones zeros".split()
PLAIN = "ndim shape size".split()
FUNCTIONS = {*VIEWS, *NEW, *WAITS, *MADE, *PLAIN}


def function(owner: str, name: str, host: Any) -> Any:
    """``host``, NumPy's function or method, with the arguments of CuPy's; arrays of the host are refused."""

    def call(*args: Any, **kwargs: Any) -> Any:
        _surface.check(owner, name, args[owner == "cupy.ndarray" :], kwargs)
        if name in MADE:
            stats["launch"] += 1
            return device(host(*args, **kwargs))
        if not (name in PLAIN or any(_on_device(a) for a in (*args, *kwargs.values()))):
            raise TypeError(f"{owner}.{name}: expected a cupy.ndarray, got {[type(a).__name__ for a in args]}")
        stats["launch"] += name not in (*VIEWS, *PLAIN)
        stats["sync"] += name in WAITS
        plain = {key: _memory(value, name) for key, value in kwargs.items()}
        with np.errstate(all="ignore"):
            found = host(*(_memory(a, name) for a in args), **plain)
        return kwargs["out"] if kwargs.get("out") is not None else _returned(found, name)

    call.__name__ = call.__qualname__ = name
    return call


def _on_device(argument: Any) -> bool:
    if isinstance(argument, (list, tuple)):
        return any(_on_device(part) for part in argument)
    return isinstance(argument, ndarray)


def _memory(argument: Any, name: str) -> Any:
    if isinstance(argument, np.ndarray):
        raise TypeError(f"Unsupported type {type(argument)} in {name}")
    if isinstance(argument, (list, tuple)):
        return type(argument)(_memory(part, name) for part in argument)
    return argument._host if isinstance(argument, ndarray) else argument


def _returned(found: Any, name: str) -> Any:
    if name in PLAIN or found is None:
        return found
    if isinstance(found, (list, tuple)):
        return type(found)(_returned(part, name) for part in found)
    return device(found if name in (*VIEWS, "copy") else np.asarray(found, order="C"))


# What follows has rules of its own.


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
    if isinstance(obj, (list, tuple)) and _on_device(obj):
        obj = function("cupy", "stack", np.stack)([array(part) for part in obj])
    if not isinstance(obj, ndarray):
        return device(copied("h2d", device(np.array(obj, dtype, order=order or "K", ndmin=ndmin))._host))
    found = np.asarray(obj._host, dtype, order=order)
    if found is obj._host and not copy and ndmin <= obj.ndim:
        return obj
    stats["launch"] += 1
    return device(np.array(found, order=order or "K", ndmin=ndmin))


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, blocking: bool = False
) -> ndarray:
    return array(a, dtype, copy, order)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    return array(a, dtype, None, "C")


def asfortranarray(a: Any, dtype: Any = None) -> ndarray:
    return array(a, dtype, None, "F")


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a, order=order)


def astype(
    self: ndarray, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True
) -> ndarray:
    return array(self, dtype, copy, order)


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return _unfilled(np.empty(shape, dtype, order))


def empty_like(a: ndarray, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    return _unfilled(np.empty_like(_memory(a, "empty_like"), dtype, order, shape=shape))


def _unfilled(memory: np.ndarray) -> ndarray:
    """Fresh memory holds nothing of use: NaN, or an absurd number where there is no NaN."""
    made = device(memory)
    memory.fill(np.nan if memory.dtype.kind in "fc" else memory.dtype == bool or np.iinfo(memory.dtype).max // 3)
    return made


def where(condition: ndarray, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return function("cupy", "nonzero", np.nonzero)(condition)
    return chosen(condition.astype("?"), x, y)


def clip(a: ndarray, a_min: Any, a_max: Any, out: ndarray | None = None) -> ndarray:
    return clipped(a, a_min, a_max, out=out)


def get_array_module(*args: Any) -> Any:
    return sys.modules["cupy"] if _on_device(args) else np


for _name in {*VIEWS, *NEW, *WAITS} & set(_surface.SURFACE["cupy.ndarray"]):
    setattr(ndarray, _name, function("cupy.ndarray", _name, getattr(np.ndarray, _name)))
ndarray.astype = astype
