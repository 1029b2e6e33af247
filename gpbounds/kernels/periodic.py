"""The periodic kernel: a squared exponential kernel on a circle for each dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points, is_cupy, namespace
from gpbounds.kernels import per_dimension
from gpbounds.kernels.base import PIECE, Kernel, on_device
from gpbounds.kernels.expressions import WAVE, Expression, Leaf, Scalar
from gpbounds.logarithms import as_log_parameters, exponentials
from gpbounds.validation import positive, scalar


@dataclass(frozen=True, eq=False, init=False)
class Periodic(Kernel):
    """k(x, x') = variance · exp(−2 Σ_d sin²(π(x_d − x'_d)/period_d)/lengthscale_d²).

    It is positive semi-definite as a squared exponential kernel of (cos, sin)(2πx_d/period_d), whose squared distances
    are 4 sin²(π(x_d − x'_d)/period_d).  Sums of squared sines over dimensions are of this form; the sine of a Euclidean
    distance in several dimensions is not, and has negative eigenvalues.

    Parameters
    ----------
    period : float or array (D,)
        > 0, in the units of x: one for all dimensions, or one for each.
    variance : float
        k(x, x), in squared units of y.
    lengthscale : float or array (D,)
        > 0, without a unit, as it is one on circles of radius 1: one for all dimensions, or one for each.

    Raises
    ------
    ValueError
        for a parameter that is not positive and finite.

    >>> Periodic(period=2.0)([[0.0], [0.5], [2.0]]).round(4)
    array([[1.    , 0.3679, 1.    ],
           [0.3679, 1.    , 0.3679],
           [1.    , 0.3679, 1.    ]])
    """

    period: ArrayLike
    variance: float
    lengthscale: ArrayLike

    def __init__(self, period: ArrayLike = 1.0, variance: float = 1.0, lengthscale: ArrayLike = 1.0) -> None:
        object.__setattr__(self, "period", per_dimension.checked("period", period))
        object.__setattr__(self, "variance", scalar(positive, "variance", variance))
        object.__setattr__(self, "lengthscale", per_dimension.checked("lengthscale", lengthscale))

    def scales(self, dim: int) -> tuple[Float, Float]:
        """2/lengthscale and period of each dimension; an error if the kernel has another number of them."""
        lengthscales = per_dimension.spread("lengthscale", self.lengthscale, dim)
        return 2.0 / lengthscales, per_dimension.spread("period", self.period, dim)

    def _waves(self, left: Array, right: Array) -> Iterator[tuple[Array, Array, float]]:
        """For each dimension: (x − z)/period, the same without whole periods, and 2/lengthscale."""
        xp = namespace(left)
        for d, (weight, period) in enumerate(zip(*self.scales(left.shape[1]), strict=True)):
            turns = (left[:, d, None] - right[None, :, d]) / float(period)
            yield turns, turns - xp.rint(turns), float(weight)

    def _covariance(self, left: Array, right: Array) -> Array:
        xp, total = namespace(left, right), None
        for _, turns, weight in self._waves(left, right):
            wave = xp.sin(math.pi * turns)
            wave *= weight
            wave *= wave
            total = wave if total is None else total + wave
        assert total is not None
        total *= -0.5
        K = xp.exp(total, out=total)
        K *= self.variance
        return K

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        if is_cupy(X1) and (K := on_device(self, X1, X2)) is not None:
            return K
        left = as_points(X1, "X1")
        right = left if X2 is None else as_points(X2, "X2")
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
        return self._covariance(left, right)

    def fill(self, X1: Array, X2: Array, out: Array) -> Array:
        if is_cupy(out):
            return super().fill(X1, X2, out)
        left, right = as_points(X1, "X1"), as_points(X2, "X2")
        step = max(1, PIECE // right.shape[0])
        for start in range(0, left.shape[0], step):
            out[start : start + step] = self._covariance(left[start : start + step], right)
        return out

    def diag(self, X: ArrayLike | Array) -> Array:
        points = as_points(X, "X")
        self.scales(points.shape[1])  # refuses another number of dimensions
        return namespace(points).full(points.shape[0], self.variance, dtype=points.dtype)

    @property
    def max_variance(self) -> float:
        return self.variance

    @property
    def expression(self) -> Expression | None:
        scalars = (Scalar("variance", self.variance, "k"),)
        weights, frequencies = 2.0 / np.asarray(self.lengthscale), 1.0 / np.asarray(self.period)
        return Leaf("variance * exp(-0.5 * s)", "k", scalars, WAVE, weights, frequencies)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        own = per_dimension.names("lengthscale", self.lengthscale)
        return ("variance", *own, *per_dimension.names("period", self.period))

    @property
    def log_parameters(self) -> Float:
        return np.log(np.concatenate([[self.variance], np.atleast_1d(self.lengthscale), np.atleast_1d(self.period)]))

    def with_log_parameters(self, values: ArrayLike) -> Periodic:
        variance, *each = exponentials(as_log_parameters(values, self.parameter_names), self.parameter_names)
        lengths = np.size(self.lengthscale)
        return Periodic(
            per_dimension.joined(each[lengths:], self.period),
            variance,
            per_dimension.joined(each[:lengths], self.lengthscale),
        )

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        left, right = as_points(X1, "X1"), as_points(X2, "X2")
        xp, D = namespace(left, right), left.shape[1]
        cotangent *= self._covariance(left, right) if value is None else value
        _, periods = self.scales(D)
        in_lengths, in_periods, moved = np.zeros(D), np.zeros(D), xp.empty(right.shape, dtype=right.dtype)
        for d, (turns, reduced, weight) in enumerate(self._waves(left, right)):
            angles = math.pi * reduced
            waves = weight * xp.sin(angles)
            weighted = cotangent * waves
            in_lengths[d] = float(xp.vdot(weighted, waves))
            weighted *= xp.cos(angles)
            rate = math.pi * weight
            in_periods[d] = rate * float(xp.vdot(weighted, turns))
            moved[:, d] = weighted.sum(axis=0) * (rate / float(periods[d]))
        each = per_dimension.summed(in_lengths, self.lengthscale), per_dimension.summed(in_periods, self.period)
        return np.concatenate([[float(cotangent.sum())], *each]), moved

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        sums = np.zeros(self.log_parameters.size)
        sums[0] = self.variance * float(cotangent.sum())
        return sums

    def _key(self) -> tuple[object, ...]:
        values = self.variance, self.lengthscale, self.period
        return tuple((tuple(np.atleast_1d(np.asarray(value))), np.ndim(value)) for value in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Periodic) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((Periodic, self._key()))
