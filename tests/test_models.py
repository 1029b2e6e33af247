"""Models of other libraries: the same kernel matrices, noise and inducing points, or an error that explains why not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, PairwiseKernel, WhiteKernel
from sklearn.gaussian_process.kernels import Matern as SkMatern

from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.likelihoods import Bernoulli, Poisson
from gpbounds.means import LinearMean
from gpbounds.renyi import Model, elbo, evidence, from_gpflow, from_gpytorch, from_sklearn, gap, log_evidence

POSITIVE = st.floats(0.05, 20.0)
X = np.random.default_rng(0).standard_normal((12, 2))


# --- scikit-learn -----------------------------------------------------------------------------------------------------


def regressor(kernel, X=X, **options):
    """A fitted regressor with these hyperparameters."""
    return GaussianProcessRegressor(kernel, optimizer=None, **options).fit(X, np.arange(float(len(X))))


@given(a=POSITIVE, b=POSITIVE, noise=POSITIVE, nu=st.sampled_from([0.5, 0.9, 1.5, 2.5, np.inf]))
def test_sklearn_kernels_are_the_same_matrices(a: float, b: float, noise: float, nu: float) -> None:
    forms = [
        a * RBF([b, 1.0]) + WhiteKernel(noise),
        ConstantKernel(a) * (RBF(b) + SkMatern(b, nu=nu)) + WhiteKernel(noise),
        a * SkMatern(b, nu=nu) * RBF(a) * 2.0 + WhiteKernel(noise) * b + WhiteKernel(0.5),
        (RBF(a) + WhiteKernel(noise)) * (SkMatern(b, nu=nu) + WhiteKernel(a)),
    ]
    for kernel in forms:
        imported = from_sklearn(regressor(kernel, alpha=1e-3))
        whole = imported.kernel(X) + imported.noise * np.eye(len(X))
        np.testing.assert_allclose(whole, kernel(X) + 1e-3 * np.eye(len(X)), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(imported.kernel(X, X[:4] + 0.1), kernel(X, X[:4] + 0.1), rtol=1e-8, atol=1e-12)
        assert imported.Z is None


def test_a_fitted_regressor_has_the_same_evidence() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(40)
    model = GaussianProcessRegressor(1.0 * RBF(1.0) + WhiteKernel(0.1), random_state=0).fit(X, y)
    imported = from_sklearn(model)
    truth = model.log_marginal_likelihood_value_
    assert log_evidence(imported.kernel, X, y, noise=imported.noise) == pytest.approx(truth, rel=1e-7)
    lower, upper = evidence(imported.kernel, X, y, X[:6], noise=imported.noise)
    assert float(lower) - 1e-6 <= truth <= float(upper) + 1e-6
    assert from_sklearn(regressor(None, alpha=0.1)) == Model(SquaredExponential(), 0.1, None)


def test_a_regressor_with_alpha_of_each_row_has_the_same_evidence(tmp_path) -> None:
    """Also in other units of y, with a WhiteKernel, and after a file."""
    alpha = np.linspace(0.1, 0.9, 12)
    for kernel, white in ((2.0 * RBF(0.7), 0.0), (2.0 * RBF(0.7) + WhiteKernel(0.3), 0.3)):
        fitted = regressor(kernel, alpha=alpha, normalize_y=True)
        y = np.arange(12.0)
        from_sklearn(fitted).save(tmp_path / "model.json")
        model = Model.load(tmp_path / "model.json")
        np.testing.assert_allclose(model.noise, (alpha + white) * y.var(), rtol=1e-12)
        value = log_evidence(model.kernel, X, model.residuals(X, y), noise=model.noise)
        truth = fitted.log_marginal_likelihood_value_ - 12.0 * np.log(y.std())
        assert value == pytest.approx(truth, rel=1e-9)
    assert np.ndim(from_sklearn(regressor(RBF(), alpha=np.full(12, 0.1))).noise) == 0


# --- stand-ins with the attributes that the libraries document --------------------------------------------------------


class Tensor:
    """A stand-in for a parameter: numpy(), and for one library detach() and cpu() before it."""

    def __init__(self, value) -> None:
        self.value = np.asarray(value, dtype=float)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.value


def stand_in(name: str, **attributes):
    return type(name, (), {})() if not attributes else _filled(type(name, (), {})(), attributes)


def _filled(model, attributes):
    for key, value in attributes.items():
        setattr(model, key, value)
    return model


def flow(name: str, variance=1.0, lengthscales=1.0, active_dims=slice(None)):
    return stand_in(name, variance=Tensor(variance), lengthscales=Tensor(lengthscales), active_dims=active_dims)


def flow_model(kernel, Z=None, noise=0.2, mean="Zero"):
    inducing = {} if Z is None else {"inducing_variable": stand_in("InducingPoints", Z=Tensor(Z))}
    likelihood = stand_in("Gaussian", variance=Tensor(noise))
    return stand_in("SGPR", kernel=kernel, likelihood=likelihood, mean_function=stand_in(mean), **inducing)


def torch_model(kernel, noise=(0.2,), mean=None, **attributes):
    return stand_in(
        "Model",
        covar_module=kernel,
        likelihood=stand_in("GaussianLikelihood", noise=Tensor(noise)),
        mean_module=mean or stand_in("ZeroMean"),
        **attributes,
    )


def rbf(lengthscale=((0.7,),), name="RBFKernel", **attributes):
    return stand_in(name, lengthscale=Tensor(lengthscale), active_dims=None, **attributes)


def scaled(kernel, outputscale=2.0):
    return stand_in("ScaleKernel", base_kernel=kernel, outputscale=Tensor(outputscale), active_dims=None)


def test_fixed_noise_of_gpytorch_is_that_of_each_row() -> None:
    noise = np.linspace(0.1, 0.9, 12)
    fixed = stand_in("FixedNoiseGaussianLikelihood", noise=Tensor(noise))
    model = from_gpytorch(torch_model(scaled(rbf())), fixed)
    y = np.sin(X[:, 0])
    A = model.kernel(X) + np.diag(noise)
    truth = -0.5 * (12 * np.log(2.0 * np.pi) + np.linalg.slogdet(A)[1] + y @ np.linalg.solve(A, y))
    assert log_evidence(model.kernel, X, y, noise=model.noise) == pytest.approx(truth, rel=1e-12)
    with pytest.raises(ValueError, match=r"noise: expected one number, or one for each row.*got \(1, 12\)"):
        from_gpytorch(torch_model(rbf()), stand_in("FixedNoiseGaussianLikelihood", noise=Tensor(noise[None])))


def test_gpflow_models() -> None:
    r = np.sqrt(((X[:, None] - X[None]) ** 2 / np.array([0.5, 2.0]) ** 2).sum(axis=2))
    formulas = {
        "SquaredExponential": np.exp(-0.5 * r**2),
        "Exponential": np.exp(-0.5 * r),
        "Matern12": np.exp(-r),
        "Matern32": (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
        "Matern52": (1 + np.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-np.sqrt(5) * r),
    }
    for name, matrix in formulas.items():
        imported = from_gpflow(flow_model(flow(name, 1.7, [0.5, 2.0]), X[:3]))
        np.testing.assert_allclose(imported.kernel(X), 1.7 * matrix, rtol=1e-9)
        assert imported.noise == 0.2
        np.testing.assert_array_equal(imported.Z, X[:3])
    first, second = flow("Matern32", 0.5, 0.8), flow("SquaredExponential", 2.0, 1.5)
    left, right = Matern(1.5, 0.5, 0.8)(X), SquaredExponential(2.0, 1.5)(X)
    for name, whole in (("Sum", left + right), ("Product", left * right)):
        imported = from_gpflow(flow_model(stand_in(name, kernels=[first, second])))
        np.testing.assert_allclose(imported.kernel(X), whole, rtol=1e-10)
        assert imported.Z is None


def test_gpytorch_models() -> None:
    Z = X[:4]
    kernel = SquaredExponential(2.0, 0.7)
    inner = stand_in("InducingPointKernel", base_kernel=scaled(rbf()), inducing_points=Tensor(Z), active_dims=None)
    sparse = from_gpytorch(torch_model(inner))
    outer = stand_in("InducingPointKernel", base_kernel=rbf(), inducing_points=Tensor(Z), active_dims=None)
    law = stand_in(
        "CholeskyVariationalDistribution", variational_mean=Tensor([0.0] * 4), chol_variational_covar=Tensor(np.eye(4))
    )
    variational = stand_in(
        "VariationalStrategy", inducing_points=Tensor(Z), jitter_val=1e-6, _variational_distribution=law
    )
    models = [sparse, from_gpytorch(torch_model(scaled(outer)))]
    models.append(from_gpytorch(torch_model(scaled(rbf()), variational_strategy=variational)))
    for imported in models:
        assert (imported.kernel, imported.noise) == (kernel, 0.2)
        np.testing.assert_array_equal(imported.Z, Z)
    matern = from_gpytorch(torch_model(scaled(rbf(((0.7, 1.3),), "MaternKernel", nu=2.5), 3.0)))
    assert matern.kernel == Matern(2.5, 3.0, [0.7, 1.3])
    assert matern.Z is None
    parts = [scaled(rbf()), rbf(((1.1,),), "MaternKernel", nu=0.5)]
    added = from_gpytorch(torch_model(stand_in("AdditiveKernel", kernels=parts)))
    np.testing.assert_allclose(added.kernel(X), kernel(X) + Matern(0.5, 1.0, 1.1)(X), rtol=1e-12)
    times = from_gpytorch(torch_model(scaled(stand_in("ProductKernel", kernels=parts), 5.0)))
    np.testing.assert_allclose(times.kernel(X), 5.0 * kernel(X) * Matern(0.5, 1.0, 1.1)(X), rtol=1e-12)
    apart = torch_model(scaled(rbf()))
    apart.likelihood = None
    assert from_gpytorch(apart, stand_in("GaussianLikelihood", noise=Tensor([0.3]))).noise == 0.3
    y = np.sin(X[:, 0])
    lower, upper = evidence(sparse.kernel, X, y, sparse.Z, noise=sparse.noise)
    assert lower.terms["elbo 1"] == pytest.approx(float(elbo(kernel, X, y, Z, 1.0, noise=0.2)))
    assert float(gap(sparse.kernel, X, y, sparse.Z, 1.0, noise=sparse.noise)[0]) <= float(upper) - lower.terms["elbo 1"]


def _link(name: str):
    """A function that is known by its name, as the inverse links of GPflow are."""

    def link(f):
        return f

    link.__name__ = name
    return link


def variational_flow(likelihood):
    """An SVGP of GPflow with two inducing points."""
    model = flow_model(flow("SquaredExponential", 1.7, [0.5, 2.0]), X[:2], mean="Zero")
    laws = {"q_mu": Tensor([[0.3], [-0.2]]), "q_sqrt": Tensor([[[0.5, 0.0], [0.1, 0.7]]]), "whiten": True}
    return _filled(model, {"likelihood": likelihood, **laws})


@pytest.mark.parametrize(
    ("name", "link", "expected", "noted"),
    [
        ("Bernoulli", "inv_probit", Bernoulli("probit"), True),
        ("Bernoulli", "sigmoid", Bernoulli("logit"), False),
        ("Poisson", "exp", Poisson("exp"), False),
        ("Poisson", "softplus", Poisson("softplus"), False),
    ],
)
def test_labels_and_counts_of_gpflow_are_read_with_their_law(name, link, expected, noted) -> None:
    own = {"binsize": Tensor(1.0)} if name == "Poisson" else {}
    imported = from_gpflow(variational_flow(stand_in(name, invlink=_link(link), **own)))
    assert imported.likelihood == expected
    assert any("is not concave" in note for note in imported.notes) == noted
    np.testing.assert_array_equal(imported.q.mean, [0.3, -0.2])
    np.testing.assert_array_equal(imported.q.factor, [[0.5, 0.0], [0.1, 0.7]])
    named = from_gpflow(variational_flow(stand_in(name, invlink=_link("mine"), **own)), likelihood=expected)
    assert named.likelihood == expected


def test_labels_and_counts_of_gpytorch_are_read_with_their_law() -> None:
    law = stand_in(
        "CholeskyVariationalDistribution", variational_mean=Tensor([0.4, 0.0]), chol_variational_covar=Tensor(np.eye(2))
    )
    strategy = stand_in(
        "VariationalStrategy", inducing_points=Tensor(X[:2]), jitter_val=1e-6, _variational_distribution=law
    )
    model = torch_model(scaled(rbf()), variational_strategy=strategy)
    for likelihood, expected in (
        (stand_in("BernoulliLikelihood"), Bernoulli("probit")),
        (Poisson("exp"), Poisson("exp")),
    ):
        imported = from_gpytorch(model, likelihood)
        assert imported.likelihood == expected
        np.testing.assert_array_equal(imported.q.mean, [0.4, 0.0])
        assert imported.q.jitter == 1e-6


@pytest.mark.parametrize(
    ("likelihood", "match"),
    [
        (stand_in("StudentT", df=4.0, scale=1.0), r"got StudentT: .*not concave in f.*ELBO ≤ log p\(y\)"),
        (stand_in("Poisson", invlink=_link("square")), "inverse link exp or softplus, got square: pass likelihood="),
        (stand_in("Poisson", invlink=_link("exp"), binsize=Tensor(2.0)), "a Poisson with binsize 1"),
    ],
)
def test_other_likelihoods_of_gpflow_are_refused(likelihood, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        from_gpflow(variational_flow(likelihood))


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: from_sklearn(regressor(PairwiseKernel())), "kernel made of ConstantKernel, RBF.*got PairwiseKernel"),
        (lambda: from_sklearn(regressor(WhiteKernel())), "got noise alone"),
        (
            lambda: from_sklearn(regressor(RBF(), X[:2], alpha=0.0)),
            "noise: expected a positive finite number, got 0.0",
        ),
        (lambda: from_sklearn(object()), "expected a scikit-learn GaussianProcessRegressor, got object without kernel"),
        (lambda: from_gpflow(flow_model(flow("Cosine"))), "made of SquaredExponential, Exponential.*got Cosine"),
        (lambda: from_gpflow(flow_model(flow("Matern12"), noise=[0.1, 0.2])), "expected one likelihood.variance"),
        (
            lambda: from_gpflow(stand_in("Model", kernel=None, likelihood=stand_in("Bernoulli"))),
            "expected a Bernoulli with the inverse link inv_probit or sigmoid, got none",
        ),
        (
            lambda: from_gpytorch(torch_model(stand_in("CosineKernel"))),
            "RBFKernel, MaternKernel.*got CosineKernel",
        ),
        (lambda: from_gpytorch(torch_model(rbf(((0.1,), (0.2,))))), r"got a batch of shape \(2, 1\)"),
        (lambda: from_gpytorch(torch_model(rbf(), noise=[0.1, 0.2])), "expected one likelihood.noise"),
        (lambda: from_gpytorch(stand_in("Model", covar_module=rbf())), "likelihood: expected one"),
        (lambda: from_gpytorch(stand_in("Model")), "expected a GPyTorch model, got Model without covar_module"),
    ],
)
def test_what_is_not_understood_is_refused(call, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Z", [None, X[:3] / 3.0])
def test_a_file_holds_the_model_with_all_digits(tmp_path, Z) -> None:
    kernel = SquaredExponential(0.1, [1.0 / 3.0, 2.0]) + Matern(1.5, 0.7, 1e-3) * SquaredExponential()
    mean = LinearMean(1.0 / 3.0, None if Z is None else [1.0 / 7.0, 2.0])
    Model(kernel, 1.0 / 7.0, Z, mean).save(tmp_path / "model.json")
    read = Model.load(tmp_path / "model.json")
    assert read.noise == 1.0 / 7.0
    assert (read.kernel(X) == kernel(X)).all()
    assert (read.Z is None) == (Z is None)
    assert Z is None or (read.Z == Z).all()
    assert read.mean == mean
    Model(kernel, 1.0, Z).save(tmp_path / "model.json")
    assert Model.load(tmp_path / "model.json").mean is None


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[1]",
        '{"kind": "imported model", "version": 2}',
        '{"kind": "imported model", "version": 1}',
        '{"kind": "imported model", "version": 1, "kernel": {"type": "SquaredExponential"}, "noise": -1, "Z": null}',
        '{"kind": "imported model", "version": 1, "kernel": {"type": "Cubic"}, "noise": 1, "Z": null}',
    ],
)
def test_a_file_that_is_no_model_is_refused_with_its_name(tmp_path, text) -> None:
    (tmp_path / "model.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"model\.json: expected a model that gpbounds\.renyi\.Model\.save wrote"):
        Model.load(tmp_path / "model.json")
