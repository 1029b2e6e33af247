"""ExactGP and RenyiGP by iterations: against Cholesky factors, in scikit-learn's protocol, from files, on a device."""

from __future__ import annotations

import math
import pickle
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from thinning import one_in

import fitting
from fitting import ExactGP, RenyiGP
from fitting.estimators import fingerprint, solving, trainer
from fitting.iterative import IterativeEvidence, IterativeRenyi, evidence, renyi, solution
from fitting.iterative.posterior import iterative_posterior
from fitting.iterative.solution import layout
from fitting.objectives.objective import at_point, member, objective
from fitting.objectives.point import Gradient
from fitting.training import Resolution, train_lbfgs
from gpbounds import Matern, NotPositiveDefinite, SquaredExponential
from gpbounds.iterative import Probes, exact_predictions
from gpbounds.iterative import evidence as bounds
from gpbounds.iterative import solves as solving_at_large_n
from gpbounds.renyi import log_evidence
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks and sets so small that the factor of some hundred rows is incomplete."""
    for module in (evidence, renyi):
        original = module.layout
        monkeypatch.setattr(module, "layout", lambda k, X, s, o=original: o(k, X, s, block=20, neighbours=30))
    monkeypatch.setattr(sys.modules["gpbounds.vecchia.factor"], "ROWS", 16)  # several chunks in each
    monkeypatch.setattr(solving_at_large_n, "BLOCK", 20)
    monkeypatch.setattr(solving_at_large_n, "NEIGHBOURS", 30)
    monkeypatch.setattr(solving_at_large_n, "WIDE", (20, 30))


def data(N=240, D=2, P=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (N, D))
    Y = np.sin(2.0 * X[:, :1]) * np.cos(X[:, -1:]) + 0.1 * rng.standard_normal((N, P))
    return X, Y[:, 0] if P == 1 else Y


NEW = np.random.default_rng(1).uniform(-3.0, 3.0, (7, 2))
KERNEL = SquaredExponential(0.7, [0.9, 1.4])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([ExactGP(solver="iterative", max_iter=5, random_state=0, start="scale")])
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


@pytest.mark.broad
@pytest.mark.parametrize("P", one_in(2, [2, 1]))
@pytest.mark.parametrize("alpha", [None, pytest.param(0.0, marks=pytest.mark.slow), 0.4])
def test_fits_and_predictions_are_those_of_cholesky_factors(alpha, P):
    """Same optimum within standard errors, same predictions; the interval holds log p(y) at the trained parameters."""
    X, y = data(P=P)
    Z = X[:15] + 0.01
    settings = {"kernel": KERNEL, "noise": 0.05, "random_state": 0}
    models = [
        (ExactGP(solver=s, **settings) if alpha is None else RenyiGP(alpha, solver=s, inducing=Z, **settings))
        for s in ("iterative", "cholesky")
    ]
    if alpha is not None:
        for model in models:
            model.set_params(learn_inducing=False)
    fast, dense = (model.fit(X, y) for model in models)
    assert "within 2 standard errors" in fast.stop_reason_
    np.testing.assert_allclose(fast.kernel_.log_parameters, dense.kernel_.log_parameters, atol=0.1)
    at_fast = clone(dense).set_params(optimizer=None, kernel=fast.kernel_, noise=fast.noise_).fit(X, y)
    assert at_fast.objective_ > dense.objective_ - 0.3
    assert fast.objective_ == pytest.approx(at_fast.objective_, abs=5.0)
    for value, expected in zip(fast.predict(NEW, return_std=True), at_fast.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-2, atol=1e-3)
    assert (fast.predict(NEW) == fast.predict(NEW, return_std=True)[0]).all()
    truth = sum(log_evidence(fast.kernel_, X, column, noise=fast.noise_) for column in np.atleast_2d(y.T))
    lower, upper = fast.evidence_bounds_
    assert float(lower) <= truth <= float(upper)
    assert lower.confidence == 0.95


def test_variances_are_never_too_small_and_means_as_certain_as_stated():
    X, y = data()
    exact = ExactGP(KERNEL, 1e-3, optimizer=None, solver="cholesky").fit(X, y).posterior_
    fast = iterative_posterior(KERNEL, X, y[:, None], noise=1e-3, single=True)
    points = np.vstack([NEW, X[:20]])
    (mean, variance), (truth, spread) = fast.predict(points), exact.predict(points)
    assert (variance >= spread - 1e-12).all()
    np.testing.assert_allclose(np.sqrt(variance), np.sqrt(spread), rtol=1e-2)
    assert (np.abs(mean - truth) <= fast.mean_error * math.sqrt(0.7) + 1e-9).all()
    assert fast.mean_error * math.sqrt(0.7) <= 1e-3 * math.sqrt(1e-3)
    whole = fast.predict(points, full_cov=True)[1]
    assert np.linalg.eigvalsh(whole - exact.predict(points, full_cov=True)[1])[0] >= -1e-9


def test_many_predictions_take_one_factor_and_agree_with_few():
    """Of a model that iterates: few points by conjugate gradients, many by a factor, which no copy carries along."""
    X, y = data(400)
    exact = ExactGP(KERNEL, 1e-3, optimizer=None, solver="cholesky").fit(X, y).posterior_
    fast = iterative_posterior(KERNEL, X, y[:, None], noise=1e-3, single=True)
    points = np.random.default_rng(3).uniform(-3.0, 3.0, (50, 2))
    few = np.concatenate([fast.predict(points[i : i + 2])[1] for i in range(0, 50, 2)])
    assert "_factored" not in vars(fast)
    many = fast.predict(points)[1]
    assert "_factored" in vars(fast)
    assert "_factored" not in vars(pickle.loads(pickle.dumps(fast)))
    truth = exact.predict(points)[1]
    np.testing.assert_allclose(many, truth, rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(few), np.sqrt(truth), rtol=1e-2)
    assert (few >= truth - 1e-12).all()
    assert (fast.predict(points[:2])[1] == few[:2]).all()  # as before the factor was there


@pytest.mark.parametrize("memory", [2.0**31, 1.0])
def test_lanes_change_no_bit_of_exact_predictions(memory):
    """One lane or two, by a factor and by products in single precision."""
    X, y = data(2100)  # a product of so many rows is shared by lanes
    points = np.random.default_rng(4).uniform(-2.0, 2.0, (40, 2))
    runs = []
    for threads in (1, 2):
        with blas_threads(threads):
            runs.append(exact_predictions(KERNEL, X, y, points, noise=0.01, memory=memory))
    for name in ("mean", "variance"):
        for one, two in zip(getattr(runs[0], name), getattr(runs[1], name), strict=True):
            assert (one == two).all()


def test_a_solution_that_single_precision_spoils_is_made_in_doubles():
    """Targets of 1e300 times the usual size, and noise near the rounding of single precision: ends stay finite."""
    X, y = data(300)
    for noise, scale in ((1e-7, 1.0), (1e-2, 1e150)):
        made = exact_predictions(KERNEL, X, scale * y, NEW, noise=noise, memory=1.0)
        plain = exact_predictions(KERNEL, X, scale * y, NEW, noise=noise)
        assert (made.method, plain.method) == ("conjugate gradients", "cholesky")
        for ends, others in ((made.mean, plain.mean), (made.variance, plain.variance)):
            assert np.isfinite(ends).all()
            assert (ends[0] <= others[1]).all() and (others[0] <= ends[1]).all()  # noqa: PT018  (two enclosures of one number)


def prepared(kind, point, alpha=0.4):
    X, y = data(P=2)
    made = objective(X, y, "exact") if kind is IterativeEvidence else objective(X, y, "renyi", alpha=alpha)
    return kind(replace(made.data, parts=None), made.member).prepared(point, (0, 6)), made


@pytest.mark.broad
@pytest.mark.parametrize("kernel", [KERNEL, Matern(1.5, 1.0, 0.8), SquaredExponential(0.5) * Matern(2.5, 1.0, 2.0)])
@pytest.mark.parametrize("kind", [IterativeEvidence, IterativeRenyi])
def test_derivatives_are_those_of_the_value(kind, kernel):
    """Central differences of the estimate itself, in all log parameters and in two entries of Z."""
    Z = None if kind is IterativeEvidence else data()[0][:9] + 0.05
    point = at_point(kernel, 0.05, Z)
    F, _ = prepared(kind, point)
    gradient = F.minimised(point).gradient
    logs = np.append(kernel.log_parameters, math.log(0.05))

    def value(moved, inputs):
        shaped = kernel.with_log_parameters(moved[:-1])
        return F.minimised(at_point(shaped, math.exp(moved[-1]), inputs), gradient=False).value

    scale = 1e-4 * max(np.abs(gradient.kernel).max(), 100.0)
    for i, step in enumerate(1e-4 * np.eye(logs.size)):
        slope = (value(logs + step, Z) - value(logs - step, Z)) / 2e-4
        expected = np.append(gradient.kernel, gradient.noise)[i]
        assert expected == pytest.approx(slope, rel=1e-3, abs=scale)
    for entry in ((0, 0), (4, 1)) if Z is not None else ():
        step = np.zeros(Z.shape)
        step[entry] = 1e-4
        slope = (value(logs, Z + step) - value(logs, Z - step)) / 2e-4
        assert gradient.Z[entry] == pytest.approx(slope, rel=1e-3, abs=scale)


@pytest.mark.broad
@pytest.mark.parametrize("alpha", [0.1, 0.4, 0.9])
def test_the_renyi_bound_is_estimated_within_standard_errors(alpha):
    Z = data()[0][:9] + 0.05
    point = at_point(KERNEL, 0.05, Z)
    F, dense = prepared(IterativeRenyi, point, alpha)
    ours, exact, errors = F.minimised(point), dense.minimised(point), F.standard_errors(point)
    assert ours.value == pytest.approx(exact.value, abs=8.0)
    gaps = np.append(ours.gradient.kernel - exact.gradient.kernel, ours.gradient.noise - exact.gradient.noise)
    assert (np.abs(gaps) <= 5.0 * np.append(errors.kernel, errors.noise) + 1e-3).all()
    assert (np.abs(ours.gradient.Z - exact.gradient.Z) <= 8.0 * errors.Z + 1e-3).all()


def test_auto_switches_with_the_number_of_rows(monkeypatch):
    X, y = data(60)
    model = ExactGP(KERNEL, 0.05, optimizer=None).fit(X, y)
    assert not hasattr(model, "evidence_bounds_")
    monkeypatch.setattr(solving, "SWITCH", 50)
    assert hasattr(model.fit(X, y), "evidence_bounds_")
    assert not hasattr(RenyiGP(1.0, KERNEL, 0.05, n_inducing=5, optimizer=None).fit(X, y), "evidence_bounds_")
    with pytest.raises(ValueError, match="solver: expected one of 'auto', 'cholesky', 'iterative', got 'cg'"):
        ExactGP(solver="cg").fit(X, y)


@pytest.mark.slow
def test_other_blocks_where_lengthscales_moved():
    """A start with lengthscales four times too long: blocks follow, and the optimum is that of a good start."""
    X, y = data(300)
    far = ExactGP(SquaredExponential(0.7, [4.0, 4.0]), 0.05, solver="iterative", random_state=0, tol=1e-4).fit(X, y)
    near = ExactGP(KERNEL, 0.05, solver="iterative", random_state=0, tol=1e-4).fit(X, y)
    assert len(far.runs_) > len(near.runs_) == 1
    np.testing.assert_allclose(far.kernel_.log_parameters, near.kernel_.log_parameters, atol=0.05)


@pytest.mark.broad
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])
def test_a_checkpoint_continues(optimizer, tmp_path):
    X, y = data(150)
    settings = {"solver": "iterative", "random_state": 0, "optimizer": optimizer, "start": "scale"}
    whole = ExactGP(max_iter=14, **settings).fit(X, y)
    path = tmp_path / "c"
    ExactGP(max_iter=6, checkpoint=path, **settings).fit(X, y)
    parted = ExactGP(max_iter=14, checkpoint=path, **settings).fit(X, y)
    assert (parted.history_ == whole.history_).all()
    assert parted.noise_ == whole.noise_


def test_fingerprints_know_the_solver_in_use(monkeypatch):
    X, y = data(60)
    model = ExactGP(KERNEL, 0.05, optimizer=None).fit(X, y)
    marks = []
    for name in ("auto", "cholesky", "iterative"):
        marks.append(fingerprint.fingerprint(model.set_params(solver=name), X, y[:, None]))
    assert marks[0] == marks[1] != marks[2]


@pytest.mark.parametrize("P", [1, 2])
@pytest.mark.parametrize("model", [ExactGP(KERNEL, 0.05), RenyiGP(0.4, KERNEL, 0.05, n_inducing=8)])
def test_a_saved_model_predicts_the_same_bit_for_bit(model, P, tmp_path):
    X, y = data(150, P=P)
    model = clone(model).set_params(solver="iterative", optimizer=None, normalize_y=True, random_state=3).fit(X, y)
    model.save(tmp_path / "m")
    again = fitting.load(tmp_path / "m")
    for before, after in zip(model.predict(NEW, return_cov=True), again.predict(NEW, return_cov=True), strict=True):
        assert (before == after).all()
    assert [b.to_dict() for b in again.evidence_bounds_] == [b.to_dict() for b in model.evidence_bounds_]
    assert again.probes_ == model.probes_
    with pytest.raises(ValueError, match="the 16 probes of training"):
        bounds(again.kernel_, X, y, noise=0.05, rng=again.probes_)


def test_intervals_refuse_the_probes_of_training():
    X, y = data(150)
    model = ExactGP(KERNEL, 0.05, solver="iterative", optimizer=None, random_state=0).fit(X, y)
    assert isinstance(model.probes_, Probes)
    with pytest.raises(ValueError, match=r"rng: expected None, a seed or a Generator, got the 16 probes of training"):
        model.log_evidence_bounds(rng=model.probes_)
    lower, upper = model.log_evidence_bounds(rng=0, delta=0.5, block=20, neighbours=30)
    assert float(lower) <= log_evidence(KERNEL, X, y, noise=0.05) <= float(upper)
    assert lower.confidence == 0.5
    draws = [model.probes_.generator().standard_normal(), np.random.default_rng([0, 6, 7]).standard_normal()]
    assert draws[0] != draws[1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_mini_batches_train_and_iterations_predict():
    """The exact GP by batches (Yue & Kontar): Cholesky factors of 32 rows in training, all rows in predictions."""
    X, y = data(200)
    settings = {"optimizer": "adam", "batch_size": 32, "max_iter": 40, "random_state": 0}
    fast, dense = (ExactGP(KERNEL, 0.05, solver=s, **settings).fit(X, y) for s in ("iterative", "cholesky"))
    assert fast.noise_ == dense.noise_
    np.testing.assert_allclose(fast.predict(NEW), dense.predict(NEW), atol=1e-3)
    assert fast.objective_ == pytest.approx(dense.objective_, abs=5.0)
    rival = RenyiGP(0.5, KERNEL, 0.05, n_inducing=8, solver="iterative", **settings).fit(X, y)
    other = RenyiGP(0.5, KERNEL, 0.05, n_inducing=8, solver="cholesky", **settings).fit(X, y)
    np.testing.assert_allclose(rival.predict(NEW), other.predict(NEW), atol=1e-6)


def test_one_row_equal_rows_and_few_rows():
    model = ExactGP(KERNEL, 0.1, solver="iterative", optimizer=None).fit([[0.0, 0.0]], [1.0])
    mean, std = model.predict([[0.0, 0.0]], return_std=True)
    np.testing.assert_allclose([mean[0], std[0] ** 2], [0.7 / 0.8, 0.7 - 0.49 / 0.8], rtol=1e-6)
    X, y = data(60)
    twice = np.concatenate([X, X]), np.concatenate([y, y + 0.1])
    fast, dense = (ExactGP(solver=s, random_state=0).fit(*twice) for s in ("iterative", "cholesky"))
    assert fast.evidence_bounds_[1] > dense.objective_ - 0.5
    few = [ExactGP(KERNEL, 0.1, solver=s, optimizer=None).fit(X[:9], y[:9]) for s in ("iterative", "cholesky")]
    assert few[0].objective_ == pytest.approx(few[1].objective_, abs=1e-6)


def test_noise_below_the_rounding_of_k_is_refused():
    X, y = data(200)
    with pytest.raises(NotPositiveDefinite, match="below the rounding error of K"):
        ExactGP(SquaredExponential(1e6, 10.0), 1e-12, solver="iterative", optimizer=None).fit(X, y)


def test_training_ends_by_standard_errors_only():
    """A loss without progress but with a derivative goes on; a derivative within its errors ends the run."""
    calls = []

    def errors(x):
        calls.append(x)
        return np.array([0.5])

    rule = Resolution(errors, [(-9.0, 9.0)])
    run = train_lbfgs(
        lambda x: (float(x[0] ** 4), 4.0 * x**3), np.array([3.0]), [(-9.0, 9.0)], max_iter=50, resolution=rule
    )
    assert run.status == "resolved"
    assert abs(4.0 * run.vector[0] ** 3) <= 1.0
    assert run.iterations % 4 == 0
    assert calls
    flat = train_lbfgs(
        lambda x: (1e6 + float(x @ x), 2.0 * x),
        np.array([3.0]),
        [(-9.0, 9.0)],
        max_iter=50,
        resolution=Resolution(lambda x: np.array([1e-9]), [(-9.0, 9.0)]),
    )
    assert abs(flat.vector[0]) < 1e-4


def test_standard_errors_are_computed_anew_only_near_the_decision():
    """Derivatives far beyond the errors last seen wait for 24 iterations; near ones are compared with new errors."""
    calls = []

    def errors(x):
        calls.append(x)
        return np.array([1e-3])

    rule = Resolution(errors, [(-9.0, 9.0)])
    assert all(rule.reason(np.zeros(1), np.ones(1), iterations) is None for iterations in range(1, 56))
    assert len(calls) == 3  # after 4, 28 and 52 iterations
    assert rule.reason(np.zeros(1), np.array([0.005]), 56) is None
    assert len(calls) == 4
    assert rule.reason(np.zeros(1), np.array([0.0019]), 60).startswith("Stopped after 60 iterations")


def test_small_derivatives_count_as_zero_whatever_their_errors():
    rule = Resolution(lambda x: np.array([1.0, 1e-6]), [(-9.0, 9.0)] * 2, small=0.01)
    assert rule.reason(np.zeros(2), np.array([1.9, 0.0101]), 4) is None
    assert rule.reason(np.zeros(2), np.array([1.9, 0.0099]), 8).endswith("or is at most 0.01.")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_inputs_that_do_not_matter_do_not_keep_training_going(monkeypatch):
    """Their derivatives are 1e-4 nats, with standard errors of 1e-6: training took 263 evaluations for their sake."""
    monkeypatch.undo()  # `small`: with blocks as large as they are
    calls, evaluate = [], IterativeEvidence.evaluate
    counted = lambda *args, **options: (calls.append(args), evaluate(*args, **options))[1]  # noqa: E731
    monkeypatch.setattr(IterativeEvidence, "evaluate", counted)
    rng = np.random.default_rng(1500)
    X = rng.standard_normal((1500, 6))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(1500)
    fast, dense = (ExactGP(solver=s, tol=0.0, random_state=0).fit(X, y) for s in ("iterative", "cholesky"))
    assert "standard errors" in fast.stop_reason_
    assert len(calls) < 60
    reached = -objective(X, y, "exact").minimised(at_point(fast.kernel_, fast.noise_), gradient=False).value
    assert reached > dense.objective_ - 0.5


@pytest.mark.parametrize("kind", [IterativeEvidence, IterativeRenyi])
def test_blocks_for_other_lengthscales_are_stale_where_their_errors_matter(kind):
    """A quarter of what is negligible is compared with the standard error; too few steps are stale in any case."""
    start = at_point(KERNEL, 0.05, data()[0][:15])
    longer = at_point(SquaredExponential(0.7, [0.9, 3.0]), 0.05, start.Z)
    ready, _ = prepared(kind, start)
    assert not ready.is_stale(start)
    assert ready.is_stale(longer)
    assert ready.is_stale(longer, 1e-3)
    assert not ready.is_stale(longer, 1e3)
    if kind is IterativeEvidence:
        error = ready.solved(longer, derivatives=False).log_evidence_error
        assert not ready.is_stale(longer, 4.01 * error)
        assert ready.is_stale(longer, 3.99 * error)
        short = replace(ready, frozen=ready.frozen.with_steps(2))
        assert short.is_stale(longer, math.inf)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_input_that_does_not_matter_causes_no_second_training():
    """Its lengthscale grows out of all blocks; the value reached is within tol of the largest all the same."""
    X, y = data(120, D=1)
    X = np.column_stack([X, np.random.default_rng(5).standard_normal(120)])
    fast, dense = (
        ExactGP(SquaredExponential(0.7, [0.9, 1.4]), 0.05, solver=s, random_state=0, start="scale").fit(X, y)
        for s in ("iterative", "cholesky")
    )
    assert fast.kernel_.lengthscale[1] > 2.0 * 1.4
    assert len(fast.runs_) == 1
    reached = -objective(X, y, "exact").minimised(at_point(fast.kernel_, fast.noise_), gradient=False).value
    assert reached > dense.objective_ - 0.01 * 120


def test_an_interval_that_cannot_be_had_is_a_remark(monkeypatch):
    def refuse(*args, **options):
        raise ValueError("noise: too small")

    monkeypatch.setattr(solving, "evidence", refuse)
    with pytest.warns(ConvergenceWarning, match="No interval for log p"):
        model = ExactGP(KERNEL, 0.05, solver="iterative", optimizer=None).fit(*data(60))
    assert [remark.kind for remark in model.remarks_] == ["interval"]
    assert model.set_params(solver="cholesky").fit(*data(60)).remarks_ == ()


def test_members_of_the_family():
    assert IterativeEvidence(objective(*data(20), "exact").data, member("exact")).probes is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.gpu
def test_device_equals_host(cupy):
    X, y = data(120, P=2)
    for model in (ExactGP(KERNEL, 0.05), RenyiGP(0.4, KERNEL, 0.05, n_inducing=6)):
        settings = {"solver": "iterative", "random_state": 0, "max_iter": 3}
        host = clone(model).set_params(**settings)
        host.fit(X, y)
        device = clone(model).set_params(device="cuda", **settings).fit(cupy.asarray(X), cupy.asarray(y))
        np.testing.assert_allclose(device.history_, host.history_, rtol=1e-6)
        for value, expected in zip(
            device.predict(cupy.asarray(NEW), return_std=True), host.predict(NEW, return_std=True), strict=True
        ):
            np.testing.assert_allclose(cupy.asnumpy(value), expected, rtol=1e-5, atol=1e-6)


def test_lanes_change_no_bit_and_storage_only_rounding(monkeypatch):
    """Value and derivatives at 1 and 2 threads, with K stored and computed for each product."""
    monkeypatch.setattr(evidence, "layout", lambda k, X, s: layout(k, X, s, block=150, neighbours=60))
    X, y = data(900)
    F = objective(X, y, "exact")
    point = at_point(Matern(0.5), 0.5)
    runs = []
    for threads, memory in ((1, 2.0**31), (2, 2.0**31), (1, 1.0), (2, 1.0)):
        monkeypatch.setattr(solution, "MEMORY", memory)
        with blas_threads(threads):
            ready = IterativeEvidence(F.data, F.member).prepared(point, (0,))
            evaluation = ready.minimised(point)
        gradient = evaluation.gradient
        runs.append(np.concatenate([[evaluation.value], gradient.kernel, gradient.likelihood]))
    assert (runs[0] == runs[1]).all()
    assert (runs[2] == runs[3]).all()
    np.testing.assert_allclose(runs[0], runs[2], rtol=1e-8)


@pytest.mark.slow
def test_training_by_iterations_ends_by_the_tail_of_its_curve_where_errors_are_negligible(monkeypatch):
    """Standard errors near 0 never let a derivative count as 0; what further iterations can gain still ends the run."""
    X, y = data()
    exactly = Gradient(np.full(KERNEL.log_parameters.size, 1e-12), np.full(1, 1e-12), np.full((15, 2), 1e-12))
    monkeypatch.setattr(IterativeRenyi, "standard_errors", lambda self, point: exactly)
    monkeypatch.setattr(trainer, "SMALL", 0.0)  # else the order of the blocks decides which of two rules is met first
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = RenyiGP(
            0.4, KERNEL, 0.05, solver="iterative", inducing=X[:15] + 0.01, max_iter=120, tol=1.0, random_state=0
        ).fit(X, y)
    assert "further ones are expected to gain" in model.stop_reason_
    assert model.n_iter_ < 120
