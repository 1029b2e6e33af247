"""Feature maps of other libraries: JAX functions, PyTorch modules, scikit-learn transformers.

A library is imported when a model is fitted; none is a dependency.  The libraries compute on the host; CuPy arrays are
copied there and back.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.features.base import FeatureMap
from fitting.features.choices import FeatureChoice
from gpbounds.arrays import Array, Float, host, namespace, place
from gpbounds.errors import shown

_LARGEST_SEED = 2**31 - 1


def from_jax(apply: Callable[[Any, Any], Any], parameters: Any) -> FeatureChoice:
    """The features ``apply(parameters, X)`` (n, rank) of JAX, for ``LowRankGP(features=...)``.

    Parameters
    ----------
    apply : function of (parameters, X)
        Made of JAX operations; a row of its result depends on the same row of X (n, D) only.
    parameters : a pytree of arrays
        Where training starts.

    JAX computes in float32 unless ``jax.config.update("jax_enable_x64", True)`` was called; a warning says so.
    """
    return JaxFeatures(apply, parameters)


def from_torch(module: Any) -> FeatureChoice:
    """The features ``module(X)`` (n, rank) of PyTorch, for ``LowRankGP(features=...)``.

    Parameters
    ----------
    module : torch.nn.Module
        Its parameters are where training starts.  A copy in float64 and in evaluation mode is trained, so that a row of
        its result depends on the same row of X (n, D) only; the module itself does not change.
    """
    return TorchFeatures(module)


def from_sklearn(transformer: Any) -> FeatureChoice:
    """The fixed features ``transformer.transform(X)``, for ``LowRankGP(features=...)``: their variance is trained.

    Parameters
    ----------
    transformer : a scikit-learn transformer or Pipeline
        A copy is fitted to the training rows.  Where its ``random_state`` is None, the model's decides.

    >>> from sklearn.kernel_approximation import RBFSampler
    >>> from fitting import LowRankGP
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(40)
    >>> model = LowRankGP(from_sklearn(RBFSampler(gamma=0.5, n_components=30)), random_state=0).fit(X, y)
    >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.2)
    True
    """
    return SklearnFeatures(transformer)


@dataclass(eq=False, repr=False)
class JaxFeatures(FeatureChoice):
    """Arguments of `from_jax`."""

    apply: Callable[[Any, Any], Any]
    parameters: Any

    def check(self) -> None:
        if not callable(self.apply):
            raise ValueError(f"apply: expected a function of (parameters, X), got {shown(self.apply)}")

    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> FeatureMap:
        import jax
        from jax.flatten_util import ravel_pytree

        vector, back = ravel_pytree(self.parameters)
        if not jax.config.jax_enable_x64:
            warnings.warn(
                'from_jax: JAX computes in float32; jax.config.update("jax_enable_x64", True) switches to float64',
                UserWarning,
                stacklevel=2,
            )
        features = jax.jit(lambda vector, X: self.apply(back(vector), X))
        shape = jax.eval_shape(features, vector, host(X[:1])).shape
        return _JaxMap(_columns("apply(parameters, X)", shape), features, np.asarray(vector, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class _JaxMap:
    """A `FeatureMap`: the features, as a function of (vector of parameters, X)."""

    rank: int
    features: Callable[[Any, Any], Any]
    vector: Float

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        """The parameters that were passed."""
        return self.vector

    def __call__(self, parameters: Float, X: Array) -> Array:
        return place(np.array(self.features(parameters, host(X)), dtype=np.float64), namespace(X))

    def vjp(self, parameters: Float, X: Array) -> tuple[Array, Callable[[Array], Float]]:
        """Ξ, and the function from its cotangent to derivatives in the parameters."""
        import jax

        points = host(X)
        Xi, pull = jax.vjp(lambda vector: self.features(vector, points), jax.numpy.asarray(parameters))

        def pulled(cotangent: Array) -> Float:
            return np.asarray(pull(jax.numpy.asarray(host(cotangent), dtype=Xi.dtype))[0], dtype=np.float64)

        return place(np.array(Xi, dtype=np.float64), namespace(X)), pulled


@dataclass(eq=False, repr=False)
class TorchFeatures(FeatureChoice):
    """Arguments of `from_torch`."""

    module: Any

    def check(self) -> None:
        if not (callable(self.module) and hasattr(self.module, "named_parameters")):
            raise ValueError(f"module: expected a torch.nn.Module, got {shown(self.module)}")

    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> FeatureMap:
        import torch

        module = copy.deepcopy(self.module).double().cpu().eval()
        with torch.no_grad():
            shape = tuple(module(torch.from_numpy(np.array(host(X[:1])))).shape)
        return _TorchMap(_columns("module(X)", shape), module)


@dataclass(frozen=True, eq=False)
class _TorchMap:
    """A `FeatureMap`: the outputs of a module; its parameters in the order of ``named_parameters``."""

    rank: int
    module: Any

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        """The parameters of the module."""
        parts = [each.detach().numpy().ravel() for each in self.module.parameters()]
        return np.concatenate([np.zeros(0), *parts])

    def _features(self, vector: Any, X: Array) -> Any:
        import torch

        pieces, at = {}, 0
        for name, each in self.module.named_parameters():
            pieces[name] = vector[at : at + each.numel()].view(each.shape)
            at += each.numel()
        return torch.func.functional_call(self.module, pieces, (torch.from_numpy(np.array(host(X))),))

    def __call__(self, parameters: Float, X: Array) -> Array:
        import torch

        with torch.no_grad():
            Xi = self._features(torch.from_numpy(np.array(parameters)), X)
        return place(Xi.numpy(), namespace(X))

    def vjp(self, parameters: Float, X: Array) -> tuple[Array, Callable[[Array], Float]]:
        """Ξ, and the function from its cotangent to derivatives in the parameters."""
        import torch

        vector = torch.from_numpy(np.array(parameters)).requires_grad_()
        with torch.enable_grad():
            Xi = self._features(vector, X)

        def pulled(cotangent: Array) -> Float:
            bar = torch.from_numpy(np.array(host(cotangent)))
            return torch.autograd.grad(Xi, vector, grad_outputs=bar)[0].numpy()

        return place(Xi.detach().numpy(), namespace(X)), pulled


@dataclass(eq=False, repr=False)
class SklearnFeatures(FeatureChoice):
    """Arguments of `from_sklearn`."""

    transformer: Any

    def check(self) -> None:
        if isinstance(self.transformer, type) or not (
            hasattr(self.transformer, "transform") and hasattr(self.transformer, "fit")
        ):
            raise ValueError(f"transformer: expected an object with fit and transform, got {shown(self.transformer)}")

    def prepare(self, X: Array, Y: Array, rng: np.random.Generator) -> FeatureMap:
        from sklearn.base import clone

        fitted = clone(self.transformer)
        for name, value in sorted(fitted.get_params().items()):
            if name.split("__")[-1] == "random_state" and value is None:
                fitted.set_params(**{name: int(rng.integers(_LARGEST_SEED))})
        targets = host(Y)
        fitted.fit(host(X), targets[:, 0] if targets.shape[1] == 1 else targets)
        return SklearnMap(_columns("transform(X)", np.shape(fitted.transform(host(X[:1])))), fitted)


@dataclass(frozen=True, eq=False)
class SklearnMap:
    """A `FeatureMap` without parameters: what a fitted transformer returns."""

    rank: int
    transformer: Any

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        """No parameters."""
        return np.zeros(0)

    def __call__(self, parameters: Float, X: Array) -> Array:
        Xi = self.transformer.transform(host(X))
        dense = Xi.toarray() if hasattr(Xi, "toarray") else Xi
        return place(np.asarray(dense, dtype=np.float64), namespace(X))

    def vjp(self, parameters: Float, X: Array) -> tuple[Array, Callable[[Array], Float]]:
        """Ξ, and a function that returns no derivatives."""
        return self(parameters, X), lambda cotangent: np.zeros(0)


def _columns(name: str, shape: tuple[int, ...]) -> int:
    """The rank, from the shape of the features of one row."""
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(f"{name}: expected features of shape (n, rank), got {shape} for one row")
    return int(shape[1])
