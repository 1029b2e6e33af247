"""Training by batches that come one after the other, and from files that are larger than memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import fitting
from fitting import VariationalGP, VariationalGPClassifier
from fitting.estimators import variational as estimator
from fitting.objectives import laws, passes
from fitting.objectives.objective import objective
from gpbounds import SquaredExponential
from gpbounds.errors import NonFinite

KERNEL = SquaredExponential(0.7, [0.9, 1.4])
Z = np.random.default_rng(2).uniform(-2.0, 2.0, (7, 2))
NEW = np.random.default_rng(1).uniform(-3.0, 3.0, (5, 2))
GIVEN = {"kernel": KERNEL, "inducing": Z, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    f = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1])
    return X, f + 0.1 * rng.standard_normal(60), rng.poisson(np.exp(1.0 + f)).astype(float), f


@pytest.mark.parametrize("optimizer", ["adam", "natgrad"])
@pytest.mark.parametrize("kind", ["poisson", "probit"])
def test_the_steps_are_those_of_fit(kind, optimizer, data, monkeypatch):
    """From the prior, the batches of ``fit`` in their order lead to the same vector; units of Z are of other rows."""
    monkeypatch.setattr(laws, "settled", lambda problem, prior: prior)
    X, _, counts, f = data
    options = {"optimizer": optimizer, "learn_inducing": False, "batch_size": 20, "max_iter": 12, **GIVEN}
    if kind == "poisson":
        model, y, classes = VariationalGP(likelihood="poisson", **options), counts, {}
    else:
        model, y, classes = VariationalGPClassifier(**options), np.where(f > 0.0, "u", "d"), {"classes": ["d", "u"]}
    whole = clone(model).fit(X, y)
    rng = np.random.default_rng([0, *b"elbo 1 start 0"])  # as `Trainer` draws batches
    for _ in range(12):
        rows = np.sort(rng.choice(60, 20, replace=False))
        model.partial_fit(X[rows], y[rows], N=60, **classes)
    state = whole.runs_[-1].state
    np.testing.assert_allclose(model.online_.steps.x, state["x"], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(model.online_.steps.second, state["second"], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(model.history_, whole.history_[1:], rtol=1e-10)
    assert model.n_iter_ == 12


@pytest.mark.broad
@pytest.mark.parametrize("optimizer", ["lbfgs", "natgrad"])
def test_batches_approach_the_model_of_all_rows(optimizer, data):
    """From the first 20 rows; "lbfgs" takes Adam's steps."""
    X, y, *_ = data
    model = VariationalGP(noise=0.05, optimizer=optimizer, learning_rate=0.02, **GIVEN)
    rng = np.random.default_rng(3)
    for _ in range(120):
        rows = rng.choice(60, 20, replace=False)
        model.partial_fit(X[rows], y[rows], N=60)
    best = VariationalGP(noise=0.05, **GIVEN).fit(X, y)
    J = fitting.variational_objective(X, y, jitter=model.jitter_)
    q = model.posterior_.q
    reached = J.evaluate(model.kernel_, model.likelihood_, model.inducing_, q.mean, q.factor, gradient=False).value
    start = clone(best).set_params(optimizer=None).fit(X, y).objective_
    assert best.objective_ - 0.15 * (best.objective_ - start) < reached <= best.objective_ + 0.05


def test_a_call_is_a_step_for_every_batch(data):
    X, _, counts, _ = data
    one = VariationalGP(likelihood="poisson", optimizer="adam", batch_size=25, **GIVEN).partial_fit(X, counts)
    three = VariationalGP(likelihood="poisson", optimizer="adam", **{**GIVEN, "inducing": Z})
    for i, rows in enumerate((slice(0, 25), slice(25, 50), slice(50, 60))):
        three.partial_fit(X[rows], counts[rows], N=60 if i == 0 else None)
    assert one.n_iter_ == three.n_iter_ == 3
    assert one.online_.N == three.online_.N == 60
    assert one.history_[0] == pytest.approx(three.history_[0], rel=1e-12)
    kept = [name for name in ("first", "second", "x") if len(getattr(one.online_.steps, name)) > 0]
    assert kept == ["first", "second", "x"]


def test_one_natural_step_reaches_the_best_law_of_a_batch(data):
    """For a Gaussian likelihood with a rate of 1: VFE's posterior of the rows of the last call."""
    X, y, *_ = data
    options = {"optimizer": "natgrad", "natural_rate": 1.0, "hyperparameters": "fixed", **GIVEN}
    model = VariationalGP(noise=0.05, **options).partial_fit(X[:30], y[:30], N=30)
    model.partial_fit(X[30:], y[30:])
    assert model.kernel_ == KERNEL
    assert model.noise_ == 0.05
    np.testing.assert_array_equal(model.inducing_, Z)
    vfe = objective(X[30:], y[30:], jitter=model.jitter_).posterior(KERNEL, 0.05, Z)
    mean, variance = vfe.predict(NEW)
    np.testing.assert_allclose(model.predict(NEW, return_std=True), (mean, np.sqrt(variance)), rtol=1e-8, atol=1e-10)


def test_it_goes_on_from_a_fitted_model_and_from_a_file(data, tmp_path):
    X, y, *_ = data
    model = VariationalGP(noise=0.05, max_iter=20, normalize_y=True, **GIVEN)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, 30.0 + 5.0 * y)
    value, mean, kernel = model.objective_, model.y_mean_[0], model.kernel_
    model.partial_fit(X, 30.0 + 5.0 * y)
    assert model.history_.tolist() == [pytest.approx(value, rel=1e-9)]
    assert model.y_mean_[0] == mean
    assert model.kernel_ != kernel
    model.partial_fit(X[:10] + 1.0, np.full(10, 30.0), N=60)
    assert model.y_mean_[0] == mean  # the units of the first rows
    model.save(tmp_path / "model.npz")
    again = fitting.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))
    again.partial_fit(X, 30.0 + 5.0 * y)
    assert again.n_iter_ == 1
    assert not hasattr(clone(model), "online_")
    with pytest.warns(ConvergenceWarning):
        assert not hasattr(model.fit(X, y), "online_")  # a fit begins anew


def test_labels_are_named_in_the_first_call(data):
    X, *_, f = data
    labels = np.where(f > 0.0, "up", "down")
    model = VariationalGPClassifier(optimizer="natgrad", natural_rate=0.5, **GIVEN)
    with pytest.raises(ValueError, match="classes: expected both labels in the first call"):
        model.partial_fit(X, labels)
    only = f > 0.3
    model.partial_fit(X[only], labels[only], classes=["up", "down"], N=60)
    assert model.classes_.tolist() == ["down", "up"]
    for _ in range(20):
        model.partial_fit(X, labels)
    assert model.score(X, labels) >= 0.75
    with pytest.raises(ValueError, match="expected labels in"):
        model.partial_fit(X, np.where(f > 0.0, "up", "left"))
    with pytest.raises(ValueError, match="as in the first call"):
        model.partial_fit(X, labels, classes=["left", "right"])
    with pytest.raises(ValueError, match="y: expected two labels, got 3 classes"):
        clone(model).partial_fit(X, labels, classes=[0, 1, 2])


def test_sampled_gradients_differ_from_step_to_step(data):
    X, _, counts, _ = data
    options = {"likelihood": "poisson", "objective": "log-loss", "optimizer": "adam", "gradient": "bmc", "samples": 2}
    models = [VariationalGP(**options, **{**GIVEN, "random_state": seed}) for seed in (0, 0, 1)]
    for model in models:
        for _ in range(2):
            model.partial_fit(X, counts)
    values = [model.history_.tolist() for model in models]
    assert values[0] == values[1] != values[2]


def test_a_batch_without_a_value_is_stepped_back_from(data, monkeypatch):
    X, _, counts, _ = data
    model = VariationalGP(likelihood="poisson", optimizer="adam", **GIVEN).partial_fit(X, counts)
    before = model.online_._kept.copy()
    evaluate = passes.free
    monkeypatch.setattr(passes, "free", lambda *a, **o: replace(evaluate(*a, **o), value=np.inf))
    with pytest.warns(ConvergenceWarning, match="no value for the last batch"):
        model.partial_fit(X, counts)
    np.testing.assert_array_equal(model.online_.steps.x, before)
    assert model.online_.steps.rate == 0.5 * 0.05
    with pytest.raises(NonFinite, match="no value at the start of training"):
        clone(model).partial_fit(X, counts)
    monkeypatch.undo()
    assert np.isfinite(model.partial_fit(X, counts).history_[-1])


@pytest.mark.parametrize(
    ("options", "N", "sentence"),
    [
        ({"beta": "auto"}, None, "beta: expected a number for partial_fit"),
        ({"optimizer": None}, None, "optimizer: expected 'adam'"),
        ({}, 59, "N: expected the number of rows of all batches, at least 60, got 59"),
        ({"likelihood": "poisson"}, None, "counts"),
        ({"batch_size": 5}, None, "batch_size: expected None for optimizer='lbfgs'"),
    ],
)
def test_bad_input_is_one_sentence(options, N, sentence, data):
    X, y, *_ = data
    with pytest.raises(ValueError, match=sentence):
        VariationalGP(**{**GIVEN, **options}).partial_fit(X, y, N=N)
    model = VariationalGP(**GIVEN).partial_fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1], y)


@pytest.mark.broad
@pytest.mark.parametrize("optimizer", ["adam", "natgrad"])
def test_rows_stay_on_the_disk(optimizer, tmp_path, monkeypatch):
    """A memory map of 51 MB is read by batches and chunks: the same numbers with less than 30 % of its memory."""
    monkeypatch.setattr(estimator, "MANY", 5000)  # the rows among which inducing points are chosen: not part of N
    N, D, rng = 200_000, 32, np.random.default_rng(0)
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (N, D))
    y = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", np.float64, (N,))
    for rows in (slice(i, i + 50_000) for i in range(0, N, 50_000)):
        X[rows] = rng.standard_normal((50_000, D))
        y[rows] = rng.poisson(np.exp(1.0 + np.sin(X[rows, 0])))
    X.flush(), y.flush()
    model = VariationalGP(
        8,
        "poisson",
        kernel=SquaredExponential(1.0, np.full(D, 5.0)),
        inducing="uniform",
        optimizer=optimizer,
        batch_size=200,
        max_iter=12,
        random_state=0,
    )
    on_disk = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("X", "y")]
    tracemalloc.start()
    mapped = clone(model).fit(*on_disk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.3 * X.nbytes
    assert np.shares_memory(mapped.X_train_, on_disk[0])
    loaded = clone(model).fit(np.array(X), np.array(y))
    assert mapped.objective_ == loaded.objective_
    np.testing.assert_array_equal(mapped.inducing_, loaded.inducing_)
    np.testing.assert_array_equal(mapped.predict(X[:9]), loaded.predict(X[:9]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_large_counts_are_learned_by_natural_steps_and_misses_are_said():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (400, 1))
    rate = 1000.0 * np.exp(np.sin(3.0 * X[:, 0]))
    y = rng.poisson(rate)
    good, bad = (VariationalGP(10, "poisson", random_state=0, optimizer=name) for name in ("natgrad", "adam"))
    for model in (good, bad):
        for _ in range(10):
            for start in range(0, 400, 20):
                model.partial_fit(X[start : start + 20], y[start : start + 20])
    off = [np.abs(np.log(model.predict(X) / rate)).max() for model in (good, bad)]
    assert off[0] < np.log(2.0) < off[1]
    assert good.remarks_ == ()
    assert "misses" in bad.remarks_[0].text
    assert "natgrad" in bad.remarks_[0].text
