"""Trained maps z = g(x) from the inputs to R^d, and the features of a kernel of z."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from fitting.features.base import FeaturesAt, KernelFeaturesAt, KernelMap, TrainedMap
from gpbounds.arrays import Array, Float, namespace
from gpbounds.rows.program import Rows


class TransformAt(ABC):
    """g at fixed weights; several threads use it at a time."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of values per row that `fill` writes."""

    @abstractmethod
    def fill(self, X: Array, K: Array) -> None:
        """Write into ``K`` (n, width) what `pull` needs for X (n, D); its last d columns are z."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of weights."""

    @property
    def more(self) -> int:
        """Number of sums behind the derivatives in the vector to which `add` adds, for `finish`."""
        return 0

    @abstractmethod
    def add(self, X: Array, K: Array, cotangent: Array, out: Float) -> None:
        """Add the derivatives of Σ cotangent·z in the weights to ``out`` (size + more,), for K of `fill`.

        The cotangent (n, d) may be overwritten; ``out`` is in host memory.
        """

    def finish(self, out: Float) -> Float:
        """The derivatives (size,), from a vector to which `add` has added for all rows."""
        return out

    def pull(self, X: Array, K: Array, cotangent: Array) -> Float:
        """These derivatives in new memory, for cotangents of these rows only."""
        out = np.zeros(self.size + self.more)
        self.add(X, K, cotangent, out)
        return self.finish(out)


class Transform(ABC):
    """z = g(x) in R^d, with weights that training changes.

    Attributes
    ----------
    dim : int
        d.
    size : int
        Number of weights.
    """

    dim: int

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of weights."""

    @property
    def middle(self) -> Float | None:
        """An input with z = 0 at all weights, if there is one."""
        return None

    @abstractmethod
    def at(self, weights: Float) -> TransformAt:
        """g at these weights."""

    def over(self, X: Array) -> Transform:
        """The same transform for an objective of the rows X: their moments take the place of those of other rows."""
        return self

    def held(self, weights: Float) -> Transform:
        """The function g at these weights with constants in the place of moments of rows."""
        return self

    def project(self, weights: Float, X: Array) -> Array:
        """z (n, d)."""
        g = self.at(weights)
        K = namespace(X).empty((X.shape[0], g.width))
        g.fill(X, K)
        return K[:, -self.dim :]


@dataclass(frozen=True, eq=False)
class Projected:
    """The change of the rows of a partition into z = g(x)."""

    transform: Transform
    weights: Float

    def __call__(self, rows: Rows) -> Rows:
        return rows._replace(X=self.transform.project(self.weights, rows.points))


@dataclass(frozen=True, eq=False)
class Squashed(Transform):
    """z = reach·tanh(g(x)/reach): every z is in the open box ±reach, whatever the weights of g.

    Attributes
    ----------
    inner : Transform
        g.
    reach : array (d,)
    """

    inner: Transform
    reach: Float

    @property
    def dim(self) -> int:  # type: ignore[override]
        """d."""
        return self.inner.dim

    @property
    def size(self) -> int:
        return self.inner.size

    def at(self, weights: Float) -> _SquashedAt:
        return _SquashedAt(self.inner.at(weights), self.reach)

    def over(self, X: Array) -> Squashed:
        return replace(self, inner=self.inner.over(X))

    def held(self, weights: Float) -> Squashed:
        return replace(self, inner=self.inner.held(weights))


@dataclass(frozen=True, eq=False)
class _SquashedAt(TransformAt):
    """z at given weights, behind what g writes; ∂z/∂g = 1 − (z/reach)²."""

    inner: TransformAt
    reach: Float

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def width(self) -> int:
        return self.inner.width + self.reach.size

    @property
    def more(self) -> int:
        return self.inner.more

    def fill(self, X: Array, K: Array) -> None:
        xp, own = namespace(X), self.inner.width
        reach = xp.asarray(self.reach)
        self.inner.fill(X, K[:, :own])
        K[:, own:] = reach * xp.tanh(K[:, own - self.reach.size : own] / reach)

    def add(self, X: Array, K: Array, cotangent: Array, out: Float) -> None:
        own = self.inner.width
        share = K[:, own:] / namespace(X).asarray(self.reach)
        self.inner.add(X, K[:, :own], cotangent * (1.0 - share * share), out)

    def finish(self, out: Float) -> Float:
        return self.inner.finish(out)


@dataclass(frozen=True, eq=False)
class Composed(TrainedMap):
    """Features of a kernel of z = g(x): its hyperparameters, then the weights of g.

    Attributes
    ----------
    inner : KernelMap
        Features on R^d.
    transform : Transform
        g.
    weights : array
        Those of g at the start.
    """

    inner: KernelMap
    transform: Transform
    weights: Float

    @property
    def rank(self) -> int:
        return self.inner.rank

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    @property
    def size(self) -> int:
        return self.inner.size + self.transform.size

    def inside(self, D: int) -> Float:
        return super().inside(D) if self.transform.middle is None else self.transform.middle

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        return np.concatenate([self.inner.start(X, rng), self.weights])

    def at(self, parameters: Float) -> _ComposedAt:
        logs, weights = np.split(parameters, [self.inner.size])
        return _ComposedAt(self.inner.at(logs), self.transform.at(weights), self.transform.dim)

    def over(self, X: Array) -> Composed:
        return replace(self, transform=self.transform.over(X))

    def held(self, parameters: Float) -> Composed:
        return replace(self, transform=self.transform.held(parameters[self.inner.size :]))


@dataclass(frozen=True, eq=False)
class _ComposedAt(FeaturesAt):
    """The features at one kernel and one g."""

    inner: KernelFeaturesAt
    transform: TransformAt
    dim: int

    @property
    def rank(self) -> int:
        return self.inner.rank

    @property
    def width(self) -> int:
        return self.transform.width

    @property
    def more(self) -> int:
        return self.transform.more

    @property
    def effort(self) -> int:
        return max(self.rank, math.isqrt(self.transform.size))

    def fill(self, X: Array, K: Array, V: Array) -> None:
        self.transform.fill(X, K)
        self.inner.fill(K[:, -self.dim :], K, V)

    def pull(self, X: Array, K: Array, V: Array, cotangent: Array) -> Float:
        logs, moved = self.inner.pull_inputs(K[:, -self.dim :], V, cotangent)
        return np.concatenate([logs, self.transform.pull(X, K, moved)])

    def add(self, X: Array, K: Array, V: Array, cotangent: Array, out: Float) -> None:
        logs, moved = self.inner.pull_inputs(K[:, -self.dim :], V, cotangent)
        out[: logs.size] += logs
        self.transform.add(X, K, moved, out[logs.size :])

    def finish(self, weights: Float) -> Float:
        return self.transform.finish(weights)


def kernel_map(features: TrainedMap) -> KernelMap:
    """The features of a kernel, without the transform of its inputs."""
    inner = features.inner if isinstance(features, Composed) else features
    assert isinstance(inner, KernelMap)
    return inner
