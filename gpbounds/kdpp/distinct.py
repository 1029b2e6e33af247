"""Rows of X on the host: which are equal, and orders of them without repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpbounds.arrays import Float, as_points, is_cupy

Indices = NDArray[np.int64]


def host_points(X: ArrayLike) -> Float:
    """X as a finite float64 array (N, D) in NumPy."""
    if is_cupy(X):
        raise ValueError("X: expected a NumPy array, got a CuPy array: pass X.get()")
    points: Any = as_points(X)
    return points.astype(np.float64, copy=False)


def groups_of(X: Float) -> Indices:
    """A number for each row, the same for equal rows: 0 … (number of distinct rows) − 1.

    >>> groups_of(np.array([[1.0], [0.0], [1.0]])).tolist()
    [1, 0, 1]
    """
    _, groups = np.unique(X, axis=0, return_inverse=True)
    return groups.ravel()


def first_of_each(order: Indices, groups: Indices) -> Indices:
    """``order`` without the rows equal to one before them.

    >>> first_of_each(np.array([2, 1, 0]), np.array([5, 3, 5])).tolist()
    [2, 1]
    """
    _, first = np.unique(groups[order], return_index=True)
    return order[np.sort(first)]


def repeated(groups: Indices) -> Indices | None:
    """``groups``, or None where no two rows are equal."""
    return groups if int(groups.max()) + 1 < groups.size else None
