"""Kernel matrices in double-double numbers, with a proved bound on the error of an entry."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from gpbounds.arrays import EPS, Float
from gpbounds.kernels.base import PIECE, Kernel, OnColumns, Product, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.squared_exponential import SquaredExponential
from gpbounds.kernels.stationary import Stationary
from gpbounds.numerics.pair_exp import exp
from gpbounds.numerics.pairs import Pair, add, divide, multiply, square_root, two_sum

U2 = (0.5 * EPS) ** 2
"""u² = 2⁻¹⁰⁶."""
FAR = 1e4
"""Larger scaled distances in one dimension count as this one."""
MOST = 20
"""Largest p of Matérn-(p+½): beyond a scaled distance of `FAR` it is below 1e-300."""
TINY = 1e-140
"""Allows for products that underflow, relative to the variance."""


def has_pairs(kernel: Kernel) -> bool:
    """Whether `pair_covariances` knows the kernel: squared exponential, constant and Matérn kernels with ν = p + ½,
    p ≤ 20, and sums, products and kernels on some columns of them."""
    if isinstance(kernel, Sum | Product):
        return has_pairs(kernel.k1) and has_pairs(kernel.k2)
    if isinstance(kernel, OnColumns):
        return has_pairs(kernel.kernel)
    if type(kernel) is Matern:
        return kernel.is_half_integer and kernel.nu < MOST + 1.0
    return type(kernel) in (SquaredExponential, Constant)


def pair_covariances(kernel: Kernel, X1: Float, X2: Float) -> Pair:
    """k(X1, X2) for X1 (N, D) and X2 (M, D), each entry within `pair_error` of k in exact arithmetic (N-pairs).

    X1, X2 and the hyperparameters are exact doubles.  An entry costs about 0.5 µs.

    Raises
    ------
    ValueError
        for a kernel without `has_pairs`.

    >>> high, low = pair_covariances(SquaredExponential(), np.zeros((1, 1)), np.ones((1, 1)))
    >>> from decimal import Decimal, getcontext
    >>> getcontext().prec = 40
    >>> abs(Decimal(float(high[0, 0])) + Decimal(float(low[0, 0])) - Decimal("-0.5").exp()) < Decimal("1e-31")
    True
    """
    _require(kernel)
    high = np.empty((len(X1), len(X2)))
    low = np.empty_like(high)
    step = max(1, PIECE // (2 * max(len(X2), 1)))
    for start in range(0, len(X1), step):
        rows = slice(start, start + step)
        high[rows], low[rows] = _entries(kernel, X1[rows], X2)
    return high, low


def pair_error(kernel: Kernel, dim: int) -> float:
    """A bound on the error of each entry of `pair_covariances` in ``dim`` dimensions, about 1e-30 times the variance.

    Squared exponential and Matérn kernels: N-pairs.

    A sum of kernels adds the errors of its parts, and 6; a product multiplies each by the other's largest value, and
    adds 18.  Distances are cut at 1e4 lengthscales, where k and its value here are below 1e-290·v; `TINY` includes it.

    >>> pair_error(SquaredExponential(), 1) < 1e-30
    True
    """
    _require(kernel)
    if isinstance(kernel, OnColumns):
        return pair_error(kernel.kernel, len(kernel.columns))
    if isinstance(kernel, Sum | Product):
        first, second = pair_error(kernel.k1, dim), pair_error(kernel.k2, dim)
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
    return 0.0


def _require(kernel: Kernel) -> None:
    if not has_pairs(kernel):
        raise ValueError(
            "kernel: expected squared exponential, constant or Matérn kernels with nu = 0.5, 1.5, ..., 20.5, or sums "
            f"and products of them, which are computed to 30 digits, got {kernel!r}"
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
    squared = _squared(X1, X2, kernel.lengthscales(X1.shape[1]))
    if isinstance(kernel, Matern):
        correlation = _matern(squared, kernel.nu)
    else:
        correlation = exp((-0.5 * squared[0], -0.5 * squared[1]))
    return multiply(correlation, (np.float64(kernel.variance), np.float64(0.0)))


def _squared(X1: Float, X2: Float, lengthscales: Float) -> Pair:
    """Σ_d (x_d − x'_d)²/ℓ_d²."""
    total: Pair = (np.zeros((len(X1), len(X2))), np.zeros((len(X1), len(X2))))
    for d, scale in enumerate(lengthscales):
        with np.errstate(over="ignore", invalid="ignore"):
            apart = divide(two_sum(X1[:, d, None], -X2[None, :, d]), scale)
        near = np.abs(apart[0]) < FAR  # False also where the quotient overflows
        cut = np.where(near, apart[0], FAR), np.where(near, apart[1], 0.0)
        total = add(total, multiply(cut, cut))
    return total


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
