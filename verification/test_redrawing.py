"""``select(method="best", draws="certain")``: how often one draw is above the level, how many draws are made, and the
divergence that is proved, against every subset and against 50 digits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from draw_instances import Remembering
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer

from gpbounds import Empirical, Matern, SquaredExponential, kdpp, rate
from gpbounds.kdpp import best as several_draws
from gpbounds.kdpp.best import DrawsProblem, redraw
from gpbounds.kernels import Kernel
from gpbounds.rates.draws.given import REDRAW
from gpbounds.reference import renyi as reference
from gpbounds.renyi.attained import evidence_attained

TIMES = 500


def claim_of(law: str) -> str:
    return "N-tilt-given" if "tilted" in law else "N-given"


def probabilities(problem: DrawsProblem, law: str, Z: np.ndarray) -> np.ndarray:
    """P(Z) of the law for every subset."""
    K = problem.kernel(problem.X)
    A = K @ K + problem.noise * K if "tilted" in law else K
    weights = np.maximum(np.linalg.det(A[Z[:, :, None], Z[:, None, :]]), 0.0)
    return weights / weights.sum()


@pytest.mark.claim("N-given", "N-tilt-given")
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(3, 8), alpha=st.sampled_from([1.0, 0.7, 0.2]))
def test_one_draw_is_above_the_level_as_rarely_as_promised(observe: Observer, seed: int, N: int, alpha: float) -> None:
    """P(D_α > level) ≤ 0.8 over all subsets; the points that are kept have D_α ≤ the bound ≤ the level."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 2))
    kernel: Kernel = Matern(0.5, 1.0, rng.uniform(0.3, 3.0)) if seed % 2 else SquaredExponential(2.0, 1.0)
    Y = rng.standard_normal((N, 1 + seed % 3 // 2)) * 10.0 ** rng.uniform(-1.0, 1.0)
    noise, M = 10.0 ** rng.uniform(-2.0, 0.5), int(rng.integers(1, N))
    problem = DrawsProblem(kernel, X, np.arange(N), M, Y, noise, alpha, 1, REDRAW)
    source = several_draws.dense_source(problem)
    level, truth = float(source.before), evidence_attained(kernel, X, Y, noise=noise).value
    Z = np.array(list(combinations(range(N), M)))
    reached = [problem.without_jitter(X[rows], alpha) for rows in Z]
    D = np.array([np.inf if each is None else truth - each.value for each in reached])
    rounding = 1e-8 * (1.0 + abs(truth))
    above = float(probabilities(problem, source.law, Z)[D > level + rounding].sum())
    observe.upper(claim_of(source.law), above, REDRAW, tol=1e-8)
    kept, made = redraw(problem, source, rng, 0.0)
    assert kept.bound is not None
    observe.upper(claim_of(source.law), truth - kept.reached.value, float(kept.bound), tol=rounding)
    assert float(kept.bound) <= level
    assert kept.bound.confidence == 1.0
    assert kept.bound.terms["draws"] == made >= 1


@pytest.mark.claim("N-given")
def test_five_draws_are_enough_on_average(observe: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One point is drawn, and D is large unless it lies in the cluster of four: four of 19 draws are accepted."""
    monkeypatch.setattr(several_draws, "_pivoted", lambda problem, rng: [])
    x = np.append(0.02 * np.arange(4.0), 100.0 * np.arange(1.0, 16.0))[:, None]
    problem = Remembering(SquaredExponential(), x, np.arange(19), 1, np.repeat([50.0, 0.0], [4, 15])[:, None], 100.0, 0.5, 1, REDRAW)  # fmt: skip  # noqa: E501
    source = several_draws.dense_source(problem)
    assert "tilted" not in source.law
    source = replace(source, draw=lambda rng: rng.integers(19, size=1))  # the k-DPP of one point with equal variances
    results = [redraw(problem, source, np.random.default_rng(seed), 0.0) for seed in range(TIMES)]
    numbers = np.array([made for _, made in results])
    spread = np.sqrt(15.0 / 19.0) * 19.0 / 4.0 / np.sqrt(TIMES)
    assert numbers.mean() == pytest.approx(19.0 / 4.0, abs=4.0 * spread)  # 4.75: the promise of 5 is not idle
    promised = results[0][0].bound.terms["expected_draws"]
    assert promised == pytest.approx(5.0)
    observe.upper("N-given", float(numbers.mean()), promised)
    for k in (1, 3, 10):
        observe.frequency("N-given", int((numbers > k).sum()), TIMES, REDRAW**k)
    again = redraw(problem, source, np.random.default_rng(7), 0.0)[1]
    assert again == numbers[7]


@pytest.mark.broad
@pytest.mark.claim("N-given", "N-tilt-given")
@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("scale", [0.1, 0.4])
def test_the_proved_divergence_is_above_the_true_one_to_50_digits(
    observe: Observer, alpha: float, scale: float
) -> None:
    """12 points, the larger lengthscale nearly singular: D to 60 digits ≤ the bound ≤ the level of `rate`."""
    x = np.linspace(0.0, 1.0, 12)
    y, kernel, noise = np.sin(9.0 * x), SquaredExponential(1.0, scale), 0.01
    for M in (2, 4, 6):
        given: Any = {"inputs": Empirical(x), "y": y, "noise": noise, "draws": "certain", "rigor": "float"}
        level = float(rate(kernel, 12, M, alpha, **given))
        for seed in range(2):
            chosen = kdpp.select(kernel, x, M, "best", seed, y=y, noise=noise, alpha=alpha, draws="certain")
            assert chosen.bound is not None
            assert chosen.jitter == 0.0
            claim = claim_of(chosen.law)
            observe.upper(claim, divergence(kernel, x, chosen.Z[:, 0], y, noise, alpha), mp.mpf(float(chosen.bound)))
            observe.holds(claim, float(chosen.bound) <= chosen.bound.terms["level"])
            assert chosen.bound.terms["level"] == pytest.approx(level, rel=1e-9)


def divergence(kernel: SquaredExponential, x: np.ndarray, z: np.ndarray, y: np.ndarray, noise: float, alpha: float) -> Any:  # fmt: skip  # noqa: E501
    """log p(y) − L_α, 60 digits."""
    with mp.workdps(60):
        scale = mp.mpf(float(kernel.lengthscale))

        def matrix(first: np.ndarray, second: np.ndarray) -> Any:
            k = lambda a, b: mp.exp(-(((mp.mpf(float(a)) - mp.mpf(float(b))) / scale) ** 2) / 2)  # noqa: E731
            return mp.matrix([[k(a, b) for b in second] for a in first])

        Kff, Kuf, Kuu, targets = matrix(x, x), matrix(z, x), matrix(z, z), mp.matrix(y.tolist())
        s2 = mp.mpf(noise)
        return reference.elbo(Kff, Kuf, Kuu, targets, s2, mp.mpf(0)) - reference.elbo(
            Kff, Kuf, Kuu, targets, s2, mp.mpf(alpha)
        )
