"""Kernels as a user meets them: right to the last digits, positive semi-definite, and clear about bad input."""

from __future__ import annotations

import dataclasses
import functools
import json

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.errors import NonFinite
from gpbounds.kernels import Constant, Kernel, Matern, Product, RationalQuadratic, SquaredExponential, Sum
from gpbounds.kernels.plain import (
    hyperparameters,
    kernel_from_plain,
    kernel_to_plain,
    with_hyperparameters,
)

EPS = np.finfo(np.float64).eps
DISTANCES = (0.0, 1e-150, 1e-20, 1e-8, 1e-4, 0.01, 0.1, 0.5, 1.0, 1.7, 3.0, 5.5, 10.0, 20.0, 37.0, 75.0, 150.0, 300.0)
HALF_INTEGERS = (0.5, 1.5, 2.5, 3.5, 4.5, 7.5, 20.5, 99.5, 199.5)
OTHERS = (0.01, 0.1, 0.3, 0.7, 1.2, 1.499999, 2.7, 3.3, 10.1, 33.3, 99.9, 150.25, 199.7)

positive = st.floats(0.05, 20.0)
smoothness = st.sampled_from(HALF_INTEGERS[:6]) | st.floats(0.05, 30.0)
stationary = st.builds(SquaredExponential, positive, positive) | st.builds(Matern, smoothness, positive, positive)
closed_form = st.builds(SquaredExponential, positive, positive) | st.builds(
    Matern, st.sampled_from(HALF_INTEGERS), positive, positive
)
seeds = st.integers(0, 2**32 - 1)


def bessel(nu, distance):
    """2^(1-ν)/Γ(ν) z^ν K_ν(z), z = √(2ν) r, good to 30 digits: mpmath loses some at 30 itself."""
    with mp.workdps(60):
        order = mp.mpf(nu)
        z = mp.sqrt(2 * order) * mp.mpf(distance)
        return 2 ** (1 - order) / mp.gamma(order) * z**order * mp.besselk(order, z) if z else mp.mpf(1)


def cloud(seed, N, dim, scale=1.0):
    """N points, a third of them duplicated and a third nearly so: what covariance matrices fear."""
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((N, dim))
    third = N // 3
    X[third : 2 * third] = X[:third]
    X[2 * third : 3 * third] = X[:third] * (1.0 + 1e-9 * rng.standard_normal((third, dim)))
    return X


@pytest.mark.parametrize("nu", [*HALF_INTEGERS, *OTHERS])
def test_matern_is_its_bessel_form(nu):
    row = Matern(nu)([[0.0]], np.array(DISTANCES)[:, None])[0]
    for r, value in zip(DISTANCES, row, strict=True):
        truth = bessel(nu, r)
        # e^(-z) of a z that is rounded is good to z·eps; scipy's Bessel function costs the 1e-13.
        relative = 1e-13 + 4.0 * EPS * np.sqrt(2.0 * nu) * r
        assert abs(value - truth) <= relative * truth + 1e-300, (nu, r, value, truth)


@pytest.mark.parametrize("nu", [1, 2, 3, 10])
def test_matern_at_whole_orders(nu):
    near = [r for r in DISTANCES if r <= 20.0]
    row = Matern(nu, variance=3.0)([[0.0]], np.array(near)[:, None])[0]
    for r, value in zip(near, row, strict=True):
        truth = 3 * bessel(nu, r)
        assert abs(value - truth) <= 1e-13 * truth, (nu, r, value, truth)


@pytest.mark.parametrize(
    ("nu", "closed"),
    [
        (0.5, lambda r: mp.exp(-r)),
        (1.5, lambda r: (1 + mp.sqrt(3) * r) * mp.exp(-mp.sqrt(3) * r)),
        (2.5, lambda r: (1 + mp.sqrt(5) * r + 5 * r**2 / 3) * mp.exp(-mp.sqrt(5) * r)),
    ],
)
def test_matern_is_the_polynomial_times_exponential_of_the_textbooks(nu, closed):
    row = Matern(nu)([[0.0]], np.array(DISTANCES)[:, None])[0]
    with mp.workdps(30):
        for r, value in zip(DISTANCES, row, strict=True):
            truth = closed(mp.mpf(r))
            assert abs(value - truth) <= (4.0 + 4.0 * nu * r) * EPS * truth + 1e-300


def test_squared_exponential_is_the_exponential():
    row = SquaredExponential()([[0.0]], np.array(DISTANCES)[:, None])[0]
    with mp.workdps(30):
        for r, value in zip(DISTANCES, row, strict=True):
            truth = mp.exp(-(mp.mpf(r) ** 2) / 2)
            assert abs(value - truth) <= (2.0 + r * r) * EPS * truth + 1e-300


@given(nu=st.floats(0.05, 3.0), r=st.floats(1e-3, 5.0))
def test_matern_near_a_half_integer_goes_over_into_it(nu, r):
    half = np.floor(nu) + 0.5
    limit = Matern(half)([[0.0]], [[r]])[0, 0]
    beside = [Matern(half + h)([[0.0]], [[r]])[0, 0] for h in (-1e-9, 1e-9)]
    assert beside == pytest.approx([limit, limit], rel=1e-8)


def test_matern_tends_to_the_squared_exponential():
    r = np.linspace(0.0, 3.0, 13)[:, None]
    orders = (5.5, 50.5, 500.5)
    gaps = [np.abs(Matern(nu)([[0.0]], r) - SquaredExponential()([[0.0]], r)).max() for nu in orders]
    assert [nu * gap for nu, gap in zip(orders, gaps, strict=True)] == pytest.approx([0.2275] * 3, rel=0.03)


@given(kernel=stationary, seed=seeds, dim=st.integers(1, 4))
def test_zero_distance_gives_the_variance_exactly(kernel, seed, dim):
    X = cloud(seed, 9, dim, scale=1e3)
    K = kernel(X)
    v = kernel.variance
    assert (np.diag(K) == v).all()
    assert (np.diag(K[:3, 3:6]) == v).all()  # duplicates
    assert (kernel.diag(X) == v).all()
    assert kernel.max_variance == v
    assert kernel(X, X[:1].copy())[0, 0] == v


@given(kernel=stationary, seed=seeds, scale=st.floats(1e-6, 1e4))
def test_no_correlation_exceeds_one(kernel, seed, scale):
    K = kernel(cloud(seed, 12, 2, scale))
    assert K.max() <= kernel.variance
    assert K.min() >= 0.0


@given(kernel=stationary, seed=seeds, N=st.integers(2, 30), scale=st.floats(1e-6, 1e3))
def test_matrices_are_symmetric_and_positive_semidefinite(kernel, seed, N, scale):
    K = kernel(cloud(seed, N, 2, scale))
    assert (K == K.T).all()
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -N * EPS * values[-1]


@pytest.mark.parametrize("nu", [1.3, 2.7, 180.3])
@pytest.mark.parametrize("gap", [1e-9, 1e-8, 1e-6, 1e-3])
def test_two_points_close_together_are_still_a_covariance(nu, gap):
    K = Matern(nu)([[0.0], [gap]])
    assert np.linalg.eigvalsh(K)[0] >= -2 * EPS * 2.0


@pytest.mark.parametrize("kernel", [SquaredExponential(), *(Matern(nu) for nu in (0.3, 0.5, 1.0, 1.5, 1.7, 2.5, 7.5))])
@pytest.mark.parametrize("far", [1e3, 1e9, 1e10, 1e150, 1e200])
def test_points_far_apart_are_uncorrelated(kernel, far):
    # Timestamps in nanoseconds with a lengthscale of one second, say: 0, and neither NaN nor a warning.
    assert kernel([[0.0]], [[far]])[0, 0] == 0.0


@given(
    seed=seeds,
    nu=smoothness,
    lengthscales=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=5),
)
def test_a_lengthscale_per_dimension_is_a_scaling_of_the_inputs(seed, nu, lengthscales):
    rng = np.random.default_rng(seed)
    X, Z = (rng.standard_normal((n, len(lengthscales))) * lengthscales for n in (6, 4))
    for stretched, plain in (
        (SquaredExponential(2.0, lengthscales), SquaredExponential(2.0)),
        (Matern(nu, 2.0, lengthscales), Matern(nu, 2.0)),
    ):
        scaled = plain(X / lengthscales, Z / lengthscales)
        np.testing.assert_allclose(stretched(X, Z), scaled, rtol=1e-12)
        np.testing.assert_allclose(stretched(X), plain(X / lengthscales), rtol=1e-12)


@given(seed=seeds, lengthscale=st.floats(0.01, 100.0), nu=smoothness)
def test_one_lengthscale_serves_all_dimensions(seed, lengthscale, nu):
    X = np.random.default_rng(seed).standard_normal((5, 3))
    assert (Matern(nu, 1.0, lengthscale)(X) == Matern(nu, 1.0, [lengthscale] * 3)(X)).all()
    assert (SquaredExponential(1.0, lengthscale)(X) == SquaredExponential(1.0, [lengthscale] * 3)(X)).all()


@given(k1=stationary, k2=stationary, seed=seeds)
def test_sums_and_products_are_those_of_the_matrices(k1, k2, seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.standard_normal((6, 2)), rng.standard_normal((3, 2))
    for kernel, combined in ((k1 + k2, np.add), (k1 * k2, np.multiply)):
        np.testing.assert_array_equal(kernel(X, Z), combined(k1(X, Z), k2(X, Z)))
        np.testing.assert_array_equal(kernel(X), combined(k1(X), k2(X)))
        np.testing.assert_array_equal(kernel.diag(X), np.diag(kernel(X)))
        assert kernel.max_variance == combined(k1.max_variance, k2.max_variance) == kernel.diag(X).max()
        values = np.linalg.eigvalsh(kernel(X))
        assert values[0] >= -6 * EPS * values[-1]


def test_sums_and_products_nest_and_refuse_what_is_not_a_kernel():
    a, b, c = SquaredExponential(2.0), Matern(0.5, 3.0), Matern(1.5, 5.0)
    nested = (a + b) * c + a
    assert isinstance(nested, Sum)
    assert isinstance(nested.k1, Product)
    assert nested.max_variance == (2.0 + 3.0) * 5.0 + 2.0
    assert nested([[0.0]])[0, 0] == 27.0
    for other in (1.0, "SE", None):
        with pytest.raises(TypeError):
            a + other
        with pytest.raises(TypeError):
            a * other


@given(kernel=stationary, seed=seeds)
def test_a_matrix_against_others_is_a_block_of_the_whole(kernel, seed):
    X = np.random.default_rng(seed).standard_normal((7, 3))
    whole = kernel(X)
    np.testing.assert_allclose(kernel(X[:4], X[4:]), whole[:4, 4:], rtol=1e-14)
    np.testing.assert_array_equal(kernel(X[:4], X[4:]).T, kernel(X[4:], X[:4]))


@given(kernel=stationary, seed=seeds)
def test_a_vector_is_points_in_one_dimension(kernel, seed):
    x = np.random.default_rng(seed).standard_normal(6)
    np.testing.assert_array_equal(kernel(x), kernel(x[:, None]))
    np.testing.assert_array_equal(kernel(x, list(x[:2])), kernel(x[:, None], x[:2, None]))
    np.testing.assert_array_equal(kernel.diag(x), kernel.diag(x[:, None]))


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(2.0, 0.5),
        RationalQuadratic(0.7, 2.0, 0.5),
        *(Matern(nu, 2.0, 0.5) for nu in (0.3, 0.5, 1.0, 1.3, 1.5, 2.5, 2.7, 7.5)),
    ],
)
def test_float32_stays_float32(kernel):
    X = np.random.default_rng(5).standard_normal((8, 2))
    X[4:] = X[:4]
    single = X.astype(np.float32)
    assert kernel(single).dtype == np.float32
    assert kernel.diag(single).dtype == np.float32
    assert (kernel + kernel)(single, single[:2]).dtype == np.float32
    np.testing.assert_allclose(kernel(single), kernel(single.astype(np.float64)), rtol=3e-6)
    assert (np.diag(kernel(single)) == 2.0).all()


def test_whole_numbers_are_float64():
    assert SquaredExponential()([[0], [1]]).dtype == np.float64
    assert SquaredExponential()([[0], [1]])[0, 1] == np.exp(-0.5)


def test_equal_kernels_are_equal_and_hash_alike():
    same = [
        (SquaredExponential(2, [1, 2]), SquaredExponential(2.0, np.array([1.0, 2.0]))),
        (Matern(1.5, 2, 3), Matern(nu=1.5, variance=2.0, lengthscale=3.0)),
        (Matern(1.5) + SquaredExponential(), Matern(1.5) + SquaredExponential()),
    ]
    for a, b in same:
        assert a == b
        assert hash(a) == hash(b)
        assert len({a, b}) == 1
    different = {
        SquaredExponential(),
        SquaredExponential(2.0),
        SquaredExponential(1.0, 2.0),
        SquaredExponential(1.0, [1.0]),  # fixes the dimension
        SquaredExponential(1.0, [1.0, 1.0]),
        Matern(0.5),
        Matern(1.5),
        Matern(1.5, 2.0),
        Matern(0.5) + Matern(1.5),
        Matern(0.5) * Matern(1.5),
        Matern(1.5) + Matern(0.5),
    }
    assert len(different) == 11
    assert SquaredExponential() != "SquaredExponential()"


def test_a_kernel_is_a_value():
    lengthscale = np.array([1.0, 2.0])
    kernel = SquaredExponential(1.0, lengthscale)
    before = hash(kernel), kernel(np.eye(2)).tolist()
    lengthscale[0] = 100.0
    assert (hash(kernel), kernel(np.eye(2)).tolist()) == before
    for attribute in ("variance", "lengthscale"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(kernel, attribute, 2.0)
    assert eval(repr(Matern(1.5, 2.0, 3.0))) == Matern(1.5, 2.0, 3.0)


def test_inputs_are_left_as_they_were():
    X = np.random.default_rng(1).standard_normal((5, 2))
    kept = X.copy()
    for kernel in (SquaredExponential(2.0, [0.5, 3.0]), Matern(2.5), Matern(1.3)):
        kernel(X)
        kernel(X, X)
        kernel.diag(X)
    np.testing.assert_array_equal(X, kept)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, -np.inf, "one", None, 1j, [1.0, 0.0]])
@pytest.mark.parametrize("name", ["variance", "lengthscale", "nu"])
def test_parameters_must_be_positive_and_finite(name, bad):
    with pytest.raises(ValueError, match=rf"^{name}: expected .*got "):
        Matern(**{"nu": 1.5, name: bad})
    if name != "nu":
        with pytest.raises(ValueError, match=rf"^{name}: expected .*got "):
            SquaredExponential(**{name: bad})


@pytest.mark.parametrize(
    ("name", "bad"), [("variance", [1.0, 1.0]), ("nu", [1.5, 2.5]), ("lengthscale", [[1.0, 2.0]]), ("lengthscale", [])]
)
def test_parameters_must_have_their_shape(name, bad):
    with pytest.raises(ValueError, match=rf"^{name}: expected .*got shape"):
        Matern(**{"nu": 1.5, name: bad})


def test_the_index_of_a_bad_lengthscale_is_named():
    with pytest.raises(ValueError, match=r"lengthscale: expected a positive finite number, got -2\.0 at index \(1,\)"):
        SquaredExponential(lengthscale=[1.0, -2.0, 3.0])


@pytest.mark.parametrize("kernel", [SquaredExponential(1.0, [1.0, 2.0]), Matern(1.5, 1.0, [1.0, 2.0])])
def test_the_number_of_columns_must_fit(kernel):
    for X in (np.zeros((4, 3)), np.zeros(4)):
        columns = 3 if X.ndim == 2 else 1
        for call in (lambda X=X: kernel(X), lambda X=X: kernel(np.zeros((2, 2)), X), lambda X=X: kernel.diag(X)):
            with pytest.raises(ValueError, match=rf"expected inputs with 2 dimension.*got {columns}"):
                call()
    with pytest.raises(ValueError, match=r"equally many columns, got \(4, 3\) and \(4, 2\)"):
        SquaredExponential()(np.zeros((4, 3)), np.zeros((4, 2)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kernel", [SquaredExponential(), Matern(0.7), Matern(1.5) + SquaredExponential()])
def test_rows_that_are_not_finite_are_named(kernel, bad):
    X = np.zeros((6, 2))
    X[3, 1] = X[5, 0] = bad
    for call in (lambda: kernel(X), lambda: kernel.diag(X)):
        with pytest.raises(NonFinite, match=r"NaN or infinity in row\(s\) \[3, 5\]"):
            call()
    with pytest.raises(NonFinite, match=r"^X2: .*\[3, 5\]"):
        kernel(np.zeros((2, 2)), X)


@pytest.mark.parametrize("text", [[["a"], ["b"]], "a", [["1.0"]], [[None]], [[1j]]])
def test_text_and_its_like_are_no_points(text):
    with pytest.raises(ValueError, match=r"^X1: expected real numbers, got (dtype|None|complex)"):
        SquaredExponential()(text)


def test_kernel_is_abstract():
    with pytest.raises(TypeError):
        Kernel()


@pytest.mark.gpu
@given(seed=seeds, lengthscales=st.lists(st.floats(0.1, 10.0), min_size=3, max_size=3), variance=positive)
def test_kernels_on_the_gpu_equal_those_on_the_cpu(cupy, seed, lengthscales, variance):
    X, Z = cloud(seed, 40, 3), np.random.default_rng(seed).standard_normal((7, 3))
    for kernel in (
        SquaredExponential(variance, lengthscales),
        *(Matern(nu, variance, lengthscales) for nu in HALF_INTEGERS),
    ):
        for args in ((X,), (X, Z)):
            on_device = kernel(*(cupy.asarray(a) for a in args))
            assert isinstance(on_device, cupy.ndarray)
            np.testing.assert_allclose(cupy.asnumpy(on_device), kernel(*args), rtol=1e-12, atol=1e-12 * variance)
        assert isinstance(kernel.diag(cupy.asarray(X)), cupy.ndarray)
        assert (cupy.asnumpy(cupy.diagonal(kernel(cupy.asarray(X)))) == variance).all()


@pytest.mark.gpu
def test_single_precision_and_errors_on_the_gpu(cupy):
    X = cupy.asarray(np.random.default_rng(1).standard_normal((5, 2)))
    assert Matern(2.5)(X.astype(cupy.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="half-integer"):
        Matern(1.3)(X)
    with pytest.raises(ValueError, match="NumPy and CuPy arrays together"):
        SquaredExponential()(X, np.zeros((2, 2)))
    X[3, 1] = cupy.nan
    with pytest.raises(NonFinite, match=r"\[3\]"):
        SquaredExponential()(X)


scaled = stationary | st.builds(SquaredExponential, positive, st.lists(positive, min_size=1, max_size=4))
nested = st.recursive(scaled, lambda part: st.builds(Sum, part, part) | st.builds(Product, part, part), max_leaves=5)


@given(kernel=nested)
def test_a_kernel_survives_json_to_the_last_bit(kernel):
    assert kernel_from_plain(json.loads(json.dumps(kernel_to_plain(kernel)))) == kernel


@given(kernel=scaled, factor=positive)
def test_hyperparameters_by_name_are_those_of_training_in_their_order(kernel, factor):
    named = hyperparameters(kernel)
    assert with_hyperparameters(kernel, named) == kernel
    np.testing.assert_allclose(np.log(list(named.values())), kernel.log_parameters, rtol=0.0, atol=1e-15)
    assert [name.partition("_")[0] for name in named] == [name.partition("[")[0] for name in kernel.parameter_names]
    for place, name in enumerate(named):  # the name and the place mean the same parameter
        moved = with_hyperparameters(kernel, {**named, name: factor * named[name]})
        steps = np.zeros(len(named))
        steps[place] = np.log(factor)
        np.testing.assert_allclose(moved.log_parameters - kernel.log_parameters, steps, atol=1e-14)


def test_a_sum_of_many_terms_is_written_and_read():
    terms = [Constant(float(i + 1)) for i in range(600)]
    plain = kernel_to_plain(functools.reduce(Sum, terms))
    again, variances = kernel_from_plain(plain), []
    assert kernel_to_plain(again) == plain
    while isinstance(again, Sum):
        variances.append(again.k2.variance)
        again = again.k1
    assert [again.variance, *reversed(variances)] == [term.variance for term in terms]


def test_a_kernel_that_is_not_ours_is_not_written():
    class Mine(SquaredExponential):
        pass

    with pytest.raises(ValueError, match=r"expected one of SquaredExponential, Matern, .* to save, got Mine"):
        kernel_to_plain(Sum(Mine(), SquaredExponential()))
    with pytest.raises(ValueError, match=r"expected one of SquaredExponential, .*, OnColumns, got 'Mine'"):
        kernel_from_plain({"type": "Mine", "variance": 1.0, "lengthscale": 1.0})
