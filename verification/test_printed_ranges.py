"""Section D.4, Table 1: every end of every range is the expression that is printed, or corrected; 0.1 % less fails."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import exp, log, mpf, pi, polyroots, sqrt
from observer import Observer

from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.likelihoods.base import DerivativeRange
from gpbounds.reference import likelihoods as reference

COUNTS = st.one_of(st.integers(0, 20), st.integers(0, 10**7))
SIZES = st.floats(-6.0, 6.0).map(lambda e: 10.0**e)
REPAIRED = (True, False)
ROUNDED = 2.0**-50


def ends(ranges: DerivativeRange) -> list[Any]:
    """φ low, high, φ' low, high, φ'' low, high."""
    return [*ranges.density, *ranges.first, *ranges.second]


@pytest.mark.claim("D-34", "D-36")
@pytest.mark.parametrize("repaired", REPAIRED)
@given(y=COUNTS)
def test_poisson_with_exponential_rate(observe: Observer, repaired: bool, y: int) -> None:
    """φ ≤ 1, −y − 1 ≤ φ' ≤ y, −y − ¼ ≤ φ'' ≤ 2y² + 3y + 2: whole numbers and quarters, so equal to the last bit."""
    table = [0, 1, -y - 1, y, Fraction(-4 * y - 1, 4), 2 * y * y + 3 * y + 2]
    ranges = Poisson("exp").derivative_range(y, "printed", repaired=repaired)
    observe.equal("D-34", [Fraction(e) for e in ends(ranges)], table)
    observe.holds("D-36", ranges.repaired == repaired and ("no density" in ranges.note) == (not repaired))


@pytest.mark.claim("D-33", "D-36")
@pytest.mark.parametrize("repaired", REPAIRED)
@given(y=COUNTS)
def test_poisson_with_softplus_rate(observe: Observer, repaired: bool, y: int) -> None:
    """φ ≤ 1, |φ'| ≤ 1, |φ''| ≤ 2.25, for every count."""
    ranges = Poisson("softplus").derivative_range(y, "printed", repaired=repaired)
    observe.equal("D-33", ends(ranges), [0.0, 1.0, -1.0, 1.0, -2.25, 2.25])
    observe.holds("D-36", ranges.repaired == repaired and ("no density" in ranges.note) == (not repaired))


@pytest.mark.claim("D-30", "D-32", "D-36")
@pytest.mark.parametrize("label", [-1, 1])
def test_bernoulli(observe: Observer, label: int) -> None:
    """Logit |φ'| ≤ ¼, |φ''| ≤ ¼ (sharp: 1/(6√3)); probit 1/√(2π), 1/√(2πe); φ' has the sign of the label."""
    steep, bent = 1 / sqrt(2 * pi), 1 / sqrt(2 * pi * exp(1))
    for repaired in REPAIRED:
        logit = ends(Bernoulli("logit").derivative_range(label, "printed", repaired=repaired))
        observe.equal("D-30", logit, [0, 1, -0.25, 0.25, -0.25, 0.25])
        probit = ends(Bernoulli("probit").derivative_range(label, "printed", repaired=repaired))
        observe.equal("D-32", probit, [mpf(0), mpf(1), -steep, steep, -bent, bent], rtol=ROUNDED)
    for link, claim, first, second in (
        ("logit", "D-30", mpf(1) / 4, 1 / (6 * sqrt(mpf(3)))),
        ("probit", "D-32", steep, bent),
    ):
        range_of_first = (mpf(0), first) if label > 0 else (-first, mpf(0))
        sharp = ends(Bernoulli(link).derivative_range(label))
        observe.equal(claim, sharp, [mpf(0), mpf(1), *range_of_first, -second, second], rtol=ROUNDED)


@pytest.mark.claim("D-31", "D-36")
@given(noise=SIZES)
def test_gaussian(observe: Observer, noise: float) -> None:
    """c = 1/(√(2π)σ): φ ≤ c, |φ'| ≤ c/(√e σ), −c/σ² ≤ φ'' ≤ 2c/(σ²e^{3/2}); all three forms are equal."""
    s2 = mpf(noise)
    c = 1 / sqrt(2 * pi * s2)
    steep = c / sqrt(exp(1) * s2)
    truth = [mpf(0), c, -steep, steep, -c / s2, 2 * c / (s2 * exp(mpf(3) / 2))]
    model = Gaussian(noise)
    tables = [model.derivative_range(0.3, "printed", repaired=repaired) for repaired in REPAIRED]
    for ranges in (model.derivative_range(0.3), *tables):
        observe.equal("D-31", ends(ranges), truth, rtol=ROUNDED)


@pytest.mark.claim("D-35", "D-36")
@given(df=st.floats(-1.0, 3.0).map(lambda e: 10.0**e), scale=SIZES)
def test_student_t(observe: Observer, df: float, scale: float) -> None:
    """Table 1 with √(πν)σ in c, or as printed with √(πνσ): each end, from ν and σ."""
    nu, sigma = mpf(df), mpf(scale)
    right, printed = (f(nu, sigma) for f in (reference.student_constant, reference.printed_student_constant))
    for form, repaired, c in (("sharpest", False, right), ("printed", True, right), ("printed", False, printed)):
        slope = c / sigma * (nu + 1) / nu
        steep = slope * sqrt(nu / (nu + 2)) * ((nu + 2) / (nu + 3)) ** ((nu + 3) / 2)
        high = 2 * slope / sigma * ((nu + 2) / (nu + 5)) ** ((nu + 5) / 2)
        ranges = StudentT(df, scale).derivative_range(0.0, form, repaired=repaired)
        observe.equal("D-35", ends(ranges), [mpf(0), c, -steep, steep, -slope / sigma, high], rtol=1e-12)
        observe.holds("D-35", ranges.holds == (form != "printed" or repaired or scale >= 1.0))


@pytest.mark.claim("D-34")
@given(y=COUNTS)
def test_sharp_ends_of_poisson_with_exponential_rate(observe: Observer, y: int) -> None:
    """φ at its peak g = y, φ' at g = y + ½ ± √(y + ¼), φ'' at the roots of the cubic, all at 50 digits."""
    log_density, rate = reference.poisson("exp"), mpf(y)

    def density(g: Any) -> Any:
        return exp(log_density(y, log(g))) if g > 0 else mpf(not y)

    flat = [rate + mpf(1) / 2 + sign * sqrt(rate + mpf(1) / 4) for sign in (-1, 1)]
    cubic = [mpf(1), -3 * (rate + 1), 3 * rate**2 + 3 * rate + 1, -(rate**3)]
    first = [(rate - g) * density(g) for g in flat]
    second = [((rate - g.real) ** 2 - g.real) * density(g.real) for g in polyroots(cubic, maxsteps=500, extraprec=400)]
    truth = [mpf(0), density(rate), *(f(*values, mpf(0)) for values in (first, second) for f in (min, max))]
    observe.equal("D-34", ends(Poisson("exp").derivative_range(y)), truth, rtol=1e-10)


@pytest.mark.claim("D-36")
@given(y=COUNTS, df=st.floats(-1.0, 3.0).map(lambda e: 10.0**e), scale=SIZES)
def test_what_is_shown_contains_the_range(observe: Observer, y: int, df: float, scale: float) -> None:
    """The six printed digits are rounded outwards, so that they are a valid range, too."""
    for model, target in ((Poisson("exp"), y), (Poisson("softplus"), [0, y]), (StudentT(df, scale), 0.0)):
        ranges = model.derivative_range(target)
        shown = [float(v) for pair in re.findall(r"in \[(.*?), (.*?)\]", str(ranges)) for v in pair]
        for k, end in enumerate(ends(ranges)):
            (observe.upper if k % 2 else observe.lower)("D-36", end, shown[k])
            observe.equal("D-36", shown[k], float(np.max(end) if k % 2 else np.min(end)), rtol=1.01e-5)
