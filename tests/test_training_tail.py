"""Training ends where further iterations would gain less than matters, and continues on the same path."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tqdm.auto
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import clone
from thinning import one_in

from fitting import ExactGP, SparseGP, SparsePACGP
from fitting.training import Ending, Session, tail_of, train_adam, train_lbfgs
from fitting.training.ending import FASTEST, LEAST, RESUMED, SLOWEST
from fitting.training.watch import Watch


@given(st.floats(0.2, 3.0), st.integers(512, 3000), st.floats(1e-3, 1e6), st.floats(-1e6, 1e6))
def test_a_power_law_has_its_remaining_gain(exponent, n, size, limit):
    """limit − size·t^(−a) will gain size·t^(−a): the estimate is this, or more where the curve falls faster."""
    t = np.arange(1, n + 2, dtype=np.float64)
    curve = limit - size * t**-exponent
    assume(size * n**-exponent > 1e-8 * abs(limit))
    end = tail_of(curve.tolist())
    remaining = limit - curve[-1]
    assert end.to_come > 0.9 * remaining
    if FASTEST < 2.0**-exponent < SLOWEST:
        assert end.to_come == pytest.approx(remaining, rel=0.3)


@given(st.floats(0.9, 0.9999), st.integers(49, 2000))
def test_a_curve_that_falls_geometrically_is_never_thought_closer_than_it_is(rate, n):
    curve = -(rate ** np.arange(n + 1))
    remaining = rate**n
    assume(remaining > 1e-10)
    assume(remaining < 0.3)  # before, it looks straight
    assert tail_of(curve.tolist()).to_come > 0.99 * remaining


@given(st.floats(0.3, 0.55), st.integers(2048, 9000))
def test_the_expected_end_of_a_power_law_is_its_end(exponent, n):
    curve = -(np.arange(1, n + 2, dtype=np.float64) ** -exponent)
    ending = Ending(tail_of(curve).to_come)
    assert ending.expected(curve) == n
    assert ending.expected(curve[: n // 2 + 1]) == pytest.approx(n, rel=0.25)


@pytest.mark.parametrize("n", [50, 500, 5000])
def test_steady_progress_does_not_end(n):
    curve = np.arange(n + 1.0)
    assert Ending(0.49 * n).reason(curve) is None
    assert tail_of(curve).to_come > n  # the last half gained n/2


@pytest.mark.parametrize("tol", [0.0, 1e-6])
def test_a_run_ends_when_it_is_not_expected_to_reach_the_value_of_another(tol):
    curve = [-1.0 - 1.0 / t for t in range(1, 201)]  # its limit is −1
    assert Ending(tol, least=-1.0 - 1e-9).reason(curve) is None
    assert Ending(tol, symbol="B", sign=-1, least=-0.95).reason(curve).endswith("reach B = 0.95 of another run.")
    assert Ending(tol, least=-0.95).reason(curve[:LEAST]) is None  # too short for an estimate


def test_short_curves_and_tol_0_do_not_end():
    assert tail_of([0.0] * LEAST) is None
    assert Ending(1e300).reason([0.0] * LEAST) is None
    assert Ending(1e300).reason([0.0] * (LEAST + 1)) is not None
    assert Ending(1e300, after=RESUMED).reason([0.0] * RESUMED) is None
    assert Ending(1e300, after=RESUMED).reason([0.0] * (RESUMED + 1)) is not None
    assert Ending(1e300, after=RESUMED).expected([0.0] * (RESUMED + 1)) == RESUMED
    assert Ending(0.0).reason([0.0] * 1000) is None
    assert tail_of([-math.inf] * 30 + [0.0] * 30) is None


def slow(seed):
    """A convex function with least value 0, whose curvatures spread over many orders of magnitude."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(40, 200))
    curvature = 10.0 ** -(rng.uniform(1.0, 8.0) * rng.random(p))
    centre = rng.standard_normal(p)

    def loss(x):
        d = x - centre
        return float((curvature * (0.5 * d**2 + 0.25 * d**4)).sum()), curvature * (d + d**3)

    return loss, np.zeros(p), [(-np.inf, np.inf)] * p


@pytest.mark.parametrize("seed", one_in(2, range(12)))
def test_where_training_settles_no_more_than_tol_is_left(seed):
    loss, start, bounds = slow(seed)
    tol = loss(start)[0] * 10.0 ** -(2.0 + seed % 3)
    run = train_lbfgs(loss, start, bounds, max_iter=2000, ending=Ending(tol))
    assert run.status in ("settled", "converged")
    assert -run.value <= tol
    on = train_lbfgs(loss, start, bounds, max_iter=2000)
    assert on.status != "settled"
    if run.status == "settled":
        assert f"Stopped after {run.iterations} iterations" in run.reason
        assert on.values[: len(run.values)] == run.values


def test_adam_settles():
    loss, start, bounds = slow(1)
    tol = 0.01 * loss(start)[0]
    run = train_adam(loss, start, bounds, max_iter=3000, ending=Ending(tol))
    assert run.status == "settled"
    assert -run.value <= tol


# ---------------------------------------------------------------------- continued runs


def trained(loss, start, bounds, path, max_iter, ending):
    def train(earlier, save):
        return train_lbfgs(loss, start, bounds, max_iter=max_iter, ending=ending, earlier=earlier, save=save)

    return Session(path, "f", 0).run("only", max_iter, train, ending)


@pytest.mark.parametrize("cut", [5, 23, 41])
@pytest.mark.parametrize("error", [SystemError, KeyboardInterrupt, None])
def test_lbfgs_goes_on_bit_for_bit_and_settles_at_the_same_iteration(cut, error, tmp_path, interrupting):
    loss, start, bounds = slow(3)
    ending = Ending(1e-4 * loss(start)[0])
    whole = trained(loss, start, bounds, None, 500, ending)
    assert whole.status == "settled"
    path = tmp_path / "half"
    if error is None:
        trained(loss, start, bounds, path, cut, ending)
    elif error is KeyboardInterrupt:
        assert trained(interrupting(loss, cut, error), start, bounds, path, 500, ending).status == "interrupted"
    else:
        with pytest.raises(error):
            trained(interrupting(loss, cut, error), start, bounds, path, 500, ending)
    stored = len(Session(path, "f", 0).runs["only"].state["losses"]) if path.exists() else 0
    assert stored > 0 or (error is SystemError and cut < 20)
    counted = interrupting(loss)
    rest = trained(counted, start, bounds, path, 500, ending)
    assert (rest.values, rest.reason, rest.evaluations) == (whole.values, whole.reason, whole.evaluations)
    assert (rest.vector == whole.vector).all()
    assert counted.calls == whole.evaluations - stored
    # the run is over: no evaluation is made
    assert (
        trained(interrupting(loss, 1, SystemError), start, bounds, path, 500, ending).values == whole.values
    )  # it is over


def test_a_settled_run_goes_on_with_a_smaller_tol(tmp_path):
    loss, start, bounds = slow(3)
    tol = 1e-2 * loss(start)[0]
    coarse = trained(loss, start, bounds, tmp_path / "one", 500, Ending(tol))
    fine = trained(loss, start, bounds, tmp_path / "one", 500, Ending(1e-2 * tol))
    assert (coarse.status, fine.status) == ("settled", "settled")
    assert fine.values == trained(loss, start, bounds, None, 500, Ending(1e-2 * tol)).values
    assert len(fine.values) > len(coarse.values)


def test_a_record_that_does_not_fit_is_left_and_the_best_point_kept(tmp_path):
    """The stored evaluations belong to other points, as after a change of rounding."""
    loss, start, bounds = slow(3)
    part = trained(loss, start, bounds, tmp_path / "one", 20, Ending(0.0))

    def resumed(earlier, save):
        earlier.state["digests"][7] += np.uint64(1)
        return train_lbfgs(loss, start, bounds, max_iter=500, earlier=earlier, save=save)

    rest = Session(tmp_path / "one", "f", 0).run("only", 500, resumed)
    assert rest.values[: len(part.values)] == part.values
    assert all(value >= part.value for value in rest.values[len(part.values) :])
    assert rest.evaluations > part.evaluations


def test_ctrl_c_between_two_steps_keeps_the_best_point(monkeypatch):
    loss, start, bounds = slow(3)
    step = Watch.step

    def interrupted(watch, f):
        step(watch, f)
        if watch.iterations == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "step", interrupted)
    run = train_lbfgs(loss, start, bounds, max_iter=500)
    assert (run.status, run.iterations) == ("interrupted", 9)
    assert run.reason == "Interrupted after 9 iterations; the best point so far is kept."
    assert run.value == max(run.values) == -loss(run.vector)[0]


def test_the_bar_ends_where_the_run_is_expected_to_settle(monkeypatch):
    class Bar(tqdm.auto.tqdm):
        def close(self):
            if not self.disable:
                ends.append((self.n, self.total, self.postfix.split(", to gain")[0]))
            super().close()

    ends: list[tuple[int, int, str]] = []
    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    loss, start, bounds = slow(3)
    ending = Ending(1e-4 * loss(start)[0], symbol="B", sign=-1)
    run = train_lbfgs(loss, start, bounds, max_iter=500, ending=ending, progress=True)
    assert ends == [(run.iterations, run.iterations, f"B = {-run.value:.6g}")]


# ---------------------------------------------------------------------- estimators


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (120, 3))
    return X, np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(120)


@pytest.mark.broad
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # limits of noise and lengthscales
@pytest.mark.parametrize("model", [SparseGP(n_inducing=12), SparsePACGP(6, epsilon=0.4)], ids=str)
def test_the_default_of_tol_reaches_what_all_iterations_reach(model, data):
    X, y = data
    model = clone(model).fit(X, y)
    unit = 1.0 if isinstance(model, SparsePACGP) else len(y)
    settled = "of the bound, and tol is 0.001." if unit == 1.0 else "nats per datum, and tol is 0.01."
    assert "Converged" in model.stop_reason_ or settled in model.stop_reason_
    on = clone(model).set_params(tol=None).fit(X, y)
    assert (on.objective_ - model.objective_) / unit <= model.tol


def test_a_checkpoint_may_be_continued_with_another_tol(data, tmp_path):
    model = SparseGP(n_inducing=12, checkpoint=tmp_path / "one", tol=0.05).fit(*data)
    fine = clone(model).set_params(tol=0.01).fit(*data)
    assert fine.n_iter_ > model.n_iter_
    assert (fine.history_[: len(model.history_)] == model.history_).all()


def test_tol_is_not_negative(data):
    with pytest.raises(ValueError, match="tol"):
        ExactGP(tol=-1.0).fit(*data)
