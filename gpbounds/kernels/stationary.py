"""Kernels that depend on the distance of two points, in lengthscales."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, as_points, is_cupy, namespace
from gpbounds.kernels import errors, per_dimension
from gpbounds.kernels.base import PIECE, Kernel, cannot, on_device
from gpbounds.kernels.cotangents import pull_distances
from gpbounds.kernels.distances import squared_distances
from gpbounds.kernels.expressions import DISTANCE, Expression, Leaf, Scalar
from gpbounds.logarithms import as_log_parameters, exponentials
from gpbounds.validation import positive, scalar


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """k(x, x') = variance · ρ(r), r² = Σ_d (x_d - x'_d)² / lengthscale_d².

    Parameters
    ----------
    variance : float
        k(x, x), in squared units of y.
    lengthscale : float or array (D,)
        In the units of x: one for all dimensions, or one for each.
    """

    variance: float = 1.0
    lengthscale: ArrayLike = 1.0
    has_one_variance = is_positive = falls = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", scalar(positive, "variance", self.variance))
        object.__setattr__(self, "lengthscale", per_dimension.checked("lengthscale", self.lengthscale))

    @cached_property
    def dim(self) -> int | None:
        """Number of dimensions if each has its own lengthscale, None if one lengthscale serves all."""
        return per_dimension.count(self.lengthscale)

    def lengthscales(self, dim: int) -> Float:
        """One lengthscale per dimension; raises ``ValueError`` if the kernel has another number of lengthscales."""
        return per_dimension.spread("lengthscale", self.lengthscale, dim)

    @abstractmethod
    def correlation(self, squared: Array) -> Array:
        """ρ as a function of r² (any shape)."""

    def slope(self, squared: Array) -> Array:
        """−2 dρ/d(r²) (any shape), and 0 where the derivative does not exist."""
        raise cannot(self)

    @property
    def expands(self) -> bool:
        """Whether `slope` is smooth enough at r = 0 to expand sums Σ W(x − z)²."""
        return True

    @property
    def formula(self) -> str:
        """k as a CUDA expression in s = r² and the variance; empty if there is none."""
        return ""

    @property
    def slope_formula(self) -> str:
        """−2 dk/ds as a CUDA expression in s = r², the variance and k."""
        return ""

    @property
    def expression(self) -> Expression | None:
        if not self.formula:
            return None
        scalars = (Scalar("variance", self.variance, "k"),)
        return Leaf(self.formula, self.slope_formula, scalars, DISTANCE, 1.0 / np.asarray(self.lengthscale))

    def covariance(self, squared: Array) -> Array:
        """variance · ρ, where ``squared`` may be overwritten."""
        K = self.correlation(squared)
        K *= self.variance
        return K

    def fill(self, X1: Array, X2: Array, out: Array) -> Array:
        if is_cupy(out) and (K := on_device(self, X1, X2, out)) is not None:
            return K
        left, right = self._in_powers(X1, "X1"), self._in_powers(X2, "X2")
        weights = self._weights(left.shape[1]) ** 2
        on_host = namespace(left) is np
        step = max(1, PIECE // max(right.shape[0], 1) if on_host else left.shape[0])
        for start in range(0, left.shape[0], step):
            piece = out[start : start + step]
            K = self.covariance(squared_distances(left[start : start + step], right, weights, piece))
            if K is not piece:
                piece[...] = K
        return out

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return ("variance", *per_dimension.names("lengthscale", self.lengthscale))

    @property
    def log_parameters(self) -> Float:
        return np.log(np.concatenate([[self.variance], np.atleast_1d(self.lengthscale)]))

    def with_log_parameters(self, values: ArrayLike) -> Kernel:
        variance, *lengthscales = exponentials(as_log_parameters(values, self.parameter_names), self.parameter_names)
        return replace(self, variance=variance, lengthscale=per_dimension.joined(lengthscales, self.lengthscale))

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        left, right = self._in_powers(X1, "X1"), self._in_powers(X2, "X2")
        xp, squared = namespace(left), squared_distances(left, right, self._weights(left.shape[1]) ** 2)
        K = self.variance * self.correlation(squared) if value is None else value
        scale = float(xp.vdot(cotangent, K))
        cotangent *= self.slope(squared)
        cotangent *= self.variance
        return self._pulled(left, right, cotangent, scale)

    def _pulled(self, left: Array, right: Array, W: Array, scale: float) -> tuple[Float, Array]:
        """From W = cotangent · variance · slope and the derivative in log variance."""
        return self._in_units(scale, *pull_distances(left, right, W, self.expands))

    def _in_units(self, scale: float, squares: Float, moved: Array) -> tuple[Float, Array]:
        """From the derivative in log variance and those that `pull_distances` returns."""
        weights = self._weights(moved.shape[1])
        moved *= namespace(moved).asarray(weights / self.lengthscales(moved.shape[1]), dtype=moved.dtype)
        return np.concatenate([[scale], per_dimension.summed(weights**2 * squares, self.lengthscale)]), moved

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        sums = np.zeros(self.log_parameters.size)
        sums[0] = self.variance * float(cotangent.sum())
        return sums

    def _in_powers(self, X: ArrayLike | Array, name: str) -> Array:
        """x_d·2^−e with 2^(e−1) ≤ lengthscale_d < 2^e: the same digits, so that differences are those of x.

        x/lengthscale would be rounded before the difference is taken, with an error that grows with |x|.
        """
        points = as_points(X, name)
        powers = per_dimension.spread("lengthscale", self._powers[0], points.shape[1])
        return points * namespace(points).asarray(powers, dtype=points.dtype)

    def _weights(self, dim: int) -> Float:
        """2^e/lengthscale (D,), in (1, 2]: r² = Σ_d (weight_d·(difference of `_in_powers`))²."""
        return per_dimension.spread("lengthscale", self._powers[1], dim)

    @cached_property
    def _powers(self) -> tuple[Any, Any]:
        """2^−e and 2^e/lengthscale, one or one per dimension; e is cut off where doubles cannot hold 2^±e."""
        exponents = np.clip(np.frexp(self.lengthscale)[1], -1000, 1000)
        return np.ldexp(1.0, -exponents), np.ldexp(1.0, exponents) / np.asarray(self.lengthscale)

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        if is_cupy(X1) and (K := on_device(self, X1, X2)) is not None:
            return K
        left = self._in_powers(X1, "X1")
        right = left if X2 is None else self._in_powers(X2, "X2")
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
        return self.covariance(squared_distances(left, right, self._weights(left.shape[1]) ** 2))

    def diag(self, X: ArrayLike | Array) -> Array:
        points = as_points(X, "X")
        self.lengthscales(points.shape[1])  # refuses another number of dimensions
        return namespace(points).full(points.shape[0], self.variance, dtype=points.dtype)

    @property
    def max_variance(self) -> float:
        return self.variance

    def lengths(self, X: Float) -> Float:
        return self.lengthscales(X.shape[1])

    def _squared(self, X: Float) -> Float:
        """r² of all rows of X (N, D), as `fill` computes it."""
        points = self._in_powers(X, "X")
        return squared_distances(points, points, self._weights(X.shape[1]) ** 2)

    def _proved(self, relative: float) -> tuple[float, float]:
        """`entry_bound` from a bound on the errors of ρ."""
        return self.variance * min(relative, 1.0) + errors.TINY * self.variance, self.variance

    def value_bound(self, reach: Float) -> tuple[float, float]:
        return self._anywhere(reach)

    def _anywhere(self, reach: Float, steps: float = 1.0, further: float = 0.0) -> tuple[float, float]:
        """`value_bound` with ``steps`` of a recurrence, and ``further`` errors.

        Proof.  r² is right to ½(D + 7) eps ≤ (D + 3) eps (`gpbounds.kernels.errors`) and |dk/d ln r²| ≤ v/e; exp and
        the Matérn recurrence, all of whose terms are positive, have a relative error of at most 8 eps per step.
        """
        return self.variance * EPS * (0.4 * (reach.size + 3.0) + 8.0 * (steps + 1.0) + further), self.variance

    def _key(self) -> tuple[object, ...]:
        return type(self), self.variance, tuple(np.atleast_1d(np.asarray(self.lengthscale))), self.dim

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stationary) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
