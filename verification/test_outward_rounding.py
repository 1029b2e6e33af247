"""Outward roundings against exact rationals or 60 digits, without tolerance, so that one ulp is visible.

Each value must be on its side of the truth, and its neighbour on the other side must not: rounding to the nearest
double, or the other way, fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mpf
from observer import Observer

from gpbounds.pacbayes import bayes_risk_bound, bound, grid_penalty, kl_inverse, xi
from gpbounds.pacbayes.certificate import statement
from gpbounds.reference import pacbayes as reference

SEEDS = st.integers(0, 2**32 - 1)
FORMS: Any = ("sharpest", "printed")
BOUNDS: Any = (("sharpest", "kl"), ("printed", "kl"), ("sharpest", "pinsker"), ("printed", "pinsker"))


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


def least_above(observe: Observer, claim: str, value: float, truth: Any) -> None:
    """``value`` is the least double that is not below ``truth``."""
    observe.upper(claim, truth, mpf(value))
    observe.holds(claim, mpf(math.nextafter(value, -math.inf)) < truth)


def arguments(seed: int) -> tuple[float, float, int, float, float]:
    """R_S, KL, N, δ, ln(1/p): each of any size, and at the ends of its range."""
    rng = np.random.default_rng(seed)
    risk = float(rng.choice([0.0, 1.0, rng.random(), 10.0 ** rng.uniform(-9, 0)], p=[0.1, 0.05, 0.6, 0.25]))
    kl = float(rng.choice([0.0, 10.0 ** rng.uniform(-3, 4)], p=[0.1, 0.9]))
    prior = float(rng.choice([0.0, 10.0 ** rng.uniform(-3, 2)], p=[0.3, 0.7]))
    delta = float(rng.choice([1.0, 10.0 ** rng.uniform(-12, 0)], p=[0.1, 0.9]))
    return risk, kl, int(rng.integers(1, 150)), delta, prior


def exact_eps(kl: float, N: int, delta: float, prior: float, form: str) -> Any:
    """ε = (KL + ln(1/p) + ln(ξ(N)/δ))/N, ξ from its rational value, or 2√N in its place."""
    constant = mpf_of(exact_xi(N)) if form == "sharpest" else 2 * mp.sqrt(N)
    return (mpf(kl) + mpf(prior) + mp.log(constant / mpf(delta))) / N


def exact_xi(N: int) -> Fraction:
    """Σ N!/((N−k)! N^k)."""
    term, total = Fraction(1), Fraction(0)
    for k in range(N + 1):
        total += term
        term *= Fraction(N - k, N)
    return total


def mpf_of(number: Fraction) -> Any:
    return mpf(number.numerator) / number.denominator


@pytest.mark.claim("P-12", "P-14")
@given(seed=SEEDS)
def test_the_right_hand_side_of_the_theorem_is_rounded_up(observe: Observer, seed: int) -> None:
    """The ε on record is the least double that is not below (KL + ln(1/p) + ln(ξ(N)/δ))/N."""
    for number in range(4):
        risk, kl, N, delta, prior = arguments(seed + number)
        for form in FORMS:
            rounded = bound(risk, kl, N, delta=delta, log_prior_penalty=prior, form=form, rigor="sharp").terms["ε"]
            least_above(observe, "P-12", rounded, exact_eps(kl, N, delta, prior, form))


@pytest.mark.claim("P-11", "P-12")
@given(seed=SEEDS)
def test_the_pinsker_bound_is_rounded_outwards(observe: Observer, seed: int) -> None:
    """R_S ± √(ε/2), both sides: never within the truth; and for the ε on record, in rationals, the next double."""
    for number in range(4):
        risk, kl, N, delta, prior = arguments(seed + number)
        half = mp.sqrt(exact_eps(kl, N, delta, prior, "printed") / 2)
        options: Any = {"delta": delta, "log_prior_penalty": prior, "form": "printed", "relaxation": "pinsker"}
        up, down = (bound(risk, kl, N, **options, side=side, rigor="sharp") for side in ("upper", "lower"))
        observe.upper("P-11", mpf(risk) + half, mpf(float(up)))
        observe.lower("P-11", mpf(risk) - half, mpf(float(down)))
        q, eps = Fraction(risk), Fraction(up.terms["ε"])
        ends = [Fraction(v) - q for v in (float(up), math.nextafter(float(up), -math.inf))]
        observe.holds("P-12", ends[0] >= 0 and 2 * ends[0] ** 2 >= eps and (ends[1] < 0 or 2 * ends[1] ** 2 < eps))
        ends = [q - Fraction(v) for v in (float(down), math.nextafter(float(down), math.inf))]
        observe.holds("P-12", ends[0] >= 0 and 2 * ends[0] ** 2 >= eps and (ends[1] < 0 or 2 * ends[1] ** 2 < eps))


@pytest.mark.claim("P-11", "P-12")
def test_without_a_divergence_that_is_finite_nothing_is_bounded(observe: Observer) -> None:
    for kl, prior in ((math.inf, 0.0), (1.0, math.inf)):
        for side, ends in (("upper", (math.inf, 1.0)), ("lower", (-math.inf, 0.0))):
            for form, relaxation in BOUNDS:
                options: Any = {"form": form, "relaxation": relaxation, "side": side, "rigor": "sharp"}
                value = float(bound(0.3, kl, 100, delta=0.05, log_prior_penalty=prior, **options))
                observe.holds("P-12", value == ends[0 if relaxation == "pinsker" else 1])


@pytest.mark.claim("P-12")
@pytest.mark.parametrize(("form", "relaxation"), BOUNDS)
@pytest.mark.parametrize("side", ["upper", "lower"])
def test_arrays_are_certified_entry_by_entry(observe: Observer, form: Any, relaxation: Any, side: Any) -> None:
    """Each argument along an axis of its own: every entry equals the scalar result."""
    risk, kl, N, delta, prior = (
        np.array(v).reshape([-1 if i == axis else 1 for i in range(5)])
        for axis, v in enumerate(([0.0, 0.31], [0.0, 7.0], [3, 40, 200], [0.5, 0.01], [0.0, 3.3]))
    )
    options: Any = {"form": form, "relaxation": relaxation, "side": side, "rigor": "sharp"}
    whole = bound(risk, kl, N, delta=delta, log_prior_penalty=prior, **options)
    for at in np.ndindex(whole.value.shape):
        each = [np.broadcast_to(v, whole.value.shape)[at] for v in (risk, kl, N, delta, prior)]
        alone = bound(*each[:3], delta=each[3], log_prior_penalty=each[4], **options)
        observe.holds("P-12", (whole.value[at], whole.terms["ε"][at]) == (alone.value, alone.terms["ε"]))


@pytest.mark.claim("P-12", "P-14")
@given(seed=SEEDS)
def test_the_certified_bound_is_never_below_the_truth(observe: Observer, seed: int) -> None:
    """At R_S = 0 the truth is 1 − e^−ε, at R_S = 1 the lower one is e^−ε: all roundings of ε show in the last digit."""
    for number in range(4):
        _, kl, N, delta, prior = arguments(seed + number)
        for form in FORMS:
            eps = exact_eps(kl, N, delta, prior, form)
            observe.upper(
                "P-14",
                -mp.expm1(-eps),
                mpf(float(bound(0.0, kl, N, delta=delta, log_prior_penalty=prior, form=form, rigor="sharp"))),
            )
            lower = bound(1.0, kl, N, delta=delta, log_prior_penalty=prior, form=form, side="lower", rigor="sharp")
            observe.lower("P-14", mp.exp(-eps), mpf(float(lower)))


@pytest.mark.claim("P-12")
@given(seed=SEEDS)
def test_the_certified_inverse_is_the_best_double(observe: Observer, seed: int) -> None:
    """p, and 1 − p, of both inverses: on its side of the truth, while its neighbour is on the other."""
    rng = np.random.default_rng(seed)
    q, eps = float(rng.choice([rng.random(), 10.0 ** rng.uniform(-12, 0)])), float(10.0 ** rng.uniform(-9, 1))
    for side in ("upper", "lower"):
        for complement, truth in zip((False, True), reference.kl_inverse(q, eps, side), strict=True):
            proved = float(kl_inverse(q, eps, side, complement, rigor="sharp"))  # type: ignore[arg-type]
            if (side == "upper") != complement:
                least_above(observe, "P-12", proved, truth)
            else:
                observe.lower("P-12", truth, mpf(proved))
                observe.holds("P-12", mpf(math.nextafter(proved, math.inf)) > truth)


@pytest.mark.claim("P-10")
@given(N=st.integers(1, 400))
def test_xi_is_rounded_up(observe: Observer, N: int) -> None:
    proved, truth = float(xi(N, rigor="sharp")), exact_xi(N)
    observe.holds("P-10", Fraction(math.nextafter(proved, 0.0)) < truth <= Fraction(proved))
    observe.equal("P-10", Fraction(float(xi(N))), truth, rtol=Fraction(1, 2**51))  # type: ignore[arg-type]


@pytest.mark.claim("P-43")
@given(points=st.integers(1, 10**6), axes=st.integers(1, 80))
def test_the_penalty_of_a_grid_is_rounded_up(observe: Observer, points: int, axes: int) -> None:
    proved = float(grid_penalty(points, axes, rigor="sharp"))
    least_above(observe, "P-43", proved, axes * mp.log(points))
    observe.equal("P-43", mpf(float(grid_penalty(points, axes))), axes * mp.log(points), rtol=mpf(2) ** -51)


@pytest.mark.claim("P-38")
@given(seed=SEEDS)
def test_the_risk_of_the_mean_prediction_is_rounded_up(observe: Observer, seed: int) -> None:
    """B/(3/2 − Φ(2ε/σ)) = 2B/(1 + erfc(√2 ε/σ)), and the factor."""
    rng = np.random.default_rng(seed)
    for _ in range(4):
        accuracy, std = (float(v) for v in 10.0 ** rng.uniform(-2, 2, 2))
        gibbs = bound(float(rng.random()), 3.0, 400, delta=0.05, rigor="sharp")
        proved = bayes_risk_bound(gibbs, epsilon=accuracy, least_std=std)
        factor = 2 / (1 + mp.erfc(mp.sqrt(2) * mpf(accuracy) / mpf(std)))
        observe.holds("P-38", proved.certified)
        for value, truth in ((proved.terms["factor"], factor), (float(proved), mpf(float(gibbs)) * factor)):
            observe.upper("P-38", truth, mpf(value))
            observe.upper("P-38", mpf(value), truth * (1 + mpf(2) ** -51))
        observe.equal("P-38", float(bayes_risk_bound(gibbs)), 2.0 * float(gibbs))
        observe.equal("P-38", float(bayes_risk_bound(gibbs, epsilon=accuracy, least_std=0.0)), 2.0 * float(gibbs))


@pytest.mark.claim("P-12", "P-44")
@given(seed=SEEDS)
def test_the_last_step_of_a_certificate_is_rounded_up(observe: Observer, seed: int) -> None:
    """ln count and ln(ξ(N)/δ) are the least doubles not below; B is not below kl⁻¹ of what was never rounded."""
    rng = np.random.default_rng(seed)
    for number in range(4):
        risk, kl, N, delta, _ = arguments(seed + number)
        delta = min(delta, 0.999)
        count = int(rng.integers(2, 2000)) ** int(rng.integers(1, 40))
        least_above(observe, "P-12", statement.log_count(count), mp.log(count))
        log_xi = mp.log(mpf_of(exact_xi(N)) / mpf(delta))
        least_above(observe, "P-12", statement.log_xi(N, delta), log_xi)
        eps = (mpf(kl) + mp.log(count) + log_xi) / N
        observe.upper("P-44", -mp.expm1(-eps), mpf(statement.risk_bound(0.0, kl, count, N, delta)))
    truth, rounded = reference.kl_inverse(risk, eps)[0], mpf(statement.risk_bound(risk, kl, count, N, delta))
    observe.upper("P-44", truth, rounded)
    observe.upper("P-44", rounded, truth * (1 + mpf(2) ** -51))
    observe.holds("P-12", statement.log_count(1) == 0.0)
