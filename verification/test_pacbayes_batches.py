"""P-46: bounds from a mini-batch, drawn at random or in cyclic order."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from scipy.stats import binom, hypergeom

from gpbounds.pacbayes import batch_bound, batch_risk_bound, bound, kl_inverse
from gpbounds.reference import pacbayes as reference


@pytest.mark.claim("P-46")
def test_batches_drawn_at_random(observe: Observer) -> None:
    """Losses in {0, 1}: the exact probability of failure with and without replacement; others by simulation."""
    delta = 0.05
    for N, B in ((50, 10), (50, 50), (400, 60), (1000, 7)):
        counts = np.arange(B + 1)
        upper, lower = (
            np.asarray(batch_risk_bound(counts / B, B, delta=delta, side=s).value) for s in ("upper", "lower")
        )
        printed = [
            np.asarray(batch_risk_bound(counts / B, B, delta=delta, side=s, form="printed").value)
            for s in ("upper", "lower")
        ]
        one_sided = counts / B + np.sqrt(np.log(1 / delta) / (2 * B))
        observe.upper("P-46", upper, one_sided, tol=1e-15)
        for wrong in (1, N // 10, N // 2, N - 1):
            risk = wrong / N
            for law in (binom.pmf(counts, B, risk), hypergeom.pmf(counts, N, wrong, B)):
                observe.upper("P-46", law[upper < risk - 1e-12].sum(), delta)
                observe.upper("P-46", law[lower > risk + 1e-12].sum(), delta)
                observe.upper("P-46", law[(printed[0] < risk) | (printed[1] > risk)].sum(), delta)
    rng = np.random.default_rng(2)
    losses = np.sort(rng.beta(0.3, 1.5, 600))
    means = np.array([rng.choice(losses, 40, replace=False).mean() for _ in range(4000)])
    failed = int((np.asarray(batch_risk_bound(means, 40, delta=delta).value) < losses.mean()).sum())
    observe.frequency("P-46", failed, means.size, delta)


@pytest.mark.claim("P-46")
@given(seed=st.integers(0, 2**32 - 1))
def test_both_sides_of_both_forms_are_the_formulas(observe: Observer, seed: int) -> None:
    """kl⁻¹(R̂_B, ln(1/δ)/B) from above and from below, and R̂_B ± √(ln(2/δ)/(2B)), at 50 digits."""
    rng = np.random.default_rng(seed)
    risk, B, delta = float(rng.random()), int(10.0 ** rng.uniform(0, 5)), float(10.0 ** rng.uniform(-9, 0))
    half = mp.sqrt(mp.log(2 / mp.mpf(delta)) / (2 * B))
    for side, sign in (("upper", 1), ("lower", -1)):
        truth = reference.kl_inverse(risk, mp.log(1 / mp.mpf(delta)) / B, side)[0]
        proved = batch_risk_bound(risk, B, delta=delta, side=side)  # type: ignore[arg-type]
        steep = 1 + abs(mp.log(truth))  # the relative error of a lower bound e^−300 is 300 times that of its exponent
        observe.equal("P-46", mp.mpf(float(proved)), truth, rtol=1e-14 * steep, atol=1e-300)
        observe.equal("P-46", proved.confidence, 1.0 - delta)
        printed = batch_risk_bound(risk, B, delta=delta, side=side, form="printed")  # type: ignore[arg-type]
        observe.equal("P-46", mp.mpf(float(printed)), mp.mpf(risk) + sign * half, atol=1e-15 * (1 + half))


@pytest.mark.claim("P-46")
def test_batches_in_cyclic_order_fail(observe: Observer) -> None:
    """Sorted losses, 100 batches of 40 in order: the printed two-sided bound fails for far more than 5 % of them."""
    delta, B = 0.05, 40
    losses = np.sort(np.random.default_rng(2).beta(0.3, 1.5, 4000))
    means = losses.reshape(-1, B).mean(axis=1)
    radius = np.sqrt(np.log(2 / delta) / (2 * B))
    share = float((np.abs(means - losses.mean()) > radius).mean())
    observe.lower("P-46", share, 0.13)
    observe.fails("P-46", share <= delta, f"sorted losses in cyclic order: {share:.0%} of the batches violate δ' = .05")
    sharp = float((np.asarray(batch_risk_bound(means, B, delta=delta).value) < losses.mean()).mean())
    observe.fails("P-46", sharp <= delta, "the kl form fails in cyclic order, too: use random batches")


@pytest.mark.claim("P-46")
def test_batch_then_data(observe: Observer) -> None:
    """Both steps at once, Q = P, losses in {0, 1}: fails with probability ≤ δ + δ′ (simulated)."""
    rng = np.random.default_rng(4)
    N, B, delta, slip, p = 200, 30, 0.1, 0.1, 0.3
    wrong = rng.binomial(N, p, 5000)
    means = rng.hypergeometric(wrong, N - wrong, B) / B
    bounds = batch_bound(means, B, 0.0, N, delta=delta, batch_delta=slip)
    observe.equal("P-46", bounds.confidence, 0.8, rtol=1e-15)
    observe.frequency("P-46", int((bounds.value < p).sum()), means.size, delta + slip)
    inner = kl_inverse(means, np.log(1 / slip) / B)
    observe.equal("P-46", bounds.value, bound(inner, 0.0, N, delta=delta).value, rtol=1e-15)
