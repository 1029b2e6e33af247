"""Double-double numbers: the unevaluated sum of a high and a low part, after Dekker and Knuth.

`add`, `multiply`, `divide` and `square_root` take and return pairs with |low| ≤ 2u|high|, u = 2⁻⁵³.  Their errors are
stated for numbers so large that no product of low parts underflows (above 1e-250, or 0), and proved in N-pairs.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from gpbounds.arrays import Array, Float, namespace

_SPLITTER = 134217729.0
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
    wide = _SPLITTER * a
    high = wide - (wide - a)
    return high, a - high


def times(a: Array, b: Pair) -> Pair:
    """a·(b₁ + b₂) as a pair."""
    value, low = two_product(a, b[0])
    return value, low + a * b[1]


def quick_two_sum(a: Array, b: Array) -> Pair:
    """a + b as an exact pair, for |a| ≥ |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def add(a: Pair, b: Pair) -> Pair:
    """a + b, with an error of at most 6u²(|a| + |b|) (N-pairs)."""
    total, remainder = two_sum(a[0], b[0])
    return two_sum(total, remainder + (a[1] + b[1]))


def multiply(a: Pair, b: Pair) -> Pair:
    """a·b, with an error of at most 18u²|a·b| (N-pairs)."""
    value, remainder = two_product(a[0], b[0])
    return quick_two_sum(value, remainder + (a[0] * b[1] + a[1] * b[0]))


def divide(a: Pair, d: Array) -> Pair:
    """a/d for a double d ≠ 0, with an error of at most 7u²|a/d| (N-pairs)."""
    q = a[0] / d
    value, remainder = two_product(q, d)
    return quick_two_sum(q, ((a[0] - value) - remainder + a[1]) / d)


def square_root(a: Pair) -> Pair:
    """√a for a ≥ 0, with an error of at most 12u²√a (N-pairs)."""
    xp = namespace(a[0])
    q = xp.sqrt(a[0])
    value, remainder = two_product(q, q)
    rest = (a[0] - value) - remainder + a[1]
    return quick_two_sum(q, rest / xp.where(q > 0.0, 2.0 * q, 1.0))


def reciprocal(a: Pair) -> Pair:
    """1/a for a > 0 to about 30 digits, without a proved error; the product with a gives a bound on it."""
    xp = namespace(a[0])
    q = 1.0 / a[0]
    one = xp.ones_like(q), xp.zeros_like(q)
    rest = add(one, multiply((-q, xp.zeros_like(q)), a))
    return quick_two_sum(q, q * (rest[0] + rest[1]))


def row_sums(terms: Pair) -> Pair:
    """The sums over the last axis, of k terms by halves, with an error of at most 7⌈log₂ k⌉u² Σ|terms|, k ≤ 2⁴⁰.

    Proof.  Each of the ⌈log₂ k⌉ levels adds neighbours, which errs by 6u² times the sum of their absolute values; these
    sums exceed Σ|terms| by a relative error of 6·40u² at most.
    """
    high, low = terms
    xp = namespace(high)
    while high.shape[-1] > 1:
        half = high.shape[-1] // 2
        odd = high[..., 2 * half :], low[..., 2 * half :]
        high, low = add((high[..., :half], low[..., :half]), (high[..., half : 2 * half], low[..., half : 2 * half]))
        high, low = xp.concatenate([high, odd[0]], axis=-1), xp.concatenate([low, odd[1]], axis=-1)
    return high[..., 0], low[..., 0]


# exp and log of a double-double number.

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
    >>> float(high[0]), float(low[0])
    (0.36787944117144233, -1.2428753672788363e-17)
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

    One correction step from the platform's log, whose error is measured, not assumed.

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


# sin² of a multiple of π for a double-double number.

PAIRS, TERMS = 6, 12
"""Terms of the series with coefficients in double-double, and all terms: the next one is below 3e-39."""


@lru_cache(maxsize=1)
def _sine_constants() -> tuple[tuple[float, float], list[tuple[float, float]]]:
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
    quarter, coefficients = _sine_constants()
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
