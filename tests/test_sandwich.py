"""What gpbounds.sandwich promises its users."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpbounds.bound import Bound
from gpbounds.divergences import gaussian_kl
from gpbounds.rigor import above, at_bits, exact
from gpbounds.sandwich import balls as enclosures
from gpbounds.sandwich import explicit, predictive, roots, sandwich

GAMMAS = st.floats(-300.0, 2.5).map(lambda e: 10.0**e)
KL = Bound(
    0.02, "upper", 0.95, "L-42", assumptions=("Inputs are iid.",), certified=True, quantity="KL(exact || low rank)"
)


# roots


def test_numbers_give_floats_and_arrays_give_arrays_of_their_shape():
    assert all(type(x) is float for x in (*roots(0.3), *roots(1, minus_one=True), *roots(np.float32(2), rigor="sharp")))
    gamma = np.array([[0.0, 1e-9, 0.2], [0.25, 3.0, 500.0]])
    for minus_one, rigor in itertools.product((False, True), ("float", "sharp")):
        whole = roots(gamma, minus_one=minus_one, rigor=rigor)
        assert len(whole) == (2 if minus_one else 3)
        for i in np.ndindex(gamma.shape):
            assert tuple(x[i] for x in whole) == roots(gamma[i], minus_one=minus_one, rigor=rigor)
    assert [x.shape for x in roots(np.empty((0, 2)))] == [(0, 2)] * 3
    long = np.linspace(0.0, 1.0, 20_001)
    assert (roots(long)[1][::1000] == roots(long[::1000])[1]).all()  # the size of blocks has no effect


@given(gamma=GAMMAS)
def test_they_are_roots(gamma):
    b, t, log_b = roots(gamma)
    below, above = roots(gamma, minus_one=True)
    assert below < 0 < above
    assert 0 < b <= 1 <= t
    assert b == pytest.approx(math.exp(log_b), rel=1e-12)
    assert math.expm1(log_b) == pytest.approx(below, rel=1e-13)
    if gamma > 1e-6:
        assert t - 1 - math.log(t) == pytest.approx(2 * gamma, rel=1e-9)
        assert b - 1 - log_b == pytest.approx(2 * gamma, rel=1e-9)
    else:
        assert above == pytest.approx(2 * math.sqrt(gamma), rel=2 * math.sqrt(gamma) + 1e-15)


@given(gamma=GAMMAS)
def test_certified_roots_enclose_what_the_others_say(gamma):
    b, t, log_b = roots(gamma)
    low, high, log_low = roots(gamma, rigor="sharp")
    assert low <= b * (1 + 4e-16)
    assert high >= t * (1 - 4e-16)
    assert log_low <= log_b * (1 - 4e-16)
    assert low < 1 < high
    for sure, plain in ((low, b), (high, t), (log_low, log_b)):
        assert abs(sure - plain) <= 2 * np.spacing(abs(plain))


@pytest.mark.parametrize("rigor", ["float", "sharp"])
def test_the_ends_of_float64_are_honest(rigor):
    assert roots(0.0, rigor=rigor) == (1.0, 1.0, 0.0)
    assert roots(-0.0, minus_one=True, rigor=rigor) == (0.0, 0.0)
    assert roots(math.inf, rigor=rigor) == (0.0, math.inf, -math.inf)
    assert roots(math.inf, minus_one=True, rigor=rigor) == (-1.0, math.inf)
    assert roots(1e308, rigor=rigor) == (0.0, math.inf, -math.inf)  # 2γ is beyond the floats
    b, t, log_b = roots(500.0, rigor=rigor)
    assert (b, log_b) == (0.0, -1001.0)
    assert t == pytest.approx(1007.9147, rel=1e-6)
    assert 0.0 <= roots(360.0, rigor=rigor)[0] < 1e-312  # denormal
    below, above = roots(5e-324, minus_one=True, rigor=rigor)
    assert -4.5e-162 < below < 0 < above < 4.5e-162


@pytest.mark.parametrize(
    ("gamma", "came"),
    [
        (-1e-300, "-1e-300"),
        (math.nan, "nan"),
        ([0.1, math.nan], r"nan at index \(1,\)"),
        ([math.inf, -1], "-1.0"),
        (-math.inf, "-inf"),
        (None, "None"),
        ("0.1", "0.1"),
        (1j, "1j"),
    ],
)
@pytest.mark.parametrize("rigor", ["float", "sharp"])
def test_what_is_no_divergence_is_refused(gamma, came, rigor):
    with pytest.raises(ValueError, match=f"gamma: expected .*{came}"):
        roots(gamma, rigor=rigor)


def test_explicit_bounds_enclose_the_roots_and_improve_on_the_printed_ones():
    gamma = np.geomspace(1e-12, 300.0, 200)
    b, t, _ = roots(gamma)
    low, high, least, most = explicit(gamma)
    old_low, old_high, old_least, old_most = explicit(gamma, form="printed")
    slack = 1 + 1e-13
    for chain in ((old_low, low, b, high, old_high), (old_least, least, t, most, old_most)):
        assert all((x <= y * slack).all() for x, y in itertools.pairwise(chain))
    far = gamma > 30
    assert (most[far] / t[far] < 1.07).all()
    assert type(explicit(1.0)[0]) is float
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="gamma"):
            explicit(bad)
    with pytest.raises(ValueError, match="form"):
        explicit(1.0, form="best")


# sandwich


def test_a_bound_hands_on_probability_hypotheses_and_certification():
    result = sandwich(KL)
    for bound in (
        result.mean,
        result.mean_first,
        result.low,
        result.high,
        result.log_low,
        result.inverse_low,
        result.inverse_high,
    ):
        assert bound.confidence == 0.95
        assert bound.certified
        assert bound.claim.startswith("L-42, ")
        assert bound.assumptions[0] == "Inputs are iid."
        assert any("non-singular" in sentence for sentence in bound.assumptions)
    assert (result.low.side, result.high.side, result.inverse_low.side, result.mean.side) == (
        "lower",
        "upper",
        "lower",
        "upper",
    )
    assert (float(result.low), float(result.high), float(result.log_low)) == roots(0.02, rigor="sharp")
    assert float(result.inverse_low) <= 1 / float(result.high)
    assert float(result.inverse_high) >= 1 / float(result.low)
    text = str(result)
    assert "KL(exact || low rank) <= 0.02 with probability at least 0.95 (L-42, L-31)" in text
    assert "Assumes: Inputs are iid." in text
    assert json.loads(json.dumps(result.to_dict()))["low"]["value"] == float(result.low)
    with pytest.raises(FrozenInstanceError):
        result.low = KL


@given(gamma=st.floats(-8.0, 2.0).map(lambda e: 10.0**e))
def test_what_is_printed_is_rounded_outwards(gamma):
    """Every printed number has six digits, is rounded outwards, and is within 1e-5 of the value."""
    result = sandwich(gamma)
    text = str(result)
    printed = {
        "kl": re.findall(r"<= (\S+) \(", text)[0],
        "mean": re.findall(r"within (\S+) standard", text)[0],
        "mean_first": re.findall(r"law, (\S+) of the first", text)[0],
        "low": re.findall(r"(\S+) cov2 <= cov1", text)[0],
        "high": re.findall(r"cov1 <= (\S+) cov2", text)[0],
        "inverse_low": re.findall(r"(\S+) cov1 <= cov2", text)[0],
        "inverse_high": re.findall(r"cov2 <= (\S+) cov1", text)[0],
    }
    for name, number in printed.items():
        bound = getattr(result, name)
        excess = (float(number) - float(bound)) * (1 if bound.side == "upper" else -1)
        assert 0.0 <= excess <= 1e-5 * float(bound)


def test_plain_numbers_are_taken_as_exact_and_arrays_broadcast():
    assert not sandwich(0.02).high.certified
    assert sandwich(0.02, rigor="sharp").high.certified
    result = sandwich([0.0, 0.02, math.inf])
    assert result.low.value.tolist() == roots([0.0, 0.02, math.inf])[0].tolist()
    assert result.mean.value.tolist() == [0.0, 0.2, math.inf]
    assert result.mean_first.value.tolist()[::2] == [0.0, math.inf]
    assert result.inverse_high.value.tolist()[::2] == [1.0, math.inf]
    assert sandwich(0.0, rigor="sharp").inverse_high.value == 1.0
    assert "[" in str(result)
    vague = Bound(0.02, "upper", 1.0, "L-42")
    assert not sandwich(vague, rigor="sharp").high.certified


def test_means_that_are_known_to_differ_leave_less_for_the_covariances():
    kl = gaussian_kl(0.3, 1.5, 0.0, 1.0)
    loose, tight = sandwich(kl), sandwich(kl, 0.3)
    assert float(tight.high) == pytest.approx(1.5, rel=1e-12)  # attained in one dimension
    assert float(loose.high) > 1.6
    assert float(sandwich(kl, math.sqrt(2 * kl)).high) == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ValueError, match=r"mahalanobis: expected m² <= 2·KL"):
        sandwich(kl, 1.0)
    with pytest.raises(ValueError, match="mahalanobis"):
        sandwich(kl, -0.1)


@pytest.mark.parametrize("bad", [-1.0, math.nan, "x", None, [0.1, -2.0]])
def test_sandwich_refuses_what_is_no_divergence(bad):
    with pytest.raises(ValueError, match="kl: expected"):
        sandwich(bad)
    with pytest.raises(ValueError, match="kl: expected"):
        sandwich(bad, 0.0)


def test_sandwich_refuses_a_lower_bound():
    with pytest.raises(ValueError, match="expected an upper bound"):
        sandwich(Bound(0.1, "lower", 1.0, "L-10"))


# predictive


def test_the_chain_as_printed_and_as_proved():
    printed, sharp = predictive(KL, 0.05, form="printed"), predictive(KL, 0.05)
    assert float(printed.kl) == pytest.approx(0.02 / 0.05)
    assert float(printed.kl.confidence) == pytest.approx(0.95 - 0.05)
    assert float(sharp.kl) == pytest.approx(0.02 * roots(math.log(20.0))[1], rel=1e-12)
    assert float(sharp.kl.confidence) == pytest.approx(0.95 * 0.95)
    assert float(sharp.expected) == 0.02
    assert sharp.expected.confidence == 0.95
    assert float(sharp.sandwich.high) == pytest.approx(roots(float(sharp.kl))[1])
    assert sharp.sandwich.high.confidence == sharp.kl.confidence
    assert sharp.kl.certified
    assert {"L-60", "L-61", "L-62", "N-tail"} <= set(sharp.kl.claim.split(", "))
    assert "N-tail" not in predictive(KL, 0.5).kl.claim  # there Markov's inequality is sharper
    assert float(predictive(KL, 0.5).kl) == pytest.approx(0.04)
    assert "E KL(predictive)" in str(sharp)
    assert json.loads(json.dumps(sharp.to_dict()))["kl"]["value"] == float(sharp.kl)


@pytest.mark.parametrize("eta", [0.01, 0.02, 0.3])
def test_a_certified_factor_comes_from_a_certified_root(eta):
    """Double precision rounds the first two down, so that they prove nothing."""
    factor = predictive(KL, eta).kl.terms["factor"]
    with at_bits(200):
        chernoff = above(1 + enclosures.rise(-exact(eta).log()))
        assert factor == min(chernoff, above(1 / exact(eta)))
    near = predictive(0.02, eta, rigor="float").kl.terms["factor"]
    assert near < factor or (eta == 0.3 and near == factor)


def test_what_the_training_data_spend_is_not_spent_on_predictions():
    prediction = predictive(0.02, 0.1, train=0.015)
    assert float(prediction.expected) == pytest.approx(0.005)
    assert float(predictive(0.02, 0.1, train=0.02).kl) == 0.0
    half = predictive(KL, 0.1, train=Bound(0.01, "lower", 0.9, "L-10"))
    assert half.expected.confidence == pytest.approx(0.95 + 0.9 - 1)
    with pytest.raises(ValueError, match="train: expected at most the joint"):
        predictive(0.02, 0.1, train=0.03)
    with pytest.raises(ValueError, match="train: expected a lower bound"):
        predictive(0.02, 0.1, train=KL)


def test_the_hypothesis_on_the_test_inputs_is_said():
    mercer = predictive(KL, 0.1, test_inputs="mercer").sandwich.low.assumptions
    assert any("X_test is also drawn iid" in sentence and "L-60" in sentence for sentence in mercer)
    assert any("X_test is any set of points" in s for s in predictive(KL, 0.1, test_inputs="fourier").kl.assumptions)
    assert not any("X_test" in s for s in predictive(KL, 0.1).kl.assumptions)
    assert mercer[0] == "Inputs are iid."


def test_predictive_broadcasts_and_keeps_its_limits():
    prediction = predictive([0.0, 1e-3], np.array([[0.5], [0.01]]))
    assert prediction.kl.value.shape == (2, 2)
    assert (prediction.kl.value[:, 0] == 0.0).all()
    assert prediction.sandwich.low.value[0, 0] == 1.0
    assert float(predictive(math.inf, 0.1).kl) == math.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 0.0}, "eta: expected a number in"),
        ({"eta": 1.0}, "eta"),
        ({"joint": -1.0}, "joint: expected"),
        ({"joint": math.nan}, "joint: expected"),
        ({"joint": Bound(1.0, "lower", 1.0, "x")}, "joint: expected an upper bound"),
        ({"train": -1.0}, "train"),
        ({"test_inputs": "rff"}, "test_inputs: expected one of"),
        ({"form": "best"}, "form: expected one of"),
    ],
)
def test_bad_questions(change, message):
    with pytest.raises(ValueError, match=message):
        predictive(**{"joint": 0.1, "eta": 0.1, **change})
