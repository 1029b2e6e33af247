"""Losses: values, broadcasting, records, extremes without NaN, messages of errors."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpbounds import losses
from gpbounds.errors import NonFinite
from gpbounds.losses import Band, Exponential, Interval, Relative, Sign, Squared, cuda
from gpbounds.losses.base import spread

ALL = [
    *(Band(0.6), Squared(0.6), Exponential(0.6), Relative(), Sign()),
    *(Interval(-0.2, 1.5), Interval(-0.1, 0.3, relative=True)),
]
each = pytest.mark.parametrize("loss", ALL, ids=repr)
EXTREMES = [0.0, -0.0, 5e-324, 1e-310, 1e-160, 1e-8, 0.6, 1.0, 1e8, 1e160, 1e300, 1.7e308]


def targets(loss, y):
    """``y``, or its signs, 1 for 0, for a loss for labels."""
    return np.where(np.asarray(y) < 0.0, -1.0, 1.0) if loss.name == "sign" else y


NUMBERS = st.one_of(st.sampled_from([*EXTREMES, *(-v for v in EXTREMES)]), st.floats(-10, 10))


@pytest.mark.parametrize(
    ("loss", "at", "expected"),
    [
        (Band(0.5), [0.0, 0.5, 0.75, 1.5, 1.75], [1, 0, 0, 0, 1]),
        (Squared(0.5), [0.0, 0.5, 0.75, 1.0, 1.25], [1, 1, 0.25, 0, 0.25]),
        (Exponential(1.0), [1.0, 2.0, 1e9], [0, 1 - np.exp(-1), 1]),
        (Relative(0.5), [0.0, 0.75, 1.0, 1.25, 1.5], [1, 0.5, 0, 0.5, 1]),
        (Interval(-0.25, 1.0), [0.5, 0.75, 2.0, 2.5], [1, 0, 0, 1]),
        (Sign(), [-3.0, -0.0, 0.0, 5e-324, 2.0], [1, 1, 1, 0, 0]),
    ],
    ids=repr,
)
def test_values(loss, at, expected):
    np.testing.assert_allclose(loss.value(1.0, at), expected, rtol=1e-15)


def test_numbers_come_back_as_numbers_and_arrays_broadcast():
    numbers, m, v = np.linspace(-1, 1, 5)[:, None] + 0.05, np.linspace(-2, 2, 3), 0.3
    for loss in ALL:
        y = targets(loss, numbers)
        assert np.ndim(loss.expectation(1.0, 0.0, 1.0)) == 0
        table = loss.expectation(y, m, v)
        slopes = loss.expectation(y, m, v, gradient=True)[1:]
        assert table.shape == slopes[0].shape == slopes[1].shape == (5, 3)
        assert table[4, 1] == loss.expectation(y[4, 0], m[1], v)
        assert slopes[0][2, 2] == loss.expectation(y[2, 0], m[2], v, gradient=True)[1]


def test_many_values_are_those_of_one_at_a_time():
    rng = np.random.default_rng(0)
    numbers, m = rng.normal(size=(2, 50_000))
    v = np.exp(4 * rng.normal(size=50_000))
    some = rng.integers(0, 50_000, 50)
    for loss in ALL:
        y = targets(loss, numbers)
        values, first, second = loss.expectation(y, m, v, gradient=True)
        np.testing.assert_array_equal(values, loss.expectation(y, m, v))
        for i in some:
            assert values[i] == pytest.approx(loss.expectation(y[i], m[i], v[i]), rel=1e-14)
            assert first[i] == pytest.approx(
                loss.expectation(y[i], m[i], v[i], gradient=True)[1], rel=1e-13, abs=1e-300
            )
            assert second[i] == pytest.approx(
                loss.expectation(y[i], m[i], v[i], gradient=True)[2], rel=1e-13, abs=1e-300
            )


def test_arguments_are_left_alone():
    given_arrays = np.array([1.0, -1.0]), np.array([0.5, 2.0]), np.array([0.0, 1.0])
    kept = [a.copy() for a in given_arrays]
    for loss in ALL:
        loss.expectation(*given_arrays)
        loss.expectation(*given_arrays, gradient=True)
        loss.allowance(*given_arrays, 0.1, 0.1)
    for after, before in zip(given_arrays, kept, strict=True):
        np.testing.assert_array_equal(after, before)


@each
@given(y=NUMBERS, m=NUMBERS, v=NUMBERS.map(abs))
def test_extremes_give_numbers_in_the_unit_interval(loss, y, m, v):
    if loss.name == "relative" and y == 0.0:
        return
    y = targets(loss, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean = float(loss.expectation(y, m, v))
        slopes = loss.expectation(y, m, v, gradient=True)[1:]
        allowed = float(loss.allowance(y, m, v, abs(m), v))
    assert -1e-15 <= mean <= 1.0 + 1e-15
    assert not np.isnan(slopes).any()
    assert 0.0 <= allowed <= 1.0 + 1e-14


@pytest.mark.parametrize("epsilon", [1e-140, 1e-100, 1e100, 1e140])
@pytest.mark.parametrize("kind", [Band, Squared, Exponential, Relative])
def test_expectations_do_not_know_units(kind, epsilon):
    """Scaling all arguments by a power of two changes no digit."""
    scale = 2.0 ** np.round(np.log2(epsilon))
    rng = np.random.default_rng(3)
    for _ in range(20):
        y, m, s = *rng.normal(size=2).tolist(), float(np.exp(3 * rng.normal()))
        if kind is not Relative:
            loss, scaled = kind(0.5), kind(0.5 * scale)
        else:
            loss = scaled = kind()
        v = (s * scale) ** 2
        if v > 1e-300:
            assert scaled.expectation(y * scale, m * scale, v) == pytest.approx(
                loss.expectation(y, m, s * s), rel=1e-13
            )


def test_limits_at_a_jump_and_at_a_kink():
    """s = 0 on the edge: Band's slope is infinite, towards the target; off the edge everything is flat."""
    assert Band(0.5).expectation(1.0, 0.5, 0.0, gradient=True)[1:] == (-np.inf, 0.0)
    assert Band(0.5).expectation(1.0, 1.5, 0.0, gradient=True)[1:] == (np.inf, 0.0)
    assert Band(0.5).expectation(1.0, [0.9, 3.0], 0.0, gradient=True)[1].tolist() == [0.0, 0.0]
    assert Squared(0.5).expectation(1.0, 0.75, 0.0, gradient=True)[1:] == (-2.0, 4.0)
    assert Squared(0.5).expectation(1.0, 0.5, 0.0, gradient=True)[1:] == (-2.0, -np.inf)
    assert Relative().expectation(1.0, 1.0, 0.0, gradient=True)[1:] == (0.0, np.inf)
    assert Relative().expectation(2.0, 1.0, 0.0, gradient=True)[1:] == (-0.5, 0.0)
    assert Exponential(1.0).expectation(0.0, 0.0, 0.0, gradient=True)[1:] == (0.0, 1.0)
    assert Sign().expectation(1.0, 0.0, 0.0, gradient=True) == (1.0, -np.inf, 0.0)
    assert Sign().expectation(-1.0, 0.0, 0.0, gradient=True) == (1.0, np.inf, 0.0)
    assert Sign().expectation(-1.0, [0.1, -0.1], 0.0, gradient=True)[1].tolist() == [0.0, 0.0]


@each
def test_records_round_trip_through_json(loss):
    assert losses.from_dict(json.loads(json.dumps(loss.to_dict()))) == loss
    assert loss.to_dict()["name"] == loss.name


def test_losses_are_compared_by_value_and_do_not_change():
    assert Band(1) == Band(1.0) != Band(2.0)
    assert len({Band(1.0), Band(1), Squared(1.0)}) == 2
    with pytest.raises(AttributeError):
        Band(1.0).epsilon = 2.0


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({}, "expected one of 'band', 'squared', 'exponential', 'relative', 'interval', 'sign', got None"),
        ({"name": "hinge"}, "got 'hinge'"),
        ({"name": ["band"]}, "expected one of"),
        ({"name": "band"}, "band: expected its parameters"),
        ({"name": "band", "epsilon": 1.0, "delta": 2}, r"got \['delta', 'epsilon'\]"),
        ({"name": "band", "epsilon": -1.0}, "epsilon: expected a positive finite number"),
        ({"name": "interval", "low": 0.0, "high": 1.0, "relative": 1}, "relative: expected True or False"),
        ({"name": "sign", "epsilon": 1.0}, r"sign: expected its parameters .*got \['epsilon'\]"),
    ],
)
def test_records_that_are_no_loss(record, message):
    with pytest.raises(ValueError, match=message):
        losses.from_dict(record)


@pytest.mark.parametrize("kind", [Band, Squared, Exponential, Relative])
@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.inf, np.nan, "1", None, [1.0, 2.0]])
def test_an_epsilon_that_is_none(kind, epsilon):
    with pytest.raises(ValueError, match="epsilon: expected"):
        kind(epsilon)


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.0), (np.nan, 1.0), (-np.inf, 0.0), ([0.0], 1.0)])
def test_an_interval_that_is_none(low, high):
    with pytest.raises(ValueError, match="low"):
        Interval(low, high)


@each
def test_bad_predictions(loss):
    for call in (loss.expectation, partial(loss.expectation, gradient=True), loss.allowance):
        with pytest.raises(ValueError, match="v: expected variances >= 0, got -1"):
            call(1.0, 0.0, [1.0, -1.0])
        with pytest.raises(NonFinite, match="m: expected numbers, got NaN"):
            call(1.0, np.nan, 1.0)
        with pytest.raises(NonFinite, match="y: expected finite numbers, got infinity"):
            call([1.0, np.inf], 0.0, 1.0)
        with pytest.raises(ValueError, match=r"shapes that broadcast, got y \(2,\), m \(3,\), v \(\)"):
            call([1.0, 2.0], [1.0, 2.0, 3.0], 1.0)
        with pytest.raises(ValueError, match="y: expected real numbers"):
            call("one", 0.0, 1.0)
    with pytest.raises(ValueError, match="variance_error: expected numbers >= 0"):
        loss.allowance(1.0, 0.0, 1.0, 0.0, -1.0)


def test_edges_in_the_wrong_order():
    with pytest.raises(ValueError, match="low <= high everywhere"):
        losses.outside_probability([0.0, 2.0], 1.0, 0.0, 1.0)


def test_nothing_known_allows_everything():
    for loss in ALL:
        if loss == Sign():  # all of [0, 1] is left, of which 1 is farthest from Φ(−1), and [0, ½] if m is known
            assert loss.allowance(1.0, 1.0, 1.0, np.inf, np.inf) == pytest.approx(1.0 - loss.expectation(1.0, 1.0, 1.0))
            assert loss.allowance(1.0, 1.0, 1.0, 0.0, np.inf) == pytest.approx(0.5 - loss.expectation(1.0, 1.0, 1.0))
            continue
        assert loss.allowance(1.0, 1.0, 1.0, np.inf, 0.0) == pytest.approx(1.0)
        assert loss.allowance(1.0, 1.0, 1.0, 0.0, np.inf) == pytest.approx(1.0)
    assert Band(0.5).allowance(1.0, 1.0, 1e-6, 1e-3, 1e-9) < 1e-14  # five hundred standard deviations from the edge


@pytest.mark.parametrize("y", [0.0, 2.0, [1.0, -1.0, 1.0 + 1e-12]])
def test_targets_that_are_no_labels(y):
    for call in (Sign().value, partial(Sign().expectation, v=1.0), partial(Sign().allowance, v=1.0)):
        with pytest.raises(ValueError, match=r"y: expected the labels -1 and 1, got .*: encode one of two labels as 1"):
            call(y, 0.5)


def test_which_losses_take_only_two_values():
    for loss in ALL:
        values = loss.value(targets(loss, np.full(2001, 1.0)), np.linspace(-3.0, 3.0, 2001))
        assert loss.zero_one == (set(values.tolist()) <= {0.0, 1.0})


@pytest.mark.gpu
@each
def test_cupy_arrays_stay_on_the_device(cupy, loss):
    rng = np.random.default_rng(0)
    y, m = rng.normal(size=(2, 1000))
    y, m[2:5] = targets(loss, y), 0.0
    v = np.exp(4 * rng.normal(size=1000))
    v[:3] = 0.0
    arrays = [cupy.asarray(v) for v in (y, m, v)]
    np.testing.assert_allclose(loss.expectation(*arrays).get(), loss.expectation(y, m, v), rtol=1e-12, atol=1e-300)
    pairs = zip(loss.expectation(*arrays, gradient=True)[1:], loss.expectation(y, m, v, gradient=True)[1:], strict=True)
    for far, near in pairs:
        np.testing.assert_allclose(far.get(), near, rtol=1e-11, atol=1e-13)


@example(seed=5443, share=2.0)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([1e-18, 1e-16, 1e-3, 2.0, 1e6]))
def test_standard_deviations_are_rounded_outwards(seed, share):
    s = 10.0 ** np.random.default_rng(seed).uniform(-30.0, 30.0, 20)
    error = share * s * s
    least, largest = spread(s, error)
    for low, value, off, high in zip(least, s, error, largest, strict=True):
        square = Fraction(value) ** 2
        assert Fraction(low) ** 2 <= max(square - Fraction(off), 0)
        assert Fraction(high) ** 2 >= square + Fraction(off)


def test_expectations_on_a_device_are_those_of_the_kernel(monkeypatch):
    monkeypatch.setattr(cuda, "_compiled", lambda body: lambda y, m, v, one, two: (y * one, m * two, v * one))
    assert cuda.expectation(cuda.LossSource("", 2.0, 3.0), 1.0, 10.0, 100.0) == (2.0, 30.0, 200.0)
