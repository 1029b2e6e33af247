"""The same objective at the same point by every library: value and gradient in the library's own free parameters.

Each function takes (task, X, y, Z), the task "vfe", "fitc" or "exact", and returns the loss −F and its gradient as a
function of a vector, with the vector at which variance, lengthscales and noise have the values below.  All in float64.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

NOISE, LENGTHSCALE = 0.1, 3.0
Loss = Callable[[Any], tuple[float, Any]]
Problem = tuple[Loss, Any]


def ours(task: str, X: Any, y: Any, Z: Any) -> Problem:
    from fitting.objectives.objective import objective
    from fitting.objectives.packing import packing
    from fitting.starts.starts import strides
    from gpbounds import SquaredExponential

    kernel = SquaredExponential(1.0, np.full(X.shape[1], LENGTHSCALE))
    how = packing(kernel, NOISE, None if task == "exact" else Z, scale=strides(kernel, X))
    return how.loss(objective(X, y, task)), how.pack(how.start)


def gpflow(task: str, X: Any, y: Any, Z: Any) -> Problem:
    import gpflow as library

    kernel = library.kernels.SquaredExponential(1.0, np.full(X.shape[1], LENGTHSCALE))
    both = X, y[:, None]
    if task == "exact":
        model = library.models.GPR(both, kernel, noise_variance=NOISE)
    elif task == "vfe":
        model = library.models.SGPR(both, kernel, Z, noise_variance=NOISE)
    else:
        model = library.models.GPRFITC(both, kernel, Z, noise_variance=NOISE)
    scipy, variables = library.optimizers.Scipy(), model.trainable_variables
    closure = lambda: -model.maximum_log_likelihood_objective()  # noqa: E731
    evaluate = scipy.eval_func(closure, variables, {}, compile=True)
    start = np.array(library.optimizers.Scipy.initial_parameters(variables))

    def loss(vector: Any) -> tuple[float, Any]:
        f, g = evaluate(vector)
        return float(f), np.asarray(g)

    return loss, start


def gpytorch(task: str, X: Any, y: Any, Z: Any) -> Problem:
    import gpytorch as library
    import torch

    points, targets = torch.tensor(X), torch.tensor(y)
    kernel = library.kernels.ScaleKernel(library.kernels.RBFKernel(ard_num_dims=X.shape[1])).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 1.0, LENGTHSCALE
    likelihood = library.likelihoods.GaussianLikelihood().double()
    likelihood.noise = NOISE

    class Model(library.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(points, targets, likelihood)
            self.mean_module = library.means.ZeroMean()
            self.covar_module = (
                kernel
                if task == "exact"
                else library.kernels.InducingPointKernel(kernel, torch.tensor(Z.copy()), likelihood)
            )

        def forward(self, x: Any) -> Any:
            return library.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model().double()
    model.train()
    likelihood.train()
    objective = library.mlls.ExactMarginalLogLikelihood(likelihood, model)
    free = list(model.parameters())
    parts = [p.numel() for p in free]

    def loss(vector: Any) -> tuple[float, Any]:
        with torch.no_grad():
            for p, piece in zip(free, torch.split(torch.as_tensor(vector), parts), strict=True):
                p.copy_(piece.view_as(p))
        model.zero_grad()
        dense = task == "exact"  # by Cholesky; the low-rank structure has a path of its own, without approximation
        with library.settings.fast_computations(*[not dense] * 3):
            value = -objective(model(points), targets) * len(y)
        value.backward()
        return float(value), torch.cat([p.grad.reshape(-1) for p in free]).cpu().numpy()

    return loss, torch.cat([p.detach().reshape(-1) for p in free]).cpu().numpy().copy()


def sklearn(task: str, X: Any, y: Any, Z: Any) -> Problem:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0) * RBF(np.full(X.shape[1], LENGTHSCALE)) + WhiteKernel(NOISE)
    model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)

    def loss(vector: Any) -> tuple[float, Any]:
        f, g = model.log_marginal_likelihood(vector, eval_gradient=True, clone_kernel=False)
        return -float(f), -np.asarray(g)

    return loss, model.kernel_.theta


def _of_jax(negative: Any, parameters: Any) -> Problem:
    """A loss of a tree of JAX arrays as one of a vector."""
    import jax
    from jax.flatten_util import ravel_pytree

    start, back = ravel_pytree(parameters)
    both = jax.jit(jax.value_and_grad(lambda vector: negative(back(vector))))

    def loss(vector: Any) -> tuple[float, Any]:
        f, g = both(vector)
        return float(f), np.asarray(g, dtype=np.float64)

    return loss, np.asarray(start)


def gpjax(task: str, X: Any, y: Any, Z: Any) -> Problem:
    import jax

    jax.config.update("jax_enable_x64", True)
    import gpjax as library
    import jax.numpy as jnp
    from flax import nnx

    data = library.Dataset(X=jnp.asarray(X), y=jnp.asarray(y)[:, None])
    kernel = library.kernels.RBF(lengthscale=jnp.full(X.shape[1], LENGTHSCALE), variance=1.0)
    prior = library.gps.Prior(mean_function=library.mean_functions.Zero(), kernel=kernel)
    posterior = prior * library.likelihoods.Gaussian(num_datapoints=len(y), obs_stddev=jnp.asarray(np.sqrt(NOISE)))
    if task == "exact":
        model, value = posterior, library.objectives.conjugate_mll
    else:
        model = library.variational_families.CollapsedVariationalGaussian(
            posterior=posterior, inducing_inputs=jnp.asarray(Z)
        )
        value = library.objectives.collapsed_elbo
    kinds = library.parameters.PositiveReal, library.parameters.Real
    graph, positive, real, rest = nnx.split(model, *kinds, ...)
    logs = jax.tree_util.tree_map(jnp.log, positive)

    def held(a: Any) -> Any:
        """Of the real numbers only Z is free; the mean stays 0."""
        return a if a.shape == Z.shape else jax.lax.stop_gradient(a)

    def negative(both: Any) -> Any:
        plain = jax.tree_util.tree_map(jnp.exp, both[0]), jax.tree_util.tree_map(held, both[1])
        return -value(nnx.merge(graph, *plain, rest), data)

    return _of_jax(negative, (logs, real))


def tinygp(task: str, X: Any, y: Any, Z: Any) -> Problem:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from tinygp import GaussianProcess, kernels, transforms

    points, targets = jnp.asarray(X), jnp.asarray(y)

    def negative(logs: Any) -> Any:
        kernel = jnp.exp(logs["variance"]) * transforms.Linear(jnp.exp(-logs["lengthscale"]), kernels.ExpSquared())
        return -GaussianProcess(kernel, points, diag=jnp.exp(logs["noise"])).log_probability(targets)

    start = {"variance": 0.0, "lengthscale": np.full(X.shape[1], np.log(LENGTHSCALE)), "noise": np.log(NOISE)}
    return _of_jax(negative, {name: jnp.asarray(value) for name, value in start.items()})


PEERS: dict[str, tuple[str, Callable[..., Problem], tuple[str, ...]]] = {
    "fitting": ("fitting", ours, ("vfe", "fitc", "exact")),
    "GPflow": ("gpflow", gpflow, ("vfe", "fitc", "exact")),
    "GPyTorch": ("gpytorch", gpytorch, ("vfe", "exact")),
    "GPJax": ("gpjax", gpjax, ("vfe", "exact")),
    "tinygp": ("tinygp", tinygp, ("exact",)),
    "scikit-learn": ("sklearn", sklearn, ("exact",)),
}
"""Name: its module, its problem, and its tasks."""


def installed(task: str) -> list[str]:
    """Names of the libraries that are here and know the task, ours first."""
    return [name for name, (module, _, tasks) in PEERS.items() if task in tasks and importlib.util.find_spec(module)]
