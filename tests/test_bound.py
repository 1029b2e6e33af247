"""The record of a bound: NumPy treats it as a number, print gives a sentence, JSON plain data; it cannot be changed."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.bound import Bound, Cost

numbers = st.floats(-1e6, 1e6)


def bound_of(value=0.5, **changes):
    fields = {
        "side": "upper",
        "confidence": 0.95,
        "claim": "R-thm1",
        "terms": {"markov": 0.75, "tail": value},
        "assumptions": ("y is drawn from the prior.", "Z is drawn by a k-DPP."),
        "quantity": "D_1[q*||p]",
    }
    return Bound(value, **{**fields, **changes})


GRID = np.array([[0.25, 1.5], [2.0, -3.0]])


@given(value=numbers)
def test_float_is_the_value(value):
    assert float(bound_of(value)) == value
    assert float(bound_of(np.array(value))) == value
    assert f"{float(bound_of(value)):.3f}" == f"{value:.3f}"


def test_an_array_is_no_float():
    with pytest.raises(TypeError):
        float(bound_of(GRID))


@given(value=numbers, other=st.floats(0.5, 10.0))
def test_arithmetic_is_that_of_the_value(value, other):
    bound = bound_of(value)
    for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod):
        assert op(bound, other) == op(value, other)
    for op in (operator.add, operator.sub, operator.mul):
        assert op(other, bound) == op(other, value)
        assert op(bound, bound_of(other)) == op(value, other)
    assert -bound == -value
    assert abs(bound) == abs(value)
    assert bound**2 == np.square(value)
    for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        assert bool(op(bound, other)) is op(value, other)
        assert bool(op(other, bound)) is op(other, value)
        assert bool(op(bound, bound_of(other))) is op(value, other)


@pytest.mark.parametrize("function", [np.exp, np.sqrt, np.log1p, np.isfinite, np.negative, np.square])
def test_ufuncs_work_on_the_value(function):
    values = np.abs(GRID)
    np.testing.assert_array_equal(function(bound_of(values)), function(values))
    assert function(bound_of(0.5)) == function(0.5)


@pytest.mark.parametrize(
    "function",
    [np.sum, np.max, np.min, np.mean, np.ravel, np.sort, np.argmin, np.transpose, np.diff, np.shape, np.ndim],
)
def test_other_functions_of_numpy_work_on_the_value(function):
    np.testing.assert_array_equal(function(bound_of(GRID)), function(GRID))


def test_ufunc_methods_and_out_and_broadcasting():
    np.testing.assert_array_equal(np.minimum(bound_of(GRID), bound_of(0.0)), np.minimum(GRID, 0.0))
    np.testing.assert_array_equal(np.minimum.reduce(bound_of(GRID), axis=0), GRID.min(axis=0))
    np.testing.assert_array_equal(np.add.outer(bound_of(GRID[0]), GRID[1]), np.add.outer(GRID[0], GRID[1]))
    out = np.empty_like(GRID)
    assert np.add(bound_of(GRID), np.array([[1.0], [2.0]]), out=out) is out
    np.testing.assert_array_equal(out, GRID + np.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(bound_of(GRID) < GRID + 1.0, True)
    np.testing.assert_array_equal(GRID @ bound_of(GRID), GRID @ GRID)


def test_an_array_of_it_is_a_copy_of_the_value():
    bound = bound_of(GRID.copy())
    array = np.asarray(bound)
    np.testing.assert_array_equal(array, GRID)
    array[:] = 0.0
    np.testing.assert_array_equal(bound.value, GRID)
    assert np.asarray(bound, dtype=np.float32).dtype == np.float32
    assert np.asarray(bound_of(0.5)).shape == ()


def test_it_reads_as_a_sentence():
    assert str(bound_of(0.5)) == (
        "D_1[q*||p] <= 0.5 with probability at least 0.95 (R-thm1).\n"
        "  Assumes: y is drawn from the prior.\n"
        "  Assumes: Z is drawn by a k-DPP."
    )
    lower = bound_of(
        1.25, side="lower", confidence=1.0, claim="R-elbo", assumptions=(), certified=True, quantity="log p(y)"
    )
    assert str(lower) == "log p(y) >= 1.25 always (R-elbo, rounding included)."
    assert f"{bound_of(0.5)}" == str(bound_of(0.5))


def test_an_array_reads_as_its_range_and_shape():
    text = str(bound_of(GRID, confidence=np.array([0.9, 0.99])))
    assert text.splitlines()[0] == ("D_1[q*||p] <= [-3 .. 2] of shape (2, 2) with probability at least 0.9 (R-thm1).")
    assert "[]" in str(bound_of(np.zeros(0), confidence=1.0))


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.0, 5e-324, 1e308])
def test_a_vacuous_bound_is_printed_as_it_is(value):
    assert f"<= {value:.6g} " in str(bound_of(value))
    assert float(bound_of(value)) == value


@pytest.mark.parametrize(
    "bound",
    [
        bound_of(0.1),
        bound_of(np.float64(0.1), confidence=np.float64(0.95)),
        bound_of(
            GRID, confidence=np.array([0.9, 0.99]), terms={"tail": GRID, "share": np.float32(0.5), "M": np.int64(3)}
        ),
        bound_of(GRID[0, :0]),
        bound_of(5e-324, terms={}),
        bound_of(1e308, terms={"note": "printed form", "count": 7, "flag": True}, certified=True),
    ],
)
def test_it_survives_json_to_the_last_digit(bound):
    kept = json.loads(json.dumps(bound.to_dict()))
    assert list(kept) == ["quantity", "side", "value", "confidence", "claim", "terms", "assumptions", "certified"]
    np.testing.assert_array_equal(kept["value"], np.asarray(bound.value))
    np.testing.assert_array_equal(kept["confidence"], np.asarray(bound.confidence))
    assert kept["terms"].keys() == bound.terms.keys()
    for name, term in bound.terms.items():
        np.testing.assert_array_equal(kept["terms"][name], np.asarray(term))
    again = Bound(**{**kept, "assumptions": tuple(kept["assumptions"])})
    assert again.to_dict() == bound.to_dict()
    assert str(again) == str(bound)


def test_json_keeps_truth_values_apart_from_numbers():
    kept = bound_of(0.5, terms={"flag": True, "count": 7}).to_dict()["terms"]
    assert kept["flag"] is True
    assert type(kept["count"]) is int


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Bound)])
def test_it_is_frozen(name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(bound_of(), name, 0.0)


def test_in_place_arithmetic_rebinds_and_leaves_the_record():
    bound = kept = bound_of(0.5)
    bound += 1.0
    assert float(bound) == 1.5
    assert float(kept) == 0.5


def test_it_survives_pickle_and_copy():
    bound = bound_of(GRID)
    for again in (pickle.loads(pickle.dumps(bound)), copy.deepcopy(bound)):
        assert again.to_dict() == bound.to_dict()


def test_defaults_claim_nothing_extra():
    bare = Bound(1.0, "upper", 1.0, "R-x")
    assert bare.certified is False
    assert bare.assumptions == ()
    assert dict(bare.terms) == {}
    assert str(bare) == "value <= 1 always (R-x)."


@pytest.mark.parametrize("value", [0.1234561, 0.1234569, -7.7777771, 1e-300 / 3.0, 1e7 / 3.0, 0.0, 0.1, np.inf])
def test_what_is_printed_is_a_bound_too(value):
    """Six digits, rounded outwards; the confidence is rounded down."""
    for side in ("upper", "lower"):
        words = str(Bound(value, side, 1.0 - 1e-8, "R-thm1", quantity="x")).split()
        shown, sure = float(words[2]), float(words[7])
        assert shown >= value if side == "upper" else shown <= value
        assert abs(shown - value) <= 1e-5 * abs(value) or np.isinf(value)
        assert 0.99999 <= sure <= 1.0 - 1e-8
    assert str(Bound(0.1, "upper", 0.95, "R-thm1", quantity="x")).startswith("x <= 0.1 with probability at least 0.95")


def test_the_cost_counts_whitening_its_gram_matrix_and_their_derivatives():
    cost = Cost.of(1000, 300)
    assert cost.flops == 4 * 1000 * 300**2 + 2 * 300**3 / 3
    assert cost.bytes == 8 * (2 * 1000 * 300 + 3 * 300**2)
