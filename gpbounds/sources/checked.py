"""The rows of one partition as checked arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Float, exactly
from gpbounds.errors import NonFinite
from gpbounds.mapreduce.program import Rows

SHOWN = 5
"""Number of rows that a message names."""


def checked(number: int, X: Any, Y: Any) -> Rows:
    """`Rows` of partition ``number`` from what was read: float32 stays, everything else becomes float64.

    Raises
    ------
    ValueError
        for something else than numbers, or numbers of rows that differ.
    NonFinite
        for NaN or infinity; the message names the partition and its rows.

    >>> checked(0, [[1], [2]], [0.5, 1.5]).X
    array([[1.],
           [2.]])
    """
    points, targets = _columns(number, "X", X), _columns(number, "y", Y).astype(np.float64, copy=False)
    if len(points) != len(targets):
        raise ValueError(f"y: expected as many rows as X has in partition {number}, {len(points)}, got {len(targets)}")
    return Rows(points, targets, number, exact=is_exact(X, points) and is_exact(Y, targets))


def is_exact(came: Any, taken: Float) -> bool:
    """Whether ``taken`` are the numbers that ``came``, which were no floats of another width than doubles."""
    dtype = np.asarray(came).dtype
    if dtype.kind == "f":
        return dtype.itemsize == 8
    return dtype.kind == "b" or not taken.size or bool(np.abs(taken).max() < 2.0**53)


def _columns(number: int, name: str, values: Any) -> Float:
    array = np.asarray(exactly(f"{name} in partition {number}", values))
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected real numbers, got dtype {array.dtype} in partition {number}")
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{name}: expected one or two dimensions, got shape {array.shape} in partition {number}")
    wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if wrong.size:
        raise NonFinite(
            f"{name}: expected finite numbers, got NaN or infinity in partition {number}, in its row(s) "
            f"{[int(row) for row in wrong[:SHOWN]]} (first five shown)"
        )
    return np.ascontiguousarray(array)
