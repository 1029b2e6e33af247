"""Elementwise functions: CuPy's loops and refusals with the arithmetic of NumPy or SciPy."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from cupy import _surface
from cupy._counts import stats
from cupy._ndarray import DTYPES, SCALARS, device, ndarray

Loop = tuple[str, str]
Kind = np.dtype | type
"""A dtype, or the type of a Python number, which has no precision of its own beside arrays."""
RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 2}


class ufunc:
    """``host`` on device arrays and scalars, with the loop that CuPy would choose."""

    def __init__(self, name: str, loops: tuple[Loop, ...], host: Callable[..., Any]) -> None:
        self.name, self.__name__, self._loops, self._host = f"cupy_{name}", name, loops, host
        self.nin, self.nout = (len(chars) for chars in loops[0])
        self.types = ["->".join(loop) for loop in loops]

    def __getattr__(self, name: str) -> Any:
        if name in ("accumulate", "at", "outer", "reduce", "reduceat"):
            raise NotImplementedError(f"the stand-in has not learnt cupy.{self.__name__}.{name}")
        raise AttributeError(name)

    def __call__(
        self, *args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind", **unknown: Any
    ) -> Any:
        if unknown:
            raise TypeError(f"Wrong arguments {sorted(unknown)} for {self.name}")
        inputs, outs = args[: self.nin], args[self.nin :]
        if len(inputs) < self.nin or len(outs) > self.nout or (out is not None and outs):
            raise TypeError(f"Wrong number of arguments for {self.name}")
        if out is not None:
            outs = out if isinstance(out, tuple) else (out,)
        wrong = [type(a) for a in inputs if not isinstance(a, (ndarray, *SCALARS))]
        wrong += [type(o) for o in outs if not isinstance(o, (ndarray, type(None)))]
        if wrong:
            raise TypeError(f"Unsupported type {wrong} for {self.name}")
        operands = [a._host if isinstance(a, ndarray) else a for a in inputs]
        loop = _first(self._loops, tuple(map(_kind, operands)), None if dtype is None else np.dtype(dtype))
        if loop is None:
            raise TypeError(f"Wrong type ({[_kind(a) for a in operands]}, dtype {dtype}) of arguments for {self.name}")
        stats["launch"] += 1
        with np.errstate(all="ignore"):
            result = self._host(*map(np.asarray, operands, loop[0]))
        parts = [
            np.asarray(p, c, order="C") for p, c in zip(result if self.nout > 1 else [result], loop[1], strict=True)
        ]
        made = [_into(o, part, casting) for o, part in zip((*outs, *[None] * self.nout), parts, strict=False)]
        return tuple(made) if self.nout > 1 else made[0]


def _kind(operand: Any) -> Kind:
    return type(operand) if type(operand) in (int, float, complex) else np.asarray(operand).dtype


@cache
def _first(loops: tuple[Loop, ...], kinds: tuple[Kind, ...], dtype: np.dtype | None) -> Loop | None:
    """The first loop that gives ``dtype``, or the first that takes the operands without loss."""
    if dtype is not None:
        return next((loop for loop in loops if all(char == dtype for char in loop[1])), None)
    numbers, arrays = ([k for k in kinds if isinstance(k, type) is python] for python in (True, False))
    weak = _rank(numbers) <= _rank(arrays)

    def takes(char: str, kind: Kind) -> bool:
        return np.can_cast(np.dtype(kind), char) or (
            weak and isinstance(kind, type) and np.result_type(kind(0), np.dtype(char)) == char
        )

    return next((loop for loop in loops if all(map(takes, loop[0], kinds))), None)


def _rank(kinds: list[Kind]) -> int:
    return max((RANKS[np.dtype(k).kind] for k in kinds), default=-1)


def _into(out: ndarray | None, result: np.ndarray, casting: str) -> ndarray:
    if out is None:
        return device(result)
    if np.broadcast_shapes(result.shape, out.shape) != out.shape:
        raise ValueError(f"Out shape is mismatched: {result.shape} into {out.shape}")
    if not np.can_cast(result.dtype, out.dtype, casting):
        raise TypeError(f"Cannot cast {result.dtype} to {out.dtype} with casting rule {casting!r}")
    out._host[...] = result
    return out


def learnt(owner: str, name: str, host: Any) -> ufunc:
    """The ufunc of this name, with the loops that CuPy has for it."""
    if not hasattr(host, name):
        raise _surface.unlearnt(owner, name)
    return ufunc(name, _surface.loops(owner, name), getattr(host, name))


where = ufunc("where", tuple((f"?{c}{c}", c) for c in DTYPES), np.where)
clip = ufunc("clip", tuple((3 * c, c) for c in DTYPES), np.clip)
