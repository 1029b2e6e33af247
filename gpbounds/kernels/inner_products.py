"""Kernels of inner products: linear and polynomial functions with random coefficients."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, as_points, host, is_cupy, namespace
from gpbounds.kernels import errors, pairs, per_dimension
from gpbounds.kernels.base import Kernel, Product, on_device
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.expressions import INNER, Expression, Leaf, Scalar
from gpbounds.numerics.pairs import Pair, add, multiply, two_product
from gpbounds.validation import as_log_parameters, count, each_dimension, exponentials, positive, positive_each, scalar


@dataclass(frozen=True, eq=False)
class InnerProduct(Kernel):
    """A function of s = Σ_d variance_d x_d x'_d."""

    variance: ArrayLike = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive_each("variance", self.variance))

    @abstractmethod
    def value(self, s: Array) -> Array:
        """k as a function of s, which may be overwritten."""

    @abstractmethod
    def slope(self, s: Array) -> Array | float:
        """dk/ds."""

    def polynomial(self, dim: int) -> tuple[float | None, Float, int]:
        return None, self.variances(dim), 1

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
        return each_dimension("variance", self.variance, dim)

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
        with np.errstate(over="ignore"):
            return self.value(left @ right.T)

    def diag(self, X: ArrayLike | Array) -> Array:
        scaled = self._scaled(X, "X")
        with np.errstate(over="ignore"):
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

    def pair_entries(self, X1: Float, X2: Float) -> Pair:
        """Powers of 2 scale the coordinates to at most 1 before they are multiplied."""
        offset, variances, degree = self.polynomial(X1.shape[-1])

        def term(d: int) -> Pair:
            mantissa, exponent = math.frexp(variances[d])
            sides = []
            for points in (X1[..., d], X2[..., d]):
                power = math.frexp(float(np.abs(points).max(initial=0.0)))[1]
                exponent += power
                sides.append(np.ldexp(points, -power))
            high, low = multiply(two_product(*sides), (np.float64(mantissa), np.float64(0.0)))
            return np.ldexp(high, exponent), np.ldexp(low, exponent)

        s = pairs.summed(X1, X2, term)
        base = s if offset is None else add(s, (np.full_like(s[0], offset), np.zeros_like(s[0])))
        result = base
        for _ in range(degree - 1):
            result = multiply(result, base)
        return result

    def pair_error(self, reach: Float) -> float:
        """N-pairpower."""
        offset, _, p = self.polynomial(len(reach))
        total = self._largest_sum(reach)
        error = 1.05 * pairs.U2 * (18.0 + 6.0 * len(reach)) * total + pairs.TINY
        if offset is None:
            return error
        largest = total + offset
        error += 6.0 * pairs.U2 * largest
        return 1.05 * (p * error * largest ** (p - 1) + 18.0 * p * pairs.U2 * largest**p) + pairs.TINY

    def _largest_sum(self, reach: Float) -> float:
        """Σ_d v_d r_d², rounded up."""
        D = len(reach)
        terms = (
            math.ldexp(*_product_of(v, r, r)) for v, r in zip(self.variances(D).tolist(), reach.tolist(), strict=True)
        )
        return math.fsum(terms) * (1.0 + 8.0 * EPS) + D * pairs.TINY

    def largest_within(self, reach: Float) -> float:
        offset, _, p = self.polynomial(len(reach))
        total = self._largest_sum(reach)
        return total if offset is None else (total + offset) ** p * (1.0 + 4.0 * p * EPS)

    def largest_exponent(self, reach: Float) -> int:
        """The degree times the largest e with 2ᵉ ≤ offset or 2ᵉ ≤ v_d r_d² < 8·2ᵉ; more where 2⁻ᵉv_d would overflow."""
        offset, variances, p = self.polynomial(len(reach))
        each = list(zip(variances.tolist(), reach.tolist(), strict=True))
        terms = [math.frexp(v)[1] + 2 * math.frexp(r)[1] - 3 for v, r in each if r > 0.0]
        exponent = max([*terms, *(math.frexp(v)[1] - 1000 for v, _ in each)])
        return exponent if offset is None else p * max(exponent, math.frexp(offset)[1] - 1)

    def entry_errors(self, X: Float, K: Float) -> Float:
        """The constants are rounded up by more than the rounding error of the bound.

        Proof.  A scaled coordinate a_id = √v_d·x_id has a relative error below 2.01u.  A term a_id a_jd has one below
        5.1u, and adding D terms in any order adds at most (D − 1)u: s is off by e = (D + 5)u Σ_d |a_id a_jd| and what
        underflows.  b = offset + s is off by e + u|b|, and |b^p − (b + e)^p| ≤ p e (|b| + e)^{p−1}; `power` rounds each
        of p factors at most p − 1 times.
        """
        offset, variances, p = self.polynomial(X.shape[1])
        signed = X * np.sqrt(variances)
        scaled = np.abs(signed)
        sums, share = scaled.sum(axis=1), errors.U * (X.shape[1] + 5.0)
        error = 1.01 * (share * (scaled @ scaled.T) + errors.TINY * (sums[:, None] + sums)) + errors.SMALLEST
        if offset is None:
            return error
        base = np.abs(signed @ signed.T + offset)
        error += errors.U * 1.01 * base
        largest = base + 2.0 * error
        return 1.02 * (p * error * largest ** (p - 1) + errors.U * (p - 1.0) * largest**p) + errors.SMALLEST

    def entry_bound(self, X: Float, Z: Float) -> tuple[float, float]:
        """As `entry_errors`, with Σ|a_d b_d| ≤ |a||b|; the diagonal is k(x, x) or k(z, z)."""
        D = X.shape[1]
        offset, variances, p = self.polynomial(D)
        roots = np.sqrt(variances)
        longest = max(errors.longest(X * roots), errors.longest(Z * roots))
        size = longest * longest
        error = 1.01 * errors.U * (D + 5.0) * size + 2.0 * errors.TINY * (1.0 + longest) * math.sqrt(D)
        if offset is None:
            return error, 1.01 * size
        base = 1.01 * (size + offset)
        error += errors.U * 1.01 * base
        largest = base + 2.0 * error
        return 1.02 * (p * error * largest ** (p - 1) + errors.U * (p - 1.0) * largest**p), 1.01 * largest**p

    def value_bound(self, reach: Float) -> tuple[float, float]:
        """The bounds of `entry_errors` grow with each |x_d| and |x'_d|, and so are largest at x = x' = reach."""
        corner = reach[None, :]
        error = float(self.entry_errors(corner, corner)[0, 0])
        return error, float(self.diag(corner)[0]) + error

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
class Linear(InnerProduct, facts_hold=True):
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

    in_pairs = True

    def times_power(self, exponent: int) -> Linear:
        return Linear(per_dimension.times_power(self.variance, exponent))


@dataclass(frozen=True, eq=False, init=False)
class Polynomial(InnerProduct, facts_hold=True):
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

    @property
    def in_pairs(self) -> bool:
        return self.degree <= pairs.DEGREE

    def times_power(self, exponent: int) -> Kernel:
        each, rest = divmod(exponent, self.degree)
        variance, offset = (per_dimension.times_power(number, each) for number in (self.variance, self.offset))
        powered = Polynomial(self.degree, variance, float(offset))
        return powered if rest == 0 else Product(Constant(2.0**rest), powered)

    def polynomial(self, dim: int) -> tuple[float, Float, int]:
        return self.offset, self.variances(dim), self.degree

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


def _product_of(*factors: float) -> tuple[float, int]:
    """(m, e) with m·2ᵉ the product."""
    parts = [math.frexp(factor) for factor in factors]
    return math.prod(mantissa for mantissa, _ in parts), sum(exponent for _, exponent in parts)
