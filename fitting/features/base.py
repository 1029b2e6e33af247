"""The protocol of feature maps, and what the maps of this package have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from fitting.features.device import DeviceFeatures
from gpbounds.arrays import Array, Float, as_points, namespace
from gpbounds.kernels import Kernel, Stationary
from gpbounds.linalg.workspace import Workspace


@runtime_checkable
class FeatureMap(Protocol):
    """A map φ from rows x (D,) to features φ(x) (rank,), with parameters that training changes.

    The model is y ~ N(0, ΞΞᵀ + σ²I), where the rows of Ξ are features.  Parameters are one vector (p,) of real numbers
    in float64 on the host; p may be 0.  Rows come in chunks, and chunks of one pass come from several threads: a map
    must not change while it is used, and the features of a row must not depend on the other rows.  A map that depends
    on the data, or on random numbers, is made by an object with ``prepare(X, Y, rng)``, a `FeatureChoice`.

    Attributes
    ----------
    rank : int
        Number of features.
    """

    @property
    def rank(self) -> int:
        """Number of features; an attribute is enough."""

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        """The parameters (p,) at which training starts, from all rows X (N, D)."""

    def __call__(self, parameters: Float, X: Array) -> Array:
        """Ξ (n, rank), for n rows X (n, D) on their device."""

    def vjp(self, parameters: Float, X: Array) -> tuple[Array, Callable[[Array], Float]]:
        """Ξ (n, rank), and the function from a cotangent (n, rank) to the derivatives of Σ cotangent·Ξ (p,).

        The function may overwrite the cotangent.
        """


class FeaturesAt(ABC):
    """The features of a map at fixed parameters; several threads use it at a time."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of features."""

    @property
    def width(self) -> int:
        """The number of values per row that `pull` needs besides the features."""
        return 0

    @property
    def more(self) -> int:
        """Number of sums behind the derivatives in the vector to which `add` adds, for `finish`."""
        return 0

    @property
    def effort(self) -> int:
        """The number m for which computing the features takes about m² flops per row, and at least the rank."""
        return self.rank

    @abstractmethod
    def fill(self, X: Array, K: Array, V: Array) -> None:
        """Write the features of X (n, D) into ``V`` (n, rank), and into ``K`` (n, width) what `pull` needs."""

    @abstractmethod
    def pull(self, X: Array, K: Array, V: Array, cotangent: Array) -> Float:
        """Derivatives of Σ cotangent·V in the parameters (p,), for K and V of `fill`; the cotangent is overwritten."""

    def add(self, X: Array, K: Array, V: Array, cotangent: Array, out: Float) -> None:
        """Add what `pull` returns to ``out`` (p,), or what `finish` needs for it to ``out`` (p + more,)."""
        out += self.pull(X, K, V, cotangent)

    def finish(self, weights: Float) -> Float:
        """The derivatives in the weights, from the entries of a vector to which `add` has added for all rows."""
        return weights

    @property
    def unread(self) -> Callable[[Array, Array, Array], Array] | None:
        """(X, V, cotangent) ↦ derivatives (p,) on a GPU, without a read by the host; None if there is `pull` alone."""
        return None

    def filled(self, X: Array) -> tuple[Array, Array]:
        """K (n, width) and V (n, rank) of X, in new memory."""
        xp, n = namespace(X), X.shape[0]
        K, V = xp.empty((n, self.width)), xp.empty((n, self.rank))
        self.fill(X, K, V)
        return K, V


class KernelFeaturesAt(FeaturesAt):
    """Features that approximate a kernel; they also have derivatives in their inputs."""

    @abstractmethod
    def pull_inputs(self, X: Array, V: Array, cotangent: Array) -> tuple[Float, Array]:
        """Derivatives in the kernel's `log_parameters` (p,), and in X (n, D)."""

    def pull(self, X: Array, K: Array, V: Array, cotangent: Array) -> Float:
        return self.pull_inputs(X, V, cotangent)[0]

    @property
    @abstractmethod
    def on_device(self) -> DeviceFeatures:
        """The same features on a GPU."""

    @property
    @abstractmethod
    def each(self) -> bool:
        """Whether the derivatives of `on_device` are final; otherwise those in the lengthscales are summed to one."""

    @property
    def unread(self) -> Callable[[Array, Array, Array], Array]:
        def pull(X: Array, V: Array, cotangent: Array) -> Array:
            derivatives = self.on_device.pull(X, V, cotangent)
            if self.each:
                return derivatives
            return namespace(X).concatenate([derivatives[:1], derivatives[1:].sum().reshape(1)])

        return pull


class TrainedMap(ABC):
    """A `FeatureMap` of this package: `at` prepares the features at given parameters once for all chunks.

    Attributes
    ----------
    rank : int
    names : tuple of str
        Names of the leading parameters, which are logarithms of positive hyperparameters; the first is "variance", a
        factor of ΞΞᵀ.  The other parameters are weights without bounds.
    """

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of features."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the leading parameters."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of parameters."""

    @abstractmethod
    def start(self, X: Array, rng: np.random.Generator) -> Float:
        """The parameters at which training starts."""

    @abstractmethod
    def at(self, parameters: Float) -> FeaturesAt:
        """The features at these parameters."""

    def inside(self, D: int) -> Float:
        """An input (D,) that has features; 0 but for features of a box."""
        return np.zeros(D)

    def over(self, X: Array) -> TrainedMap:
        """The same map for an objective of the rows X: their moments take the place of those of other rows."""
        return self

    def held(self, parameters: Float) -> TrainedMap:
        """The map that has the same features at these parameters, with constants in the place of moments of rows."""
        return self

    def __call__(self, parameters: Float, X: Array) -> Array:
        """Ξ (n, rank)."""
        return self.at(parameters).filled(X)[1]

    def vjp(self, parameters: Float, X: Array) -> tuple[Array, Callable[[Array], Float]]:
        """Ξ, and the function from a cotangent to derivatives in the parameters."""
        features = self.at(parameters)
        K, V = features.filled(X)
        return V, lambda cotangent: features.pull(X, K, V, cotangent)


class KernelMap(TrainedMap):
    """Features that approximate a kernel; their parameters are its `log_parameters`.

    Attributes
    ----------
    kernel : Kernel
        Its family, and its hyperparameters at the start.
    """

    kernel: Kernel

    @property
    def names(self) -> tuple[str, ...]:
        return self.kernel.parameter_names

    @property
    def size(self) -> int:
        return len(self.names)

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        return self.kernel.log_parameters

    def kernel_at(self, parameters: Float) -> Kernel:
        """The kernel with these hyperparameters."""
        return self.kernel.with_log_parameters(parameters[: self.size])

    @abstractmethod
    def at(self, parameters: Float) -> KernelFeaturesAt:
        """The features at these hyperparameters."""


class StationaryMap(KernelMap):
    """Features of a squared exponential or Matérn kernel."""

    kernel: Stationary

    def kernel_at(self, parameters: Float) -> Stationary:
        kernel = super().kernel_at(parameters)
        assert isinstance(kernel, Stationary)
        return kernel

    def logs(self, in_variance: float, in_lengthscales: Float) -> Float:
        """Derivatives in the kernel's `log_parameters`, from those in log variance and in each log lengthscale (D,)."""
        each = in_lengthscales if self.kernel.dim is not None else [in_lengthscales.sum()]
        return np.concatenate([[in_variance], each])


# The covariance function of a feature map at its parameters.


@dataclass(frozen=True, eq=False)
class FeatureKernel(Kernel):
    """k(x, x') = φ(x)ᵀφ(x').

    Attributes
    ----------
    features : TrainedMap
        φ.
    parameters : array (p,)
        Logarithms of the positive hyperparameters that ``features.names`` names, then weights.

    >>> from fitting.features import MercerMap
    >>> from gpbounds import SquaredExponential
    >>> features = MercerMap.chosen(SquaredExponential(), 12, "best", np.zeros(1), np.ones(1))
    >>> kernel = FeatureKernel(features, features.kernel.log_parameters)
    >>> kernel.parameter_names, kernel([[0.0]], [[1.0]]).round(4)  # exp(-1/2) = 0.6065
    (('variance', 'lengthscale'), array([[0.6065]]))
    """

    features: TrainedMap
    parameters: Float

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        first = self.features(self.parameters, as_points(X1, "X1").astype(np.float64, copy=False))
        if X2 is None:
            return first @ first.T
        return first @ self.features(self.parameters, as_points(X2, "X2").astype(np.float64, copy=False)).T

    def diag(self, X: ArrayLike | Array) -> Array:
        Xi = self.features(self.parameters, as_points(X).astype(np.float64, copy=False))
        return (Xi * Xi).sum(axis=1)

    @property
    def max_variance(self) -> float:
        """Infinity: no bound is known for features in general."""
        return float("inf")

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return self.features.names

    @property
    def log_parameters(self) -> Float:
        return np.array(self.parameters[: len(self.parameter_names)])

    def with_log_parameters(self, values: ArrayLike) -> FeatureKernel:
        weights = self.parameters[len(self.parameter_names) :]
        return replace(self, parameters=np.concatenate([np.asarray(values, dtype=np.float64), weights]))

    def over(self, X: Array) -> FeatureKernel:
        """The kernel of an objective of the rows X (`TrainedMap.over`)."""
        return replace(self, features=self.features.over(X))

    def held(self) -> FeatureKernel:
        """The same function of two inputs, with constants in the place of moments of rows."""
        return replace(self, features=self.features.held(self.parameters))

    @property
    def weights(self) -> Float:
        """The parameters that have no bounds."""
        return np.array(self.parameters[len(self.parameter_names) :])

    def with_weights(self, weights: Float, space: Workspace | None = None) -> FeatureKernel:
        """The same map with other weights; its parameters may take the memory of ``space``."""
        memory = None if space is None else space.array("parameters", self.parameters.shape, np)
        return replace(self, parameters=np.concatenate([self.log_parameters, weights], out=memory))
