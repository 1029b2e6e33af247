"""The ground floor: numbers of twice the digits are exact, searches find the least, roots lie where they should."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.errors import NotConverged
from gpbounds.numerics.pairs import times, two_product, two_sum
from gpbounds.numerics.search import (
    bisected,
    first_double,
    golden,
    halved,
    least,
    least_decreasing,
    least_each,
    newton,
    upward,
)

numbers = st.floats(-1e100, 1e100).filter(lambda x: x == 0.0 or abs(x) > 1e-100)


@given(numbers, numbers)
def test_sums_and_products_of_two_doubles_are_exact(a, b):
    for pair, truth in (
        (two_sum(a, b), Fraction(a) + Fraction(b)),
        (two_product(a, b), Fraction(a) * Fraction(b)),
    ):
        high, low = pair
        assert Fraction(high) + Fraction(low) == truth
        assert high + low == high  # the high part is the nearest double


@given(st.floats(1e-50, 1e50), st.floats(1e-50, 1e50), st.floats(-1.0, 1.0))
def test_a_product_with_a_pair_has_twice_the_digits(a, high, share):
    low = share * math.ulp(high) / 2.0
    product = times(a, (high, low))
    truth = Fraction(a) * (Fraction(high) + Fraction(low))
    assert abs(Fraction(product[0]) + Fraction(product[1]) - truth) <= Fraction(2) ** -104 * truth


@given(st.integers(0, 10**30), st.integers(0, 5), st.integers(0, 10**30))
def test_the_least_number_that_holds_is_found_in_few_questions(truth, first, beyond):
    asked = []

    def holds(n):
        asked.append(n)
        return n >= truth

    highest = max(truth, first) + beyond
    assert least(holds, first, highest) == max(truth, first)
    assert len(asked) <= 3 + 2 * max(truth, 1).bit_length()
    assert max(asked) <= max(2 * truth, first, 1)  # nothing far beyond the answer is asked for
    if truth > first:
        assert least(holds, first, truth - 1) is None


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_upward_and_bisection_bracket_the_same_number(truth, first):
    low, high = upward(lambda n: n >= truth, first)
    assert low < truth <= high or low == first - 1
    if low < truth <= high:
        assert bisected(lambda n: n >= truth, low, high) == truth
        near = bisected(lambda n: n >= truth, low, high, share=0.05)
        assert truth <= near <= max(truth + 1, 1.06 * truth)


@given(
    st.lists(st.sampled_from([0.0, 0.01, 0.5, 0.9, 1.0]), min_size=1, max_size=60),
    st.integers(0, 5),
    st.integers(-5, 70),
    st.sampled_from([1e-300, 1e-3, 1.0, 1e300]),
)
def test_a_search_along_secants_finds_the_least_number_of_any_decreasing_function(ratios, first, guess, start):
    values = dict(enumerate(start * np.cumprod(ratios), first))
    asked = []
    target = 1e-2
    answer = least_decreasing(lambda n: asked.append(n) or values[n], target, first, first + len(ratios) - 1, guess)
    assert answer == next((n for n, at in values.items() if at <= target), None)
    assert len(asked) == len(set(asked)) <= 20
    if answer == guess > first:
        assert asked == [guess, guess - 1]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000)), min_size=1))
def test_a_vector_of_searches_is_each_search(triples):
    low, width, truth = np.array(triples, dtype=np.float64).T
    high = low + width
    answers = least_each(lambda n: n >= truth, low, high)
    np.testing.assert_array_equal(answers, np.clip(truth, low, high))


@given(st.floats(1e-300, 1e300), st.integers(-60, 60), st.sampled_from([-math.inf, math.inf]))
def test_the_first_double_beyond_a_threshold_is_the_threshold(threshold, off, outward):
    guess = threshold
    for _ in range(abs(off)):
        guess = math.nextafter(guess, math.copysign(math.inf, off))
    beyond = (lambda x: x >= threshold) if outward > 0 else (lambda x: x <= threshold)
    assert first_double(beyond, guess, outward) == threshold


def test_a_guess_that_is_far_off_is_refused():
    with pytest.raises(NotConverged, match=r"within 64 doubles of its approximation 1\.0"):
        first_double(lambda x: x >= 1.1, 1.0, math.inf)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20), st.floats(0.1, 1e3))
def test_newton_finds_the_peak_of_concave_functions(centres, stiffness):
    """h = xc − s cosh x, whose slope bends so that plain Newton steps overshoot far from the peak."""
    c = np.array(centres)

    def slopes(x, part):
        return c[part] - stiffness * np.sinh(x), stiffness * np.cosh(x)

    peaks = newton(
        slopes,
        np.full(c.shape, -50.0),
        np.full(c.shape, 50.0),
        np.full(c.shape, 40.0),
        close=1e-26,
        rounds=200,
        sought="the peak",
    )
    np.testing.assert_allclose(peaks, np.arcsinh(c / stiffness), rtol=1e-12, atol=1e-12)


def test_newton_says_how_many_were_not_found():
    with pytest.raises(NotConverged, match="expected the peak after 2 steps, 1 of 2 were not found"):
        newton(
            lambda x, part: (np.array([0.0, 9.0])[part] - x**3, 3.0 * x**2 + 1e-3),
            np.full(2, -50.0),
            np.full(2, 50.0),
            np.zeros(2),
            close=1e-20,
            rounds=2,
            sought="the peak",
        )


@given(st.floats(-10.0, 10.0), st.booleans())
def test_halving_and_golden_section_close_in(place, turned):
    ends = (11.0, -11.0) if turned else (-11.0, 11.0)
    low, high = halved(lambda x: x > place if turned else x < place, *ends, 60)
    assert min(low, high) <= place <= max(low, high)
    assert abs(high - low) <= 1e-14
    distances = []

    def distance(x):
        distances.append(float(np.abs(x - place)))
        return np.abs(x - place)

    (left, right), value = golden(distance, np.asarray(-11.0), np.asarray(11.0), 60)
    assert value == min(distances)
    assert left - 1e-10 <= place <= right + 1e-10
    assert 0.0 <= value <= right - left < 1e-10
