"""The argument ``mean`` of the estimators: derivatives, equality with y − Hβ, invariance; files, rows, bounds."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import fitting
from fitting import (
    ExactGP,
    LowRankGP,
    RenyiGP,
    SparseGP,
    VariationalGP,
    VariationalGPClassifier,
    sharpness,
)
from fitting.features import FeatureKernel, MercerMap
from fitting.iterative import IterativeEvidence, IterativeRenyi
from fitting.objectives.goals import Evidence, ExpectedLosses
from fitting.objectives.laws import FamilyLaw, FreeLaw, LowRankLaw
from fitting.objectives.objective import Objective, at_point, member, objective, variational_objective
from fitting.objectives.packing import packing_of
from fitting.objectives.point import Parameters
from fitting.prior_means import PriorMean, residuals
from fitting.rows.data import Held
from gpbounds.kernels import Constant, Linear, Matern, SquaredExponential
from gpbounds.likelihoods import Gaussian
from gpbounds.means import LinearMean
from gpbounds.renyi import evidence, fitted_mean
from gpbounds.rows import source

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

KERNEL, NOISE, N, M = SquaredExponential(1.3, [1.0, 2.0]), 0.3, 40, 5
TRAINED = ("constant", "linear")
each_kind = pytest.mark.parametrize("kind", TRAINED)


def rows(P: int = 1):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2)) + np.array([3.0, -1.0])
    return X, 2.0 * X @ rng.standard_normal((2, P)) + 5.0 + rng.standard_normal((N, P))


def moved(kind: str, X, Y) -> PriorMean:
    """A mean with other coefficients than those of least squares."""
    mean = PriorMean.least_squares(kind, X, Y)
    return mean.at(np.random.default_rng(1).standard_normal(mean.entries.size))


def features(kernel: SquaredExponential, X) -> FeatureKernel:
    chosen = MercerMap.chosen(kernel, 8, "best", X.mean(axis=0), X.std(axis=0))
    return FeatureKernel(chosen, kernel.log_parameters)


def partitioned(law, X, Y):
    held = source(X, Y)
    data = Held(held.holder, held.N, held.D, held.P, held.single, np.zeros(held.P), np.ones(held.P))
    return Objective(data, law, Evidence())


FAMILY = {
    **{name: (name, {}) for name in ("vfe", "fitc", "dtc", "exact")},
    "pep": ("pep", {"power": 0.4}),
    "pic": ("pic", {"blocks": 8}),
    "renyi": ("renyi", {"alpha": 0.3}),
}


def weights_of(F: Objective) -> Objective:
    """The bound on log p(y) of a free law of the weights of features."""
    return replace(F, law=FreeLaw(), goal=ExpectedLosses(Gaussian(NOISE)))


def problems(P: int):
    """(objective, point without a mean, objective of residuals) of every Gaussian objective."""
    X, Y = rows(P)
    Z, low = X[:M] + 0.1, at_point(features(KERNEL, X), NOISE)
    for name, (method, more) in FAMILY.items():
        point = at_point(KERNEL, NOISE, None if name == "exact" else Z)
        yield name, X, Y, point, lambda y, m=method, k=more: objective(X, y, m, **k)
    sparse = at_point(KERNEL, NOISE, Z)
    yield "beta-ELBO", X, Y, sparse, lambda y: replace(objective(X, y), goal=Evidence(0.3))
    yield "low rank", X, Y, low, lambda y: replace(objective(X, y), law=LowRankLaw())
    yield (
        "partitions",
        X,
        Y,
        sparse,
        lambda y: partitioned(FamilyLaw(member("fitc")), X, y),
    )
    yield "low rank, partitions", X, Y, low, lambda y: partitioned(LowRankLaw(), X, y)
    if P == 1:
        yield (
            "low rank, batches",
            X,
            Y,
            weights_of(objective(X, Y)).complete(low),
            (lambda y: weights_of(objective(X, y))),
        )
    iterative = ("iterative", IterativeEvidence, member("exact"))
    for name, kind, chosen in (iterative, ("iterative Rényi", IterativeRenyi, member("renyi", alpha=0.4))):
        point = sparse if kind is IterativeRenyi else at_point(KERNEL, NOISE)
        data = replace(objective(X, Y).data, parts=None)
        yield name, X, Y, point, lambda y, d=data, k=kind, c=chosen, p=point: k(replace(d, Y=y), c).prepared(p, (1, 2))


@pytest.mark.broad
@pytest.mark.parametrize(("P", "kind"), [(1, "constant"), (2, "linear")])
def test_derivatives_and_values_of_every_gaussian_objective(P: int, kind: str) -> None:
    """The value is that of y − Hβ with no mean; each derivative in β is that of finite differences."""
    for name, X, Y, point, make in problems(P):
        mean = moved(kind, X, Y)
        with_mean, problem = replace(point, prior_mean=mean), make(Y)
        assert problem.minimised(with_mean).value == pytest.approx(
            make(Y - mean(X)).minimised(point).value, rel=1e-12
        ), name
        layout = packing_of(with_mean)
        loss, vector = layout.loss(problem), layout.pack(with_mean)
        gradient = loss(vector)[1]
        own = [i for i, entry in enumerate(layout.names) if entry.startswith(("intercept", "slope"))]
        assert len(own) == P * (1 if kind == "constant" else 3)
        for i in own:
            step = 1e-3 * np.eye(vector.size)[i]  # the objective is quadratic in β: a long step has no error
            difference = (loss(vector + step)[0] - loss(vector - step)[0]) / 2e-3
            assert gradient[i] == pytest.approx(difference, rel=1e-6, abs=1e-6 * np.abs(gradient[own]).max()), name
        other = np.random.default_rng(2).standard_normal(vector.size)
        other /= np.abs(other).max()
        difference = (loss(vector + 1e-6 * other)[0] - loss(vector - 1e-6 * other)[0]) / 2e-6
        assert gradient @ other == pytest.approx(difference, rel=1e-5, abs=1e-5 * np.abs(gradient).max()), name


TARGETS = {
    "gaussian": lambda rng, Y: Y,
    "student-t": lambda rng, Y: Y,
    "probit": lambda rng, Y: 1.0 * (Y > np.median(Y)),
    "logit": lambda rng, Y: 1.0 * (Y > np.median(Y)),
    "poisson": lambda rng, Y: rng.poisson(3.0, Y.shape).astype(float),
    "poisson-softplus": lambda rng, Y: rng.poisson(3.0, Y.shape).astype(float),
}


@each_kind
@pytest.mark.parametrize("likelihood", TARGETS)
@pytest.mark.parametrize("loss", ["elbo", "log-loss"])
def test_derivatives_of_variational_objectives(likelihood: str, loss: str, kind: str) -> None:
    X, Y = rows()
    y = TARGETS[likelihood](np.random.default_rng(3), Y)
    J = variational_objective(X, y, likelihood, loss)
    mean = moved(kind, X, Y if likelihood in ("gaussian", "student-t") else np.log(y + 0.5))
    point = J.complete(Parameters(KERNEL, J.likelihood, X[:M] + 0.1, prior_mean=mean))
    layout = packing_of(point)
    evaluate, vector = layout.loss(J), layout.pack(point)
    gradient = evaluate(vector)[1]
    own = [i for i, entry in enumerate(layout.names) if entry.startswith(("intercept", "slope"))]
    steps = [np.eye(vector.size)[i] for i in own] + [np.random.default_rng(4).standard_normal(vector.size)]
    for step in steps:
        difference = (evaluate(vector + 1e-5 * step)[0] - evaluate(vector - 1e-5 * step)[0]) / 2e-5
        assert gradient @ step == pytest.approx(difference, rel=1e-5, abs=1e-5 * np.abs(gradient).max())
    parts = [J.batch(part) for part in np.arange(N).reshape(4, 10)]  # the mean over a partition is J
    each = [layout.loss(part)(vector)[1] for part in parts]
    np.testing.assert_allclose(np.mean(each, axis=0), gradient, atol=1e-8 * np.abs(gradient).max())


def test_a_gaussian_with_a_mean_is_one_of_the_residuals() -> None:
    """The whole objective, at a free q, and the best q."""
    X, Y = rows()
    mean = moved("linear", X, Y)
    J, about = (variational_objective(X, y) for y in (Y, Y - mean(X)))
    point = Parameters(KERNEL, about.likelihood, X[:M] + 0.1)
    best, same = J.complete(replace(point, prior_mean=mean)), about.complete(point)
    np.testing.assert_allclose(best.q.mean, same.q.mean, rtol=1e-12)
    assert J.minimised(best).value == pytest.approx(about.minimised(same).value, rel=1e-12)


# ---------------------------------------------------------------------- estimators


def data(seed: int = 0, n: int = 60):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (n, 2)) + 3.0
    return X, np.sin(X[:, 0]) + 5.0 + 2.0 * X[:, 1] + 0.1 * rng.standard_normal(n)


MODELS = {
    "exact": ExactGP(),
    "iterative": ExactGP(solver="iterative", max_iter=3),
    "vfe": SparseGP(n_inducing=10),
    "beta": SparseGP(n_inducing=10, beta=0.5),
    "fitc": SparseGP("fitc", n_inducing=10),
    "pic": SparseGP("pic", n_inducing=10, block_size=20),
    "renyi": RenyiGP(n_inducing=10),
    "auto": SparseGP(n_inducing="auto", target_gap=5.0),
    "best": SparseGP(n_inducing=8, inducing="best", draws=2),
    "low rank": LowRankGP(rank=12),
    "low rank, batches": LowRankGP(rank=12, batch_size=20, optimizer="adam"),
    "variational": VariationalGP(8),
    "natural": VariationalGP(8, optimizer="natgrad", batch_size=20),
    "student-t": VariationalGP(8, "student-t"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_trend_that_is_added_changes_nothing_but_the_coefficients(name: str) -> None:
    """y + a + bᵀx: the curve of training, residual predictions and brackets stay; the mean function moves."""
    X, y = data()
    model = clone(MODELS[name]).set_params(mean="linear", random_state=0, start="scale", tol=0.0)
    model.set_params(max_iter=min(model.max_iter, 6))
    added = LinearMean(64.0, [-8.0, 4.0])
    one, other = model.fit(X, y), clone(model).fit(X, y + added(X))
    new = np.array([[4.0, 5.0], [7.0, 3.0], [1e3, -1e3]])
    np.testing.assert_allclose(other.history_, one.history_, rtol=1e-7, atol=1e-6)
    (a, s), (b, t) = (each.predict(new, return_std=True) for each in (one, other))
    np.testing.assert_allclose(b, a + added(new), rtol=1e-7)
    np.testing.assert_allclose(t, s, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(other.mean_.slopes) - np.asarray(one.mean_.slopes), added.slopes, rtol=1e-7)
    assert other.mean_.intercept - one.mean_.intercept == pytest.approx(added.intercept, rel=1e-6)
    low, high = other.predict_interval(new)
    np.testing.assert_allclose(np.array(one.predict_interval(new)) + added(new), [low, high], rtol=1e-6)
    if not name.startswith("low rank"):  # whose features return to 0 in another way
        np.testing.assert_allclose(a[2], one.mean_(new)[2], rtol=1e-9)  # far from the data
    draws = one.sample_y(new[:2], 3, random_state=1)
    np.testing.assert_allclose(other.sample_y(new[:2], 3, random_state=1), draws + added(new[:2])[:, None], rtol=1e-4)


@pytest.mark.parametrize("name", ["exact", "vfe", "fitc", "pic", "renyi", "low rank"])
@each_kind
def test_a_trained_mean_is_that_of_the_model_of_the_residuals(name: str, kind: str) -> None:
    """Objective, predictions and brackets are those of the same kernel and noise for y − m, plus m; given m, too."""
    X, y = data()
    model = clone(MODELS[name]).set_params(mean=kind, random_state=0, max_iter=8, start="scale").fit(X, y)
    fixed = {"kernel": model.kernel_, "noise": model.noise_, "optimizer": None, "mean": "zero"}
    if hasattr(model, "inducing_"):
        fixed |= {"inducing": model.inducing_}
    if name == "low rank":
        fixed = {"optimizer": None, "kernel": model.kernel_, "noise": model.noise_, "mean": "zero"}
    about = clone(model).set_params(**fixed).fit(X, y - model.mean_(X))
    declared = clone(model).set_params(**(fixed | {"mean": model.mean_})).fit(X, y)
    new = X[:7] + 0.3
    for other, shift in ((about, model.mean_(new)), (declared, 0.0)):
        if name != "low rank":  # whose features are drawn again, at another start
            assert other.objective_ == pytest.approx(model.objective_, rel=1e-9)
            np.testing.assert_allclose(other.predict(new) + shift, model.predict(new), rtol=1e-9)
    np.testing.assert_allclose(about.predict(new) + model.mean_(new), declared.predict(new), rtol=1e-12)
    if name in ("exact", "vfe", "renyi"):
        A = model.kernel_(X) + model.noise_ * np.eye(len(X))
        truth = multivariate_normal(model.mean_(X), A).logpdf(y)
        lower, upper = model.log_evidence_bounds()
        assert float(lower) - 1e-6 <= truth <= float(upper) + 1e-6


@each_kind
def test_coefficients_that_are_trained_have_the_largest_evidence(kind: str) -> None:
    X, y = data()
    model = ExactGP(mean=kind, tol=0.0, start="scale").fit(X, y)
    best = fitted_mean(model.kernel_, X, y, noise=model.noise_, mean=kind)
    np.testing.assert_allclose(model.mean_(X), best(X), atol=2e-3 * y.std())


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(TRAINED))
@settings(max_examples=10)
def test_integrated_out_is_the_kernel_form(seed: int, kind: str) -> None:
    """β ~ N(0, B) integrated out: kernel + Constant (+ Linear).  It is the model with the mean at the posterior mean of
    β, times the law of β there (Laplace's formula is exact for a Gaussian); B → ∞ leads to generalised least squares.
    """
    rng = np.random.default_rng(seed)
    X, new = rng.standard_normal((20, 2)), rng.standard_normal((5, 2))
    y = 3.0 + X @ rng.standard_normal(2) + rng.standard_normal(20)
    kernel, noise, b, w = Matern(1.5, rng.uniform(0.3, 2.0), 1.2), rng.uniform(0.1, 1.0), 2.5, 0.7
    added = kernel + Constant(b) + (Linear([w, w]) if kind == "linear" else Constant(1e-300))
    H = np.column_stack([np.ones(20), X]) if kind == "linear" else np.ones((20, 1))
    B = np.diag([b, w, w][: H.shape[1]])
    A = kernel(X) + noise * np.eye(20)
    precision = H.T @ np.linalg.solve(A, H) + np.linalg.inv(B)
    beta = np.linalg.solve(precision, H.T @ np.linalg.solve(A, y))
    mean = LinearMean(beta[0], beta[1:] if kind == "linear" else None)
    fixed = {"noise": noise, "optimizer": None}
    out, at = ExactGP(added, **fixed).fit(X, y), ExactGP(kernel, mean=mean, **fixed).fit(X, y)
    np.testing.assert_allclose(out.predict(new), at.predict(new), atol=1e-10 * np.abs(y).max())
    zero, p = np.zeros(len(beta)), len(beta)
    volume = 0.5 * p * np.log(2.0 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]
    laplace = at.objective_ + multivariate_normal(zero, B).logpdf(beta) + volume
    assert out.objective_ == pytest.approx(laplace, rel=1e-10)
    wide = kernel + Constant(1e8) + (Linear([1e8, 1e8]) if kind == "linear" else Constant(1e-300))
    limit = fitted_mean(kernel, X, y, noise=noise, mean=kind)
    known = ExactGP(kernel, mean=limit, **fixed).fit(X, y)
    np.testing.assert_allclose(ExactGP(wide, **fixed).fit(X, y).predict(new), known.predict(new), atol=1e-5)


def test_each_output_has_a_mean_of_its_own() -> None:
    X, y = data()
    Y = np.column_stack([y, 3.0 - y])
    model = SparseGP(n_inducing=10, mean="linear", random_state=0, max_iter=6, start="scale").fit(X, Y)
    other = clone(model).fit(X, Y + np.array([128.0, -64.0]))
    np.testing.assert_allclose(other.history_, model.history_, rtol=1e-8)
    np.testing.assert_allclose(other.predict(X) - model.predict(X), np.broadcast_to([128.0, -64.0], Y.shape), rtol=1e-7)
    first, second = model.mean_
    np.testing.assert_allclose(np.add(first.slopes, second.slopes), 0.0, atol=1e-6)
    assert model.sample_y(X[:3], 4).shape == (3, 2, 4)
    assert float(model.log_evidence_bounds()[0]) == pytest.approx(float(other.log_evidence_bounds()[0]), rel=1e-6)


def test_standardised_targets_and_their_mean() -> None:
    """With ``normalize_y`` mean_ is in the units of noise_; predictions are in those of y."""
    X, y = data()
    model = ExactGP(mean="linear", normalize_y=True, max_iter=6, start="scale").fit(X, y)
    other = clone(model).fit(X, 100.0 * y - 7.0)
    np.testing.assert_allclose(other.predict(X), 100.0 * model.predict(X) - 7.0, rtol=1e-7)
    np.testing.assert_allclose(other.mean_.slopes, model.mean_.slopes, rtol=1e-6)
    far = np.array([[1e3, 1e3]])
    np.testing.assert_allclose(model.predict(far), model.mean_(far) * model.y_scale_ + model.y_mean_, rtol=1e-9)


def test_counts_and_labels_have_a_mean_of_the_latent_function() -> None:
    """Far from the data the predictions are those of the mean, not of f = 0."""
    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 6.0, (80, 1))
    counts = rng.poisson(np.exp(3.0 + 0.3 * np.sin(2.0 * X[:, 0])))
    shared = {"mean": "constant", "random_state": 0, "max_iter": 25}
    model = VariationalGP(5, "poisson", **shared).fit(X, counts)
    zero = clone(model).set_params(mean="zero").fit(X, counts)
    assert model.objective_ > zero.objective_ + 1.0
    assert model.mean_.intercept == pytest.approx(3.0, abs=0.3)
    assert model.latent([[1e3]])[0] == pytest.approx(model.mean_.intercept)
    assert zero.latent([[1e9]])[0] == pytest.approx(0.0, abs=1e-9)  # its lengthscale is long
    assert 18.0 < model.predict([[1e3]])[0] < 30.0
    labels = np.where(rng.uniform(size=80) < 0.9, "often", "rare")
    classifier = VariationalGPClassifier(5, **shared).fit(X, labels)
    share = np.mean(labels == "often")
    assert classifier.predict_proba([[1e3]])[0, 0] == pytest.approx(share, abs=0.08)
    assert classifier.predict([[1e3]])[0] == "often"


def test_hyperparameters_that_are_held_hold_the_mean() -> None:
    """``hyperparameters="fixed"``: the ELBO trains the mean, and the log loss q alone."""
    X, y = data()
    elbo = VariationalGP(6, mean="linear", random_state=0, max_iter=6, start="scale").fit(X, y)
    loss = clone(elbo).set_params(objective="log-loss", hyperparameters="fixed").fit(X, y)
    assert loss.mean_ == elbo.mean_
    chosen = VariationalGP(4, beta="auto", mean="linear", random_state=0, max_iter=3, start="scale").fit(X[:20], y[:20])
    assert np.isfinite(chosen.beta_path_).all()


def test_batches_of_partial_fit_train_the_mean() -> None:
    rng = np.random.default_rng(0)
    model = VariationalGP(8, mean="linear", optimizer="adam", random_state=0)
    for _ in range(25):
        X = rng.uniform(0.0, 6.0, (50, 1))
        model.partial_fit(X, np.sin(X[:, 0]) + 100.0 + 3.0 * X[:, 0] + 0.1 * rng.standard_normal(50), N=2000)
    assert model.predict([[3.0]])[0] == pytest.approx(109.0 + np.sin(3.0), abs=1.0)
    X, y = data()
    fitted = VariationalGP(8, mean="linear", random_state=0, max_iter=10).fit(X, y)
    before = fitted.predict(X)
    fitted.partial_fit(X, y)
    np.testing.assert_allclose(fitted.predict(X), before, atol=0.5)  # it starts at the fitted model


@pytest.mark.parametrize("name", ["exact", "pic", "low rank", "variational", "iterative"])
def test_a_saved_model_predicts_the_same_bits(name: str, tmp_path) -> None:
    X, y = data()
    for mean in ("linear", LinearMean(1.0, [0.0, 2.0])):
        model = clone(MODELS[name]).set_params(mean=mean, random_state=0, max_iter=2, start="scale").fit(X, y)
        model.save(tmp_path / "model.npz")
        again = fitting.load(tmp_path / "model.npz")
        assert again.mean_ == model.mean_
        assert again.get_params() == model.get_params()
        for one, other in zip(*(each.predict(X, return_std=True) for each in (model, again)), strict=True):
            assert np.array_equal(one, other)


def test_a_checkpoint_continues_and_belongs_to_one_mean(tmp_path) -> None:
    X, y = data()
    options = {"random_state": 0, "checkpoint": tmp_path / "run.npz", "tol": 0.0, "max_iter": 5}
    SparseGP(n_inducing=8, mean="linear", **options).fit(X, y)
    resumed = SparseGP(n_inducing=8, mean="linear", **(options | {"max_iter": 12})).fit(X, y)
    whole = SparseGP(n_inducing=8, mean="linear", **(options | {"max_iter": 12, "checkpoint": None})).fit(X, y)
    np.testing.assert_allclose(resumed.predict(X), whole.predict(X), rtol=1e-5)
    for mean in ("zero", "constant", LinearMean(1.0, [0.0, 2.0])):
        with pytest.raises(ValueError, match="same data and settings"):
            SparseGP(n_inducing=8, mean=mean, **options).fit(X, y)


def test_a_grid_search_chooses_the_mean() -> None:
    X, y = data()
    search = GridSearchCV(ExactGP(Matern(0.5, 1.0, 0.5), 0.01, optimizer=None), {"mean": ["zero", *TRAINED]}, cv=3)
    assert search.fit(X, y).best_params_ == {"mean": "linear"}


@each_kind
def test_rows_of_files_have_the_same_mean(kind: str, tmp_path) -> None:
    X, y = data(n=200)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    paths = tmp_path / "X.npy", tmp_path / "y.npy"
    for model in (SparseGP(n_inducing=8), LowRankGP(rank=12)):
        model.set_params(mean=kind, random_state=0, max_iter=8, start="scale")
        near, far = clone(model).fit(X, y), clone(model).fit(*paths)
        np.testing.assert_allclose(far.predict(X), near.predict(X), rtol=1e-6)
        np.testing.assert_allclose(far.mean_(X), near.mean_(X), rtol=1e-6)
        if isinstance(model, SparseGP):
            low, high = far.log_evidence_bounds(*paths)
            about = evidence(far.kernel_, X, y - far.mean_(X), far.inducing_, noise=far.noise_, members="cheap")
            assert (float(low), float(high)) == pytest.approx(tuple(map(float, about)), rel=1e-8)


def test_sharpness_is_that_of_the_residuals() -> None:
    X, y = data()
    model = ExactGP(mean="linear", start="scale", max_iter=8).fit(X, y)
    about = ExactGP(model.kernel_, model.noise_, optimizer=None).fit(X, y - model.mean_(X))
    one, other = sharpness(model, X, y), sharpness(about, X, y - model.mean_(X))
    assert one.curvature == pytest.approx(other.curvature, rel=1e-6)


def test_bounds_of_a_model_say_for_which_targets_they_hold() -> None:
    X, y = data()
    model = SparseGP(n_inducing=8, inducing="best", draws=2, mean="linear", random_state=0, max_iter=8).fit(X, y)
    assert any("y minus the mean" in sentence for sentence in model.bound_.assumptions)
    lower, upper = model.log_evidence_bounds()
    assert any("whose coefficients were trained on them" in each for each in upper.assumptions)
    gap = float(model.bound_)
    assert float(upper) - model.objective_ <= gap + (float(upper) - float(lower)) + 1e-6


@pytest.mark.parametrize(
    ("fails", "message"),
    [
        (lambda X, y: ExactGP(mean="cubic").fit(X, y), "mean: expected 'zero', 'constant', 'linear' or"),
        (lambda X, y: ExactGP(mean=1.0).fit(X, y), "mean: expected 'zero'"),
        (lambda X, y: ExactGP(mean=LinearMean(0.0, [1.0])).fit(X, y), r"a slope for each of 2 column\(s\)"),
        (lambda X, y: ExactGP(mean="linear").fit(np.column_stack([X, np.ones(60)]), y), "with a constant column"),
        (lambda X, y: ExactGP(mean="linear").fit(np.column_stack([X, X[:, :1]]), y), "do not determine a slope"),
        (
            lambda X, y: ExactGP(mean="linear").fit(X, X @ [2.0, -3.0] + 1.0),
            "are a linear function of X",
        ),
        (lambda X, y: ExactGP(mean="constant").fit(X, 0.0 * y + 0.1), "are a constant function of X: there is nothing"),
        (lambda X, y: ExactGP(mean="linear").fit(X[:3], y[:3]), r"for n_samples=3 and 2 column\(s\)"),
    ],
)
def test_bad_input_is_one_sentence(fails, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fails(*data())


def test_the_functions_are_those_of_the_rows_themselves() -> None:
    """Centred columns are an inner matter: mean_ speaks of x, also far from 0."""
    rng = np.random.default_rng(0)
    for D, P in itertools.product((1, 3), (1, 2)):
        X = 1e3 + rng.standard_normal((30, D))
        Y = 7.0 + X @ rng.standard_normal((D, P)) + rng.standard_normal((30, P))
        mean = PriorMean.least_squares("linear", X, Y)
        given = PriorMean.of(mean.functions(), D)
        np.testing.assert_allclose(np.column_stack([f(X) for f in mean.functions()]), mean(X), rtol=1e-9)
        np.testing.assert_allclose(residuals(given, X, Y), Y - mean(X), atol=1e-8)
        np.testing.assert_allclose(given.onwards(X, Y)(X), mean(X), rtol=1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["exact", "vfe", "fitc", "pic", "renyi", "low rank", "variational"])
def test_a_mean_on_a_device(cupy, name: str) -> None:
    """Training, predictions and brackets on a device are those of the host."""
    X, y = data()
    model = clone(MODELS[name]).set_params(mean="linear", random_state=0, max_iter=4, start="scale")
    near, far = clone(model).fit(X, y), clone(model).set_params(device="cuda").fit(X, y)
    np.testing.assert_allclose(far.history_, near.history_, rtol=1e-7)
    np.testing.assert_allclose(far.mean_.slopes, near.mean_.slopes, rtol=1e-6)
    mean, std = far.predict(cupy.asarray(X), return_std=True)
    assert isinstance(mean, cupy.ndarray)
    for one, other in zip((mean.get(), std.get()), near.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    if name != "low rank":
        bounds = [tuple(map(float, each.log_evidence_bounds())) for each in (near, far)]
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("likelihood", ["student-t", "poisson", "probit"])
def test_derivatives_of_a_mean_on_a_device(cupy, likelihood: str) -> None:
    X, Y = rows()
    y = TARGETS[likelihood](np.random.default_rng(3), Y)
    mean = moved("linear", X, Y if likelihood == "student-t" else np.log(y + 0.5))
    both = []
    for place in (np.asarray, cupy.asarray):
        J = variational_objective(place(X), place(y), likelihood)
        point = J.complete(Parameters(KERNEL, J.likelihood, place(X[:M] + 0.1), prior_mean=mean))
        layout = packing_of(point)
        both.append(layout.loss(J)(layout.pack(point)))
    assert both[1][0] == pytest.approx(both[0][0], rel=1e-9)
    np.testing.assert_allclose(both[1][1], both[0][1], rtol=1e-6, atol=1e-8 * np.abs(both[0][1]).max())


@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_the_start_for_counts_leaves_to_the_mean_what_is_the_mean_s(mean: str) -> None:
    """The rates are near e^5: the kernel of the start describes what is left, not the mean of f."""
    X = np.linspace(0.0, 6.0, 200)[:, None]
    y = np.random.default_rng(0).poisson(np.exp(5.0 + 0.3 * np.sin(X[:, 0])))
    with pytest.warns(ConvergenceWarning):  # one iteration
        model = VariationalGP(8, "poisson", mean=mean, max_iter=1, random_state=0).fit(X, y)
    assert model.kernel_.max_variance < 1.0
    assert model.objective_ > -815.0  # 10 nats below the optimum; with the mean in the kernel −827
