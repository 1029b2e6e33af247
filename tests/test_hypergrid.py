"""The grid of hyperparameters: the same doubles everywhere, integer indices, and refusal of a θ off the grid."""

from __future__ import annotations

import json
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.pacbayes import HyperGrid

grids = st.builds(
    lambda low, width, steps, T: HyperGrid(low, low + width, steps, [f"t{t}" for t in range(T)]),
    st.floats(-20.0, 20.0),
    st.floats(0.01, 30.0),
    st.integers(1, 5000),
    st.integers(1, 4),
)


@given(grids, st.data())
def test_every_member_rounds_to_itself(grid, data):
    indices = tuple(data.draw(st.integers(0, g)) for g in grid.steps)
    point = grid.at(indices)
    assert grid.round(point.theta) == point
    assert grid.locate(point.theta) == point
    assert point.clipped == ()


@given(grids, st.data())
def test_members_are_the_doubles_next_to_their_exact_values(grid, data):
    index = data.draw(st.integers(0, grid.steps[0]))
    value = grid.at([index, *[0] * (grid.T - 1)]).theta["t0"]
    with mpmath.workdps(60):
        low, high = mpmath.mpf(grid.low[0]), mpmath.mpf(grid.high[0])
        truth = mpmath.exp(low + (high - low) * index / grid.steps[0])
        ulp = mpmath.mpf(math.ulp(value))
        assert abs(value - truth) <= ulp / 2
        assert float(truth) == value


@given(grids, st.data())
def test_rounding_moves_a_theta_inside_by_at_most_half_a_step(grid, data):
    place = data.draw(st.floats(grid.low[0], grid.high[0]))
    point = grid.round([math.exp(place)] * grid.T)
    spacing = (grid.high[0] - grid.low[0]) / grid.steps[0]
    for value in point.theta.values():
        assert abs(math.log(value) - place) <= 0.5 * spacing + 1e-12
    exact = float(grid.at(point.indices).theta["t0"])
    assert point.theta["t0"] == exact


def test_what_is_outside_is_clipped_and_named():
    grid = HyperGrid(-1.0, 1.0, 4, ("variance", "lengthscale"))
    point = grid.round({"lengthscale": 1e9, "variance": 1e-300})
    assert point.indices == (0, 4)
    assert point.clipped == ("variance", "lengthscale")
    inside = grid.round({"lengthscale": math.exp(0.3), "variance": math.exp(-1.0)})
    assert inside.indices == (0, 3)
    assert inside.clipped == ()


def test_the_size_is_an_exact_integer_and_its_logarithm_is_T_times_that_of_G_plus_1():
    assert HyperGrid.shared().size == 1201**2
    assert HyperGrid.shared().log_size == pytest.approx(2 * math.log(1201), rel=1e-15)
    assert HyperGrid.ard(60).size == 1201**61  # far beyond a double's range of whole numbers
    assert HyperGrid.ard(60).log_size == pytest.approx(61 * math.log(1201), rel=1e-15)
    mixed = HyperGrid([-6, 0.0], [6, 0.0], [1200, 0], ("lengthscale", "variance"))  # the variance is fixed to 1
    assert mixed.size == 1201
    assert mixed.at([600, 0]).theta == {"lengthscale": 1.0, "variance": 1.0}
    assert mixed.round([1.0, 5.0]).clipped == ("variance",)


def test_steps_count_intervals():
    assert [HyperGrid(0.0, 1.0, 2, "a").at([i]).theta["a"] for i in range(3)] == [1.0, math.exp(0.5), math.exp(1.0)]


@pytest.mark.parametrize(
    ("theta", "words"),
    [
        ({"variance": 1.0, "lengthscale": 1.0000000001}, "lengthscale: expected a value of the grid"),
        ({"variance": math.nextafter(1.0, 2.0), "lengthscale": 1.0}, "variance: expected a value of the grid"),
        ({"variance": 1.0}, "expected the names variance, lengthscale"),
        ({"variance": 1.0, "lengthscale": 1.0, "nu": 1.0}, "expected the names variance, lengthscale"),
        ({"variance": -1.0, "lengthscale": 1.0}, "expected a positive finite number"),
        ([1.0, math.nan], "expected a positive finite number"),
        ([1.0, 1.0, 1.0], "expected 2 numbers"),
        (1.0, "expected 2 numbers"),
        (["a", "b"], "expected positive numbers"),
    ],
)
def test_a_theta_off_the_grid_is_refused(theta, words):
    with pytest.raises(ValueError, match=words):
        HyperGrid.shared().locate(theta)


@pytest.mark.parametrize("indices", [[0], [0, 0, 0], [0, 1201], [-1, 0], [0.5, 0], [math.nan, 0], ["a", 0], 3])
def test_indices_that_are_none_are_refused(indices):
    with pytest.raises(ValueError, match="indices: expected"):
        HyperGrid.shared().at(indices)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1.0, 0.0, 10, "a"), "from low to high"),
        ((0.0, 0.0, 10, "a"), "low = high and 0 steps"),
        ((0.0, 1.0, 0, "a"), "low = high and 0 steps"),
        ((0.0, 1.0, 10**10, "a"), "steps of at least 1e-09"),
        ((-1e4, 1.0, 10, "a"), "between ±700"),
        ((0.0, math.inf, 10, "a"), "high: expected a finite number"),
        ((0.0, 1.0, 2.5, "a"), "steps: expected a whole number"),
        ((0.0, 1.0, -1, "a"), "steps: expected a whole number"),
        (([0.0] * 3, 1.0, 10, ("a", "b")), "low: expected one number or 2"),
        ((0.0, 1.0, 10, ("a", "a")), "expected different names"),
        ((0.0, 1.0, 10, ()), "expected different names"),
        ((0.0, 1.0, 10, ("a", 3)), "expected different names"),
    ],
)
def test_grids_that_are_none_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        HyperGrid(*arguments)


@given(grids)
def test_a_grid_survives_json(grid):
    assert HyperGrid(**json.loads(json.dumps(grid.to_dict()))) == grid


def test_rounding_does_not_depend_on_the_decimal_context_of_the_caller():
    import decimal

    grid = HyperGrid.shared()
    value = grid.at([137, 1011]).theta
    with decimal.localcontext(decimal.Context(prec=5)):
        assert grid.at([137, 1011]).theta == value
    assert np.isclose(value["variance"], np.exp(-6 + 1.37), rtol=1e-14)
