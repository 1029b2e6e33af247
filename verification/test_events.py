"""N-event and N-elbos: what a divergence means for probabilities, and what one law proves of another."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mpf
from observer import Observer

from gpbounds import Matern, SquaredExponential
from gpbounds.audit import best_law, event_bounds, event_interval, latent_enough, latent_subject
from gpbounds.bound import Bound
from gpbounds.divergences import whitened_posterior
from gpbounds.likelihoods import Bernoulli, Poisson
from gpbounds.reference import divergences, pacbayes

SEEDS = st.integers(0, 2**32 - 1)


def _laws(seed: int) -> tuple[list[mpf], list[mpf]]:
    """Two laws on three to six points, some of them far apart."""
    rng = np.random.default_rng(seed)
    n, spread = int(rng.integers(3, 7)), 10.0 ** rng.uniform(-2.0, 1.0)
    laws = []
    for scale in (1.0, spread):
        weights = [mpf(w) for w in np.exp(scale * rng.standard_normal(n))]
        laws.append([w / sum(weights) for w in weights])
    return laws[0], laws[1]


@pytest.mark.claim("N-event")
@given(seed=SEEDS)
def test_no_event_leaves_its_interval(observe: Observer, seed: int) -> None:
    """Every event of two discrete laws, and of an outcome that is drawn given the point."""
    q, p = _laws(seed)
    n, rng = len(q), np.random.default_rng(seed)
    kl = divergences.discrete_kl(q, p)
    chances = [mpf(c) for c in rng.uniform(0.0, 1.0, n)]
    events = [[mpf(i in chosen) for i in range(n)] for size in range(1, n) for chosen in combinations(range(n), size)]
    above = float(kl) * (1.0 + 1e-15)
    for event in [*events, chances]:
        a, b = (sum(x * y for x, y in zip(law, event, strict=True)) for law in (q, p))
        low, high = event_interval(float(a), above)
        rounding = 1e-15 * max(1.0, 1.0 / float(min(a, 1 - a)))
        observe.upper("N-event", b, mpf(float(high)), tol=rounding)
        observe.lower("N-event", b, mpf(float(low)), tol=rounding)
        observe.upper("N-event", abs(a - b), divergences.total_variation(kl))
    tv = sum(abs(x - y) for x, y in zip(q, p, strict=True)) / 2
    observe.upper("N-event", tv, divergences.total_variation(kl))


@pytest.mark.claim("N-event")
@settings(max_examples=8)
@given(a=st.floats(0.05, 0.95), kappa=st.floats(1e-6, 2.0))
def test_both_ends_are_attained(observe: Observer, a: float, kappa: float) -> None:
    low, high = event_interval(a, kappa)
    for side, end in (("lower", low), ("upper", high)):
        b = pacbayes.kl_inverse(mpf(a), mpf(kappa), side)[0]
        q, p = [mpf(a), 1 - mpf(a)], [b, 1 - b]
        observe.equal("N-event", divergences.discrete_kl(q, p), mpf(kappa), rtol=mpf("1e-12"), atol=mpf("1e-12"))
        observe.equal("N-event", mpf(float(end)), b, rtol=mpf("1e-14"))
    half = abs(mpf(kappa) / 2) ** mpf("0.5")
    observe.holds("N-event", float(low) >= a - half - mpf("1e-15") and float(high) <= a + half + mpf("1e-15"))


@pytest.mark.claim("N-event")
@example(kappa=7.5e-215)  # 1 − e^−κ is 0 at fifty digits
@example(kappa=5e-324)  # κ/2 is 0 in doubles
@given(kappa=st.floats(0.0, 800.0))
def test_total_variation_agrees_with_the_reference(observe: Observer, kappa: float) -> None:
    bound = event_bounds(Bound(kappa, "upper", 1.0, "N-fisher"))
    truth = divergences.total_variation(mpf(kappa))
    observe.equal("N-event", float(bound.tv), float(truth), rtol=4e-15)
    observe.upper("N-event", truth, mpf(float(bound.tv)))


def _instance(seed: int):
    """A model of two rows, whose evidence is an integral over the plane, with a law that is not the best one."""
    rng = np.random.default_rng(seed)
    variance = float(rng.choice([0.5, 1.0, 4.0]))
    kernel = [SquaredExponential(variance, 0.8), Matern(1.5, variance, 1.5)][int(rng.integers(2))]
    likelihood = [Bernoulli("logit"), Bernoulli("probit"), Poisson("exp"), Poisson("softplus")][int(rng.integers(4))]
    X = np.sort(rng.uniform(0.0, 2.0, 2))[:, None] + [[0.0], [0.1]]
    labels = isinstance(likelihood, Bernoulli)
    y = rng.integers(0, 2, 2) if labels else rng.poisson(2.0, 2)
    offset = float(rng.normal(0.0, 0.5))
    Z = rng.uniform(0.0, 2.0, (1, 1))
    own = whitened_posterior(kernel, Z, rng.normal(0.0, 0.5, 1), [[float(rng.uniform(0.4, 1.2))]], jitter=0.0)
    return latent_subject(kernel, likelihood, X, y, Z, posterior=own, offset=offset)


def _evidence(about) -> float:
    """log p(y), by Gauss and Hermite's rule with 160² nodes."""
    t, w = np.polynomial.hermite_e.hermegauss(160)
    w = w / w.sum()
    root = np.linalg.cholesky(about.kernel(about.X))
    first, second = np.meshgrid(t, t, indexing="ij")
    f = [about.offset[0] + root[0, 0] * first, about.offset[1] + root[1, 0] * first + root[1, 1] * second]
    logs = sum(about.likelihood.log_density(about.y[i], f[i]) for i in range(2))
    return float(np.log(w @ np.exp(logs) @ w))


@pytest.mark.claim("N-elbos")
@pytest.mark.parametrize("start", [0, *(pytest.param(100 * k, marks=pytest.mark.slow) for k in range(1, 6))])
def test_brackets_of_every_law_contain_the_truth(observe: Observer, start: int) -> None:
    """Two rows: log p(y) by an integral over the plane, for laws at one inducing point and at further ones."""
    for seed in range(start, start + (100 if start else 4)):
        _try_all_laws(observe, seed)


def _try_all_laws(observe: Observer, seed: int) -> None:
    about = _instance(seed)
    truth = _evidence(about)
    levels = latent_enough(about, target=0.05, most=2)
    lower, upper = map(float, levels.evidence)
    observe.lower("N-elbos", truth, lower, tol=1e-8)
    observe.upper("N-elbos", truth, upper, tol=1e-8)
    for level in levels.levels:
        low, high = map(float, level.divergence(levels.evidence))
        observe.lower("N-elbos", truth - level.elbo, low, tol=1e-8)
        observe.upper("N-elbos", truth - level.elbo, high, tol=1e-8)


def _sampled(seed: int):
    """A model of 30 rows, and log p(y) by importance sampling: value, standard error, effective share of the draws."""
    rng = np.random.default_rng(seed)
    variance = float(rng.choice([0.5, 1.0, 4.0]))
    kernel = [SquaredExponential(variance, 0.7), Matern(1.5, variance, 1.5)][int(rng.integers(2))]
    likelihood = [Bernoulli("logit"), Bernoulli("probit"), Poisson("exp"), Poisson("softplus")][int(rng.integers(4))]
    X = rng.uniform(-2.0, 2.0, (30, 2))
    f = 1.0 * np.sin(2.0 * X[:, 0])
    rate = np.exp(f) if isinstance(likelihood, Poisson) else likelihood.predictive_mean(f, 0.0 * f)
    y = rng.poisson(rate) if isinstance(likelihood, Poisson) else rng.random(30) < rate
    own = whitened_posterior(kernel, X[:5], rng.normal(0.0, 0.3, 5), np.diag(rng.uniform(0.5, 1.0, 5)))
    about = latent_subject(kernel, likelihood, X, y, X[:5], posterior=own)
    law = best_law(about, X, 1e-7 * variance).posterior
    z = rng.standard_normal((30, 4000))
    v = law.mean[:, None] + law.factor @ z
    values = likelihood.log_density(about.y[:, None], law.inducing.chol.L @ v).sum(axis=0)
    logs = values - 0.5 * (v * v).sum(axis=0) + 0.5 * (z * z).sum(axis=0) + np.log(law.factor.diagonal()).sum()
    weights = np.exp(logs - logs.max())
    error = weights.std() / weights.mean() / np.sqrt(len(weights))
    return about, logs.max() + np.log(weights.mean()), error, weights.sum() ** 2 / (weights @ weights) / len(weights)


@pytest.mark.claim("N-elbos", "N-fisher")
@pytest.mark.parametrize("start", [0, *(pytest.param(25 * k, marks=pytest.mark.slow) for k in range(1, 9))])
def test_brackets_contain_log_evidence_by_importance_sampling(observe: Observer, start: int) -> None:
    """Thirty rows in two dimensions; draws from the best law with all rows, of which a twentieth at least counts."""
    for seed in range(start, start + (25 if start else 1)):
        about, truth, error, effective = _sampled(seed)
        observe.holds("N-elbos", effective > 0.05)
        levels = latent_enough(about, target=1.0, most=29)
        slack = 6.0 * error + 1e-3
        observe.lower("N-elbos", truth, float(levels.evidence[0]), tol=slack)
        observe.upper("N-elbos", truth, float(levels.evidence[1]), tol=slack)
        low, high = map(float, levels.divergence)
        own = truth - levels.model.elbo
        observe.lower("N-elbos", own, low, tol=slack)
        observe.upper("N-fisher", own, high, tol=slack)
        observe.upper("N-fisher", own, float(levels.model.gap.bound), tol=slack)
