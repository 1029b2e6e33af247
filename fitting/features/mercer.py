"""Mercer features: products of Hermite eigenfunctions of the squared exponential kernel under N(mean, diag(s²)).

In one dimension, for u_n of `gpbounds.lowrank.features.mercer.Expansion`, with θ = log ℓ and x minus the mean:

    ∂u_n/∂x = −2δ²x u_n + (β/s)√(nq) u_{n−1},
    ∂u_n/∂θ = [½(β² − 1)/β² − n/β² + ½β'/β − (δ²)'x²] u_n + (β'x/s)√(nq) u_{n−1},

    β⁴ = 1 + 4s²/ℓ²,  δ² = (β² − 1)/(4s²),  q = (β² − 1)/(β² + 1),  β' = −2s²/(ℓ²β³),  (δ²)' = ββ'/(2s²),

since q'/q = −2/β².  β² − 1 is computed as (4s²/ℓ²)/(β² + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fitting.features.base import KernelFeaturesAt, StationaryMap
from fitting.features.device import Eigenfunctions, MercerOnDevice
from gpbounds.arrays import Array, Float, namespace
from gpbounds.inputs import Gaussian
from gpbounds.kernels import SquaredExponential, Stationary
from gpbounds.lowrank import MercerFeatures
from gpbounds.lowrank.features.mercer import Degrees, Expansion
from gpbounds.once import cached_property


@dataclass(frozen=True, eq=False)
class MercerMap(StationaryMap):
    """The eigenfunctions with given degrees; they stay the same while hyperparameters change.

    Attributes
    ----------
    kernel : SquaredExponential
    degrees : array (rank, D) of int
    mean, stds : arrays (D,)
        The law N(mean, diag(stds²)) that defines the eigenfunctions.

    >>> features = MercerMap.chosen(SquaredExponential(), 12, "best", np.zeros(1), np.ones(1))
    >>> Xi = features(features.kernel.log_parameters, np.array([[0.0], [1.0]]))
    >>> (Xi @ Xi.T).round(4)  # k: 1, exp(-1/2) = 0.6065
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    kernel: SquaredExponential
    degrees: Degrees
    mean: Float = field(default_factory=lambda: np.zeros(1))
    stds: Float = field(default_factory=lambda: np.ones(1))

    @classmethod
    def chosen(cls, kernel: SquaredExponential, rank: int, order: str, mean: Float, stds: Float) -> MercerMap:
        """The eigenfunctions that `gpbounds.lowrank.MercerFeatures` keeps at this kernel, by "best", "degree", "grid".

        Raises
        ------
        ValueError
            for another kernel than a squared exponential, or for a rank that "grid" does not have.
        """
        features = MercerFeatures(kernel, rank, inputs=Gaussian(std=stds), order=order, mean=mean)
        return cls(kernel, features.degrees, np.array(mean), np.array(stds))

    @property
    def rank(self) -> int:
        return len(self.degrees)

    def at(self, parameters: Float) -> _MercerAt:
        return _MercerAt(self, self.kernel_at(parameters))


@dataclass(frozen=True, eq=False)
class _MercerAt(KernelFeaturesAt):
    """The features at one kernel."""

    map: MercerMap
    kernel: Stationary

    @property
    def rank(self) -> int:
        return self.map.rank

    @cached_property
    def factors(self) -> tuple[_Factor, ...]:
        """The eigenfunctions of each dimension."""
        stds, degrees = self.map.stds, self.map.degrees
        lengthscales = self.kernel.lengthscales(len(stds))
        return tuple(_Factor(float(ell), float(s), n) for ell, s, n in zip(lengthscales, stds, degrees.T, strict=True))

    @cached_property
    def on_device(self) -> MercerOnDevice:
        means = self.map.mean
        dimensions = [factor.on_device(float(mean)) for factor, mean in zip(self.factors, means, strict=True)]
        return MercerOnDevice(self.kernel.variance, self.map.degrees, dimensions)

    @property
    def each(self) -> bool:
        return self.kernel.dim is not None

    def fill(self, X: Array, K: Array, V: Array) -> None:
        if namespace(X) is not np:
            self.on_device.fill(X, V)
            return
        values: Array = math.sqrt(self.kernel.variance)
        for d, factor in enumerate(self.factors):
            table = factor.table(self._centred(X, d))
            values = values * table[namespace(X).asarray(factor.degrees)]
        V[...] = values.T

    def pull_inputs(self, X: Array, V: Array, cotangent: Array) -> tuple[Float, Array]:
        xp = namespace(X)
        variance = 0.5 * float(xp.vdot(cotangent, V))
        inputs = [self._centred(X, d) for d in range(len(self.factors))]
        tables = [factor.table(x) for factor, x in zip(self.factors, inputs, strict=True)]
        chosen = [table[xp.asarray(factor.degrees)] for factor, table in zip(self.factors, tables, strict=True)]
        after = [xp.ascontiguousarray(cotangent.T) * math.sqrt(self.kernel.variance)]  # times the factors behind d
        for values in chosen[:0:-1]:
            after.append(after[-1] * values)
        before: Array = 1.0
        lengths, moved = np.zeros(len(inputs)), xp.empty(X.shape)
        for d, (factor, x) in enumerate(zip(self.factors, inputs, strict=True)):
            in_values = factor.summed(before * after[-1 - d])
            in_length, in_x = factor.slopes(x, tables[d])
            lengths[d] = float(xp.vdot(in_values, in_length))
            moved[:, d] = xp.einsum("ij,ij->j", in_values, in_x)
            before = before * chosen[d]
        return self.map.logs(variance, lengths), moved

    def _centred(self, X: Array, d: int) -> Array:
        return X[:, d] - float(self.map.mean[d])


@dataclass(frozen=True, eq=False)
class _Factor:
    """u_0 … u_{n−1} of one dimension, and which of them each feature contains."""

    lengthscale: float
    std: float
    degrees: Degrees

    @cached_property
    def expansion(self) -> Expansion:
        return Expansion(self.lengthscale, self.std)

    @cached_property
    def count(self) -> int:
        return int(self.degrees.max()) + 1

    @cached_property
    def selection(self) -> Float:
        """The matrix (count, rank) that sums over the features of each degree."""
        return (self.degrees == np.arange(self.count)[:, None]).astype(np.float64)

    def table(self, x: Array) -> Array:
        """u_n(x_i), shape (count, B)."""
        return self.expansion.table(x, self.count)

    def summed(self, values: Array) -> Array:
        """The sums (count, B) of the rows of ``values`` (rank, B) by degree."""
        return namespace(values).asarray(self.selection) @ values

    @cached_property
    def numbers(self) -> tuple[float, float, float]:
        """β, β' and β² − 1."""
        ratio = (2.0 * self.std / self.lengthscale) ** 2  # β⁴ − 1
        root = math.sqrt(1.0 + ratio)  # β²
        beta = math.sqrt(root)
        return beta, -0.5 * ratio / (root * beta), ratio / (root + 1.0)

    def on_device(self, mean: float) -> Eigenfunctions:
        """What a GPU needs of them, for inputs with this mean."""
        beta, change, excess = self.numbers
        return Eigenfunctions(*self.expansion.steps(self.count), mean, beta, change, excess, self.std)

    def slopes(self, x: Array, table: Array) -> tuple[Array, Array]:
        """∂u_n/∂log ℓ and ∂u_n/∂x at x_i, both (count, B)."""
        xp, s = namespace(x), self.std
        beta, change, excess = self.numbers
        root = excess + 1.0  # β²
        q = excess / (root + 1.0)
        numbers = np.arange(self.count)
        below = xp.zeros_like(table)
        below[1:] = xp.asarray(np.sqrt(numbers[1:] * q))[:, None] * table[:-1]
        constant = xp.asarray((0.5 * excess - numbers) / root + 0.5 * change / beta)[:, None]
        in_length = (constant - (0.5 * beta * change / s**2) * x * x) * table + (change / s) * x * below
        in_x = (-0.5 * excess / s**2) * x * table + (beta / s) * below
        return in_length, in_x
