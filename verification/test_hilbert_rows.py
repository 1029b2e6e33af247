"""The bound on Hilbert-space GPs for any rows under attack, and the truths it is held against."""

from __future__ import annotations

import hilbert_rows
import mpmath as mp
import numpy as np
import pytest
from hilbert_truths import Approximation, divergences, enclosed
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.lowrank import HilbertFeatures
from gpbounds.reference import lowrank as reference
from gpbounds.reference.renyi import matrix


@pytest.mark.claim("N-hilbert-kl")
@pytest.mark.parametrize("seed", [19, pytest.param(10**6, marks=pytest.mark.slow)])
def test_sets_of_rows_stay_below_their_bounds(observe: Observer, seed: int) -> None:
    """Both directions; some set comes near its bound.  A million cases: `hilbert_rows.py`."""
    tally = hilbert_rows.run(50_000 if seed == 10**6 else 1500, seed)
    observe.holds("N-hilbert-kl", not tally.violations, tally.cases)
    observe.upper("N-hilbert-kl", tally.nearest, 1.0)
    assert tally.nearest > 0.2


@given(seed=st.integers(0, 2**32 - 1))
def test_truths_in_doubles_and_balls_agree_with_the_rows_written_out(seed: int) -> None:
    """Multiplicities against repeated rows at 40 digits; doubles within their own error of the ball."""
    rng = np.random.default_rng(seed)
    made = hilbert_rows.plan(rng)
    if made.model.rank > 60:
        return
    kind, N = str(rng.choice(hilbert_rows.KINDS)), int(rng.integers(1, 9))
    X, counts = hilbert_rows.points(kind, made.model, rng), hilbert_rows.multiplicities(kind, N, rng)
    balls = enclosed(made.model, X, counts, made.noise)
    computed = divergences(made.model, X[None], counts[None], made.noise)
    sides = ((computed.there, computed.error_there), (computed.back, computed.error_back))
    for ball, (value, error) in zip(balls, sides, strict=True):
        assert abs(float(ball) - value[0]) <= error[0]
        assert error[0] < 1e-3 * (1.0 + value[0]) or N / made.noise > 1e6
    full = np.repeat(X, counts.astype(int), axis=0)
    Xi = HilbertFeatures(made.kernel, made.model.m, made.model.c, half_width=made.model.half_width).fit(full)(full)
    with mp.workdps(40):
        K, Sigma = matrix(made.kernel(full)), matrix(Xi) * matrix(Xi).T
        truths = reference.kl(K, Sigma, mp.mpf(made.noise)), reference.kl(Sigma, K, mp.mpf(made.noise))
    condition = 1.0 + N * made.model.variance / made.noise
    for ball, truth in zip(balls, truths, strict=True):  # entries of K and of the features are doubles
        assert abs(float(ball) - float(truth)) <= 1e-12 * condition * (1.0 + float(truth)) * (1.0 + condition**0.5)


def test_a_bound_that_is_too_small_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attack sees violations of a fiftieth of the bound, so that it could see others."""
    monkeypatch.setattr(hilbert_rows, "FIRST", 16)
    monkeypatch.setattr(hilbert_rows, "GENERATIONS", 0)

    class Weakened(hilbert_rows.Plan):
        def bound(self) -> float:
            return 0.02 * super().bound()

    one = np.ones(1)
    weak = Weakened(Approximation(np.inf, 1.0, 0.3 * one, one, 1.5 * one, 9.0 * one), 1500, 0.1, "auto")
    tally = hilbert_rows.Tally()
    hilbert_rows.against(weak, np.random.default_rng(0), 0, tally)
    assert tally.violations
