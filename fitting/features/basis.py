"""A feature map as a basis: V = Ξ, and K = Q = ΞΞᵀ, so that K − Q is 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fitting.features.base import FeatureKernel, FeaturesAt
from fitting.rows.basis import Basis, PullBack, Pulled
from gpbounds.arrays import Array, Float, namespace
from gpbounds.readings import Unread


@dataclass(frozen=True, eq=False)
class FeatureBasis(Basis):
    """The features of a `FeatureKernel`.

    Attributes
    ----------
    kernel : FeatureKernel
    features : FeaturesAt
        Its map at its parameters.
    """

    kernel: FeatureKernel
    features: FeaturesAt

    @classmethod
    def of(cls, kernel: FeatureKernel) -> FeatureBasis:
        """The basis of a kernel."""
        return cls(kernel, kernel.features.at(kernel.parameters))

    @property
    def rank(self) -> int:
        return self.features.rank

    @property
    def width(self) -> int:
        return self.features.width

    @property
    def effort(self) -> int:
        return self.features.effort

    @property
    def exact(self) -> bool:
        return True

    def fill(self, X: Array, K: Array, V: Array) -> None:
        self.features.fill(X, K, V)

    def residual(self, X: Array, V: Array) -> Array:
        return namespace(X).zeros(X.shape[0])

    def lift(self, B: Array) -> Array:
        return B

    def pull_back(self, memory: Callable[[int], Float] = np.zeros) -> _FeaturePullBack:
        return _FeaturePullBack(self, memory(self.kernel.parameters.size + self.features.more))

    def finish(self, pulled: Pulled, outer: Array) -> Pulled:
        if not self.features.more:
            return pulled
        assert isinstance(pulled.weights, np.ndarray)
        return replace(pulled, weights=self.features.finish(pulled.weights))


class _FeaturePullBack(PullBack):
    """Adds derivatives in the parameters of the map to ``parameters`` (p,), or to a sum that stays on a GPU."""

    def __init__(self, basis: FeatureBasis, parameters: Float) -> None:
        self.basis, self.parameters = basis, parameters
        self._unread: Array | None = None

    def features(self, X: Array, cotangent: Array, K: Array, V: Array) -> None:
        unread = None if namespace(X) is np else self.basis.features.unread
        if unread is None:
            self.basis.features.add(X, K, V, cotangent, self.parameters)
            return
        derivatives = unread(X, V, cotangent)
        self._unread = derivatives if self._unread is None else self._unread + derivatives

    lifted = features

    def diagonal(self, X: Array, cotangent: Array) -> None:
        """Nothing: the variance is that of the features, whose cotangent includes it."""

    def statistics(self) -> Pulled:
        if self._unread is not None:  # all parameters are hyperparameters
            return Pulled(Unread([(self._unread, np.asarray)]), weights=self.parameters[self._unread.size :])
        hyperparameters, weights = np.split(self.parameters, [len(self.basis.kernel.parameter_names)])
        return Pulled(hyperparameters, weights=weights)
