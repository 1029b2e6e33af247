"""Prop. 4 and bounds on predictions in balls: the doubles against them, over the whole range of γ."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from observer import Observer

from gpbounds.bound import Bound
from gpbounds.reference import divergences as reference
from gpbounds.rigor import above, at_bits, below, enclosed, exact
from gpbounds.sandwich import balls as enclosures
from gpbounds.sandwich import predictive, roots, sandwich

GAMMAS = st.floats(-323.0, 307.9).map(lambda e: 10.0**e)
ALLOWED = mp.mpf("3e-16")
"""What `roots` promises in doubles, relative to normal results."""


def ends(formula: Any, gamma: float) -> tuple[Any, Any]:
    """Both ends of a ball, as numbers of mpmath."""
    ball = enclosed(lambda: formula(exact(gamma)))
    with at_bits(2048):
        return mp.mpf(below(ball)), mp.mpf(above(ball))


@pytest.mark.claim("L-32", "L-34")
@given(gamma=GAMMAS)
@example(gamma=5e-324)
@example(gamma=0.25)
@example(gamma=1e308)
def test_roots_in_doubles_against_their_balls(observe: Observer, gamma: float) -> None:
    """Within 3e-16 of the ball for every γ; rounded outwards they are at its end, or one double nearer to the root."""
    near = dict(zip(("low", "high", "log_low"), roots(gamma), strict=True))
    near |= dict(zip(("low_less_one", "high_less_one"), roots(gamma, minus_one=True), strict=True))
    proved = dict(zip(("low", "high", "log_low"), roots(gamma, rigor="sharp"), strict=True))
    proved |= dict(zip(("low_less_one", "high_less_one"), roots(gamma, minus_one=True, rigor="sharp"), strict=True))
    formulas: dict[str, Any] = {
        "high": lambda g: 1 + enclosures.rise(g),
        "high_less_one": enclosures.rise,
        "log_low": lambda g: -enclosures.depth(g),
    }
    if gamma < 350.0:
        formulas["low_less_one"] = lambda g: (-enclosures.depth(g)).expm1()
        formulas["low"] = lambda g: (-enclosures.depth(g)).exp()
    for name, formula in formulas.items():
        low, high = ends(formula, gamma)
        if mp.isinf(low) or mp.isinf(high):
            continue
        scale = ALLOWED * abs(low)
        observe.holds("L-34", low - scale <= near[name] <= high + scale)
        if name.startswith("high"):
            observe.holds("L-34", math.nextafter(float(high), -math.inf) <= proved[name] <= high)
        else:
            observe.holds("L-34", low <= proved[name] <= math.nextafter(float(low), math.inf))


@pytest.mark.claim("L-32")
@given(gamma=st.floats(-40.0, 5.0).map(lambda e: 10.0**e))
def test_balls_contain_the_roots(observe: Observer, gamma: float) -> None:
    """Of 50 digits, by Lambert's W and by Newton's method; and the ball is narrow."""
    with mp.workdps(120):
        _, u, s = reference.sandwich_roots(mp.mpf(gamma))
    for truth, formula in ((u, enclosures.rise), (-s, enclosures.depth)):
        ball = enclosed(lambda formula=formula: formula(exact(gamma)))  # type: ignore[misc]
        observe.holds("L-32", ball.rel_accuracy_bits() >= 62)
        observe.holds("L-32", mp.mpf(below(ball)) <= truth <= mp.mpf(above(ball)))


@pytest.mark.claim("L-30", "L-31", "N-mean")
@given(gamma=st.floats(-300.0, 307.9).map(lambda e: 10.0**e), share=st.floats(0.0, 1.0))
def test_prop_4_in_doubles_against_its_balls(observe: Observer, gamma: float, share: float) -> None:
    """Every number on its side of the one in doubles, and at most 1e-14 from it, if m² does not cancel 2γ."""
    m = share * math.sqrt(gamma)
    near, proved = sandwich(gamma, m, rigor="float"), sandwich(gamma, m, rigor="sharp")
    for name in ("mean", "mean_first", "low", "high", "log_low", "inverse_low", "inverse_high"):
        sure, plain = (float(getattr(result, name)) for result in (proved, near))
        claim = {"mean": "L-30", "mean_first": "N-mean"}.get(name, "L-31")
        observe.holds(claim, getattr(proved, name).certified and not getattr(near, name).certified)
        if not (2.3e-308 < abs(plain) < math.inf):
            continue
        wide = 1e-14 * (1 + (gamma if name in ("low", "inverse_high", "mean_first") else 0.0)) * abs(plain)
        if getattr(proved, name).side == "upper":
            observe.holds(claim, plain - wide <= sure <= plain + wide)
        else:
            observe.holds(claim, plain + wide >= sure >= plain - wide)


@pytest.mark.claim("L-61", "L-62", "N-tail")
@given(
    eta=st.one_of(st.floats(-300.0, -1e-3).map(lambda e: 10.0**e), st.floats(0.01, 1 - 2.0**-53)),
    joint=st.floats(-300.0, 300.0).map(lambda e: 10.0**e),
    share=st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
    form=st.sampled_from(["sharpest", "printed"]),
)
@example(0.3, 0.1, 0.0, "printed")
def test_predictions_are_the_doubles_above_the_theorem(
    observe: Observer, eta: float, joint: float, share: float, form: str
) -> None:
    train = share * joint
    bounds = (Bound(joint, "upper", 0.9, "L-42", certified=True), Bound(train, "lower", 1.0, "L-10", certified=True))
    proved = predictive(bounds[0], eta, train=bounds[1], form=form)
    near = predictive(bounds[0], eta, train=bounds[1], form=form, rigor="float")
    assert proved.kl.certified
    assert not near.kl.certified
    with mp.workdps(400):
        e, gap = mp.mpf(eta), mp.mpf(joint) - mp.mpf(train)
        factor = 1 / e if form == "printed" else min(1 / e, 1 + reference.sandwich_roots(-mp.log(e))[1])
        truth = factor * (mp.mpf(joint) if form == "printed" else gap)
        value = mp.mpf(float(proved.kl))
        observe.upper("L-62", truth, value)
        observe.upper("L-61", gap, mp.mpf(float(proved.expected)))
        if mp.mpf(10) ** -290 < truth < mp.mpf(10) ** 308:
            observe.upper("N-tail", value, truth * (1 + mp.mpf(2) ** -51))


@pytest.mark.claim("L-62")
def test_one_step_up_does_not_round_a_product_of_a_quotient(observe: Observer) -> None:
    """(1/η)·Γ has two roundings: the next double is below Γ/η at these numbers, and a certified prediction is not."""
    eta, joint = 0.9935072423787769, 0.9894307133604132
    truth = mp.mpf(joint) / mp.mpf(eta)
    observe.fails("L-62", truth <= mp.mpf(math.nextafter((1.0 / eta) * joint, math.inf)), "two roundings, one step")
    certified = predictive(Bound(joint, "upper", 1.0, "L-42", certified=True), eta, form="printed").kl
    observe.upper("L-62", truth, mp.mpf(float(certified)))
