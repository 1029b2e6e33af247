"""P-38: the risk of the mean prediction is at most twice the Gibbs risk."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from scipy.special import ndtr

from gpbounds import pacbayes
from gpbounds.pacbayes import bound

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.claim("P-38")
@given(seed=SEEDS, std=st.floats(1e-3, 1e3), half=st.floats(1e-2, 1e2))
def test_bayes_risk_is_at_most_twice_the_gibbs_risk(observe: Observer, seed: int, std: float, half: float) -> None:
    rng = np.random.default_rng(seed)
    just = np.nextafter(half, np.inf)
    d = np.concatenate([rng.normal(scale=2.0 * half, size=40), rng.normal(scale=std, size=40), [just]])
    gibbs = ndtr((d - half) / std) + ndtr(-(d + half) / std)  # E 1{|y − v| > ε} with y − m = d
    bayes = (np.abs(d) > half).astype(float)
    factor = float(pacbayes.bayes_factor(half, std))
    observe.holds("P-38", 1.0 <= factor <= 2.0)
    observe.upper("P-38", bayes, factor * gibbs, tol=1e-12)
    observe.equal("P-38", factor * gibbs[-1], 1.0, rtol=1e-9)  # |d| ↓ ε: equality
    observe.upper("P-38", bayes, pacbayes.bayes_risk_bound(np.clip(gibbs, 0.0, 1.0)).value, tol=1e-12)
    # Other quasi-convex losses under a symmetric law, on a grid of draws m ± u
    u = np.abs(rng.standard_t(2, size=200)) * std
    for loss in (lambda r: np.minimum((r / half) ** 2, 1.0), lambda r: -np.expm1(-((r / half) ** 2))):
        mean = 0.5 * (loss(d[:, None] - u) + loss(d[:, None] + u)).mean(axis=1)
        observe.upper("P-38", loss(d), 2.0 * mean, tol=1e-12)


@pytest.mark.claim("P-38")
def test_bayes_risk_needs_its_hypotheses(observe: Observer) -> None:
    values, weights, half = np.array([0.0, 10.0]), np.array([0.9, 0.1]), 0.5
    gibbs, bayes = float(weights @ (np.abs(values) > half)), float(abs(weights @ values) > half)
    observe.fails("P-38", bayes <= 2 * gibbs, "asymmetric law: v = 0 w.p. .9, 10 w.p. .1, y = 0: R = .1, R_Bayes = 1")
    wave = np.array([0.0, 1.0, 0.0])  # a loss that is not quasi-convex, at v = −1, 0, 1
    observe.fails("P-38", wave[1] <= 2 * (wave[0] + wave[2]) / 2, "loss 1 at 0 only, v = ±1: R = 0, R_Bayes = 1")
    sharp = [float(pacbayes.bayes_factor(0.6, s)) for s in (0.0, 0.1, 1.0, 10.0, 1e9)]
    observe.holds("P-38", sharp[0] == 2.0 and (np.diff(sharp) <= 0).all() and abs(sharp[-1] - 1) < 1e-8)
    proved = pacbayes.bayes_risk_bound(bound(0.1, 3.0, 400, delta=0.05, rigor="sharp"), epsilon=0.6, least_std=0.5)
    exact = mp.mpf(float(bound(0.1, 3.0, 400, delta=0.05, rigor="sharp"))) / (
        mp.mpf(3) / 2 - mp.ncdf(mp.mpf(0.6) * 2 / 0.5)
    )
    assert proved.certified
    observe.upper("P-38", exact, mp.mpf(float(proved)))
    observe.equal("P-38", float(proved), float(exact), rtol=1e-15)
