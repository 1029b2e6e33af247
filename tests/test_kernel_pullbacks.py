"""Kernels carry cotangents back to their hyperparameters and inputs: derivatives of Σ C∘K, whatever C is."""

from __future__ import annotations

import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpbounds.kernels import (
    Constant,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SquaredExponential,
)
from gpbounds.kernels.stationary import pull_distances

SEEDS = st.integers(0, 2**32 - 1)
SCALES = [0.7, 1.3, 2.1]
KERNELS = {
    "SE": SquaredExponential(1.7, SCALES),
    "SE, one lengthscale": SquaredExponential(0.4, 0.9),
    **{f"Matérn {nu}": Matern(nu, 1.7, SCALES) for nu in (0.3, 0.5, 0.9, 1.0, 1.2, 1.5, 2.0, 2.5, 3.3, 7.5)},
    "sum": SquaredExponential(1.7, SCALES) + Matern(1.5, 0.5, 0.8),
    "product": SquaredExponential(1.7, SCALES) * Matern(2.5, 0.5, 0.8),
    **{f"RQ {shape}": RationalQuadratic(shape, 1.7, SCALES) for shape in (0.1, 1.0, 30.0)},
    "RQ, one lengthscale": RationalQuadratic(0.8, 0.4, 0.9),
    "periodic": Periodic([2.0, 0.7, 5.0], 1.7, SCALES),
    "periodic, one of each": Periodic(1.9, 0.4, 0.9),
    "constant": Constant(1.7),
    "linear": Linear(SCALES),
    "linear, one variance": Linear(0.6),
    **{f"polynomial {degree}": Polynomial(degree, SCALES, 0.8) for degree in (1, 2, 5)},
    "on columns": Polynomial(3, 0.4).on([2, 0]) + SquaredExponential(1.7, SCALES[:2]).on([1, 2]) * Linear(),
    "nested": (SquaredExponential(1.7, SCALES) + Matern(0.5, 0.5, 0.8)) * Matern(2.5, 0.5, 0.8) + Matern(0.7, 0.3, 2.0),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


def slopes(function, point, step=1e-6):
    """Central differences, extrapolated once: errors of the order of step⁴."""
    flat, derivatives = np.array(point, dtype=float), np.empty(np.size(point))
    for i in range(flat.size):
        ends = []
        for h in (step, -step, 2 * step, -2 * step):
            moved = flat.copy()
            moved.flat[i] += h
            ends.append(function(moved))
        derivatives[i] = (8.0 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12.0 * step)
    return derivatives.reshape(np.shape(point))


@every_kernel
@settings(max_examples=8)
@given(seed=SEEDS)
def test_pull_backs_are_the_derivatives(kernel: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, Z, C = rng.standard_normal((6, 3)), rng.standard_normal((4, 3)), rng.standard_normal((6, 4))
    parameters, moved = kernel.pull(X, Z, C.copy())

    def of_parameters(logs):
        return float((C * kernel.with_log_parameters(logs)(X, Z)).sum())

    size = np.abs(C).sum() * max(kernel.largest_variance(X), kernel.largest_variance(Z))
    np.testing.assert_allclose(parameters, slopes(of_parameters, kernel.log_parameters, 1e-4), atol=1e-9 * size)
    near = np.sqrt(((X[:, None] - Z[None]) ** 2).sum(axis=2).min())
    step = min(1e-4, near / 100.0)
    numeric = slopes(lambda points: float((C * kernel(X, points)).sum()), Z, step)
    np.testing.assert_allclose(moved, numeric, atol=1e-8 * size * (1.0 + 1e-6 / step))


@every_kernel
@given(seed=SEEDS, far=st.sampled_from([0.0, 1e4]))
def test_scaled_rows_and_a_rank_one_term_need_no_cotangent(kernel: Kernel, seed: int, far: float) -> None:
    """`pull_rows` is `pull` of diag(s)Y + abᵀ, also where the points lie far apart in one dimension."""
    rng = np.random.default_rng(seed)
    X, Z, Y = rng.standard_normal((6, 3)), rng.standard_normal((4, 3)), rng.standard_normal((6, 4))
    s, a, b = rng.standard_normal(6), rng.standard_normal(6), rng.standard_normal(4)
    X[0, 1] += far
    C = s[:, None] * Y + np.outer(a, b)
    expected, got = kernel.pull(X, Z, C.copy()), kernel.pull_rows(X, Z, Y.copy(), s, a, b, kernel(X, Z))
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-11, atol=1e-11 * np.abs(C).sum())


@every_kernel
@given(seed=SEEDS)
def test_both_arguments_are_pulled_back_at_once(kernel: Kernel, seed: int) -> None:
    """`pull_both` adds the derivative in the first argument: that of the transpose in its second."""
    rng = np.random.default_rng(seed)
    X, Z, C = rng.standard_normal((6, 3)), rng.standard_normal((4, 3)), rng.standard_normal((6, 4))
    parameters, moved, back = kernel.pull_both(X, Z, C.copy(), kernel(X, Z))
    of_X = kernel.pull(Z, X, np.ascontiguousarray(C.T))
    for one, other in zip((*kernel.pull(X, Z, C.copy()), of_X[1]), (parameters, moved, back), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-11, atol=1e-11 * np.abs(C).sum())
    np.testing.assert_allclose(parameters, of_X[0], rtol=1e-9, atol=1e-11 * np.abs(C).sum())


@every_kernel
@pytest.mark.parametrize("spread", [0.1, 1.0, 1.4, 100.0])
def test_the_covariances_of_a_product_are_those_of_the_distances(kernel: Kernel, spread: float) -> None:
    """`fill_products` errs by less than 1e-13 of each entry, wherever the points lie and however far apart."""
    rng = np.random.default_rng(0)
    X, Z = (spread * rng.standard_normal((n, 3)) + 1e3 for n in (200, 50))
    K, fast = np.empty((200, 50)), np.full((200, 50), np.nan)
    kernel.fill(X, Z, K)
    assert kernel.fill_products(X, Z, fast) is fast
    np.testing.assert_allclose(fast, K, rtol=1e-13, atol=0.0)
    assert (np.abs(fast - K) <= kernel.products_error(3) * K).all()


@pytest.mark.parametrize("dim", [1, 100])
@pytest.mark.parametrize("variance", [1e-200, 1e200])
def test_the_stated_error_of_a_product_holds_for_any_variance(dim: int, variance: float) -> None:
    """Where log variance is large, its rounding is what errs; 50 digits tell."""
    rng, kernel = np.random.default_rng(1), SquaredExponential(variance, 1.0)
    X = rng.standard_normal((20, dim)) / np.sqrt(dim) * 5.0
    fast = kernel.fill_products(X, X, np.empty((20, 20)))
    with mpmath.workdps(50):
        for i in range(20):
            for j in range(20):
                squares = sum((mpmath.mpf(a) - mpmath.mpf(b)) ** 2 for a, b in zip(X[i], X[j], strict=True))
                exact = mpmath.mpf(variance) * mpmath.exp(-squares / 2)
                assert abs(fast[i, j] - exact) <= kernel.products_error(dim) * exact


@every_kernel
def test_a_value_at_hand_changes_nothing_and_the_cotangent_is_used_up(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    X, Z, C = rng.standard_normal((6, 3)), rng.standard_normal((4, 3)), rng.standard_normal((6, 4))
    first, second = kernel.pull(X, Z, C.copy()), kernel.pull(X, Z, C.copy(), kernel(X, Z))
    np.testing.assert_allclose(first[0], second[0], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(first[1], second[1], rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(kernel.fill(X, Z, np.full((6, 4), np.nan)), kernel(X, Z))


@every_kernel
def test_the_diagonal_is_pulled_back_too(kernel: Kernel) -> None:
    rng = np.random.default_rng(1)
    X, c = rng.standard_normal((6, 3)), rng.standard_normal(6)
    numeric = slopes(lambda logs: float(c @ kernel.with_log_parameters(logs).diag(X)), kernel.log_parameters, 1e-4)
    np.testing.assert_allclose(kernel.pull_diag(X, c), numeric, atol=1e-9)


@every_kernel
def test_parameters_go_there_and_back(kernel: Kernel) -> None:
    logs = kernel.log_parameters
    assert len(kernel.parameter_names) == logs.size == len(set(kernel.parameter_names))
    again = kernel.with_log_parameters(logs + 0.5)
    assert type(again) is type(kernel)
    np.testing.assert_allclose(again.log_parameters, logs + 0.5, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="values: expected log_parameters of shape"):
        kernel.with_log_parameters(logs[:-1])
    for bad in (800.0, -800.0):
        with pytest.raises(ValueError, match="within the range of float64"):
            kernel.with_log_parameters(np.full(logs.size, bad))


@every_kernel
def test_coinciding_points_have_a_finite_derivative(kernel: Kernel) -> None:
    X = np.array([[0.3, -1.0, 2.0], [0.3, -1.0, 2.0], [1.0, 1.0, 1.0]])
    parameters, moved = kernel.pull(X, X.copy(), np.ones((3, 3)))
    assert np.isfinite(parameters).all()
    assert np.isfinite(moved).all()
    np.testing.assert_allclose(moved[0], moved[1], rtol=1e-10, atol=1e-13)  # the pair contributes 0 to both


@pytest.mark.parametrize("kernel", [SquaredExponential(1.0, 1.0), Matern(2.5, 1.0, 1.0), Matern(0.5, 1.0, 1.0)])
@pytest.mark.parametrize("shift", [0.0, 1e3, 1e6, 1e9])
def test_far_from_the_origin_no_digits_are_lost(kernel: Kernel, shift: float) -> None:
    rng = np.random.default_rng(2)
    grid = 2.0**-20
    X, Z = (np.round(rng.standard_normal((n, 2)) / grid) * grid for n in (30, 10))
    X[:5] += 300.0  # far apart: squares are not expanded
    C = rng.standard_normal((30, 10))
    pulled, moved = kernel.pull(X, Z, C.copy()), kernel.pull(X + shift, Z + shift, C.copy())
    np.testing.assert_allclose(moved[0], pulled[0], rtol=1e-11)
    np.testing.assert_allclose(moved[1], pulled[1], rtol=1e-9, atol=1e-11)


@given(seed=SEEDS, spread=st.floats(0.1, 50.0))
def test_expanded_and_plain_sums_agree(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    x, z, W = spread * rng.standard_normal((9, 2)), spread * rng.standard_normal((5, 2)), rng.standard_normal((9, 5))
    fast, slow = pull_distances(x, z, W), pull_distances(x, z, W, expand=False)
    size = np.abs(W).sum()
    np.testing.assert_allclose(fast[0], slow[0], rtol=1e-11, atol=1e-12 * size * spread**2)
    np.testing.assert_allclose(fast[1], slow[1], rtol=1e-11, atol=1e-12 * size * spread)


def test_only_dimensions_that_reach_far_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    spread = np.array([0.1, 300.0, 20.0, 1e5, 20.0])  # the third and the fifth exceed the limit only together
    x, z, W = spread * rng.uniform(-1.0, 1.0, (40, 5)), spread * rng.uniform(-1.0, 1.0, (7, 5)), rng.random((40, 7))
    squares, moved = pull_distances(x, z, W)
    difference = x[:, None, :] - z
    np.testing.assert_allclose(squares, np.einsum("ij,ijd->d", W, difference**2), rtol=1e-12)
    size = np.einsum("ij,ijd->jd", W, np.abs(difference))
    assert (np.abs(moved - np.einsum("ij,ijd->jd", W, difference)) <= 1e-12 * size).all()
    asked: list[str] = []
    einsum = np.einsum
    monkeypatch.setattr(np, "einsum", lambda *a: asked.append(a[0]) or einsum(*a))
    pull_distances(x, z, W)
    assert len(asked) == 2


def test_no_array_of_all_differences_is_formed() -> None:
    N, M, D = 2000, 100, 50
    rng = np.random.default_rng(3)
    for kernel in (SquaredExponential(1.0, 5.0), Matern(0.5, 1.0, 5.0)):
        X, Z, C = rng.standard_normal((N, D)), rng.standard_normal((M, D)), np.ones((N, M))
        kernel.pull(X[:2], Z[:2], C[:2, :2].copy())
        tracemalloc.start()
        kernel.pull(X, Z, C)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * (8 * N * M + 8 * N * D)  # N·M·D would be 50 N·M


@pytest.mark.parametrize("kernel", [SquaredExponential(1.7), *(Matern(p + 0.5, 1.7) for p in (0, 1, 2, 3, 7, 12))])
def test_the_gpus_formula_is_the_kernel(kernel) -> None:
    for r in (0.0, 1e-8, 0.3, 2.0, 30.0):
        names = {"s": r * r, "variance": 1.7, "exp": math.exp, "sqrt": math.sqrt, "fmin": min}
        value = eval(kernel.formula, names)
        assert value == pytest.approx(float(kernel([[0.0]], [[r]])[0, 0]), rel=1e-13)
        if getattr(kernel, "nu", 1.0) > 0.5:  # the other has a condition in C
            slope = eval(kernel.slope_formula, names | {"k": value})
            assert slope == pytest.approx(1.7 * float(kernel.slope(np.array([r * r]))[0]), rel=1e-13)
    assert all(Matern(nu).formula == "" for nu in (0.3, 13.5))


def test_a_kernel_without_derivatives_says_what_to_define() -> None:
    class Constant(Kernel):
        def __call__(self, X1, X2=None):
            return np.ones((len(X1), len(X1 if X2 is None else X2)))

        def diag(self, X):
            return np.ones(len(X))

        @property
        def max_variance(self):
            return 1.0

    for ask in (
        lambda k: k.log_parameters,
        lambda k: k.parameter_names,
        lambda k: k.pull_diag(np.zeros((1, 1)), np.ones(1)),
    ):
        with pytest.raises(TypeError, match="expected a kernel with derivatives, got Constant"):
            ask(Constant())
