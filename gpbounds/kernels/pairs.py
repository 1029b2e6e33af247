"""Kernel matrices in double-double numbers, with a proved bound on the error of an entry."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.kernels.base import PIECE, Kernel, OnColumns, Product, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.rational_quadratic import RationalQuadratic
from gpbounds.kernels.squared_exponential import SquaredExponential
from gpbounds.kernels.stationary import Stationary
from gpbounds.numerics.pair_exp import exp, log
from gpbounds.numerics.pairs import Pair, add, divide, multiply, square_root, two_sum

U2 = (0.5 * EPS) ** 2
"""u² = 2⁻¹⁰⁶."""
FAR = 1e4
"""Larger scaled distances in one dimension count as this one."""
MOST = 20
"""Largest p of Matérn-(p+½): beyond a scaled distance of `FAR` it is below 1e-300."""
TINY = 1e-140
"""Allows for products that underflow, relative to the variance."""
SMALLEST = 5e-324
"""The smallest double above 0."""
SHAPES = 1e-6, 1e6
"""Least and largest shape of a rational quadratic kernel: its values err by 6e-31 of the variance times the shape."""
FARTHEST = 1e130
"""Largest scaled distance in one dimension for such a kernel, which falls so slowly that no distance counts as 0."""
LARGEST = 2.0**1021
"""Largest coordinate: sums of two are doubles."""


def has_pairs(kernel: Kernel) -> bool:
    """Whether `pair_covariances` knows the kernel: squared exponential, constant and Matérn kernels with ν = p + ½,
    p ≤ 20, rational quadratic ones with a shape from 1e-6 to 1e6, and sums, products and kernels on some columns of
    them."""
    if isinstance(kernel, Sum | Product):
        return has_pairs(kernel.k1) and has_pairs(kernel.k2)
    if isinstance(kernel, OnColumns):
        return has_pairs(kernel.kernel)
    if type(kernel) is Matern:
        return kernel.is_half_integer and kernel.nu < MOST + 1.0
    if type(kernel) is RationalQuadratic:
        return SHAPES[0] <= kernel.shape <= SHAPES[1]
    return type(kernel) in (SquaredExponential, Constant)


def pair_covariances(kernel: Kernel, X1: Float, X2: Float) -> Pair:
    """k(X1, X2) for X1 (N, D) and X2 (M, D), each entry within `pair_error` of k in exact arithmetic (N-pairs).

    X1, X2 and the hyperparameters are exact doubles.  An entry costs about 0.5 µs.  Low parts of entries below 1e-290
    underflow; where this matters, take the kernel that `unit` returns.

    Raises
    ------
    ValueError
        for a kernel without `has_pairs`, or for coordinates beyond 2¹⁰²¹.

    >>> high, low = pair_covariances(SquaredExponential(), np.zeros((1, 1)), np.ones((1, 1)))
    >>> from decimal import Decimal, getcontext
    >>> getcontext().prec = 40
    >>> abs(Decimal(float(high[0, 0])) + Decimal(float(low[0, 0])) - Decimal("-0.5").exp()) < Decimal("1e-31")
    True
    """
    _require(kernel)
    for points in (X1, X2):
        if points.size and float(np.abs(points).max()) > LARGEST:
            raise ValueError(f"X: expected coordinates of at most 2**1021, got {float(np.abs(points).max()):.3g}")
    scaled, exponent = unit(kernel)
    high = np.empty((len(X1), len(X2)))
    low = np.empty_like(high)
    step = max(1, PIECE // (2 * max(len(X2), 1)))
    for start in range(0, len(X1), step):
        rows = slice(start, start + step)
        high[rows], low[rows] = _entries(scaled, X1[rows], X2)
    if exponent:
        for part in (high, low):
            np.ldexp(part, exponent, out=part)
    return high, low


def unit(kernel: Kernel) -> tuple[Kernel, int]:
    """(k/2ᵉ, e) with the largest variance of k/2ᵉ between 1 and 2 times the number of summands.

    Variances that underflow in k/2ᵉ become the smallest double: less than `TINY`.

    >>> unit(SquaredExponential(1e300) * SquaredExponential(1e200) + Constant(1e-200))[1]
    1660
    """
    exponent = _exponent(kernel)
    return times_power(kernel, -exponent), exponent


def require_doubles(kernel: Kernel) -> None:
    """Refuse a kernel without `has_pairs`, or with a variance that is not far below the largest double."""
    _require(kernel)
    if _exponent(kernel) > 1000:
        raise ValueError(f"kernel: expected a largest variance below 2**1000 with rigor='arb', got {kernel!r}")


def _exponent(kernel: Kernel) -> int:
    if isinstance(kernel, Sum):
        return max(_exponent(kernel.k1), _exponent(kernel.k2))
    if isinstance(kernel, Product):
        return _exponent(kernel.k1) + _exponent(kernel.k2)
    if isinstance(kernel, OnColumns):
        return _exponent(kernel.kernel)
    return math.frexp(kernel.max_variance)[1] - 1


def times_power(kernel: Kernel, exponent: int) -> Kernel:
    """2^exponent times the kernel; a variance that underflows becomes the smallest double."""
    if isinstance(kernel, Sum):
        return Sum(times_power(kernel.k1, exponent), times_power(kernel.k2, exponent))
    if isinstance(kernel, Product):
        first = _exponent(kernel.k1)
        return Product(times_power(kernel.k1, -first), times_power(kernel.k2, exponent + first))
    if isinstance(kernel, OnColumns):
        return OnColumns(times_power(kernel.kernel, exponent), kernel.columns)
    assert isinstance(kernel, Stationary | Constant)
    return replace(kernel, variance=max(math.ldexp(kernel.variance, exponent), SMALLEST))


def pair_error(kernel: Kernel, dim: int) -> float:
    """A bound on the error of each entry of `pair_covariances` in ``dim`` dimensions, about 1e-30 times the variance.

    Squared exponential and Matérn kernels: N-pairs.  Rational quadratic ones: N-pairlog.

    A sum of kernels adds the errors of its parts, and 6; a product multiplies each by the other's largest value, and
    adds 18.  Distances are cut at 1e4 lengthscales, where k and its value here are below 1e-290·v; `TINY` includes it.
    It also includes what underflows where variances are near 1: a coordinate of x − x' below 1e-308 lengthscales, a
    square below 1e-290, whose error changes z by less than 1e-160, and values of k below 1e-290.  Differences are
    divided by the lengthscale after both are divided by a power of 2, which is exact.  The result is that of k/2ᵉ,
    variances near 1, times 2ᵉ, plus the two smallest doubles for the rounding of both parts.

    >>> pair_error(SquaredExponential(), 1) < 1e-30
    True
    """
    _require(kernel)
    scaled, exponent = unit(kernel)
    error = _unit_error(scaled, dim)
    return error if exponent == 0 else math.ldexp(error, exponent) + 4.0 * SMALLEST


def _unit_error(kernel: Kernel, dim: int) -> float:
    if isinstance(kernel, OnColumns):
        return _unit_error(kernel.kernel, len(kernel.columns))
    if isinstance(kernel, Sum | Product):
        first, second = _unit_error(kernel.k1, dim), _unit_error(kernel.k2, dim)
        a, b = kernel.k1.max_variance, kernel.k2.max_variance
        if isinstance(kernel, Sum):
            return 1.05 * (first + second + 6.0 * U2 * (a + b))
        return 1.05 * (first * b + second * a + first * second + 18.0 * U2 * a * b + TINY)
    v, c = kernel.max_variance, 32.0 + 6.0 * dim
    if isinstance(kernel, Matern):
        p = int(kernel.nu - 0.5)
        largest = sum(float(c_i) * ((i + 1) / math.e) ** (i + 1) for i, c_i in enumerate(_coefficients(p)))
        return v * (1.05 * U2 * ((0.5 * (18.0 + c) + 20.0) * largest + 24.0 * p + 63.0) + TINY)
    if isinstance(kernel, SquaredExponential):
        return v * (1.05 * U2 * ((c + 8.0) / math.e + 38.0) + TINY)
    if isinstance(kernel, RationalQuadratic):
        return v * (1.05 * U2 * ((c + 47.0) / math.e + 58.0 * kernel.shape + 38.0) + TINY)
    return 0.0


def _require(kernel: Kernel) -> None:
    if not has_pairs(kernel):
        raise ValueError(
            "kernel: expected squared exponential, constant or Matérn kernels with nu = 0.5, 1.5, ..., 20.5, rational "
            "quadratic ones (shape from 1e-6 to 1e6), or sums and products of them, which are computed to 30 digits, "
            f"got {kernel!r}"
        )


def _entries(kernel: Kernel, X1: Float, X2: Float) -> Pair:
    if isinstance(kernel, Sum):
        return add(_entries(kernel.k1, X1, X2), _entries(kernel.k2, X1, X2))
    if isinstance(kernel, Product):
        return multiply(_entries(kernel.k1, X1, X2), _entries(kernel.k2, X1, X2))
    if isinstance(kernel, OnColumns):
        return _entries(kernel.kernel, kernel.chosen(X1), kernel.chosen(X2))
    shape = (len(X1), len(X2))
    if isinstance(kernel, Constant):
        return np.full(shape, kernel.variance), np.zeros(shape)
    assert isinstance(kernel, Stationary)
    rational = isinstance(kernel, RationalQuadratic)
    squared = _squared(X1, X2, kernel.lengthscales(X1.shape[1]), cut=not rational)
    if isinstance(kernel, RationalQuadratic):
        correlation = _rational_quadratic(squared, kernel.shape)
    elif isinstance(kernel, Matern):
        correlation = _matern(squared, kernel.nu)
    else:
        correlation = exp((-0.5 * squared[0], -0.5 * squared[1]))
    return multiply(correlation, (np.float64(kernel.variance), np.float64(0.0)))


def _squared(X1: Float, X2: Float, lengthscales: Float, *, cut: bool = True) -> Pair:
    """Σ_d (x_d − x'_d)²/ℓ_d², each distance cut at `FAR`, or refused beyond `FARTHEST`."""
    total: Pair = (np.zeros((len(X1), len(X2))), np.zeros((len(X1), len(X2))))
    for d, scale in enumerate(lengthscales):
        mantissa, exponent = math.frexp(scale)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            high, low = two_sum(X1[:, d, None], -X2[None, :, d])
            apart = divide((np.ldexp(high, -exponent), np.ldexp(low, -exponent)), np.float64(mantissa))
        near = np.abs(apart[0]) < (FAR if cut else FARTHEST)  # False also where the quotient overflows
        if not cut and not bool(near.all()):
            raise ValueError(f"X: expected distances below {FARTHEST:g} lengthscales for a rational quadratic kernel")
        kept = np.where(near, apart[0], FAR), np.where(near, apart[1], 0.0)
        total = add(total, multiply(kept, kept))
    return total


def _rational_quadratic(squared: Pair, shape: float) -> Pair:
    """(1 + r²/(2a))^−a."""
    one = np.ones_like(squared[0]), np.zeros_like(squared[0])
    logarithm = log(add(one, divide(squared, np.float64(2.0 * shape))))
    return exp(multiply(logarithm, (np.float64(-shape), np.float64(0.0))))


def _matern(squared: Pair, nu: float) -> Pair:
    z = square_root(multiply(squared, (np.float64(2.0 * nu), np.float64(0.0))))
    polynomial: Pair = (np.zeros_like(z[0]), np.zeros_like(z[0]))
    for c in reversed(_coefficients(int(nu - 0.5))):
        high = float(c)
        polynomial = add(multiply(polynomial, z), (np.float64(high), np.float64(float(c - Fraction(high)))))
    return multiply(polynomial, exp((-z[0], -z[1])))


def _coefficients(p: int) -> list[Fraction]:
    """c_i = p!(2p − i)! 2^i/((2p)! i! (p − i)!): ρ(z) = Σ_i c_i z^i e^−z for ν = p + ½."""
    f = math.factorial
    return [Fraction(f(p) * f(2 * p - i) * 2**i, f(2 * p) * f(i) * f(p - i)) for i in range(p + 1)]
