"""Checks of matrix arguments: finite, square, symmetric; on NumPy or CuPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, exactly, namespace, require_finite_rows

TOLERANCE = 1e-8
"""Largest allowed difference |A_ij − A_ji|, relative to the largest entry."""
STRIP = 512
"""Number of rows compared at a time; a full transposed copy would need another N² numbers."""


def finite_matrix(name: str, value: ArrayLike | Array, expected: str) -> Array:
    """``value`` as a finite, non-empty float64 matrix on its device; ``expected`` is text for the error message."""
    xp, given = namespace(value), exactly(name, value)
    try:
        A = xp.asarray(given)
    except ValueError:
        raise ValueError(f"{name}: expected rows of equal length, got ragged ones") from None
    if A.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected real numbers, got dtype {A.dtype}")
    if A.ndim != 2 or 0 in A.shape:
        raise ValueError(f"{name}: expected {expected}, got shape {A.shape}")
    A = A.astype(np.float64, copy=False)
    require_finite_rows(name, A)
    return A


def square_matrix(name: str, value: ArrayLike | Array, N: int | None = None) -> Array:
    """``value`` as a finite float64 matrix (N, N) on its device."""
    expected = "a square matrix (N, N)" if N is None else f"shape ({N}, {N})"
    A = finite_matrix(name, value, expected)
    if A.shape[0] != A.shape[1] or N not in (None, A.shape[0]):
        raise ValueError(f"{name}: expected {expected}, got shape {A.shape}")
    return A


def symmetric_matrix(
    name: str, value: ArrayLike | Array, N: int | None = None, *, tolerance: float = TOLERANCE
) -> Array:
    """``value`` as a finite symmetric float64 matrix (N, N) on its device.

    >>> symmetric_matrix("K", [[2.0, 1.0], [0.5, 2.0]])
    Traceback (most recent call last):
    ValueError: K: expected a symmetric matrix, got K[0, 1] = 1.0 and 0.5 across
    """
    A = square_matrix(name, value, N)
    require_symmetric(name, A, tolerance)
    return A


def require_symmetric(name: str, A: Array, tolerance: float = TOLERANCE) -> None:
    """Raise an error if |A_ij − A_ji| of a finite square matrix exceeds ``tolerance`` times its largest entry."""
    xp = namespace(A)
    size, worst, start = 0.0, 0.0, 0
    for first in range(0, A.shape[0], STRIP):
        rows = slice(first, first + STRIP)
        size = max(size, float(xp.abs(A[rows]).max()))
        gap = float(xp.abs(A[rows] - A[:, rows].T).max())
        if gap > worst:
            worst, start = gap, first
    if worst > tolerance * size:
        rows = slice(start, start + STRIP)
        i, j = divmod(int(xp.abs(A[rows] - A[:, rows].T).argmax()), A.shape[0])
        i += start
        raise ValueError(
            f"{name}: expected a symmetric matrix, got {name}[{i}, {j}] = {float(A[i, j])} and {float(A[j, i])} across"
        )
