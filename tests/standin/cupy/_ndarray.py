"""``cupy.ndarray``: NumPy's memory with CuPy's interface and CuPy's refusals."""

from importlib import import_module
from operator import attrgetter
from typing import Any

import numpy as np

import cupy
from cupy import _surface
from cupy._counts import copied, stats

DTYPES = "?bBhHiIlLqQefdFD"
SCALARS = (bool, int, float, complex, np.generic)
# Operators and the functions that they call; arithmetic has reflected and in-place forms, comparisons have not.
ARITHMETIC = """add add, sub subtract, mul multiply, truediv true_divide, floordiv floor_divide, mod remainder,
    pow power, lshift left_shift, rshift right_shift, and bitwise_and, or bitwise_or, xor bitwise_xor"""
OTHERS = """lt less, le less_equal, gt greater, ge greater_equal, eq equal, ne not_equal, neg negative, pos positive,
    abs absolute, invert invert, matmul matmul"""
READS = "item tolist tobytes __bool__ __int__ __float__ __complex__ __repr__ __str__ __format__"


class ndarray:
    """An array on the device; ``_host`` is its memory, which only the stand-in may access."""

    __slots__ = ("__weakref__", "_host")
    __hash__ = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("the stand-in makes arrays by cupy.empty, cupy.zeros, cupy.asarray, ... only")

    def __getattr__(self, name: str) -> Any:
        raise _surface.unlearnt("cupy.ndarray", name)

    # Protocols that NumPy tries with foreign arrays.

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed: use `.get()`")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any] = (), **kwargs: Any) -> Any:
        for owner in ("cupy", "cupyx.scipy.special"):
            if method == "__call__" and ufunc.__name__ in _surface.SURFACE[owner]:
                return getattr(import_module(owner), ufunc.__name__)(*inputs, *out, **kwargs)
        return NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        owner = function.__module__.replace("numpy", "cupy", 1)
        if function.__name__ not in _surface.SURFACE.get(owner, ()):
            return NotImplemented
        return getattr(import_module(owner), function.__name__)(*args, **kwargs)

    # Transfers to the host: each is a copy that waits for the device.

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        if stream is not None or out is not None or not blocking:
            raise NotImplementedError("the stand-in implements get(order=) only")
        return copied("d2h", np.array(self._host, order=order, copy=True))

    def __reduce__(self) -> Any:
        return cupy.array, (self.get(),)

    # Parts.  As in CuPy there is no __index__, no __contains__, and @= is not in place.

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> "ndarray":
        index, fancy = indexed(key)
        stats["launch"] += fancy
        return device(np.array(self._host[index], order="C") if fancy else self._host[index])

    def __setitem__(self, key: Any, value: Any) -> None:
        index, fancy = indexed(key)
        stats["launch"] += 1
        if isinstance(value, ndarray):
            value = value._host
        elif fancy and not isinstance(value, SCALARS):
            value = copied("h2d", np.asarray(value))
        elif isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        elif not isinstance(value, (*SCALARS, np.ndarray)):
            raise TypeError(f"Unsupported type {type(value)}")
        if fancy:
            places = np.arange(self.size).reshape(self.shape)[index]
            if np.unique(places).size < places.size:
                raise AssertionError("assignment to repeated indices: CuPy does not say which value stays")
        self._host[index] = value

    def fill(self, value: Any) -> None:
        self[...] = value

    def __copy__(self) -> "ndarray":
        return self.copy()

    def __deepcopy__(self, memo: Any) -> "ndarray":
        return self.copy()


def device(memory: Any) -> ndarray:
    """A device array on this memory."""
    memory = np.asarray(memory)
    if memory.dtype.char not in DTYPES:
        raise ValueError(f"Unsupported dtype {memory.dtype}")
    made = object.__new__(ndarray)
    made._host = memory
    return made


def indexed(key: Any) -> tuple[tuple[Any, ...], bool]:
    """An index for NumPy with which integers give device scalars, and whether this index copies."""
    parts, fancy = [], False
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, ndarray):
            stats["sync"] += part.dtype == bool
            part, fancy = part._host, True
        elif isinstance(part, (list, tuple, np.ndarray)):
            part, fancy = copied("h2d", np.asarray(part)), True
        parts.append(part)
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    return tuple(parts), fancy


def _calls(operator: str, name: str, arithmetic: bool) -> None:
    setattr(ndarray, f"__{operator}__", lambda self, *other: getattr(cupy, name)(self, *other))
    if arithmetic or operator == "matmul":
        setattr(ndarray, f"__r{operator}__", lambda self, other: getattr(cupy, name)(other, self))
    if arithmetic:
        setattr(ndarray, f"__i{operator}__", lambda self, other: getattr(cupy, name)(self, other, self))


def _reads(name: str) -> None:
    setattr(ndarray, name, lambda self, *args: getattr(self.get(), name)(*args))


for _table in (ARITHMETIC, OTHERS):
    for _pair in _table.split(","):
        _calls(*_pair.split(), _table is ARITHMETIC)
for _name in READS.split():
    _reads(_name)
for _name in ("shape", "dtype", "size", "ndim", "strides", "itemsize", "nbytes", "flags"):
    setattr(ndarray, _name, property(attrgetter(f"_host.{_name}")))
for _name in ("T", "mT", "real", "imag"):
    setattr(ndarray, _name, property(lambda self, name=_name: device(getattr(self._host, name))))
