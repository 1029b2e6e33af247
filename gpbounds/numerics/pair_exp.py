"""exp and log of a double-double number."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gpbounds.arrays import Float
from gpbounds.numerics.pairs import Pair, add, multiply, quick_two_sum, two_sum

STEPS = 64
"""exp(t) = 2^(n/64) exp(r), n a whole number, |r| ≤ log(2)/128."""
LEAST = -680.0
"""Arguments below it count as this number: exp(−680) is about 1e-296, whose low part is still a double."""


@lru_cache(maxsize=1)
def _constants() -> tuple[tuple[float, float, float], Float, Float]:
    """log(2)/64 as three doubles, of which the first two have at most 35 bits; 2^(j/64), j = 0 … 63, as pairs."""
    import mpmath

    mp = mpmath.mp.clone()  # another thread may change the precision of mpmath.mp
    mp.prec = 300
    rest, parts = mp.log(2) / STEPS, []
    for exponent in (-41, -76):  # log(2)/64 < 2⁻⁶
        part = mp.nint(mp.ldexp(rest, -exponent))
        parts.append(float(mp.ldexp(part, exponent)))
        rest -= mp.mpf(parts[-1])
    powers = [mp.mpf(2) ** (mp.mpf(j) / STEPS) for j in range(STEPS)]
    high = [float(power) for power in powers]
    low = [float(power - mp.mpf(h)) for power, h in zip(powers, high, strict=True)]
    return (parts[0], parts[1], float(rest)), np.array(high), np.array(low)


def exp(t: Pair) -> Pair:
    """e^t for t ≤ 0 as a pair, with an error of at most (8|t| + 20)u²e^t, u = 2⁻⁵³, or 1e-295 for t < −680.

    The proof is that of N-pairs: n < 2¹⁶ has 16 bits, so n·c₁ and n·c₂, c₁ + c₂ + c₃ = log(2)/64, are exact.

    >>> high, low = exp((np.array([-1.0]), np.array([0.0])))
    >>> bool(high[0] == np.exp(-1.0)), float(low[0])
    (True, -1.2428753672788363e-17)
    """
    (c1, c2, c3), high, low = _constants()
    far = t[0] < LEAST
    t0, t1 = np.where(far, LEAST, t[0]), np.where(far, 0.0, t[1])
    n = np.rint(t0 / (c1 + c2))
    total, first = two_sum(t0, -n * c1)
    total, second = two_sum(total, -n * c2)
    r = two_sum(total, (first + second) + (t1 - n * c3))
    grown = multiply(multiply(r, r), _series(r))
    power, step = np.divmod(n.astype(np.int64), STEPS)
    table = high[step], low[step]
    result = add(table, multiply(table, add(r, grown)))
    return np.ldexp(result[0], power), np.ldexp(result[1], power)


def log(t: Pair) -> Pair:
    """log t for 1 ≤ t ≤ 1e290 as a pair, with an error of at most (14 log t + 52)u², u = 2⁻⁵³  (N-pairlog).

    One step from the platform's log, of which nothing is believed.

    Raises
    ------
    ArithmeticError
        if the platform's log is not right to ten digits.

    >>> high, low = log((np.array([2.0]), np.array([0.0])))
    >>> bool(high[0] == np.log(2.0)), float(low[0])
    (True, 2.3190468138462996e-17)
    """
    first = np.log(t[0])
    zero = np.zeros_like(first)
    high, low = add(multiply(t, exp((-first, zero))), (np.full_like(first, -1.0), zero))
    if not bool((np.abs(high) <= 1e-11).all()):
        raise ArithmeticError("log: expected the platform's log to be right to ten digits, got another number")
    return add((first, zero), quick_two_sum(high, low - 0.5 * high * high))


def _series(r: Pair) -> Pair:
    """(e^r − 1 − r)/r²."""
    tail = np.zeros_like(r[0])
    for factorial in (39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0):
        tail = tail * r[0] + 1.0 / factorial
    result: Pair = (tail, np.zeros_like(tail))
    for value, rest in _COEFFICIENTS:
        result = add((np.full_like(tail, value), np.full_like(tail, rest)), multiply(result, r))
    return quick_two_sum(*result)


def _reciprocal(whole: int) -> tuple[float, float]:
    """1/whole as a pair."""
    from fractions import Fraction

    high = 1.0 / whole
    return high, float(Fraction(1, whole) - Fraction(high))


_COEFFICIENTS = [_reciprocal(whole) for whole in (120, 24, 6, 2)]
