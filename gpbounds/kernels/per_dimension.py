"""Positive parameters: one number for all dimensions, or one for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import TINIEST, Float


def count(value: ArrayLike) -> int | None:
    """The number of dimensions if each has its own value, otherwise None."""
    return np.size(value) if np.ndim(value) else None


def names(name: str, value: ArrayLike) -> tuple[str, ...]:
    """The names of a parameter's entries in `Kernel.parameter_names`.

    >>> names("lengthscale", [1.0, 2.0])
    ('lengthscale[0]', 'lengthscale[1]')
    """
    own = count(value)
    return (name,) if own is None else tuple(f"{name}[{d}]" for d in range(own))


def times_power(variance: ArrayLike, exponent: int) -> Float:
    """2^exponent times positive numbers; those that underflow become the smallest double above 0."""
    with np.errstate(under="ignore"):
        return np.maximum(np.ldexp(np.asarray(variance, dtype=np.float64), exponent), TINIEST)


def joined(values: list[float], like: ArrayLike) -> float | list[float]:
    """``values[0]`` where ``like`` is one number for all dimensions, otherwise all ``values``."""
    return values if np.ndim(like) else values[0]


def summed(slopes: Float, like: ArrayLike) -> Float:
    """Derivatives (D,) in the entries, added up where ``like`` is one number for all."""
    return slopes if np.ndim(like) else slopes.sum(keepdims=True)
