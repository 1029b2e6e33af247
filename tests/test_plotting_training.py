"""The figure of training shows the numbers of the history."""

from __future__ import annotations

import numpy as np
import pytest

from fitting import ExactGP, SparsePACGP
from gpbounds.plotting import training


def lines(ax):
    return [np.asarray(line.get_ydata(), dtype=np.float64) for line in ax.get_lines()]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (40, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(40)


def test_a_falling_history_and_the_distance_from_its_end():
    history = np.array([3.0, 2.0, 1.5, 1.25, 1.25])
    left, right = training(history).axes
    np.testing.assert_array_equal(lines(left)[0], history)
    np.testing.assert_array_equal(lines(right)[0], [1.75, 0.75, 0.25, np.nan, np.nan])


def test_values_that_are_missing_leave_a_gap():
    left, right = training([-3.0, -np.inf, -5.0, -1.0, -2.0]).axes
    np.testing.assert_array_equal(lines(left)[0], [-3.0, np.nan, -5.0, -1.0, -2.0])
    np.testing.assert_array_equal(lines(right)[0], [2.0, 2.0, 2.0, np.nan, np.nan])  # of the best value so far


def test_a_power_law_is_a_straight_line():
    t = np.arange(0.0, 4000.0)
    (_, right) = training(-((t + 1.0) ** -0.5)).axes
    x, y = np.log(t[10:200]), np.log(lines(right)[0][10:200])
    assert right.get_xscale() == right.get_yscale() == "log"
    assert np.corrcoef(x, y)[0, 1] < -0.97


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_other_starts_are_grey(data):
    model = ExactGP(n_restarts=2, random_state=0, max_iter=15).fit(*data)
    page = training(model)
    drawn = lines(page.axes[0])
    assert len(drawn) == 3
    np.testing.assert_array_equal(drawn[-1], model.history_)
    others = [run.values for run in model.runs_ if not np.array_equal(run.values, model.history_)]
    assert sorted(map(tuple, drawn[:-1])) == sorted(others)
    assert model.stop_reason_ in page.get_suptitle().replace("\n", " ")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_certified_model_shows_where_it_was_rounded(data):
    model = SparsePACGP(4, epsilon=0.5, max_iter=6, random_state=0).fit(*data)
    page = training(model)
    left, right = page.axes
    np.testing.assert_array_equal(lines(left)[0], model.history_)
    assert left.get_lines()[1].get_xdata() == [7, 7]
    assert [len(part) for part in lines(right)] == [7, len(model.history_) - 7]
    assert left.get_ylabel() == "Bound on the risk"


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="ExactGP before fit"):
        training(ExactGP())
    with pytest.raises(ValueError, match="two finite values"):
        training([1.0, np.nan])
