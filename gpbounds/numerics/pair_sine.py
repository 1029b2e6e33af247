"""sin² of a multiple of π for a double-double number."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from gpbounds.numerics.pairs import Pair, add, multiply, quick_two_sum

PAIRS, TERMS = 6, 12
"""Terms of the series with coefficients in double-double, and all terms: the next one is below 3e-39."""


@lru_cache(maxsize=1)
def _constants() -> tuple[tuple[float, float], list[tuple[float, float]]]:
    """π/4 and (−1)^k/(2k + 1)! for k = 1 … `TERMS`, as pairs."""
    import mpmath

    with mpmath.workprec(300):

        def pair(number: mpmath.mpf) -> tuple[float, float]:
            high = float(number)
            return high, float(number - mpmath.mpf(high))

        terms = [pair(mpmath.mpf((-1) ** k) / math.factorial(2 * k + 1)) for k in range(1, TERMS + 1)]
        return pair(mpmath.pi / 4), terms


def whole_turns_removed(t: Pair) -> Pair:
    """t − n for a whole number n, between −.51 and .51, with an error of at most 13u²(|t| + 1)  (N-pairsine).

    >>> high, low = whole_turns_removed((np.array([1e9 + 0.25]), np.array([1e-8])))
    >>> float(high[0]), abs(float(low[0])) < 1e-16
    (0.25000001, True)
    """
    for _ in range(2):
        whole = np.rint(t[0])
        t = add(t, (-whole, np.zeros_like(whole)))
    return t


def sine_squared(t: Pair) -> Pair:
    """sin²(πt) for |t| ≤ .51 as a pair, with an error of at most 190u² sin²(πt), u = 2⁻⁵³  (N-pairsine).

    With s = sin²(πt/4), sin² of twice an angle is 4s(1 − s), taken twice.

    >>> high, low = sine_squared((np.array([1.0 / 6.0]), np.array([2.0**-55 / 3.0])))  # sin²(π/6)
    >>> float(high[0]), abs(float(low[0])) < 1e-30
    (0.25, True)
    """
    quarter, coefficients = _constants()
    angle = multiply(t, (np.float64(quarter[0]), np.float64(quarter[1])))
    x = multiply(angle, angle)
    tail = np.zeros_like(x[0])
    for high, _ in reversed(coefficients[PAIRS:]):
        tail = (tail + high) * x[0]
    series: Pair = (tail, np.zeros_like(tail))
    for high, low in reversed(coefficients[:PAIRS]):
        series = multiply(add(series, (np.full_like(tail, high), np.full_like(tail, low))), x)
    one = np.ones_like(tail), np.zeros_like(tail)
    sine = multiply(angle, quick_two_sum(*add(one, series)))
    s = multiply(sine, sine)
    for _ in range(2):
        s = multiply((4.0 * s[0], 4.0 * s[1]), add(one, (-s[0], -s[1])))
    return s
