"""What the samplers and the greedy selection of ``gpbounds.kdpp`` promise: the exact law, and refusals that teach."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from gpbounds import kdpp
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kdpp.esp import inclusion

Law = dict[tuple[int, ...], float]


def law(K: np.ndarray, M: int) -> Law:
    """P(Z) ∝ |K_ZZ| for every Z, by enumeration."""
    weights = {Z: max(float(np.linalg.det(K[np.ix_(Z, Z)])), 0.0) for Z in combinations(range(len(K)), M)}
    total = sum(weights.values())
    return {Z: weight / total for Z, weight in weights.items()}


def p_value(draws: list[tuple[int, ...]], expected: Law) -> float:
    """χ² of the counts against the law; states expected less than 5 times are counted together."""
    counts = dict.fromkeys(expected, 0)
    for Z in draws:
        counts[Z] += 1
    seen = np.array([counts[Z] for Z in expected], dtype=float)
    hoped = np.array([len(draws) * p for p in expected.values()])
    rare = hoped < 5.0
    seen, hoped = np.append(seen[~rare], seen[rare].sum()), np.append(hoped[~rare], hoped[rare].sum())
    if hoped[-1] < 1e-6:
        assert seen[-1] == 0  # sets of probability 0 are never drawn
        seen, hoped = seen[:-1], hoped[:-1]
    return float(chi2.sf(((seen - hoped) ** 2 / hoped).sum(), seen.size - 1)) if seen.size > 1 else 1.0


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


CASES = [
    ("exponential", 4, 2),
    ("exponential", 7, 3),
    ("exponential", 5, 5),
    ("exponential", 6, 1),
    ("unequal variances", 6, 3),
    ("duplicates", 6, 3),
    ("duplicates", 7, 5),
    ("low rank", 6, 3),
    ("low rank", 7, 2),
    ("tiny", 5, 2),
]


@pytest.mark.parametrize(("kind", "N", "M"), CASES)
def test_samples_follow_the_law_and_no_other(kind: str, N: int, M: int) -> None:
    rng = np.random.default_rng(1000 * N + M)
    K = gram(kind, N, rng)
    expected = law(K / np.trace(K), M)
    values, vectors = np.linalg.eigh(K)
    draws = [tuple(kdpp.sample_eigen(values, vectors, M, rng).tolist()) for _ in range(2500)]
    assert p_value(draws, expected) > 1e-4
    if M < N:  # the same test tells uniform subsets from the k-DPP
        uniform = [tuple(sorted(rng.choice(N, M, replace=False).tolist())) for _ in range(2500)]
        if kind == "duplicates":
            assert any(expected[Z] < 1e-12 for Z in uniform)
        elif M > 1 or kind != "exponential":
            assert p_value(uniform, expected) < 1e-8


def test_drawing_without_the_conditioning_is_told_apart() -> None:
    """Points drawn by their own leverage alone, without replacement, pass for a k-DPP only to the eye."""
    rng = np.random.default_rng(3)
    K = gram("unequal variances", 6, rng)
    expected = law(K, 3)
    weights = K.diagonal() / np.trace(K)
    draws = [tuple(sorted(rng.choice(6, 3, replace=False, p=weights).tolist())) for _ in range(2500)]
    assert p_value(draws, expected) < 1e-8


def test_eigenvectors_take_part_as_they_should() -> None:
    """Phase 1: P(m ∈ J) = λ_m e_{M−1}(λ without m)/e_M(λ), from the table of conditional probabilities."""
    values = np.array([5.0, 2.0, 1.0, 0.1])
    table = inclusion(values, 2)
    assert table[1, 3] == pytest.approx(0.1 * 8.0 / (10 + 5 + 0.5 + 2 + 0.2 + 0.1), rel=1e-14)
    assert table[0, 0] == table[1, 1] == 1.0
    wide = 10.0 ** -np.linspace(0.0, 300.0, 40)
    assert ((inclusion(wide, 20) >= 0) & (inclusion(wide, 20) <= 1)).all()


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


def test_duplicates_are_never_drawn_together() -> None:
    rng = np.random.default_rng(8)
    X = np.repeat(rng.random(6), 5)
    K = np.exp(-0.5 * (X[:, None] - X) ** 2 / 0.05)
    for _ in range(50):
        assert np.unique(X[kdpp.sample(K, 5, rng)]).size == 5
    assert np.unique(X[kdpp.greedy(K, 5)]).size == 5


@pytest.mark.parametrize("M", [4, 6])
def test_beyond_the_numerical_rank_every_selection_refuses(M: int) -> None:
    B = np.random.default_rng(0).standard_normal((6, 3))
    with pytest.raises(ValueError, match="numerical rank, 3 eigenvalues"):
        kdpp.sample(B @ B.T, M, 0)
    with pytest.raises(ValueError, match="at most 3 points"):
        kdpp.greedy(B @ B.T, M)
    with pytest.raises(ValueError, match="undefined: only 3 nonzero eigenvalues"):
        kdpp.expected_trace([3.0, 2.0, 1.0, 0.0, 0.0, 0.0], M)


def test_a_long_lengthscale_lowers_the_rank() -> None:
    X = np.linspace(0, 1, 50)
    K = np.exp(-0.5 * (X[:, None] - X) ** 2 / 4.0)
    with pytest.raises(ValueError, match="numerical rank"):
        kdpp.sample(K, 30, 0)
    assert np.unique(kdpp.sample(K, 5, 0)).size == 5


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
    (lambda: kdpp.sample_eigen([1.0, 1.0], np.ones((2, 2)), 2, 0), "orthonormal"),
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
