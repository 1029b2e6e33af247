"""The PAC-Bayes bounds as records: terms, confidence, broadcasting, certified values, wrong arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpbounds.pacbayes import (
    batch_bound,
    batch_risk_bound,
    bayes_factor,
    bayes_risk_bound,
    bound,
    coverage_factor,
    coverage_rank,
    grid_penalty,
    holdout_bound,
    kl_inverse,
    log_penalty,
    mixture_kl,
    tandem_bound,
    xi,
)


def test_terms_add_up_to_the_right_hand_side():
    B = bound(0.093, 42.0, 404, delta=0.01, log_prior_penalty=grid_penalty(1201, 2))
    parts = [B.terms[name] for name in ("KL/N", "ln(1/p)/N", "ln(ξ/δ)/N")]
    assert sum(parts) == pytest.approx(B.terms["ε"], rel=1e-15)
    assert sum(parts) == pytest.approx(
        (42.0 + log_penalty(404, delta=0.01, log_prior_penalty=grid_penalty(1201, 2))) / 404, rel=1e-14
    )
    assert float(B) == kl_inverse(0.093, B.terms["ε"])
    assert (B.claim, B.confidence, B.side, B.certified) == ("P-14", 0.99, "upper", False)
    assert "Σ p_θ" in B.assumptions[-1]
    assert bound(0.093, 42.0, 404, delta=0.01).claim == "P-09"
    assert "ln(2√N/δ)/N" in bound(0.093, 42.0, 404, delta=0.01, form="printed").terms


def test_everything_broadcasts():
    risk, sizes = np.linspace(0, 1, 5)[:, None], np.array([1, 100, 10**12])
    for form, relaxation in (("sharpest", "kl"), ("printed", "kl"), ("sharpest", "pinsker"), ("printed", "pinsker")):
        for side in ("upper", "lower"):
            options = {"delta": 0.05, "form": form, "relaxation": relaxation, "side": side}
            B, in_risk, in_kl = bound(risk, 2.0, sizes, **options, gradient=True)
            assert in_risk.shape == in_kl.shape == (5, 3)
            proved = bound(risk, 2.0, sizes, **options, rigor="sharp")
            assert B.value.shape == proved.value.shape == B.terms["R_S"].shape == (5, 3)
            outward = (proved.value - B.value) * (1 if side == "upper" else -1)
            assert (outward >= -1e-15).all()
            assert (outward <= 1e-15 * np.maximum(1.0, np.abs(B.value))).all()
            assert float(bound(risk[2, 0], 2.0, 100, **options)) == B.value[2, 1]


def test_limits():
    assert float(bound(0.3, np.inf, 100, delta=0.05)) == 1.0
    assert float(bound(0.3, np.inf, 100, delta=0.05, rigor="sharp")) == 1.0
    assert float(bound(0.3, 1.0, 100, delta=0.05, log_prior_penalty=np.inf, side="lower")) == 0.0
    for kl, penalty in ((np.inf, 1.0), (1.0, np.inf), (np.inf, np.inf)):
        proved = bound(0.3, kl, 100, delta=0.05, log_prior_penalty=penalty, rigor="sharp")
        assert (float(proved), proved.terms["ε"]) == (1.0, np.inf)
    huge = bound(0.3, 1e308, 100, delta=0.05, log_prior_penalty=1e308, rigor="sharp")  # their sum overflows
    assert 2e306 <= huge.terms["ε"] <= 2e306 * (1.0 + 4e-16)
    assert float(bound(1.0, 0.0, 1, delta=1.0)) == 1.0
    assert float(bound(0.0, 0.0, 1, delta=1.0)) == pytest.approx(0.5)  # 1 − 1/ξ(1)
    surely = batch_risk_bound(0.3, batch=10, delta=1.0)
    assert (float(surely), math.copysign(1.0, surely.terms["ε"])) == (0.3, 1.0)  # 0, not -0
    assert math.copysign(1.0, kl_inverse(0.0, 0.1, "lower", gradient=True)[2]) == 1.0
    assert float(bound(0.9, 100.0, 100, delta=0.05, relaxation="pinsker")) > 1.0  # a valid bound, though above 1
    assert float(bound(0.25, 0.0, 10**12, delta=1e-300)) == pytest.approx(0.25, abs=1e-4)


def test_more_data_more_confidence_and_less_complexity():
    values = np.array([float(bound(0.1, 20.0, N, delta=0.05)) for N in (10, 100, 1000, 10**6)])
    assert (np.diff(values) < 0).all()
    values = np.array([float(bound(0.1, KL, 1000, delta=0.05)) for KL in (0.0, 1.0, 100.0, 1e5)])
    assert (np.diff(values) > 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.2, 1.0, 10, 0.1), "risk: expected a number in"),
        ((0.1, -1.0, 10, 0.1), "kl: expected a number >= 0"),
        ((0.1, np.nan, 10, 0.1), "kl: expected a number >= 0"),
        ((0.1, 1.0, 0, 0.1), "N: expected a whole number >= 1"),
        ((0.1, 1.0, 10.5, 0.1), "N: expected a whole number >= 1"),
        ((0.1, 1.0, 10, 0.0), r"delta: expected a number in \(0, 1\], got 0.0"),
        ((0.1, 1.0, 10, 1.5), "delta: expected a number in"),
        ((0.1, 1.0, 10, 0.1, -1.0), "log_prior_penalty: expected a number >= 0"),
        ((0.1, 1.0, 10, 0.1, 0.0, "best"), "form: expected one of 'sharpest', 'printed', got 'best'"),
        ((0.1, 1.0, 10, 0.1, 0.0, "printed", "best"), "relaxation: expected one of 'kl', 'pinsker', got 'best'"),
    ],
)
def test_nonsense_is_refused(arguments, message):
    names = ("risk", "kl", "N", "delta", "log_prior_penalty", "form", "relaxation")
    options = dict(zip(names, arguments, strict=False))
    with pytest.raises(ValueError, match=message):
        bound(**options)
    with pytest.raises(ValueError, match=message):
        bound(**options, gradient=True)


def test_more_nonsense_is_refused():
    with pytest.raises(ValueError, match="side"):
        bound(0.1, 1.0, 10, delta=0.1, side="left")
    with pytest.raises(ValueError, match="N: expected a whole number >= 1, got 0"):
        xi(0)
    with pytest.raises(ValueError, match="points"):
        grid_penalty(0, 2)
    with pytest.raises(ValueError, match="one number for each θ"):
        mixture_kl(3.0, 0.0)
    with pytest.raises(ValueError, match="axis: expected the number of an axis of kl"):
        mixture_kl([[3.0, 4.0], [3.0, 4.0]], np.log(2.0), axis=True)
    with pytest.raises(ValueError, match=r"expected Σ exp\(−penalty\) <= 1"):
        mixture_kl([1.0, 2.0], [0.1, 0.1])
    with pytest.raises(ValueError, match="both or none"):
        bayes_risk_bound(0.1, epsilon=0.5)
    with pytest.raises(ValueError, match="got a lower bound"):
        bayes_risk_bound(bound(0.1, 1.0, 10, delta=0.1, side="lower"))
    with pytest.raises(ValueError, match="batch: expected a whole number >= 1"):
        batch_risk_bound(0.1, 0, delta=0.1)


def test_bayes_risk_carries_what_the_gibbs_bound_assumes():
    gibbs = bound(0.1, 3.0, 400, delta=0.05, rigor="sharp")
    bayes = bayes_risk_bound(gibbs)
    assert float(bayes) == 2 * float(gibbs)
    assert bayes.certified
    assert bayes.confidence == gibbs.confidence
    assert bayes.assumptions[:-1] == gibbs.assumptions
    sharper = bayes_risk_bound(gibbs, epsilon=0.6, least_std=1.0)
    assert float(gibbs) < float(sharper) < float(bayes)
    assert float(bayes_risk_bound(gibbs, epsilon=0.6, least_std=0.0)) == float(bayes)
    np.testing.assert_array_equal(bayes_risk_bound([0.0, 0.5, 1.0]).value, [0.0, 1.0, 2.0])
    assert bayes_factor(1e300, 1e-300) == 2.0


def test_batches_add_their_probability_of_failure():
    whole = batch_bound(0.1, 100, 5.0, 10_000, delta=0.01, batch_delta=0.02)
    assert whole.confidence == pytest.approx(0.97)
    assert float(whole) > float(bound(0.1, 5.0, 10_000, delta=0.01))
    assert float(batch_risk_bound(0.1, 100, delta=1.0)) == 0.1  # no confidence, no width
    assert batch_bound(0.1, 100, 5.0, 10_000, delta=0.7, batch_delta=0.7).confidence == 0.0
    low, high = (float(batch_risk_bound(0.1, 100, delta=0.01, side=side)) for side in ("lower", "upper"))
    assert low < 0.1 < high


def test_soft_minimum_along_an_axis():
    each = np.array([[1.0, np.inf, 3.0], [0.0, 0.0, 0.0]])
    flat = np.log(3.0)
    np.testing.assert_allclose(mixture_kl(each, flat), [-np.log((np.exp(-1) + np.exp(-3)) / 3), 0.0], atol=1e-15)
    np.testing.assert_allclose(mixture_kl(each.T, flat, axis=0), mixture_kl(each, flat), atol=1e-15)


def test_held_out_bounds_broadcast_and_say_what_they_are():
    k, n = np.array([[0], [3]]), np.array([10, 100, 10**6])
    for losses, claim in (("zero-one", "N-held-out"), ("bounded", "N-held-out-kl")):
        plain = holdout_bound(k, n, delta=0.01, losses=losses)
        proved = holdout_bound(k, n, delta=0.01, losses=losses, rigor="sharp")
        assert (plain.claim, plain.certified, proved.certified) == (claim, False, True)
        assert plain.value.shape == proved.value.shape == plain.terms["k/n"].shape == (2, 3)
        np.testing.assert_allclose(plain.value, proved.value, rtol=1e-12)
        assert float(holdout_bound(3, 100, delta=0.01, losses=losses)) == plain.value[1, 1]
        assert (plain.confidence == 0.99).all()
    each = holdout_bound(3, 100, delta=[0.1, 0.01], rigor="sharp").value
    assert each[0] < each[1]
    assert len(holdout_bound(2.5, 100, delta=0.1, losses="bounded").assumptions) == 2


def test_held_out_bounds_refuse_what_cannot_be_counted():
    with pytest.raises(ValueError, match=r"k: expected a whole number >= 0, got 2.5"):
        holdout_bound(2.5, 10, delta=0.1)
    with pytest.raises(ValueError, match=r"k: expected at most n = 10, got 12; .*"):
        holdout_bound([1, 12], 10, delta=0.1)
    with pytest.raises(ValueError, match="losses: expected one of 'zero-one', 'bounded', got 'square'"):
        holdout_bound(1, 10, delta=0.1, losses="square")
    with pytest.raises(ValueError, match=r"delta: expected a number in \(0, 1\], got 0.0"):
        holdout_bound(1, 10, delta=0.0)


def test_coverage_says_how_many_rows_it_needs():
    with pytest.raises(
        ValueError, match=r"n: expected at least 299 rows for level = 0.99 and delta = 0.05, .* got 298"
    ):
        coverage_rank(298, level=0.99, delta=0.05)
    assert coverage_rank(299, level=0.99, delta=0.05) == 299
    with pytest.raises(ValueError, match=r"scores: expected one number for each calibration row, got shape \(2, 3\)"):
        coverage_factor(np.ones((2, 3)), level=0.5, delta=0.5)
    with pytest.raises(ValueError, match="scores: expected a number >= 0"):
        coverage_factor([0.1, np.nan, 0.3, 0.2], level=0.5, delta=0.5)
    with pytest.raises(ValueError, match=r"level: expected a number in \(0, 1\), got 1.0"):
        coverage_rank(10, level=1.0, delta=0.1)
    beyond = coverage_factor([0.1, np.inf, np.inf, 0.2], level=0.75, delta=0.5)
    assert (beyond.factor, beyond.rank) == (np.inf, 4)  # intervals as wide as the line: no other factor covers


def test_tandem_bound_is_capped_and_pays_for_two_draws():
    B = tandem_bound(0.01, 40.0, 4000, delta=0.01, log_prior_penalty=3.0)
    pairs = bound(0.01, 80.0, 4000, delta=0.01, log_prior_penalty=3.0)
    assert float(B) == 4 * float(pairs)
    assert (B.claim, B.terms["2KL/N"], B.terms["T"]) == ("N-tandem", 0.02, float(pairs))
    assert B.assumptions[:-1] == pairs.assumptions
    np.testing.assert_array_equal(tandem_bound([0.4, 1.0], np.inf, 10, delta=0.1).value, [1.0, 1.0])
    assert tandem_bound(0.3, 1.0, 10, delta=0.1, rigor="sharp").certified
