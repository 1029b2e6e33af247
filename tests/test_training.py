"""Optimisers: they find known optima, keep the best point, survive failures and Ctrl-C, and continue from a file."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from fitting.estimators.remarks import of_run
from fitting.training import Batches, NaturalSteps, Session, Steps, train_adam, train_lbfgs
from gpbounds.errors import NotPositiveDefinite

FREE = [(-np.inf, np.inf)] * 3
CENTRE = np.array([1.0, -2.0, 0.5])


def bowl(x):
    return float(((x - CENTRE) ** 2).sum()), 2.0 * (x - CENTRE)


def valley(x):
    return float(rosen(x)), rosen_der(x)


def test_lbfgs_finds_the_minimum_and_says_so():
    run = train_lbfgs(valley, np.array([-1.2, 1.0, 3.0]), FREE, max_iter=500, ftol=1e-15)
    assert run.status == "converged"
    np.testing.assert_allclose(run.vector, 1.0, atol=1e-5)
    assert run.value == max(run.values) == -rosen(run.vector)
    assert all(later >= earlier for earlier, later in zip(run.values, run.values[1:], strict=False))
    assert run.failures == 0


def test_lbfgs_stays_within_bounds():
    run = train_lbfgs(bowl, np.zeros(3), [(-1.0, 0.25)] * 3, max_iter=100)
    np.testing.assert_allclose(run.vector, [0.25, -1.0, 0.25], atol=1e-12)


def test_iterations_that_run_out_are_named():
    run = train_lbfgs(valley, np.array([-1.2, 1.0, 3.0]), FREE, max_iter=5)
    assert (run.status, run.iterations, len(run.values)) == ("iterations", 5, 6)
    assert "raise max_iter" in run.reason


@pytest.mark.parametrize("fault", [NotPositiveDefinite("no factor"), OverflowError("too large"), None])
def test_a_line_search_turns_back_from_points_without_a_value(fault):
    """From x = 0 the first trial step of length 1 lands beyond the fence at ½; the minimum is at 0.4."""

    def fenced(x):
        if x[0] <= 0.5:
            return 10.0 * float((x[0] - 0.4) ** 2), 20.0 * (x - 0.4)
        if fault is not None:
            raise fault
        return math.nan, np.full(1, math.nan)

    run = train_lbfgs(fenced, np.zeros(1), [(-9.0, 9.0)], max_iter=50)
    assert run.failures >= 1
    assert all(math.isfinite(v) for v in run.values)  # the curve is of points that were accepted
    assert abs(run.vector[0] - 0.4) < 1e-6
    assert run.status == "converged"


@pytest.mark.parametrize("train", [train_lbfgs, train_adam])
def test_no_value_at_the_start_is_an_error_that_says_why(train):
    def never(x):
        raise NotPositiveDefinite("Kuu: too flat")

    with pytest.raises(NotPositiveDefinite, match=r"no value at the start of training: Kuu: too flat"):
        train(never, np.zeros(1), [(-1.0, 1.0)], max_iter=5)


@pytest.mark.parametrize("train", [train_lbfgs, train_adam])
@pytest.mark.parametrize("at", [2, 7, 15])
def test_ctrl_c_keeps_the_best_point_seen(train, at, interrupting):
    values = []

    def loss(x):
        values.append(-rosen(x))
        return valley(x)

    run = train(interrupting(loss, at), np.array([-1.2, 1.0, 3.0]), FREE, max_iter=500)
    assert run.status == "interrupted"
    assert "Interrupted" in run.reason
    assert run.value == max(values) == -rosen(run.vector)


@pytest.mark.parametrize("train", [train_lbfgs, train_adam])
def test_ctrl_c_before_there_is_a_point_goes_on(train, interrupting):
    with pytest.raises(KeyboardInterrupt):
        train(interrupting(valley, 1), np.zeros(3), FREE, max_iter=5)


def textbook(gradient, x, steps, rate):
    """Adam as Kingma & Ba print it, Algorithm 1."""
    m = v = np.zeros_like(x)
    for t in range(1, steps + 1):
        g = gradient(x)
        m, v = 0.9 * m + (1 - 0.9) * g, 0.999 * v + (1 - 0.999) * g * g
        x = x - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x


def test_adam_is_the_textbook_s():
    start = np.array([-1.2, 1.0, 3.0])
    run = train_adam(valley, start, FREE, max_iter=20, learning_rate=0.01)
    np.testing.assert_allclose(run.state["x"], textbook(rosen_der, start, 20, 0.01), rtol=1e-12)


def test_adam_converges_within_bounds():
    run = train_adam(bowl, np.zeros(3), [(-1.0, 2.0)] * 3, max_iter=5000)
    assert run.status == "converged"
    assert -1.0 - 1e-6 < run.value <= -1.0  # at (1, −1, ½)


def noisy_batches():
    def draw(rng, step):
        shift = 0.1 * rng.standard_normal(3)
        return lambda x: bowl(x - shift)

    return Batches(draw, bowl)


def test_batches_keep_the_point_that_the_reference_likes_best():
    run = train_adam(noisy_batches(), np.zeros(3), FREE, max_iter=400, rng=np.random.default_rng(0))
    assert run.status == "iterations"
    assert run.value == -bowl(run.vector)[0] >= -bowl(run.state["x"])[0]
    np.testing.assert_allclose(run.vector, CENTRE, atol=0.1)


def test_adam_halves_its_step_where_there_is_no_value():
    """A step length of 1 would jump over the minimum, beyond the fence."""

    def fenced(x):
        if x[0] > 0.3:
            raise NotPositiveDefinite("no factor")
        return float((x[0] - 0.25) ** 2), 2.0 * (x - 0.25)

    run = train_adam(fenced, np.zeros(1), [(-9.0, 9.0)], max_iter=500, learning_rate=1.0)
    assert run.failures >= 1
    assert run.state["rate"] == 2.0**-run.failures
    assert -math.inf in run.values
    assert abs(run.vector[0] - 0.25) < 1e-3


@pytest.mark.parametrize("loss", [valley, noisy_batches()], ids=["all data", "batches"])
@pytest.mark.parametrize("cut", [3, 10, 17])
def test_adam_goes_on_bit_for_bit(loss, cut, tmp_path):
    def train(session, max_iter):
        def train_once(earlier, save):
            rng = np.random.default_rng(5)
            return train_adam(loss, np.zeros(3), FREE, max_iter=max_iter, rng=rng, earlier=earlier, save=save)

        return session.run("only", max_iter, train_once)

    whole = train(Session(None, "", 0), 30)
    train(Session(tmp_path / "half", "f", 0), cut)
    rest = train(Session(tmp_path / "half", "f", 0), 30)
    assert rest.values == whole.values
    assert (rest.vector == whole.vector).all()
    assert rest.evaluations == whole.evaluations
    assert (rest.state["x"] == whole.state["x"]).all()


@pytest.mark.parametrize("at", [13, 18, 29])
def test_a_run_that_was_killed_goes_on_from_its_last_checkpoint(at, tmp_path, interrupting):
    def train(loss, path):
        def train_once(earlier, save):
            return train_adam(loss, np.zeros(3), FREE, max_iter=40, earlier=earlier, save=save)

        return Session(path, "f", 0).run("only", 40, train_once)

    with pytest.raises(SystemError):
        train(interrupting(valley, at, SystemError), tmp_path / "killed")
    stopped = train(interrupting(valley, at), tmp_path / "stopped")
    assert (stopped.status, stopped.iterations) == ("interrupted", at - 2)  # of `at` evaluations, one was the start's
    whole = train(valley, None)
    assert train(valley, tmp_path / "stopped").values == whole.values
    rest = train(valley, tmp_path / "killed")
    assert rest.values == whole.values
    assert (rest.vector == whole.vector).all()


def test_lbfgs_goes_on_to_the_same_optimum(tmp_path):
    def train(session, max_iter):
        def train_once(earlier, save):
            start = np.array([-1.2, 1.0, 3.0])
            return train_lbfgs(valley, start, FREE, max_iter=max_iter, ftol=1e-15, earlier=earlier, save=save)

        return session.run("only", max_iter, train_once)

    first = train(Session(tmp_path / "half", "f", 0), 8)
    rest = train(Session(tmp_path / "half", "f", 0), 500)
    assert rest.values[: len(first.values)] == first.values
    np.testing.assert_allclose(rest.vector, 1.0, atol=1e-5)


def test_a_run_that_is_over_is_not_repeated(tmp_path):
    def refuse(earlier, save):
        raise AssertionError("trained again")

    path = tmp_path / "done"
    done = Session(path, "f", 7).run(
        "a", 90, lambda earlier, save: train_lbfgs(bowl, np.zeros(3), FREE, max_iter=90, earlier=earlier, save=save)
    )
    again = Session(path, "f", 8)
    assert again.seed == 7  # the seed is that of the checkpoint
    assert (again.run("a", 90, refuse).vector == done.vector).all()


def test_what_came_after_a_run_that_goes_on_is_dropped(tmp_path):
    """A later round started from the result of the earlier one."""

    def short(earlier, save):
        return train_lbfgs(valley, np.zeros(3), FREE, max_iter=2, earlier=earlier, save=save)

    session = Session(tmp_path / "two", "f", 0)
    session.run("a", 2, short)
    session.run("b", 2, short)
    longer = Session(tmp_path / "two", "f", 0)
    assert list(longer.runs) == ["a", "b"]
    longer.run("a", 9, short)
    assert list(longer.runs) == ["a"]


@pytest.mark.parametrize("content", [b"", b"not an archive", "other"])
def test_other_files_are_refused(content, tmp_path):
    path = tmp_path / "file"
    if content == "other":
        with path.open("wb") as file:
            np.savez(file, x=np.zeros(3))
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match="path: expected a checkpoint written by fitting"):
        Session(path, "f", 0)


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    path = tmp_path / "file"
    Session(path, "f", 0).run("a", 9, lambda earlier, save: train_lbfgs(bowl, np.zeros(3), FREE, max_iter=9, save=save))
    with pytest.raises(ValueError, match="same data and settings"):
        Session(path, "g", 0)


@pytest.mark.parametrize("train", [train_lbfgs, train_adam])
def test_the_bar_is_shown_when_asked_for(train, capsys):
    train(bowl, np.zeros(3), FREE, max_iter=8, label="a label")
    assert capsys.readouterr().err == ""
    train(bowl, np.zeros(3), FREE, max_iter=8, progress=True, label="a label")
    assert "a label" in capsys.readouterr().err


def test_a_step_keeps_the_vector_before_it_and_a_record_keeps_its_state():
    """Steps reuse memory: the vector before the current one stays, and what a run returns never changes."""
    steps = Steps(np.array([3.0, -1.0]), [(-9.0, 9.0)] * 2, 0.5)
    for _ in range(5):
        before, copy = steps.x, steps.x.copy()
        steps.take(2.0 * steps.x)
        np.testing.assert_array_equal(before, copy)
    records = []
    train_adam(
        lambda x: (float(x @ x), 2.0 * x),
        np.array([3.0]),
        [(-9.0, 9.0)],
        max_iter=40,
        save=lambda run: records.append(
            (run, {name: np.array(part) for name, part in run.state.items() if name != "rng"})
        ),
    )
    assert len(records) > 2
    for run, state in records:
        for name, part in state.items():
            np.testing.assert_array_equal(run.state[name], part)


def test_adam_is_its_formula_for_many_entries_and_clips_to_the_bounds():
    """Against one expression for all entries at once, beyond the number that moves at a time."""
    rng = np.random.default_rng(0)
    n, rate = 20_000, 0.1
    x, first, second = rng.standard_normal(n), np.zeros(n), np.zeros(n)
    steps = Steps(x, [(-1.5, 1.5)] * n, rate)
    x = np.clip(x, -1.5, 1.5)
    for t in range(1, 5):
        g = rng.standard_normal(n)
        steps.take(g)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
        x = np.clip(x - rate * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8), -1.5, 1.5)
        np.testing.assert_allclose(steps.x, x, atol=1e-12)
    assert (np.abs(steps.x) == 1.5).any()


TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 12)))[0]
CURVATURE = TURN @ np.diag(np.geomspace(1.0, 1e8, 12)) @ TURN.T
STEEP, WIDE = TURN[:, 0], [(-9.0, 9.0)] * 12


def steep(x):
    """A valley across all coordinates, whose walls rise by 1e8: steps of 0.05 lead far up."""
    return 0.5 * float(x @ CURVATURE @ x), CURVATURE @ x


def steep_batches():
    def draw(rng, step):
        shift = 1e-6 * rng.standard_normal(12)
        return lambda x: steep(x - shift)

    return Batches(draw, steep)


def test_steps_that_lead_away_from_the_best_point_begin_again_there_and_shorter():
    run = train_adam(steep, STEEP, WIDE, max_iter=3000)
    assert min(run.values) < 100.0 * run.values[0]  # the first steps were too long
    assert run.value > run.values[0]  # it found a better point than its start
    assert run.state["rate"] < 0.05
    assert run.status == "stalled"
    assert "led away from the best point" in run.reason


def test_mini_batches_that_fall_below_their_start_begin_again_at_the_best_point():
    run = train_adam(steep_batches(), STEEP, WIDE, max_iter=1000, rng=np.random.default_rng(0))
    assert run.state["rate"] < 0.05
    assert run.status == "iterations"
    assert "led away from the best point" in run.reason
    assert [remark.text for remark in of_run(run, batches=True)] == [run.reason]
    assert run.value > run.values[0]
    quiet = train_adam(noisy_batches(), np.zeros(3), FREE, max_iter=40, rng=np.random.default_rng(0))
    assert of_run(quiet, batches=True) == []


def test_steps_that_never_help_are_cut_and_end_with_a_warning():
    """A slope that points up: a faulty objective."""
    run = train_adam(lambda x: (float(x @ x), -2.0 * x), np.ones(3), FREE, max_iter=5000)
    assert run.status == "stalled"
    assert run.value == run.values[0] == -3.0


@pytest.mark.parametrize("loss", [steep, steep_batches()], ids=["all data", "batches"])
@pytest.mark.parametrize("cut", [49, 101, 150, 260])
def test_a_run_whose_steps_were_cut_goes_on_bit_for_bit(loss, cut, tmp_path):
    def train(session, max_iter):
        def train_once(earlier, save):
            rng = np.random.default_rng(5)
            return train_adam(loss, STEEP, WIDE, max_iter=max_iter, rng=rng, earlier=earlier, save=save)

        return session.run("only", max_iter, train_once)

    whole = train(Session(None, "", 0), 400)
    assert whole.state["since"] > 0
    train(Session(tmp_path / "half", "f", 0), cut)
    rest = train(Session(tmp_path / "half", "f", 0), 400)
    assert rest.values == whole.values
    assert (rest.vector == whole.vector).all()
    assert (rest.reason, rest.state["rate"]) == (whole.reason, whole.state["rate"])


def test_a_natural_step_that_is_impossible_is_taken_back():
    """Slopes of 1e20 leave nothing of the precision in doubles."""
    law, M = NaturalSteps(2, 1.0, 1.0, True), 2
    slopes = np.zeros(law.size)
    slopes[M:] = [-1e20, 0.0, -1e20]
    with pytest.raises(NotPositiveDefinite, match="precision of q"):
        law.moved(np.zeros(law.size), slopes, 1)

    def loss(x):
        return float(x @ x), np.where(x == 0.0, slopes, 2.0 * x)

    run = train_adam(loss, np.zeros(law.size), [(-30.0, 30.0)] * law.size, max_iter=30, natural=law)
    assert run.failures > 0
    assert np.isfinite(run.vector).all()
