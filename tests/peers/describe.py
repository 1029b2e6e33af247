"""Describe models of other libraries for tests: ``python describe.py gpflow|gpytorch|gpjax`` with that one installed.

A description holds the class names and attributes that `gpbounds.renyi.readers` reads, and what the library computes:
k(X, X'), the noise and the mean at X.  It is stored in ``gpflow.json``, ``gpytorch.json`` and ``gpjax.json``; that of
GPJax before 1.0 in ``gpjax_0.json``.  Models with a q(u) that is not the best one are stored beside it in
``gpflow_variational.json`` etc., with the ELBO, and the mean and the variance of f at new inputs, of the library.
``gpytorch_trained.json`` holds an SVGP that GPyTorch trained, with its rows, ELBO and log p(y), computed by GPyTorch.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(0)
X, NEW, Z = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 3)), RNG.standard_normal((2, 3))
ATTRIBUTES = (
    *("variance", "lengthscales", "lengthscale", "alpha", "period", "offset", "degree", "nu", "power", "c", "A", "b"),
    *("period_length", "outputscale", "constant", "weights", "bias", "Z", "inducing_points", "noise", "active_dims"),
    *("shift", "obs_stddev", "inducing_inputs", "variational_mean", "variational_root_covariance", "jitter"),
    *("q_mu", "q_sqrt", "whiten", "jitter_val", "chol_variational_covar", "_variational_stddev", "natural_vec"),
    *("natural_mat", "variational_params_initialized"),
)
PARTS = (
    *("prior", "posterior", "model", "variational_strategy", "_variational_distribution"),
    *("kernel", "covar_module", "base_kernel", "likelihood", "mean_function", "mean_module", "inducing_variable"),
)
STRATEGIES = ("VariationalStrategy", "UnwhitenedVariationalStrategy")
Y = np.sin(X[:, 0]) + 1.0
MEAN, ROOT = RNG.standard_normal(2), np.array([[0.5, 0.0], [-0.4, 0.3]])
"""The q(u) of variational models."""


def described(part):
    """Class name, numbers and parts of an object."""
    record = {"class": type(part).__name__}
    for name in ATTRIBUTES:
        value = getattr(part, name, None)
        if name == "active_dims" and isinstance(value, slice):
            record[name] = {"slice": [value.start, value.stop, value.step]}
        elif isinstance(value, bool):
            record[name] = value
        elif value is not None and (hasattr(value, "__array__") or not callable(value)):
            record[name] = numbers(value)
    if hasattr(part, "operator"):
        record["operator"] = {"class": "function", "__name__": part.operator.__name__}
    for name in PARTS:
        own = name != "model" or type(part).__name__ not in STRATEGIES  # they hold the model that holds them
        if own and getattr(part, name, None) is not None:
            record[name] = described(getattr(part, name))
    if hasattr(part, "kernels"):
        record["kernels"] = [described(each) for each in part.kernels]
    return record


def numbers(value):
    for step in ("unwrap", "detach", "numpy"):
        value = getattr(value, step)() if hasattr(value, step) else value
    return np.asarray(value, dtype=float).tolist()


def gpflow_models():
    import gpflow
    from gpflow import kernels as k

    kernels = {
        "RQ": k.RationalQuadratic(variance=1.3, lengthscales=[0.7, 1.1, 2.0], alpha=0.6),
        "periodic": k.Periodic(k.SquaredExponential(variance=1.7, lengthscales=0.6), period=1.3),
        "linear": k.Linear(variance=[0.5, 1.0, 2.0]) + k.Constant(0.3),
        "polynomial": k.Polynomial(degree=3, variance=0.4, offset=0.7) * k.Constant(2.0),
        "columns": k.Matern32(0.8, 0.9, active_dims=[2, 0]) + k.SquaredExponential(1.2, 0.5, active_dims=slice(1, 3)),
        "white": k.White(0.25) + k.Exponential(0.6, 1.4) * k.Matern52(1.1, 0.8),
        "product": (k.Linear(0.5, active_dims=[1]) + k.Constant(0.4)) * k.Matern12(1.5, [0.5, 1.0, 1.5]),
    }
    means = [gpflow.functions.Zero(), gpflow.functions.Constant(0.7), gpflow.functions.Linear(np.ones((3, 1)), [0.2])]
    for number, (name, kernel) in enumerate(kernels.items()):
        mean = means[number % 3]
        model = gpflow.models.SGPR((X, X[:, :1]), kernel, Z, mean_function=mean, noise_variance=0.2)
        yield name, model, kernel(X, NEW).numpy(), kernel(X).numpy(), mean(X).numpy().ravel() * np.ones(5)


def gpytorch_models():
    import torch
    from gpytorch import kernels as k
    from gpytorch import likelihoods, means, models

    torch.set_default_dtype(torch.float64)

    def of(kernel, **values):
        kernel.initialize(**{name: torch.as_tensor(value) for name, value in values.items()})
        return kernel

    class Exact(models.ExactGP):
        def __init__(self, kernel, mean):
            likelihood = likelihoods.GaussianLikelihood()
            likelihood.noise = 0.2
            super().__init__(torch.as_tensor(X), torch.as_tensor(X[:, 0]), likelihood)
            self.covar_module, self.mean_module = kernel, mean

    kernels = {
        "RQ": of(
            k.ScaleKernel(of(k.RQKernel(ard_num_dims=3), lengthscale=[[0.7, 1.1, 2.0]], alpha=0.6)), outputscale=1.3
        ),
        "periodic": of(k.PeriodicKernel(), lengthscale=0.6, period_length=1.3),
        "periodic, each": of(
            k.PeriodicKernel(ard_num_dims=3), lengthscale=[[0.6, 0.9, 2.0]], period_length=[[1.3, 2.0, 0.7]]
        ),
        "linear": of(k.LinearKernel(), variance=0.6) + of(k.ConstantKernel(), constant=0.3),
        "linear, each": of(k.LinearKernel(ard_num_dims=3), variance=[[0.6, 1.0, 2.0]]),
        "polynomial": of(k.ScaleKernel(of(k.PolynomialKernel(power=3), offset=0.7)), outputscale=2.0),
        "columns": of(k.ScaleKernel(of(k.RBFKernel(active_dims=(2, 0)), lengthscale=0.7)), outputscale=1.4)
        + of(k.MaternKernel(nu=1.5, active_dims=(1,)), lengthscale=0.9),
        "columns of columns": (of(k.RBFKernel(active_dims=(1,)), lengthscale=0.7) * of(k.LinearKernel(), variance=0.5)),
    }
    linear = means.LinearMean(3)
    linear.initialize(weights=torch.ones(3, 1), bias=torch.tensor([0.2]))
    constant = means.ConstantMean()
    constant.initialize(constant=0.7)
    all_means = [means.ZeroMean(), constant, linear]
    points, others = torch.as_tensor(X), torch.as_tensor(NEW)
    for number, (name, kernel) in enumerate(kernels.items()):
        mean = all_means[number % 3]
        matrices = (kernel(points, others).to_dense(), kernel(points).to_dense(), mean(points))
        yield name, Exact(kernel, mean), *(each.detach().numpy() for each in matrices)


def gpjax_models():
    import gpjax
    import jax
    from gpjax import kernels as k

    jax.config.update("jax_enable_x64", True)
    kernels = {
        "RBF": k.RBF(lengthscale=[0.7, 1.1, 2.0], variance=1.3),
        "RQ": k.RationalQuadratic(lengthscale=[0.7, 1.1, 2.0], variance=1.3, alpha=0.6),
        "periodic": k.Periodic(lengthscale=[0.6, 0.9, 2.0], variance=1.7, period=1.3),
        "linear": k.Linear(variance=0.6) + k.Constant(constant=0.3) + k.Constant(constant=0.0),
        "polynomial": k.Polynomial(degree=3, variance=0.4, shift=0.7) * k.Constant(constant=2.0),
        "homogeneous": k.Polynomial(degree=2, variance=0.4, shift=0.0),
        "columns": k.Matern32([2, 0], 0.9, 0.8) + k.RBF(slice(1, 3), 0.5, 1.2),
        "white": k.White(variance=0.25) + k.Matern12(lengthscale=1.4, variance=0.6) * k.Matern52(lengthscale=1.1),
        "product": (k.Linear([1], variance=0.5) + k.Constant(constant=0.4)) * k.Matern12(lengthscale=[0.5, 1.0, 1.5]),
    }
    families = gpjax.variational_families
    sparse = [
        families.CollapsedVariationalGaussian,
        families.VariationalGaussian,
        families.WhitenedVariationalGaussian,
    ]
    before = is_old("gpjax")
    likelihood = gpjax.likelihoods.Gaussian(**({"num_datapoints": 5} if before else {}), obs_stddev=np.sqrt(0.2))
    for number, (name, kernel) in enumerate(kernels.items()):
        mean = [gpjax.mean_functions.Zero(), gpjax.mean_functions.Constant(0.7)][number % 2]
        model = gpjax.gps.Prior(mean_function=mean, kernel=kernel) * likelihood
        model = model if name == "RBF" else sparse[number % 3](model, inducing_inputs=Z)
        square = kernel.gram(X)
        square = square.to_dense() if hasattr(square, "to_dense") else square.as_matrix()
        matrices = kernel.cross_covariance(X, NEW), square, mean(X).ravel()
        yield name, model, *(np.asarray(each) for each in matrices)


def gpflow_variational():
    import gpflow

    for whiten in (True, False):
        for q_diag in (True, False):
            model = gpflow.models.SVGP(
                gpflow.kernels.SquaredExponential(1.3, [0.7, 1.1, 2.0]),
                gpflow.likelihoods.Gaussian(0.2),
                Z,
                mean_function=gpflow.functions.Constant(0.7),
                q_mu=MEAN[:, None],
                q_sqrt=np.diag(ROOT)[:, None] if q_diag else ROOT[None],
                q_diag=q_diag,
                whiten=whiten,
            )
            mean, variance = model.predict_f(NEW)
            elbo = model.elbo((X, Y[:, None]))
            yield f"whiten={whiten}, q_diag={q_diag}", model, elbo.numpy(), mean.numpy(), variance.numpy()


def gpytorch_variational():
    import gpytorch
    import torch
    from gpytorch import variational as v

    torch.set_default_dtype(torch.float64)

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self, strategy, law):
            super().__init__(strategy(self, torch.as_tensor(Z), law))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))
            self.mean_module.initialize(constant=0.7)
            self.covar_module.base_kernel.lengthscale = torch.tensor([0.7, 1.1, 2.0])
            self.covar_module.outputscale = 1.3

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    precision = np.linalg.inv(ROOT @ ROOT.T)
    laws = {
        "Cholesky": {"variational_mean": MEAN, "chol_variational_covar": ROOT},
        "MeanField": {"variational_mean": MEAN, "_variational_stddev": -np.diag(ROOT)},
        "Natural": {"natural_vec": precision @ MEAN, "natural_mat": -0.5 * precision},
    }
    for strategy in (v.VariationalStrategy, v.UnwhitenedVariationalStrategy):
        for name, values in laws.items():
            law = getattr(v, f"{name}VariationalDistribution")(2)
            for key, value in values.items():
                getattr(law, key).data = torch.as_tensor(value)
            model, likelihood = Sparse(strategy, law), gpytorch.likelihoods.GaussianLikelihood()
            model.variational_strategy.variational_params_initialized.fill_(1)
            likelihood.noise = 0.2
            objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=5)
            elbo = 5.0 * objective(model(torch.as_tensor(X)), torch.as_tensor(Y)).item()
            model.eval()
            law_of_f = model(torch.as_tensor(NEW))
            model.likelihood = likelihood
            found = law_of_f.mean.detach().numpy(), law_of_f.variance.detach().numpy()
            yield f"{strategy.__name__}, {name}", model, np.asarray(elbo), *found


def gpytorch_trained():
    """An SVGP of 30 points after 60 epochs of Adam on 300 rows; ELBO and log p(y) with its hyperparameters."""
    import gpytorch
    import torch

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    draw = np.random.default_rng(5)
    X = draw.uniform(-1.5, 1.5, (300, 3)).round(3)
    y = 4.0 + np.sin(2.0 * X[:, 0]) * np.cos(1.5 * X[:, 1]) + 0.5 * X[:, 2] + 0.1 * draw.standard_normal(300)
    inputs, targets = torch.as_tensor(X), torch.as_tensor(y.round(3))

    def prior(model, x):
        return gpytorch.distributions.MultivariateNormal(model.mean_module(x), model.covar_module(x))

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self):
            law = gpytorch.variational.CholeskyVariationalDistribution(30)
            super().__init__(gpytorch.variational.VariationalStrategy(self, inputs[:30].clone(), law))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=3))

        forward = prior

    class Exact(gpytorch.models.ExactGP):
        forward = prior

    model, likelihood = Sparse(), gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=300)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    for _ in range(60):
        for batch in torch.randperm(300).split(30):
            adam.zero_grad()
            (-objective(model(inputs[batch]), targets[batch])).backward()
            adam.step()
    elbo = 300.0 * objective(model(inputs), targets).item()
    exact = Exact(inputs, targets, likelihood)
    exact.mean_module, exact.covar_module = model.mean_module, model.covar_module
    log_evidence = 300.0 * gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, exact)(exact(inputs), targets).item()
    model.likelihood = likelihood
    computed = {"elbo": elbo, "log evidence": log_evidence}
    return {"X": X.tolist(), "y": targets.tolist(), "model": described(model), **computed}


def gpjax_variational():
    import gpjax
    import jax

    jax.config.update("jax_enable_x64", True)
    size = {"num_datapoints": 5} if is_old("gpjax") else {}
    prior = gpjax.gps.Prior(
        mean_function=gpjax.mean_functions.Constant(0.7),
        kernel=gpjax.kernels.RBF(lengthscale=[0.7, 1.1, 2.0], variance=1.3),
    )
    joint = prior * gpjax.likelihoods.Gaussian(**size, obs_stddev=np.sqrt(0.2))
    for name in ("VariationalGaussian", "WhitenedVariationalGaussian"):
        given = {"variational_mean": MEAN[:, None], "variational_root_covariance": jax.numpy.asarray(ROOT)}
        model = getattr(gpjax.variational_families, name)(joint, inducing_inputs=Z, **given)
        elbo = gpjax.objectives.elbo(model, gpjax.Dataset(X=X, y=Y[:, None]))
        law = model(NEW)
        mean, variance = (each() if callable(each) else each for each in (law.mean, law.variance))
        yield name, model, np.asarray(elbo), np.asarray(mean), np.asarray(variance)


def is_old(library: str) -> bool:
    return library == "gpjax" and metadata.version("gpjax").startswith("0.")


LIBRARIES = {
    "gpflow": (gpflow_models, gpflow_variational),
    "gpytorch": (gpytorch_models, gpytorch_variational),
    "gpjax": (gpjax_models, gpjax_variational),
}


def main(library: str) -> None:
    """Write the descriptions beside this file."""
    exact, variational = LIBRARIES[library]
    file = f"{library}_0" if is_old(library) else library
    records = {}
    for name, model, cross, square, mean in exact():
        computed = {"cross": cross.tolist(), "square": square.tolist(), "mean": mean.tolist()}
        records[name] = {"model": described(model), **computed}
    store(file, {"X": X.tolist(), "new": NEW.tolist(), "Z": Z.tolist(), "models": records})
    records = {}
    for name, model, elbo, mean, variance in variational():
        computed = {"elbo": float(elbo), "mean": mean.ravel().tolist(), "variance": variance.ravel().tolist()}
        records[name] = {"model": described(model), **computed}
    store(f"{file}_variational", {"X": X.tolist(), "y": Y.tolist(), "new": NEW.tolist(), "models": records})
    if library == "gpytorch":
        store("gpytorch_trained", gpytorch_trained())


def store(name: str, whole: object) -> None:
    """Write one description."""
    text = json.dumps(whole, indent=1) + "\n"
    Path(__file__).with_name(f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
