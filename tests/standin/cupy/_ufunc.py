"""Elementwise functions: CuPy's loops and refusals around NumPy's or SciPy's arithmetic."""

from collections.abc import Callable
from typing import Any

import numpy as np
from cupy import _surface
from cupy._counts import stats
from cupy._ndarray import DTYPES, SCALARS, device, ndarray

RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 2}


class ufunc:
    """``host`` on device arrays and scalars, in the first of ``loops`` that takes them, as CuPy chooses it."""

    def __init__(self, name: str, loops: list[tuple[str, str]], host: Callable[..., Any]) -> None:
        self.name, self.__name__, self._loops, self._host = f"cupy_{name}", name, loops, host
        self.nin, self.nout = (len(chars) for chars in loops[0])
        self.types = ["->".join(loop) for loop in loops]

    def __getattr__(self, name: str) -> Any:
        if name in ("at", "accumulate", "outer", "reduce", "reduceat"):
            raise NotImplementedError(f"the stand-in has not learnt cupy.{self.__name__}.{name}")
        raise AttributeError(name)

    def __call__(
        self, *args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind", **unknown: Any
    ) -> Any:
        if unknown:
            raise TypeError(f"Wrong arguments {unknown} for cupy.{self.__name__}")
        if not self.nin <= len(args) <= self.nin + self.nout or (out is not None and len(args) > self.nin):
            raise TypeError(f"Wrong number of arguments for cupy.{self.__name__}")
        given = [_operand(a) for a in args[: self.nin]]
        outs = args[self.nin :] if out is None else out if isinstance(out, tuple) else (out,)
        takes, gives = self._loop(given, dtype)
        if not all(o is None or isinstance(o, ndarray) for o in outs):
            raise TypeError("Output arguments type must be cupy.ndarray")
        stats["launch"] += 1
        with np.errstate(all="ignore"):
            found = self._host(*(np.asarray(a).astype(char, copy=False) for a, char in zip(given, takes, strict=True)))
        results = []
        for i, (array, char) in enumerate(zip(found if self.nout > 1 else (found,), gives, strict=True)):
            target = outs[i] if i < len(outs) else None
            results.append(_into(np.asarray(array, char, order="C"), target, casting))
        return tuple(results) if self.nout > 1 else results[0]

    def _loop(self, given: list[Any], dtype: Any) -> tuple[str, str]:
        ranks = [(RANKS[np.asarray(a).dtype.kind], type(a) in (int, float, complex)) for a in given]
        strong = max((rank for rank, python in ranks if not python), default=-1)
        weak = -1 < max((rank for rank, python in ranks if python), default=-1) <= strong
        for takes, gives in self._loops:
            if dtype is not None:
                fits = all(np.dtype(char) == dtype for char in gives)
            else:
                fits = all(_takes(char, a, weak) for char, a in zip(takes, given, strict=True))
            if fits:
                return takes, gives
        raise TypeError(f"Wrong type ({dtype or [np.asarray(a).dtype for a in given]}) of arguments for {self.name}")


def _operand(value: Any) -> Any:
    if not isinstance(value, (ndarray, *SCALARS)):
        raise TypeError(f"Unsupported type {type(value)}")
    return value._host if isinstance(value, ndarray) else value


def _takes(char: str, value: Any, weak: bool) -> bool:
    """Whether a loop takes an operand: Python's numbers, where arrays decide, have no precision of their own."""
    if np.can_cast(np.asarray(value).dtype, char):
        return True
    return weak and type(value) in (int, float, complex) and np.result_type(type(value)(0), np.dtype(char)) == char


def _into(found: np.ndarray, out: ndarray | None, casting: str) -> ndarray:
    if out is None:
        return device(found)
    if np.broadcast_shapes(found.shape, out.shape) != out.shape:
        raise ValueError(f"Out shape is mismatched: {found.shape} into {out.shape}")
    if not np.can_cast(found.dtype, out.dtype, casting):
        raise TypeError(f"Cannot cast {found.dtype} to {out.dtype} with casting rule {casting!r}")
    out._host[...] = found
    return out


def learnt(owner: str, name: str, host: Any) -> ufunc:
    """The ufunc of this name, with the loops that CuPy has for it."""
    return ufunc(name, _surface.loops(owner, name), getattr(host, name))


chosen = ufunc("where", [(f"?{c}{c}", c) for c in DTYPES], np.where)
clipped = ufunc("clip", [(3 * c, c) for c in DTYPES], np.clip)
