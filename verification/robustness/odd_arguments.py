"""Odd values in the place of right arguments, and what a public function may do with them.

It may return a right answer, or raise a documented error: one line that names the argument.  No NumPy warning, no
change of the caller's arrays, and no more than `LIMIT` seconds.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import fractions
import os
import re
import signal
import tempfile
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

LIMIT = 20
"""Seconds after which a call counts as hanging."""
LONGEST = 600
"""Characters that a message may have."""
PACKAGES = ("gpbounds", "fitting")
ROOT = Path(__file__).parents[2]

SAME, BAD, OTHER = "the same numbers", "refused", "right or refused"
"""What an odd value asks for: the same answer, an error, or one of a right answer and an error."""


@dataclass(frozen=True)
class Call:
    """A public callable and right arguments for it.

    Attributes
    ----------
    name : str
    function : callable
        Of keyword arguments.
    arguments : Mapping
        Right values, of optional arguments their defaults.
    without : frozenset of str
        Arguments whose default is None.
    """

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    without: frozenset[str] = frozenset()

    def odd(self) -> Iterator[tuple[str, Odd]]:
        """Each argument with each odd value in its place."""
        for name, right in self.arguments.items():
            for odd in odd_values(right):
                optional = odd.name == "None" and name in self.without
                yield name, dataclasses.replace(odd, asks=OTHER) if optional else odd


@dataclass(frozen=True)
class Odd:
    """A kind of odd value: its name, what it asks for, and a function that makes one."""

    name: str
    asks: str
    make: Callable[[], Any]


class Hangs(BaseException):
    """A call does not come to an end."""


class Plain:
    """An object of no meaning."""

    def __repr__(self) -> str:
        return "Plain()"


class Subclass(np.ndarray):
    """An array of a class of the caller's own."""


# Kinds of odd values.


def odd_values(right: Any) -> Iterator[Odd]:
    """Odd values in the place of ``right``."""
    if isinstance(right, np.ndarray) and right.dtype.kind in "fiub":
        yield from _arrays(right)
    elif isinstance(right, bool | np.bool_):
        yield from _flags(bool(right))
    elif isinstance(right, int | np.integer):
        yield from _wholes(int(right))
    elif isinstance(right, float | np.floating):
        yield from _numbers(float(right))
    elif isinstance(right, str):
        yield from _words(right)
    elif right is None:
        for name, value in (("nan", float("nan")), ("-1", -1), ("0", 0), ("half", 0.5), ("array", np.ones(3))):
            yield Odd(name, OTHER, partial(_given, value))
    else:
        yield Odd("5", BAD, lambda: 5)
        yield Odd("its type", BAD, lambda: type(right))
        yield Odd("array", BAD, lambda: np.ones((3, 2)))
    yield from _generic(right)


def _given(value: Any) -> Any:
    return value


def _generic(right: Any) -> Iterator[Odd]:
    yield Odd("None", OTHER if right is None else BAD, lambda: None)
    yield Odd("a word", BAD, lambda: "garbage")
    yield Odd("bytes", BAD, lambda: b"garbage")
    yield Odd("an object", BAD, Plain)
    yield Odd("a dict", BAD, lambda: {"a": 1})
    yield Odd("a set", BAD, lambda: {1, 2})
    yield Odd("a function", BAD, lambda: lambda *a, **k: None)
    yield Odd("a class", BAD, lambda: Plain)
    yield Odd("an empty list", OTHER, list)
    yield Odd("a generator", BAD, lambda: (i for i in range(3)))
    yield Odd("no rows, no columns", OTHER, lambda: np.zeros((0, 0)))
    yield Odd("ragged", BAD, lambda: [[1.0], [1.0, 2.0]])
    yield Odd("objects", BAD, lambda: np.array([None, "a"], dtype=object))
    yield Odd("a complex number", BAD, lambda: 1.0 + 2.0j)


def _arrays(right: np.ndarray) -> Iterator[Odd]:
    def made(name: str, asks: str, function: Callable[[np.ndarray], Any]) -> Odd:
        return Odd(name, asks, lambda: function(right.copy()))

    if right.ndim:
        yield made("list", SAME, np.ndarray.tolist)
        yield made("tuple", SAME, lambda a: tuple(a.tolist()))
        yield made("Fortran", SAME, np.asfortranarray)
        yield made("strides", SAME, _strided)
        yield made("read-only", SAME, _frozen)
        yield made("memmap", SAME, _mapped)
        yield made("subclass", SAME, lambda a: a.view(Subclass))
        yield made("big-endian", SAME, lambda a: a.astype(a.dtype.newbyteorder(">")))
        yield made("mask of nothing", SAME, np.ma.array)
    if right.dtype.kind == "f":
        yield made("longdouble", SAME, lambda a: a.astype(np.longdouble))
        yield made("float16", OTHER, lambda a: a.astype(np.float16))
        yield made("uint8", OTHER, lambda a: np.abs(np.rint(a)).astype(np.uint8))
    yield made("bool", OTHER, lambda a: a > (a.mean() if a.size else 0.0))
    if right.ndim == 2:
        yield made("DataFrame", SAME, lambda a: pd.DataFrame(a, columns=[f"c{i}" for i in range(a.shape[1])]))
        yield made("sparse matrix", BAD, scipy.sparse.csr_matrix)
        yield made("vector", OTHER, np.ravel)
        yield made("transposed", OTHER, lambda a: a.T.copy())
        yield made("no columns", BAD, lambda a: a[:, :0])
    if right.ndim == 1:
        yield made("Series", SAME, lambda a: pd.Series(a, index=range(100, 100 + len(a))))
        yield made("column", OTHER, lambda a: a[:, None])
        yield made("one row of them", OTHER, lambda a: a[None, :])
        yield made("two columns", OTHER, lambda a: np.column_stack([a, a]))
    if right.ndim and right.size:
        yield made("masked", BAD, lambda a: np.ma.array(a, mask=np.arange(a.size).reshape(a.shape) == 0))
        yield made("NaN", BAD, lambda a: _put(a, np.nan))
        if right.ndim <= 2:
            table = pd.DataFrame if right.ndim == 2 else pd.Series
            yield made("table with NA", BAD, lambda a: table(_put(a, np.nan)).astype("Float64"))
        yield made("inf", OTHER, lambda a: _put(a, np.inf))
        yield made("-inf", OTHER, lambda a: _put(a, -np.inf))
        yield made("complex", BAD, lambda a: a.astype(complex))
        yield made("strings", BAD, lambda a: a.astype(str))
        yield made("dates", BAD, lambda a: np.abs(np.rint(a)).astype("int64").astype("datetime64[D]"))
        yield made("None in it", BAD, lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, None, a.astype("O")))
        yield made("structured", BAD, lambda a: np.zeros(a.shape, [("a", float)]))
        yield made("two more axes", OTHER, lambda a: a[..., None, None])
        yield made("no rows", OTHER, lambda a: a[:0])
        yield made("one row", OTHER, lambda a: a[:1])
        yield made("a row less", OTHER, lambda a: a[:-1])
        yield made("twice", OTHER, lambda a: np.concatenate([a, a]))
        yield made("zeros", OTHER, np.zeros_like)
        yield made("constant", OTHER, lambda a: np.full(a.shape, 3.5))
        yield made("negated", OTHER, np.negative)
        yield made("1e150", OTHER, lambda a: a * 1e150)
        yield made("1e-310", OTHER, lambda a: a * 1e-310)
        yield made("largest doubles", OTHER, lambda a: np.full(a.shape, 1.7e308))
        yield made("shifted", OTHER, lambda a: a + 1e12)
        yield made("2^62", OTHER, lambda a: np.full(a.shape, 2**62))
        yield made("10^400", BAD, lambda a: np.full(a.shape, 10**400, dtype=object))
        yield made("its first number", OTHER, lambda a: float(a.flat[0]))
        if _torch() is not None:
            yield made("torch", OTHER, lambda a: _torch().from_numpy(a))


def _flags(right: bool) -> Iterator[Odd]:
    yield Odd("np.bool_", SAME, lambda: np.bool_(right))
    for value in (0, 1, 2, 0.5, "yes", "no", [True]):
        yield Odd(repr(value), BAD, partial(_given, value))
    yield Odd("two flags", BAD, lambda: np.array([True, False]))


def _numbers(right: float) -> Iterator[Odd]:
    yield Odd("float64", SAME, lambda: np.float64(right))
    yield Odd("no axes", SAME, lambda: np.array(right))
    yield Odd("longdouble", SAME, lambda: np.longdouble(right))
    yield Odd("float16", OTHER, lambda: np.float16(right))
    if np.isfinite(right):
        yield Odd("Fraction", OTHER, lambda: fractions.Fraction(right))
    yield Odd("Decimal", OTHER, lambda: decimal.Decimal(right))
    yield Odd("nan", BAD, lambda: float("nan"))
    for value in (float("inf"), -float("inf"), 0.0, -1.0 - right, 5e-324, 1e-300, 1e300, 1.7e308, 1.0 - 2.0**-53):
        yield Odd(f"{value:.3g}", OTHER, partial(_given, value))
    yield from _scalars(right)


def _wholes(right: int) -> Iterator[Odd]:
    yield Odd("int64", SAME, lambda: np.int64(right))
    yield Odd("no axes", SAME, lambda: np.array(right))
    yield Odd("float", OTHER, lambda: float(right))
    yield Odd("half more", OTHER, lambda: right + 0.5)
    yield Odd("uint8", OTHER, lambda: np.uint8(min(abs(right), 255)))
    yield Odd("nan", BAD, lambda: float("nan"))
    yield Odd("inf", OTHER, lambda: float("inf"))
    for value in (0, 1, -1, 2**31, 2**63):
        yield Odd(str(value), OTHER, partial(_given, value))
    yield from _scalars(right)


def _scalars(right: float) -> Iterator[Odd]:
    yield Odd("True", OTHER, lambda: True)
    yield Odd("its digits", BAD, lambda: str(right))
    yield Odd("10^400", BAD, lambda: 10**400)
    yield Odd("list of one", OTHER, lambda: [right])
    yield Odd("two of them", OTHER, lambda: np.array([right, right]))
    yield Odd("none of them", OTHER, lambda: np.zeros(0))
    yield Odd("a date", BAD, lambda: datetime.date(2020, 1, 1))
    yield Odd("masked", BAD, lambda: np.ma.masked)
    yield Odd("NA", BAD, lambda: pd.NA)


def _words(right: str) -> Iterator[Odd]:
    yield Odd("another word", OTHER, lambda: right + "x")
    yield Odd("empty", OTHER, str)
    yield Odd("as bytes", BAD, right.encode)
    yield Odd("3", BAD, lambda: 3)
    yield Odd("two of them", BAD, lambda: np.array([right, right]))
    yield Odd("list of it", BAD, lambda: [right])
    yield Odd("long", OTHER, lambda: right * 100_000)


def _strided(array: np.ndarray) -> np.ndarray:
    wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
    every = wide[tuple(slice(None, None, -2) for _ in array.shape)]
    every[...] = array
    return every


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _mapped(array: np.ndarray) -> Any:
    with tempfile.TemporaryDirectory() as folder:  # the map outlives the name of its file
        mapped = np.memmap(os.path.join(folder, "array"), dtype=array.dtype, mode="w+", shape=array.shape)
        mapped[...] = array
    return mapped


def _put(array: np.ndarray, value: float) -> np.ndarray:
    changed = array.astype(float)
    changed.flat[0] = value
    return changed


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


# What a call did.


def fault(call: Call, argument: str, odd: Odd, allowed: Callable[[str, str, str], bool] = lambda *_: False) -> str:
    """The fault of ``call`` with an odd value for ``argument`` as a sentence; empty if it answers right.

    ``allowed(name, argument, kind)`` says that a value of this kind is right there.
    """
    value = odd.make()
    asks = OTHER if odd.asks == BAD and allowed(call.name, argument, odd.name) else odd.asks
    arguments = {**call.arguments, argument: value}
    before = {name: _state(each) for name, each in arguments.items()}
    answer, error, warned = _tried(call, arguments)
    changed = [name for name, each in arguments.items() if before[name] is not None and before[name] != _state(each)]
    if changed:
        return f"changed: {', '.join(changed)}"
    if error is not None:
        return _of_error(error, call, argument, odd.asks if asks == odd.asks else "")
    if warned:
        return f"warned: {warned[0]}"
    if asks == BAD:
        return "accepted"
    if asks == SAME and not same(answer, call.function(**call.arguments)):
        return "another answer"
    if not allowed(call.name, argument, "nan") and _nan(answer):
        return "nan"
    return ""


def _tried(call: Call, arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None, list[str]]:
    """The answer or the error, and the warnings of NumPy and of Python."""

    def hangs(*_: Any) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LIMIT)
    answer, error = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = call.function(**arguments)
            if isinstance(answer, types.GeneratorType):
                answer = list(answer)
        except (Exception, Hangs) as wrong:
            error = wrong
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    foreign = [each for each in caught if not issubclass(each.category, UserWarning)]
    sentences = [f"{w.category.__name__}: {str(w.message)[:100]} @ {Path(w.filename).name}:{w.lineno}" for w in foreign]
    return answer, error, sentences


def _of_error(error: BaseException, call: Call, argument: str, asks: str) -> str:
    """The fault of an error; empty for a documented one that names the argument in one line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = str(error)
    where = f"{Path(last.filename).name}:{last.lineno}"
    sentence = f"{type(error).__name__}: {' '.join(text.split())[:160]} @ {where}"
    if isinstance(error, Hangs):
        return "hangs"
    own = type(error).__module__.partition(".")[0] in PACKAGES
    if not (own or type(error) in (ValueError, ArithmeticError) or isinstance(error, OSError)):
        return f"leaks {sentence}"
    ours = str(Path(last.filename).resolve()).startswith(tuple(str(ROOT / package) for package in PACKAGES))
    raised = ours and (last.line or "").startswith("raise")  # not by an operator of NumPy in a line of ours
    if not raised and not isinstance(error, OSError):
        return f"leaks {sentence}"
    if isinstance(error, OSError):
        return ""  # of the system, which names the path
    if "\n" in text or len(text) > LONGEST:
        return f"long {sentence}"
    if not asks:  # of a kind that is right there, whose parts the error is about
        return ""
    names = [argument] if asks == BAD else list(call.arguments)
    if not any(re.search(rf"\b{re.escape(name)}\b", text) for name in names):
        return f"unnamed {sentence}"
    return ""


def _state(value: Any) -> Any:
    """What must not change in an argument; None for what is not looked at."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value.shape, np.asarray(value).tobytes()
    if isinstance(value, pd.DataFrame | pd.Series):
        return value.to_json()
    return repr(value) if type(value) in (list, dict) else None


def numbers(value: Any, depth: int = 5) -> list[np.ndarray]:
    """The numbers of an answer, in order; those of objects of these packages are the numbers of their fields."""
    if isinstance(value, bool | int | float | complex | np.generic | np.ndarray):
        array = np.asarray(value)
        return [array] if array.dtype.kind in "fiubc" else []
    if depth == 0:
        return []
    if isinstance(value, Mapping):
        return [each for item in value.values() for each in numbers(item, depth - 1)]
    if isinstance(value, list | tuple):
        return [each for item in value for each in numbers(item, depth - 1)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [each for field in dataclasses.fields(value) for each in _field(value, field.name, depth)]
    ours = type(value).__module__.partition(".")[0] in PACKAGES
    return (
        [each for item in vars(value).values() for each in numbers(item, depth - 1)] if _has_fields(value, ours) else []
    )


def _field(value: Any, name: str, depth: int) -> list[np.ndarray]:
    return numbers(getattr(value, name, None), depth - 1)


def _has_fields(value: Any, ours: bool) -> bool:
    return ours and hasattr(value, "__dict__") and not isinstance(value, type)


def same(one: Any, other: Any) -> bool:
    """Whether two answers have equal numbers, up to the order in which sums were formed."""
    a, b = numbers(one), numbers(other)
    return len(a) == len(b) and all(
        x.shape == y.shape and np.allclose(x, y, rtol=1e-9, atol=1e-12, equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )


def _nan(answer: Any) -> bool:
    return any(bool(np.isnan(each).any()) for each in numbers(answer) if each.dtype.kind in "fc")


def copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with arrays of their own."""
    return {name: copy.copy(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
