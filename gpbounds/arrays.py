"""Arrays on the host (NumPy) or on a GPU (CuPy), and the gate for arguments.

No other module distinguishes the two by type.  This one imports CuPy only if an argument is a CuPy array, so that it
needs no GPU.
"""

from __future__ import annotations

import datetime
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, NoReturn, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.errors import NonFinite, shown

P = ParamSpec("P")
R = TypeVar("R")

# The parts of `exactly`, which all arguments pass: arrays and tables become doubles of exactly the same numbers.
#
# A number that no double equals, a masked or missing entry, a date and a complex number are refused with a remedy:
# NumPy changes them silently.

LIMIT = 2**53
"""Doubles hold all whole numbers up to this one."""

PLAIN = {float, bool, np.float64, np.float32, np.bool_}
"""Types of numbers that are doubles already."""

_DATES = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)

_HOST = (1, 3, 11)
"""Devices of DLPack that the processor reads: its memory, and memory that CUDA or ROCm has pinned."""


def on_host(name: str, value: Any) -> Any:
    """``value`` as an array of the same numbers in host memory; what holds no numbers is returned for another test."""
    if type(value) is float:
        return value
    array = value if type(value) is np.ndarray else _read(name, value)
    if not isinstance(array, np.ndarray):
        return array
    if array.dtype.kind != "O":
        return require(name, array)
    return _objects(name, array) if array.ndim or isinstance(array.item(), int) else value


def require(name: str, array: Any) -> Any:
    """``array`` if doubles equal all its numbers; it may lie on a device."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if (kind == "f" and size <= 8) or kind == "b":
        return array
    if kind == "c":
        _refuse_complex(name, array.dtype if array.ndim else f"{array.dtype} {array.item()}")
    if kind in "mM":
        _refuse_dates(name, str(array.dtype))
    if array.size and kind in "iuf" and size >= 8:
        _require_equal(name, array)
    return array


def unmasked(name: str, value: Any) -> Any:
    """``value`` without its mask, which must hide nothing: for labels, which need not be numbers."""
    if isinstance(value, list | tuple):
        for item in _items(value):
            unmasked(name, item)
    if not isinstance(value, np.ma.MaskedArray):
        return value
    hidden = np.ma.getmaskarray(value)
    if hidden.any():
        raise ValueError(
            f"{name}: expected an array without masked entries, got {int(hidden.sum())} of {hidden.size} masked"
            f"{_first(hidden)}: drop their rows, or fill them yourself, .filled(number)"
        )
    return np.asarray(value.data)


def is_dask(values: object) -> bool:
    """Whether ``values`` is a collection of Dask, by the name of its module."""
    return type(values).__module__.partition(".")[0] == "dask" and hasattr(values, "to_delayed")


def is_frame(value: Any) -> bool:
    """Whether ``value`` is a table of named columns: of pandas, Polars or Arrow."""
    return any(hasattr(value, method) for method in ("iloc", "get_columns", "itercolumns")) and np.ndim(value) == 2


def _read(name: str, value: Any) -> Any:
    """``value`` as an array of NumPy, with all digits that it came with."""
    if type(value) is int:
        return np.asarray(value)
    if type(value).__module__.partition(".")[0] == "dask" and hasattr(value, "compute"):
        value = value.compute()
    value = unmasked(name, value)
    if isinstance(value, list | tuple):
        return _listed(name, value)
    if is_frame(value):
        return _table(name, value)
    dtype = getattr(value, "dtype", None)
    if hasattr(value, "to_numpy") and hasattr(value, "isna") and not isinstance(dtype, np.dtype):
        value = _extended(name, value)
    try:
        value = _widened(value)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            if (device := value.__dlpack_device__())[0] not in _HOST:
                raise TypeError(f"it lies on device {tuple(map(int, device))}")
            return np.from_dlpack(value)
        return np.asarray(value)
    except (TypeError, RuntimeError, BufferError) as error:
        reason = " ".join(str(error).partition("\n")[0].split()).rstrip(".")
        raise ValueError(
            f"{name}: expected an array that NumPy reads, got {type(value).__name__} ({reason}): pass its numbers in "
            "host memory, dense and without a gradient, from outside of compiled functions"
        ) from None


def _widened(value: Any) -> Any:
    """``value``; of numbers in 8 or 16 bits that NumPy does not know, as bfloat16, the same numbers in float32."""
    kind = str(getattr(value, "dtype", "")).rpartition(".")[2]
    narrow = kind.startswith(("bfloat", "float8")) and not getattr(value, "requires_grad", False)
    library = _library_of(value) if narrow else None
    return value if library is None else library.asarray(value, dtype=library.float32)


def _listed(name: str, value: Any) -> Any:
    """A list, after a look at the members whose digits NumPy would drop; as it came if NumPy cannot read it."""
    for item in _items(value):
        if type(item) not in (int, str, bytes):
            on_host(name, item)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return value
    if array.dtype.kind == "f" and array.size and not np.abs(array).max() < LIMIT:  # whole numbers among others
        _objects(name, np.asarray(value, dtype=object).reshape(array.shape))
    return array


def _items(value: Any) -> Iterator[Any]:
    """The members of nested lists that are not plainly doubles."""
    if set(map(type, value)) <= PLAIN | {int}:
        return
    for item in value:
        if isinstance(item, list | tuple):
            yield from _items(item)
        elif type(item) not in PLAIN and type(item) is not int:
            yield item


def _table(name: str, frame: Any) -> Any:
    """The columns of a table side by side, each tested before NumPy gives all of them one type."""
    if hasattr(frame, "iloc"):
        columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    else:
        columns = list(frame.get_columns() if hasattr(frame, "get_columns") else frame.itercolumns())
    arrays = [on_host(name, column) for column in columns]
    if not arrays or any(array.dtype.kind not in "biuf" for array in arrays):
        return np.asarray(frame)
    return np.column_stack([_as_double(array) for array in arrays])


def _as_double(array: Any) -> Any:
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def _extended(name: str, series: Any) -> Any:
    """A column of pandas' own types as an array of NumPy."""
    missing = np.asarray(series.isna())
    kind = getattr(series.dtype, "kind", "O")
    if kind in "mM":
        _refuse_dates(name, str(series.dtype))
    if missing.any():
        _refuse_missing(name, "NA", missing)
    return series.to_numpy(dtype=np.dtype(getattr(series.dtype, "numpy_dtype", "O")))


def _objects(name: str, array: Any) -> Any:
    """Python's numbers as doubles; other objects as they came."""
    items = array.ravel().tolist()
    for kind in set(map(type, items)):
        of_kind = np.array([type(item) is kind for item in items]).reshape(array.shape)
        if kind is type(None) or kind.__name__ in ("NAType", "NaTType"):
            _refuse_missing(name, "None" if kind is type(None) else "NA", of_kind)
        if issubclass(kind, np.ma.MaskedArray):
            unmasked(name, next(item for item in items if type(item) is kind))
        if issubclass(kind, complex | np.complexfloating):
            _refuse_complex(name, kind.__name__)
        if issubclass(kind, _DATES):
            _refuse_dates(name, kind.__name__)
        if not issubclass(kind, int | float | np.bool_ | np.integer | np.floating):
            return array
    changed = np.array([_differs(item) for item in items], dtype=bool).reshape(array.shape)
    if changed.any():
        _refuse_digits(name, array, changed)
    return array.astype(np.float64)


def _differs(item: Any) -> bool:
    """Whether no double equals a number of Python or NumPy."""
    try:
        number = int(item) if isinstance(item, np.integer) else item
        return not (float(number) == number or number != number)
    except OverflowError:
        return True


def _require_equal(name: str, array: Any) -> None:
    """Refuse long integers and long doubles that no double equals."""
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            changed = ~((array.astype(np.float64) == array) | (array != array))
    elif -LIMIT <= int(array.min()) and int(array.max()) <= LIMIT:
        return
    else:
        doubles = array.astype(np.float64)
        top = 2.0**63 if array.dtype.kind == "i" else 2.0**64  # a double that rounding has moved there has no integer
        inside = doubles < top
        back = doubles * inside
        changed = ~(inside & (back.astype(array.dtype) == array))
    if bool(changed.any()):
        host = [part.get() if hasattr(part, "get") else part for part in (array, changed)]
        _refuse_digits(name, *host)


def _refuse_digits(name: str, array: Any, changed: Any) -> NoReturn:
    first = np.asarray(array[changed]).ravel()[0]
    if isinstance(first, np.floating):
        raise ValueError(
            f"{name}: expected numbers that doubles hold exactly, got {array.dtype} {first!s}{_first(changed)}, which "
            "none equals: round them yourself, .astype(float)"
        )
    whole, kind = int(first), "integers" if array.dtype.kind == "O" else str(array.dtype)
    try:
        step = f"changes by {abs(int(float(whole)) - whole)}"
    except OverflowError:
        step = "exceeds all doubles"
    offset = "subtract a common offset while they are integers, t - t[0]"
    remedy = offset if array.ndim else "round it yourself, float(...)"
    raise ValueError(
        f"{name}: expected numbers that doubles hold exactly (all whole numbers up to 2^53), got {kind} with "
        f"{_short(whole)}, which {step}{_first(changed)}: {remedy}"
    )


def _refuse_dates(name: str, kind: str) -> NoReturn:
    remedy = "t.astype('int64')" if "delta" in kind else "(t - t[0]).astype('int64'), from a time of your choice"
    raise ValueError(f"{name}: expected real numbers, got {kind}: count its units, which is exact: {remedy}")


def _refuse_complex(name: str, kind: Any) -> NoReturn:
    raise ValueError(
        f"{name}: expected real numbers, got {kind} (Complex data not supported): pass the real part, or both parts as "
        "columns"
    )


def _refuse_missing(name: str, kind: str, missing: Any) -> NoReturn:
    raise ValueError(
        f"{name}: expected real numbers, got {kind}{_first(missing)}: drop these rows, or fill them yourself"
    )


def _first(wrong: Any) -> str:
    """Where the first of the ``wrong`` entries is."""
    if wrong.ndim == 0:
        return ""
    place = [int(i) for i in np.argwhere(wrong)[0]]
    return f" in row {place[0]}" + (f", column {place[1]}" if len(place) == 2 else "")


def _short(whole: int) -> str:
    return str(whole) if abs(whole) < 10**30 else f"one of {whole.bit_length()} bits"


# Results in the kind of the caller's arrays.


def kind_of_caller(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` with arrays of the caller's library as results, where NumPy computes them.

    The first argument of one dimension or more with ``__array_namespace__`` or ``__dlpack__``, or of Dask, decides the
    library and the device; arrays of NumPy, lists, tables and single numbers go with those of any library.  All such
    arguments pass the gate `exactly` first, so ``function`` sees arrays of NumPy or CuPy.  Arrays that it returns, also
    in tuples, become arrays of that library with the same numbers.  All else stays: numbers, records, labels that are
    words, and arrays for a caller whose library has no ``asarray``.  No library is imported.

    Raises
    ------
    ValueError
        for arrays of two such libraries in one call, and for a result whose doubles the library would round.

    >>> halves = kind_of_caller(lambda x: (np.asarray(x) / 2.0, "words"))
    >>> halves(np.ones(2)), halves([1.0, 2.0])
    ((array([0.5, 0.5]), 'words'), (array([0.5, 1. ]), 'words'))
    """
    names = tuple(inspect.signature(function).parameters)

    @wraps(function)
    def answered(*args: P.args, **kwargs: P.kwargs) -> R:
        if not any(map(_is_of_another, map(type, (*args, *kwargs.values())))):
            return function(*args, **kwargs)
        given: list[tuple[str, Any]] = [*zip(names, args, strict=False), *kwargs.items()]
        others = {name: value for name, value in given if _is_of_another(cast(Any, type(value)))}
        caller = _deciding(others)
        read = {name: on_host(name, value) for name, value in others.items()}
        changed: Any = {name: read.get(name, value) for name, value in kwargs.items()}
        placed: Any = (*(read.get(name, value) for name, value in given[: len(args)]), *args[len(names) :])
        result = function(*placed, **changed)
        return result if caller is None else _in_kind(result, *caller)

    return answered


@cache
def _is_of_another(kind: Any) -> bool:
    """Whether objects of this type are arrays of another library than NumPy and CuPy; tables are none."""
    room = kind.__module__.partition(".")[0]
    if issubclass(kind, np.ndarray | np.generic) or room == "cupy":
        return False
    if room == "dask":
        return hasattr(kind, "map_blocks")
    return hasattr(kind, "__array_namespace__") or (hasattr(kind, "__dlpack__") and hasattr(kind, "ndim"))


def _library_of(value: Any) -> Any:
    """The module whose ``asarray`` makes arrays like ``value``, among those that are imported; None without one."""
    if hasattr(value, "__array_namespace__"):
        return value.__array_namespace__()
    for kind in type(value).__mro__:
        room = kind.__module__
        while room:
            if hasattr(module := sys.modules.get(room), "asarray"):
                return module
            room = room.rpartition(".")[0]
    return None


def _deciding(others: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """Of arrays by name: the first of one dimension or more, and its library; None if there is none."""
    arrays = {name: value for name, value in others.items() if getattr(value, "ndim", 1)}
    libraries = {name: _library_of(value) for name, value in arrays.items()}
    if not arrays:
        return None
    first = next(iter(arrays))
    for name, library in libraries.items():
        if library is not libraries[first]:
            kinds = [type(arrays[each]) for each in (first, name)]
            one, other = (f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds)
            raise ValueError(
                f"{name}: expected an array of the library of {first}, {one}, or of NumPy, got {other}: convert one of "
                "the two, as results come in one kind"
            )
    return (first, arrays[first], libraries[first]) if libraries[first] is not None else None


def _in_kind(result: Any, name: str, example: Any, library: Any) -> Any:
    """``result`` with arrays of ``library``, on the device of the argument ``example`` of this name if it has one."""
    if type(result) in (tuple, list):
        return type(result)(_in_kind(part, name, example, library) for part in result)
    if not isinstance(result, np.ndarray) or not result.ndim or result.dtype.kind not in "biuf":
        return result
    writable = np.require(result, requirements=["C", "W"])
    try:
        made = library.asarray(writable, device=example.device)
    except (AttributeError, TypeError, ValueError):  # a library without devices, or an array on several
        made = library.asarray(writable)
    if result.dtype.kind == "f" and (kind := str(made.dtype).rpartition(".")[2]) != result.dtype.name:
        raise ValueError(
            f"{name}: expected an array of a library that holds doubles, as results come in its kind, got "
            f"{type(example).__name__}, of which {kind} became: switch doubles on (jax_enable_x64 in JAX), or pass "
            f"numpy.asarray({name})"
        )
    return made


# Arrays of both kinds.

Array = Any
"""A NumPy array or a CuPy array."""

Float = NDArray[np.float64]
Indices = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)
"""2⁻⁵², the spacing of doubles at 1."""
TINIEST = 5e-324
"""The smallest double above 0: the rounding of numbers that underflow."""


def is_constant(spread: Float | float, largest: Float | float) -> Any:
    """Whether numbers up to ``largest`` with this standard deviation are one number and its rounding: 16 spacings.

    >>> bool(is_constant(1e-17, 0.1)), bool(is_constant(7e-5, 1e9))
    (True, False)
    """
    return spread <= 16.0 * EPS * largest


def is_cupy(array: object) -> bool:
    """True for a CuPy array, without importing CuPy."""
    return type(array).__module__.partition(".")[0] == "cupy"


def has_axes(value: Any) -> bool:
    """Whether ``value`` is more than one number: an array with axes, or a list, also one that is no array."""
    try:
        return np.ndim(value) > 0
    except (TypeError, ValueError):  # ragged
        return True


def exactly(name: str, value: Any) -> Any:
    """The gate for arguments: ``value`` as an array of the same numbers; what NumPy would change silently is refused.

    Lists, tables, and arrays of other libraries become NumPy arrays; float16, float32 and arrays of CuPy stay.  What
    holds no numbers passes, for the caller's own test.

    Raises
    ------
    ValueError
        for masked or missing entries, whole numbers or long doubles that no double equals, dates, complex numbers, and
        arrays that are not in host memory (CuPy's excepted).

    >>> exactly("X", np.ma.masked_array([1.0, 2.0], [False, False]))
    array([1., 2.])
    >>> exactly("X", [2**53 + 2, 2**53 + 1])
    Traceback (most recent call last):
    ...
    ValueError: X: expected numbers that doubles hold exactly (all whole numbers up to 2^53), got int64 with \
9007199254740993, which changes by 1 in row 1: subtract a common offset while they are integers, t - t[0]
    """
    return require(name, value) if is_cupy(value) else on_host(name, value)


def length(value: Any) -> int:
    """The number of rows of an array; 0 for one number, and for what is no array."""
    shape = getattr(value, "shape", ())
    return int(shape[0]) if shape else 0


def array_of(xp: Any, name: str, value: Any) -> Array:
    """``value`` as an array of ``xp`` of the same numbers, whose type and shape the caller tests."""
    given = exactly(name, value)
    try:
        return xp.asarray(given)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected an array of numbers, got {shown(value)}") from None


def host(array: Any) -> Float:
    """``array`` in host memory."""
    return array.get() if is_cupy(array) else np.asarray(array)


def as_number(value: Any) -> Any:
    """A zero-dimensional array as a float; other arrays unchanged.

    >>> as_number(np.array(2.0)), as_number(np.ones(2))
    (2.0, array([1., 1.]))
    """
    return float(value) if np.ndim(value) == 0 else value


def place(array: Any, xp: Any) -> Array:
    """``array`` on the device of ``xp``, unchanged if it is already there."""
    if xp is np:
        return array.get() if is_cupy(array) else array
    return xp.asarray(array)


def namespace(*arrays: object) -> Any:
    """The module, ``numpy`` or ``cupy``, of ``arrays``; a mixture of the two is an error."""
    for a in arrays:
        if type(a) is not np.ndarray and is_cupy(a):
            break
    else:
        return np
    on_gpu = [is_cupy(a) for a in arrays if a is not None]
    if not all(on_gpu):
        raise ValueError("expected all arrays on one device, got NumPy and CuPy arrays together: move them to one")
    import cupy

    return cupy


def as_points(X: ArrayLike | Array, name: str = "X", dim: int | None = None, *, finite: bool = True) -> Array:
    """``X`` as a finite floating array of shape (N, D); a vector of length N is N points in one dimension.

    float32 stays float32, everything else becomes float64.  Raises ``ValueError`` on a wrong shape and ``NonFinite``
    (naming the rows) on NaN or infinity; with ``finite=False`` the caller tests for these.
    """
    xp, given = namespace(X), exactly(name, X)
    try:
        points = xp.asarray(given)
    except ValueError:
        raise ValueError(f"{name}: expected rows of equal length, got ragged ones") from None
    came = points.shape
    if points.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected real numbers, got dtype {points.dtype}")
    if points.dtype != np.float32:
        points = points.astype(np.float64, copy=False)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[0] == 0 or points.shape[1] == 0:
        raise ValueError(f"{name}: expected shape (N, D) with N, D >= 1 (or (N,) for D = 1), got {came}")
    if finite:
        require_finite_rows(name, points)
    if dim is not None and points.shape[1] != dim:
        raise ValueError(f"{name}: expected {dim} column(s), got shape {points.shape}")
    return points


def require_finite_rows(name: str, array: Array) -> None:
    """Raise `NonFinite` for NaN or infinity in a non-empty array of one or two dimensions, with the row numbers."""
    xp, step = namespace(array), 2**16
    pieces = [array[i : i + step] for i in range(0, array.shape[0], step)]  # a memory map is read piece by piece
    if all(bool(xp.isfinite(piece).all()) for piece in pieces):
        return
    finite = xp.concatenate([xp.isfinite(piece.reshape(piece.shape[0], -1)).all(axis=1) for piece in pieces])
    rows = [int(i) for i in xp.flatnonzero(~finite)[:5]]
    raise NonFinite(f"{name}: expected finite numbers, got NaN or infinity in row(s) {rows} (first five shown)")


def as_host_points(X: ArrayLike, name: str = "X", dim: int | None = None) -> Float:
    """`as_points` in double precision and host memory."""
    if is_cupy(X):
        raise ValueError(
            f"{name}: expected a NumPy array, got a CuPy array: this function runs on the CPU: pass its .get()"
        )
    return np.asarray(as_points(X, name, dim), dtype=np.float64)


@dataclass(frozen=True)
class DistinctRows:
    """The distinct rows of a matrix, in lexicographic order.

    Attributes
    ----------
    rows : array (m, D)
    first : array of int64 (m,)
        Which row of the matrix is the first that equals each of them.
    groups : array of int64 (N,)
        Which of them each row of the matrix equals.

    >>> DistinctRows.of(np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]])).groups.tolist()
    [1, 0, 1]
    """

    rows: Float
    first: Indices
    groups: Indices

    @classmethod
    def of(cls, X: Float) -> DistinctRows:
        """Sorts columns, as Ctrl-C inside of ``numpy.unique(axis=0)`` may come out as a TypeError."""
        N, D = X.shape
        order = np.lexsort(X.T[::-1]) if D else np.arange(N)
        ordered, begins = X[order], np.ones(N, dtype=bool)
        begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        groups = np.empty(N, dtype=np.int64)
        groups[order] = np.cumsum(begins) - 1
        return cls(ordered[begins], order[begins], groups)


def distinct_rows(X: Array) -> int:
    """The number of distinct rows.

    >>> distinct_rows(np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]]))
    2
    """
    return len(DistinctRows.of(host(X)).first)


def as_reals(xp: Any, name: str, value: Any) -> Array:
    """``value`` as an array of doubles of any shape, without NaN; it may contain infinity."""
    given = exactly(name, value)
    try:
        array = xp.asarray(given)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected numbers, got {shown(value)}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected real numbers, got dtype {array.dtype}")
    if bool(xp.isnan(array).any()):
        raise NonFinite(f"{name}: expected numbers, got NaN")
    return array.astype(np.float64, copy=False)


def broadcastable(**arguments: Any) -> tuple[Any, list[Array]]:
    """The array module, and the arguments as finite arrays of doubles whose shapes broadcast."""
    xp = namespace(*(v for v in arguments.values() if has_axes(v)))
    arrays = [as_reals(xp, name, value) for name, value in arguments.items()]
    for name, array in zip(arguments, arrays, strict=True):
        if bool(xp.isinf(array).any()):
            raise NonFinite(f"{name}: expected finite numbers, got infinity")
    try:
        np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in zip(arguments, arrays, strict=True))
        raise ValueError(f"expected shapes that broadcast, got {shapes}") from None
    return xp, arrays


def blockwise(function: Callable[..., tuple[Any, ...]], *args: Any, size: int = 2**14) -> tuple[Any, ...]:
    """``function(*args)`` for elementwise functions of broadcasting NumPy arguments, in blocks that fit a cache.

    >>> blockwise(lambda a, b: (a + b, a * b), np.arange(3.0)[:, None], np.ones(2), size=2)[0].tolist()
    [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    """
    arrays = [np.asarray(a) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    total = int(np.prod(shape))
    if total <= size or not shape:
        return function(*arrays)
    rows = max(1, size * shape[0] // total)
    whole = [a.ndim < len(shape) or a.shape[0] == 1 for a in arrays]
    parts = [
        function(*(a if w else a[i : i + rows] for a, w in zip(arrays, whole, strict=True)))
        for i in range(0, shape[0], rows)
    ]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def over_blocks(function: Callable[..., tuple[Array, ...]], xp: Any, *arrays: Array) -> tuple[Any, ...]:
    """``function`` of flattened arrays, in blocks with NumPy, at once with CuPy; results have the broadcast shape."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    flat = [xp.ascontiguousarray(xp.broadcast_to(a, shape)).reshape(-1) for a in arrays]
    if flat[0].size == 0:
        flat = [xp.ones(1) for _ in flat]
    with np.errstate(all="ignore"):
        results = blockwise(function, *flat) if xp is np else function(*flat)
    if 0 in shape:
        return tuple(xp.empty(shape) for _ in results)
    return tuple(part.reshape(shape) if shape or xp is not np else part[0] for part in results)
