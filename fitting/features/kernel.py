"""The covariance function of a feature map at its parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fitting.features.base import TrainedMap
from gpbounds.arrays import Array, Float, as_points
from gpbounds.kernels import Kernel
from gpbounds.linalg.workspace import Workspace


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
        own = self.parameters[len(self.parameter_names) :]
        return replace(self, parameters=np.concatenate([np.asarray(values, dtype=np.float64), own]))

    @property
    def weights(self) -> Float:
        """The parameters that have no bounds."""
        return np.array(self.parameters[len(self.parameter_names) :])

    def with_weights(self, weights: Float, space: Workspace | None = None) -> FeatureKernel:
        """The same map with other weights; its parameters may take the memory of ``space``."""
        memory = None if space is None else space.array("parameters", self.parameters.shape, np)
        return replace(self, parameters=np.concatenate([self.log_parameters, weights], out=memory))
