"""Describe models of other libraries for tests: ``python describe.py gpflow|gpytorch|gpjax`` with that one installed.

A description holds the class names and attributes that `gpbounds.renyi.readers` reads, and what the library computes:
k(X, X'), the noise and the mean at X.  It is stored in ``gpflow.json``, ``gpytorch.json`` and ``gpjax.json``; that of
GPJax before 1.0 in ``gpjax_0.json``.
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
    *("shift", "obs_stddev", "inducing_inputs"),
)
PARTS = (
    *("prior", "posterior", "model"),
    *("kernel", "covar_module", "base_kernel", "likelihood", "mean_function", "mean_module", "inducing_variable"),
)


def described(part):
    """Class name, numbers and parts of an object."""
    record = {"class": type(part).__name__}
    for name in ATTRIBUTES:
        value = getattr(part, name, None)
        if name == "active_dims" and isinstance(value, slice):
            record[name] = {"slice": [value.start, value.stop, value.step]}
        elif value is not None and (hasattr(value, "__array__") or not callable(value)):
            record[name] = numbers(value)
    if hasattr(part, "operator"):
        record["operator"] = {"class": "function", "__name__": part.operator.__name__}
    for name in PARTS:
        if getattr(part, name, None) is not None:
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
        square = square.to_dense() if before else square.as_matrix()
        matrices = kernel.cross_covariance(X, NEW), square, mean(X).ravel()
        yield name, model, *(np.asarray(each) for each in matrices)


def is_old(library: str) -> bool:
    return library == "gpjax" and metadata.version("gpjax").startswith("0.")


LIBRARIES = {"gpflow": gpflow_models, "gpytorch": gpytorch_models, "gpjax": gpjax_models}


def main(library: str) -> None:
    """Write the description beside this file."""
    records = {}
    for name, model, cross, square, mean in LIBRARIES[library]():
        computed = {"cross": cross.tolist(), "square": square.tolist(), "mean": mean.tolist()}
        records[name] = {"model": described(model), **computed}
    whole = {"X": X.tolist(), "new": NEW.tolist(), "Z": Z.tolist(), "models": records}
    name = f"{library}_0.json" if is_old(library) else f"{library}.json"
    Path(__file__).with_name(name).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
