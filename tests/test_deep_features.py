"""Networks, deep kernels and the maps of other libraries: derivatives, references, protocol, saving, bad input."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from fitting import LowRankGP, load
from fitting.features import (
    MLP,
    Composed,
    FeatureKernel,
    Fourier,
    Hilbert,
    Mercer,
    Network,
    Scaled,
    from_jax,
    from_sklearn,
    from_torch,
)
from fitting.features.network import ROWS
from fitting.features.objects import trained_map
from fitting.features.pretraining import least_squares
from fitting.objectives.goals import ExpectedLosses
from fitting.objectives.laws import FreeLaw, LowRankLaw
from fitting.objectives.objective import Objective, at_point, objective
from fitting.objectives.packing import packing_of
from gpbounds import NonFinite
from gpbounds.arrays import host
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.likelihoods import Gaussian
from gpbounds.linalg.parallel import lanes

SEEDS = st.integers(0, 2**32 - 1)
RNG = np.random.default_rng(3)
X = RNG.standard_normal((120, 3))
y = np.tanh(2.0 * np.sin(X @ [1.5, 0.5, 0.0])) + 0.1 * RNG.standard_normal(120)
NEW = RNG.standard_normal((20, 3))
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CHOICES = {
    "DFGP": MLP((7, 5), d=2, then=Fourier(8)),
    "DMGP": MLP((7, 5), d=1, then=Mercer(6)),
    "DMGP, two dimensions": MLP((4,), d=2, then=Mercer(9, "grid")),
    "squashed into a box": MLP((5,), d=2, then=Hilbert((4, 3), (1.2, 1.5), half_width=2.0)),
    "Matérn": MLP((4,), d=2, then=Fourier(6, Matern(1.5))),
    "z follows": MLP((7, 5), d=1, then=Mercer(6), standardise="always"),
    "z follows into a box": MLP((5,), d=2, then=Hilbert((4, 3), (1.2, 1.5), half_width=2.0), standardise="always"),
    "outputs": MLP((7, 5), d=3),
    "no hidden layer": MLP((), d=2, then=Fourier(4)),
}
each_choice = pytest.mark.parametrize("name", CHOICES)


def numeric(f, point, direction, h: float = 1e-4):
    values = [f(point + t * h * direction) for t in (-2.0, -1.0, 1.0, 2.0)]
    return (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * h)


def made(name: str, seed: int = 0):
    return trained_map(CHOICES[name], X[:30], y[:30, None], np.random.default_rng(seed))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@settings(max_examples=10)
@given(seed=SEEDS)
def test_a_network_is_its_formula(activation: str, seed: int) -> None:
    """Against the layers in mpmath, from the flat vector of weights."""
    rng = np.random.default_rng(seed)
    network = Network((3, 4, 5, 2), activation, rng.standard_normal(2), rng.uniform(0.5, 2.0, 2))
    weights, x = rng.standard_normal(network.size), rng.standard_normal(3)
    act = mp.tanh if activation == "tanh" else lambda v: max(v, mp.mpf(0))
    with mp.workdps(30):
        h, at = [mp.mpf(v) for v in x], 0
        for n, m in ((3, 4), (4, 5), (5, 2)):
            W = [[mp.mpf(weights[at + i * m + j]) for j in range(m)] for i in range(n)]
            b = [mp.mpf(weights[at + n * m + j]) for j in range(m)]
            h = [sum(h[i] * W[i][j] for i in range(n)) + b[j] for j in range(m)]
            if m != 2:
                h = [act(v) for v in h]
            at += (n + 1) * m
        z = [float((v - s) / c) for v, s, c in zip(h, network.shift, network.scale, strict=True)]
    assert at == network.size
    np.testing.assert_allclose(network.project(weights, x[None])[0], z, rtol=1e-12, atol=1e-13)


@each_choice
@settings(max_examples=8)
@given(seed=SEEDS)
def test_back_propagation_is_the_derivative(name: str, seed: int) -> None:
    features, rng = made(name), np.random.default_rng(seed)
    parameters = features.start(X, rng) + 0.1 * rng.standard_normal(features.size)
    cotangent, direction = rng.standard_normal((30, features.rank)), rng.standard_normal(features.size)
    slopes = features.vjp(parameters, X[:30])[1](cotangent.copy())
    expected = numeric(lambda p: float(np.vdot(cotangent, features(p, X[:30]))), parameters, direction)
    assert slopes @ direction == pytest.approx(expected, rel=1e-7, abs=1e-8)
    for i in rng.choice(features.size, 5):
        step = np.zeros(features.size)
        step[i] = 1.0
        expected = numeric(lambda p: float(np.vdot(cotangent, features(p, X[:30]))), parameters, step)
        assert slopes[i] == pytest.approx(expected, rel=1e-6, abs=1e-8), i


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_derivatives_of_many_rows_are_sums_over_parts(activation: str) -> None:
    """More rows than are pulled back at a time; and the features that the pull-back reads stay as they are."""
    network, rng = Network((3, 40, 30, 2), activation), np.random.default_rng(5)
    weights, rows = network.start(X, rng), rng.standard_normal((ROWS + 300, 3))
    cotangent = rng.standard_normal((len(rows), 2))
    pull = network.vjp(weights, rows)[1]
    whole = pull(cotangent.copy())
    np.testing.assert_array_equal(pull(cotangent.copy()), whole)
    parts = [network.vjp(weights, rows[some])[1](cotangent[some].copy()) for some in np.array_split(range(556), 7)]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-10, atol=1e-10)


def test_a_step_allocates_no_memory_for_the_layers() -> None:
    """After some steps, four vectors of weights at most; the cotangents of the layers would be six more.

    A lane borrows the memory of the layers.  A step that has more lanes at work than all earlier ones allocates it for
    one more; so that many steps can be exceptions, and one after them cannot.
    """
    rows = np.random.default_rng(6).standard_normal((1000, 3))
    features = trained_map(MLP((200, 100), then=Fourier(8), pretraining=0), rows, rows[:, :1], np.random.default_rng(0))
    bound = Objective(objective(rows, rows[:, 0]).data, FreeLaw(), ExpectedLosses(Gaussian(0.1)))
    start = bound.complete(at_point(FeatureKernel(features, features.start(rows, np.random.default_rng(0))), 0.1))
    layout = packing_of(start)
    loss, vector = layout.loss(bound.batch(np.arange(800))), layout.pack(start)
    peaks = []
    tracemalloc.start()
    try:
        for _ in range(lanes() + 1):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            loss(vector)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert min(peaks) < 4 * vector.nbytes


@each_choice
def test_rows_do_not_depend_on_each_other(name: str) -> None:
    features = made(name)
    parameters = features.start(X, np.random.default_rng(0))
    whole = features(parameters, X)
    np.testing.assert_allclose(features(parameters, X[40:47]), whole[40:47], rtol=1e-12, atol=1e-14)


def test_outputs_are_standardised_at_the_start() -> None:
    features = trained_map(MLP((6,), d=3, then=Mercer(10)), X, y[:, None], np.random.default_rng(0))
    assert isinstance(features, Composed)
    z = features.transform.project(features.weights, X)
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(z.std(axis=0), 1.0, rtol=1e-12)


def test_derivatives_pass_through_the_moments_of_more_rows_than_a_chunk() -> None:
    """log p(y) of 2500 rows: against differences of the value, in which z is standardised anew at each point."""
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((2500, 2)) * [1.0, 4.0]
    targets = np.sin(rows[:, 0]) + 0.1 * rng.standard_normal(2500)
    features = trained_map(MLP((6,), d=2, then=Fourier(6), standardise="always"), rows, targets[:, None], rng)
    F = replace(objective(rows, targets), law=LowRankLaw())
    start = at_point(FeatureKernel(features, features.start(rows, rng)), 0.2)
    layout = packing_of(start)
    loss, vector = layout.loss(F), layout.pack(start) + 0.1 * rng.standard_normal(layout.pack(start).size)
    slopes, direction = np.array(loss(vector)[1]), rng.standard_normal(vector.size)
    assert slopes @ direction == pytest.approx(numeric(lambda v: loss(v)[0], vector, direction), rel=1e-8)


@quiet
def test_moments_are_those_of_the_batch_in_training_and_of_all_rows_afterwards() -> None:
    features = trained_map(CHOICES["z follows"], X, y[:, None], np.random.default_rng(0))
    kernel = FeatureKernel(features, features.start(X, np.random.default_rng(0)))
    moved = kernel.with_weights(3.0 * kernel.weights)
    for some in (X, X[:40]):
        transform = moved.over(some).features.transform
        for z in (transform.project(moved.weights, some), transform.held(moved.weights).project(moved.weights, some)):
            assert (z.mean(), z.std()) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1.0, rel=1e-12))
    bound = Objective(objective(X, y).data, FreeLaw(), ExpectedLosses(Gaussian(0.1)))
    point = bound.complete(at_point(moved, 0.1))
    alone = Objective(objective(X[:40], y[:40]).data, FreeLaw(), ExpectedLosses(Gaussian(0.1)), weight=3.0)
    assert bound.batch(np.arange(40)).minimised(point).value == alone.minimised(point).value
    how = {"optimizer": "adam", "batch_size": 40, "learning_rate": 0.05}
    fitted = deep("z follows", **how).fit(X, y)
    z = fitted.feature_kernel_.features.transform.project(fitted.feature_kernel_.weights, X)
    assert isinstance(fitted.feature_kernel_.features.transform, Network)
    assert (z.mean(), z.std()) == (pytest.approx(0.0, abs=1e-12), pytest.approx(1.0, rel=1e-12))


def test_least_squares_finds_the_function_in_any_units() -> None:
    target = np.stack([1e4 + 300.0 * np.tanh(2.0 * X[:, 0]), X[:, 1]], axis=1)
    fit = least_squares(
        Network((3, 16, 2)), X, target, np.random.default_rng(0), epochs=400, batch_size=30, learning_rate=0.01
    )
    assert (np.abs(fit.predict(X) - target).mean(axis=0) < 0.1 * target.std(axis=0)).all()


def test_least_squares_without_epochs_is_the_start_of_glorot() -> None:
    network = Network((40, 60, 20))
    fit = least_squares(network, X[:, :1] * np.ones(40), y[:, None], np.random.default_rng(0), epochs=0)
    (W1, b1, _), (W2, _, _) = network.layers(fit.weights)
    assert not b1.any()
    assert W1.var() == pytest.approx(2.0 / 100.0, rel=0.1)
    assert W2.var() == pytest.approx(2.0 / 80.0, rel=0.1)


# ---------------------------------------------------------------------- estimators


def deep(name: str = "DFGP", **more) -> LowRankGP:
    return LowRankGP(CHOICES[name], **{"max_iter": 20, "random_state": 0, **more})


@quiet
@each_choice
def test_predictions_are_those_of_the_feature_kernel(name: str) -> None:
    fitted = deep(name).fit(X, y)
    kernel, noise = fitted.feature_kernel_, fitted.noise_
    inverse = np.linalg.inv(kernel(X) + noise * np.eye(len(X)))
    mean, covariance = fitted.predict(NEW, return_cov=True)
    across = kernel(NEW, X)
    np.testing.assert_allclose(mean, across @ inverse @ y, atol=1e-7)
    np.testing.assert_allclose(covariance, kernel(NEW) - across @ inverse @ across.T, atol=1e-7)
    assert fitted.history_[-1] > fitted.history_[0]


@quiet
def test_a_deep_kernel_learns_what_a_stationary_one_cannot() -> None:
    """A step across a slanted line: D = 3, one direction."""
    step = np.sign(X @ [1.0, 1.0, 0.5]) + 0.1 * RNG.standard_normal(120)
    settings = {"max_iter": 60, "random_state": 0}
    flat = LowRankGP("fourier", 16, **settings).fit(X, step)
    learned = LowRankGP(MLP((12,), d=1, then=Fourier(16), pretraining=200, batch_size=30), **settings).fit(X, step)
    assert learned.objective_ > flat.objective_ + 30.0
    truth = np.sign(NEW @ [1.0, 1.0, 0.5])
    assert np.mean((learned.predict(NEW) - truth) ** 2) < np.mean((flat.predict(NEW) - truth) ** 2)


@quiet
@each_choice
def test_a_loaded_model_predicts_the_same_bits(name: str, tmp_path) -> None:
    fitted = deep(name, max_iter=3, normalize_y=True).fit(X, y)
    fitted.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    for ours, theirs in zip(again.predict(NEW, return_std=True), fitted.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert repr(again.features) == repr(fitted.features)
    assert again.features.get_params()["hidden"] == fitted.features.hidden
    np.testing.assert_array_equal(again.feature_kernel_(NEW), fitted.feature_kernel_(NEW))


@quiet
@pytest.mark.parametrize("batch", [None, 40])
def test_a_continued_training_takes_the_same_path(batch, tmp_path) -> None:
    how = {"optimizer": "adam", "batch_size": batch, "tol": None, "learning_rate": 0.01}
    whole = deep(max_iter=24, **how).fit(X, y)
    path = tmp_path / "training"
    deep(max_iter=11, checkpoint=path, **how).fit(X, y)
    continued = deep(max_iter=24, checkpoint=path, **how).fit(X, y)
    np.testing.assert_array_equal(continued.predict(NEW), whole.predict(NEW))
    np.testing.assert_array_equal(continued.history_, whole.history_)


@quiet
def test_the_seed_decides_everything() -> None:
    first, same, other = (deep(max_iter=2, random_state=seed).fit(X, y).predict(NEW) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3


@quiet
def test_the_protocol_of_scikit_learn() -> None:
    features = MLP((4,), d=1, then=Fourier(4), pretraining=1)
    pipeline = make_pipeline(StandardScaler(), LowRankGP(features, max_iter=2, random_state=0))
    grid = {"lowrankgp__features__d": [1, 2], "lowrankgp__features__then__rank": [4, 6]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    best = search.best_estimator_[-1].feature_kernel_.features
    assert (best.transform.dim, best.rank) == tuple(search.best_params_.values())
    assert (features.d, features.then.rank) == (1, 4)  # the grid changed copies
    copied = clone(features)
    assert copied is not features
    assert copied.then is not features.then
    assert repr(copied) == repr(features)


@quiet
def test_what_is_known_of_a_deep_model() -> None:
    fitted = deep("DMGP").fit(X, y)
    found = fitted.kl_bound_
    assert found.exact <= found.residual
    assert found.prior is None
    assert fitted.log_evidence_bounds() is not None
    with pytest.raises(AttributeError, match="no linear projection"):
        _ = fitted.projection_
    fourier = deep("DFGP").fit(X, y)
    assert fourier.frequencies_.shape == (4, 2)
    assert "The map z = g(x) was fitted to the data" in fourier.kl_bound_.prior.assumptions[-1]
    with pytest.raises(AttributeError, match="expected features of a kernel, got an object"):
        _ = deep("outputs").fit(X, y).kl_bound_


@quiet
def test_restarts_draw_other_networks() -> None:
    fitted = deep(n_restarts=1, max_iter=3).fit(X, y)
    first, second = fitted.runs_[:2]
    assert first.vector.shape == second.vector.shape
    assert np.abs(first.vector[-20:] - second.vector[-20:]).max() > 0.1


# ---------------------------------------------------------------------- other libraries


@quiet
@pytest.mark.parametrize(
    "transformer",
    [
        RBFSampler(n_components=20),
        Nystroem(n_components=15),
        make_pipeline(StandardScaler(), PolynomialFeatures(2)),
    ],
    ids=["RBFSampler", "Nystroem", "Pipeline"],
)
def test_scikit_learns_transformers_are_features(transformer) -> None:
    fitted = LowRankGP(from_sklearn(transformer), max_iter=50, random_state=0).fit(X, y)
    inner = fitted.feature_kernel_.features.inner.transformer
    assert inner is not transformer  # a copy was fitted
    Xi, new = (np.exp(0.5 * fitted.kernel_.log_parameters[0]) * inner.transform(rows) for rows in (X, NEW))
    B = Xi.T @ Xi + fitted.noise_ * np.eye(Xi.shape[1])
    np.testing.assert_allclose(fitted.predict(NEW), new @ np.linalg.solve(B, Xi.T @ y), atol=1e-8)
    again = clone(fitted).fit(X, y)
    np.testing.assert_array_equal(again.predict(NEW), fitted.predict(NEW))  # the model's seed draws
    with pytest.raises(ValueError, match="save: expected features with to_dict and from_dict, got SklearnMap"):
        fitted.save("never")


def plain_network(features, parameters):
    """The layers of a network, as a tree of arrays."""
    return [(np.array(W), np.array(b)) for W, b, _ in features.layers(parameters)]


def agree(other, network: Network, weights) -> None:
    """Features and pull-backs of ``other`` are those of ``network``."""
    rng = np.random.default_rng(0)
    start = other.start(X, rng)
    assert start.size == network.size
    cotangent = rng.standard_normal((120, network.dim))
    Xi, pull = other.vjp(start, X)
    ours, own = network.vjp(weights, X)
    np.testing.assert_allclose(Xi, ours, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(other(start, X), ours, rtol=0.0, atol=1e-12)
    slopes, expected = pull(cotangent.copy()), own(cotangent.copy())
    np.testing.assert_allclose(np.sort(slopes), np.sort(expected), rtol=0.0, atol=1e-11)


def test_jax_computes_the_same_network() -> None:
    jax = pytest.importorskip("jax")
    network = Network((3, 6, 2))
    weights = network.start(X, np.random.default_rng(0))

    def apply(layers, rows):
        (W1, b1), (W2, b2) = layers
        return jax.numpy.tanh(rows @ W1 + b1) @ W2 + b2

    choice = from_jax(apply, plain_network(network, weights))
    choice.check()
    before = jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", True)
        agree(choice.prepare(X, y[:, None], RNG), network, weights)
        jax.config.update("jax_enable_x64", False)
        with pytest.warns(UserWarning, match="JAX computes in float32"):
            choice.prepare(X, y[:, None], RNG)
    finally:
        jax.config.update("jax_enable_x64", before)


def test_torch_computes_the_same_network() -> None:
    torch = pytest.importorskip("torch")
    network = Network((3, 6, 2))
    weights = network.start(X, np.random.default_rng(0))
    module = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).double()
    with torch.no_grad():
        for layer, (W, b) in zip((module[0], module[2]), plain_network(network, weights), strict=True):
            layer.weight.copy_(torch.from_numpy(W.T.copy()))
            layer.bias.copy_(torch.from_numpy(b))
    choice = from_torch(module)
    choice.check()
    agree(choice.prepare(X, y[:, None], RNG), network, weights)


# ---------------------------------------------------------------------- a user's own map


class Waves:
    """cos(xᵀa) and sin(xᵀa), a trained: a map that can be stored."""

    rank = 2

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def __repr__(self) -> str:
        return "Waves()"

    def start(self, X, rng):
        return self.scale * rng.standard_normal(X.shape[1])

    def __call__(self, parameters, X):
        phase = X @ parameters
        return np.stack([np.cos(phase), np.sin(phase)], axis=1)

    def vjp(self, parameters, X):
        Xi = self(parameters, X)
        return Xi, lambda bar: X.T @ (bar[:, 1] * Xi[:, 0] - bar[:, 0] * Xi[:, 1])

    def to_dict(self):
        return {"scale": self.scale, "unused": np.arange(3.0)}

    @classmethod
    def from_dict(cls, values):
        assert values["unused"].tolist() == [0.0, 1.0, 2.0]
        return cls(values["scale"])


@quiet
def test_a_users_map_is_saved_by_its_own_methods(tmp_path) -> None:
    fitted = LowRankGP(Waves(0.5), max_iter=5, random_state=0).fit(X, y)
    fitted.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz", features=Waves)
    np.testing.assert_array_equal(again.predict(NEW), fitted.predict(NEW))
    assert (again.features.scale, again.kernel_ is again.feature_kernel_) == (0.5, True)
    with pytest.raises(ValueError, match=r"expected the class Waves of the saved features, got none: call"):
        load(tmp_path / "model.npz")


class Wrong(Waves):
    """A map with one fault, which appears in training."""

    def __init__(self, fault: str) -> None:
        self.fault, self.scale = fault, 1.0

    def __call__(self, parameters, X):
        Xi = super().__call__(parameters, X)
        if self.fault == "shape":
            return Xi[:, :1]
        if self.fault == "nan":
            Xi[X[:, 0] == X_FIRST] = np.nan
        return Xi.tolist() if self.fault == "list" else 1j * Xi if self.fault == "complex" else Xi

    def vjp(self, parameters, X):
        Xi, pull = super().vjp(parameters, X)
        if self.fault == "no pair":
            return Xi
        if self.fault == "gradient":
            return Xi, lambda bar: pull(bar)[:-1]
        return Xi, (lambda bar: np.where(np.arange(3) == 1, np.nan, pull(bar))) if self.fault == "slope" else pull


X_FIRST = X[7, 0]


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("shape", ValueError, r"features: expected shape \(\d+, 2\) for \d+ rows and rank 2, got"),
        ("nan", NonFinite, rf"got NaN or infinity for the row x = \[ *{X_FIRST:.4f}"),
        (
            "gradient",
            ValueError,
            r"features.vjp: expected derivatives of shape \(3,\), one for each parameter, got \(2",
        ),
        ("slope", NonFinite, "features.vjp: expected finite derivatives, got nan for parameter 1.$"),
        ("list", ValueError, r"features: expected an array of real numbers, shape \(\d+, 2\), got list"),
        ("complex", ValueError, r"expected an array of real numbers, shape \(\d+, 2\), got ndarray of complex128"),
        ("no pair", ValueError, "features.vjp: expected a pair of features and a function, got ndarray of float64"),
    ],
)
def test_faults_of_a_map_reach_the_user(fault: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        LowRankGP(Wrong(fault), random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (MLP(then=Fourier(41)), r"rank: expected an even number \(a cosine and a sine for each frequency\), got 41"),
        (Fourier(5), "rank: expected an even number"),
        (MLP((5,), d=2, then=Fourier(200)), "rank: expected at most the number of rows, 120, got 200"),
        (MLP((5, 0)), r"hidden\[1\]: expected a whole number >= 1, got 0"),
        (MLP(5), r"hidden: expected the sizes of the hidden layers, such as \(64, 32\), got 5"),
        (MLP(d=0), "d: expected a whole number >= 1, got 0"),
        (MLP(activation="sine"), "activation: expected one of 'tanh', 'relu', got 'sine'"),
        (MLP(pretraining=-1), "pretraining: expected a whole number >= 0, got -1"),
        (MLP(then=Fourier(4), standardise="never"), "standardise: expected one of 'start', 'always', got 'never'"),
        (MLP(standardise="always"), "standardise: expected 'start' without features of z, got 'always'"),
        (MLP(then="fourier"), r"then: expected Fourier\(...\), Mercer\(...\), Hilbert\(...\) or None, got 'fourier'"),
        (MLP(then=MLP()), r"then: expected Fourier\(...\), Mercer\(...\), Hilbert\(...\) or None, got MLP"),
        (MLP(then=Mercer(4, "size")), "order: expected one of 'degree', 'best', 'grid', got 'size'"),
        (Mercer(4, kernel=Matern(1.5)), "kernel: expected SquaredExponential for features=Mercer"),
        (
            MLP(d=2, then=Fourier(4, SquaredExponential(1.0, [1.0] * 3))),
            r"expected inputs with 3 dimension\(s\)",
        ),
        (MLP, "features: expected an object, got the class MLP: call it with arguments"),
        (from_sklearn(3), "transformer: expected an object with fit and transform, got 3"),
        (from_jax(3, []), "apply: expected a function of"),
        (from_torch(np.tanh), "module: expected a torch.nn.Module"),
    ],
)
def test_wrong_arguments(features, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LowRankGP(features).fit(X, y)


@quiet
def test_features_by_name_and_as_an_object_are_one_model() -> None:
    """Fourier(rank, kernel) is features="fourier" with another draw: the same objective for the same frequencies."""
    kernel = SquaredExponential(1.3, [1.0, 2.0, 1.5])
    fitted = LowRankGP(Fourier(12, kernel), noise=0.1, optimizer=None, random_state=0).fit(X, y)
    assert not isinstance(fitted.feature_kernel_.features, Scaled)
    assert fitted.kernel_.variance == pytest.approx(1.3)
    Xi = fitted.feature_kernel_.features(fitted.feature_kernel_.parameters, X)
    assert isinstance(fitted.feature_kernel_, FeatureKernel)
    reference = -0.5 * (
        np.linalg.slogdet(Xi @ Xi.T + 0.1 * np.eye(120))[1]
        + y @ np.linalg.solve(Xi @ Xi.T + 0.1 * np.eye(120), y)
        + 120.0 * np.log(2.0 * np.pi)
    )
    assert fitted.objective_ == pytest.approx(reference, rel=1e-9)


@pytest.mark.gpu
@each_choice
def test_device_and_host_agree(cupy, name: str) -> None:
    features, rng = made(name), np.random.default_rng(0)
    parameters = features.start(X, rng)
    Xi, pull = features.vjp(parameters, X)
    far, pull_far = features.vjp(parameters, cupy.asarray(X))
    np.testing.assert_allclose(host(far), Xi, rtol=1e-11, atol=1e-12)
    cotangent = rng.standard_normal(Xi.shape)
    np.testing.assert_allclose(pull_far(cupy.asarray(cotangent)), pull(cotangent.copy()), rtol=1e-9, atol=1e-10)
    fit = least_squares(
        Network((3, 4, 2)), cupy.asarray(X), cupy.asarray(y[:, None]), np.random.default_rng(1), epochs=2
    )
    near = least_squares(Network((3, 4, 2)), X, y[:, None], np.random.default_rng(1), epochs=2)
    np.testing.assert_allclose(fit.weights, near.weights, rtol=1e-8, atol=1e-10)
