"""The same roots rounded outwards, each proved by the sign of φ(x) − 2γ in Arb balls (python-flint)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.numerics.search import first_double
from gpbounds.rigor import above, at_bits, exact, sign


def outwards(gamma: Float, start: tuple[Float, ...]) -> tuple[Float, ...]:
    """(b down, t up, log b down), or (b − 1 down, t − 1 up), from approximations ``start``: the nearest safe floats.

    φ(x) = x − 1 − log x falls up to 1 and rises beyond, so x ≤ b exactly where x < 1 and φ(x) ≥ 2γ, and x ≥ t exactly
    where x > 1 and φ(x) ≥ 2γ.  A float x ≠ 1 is never a root for a float γ (log x would be algebraic), so enough bits
    settle the sign.
    """
    kinds = ((_less_one, -1), (_less_one, 1)) if len(start) == 2 else ((_ratio, -1), (_ratio, 1), (_logarithm, -1))
    found = [np.array(values) for values in start]
    for i, g in enumerate(gamma):
        if g == 0.0 or g == np.inf:
            continue  # exact
        for values, (excess, side) in zip(found, kinds, strict=True):
            values[i] = first_double(partial(_beyond, excess, float(g), side), float(values[i]), side * math.inf)
    return tuple(found)


def _beyond(excess: Callable[[Any, Any], Any], gamma: float, side: int, x: float) -> bool:
    """Whether x lies beyond the root on ``side``, decided by balls that do not hold 0."""
    middle = 1.0 if excess is _ratio else 0.0
    if (x - middle) * side <= 0.0:
        return False
    if math.isinf(x) or (excess is _ratio and x <= 0.0) or (excess is _less_one and x <= -1.0):
        return True  # b and b − 1 lie above 0 and −1, everything within ±inf
    if excess is _logarithm and x < -40.0 and 1 + Fraction(x) + 2 * Fraction(gamma) <= 0:
        return True  # e^x is all that is left, and may be too small for any number of bits
    return sign(lambda: excess(exact(x), exact(gamma)), bits=128) > 0


def _ratio(x: Any, gamma: Any) -> Any:
    return x - 1 - x.log() - 2 * gamma


def _less_one(h: Any, gamma: Any) -> Any:
    return h - h.log1p() - 2 * gamma


def _logarithm(s: Any, gamma: Any) -> Any:
    return s.expm1() - s - 2 * gamma


def mean_upwards(gamma: float) -> float:
    """The least float that is not below √(e^(2γ) − 1)."""
    if gamma == 0.0 or gamma > 800.0:
        return 0.0 if gamma == 0.0 else math.inf
    with at_bits(256):
        return above((2 * exact(gamma)).expm1().sqrt())
