"""Arguments of likelihoods: arrays that broadcast, checked; functions of them over blocks that fit a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import Array, blockwise, namespace
from gpbounds.validation import one, positive

LARGEST_COUNT = 2.0**53


def one_positive(record: Any, name: str) -> None:
    """Check that a parameter of a frozen ``record`` is one positive number, and keep it as a float."""
    object.__setattr__(record, name, one(positive, name, getattr(record, name)))


def counts(y: Array) -> Array:
    """y, a whole number 0, 1, 2, … below 2⁵³ everywhere."""
    xp = namespace(y)
    good = (y >= 0.0) & (y == xp.floor(y)) & (y < LARGEST_COUNT)
    if not bool(good.all()):
        raise ValueError(f"y: expected counts 0, 1, 2, … below 2^53, got {float(y[~good].ravel()[0])!r}")
    return y


def labels(y: Array) -> Array:
    """y as −1 and 1; it must be all of {0, 1} or all of {−1, 1}."""
    xp = namespace(y)
    good = (y == 0.0) | (y == 1.0) | (y == -1.0)
    if not bool(good.all()):
        raise ValueError(f"y: expected labels in {{0, 1}} or in {{-1, 1}}, got {float(y[~good].ravel()[0])!r}")
    if bool((y == 0.0).any()) and bool((y == -1.0).any()):
        raise ValueError("y: expected labels in {0, 1} or in {-1, 1}, got 0 and -1 together")
    return xp.where(y > 0.0, 1.0, -1.0)


def variances(v: Array) -> Array:
    """v ≥ 0 everywhere."""
    if bool((v < 0.0).any()):
        raise ValueError(f"v: expected variances >= 0, got {float(v.min())!r}")
    return v


def over_blocks(function: Callable[..., tuple[Array, ...]], xp: Any, *arrays: Array) -> tuple[Any, ...]:
    """``function`` of flat arrays of one length, in blocks with NumPy, at once with CuPy; shapes are put back."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    flat = [xp.ascontiguousarray(xp.broadcast_to(a, shape)).reshape(-1) for a in arrays]
    if flat[0].size == 0:
        flat = [xp.ones(1) for _ in flat]
    with np.errstate(all="ignore"):
        found = blockwise(function, *flat) if xp is np else function(*flat)
    if 0 in shape:
        return tuple(xp.empty(shape) for _ in found)
    return tuple(part.reshape(shape) if shape or xp is not np else part[0] for part in found)
