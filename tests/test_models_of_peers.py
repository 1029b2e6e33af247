"""Models of other libraries as `tests/peers/describe.py` stored them: the same matrices, noise, means and Z."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.gaussian_process.kernels import Matern as SkMatern

from fitting import audit
from gpbounds.renyi import Model, elbo, evidence, log_evidence, variational_bound
from gpbounds.renyi.readers import from_gpflow, from_gpjax, from_gpytorch, from_sklearn

PEERS = Path(__file__).parent / "peers"
READERS = {"gpflow": from_gpflow, "gpytorch": from_gpytorch, "gpjax": from_gpjax, "gpjax_0": from_gpjax}
STORED = {library: json.loads((PEERS / f"{library}.json").read_text(encoding="utf-8")) for library in READERS}
CASES = [(library, name) for library in READERS for name in STORED[library]["models"]]
VARIATIONAL = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in PEERS.glob("*_variational.json")}
WITH_LAW = [(file, name) for file, stored in sorted(VARIATIONAL.items()) for name in stored["models"]]


def rebuilt(record):
    """An object with the class name and the attributes of a description."""
    part = type(record["class"], (), {})()
    for name, value in record.items():
        if name == "kernels":
            part.kernels = [rebuilt(each) for each in value]
        elif isinstance(value, dict):
            setattr(part, name, slice(*value["slice"]) if "slice" in value else rebuilt(value))
        elif name != "class":
            setattr(part, name, value if isinstance(value, str) else np.asarray(value))
    return part


@pytest.mark.parametrize(("library", "name"), CASES)
def test_matrices_noise_mean_and_inducing_points_are_the_same(library: str, name: str) -> None:
    stored = STORED[library]
    record = stored["models"][name]
    model = READERS[library](rebuilt(record["model"]))
    X, new = np.array(stored["X"]), np.array(stored["new"])
    size = np.abs(record["square"]).max()
    np.testing.assert_allclose(model.kernel(X, new), record["cross"], rtol=1e-12, atol=1e-12 * size)
    white = 0.25 if name == "white" else 0.0
    np.testing.assert_allclose(model.kernel(X) + white * np.eye(5), record["square"], rtol=1e-12, atol=1e-12 * size)
    assert model.noise == pytest.approx(0.2 + white, rel=1e-12)
    y = np.arange(5.0)
    np.testing.assert_allclose(model.residuals(X, y), y - record["mean"], rtol=1e-12)
    np.testing.assert_array_equal(model.residuals(X, np.stack([y, y], 1))[:, 1], model.residuals(X, y))
    if library == "gpflow" or "inducing_inputs" in record["model"]:
        np.testing.assert_array_equal(model.Z, stored["Z"])
    else:
        assert model.Z is None


@pytest.mark.parametrize(("file", "name"), WITH_LAW)
def test_elbo_and_predictions_are_those_of_the_library_with_the_law_of_its_inducing_variables(
    file: str, name: str, tmp_path
) -> None:
    """Also after a file; the jitter that a library adds to variances of f is no part of the model that is read."""
    stored = VARIATIONAL[file]
    record = stored["models"][name]
    model = READERS[file.removesuffix("_variational")](rebuilt(record["model"]))
    model.save(tmp_path / "model.json")
    model = Model.load(tmp_path / "model.json")
    posterior = model.q.posterior(model.kernel, model.Z)
    X, new = np.array(stored["X"]), np.array(stored["new"])
    law = posterior.inducing_law()
    settings = {"noise": model.noise, "jitter": posterior.jitter}
    ours = float(variational_bound(model.kernel, X, model.residuals(X, stored["y"]), model.Z, *law, **settings))
    of_f = 0.0 if file.startswith("gpflow") or name.startswith("Unwhitened") else model.q.jitter
    assert ours - 5.0 * of_f / (2.0 * model.noise) == pytest.approx(record["elbo"], rel=1e-11)
    predicted = posterior.predict(new)
    np.testing.assert_allclose(predicted.mean + model.mean(new), record["mean"], rtol=1e-10)
    np.testing.assert_allclose(np.asarray(predicted.variance) + of_f, record["variance"], rtol=1e-10)


@pytest.mark.parametrize(("file", "name"), WITH_LAW)
def test_the_audit_of_a_model_contains_log_evidence_less_the_elbo_of_its_library(file: str, name: str) -> None:
    """KL[q‖p] = log p(y) − ELBO for the q(u) of the model, and the excess is that over the best one."""
    stored = VARIATIONAL[file]
    record = stored["models"][name]
    model = READERS[file.removesuffix("_variational")](rebuilt(record["model"]))
    X, y = np.array(stored["X"]), np.array(stored["y"])
    of_f = 0.0 if file.startswith("gpflow") or name.startswith("Unwhitened") else model.q.jitter
    of_library = record["elbo"] + 5.0 * of_f / (2.0 * model.noise)
    truth = log_evidence(model.kernel, X, model.residuals(X, y), noise=model.noise) - of_library
    levels = audit(model, X, y).enough
    low, high = map(float, levels.divergence)
    assert low - 1e-9 <= truth <= high + 1e-9
    assert high - low < 1e-6
    best = Model(model.kernel, model.noise, model.Z, model.mean)
    least = float(audit(best, X, y).enough.divergence[1])
    assert levels.excess == pytest.approx(truth - least, abs=1e-4)


def test_the_audit_of_a_trained_svgp_is_that_of_its_own_law(tmp_path) -> None:
    """KL[q‖p] = log p(y) − ELBO as GPyTorch computes both, and how much of it another q with the same Z would save."""
    stored = json.loads((PEERS / "gpytorch_trained.json").read_text(encoding="utf-8"))
    X, y = np.array(stored["X"]), np.array(stored["y"])
    from_gpytorch(rebuilt(stored["model"])).save(tmp_path / "model.json")
    model = Model.load(tmp_path / "model.json")
    residuals = model.residuals(X, y)
    exact = log_evidence(model.kernel, X, residuals, noise=model.noise)
    assert exact == pytest.approx(stored["log evidence"], abs=1e-8)
    of_f = len(y) * model.q.jitter / (2.0 * model.noise)  # GPyTorch adds the jitter to variances of f, too
    divergence = stored["log evidence"] - (stored["elbo"] + of_f)
    audited = audit(model, X, y)
    lower, upper = audited.to_dict()["enough"]["KL"]
    assert lower["value"] - 1e-6 <= divergence <= upper["value"] + 1e-6
    assert upper["value"] - lower["value"] < 0.1
    best = exact - elbo(model.kernel, X, residuals, model.Z, 1.0, noise=model.noise, jitter=model.q.jitter)
    assert audited.enough.excess == pytest.approx(divergence - best, abs=1e-6)
    assert audited.enough.excess > 20.0
    assert f"{audited.enough.excess:.1f} of them because it is not the best one" in " ".join(str(audited).split())


def test_the_best_law_of_a_library_is_not_stored() -> None:
    """SGPR and the collapsed family have q*, which the rows determine."""
    for library in ("gpjax", "gpjax_0"):
        collapsed = rebuilt(STORED[library]["models"]["linear"]["model"])
        assert type(collapsed).__name__ == "CollapsedVariationalGaussian"
        assert READERS[library](collapsed).q is None
    assert from_gpflow(rebuilt(STORED["gpflow"]["models"]["RQ"]["model"])).q is None


def test_every_library_has_each_mean() -> None:
    for library in READERS:
        means = [READERS[library](rebuilt(each["model"])).mean for each in STORED[library]["models"].values()]
        assert any(mean is None for mean in means)
        assert any(mean is not None and mean.slopes is None for mean in means)
        assert library.startswith("gpjax") or any(mean is not None and mean.slopes is not None for mean in means)


def test_parameters_of_gpjax_are_read_through_their_transformations(monkeypatch) -> None:
    """As Paramax does it: a frozen parameter holds a wrapper inside of its own."""

    class Wrapped:
        def __init__(self, inner, transform):
            self.inner, self.transform = inner, transform

        def unwrap(self):
            return self.transform(self.inner)

    def unwrap(tree):
        inner = unwrap(tree.inner) if isinstance(tree.inner, Wrapped) else tree.inner
        return Wrapped(inner, tree.transform).unwrap()

    def softplus(raw):
        return np.log1p(np.exp(raw))

    monkeypatch.setitem(sys.modules, "paramax", types.SimpleNamespace(unwrap=unwrap))
    kernel = named("RBF")
    kernel.variance = Wrapped(Wrapped(0.3, np.float64), softplus)
    kernel.lengthscale = Wrapped(np.array([0.1, 1.0]), softplus)
    model = from_gpjax(with_prior(kernel=kernel))
    assert model.kernel.variance == softplus(0.3)
    np.testing.assert_array_equal(model.kernel.lengthscale, softplus(np.array([0.1, 1.0])))


@pytest.mark.parametrize("family", [True, False])
def test_conditioned_models_of_gpjax_are_read(family: bool) -> None:
    """``model | data`` holds prior and likelihood, ``family | data`` the variational family."""
    plain, sparse = (rebuilt(STORED["gpjax"]["models"][name]["model"]) for name in ("RBF", "RQ"))
    conditioned = named("CollapsedPosterior") if family else named("ExactPosterior")
    if family:
        conditioned.family = sparse
    else:
        conditioned.prior, conditioned.likelihood = plain.prior, plain.likelihood
    model, same = from_gpjax(conditioned), from_gpjax(sparse if family else plain)
    assert model.kernel == same.kernel
    assert (model.Z is None) != family


def fitted(kernel, D: int = 2, **options):
    """A regressor of scikit-learn with these hyperparameters."""
    rows = np.random.default_rng(3).standard_normal((6, D))
    with np.errstate(divide="ignore"):  # scikit-learn takes the logarithm of a sigma_0 of 0
        return GaussianProcessRegressor(kernel, optimizer=None, **options).fit(rows, rows[:, 0])


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * RationalQuadratic(0.7, 0.4) + WhiteKernel(0.1),
        DotProduct(0.6) * 1.7 + SkMatern(0.8, nu=1.5),
        DotProduct(0.0) + ConstantKernel(0.3),
        Exponentiation(DotProduct(0.6), 3) * 0.5,
        Exponentiation(RBF(0.7) + ConstantKernel(0.2), 2),
        RBF([0.5, 2.0]) + 1.5,
        (DotProduct(0.5) + WhiteKernel(0.2)) * 3.0,
    ],
)
def test_kernels_of_scikit_learn_are_the_same_matrices(kernel) -> None:
    rng = np.random.default_rng(1)
    X, new = rng.standard_normal((9, 2)), rng.standard_normal((4, 2))
    model = from_sklearn(fitted(kernel, alpha=0.01))
    np.testing.assert_allclose(model.kernel(X, new), kernel(X, new), rtol=1e-11, atol=1e-12)
    whole = model.kernel(X) + model.noise * np.eye(9)
    np.testing.assert_allclose(whole, kernel(X) + 0.01 * np.eye(9), rtol=1e-11, atol=1e-12)


def test_the_periodic_kernel_of_scikit_learn_is_read_for_one_input() -> None:
    kernel = 1.5 * ExpSineSquared(0.8, 1.3)
    model = from_sklearn(fitted(kernel, 1, alpha=0.1))
    x = np.random.default_rng(2).standard_normal((12, 1))
    np.testing.assert_allclose(model.kernel(x), kernel(x), rtol=1e-11)
    with pytest.raises(ValueError, match="expected inputs with 1 dimension"):
        model.kernel(np.zeros((3, 2)))
    y = np.sin(5.0 * x[:, 0])
    lower, upper = evidence(model.kernel, x, y, x[:4], noise=model.noise)
    assert float(lower) <= log_evidence(model.kernel, x, y, noise=model.noise) <= float(upper)


def changed(library: str, name: str, **changes):
    """A stored model with other parts."""
    model = rebuilt(STORED[library]["models"][name]["model"])
    for key, value in changes.items():
        setattr(model, key, value)
    return model


def with_prior(**changes):
    """A stored model of GPJax with another kernel or mean."""
    model = rebuilt(STORED["gpjax"]["models"]["RBF"]["model"])
    for key, value in changes.items():
        setattr(model.prior, key, value)
    return model


def torch_model():
    """A stored variational model of GPyTorch."""
    return rebuilt(VARIATIONAL["gpytorch_variational"]["models"]["VariationalStrategy, Cholesky"]["model"])


def with_strategy(name="VariationalStrategy", **attributes):
    """It with another strategy."""
    model = torch_model()
    model.variational_strategy.__class__ = type(name, (), {})
    for key, value in attributes.items():
        setattr(model.variational_strategy, key, value)
    return model


def with_law(**attributes):
    """It with another variational distribution."""
    model = torch_model()
    for key, value in attributes.items():
        setattr(model.variational_strategy._variational_distribution, key, value)
    return model


def jax_family():
    return VARIATIONAL["gpjax_variational"]["models"]["VariationalGaussian"]["model"]


MAXIMUM = {"class": "function", "__name__": "max"}


def named(name: str, **attributes):
    return rebuilt({"class": name, **attributes})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: from_gpytorch(with_strategy("CiqVariationalStrategy")), "got CiqVariationalStrategy"),
        (lambda: from_gpytorch(with_strategy(variational_params_initialized=0.0)), "expected a trained model, got one"),
        (
            lambda: from_gpytorch(with_strategy(_variational_distribution=named("DeltaVariationalDistribution"))),
            "a point has an infinite divergence",
        ),
        (
            lambda: from_gpytorch(with_strategy(_variational_distribution=named("TrilNaturalVariationalDistribution"))),
            "MeanFieldVariationalDistribution or NaturalVariationalDistribution, got TrilNatural",
        ),
        (lambda: from_gpytorch(with_strategy(inducing_points=np.zeros((3, 3)))), "as Z has rows, 3, got 2"),
        (
            lambda: from_gpytorch(with_law(chol_variational_covar=np.diag([1.0, 0.0]))),
            "a covariance of full rank, got one that is fixed in a direction",
        ),
        (lambda: from_gpytorch(with_law(variational_mean=np.zeros((3, 2)))), r"one q\(u\), of one output, got a mean"),
        (lambda: from_gpytorch(with_law(variational_mean=np.array([0.0, np.nan]))), "q.mean: expected a finite number"),
        (
            lambda: from_gpjax(rebuilt(jax_family() | {"class": "DualVariationalGaussian"})),
            "or CollapsedVariationalGaussian, got DualVariationalGaussian",
        ),
        (
            lambda: from_gpflow(changed("gpflow", "RQ", q_mu=np.zeros((2, 2)), q_sqrt=np.ones((2, 2)), whiten=True)),
            r"of one output, got q_sqrt of shape \(2, 2\)",
        ),
        (lambda: from_sklearn(fitted(PairwiseKernel())), "got PairwiseKernel"),
        (
            lambda: from_sklearn(fitted(Exponentiation(RBF(), 0.5))),
            "expected a whole exponent >= 1.*got 0.5",
        ),
        (
            lambda: from_sklearn(fitted(DotProduct() * WhiteKernel())),
            "white noise times kernels with the same",
        ),
        (
            lambda: from_sklearn(fitted(Exponentiation(RBF() + DotProduct(), 7))),
            "products of sums with at most 64 terms",
        ),
        (lambda: from_gpflow(changed("gpflow", "RQ", mean_function=named("Polynomial"))), "got Polynomial"),
        (lambda: from_gpflow(changed("gpflow", "RQ", kernel=named("ArcCosine"))), "got ArcCosine"),
        (
            lambda: from_gpflow(
                changed("gpflow", "RQ", kernel=rebuilt({"class": "Periodic", "base_kernel": {"class": "Matern32"}}))
            ),
            "Periodic kernel of SquaredExponential, got one of Matern32",
        ),
        (
            lambda: from_gpflow(
                changed("gpflow", "RQ", kernel=named("Linear", variance=1.0, active_dims={"slice": [1, None, None]}))
            ),
            "active_dims with column numbers >= 0 and an end",
        ),
        (
            lambda: from_gpytorch(changed("gpytorch", "RQ", covar_module=named("SpectralMixtureKernel"))),
            "got SpectralMixtureKernel",
        ),
        (lambda: from_gpytorch(changed("gpytorch", "RQ", mean_module=named("MultitaskMean"))), "got MultitaskMean"),
        (
            lambda: from_gpytorch(
                changed("gpytorch", "RQ", covar_module=named("LinearKernel", variance=[[[1.0]], [[2.0]]]))
            ),
            r"expected one set of variances, got a batch of shape \(2, 1, 1\)",
        ),
        (lambda: from_gpjax(with_prior(kernel=named("ArcCosine"))), "Matern52, .*got ArcCosine"),
        (lambda: from_gpjax(with_prior(kernel=named("GraphKernel"))), "got GraphKernel"),
        (
            lambda: from_gpjax(with_prior(kernel=rebuilt({"class": "CombinationKernel", "operator": MAXIMUM}))),
            "got CombinationKernel with the operator max",
        ),
        (lambda: from_gpjax(with_prior(kernel=named("Constant", constant=-0.5))), "a constant >= 0, got -0.5"),
        (lambda: from_gpjax(with_prior(kernel=named("Constant", constant=0.0))), "White, .*got noise alone"),
        (
            lambda: from_gpjax(with_prior(kernel=named("Polynomial", degree=2, variance=1.0, shift=-1.0))),
            "a shift >= 0, got degree 2 and shift -1",
        ),
        (
            lambda: from_gpjax(
                with_prior(kernel=named("Linear", variance=1.0, active_dims=[0, -1])),
            ),
            r"active_dims with column numbers >= 0, got \[0, -1\]",
        ),
        (lambda: from_gpjax(with_prior(mean_function=named("SumMeanFunction"))), "Zero or Constant, got SumMean"),
        (
            lambda: from_gpjax(with_prior(mean_function=named("Constant", constant=[1.0, 2.0]))),
            r"expected one mean_function.constant, got shape \(2,\)",
        ),
        (
            lambda: from_gpjax(changed("gpjax", "RBF", likelihood=named("Bernoulli"))),
            "model: expected inducing points, got none: the audit is of a law of inducing variables",
        ),
        (
            lambda: from_gpjax(changed("gpjax", "RBF", likelihood=named("Gaussian", obs_stddev=[0.1, 0.2]))),
            r"expected one likelihood.obs_stddev, got shape \(2,\)",
        ),
        (
            lambda: from_gpjax(with_prior(kernel=named("Linear", variance="a function"))),
            r"expected numbers as variance, got str",
        ),
        (lambda: from_gpjax(named("Prior", kernel=1.0)), r"\(a prior times a likelihood\), got Prior without prior"),
        (
            lambda: from_gpytorch(changed("gpytorch", "RQ", mean_module=named("LinearMean", weights=[1.0, 2.0]))),
            r"linear mean of one output, got coefficients of shape \(2,\)",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
