"""Kernels beyond SE and Matérn: 50 digits, positive semi-definiteness, columns, training, plans for given data."""

from __future__ import annotations

import json
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitting import ExactGP, SparseGP
from fitting.estimators.fingerprint import _words
from fitting.objectives.objective import objective
from gpbounds import Empirical, Gaussian, Uniform, rate, spectrum, whitening
from gpbounds.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern,
    OnColumns,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    SquaredExponential,
    Sum,
    White,
    separated,
)
from gpbounds.kernels.errors import entry_errors
from gpbounds.kernels.plain import kernel_from_plain, kernel_to_plain
from gpbounds.rates.concentration import sum_bound
from gpbounds.reference import spectra as reference
from gpbounds.renyi import elbo, evidence, gap, log_evidence
from gpbounds.whitening import whiten

EPS = np.finfo(np.float64).eps
SEEDS = st.integers(0, 2**32 - 1)
POSITIVE = st.floats(0.05, 20.0)
DEGREES = st.integers(1, 9)


def drawn(rng: np.random.Generator, D: int, depth: int = 2) -> Kernel:
    """A random kernel on D columns."""
    kind = int(rng.integers(10 if depth else 7))
    v, each = float(10.0 ** rng.uniform(-1.0, 1.0)), 10.0 ** rng.uniform(-1.0, 1.0, D)
    shared = each if rng.integers(2) else float(each[0])
    leaves = [
        lambda: Constant(v),
        lambda: Linear(shared),
        lambda: Polynomial(int(rng.integers(1, 7)), shared, v),
        lambda: SquaredExponential(v, shared),
        lambda: Matern(float(rng.integers(3)) + 0.5, v, shared),
        lambda: RationalQuadratic(float(10.0 ** rng.uniform(-1.5, 2.0)), v, shared),
        lambda: Periodic(each if rng.integers(2) else 2.0, v, shared),
    ]
    if kind < 7:
        return leaves[kind]()
    if kind == 7:
        columns = rng.permutation(D)[: int(rng.integers(1, D + 1))].tolist()
        return drawn(rng, len(columns), depth - 1).on(columns)
    return (Sum if kind == 8 else Product)(drawn(rng, D, depth - 1), drawn(rng, D, depth - 1))


def rows(rng: np.random.Generator, N: int, D: int) -> np.ndarray:
    """Rows near, equal, opposite and far from the origin."""
    X = rng.standard_normal((N, D)) * 10.0 ** rng.uniform(-2.0, 1.5) + 10.0 ** rng.uniform(0, 2) * rng.integers(2)
    X[1], X[2] = X[0], -X[0] * (1.0 + 1e-9)
    return X


@given(seed=SEEDS)
def test_values_are_those_of_the_definition_to_fifty_digits(seed: int) -> None:
    """Within the proved rounding error of every entry, which is small beside the largest entry."""
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 4))
    kernel, X = drawn(rng, D), rows(rng, 5, D)
    K, errors = kernel(X), entry_errors(kernel, X)
    with mpmath.workdps(50):
        exact = reference.gram(kernel_to_plain(kernel), X.tolist())
        for i in range(5):
            for j in range(5):
                assert abs(exact[i, j] - mpmath.mpf(float(K[i, j]))) <= mpmath.mpf(float(errors[i, j]))
        for i, value in enumerate(kernel.diag(X)):
            assert abs(exact[i, i] - mpmath.mpf(float(value))) <= 2.0 * errors[i, i]
    assert errors.max() <= 1e-9 * max(1.0, np.abs(X).max()) ** 2 * K.max()


@given(seed=SEEDS, N=st.integers(3, 25))
def test_matrices_are_symmetric_and_positive_semidefinite(seed: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 4))
    kernel, X = drawn(rng, D), rows(rng, N, D)
    K = kernel(X)
    assert (K == K.T).all()
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -(N * EPS + N * entry_errors(kernel, X).max() / values[-1]) * values[-1]
    assert kernel.largest_variance(X) >= np.diag(K).max() * (1.0 - 1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        Constant(2.0),
        Linear([0.5, 2.0]),
        Polynomial(3, 0.4, 0.5),
        RationalQuadratic(0.7, 2.0, [0.5, 2.0]),
        Periodic([3.0, 2.0], 2.0, 1.5),
        Periodic(3.0).on([1]) * Linear() + Constant(),
    ],
)
def test_float32_stays_float32(kernel: Kernel) -> None:
    points = np.random.default_rng(5).standard_normal((8, 2))
    single = points.astype(np.float32)
    assert kernel(single).dtype == kernel(single, single[:2]).dtype == kernel.diag(single).dtype == np.float32
    wide = kernel(single.astype(np.float64))
    np.testing.assert_allclose(kernel(single), wide, atol=3e-6 * np.abs(wide).max())


@given(seed=SEEDS)
def test_json_and_parameters_go_there_and_back(seed: int) -> None:
    kernel = drawn(np.random.default_rng(seed), 3)
    again = kernel_from_plain(json.loads(json.dumps(kernel_to_plain(kernel))))
    assert again == kernel
    assert hash(again) == hash(kernel)
    moved = kernel.with_log_parameters(kernel.log_parameters + 0.25)
    np.testing.assert_allclose(moved.log_parameters, kernel.log_parameters + 0.25, atol=1e-13)
    assert moved != kernel
    assert moved.parameter_names == kernel.parameter_names


def test_ranks_are_those_of_the_functions() -> None:
    """Linear: D; polynomials: the number of monomials; constant: 1."""
    X = np.random.default_rng(0).standard_normal((30, 2))
    for kernel, rank in ((Constant(), 1), (Linear(), 2), (Linear() + Constant(), 3), (Polynomial(3), 10)):
        values = np.linalg.eigvalsh(kernel(X))[::-1]
        assert values[rank - 1] > 1e-6 * values[0]
        assert values[rank:].max() < 1e-12 * values[0]


def test_a_polynomial_is_the_power_of_the_sum_of_a_constant_and_a_linear_kernel() -> None:
    X = np.random.default_rng(1).standard_normal((9, 3))
    inner = Constant(0.7) + Linear([0.5, 1.0, 2.0])
    cubic = inner * inner * inner
    np.testing.assert_allclose(Polynomial(3, [0.5, 1.0, 2.0], 0.7)(X), cubic(X), rtol=1e-12, atol=1e-12)


def test_a_rational_quadratic_is_a_gamma_mixture_and_tends_to_the_squared_exponential() -> None:
    X = np.linspace(0.0, 3.0, 7)[:, None]
    nodes, weights = np.polynomial.laguerre.laggauss(80)
    for shape in (1.0, 2.0, 4.0):
        density = weights * nodes ** (shape - 1.0)
        squared = (X - X.T) ** 2
        mixed = np.tensordot(density, np.exp(-0.5 * nodes[:, None, None] / shape * squared), 1) / density.sum()
        np.testing.assert_allclose(RationalQuadratic(shape)(X), mixed, rtol=1e-12)
    near = [np.abs(RationalQuadratic(a)(X) - SquaredExponential()(X)).max() for a in (1e2, 1e4, 1e6)]
    assert near[1] == pytest.approx(near[0] / 100.0, rel=0.05)
    assert near[2] == pytest.approx(near[1] / 100.0, rel=0.01)


@given(seed=SEEDS, shift=st.integers(-8, 8))
def test_a_periodic_kernel_repeats_and_is_an_se_kernel_on_circles(seed: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    X, periods, lengths = rng.standard_normal((8, 2)), rng.uniform(0.5, 3.0, 2), rng.uniform(0.5, 3.0, 2)
    kernel = Periodic(periods, 1.3, lengths)
    np.testing.assert_allclose(kernel(X, X + shift * periods), kernel(X), rtol=1e-12)
    angles = 2.0 * np.pi * X / periods
    circles = np.hstack([np.cos(angles), np.sin(angles)])
    np.testing.assert_allclose(kernel(X), SquaredExponential(1.3, np.tile(lengths, 2))(circles), rtol=1e-12)


@given(seed=SEEDS)
def test_columns_are_those_of_the_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, X, Z = drawn(rng, 2), rng.standard_normal((6, 4)), rng.standard_normal((3, 4))
    chosen = kernel.on([3, 1])
    np.testing.assert_array_equal(chosen(X, Z), kernel(X[:, [3, 1]].copy(), Z[:, [3, 1]].copy()))
    np.testing.assert_array_equal(chosen.diag(X), kernel.diag(X[:, [3, 1]].copy()))
    twice = SquaredExponential(1.0, 0.5).on([1]).on([3, 2])
    np.testing.assert_array_equal(twice(X), SquaredExponential(1.0, 0.5)(X[:, 2]))
    parameters, moved = chosen.pull(X, Z, np.ones((6, 3)))
    assert (moved[:, [0, 2]] == 0.0).all()
    assert parameters.shape == kernel.log_parameters.shape


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SquaredExponential().on([]), r"columns: expected a list of column numbers such as \[0, 2\], got \[\]"),
        (lambda: SquaredExponential().on([0.5]), r"columns: expected a list of column numbers"),
        (lambda: SquaredExponential().on(2), r"columns: expected a list of column numbers"),
        (lambda: SquaredExponential().on([0, 0]), r"columns: expected different numbers >= 0, got \[0, 0\]"),
        (lambda: SquaredExponential().on([-1]), r"columns: expected different numbers >= 0, got \[-1\]"),
        (
            lambda: SquaredExponential().on([0, 3])(np.zeros((2, 3))),
            r"columns: expected numbers below 3, .* of X1, got 3",
        ),
        (lambda: Linear().on([1]).diag(np.zeros(4)), r"columns: expected numbers below 1, .* of X, got 1"),
        (lambda: SquaredExponential(1.0, [1.0, 2.0]).on([0])(np.zeros((2, 3))), r"expected inputs with 2 dimension"),
        (lambda: OnColumns("SE", [0]), r"kernel: expected a kernel of gpbounds.kernels, such as .*, got 'SE'"),
        (lambda: Linear([1.0, -1.0]), r"variance: expected a positive finite number, got -1.0"),
        (lambda: Linear([1.0, 1.0])(np.zeros((2, 3))), r"expected inputs with 2 dimension.* one per variance, got 3"),
        (lambda: Polynomial(0), r"degree: expected a whole number >= 1, got 0"),
        (lambda: Polynomial(1.5), r"degree: expected"),
        (lambda: Polynomial(2, 1.0, 0.0), r"offset: expected a positive finite number, got 0.0"),
        (lambda: RationalQuadratic(0.0), r"shape: expected a positive finite number, got 0.0"),
        (lambda: Periodic(-1.0), r"period: expected a positive finite number, got -1.0"),
        (lambda: Periodic([1.0, 2.0])(np.zeros((2, 3))), r"expected inputs with 2 dimension.* one per period, got 3"),
        (lambda: Constant(-1.0), r"variance: expected a positive finite number"),
        (lambda: Linear()(np.zeros((2, 2)), np.zeros((2, 3))), r"equally many columns, got \(2, 2\) and \(2, 3\)"),
        (lambda: Linear().on([0])(np.zeros((2, 2)), np.zeros((2, 3))), r"equally many columns, got"),
        (lambda: Constant()(np.zeros((2, 2)), np.zeros((2, 3))), r"equally many columns, got \(2, 2\) and \(2, 3\)"),
        (
            lambda: spectrum(Polynomial(5), inputs=Gaussian(dim=10)),
            r"at most 2048 monomials .* got 3003: .*simulate=39",
        ),
        (
            lambda: spectrum(Polynomial(90), inputs=Gaussian(1e3)),
            r"between 1e-290 and 1e\+290, got inf: take other units",
        ),
        (
            lambda: rate(Periodic(), 9, 2, 1.0),
            r"no spectrum is known for Periodic kernels under Gaussian inputs; .* inputs=Empirical\(X\)",
        ),
        (lambda: spectrum(Linear(), inputs=None), r"inputs: expected Gaussian, Uniform or Empirical"),
    ],
)
def test_bad_input_gets_one_sentence(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# --- the library with kernels whose variance grows ------------------------------------------------------------------

X = np.random.default_rng(2).standard_normal((40, 3))
Y = X[:, 0] - 2.0 * X[:, 1] + 0.3 * X[:, 0] * X[:, 2] + 0.1 * np.random.default_rng(3).standard_normal(40)
GROWING = {
    "linear": Linear([1.0, 2.0, 0.5]) + Constant(0.5),
    "polynomial": Polynomial(2, 0.5, 1.0),
    "RQ + linear": RationalQuadratic(0.7, 0.5, [2.0, 3.0, 4.0]) + Linear(),
    "periodic × RQ + linear": Periodic(9.0, 0.5, 1.5).on([0]) * RationalQuadratic(2.0, 1.0, 3.0) + Linear(2.0),
    "SE × linear": SquaredExponential(1.0, 2.0) * Linear().on([0]) + Linear(),
    "SE on columns + linear": SquaredExponential(1.0, 2.0).on([0, 2]) + Linear().on([1]),
}
growing = pytest.mark.parametrize("kernel", GROWING.values(), ids=GROWING)


@growing
def test_evidence_gap_and_plans_hold(kernel: Kernel) -> None:
    """The brackets contain log p(y) and the gap, and the plan is that of the eigenvalues of K."""
    Z, noise = X[::4], 0.1
    truth = log_evidence(kernel, X, Y, noise=noise)
    lower, upper = evidence(kernel, X, Y, Z, noise=noise)
    assert float(lower) <= truth <= float(upper)
    K, Kzx, Kzz = kernel(X), kernel(Z, X), kernel(Z)
    assert np.linalg.slogdet(2 * np.pi * (K + noise * np.eye(40)))[1] / 2 + Y @ np.linalg.solve(
        K + noise * np.eye(40), Y
    ) / 2 == pytest.approx(-truth, rel=1e-9)
    white = whiten(kernel, X, Z)
    Q = Kzx.T @ np.linalg.solve(Kzz + max(white.jitter, 1e-10) * np.eye(len(Z)), Kzx)
    assert white.trace == pytest.approx(np.trace(K - Q), abs=1e-6 * np.trace(K))
    below, above = gap(kernel, X, Y, Z, 1.0, noise=noise)
    assert float(below) <= truth - float(elbo(kernel, X, Y, Z, 1.0, noise=noise)) + 1e-6 * abs(truth)
    assert float(above) >= truth - float(elbo(kernel, X, Y, Z, 1.0, noise=noise)) - 1e-6 * abs(truth)
    bound = rate(kernel, 40, 2, 1.0, noise=noise, inputs=Empirical(X))
    values = np.maximum(np.linalg.eigvalsh(K)[::-1], 0.0)
    e = np.poly(-values)  # elementary symmetric polynomials
    assert bound.terms["expected_trace"] == pytest.approx(3.0 * e[3] / e[2], rel=1e-6)


@growing
@pytest.mark.parametrize("method", ["vfe", "fitc"])
def test_gradients_include_the_jitter_that_grows_with_x(kernel: Kernel, method: str, monkeypatch) -> None:
    """With a ladder of one large step, which moves with the largest k(z, z), as "auto" promises."""
    monkeypatch.setattr(whitening, "AUTO_LADDER", (0.05,))
    F, Z = objective(X, Y, method=method, jitter="auto"), X[:14] + 0.01
    logs, rng = kernel.log_parameters, np.random.default_rng(4)
    at = F.evaluate(kernel, 0.3, Z)
    assert at.jitter == 0.05 * kernel.largest_variance(Z)
    for _ in range(3):
        a, b, h = rng.standard_normal(logs.size), rng.standard_normal(Z.shape), 1e-5
        ends = [F.evaluate(kernel.with_log_parameters(logs + s * a), 0.3, Z + s * b, gradient=False) for s in (h, -h)]
        numeric = (ends[0].value - ends[1].value) / (2.0 * h)
        assert float(at.gradient.kernel @ a + (at.gradient.Z * b).sum()) == pytest.approx(numeric, rel=1e-6)


@growing
def test_estimators_train_them(kernel: Kernel, tmp_path) -> None:
    """Evidence rises, limits and names hold, a file restores the predictions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = ExactGP(kernel, noise=0.5, max_iter=30).fit(X, Y)
        sparse = SparseGP(kernel=kernel, noise=0.5, n_inducing=12, max_iter=30, random_state=0).fit(X, Y)
    start = log_evidence(kernel, X, Y, noise=0.5)
    assert log_evidence(exact.kernel_, X, Y, noise=exact.noise_) > start
    assert exact.kernel_.parameter_names == kernel.parameter_names
    new = np.random.default_rng(5).standard_normal((20, 3))
    clean = new[:, 0] - 2.0 * new[:, 1] + 0.3 * new[:, 0] * new[:, 2]
    assert np.mean((exact.predict(new) - clean) ** 2) < 0.1 * np.var(clean)
    assert np.mean((sparse.predict(new) - clean) ** 2) < 0.1 * np.var(clean)
    sparse.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(SparseGP.load(tmp_path / "model.npz").predict(new), sparse.predict(new))


def test_a_checkpoint_tells_kernels_apart_that_differ_in_what_is_not_trained() -> None:
    pairs = [
        (Polynomial(2), Polynomial(3)),
        (SquaredExponential().on([0]), SquaredExponential().on([1])),
        (Matern(1.5).on([0]), Matern(2.5).on([0])),
    ]
    for one, other in pairs:
        words = [_words("kernel", k) for k in (one, other)]
        assert words[0] != words[1]


# --- white noise ----------------------------------------------------------------------------------------------------


def test_white_is_noise_and_no_prior_over_functions() -> None:
    smooth, noise = separated((SquaredExponential(2.0) + White(0.5)) * (Constant(3.0) + White(0.1)) + White(0.2))
    np.testing.assert_allclose(smooth(X), 6.0 * SquaredExponential()(X), rtol=1e-13)
    assert noise == pytest.approx(2.0 * 0.1 + 0.5 * 3.0 + 0.5 * 0.1 + 0.2)
    assert separated(Linear()) == (Linear(), 0.0)
    kernel = SquaredExponential(1.0, 2.0) + White(0.3).on([0])
    assert separated(kernel) == (SquaredExponential(1.0, 2.0), 0.3)
    model = ExactGP(kernel, optimizer=None).fit(X, Y)
    assert (model.kernel_, model.noise_) == (SquaredExponential(1.0, 2.0), pytest.approx(0.3))
    assert ExactGP(kernel, noise=0.1, optimizer=None).fit(X, Y).noise_ == pytest.approx(0.4)
    for call in (
        lambda: kernel(X),
        lambda: kernel.diag(X),
        lambda: evidence(kernel, X, Y, X[:4], noise=0.1),
        lambda: rate(kernel, 40, 4, 1.0, noise=0.1, inputs=Empirical(X)),
    ):
        with pytest.raises(ValueError, match="expected a prior over functions, got one with White, which is noise"):
            call()
    with pytest.raises(ValueError, match="got White alone"):
        separated(White() + White())
    with pytest.raises(ValueError, match=r"the same k\(x, x\) for all x, got Linear"):
        separated(Linear() * White() + SquaredExponential())


@pytest.mark.parametrize(
    "kernel",
    [
        Linear(),
        Periodic(),
        RationalQuadratic(),
        SquaredExponential() * Linear(),
        SquaredExponential() * Periodic(),
        SquaredExponential() + Matern(0.5) * (Constant() + Periodic()),
    ],
)
def test_bounds_by_cells_refuse_kernels_whose_correlations_may_rise(kernel: Kernel) -> None:
    """A cell of the bound for sums over future inputs uses that k falls with the distance, or a bound on k''''."""
    for call in (
        lambda: sum_bound(kernel, 100, 5, inputs=Uniform(), delta=0.05),
        lambda: rate(kernel, 100, 5, 1.0, inputs=Uniform(), draws=10),
    ):
        with pytest.raises(ValueError, match="sums or products, whose correlations fall with the distance, got"):
            call()


def test_bounds_by_cells_take_products_with_rational_quadratic_and_constant_kernels() -> None:
    X = np.random.default_rng(0).uniform(0.0, 1.0, (40, 60, 1))
    kernel = RationalQuadratic(0.7, 1.0, 0.5) * Constant(2.0)
    bound = float(sum_bound(kernel, 60, 3, inputs=Uniform(), delta=0.05))
    means = [rate(kernel, 60, 3, 1.0, inputs=Empirical(rows)).terms["expected_trace"] for rows in X]
    assert max(means) <= bound <= 20.0 * max(means)
