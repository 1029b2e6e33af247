"""Kernels of inner products: linear and polynomial functions with random coefficients."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points, host, is_cupy, namespace
from gpbounds.kernels import per_dimension
from gpbounds.kernels.base import Kernel, on_device
from gpbounds.kernels.expressions import INNER, Expression, Leaf, Scalar
from gpbounds.logarithms import as_log_parameters, exponentials
from gpbounds.validation import count, positive, scalar


@dataclass(frozen=True, eq=False)
class InnerProduct(Kernel):
    """A function of s = Σ_d variance_d x_d x'_d."""

    variance: ArrayLike = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", per_dimension.checked("variance", self.variance))

    @abstractmethod
    def value(self, s: Array) -> Array:
        """k as a function of s, which may be overwritten."""

    @abstractmethod
    def slope(self, s: Array) -> Array | float:
        """dk/ds."""

    @property
    def formulas(self) -> tuple[str, str]:
        """k and dk/ds as CUDA expressions in s and the scalars."""
        return "s", "1.0"

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """Parameters before the variances."""
        return ()

    def variances(self, dim: int) -> Float:
        """One variance per dimension; raises ``ValueError`` if the kernel has another number of them."""
        return per_dimension.spread("variance", self.variance, dim)

    def _scaled(self, X: ArrayLike | Array, name: str) -> Array:
        """√variance_d · x_d."""
        points = as_points(X, name)
        return points * namespace(points).asarray(np.sqrt(self.variances(points.shape[1])), dtype=points.dtype)

    def __call__(self, X1: ArrayLike | Array, X2: ArrayLike | Array | None = None) -> Array:
        if is_cupy(X1) and (K := on_device(self, X1, X2)) is not None:
            return K
        left = self._scaled(X1, "X1")
        right = left if X2 is None else self._scaled(X2, "X2")
        if left.shape[1] != right.shape[1]:
            raise ValueError(f"expected X1 and X2 with equally many columns, got {left.shape} and {right.shape}")
        return self.value(left @ right.T)

    def diag(self, X: ArrayLike | Array) -> Array:
        scaled = self._scaled(X, "X")
        return self.value((scaled * scaled).sum(axis=1))

    @property
    def max_variance(self) -> float:
        """Infinity: k(x, x) grows with x."""
        return math.inf

    @property
    def expression(self) -> Expression | None:
        return Leaf(*self.formulas, self.scalars, INNER, self.variance)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return (*(each.name for each in self.scalars), *per_dimension.names("variance", self.variance))

    @property
    def log_parameters(self) -> Float:
        return np.log(np.append([each.value for each in self.scalars], self.variance))

    def with_log_parameters(self, values: ArrayLike) -> Kernel:
        numbers = exponentials(as_log_parameters(values, self.parameter_names), self.parameter_names)
        own: dict[str, Any] = {each.name: number for each, number in zip(self.scalars, numbers, strict=False)}
        return replace(self, **own, variance=per_dimension.joined(numbers[len(own) :], self.variance))

    def pull(self, X1: Array, X2: Array, cotangent: Array, value: Array | None = None) -> tuple[Float, Array]:
        left, right = self._scaled(X1, "X1"), self._scaled(X2, "X2")
        slopes = self._scalar_slopes(cotangent, left @ right.T) if self.scalars else np.zeros(0)
        moved = cotangent.T @ left
        in_variances = host((moved * right).sum(axis=0))
        moved *= namespace(moved).asarray(np.sqrt(self.variances(moved.shape[1])))
        return np.concatenate([slopes, per_dimension.summed(in_variances, self.variance)]), moved

    def pull_diag(self, X: Array, cotangent: Array) -> Float:
        scaled, weights = self._scaled(X, "X"), 1.0 * cotangent
        squares = scaled * scaled
        slopes = self._scalar_slopes(weights, squares.sum(axis=1)) if self.scalars else np.zeros(0)
        return np.concatenate([slopes, per_dimension.summed(host(weights @ squares), self.variance)])

    def _scalar_slopes(self, cotangent: Array, s: Array) -> Float:
        """Derivatives in the logarithms of the scalars; ``cotangent`` becomes that of s."""
        cotangent *= self.slope(s)
        return np.zeros(0)

    def _key(self) -> tuple[object, ...]:
        variance = tuple(np.atleast_1d(np.asarray(self.variance)))
        return type(self), variance, per_dimension.count(self.variance), *(each.value for each in self.scalars)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InnerProduct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, eq=False)
class Linear(InnerProduct):
    """k(x, x') = Σ_d variance_d x_d x'_d: the covariance of Σ_d w_d x_d with independent w_d ~ N(0, variance_d).

    It is positive semi-definite as a Gram matrix: K = AAᵀ with the rows a_i = (√variance_d x_id)_d.  Its rank is at
    most D, and k(x, x) has no upper bound, so that bounds that need sup_x k(x, x) do not hold for it.  Add `Constant`
    for an unknown intercept.

    Parameters
    ----------
    variance : float or array (D,)
        Prior variance of a coefficient, > 0, in squared units of y per squared unit of x: one for all, or one for each.

    Raises
    ------
    ValueError
        for a variance that is not positive and finite.

    >>> Linear(2.0)([[1.0], [3.0]])
    array([[ 2.,  6.],
           [ 6., 18.]])
    """

    def value(self, s: Array) -> Array:
        return s

    def slope(self, s: Array) -> float:
        return 1.0


@dataclass(frozen=True, eq=False, init=False)
class Polynomial(InnerProduct):
    """k(x, x') = (offset + Σ_d variance_d x_d x'_d)^degree: random polynomials of at most this degree.

    It is positive semi-definite as a product of positive semi-definite kernels (Schur): offset ≥ 0 is one, Σ_d
    variance_d x_d x'_d is one, and so is their sum.  Its rank is at most the number (D + degree choose degree) of
    monomials, and k(x, x) has no upper bound.

    Parameters
    ----------
    degree : int
        A whole number >= 1; it is not trained.
    variance : float or array (D,)
        > 0, in units of offset per squared unit of x: one for all dimensions, or one for each.
    offset : float
        > 0; k has the unit of offset^degree.

    Raises
    ------
    ValueError
        for a degree that is not a whole number >= 1, and parameters that are not positive and finite.

    >>> Polynomial(2, variance=1.0, offset=1.0)([[1.0], [2.0]])
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    degree: int = 2
    offset: float = 1.0

    def __init__(self, degree: int, variance: ArrayLike = 1.0, offset: float = 1.0) -> None:
        object.__setattr__(self, "degree", count("degree", degree))
        object.__setattr__(self, "offset", scalar(positive, "offset", offset))
        object.__setattr__(self, "variance", variance)
        self.__post_init__()

    def value(self, s: Array) -> Array:
        s += self.offset
        return power(s, self.degree)

    def slope(self, s: Array) -> Array:
        if self.degree == 1:
            return namespace(s).ones_like(s)
        return self.degree * power(s + self.offset, self.degree - 1)

    @property
    def formulas(self) -> tuple[str, str]:
        base = "(offset + s)"
        return " * ".join([base] * self.degree), " * ".join([f"{self.degree}.0", *[base] * (self.degree - 1)])

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        return (Scalar("offset", self.offset, f"offset * {self.formulas[1]}"),)

    def _scalar_slopes(self, cotangent: Array, s: Array) -> Float:
        super()._scalar_slopes(cotangent, s)
        return np.array([self.offset * float(cotangent.sum())])

    def _key(self) -> tuple[object, ...]:
        return *super()._key(), self.degree


def power(base: Array, exponent: int) -> Array:
    """base^exponent by at most ``exponent`` − 1 roundings in each factor of the product, by repeated squares.

    >>> power(np.array([2.0, 3.0]), 5)
    array([ 32., 243.])
    """
    result = None
    while True:
        if exponent % 2:
            result = base if result is None else result * base
        exponent //= 2
        if not exponent:
            assert result is not None
            return result
        base = base * base
