"""Features of a trained linear projection of the inputs to d dimensions.

With x̃ the standardised inputs, R their correlations and w_j the columns of W (D, d):

    z_j = x̃ᵀw_j/s_j,   s_j² = w_jᵀRw_j,      w̄_j = [X̃ᵀz̄_j − (Σ_i z̄_ij z_ij) Rw_j/s_j]/s_j.

So z_j has mean 0 and variance 1 over the rows from which the standardisation comes, for every W, and its derivative
includes that of s_j: the moments of the projection are functions of W and of the moments of X, and no pass over all
rows is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitting.features.base import FeaturesAt, KernelFeaturesAt, KernelMap, TrainedMap
from fitting.starts import units
from gpbounds.arrays import Array, Float, host, namespace

SPREAD = 0.3
"""Standard deviation of the entries of the columns of W at the start, besides the first (Daskalakis et al.)."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Standardised projections z of x; see the module.

    Attributes
    ----------
    mean, stds : arrays (D,)
        Of the inputs.
    correlations : array (D, D)
        R.
    dim : int
        d.
    """

    mean: Float
    stds: Float
    correlations: Float
    dim: int

    @classmethod
    def of(cls, X: Float, dim: int) -> Projection:
        """With the moments of the rows X (N, D)."""
        mean, stds = X.mean(axis=0), units(X)
        scaled = (X - mean) / stds
        return cls(mean, stds, scaled.T @ scaled / len(X), dim)

    @property
    def size(self) -> int:
        """Number of entries of W."""
        return len(self.mean) * self.dim

    def matrix(self, weights: Float) -> Float:
        """W (D, d), with columns for which s_j = 1, from its entries (D·d,) row by row."""
        W = weights.reshape(len(self.mean), self.dim)
        return W / self.norms(W)

    def norms(self, W: Float) -> Float:
        """s (d,)."""
        return np.sqrt(np.einsum("ij,ij->j", W, self.correlations @ W))

    def scaled(self, X: Array) -> Array:
        """x̃ of the rows (n, D)."""
        xp = namespace(X)
        return (X - xp.asarray(self.mean)) / xp.asarray(self.stds)

    def project(self, weights: Float, X: Array) -> Array:
        """z (n, d)."""
        return self.scaled(X) @ namespace(X).asarray(self.matrix(weights))

    def pull(self, weights: Float, X: Array, z: Array, cotangent: Array) -> Float:
        """Derivatives in the entries of W (D·d,), from the cotangent of z (n, d)."""
        W = weights.reshape(len(self.mean), self.dim)
        norms, scaled = self.norms(W), self.scaled(X)
        along = host((z * cotangent).sum(axis=0))
        return ((host(scaled.T @ cotangent) - self.correlations @ W * (along / norms)) / norms).ravel()

    def first(self, X: Float, Y: Float, rng: np.random.Generator) -> Float:
        """W at the start: the least-squares direction of the targets, then normal entries."""
        W = SPREAD * rng.standard_normal((len(self.mean), self.dim))
        direction = np.linalg.lstsq(self.scaled(X), Y.mean(axis=1), rcond=None)[0]
        if np.abs(direction).max() > 0.0:
            W[:, 0] = direction / np.linalg.norm(direction)
        return W.ravel()


@dataclass(frozen=True, eq=False)
class Projected(TrainedMap):
    """Features of a kernel of the projections: its hyperparameters, then the entries of W row by row.

    Attributes
    ----------
    inner : KernelMap
        Features on R^d.
    projection : Projection
    weights : array (D·d,)
        W at the start.
    """

    inner: KernelMap
    projection: Projection
    weights: Float

    @property
    def rank(self) -> int:
        return self.inner.rank

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    @property
    def size(self) -> int:
        return self.inner.size + self.projection.size

    def start(self, X: Array, rng: np.random.Generator) -> Float:
        return np.concatenate([self.inner.start(X, rng), self.weights])

    def at(self, parameters: Float) -> ProjectedAt:
        logs, weights = np.split(parameters, [self.inner.size])
        return ProjectedAt(self.inner.at(logs), self.projection, weights)


@dataclass(frozen=True, eq=False)
class ProjectedAt(FeaturesAt):
    """The features at one kernel and one W."""

    inner: KernelFeaturesAt
    projection: Projection
    weights: Float

    @property
    def rank(self) -> int:
        return self.inner.rank

    def fill(self, X: Array, V: Array) -> None:
        self.inner.fill(self.projection.project(self.weights, X), V)

    def pull(self, X: Array, V: Array, cotangent: Array) -> Float:
        z = self.projection.project(self.weights, X)
        logs, moved = self.inner.pull_inputs(z, V, cotangent)
        return np.concatenate([logs, self.projection.pull(self.weights, X, z, moved)])
