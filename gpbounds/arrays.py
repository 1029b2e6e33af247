"""Arrays on the host (NumPy) or on a GPU (CuPy); no other module distinguishes the two by type.

This module imports CuPy only if an argument is a CuPy array, so it needs no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds import doubles
from gpbounds.errors import NonFinite

Array = Any
"""A NumPy array or a CuPy array."""

Float = NDArray[np.float64]
Indices = NDArray[np.int64]

EPS = float(np.finfo(np.float64).eps)
"""2⁻⁵², the spacing of doubles at 1."""


def is_cupy(array: object) -> bool:
    """True for a CuPy array, without importing CuPy."""
    return type(array).__module__.partition(".")[0] == "cupy"


def exactly(name: str, value: Any) -> Any:
    """The gate for arguments: ``value`` as an array of the same numbers, where NumPy would silently make others of it.

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
    return doubles.require(name, value) if is_cupy(value) else doubles.on_host(name, value)


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
    on_gpu = [is_cupy(a) for a in arrays if a is not None]
    if not any(on_gpu):
        return np
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


def as_reals(xp: Any, name: str, value: Any) -> Array:
    """``value`` as an array of doubles of any shape, without NaN; it may contain infinity."""
    given = exactly(name, value)
    try:
        array = xp.asarray(given)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: expected numbers, got {value!r}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected real numbers, got dtype {array.dtype}")
    if bool(xp.isnan(array).any()):
        raise NonFinite(f"{name}: expected numbers, got NaN")
    return array.astype(np.float64, copy=False)


def broadcastable(**arguments: Any) -> tuple[Any, list[Array]]:
    """The array module, and the arguments as finite arrays of doubles whose shapes broadcast."""
    xp = namespace(*(v for v in arguments.values() if is_cupy(v) or np.ndim(v)))
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
