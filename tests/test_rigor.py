"""Balls round outwards, signs are decided, and Arb's precision is restored."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import rigor
from gpbounds.errors import NotConverged

numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(a=numbers, b=numbers.filter(bool))
def test_quotients_lie_between_neighbouring_doubles(a, b):
    truth = Fraction(a) / Fraction(b)
    with rigor.at_bits(200):
        ball = rigor.exact(a) / rigor.exact(b)
        low, high = rigor.below(ball), rigor.above(ball)
    if math.isfinite(low):
        assert Fraction(low) <= truth
    if math.isfinite(high):
        assert Fraction(high) >= truth
    assert high in (low, math.nextafter(low, math.inf))


@given(value=numbers)
def test_doubles_are_kept(value):
    ball = rigor.exact(value)
    assert ball.is_exact()
    assert rigor.below(ball) == rigor.above(ball) == value


def test_the_ends_of_zero_have_no_sign():
    assert [str(end(rigor.exact(0.0))) for end in (rigor.below, rigor.above)] == ["0.0", "0.0"]


def test_balls_wider_than_a_double_and_endless_ones():
    ball = arb(1, 1e-3)
    assert rigor.below(ball) <= 0.999
    assert rigor.above(ball) >= 1.001
    nothing = arb("nan")
    assert (rigor.below(nothing), rigor.above(nothing)) == (-math.inf, math.inf)
    assert rigor.above(rigor.exact(1e300) ** 2) == math.inf
    assert rigor.below(rigor.exact(1e300) ** 2) == 1.7976931348623157e308
    assert rigor.above(rigor.exact(1e-300) ** 2) == 5e-324


def test_signs_need_the_precision_they_need():
    tiny = lambda: (rigor.exact(1.0) + rigor.exact(1e-300)).log() - rigor.exact(1e-300)  # noqa: E731
    assert rigor.sign(tiny) == -1
    assert rigor.sign(lambda: -tiny()) == 1
    assert rigor.sign(lambda: rigor.exact(0.5) - rigor.exact(0.25) * 2) == 0
    with pytest.raises(NotConverged, match="a ball without 0"):
        rigor.sign(lambda: rigor.exact(2.0).sqrt() ** 2 - 2, bits=8192)


@pytest.mark.parametrize("upwards", [False, True])
def test_settled_is_next_to_the_truth(upwards):
    value = rigor.settled(lambda: rigor.exact(2.0).sqrt(), upwards)
    square = Fraction(value) ** 2
    assert (square > 2) == upwards
    assert (Fraction(math.nextafter(value, math.inf if not upwards else 0.0)) ** 2 > 2) != upwards


@pytest.mark.parametrize("upwards", [False, True])
def test_settled_asks_for_more_bits_until_the_double_is_known(upwards):
    """At 96 bits the ball of 10⁴⁰ + 1/3 − 10⁴⁰ is 10¹¹ wide."""
    value = rigor.settled(lambda: rigor.exact(1e40) + rigor.exact(1.0) / 3 - rigor.exact(1e40), upwards)
    assert (Fraction(value) > Fraction(1, 3)) == upwards
    assert abs(Fraction(value) - Fraction(1, 3)) < Fraction(math.ulp(1 / 3))


@pytest.mark.parametrize("upwards", [False, True])
def test_what_is_never_settled_comes_back_as_its_outer_end(upwards):
    """65 536 bits do not separate 2 ± e^−80000 from 2, and 2 itself would be the wrong side."""
    sign = 1 if upwards else -1
    value = rigor.settled(lambda: rigor.exact(2.0) + sign * (-rigor.exact(80000.0)).exp(), upwards)
    assert value == math.nextafter(2.0, math.inf if upwards else 0.0)


class Crooked:
    """``float`` of a ball may be some doubles away from the nearest one, as in another version of Arb."""

    def __init__(self, ball, steps):
        self.ball, self.steps = ball, steps

    def is_finite(self):
        return True

    def lower(self):
        return self

    def __neg__(self):
        return Crooked(-self.ball, -self.steps)

    def __ge__(self, other):
        return other <= self.ball.lower()

    def __float__(self):
        value = float(self.ball)
        for _ in range(abs(self.steps)):
            value = math.nextafter(value, math.copysign(math.inf, self.steps))
        return value


@pytest.mark.parametrize("steps", range(-3, 4))
@pytest.mark.parametrize("number", [1.0, -1.0, 2.0**-1060, 2.0**1000])
def test_ends_do_not_depend_on_how_a_ball_becomes_a_double(number, steps):
    with rigor.at_bits(96):
        ball = rigor.exact(number) / 3
        low, high = rigor.below(Crooked(ball, steps)), rigor.above(Crooked(ball, steps))
    assert Fraction(low) < Fraction(number) / 3 < Fraction(high)
    assert high == math.nextafter(low, math.inf)


def test_precision_is_restored():
    before = ctx.prec
    rigor.sign(lambda: rigor.exact(1.0))
    rigor.settled(lambda: rigor.exact(3.0).log(), True)
    with pytest.raises(ZeroDivisionError), rigor.at_bits(999):
        1 / 0  # noqa: B018
    assert ctx.prec == before


@given(value=numbers, digits=st.integers(1, 20))
def test_decimals_are_rounded_outwards(value, digits):
    assert (
        Fraction(rigor.decimal(value, False, digits)) <= Fraction(value) <= Fraction(rigor.decimal(value, True, digits))
    )


@given(value=numbers)
def test_seventeen_digits_give_the_double_back(value):
    assert value in (float(rigor.decimal(value, True)), float(rigor.decimal(value, False)))


def test_enclosed_stops_when_more_bits_do_not_narrow_the_ball():
    """A ball that is wide by what was left out of a series stays wide; one that is wide by rounding does not."""
    assert rigor.enclosed(lambda: arb(1, 1e-3)).rel_accuracy_bits() < 12
    tiny = rigor.enclosed(lambda: rigor.exact(1e-100).exp() - 1)
    assert tiny.rel_accuracy_bits() >= rigor.NARROW
    low, high = (rigor.rounded(lambda: rigor.exact(1e-100).exp() - 1, upwards=up) for up in (False, True))
    assert math.nextafter(1e-100, 0.0) <= low <= 1e-100 < high == math.nextafter(1e-100, 1.0)  # the truth is x + x²/2
    assert rigor.end_above(lambda: arb(1, 0.25)) >= 1.25
