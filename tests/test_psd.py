"""Factorisation: what was done is recorded, and what cannot be done is explained."""

from __future__ import annotations

import re

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import SquaredExponential
from gpbounds.linalg import psd

EPS = np.finfo(np.float64).eps
seeds = st.integers(0, 2**32 - 1)


def random_psd(seed, n, rank=None, scale=1.0):
    A = np.random.default_rng(seed).standard_normal((n, rank or n))
    return scale * (A @ A.T)


@given(seed=seeds, n=st.integers(1, 12), scale=st.sampled_from([1e-100, 1.0, 1e100]))
def test_the_factor_is_the_matrix_and_no_jitter_is_added(seed, n, scale):
    A = random_psd(seed, n, 2 * n, scale)
    for jitter in (0.0, "auto"):
        factor = psd.cholesky(A, jitter)
        assert factor.jitter == 0.0
        np.testing.assert_array_equal(factor.L, np.tril(factor.L))
        assert (np.diag(factor.L) > 0).all()
        np.testing.assert_allclose(factor.L @ factor.L.T, A, rtol=0, atol=8 * n * EPS * A.max())


@given(seed=seeds, n=st.integers(1, 12))
def test_a_matrix_in_single_precision_has_a_factor_in_single_precision(seed, n):
    A = random_psd(seed, n, 2 * n).astype(np.float32)
    L = psd.cholesky(A).L
    assert L.dtype == np.float32
    np.testing.assert_allclose(L @ L.T, A, rtol=0, atol=8 * n * 6e-8 * A.max())


@given(seed=seeds, n=st.integers(1, 8), columns=st.integers(1, 3), jitter=st.sampled_from([0.0, 0.1]))
def test_solves_and_logdet_are_those_of_the_shifted_matrix(seed, n, columns, jitter):
    A = random_psd(seed, n, 2 * n + 2)
    B = np.random.default_rng(seed + 1).standard_normal((n, columns))
    factor = psd.cholesky(A, jitter)
    shifted = A + jitter * np.eye(n)
    allowed = 50 * n * EPS * np.linalg.cond(shifted)
    np.testing.assert_allclose(shifted @ factor.solve(B), B, rtol=0, atol=allowed * np.abs(B).max())
    np.testing.assert_allclose(factor.L @ factor.solve_lower(B), B, rtol=0, atol=allowed * np.abs(B).max())
    with mp.workdps(50):
        truth = mp.log(mp.det(mp.matrix(shifted.tolist())))
        assert abs(factor.logdet - truth) <= allowed + 4 * n * EPS * (1 + abs(truth))


def test_logdet_neither_over_nor_underflows():
    n = 200
    assert psd.cholesky(1e-300 * np.eye(n)).logdet == pytest.approx(n * np.log(1e-300), rel=1e-14)
    assert psd.cholesky(1e300 * np.eye(n)).logdet == pytest.approx(n * np.log(1e300), rel=1e-14)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("depth", [3e-13, 3e-12, 3e-11, 3e-10, 3e-9, 3e-8, 3e-7])
def test_auto_takes_the_least_step_that_factorises(scale, depth):
    # Least eigenvalue -depth: the steps below it fail, the first above it does.
    A = scale * (np.eye(3) - (1.0 + depth) * np.full((3, 3), 1 / 3)) + 0.0
    largest = np.diag(A).max()
    assert psd.AUTO_LADDER == (0.0, *(float(f"1e-{k}") for k in range(12, 5, -1)))
    ladder = [step * largest for step in psd.AUTO_LADDER]
    factor = psd.cholesky(A, "auto")
    least = next(j for j in ladder if j > depth * scale)
    assert factor.jitter == least
    below = ladder[ladder.index(least) - 1]
    with pytest.raises(NotPositiveDefinite):
        psd.cholesky(A, below)
    np.testing.assert_allclose(factor.L @ factor.L.T, A + least * np.eye(3), rtol=0, atol=8 * EPS * scale)


def test_the_ladder_is_the_documented_one():
    assert list(psd.AUTO_LADDER) == [0.0, *(10.0**e for e in range(-12, -5))]


@given(seed=seeds, jitter=st.floats(1e-12, 10.0))
def test_a_number_is_used_as_given(seed, jitter):
    A = random_psd(seed, 4, 8)
    factor = psd.cholesky(A, jitter)
    assert factor.jitter == jitter
    np.testing.assert_allclose(
        factor.L @ factor.L.T, A + jitter * np.eye(4), rtol=0, atol=64 * EPS * (A.max() + jitter)
    )


def test_duplicated_points_need_jitter_and_the_error_teaches():
    X = np.repeat(np.linspace(0.0, 1.0, 5), 2)
    K = SquaredExponential(variance=4.0)(X)
    with pytest.raises(NotPositiveDefinite) as caught:
        psd.cholesky(K, name="Kuu")
    message = str(caught.value)
    for part in ("Kuu: expected a positive definite 10 x 10 matrix", "jitter 0", "duplicated", "lengthscale"):
        assert part in message
    assert isinstance(caught.value, ValueError)
    factor = psd.cholesky(K, "auto")
    assert 0.0 < factor.jitter <= 1e-6 * 4.0
    assert factor.jitter in [4.0 * step for step in psd.AUTO_LADDER]


@pytest.mark.parametrize("A", [-np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((2, 2))])
def test_no_step_of_the_ladder_saves_an_indefinite_matrix(A):
    with pytest.raises(NotPositiveDefinite, match="expected a positive definite 2 x 2 matrix"):
        psd.cholesky(A, "auto")


@pytest.mark.parametrize("bad", [-1e-9, np.nan, np.inf, "least", None])
def test_jitter_must_be_a_number_or_auto(bad):
    with pytest.raises(ValueError, match=r"^jitter: expected .*got "):
        psd.cholesky(np.eye(2), bad)


@pytest.mark.parametrize("jitter", [0.0, "auto"])
def test_nan_in_a_matrix_does_not_factorise(jitter):
    A = np.eye(3)
    A[1, 1] = np.nan
    with pytest.raises(NotPositiveDefinite):
        psd.cholesky(A, jitter)


def test_the_factor_may_take_the_place_of_the_matrix():
    A = random_psd(3, 5, 2) + np.eye(5)
    expected, where = psd.cholesky(A).L, A.copy()
    factor = psd.cholesky(where, overwrite=True)
    np.testing.assert_array_equal(factor.L, expected)
    assert np.shares_memory(factor.L, where)
    with pytest.raises(ValueError, match="overwrite"):
        psd.cholesky(A, "auto", overwrite=True)


def test_the_matrix_is_left_as_it_was():
    A = random_psd(3, 5, 2)
    kept = A.copy()
    psd.cholesky(A, "auto")
    psd.cholesky(A, 0.5)
    psd.eigen(A)
    np.testing.assert_array_equal(A, kept)


@given(seed=seeds, spectrum=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=12))
def test_eigenvalues_are_those_the_matrix_was_made_of(seed, spectrum):
    n = len(spectrum)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    A = (Q * spectrum) @ Q.T
    A = 0.5 * (A + A.T)
    decomposition = psd.eigen(A)
    np.testing.assert_allclose(decomposition.values, sorted(spectrum, reverse=True), rtol=0, atol=1e-13)
    assert (np.diff(decomposition.values) <= 0).all()
    assert decomposition.rounding == n * EPS * decomposition.values[0]


def test_negative_rounding_is_clipped_and_counted():
    A = np.diag([1.0, 0.5, -1e-16, -3e-16, 0.0])
    decomposition = psd.eigen(A)
    np.testing.assert_array_equal(decomposition.values, [1.0, 0.5, 0.0, 0.0, 0.0])
    assert decomposition.clipped == 2
    assert decomposition.rounding == 5 * EPS
    assert psd.eigen(np.eye(3)).clipped == 0


@given(seed=seeds, n=st.integers(3, 12), scale=st.sampled_from([1e-100, 1.0, 1e100]))
def test_rank_one_is_positive_semidefinite(seed, n, scale):
    A = random_psd(seed, n, 1, scale)
    decomposition = psd.eigen(A)
    assert decomposition.values[0] == pytest.approx(np.trace(A), rel=1e-12)
    assert (decomposition.values[1:] <= decomposition.rounding).all()
    assert (decomposition.values >= 0).all()


@pytest.mark.parametrize("depth", [2e-15, 1e-10, 1.0])
def test_an_eigenvalue_that_is_negative_beyond_rounding_is_refused(depth):
    A = np.diag([1.0, 0.5, -depth])
    with pytest.raises(NotPositiveDefinite, match=r"^K: expected a positive semi-definite matrix") as caught:
        psd.eigen(A, "K")
    shown = [float(x) for x in re.findall(r"-\d[\d.]*(?:e-?\d+)?", str(caught.value))]
    assert shown == pytest.approx([-depth, -3 * EPS], rel=1e-2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_has_no_eigenvalues(bad):
    A = np.eye(3)
    A[2, 1] = A[1, 2] = bad
    with pytest.raises(ValueError, match="expected"):
        psd.eigen(A)


def test_the_zero_matrix_has_eigenvalues_zero():
    decomposition = psd.eigen(np.zeros((3, 3)))
    assert decomposition.values.tolist() == [0.0, 0.0, 0.0]
    assert decomposition.rounding == 0.0


@pytest.mark.gpu
@given(seed=seeds, n=st.integers(1, 60), jitter=st.sampled_from([0.0, 0.1, "auto"]))
def test_factors_and_eigenvalues_on_the_gpu_equal_those_on_the_cpu(cupy, seed, n, jitter):
    A = random_psd(seed, n, 2 * n + 2)
    B = np.random.default_rng(seed + 1).standard_normal((n, 2))
    on_host, on_device = psd.cholesky(A, jitter), psd.cholesky(cupy.asarray(A), jitter)
    assert isinstance(on_device.L, cupy.ndarray)
    assert on_host.jitter == on_device.jitter
    allowed = 100 * n * EPS * np.linalg.cond(A)
    np.testing.assert_allclose(cupy.asnumpy(on_device.L), on_host.L, rtol=0, atol=allowed * np.abs(on_host.L).max())
    solved = on_host.solve(B)
    np.testing.assert_allclose(
        cupy.asnumpy(on_device.solve(cupy.asarray(B))), solved, rtol=0, atol=allowed * np.abs(solved).max()
    )
    assert on_device.logdet == pytest.approx(on_host.logdet, rel=1e-12, abs=allowed)
    left, right = psd.eigen(A), psd.eigen(cupy.asarray(A))
    np.testing.assert_allclose(right.values, left.values, rtol=0, atol=20 * n * EPS * left.values[0])
    assert type(right.values) is np.ndarray


@pytest.mark.failed_factor
@pytest.mark.gpu
def test_failure_on_the_gpu_is_the_same_error(cupy):
    K = cupy.asarray(SquaredExponential()(np.repeat(np.linspace(0.0, 1.0, 5), 2)))
    with pytest.raises(NotPositiveDefinite):
        psd.cholesky(K)
    assert psd.cholesky(K, "auto").jitter > 0.0
    with pytest.raises(NotPositiveDefinite, match="least eigenvalue"):
        psd.eigen(cupy.asarray(np.diag([1.0, -1e-3])))
