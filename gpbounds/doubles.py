"""What arrays and tables of every kind become: doubles of the same numbers, or an error that says what to do.

`gpbounds.arrays.exactly` is the gate through which all arguments pass; this module is what it does.  A number that no
double equals, a masked or missing entry, a date and a complex number are refused, since NumPy turns them into other
numbers without a word.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

LIMIT = 2**53
"""Doubles hold all whole numbers up to this one."""

PLAIN = {float, bool, np.float64, np.float32, np.bool_}
"""Types of numbers that are doubles already."""

DATES = (datetime.date, datetime.timedelta, np.datetime64, np.timedelta64)

HOST = (1, 3, 11)
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
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            if (device := value.__dlpack_device__())[0] not in HOST:
                raise TypeError(f"it lies on device {tuple(map(int, device))}")
            return np.from_dlpack(value)
        return np.asarray(value)
    except (TypeError, RuntimeError, BufferError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"{name}: expected an array that NumPy reads, got {type(value).__name__} ({reason}): "
            "copy it to host memory first"
        ) from None


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
        if issubclass(kind, DATES):
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
