"""Features as a user meets them: fitted once, the same each time, close to the kernel, and clear about bad input."""

from __future__ import annotations

import decimal
import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import Gaussian, Matern, NonFinite, SquaredExponential, Uniform, spectrum
from gpbounds.lowrank import FourierFeatures, LeverageFourierFeatures, MercerFeatures
from gpbounds.lowrank.features import base
from gpbounds.lowrank.features.fourier import cosines_and_sines
from gpbounds.lowrank.features.mercer import Expansion

SE = SquaredExponential()
X = np.linspace(-1.0, 1.0, 40)
seeds = st.integers(0, 2**32 - 1)


def fourier(rank=20, kernel=SE, rng=0):
    return FourierFeatures(kernel, rank, rng)


def weighted(rank=20, kernel=SE, noise=0.01, N=40, width=2.0, rng=0):
    return LeverageFourierFeatures(kernel, rank, noise=noise, N=N, width=width, rng=rng)


def mercer(rank=20, kernel=SE, inputs=Gaussian(), **others):  # noqa: B008
    return MercerFeatures(kernel, rank, inputs=inputs, **others)


every_kind = pytest.mark.parametrize("make", [fourier, weighted, mercer])


@every_kind
def test_fit_returns_the_features_and_features_do_not_depend_on_company(make):
    features = make()
    assert features.fit(X) is features
    Xi = features(X)
    assert Xi.shape == (40, 20)
    assert Xi.dtype == np.float64
    alone = np.vstack([features([x]) for x in X])
    assert np.abs(Xi - alone).max() < 1e-14
    assert (features(X[:, None]) == Xi).all()
    assert (make().fit(X)(X) == Xi).all()


@every_kind
def test_blocks_make_no_difference(make, monkeypatch):
    features = make().fit(X)
    whole = features(X)
    monkeypatch.setattr(base, "BLOCK", 1)  # eight rows at a time
    assert np.abs(features(X) - whole).max() < 1e-14


@every_kind
def test_single_precision_stays_single(make):
    features = make().fit(X)
    Xi = features(X.astype(np.float32))
    assert Xi.dtype == np.float32
    assert np.abs(Xi - features(X)).max() < 2e-5


@every_kind
def test_the_variance_is_a_factor(make):
    unit, scaled = make().fit(X)(X), make(kernel=SquaredExponential(4.0))
    if make is weighted:
        scaled = make(kernel=SquaredExponential(4.0), noise=0.04)
    assert np.abs(scaled.fit(X)(X) - 2.0 * unit).max() < 1e-13


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e4, 1e9, 1e15])
def test_one_tangent_gives_both_functions(scale):
    """Beside mpmath, at random phases and at the multiples of π/4, where tangents are 0, 1 or huge."""
    phases = np.concatenate([np.random.default_rng(0).uniform(-scale, scale, 200), np.arange(-40, 41) * np.pi / 4])
    out = np.empty((len(phases), 2))
    cosines_and_sines(phases[:, None], np.ones((1, 1)), np.array([0.7]), out)
    with mp.workdps(60):
        exact = [[mp.mpf(0.7) * f(mp.mpf(float(x))) for f in (mp.cos, mp.sin)] for x in phases]
        errors = [abs(out[i, j] - exact[i][j]) for i in range(len(phases)) for j in range(2)]
    assert max(errors) < 4.0 * np.finfo(np.float64).eps * 0.7


@given(seed=seeds, dim=st.integers(1, 4), nu=st.sampled_from([None, 0.5, 1.2, 2.5]))
def test_random_features_are_close_to_the_kernel(seed, dim, nu):
    """Hoeffding: one entry is off by t with probability at most 2 exp(−m t²/(2v²)); 2 exp(−32) at t = 8v/√m."""
    rng = np.random.default_rng(seed)
    lengthscales = np.exp(rng.normal(size=dim))
    kernel = SquaredExponential(3.0, lengthscales) if nu is None else Matern(nu, 3.0, lengthscales)
    points = rng.standard_normal((10, dim)) * lengthscales
    Xi = FourierFeatures(kernel, 2000, seed).fit(points)(points)
    assert np.abs(Xi @ Xi.T - kernel(points)).max() < 8.0 * 3.0 / np.sqrt(1000.0)
    assert np.abs((Xi**2).sum(axis=1) - 3.0).max() < 1e-12


@given(seed=seeds, dim=st.integers(1, 3))
def test_only_differences_matter_to_random_features(seed, dim):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((12, dim))
    for features in (
        FourierFeatures(SE, 30, seed),
        LeverageFourierFeatures(SE, 30, noise=0.1, N=12, width=20.0, rng=seed),
    ):
        Phi, moved = features.fit(points)(points), features(points + 5.0)
        assert np.abs(Phi @ Phi.T - moved @ moved.T).max() < 1e-12


def test_a_generator_moves_on_and_a_number_does_not():
    rng = np.random.default_rng(0)
    features = fourier(rng=rng).fit(X)
    first = features.frequencies
    assert (first == fourier().fit(X).frequencies).all()
    assert (features.fit(X).frequencies != first).all()
    by_number = fourier().fit(X)
    assert (by_number.fit(X).frequencies == first).all()


def test_leverage_needs_fewer_frequencies_than_classical_features():
    """What matters is V(ΞΞᵀ − K)V, V = (K + λI)^(-½): for the same rank it is smaller, on average over draws."""
    points, noise = np.linspace(0.0, 3.0, 300), 1e-3
    K = SquaredExponential(lengthscale=0.5)(points)
    values, vectors = np.linalg.eigh(K + noise * np.eye(300))
    V = (vectors / np.sqrt(values)) @ vectors.T
    kernel = SquaredExponential(lengthscale=0.5)

    def error(features):
        Xi = features.fit(points)(points)
        return np.linalg.norm(V @ (Xi @ Xi.T - K) @ V, 2)

    weighted_errors = [
        error(LeverageFourierFeatures(kernel, 400, noise=noise, N=300, width=3.0, rng=i)) for i in range(5)
    ]
    plain = [error(FourierFeatures(kernel, 400, i)) for i in range(5)]
    assert np.mean(weighted_errors) < 0.5 * np.mean(plain)


def test_where_shells_do_not_pay_the_weights_are_1():
    features = weighted(noise=100.0, width=50.0).fit(X)
    assert features.density.total == features.density.ratio == 0.4
    assert np.abs(features.weights - 1.0).max() < 1e-14


@given(seed=seeds, dim=st.integers(1, 3), rank=st.integers(1, 120), order=st.sampled_from(["best", "degree"]))
def test_mercer_features_never_exceed_the_kernel_and_say_what_is_left(seed, dim, rank, order):
    rng = np.random.default_rng(seed)
    kernel = SquaredExponential(2.0, np.exp(rng.normal(size=dim)))
    inputs, mean = Gaussian(np.exp(rng.normal(size=dim))), 3.0 * rng.normal(size=dim)
    points = mean + inputs.sample(15, rng) * rng.choice([0.3, 1.0, 5.0])
    features = MercerFeatures(kernel, rank, inputs=inputs, order=order, mean=mean).fit(points)
    Xi, left = features(points), features.residual_diagonal(points)
    residual = kernel(points) - Xi @ Xi.T
    assert (left >= 0.0).all()
    assert np.abs(left - np.diag(residual)).max() < 1e-13
    assert np.linalg.eigvalsh(residual).min() > -1e-12
    assert (np.abs(residual) <= np.sqrt(left[:, None] * left) + 1e-13).all()


@pytest.mark.parametrize(("lengthscale", "std"), [(0.3, [1.0, 1.0, 1.0]), ([0.3, 1.0, 2.5], [1.0, 0.5, 3.0])])
def test_eigenvalues_and_tail_are_those_of_the_spectrum(lengthscale, std):
    kernel, inputs = SquaredExponential(2.0, lengthscale), Gaussian(std)
    truth = spectrum(kernel, inputs=inputs)
    for rank in (1, 7, 100):
        features = MercerFeatures(kernel, rank, inputs=inputs)
        assert np.allclose(features.eigenvalues, truth.eigenvalues(rank), rtol=1e-12, atol=0.0)
        assert np.isclose(features.tail, truth.tail(rank), rtol=1e-12, atol=0.0)


def test_the_mean_square_of_a_column_is_its_eigenvalue():
    inputs = Gaussian([1.0, 2.0])
    features = mercer(12, SquaredExponential(1.0, [1.0, 1.5]), inputs).fit(np.zeros((1, 2)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    grid = np.array(list(itertools.product(nodes, 2.0 * nodes)))
    mass = np.outer(weights, weights).ravel() / weights.sum() ** 2
    Xi = features(grid)
    assert np.abs(Xi.T @ (mass[:, None] * Xi) - np.diag(features.eigenvalues)).max() < 1e-13
    assert abs(mass @ features.residual_diagonal(grid) - features.tail) < 1e-13


def test_orders():
    kernel, inputs = SquaredExponential(1.0, [3.0, 0.3]), Gaussian([1.0, 1.0])
    assert mercer(4, kernel, inputs).degrees.tolist() == [[0, 0], [0, 1], [0, 2], [0, 3]]
    assert mercer(6, kernel, inputs, order="degree").degrees.tolist() == [
        [0, 0],
        [1, 0],
        [0, 1],
        [2, 0],
        [1, 1],
        [0, 2],
    ]


@pytest.mark.parametrize("lengthscale", [1e-90, 1e-9, 1.0, 1e9, 1e90])
@pytest.mark.parametrize("at", [0.0, 1e-200, 1e-9, 1.0, 60.0, 1e4, 1e30, 1e99])
def test_extreme_inputs_and_lengthscales(lengthscale, at):
    features = mercer(6, SquaredExponential(2.0, lengthscale)).fit([at])
    Xi, left = features([at]), features.residual_diagonal([at])
    assert np.isfinite(Xi).all()
    assert left[0] >= 0.0
    assert abs((Xi**2).sum() + left[0] - 2.0) < 1e-12


def test_degrees_in_the_thousands_sum_to_the_kernel():
    e = Expansion(0.003, 1.0)
    x = np.array([0.0, 1.0, -4.0])
    assert np.abs((e.table(x, 20_000) ** 2).sum(axis=0) - 1.0).max() < 1e-12


def test_nobody_elses_decimals_are_touched():
    before = decimal.getcontext().copy()
    walk = Expansion(1.0, 1.0).walk(np.zeros(1))
    next(walk)
    assert decimal.getcontext().prec == before.prec
    assert decimal.getcontext().flags == before.flags


WRONG = [
    (lambda: fourier(0), "rank: expected a whole number >= 1, got 0"),
    (lambda: fourier(35), r"even number \(a cosine and a sine for each frequency\), got 35; use 34 or 36"),
    (lambda: fourier(1), "got 1; use 2"),
    (lambda: weighted(7), "use 6 or 8"),
    (lambda: mercer(-3), "rank: expected a whole number >= 1"),
    (lambda: mercer(2.5), "rank: expected a whole number"),
    (lambda: mercer(2**24 + 1), "rank: expected at most 16777216"),
    (lambda: fourier(rng=None), "rng: expected a whole number >= 0 or a Generator, got None"),
    (lambda: fourier(rng=True), "rng: expected"),
    (lambda: fourier(rng=-1), "rng: expected"),
    (lambda: fourier(kernel=SE + SE), "kernel: expected SquaredExponential, Matern, RationalQuadratic or Periodic, "),
    (lambda: weighted(kernel=Matern(1.5)), "kernel: expected SquaredExponential, got Matern"),
    (lambda: mercer(kernel=Matern(1.5)), "kernel: expected SquaredExponential, got Matern"),
    (lambda: mercer(inputs=Uniform()), "inputs: expected Gaussian, got Uniform"),
    (
        lambda: mercer(10, SquaredExponential(1.0, [1.0, 1.0]), Gaussian([1.0, 1.0]), order="grid"),
        r"rank: expected n\^2 with a whole number n >= 1 for order='grid' in 2 dimensions, got 10; use 9 or 16",
    ),
    (lambda: mercer(order="tensor"), "order: expected one of 'best', 'degree', 'grid', got 'tensor'"),
    (lambda: mercer(mean=[0.0, 1.0]), r"mean: expected a number or one per dimension \(1\)"),
    (lambda: mercer(mean=np.nan), "mean: expected"),
    (lambda: mercer(kernel=SquaredExponential(1.0, [1.0, 2.0])), "expected inputs with 2 dimension"),
    (lambda: mercer(kernel=SquaredExponential(1.0, 1e-150)), "lengthscale/std between 1e-100 and 1e100"),
    (
        lambda: mercer().fit(np.ones((3, 2))),
        r"X: expected 1 column\(s\), one per dimension of inputs, got shape \(3, 2\)",
    ),
    (lambda: fourier(kernel=SquaredExponential(1.0, [1.0, 2.0])).fit(X), "expected inputs with 2 dimension"),
    (lambda: weighted(noise=0.0), "noise: expected a positive"),
    (lambda: weighted(noise=[1.0, 2.0]), r"noise: expected one number, got shape \(2,\)"),
    (lambda: weighted(N=0), "N: expected a whole number >= 1"),
    (lambda: weighted(width=-1.0), "width: expected a positive"),
    (lambda: weighted(width=np.ones((2, 2))), "width: expected a number or one per dimension"),
    (lambda: weighted(width=[2.0, 2.0]).fit(X), r"width: expected one per column of X \(1\), got shape \(2,\)"),
    (lambda: weighted(width=1.9).fit(X), "width: expected at least the range of the data, got 1.9 for column 0"),
    (lambda: weighted(N=39).fit(X), "X: expected at most N = 39 rows, got 40"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_arguments_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@every_kind
def test_features_are_fitted_first(make):
    features = make()
    with pytest.raises(ValueError, match=r"expected fitted features, got a call before fit\(X\)"):
        features(X)
    names = ("frequencies", "amplitudes", "weights", "density") if make is weighted else ("frequencies", "amplitudes")
    for name in names if make is not mercer else ():
        with pytest.raises(ValueError, match=f"{type(features).__name__}: expected fitted features"):
            getattr(features, name)
    if make is mercer:
        with pytest.raises(ValueError, match="expected fitted features"):
            features.residual_diagonal(X)


@every_kind
def test_what_fit_refuses_leaves_the_features_unfitted(make):
    features = make()
    with pytest.raises(NonFinite, match=r"row\(s\) \[1\]"):
        features.fit([0.0, np.nan])
    with pytest.raises(ValueError, match="fitted"):
        features(X)
    features.fit(X)
    with pytest.raises(ValueError, match=r"X: expected 1 column\(s\), got shape \(5, 3\)"):
        features(np.ones((5, 3)))
    with pytest.raises(NonFinite, match=r"row\(s\) \[0\]"):
        features([np.inf])


def test_frequencies_and_phases_that_no_float_holds():
    with pytest.raises(NonFinite, match="nu: expected a Matérn kernel whose frequencies are below the float64 limit"):
        FourierFeatures(Matern(1e-4), 2000, 0).fit(X)
    short = FourierFeatures(SquaredExponential(1.0, 1e-308), 20, 0).fit([1.0])
    with pytest.raises(NonFinite, match="expected phases"):
        short([10.0])
    with pytest.raises(NonFinite, match=r"X: expected inputs within 1e\+100 standard deviations"):
        mercer().fit(X)([1e101])


@pytest.mark.gpu
@every_kind
def test_on_a_gpu_features_are_the_same(cupy, make) -> None:
    features = make().fit(X)
    on_device = features(cupy.asarray(X))
    assert np.abs(cupy.asnumpy(on_device) - features(X)).max() < 1e-13
    assert np.abs(make().fit(cupy.asarray(X))(X) - features(X)).max() == 0.0
    if make is mercer:
        far = np.array([0.0, 1.0, 60.0, 1e4])
        assert np.allclose(cupy.asnumpy(features(cupy.asarray(far))), features(far), rtol=1e-12, atol=1e-15)
        left = features.residual_diagonal(cupy.asarray(far))
        assert np.allclose(cupy.asnumpy(left), features.residual_diagonal(far), rtol=1e-11, atol=0.0)


def test_one_phase_that_overflows_is_enough_to_refuse() -> None:
    """The limit is for the highest frequency, also where the lowest one leaves room."""
    features = FourierFeatures(Matern(0.5), 64, rng=0).fit(np.zeros((2, 1)))
    sums = np.abs(features.frequencies).sum(axis=1)
    assert sums.max() > 100.0 * sums.min()
    x = 0.1 * np.finfo(np.float64).max / np.sqrt(sums.min() * sums.max())
    with pytest.raises(NonFinite, match="expected phases"):
        features(np.array([[x]]))


def test_the_limits_of_a_lengthscale_are_excluded() -> None:
    for ratio in (0.9995e-100, 1e-100, 1e100, 1.0005e100):
        with pytest.raises(ValueError, match="between 1e-100 and 1e100"):
            MercerFeatures(SquaredExponential(1.0, ratio), 2, inputs=Gaussian(1.0))
