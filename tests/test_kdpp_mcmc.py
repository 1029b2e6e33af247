"""Sampling from a kernel: distinct points, a tv that is proved or None, and error messages."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds import Empirical, Matern, SquaredExponential, kdpp, rate
from gpbounds.errors import NonFinite, NotConverged
from gpbounds.kdpp.sampling import Walk

KERNEL = SquaredExponential(lengthscale=0.2)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 25),
    st.sampled_from([Matern(0.5), Matern(1.5, lengthscale=0.1), Matern(0.5, variance=1e-200)]),
    st.sampled_from(["exact", "mcmc"]),
)
def test_a_sample_is_a_set_of_distinct_points_and_the_seed_decides(seed, N, kernel, method):
    X = np.random.default_rng(seed).random((N, 2))
    for M in {0, 1, N // 2, N}:
        drawn = kdpp.sample_kernel(kernel, X, M, seed, method)
        assert (np.diff(drawn.indices) > 0).all()
        assert drawn.indices.size == M
        assert M == 0 or 0 <= drawn.indices[0] <= drawn.indices[-1] < N
        assert drawn.tv is not None
        assert drawn.tv <= (0.0 if method == "exact" else 0.01)
        assert (kdpp.sample_kernel(kernel, X, M, np.random.default_rng(seed), method).indices == drawn.indices).all()


def test_the_walk_leaves_its_start():
    X = np.random.default_rng(0).random((200, 3))
    starts = {tuple(kdpp.sample_kernel(KERNEL, X, 10, seed, "mcmc", max_steps=0).indices) for seed in range(5)}
    drawn = {tuple(kdpp.sample_kernel(KERNEL, X, 10, seed, "mcmc").indices) for seed in range(5)}
    assert len(starts) == 1
    assert len(drawn) == 5
    assert not drawn & starts


def test_the_budget_decides_what_is_proved():
    X = np.random.default_rng(0).random((50, 3))
    free = kdpp.sample_kernel(KERNEL, X, 5, 0, "mcmc", tv=1e-3)
    enough = kdpp.sample_kernel(KERNEL, X, 5, 0, "mcmc", tv=1e-3, max_steps=free.steps)
    assert free.tv == enough.tv <= 1e-3
    assert (free.indices == enough.indices).all()
    less = kdpp.sample_kernel(KERNEL, X, 5, 0, "mcmc", tv=1e-3, max_steps=free.steps // 2)
    assert less.steps == free.steps // 2
    assert 1e-3 < less.tv < 1.0
    assert kdpp.sample_kernel(KERNEL, X, 5, 0, "mcmc", max_steps=3).tv is None


def test_the_theorems_refuse_a_law_of_which_nothing_is_proved():
    X = np.linspace(0.0, 1.0, 100)
    proved = kdpp.sample_kernel(KERNEL, X, 8, 0, "mcmc", tv=1e-4)
    nothing = kdpp.sample_kernel(KERNEL, X, 8, 0, "mcmc", max_steps=1)
    assert nothing.tv is None
    bounds = [rate(KERNEL, 100, 8, 0.1, inputs=Empirical(X), tv=tv).value for tv in (0.0, proved.tv)]
    assert bounds[0] < bounds[1] < np.inf
    with pytest.raises(ValueError, match=r"tv: expected numbers in \[0, 1\], got None"):
        rate(KERNEL, 100, 8, 0.1, inputs=Empirical(X), tv=nothing.tv)


@pytest.mark.parametrize("method", ["exact", "mcmc"])
def test_duplicates_are_never_drawn_together(method):
    rng = np.random.default_rng(8)
    X = np.repeat(rng.random((6, 2)), 5, axis=0)
    for _ in range(20):
        drawn = kdpp.sample_kernel(KERNEL, X, 6, rng, method)
        assert np.unique(X[drawn.indices], axis=0).shape[0] == 6
    with pytest.raises(ValueError, match="numerical rank"):
        kdpp.sample_kernel(KERNEL, X, 7, rng, method)


@pytest.mark.parametrize(("method", "N"), [("exact", 800), ("mcmc", 5000)])
def test_a_smooth_kernel_has_a_rank_far_below_two_hundred(method, N):
    X = np.linspace(0.0, 1.0, N)
    with pytest.raises(ValueError, match=r"numerical rank[\s\S]*the k-DPP of that size is undefined"):
        kdpp.sample_kernel(SquaredExponential(lengthscale=0.3), X, 200, 0, method)


def test_near_the_numerical_rank_the_walk_returns_the_law_or_nothing():
    X, kernel, messages = np.linspace(0.0, 1.0, 300), SquaredExponential(lengthscale=0.3), []
    for M in range(4, 20):
        try:
            drawn = kdpp.sample_kernel(kernel, X, M, 0, "mcmc")
        except (NotConverged, ValueError) as error:
            messages.append(str(error))
        else:
            assert not messages  # once a size raises an error, so does every larger size
            assert np.unique(drawn.indices).size == M
            assert drawn.rounding <= 1e-6 * drawn.steps
    assert "close to the numerical rank" in messages[0]
    assert "undefined" in messages[-1]


def test_near_the_numerical_rank_an_exact_sample_says_that_rounding_decides():
    X, kernel = np.linspace(0.0, 1.0, 300), SquaredExponential(lengthscale=0.3)
    values = np.linalg.eigvalsh(kernel(X))
    rank = int((values > 300 * np.finfo(float).eps * values[-1]).sum())
    rounding = [kdpp.sample_kernel(kernel, X, M, 0).rounding for M in range(1, rank + 1)]
    assert rounding[4] < 1e-8
    assert rounding[-1] > 0.5
    assert (np.diff(rounding)[np.array(rounding[:-1]) < 1.0] > 0).all()  # a total variation is at most 1


def test_five_thousand_points_in_eight_dimensions_by_the_walk():
    """The variances of each step are those of a new factorisation; the walk does not repeat a set."""
    X, kernel = np.random.default_rng(3).random((5000, 8)), SquaredExponential()
    drawn = kdpp.sample_kernel(kernel, X, 200, 0, "mcmc", max_steps=200)
    assert drawn.tv is None
    assert np.unique(drawn.indices).size == 200
    assert drawn.rounding < 1e-9
    walk = Walk(kernel, X, drawn.indices.copy())
    assert walk.residual.min() > -1e-12
    assert walk.residual.sum() < 0.5 * 5000


def test_a_sample_says_what_it_is():
    drawn = kdpp.sample_kernel(KERNEL, np.linspace(0, 1, 20), 3, 0)
    assert (drawn.method, drawn.tv, drawn.steps) == ("exact", 0.0, 0)
    assert 0.0 < drawn.rounding < 1e-9
    with pytest.raises(dataclasses.FrozenInstanceError):
        drawn.tv = 0.5


def test_what_rounding_may_add_grows_with_the_steps(monkeypatch):
    """rounding = steps · the largest drift, at most 1."""
    X, lengths = np.random.default_rng(0).random((30, 2)), []
    true = Walk.run

    def run(self, steps, rng):
        true(self, steps, rng)
        self.drift = drift
        lengths.append(steps)

    monkeypatch.setattr(Walk, "run", run)
    for drift in (1e-9, 1e-3, 0.9):
        drawn = kdpp.sample_kernel(KERNEL, X, 5, 0, "mcmc", tv=1e-3)
        assert drawn.steps == lengths[-1] > 10
        assert drawn.rounding == min(1.0, drawn.steps * drift)


X = np.linspace(0.0, 1.0, 20)
WRONG = [
    (lambda: kdpp.sample_kernel(KERNEL, X, 3, 0, "gibbs"), "method: expected one of 'exact', 'mcmc'"),
    (lambda: kdpp.sample_kernel(KERNEL, X, 21, 0), "at most N = 20"),
    (lambda: kdpp.sample_kernel(KERNEL, X, 21, 0, "mcmc"), "at most N = 20"),
    (lambda: kdpp.sample_kernel(KERNEL, X, -1, 0), "M: expected a whole number >= 0"),
    (lambda: kdpp.sample_kernel(KERNEL, X, 3, 0, "mcmc", tv=0.0), r"tv: expected a number in \(0, 1\), got 0.0"),
    (lambda: kdpp.sample_kernel(KERNEL, X, 3, 0, "mcmc", tv=1.0), r"tv: expected a number in \(0, 1\)"),
    (lambda: kdpp.sample_kernel(KERNEL, X, 3, 0, tv=np.nan), "tv: expected"),
    (lambda: kdpp.sample_kernel(KERNEL, X, 3, 0, "mcmc", tv=[0.1, 0.2]), r"one number in \(0, 1\), got shape \(2,\)"),
    (lambda: kdpp.sample_kernel(KERNEL, X, 3, 0, "mcmc", max_steps=-1), "max_steps: expected a whole number"),
    (lambda: kdpp.sample_kernel(KERNEL, np.ones((2, 2, 2)), 1, 0), r"shape \(N, D\)"),
    (lambda: kdpp.sample_kernel(SquaredExponential(lengthscale=[1.0, 2.0]), X, 1, 0), "2 dimension"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_arguments_say_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("method", ["exact", "mcmc"])
def test_inputs_that_are_not_finite(method):
    with pytest.raises(NonFinite, match=r"row\(s\) \[1\]"):
        kdpp.sample_kernel(KERNEL, [0.0, np.nan, 1.0], 1, 0, method)
