"""Double-double numbers: the unevaluated sum of a high and a low part, after Dekker and Knuth."""

from __future__ import annotations

from gpbounds.arrays import Array

SPLITTER = 134217729.0
"""2^27 + 1: splits a float64 into two halves of 26 bits."""

Pair = tuple[Array, Array]


def two_sum(a: Array, b: Array) -> Pair:
    """a + b as an exact pair, unless it overflows.

    >>> two_sum(1.0, 1e-20)
    (1.0, 1e-20)
    """
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Array, b: Array) -> Pair:
    """a·b as an exact pair, unless a product over- or underflows.

    >>> two_product(1.0 + 2.0**-30, 1.0 + 2.0**-30) == (1.0 + 2.0**-29, 2.0**-60)
    True
    """
    value = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return value, ((a1 * b1 - value) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> Pair:
    wide = SPLITTER * a
    high = wide - (wide - a)
    return high, a - high


def times(a: Array, b: Pair) -> Pair:
    """a·(b₁ + b₂) as a pair."""
    value, low = two_product(a, b[0])
    return value, low + a * b[1]
