"""Mean residuals of randomly pivoted Cholesky and of uniform choice, and the tilted k-DPP's draws, by enumeration."""

from __future__ import annotations

import pickle
from itertools import combinations
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observer import Observer
from scipy.stats import chi2
from thinning import one_in

from gpbounds import Matern, SquaredExponential, kdpp
from gpbounds.kdpp import draws, random_pivots
from gpbounds.kdpp.random_pivots import RandomPivots
from gpbounds.reference import kdpp as reference

seeds = st.integers(0, 2**32 - 1)
DRAWS = 1500
ROUNDING = mp.mpf(10) ** -40


def matrix(kind: str, N: int, seed: int) -> mp.matrix:
    """A covariance matrix (N, N) of entries with few bits, positive definite but for "duplicates"."""
    rng = np.random.default_rng(seed)
    B = np.round(rng.standard_normal((N, N)) * 10.0 ** rng.uniform(-2.0, 1.0, N), 4)
    if kind == "duplicates":
        B = B[rng.integers(0, max(1, N // 2), N)]
    if kind == "nearly diagonal":
        B = np.diag(np.round(10.0 ** rng.uniform(-2, 1, N), 3)) + 0.01 * B
    exact = mp.matrix(B.tolist())
    return exact * exact.T


def gap_in_loewner_order(bound: list[Any], vectors: Any, mean: Any) -> Any:
    """λ_min(V diag(bound) Vᵀ − mean) over the trace of K's bound: ≥ 0 where the claim holds."""
    return min(mp.eigsy(vectors * mp.diag(bound) * vectors.T - mean, eigvals_only=True))


@pytest.mark.claim("N-rpc")
@settings(max_examples=30)
@given(st.sampled_from(["plain", "duplicates", "nearly diagonal"]), st.integers(2, 5), st.integers(0, 3), seeds)
def test_randomly_pivoted_cholesky_leaves_at_most_so_much(
    observe: Observer, kind: str, N: int, M: int, seed: int
) -> None:
    K = matrix(kind, N, seed)
    M = min(M, N)
    values, vectors = mp.eigsy(K)
    lam = [max(v, mp.mpf(0)) for v in values]
    mean = reference.rpcholesky_mean(K, M)
    rho = reference.rpcholesky_residual(lam, M)
    scale = mp.fsum(lam)
    assert gap_in_loewner_order(rho, vectors, mean) >= -ROUNDING * scale
    if M == 1:
        difference = vectors * mp.diag(rho) * vectors.T - mean
        assert mp.mnorm(difference, 1) <= mp.mpf(10) ** -25 * scale
    upper = kdpp.rpcholesky_residual([float(v) * (1 + 1e-15) for v in lam], M)
    observe.upper("N-rpc", mp.fsum(mean[i, i] for i in range(N)), float(upper.sum()), tol=1e-35 * float(scale))
    for above, exact in zip(upper, rho, strict=True):
        assert above >= exact * (1 - mp.mpf(10) ** -30)
        assert above <= exact * (1 + mp.mpf(1e-12)) + mp.mpf(10) ** -30 * scale


@pytest.mark.claim("N-rpc")
def test_randomly_pivoted_cholesky_may_leave_more_than_a_k_dpp(observe: Observer) -> None:
    """The mean trace of a k-DPP of the same size is no bound: here it is exceeded by a third."""
    K = mp.matrix(
        [["2.79e-4", "1.49e-4", "-1.44e-4"], ["1.49e-4", 1, "-0.967512"], ["-1.44e-4", "-0.967512", "0.936080"]]
    )
    values = mp.eigsy(K, eigvals_only=True)
    mean = reference.rpcholesky_mean(K, 2)
    rpc, k_dpp = mp.fsum(mean[i, i] for i in range(3)), reference.expected_trace(list(values), 2)
    assert values[0] > 0
    observe.fails("N-rpc", rpc <= k_dpp, "E T of randomly pivoted Cholesky at most that of a k-DPP")


@pytest.mark.claim("N-unif")
@settings(max_examples=30)
@given(st.sampled_from(["plain", "nearly diagonal"]), st.integers(2, 6), seeds)
def test_uniform_choice_leaves_at_most_so_much(observe: Observer, kind: str, N: int, seed: int) -> None:
    K = matrix(kind, N, seed)
    values, vectors = mp.eigsy(K)
    scale, variance = mp.fsum(values), max(K[i, i] for i in range(N))
    for M in range(N + 1):
        mean = reference.uniform_mean(K, M)
        rho = reference.uniform_residual(list(values), M, variance)
        assert gap_in_loewner_order(rho, vectors, mean) >= -ROUNDING * scale
        upper = kdpp.uniform_residual(
            [float(v) * (1 + 1e-15) for v in values], M, variance=float(variance) * (1 + 1e-15)
        )
        truth = mp.fsum(mean[i, i] for i in range(N))
        observe.upper("N-unif", truth, float(upper.sum()), tol=1e-35 * float(scale))
        for above, exact in zip(upper, rho, strict=True):
            assert exact <= above <= exact * (1 + mp.mpf(1e-12))


def p_value(counts: dict[Any, int], law: dict[Any, float], draws: int) -> float:
    """χ² of the counts against the law; outcomes expected less than 5 times are counted together."""
    assert not [outcome for outcome in counts if law.get(outcome, 0.0) == 0.0]
    observed = np.array([counts.get(outcome, 0) for outcome in law], dtype=float)
    expected_counts = np.array([draws * p for p in law.values()])
    rare = expected_counts < 5.0
    observed, expected_counts = (
        np.append(observed[~rare], observed[rare].sum()),
        np.append(expected_counts[~rare], expected_counts[rare].sum()),
    )
    keep = expected_counts > 1e-6
    return float(
        chi2.sf(((observed - expected_counts)[keep] ** 2 / expected_counts[keep]).sum(), max(1, keep.sum() - 1))
    )


def counted(outcomes: list[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    counts: dict[tuple[int, ...], int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts


@pytest.mark.claim("N-rpc")
@pytest.mark.parametrize("block", one_in(3, [2, 1, 64]))
@pytest.mark.parametrize(("kind", "N", "M"), [("plain", 5, 3), ("nearly diagonal", 4, 4), ("plain", 6, 1)])
def test_sequences_follow_their_law(
    observe: Observer, monkeypatch: pytest.MonkeyPatch, block: int, kind: str, N: int, M: int
) -> None:
    """In blocks of any size, the order included; where the weights are computed again is of no influence."""
    monkeypatch.setattr(random_pivots, "FIRST", 2)
    monkeypatch.setattr(random_pivots, "ENTRY", 0.0)
    sharpen, given_points = RandomPivots._sharpen, []
    monkeypatch.setattr(RandomPivots, "_sharpen", lambda own, t: (given_points.append(t), sharpen(own, t)))
    monkeypatch.setattr(random_pivots, "BLOCK", block)
    exact = matrix(kind, N, N + M)
    K = np.array(exact.tolist(), dtype=float)
    law = {z: float(p) for z, p in reference.rpcholesky_law(exact, M).items()}
    rng = np.random.default_rng(block)

    def draw() -> tuple[int, ...]:
        pivots = RandomPivots(lambda i, j: K[i][:, j], K.diagonal(), rng)
        drawn = pivots.draw(M)
        return tuple(pivots.indices[:drawn].tolist())

    observe.holds("N-rpc", p_value(counted([draw() for _ in range(DRAWS)]), law, DRAWS) > 1e-4, cases=DRAWS)
    assert M < 3 or block > 2 or len(given_points) > DRAWS // 20


def test_draws_without_a_factor_are_those_with_one_and_more_points_change_none() -> None:
    """5000 rows, 60 points, where most proposals are rejected; the trace is that of the factor, after pickling, too."""
    X = np.random.default_rng(2).standard_normal((5000, 2))
    kernel = SquaredExponential(1.0, 0.8)
    few, many = (kdpp.select(kernel, X, M, "rpcholesky", 3) for M in (25, 60))
    whole = kdpp.rpcholesky(kernel, X, 60, 3)
    assert few.indices is not None
    assert many.indices is not None
    assert many.indices[:25].tolist() == few.indices.tolist()
    assert whole.indices.tolist() == many.indices.tolist()
    assert few.trace == pytest.approx(whole.traces[25], rel=1e-9)
    assert many.log_det == pytest.approx(whole.log_det, rel=1e-9)
    again = pickle.loads(pickle.dumps(many))
    assert again.trace == many.trace


@pytest.mark.parametrize("block", [3, 64])
def test_the_record_of_a_draw_is_that_of_dense_algebra(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(draws, "BLOCK", block)
    rng = np.random.default_rng(5)
    for kernel in (Matern(0.5, 2.0, 0.7), SquaredExponential(3.0, 2.0)):
        X = rng.standard_normal((80, 2))
        X[50:60] = X[:10]
        drawn = kdpp.rpcholesky(kernel, X, 30, rng)
        K, Z = kernel(X), drawn.indices
        assert len(np.unique(X[Z], axis=0)) == Z.size
        for t in (0, 1, 17, Z.size):
            left = K - K[:, Z[:t]] @ np.linalg.solve(K[np.ix_(Z[:t], Z[:t])], K[Z[:t]])
            assert drawn.traces[t] == pytest.approx(np.trace(left), rel=1e-8, abs=1e-9)
        assert np.abs(drawn.factor.T @ drawn.factor - K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z])).max() < 1e-9
        assert drawn.log_det == pytest.approx(np.linalg.slogdet(K[np.ix_(Z, Z)])[1], rel=1e-9)


def test_at_the_numerical_rank_it_ends_and_says_so() -> None:
    X = np.repeat(np.linspace(0.0, 1.0, 5), 4)
    drawn = kdpp.rpcholesky(Matern(0.5), X, 12, 0)
    assert drawn.indices.size == 5
    with pytest.raises(ValueError, match="expected at most 5 points, got 12"):
        drawn.require(12)
    assert kdpp.rpcholesky(Matern(0.5), X, 0, 0).traces.tolist() == [20.0]


@pytest.mark.broad
@pytest.mark.claim("R-lem3")
@pytest.mark.parametrize(
    ("N", "M", "noise", "count"), one_in(3, [(6, 3, 0.01, 1500), (5, 2, 3.0, 4000), (7, 5, 0.3, 4000)])
)
def test_weighted_draws_follow_the_tilted_law(observe: Observer, N: int, M: int, noise: float, count: int) -> None:
    """P(Z) ∝ |(K(K + σ²I))_ZZ|; the test distinguishes it from the k-DPP of K."""
    rng = np.random.default_rng(N)
    K = Matern(0.5, 1.0, 1.0)(rng.random(N))
    both = K @ (K + noise * np.eye(N))
    values, vectors = np.linalg.eigh(K)

    def law(A: np.ndarray) -> dict[tuple[int, ...], float]:
        minors = {Z: float(np.linalg.det(A[np.ix_(Z, Z)])) for Z in combinations(range(N), M)}
        return {Z: minor / sum(minors.values()) for Z, minor in minors.items()}

    weights = kdpp.tilted_eigenvalues(values, noise=noise)
    draws = [tuple(kdpp.sample_eigen(values, vectors, M, rng, weights=weights).tolist()) for _ in range(count)]
    observe.holds("R-lem3", p_value(counted(draws), law(both), count) > 1e-4, cases=count)
    if noise < 1.0:
        observe.fails("R-lem3", p_value(counted(draws), law(K), count) > 1e-6, "the law of K (power of the χ² test)")


def test_weights_that_do_not_fit_are_refused() -> None:
    values, vectors = np.array([2.0, 1.0, 0.0]), np.eye(3)
    with pytest.raises(ValueError, match=r"weights: expected shape \(3,\)"):
        kdpp.sample_eigen(values, vectors, 1, 0, weights=[1.0])
    with pytest.raises(ValueError, match="weights: expected numbers > 0 for the 2 eigenvalues"):
        kdpp.sample_eigen(values, vectors, 1, 0, weights=[1.0, 0.0, 1.0])


@pytest.mark.claim("N-unif", "N-rpc")
@settings(max_examples=100)
@given(st.integers(3, 6), st.integers(1, 3), seeds)
def test_the_bounds_of_exact_eigenvalues_are_rounded_upwards(observe: Observer, N: int, M: int, seed: int) -> None:
    """No tolerance: the eigenvalues are the doubles themselves.  A large variance leaves λ almost as it is."""
    rng = np.random.default_rng(seed)
    values = 10.0 ** rng.uniform(-3, 1, N)
    exact = [mp.mpf(float(value)) for value in values]
    for variance in (values.max(), 1e4):
        least = reference.uniform_residual(exact, M, mp.mpf(float(variance)))
        observe.upper("N-unif", least, kdpp.uniform_residual(values, M, variance=variance))
    observe.upper("N-rpc", reference.rpcholesky_residual(exact, M), kdpp.rpcholesky_residual(values, M))


@pytest.mark.claim("N-tilt")
@given(seeds, st.floats(1e-3, 10.0))
def test_tilted_eigenvalues_are_those_of_the_matrix_times_itself_with_noise(
    observe: Observer, seed: int, noise: float
) -> None:
    K = matrix("plain", 4, seed)
    values = [max(v, mp.mpf(0)) for v in mp.eigsy(K, eigvals_only=True)]
    truth = sorted(mp.eigsy(K * (K + mp.mpf(noise) * mp.eye(4)), eigvals_only=True))
    fast = kdpp.tilted_eigenvalues([float(v) for v in values], noise=noise)
    for value, exact in zip(sorted(fast), truth, strict=True):
        observe.equal("N-tilt", value, exact, rtol=1e-14, atol=mp.mpf(10) ** -30)
