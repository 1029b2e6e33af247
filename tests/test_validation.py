"""Argument checks: exactly the stated set passes, and a refusal says what was expected and what came."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fitting
from gpbounds import Gaussian, SquaredExponential, kdpp, rate, validation
from gpbounds.audit import calibration

NUMBERS = {
    "positive": (validation.positive, lambda x: x > 0),
    "non_negative": (validation.non_negative, lambda x: x >= 0),
    "finite": (validation.finite, lambda x: True),
    "open_unit": (validation.open_unit, lambda x: 0 < x < 1),
    "closed_unit": (validation.closed_unit, lambda x: 0 <= x <= 1),
    "order": (validation.order, lambda x: 0 < x <= 1),
    "whole": (validation.whole, lambda x: 1 <= x < 2**53 and x == math.floor(x)),
    "whole from 0": (lambda name, x: validation.whole(name, x, 0), lambda x: 0 <= x < 2**53 and x == math.floor(x)),
}
checks = pytest.mark.parametrize(("check", "allowed"), NUMBERS.values(), ids=NUMBERS)
edges = st.sampled_from(
    [0.0, -0.0, 1.0, 2.0, 5e-324, -5e-324, 1 - 2**-53, 1 + 2**-52, 2.0**53, 2.0**53 - 1, 1e308, np.inf, -np.inf, np.nan]
)


@checks
@given(x=edges | st.floats() | st.integers(-3, 10).map(float))
def test_exactly_the_stated_numbers_pass(check, allowed, x):
    if math.isfinite(x) and allowed(x):
        passed = check("x", x)
        assert passed.dtype == np.float64
        assert passed == x
    else:
        with pytest.raises(ValueError, match=r"^x: expected ") as caught:
            check("x", x)
        shown = str(caught.value).rsplit("got ", 1)[1]
        assert float(shown) == x or (math.isnan(x) and shown == "nan")


@checks
@given(shape=st.sampled_from([(3,), (2, 3), (2, 1, 2)]), seed=st.integers(0, 2**32 - 1))
def test_arrays_keep_their_shape_and_the_first_bad_entry_is_named(check, allowed, shape, seed):
    rng = np.random.default_rng(seed)
    good = rng.choice([x for x in (0.25, 0.5, 1.0, 7.0) if allowed(x)], size=shape)
    np.testing.assert_array_equal(check("x", good), good)
    np.testing.assert_array_equal(check("x", good.tolist()), good)
    places = sorted(rng.choice(good.size, size=2, replace=False))
    bad = good.copy()
    bad.flat[places] = np.nan, -np.inf
    index = tuple(int(i) for i in np.unravel_index(places[0], shape))
    with pytest.raises(ValueError, match=rf"^x: expected .*got nan at index {re.escape(str(index))}$"):
        check("x", bad)


@checks
@pytest.mark.parametrize(
    "bad",
    ["1", "one", None, 1j, [1.0, "a"], [[1.0], [1.0, 2.0]], {"x": 1.0}, object, np.datetime64("2024-01-01"), 10**400],
)
def test_what_is_no_number_is_refused(check, allowed, bad):
    with pytest.raises(ValueError, match=r"^noise: expected .*, got "):
        check("noise", bad)


@checks
def test_what_comes_back_is_a_copy(check, allowed):
    original = np.array([1.0]) if allowed(1.0) else np.array([0.5])
    kept = check("x", original)
    before = kept.copy()
    original[0] = -5.0
    np.testing.assert_array_equal(kept, before)


@checks
def test_whole_types_and_single_precision_are_accepted(check, allowed):
    for unit in (1, np.int64(1), np.uint8(1), np.float32(1.0), True):
        if allowed(1.0):
            assert check("x", unit) == 1.0
        else:
            with pytest.raises(ValueError, match=r"^x: expected"):
                check("x", unit)


@given(low=st.integers(-3, 5), value=st.integers(-10, 2**53 - 1))
@example(low=1, value=2**53 - 1)
@example(low=2, value=1)
def test_count_is_an_int(low, value):
    if value >= low:
        passed = validation.count("M", value, low)
        assert type(passed) is int
        assert passed == value
        assert validation.count("M", float(value), low) == value
    else:
        with pytest.raises(ValueError, match=rf"^M: expected a whole number >= {low}, got {value}"):
            validation.count("M", value, low)


@pytest.mark.parametrize("bad", [1.5, np.nan, np.inf, 2.0**53, -1, "3", None])
def test_count_refuses_what_is_not_whole(bad):
    with pytest.raises(ValueError, match=r"^N: expected a whole number >= 1, got "):
        validation.count("N", bad)


@pytest.mark.parametrize("many", [[1], [1, 2], [[1]]])
def test_count_refuses_many(many):
    with pytest.raises(ValueError, match=r"^N: expected one whole number, got shape"):
        validation.count("N", many)


def test_choice_names_the_words_it_knows():
    assert validation.choice("form", "printed", ("sharpest", "printed")) == "printed"
    for bad in ("Printed", "", None, 1, ["printed"]):
        with pytest.raises(ValueError, match=r"^form: expected one of 'sharpest', 'printed', got ") as caught:
            validation.choice("form", bad, ("sharpest", "printed"))
        assert str(caught.value).endswith(repr(bad))


def test_the_limit_of_the_order_is_explained():
    with pytest.raises(ValueError, match=r"1 is the KL limit"):
        validation.order("alpha", 1.5)


def test_more_repetitions_than_end_are_refused_at_once():
    X, y = np.random.default_rng(0).standard_normal((20, 1)), np.ones(20)
    kernel, many = SquaredExponential(), r"expected at most 10,000,000, .*got 2,147,483,648"
    calls = {
        "draws": lambda: kdpp.select(kernel, X, 3, "best", y=y, noise=0.1, draws=2**31, rng=0),
        "most": lambda: kdpp.select(kernel, X, 3, "best", y=y, noise=0.1, draws="certain", most=2**31, rng=0),
        "n_restarts": lambda: fitting.ExactGP(n_restarts=2**31).fit(X, y),
        "sets": lambda: calibration(y, np.zeros(20), np.ones(20), sets=2**31),
        "simulate": lambda: rate(
            kernel, 100, 5, 1.0, inputs=Gaussian(1.0), noise=0.1, delta=0.1, simulate=2**31, rng=0
        ),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"^{name}: {many}"):
            call()
    with pytest.raises(ValueError, match=f"^draws: {many}"):
        fitting.SparseGP("vfe", n_inducing=3, inducing="best", draws=2**31).fit(X, y)
    with pytest.raises(ValueError, match=f"^n_restarts: {many}"):
        fitting.VariationalGP(3, n_restarts=2**31).fit(X, y)
    assert validation.repetitions("n", 10**7) == 10**7
