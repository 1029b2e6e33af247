"""Ledger D.2: product sampling: envelopes that cover, least constants, and draws of the right law."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from likelihood_instances import Case, draw, make
from mpmath import diff, exp, log, mp, mpf, pi, quad, sqrt
from observer import Observer

from gpbounds.likelihoods import Bernoulli, Poisson
from gpbounds.montecarlo import cover, exact_gradient, product_gradient, sample_product
from gpbounds.montecarlo.integral import Panels
from gpbounds.montecarlo.product import Rejection
from gpbounds.reference import montecarlo as reference

SEEDS = st.integers(0, 2**32 - 1)
FAMILIES = ("gaussian", "probit", "logit", "exp", "softplus", "student")
CONCAVE = FAMILIES[:-1]
CLAIMS = {"widened": "D-14", "shifted": "N-shift", "flat": "N-flat"}


def log_product(case: Case, t: Any) -> Any:
    """log N(f|m, v)·p(y|f) at f = m + t, exactly."""
    return case.log_density(case.y, mpf(case.m) + t) - t**2 / (2 * mpf(case.v)) - log(2 * pi * mpf(case.v)) / 2


def log_proposal(case: Case, envelope: Any, t: Any) -> Any:
    """log of the density of the proposal."""
    shift, n, width = mpf(envelope.shift), mpf(envelope.n), mpf(envelope.width)
    if width > 0:
        x = abs(t - shift) / width
        return min(mpf(0), 1 - x) - log(4 * width)
    return -((t - shift) ** 2) / (2 * n * mpf(case.v)) - log(2 * pi * n * mpf(case.v)) / 2


@pytest.mark.claim("D-14", "N-shift", "N-flat")
@pytest.mark.parametrize("family", FAMILIES)
@given(seed=SEEDS)
@settings(max_examples=3)
def test_envelopes_cover_and_touch(observe: Observer, family: str, seed: int) -> None:
    """log q·p ≤ log K + log proposal around the contact and far out, at 50 digits; no smaller K would do."""
    case, rng = draw(family, seed), np.random.default_rng(seed)
    case = case if family != "student" or case.v * 1e8 > (case.m - float(case.y)) ** 2 else draw(family, 2 * seed)
    y = float(case.y)
    scale = max(float(np.sqrt(case.v)), 1e-3)
    for kind, claim in CLAIMS.items():
        if kind != "widened" and family == "student":
            continue
        envelope = cover(case.likelihood, y, case.m, case.v, kind)
        away = np.concatenate([10.0 ** rng.uniform(-9, 1.3, 24) * scale, [0.0]]) * rng.choice([-1, 1], 25)
        slack = []
        for t in [envelope.touch + mpf(float(a)) for a in away]:
            slack.append(mpf(envelope.log_K) + log_proposal(case, envelope, t) - log_product(case, t))
        # the product's own size, which limits the accuracy of log K
        size = max(
            1.0, abs(float(case.log_density(case.y, mpf(case.m) + mpf(envelope.touch)))), envelope.touch**2 / case.v
        )
        observe.lower(claim, min(slack), 0)
        if kind != "flat":
            observe.upper(claim, slack[-1], 3e-14 * size)
        else:  # w = E p over the product's peak, and no less
            mean = mpf(float(case.likelihood.log_expected_density(y, case.m, case.v)))
            width = exp(mean - log_product(case, mpf(envelope.touch)))
            observe.lower(claim, mpf(envelope.width), width)
            observe.upper(claim, mpf(envelope.width), width * (1 + mpf("2e-9") + mpf("1e-13") * size))


@pytest.mark.claim("D-14")
@pytest.mark.parametrize("family", CONCAVE)
@given(seed=SEEDS)
@example(seed=420)  # a softplus count of 17 945, two thousand standard deviations from its mean
@settings(max_examples=5)
def test_least_constants_and_the_best_width(observe: Observer, family: str, seed: int) -> None:
    """K*(n) against golden sections; log K* convex in a = 1 − 1/n, and no other n is better."""
    case = draw(family, seed)
    if abs(case.m) > 20.0 or case.v > 100.0:
        case = draw(family, 2 * (seed % 999983))
    y, m, v = float(case.y), mpf(case.m), mpf(case.v)
    best = cover(case.likelihood, y, case.m, case.v, "widened")
    widths = np.array([1.0, 1.5, 4.0, 25.0])
    envelopes = cover(case.likelihood, y, case.m, case.v, "widened", widths)
    with mp.workdps(25):
        for n, touch, log_K in zip(widths[1:], envelopes.touch[1:], envelopes.log_K[1:], strict=True):
            reach = 3 * abs(mpf(float(touch))) + sqrt(v)
            truth = log(reference.least_constant(case.log_density, case.y, m, v, mpf(n), m - reach, m + reach))
            observe.equal("D-14", log_K, truth, rtol=1e-12, atol=1e-12)
            if family == "exp":
                observe.equal("D-14", case.m + touch, reference.poisson_touch(case.y, m, v, mpf(n)), atol=1e-6)
    observe.lower("D-14", envelopes.log_K, best.log_K, tol=1e-12 * (1.0 + abs(best.log_K)))
    n = 1.0 / (1.0 - np.linspace(0.1, 0.9, 9))
    values = cover(case.likelihood, y, case.m, case.v, "widened", n).log_K
    observe.lower("D-14", np.diff(values, 2), 0.0, tol=1e-11 * (1.0 + np.abs(values).max()))


@pytest.mark.claim("D-12", "D-13", "D-14")
def test_the_papers_constant(observe: Observer) -> None:
    """Probit y = 1, m = 3, v = 1, n = 4: N(m, v)·p exceeds max p times N(m, nv) at m, by 1.9973."""
    case = make("probit", 1.0, 3.0, 1.0)

    def ratio(n: Any, constant: Any, f: Any) -> Any:
        t = mpf(f) - 3
        return exp(log_product(case, t) + t**2 / (2 * n) + log(2 * pi * n) / 2) / constant

    observe.equal("D-12", ratio(mpf(4), 1, 3), mpf("1.9973"), atol=6e-5)
    observe.fails("D-12", ratio(mpf(4), 1, 3) <= 1, "probit y = 1, m = 3, v = 1, n = 4: 1.9973 at f = m")
    grid = [mpf(k) / 4 for k in range(-40, 80)]
    observe.upper("D-12", [ratio(mpf(4), 2, f) for f in grid], 1)  # √n·K always does
    zn = sqrt(log(mpf(4)) / (1 - mpf(1) / 4))
    low = make("probit", 1.0, -3.0, 1.0)  # sup of p over |f − m| ≤ z_n below ½: K = 1 does there
    inside = exp(low.log_density(1, -3 + zn))
    observe.holds("D-12", inside <= mpf(1) / 2)
    for f in grid:
        t = f - 5
        observe.upper("D-12", exp(log_product(low, t) + t**2 / 8 + log(8 * pi) / 2), 1)
    # acceptance is E p/K for every n at a fixed K: widening alone rejects no less
    with mp.workdps(15):
        for n in (1, 2, 4, 10):
            constant = 2 * sqrt(mpf(n))

            def accepted(f: Any, n: int = n, constant: Any = constant) -> Any:
                return ratio(mpf(n), constant, f) * exp(-((f - 3) ** 2) / (2 * n)) / sqrt(2 * pi * n)

            mean = quad(accepted, [-27, -9, 0, 3, 6, 15, 33])
            observe.equal("D-13", mean, exp(Bernoulli().log_expected_density(1, 3.0, 1.0)) / constant, rtol=1e-10)
    numbers = [
        (Bernoulli(), 1, -4.0, (1.0, 4.0), (0.0023, 0.18)),
        (Poisson("exp"), 5, -4.0, (1.0, 10.0), (4e-6, 0.096)),
    ]
    for likelihood, y, m, widths, shares in numbers:
        acceptance = cover(likelihood, y, m, 1.0, "widened", np.array(widths)).acceptance
        observe.equal("D-14", acceptance, shares, rtol=0.13)


@pytest.mark.claim("N-flat", "N-shift")
@pytest.mark.parametrize("family", CONCAVE)
def test_acceptance_of_the_best(observe: Observer, family: str) -> None:
    """At least ¼ everywhere, m to ±50 and v to 1e4; the shifted one's is its mean ratio, by quadrature."""
    cases = [draw(family, seed) for seed in range(20)]
    for case in cases:
        observe.lower("N-flat", cover(case.likelihood, float(case.y), case.m, case.v).acceptance, 0.2499999)
        flat = cover(case.likelihood, float(case.y), case.m, case.v, "flat").acceptance
        observe.upper("N-flat", flat, 0.25 * (1.0 - 1.9e-9))  # wider and higher by the relative error of E p
    rng = np.random.default_rng(0)
    for _ in range(3):
        m, v = float(rng.normal()), float(rng.uniform(0.1, 3.0))
        y = 4.0 if family in ("exp", "softplus") else float(rng.choice([-1.0, 1.0]))
        case = make(family, y, m, v, *((0.5,) if family == "gaussian" else ()))
        envelope = cover(case.likelihood, float(case.y), m, v, "shifted")
        x = np.linspace(-12.0, 12.0, 4001)
        f = m + envelope.shift + np.sqrt(v) * x
        at = m + envelope.touch
        drop = case.likelihood.log_density(float(case.y), f) - case.likelihood.log_density(float(case.y), at)
        slope = float(case.likelihood.derivatives(float(case.y), at)[0])
        mean = (np.exp(drop - slope * (f - at) - 0.5 * x * x) / np.sqrt(2 * np.pi)).sum() * (x[1] - x[0])
        observe.equal("N-shift", envelope.acceptance, mean, rtol=1e-10)
        observe.upper("N-shift", np.exp(drop - slope * (f - at)), 1.0, tol=1e-12)


@pytest.mark.claim("D-10")
@pytest.mark.parametrize("family", FAMILIES)
def test_score_identity(observe: Observer, family: str) -> None:
    """E_q̃ of the scores (f−m)/v and ((f−m)²−v)/(2v²) is ∂ log E p, by quadrature, with 1e-10."""
    for seed in range(4):
        case = draw(family, seed)
        if case.v > 100.0 or abs(case.m) > 30.0 or case.v < 1e-3:
            case = make(
                family,
                float(case.y),
                0.3,
                0.7,
                *((1.0,) if family == "gaussian" else (3.0, 0.5) if family == "student" else ()),
            )
        nodes = Panels(case.likelihood, float(case.y), case.m, case.v).nodes
        pull = nodes.delta / case.v
        scores = (nodes.tilted * pull).sum(), 0.5 * (nodes.tilted * (pull**2 - 1 / case.v)).sum()
        exact = exact_gradient(case.likelihood, float(case.y), case.m, case.v)
        for score, truth, scale in zip(scores, exact, (case.v**-0.5, 1.0 / case.v), strict=True):
            observe.equal("D-10", -score, truth, rtol=1e-8, atol=1e-8 * scale)


DRAWS = [
    ("probit", 1.0, -4.0, 1.0, ()),
    ("logit", -1.0, 2.0, 9.0, ()),
    ("exp", 5.0, -4.0, 1.0, ()),
    ("exp", 300.0, 1.0, 4.0, ()),
    ("softplus", 0.0, 3.0, 4.0, ()),
    ("student", 4.0, 0.0, 1.0, (2.0, 0.3)),
    ("gaussian", 3.0, 0.0, 1.0, (0.1,)),
]


@pytest.mark.claim("D-10", "D-14", "N-shift", "N-flat")
@pytest.mark.parametrize(("family", "y", "m", "v", "parameters"), DRAWS)
@pytest.mark.parametrize("kind", ["best", "widened", "shifted", "flat"])
def test_draws(
    observe: Observer, family: str, y: float, m: float, v: float, parameters: tuple[float, ...], kind: str
) -> None:
    """Kolmogorov–Smirnov, acceptance and both gradients to 4.5 standard errors, on 200 000 draws."""
    from scipy.stats import kstest

    if family == "student" and kind in ("shifted", "flat"):
        return
    case = make(family, y, m, v, *parameters)
    likelihood, size = case.likelihood, 200_000
    sample = sample_product(likelihood, y, m, v, size, np.random.default_rng(len(family)), kind)
    f, rate = sample.draws, sample.envelope.acceptance
    low, high = Panels(likelihood, y, m, v).ends
    line = m + np.linspace(low, high, 200_001)
    height = np.asarray(likelihood.log_density(y, line)) - 0.5 * (line - m) ** 2 / v
    mass = np.exp(height - height.max())
    law = np.concatenate([[0.0], np.cumsum(0.5 * (mass[1:] + mass[:-1]))])
    observe.lower("D-10", kstest(f, lambda x: np.interp(x, line, law / law[-1])).pvalue, 1e-6)
    claim = CLAIMS.get(kind, "D-14")
    observe.equal(claim, sample.acceptance, rate, atol=4.5 * np.sqrt(rate * (1 - rate) / sample.proposals) + 1e-12)
    scores = (f - m) / v, 0.5 * (((f - m) / v) ** 2 - 1 / v)
    estimate, exact = product_gradient(f, m, v), exact_gradient(likelihood, y, m, v)
    for value, truth, score in zip(estimate, exact, scores, strict=True):
        observe.equal("D-10", value, truth, atol=4.5 * score.std() / np.sqrt(size))


@pytest.mark.claim("D-10")
@pytest.mark.parametrize(("likelihood", "y"), [(Bernoulli(), 1.0), (Poisson("exp"), 2.0)])
def test_gradients_are_unbiased(observe: Observer, likelihood: Any, y: float) -> None:
    """Five draws for each of 40 000 gradients: the mean to 4 standard errors."""
    m, v = -1.0, 1.5
    sample = sample_product(likelihood, np.full(40_000, y), m, v, 5, np.random.default_rng(4))
    gradients, exact = product_gradient(sample.draws, m, v), exact_gradient(likelihood, y, m, v)
    for values, truth in zip(gradients, exact, strict=True):
        observe.equal("D-10", values.mean(), truth, atol=4.0 * values.std() / np.sqrt(values.size))


@pytest.mark.claim("D-14")
@given(seed=SEEDS)
@settings(max_examples=10)
def test_student_envelope_by_search(observe: Observer, seed: int) -> None:
    """Two peaks: K*(n) is the higher one's, and the width is the best, against a fine grid of f and of n."""
    rng = np.random.default_rng(seed)
    df, scale = float(rng.uniform(0.5, 20.0)), float(10.0 ** rng.uniform(-2, 0.5))
    y, m, v = float(10.0 * rng.standard_normal()), float(rng.standard_normal()), float(10.0 ** rng.uniform(-1, 1.5))
    likelihood = make("student", y, m, v, df, scale).likelihood
    near, wide = np.linspace(-1.0, 1.0, 4001) * 20 * scale + y, np.linspace(min(m, y) - 1, max(m, y) + 1, 4001)
    f = np.concatenate([near, wide])
    best = cover(likelihood, y, m, v)
    for n in 1.0 / (1.0 - np.array([0.0, 0.3, 0.9, 0.99])):
        height = np.asarray(likelihood.log_density(y, f)) - 0.5 * (f - m) ** 2 * (1 - 1 / n) / v + 0.5 * np.log(n)
        log_K = cover(likelihood, y, m, v, "widened", n).log_K
        observe.lower("D-14", log_K, height.max(), tol=1e-12 * (1 + abs(log_K)))
        observe.equal("D-14", log_K, height.max(), atol=2e-4)
        observe.upper("D-14", best.log_K, log_K, tol=1e-12 * (1 + abs(log_K)))


def test_log_concavity_of_what_is_shifted() -> None:
    """ℓ'' ≤ 0 for all likelihoods but Student's t: the hypothesis of the tangent bound."""
    for family in CONCAVE:
        for seed in range(6):
            case = draw(family, seed)
            f = np.linspace(-40.0, 40.0, 801)
            assert (np.asarray(case.likelihood.derivatives(float(case.y), f)[1]) <= 0.0).all()
            with mp.workdps(60):
                at = mpf(float(np.random.default_rng(seed).normal()))
                assert diff(lambda t, case=case: case.log_density(case.y, t), at, 2) < 0


@pytest.mark.claim("D-10")
@pytest.mark.parametrize("family", ["probit", "logit", "exp", "softplus", "student"])
@given(seed=SEEDS)
@settings(max_examples=8)
def test_a_draw_is_kept_with_the_exact_ratio(observe: Observer, family: str, seed: int) -> None:
    """log of product over envelope, less its value where they touch, at 50 digits."""
    case, rng = draw(family, seed), np.random.default_rng(seed)
    case = case if family != "student" or case.v * 1e8 > (case.m - float(case.y)) ** 2 else draw(family, 2 * seed)
    y, scale = float(case.y), max(float(np.sqrt(case.v)), 1e-3)
    kinds = ("widened",) if family == "student" else ("widened", "shifted")
    for kind in kinds:
        envelope = cover(case.likelihood, y, case.m, case.v, kind)
        work = Rejection(case.likelihood, *(np.array([float(z)]) for z in (y, case.m, case.v)), envelope, 1)
        away = (10.0 ** rng.uniform(-3, 0.7, 12) * scale * rng.choice([-1, 1], 12))[:, None]
        fast = work.log_ratio(away, np.array([0]))[:, 0]
        contact = mpf(float(work.contact[0])) - mpf(case.m)
        at_contact = log_product(case, contact) - log_proposal(case, envelope, contact)
        for value, t in zip(fast, away[:, 0], strict=True):
            place = contact + mpf(float(t))
            truth = log_product(case, place) - log_proposal(case, envelope, place) - at_contact
            parts = abs(case.log_density(case.y, mpf(case.m) + place)) + t * t / case.v + envelope.touch**2 / case.v
            observe.equal("D-10", value, truth, rtol=1e-10, atol=3e-14 + 1e-13 * float(parts))
