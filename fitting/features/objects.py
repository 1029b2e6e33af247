"""Feature maps that a user passes as an object: made for the data, a trained factor, checks of every result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.features.base import FeatureMap, FeaturesAt, TrainedMap
from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.errors import NonFinite
from gpbounds.validation import count

_PROTOCOL = ("rank", "start", "__call__", "vjp")


def check_features(features: Any) -> None:
    """Refuse an object that is neither a `FeatureMap` nor makes one (`fitting.features.FeatureChoice`)."""
    if isinstance(features, type):
        raise ValueError(f"features: expected an object, got the class {features.__name__}: call it with arguments")
    if not hasattr(features, "prepare"):
        _checked_map(features)
    elif hasattr(features, "check"):
        features.check()


def trained_map(features: Any, X: Array, Y: Array, rng: np.random.Generator) -> TrainedMap:
    """The map of ``features`` for all rows X (N, D) and targets Y (N, P), with a trained factor.

    Raises
    ------
    ValueError
        for an object that is no `FeatureMap` and makes none, or a start that is no vector of finite numbers.
    """
    made = features.prepare(X, Y, rng) if hasattr(features, "prepare") else features
    return made if isinstance(made, TrainedMap) else Scaled.of(made, X, rng)


def _checked_map(features: Any) -> FeatureMap:
    """``features`` if it has the members of `FeatureMap`; otherwise an error.

    Raises
    ------
    ValueError
        for another object.
    """
    missing = [name for name in _PROTOCOL if not hasattr(features, name)]
    if missing:
        raise ValueError(
            "features: expected 'fourier', 'leverage', 'mercer', 'hilbert' or an object with "
            f"{', '.join(_PROTOCOL)}, got {features!r} without {', '.join(missing)}"
        )
    count("features.rank", features.rank)
    return features


@dataclass(frozen=True, eq=False)
class Scaled(TrainedMap):
    """√variance·φ(x) for a user's map φ: log variance, then the parameters of φ.

    Attributes
    ----------
    inner : FeatureMap
        φ.
    parameters : array (p,)
        Those of φ at the start.
    """

    inner: FeatureMap
    parameters: Float

    @classmethod
    def of(cls, features: Any, X: Array, rng: np.random.Generator) -> Scaled:
        """With the map's own start, which is checked.

        Raises
        ------
        ValueError
            for an object that is no `FeatureMap`, or a start that is no vector of finite numbers.
        """
        inner = _checked_map(features)
        parameters = np.asarray(inner.start(X, rng), dtype=np.float64)
        if parameters.ndim != 1:
            raise ValueError(f"features.start: expected a vector of parameters (p,), got shape {parameters.shape}")
        if not np.isfinite(parameters).all():
            first = int(np.flatnonzero(~np.isfinite(parameters))[0])
            raise NonFinite(f"features.start: expected finite parameters, got {parameters[first]} for number {first}")
        return cls(inner, parameters)

    @property
    def rank(self) -> int:
        return int(self.inner.rank)

    @property
    def names(self) -> tuple[str, ...]:
        return ("variance",)

    @property
    def size(self) -> int:
        return 1 + len(self.parameters)

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        return np.concatenate([[0.0], self.parameters])

    def at(self, parameters: Float) -> _ScaledAt:
        return _ScaledAt(self.inner, math.exp(0.5 * float(parameters[0])), np.array(parameters[1:]))


@dataclass(frozen=True, eq=False)
class _ScaledAt(FeaturesAt):
    """The features at given parameters; wrong results of the user's functions are refused."""

    inner: FeatureMap
    scale: float
    parameters: Float

    @property
    def rank(self) -> int:
        return int(self.inner.rank)

    def fill(self, X: Array, K: Array, V: Array) -> None:
        V[...] = self._checked(X, self.inner(self.parameters, X))
        V *= self.scale

    def pull(self, X: Array, K: Array, V: Array, cotangent: Array) -> Float:
        xp = namespace(X)
        variance = 0.5 * float(xp.vdot(cotangent, V))
        if not self.parameters.size:
            return np.array([variance])
        pair = self.inner.vjp(self.parameters, X)
        if not (isinstance(pair, tuple) and len(pair) == 2 and callable(pair[1])):
            raise ValueError(f"features.vjp: expected a pair of features and a function, got {_kind(pair)}")
        Xi, pull = pair
        self._checked(X, Xi)
        cotangent *= self.scale
        slopes = np.asarray(pull(cotangent), dtype=np.float64)
        if slopes.shape != self.parameters.shape:
            raise ValueError(
                f"features.vjp: expected derivatives of shape {self.parameters.shape}, one for each parameter, got "
                f"{slopes.shape}"
            )
        if not np.isfinite(slopes).all():
            first = int(np.flatnonzero(~np.isfinite(slopes))[0])
            raise NonFinite(f"features.vjp: expected finite derivatives, got {slopes[first]} for parameter {first}")
        return np.concatenate([[variance], slopes])

    def _checked(self, X: Array, Xi: Array) -> Array:
        xp, shape = namespace(X), (X.shape[0], self.rank)
        if getattr(getattr(Xi, "dtype", None), "kind", "") not in tuple("fiub"):
            raise ValueError(f"features: expected an array of real numbers, shape {shape}, got {_kind(Xi)}")
        if tuple(Xi.shape) != shape:
            raise ValueError(
                f"features: expected shape {shape} for {shape[0]} rows and rank {shape[1]}, got {tuple(Xi.shape)}"
            )
        finite = xp.isfinite(Xi).all(axis=1)
        if not bool(finite.all()):
            first = int(xp.argmin(finite))
            row = np.array2string(host(X[first]), max_line_width=10**6, threshold=8)
            raise NonFinite(f"features: expected finite numbers, got NaN or infinity for the row x = {row}")
        return Xi


def _kind(value: Any) -> str:
    """What a user's function returned, for an error."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_kind, value))})"
    numbers = f" of {value.dtype}" if hasattr(value, "dtype") else ""
    return f"{type(value).__name__}{numbers}"
