"""Double-double arithmetic, kernels and products against 60 to 100 digits (N-pairs, N-slices)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.kernels import Constant, Kernel, Linear, Matern, Periodic, Polynomial, SquaredExponential
from gpbounds.kernels.pairs import pair_covariances, pair_error, pair_variances, unit
from gpbounds.kernels.plain import kernel_to_plain
from gpbounds.linalg.pair_products import left, multiply, product, right
from gpbounds.numerics.pairs import add, divide, exp, sine_squared, square_root, whole_turns_removed
from gpbounds.numerics.pairs import multiply as times
from gpbounds.reference import spectra as reference

seeds = st.integers(0, 2**32 - 1)
UNIT = mp.mpf(2) ** -106


def pair(rng: np.random.Generator, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Low parts of at most half a unit in the last place, some of them 0."""
    return values, values * 2.0**-54 * rng.choice([0.0, 1.0, -1.0, 0.3], values.shape)


def exact(number: tuple[np.ndarray, np.ndarray]) -> list[Any]:
    return [mp.mpf(float(high)) + mp.mpf(float(low)) for high, low in zip(*map(np.ravel, number), strict=True)]


@pytest.mark.claim("N-pairs")
@given(seed=seeds)
def test_the_error_of_each_operation_is_bounded(observe: Observer, seed: int) -> None:
    """Sums that cancel, and factors from 1e-60 to 1e60, to 100 digits."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((2, 30)) * 10.0 ** rng.uniform(-60.0, 60.0, (2, 30))
    values[1, :15] = -values[0, :15] * (1.0 + rng.choice([0.0, 2.0**-52, 2.0**-30, 0.1], 15))
    a, b = (pair(rng, row) for row in values)
    with mp.workdps(100):
        first, second = exact(a), exact(b)
        results = {
            "add": (add(a, b), [p + q for p, q in zip(first, second, strict=True)], 6),
            "multiply": (times(a, b), [p * q for p, q in zip(first, second, strict=True)], 18),
            "divide": (divide(a, b[0]), [p / mp.mpf(float(q)) for p, q in zip(first, b[0], strict=True)], 7),
            "root": (square_root((np.abs(a[0]), a[1] * np.sign(a[0]))), [mp.sqrt(abs(p)) for p in first], 12),
        }
        for name, (computed, truth, factor) in results.items():
            sizes = [abs(p) + abs(q) for p, q in zip(first, second, strict=True)] if name == "add" else map(abs, truth)
            for value, whole, size in zip(exact(computed), truth, sizes, strict=True):
                observe.upper("N-pairs", abs(value - whole), factor * UNIT * size)
            assert (np.abs(computed[1]) <= 2.0**-52 * np.abs(computed[0])).all()


@pytest.mark.claim("N-pairs")
@given(seed=seeds)
def test_the_error_of_exp_is_bounded(observe: Observer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[0.0, 679.9, 1000.0], 10.0 ** rng.uniform(-30.0, 2.8, 15), rng.uniform(0.0, 5.0, 15)])
    t = pair(rng, -sizes)
    with mp.workdps(100):
        for value, argument in zip(exact(exp(t)), exact(t), strict=True):
            error = (8 * abs(argument) + 20) * UNIT * mp.exp(argument) if argument > -680 else mp.mpf("1e-295")
            observe.upper("N-pairs", abs(value - mp.exp(argument)), error)


def random_kernel(rng: np.random.Generator) -> Kernel:
    scale, v = 10.0 ** rng.uniform(-1.0, 1.5, 2), float(rng.uniform(0.1, 3.0))
    choices: list[Kernel] = [SquaredExponential(v, scale), Matern(float(rng.integers(21)) + 0.5, v, scale)]
    first = choices[int(rng.integers(2))]
    other = [Constant(v), Matern(1.5, 0.3, 0.7).on([1]), SquaredExponential(2.0, 0.4)][int(rng.integers(3))]
    return [first, first + other, first * other][int(rng.integers(3))]


@pytest.mark.claim("N-pairs")
def test_exp_of_numbers_below_its_range_is_that_of_its_end(observe: Observer) -> None:
    far, least = (exp((np.array([t]), np.array([0.0]))) for t in (-1000.0, -680.0))
    assert exact(far) == exact(least)
    with mp.workdps(50):
        observe.equal("N-pairs", exact(least), [mp.exp(-680)], rtol=(8 * 680 + 20) * UNIT)


@pytest.mark.claim("N-pairs")
@given(seed=seeds)
def test_the_error_of_each_kernel_entry_is_bounded(observe: Observer, seed: int) -> None:
    """Near, far, equal and offset points."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5, 2)) * 10.0 ** rng.uniform(-3.0, 1.5) + 10.0 ** rng.uniform(0, 4) * rng.integers(2)
    X[1], X[2], X[3, 0] = X[0], X[0] + 1e-9, 1e200
    kernel = random_kernel(rng)
    computed, error = pair_covariances(kernel, X, X), mp.mpf(pair_error(kernel, X))
    assert error < 1e-28 * kernel.max_variance
    with mp.workdps(100):
        truth = reference.gram(kernel_to_plain(kernel), X.tolist())
        for value, entry in zip(exact(computed), truth, strict=True):
            observe.upper("N-pairs", abs(value - entry), error)


@pytest.mark.claim("N-pairs")
@given(seed=seeds)
@example(seed=0)
def test_entries_at_the_ends_of_double_precision(observe: Observer, seed: int) -> None:
    """Variances, lengthscales and coordinates from 1e-307 to 1e307; `unit` changes no entry but by a power of 2."""
    rng = np.random.default_rng(seed)
    size, v = 10.0 ** rng.uniform(-306.0, 306.0), 10.0 ** rng.uniform(-307.0, 307.0, 2)
    X = rng.standard_normal((4, 2)) * size
    X[1] = X[0]
    scale = float(np.clip(size * 10.0 ** rng.uniform(-2.0, 2.0), 1e-307, 1e307))
    first, second = SquaredExponential(v[0], scale), Matern(1.5, v[1], scale)
    choices: list[Kernel] = [first, second, first + second, first * Matern(0.5, 1.0 / v[0], scale)]
    kernel = choices[int(rng.integers(4))]
    scaled, exponent = unit(kernel, X)
    with mp.workdps(100):
        truth = reference.gram(kernel_to_plain(kernel), X.tolist())
        for computed, error, power in (
            (pair_covariances(kernel, X, X), pair_error(kernel, X), 0),
            (pair_covariances(scaled, X, X), pair_error(scaled, X), exponent),
        ):
            for value, entry in zip(exact(computed), truth, strict=True):
                observe.upper("N-pairs", abs(mp.ldexp(value, power) - entry), mp.ldexp(mp.mpf(error), power))


@pytest.mark.claim("N-pairsine")
@given(seed=seeds)
def test_the_error_of_the_sine_is_bounded(observe: Observer, seed: int) -> None:
    """Whole turns are removed from up to 1e15; small angles keep their relative accuracy."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], 30)
    t = pair(
        rng, signs * np.concatenate([[0.0, 0.5, 0.25], 10.0 ** rng.uniform(-60.0, -0.4, 12), rng.uniform(0, 0.5, 15)])
    )
    turned = pair(rng, rng.uniform(-1.0, 1.0, 30) * 10.0 ** rng.uniform(-2.0, 15.0, 30))
    with mp.workdps(100):
        for value, angle in zip(exact(sine_squared(t)), exact(t), strict=True):
            truth = mp.sinpi(angle) ** 2
            observe.upper("N-pairsine", abs(value - truth), 190 * UNIT * truth)
        for value, angle in zip(exact(whole_turns_removed(turned)), exact(turned), strict=True):
            apart = (value - angle) - mp.nint(value - angle)
            observe.upper("N-pairsine", abs(apart), 26 * UNIT * (abs(angle) + 1))
            assert abs(value) <= 0.51


def unbounded(rng: np.random.Generator, size: float, period: float) -> Kernel:
    v = float(10.0 ** rng.uniform(-3.0, 3.0))
    periodic = Periodic(period, v, float(10.0 ** rng.uniform(-1.5, 1.5)))
    linear, whole = (
        Linear([v, 2.0 * v]),
        Polynomial(int(rng.integers(1, 7)), v / size / size, float(rng.uniform(0.1, 9.0))),
    )
    parts: list[Kernel] = [periodic, linear, whole, linear + SquaredExponential(v, size), whole.on([1]) * periodic]
    return parts[int(rng.integers(5))]


@pytest.mark.claim("N-pairsine", "N-pairpower")
@given(seed=seeds)
@example(seed=0)
@example(seed=8332)  # a period of .014
def test_entries_of_periodic_linear_and_polynomial_kernels(observe: Observer, seed: int) -> None:
    """Coordinates from 1e-150 to 1e150 and as far from 0 as UNIX times and 1e15, equal rows, and one at 0."""
    rng = np.random.default_rng(seed)
    size = 10.0 ** float(rng.choice([0.0, rng.uniform(-140.0, 140.0)]))
    shift = float(rng.choice([0.0, 1.7e9, 1e13, 1e15])) if size == 1.0 else 0.0
    X = rng.standard_normal((4, 2)) * size + shift
    X[1], X[2] = X[0], X[0] * (1.0 + 1e-12)
    X[3] *= rng.integers(2)
    kernel = unbounded(rng, max(size, shift), size * float(10.0 ** rng.uniform(-2.0, 2.0)))
    scaled, exponent = unit(kernel, X)
    with mp.workdps(150):
        truth = reference.gram(kernel_to_plain(kernel), X.tolist())
        high, low = pair_variances(kernel, X)
        for value, i in zip(exact((high, low)), range(4), strict=True):
            observe.upper("N-pairpower", abs(value - truth[i, i]), mp.mpf(pair_error(kernel, X)))
        for computed, error, power in (
            (pair_covariances(kernel, X, X), pair_error(kernel, X), 0),
            (pair_covariances(scaled, X, X), pair_error(scaled, X), exponent),
        ):
            for value, entry in zip(exact(computed), truth, strict=True):
                observe.upper("N-pairpower", abs(mp.ldexp(value, power) - entry), mp.ldexp(mp.mpf(error), power))
        if shift == 0.0 and size == 1.0:
            assert pair_error(kernel, X) <= 1e-25 * max(abs(float(entry)) for entry in truth)


@pytest.mark.claim("N-slices")
@given(seed=seeds)
@example(seed=0)
def test_the_error_of_a_product_is_bounded(observe: Observer, seed: int) -> None:
    """Rows whose entries differ by up to 10⁴⁰, products that cancel, rows of zeros; in rational numbers."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(size) for size in rng.integers(1, (5, 5, 40)))
    A = rng.standard_normal((m, k)) * 10.0 ** rng.uniform(-40.0, 0.0, k) * 10.0 ** rng.uniform(-5.0, 5.0, (m, 1))
    B = rng.standard_normal((n, k))
    if k > 1:
        A[0, 1:], B[0, 1:] = A[0, :1], -B[0, :1] / (k - 1)  # a sum near 0
    A[-1] *= rng.integers(2)
    first, second = pair(rng, A), pair(rng, B)
    (high, low), error = product(left(first), right(second))

    def rational(matrix: tuple[np.ndarray, np.ndarray]) -> list[list[Fraction]]:
        return [
            [Fraction(a) + Fraction(b) for a, b in zip(*rows, strict=True)]
            for rows in zip(*map(list, matrix), strict=True)
        ]

    a, b, c = map(rational, (first, second, (high, low)))
    squares = sum(
        (c[i][j] - sum(p * q for p, q in zip(a[i], b[j], strict=True))) ** 2 for i in range(m) for j in range(n)
    )
    observe.upper("N-slices", mp.sqrt(mp.mpf(squares.numerator) / squares.denominator), mp.mpf(error))
    assert error <= 1e-27 * np.linalg.norm(A) * np.linalg.norm(B)


@pytest.mark.claim("N-slices")
def test_a_product_of_many_columns_is_bounded(observe: Observer) -> None:
    """3000 columns of entries of one sign and size, where partial sums are largest, over two blocks of rows."""
    rng = np.random.default_rng(1)
    A, B = (pair(rng, rng.uniform(0.5, 1.0, (rows, 3000))) for rows in (2, 600))
    (high, low), error = multiply(A, B)
    for j in (0, 511, 512, 599):
        for i in range(2):
            terms = zip(A[0][i], A[1][i], B[0][j], B[1][j], strict=True)
            truth = sum((Fraction(p) + Fraction(q)) * (Fraction(r) + Fraction(s)) for p, q, r, s in terms)
            apart = abs(Fraction(high[i, j]) + Fraction(low[i, j]) - truth)
            observe.upper("N-slices", mp.mpf(apart.numerator) / apart.denominator, mp.mpf(error))
    assert error < 1e-24 * 3000
