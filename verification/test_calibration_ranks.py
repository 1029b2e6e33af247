"""Ranges of shares of held-out targets, by ranks among sets drawn from the joint law: N-rank."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from scipy.stats import binom

from gpbounds import SquaredExponential
from gpbounds.audit import calibration
from gpbounds.audit.ranks import ranges
from gpbounds.reference import montecarlo as reference


@pytest.mark.claim("N-rank")
@given(
    seed=st.integers(0, 10**6),
    m=st.integers(1, 25),
    S=st.integers(1, 4),
    atoms=st.integers(1, 200),
    percent=st.integers(1, 60),
)
def test_at_most_the_promised_share_of_any_sets_is_outside(
    observe: Observer, seed: int, m: int, S: int, atoms: int, percent: int
) -> None:
    """Exactly, with ties or without: of any m + 1 sets, at most δ(m + 1) are outside the ranges by the others."""
    sets = np.random.default_rng(seed).integers(0, atoms, (m + 1, S)).astype(np.float64)
    delta, outside, small = Fraction(percent, 100), 0, 0
    for j in range(m + 1):
        others = np.delete(sets, j, axis=0)
        found = ranges(sets[j], others, delta=delta)
        beyond = bool(((sets[j] < found.low) | (sets[j] > found.high)).any())
        turned = [sets[j].tolist(), *others.tolist()]
        assert beyond == reference.is_outside(turned, delta)
        observe.equal("N-rank", found.p_value, float(reference.p_value(turned)), rtol=1e-15)
        outside, small = outside + beyond, small + (round(found.p_value * (m + 1)) <= delta * (m + 1))
    observe.holds("N-rank", outside <= delta * (m + 1))
    assert outside == small


@pytest.mark.claim("N-rank")
def test_all_of_the_level_is_spent_without_ties(observe: Observer) -> None:
    """One statistic, two sides, 39 sets at 5 %: exactly 2 of 40 are outside."""
    sets = np.arange(40.0)[:, None]
    found = [ranges(sets[j], np.delete(sets, j, axis=0), delta=Fraction(1, 20)) for j in range(40)]
    outside = sum(bool(each.low[0] > j or each.high[0] < j) for j, each in enumerate(found))
    observe.equal("N-rank", outside, 2)


def _held_out(rng: np.random.Generator, sets: int, held: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sets of targets (sets, n) of the model at held-out rows, their means, and the joint covariance beside 8 training
    rows: strongly dependent."""
    n, noise = held + 8, 0.01
    K = SquaredExponential(1.0, 0.2)(rng.uniform(0.0, 1.0, (n, 1)))
    Y = rng.standard_normal((sets, n)) @ np.linalg.cholesky(K + noise * np.eye(n)).T
    weights = np.linalg.solve(K[:8, :8] + noise * np.eye(8), K[:8, 8:])
    return Y[:, 8:], Y[:, :8] @ weights, K[8:, 8:] - K[8:, :8] @ weights + noise * np.eye(held)


def _flagged(y: np.ndarray, mean: np.ndarray, joint: np.ndarray, rng: np.random.Generator) -> bool:
    return calibration(y, mean, joint.diagonal(), covariance=joint, sets=199, rng=rng).plausible is False


@pytest.mark.claim("N-rank")
def test_a_right_model_of_dependent_targets_is_outside_in_at_most_a_twentieth(observe: Observer) -> None:
    rng, outside = np.random.default_rng(0), 0
    for _ in range(10):
        Y, means, joint = _held_out(rng, 15)
        outside += sum(_flagged(y, mean, joint, rng) for y, mean in zip(Y, means, strict=True))
    observe.frequency("N-rank", outside, 150, 0.05)


@pytest.mark.claim("N-rank")
def test_a_wrong_model_is_seen_and_so_are_targets_taken_for_independent(observe: Observer) -> None:
    """Overconfident by half in most runs; with the right variances alone, a right model far too often."""
    rng = np.random.default_rng(1)
    Y, means, joint = _held_out(rng, 40)
    wrong = sum(_flagged(y, mean, 0.25 * joint, rng) for y, mean in zip(Y, means, strict=True))
    alone = sum(_flagged(y, mean, np.diag(joint.diagonal()), rng) for y, mean in zip(Y, means, strict=True))
    observe.holds("N-rank", wrong >= 10, 40)
    assert binom.sf(alone - 1, 40, 0.05) < 1e-6  # so the frequency test above can fail
