"""Sums and products with twice the digits: a value is the unevaluated sum of a high and a low part (Dekker)."""

from __future__ import annotations

from gpbounds.arrays import Array

SPLITTER = 134217729.0
"""2^27 + 1: splits a float64 into two halves of 26 bits."""

Pair = tuple[Array, Array]


def add(a: Array, b: Array, low: Array = 0.0) -> Pair:
    """a + b + low, ``low`` small, as a pair.

    >>> add(1.0, 1e-20)
    (1.0, 1e-20)
    """
    total = a + b
    part = total - a
    return total, ((a - (total - part)) + (b - part)) + low


def _halves(a: Array) -> Pair:
    wide = SPLITTER * a
    high = wide - (wide - a)
    return high, a - high


def product(a: Array, b: Array) -> Pair:
    """a·b, exact as a pair while nothing over- or underflows.

    >>> product(1.0 + 2.0**-30, 1.0 + 2.0**-30) == (1.0 + 2.0**-29, 2.0**-60)
    True
    """
    value = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return value, ((a1 * b1 - value) + a1 * b2 + a2 * b1) + a2 * b2


def times(a: Array, b: Pair) -> Pair:
    """a·(b₁ + b₂) as a pair."""
    value, low = product(a, b[0])
    return value, low + a * b[1]
