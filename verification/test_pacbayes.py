"""P-01 and P-08 to P-14: ξ(N), the PAC-Bayes theorem, its gradient, its failure frequency."""

from __future__ import annotations

from math import comb
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from scipy.stats import binom

from gpbounds.pacbayes import bound, kl, log_penalty, xi
from gpbounds.reference import pacbayes as reference

SEEDS = st.integers(0, 2**32 - 1)
unit = st.floats(0.0, 1.0)


@pytest.mark.claim("P-01")
@given(seed=SEEDS)
def test_gibbs_risk_is_a_mean_over_the_data(observe: Observer, seed: int) -> None:
    """R_S(Q) = E_f (1/N)Σℓ(y_i, f(x_i)) = (1/N)Σ∫N(v|m_i, s_i²)ℓ(y_i, v)dv, whatever the correlations of f."""
    rng = np.random.default_rng(seed)
    m, y, root = rng.normal(size=2), rng.normal(size=2), rng.normal(size=(2, 2))
    s, half = np.sqrt((root**2).sum(axis=1)), 0.7
    marginal = np.mean(
        [1 - mp.ncdf((y[i] + half - m[i]) / s[i]) + mp.ncdf((y[i] - half - m[i]) / s[i]) for i in (0, 1)]
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    smooth = [1 - np.exp(-((y[i] - m[i]) ** 2) / (1 + 2 * s[i] ** 2)) / np.sqrt(1 + 2 * s[i] ** 2) for i in (0, 1)]
    f = m[:, None, None] + root[:, 0, None, None] * nodes[:, None] + root[:, 1, None, None] * nodes[None, :]
    joint = ((1 - np.exp(-((f - y[:, None, None]) ** 2))).mean(axis=0) * np.outer(weights, weights)).sum() / (2 * np.pi)
    if s.max() < 2.0:  # where 60 nodes are enough
        observe.equal("P-01", joint, np.mean(smooth), atol=1e-4)
    draws = m[:, None] + root @ rng.standard_normal((2, 20_000))
    empirical = (np.abs(draws - y[:, None]) > half).mean()
    observe.equal("P-01", empirical, float(marginal), atol=0.02)
    observe.holds("P-01", 0 <= marginal <= 1)


@pytest.mark.claim("P-10")
def test_xi_three_forms(observe: Observer) -> None:
    for N in (1, 2, 3, 8, 50, 127, 128, 129, 300):
        truth = reference.xi(N)
        falling = sum(mp.factorial(N) / (mp.factorial(N - k) * mp.mpf(N) ** k) for k in range(N + 1))
        with mp.workdps(80):
            gamma = mp.exp(N) * mp.mpf(N) ** -N * mp.gammainc(N + 1, N)
        observe.equal("P-10", [falling, gamma], truth, rtol=mp.mpf(10) ** -45)
        observe.equal("P-10", mp.mpf(float(xi(N))), truth, rtol=2 * 2.0**-52)
        proved = float(xi(N, rigor="sharp"))
        observe.upper("P-10", truth, mp.mpf(proved))
        observe.holds("P-10", mp.mpf(float(np.nextafter(proved, 0))) < truth)
    observe.equal("P-10", [float(xi(2)), round(float(xi(8)), 6), round(float(xi(100)), 6)], [2.5, 4.245018, 13.209961])


@pytest.mark.claim("P-10")
def test_xi_far_out(observe: Observer) -> None:
    """Against Ramanujan's θ: ξ = ½N!(e/N)^N + 1 − θ, θ = 1/3 + 4/(135(N+k)), 2/21 ≤ k ≤ 8/45 (Flajolet et al. 1995)."""
    for N in (200, 1000, 12_345, 10**6, 10**9, 10**12):
        stirling = mp.exp(mp.loggamma(N + 1) + N - N * mp.log(N)) / 2
        ends = [stirling + 1 - (mp.mpf(1) / 3 + 4 / (135 * (N + k))) for k in (mp.mpf(2) / 21, mp.mpf(8) / 45)]
        proved = mp.mpf(float(xi(N, rigor="sharp")))
        ulp = mp.mpf(float(np.spacing(float(proved))))
        observe.holds("P-10", ends[0] <= proved and proved - ulp <= ends[1])
        observe.equal("P-10", mp.mpf(float(xi(N))), ends[0], rtol=2.0**-51 + 2e-3 / N**2.5)
        series = mp.sqrt(mp.pi * N / 2) + mp.mpf(2) / 3 + mp.sqrt(mp.pi / (2 * N)) / 12 - mp.mpf(4) / (135 * N)
        observe.equal("P-10", series, ends[0], atol=0.01 * mp.mpf(N) ** -1.5 + 2e-3 / mp.mpf(N) ** 2)


@pytest.mark.claim("P-09", "P-10")
def test_xi_between_roots(observe: Observer) -> None:
    N = np.arange(1, 3000)
    observe.upper("P-09", xi(N), 2 * np.sqrt(N), tol=1e-15)
    observe.lower("P-10", xi(N), np.sqrt(N))
    observe.holds("P-09", (xi(N[1:]) < 2 * np.sqrt(N[1:])).all() and xi(1) == 2.0)
    # Ramanujan's θ ≥ 1/3 with Stirling: the proof for N ≥ 2, whose right-hand side falls behind 2√N for good.
    above = np.sqrt(np.pi * N / 2) * np.exp(1 / (12 * N)) + 2 / 3
    observe.upper("P-09", xi(N), above)
    observe.upper("P-09", above[1:], 2 * np.sqrt(N[1:]))
    gain = np.log(2 * np.sqrt(N) / xi(N))
    observe.holds("P-10", (np.diff(gain) > 0).all() and gain[-1] < np.log(np.sqrt(8 / np.pi)))
    observe.equal("P-10", np.log(2e6 / float(xi(10**12))), np.log(np.sqrt(8 / np.pi)), atol=1e-6)


@pytest.mark.claim("P-09")
def test_moment_is_xi_and_bernoulli_laws_are_the_worst(observe: Observer) -> None:
    """E exp(N·kl(R_S‖R)) = ξ(N) for losses in {0, 1}, whatever R; at most that for losses in [0, 1]."""
    for N in (1, 2, 5, 9):
        for p in (mp.mpf(1) / 7, mp.mpf(1) / 2, mp.mpf("0.98")):
            terms = [
                comb(N, k) * p**k * (1 - p) ** (N - k) * mp.exp(N * reference.kl(mp.mpf(k) / N, p))
                for k in range(N + 1)
            ]
            observe.equal("P-09", sum(terms), reference.xi(N), rtol=mp.mpf(10) ** -40)
    rng = np.random.default_rng(5)
    for N in (1, 3, 6):
        for _ in range(10):
            weights, values = rng.dirichlet(np.ones(4)), np.sort(rng.random(4))
            law = {0.0: 1.0}
            for _ in range(N):  # the law of the sum of N losses
                spread: dict[float, float] = {}
                for total, mass in law.items():
                    for value, weight in zip(values, weights, strict=True):
                        spread[total + value] = spread.get(total + value, 0.0) + mass * weight
                law = spread
            mean = float(weights @ values)
            moment = sum(mass * np.exp(N * float(kl(min(total / N, 1.0), mean))) for total, mass in law.items())
            observe.upper("P-09", moment, float(xi(N)), tol=1e-9)


@pytest.mark.claim("P-09", "P-11")
@pytest.mark.parametrize(
    ("form", "relaxation"), [("sharpest", "kl"), ("printed", "kl"), ("sharpest", "pinsker"), ("printed", "pinsker")]
)
def test_failure_frequency_for_one_predictor(observe: Observer, form: Any, relaxation: Any) -> None:
    """Q = P, losses in {0, 1}: the exact probability that a bound fails, upper and lower together, is at most δ."""
    for N in (1, 2, 7, 40, 404):
        for delta in (0.5, 0.05):
            counts = np.arange(N + 1)
            low, high = (
                bound(counts / N, 0.0, N, delta=delta, form=form, relaxation=relaxation, side=side).value
                for side in ("lower", "upper")
            )
            for p in (0.003, 0.1, 0.5, 0.97):
                failed = binom.pmf(counts, N, p)[(high < p) | (low > p)].sum()
                observe.upper("P-11" if relaxation == "pinsker" else "P-09", failed, delta)


@pytest.mark.claim("P-09", "P-14", "P-42")
def test_failure_frequency_over_all_posteriors(observe: Observer) -> None:
    """1000 predictors with losses of their own; Q is a Gibbs posterior or the best predictor, chosen after the data.

    Without KL(Q‖P), or without ln(1/p_θ) for a θ chosen after the data, the same test fails.
    """
    rng = np.random.default_rng(8)
    K, N, delta, draws, true = 1000, 60, 0.1, 2000, 0.5
    risks = rng.binomial(N, true, (draws, K)) / N
    weights = np.exp(-30.0 * (risks - risks.min(axis=1, keepdims=True)))
    weights /= weights.sum(axis=1, keepdims=True)
    divergence = (weights * np.log(weights * K)).sum(axis=1)
    best = risks.min(axis=1)

    def failures(risk: Any, divergence: Any, prior: float = 0.0) -> int:
        return int((np.asarray(bound(risk, divergence, N, delta=delta, log_prior_penalty=prior).value) < true).sum())

    observe.frequency("P-09", failures((weights * risks).sum(axis=1), divergence), draws, delta)
    observe.frequency("P-09", failures(best, np.log(K)), draws, delta)
    # K priors, each at one predictor: KL(Q‖P^θ) = 0, and the choice of θ costs ln K
    observe.frequency("P-14", failures(best, 0.0, np.log(K)), draws, delta)
    with pytest.raises(AssertionError, match="promised at most"):
        observe.frequency("P-14", failures(best, 0.0), draws, delta)
    # P-42: Theorem 1 at δp_θ for each θ is Eq. 5, and the δp_θ add up to δ
    weights = rng.dirichlet(np.ones(K))
    each = [float(bound(0.2, 3.0, N, delta=delta * w)) for w in weights]
    observe.equal("P-42", bound(0.2, 3.0, N, delta=delta, log_prior_penalty=-np.log(weights)).value, each, rtol=1e-14)
    observe.equal("P-42", (delta * weights).sum(), delta, rtol=1e-14)


@pytest.mark.claim("P-08")
def test_gradient_of_the_bound(observe: Observer) -> None:
    """Against differences of the bound; the printed evaluation point leaves ln(1/p_θ) out (Boston, ε = 0.6)."""
    risk, divergence, N, delta, prior = 0.093, 0.104 * 404, 404, 0.01, 2 * np.log(1201)
    options: Any = {"delta": delta, "form": "printed", "gradient": True}
    _, in_risk, in_kl = bound(risk, divergence, N, log_prior_penalty=prior, **options)
    h = mp.mpf(10) ** -20

    def B(q: Any, d: Any) -> Any:
        eps = (mp.mpf(d) + mp.mpf(prior) + mp.log(2 * mp.sqrt(N) / mp.mpf(delta))) / N
        return reference.kl_inverse(q, eps)[0]

    observe.equal(
        "P-08", mp.mpf(float(in_risk)), (B(risk + h, divergence) - B(risk - h, divergence)) / (2 * h), rtol=1e-13
    )
    observe.equal(
        "P-08", mp.mpf(float(in_kl)), (B(risk, divergence + h) - B(risk, divergence - h)) / (2 * h), rtol=1e-13
    )
    slope, printed = N * float(in_kl), N * float(bound(risk, divergence, N, **options)[2])
    observe.equal("P-08", [round(slope, 4), round(printed, 4)], [0.9266, 1.0191])
    observe.fails(
        "P-08", abs(printed - slope) < 0.01, "boston, ε = .6: ∂_ε 1.0191 at the printed point, .9266 at ε with ln(1/p)"
    )
    slopes = bound(risk, divergence, N, log_prior_penalty=prior, relaxation="pinsker", **options)[1:]
    eps = (mp.mpf(divergence) + mp.mpf(prior) + mp.log(2 * mp.sqrt(N) / mp.mpf(delta))) / N
    observe.equal("P-08", [float(s) for s in slopes], [1.0, float(1 / (4 * N * mp.sqrt(eps / 2)))], rtol=1e-15)


@pytest.mark.claim("P-09", "P-10", "P-14")
@given(N=st.integers(1, 200), delta=st.floats(1e-12, 1.0), prior=st.floats(0.0, 100.0))
def test_log_penalty_is_its_formula(observe: Observer, N: int, delta: float, prior: float) -> None:
    """ln(1/p) + ln(ξ(N)/δ), and with 2√N."""
    for form, claim, constant in (("sharpest", "P-10", reference.xi(N)), ("printed", "P-09", 2 * mp.sqrt(N))):
        truth = mp.mpf(prior) + mp.log(constant / mp.mpf(delta))
        observe.equal(
            claim, mp.mpf(float(log_penalty(N, delta=delta, log_prior_penalty=prior, form=form))), truth, rtol=1e-14
        )


@pytest.mark.claim("P-11")
@given(
    risk=unit,
    divergence=st.floats(0.0, 1e4),
    N=st.integers(1, 10**6),
    delta=st.floats(1e-9, 1.0),
    prior=st.floats(0, 50),
)
def test_order_of_the_forms(
    observe: Observer, risk: float, divergence: float, N: int, delta: float, prior: float
) -> None:
    sharp, maurer, pinsker = (
        bound(risk, divergence, N, delta=delta, log_prior_penalty=prior, form=form, relaxation=relaxation).value
        for form, relaxation in (("sharpest", "kl"), ("printed", "kl"), ("printed", "pinsker"))
    )
    observe.upper("P-11", sharp, maurer, tol=1e-15)
    observe.upper("P-11", maurer, pinsker, tol=1e-15)
    proved = bound(risk, divergence, N, delta=delta, log_prior_penalty=prior, rigor="sharp")
    assert proved.certified
    observe.upper("P-11", sharp, proved.value, tol=1e-15)
    floors = [
        bound(risk, divergence, N, delta=delta, log_prior_penalty=prior, relaxation=relaxation, side="lower").value
        for relaxation in ("kl", "pinsker")
    ]
    observe.lower("P-11", floors[0], floors[1], tol=1e-15)


@pytest.mark.claim("P-12")
@given(
    risk=unit, divergence=st.floats(0.0, 1e3), N=st.integers(1, 60), delta=st.floats(1e-6, 1.0), prior=st.floats(0, 50)
)
def test_certified_bound(observe: Observer, risk: float, divergence: float, N: int, delta: float, prior: float) -> None:
    truth = reference.bound(risk, divergence, N, delta, prior)
    proved = float(bound(risk, divergence, N, delta=delta, log_prior_penalty=prior, rigor="sharp"))
    observe.upper("P-12", truth, mp.mpf(proved))
    observe.equal("P-12", mp.mpf(proved), truth, rtol=1e-14, atol=1e-15)
