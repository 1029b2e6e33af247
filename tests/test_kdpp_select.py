"""``kdpp.select``: distinct points, exact stops, memory, and error messages."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import Matern, SquaredExponential, kdpp
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kdpp import draws
from gpbounds.kdpp.draws import matching_ridge

ROUGH = Matern(0.5, 2.0, 0.7)
RANDOM = ("uniform", "leverage", "kdpp", "kmeans", "rpcholesky")
ALL = ("greedy", *RANDOM)


def points(N: int, D: int = 2, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((N, D))


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 1, 7), (30, 3, 4), (30, 2, 29)])
def test_every_method_gives_distinct_points_and_the_seed_decides(method: str, shape: tuple[int, int, int]) -> None:
    N, D, M = shape
    X = points(N, D)
    chosen, again = (kdpp.select(ROUGH, X, M, method, 4) for _ in range(2))
    assert np.unique(chosen.Z, axis=0).shape == (M, D)
    assert (chosen.Z == again.Z).all()
    assert chosen.trace == again.trace
    residual = ROUGH(X) - ROUGH(X, chosen.Z) @ np.linalg.solve(ROUGH(chosen.Z), ROUGH(chosen.Z, X))
    assert chosen.trace == pytest.approx(np.trace(residual), rel=1e-9, abs=1e-10)
    assert chosen.log_det == pytest.approx(np.linalg.slogdet(ROUGH(chosen.Z))[1], rel=1e-9, abs=1e-9)
    if chosen.indices is not None:
        assert (X[chosen.indices] == chosen.Z).all()
    if M < N and method in RANDOM:
        other = [kdpp.select(ROUGH, X, M, method, seed).Z for seed in range(8)]
        assert any(not np.array_equal(Z, chosen.Z) for Z in other)


@pytest.mark.parametrize("rank", [None, 12])
def test_through_a_low_rank_factor_points_are_distinct_and_the_law_is_named(rank: int | None) -> None:
    X = points(60)
    for method in ("kdpp", "leverage"):
        chosen = kdpp.select(ROUGH, X, 6, method, 1, rank=rank)
        assert chosen.indices is not None
        assert np.unique(chosen.indices).size == 6
        assert ("r = 12" in chosen.law) == (rank is not None)
        assert chosen.trace == pytest.approx(kdpp.residual_trace(ROUGH(X), chosen.indices), rel=1e-10)


def test_large_data_go_through_a_low_rank_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "DENSE", 100)
    X = points(300, 1)
    smooth = SquaredExponential(lengthscale=1.0)
    chosen = kdpp.select(smooth, X, 6, "kdpp", 0)
    assert "rank-r" in chosen.law
    assert "r = 12" in chosen.law
    assert chosen.tv is not None
    assert 0 < chosen.tv < 1e-2  # with a smooth kernel 2M points leave a small trace
    assert "total variation" in str(chosen)
    rough = kdpp.select(ROUGH, X, 20, "kdpp", 0).tv
    assert rough is None or rough > 0.99  # with a rough kernel the trace is too large for a bound below 1
    assert "upper bounds from r uniform landmarks, r = 12" in kdpp.select(smooth, X, 6, "leverage", 0).law


@given(st.integers(0, 2**32 - 1), st.integers(2, 25))
def test_duplicates_are_never_chosen_together(seed: int, many: int) -> None:
    rng = np.random.default_rng(seed)
    X = points(6, 2, seed)[np.append(np.arange(6), rng.integers(0, 6, many))]
    X[X[:, 0] == X[0, 0], 0] = 0.0
    X[0, 0] = -0.0
    distinct = len(np.unique(X, axis=0))
    M = int(rng.integers(1, distinct + 1))
    for method in ALL:
        chosen = kdpp.select(ROUGH, X, M, method, seed)
        assert len(np.unique(chosen.Z, axis=0)) == M
        with pytest.raises(ValueError, match=f"at most {distinct} points, the number of distinct rows"):
            kdpp.select(ROUGH, X, distinct + 1, method, seed)
    full = kdpp.select(ROUGH, X, distinct, "uniform", seed)
    assert full.trace == 0.0


def test_leverage_prefers_what_nothing_else_explains() -> None:
    """Of 200 clustered points and 5 distant ones, leverage draws nearly always contain the 5, uniform draws rarely."""
    rng = np.random.default_rng(0)
    X = np.concatenate([0.01 * rng.standard_normal((200, 2)), 5.0 * np.eye(5)[:, :2] + np.arange(5)[:, None] * 4])
    kernel = SquaredExponential()
    by_leverage = [kdpp.select(kernel, X, 6, "leverage", seed, ridge=0.1).indices for seed in range(40)]
    uniform = [kdpp.select(kernel, X, 6, "uniform", seed, jitter="auto").indices for seed in range(40)]
    assert np.mean([(Z >= 200).sum() for Z in by_leverage]) > 3.5
    assert np.mean([(Z >= 200).sum() for Z in uniform]) < 1.0


def test_draws_without_replacement_follow_the_scores() -> None:
    """One point ∝ τ: the counts of 4000 draws within four standard deviations."""
    X = points(5, 1, 3)
    tau = kdpp.ridge_leverage(ROUGH, X, 0.5)
    rng = np.random.default_rng(0)
    groups = np.arange(5)
    first = [draws.leverage_order(ROUGH, X, 1, rng, groups, 0.5, None)[0][0] for _ in range(4000)]
    law = tau / tau.sum()
    counts = np.bincount(first, minlength=5)
    assert (np.abs(counts - 4000 * law) < 4 * np.sqrt(4000 * law)).all()


def test_the_ridge_left_out_makes_the_effective_dimension_M() -> None:
    X = points(40)
    chosen = kdpp.select(ROUGH, X, 7, "leverage", 0)
    assert chosen.ridge is not None
    assert kdpp.ridge_leverage(ROUGH, X, chosen.ridge).sum() == pytest.approx(7.0, rel=1e-9)
    assert kdpp.select(ROUGH, X, 7, "leverage", 0, ridge=0.3).ridge == 0.3
    assert matching_ridge([1.0, 1.0], 5) == pytest.approx(2 * np.finfo(float).eps)


def test_a_trace_asked_for_stops_at_the_first_point_that_reaches_it() -> None:
    X = points(80)
    for method in ("greedy", "rpcholesky", "uniform", "leverage"):
        ridge = 0.1 if method == "leverage" else None  # the default depends on M
        full = kdpp.select(ROUGH, X, 40, method, 2, ridge=ridge)
        assert full.traces is not None
        assert (np.diff(full.traces) < 0).all()
        for m in (0, 1, 13, 40):
            stopped = kdpp.select(ROUGH, X, 40, method, 2, trace=full.traces[m], ridge=ridge)
            assert stopped.M == m
            assert stopped.trace == full.traces[m]
            alone = kdpp.select(ROUGH, X, m, method, 2, ridge=ridge).log_det if m else 0.0
            assert stopped.log_det == pytest.approx(alone, rel=1e-9)
        missed = kdpp.select(ROUGH, X, 5, method, 2, trace=0.5 * full.traces[5], ridge=ridge)
        assert missed.M == 5
        assert not missed.reached
        assert "not the" in str(missed)


@pytest.mark.parametrize("method", ["kdpp", "kmeans"])
def test_sets_without_an_order_have_no_prefix_to_stop_at(method: str) -> None:
    with pytest.raises(ValueError, match="its points are chosen all at once"):
        kdpp.select(ROUGH, points(10), 3, method, 0, trace=1.0)
    assert kdpp.select(ROUGH, points(10), 3, method, 0).traces is None


def test_beyond_the_numerical_rank_greedy_says_how_many_there_are() -> None:
    X = np.linspace(0, 1, 400)
    smooth = SquaredExponential(lengthscale=1.0)
    with pytest.raises(ValueError, match=r"expected at most (\d+) points, got 60: given \1 points"):
        kdpp.select(smooth, X, 60)
    with pytest.raises(ValueError, match="expected at most"):
        kdpp.greedy(smooth(X), 60)
    chosen = kdpp.select(smooth, X, 60, trace=0.0)  # with a trace: as many points as the numerical rank allows
    assert 5 < chosen.M < 60
    assert not chosen.reached
    assert (kdpp.greedy(smooth(X), chosen.M) == chosen.indices).all()
    with pytest.raises(ValueError, match="numerical rank"):
        kdpp.select(smooth, X, 60, "kdpp", 0)
    with pytest.raises(NotPositiveDefinite, match="jitter='auto'"):
        kdpp.select(smooth, X, 60, "uniform", 0, jitter=0.0)
    eased = kdpp.select(smooth, X, 60, "uniform", 0)
    assert eased.jitter > 0
    assert eased.trace < 1e-6
    assert "Jitter" in str(eased)


@pytest.mark.parametrize("N", [50, 3000])
def test_greedy_of_a_kernel_is_greedy_of_its_matrix(N: int) -> None:
    X = points(N, 3)
    chosen = kdpp.select(ROUGH, X, 40)
    assert (chosen.indices == kdpp.greedy(ROUGH(X), 40)).all()
    assert (kdpp.select(ROUGH, X, 33).indices == chosen.indices[:33]).all()
    assert (kdpp.select(ROUGH, X.astype(np.float32), 5).indices == kdpp.select(ROUGH, X, 5).indices).all()


def test_ties_go_to_the_least_index_whatever_the_blocks() -> None:
    far = 1e3 * np.arange(5000.0)
    assert (kdpp.select(SquaredExponential(), far, 100).indices == np.arange(100)).all()
    assert (kdpp.select(SquaredExponential(), np.r_[far[:1], far], 100).indices == np.r_[0, np.arange(2, 101)]).all()


def test_memory_is_that_of_the_factor() -> None:
    """Memory is N M doubles and little more: no N × N array, no second factor."""
    N, M = 40_000, 64
    X = points(N)
    for method, most in (("greedy", 1.8), ("rpcholesky", 1.8), ("uniform", 0.8), ("leverage", 0.8)):
        tracemalloc.start()
        kdpp.select(ROUGH, X, M, method, 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most * 8 * N * M


def test_memory_grows_with_the_points_that_a_trace_needs_not_with_M() -> None:
    X = points(20_000)
    tracemalloc.start()
    chosen = kdpp.select(SquaredExponential(), X, 20_000, trace=2000.0)  # all M points would take 3.2 GB
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert chosen.reached
    assert peak < 8 * 20_000 * 600
    many = kdpp.select(ROUGH, X[:1000], 1000, trace=60.0)  # more than the first 256
    assert 256 < many.M < 1000
    assert (kdpp.select(ROUGH, X[:1000], many.M).indices == many.indices).all()


def test_k_means_in_mini_batches_reaches_less_residual_than_random_points() -> None:
    X = points(10_500)
    centres = kdpp.select(ROUGH, X, 12, "kmeans", 0)
    assert centres.indices is None
    assert "mini-batch" in centres.law
    assert centres.trace < kdpp.select(ROUGH, X, 12, "uniform", 0).trace


def test_printed_it_says_what_it_is() -> None:
    text = str(kdpp.select(ROUGH, points(20), 3, "kdpp", 0))
    assert "3 inducing points, kdpp: Tr(K - Q) = " in text
    assert "Law: k-DPP of K." in text
    assert "total variation" not in text


X = points(10)
WRONG = [
    (lambda: kdpp.select(ROUGH, X, 3, "random"), "expected one of 'greedy', 'kdpp'"),
    (lambda: kdpp.select(ROUGH, X, 0), "M: expected a whole number >= 1"),
    (lambda: kdpp.select(ROUGH, X, 2.5), "M: expected a whole number"),
    (lambda: kdpp.select(ROUGH, X, 11), "at most 10 points, the number of distinct rows of X, got 11"),
    (lambda: kdpp.select(ROUGH, X, 3, "uniform"), "rng: expected a numpy.random.Generator or a seed"),
    (lambda: kdpp.select(ROUGH, X, 3, trace=-1.0), "trace: expected a finite number >= 0"),
    (lambda: kdpp.select(ROUGH, X, 3, trace=[1.0, 2.0]), "trace: expected one number"),
    (lambda: kdpp.select(ROUGH, X, 3, ridge=0.1), "ridge: expected only with method 'leverage', got 'greedy'"),
    (lambda: kdpp.select(ROUGH, X, 3, "leverage", 0, ridge=0.0), "ridge: expected a positive finite number"),
    (lambda: kdpp.select(ROUGH, X, 3, "leverage", 0, ridge=[0.1]), "ridge: expected one number"),
    (
        lambda: kdpp.select(ROUGH, X, 3, "uniform", 0, rank=5),
        "rank: expected only with method 'kdpp', 'best' or",
    ),
    (lambda: kdpp.select(ROUGH, X, 3, "kdpp", 0, rank=2), "rank: expected a whole number >= 3"),
    (lambda: kdpp.select(ROUGH, X, 3, jitter=1e-6), "jitter: expected 0"),
    (lambda: kdpp.select(ROUGH, np.ones((2, 2, 2)), 1), "X: expected shape"),
    (lambda: kdpp.ridge_leverage(ROUGH, X, -1.0), "ridge: expected a positive"),
    (lambda: kdpp.ridge_leverage(ROUGH, X, 1.0, [0, 0]), "distinct numbers"),
    (lambda: kdpp.ridge_leverage(ROUGH, X, 1.0, [10]), "expected numbers in 0 ... 9"),
    (lambda: kdpp.nystrom_tv([1.0], [0.1, 0.2], 1), "trace: expected one number"),
    (lambda: matching_ridge([0.0], 1), "some > 0"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_arguments_say_what_was_expected(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_data_that_are_not_finite_are_named() -> None:
    with pytest.raises(NonFinite, match=r"row\(s\) \[1\]"):
        kdpp.select(ROUGH, [[0.0], [np.nan]], 1)


def test_the_distance_of_a_nystrom_k_dpp_at_its_ends() -> None:
    assert float(kdpp.nystrom_tv([2.0, 1.0], 0.0, 2)) == 0.0
    assert float(kdpp.nystrom_tv([2.0, 1.0, 0.0], 0.1, 3)) == 1.0  # the approximation has no k-DPP of size 3
    assert float(kdpp.nystrom_tv([1.0] * 9, 1e300, 9)) == 1.0
    assert float(kdpp.nystrom_tv([1e-300], 1e-310, 1)) == pytest.approx(1e-10, rel=1e-6)
    values = [float(kdpp.nystrom_tv(0.5 ** np.arange(20), T, 4)) for T in np.geomspace(1e-12, 1e3, 30)]
    assert (np.diff(values) > 0).all()
