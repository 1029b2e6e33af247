"""Selection against its definition: dense algebra at 50 digits, full enumeration, a bound on the optimum."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from thinning import one_in

from gpbounds import Matern, SquaredExponential, kdpp
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kdpp.draws import matching_ridge
from gpbounds.kernels import Kernel
from gpbounds.linalg import pivoted as engine
from gpbounds.reference import kdpp as reference

seeds = st.integers(0, 2**32 - 1)
KINDS = ("scattered", "grid", "duplicates", "clustered", "tiny variance", "two scales")


def instance(kind: str, N: int, seed: int) -> tuple[Kernel, np.ndarray]:
    """A kernel and N points in one to three dimensions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, int(rng.integers(1, 4))))
    kernel: Kernel = Matern(float(rng.choice([0.5, 1.5])), 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-0.7, 0.3))
    if kind == "grid":
        X = np.arange(float(N))
        kernel = SquaredExponential(lengthscale=rng.uniform(0.3, 1.0))
    elif kind == "duplicates":
        X = X[rng.integers(0, max(1, N // 2), N)]
    elif kind == "clustered":
        X[: N // 2] = X[0] + 1e-3 * rng.standard_normal(X[: N // 2].shape)
    elif kind == "tiny variance":
        kernel = Matern(0.5, 1e-300, 0.3)
    elif kind == "two scales":
        kernel = kernel + Matern(0.5, 1e-3, 0.01)
    return kernel, X if X.ndim == 2 else X[:, None]


def distinct(X: np.ndarray) -> int:
    return len(np.unique(X, axis=0))


def exact(kernel: Kernel, X: np.ndarray) -> mp.matrix:
    """The float64 kernel matrix as exact numbers."""
    return mp.matrix(kernel(X).tolist())


def variances(K: mp.matrix, Z: Any) -> list[Any]:
    """The diagonal of K − Q, at 50 digits."""
    left = reference.residual(K, [int(i) for i in Z])
    return [left[i, i] for i in range(K.rows)]


@pytest.mark.claim("N-low")
@given(st.sampled_from(KINDS), st.integers(1, 12), seeds)
def test_greedy_is_the_brute_force_choice(observe: Observer, kind: str, N: int, seed: int) -> None:
    """Each point has the largest variance given those before it; trace and log-determinant agree with dense algebra.

    The trace of every choice of M points is at least Σ_{m>M} λ_m (Weyl: λ_i(K − Q) ≥ λ_{M+i}(K)).
    """
    kernel, X = instance(kind, N, seed)
    M = int(np.random.default_rng(seed).integers(1, distinct(X) + 1))
    K, scale = exact(kernel, X), kernel.max_variance
    chosen = kdpp.select(kernel, X, M)
    assert chosen.indices is not None
    for t in range(M):
        left = variances(K, chosen.indices[:t])
        best = max(left)
        assert best - left[chosen.indices[t]] <= mp.mpf(1e-11) * scale
        first = min(i for i in range(N) if best - left[i] <= mp.mpf(1e-11) * scale)
        if sum(1 for v in left if best - v <= mp.mpf(1e-11) * scale) == 1:
            assert chosen.indices[t] == first
    left = variances(K, chosen.indices)
    values = sorted(mp.eigsy(K, eigvals_only=True), reverse=True)
    rest = mp.fsum(v for v in values[M:] if v > 1e-30 * scale)
    observe.lower("N-low", mp.fsum(left), rest, tol=1e-30 * scale)
    assert abs(chosen.trace - mp.fsum(left)) <= 1e-11 * N * scale
    log_det = mp.log(reference.minor(K, chosen.indices.tolist()))
    assert abs(chosen.log_det - log_det) <= 1e-8 * max(1, abs(log_det))


@given(st.sampled_from(KINDS), st.integers(20, 200), seeds, st.sampled_from([1, 3, 8]), st.sampled_from([1, 2, 5, 32]))
def test_blocks_choose_as_one_at_a_time_does(kind: str, N: int, seed: int, size: int, block: int) -> None:
    """Few candidates and short blocks give the same order, variances and traces as no blocks."""
    kernel, X = instance(kind, N, seed)
    M = int(np.random.default_rng(seed).integers(1, distinct(X) + 1))
    K = kernel(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "CANDIDATES", size)
        patch.setattr(engine, "BLOCK", block)
        patch.setattr(engine, "CHUNK", 7)
        chosen = kdpp.select(kernel, X, M)
    assert chosen.indices is not None
    left, rows = K.diagonal().copy(), np.empty((0, N))
    for t, i in enumerate(chosen.indices):
        scale = K.diagonal().max()
        assert left[i] >= left.max() - 1e-11 * scale
        assert (left[:i] < left[i] + 1e-11 * scale).all()
        assert chosen.traces is not None
        assert chosen.traces[t] == pytest.approx(left.sum(), rel=1e-10, abs=1e-11 * N * scale)
        row = (K[i] - rows[:, i] @ rows) / np.sqrt(left[i])
        rows = np.vstack([rows, row])
        left = np.maximum(left - row**2, 0.0)
        left[(X == X[i]).all(axis=1)] = 0.0


@given(st.sampled_from(KINDS), st.integers(3, 60), seeds)
def test_the_first_of_many_are_the_few_and_a_trace_stops_at_the_least_prefix(kind: str, N: int, seed: int) -> None:
    kernel, X = instance(kind, N, seed)
    rng = np.random.default_rng(seed)
    most = min(kdpp.select(kernel, X, distinct(X), trace=0.0).M, 20)
    M = int(rng.integers(1, most + 1))
    for method in ("greedy", "rpcholesky", "uniform", "leverage"):
        many = kdpp.select(kernel, X, most, method, seed, ridge=0.1 if method == "leverage" else None)
        few = kdpp.select(kernel, X, M, method, seed, ridge=0.1 if method == "leverage" else None)
        assert many.indices is not None
        assert few.indices is not None
        assert many.traces is not None
        assert (few.indices == many.indices[:M]).all()
        assert few.trace == pytest.approx(many.traces[M], rel=1e-9, abs=1e-12 * N * kernel.max_variance)
        goal = float(rng.uniform(0, 1.1)) * many.traces[0]
        stopped = kdpp.select(kernel, X, most, method, seed, trace=goal, ridge=0.1 if method == "leverage" else None)
        m = stopped.M
        assert stopped.indices is not None
        assert (stopped.indices == many.indices[:m]).all()
        assert stopped.trace == many.traces[m]
        assert stopped.reached == (many.traces[most] <= goal)
        assert m == (np.argmax(many.traces <= goal) if stopped.reached else most)


@pytest.mark.claim("R-lem3", "N-low")
@pytest.mark.parametrize("kernel", [SquaredExponential(lengthscale=0.5), Matern(1.5, 2.0, 0.7)], ids=["SE", "Matern"])
def test_traces_of_k_dpp_choices_have_the_exact_mean(observe: Observer, kernel: Kernel) -> None:
    """Mean of Tr(K − Q) = (M+1)e_{M+1}/e_M; greedy and every draw stay above the optimum."""
    rng, M, draws = np.random.default_rng(11), 6, 150
    X = rng.standard_normal(40)
    values = np.linalg.eigvalsh(kernel(X)).clip(0)
    drawn = np.array([kdpp.select(kernel, X, M, "kdpp", rng).trace for _ in range(draws)])
    mean = kdpp.expected_trace(values, M)
    error = drawn.std(ddof=1) / np.sqrt(draws)
    observe.holds("R-lem3", abs(drawn.mean() - mean) < 4.5 * error, draws)
    observe.lower("N-low", [*drawn, kdpp.select(kernel, X, M).trace], np.sort(values)[: 40 - M].sum(), tol=1e-12)
    uniform = [kdpp.select(kernel, X, M, "uniform", rng).trace for _ in range(draws)]
    assert np.mean(uniform) > mean + 6 * error  # the check distinguishes laws


def total_variation(P: dict[Any, Any], other: dict[Any, Any]) -> Any:
    return mp.fsum(abs(P[Z] - other[Z]) for Z in P) / 2


@pytest.mark.claim("N-tv")
@given(st.sampled_from(["scattered", "clustered", "two scales", "tiny variance"]), st.integers(3, 7), seeds)
def test_the_k_dpp_of_a_nystrom_approximation_is_as_near_as_proved(
    observe: Observer, kind: str, N: int, seed: int
) -> None:
    """TV ≤ 1 − e_M(K̃)/e_M(K) ≤ 1 − 1/Σ_j e_{M−j}(K̃)/e_M(K̃)·T^j/j!, both laws enumerated at 50 digits."""
    kernel, X = instance(kind, N, seed)
    rng = np.random.default_rng(seed)
    r = int(rng.integers(2, N))
    M = int(rng.integers(1, r + 1))
    K = exact(kernel, X)
    left = reference.residual(K, kdpp.greedy(kernel(X), r).tolist())
    low = K - left
    T = mp.fsum(left[i, i] for i in range(N))
    values = [v if v > 1e-40 * kernel.max_variance else mp.mpf(0) for v in mp.eigsy(low, eigvals_only=True)]
    truth = total_variation(reference.law(K, M), reference.law(low, M))
    first = 1 - reference.esp(values, M)[M] / reference.esp(list(mp.eigsy(K, eigvals_only=True)), M)[M]
    e = reference.esp(values, M)
    second = 1 - 1 / mp.fsum(e[M - j] / e[M] * T**j / mp.factorial(j) for j in range(M + 1))
    observe.upper("N-tv", truth, first, tol=1e-25)
    observe.upper("N-tv", first, second, tol=1e-25)
    fast = float(kdpp.nystrom_tv([float(v) for v in values], float(T), M))
    observe.equal("N-tv", fast, second, rtol=1e-10)


@pytest.mark.claim("N-tv")
@given(st.integers(4, 9), seeds)
def test_eigenvalues_that_are_rounding_prove_no_total_variation(observe: Observer, N: int, seed: int) -> None:
    """``tv`` is N-tv with each eigenvalue of the factor lowered by r·eps·λ_max, hence not below N-tv at the exact ones.

    Smooth kernels, ranks up to the numerical one, at 50 digits.
    """
    rng = np.random.default_rng(seed)
    X, kernel = np.sort(rng.random((N, 1)), axis=0), SquaredExponential(lengthscale=float(rng.uniform(0.3, 3.0)))
    most = kdpp.select(kernel, X, N, trace=0.0).M
    for rank in range(1, most + 1):
        nystrom = engine.pivoted(lambda i, columns: kernel(X[i], X[columns]), kernel.diag(X), rank)
        V, T = mp.matrix(nystrom.factor.tolist()), mp.mpf(float(nystrom.traces[-1]))
        values = [max(v, mp.mpf(0)) for v in mp.eigsy(V * V.T, eigvals_only=True)]
        rounding = rank * mp.mpf(2) ** -52 * max(values)
        for M in {1, rank // 2 or 1, rank}:
            exactly, lowered = (
                nystrom_tv([max(v - less, mp.mpf(0)) for v in values], T, M) for less in (mp.mpf(0), rounding)
            )
            tv = kdpp.select(kernel, X, M, "kdpp", rng, rank=rank).tv
            observe.upper("N-tv", exactly, 1.0 if tv is None else tv, tol=1e-13)  # the formula is rounded to nearest
            observe.equal("N-tv", 1.0 if tv is None else tv, lowered, rtol=1e-10, atol=1e-12 * float(lowered < 1))


def nystrom_tv(values: list[Any], T: Any, M: int) -> Any:
    """1 − 1/Σ_j e_{M−j}/e_M·T^j/j!, 1 where fewer than M eigenvalues are left, 0 for T = 0."""
    e = reference.esp(values, M)
    if T == 0 or e[M] == 0:
        return mp.mpf(e[M] == 0)
    return 1 - 1 / mp.fsum(e[M - j] / e[M] * T**j / mp.factorial(j) for j in range(M + 1))


@pytest.mark.broad
@pytest.mark.claim("N-tv")
@pytest.mark.parametrize("rank", one_in(2, [3, 5]))
def test_choices_through_a_low_rank_factor_follow_the_law_they_name(observe: Observer, rank: int) -> None:
    """The empirical law over all subsets is within the proved ``tv`` of the k-DPP of K, up to the noise of counting."""
    X = np.random.default_rng(3).standard_normal((7, 2))
    kernel, M, draws = SquaredExponential(lengthscale=2.0), 2, 400
    rng = np.random.default_rng(0)
    draws_of_points = [kdpp.select(kernel, X, M, "kdpp", rng, rank=rank) for _ in range(draws)]
    assert draws_of_points[0].tv is not None
    assert draws_of_points[0].tv < 1
    assert f"r = {rank}" in draws_of_points[0].law
    law = {Z: float(p) for Z, p in reference.law(exact(kernel, X), M).items()}
    frequencies = dict.fromkeys(combinations(range(7), M), 0.0)
    for choice in draws_of_points:
        assert choice.indices is not None
        frequencies[tuple(choice.indices.tolist())] += 1 / draws
    noise = 0.5 * sum(np.sqrt(p / draws) for p in law.values())  # an upper bound on the mean distance of the counts
    observe.holds(
        "N-tv", total_variation(law, frequencies) <= draws_of_points[0].tv + noise + 3 / np.sqrt(draws), draws
    )


@pytest.mark.claim("N-lev")
@given(st.sampled_from(KINDS), st.integers(2, 9), seeds, st.floats(-4, 2))
def test_leverage_scores_sum_to_the_effective_dimension_and_landmarks_bound_them(
    observe: Observer, kind: str, N: int, seed: int, log_ridge: float
) -> None:
    """τ = diag K(K + ρI)⁻¹, Στ = Σ λ/(λ + ρ); from landmarks τ_i ≤ τ̂_i ≤ 1, an equality for all rows."""
    kernel, X = instance(kind, N, seed)
    ridge = 10.0**log_ridge * kernel.max_variance
    K = exact(kernel, X)
    dense = K * mp.inverse(K + mp.mpf(ridge) * mp.eye(N))
    tau = kdpp.ridge_leverage(kernel, X, ridge)
    dimension = mp.fsum(v / (v + mp.mpf(ridge)) for v in mp.eigsy(K, eigvals_only=True))
    observe.equal("N-lev", tau, np.array([float(dense[i, i]) for i in range(N)]), atol=1e-10)
    observe.equal("N-lev", tau.sum(), float(dimension), atol=1e-10 * N)
    landmarks = np.random.default_rng(seed).choice(N, int(np.random.default_rng(seed).integers(0, N)), replace=False)
    bounds = kdpp.ridge_leverage(kernel, X, ridge, landmarks)
    observe.upper("N-lev", tau, bounds, tol=1e-10)
    observe.upper("N-lev", bounds, np.ones(N))
    assert kdpp.ridge_leverage(kernel, X, ridge, np.arange(N)) == pytest.approx(tau, rel=1e-9, abs=1e-10)
    values = np.linalg.eigvalsh(kernel(X)).clip(0)
    rank = int((values > 1e-9 * values.max()).sum())
    size = np.random.default_rng(seed).uniform(0.1, 0.9) * rank
    rho = matching_ridge(values, size)
    assert (values / (values + rho)).sum() == pytest.approx(size, rel=1e-9)
    # N·eps·λ_max if the effective dimension is below M even there
    short = np.r_[values.max(), np.zeros(N - 1)]
    observe.equal("N-lev", matching_ridge(short, 1.5), N * np.finfo(float).eps * values.max(), rtol=1e-15)


class Exponentials(np.random.Generator):
    """A generator that records its exponential numbers."""

    def standard_exponential(self, *args: Any, **kwargs: Any) -> Any:
        self.drawn = super().standard_exponential(*args, **kwargs)
        return self.drawn


@pytest.mark.claim("N-lev")
@given(st.integers(3, 30), seeds, st.booleans())
def test_leverage_draws_with_the_scores_themselves(observe: Observer, N: int, seed: int, landmarks: bool) -> None:
    """The order is that of Exp(1)/τ_i, whose first is i with probability τ_i/Στ, and so on; no draws."""
    kernel, X = Matern(0.5, 1.0, 0.5), np.random.default_rng(seed).standard_normal((N, 2))
    rng, ridge = Exponentials(np.random.PCG64(seed)), 0.3
    chosen = kdpp.select(kernel, X, N, "leverage", rng, ridge=ridge, rank=N if landmarks else None)
    tau = kdpp.ridge_leverage(kernel, X, ridge)
    assert chosen.indices is not None
    keys = rng.drawn[chosen.indices] / tau[chosen.indices]
    observe.holds("N-lev", (np.diff(keys) > -1e-9 * keys[:-1]).all(), N)


@pytest.mark.claim("N-lev")
@given(st.sampled_from(["grid", "clustered", "duplicates"]), st.integers(2, 20), seeds, st.floats(-17, -12))
def test_cancellation_leaves_every_score_above_what_it_must_be(
    observe: Observer, kind: str, N: int, seed: int, log_ridge: float
) -> None:
    """At a ridge of 1e-15 the difference over ρ is rounding error: the result is at least k_ii/(Tr K + ρ) ≤ τ_i."""
    kernel, X = instance(kind, N, seed)
    ridge = 10.0**log_ridge * kernel.max_variance
    try:
        bounds = kdpp.ridge_leverage(kernel, X, ridge, np.arange(N))
    except NotPositiveDefinite:  # K_SS + ρI does not factorise: there is no value to check
        return
    diagonal = kernel.diag(X)
    observe.lower("N-lev", bounds, diagonal / (diagonal.sum() + ridge) * (1 - 1e-14))
    observe.upper("N-lev", bounds, np.ones(N))


@given(st.sampled_from(KINDS), st.integers(4, 40), seeds, st.sampled_from(["uniform", "leverage", "kmeans", "kdpp"]))
def test_what_is_reached_is_what_dense_algebra_says(kind: str, N: int, seed: int, method: str) -> None:
    """T and log|K_ZZ| of every method from K, with jitter where it was needed; any chunking."""
    kernel, X = instance(kind, N, seed)
    M = min(distinct(X), 6)
    chosen = kdpp.select(kernel, X, M, method, seed, jitter="auto", **({"ridge": 0.1} if method == "leverage" else {}))
    if chosen.indices is not None:
        assert (X[chosen.indices] == chosen.Z).all()
        assert distinct(chosen.Z) == M
    KZZ = exact(kernel, chosen.Z) + mp.mpf(chosen.jitter) * mp.eye(M)
    cross = mp.matrix(kernel(X, chosen.Z).tolist())
    diagonal = kernel.diag(X)
    inverse = mp.inverse(KZZ)
    T = mp.fsum(diagonal[i] - (cross[i, :] * inverse * cross[i, :].T)[0] for i in range(N))
    assert abs(chosen.trace - T) <= 1e-7 * N * kernel.max_variance
    assert abs(chosen.log_det - mp.log(mp.det(KZZ))) <= 1e-6 * max(1, abs(chosen.log_det))
