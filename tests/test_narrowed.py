"""The diagonal bound of a free q: derivatives, batches, the GPU, its estimators, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import fitting
from fitting import SparseGP, VariationalGP, VariationalGPClassifier
from fitting.objectives.narrowed import CLOSE, narrowing
from fitting.objectives.objective import Objective, variational_objective
from fitting.objectives.point import Parameters
from gpbounds.kernels import SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

KERNEL = SquaredExponential(1.3, [0.7, 1.4])
LIKELIHOODS = [Gaussian(0.3), Bernoulli("probit"), Bernoulli("logit"), Poisson("exp"), Poisson("softplus")]
each_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)


def targets(likelihood: Likelihood, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if isinstance(likelihood, Bernoulli):
        return np.where(f > 0.0, 1.0, -1.0)
    return rng.poisson(np.exp(f)).astype(float) if isinstance(likelihood, Poisson) else f


def problem(likelihood: Likelihood, seed: int, N: int = 12, M: int = 3) -> tuple[Any, Any, Parameters]:
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((N, 2)), rng.standard_normal((M, 2))
    y = targets(likelihood, np.sin(X @ rng.standard_normal(2)) + 0.3 * rng.standard_normal(N), rng)
    factor = 0.3 * np.tril(rng.standard_normal((M, M)))
    factor[np.diag_indices(M)] = rng.uniform(0.3, 1.2, M)
    return X, y, Parameters(KERNEL, likelihood, Z, FactorLaw(rng.standard_normal((M, 1)), factor))


def narrowed(X: Any, y: Any, likelihood: Likelihood, **options: Any) -> Objective:
    return variational_objective(X, y, likelihood, jitter=1e-8, **options).with_goal(structure="diagonal")


def flat(evaluation: Any) -> np.ndarray:
    g = evaluation.gradient
    return np.concatenate([[evaluation.value], *(np.ravel(part) for part in vars(g).values() if part is not None)])


@each_likelihood
def test_derivatives_in_every_block(likelihood: Likelihood) -> None:
    X, y, point = problem(likelihood, 1)
    J = narrowed(X, y, likelihood, chunk=5)
    layout = J.packing(point)
    vector = layout.pack(point)
    _, analytic = layout.loss(J)(vector)
    step = np.random.default_rng(2).standard_normal(vector.size)
    values = [layout.loss(J)(vector + t * 1e-3 * step)[0] for t in (-2, -1, 1, 2)]
    numeric = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12e-3
    assert analytic @ step == pytest.approx(numeric, rel=1e-7, abs=1e-7 * np.abs(analytic * step).sum())


@each_likelihood
def test_batches_average_to_the_whole(likelihood: Likelihood) -> None:
    X, y, point = problem(likelihood, 4)
    J = narrowed(X, y, likelihood)
    parts = [flat(J.batch(rows).minimised(point)) for rows in np.arange(12).reshape(4, 3)]
    whole = flat(J.minimised(point))
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, rtol=1e-10, atol=1e-10 * np.abs(whole).max())


@each_likelihood
def test_each_variance_solves_its_equation(likelihood: Likelihood) -> None:
    """From residuals that change nothing to those that the likelihood narrows a hundredfold, or more."""
    rng = np.random.default_rng(5)
    y, m = targets(likelihood, rng.standard_normal(40), rng), 2.0 * rng.standard_normal(40)
    t, r = rng.exponential(size=40), 10.0 ** rng.uniform(-9.0, 3.0, 40)
    r[0] = 0.0
    v = narrowing(likelihood, y, m, t, r)
    curve = -2.0 * likelihood.expected_log_density(y, m, t + v * r, gradient=True)[2]
    np.testing.assert_allclose(np.log(v) + np.log1p(curve * r), 0.0, atol=2.0 * CLOSE)
    assert v[0] == 1.0
    assert (v <= 1.0).all()
    assert v.min() < 0.3


def test_rates_that_overflow_at_the_prior_s_variance_have_a_bound() -> None:
    """E e^f = e^{m + r/2} is infinite at v = 1; the ELBO is −∞ there."""
    y, m, t, r = np.array([2.0]), np.array([0.0]), np.array([0.1]), np.array([3000.0])
    v = narrowing(Poisson("exp"), y, m, t, r)
    with np.errstate(over="ignore"):
        assert Poisson("exp").expected_log_density(y, m, t + r)[0] == -np.inf
    assert v[0] * (1.0 + np.exp(0.5 * (t[0] + v[0] * r[0])) * r[0]) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.gpu
@each_likelihood
def test_the_gpu_computes_what_the_cpu_does(cupy: Any, likelihood: Likelihood) -> None:
    X, y, point = problem(likelihood, 13, N=60, M=6)
    on_host = narrowed(X, y, likelihood, chunk=25).minimised(point)
    q = FactorLaw(cupy.asarray(point.q.mean), cupy.asarray(point.q.factor))  # type: ignore[union-attr]
    placed = replace(point, Z=cupy.asarray(point.Z), q=q)
    on_device = narrowed(cupy.asarray(X), cupy.asarray(y), likelihood, chunk=25).minimised(placed)
    assert on_device.value == pytest.approx(on_host.value, rel=1e-9)
    for name in ("kernel", "Z", "mean", "factor"):
        here, there = getattr(on_host.gradient, name), getattr(on_device.gradient, name)
        there = there.get() if hasattr(there, "get") else there
        np.testing.assert_allclose(there, here, rtol=1e-6, atol=1e-8 * np.abs(here).max())


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    f = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1])
    return X, f + 0.1 * rng.standard_normal(60), rng.poisson(np.exp(1.0 + f)).astype(float)


GIVEN = {"kernel": KERNEL, "random_state": 0, "max_iter": 15}


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "probit"])
def test_a_trained_bound_is_above_the_elbo_of_its_own_law(likelihood: str, data: Any, tmp_path: Any) -> None:
    """At the same point, whose q gives the predictions; `save` keeps the structure."""
    X, y, counts = data
    kind = VariationalGPClassifier if likelihood == "probit" else VariationalGP
    y = {"gaussian": y, "poisson": counts, "probit": y > 0.0}[likelihood]
    model = kind(5, likelihood, structure="diagonal", **GIVEN).fit(X, y)
    point = Parameters(model.kernel_, model.likelihood_, model.inducing_, model.posterior_.q)
    plain = model._objective(model.jitter_).with_goal(structure=None)
    assert model.objective_ > -plain.minimised(point, gradient=False).value
    assert model.objective_ > model.history_[0]
    model.save(tmp_path / "model.npz")
    again = fitting.load(tmp_path / "model.npz")
    assert again.structure == "diagonal"
    np.testing.assert_array_equal(again.predict(X[:4]), model.predict(X[:4]))


def test_for_gaussian_noise_it_trains_the_collapsed_bound(data: Any) -> None:
    """Value and derivatives of `SparseGP`'s objective at the best q, and its model."""
    X, y, point = problem(Gaussian(0.3), 6, N=40, M=5)
    J = narrowed(X, y, Gaussian(0.3))
    here = -J.minimised(J.complete(replace(point, q=None)))
    there = fitting.objective(X, y, structure="diagonal", jitter=1e-8).evaluate(KERNEL, 0.3, point.Z)
    assert here.value == pytest.approx(there.value, rel=1e-10)
    for block in ("kernel", "likelihood", "Z"):
        expected = getattr(there.gradient, block)
        np.testing.assert_allclose(getattr(here.gradient, block), expected, atol=1e-8 * np.abs(expected).max())
    settings = {"kernel": KERNEL, "inducing": X[:5], "random_state": 0, "max_iter": 15}
    free = VariationalGP(structure="diagonal", **settings).fit(*data[:2])
    sparse = SparseGP("vfe", structure="diagonal", **settings).fit(*data[:2])
    assert free.objective_ == pytest.approx(sparse.objective_, rel=1e-6)
    np.testing.assert_allclose(free.predict(X[:5]), sparse.predict(X[:5]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "natgrad"])
def test_mini_batches_raise_the_bound_of_all_rows(optimizer: str, data: Any) -> None:
    X, _, counts = data
    settings = {**GIVEN, "optimizer": optimizer, "structure": "diagonal"}
    start = VariationalGP(5, "poisson", **{**settings, "optimizer": None}).fit(X, counts)
    settings["max_iter"] = 40
    model = VariationalGP(5, "poisson", batch_size=20, **settings).fit(X, counts)
    assert model.objective_ > start.objective_ + 1.0
    online = VariationalGP(5, "poisson", **settings)
    for rows in np.arange(60).reshape(3, 20):
        online.partial_fit(X[rows], counts[rows], N=60)
    assert np.isfinite(online.objective_)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"likelihood": StudentT(4.0, 0.5)}, "not known to be log-concave"),
        ({"objective": "log-loss"}, "structure: expected None for objective='log-loss'"),
        ({"beta": 2.0}, "structure: expected None .* beta=2.0"),
        ({"beta": "auto"}, "structure: expected None .* beta='auto'"),
        ({"structure": "blocks"}, "structure: expected one of 'diagonal'"),
    ],
    ids=str,
)
def test_what_has_no_bound_is_refused(settings: dict[str, Any], sentence: str, data: Any) -> None:
    with pytest.raises(ValueError, match=sentence):
        VariationalGP(5, **{"structure": "diagonal", **GIVEN, **settings}).fit(*data[:2])


def test_weights_of_rows_are_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="sample_weight: expected None for structure='diagonal'"):
        VariationalGP(5, structure="diagonal", **GIVEN).fit(*data[:2], sample_weight=np.ones(60))


def test_training_says_where_it_stops(data: Any) -> None:
    with pytest.warns(ConvergenceWarning):
        VariationalGP(5, structure="diagonal", **{**GIVEN, "max_iter": 2}).fit(*data[:2])
