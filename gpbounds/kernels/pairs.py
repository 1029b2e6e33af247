"""Kernel matrices in double-double numbers, with a proved bound on the error of an entry."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Float
from gpbounds.kernels import per_dimension
from gpbounds.kernels.base import PIECE, Kernel, OnColumns, Product, Sum
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.inner_products import InnerProduct, Linear, Polynomial
from gpbounds.kernels.matern import Matern
from gpbounds.kernels.periodic import Periodic
from gpbounds.kernels.rational_quadratic import RationalQuadratic
from gpbounds.kernels.squared_exponential import SquaredExponential
from gpbounds.kernels.stationary import Stationary
from gpbounds.kernels.white import White
from gpbounds.numerics.pair_exp import exp, log
from gpbounds.numerics.pair_sine import sine_squared, whole_turns_removed
from gpbounds.numerics.pairs import Pair, add, divide, multiply, square_root, two_product, two_sum

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
MOST_TURNS = 1e30
"""Most periods between two points."""
DEGREE = 64
"""Largest degree of a polynomial kernel."""
CIRCLES = 1e-100, 1e100
"""Least and largest lengthscale of a periodic kernel."""
EXPONENTS = 1000
"""The largest exponent of 2 of a kernel's greatest value at the rows."""


def has_pairs(kernel: Kernel) -> bool:
    """Whether `pair_covariances` knows the kernel.

    Squared exponential, periodic (lengthscales from 1e-100 to 1e100), constant, linear and polynomial kernels (degree
    at most 64), Matérn kernels with ν = p + ½, p ≤ 20, rational quadratic ones with a shape from 1e-6 to 1e6, and sums,
    products and kernels on some columns of them.
    """
    return unknown_part(kernel) is None


def unknown_part(kernel: Kernel) -> Kernel | None:
    """The first part of a kernel that `pair_covariances` does not know, None if it knows all."""
    if isinstance(kernel, Sum | Product):
        first = unknown_part(kernel.k1)
        return unknown_part(kernel.k2) if first is None else first
    if isinstance(kernel, OnColumns):
        return unknown_part(kernel.kernel)
    if type(kernel) is Matern:
        known = kernel.is_half_integer and kernel.nu < MOST + 1.0
    elif type(kernel) is RationalQuadratic:
        known = SHAPES[0] <= kernel.shape <= SHAPES[1]
    elif type(kernel) is Polynomial:
        known = kernel.degree <= DEGREE
    elif type(kernel) is Periodic:
        lengths = np.atleast_1d(np.asarray(kernel.lengthscale))
        known = bool((lengths >= CIRCLES[0]).all() and (lengths <= CIRCLES[1]).all())
    else:
        known = type(kernel) in (SquaredExponential, Constant, Linear)
    return None if known else kernel


def pair_covariances(kernel: Kernel, X1: Float, X2: Float) -> Pair:
    """k(X1, X2) for X1 (N, D) and X2 (M, D), each entry within `pair_error` of k in exact arithmetic.

    Claims N-pairs, N-pairlog, N-pairsine, N-pairpower.  X1, X2 and the hyperparameters are exact doubles.  An entry
    costs about 0.5 µs, of a periodic kernel 2 µs.  Low parts of entries below 1e-290 underflow; where this matters,
    take the kernel that `unit` returns.

    Raises
    ------
    ValueError
        for a kernel without `has_pairs`, for coordinates beyond 2¹⁰²¹, and for values that are no doubles.

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
        high[rows], low[rows] = _entries(scaled, X1[rows, None, :], X2[None, :, :])
    return _times(high, low, exponent)


def pair_variances(kernel: Kernel, X: Float) -> Pair:
    """k(x, x) for the rows of X (N, D), as `pair_covariances`.

    >>> pair_variances(Linear(2.0), np.array([[1.0], [3.0]]))[0]
    array([ 2., 18.])
    """
    scaled, exponent = _unit(kernel, _reach(X))
    rows = X[:, None, :]
    high, low = _entries(scaled, rows, rows)
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

    >>> unit(SquaredExponential(1e300) * SquaredExponential(1e200) + Constant(1e-200), np.zeros((1, 1)))[1]
    1660
    """
    return _unit(kernel, _reach(X))


def _unit(kernel: Kernel, reach: Float) -> tuple[Kernel, int]:
    _require(kernel)
    exponent = _exponent(kernel, reach)
    return _times_power(kernel, -exponent, reach), exponent


def require_doubles(kernel: Kernel, X: Float) -> None:
    """Refuse a kernel without `has_pairs`, or with a value at the rows that is not far below the largest double."""
    _require(kernel)
    if _exponent(kernel, _reach(X)) > EXPONENTS:
        raise ValueError(
            f"kernel: expected a largest variance below 2**{EXPONENTS} at the rows with rigor='sharp', got {kernel!r}"
        )


def _exponent(kernel: Kernel, reach: Float) -> int:
    if isinstance(kernel, Sum):
        return max(_exponent(kernel.k1, reach), _exponent(kernel.k2, reach))
    if isinstance(kernel, Product):
        return _exponent(kernel.k1, reach) + _exponent(kernel.k2, reach)
    if isinstance(kernel, OnColumns):
        return _exponent(kernel.kernel, reach[list(kernel.columns)])
    if isinstance(kernel, InnerProduct):
        exponent = _sum_exponent(kernel, reach)
        if not isinstance(kernel, Polynomial):
            return exponent
        return kernel.degree * max(exponent, math.frexp(kernel.offset)[1] - 1)
    return math.frexp(kernel.max_variance)[1] - 1


def _sum_exponent(kernel: InnerProduct, reach: Float) -> int:
    """The largest e with 2ᵉ ≤ v_d r_d² < 8·2ᵉ, or more where 2⁻ᵉv_d would overflow: at coordinates below 1e-150."""
    pairs = list(zip(kernel.variances(len(reach)).tolist(), reach.tolist(), strict=True))
    terms = [math.frexp(v)[1] + 2 * math.frexp(r)[1] - 3 for v, r in pairs if r > 0.0]
    return max([*terms, *(math.frexp(v)[1] - 1000 for v, _ in pairs)])


def times_power(kernel: Kernel, exponent: int, X: Float) -> Kernel:
    """2^exponent times the kernel for points of the box of X; variances that underflow become the smallest double."""
    return _times_power(kernel, exponent, _reach(X))


def _times_power(kernel: Kernel, exponent: int, reach: Float) -> Kernel:
    if isinstance(kernel, Sum):
        return Sum(_times_power(kernel.k1, exponent, reach), _times_power(kernel.k2, exponent, reach))
    if isinstance(kernel, Product):
        first = _exponent(kernel.k1, reach)
        return Product(_times_power(kernel.k1, -first, reach), _times_power(kernel.k2, exponent + first, reach))
    if isinstance(kernel, OnColumns):
        return OnColumns(_times_power(kernel.kernel, exponent, reach[list(kernel.columns)]), kernel.columns)
    if isinstance(kernel, Polynomial):
        each, rest = divmod(exponent, kernel.degree)
        powered = Polynomial(kernel.degree, _ldexp(kernel.variance, each), float(_ldexp(kernel.offset, each)))
        return powered if rest == 0 else Product(Constant(2.0**rest), powered)
    if isinstance(kernel, Linear):
        return Linear(_ldexp(kernel.variance, exponent))
    assert isinstance(kernel, Stationary | Periodic | Constant)
    return replace(kernel, variance=float(_ldexp(kernel.variance, exponent)))


def _ldexp(variance: ArrayLike, exponent: int) -> Float:
    with np.errstate(under="ignore"):
        return np.maximum(np.ldexp(np.asarray(variance, dtype=np.float64), exponent), SMALLEST)


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

    >>> pair_error(SquaredExponential(), np.ones((1, 1))) < 1e-30
    True
    """
    reach = _reach(X)
    scaled, exponent = _unit(kernel, reach)
    error = _unit_error(scaled, reach)
    return error if exponent == 0 else math.ldexp(error, exponent) + 4.0 * SMALLEST


def largest_value(kernel: Kernel, X: Float) -> float:
    """An upper bound on |k(x, z)| for points in the box |x_d| ≤ max |X_d|, of a kernel that `unit` returned.

    >>> 18.0 <= largest_value(Linear(2.0), np.array([[1.0], [-3.0]])) < 18.001
    True
    """
    return _largest(kernel, _reach(X))


def _largest(kernel: Kernel, reach: Float) -> float:
    """An upper bound on |k(x, z)| in the box, rounded up."""
    if isinstance(kernel, Sum):
        return (_largest(kernel.k1, reach) + _largest(kernel.k2, reach)) * (1.0 + EPS)
    if isinstance(kernel, Product):
        return _largest(kernel.k1, reach) * _largest(kernel.k2, reach) * (1.0 + EPS)
    if isinstance(kernel, OnColumns):
        return _largest(kernel.kernel, reach[list(kernel.columns)])
    if isinstance(kernel, Polynomial):
        return (_sum_of(kernel, reach) + kernel.offset) ** kernel.degree * (1.0 + 4.0 * kernel.degree * EPS)
    return _sum_of(kernel, reach) if isinstance(kernel, InnerProduct) else kernel.max_variance


def _sum_of(kernel: InnerProduct, reach: Float) -> float:
    """Σ_d v_d r_d², rounded up."""
    D = len(reach)
    terms = (
        math.ldexp(*_product_of(v, r, r)) for v, r in zip(kernel.variances(D).tolist(), reach.tolist(), strict=True)
    )
    return math.fsum(terms) * (1.0 + 8.0 * EPS) + D * TINY


def _product_of(*factors: float) -> tuple[float, int]:
    """(m, e) with m·2ᵉ the product."""
    parts = [math.frexp(factor) for factor in factors]
    return math.prod(mantissa for mantissa, _ in parts), sum(exponent for _, exponent in parts)


def _unit_error(kernel: Kernel, reach: Float) -> float:
    dim = len(reach)
    if isinstance(kernel, OnColumns):
        return _unit_error(kernel.kernel, reach[list(kernel.columns)])
    if isinstance(kernel, Sum | Product):
        first, second = _unit_error(kernel.k1, reach), _unit_error(kernel.k2, reach)
        a, b = _largest(kernel.k1, reach), _largest(kernel.k2, reach)
        if isinstance(kernel, Sum):
            return 1.05 * (first + second + 6.0 * U2 * (a + b))
        return 1.05 * (first * b + second * a + first * second + 18.0 * U2 * a * b + TINY)
    if isinstance(kernel, InnerProduct):
        return _inner_product_error(kernel, reach)
    v, c = kernel.max_variance, 32.0 + 6.0 * dim
    if isinstance(kernel, Matern):
        p = int(kernel.nu - 0.5)
        largest = sum(float(c_i) * ((i + 1) / math.e) ** (i + 1) for i, c_i in enumerate(_coefficients(p)))
        return v * (1.05 * U2 * ((0.5 * (18.0 + c) + 20.0) * largest + 24.0 * p + 63.0) + TINY)
    if isinstance(kernel, SquaredExponential):
        return v * (1.05 * U2 * ((c + 8.0) / math.e + 38.0) + TINY)
    if isinstance(kernel, RationalQuadratic):
        return v * (1.05 * U2 * ((c + 47.0) / math.e + 58.0 * kernel.shape + 38.0) + TINY)
    if isinstance(kernel, Periodic):
        return v * min(1.05 * (U2 * ((6.0 * dim + 220.0) / math.e + 38.0) + _moved(kernel, reach)) + TINY, 1.01)
    return 0.0


def _moved(kernel: Periodic, reach: Float) -> float:
    """Σ_d .86√2 π δ_d/ℓ_d, δ_d = u²(33 T_d + 33) the error of x − z in periods, T_d the most periods (N-pairsine)."""
    weights, periods = kernel.scales(len(reach))
    with np.errstate(over="ignore"):
        turns = 2.0 * (reach / 4.0) / (periods / 4.0) * (1.0 + 4.0 * EPS)
        _require_turns(float(turns.max()))
        moved = float((0.5 * weights * 0.861 * math.sqrt(2.0) * math.pi * U2 * 33.0 * (turns + 1.0)).sum())
    return min(moved, 2.0)


def _require_turns(largest: float) -> None:
    if not largest < MOST_TURNS:
        raise ValueError(
            f"X: expected points within {MOST_TURNS:g} periods of each other, beyond which 30 digits of x do not tell "
            "where in the period it is"
        )


def _inner_product_error(kernel: InnerProduct, reach: Float) -> float:
    """N-pairpower."""
    dim, total = len(reach), _sum_of(kernel, reach)
    error = 1.05 * U2 * (18.0 + 6.0 * dim) * total + TINY
    if not isinstance(kernel, Polynomial):
        return error
    p, largest = kernel.degree, total + kernel.offset
    error += 6.0 * U2 * largest
    return 1.05 * (p * error * largest ** (p - 1) + 18.0 * p * U2 * largest**p) + TINY


def _require(kernel: Kernel) -> None:
    part = unknown_part(kernel)
    if isinstance(part, White):
        raise ValueError(
            "kernel: expected a prior over functions, got one with White, which is noise: use kernel, noise = "
            "gpbounds.kernels.separated(kernel), and pass both"
        )
    if part is not None:
        raise ValueError(
            "kernel: expected squared exponential, periodic, constant, linear or polynomial kernels (degree at most "
            f"{DEGREE}), Matérn kernels with nu = 0.5, 1.5, ..., 20.5, rational quadratic ones (shape from 1e-6 to "
            f"1e6), or sums and products of them, which are computed to 30 digits, got {part!r}; rigor='float' takes "
            "other kernels"
        )


def _entries(kernel: Kernel, X1: Float, X2: Float) -> Pair:
    """k of the points X1 (n, 1, D) and X2 (1, m, D), or (n, 1, D) for one value a row."""
    if isinstance(kernel, Sum):
        return add(_entries(kernel.k1, X1, X2), _entries(kernel.k2, X1, X2))
    if isinstance(kernel, Product):
        return multiply(_entries(kernel.k1, X1, X2), _entries(kernel.k2, X1, X2))
    if isinstance(kernel, OnColumns):
        columns = list(kernel.columns)
        return _entries(kernel.kernel, X1[..., columns], X2[..., columns])
    if isinstance(kernel, InnerProduct):
        return _inner_product(kernel, X1, X2)
    shape = np.broadcast_shapes(X1.shape[:2], X2.shape[:2])
    if isinstance(kernel, Constant):
        return np.full(shape, kernel.variance), np.zeros(shape)
    if isinstance(kernel, Periodic):
        correlation = _periodic(kernel, X1, X2)
    else:
        assert isinstance(kernel, Stationary)
        rational = isinstance(kernel, RationalQuadratic)
        squared = _squared(X1, X2, kernel.lengthscales(X1.shape[-1]), cut=not rational)
        if isinstance(kernel, RationalQuadratic):
            correlation = _rational_quadratic(squared, kernel.shape)
        elif isinstance(kernel, Matern):
            correlation = _matern(squared, kernel.nu)
        else:
            correlation = exp((-0.5 * squared[0], -0.5 * squared[1]))
    return multiply(correlation, (np.float64(kernel.variance), np.float64(0.0)))


def _summed(X1: Float, X2: Float, term: Callable[[int], Pair]) -> Pair:
    """Σ_d term(d)."""
    shape = np.broadcast_shapes(X1.shape[:2], X2.shape[:2])
    total: Pair = (np.zeros(shape), np.zeros(shape))
    for d in range(X1.shape[-1]):
        total = add(total, term(d))
    return total


def _apart(X1: Float, X2: Float, d: int, scale: float) -> Pair:
    """(x_d − z_d)/scale; not finite where it overflows."""
    mantissa, exponent = math.frexp(scale)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        high, low = two_sum(X1[..., d], -X2[..., d])
        return divide((np.ldexp(high, -exponent), np.ldexp(low, -exponent)), np.float64(mantissa))


def _kept(number: Pair, near: np.ndarray, other: float) -> Pair:
    return np.where(near, number[0], other), np.where(near, number[1], 0.0)


def _squared(X1: Float, X2: Float, lengthscales: Float, *, cut: bool = True) -> Pair:
    """Σ_d (x_d − x'_d)²/ℓ_d², each distance cut at `FAR`, or refused beyond `FARTHEST`."""

    def term(d: int) -> Pair:
        apart = _apart(X1, X2, d, float(lengthscales[d]))
        near = np.abs(apart[0]) < (FAR if cut else FARTHEST)  # False also where the quotient overflows
        if not cut and not bool(near.all()):
            raise ValueError(f"X: expected distances below {FARTHEST:g} lengthscales for a rational quadratic kernel")
        kept = _kept(apart, near, FAR)
        return multiply(kept, kept)

    return _summed(X1, X2, term)


def _periodic(kernel: Periodic, X1: Float, X2: Float) -> Pair:
    """exp(−2Σ_d sin²(π(x_d − z_d)/period_d)/ℓ_d²), each summand cut at `FAR`²."""
    dim = X1.shape[-1]
    lengthscales = per_dimension.spread("lengthscale", kernel.lengthscale, dim)
    _, periods = kernel.scales(dim)

    def term(d: int) -> Pair:
        turns = _apart(X1, X2, d, float(periods[d]))
        _require_turns(float(np.abs(turns[0]).max(initial=0.0)))
        wave, scale = sine_squared(whole_turns_removed(turns)), np.float64(lengthscales[d])
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            exponent = divide(divide((2.0 * wave[0], 2.0 * wave[1]), scale), scale)
        return _kept(exponent, exponent[0] < FAR * FAR, FAR * FAR)

    total = _summed(X1, X2, term)
    return exp((-total[0], -total[1]))


def _inner_product(kernel: InnerProduct, X1: Float, X2: Float) -> Pair:
    """Σ_d v_d x_d z_d, and (offset + it)^degree: coordinates are near 1 when they are multiplied."""
    variances = kernel.variances(X1.shape[-1])

    def term(d: int) -> Pair:
        mantissa, exponent = math.frexp(variances[d])
        sides = []
        for points in (X1[..., d], X2[..., d]):
            power = math.frexp(float(np.abs(points).max(initial=0.0)))[1]
            exponent += power
            sides.append(np.ldexp(points, -power))
        high, low = multiply(two_product(*sides), (np.float64(mantissa), np.float64(0.0)))
        return np.ldexp(high, exponent), np.ldexp(low, exponent)

    s = _summed(X1, X2, term)
    if not isinstance(kernel, Polynomial):
        return s
    base = add(s, (np.full_like(s[0], kernel.offset), np.zeros_like(s[0])))
    result = base
    for _ in range(kernel.degree - 1):
        result = multiply(result, base)
    return result


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
