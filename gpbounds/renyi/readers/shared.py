"""What the readers of all libraries share: numbers of parameters, columns, errors, the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Float, as_points
from gpbounds.means import LinearMean
from gpbounds.renyi.models import Model
from gpbounds.renyi.readers.terms import Term, total
from gpbounds.validation import positive


def imported(terms: list[Term], noise: float, Z: Float | None, supported: str, mean: LinearMean | None = None) -> Model:
    """The model of a sum of terms; what they hold of white noise adds to ``noise``."""
    kernel, white = total(terms)
    if kernel is None:
        raise ValueError(f"model: expected {supported}, got noise alone")
    points = None if Z is None else np.asarray(as_points(Z, "Z"))
    return Model(kernel, float(positive("noise", noise + white)), points, mean)


def needs(part: Any, expected: str, *names: str) -> None:
    """Refuse an object without these attributes."""
    missing = [name for name in names if not hasattr(part, name)]
    if missing:
        raise ValueError(f"model: expected a {expected}, got {type(part).__name__} without {', '.join(missing)}")


def unknown_kernel(name: str, supported: str) -> ValueError:
    """The error of a kernel that a reader does not know."""
    return ValueError(f"model: expected a kernel made of {supported}, got {name}")


def as_numbers(value: Any) -> Float:
    """Parameters and tensors as NumPy numbers."""
    for step in ("detach", "cpu", "numpy"):
        value = getattr(value, step)() if hasattr(value, step) else value
    return np.asarray(value, dtype=np.float64)


def one_number(name: str, value: Any) -> float:
    """The number of a parameter that must have one."""
    numbers = as_numbers(value)
    if numbers.size != 1:
        raise ValueError(f"model: expected one {name}, got shape {numbers.shape}")
    return float(numbers.ravel()[0])


def one_or_each(values: Float) -> float | Float:
    """One number that all dimensions share is a number, several are an array."""
    return float(values.ravel()[0]) if values.size == 1 else values


def unbatched(name: str, value: Any) -> float | Float:
    """Parameters of shape (D,) or (1, D), as `one_or_each`."""
    numbers = as_numbers(value)
    if numbers.ndim > 2 or (numbers.ndim == 2 and numbers.shape[0] != 1):
        raise ValueError(f"model: expected one set of {name}s, got a batch of shape {numbers.shape}")
    return one_or_each(numbers.ravel())


def linear_slopes(value: Any) -> Float:
    """The slopes of a linear mean, of shape (D, 1) in other libraries."""
    numbers = as_numbers(value)
    if numbers.ndim != 2 or numbers.shape[1] != 1:
        raise ValueError(f"model: expected a linear mean of one output, got coefficients of shape {numbers.shape}")
    return numbers[:, 0]


def columns_of(active: Any) -> list[int] | None:
    """Column numbers of ``active_dims``, a slice or a list; None for all."""
    if active is None or (isinstance(active, slice) and active in (slice(None), slice(None, None, 1))):
        return None
    if isinstance(active, slice):
        start, step = active.start or 0, active.step or 1
        if active.stop is None or min(start, active.stop, step) < 0:
            raise ValueError(f"model: expected active_dims with column numbers >= 0 and an end, got {active!r}")
        return list(range(start, active.stop, step))
    columns = [int(column) for column in as_numbers(active).ravel()]
    if min(columns, default=0) < 0:
        raise ValueError(f"model: expected active_dims with column numbers >= 0, got {columns}")
    return columns
