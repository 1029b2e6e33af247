"""Kernel matrices in double-double numbers, with a proved bound on the error of an entry."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gpbounds.arrays import EPS, TINIEST, Float
from gpbounds.errors import shown
from gpbounds.kernels.base import PIECE, Kernel, OnColumns, Product, Sum
from gpbounds.kernels.facts import Fold, Result
from gpbounds.numerics.pairs import Pair, add, divide, multiply, two_sum

U2 = (0.5 * EPS) ** 2
"""u² = 2⁻¹⁰⁶."""
FAR = 1e4
"""Largest scaled distance in one dimension; larger ones are cut to it."""
TINY = 1e-140
"""Allows for products that underflow, relative to the variance."""
LARGEST = 2.0**1021
"""Largest coordinate: sums of two are doubles."""
DEGREE = 64
"""Largest degree of a polynomial kernel."""
EXPONENTS = 1000
"""The largest exponent of 2 of a kernel's greatest value at the rows."""


def has_pairs(kernel: Kernel) -> bool:
    """Whether `pair_covariances` supports the kernel.

    Squared exponential, periodic (lengthscales from 1e-100 to 1e100), constant, linear and polynomial kernels (degree
    at most 64), Matérn kernels with ν = p + ½, p ≤ 20, rational quadratic ones with a shape from 1e-6 to 1e6, and sums,
    products and kernels on some columns of them.
    """
    return _unknown_part(kernel) is None


def _unknown_part(kernel: Kernel) -> Kernel | None:
    """The first part of a kernel that `pair_covariances` does not support, None if it supports all."""
    return kernel.fold(_UNKNOWN, None)


def _first(first: Kernel | None, second: Kernel | None) -> Kernel | None:
    return second if first is None else first


_UNKNOWN: Fold[None, Kernel | None] = Fold(
    lambda kernel, at: None if type(kernel) is kernel.formula_class and kernel.in_pairs else kernel, _first, _first
)


def pair_covariances(kernel: Kernel, X1: Float, X2: Float) -> Pair:
    """k(X1, X2) for X1 (N, D) and X2 (M, D), each entry within `pair_error` of k in exact arithmetic.

    Claims N-pairs, N-pairlog, N-pairsine, N-pairpower.  X1, X2 and the hyperparameters are exact doubles.  An entry
    costs about 0.5 µs, of a periodic kernel 2 µs.  Low parts of entries below 1e-290 underflow; where this matters,
    take the kernel that `unit` returns.

    Raises
    ------
    ValueError
        for a kernel without `has_pairs`, for coordinates beyond 2¹⁰²¹, and for values that are no doubles.

    >>> from gpbounds.kernels import SquaredExponential
    >>> high, low = pair_covariances(SquaredExponential(), np.zeros((1, 1)), np.ones((1, 1)))
    >>> from decimal import Decimal, getcontext
    >>> getcontext().prec = 40
    >>> abs(Decimal(float(high[0, 0])) + Decimal(float(low[0, 0])) - Decimal("-0.5").exp()) < Decimal("1e-31")
    True
    """
    scaled, exponent = _unit(kernel, np.maximum(_reach(X1), _reach(X2)))
    high = np.empty((len(X1), len(X2)))
    low = np.empty_like(high)
    step = max(1, PIECE // (2 * max(len(X2), 1)))
    for start in range(0, len(X1), step):
        rows = slice(start, start + step)
        high[rows], low[rows] = scaled.fold(_ENTRIES, (X1[rows, None, :], X2[None, :, :]))
    return _times(high, low, exponent)


def pair_variances(kernel: Kernel, X: Float) -> Pair:
    """k(x, x) for the rows of X (N, D), as `pair_covariances`.

    >>> from gpbounds.kernels import Linear
    >>> pair_variances(Linear(2.0), np.array([[1.0], [3.0]]))[0]
    array([ 2., 18.])
    """
    scaled, exponent = _unit(kernel, _reach(X))
    rows = X[:, None, :]
    high, low = scaled.fold(_ENTRIES, (rows, rows))
    return _times(high[:, 0].copy(), low[:, 0].copy(), exponent)


def _times(high: Float, low: Float, exponent: int) -> Pair:
    if exponent:
        for part in (high, low):
            np.ldexp(part, exponent, out=part)
    return high, low


def _reach(X: Float) -> Float:
    """The largest |x_d| of the points X (n, D) in each dimension."""
    reach = np.abs(X).max(axis=0, initial=0.0)
    if reach.size and float(reach.max()) > LARGEST:
        raise ValueError(f"X: expected coordinates of at most 2**1021, got {float(reach.max()):.3g}")
    return np.asarray(reach, dtype=np.float64)


def unit(kernel: Kernel, X: Float) -> tuple[Kernel, int]:
    """(k/2ᵉ, e) with the largest value of k/2ᵉ in the box |x_d| ≤ max |X_d| between 1 and 2^degree times the number
    of summands.

    Variances that underflow in k/2ᵉ become the smallest double: less than `TINY`.

    >>> from gpbounds.kernels import Constant, SquaredExponential
    >>> unit(SquaredExponential(1e300) * SquaredExponential(1e200) + Constant(1e-200), np.zeros((1, 1)))[1]
    1660
    """
    return _unit(kernel, _reach(X))


def _unit(kernel: Kernel, reach: Float) -> tuple[Kernel, int]:
    _require(kernel)
    exponent, powered = kernel.fold(_POWERS, reach)
    return powered(-exponent), exponent


def require_doubles(kernel: Kernel, X: Float) -> None:
    """Refuse a kernel without `has_pairs`, or with a value at the rows that is not far below the largest double."""
    _require(kernel)
    if kernel.fold(_POWERS, _reach(X))[0] > EXPONENTS:
        raise ValueError(
            f"kernel: expected a largest variance below 2**{EXPONENTS} at the rows with rigor='sharp', got "
            f"{shown(kernel)}"
        )


def times_power(kernel: Kernel, exponent: int, X: Float) -> Kernel:
    """2^exponent times the kernel for points of the box of X; variances that underflow become the smallest double."""
    return kernel.fold(_POWERS, _reach(X))[1](exponent)


_Powers = tuple[int, Callable[[int], Kernel]]
"""e with 2ᵉ about the largest value of k in the box, and the function that multiplies k with a power of 2."""


def _power_of_sum(first: _Powers, second: _Powers) -> _Powers:
    return max(first[0], second[0]), lambda exponent: Sum(first[1](exponent), second[1](exponent))


def _power_of_product(first: _Powers, second: _Powers) -> _Powers:
    own = first[0]
    return own + second[0], lambda exponent: Product(first[1](-own), second[1](exponent + own))


def _power_on(kernel: OnColumns, reach: Float, inner: Callable[[Float], _Powers]) -> _Powers:
    own, powered = inner(reach[list(kernel.columns)])
    return own, lambda exponent: OnColumns(powered(exponent), kernel.columns)


_POWERS: Fold[Float, _Powers] = Fold(
    lambda kernel, reach: (kernel.largest_exponent(reach), kernel.times_power),
    _power_of_sum,
    _power_of_product,
    _power_on,
)


def pair_error(kernel: Kernel, X: Float) -> float:
    """A bound on the error of each entry of `pair_covariances` for points in the box |x_d| ≤ max |X_d|, X (n, D).

    About 1e-30 times the variance.  Squared exponential and Matérn kernels: N-pairs; rational quadratic ones:
    N-pairlog; periodic ones: N-pairsine, about 1e-31 for each turn between two points; linear and polynomial ones:
    N-pairpower, relative to the largest value in the box.

    A sum of kernels adds the errors of its parts, and 6; a product multiplies each by the other's largest value, and
    adds 18.  Distances are cut at 1e4 lengthscales, where k and its value here are below 1e-290·v; `TINY` includes it.
    It also includes what underflows where variances are near 1: a coordinate of x − x' below 1e-308 lengthscales, a
    square below 1e-290, whose error changes z by less than 1e-160, and values of k below 1e-290.  Differences are
    divided by the lengthscale after both are divided by a power of 2, which is exact.  The result is that of k/2ᵉ,
    variances near 1, times 2ᵉ, plus the two smallest doubles for the rounding of both parts.

    >>> from gpbounds.kernels import SquaredExponential
    >>> pair_error(SquaredExponential(), np.ones((1, 1))) < 1e-30
    True
    """
    reach = _reach(X)
    scaled, exponent = _unit(kernel, reach)
    error = scaled.fold(_ERRORS, reach)[1]
    return error if exponent == 0 else math.ldexp(error, exponent) + 4.0 * TINIEST


def largest_value(kernel: Kernel, X: Float) -> float:
    """An upper bound on |k(x, z)| for points in the box |x_d| ≤ max |X_d|, of a kernel that `unit` returned.

    >>> from gpbounds.kernels import Linear
    >>> 18.0 <= largest_value(Linear(2.0), np.array([[1.0], [-3.0]])) < 18.001
    True
    """
    return kernel.fold(_LARGEST, _reach(X))


def _reached(kernel: OnColumns, reach: Float, inner: Callable[[Float], Result]) -> Result:
    return inner(reach[list(kernel.columns)])


_LARGEST: Fold[Float, float] = Fold(
    lambda kernel, reach: kernel.largest_within(reach),
    lambda first, second: (first + second) * (1.0 + EPS),
    lambda first, second: first * second * (1.0 + EPS),
    _reached,
)
Bounded = tuple[float, float]
"""The largest value in the box, and a bound on the error of an entry."""


def _error_of_sum(first: Bounded, second: Bounded) -> Bounded:
    (a, e), (b, f) = first, second
    return _LARGEST.add(a, b), 1.05 * (e + f + 6.0 * U2 * (a + b))


def _error_of_product(first: Bounded, second: Bounded) -> Bounded:
    (a, e), (b, f) = first, second
    return _LARGEST.multiply(a, b), 1.05 * (e * b + f * a + e * f + 18.0 * U2 * a * b + TINY)


_ERRORS: Fold[Float, Bounded] = Fold(
    lambda kernel, reach: (kernel.largest_within(reach), kernel.pair_error(reach)),
    _error_of_sum,
    _error_of_product,
    _reached,
)


def _require(kernel: Kernel) -> None:
    part = _unknown_part(kernel)
    if part is not None and part.is_noise:
        raise ValueError(
            "kernel: expected a prior over functions, got one with White, which is noise: use kernel, noise = "
            "gpbounds.kernels.separated(kernel), and pass both"
        )
    if part is not None:
        raise ValueError(
            "kernel: expected squared exponential, periodic, constant, linear or polynomial kernels (degree at most "
            f"{DEGREE}), Matérn kernels with nu = 0.5, 1.5, ..., 20.5, rational quadratic ones (shape from 1e-6 to "
            f"1e6), or sums and products of them, which are computed to 30 digits, got {shown(part)}; rigor='float' "
            "takes other kernels"
        )


Points = tuple[Float, Float]
"""X1 (n, 1, D) and X2 (1, m, D), or (n, 1, D) for one value a row."""


_ENTRIES: Fold[Points, Pair] = Fold(
    lambda kernel, points: kernel.pair_entries(*points),
    add,
    multiply,
    lambda kernel, points, inner: inner((points[0][..., kernel.columns], points[1][..., kernel.columns])),
)


def times(number: Pair, factor: float) -> Pair:
    """A pair times a double."""
    return multiply(number, (np.float64(factor), np.float64(0.0)))


def summed(X1: Float, X2: Float, term: Callable[[int], Pair]) -> Pair:
    """Σ_d term(d)."""
    shape = np.broadcast_shapes(X1.shape[:2], X2.shape[:2])
    total: Pair = (np.zeros(shape), np.zeros(shape))
    for d in range(X1.shape[-1]):
        total = add(total, term(d))
    return total


def apart(X1: Float, X2: Float, d: int, scale: float) -> Pair:
    """(x_d − z_d)/scale; not finite where it overflows."""
    mantissa, exponent = math.frexp(scale)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        high, low = two_sum(X1[..., d], -X2[..., d])
        return divide((np.ldexp(high, -exponent), np.ldexp(low, -exponent)), np.float64(mantissa))


def kept(number: Pair, near: np.ndarray, other: float) -> Pair:
    """``number`` where ``near`` is true, else ``other``."""
    return np.where(near, number[0], other), np.where(near, number[1], 0.0)


def squared_distances(X1: Float, X2: Float, lengthscales: Float, *, farthest: float | None = None) -> Pair:
    """Σ_d (x_d − x'_d)²/ℓ_d², each distance cut at `FAR`, or refused beyond ``farthest``."""

    def term(d: int) -> Pair:
        distance = apart(X1, X2, d, float(lengthscales[d]))
        near = np.abs(distance[0]) < (FAR if farthest is None else farthest)  # False also where the quotient overflows
        if farthest is not None and not bool(near.all()):
            raise ValueError(f"X: expected distances below {farthest:g} lengthscales for a rational quadratic kernel")
        short = kept(distance, near, FAR)
        return multiply(short, short)

    return summed(X1, X2, term)
