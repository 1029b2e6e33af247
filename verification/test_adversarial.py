"""No interval excludes the truth: every bound given rows against hard instances, beside references in balls."""

from __future__ import annotations

import numpy as np
import pytest
from adversarial import bounds, truths
from adversarial.instances import instance
from hypothesis import given
from hypothesis import strategies as st
from observer import Observer
from test_proved_rounding import exact_kernel

from gpbounds.interval import Interval, Member

EACH = 38
"""Instances of an example: 16 examples of five bounds make 3000."""
CLAIMS = {
    "evidence": "N-member-rounding",
    "gap": "N-member-rounding",
    "gap_from_trace": "N-member-rounding",
    "expected_gap_bounds": "N-dense",
    "computed_evidence": "N-computed",
}


@pytest.mark.claim("N-member-rounding", "N-dense", "N-computed")
@pytest.mark.parametrize("name", bounds.ATTACKS)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_interval_excludes_the_truth(observe: Observer, name: str, seed: int) -> None:
    for each in range(seed, seed + EACH):
        outcome, excluded = bounds.violated(name, each)
        if outcome == "stated":
            observe.holds(CLAIMS[name], not excluded)


def test_most_instances_are_bounded() -> None:
    """A bound that refused everything would exclude nothing."""
    for name in bounds.ATTACKS:
        stated = sum(bounds.violated(name, seed)[0] == "stated" for seed in range(40))
        assert stated > 20, name


def test_bounds_without_their_errors_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As computed, some bounds of every function lie on the wrong side.

    One charge less is not noticed here, as actual errors are 10 to 1000 times smaller than proved ones: each charge has
    its own test in ``test_proved_rounding.py``.
    """
    monkeypatch.setattr(Member, "lowest", property(lambda self: self.value))
    monkeypatch.setattr(Member, "highest", property(lambda self: self.value))
    monkeypatch.setattr("gpbounds.interval.possible", lambda pair, least=0.0: Interval(*pair))
    for name in ("evidence", "gap", "computed_evidence"):
        assert any(bounds.violated(name, seed)[1] for seed in range(60)), name


def test_the_references_are_those_of_mpmath() -> None:
    """Entries of the kernels, and the density of a normal law in 60 digits."""
    import mpmath as mp

    plain = [case for case in map(instance, range(60)) if not {"constant", "scaled"} & set(case.is_hard)]
    for case in [case for case in plain if not hasattr(case.kernel, "k1")][:8]:
        with mp.workdps(60):
            K = exact_kernel(case.kernel, case.X, case.X)
            C = K + mp.mpf(case.noise) * mp.eye(len(case.X))
            y = mp.matrix([mp.mpf(float(value)) for value in case.y])
            density = -((y.T * mp.lu_solve(C, y))[0] + mp.log(mp.det(C)) + len(y) * mp.log(2 * mp.pi)) / 2
        assert float(truths.evidence(case).mid()) == pytest.approx(float(density), rel=1e-14)


def test_an_interval_that_is_wrong_by_a_little_is_noticed() -> None:
    truth = truths.evidence(instance(1))
    middle = float(truth.mid())
    near = np.nextafter(middle, [-np.inf, np.inf])
    assert truths.contains(float(near[0]), truth, float(near[1]))
    assert not truths.contains(float(near[1]), truth, None)
    assert not truths.contains(None, truth, float(near[0]))
