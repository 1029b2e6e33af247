"""GP posteriors and their KL: large problems, extremes, jitter, messages of errors."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.divergences import (
    collapsed_posterior,
    free_posterior,
    full_posterior,
    gaussian_kl,
    posterior_kl,
    sparse_kl,
    whitened_kl,
    whitened_posterior,
)
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Matern, SquaredExponential

SEEDS = st.integers(0, 2**32 - 1)


def problem(seed: int, N: int = 40, D: int = 2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    return Matern(1.5, 1.3, 0.8), X, np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(N), X[: max(2, N // 6)] + 0.01


def line(X):
    return 0.5 - X[:, 0]


@given(seed=SEEDS)
def test_the_kl_is_that_of_the_laws_at_the_data(seed):
    kernel, X, y, _ = problem(seed, 8)
    K = kernel(X)
    A = np.linalg.solve(K + 0.3 * np.eye(8), K)
    laws = A.T @ (y - line(X)), K - K @ A, np.zeros(8), K
    expected = gaussian_kl(*laws)
    assert posterior_kl(K, y - line(X), noise=0.3) == pytest.approx(expected, rel=1e-8)
    q = full_posterior(kernel, X, y, noise=0.3, prior_mean=line)
    assert q.kl == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(q.predict().mean, laws[0] + line(X), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(q.predict().variance, np.diag(laws[1]), rtol=1e-9)


@given(seed=SEEDS, alpha=st.floats(0, 1), chunk=st.integers(1, 50))
def test_chunks_do_not_matter(seed, alpha, chunk):
    kernel, X, y, Z = problem(seed)
    direct = collapsed_posterior(kernel, X, y, Z, noise=0.1, power=alpha, prior_mean=line)
    chunked = collapsed_posterior(kernel, X, y, Z, noise=0.1, power=alpha, prior_mean=line, chunk=chunk)
    assert chunked.kl == pytest.approx(direct.kl, rel=1e-10)
    whole, parts = direct.predict(X), chunked.predict(X, chunk=chunk)
    for name in ("mean", "variance", "mean_error", "variance_error"):
        np.testing.assert_allclose(
            getattr(parts, name), getattr(whole, name), rtol=1e-5 if "error" in name else 1e-8, atol=1e-10
        )


def test_hundreds_of_data_agree_three_ways():
    """Eigenvalues, Cholesky, and all points inducing; within the allowances that each of them states."""
    kernel, X, y, _ = problem(0, 700, 3)
    full = full_posterior(kernel, X, y, noise=0.05)
    assert abs(posterior_kl(kernel(X), y, noise=0.05, method="cholesky") - full.kl) < 1e-9
    sparse = collapsed_posterior(kernel, X, y, X, noise=0.05, power=1.0)
    assert abs(sparse.kl - full.kl) <= sparse.kl_rounding + full.kl_rounding < 1e-3
    by_sparse, by_full = sparse.predict(X), full.predict()
    assert (np.abs(by_sparse.mean - by_full.mean) <= by_sparse.mean_error + by_full.mean_error).all()
    assert (np.abs(by_sparse.variance - by_full.variance) <= by_sparse.variance_error + by_full.variance_error).all()
    assert by_full.mean_error.max() < 1e-7
    assert by_full.variance_error.max() < 1e-8


def test_allowances_of_a_usual_problem_are_small():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 4))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(5000)
    q = collapsed_posterior(SquaredExponential(1.0, 2.0), X, y, X[:100], noise=0.01, power=1.0)
    at = q.predict(X)
    assert q.kl_rounding < 1e-6 * q.kl
    assert at.mean_error.max() < 1e-3 * np.sqrt(at.variance.min())
    assert at.variance_error.max() < 1e-3 * at.variance.min()


def test_memory_stays_below_a_matrix_of_the_data():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20_000, 2)), rng.standard_normal(20_000)
    tracemalloc.start()
    q = collapsed_posterior(SquaredExponential(1.0, 1.0), X, y, X[:60], noise=0.1, power=1.0, jitter="auto", chunk=256)
    q.predict(X, chunk=256)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 * 60 * 8


def test_variances_are_positive_where_differences_cancel():
    """Noise of 1e-14: k − k(K + σ²)⁻¹k is rounding; the variance at the data is about σ² itself."""
    kernel, X, y, _ = problem(3, 30)
    at = full_posterior(kernel, X, y, noise=1e-14).predict()
    assert (at.variance > 0.9e-14).all()
    assert (at.variance <= 1e-14).all()
    q = collapsed_posterior(kernel, X, y, X, noise=1e-10, power=1.0).predict(X)
    np.testing.assert_allclose(q.variance, 1e-10, rtol=1e-2)


def test_extremes_of_noise_stay_finite():
    kernel, X, y, Z = problem(1, 12)
    for noise in (1e-300, 1e-150, 1e-20, 1e150, 1e300):
        q = full_posterior(kernel, X, y, noise=noise)
        assert np.isfinite(q.kl) or noise < 1e-290
        assert not np.isnan(q.kl_rounding)
        assert (q.predict().variance >= 0.0).all()
        if noise >= 1e-20:
            sparse = collapsed_posterior(kernel, X, y, Z, noise=noise, power=0.5)
            assert sparse.kl >= 0.0
            assert not np.isnan(sparse.kl_rounding)
            assert not np.isnan(sparse.predict(X).mean_error).any()


def test_jitter_is_used_everywhere_or_nowhere():
    """Repeated inducing points: refused without jitter; with jitter, the predictions include it like the KL."""
    kernel, X, y, _ = problem(2)
    Z = np.concatenate([X[:4], X[:4]])
    with pytest.raises(NotPositiveDefinite, match="duplicated"):
        collapsed_posterior(kernel, X, y, Z, noise=0.1, power=1.0, jitter=0.0)
    q = collapsed_posterior(kernel, X, y, Z, noise=0.1, power=1.0)
    assert q.jitter > 0.0
    single = collapsed_posterior(
        kernel, X, y, X[:4], noise=0.1, power=1.0, jitter=q.jitter / 2
    )  # two observations with twice the noise each
    assert q.kl == pytest.approx(single.kl, rel=1e-4)
    np.testing.assert_allclose(q.predict(X).variance, single.predict(X).variance, rtol=1e-4)


def test_where_rounding_says_too_little_the_allowance_is_infinite_and_never_nan():
    """Kuu of condition 1e15: L has few correct digits, and C = I, μ = 0 is still the prior."""
    kernel, Z = SquaredExponential(), np.linspace(0.0, 1.0, 5)[:, None] * 0.05
    q = whitened_posterior(kernel, Z, np.zeros(5), 0.5 * np.eye(5), jitter=1e-14)
    at = q.predict([[0.02], [90.0]])
    assert at.variance_error[0] > 1e-3
    assert at.variance_error[1] < 1e-12
    np.testing.assert_array_equal(at.mean_error, 0.0)
    free = free_posterior(kernel, Z, np.ones(5), 1e-3 * np.eye(5), jitter=1e-14)
    assert free.kl_rounding > 1e-3
    assert not np.isnan(free.predict([[0.02], [90.0]]).mean_error).any()


def test_no_data_to_explain_leave_no_error_in_the_mean():
    """y = 0: the mean is 0 for every Kuu, even where the rounding error of the variance has no bound."""
    Z, X = np.linspace(0.0, 0.05, 5)[:, None], np.linspace(0.0, 1.0, 9)[:, None]
    at = collapsed_posterior(SquaredExponential(), X, np.zeros(9), Z, noise=0.1, power=1.0, jitter=1e-14).predict(X)
    assert np.isinf(at.variance_error).any()
    np.testing.assert_array_equal(at.mean, 0.0)
    np.testing.assert_array_equal(at.mean_error, 0.0)


def test_an_error_of_a_tenth_of_the_noise_is_beyond_the_allowances():
    """The proof covers |E| up to σ²/10; from there on the bound is infinite."""
    kernel, X, y, _ = problem(7, 6)
    shift = full_posterior(kernel, X, y, noise=0.1, entry_error=1e-3).spectral.shift
    below, beyond = (full_posterior(kernel, X, y, noise=shift * r, entry_error=1e-3) for r in (10.01, 9.99))
    assert below.spectral.left == pytest.approx(1.0 / 0.9, rel=1e-3)
    assert np.isfinite(below.kl_rounding)
    assert beyond.spectral.left == beyond.kl_rounding == np.inf
    assert np.isinf(beyond.predict().mean_error).all()


def test_a_kernel_known_to_an_error_widens_every_allowance():
    kernel, X, y, Z = problem(4)
    sharp, dull = (collapsed_posterior(kernel, X, y, Z, noise=0.1, power=1.0, entry_error=e) for e in (0.0, 1e-9))
    assert dull.kl == sharp.kl
    assert dull.kl_rounding > 1e3 * sharp.kl_rounding
    assert (dull.predict(X).mean_error > sharp.predict(X).mean_error).all()
    assert (dull.predict(X).variance_error > sharp.predict(X).variance_error).all()
    worse = full_posterior(kernel, X, y, noise=0.1, entry_error=1e-9)
    assert worse.kl_rounding > 1e3 * full_posterior(kernel, X, y, noise=0.1).kl_rounding
    moved = Matern(1.5, 1.3 * (1 + 5e-10), 0.8)  # every entry within 1e-9
    assert abs(full_posterior(moved, X, y, noise=0.1).kl - worse.kl) <= worse.kl_rounding
    assert abs(collapsed_posterior(moved, X, y, Z, noise=0.1, power=1.0).kl - dull.kl) <= dull.kl_rounding


def test_the_prior_itself_has_no_divergence():
    q = whitened_posterior(SquaredExponential(), [0.0, 1.0], [0.0, 0.0], np.eye(2))
    assert q.kl == 0.0
    at = q.predict([0.0, 0.3, 5.0])
    np.testing.assert_allclose(at.variance, 1.0, rtol=1e-12)
    np.testing.assert_array_equal(at.mean, 0.0)
    assert posterior_kl(np.zeros((3, 3)), [1.0, 2.0, 3.0], noise=0.1) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 2.0]], [1.0], 1.0), "K: expected a square matrix"),
        (([[1.0, 0.5], [0.1, 1.0]], [1.0, 1.0], 1.0), "K: expected a symmetric matrix"),
        (([[np.nan]], [1.0], 1.0), "K: expected finite numbers"),
        (([[1.0]], [1.0, 2.0], 1.0), r"y_minus_mean: expected 1 real numbers, shape \(1,\), got float64 of \(2,\)"),
        (([[1.0]], [np.inf], 1.0), "y_minus_mean: expected finite numbers"),
        (([[1.0]], [1.0], 0.0), "noise: expected a positive finite number"),
        (([[1.0]], [1.0], [1.0, 2.0]), "noise: expected one number"),
        (([[-1.0]], [1.0], 1.0), "positive semi-definite"),
    ],
)
def test_arguments_of_posterior_kl(arguments, message):
    with pytest.raises(ValueError, match=message):
        posterior_kl(*arguments[:2], noise=arguments[2])


def test_arguments_of_posteriors():
    kernel, X, y, Z = problem(0, 12)
    with pytest.raises(ValueError, match="power: expected a finite number >= 0"):
        collapsed_posterior(kernel, X, y, Z, noise=0.1, power=-0.5)
    with pytest.raises(ValueError, match="float64, got float32"):
        full_posterior(kernel, X.astype(np.float32), y, noise=0.1)
    with pytest.raises(ValueError, match="float64, got float32"):
        collapsed_posterior(kernel, X.astype(np.float32), y, Z, noise=0.1, power=0.0)
    with pytest.raises(ValueError, match="y: expected 12 real numbers"):
        full_posterior(kernel, X, y[:, None], noise=0.1)
    with pytest.raises(NonFinite, match="prior_mean: expected finite"):
        full_posterior(kernel, X, y, noise=0.1, prior_mean=lambda x: np.full(len(x), np.nan))
    with pytest.raises(ValueError, match="prior_mean: expected 12 real numbers"):
        full_posterior(kernel, X, y, noise=0.1, prior_mean=lambda x: x)
    with pytest.raises(ValueError, match="entry_error: expected a finite number >= 0"):
        full_posterior(kernel, X, y, noise=0.1, entry_error=-1.0)
    with pytest.raises(ValueError, match=r"factor: expected shape \(2, 2\)"):
        whitened_posterior(kernel, Z, [0.0, 0.0], np.eye(3))
    with pytest.raises(ValueError, match="X: expected 2 column"):
        whitened_posterior(kernel, Z, [0.0, 0.0], np.eye(2)).predict([[1.0]])
    with pytest.raises(NotPositiveDefinite, match="covariance"):
        free_posterior(kernel, Z, [0.0, 0.0], np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"covariance: expected shape \(2, 2\)"):
        free_posterior(kernel, Z, [0.0, 0.0], np.eye(3))


@pytest.mark.parametrize(
    "factor",
    [
        np.eye(2)[::-1],
        [[1.0, 0.1], [0.0, 1.0]],
        [[1.0, 0.0], [0.0, 0.0]],
        [[-1.0, 0.0], [0.0, 1.0]],
        [[1.0, 0.0]],
        [[1.0, 0.0], [np.nan, 1.0]],
    ],
)
def test_a_factor_that_is_none(factor):
    with pytest.raises(ValueError, match="factor: expected"):
        whitened_kl([0.0, 0.0], factor)


def test_a_singular_prior_or_posterior_is_refused():
    with pytest.raises(NotPositiveDefinite):
        sparse_kl(np.ones((2, 2)), [0.0, 0.0], np.eye(2))
    with pytest.raises(NotPositiveDefinite):
        sparse_kl(np.eye(2), [0.0, 0.0], np.ones((2, 2)))


@pytest.mark.gpu
def test_on_a_gpu_posteriors_are_the_same(cupy):
    kernel, X, y, Z = problem(5, 300)
    on_host, on_device = ([m(v) for v in (X, y, Z)] for m in (np.asarray, cupy.asarray))
    for build in (
        lambda X, y, Z: collapsed_posterior(kernel, X, y, Z, noise=0.1, power=0.5, prior_mean=line),
        lambda X, y, Z: full_posterior(kernel, X, y, noise=0.1, prior_mean=line),
    ):
        near, far = build(*on_host), build(*on_device)
        assert far.kl == pytest.approx(near.kl, rel=1e-9)
        for name in ("mean", "variance"):
            values = getattr(far.predict(on_device[0]), name)
            np.testing.assert_allclose(values.get(), getattr(near.predict(X), name), rtol=1e-8, atol=1e-10)
