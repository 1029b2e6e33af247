"""Intervals contain what their members bound, and those that cannot be true never leave the library."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpbounds.errors import ImpossibleInterval
from gpbounds.interval import Member, interval, possible
from gpbounds.kernels import SquaredExponential
from gpbounds.renyi import escalation, evidence

SIZES = st.floats(0.0, 1e12)
SHARES = st.lists(st.tuples(SIZES, st.floats(-1.0, 1.0), st.floats(0.0, 1e6)), min_size=1, max_size=4)


@given(truth=st.floats(-1e12, 1e12), lowers=SHARES, uppers=SHARES)
def test_the_ends_enclose_the_truth_if_each_member_is_within_its_error(truth, lowers, uppers) -> None:
    """A member is computed up to its error from a bound on its side; compared as fractions, without tolerance."""

    def members(shares, sign: float) -> dict[str, Member]:
        made = {}
        for number, (distance, share, error) in enumerate(shares):
            value = truth + sign * distance + share * error
            exact = Fraction(truth) + Fraction(sign) * Fraction(distance)
            assume(abs(Fraction(value) - exact) <= Fraction(error))
            made[f"m{number}"] = Member(value, error, "C")
        return made

    low, high = interval("x", members(lowers, -1.0), members(uppers, 1.0))
    assert Fraction(float(low)) <= Fraction(truth) <= Fraction(float(high))
    assert low.certified
    assert high.certified


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_member_that_was_not_computed_drops_out(bad: float) -> None:
    low, high = interval("x", {"a": Member(1.0, 0.1, "A"), "b": Member(5.0, bad, "B")}, {"c": Member(2.0, 0.1, "C")})
    assert low.claim == "A"
    assert 0.89 < float(low) < float(high) < 2.11


@pytest.mark.parametrize(
    ("lower", "upper", "least"),
    [(2.0, 1.0, -math.inf), (math.nan, 1.0, -math.inf), (-3.0, -1.0, 0.0), (0.0, math.nan, 0.0)],
)
def test_two_bounds_that_contradict_each_other_ask_for_a_report(lower: float, upper: float, least: float) -> None:
    pair = interval("KL", {"a": Member(0.0, 0.0, "A")}, {"b": Member(1.0, 0.0, "B")})
    with pytest.raises(
        ImpossibleInterval, match=r"KL: expected a lower bound .*A and B.* error of gpbounds.* report it"
    ):
        possible((replace(pair.lower, value=lower), replace(pair.upper, value=upper)), least)


def test_escalation_does_not_hide_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    """30 digits that a kernel refuses leave the doubles; two that contradict each other are an error."""
    X = np.linspace(0.0, 1.0, 12)[:, None]
    arguments = SquaredExponential(1.0, 5.0), X, np.sin(3.0 * X[:, 0]), X[:4]
    real = escalation.enclosed_evidence

    def crossing(*args, **options):
        low, high = real(*args, **options)
        return replace(low, value=float(high) + 1.0), high

    assert evidence(*arguments, noise=1e-20)[0].claim == "N-exact"
    monkeypatch.setattr(escalation, "enclosed_evidence", crossing)
    with pytest.raises(ImpossibleInterval):
        evidence(*arguments, noise=1e-20)
