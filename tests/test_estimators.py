"""Estimators: scikit-learn's protocol, and the mathematics that a fitted model must obey."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import pickle
from functools import partialmethod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from thinning import one_in

import fitting
from fitting import PACGP, ExactGP, LowRankGP, RenyiGP, SparseGP, SparsePACGP, VariationalGP
from fitting.objectives.objective import Objective
from gpbounds import Matern, NotPositiveDefinite, SquaredExponential, renyi
from gpbounds.validation import cuda_fault

quick = {"max_iter": 4, "random_state": 0, "start": "scale"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("short_pilots")
@parametrize_with_checks([ExactGP(**quick), RenyiGP(0.5, n_inducing=6, **quick), SparseGP(n_inducing=6, **quick)])
def test_scikit_learn_s_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    return X, np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(60)


NEW = np.random.default_rng(1).uniform(-3.0, 3.0, (7, 2))
KERNEL = SquaredExponential(0.7, [0.9, 1.4])
Z = np.random.default_rng(2).uniform(-2.0, 2.0, (9, 2))

EXACT = ExactGP(KERNEL, 0.02)
MODELS = [
    EXACT,
    RenyiGP(0.4, KERNEL, 0.02, inducing=Z),
    *(SparseGP(method, KERNEL, 0.02, inducing=Z) for method in ("vfe", "fitc", "dtc", "pep")),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=[str(getattr(m, "method", type(m).__name__)) for m in MODELS])


def dense(model, kernel, noise, X, Y, Z):
    """Mean and covariance of f at NEW from N × N matrices."""
    K, cross, own = kernel(X), kernel(NEW, X), kernel(NEW)
    if not isinstance(model, ExactGP):
        inverse = np.linalg.inv(kernel(Z))
        Q, cross = kernel(X, Z) @ inverse @ kernel(Z, X), kernel(NEW, Z) @ inverse @ kernel(Z, X)
        R = K - Q
        if isinstance(model, RenyiGP):
            K = Q + (1.0 - model.alpha) * R
        else:
            K = Q + {"vfe": 0.0, "dtc": 0.0, "fitc": 1.0, "pep": 0.5}[model.method] * np.diag(R.diagonal())
    gain = np.linalg.solve(K + noise * np.eye(len(X)), cross.T).T
    return gain @ Y, own - gain @ cross.T


@each_model
@pytest.mark.parametrize("normalize_y", [False, True])
@pytest.mark.parametrize("outputs", [None, 2])
def test_predictions_are_those_of_the_dense_formula(model, normalize_y, outputs, data):
    X, y = data
    Y = y + 3.0 if outputs is None else np.column_stack([y + 3.0, 2.0 * y**2])
    model = clone(model).set_params(normalize_y=normalize_y, optimizer=None).fit(X, Y)
    shift, scale = (Y.mean(axis=0), Y.std(axis=0)) if normalize_y else (0.0 * Y[0], 0.0 * Y[0] + 1.0)
    expected, cov = dense(model, KERNEL, 0.02, X, (Y - shift) / scale, Z)
    expected = shift + scale * expected
    mean, std = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-7, atol=1e-8)
    variance = cov.diagonal() if outputs is None else cov.diagonal()[:, None]
    np.testing.assert_allclose(std, scale * np.sqrt(variance), rtol=1e-6)
    whole = (cov if outputs is None else cov[:, :, None]) * scale**2
    np.testing.assert_allclose(model.predict(NEW, return_cov=True)[1], whole, rtol=1e-6, atol=1e-8)
    noisy = model.predict(NEW, return_std=True, noisy=True)[1]
    np.testing.assert_allclose(noisy**2 - std**2, 0.02 * scale**2 + 0.0 * mean, rtol=1e-6)
    assert (model.predict(NEW) == mean).all()


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (ExactGP(), lambda m, X, y: renyi.log_evidence(m.kernel_, X, y, noise=m.noise_)),
        (
            RenyiGP(0.3, n_inducing=9),
            lambda m, X, y: renyi.elbo(m.kernel_, X, y, m.inducing_, 0.3, noise=m.noise_, jitter=m.jitter_),
        ),
        (
            SparseGP("vfe", n_inducing=9),
            lambda m, X, y: renyi.elbo(m.kernel_, X, y, m.inducing_, 1.0, noise=m.noise_, jitter=m.jitter_),
        ),
    ],
    ids=["exact", "renyi", "vfe"],
)
def test_the_objective_is_that_of_gpbounds_and_training_raises_it(model, value, data):
    model = model.fit(*data)
    assert model.objective_ == pytest.approx(float(value(model, *data)), rel=1e-9)
    assert model.objective_ == max(model.history_)
    plain = clone(model).set_params(start="scale").fit(*data)
    start = clone(plain).set_params(optimizer=None, random_state=0).fit(*data)
    assert plain.history_[0] == pytest.approx(start.objective_, rel=1e-9)
    assert plain.objective_ == max(plain.history_) > plain.history_[0] + 10.0
    assert "Converged" in plain.stop_reason_


@pytest.mark.parametrize("model", [ExactGP(), RenyiGP(0.3, n_inducing=9), SparseGP(n_inducing=9)], ids=str)
def test_the_optimum_is_stationary(model, data):
    """Steps of 1e-3 in the logarithm of a hyperparameter gain no more than rounding and tolerance allow."""
    model = model.fit(*data)
    F = model._objective()
    Z = getattr(model, "inducing_", None)
    logs = np.append(model.kernel_.log_parameters, math.log(model.noise_))
    for step in np.vstack([np.eye(logs.size), -np.eye(logs.size)]) * 1e-3:
        *moved, noise = logs + step
        neighbour = F.evaluate(model.kernel_.with_log_parameters(moved), math.exp(noise), Z, gradient=False)
        assert neighbour.value <= model.objective_ + 1e-5


def test_the_exact_gp_finds_the_optimum_of_scikit_learn(data):
    X, y = data
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    other = GaussianProcessRegressor(kernel).fit(X, y)
    model = ExactGP(SquaredExponential(1.0, [1.0, 1.0]), 0.1).fit(X, y)
    assert model.objective_ == pytest.approx(other.log_marginal_likelihood_value_, abs=1e-4)
    optimum = renyi.from_sklearn(other)
    np.testing.assert_allclose(model.kernel_.log_parameters, optimum.kernel.log_parameters, atol=1e-2)
    assert model.noise_ == pytest.approx(optimum.noise, rel=1e-2)
    np.testing.assert_allclose(model.predict(NEW), other.predict(NEW), atol=1e-3)


def test_the_optimisers_agree(data):
    lbfgs, adam = (ExactGP(optimizer=name, max_iter=2000).fit(*data) for name in ("lbfgs", "adam"))
    assert adam.objective_ == pytest.approx(lbfgs.objective_, abs=1e-3)


@pytest.mark.parametrize("method", ["vfe", "fitc", "pep", "dtc"])
def test_inducing_points_at_the_data_give_the_exact_gp(method, data):
    """At Z = X, K = Q for every power."""
    X, y = data
    exact = ExactGP(KERNEL, 0.02, optimizer=None).fit(X, y)
    sparse = SparseGP(method, KERNEL, 0.02, inducing=X, optimizer=None).fit(X, y)
    assert sparse.objective_ == pytest.approx(exact.objective_, abs=1e-4)
    for value, expected in zip(sparse.predict(NEW, return_std=True), exact.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-5)


def test_pic_with_one_block_predicts_like_the_exact_gp(data):
    exact = ExactGP(KERNEL, 0.02, optimizer=None).fit(*data)
    pic = SparseGP("pic", KERNEL, 0.02, inducing=Z, block_size=60, optimizer=None).fit(*data)
    assert pic.objective_ == pytest.approx(exact.objective_, rel=1e-9)
    for value, expected in zip(pic.predict(NEW, return_cov=True), exact.predict(NEW, return_cov=True), strict=True):
        np.testing.assert_allclose(value, expected, atol=1e-8)


def test_pic_knows_more_than_fitc_near_the_data(data):
    """Within a block PIC uses K: at the data, with little noise, its variance is about the noise."""
    X, y = data
    fitc, pic = (
        SparseGP(method, KERNEL, 1e-4, inducing=Z[:3], block_size=10, optimizer=None).fit(X, y)
        for method in ("fitc", "pic")
    )
    assert pic.block_centres_.shape == (6, 2)
    assert pic.predict(X, return_std=True)[1].max() <= 0.0101
    assert fitc.predict(X, return_std=True)[1].max() > 0.1


def test_renyi_at_one_is_vfe_and_at_zero_reads_q(data):
    vfe = SparseGP("vfe", KERNEL, 0.02, inducing=Z, optimizer=None).fit(*data)
    at_one = RenyiGP(1.0, KERNEL, 0.02, inducing=Z, optimizer=None).fit(*data)
    at_zero = RenyiGP(0.0, KERNEL, 0.02, inducing=Z, optimizer=None).fit(*data)
    exact = ExactGP(KERNEL, 0.02, optimizer=None).fit(*data)
    assert at_one.objective_ == vfe.objective_
    assert (at_one.predict(NEW) == vfe.predict(NEW)).all()
    assert at_zero.objective_ == pytest.approx(exact.objective_, rel=1e-12)
    assert np.abs(at_zero.predict(NEW) - exact.predict(NEW)).max() > 1e-3


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize(
    "model", [ExactGP(KERNEL, 0.02), RenyiGP(0.5, KERNEL, 0.02, inducing=Z), SparseGP("fitc", KERNEL, 0.02, inducing=Z)]
)
def test_the_bracket_holds_the_evidence(model, outputs, data):
    X, y = data
    Y = y if outputs is None else np.column_stack([y, y**2])
    model = clone(model).set_params(optimizer=None).fit(X, Y)
    lower, upper = model.log_evidence_bounds()
    truth = sum(renyi.log_evidence(KERNEL, X, column, noise=0.02) for column in np.atleast_2d(Y.T))
    assert float(lower) <= truth <= float(upper)
    if isinstance(model, RenyiGP):
        assert model.objective_ - 1e-6 <= float(lower)  # the Rényi bound is among the members
    if isinstance(model, ExactGP):
        assert float(upper) - float(lower) < 1e-4  # Z = X


def test_draws_have_the_predictive_law(data):
    X, y = data
    model = SparseGP("vfe", KERNEL, 0.02, inducing=Z, normalize_y=True, optimizer=None)
    model.fit(X, np.column_stack([y + 1.0, 5.0 * y]))
    drawn = model.sample_y(NEW, 20_000, random_state=3)
    assert drawn.shape == (7, 2, 20_000)
    mean, cov = model.predict(NEW, return_cov=True)
    for p in range(2):
        sigma = np.sqrt(cov[:, :, p].diagonal())
        assert (np.abs(drawn[:, p].mean(axis=1) - mean[:, p]) < 5.0 * sigma / math.sqrt(20_000)).all()
        error = np.abs(np.cov(drawn[:, p]) - cov[:, :, p]) / np.outer(sigma, sigma)
        assert error.max() < 5.0 * math.sqrt(2.0 / 20_000)
    assert (drawn == model.sample_y(NEW, 20_000, random_state=3)).all()
    noisy = model.sample_y(NEW, 20_000, noisy=True)[:, 0]
    np.testing.assert_allclose(noisy.var(axis=1) - cov[:, :, 0].diagonal(), 0.02 * model.y_scale_[0] ** 2, rtol=0.3)


@pytest.mark.broad
@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (RenyiGP(n_inducing=5, max_iter=8), {"alpha": [0.1, 0.5, 1.0]}),
        (SparseGP("pep", n_inducing=5, max_iter=8), {"power": [0.1, 1.0]}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("short_pilots")
def test_order_and_power_are_chosen_by_grid_search(model, grid, data):
    X, y = data
    search = GridSearchCV(model, grid, cv=3, scoring="neg_root_mean_squared_error").fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    (name, values), best = next(iter(grid.items())), int(np.argmax(scores))
    assert len(set(scores)) == len(values)  # each value has a score of its own
    assert getattr(search.best_estimator_, name) == values[best]
    assert search.score(X, y) > -0.5


@pytest.mark.broad
@pytest.mark.parametrize("how", ["greedy", "kdpp", "kmeans", "uniform"])
def test_inducing_points_start_where_they_were_asked_for(how, data):
    X, y = data
    model = SparseGP(n_inducing=15, inducing=how, learn_inducing=False, random_state=4).fit(X, y)
    assert model.inducing_.shape == (15, 2)
    rows = {row.tobytes() for row in X}
    assert all(row.tobytes() in rows for row in model.inducing_) == (how != "kmeans")
    again = SparseGP(n_inducing=15, inducing=how, learn_inducing=False, random_state=4).fit(X, y)
    assert (again.inducing_ == model.inducing_).all()
    learned = SparseGP(n_inducing=15, inducing=how, random_state=4).fit(X, y)
    assert (learned.inducing_ != model.inducing_).all()
    assert learned.objective_ > model.objective_


def test_inducing_points_start_at_centres_of_clusters_unless_their_number_is_sought(data):
    X, y = data
    model = SparseGP(n_inducing=15, learn_inducing=False).fit(X, y)
    named = SparseGP(n_inducing=15, inducing="kmeans", learn_inducing=False).fit(X, y)
    assert (model.inducing_ == named.inducing_).all()
    sought = SparseGP(n_inducing="auto", learn_inducing=False).fit(X, y)
    rows = {row.tobytes() for row in X}
    assert all(row.tobytes() in rows for row in sought.inducing_)


@pytest.mark.parametrize(
    "model", [SparseGP(n_inducing="auto", target_gap=0.5), RenyiGP(0.5, n_inducing="auto")], ids=str
)
def test_auto_takes_as_many_points_as_the_gap_needs(model, data):
    X, y = data
    model = model.fit(X, y)
    order = getattr(model, "alpha", 1.0)
    truth = renyi.exact_gap(model.kernel_, X, y, model.inducing_, order, noise=model.noise_)
    assert truth <= model.gap_ <= model.target_gap
    assert 5 < model.inducing_.shape[0] < 60
    assert 1 <= len(model.runs_) <= 3
    with pytest.warns(ConvergenceWarning, match=r"the gap is bounded by .* nats, more than target_gap"):
        few = clone(model).set_params(max_inducing=4).fit(X, y)
    assert few.inducing_.shape[0] == 4
    assert few.gap_ > model.target_gap


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_restarts_keep_the_best(data):
    poor = SquaredExponential(1e-3, [30.0, 30.0])
    model = ExactGP(poor, 1.0, n_restarts=3, random_state=5).fit(*data)
    assert len(model.runs_) == 4
    assert model.objective_ == max(run.value for run in model.runs_)
    assert model.objective_ >= ExactGP(poor, 1.0).fit(*data).objective_
    assert len({run.values[0] for run in model.runs_}) == 4


@pytest.mark.broad
@pytest.mark.parametrize("model", [ExactGP(), RenyiGP(0.5, n_inducing=12)], ids=str)
def test_mini_batches_come_near_the_optimum(model, data):
    """The optimum of sub-sampled covariances is near that of all data, but not equal."""
    whole = clone(model).fit(*data)
    batch = clone(model).set_params(optimizer="adam", batch_size=30, max_iter=200, random_state=0).fit(*data)
    assert "mini-batches" in batch.stop_reason_
    assert whole.objective_ - 8.0 < batch.objective_ < whole.objective_ + 1e-6
    again = clone(batch).fit(*data)
    assert (again.predict(NEW) == batch.predict(NEW)).all()


def test_fixed_hyperparameters_keep_their_start(data):
    model = ExactGP(KERNEL, 0.02, fixed=("noise", "lengthscale[1]")).fit(*data)
    assert model.noise_ == pytest.approx(0.02, rel=1e-15)
    assert model.kernel_.lengthscale[1] == pytest.approx(1.4, rel=1e-15)
    assert abs(model.kernel_.lengthscale[0] - 0.9) > 1e-3
    everything = ExactGP(KERNEL, 0.02, fixed=("variance", "lengthscale[0]", "lengthscale[1]", "noise")).fit(*data)
    assert everything.kernel_ == KERNEL


def test_limits_hold_and_sitting_on_one_is_said(data):
    with pytest.warns(ConvergenceWarning, match="At the lower limit: noise "):
        model = ExactGP(limits={"noise": (0.05, 1.0)}).fit(*data)
    assert model.noise_ == pytest.approx(0.05)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_kernels_train(data):
    kernel = Matern(2.5, 1.0, [1.0, 1.0]) + SquaredExponential(0.1, 5.0)
    model = ExactGP(kernel).fit(*data)
    assert model.kernel_.k1.nu == 2.5
    assert model.score(*data) > 0.9
    assert model.objective_ > model.history_[0]


def test_the_default_start_scales_with_the_data(data):
    """Scaling X and y scales the start accordingly."""
    X, y = data
    plain, scaled = ExactGP().fit(X, y), ExactGP().fit(X * [1e5, 1e-5], 1e4 * y)
    np.testing.assert_allclose(scaled.predict(NEW * [1e5, 1e-5]), 1e4 * plain.predict(NEW), rtol=1e-4, atol=1e-2)
    assert scaled.objective_ == pytest.approx(plain.objective_ - 60 * math.log(1e4), abs=1e-4)


# ---------------------------------------------------------------------- degenerate data

ODD = [ExactGP(max_iter=50), RenyiGP(0.5, n_inducing=10, max_iter=50), SparseGP(n_inducing=10, max_iter=50),
       SparseGP("pic", n_inducing=10, max_iter=50, block_size=5), SparseGP(n_inducing="auto", max_iter=50)]  # fmt: skip
NAMES = ("exact", "renyi", "vfe", "pic", "auto")
odd = pytest.mark.parametrize("model", ODD, ids=NAMES)
unconverged = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@odd
@unconverged
def test_one_row(model):
    model = clone(model).fit([[2.0, 3.0]], [1.5])
    mean, std = model.predict([[2.0, 3.0], [1e9, -1e9]], return_std=True)
    prior = model.kernel_.max_variance
    assert mean[0] == pytest.approx(1.5 * prior / (prior + model.noise_), rel=1e-6)
    assert mean[1] == 0.0
    assert std[1] == pytest.approx(math.sqrt(prior))


@pytest.mark.broad
@odd
@unconverged
@pytest.mark.parametrize("level", one_in(2, [0.0, 7.0, 0.1, 1.0 / 3.0]))
def test_constant_targets(model, level):
    X = np.linspace(0.0, 1.0, 12)[:, None]
    model = clone(model).fit(X, np.full(12, level))
    np.testing.assert_allclose(model.predict(X), level, atol=1e-2)
    assert math.isfinite(model.objective_)
    normalised = clone(model).set_params(normalize_y=True).fit(X, np.full(12, level))
    np.testing.assert_allclose(normalised.predict(X), level, atol=1e-12)
    if hasattr(normalised, "noise_"):  # no rounding error of the mean is fitted
        assert normalised.noise_ == clone(model).set_params(normalize_y=True).fit(X, np.full(12, 2.0)).noise_


@odd
@unconverged
def test_constant_columns_and_repeated_rows(model):
    rng = np.random.default_rng(3)
    X = np.repeat(np.column_stack([rng.uniform(-2.0, 2.0, 15), np.full(15, 4.0)]), 2, axis=0)
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(30)
    model = clone(model).fit(X, y)
    assert model.score(X, y) > 0.8
    assert len(np.unique(getattr(model, "inducing_", X[::2]), axis=0)) <= 15


@odd
@unconverged
def test_all_rows_equal(model):
    X = np.ones((6, 2))
    model = clone(model).fit(X, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
    prior = model.kernel_.max_variance
    expected = 12.0 * prior / (6.0 * prior + model.noise_)
    assert model.predict(X)[0] == pytest.approx(expected, rel=1e-4)


@unconverged
def test_more_inducing_points_than_rows_are_the_rows():
    X, y = np.linspace(0.0, 3.0, 8)[:, None], np.arange(8.0)
    model = SparseGP(n_inducing=50, learn_inducing=False).fit(X, y)
    assert (np.sort(model.inducing_, axis=0) == X).all()


def test_a_rank_below_the_inducing_points_is_no_obstacle():
    """Few points span the smooth starting kernel; the other points are available once the lengthscale shrinks."""
    X = np.linspace(0.0, 1.0, 200)[:, None]
    y = np.sin(40.0 * X[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(200)
    for how in ("greedy", "kdpp"):
        model = SparseGP(
            "vfe", SquaredExponential(1.0, 0.1), n_inducing=40, inducing=how, learn_inducing=False, random_state=0
        ).fit(X, y)
        assert len(np.unique(model.inducing_)) == 40
        assert model.score(X, y) > 0.98


@pytest.mark.broad
@pytest.mark.parametrize(
    "model", one_in(2, [pytest.param(model, id=name) for model, name in zip(ODD, NAMES, strict=True)])
)
@unconverged
@pytest.mark.filterwarnings("ignore::gpbounds.errors.RoundingWarning")
@given(data=st.data())
def test_whatever_the_data_are(model, data):
    """For columns and targets of any unit, offset, rounding and repetition, training improves F and stays finite."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    N, D = data.draw(st.sampled_from([1, 2, 3, 7, 25])), data.draw(st.integers(1, 3))
    power = st.integers(-8, 8)
    X = rng.standard_normal((N, D)) * 10.0 ** data.draw(power)
    X = data.draw(st.sampled_from([X, np.round(X), X + 1e6, X[[0] * N], X * (np.arange(D) > 0)]))
    y = rng.standard_normal(N) * 10.0 ** data.draw(power)
    y = data.draw(st.sampled_from([y, np.round(y), y + 1e6, 0.0 * y + y[0], np.where(np.arange(N) == 0, 1e6 * y, y)]))
    model = clone(model).set_params(max_iter=data.draw(st.sampled_from([1, 8])), normalize_y=data.draw(st.booleans()))
    model.fit(X, y)
    assert model.objective_ >= model.history_[0]
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std <= np.sqrt(model.kernel_.max_variance) * model.y_scale_[0] * (1.0 + 1e-9)).all()
    assert np.isfinite(model.sample_y(X)).all()


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_extreme_units(scale):
    X = np.linspace(0.0, 6.0, 20)[:, None]
    model = ExactGP().fit(scale * X, np.sin(X[:, 0]) + 0.1 * np.cos(50.0 * X[:, 0]))
    assert abs(model.predict([[1.5 * scale]])[0] - math.sin(1.5)) < 0.2


@unconverged
@pytest.mark.parametrize("lengthscale", [1e-5, 1e5])
def test_lengthscales_that_start_at_extremes(lengthscale, data):
    X, y = data
    model = SparseGP("vfe", SquaredExponential(1.0, lengthscale), 0.1, n_inducing=10).fit(X, y)
    assert math.isfinite(model.objective_)
    assert model.objective_ >= model.history_[0]
    assert np.isfinite(model.predict(NEW, return_std=True)).all()


@pytest.mark.parametrize(
    ("model", "change", "sentence"),
    [
        (ExactGP(kernel=[1.0]), {}, r"kernel: expected a kernel of gpbounds.kernels .*, got \[1.0\]"),
        (ExactGP(SquaredExponential(1.0, [1.0] * 3)), {}, "3 dimension"),
        (ExactGP(noise=-1.0), {}, "noise: expected a positive"),
        (ExactGP(optimizer="sgd"), {}, "optimizer: expected one of 'lbfgs', 'adam', got 'sgd'"),
        (ExactGP(max_iter=0), {}, "max_iter: expected a whole number >= 1"),
        (ExactGP(n_restarts=-1), {}, "n_restarts: expected a whole number >= 0"),
        (ExactGP(batch_size=10), {}, "batch_size: expected None for optimizer='lbfgs', whose steps need all rows"),
        (ExactGP(fixed=("lengthscale",)), {}, "got 'lengthscale'"),
        (ExactGP(limits={"noise": (1.0, 2.0)}, noise=0.1), {}, "expected noise from 1 to 2, got 0.1"),
        (ExactGP(limits={"nois": (0.1, 2.0)}), {}, r"limits: expected names among variance, .*, noise, got 'nois'"),
        (
            SparseGP(n_inducing=2, limits={"lengthscale": (0.1, 2.0)}),
            {},
            r"limits: .*lengthscale\[1\], .*got 'lengthscale'",
        ),
        (ExactGP(random_state="x"), {}, "random_state: expected"),
        (ExactGP(device="gpu"), {}, "device: expected one of"),
        (RenyiGP(alpha=1.5), {}, r"alpha: expected a number in \[0, 1\], got 1.5"),
        (SparseGP("svgp"), {}, "method: expected one of 'vfe'"),
        (SparseGP("vfe", power=0.5), {}, "power: expected None for method='vfe'"),
        (SparseGP("pep", power=2.0), {}, "power: expected a number in"),
        (SparseGP(inducing="random"), {}, "inducing: expected one of 'auto', 'greedy'"),
        (SparseGP(inducing=np.zeros((3, 5))), {}, "inducing: expected 2 column"),
        (SparseGP(n_inducing="many"), {}, "n_inducing: expected one of 'auto', got 'many'"),
        (SparseGP(n_inducing=0), {}, "n_inducing: expected a whole number >= 1"),
        (SparseGP(n_inducing="auto", inducing="kdpp"), {}, "expected 'auto', 'greedy' or 'best' for n_inducing='auto'"),
        (SparseGP(n_inducing="auto", target_gap=0.0), {}, "target_gap: expected a positive"),
        (SparseGP("pic", block_size=0), {}, "block_size: expected a whole number >= 1"),
        (ExactGP(), {"X": np.array([[0.0, math.nan], [1.0, 2.0]])}, "NaN"),
        (ExactGP(), {"y": np.array([0.0, math.inf])}, "infinity"),
        (ExactGP(), {"y": np.array([0.0])}, r"y: expected shape .* a target for each row of X"),
        (ExactGP(), {"y": np.array([0.0, 1e200])}, "rescale y"),
    ],
)
def test_wrong_arguments_are_named(model, change, sentence):
    arguments = {"X": np.array([[0.0, 1.0], [1.0, 2.0]]), "y": np.array([0.0, 1.0]), **change}
    with pytest.raises(ValueError, match=sentence):
        model.fit(**arguments)


ODD = {
    "normalize_y": ("no", 1, []),
    "progress": (2.5, math.nan, "no"),
    "limits": (5, True, [1.0, 2.0], math.nan),
    "fixed": (3, 1j, [[1.0]], True),
    "checkpoint": (True, 0.5, {}),
    "noise": ("no", [0.1, 0.2, 0.3], math.nan, 1j),
    "learning_rate": ("fast", [0.1, 0.2], 0.0),
    "inducing": (5, True, math.nan),
}


@pytest.mark.parametrize("model", [ExactGP, SparseGP, LowRankGP, PACGP, VariationalGP])
def test_odd_arguments_are_named_in_a_value_error(model):
    X, names = np.array([[0.0, 1.0], [1.0, 2.0]]), set(model().get_params())
    tried = [(name, odd) for name in ODD if name in names for odd in ODD[name]]
    assert len(tried) >= 15
    for name, odd in tried:
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            model(**{name: odd}).fit(X, np.array([0.0, 1.0]))


def test_a_start_without_a_value_says_what_to_do():
    X = np.ones((3, 1)) * [[1.0]]
    with pytest.raises(NotPositiveDefinite, match="no value at the start of training: K \\+ σ²I"):
        ExactGP(SquaredExponential(), 1e-18).fit(X, np.ones(3))


def test_predictions_ask_for_one_spread(data):
    model = ExactGP(KERNEL, 0.02, optimizer=None).fit(*data)
    with pytest.raises(ValueError, match="at most one of them"):
        model.predict(NEW, return_std=True, return_cov=True)


# ---------------------------------------------------------------------- Ctrl-C, checkpoints


@pytest.mark.parametrize("n_inducing", [9, "auto"])
@pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])
def test_ctrl_c_leaves_a_fitted_model_and_a_warning(optimizer, n_inducing, data, monkeypatch, stopped):
    model = SparseGP(optimizer=optimizer, n_inducing=n_inducing, target_gap=100.0, start="scale")
    stopped(Objective, 9)
    with pytest.warns(ConvergenceWarning, match="Interrupted after"):
        model.fit(*data)
    monkeypatch.undo()
    best = max(model.history_)  # "auto" evaluates its final points once more: the last bits may differ
    assert model.objective_ >= best - 1e-12 * abs(best)
    value = float(renyi.elbo(model.kernel_, *data, model.inducing_, 1.0, noise=model.noise_, jitter=model.jitter_))
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert model.objective_ > model.history_[0]
    assert np.isfinite(model.predict(NEW)).all()


@pytest.mark.parametrize("batch_size", [None, 20])
@unconverged
def test_adam_goes_on_from_a_checkpoint_bit_for_bit(batch_size, data, tmp_path, monkeypatch, stopped):
    settings = {"optimizer": "adam", "max_iter": 35, "batch_size": batch_size, "random_state": 0, "n_inducing": 6}
    settings |= {"start": "scale"}  # the 27th evaluation is one of training
    whole = RenyiGP(0.5, **settings).fit(*data)
    halves = RenyiGP(0.5, checkpoint=tmp_path / "halves", **settings)
    halves.set_params(max_iter=14).fit(*data)
    halves.set_params(max_iter=35).fit(*data)
    killed = RenyiGP(0.5, checkpoint=tmp_path / "killed", **settings)
    stopped(Objective, 27, SystemError)
    with pytest.raises(SystemError):
        killed.fit(*data)
    monkeypatch.undo()
    killed.fit(*data)
    for other in (halves, killed):
        assert (other.history_ == whole.history_).all()
        assert (other.predict(NEW) == whole.predict(NEW)).all()


@unconverged
@pytest.mark.parametrize("n_inducing", [9, "auto"])
def test_lbfgs_goes_on_from_a_checkpoint_bit_for_bit(n_inducing, data, tmp_path):
    settings = {"n_inducing": n_inducing, "random_state": 0, "n_restarts": int(n_inducing == 9)}
    whole = SparseGP(**settings).fit(*data)
    part = SparseGP(checkpoint=tmp_path / "part", max_iter=10, **settings).fit(*data)
    rest = SparseGP(checkpoint=tmp_path / "part", **settings).fit(*data)
    assert "raise max_iter" in part.stop_reason_
    assert (rest.history_ == whole.history_).all()
    assert (rest.predict(NEW) == whole.predict(NEW)).all()
    done = SparseGP(checkpoint=tmp_path / "part", **settings).fit(*data)
    assert (done.predict(NEW) == rest.predict(NEW)).all()


def test_a_checkpoint_serves_one_training(data, tmp_path):
    X, y = data
    model = ExactGP(checkpoint=tmp_path / "one", max_iter=50).fit(X, y)
    for other, target in ((clone(model), y + 1e-9), (clone(model).set_params(learning_rate=0.1), y)):
        with pytest.raises(ValueError, match="same data and settings"):
            other.fit(X, target)


def test_the_bar_is_shown_when_asked_for(data, capsys, monkeypatch):
    """With the objective, at every step of a bar that does not wait for a tenth of a second."""
    import tqdm.auto

    monkeypatch.setattr(tqdm.auto.tqdm, "__init__", partialmethod(tqdm.auto.tqdm.__init__, mininterval=0.0, miniters=1))
    ExactGP().fit(*data)
    assert capsys.readouterr().err == ""
    ExactGP(progress=True).fit(*data)
    assert "F = " in capsys.readouterr().err


@unconverged
def test_a_second_fit_forgets_the_first(data, tmp_path):
    model = SparseGP(n_inducing="auto", target_gap=50.0).fit(*data)
    model.set_params(n_inducing=5, max_iter=20).fit(data[0][:, :1], data[1])
    fresh = SparseGP(n_inducing=5, target_gap=50.0, max_iter=20).fit(data[0][:, :1], data[1])
    assert set(vars(model)) == set(vars(fresh))
    assert (model.predict(NEW[:, :1]) == fresh.predict(NEW[:, :1])).all()


def test_a_model_from_a_file_is_pickled(data, tmp_path):
    ExactGP(KERNEL, 0.02, optimizer=None).fit(*data).save(tmp_path / "model.npz")
    loaded = fitting.load(tmp_path / "model.npz")
    assert (pickle.loads(pickle.dumps(loaded)).predict(NEW) == loaded.predict(NEW)).all()


@pytest.mark.skipif(not cuda_fault(), reason="there is a GPU")
def test_no_gpu_is_one_sentence(data, tmp_path):
    with pytest.raises(ValueError, match=r"device: expected a machine that runs CuPy for 'cuda', but .*; use device="):
        ExactGP(device="cuda").fit(*data)
    on_cpu, auto = (ExactGP(KERNEL, 0.02, device=device).fit(*data) for device in ("cpu", "auto"))
    assert (on_cpu.predict(NEW) == auto.predict(NEW)).all()
    on_cpu.set_params(device="cuda").save(tmp_path / "model")
    with pytest.raises(ValueError, match="device: expected a machine that runs CuPy"):
        fitting.load(tmp_path / "model")
    assert (fitting.load(tmp_path / "model", device="cpu").predict(NEW) == on_cpu.predict(NEW)).all()


def test_public_names():
    assert set(fitting.__all__) == set(dir(fitting))
    for name in fitting.__all__:
        assert getattr(fitting, name) is not None
    with pytest.raises(AttributeError, match="module 'fitting' has no attribute 'exact_gp'"):
        fitting.exact_gp  # noqa: B018


def reordered(kind, bases):
    """The class ``kind`` with its bases in another order."""
    own = {name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__", "__init__")}
    for name in own.get("__annotations__", {}):
        if name in kind.__dataclass_fields__ and "ClassVar" not in own["__annotations__"][name]:
            known = kind.__dataclass_fields__[name]
            own[name] = dataclasses.field(default=known.default, kw_only=known.kw_only)
    own = {name: value for name, value in own.items() if not name.startswith("__dataclass")}
    return dataclasses.dataclass(eq=False, repr=False)(type(kind.__name__, bases, own))


@pytest.mark.parametrize("kind", [RenyiGP, ExactGP, SparsePACGP, VariationalGP])
def test_the_order_of_bases_decides_no_argument(kind):
    """Each default that differs among the bases is stated by the class itself."""
    expected, tried = kind().get_params(deep=False), 0
    for bases in itertools.permutations(kind.__bases__):
        with contextlib.suppress(TypeError):  # no order of resolution
            assert reordered(kind, bases)().get_params(deep=False) == expected
            tried += 1
    assert tried == math.factorial(len(kind.__bases__)) > 1
