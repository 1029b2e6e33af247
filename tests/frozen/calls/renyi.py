"""One data set: evidence, gap, prediction, risk, models trained elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import decay, line, normal, numbers, outputs, plane, repeated
from language import BITS, BLAS, Call, Cases, added, call, matern, part, reading, se, then

cases = Cases("renyi", BLAS)


def renyi(name: str, /, **arguments: Any) -> Call:
    return call(f"gpbounds.renyi.{name}", **arguments)


L, P, R, D = line(), plane(), repeated(), outputs()
ON = {
    "line, se": {"kernel": se(1.3, 0.9), "X": L.X, "y": L.y, "Z": L.Z, "noise": 0.1},
    "plane, se ard": {"kernel": se(1.0, [1.0, 2.0, 4.0]), "X": P.X, "y": P.y, "Z": P.Z, "noise": 0.2},
    "plane, matern": {"kernel": matern(1.5, 1.5, 2.0), "X": P.X, "y": P.y, "Z": P.Z, "noise": 0.05},
    "repeated, sum": {"kernel": added(se(1.0, 1.5), matern(0.5, 0.2)), "X": R.X, "y": R.y, "Z": R.Z, "noise": 0.1},
}
Z_IS_X = {"kernel": se(1.0, 1.0), "X": P.X[:9], "y": P.y[:9], "Z": P.X[:9], "noise": 0.3}
ONE = {"kernel": se(), "X": [0.5], "y": [1.0], "Z": [0.0], "noise": 0.1}


def without_y(on: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in on.items() if name != "y"}


for name, on in ON.items():
    for alpha in (-1.0, 0.0, 0.4, 1.0):
        cases.add(f"elbo, {name}, alpha {alpha:g}", renyi("elbo", **on, alpha=alpha))
    for alpha in (0.5, 1.0):
        cases.add(f"exact_gap, {name}, alpha {alpha:g}", renyi("exact_gap", **on, alpha=alpha))
        cases.add(f"expected_gap, {name}, alpha {alpha:g}", renyi("expected_gap", **without_y(on), alpha=alpha))
        cases.add(f"gap_variance, {name}, alpha {alpha:g}", renyi("gap_variance", **without_y(on), alpha=alpha))
        cases.add(f"gap_from_trace, {name}, alpha {alpha:g}", renyi("gap_from_trace", **on, alpha=alpha))
        for form in ("sharpest", "printed"):
            options = {"alpha": alpha, "form": form}
            label = f"{name}, alpha {alpha:g}, {form}"
            cases.add(f"gap, {label}", renyi("gap", **on, **options))
            cases.add(f"expected_gap_bounds, {label}", renyi("expected_gap_bounds", **without_y(on), **options))
        for method in ("streamed", "blocks"):
            cases.add(f"gap, {name}, alpha {alpha:g}, {method}", renyi("gap", **on, alpha=alpha, method=method))
    cases.add(f"evidence, {name}", renyi("evidence", **on))
    cases.add(f"evidence, {name}, cheap", renyi("evidence", **on, members="cheap", block=8))
    cases.add(f"inducing_posterior, {name}", renyi("inducing_posterior", **on, alpha=0.5))
    bare = {key: on[key] for key in ("kernel", "X", "y", "noise")}
    cases.add(f"log_evidence, {name}", renyi("log_evidence", **bare))
cases.add("elbo, orders below 0", [renyi("elbo", **ON["line, se"], alpha=a) for a in (-50.0, float("-inf"))])
cases.add("elbo, above 1", renyi("elbo", **ON["line, se"], alpha=1.02))
cases.add("elbo, Z = X", [renyi("elbo", **Z_IS_X, alpha=a) for a in (-1.0, 0.5, 1.0)])
cases.add("elbo, jitter", renyi("elbo", **ON["line, se"], alpha=0.5, jitter=1e-4))
cases.add("elbo, one point", renyi("elbo", **ONE, alpha=1.0))
cases.add("exact_gap, Z = X", renyi("exact_gap", **Z_IS_X, alpha=1.0))
cases.add("exact_gap, below 0", renyi("exact_gap", **ON["line, se"], alpha=-0.7))
cases.add("gap, Z = X", renyi("gap", **Z_IS_X, alpha=1.0))
cases.add("gap, one point", renyi("gap", **ONE, alpha=0.5))
several = {"kernel": se(1.0, [1.5, 12.0]), "X": D.X, "y": D.y, "Z": D.Z, "noise": 0.1}
cases.add("gap, two outputs", renyi("gap", **several, alpha=0.5))
cases.add("gap, two outputs, streamed", renyi("gap", **several, alpha=1.0, method="streamed"))
cases.add("evidence, two outputs", renyi("evidence", **several))
cases.add("evidence, orders", renyi("evidence", **ON["plane, matern"], alphas=[0.0, 0.3, 1.0]))
cases.add("evidence, all", renyi("evidence", **ON["line, se"], members="all", alphas=[0.5, 1.0]))
cases.add("evidence, two members", renyi("evidence", **ON["line, se"], members=["trace", "determinant"]))
cases.add("evidence, Z = X", renyi("evidence", **Z_IS_X))
cases.add("evidence, jitter", renyi("evidence", **ON["line, se"], jitter=1e-6))
for alpha in (0.0, 0.3, 1.0):
    options = {**ON["plane, matern"], "X_new": P.new, "alpha": alpha}
    cases.add(f"predict, alpha {alpha:g}", renyi("predict", **options))
    cases.add(f"predict, alpha {alpha:g}, covariance", renyi("predict", **options, full_cov=True))
cases.add("predict, line", renyi("predict", **ON["line, se"], X_new=L.new, alpha=0.9, jitter=1e-8))
cases.add("inducing_posterior, titsias", renyi("inducing_posterior", **ON["line, se"], alpha=1.0))

record = renyi("nystrom", kernel=se(1.3, 0.9), X=R.X, Z=R.Z)
cases.add(
    "nystrom", reading(record, "N", "M", "known", "rank", "trace", "largest", "eigenvalues", "K", "residual", "Q", "V")
)
cases.add(
    "nystrom, jitter", reading(renyi("nystrom", kernel=se(), X=L.X, Z=L.Z, jitter=1e-3), "rank", "trace", "eigenvalues")
)
cases.add("nystrom, jitter used", part(renyi("nystrom", kernel=se(), X=L.X, Z=L.Z, jitter="auto"), "chol.jitter"))

cases.add("direction_factor", [renyi("direction_factor", alpha=a) for a in (1e-3, 0.3, 0.5, 0.9)], BITS)
spectrum = np.concatenate([decay(12), np.zeros(3)])
for y in ("any", "prior"):
    for alpha in (0.2, 1.0):
        options = {"eigenvalues": spectrum, "M": [[0, 1, 5], [12, 14, 40]], "noise": 0.1, "alpha": alpha}
        cases.add(f"minimum_gap, y {y}, alpha {alpha:g}", renyi("minimum_gap", **options, y=y), BITS)
cases.add("minimum_gap, unsorted", renyi("minimum_gap", eigenvalues=numbers(9), M=3, noise=0.01, alpha=0.5), BITS)
lower = {"eigenvalues_lower": spectrum, "noise": 0.1}
targets = ((1.0, 0.1), (1.0, 1e-6), (0.1, 1.0), (0.5, 1e9))
cases.add(
    "needed_from_eigenvalues", [renyi("needed_from_eigenvalues", **lower, alpha=a, target=t) for a, t in targets], BITS
)
options = {"kernel": se(1.0, 0.4), "X": L.X, "noise": 0.05, "alpha": 1.0}
cases.add("needed", [renyi("needed", **options, target=t) for t in (1e-4, 0.1, 3.0)])
cases.add("needed, landmarks", renyi("needed", **options, target=0.1, landmarks=12))
cases.add(
    "oracle_risk_bound", renyi("oracle_risk_bound", log_true=-10.0, log_model=-12.0, N=20, alpha=0.5, delta=0.1), BITS
)
grid = {"log_true": [-10.0, 5.0], "log_model": [-11.0, -3.0], "N": 50, "alpha": [[0.1], [0.9]], "delta": 0.01}
cases.add("oracle_risk_bound, arrays", renyi("oracle_risk_bound", **grid), BITS)
models = {"log_true": -10.0, "log_models": [-12.0, -11.0, -30.0], "N": 20, "alpha": 0.5, "delta": 0.1}
cases.add("pac_risk_bound", renyi("pac_risk_bound", **models), BITS)
cases.add("pac_risk_bound, prior", renyi("pac_risk_bound", **models, prior=[0.2, 0.5, 0.3]), BITS)
cases.add(
    "pac_risk_bound, posterior",
    renyi("pac_risk_bound", **models, prior=[0.2, 0.5, 0.3], posterior=[0.0, 1.0, 0.0]),
    BITS,
)


# --- models trained elsewhere: stand-ins with the attributes that the libraries document


class Tensor:
    """A parameter of another library."""

    def __init__(self, value: Any) -> None:
        self.value = np.asarray(value, dtype=np.float64)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.value


def instance_of(name: str, /, **attributes: Any) -> Any:
    """An object of a class of this name."""
    made = type(name, (), {})()
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


def flow(name: str, variance: float, lengthscales: Any) -> Any:
    return instance_of(name, variance=Tensor(variance), lengthscales=Tensor(lengthscales), active_dims=slice(None))


def flow_model(kernel: Any, **more: Any) -> Any:
    likelihood = instance_of("Gaussian", variance=Tensor(0.2))
    return instance_of("SGPR", kernel=kernel, likelihood=likelihood, mean_function=instance_of("Zero"), **more)


def torch(name: str, lengthscale: Any, **more: Any) -> Any:
    return instance_of(name, lengthscale=Tensor([lengthscale]), active_dims=None, **more)


def torch_model(kernel: Any, **more: Any) -> Any:
    likelihood = instance_of("GaussianLikelihood", noise=Tensor([0.3]))
    return instance_of(
        "ExactGP", covar_module=kernel, likelihood=likelihood, mean_module=instance_of("ZeroMean"), **more
    )


def scaled(kernel: Any) -> Any:
    return instance_of("ScaleKernel", base_kernel=kernel, outputscale=Tensor(2.0), active_dims=None)


def regressor(kernel: Any, **options: Any) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor

    return GaussianProcessRegressor(kernel, **options)


def sklearn_models() -> list[Any]:
    from sklearn.gaussian_process.kernels import RBF, Matern, WhiteKernel

    return [
        regressor(2.0 * RBF([0.5, 1.5]) + WhiteKernel(0.1)),
        regressor(3.0 * Matern(0.7, nu=2.5) * RBF(2.0), alpha=0.05),
        regressor(RBF(1.0) + Matern(0.7, nu=1.5) + WhiteKernel(0.1), alpha=1e-3),
    ]


Z = normal(3, 2)
read = ("kernel", "noise", "Z")
for i, model in enumerate(sklearn_models()):
    cases.add(f"from_sklearn {i}", reading(renyi("from_sklearn", model=model), *read))
flows = [
    flow_model(
        flow("SquaredExponential", 1.7, [0.5, 2.0]), inducing_variable=instance_of("InducingPoints", Z=Tensor(Z))
    ),
    flow_model(flow("Exponential", 1.0, 0.3)),
    flow_model(instance_of("Sum", kernels=[flow("Matern32", 0.5, 0.8), flow("Matern52", 2.0, 1.5)])),
]
for i, model in enumerate(flows):
    cases.add(f"from_gpflow {i}", reading(renyi("from_gpflow", model=model), *read))
inducing = instance_of(
    "InducingPointKernel",
    base_kernel=scaled(torch("RBFKernel", [0.7, 1.3])),
    inducing_points=Tensor(Z),
    active_dims=None,
)
torches = [
    torch_model(inducing),
    torch_model(
        scaled(torch("MaternKernel", [0.7], nu=2.5)), variational_strategy=instance_of("V", inducing_points=Tensor(Z))
    ),
    torch_model(
        instance_of("ProductKernel", kernels=[torch("RBFKernel", [0.7]), torch("MaternKernel", [1.1], nu=0.5)])
    ),
]
for i, model in enumerate(torches):
    cases.add(f"from_gpytorch {i}", reading(renyi("from_gpytorch", model=model), *read))
own = reading(renyi("Model", kernel=se(), noise=0.1, Z=None), *read)
cases.add("Model", own)
cases.add(
    "elbo of a model",
    renyi(
        "elbo", kernel=part(renyi("from_gpflow", model=flows[1]), "kernel"), X=L.X, y=L.y, Z=L.Z, noise=0.2, alpha=0.5
    ),
)
cases.add("nystrom, order", then(record, "order", alpha=0.5, noise=0.1))
