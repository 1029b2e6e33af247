"""Argument checks of this room."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.validation import closed_unit


def extended(name: str, value: ArrayLike) -> Float:
    """Numbers in [0, ∞]."""
    try:
        numbers = np.asarray(value, dtype=np.float64) if np.asarray(value).dtype.kind in "biuf" else None
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        raise ValueError(f"{name}: expected numbers >= 0 (infinity allowed), got {value!r}")
    good = numbers >= 0.0
    if not good.all():
        raise ValueError(f"{name}: expected a number >= 0 (infinity allowed), got {numbers[~good].flat[0]!s}")
    return numbers


def delta_values(delta: ArrayLike) -> Float:
    """Probabilities of failure in (0, 1]."""
    numbers = closed_unit("delta", delta)
    if not (numbers > 0.0).all():
        raise ValueError("delta: expected a number in (0, 1], got 0.0")
    return numbers


def as_number(value: Any) -> Any:
    """An array of no dimension as a float; others as they are."""
    return float(value) if np.ndim(value) == 0 else value
