"""Section D.1 of the ledger: likelihood terms in closed form, their quadratures, and the inequalities between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from likelihood_instances import FAMILIES, Case, draw, make
from mpmath import exp, log, mp, mpf, quad, sqrt
from observer import Observer
from thinning import one_in

from gpbounds.divergences import gaussian_kl
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson
from gpbounds.likelihoods.concave import ExponentialRate, LogCdf, Sigmoid, Softplus, SoftplusRate
from gpbounds.reference import likelihoods as reference

SEEDS = st.integers(0, 10**6)
CLAIMS = {"gaussian": "D-05", "probit": "D-06", "logit": "D-02", "exp": "D-07", "softplus": "D-02", "student": "D-02"}


def check(observe: Observer, case: Case) -> None:
    """Both means and their gradients against 30 digits; E p with a relative tolerance, log E p with an absolute one."""
    family = CLAIMS.get(getattr(case.likelihood, "link", case.likelihood.name), "D-02")
    arguments = float(case.y), case.m, case.v
    with mp.workdps(30):
        for mean, truth in (
            (case.likelihood.log_expected_density, reference.log_expected_density),
            (case.likelihood.expected_log_density, reference.expected_log_density),
        ):
            value, *slopes = mean(*arguments, gradient=True)
            exact, *exact_slopes = truth(case.log_density, case.y, case.m, case.v, case.points)
            assert value == pytest.approx(mean(*arguments), rel=1e-12, abs=1e-12)  # derivatives may need more nodes
            if truth is reference.log_expected_density:
                observe.equal(family, value, exact, atol=1e-11, rtol=1e-15)
            elif exact > -1e300:
                observe.equal(family, value, exact, rtol=1e-11, atol=mpf("1e-300"))
            if exact > -1e300:
                for slope, true in zip(slopes, exact_slopes, strict=True):
                    observe.equal(family, slope, true, rtol=1e-9, atol=1e-13 * (1 + abs(exact)))


@pytest.mark.broad
@pytest.mark.claim("D-02", "D-05", "D-06", "D-07")
@pytest.mark.parametrize("family", one_in(2, FAMILIES))
def test_means_against_thirty_digits(observe: Observer, family: str) -> None:
    check(observe, draw(family, 0))


@pytest.mark.slow
@pytest.mark.claim("D-02", "D-05", "D-06", "D-07")
@pytest.mark.parametrize("family", FAMILIES)
def test_means_against_thirty_digits_many(observe: Observer, family: str) -> None:
    for seed in range(2, 150):
        check(observe, draw(family, seed))


HARD = [
    ("student", 30.0, -30.0, 400.0, 4.0, 1.0),  # two peaks of N(m, v)·p: at the mean and at y
    ("student", 50.0, 0.0, 1.0, 3.0, 0.1),
    ("student", 0.0, 50.0, 1e4, 0.5, 0.01),
    ("student", 3.0, 3.0, 1e-12, 2.0, 5.0),
    ("exp", 0.0, 0.0, 1e4),  # half a Gaussian with an edge of width 1
    ("exp", 0.0, 50.0, 30.0),
    ("exp", 0.0, -14.057896665842684, 2724.7399293647513),  # all of the slope comes from the edge
    ("exp", 1e4, -50.0, 1e4),
    ("exp", 1e6, 0.0, 1.0),
    ("softplus", 0.0, 30.0, 1e4),
    ("softplus", 1e5, -50.0, 1e4),
    ("softplus", 3.0, -45.0, 1e-4),
    ("softplus", 1101.0, 262.5, 31.3),  # E σ' = 1e-107 comes from a tail six standard deviations out
    ("softplus", 3.0, -262.0, 31.0),
    ("logit", 1.0, -100.0, 228.0),
    ("logit", 1.0, -5000.0, 1e4),
    ("logit", -1.0, -50.0, 1e4),
    ("probit", -1.0, 45.0, 1e4),
]


@pytest.mark.broad
@pytest.mark.claim("D-02", "D-05", "D-06", "D-07")
@pytest.mark.parametrize("hard", one_in(6, [pytest.param(case) for case in HARD]), ids=str)
def test_means_where_quadrature_is_hard(observe: Observer, hard: tuple[Any, ...]) -> None:
    check(observe, make(*hard))


@pytest.mark.claim("D-05", "D-06", "D-07")
@given(seed=SEEDS)
def test_closed_forms(observe: Observer, seed: int) -> None:
    """−log N(y|μ, v+σ²), −log Φ((2y−1)μ/√(1+v)), e^(μ+v/2) − yμ + log y!, at 50 digits."""
    rng = np.random.default_rng(seed)
    m, v, noise = (mpf(float(x)) for x in (3 * rng.standard_normal(), rng.exponential(3.0), rng.exponential()))
    y, label, count = mpf(float(rng.standard_normal())), int(rng.integers(2)), int(rng.poisson(3.0))
    floats = float(m), float(v)
    gaussian = Gaussian(float(noise))
    observe.equal(
        "D-05",
        -gaussian.log_expected_density(float(y), *floats),
        -reference.gaussian(v + noise)(y, m),
        rtol=1e-14,
        atol=1e-15,
    )
    elbo = log(2 * mp.pi * noise) / 2 + ((y - m) ** 2 + v) / (2 * noise)
    observe.equal("D-05", -gaussian.expected_log_density(float(y), *floats), elbo, rtol=1e-14, atol=1e-15)
    probit = reference.bernoulli("probit")(1, (2 * label - 1) * m / sqrt(1 + v))
    observe.equal("D-06", Bernoulli().log_expected_density(label, *floats), probit, rtol=1e-13)
    poisson = exp(m + v / 2) - count * m + mp.loggamma(count + 1)
    observe.equal("D-07", -Poisson().expected_log_density(count, *floats), poisson, rtol=1e-13, atol=1e-13)


@pytest.mark.claim("D-05", "D-06", "D-07")
def test_closed_forms_are_the_definitions(observe: Observer) -> None:
    m, v, noise, y, count = mpf("0.7"), mpf("1.9"), mpf("0.4"), mpf("-1.1"), 3
    points = [(0, 1), (m, sqrt(v))]
    with mp.workdps(30):
        mean = reference.log_expected_density(reference.gaussian(noise), y, m, v, points)[0]
        observe.equal("D-05", mean, reference.gaussian(v + noise)(y, m), rtol=mpf("1e-25"))
        mean = reference.log_expected_density(reference.bernoulli("probit"), -1, m, v, points)[0]
        observe.equal("D-06", mean, reference.bernoulli("probit")(-1, m / sqrt(1 + v)), rtol=mpf("1e-25"))
        mean = reference.expected_log_density(reference.poisson("exp"), count, m, v, points)[0]
        observe.equal("D-07", -mean, exp(m + v / 2) - count * m + mp.loggamma(count + 1), rtol=mpf("1e-25"))


@pytest.mark.claim("D-02")
@given(seed=SEEDS)
def test_each_dlm_term_is_at_most_the_elbo_term(observe: Observer, seed: int) -> None:
    """Jensen; equality as v → 0."""
    for family in FAMILIES:
        case = draw(family, seed)
        y = float(case.y)
        dlm = -case.likelihood.log_expected_density(y, case.m, case.v)
        elbo = -case.likelihood.expected_log_density(y, case.m, case.v)
        observe.upper("D-02", dlm, elbo, tol=1e-10 * (1 + abs(dlm)))
        points = [
            mean(y, case.m, 0.0)
            for mean in (case.likelihood.log_expected_density, case.likelihood.expected_log_density)
        ]
        observe.equal("D-02", points, [case.likelihood.log_density(y, case.m)] * 2, rtol=1e-12, atol=1e-300)


@pytest.mark.claim("D-02")
def test_the_factors_of_the_quadrature_are_log_concave(observe: Observer) -> None:
    """The hypothesis of mode and support: ℓ'' ≤ 0 for σ, log(1 + e^f), −log Φ and both Poisson densities."""
    f = np.concatenate([np.linspace(-40.0, 40.0, 4001), np.geomspace(41.0, 600.0, 50), -np.geomspace(41.0, 600.0, 50)])
    for factor in (Sigmoid(), Softplus(), LogCdf(), ExponentialRate(), SoftplusRate()):
        for y in (0.0, 1.0, 7.0, 1e4):
            with np.errstate(all="ignore"):
                first, second = factor.slopes(f, np.full(f.shape, y))
                rounding = 1e-15 * (1.0 + first**2)
            observe.holds("D-02", (second <= rounding).all(), f.size)


def one_point(case: Case, m: float, v: float, k: float, beta: float) -> tuple[float, float, float]:
    """−log p(y), the ELBO objective and the DLM objective with β KL, for N = 1, prior f ~ N(0, k), q = N(m, v)."""
    y, kl = float(case.y), gaussian_kl([m], [[v]], [0.0], [[k]])
    mean = case.likelihood
    return (
        -float(mean.log_expected_density(y, 0.0, k)),
        -float(mean.expected_log_density(y, m, v)) + beta * float(kl),
        -float(mean.log_expected_density(y, m, v)) + beta * float(kl),
    )


@pytest.mark.claim("D-01")
@given(seed=SEEDS)
def test_elbo_bounds_the_evidence(observe: Observer, seed: int) -> None:
    """−log p(y) ≤ E_q[−log p(y|f)] + β KL for β ≥ 1, one point and any likelihood; two correlated points on a grid."""
    rng = np.random.default_rng(seed)
    for family in FAMILIES:
        case = draw(family, seed)
        k, m, v, beta = rng.exponential(2.0), 2 * rng.standard_normal(), rng.exponential(), 1 + rng.exponential()
        evidence, elbo, _ = one_point(case, m, v, k, 1.0)
        observe.upper("D-01", evidence, elbo, tol=1e-10 * (1 + abs(evidence)))
        observe.upper("D-01", evidence, one_point(case, m, v, k, beta)[1], tol=1e-10 * (1 + abs(evidence)))
    rho = rng.uniform(-0.9, 0.9)
    K = np.array([[1.0, rho], [rho, 1.0]])
    V = np.diag(rng.exponential(size=2) + 0.05)
    mean = rng.standard_normal(2)
    line = np.linspace(-9.0, 9.0, 301)
    F = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    prior = np.exp(-0.5 * np.einsum("ni,ij,nj->n", F, np.linalg.inv(K), F)) / (2 * np.pi * np.sqrt(np.linalg.det(K)))
    y = rng.integers(0, 2, 2)
    model = Bernoulli("logit")
    evidence = -np.log((prior * model.density(y, F).prod(axis=1)).sum() * (line[1] - line[0]) ** 2)
    elbo = -model.expected_log_density(y, mean, np.diag(V)).sum() + float(gaussian_kl(mean, V, np.zeros(2), K))
    observe.upper("D-01", float(evidence), float(elbo), tol=1e-9)


@pytest.mark.claim("D-01", "D-02")
def test_what_does_not_bound_the_evidence(observe: Observer) -> None:
    """β < 1, and the DLM objective at β = 1: at N = 1, y = 0, f ~ N(0, 1), noise 1, −log p(y) = ½ log 4π = 1.2655."""
    case = make("gaussian", 0.0, 0.0, 1.0, 1.0)
    evidence, elbo, _ = one_point(case, 0.0, 1 / 11, 1.0, 0.1)
    observe.equal("D-01", evidence, 0.5 * np.log(4 * np.pi), rtol=1e-14)
    observe.fails("D-01", evidence <= elbo, "β = 0.1, q = N(0, 1/11): the objective is 1.0389")
    observe.equal("D-01", elbo, 1.0388, atol=2e-4)
    dlm = one_point(case, 0.0, 0.618, 1.0, 1.0)[2]
    observe.fails("D-02", evidence <= dlm, "β = 1, q = N(0, 0.618): the DLM objective is 1.2091")
    tight = one_point(case, 0.0, 0.5, 1.0, 1.0)
    observe.equal("D-01", tight[0], tight[1], rtol=1e-13)  # q the exact posterior


@pytest.mark.claim("D-03")
@pytest.mark.parametrize("seed", range(4))
def test_dlm_is_black_box_alpha_at_one(observe: Observer, seed: int) -> None:
    """−(1/α) log E p^α falls from the ELBO's term at α → 0 to the DLM term at α = 1; the KL term is the same."""
    rng = np.random.default_rng(seed)
    m, v = float(rng.standard_normal()), float(rng.exponential() + 0.1)
    for family in ("probit", "exp"):
        y = float(rng.choice([-1, 1]) if family == "probit" else rng.poisson(2.0))
        case = make(family, y, m, v)
        with mp.workdps(20):

            def term(alpha: Any, case: Case = case) -> Any:
                s = sqrt(mpf(case.v))
                power = quad(
                    lambda z: exp(alpha * case.log_density(case.y, case.m + s * z) - z * z / 2), [-12, -4, 0, 4, 12]
                )
                return -log(power / sqrt(2 * mp.pi)) / alpha

            values = [term(a) for a in (mpf("1e-6"), mpf("0.3"), mpf("0.7"), mpf(1))]
        observe.holds("D-03", values == sorted(values, reverse=True))
        observe.equal("D-03", -case.likelihood.log_expected_density(y, m, v), values[-1], rtol=1e-11, atol=1e-12)
        observe.equal("D-03", -case.likelihood.expected_log_density(y, m, v), values[0], rtol=1e-3, atol=1e-3)
