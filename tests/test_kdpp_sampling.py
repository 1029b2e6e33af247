"""The samplers and the greedy selection of ``gpbounds.kdpp``: distinct points, memory, and error messages."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import kdpp
from gpbounds.errors import NonFinite, NotPositiveDefinite


def gram(kind: str, N: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.random(N)
    if kind == "duplicates":
        X[1] = X[0]
        X[3] = X[2]
    K = np.exp(-np.abs(X[:, None] - X) / 0.4)
    if kind == "unequal variances":
        scale = 10.0 ** rng.uniform(-1, 1, N)
        K *= scale[:, None] * scale
    if kind == "low rank":
        B = rng.standard_normal((N, 3))
        K = B @ B.T
    return 1e-200 * K if kind == "tiny" else K


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.sampled_from(["exponential", "tiny", "unequal variances"]))
def test_a_sample_is_a_set_of_distinct_points_and_the_seed_decides(seed: int, N: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    K = gram(kind, N, rng)
    for M in {0, 1, N // 2, N}:
        Z = kdpp.sample(K, M, np.random.default_rng(seed))
        assert (np.diff(Z) > 0).all()
        assert Z.size == M
        assert Z.size == 0 or (Z[0] >= 0 and Z[-1] < N)
        assert (kdpp.sample(K, M, seed) == Z).all()
        V = np.linalg.cholesky(K / K.max()) * np.sqrt(K.max())
        Z = kdpp.sample_factor(V, M, np.random.default_rng(seed))
        assert (np.diff(Z) > 0).all()
        assert Z.size == M
        assert (kdpp.sample_factor(V, M, seed) == Z).all()


def test_duplicates_are_never_drawn_together() -> None:
    rng = np.random.default_rng(8)
    X = np.repeat(rng.random(6), 5)
    K = np.exp(-0.5 * (X[:, None] - X) ** 2 / 0.05)
    for _ in range(50):
        assert np.unique(X[kdpp.sample(K, 5, rng)]).size == 5
        assert np.unique(X[kdpp.sample_factor(K, 5, rng)]).size == 5
    assert np.unique(X[kdpp.greedy(K, 5)]).size == 5


@pytest.mark.parametrize("M", [4, 6])
def test_beyond_the_numerical_rank_every_selection_refuses(M: int) -> None:
    B = np.random.default_rng(0).standard_normal((6, 3))
    with pytest.raises(ValueError, match="numerical rank, 3 eigenvalues"):
        kdpp.sample(B @ B.T, M, 0)
    with pytest.raises(ValueError, match="numerical rank of V, 3 singular values"):
        kdpp.sample_factor(np.hstack([B, B]), M, 0)
    with pytest.raises(ValueError, match="at most 3 points"):
        kdpp.greedy(B @ B.T, M)
    with pytest.raises(ValueError, match="expected at most 3, the number of nonzero eigenvalues"):
        kdpp.expected_trace([3.0, 2.0, 1.0, 0.0, 0.0, 0.0], M)


def test_a_singular_value_below_rounding_of_many_rows_counts_as_zero() -> None:
    """The rounding of the singular values of V (N, r) is N·eps of the largest, for N > r."""
    V = np.zeros((1000, 2))
    V[0, 0], V[1, 1] = 1.0, 100 * np.finfo(float).eps
    with pytest.raises(ValueError, match="numerical rank of V, 1 singular values"):
        kdpp.sample_factor(V, 2, 0)
    V[1, 1] = 2000 * np.finfo(float).eps
    assert kdpp.sample_factor(V, 2, 0).tolist() == [0, 1]


def test_a_long_lengthscale_lowers_the_rank() -> None:
    X = np.linspace(0, 1, 50)
    K = np.exp(-0.5 * (X[:, None] - X) ** 2 / 4.0)
    with pytest.raises(ValueError, match="numerical rank"):
        kdpp.sample(K, 30, 0)
    assert np.unique(kdpp.sample(K, 5, 0)).size == 5


def test_a_factor_is_sampled_without_an_n_by_n_or_n_by_m_matrix() -> None:
    V = np.random.default_rng(1).standard_normal((100_000, 30)).astype(np.float32)
    tracemalloc.start()
    Z = kdpp.sample_factor(V, 20, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.unique(Z).size == 20
    assert peak < 8 * 100_000 * 10  # a few vectors of N and blocks of rows; V itself has 30 columns


def test_a_factor_of_many_blocks_keeps_small_singular_values() -> None:
    """Eigenvalues over 20 decades, which VᵀV would lose: samples still have full rank and points from both halves."""
    rng = np.random.default_rng(4)
    V = np.linalg.qr(rng.standard_normal((20_000, 11)))[0] * 10.0 ** -np.arange(11.0)
    V[:10_000, 10] = 0.0  # the direction of the smallest eigenvalue is in the second half
    for _ in range(20):
        Z = kdpp.sample_factor(V, 11, rng)
        assert np.linalg.matrix_rank(V[Z] * 10.0 ** np.arange(11.0)) == 11
        assert Z[-1] >= 10_000


def test_every_block_of_a_factor_counts() -> None:
    """One direction per block of rows: the points come from different blocks, mostly those of large eigenvalues."""
    V = np.zeros((30_000, 6))
    V[np.arange(30_000), np.arange(30_000) // 5000] = 1.0
    for seed in range(5):
        assert (kdpp.sample_factor(V, 6, seed) // 5000).tolist() == [0, 1, 2, 3, 4, 5]
    V[:5000] *= 1e6
    assert (kdpp.sample_factor(V, 1, 0) // 5000).tolist() == [0]
    assert (kdpp.sample_factor(np.asfortranarray(V), 3, 1) == kdpp.sample_factor(V, 3, 1)).all()


def test_singular_values_that_vanish_do_not_take_part() -> None:
    V = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    assert kdpp.sample_factor(V, 1, 0).size == 1
    assert kdpp.sample_factor(np.zeros((3, 2)), 0, 0).size == 0
    with pytest.raises(ValueError, match="numerical rank of V, 0 singular"):
        kdpp.sample_factor(np.zeros((3, 2)), 1, 0)


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_greedy_takes_the_largest_variance_left_and_is_incremental(seed: int, N: int) -> None:
    rng = np.random.default_rng(seed)
    K = gram("unequal variances", N, rng)
    order = kdpp.greedy(K, N)
    assert sorted(order) == list(range(N))
    assert order[0] == K.diagonal().argmax()
    M = int(rng.integers(1, N))
    assert (kdpp.greedy(K, M) == order[:M]).all()
    Z = order[:M]
    residual = K - K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z])
    assert residual[order[M], order[M]] >= residual.diagonal().max() - 1e-9 * K.diagonal().max()
    assert kdpp.residual_trace(K, Z) == pytest.approx(np.trace(residual), rel=1e-6, abs=1e-9 * np.trace(K))


def test_greedy_breaks_ties_by_the_least_index() -> None:
    assert kdpp.greedy(np.eye(5), 5).tolist() == [0, 1, 2, 3, 4]
    assert kdpp.greedy(np.diag([1.0, 2.0, 2.0]), 3).tolist() == [1, 2, 0]
    assert kdpp.greedy(np.eye(3), 0).size == 0


def test_residual_trace_at_its_ends() -> None:
    K = gram("exponential", 8, np.random.default_rng(2))
    assert kdpp.residual_trace(K, []) == np.trace(K)
    assert kdpp.residual_trace(K, np.arange(8)) == 0.0
    with pytest.raises(NotPositiveDefinite):
        kdpp.residual_trace(np.ones((3, 3)), [0, 1])
    for wrong in ([0, 0], [8], [-1], [0.5], [[0]]):
        with pytest.raises(ValueError, match="indices: expected"):
            kdpp.residual_trace(K, wrong)


WRONG = [
    (lambda: kdpp.sample(np.ones((2, 3)), 1, 0), "square matrix"),
    (lambda: kdpp.sample(np.ones(1), 1, 0), "square matrix"),
    (lambda: kdpp.sample(np.array([[1.0, 0.5], [0.4, 1.0]]), 1, 0), "symmetric"),
    (lambda: kdpp.greedy(np.diag([1.0, -1.0]), 1), "row 1"),
    (lambda: kdpp.greedy(np.eye(2), 3), "at most N = 2"),
    (lambda: kdpp.sample_eigen([1.0, 1.0], np.eye(3), 1, 0), "expected shapes"),
    (lambda: kdpp.sample_eigen([], np.ones((2, 0)), 0, 0), "expected shapes"),
    (lambda: kdpp.sample_eigen([1.0, 1.0], np.ones((2, 2)), 2, 0), "orthonormal columns"),
    (
        lambda: kdpp.sample_eigen([1.0, 1.0], np.full((2, 2), np.nan), 2, 0),
        "eigenvectors: expected a finite number, got nan",
    ),
    (lambda: kdpp.sample_eigen([1.0, np.nan], np.eye(2), 1, 0), "eigenvalues: expected"),
    (lambda: kdpp.sample(np.eye(2), -1, 0), "M: expected a whole number >= 0"),
    (lambda: kdpp.sample_factor(np.ones(3), 1, 0), r"shape \(3,\)"),
    (lambda: kdpp.sample_factor(np.ones((0, 2)), 0, 0), r"shape \(0, 2\)"),
    (lambda: kdpp.sample_factor(np.ones((3, 2)) * 1j, 1, 0), "V: expected real numbers, got complex128"),
    (lambda: kdpp.sample_factor(np.eye(3), 1.5, 0), "M: expected a whole number"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_arguments_say_what_was_expected(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_matrices_that_are_not_psd_or_not_finite() -> None:
    with pytest.raises(NotPositiveDefinite, match="least eigenvalue is -1"):
        kdpp.sample(np.array([[1.0, 2.0], [2.0, 1.0]]), 1, 0)
    with pytest.raises(NonFinite, match=r"row\(s\) \[1\]"):
        kdpp.sample(np.array([[1.0, 0.0], [np.nan, 1.0]]), 1, 0)
    V = np.ones((9000, 1))
    V[8000] = np.inf
    with pytest.raises(NonFinite, match="row 8000"):
        kdpp.sample_factor(V, 1, 0)
    with pytest.raises(NotPositiveDefinite, match="clip at 0"):
        kdpp.sample_eigen([1.0, -0.1], np.eye(2), 1, 0)
