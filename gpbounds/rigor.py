"""Ball arithmetic with Arb (python-flint): doubles taken exactly, results rounded outwards, signs decided.

A ball encloses the true value together with all rounding errors.  ``mpmath.iv`` is not used: it is unsound for exp
and log near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from gpbounds.errors import NotConverged
from gpbounds.numerics.search import first_double

MOST_BITS = 1 << 16
NARROW = 62
"""Bits to which `enclosed` decides a number: nine more than a double has."""
AFFORDABLE = 2000
"""Rows up to which "auto" proves what costs several times as much as doubles: at most 16 s for 30 digits."""


def exact(value: float) -> Any:
    """The double ``value`` as a ball of radius 0.

    >>> exact(0.1).is_exact()
    True
    """
    from flint import arb

    return arb(float(value))


def within(value: float, error: float) -> Any:
    """All numbers within ``error`` ≥ 0 of the double ``value``, as a ball.

    >>> 1 / 3 in within(0.3, 0.1), exact(0.5) in within(0.3, 0.1)
    (True, False)
    """
    from flint import arb

    return arb(float(value), float(error))


def rational(value: Fraction) -> Any:
    """The ball of a fraction at the present precision; of radius 0 where it is a binary fraction of so many bits.

    >>> rational(Fraction(1, 3)).is_exact(), rational(Fraction(3, 8)).is_exact()
    (False, True)
    """
    from flint import arb, fmpq

    return arb(fmpq(value.numerator, value.denominator))


def at_bits(bits: int) -> Any:
    """A context manager that sets Arb's precision and restores the previous one at its end."""
    from flint import ctx

    return ctx.workprec(bits)


def sign(expression: Callable[[], Any], bits: int = 96) -> int:
    """Sign of a real number, −1, 0 or 1: ``expression`` is evaluated with more and more bits until its ball decides.

    Raises
    ------
    NotConverged
        if the ball still contains 0 and other numbers at 65 536 bits.

    >>> sign(lambda: exact(0.1) * 10 - 1)  # the double 0.1 is above a tenth
    1
    """
    while bits <= MOST_BITS:
        with at_bits(bits):
            ball = expression()
            if ball > 0:
                return 1
            if ball < 0:
                return -1
            if ball.is_zero():
                return 0
        bits *= 2
    raise NotConverged(f"expected a ball without 0, got one that contains 0 at {MOST_BITS} bits: is the number 0?")


def enclosed(expression: Callable[[], Any], bits: int = 128) -> Any:
    """The ball of a real number, narrow to 62 bits: ``expression`` is evaluated with more and more bits.

    The ball stays wider if ``expression`` encloses more than roundings, such as what was left out of a series: more
    bits are tried until they do not halve its width.

    >>> enclosed(lambda: exact(2.0).sqrt()).rel_accuracy_bits() > NARROW
    True
    """
    return enclosed_each(lambda: [expression()], bits)[0]


def enclosed_each(expressions: Callable[[], list[Any]], bits: int = 128) -> list[Any]:
    """The balls of several numbers that one calculation gives, all narrow to 62 bits; as :func:`enclosed`.

    >>> [ball.rel_accuracy_bits() > NARROW for ball in enclosed_each(lambda: [exact(2.0).sqrt(), exact(3.0).log()])]
    [True, True]
    """
    accuracy = 0
    while True:
        with at_bits(bits):
            balls = expressions()
        reached = min((ball.rel_accuracy_bits() for ball in balls), default=NARROW)
        if reached >= NARROW or bits >= MOST_BITS or 0 < reached <= accuracy:
            return balls
        accuracy, bits = max(reached, 0), 2 * bits


def end_above(expression: Callable[[], Any]) -> Any:
    """The upper end of :func:`enclosed` as an exact number, of 128 bits."""
    ball = enclosed(expression)
    with at_bits(128):
        return ball.upper()


def rounded(expression: Callable[[], Any], upwards: bool) -> float:
    """The double at or next to the upper or lower end of :func:`enclosed`: on its side of the real number, and 1.01 ulp
    from it at most where the number is decided to 62 bits.

    >>> [rounded(lambda: exact(2.0).sqrt(), upwards=up) for up in (False, True)]
    [1.414213562373095, 1.4142135623730951]
    """
    ball = enclosed(expression)
    with at_bits(MOST_BITS):  # the ends as they are
        return above(ball) if upwards else below(ball)


def outer(formula: Callable[..., Any], *numbers: Any, upwards: bool = True) -> Any:
    """:func:`rounded` for each entry of arrays that broadcast; the arguments of ``formula`` are their entries.

    >>> outer(lambda x, n: exact(x) ** int(n) / 3, [1.0, 2.0], 2).tolist()
    [0.33333333333333337, 1.3333333333333335]
    """
    wide = np.broadcast_arrays(*numbers)
    cells = zip(*(array.ravel().tolist() for array in wide), strict=True)
    values = [rounded(lambda cell=cell: formula(*cell), upwards) for cell in cells]  # type: ignore[misc]
    return np.array(values, dtype=np.float64).reshape(wide[0].shape)


def above(ball: Any) -> float:
    """The least double that is not below any number in ``ball``.

    >>> with at_bits(96):
    ...     above(exact(1.0) / 3) == 1 / 3 + 2**-54
    True
    """
    return 0.0 - below(-ball)  # 0 has no sign


def below(ball: Any) -> float:
    """The largest double that is not above any number in ``ball``.

    >>> with at_bits(96):
    ...     below(exact(1.0) / 3) == 1 / 3  # 1/3 is rounded down
    True
    """
    if not ball.is_finite():
        return -math.inf
    end = ball.lower()
    return first_double(lambda value: bool(exact(value) <= end), float(end), -math.inf)


def settled(expression: Callable[[], Any], upwards: bool, bits: int = 96) -> float:
    """The double next to a real number, above or below it.

    The precision grows until both ends of the ball round to the same double.  They never do if the number is itself a
    double that the ball only approximates: then the function returns the outer end at 65 536 bits.

    >>> [settled(lambda: exact(2.0).sqrt(), upwards=up) for up in (False, True)]
    [1.414213562373095, 1.4142135623730951]
    """
    outer = math.nan
    while bits <= MOST_BITS:
        with at_bits(bits):
            ball = expression()
            low, high = (above(ball.lower()), above(ball)) if upwards else (below(ball), below(ball.upper()))
        if low == high:
            return low
        outer = high if upwards else low
        bits *= 2
    return outer


def decimal(value: float, upwards: bool, digits: int = 17) -> str:
    """``value`` rounded up or down to ``digits`` significant decimal digits; the exact decimal expansion may have
    hundreds.

    >>> decimal(0.1, True), decimal(0.1, False)  # the double is 0.1000000000000000055...
    ('0.10000000000000001', '0.10000000000000000')
    """
    rounding = ROUND_CEILING if upwards else ROUND_FLOOR
    return str(Context(prec=digits, rounding=rounding, Emin=-400, Emax=400).create_decimal(Decimal(value)))
