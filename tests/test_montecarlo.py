"""Biased Monte Carlo: broadcasting, limits, small numbers, records, wrong arguments."""

from __future__ import annotations

import json
import re
from functools import cached_property

import numpy as np
import pytest

from gpbounds.errors import NonFinite, NotConverged
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.montecarlo import (
    bias,
    exact_gradient,
    expected_gradients,
    expected_objective,
    failure_share,
    integral,
    lemma6,
    product_gradient,
    sample_size,
    sampled_gradient,
)
from gpbounds.montecarlo.integral import Panels
from gpbounds.montecarlo.sizes import least_above

MODELS = [
    (Gaussian(0.3), 1.2),
    (Bernoulli("probit"), 1),
    (Bernoulli("logit"), 0),
    (Poisson("exp"), 3),
    (Poisson("softplus"), 0),
    (StudentT(3.0, 0.5), -1.0),
]
every_model = pytest.mark.parametrize(("likelihood", "y"), MODELS, ids=lambda x: str(x))
STEP = {"n": 100, "delta": 0.05, "step": 0.1, "iteration": 3}


@every_model
def test_one_sample_is_the_elbo_and_infinitely_many_the_direct_loss(likelihood, y):
    objective = expected_objective(likelihood, y, 0.4, 0.7, [1, np.inf])
    assert objective[0] == pytest.approx(-likelihood.expected_log_density(y, 0.4, 0.7), rel=1e-11)
    assert objective[1] == -likelihood.log_expected_density(y, 0.4, 0.7)
    assert bias(likelihood, y, 0.4, 0.7, np.inf) == 0.0


@every_model
def test_a_point_mass_has_no_bias(likelihood, y):
    value, by_mean, by_variance = bias(likelihood, y, 0.4, 0.0, 10, gradient=True)
    assert (value, by_mean) == (0.0, 0.0)
    nearly = bias(likelihood, y, 0.4, 1e-9, 10, gradient=True)
    assert nearly[2] == pytest.approx(by_variance, rel=1e-5)
    assert nearly[0] == pytest.approx(1e-9 * by_variance, rel=1e-5)


def test_shapes_broadcast_and_numbers_stay_numbers():
    L = np.array([1, 5, 50])
    y, m = np.array([[0], [2]]), np.array([[0.1], [0.2]])
    biases = bias(Poisson("exp"), y, m, 0.5, L)
    assert biases.shape == (2, 3)
    assert biases[1, 2] == pytest.approx(bias(Poisson("exp"), 2, 0.2, 0.5, 50), rel=1e-12)
    assert isinstance(bias(Poisson("exp"), 2, 0.2, 0.5, 50), float)
    value, by_mean, _ = expected_objective(Poisson("exp"), y, m, 0.5, L, gradient=True)
    assert value.shape == by_mean.shape == (2, 3)
    assert bias(Poisson("exp"), np.empty(0), np.empty(0), 1.0, 3).shape == (0,)


@pytest.mark.parametrize("v", [1e-30, 1e-20, 1e-12])
def test_a_small_bias_keeps_its_digits(v):
    model = Bernoulli("logit")
    slope = float(model.derivatives(1, 0.7)[0])
    assert bias(model, 1, 0.7, v, [1, 2, 1000]) == pytest.approx(v * slope**2 / 2 / np.array([1, 2, 1000]), rel=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "y", "m", "v"),
    [
        (Gaussian(0.01), 2.0, -3.0, 1.0),
        (Gaussian(1e-2), 0.0, 0.0, 1e4),
        (Bernoulli("probit"), 0, -20.0, 1.0),
        (Bernoulli("probit"), 0, 8.0, 4.0),
        (Poisson("exp"), 3, -1000.0, 1.0),
        (Poisson("exp"), 5000, 8.0, 0.1),
        (StudentT(0.5, 0.01), 20.0, 0.0, 100.0),
    ],
)
def test_far_from_the_target(likelihood, y, m, v):
    sizes = [1, 2, 3, 100, 1e6]
    biases = bias(likelihood, y, m, v, sizes)
    assert np.isfinite(biases).all()
    assert (biases >= 0.0).all()
    assert (np.diff(biases) <= 1e-12 * biases[0]).all()
    gap = float(likelihood.log_expected_density(y, m, v)) - float(likelihood.expected_log_density(y, m, v))
    assert biases[0] == pytest.approx(gap, rel=1e-7, abs=1e-10 * (1.0 + abs(gap)))


@pytest.mark.parametrize(
    ("likelihood", "y", "m", "v"),
    [
        (Poisson("exp"), 100_000, 8.5432, 1e-7),
        (Poisson("exp"), 1_000_000, 13.458833, 1e-8),
        (Poisson("softplus"), 67_110_450, -1.04, 3e-7),
    ],
)
def test_a_mode_far_from_a_narrow_prediction_is_reached(likelihood, y, m, v):
    """At thirty and more standard deviations log p is not its series, though the series is good near the mean."""
    panels = Panels(likelihood, y, m, v)
    assert panels.modes[1] > 20.0 * panels.std
    assert panels.nodes.weight.sum() == pytest.approx(1.0, abs=1e-9)
    gap = float(likelihood.log_expected_density(y, m, v)) - float(likelihood.expected_log_density(y, m, v))
    assert bias(likelihood, y, m, v, 1) == pytest.approx(gap, rel=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "y", "v"),
    [
        (Gaussian(1e-18), 1e6, 1e12),
        (Gaussian(1e-20), -3e6 + 0.7, 1e10),
        (StudentT(4.0, 1e-10), 1e6 + 1 / 3, 1e12),
    ],
)
def test_a_likelihood_narrower_than_the_spacing_of_doubles_is_refused(likelihood, y, v):
    """Near y the doubles are 1e-10 apart: the rule's E p differs from that of the likelihood, and an error says so."""
    calls = [lambda: bias(likelihood, y, 0.3, v, [2, 10]), lambda: expected_gradients(likelihood, y, 0.3, v, 2)]
    for call in (*calls, lambda: bias(likelihood, y, 0.3, v, 10, method="expansion")):
        with pytest.raises(NotConverged, match=r"expected a rule on \d+ panels .* it gave 1 and is off by"):
            call()


class Short(Panels):
    """Panels that omit half of N(m, v), or the likelihood's peak."""

    def __init__(self, *arguments, low, high):
        super().__init__(*arguments)
        object.__setattr__(self, "kept", (low, high))

    @cached_property
    def fixed(self):
        low, high = self.kept
        return np.linspace(low, high, 400)


def test_a_rule_must_have_mass_one_and_the_mean_of_p():
    """One condition is not enough: panels within 0.4 of y hold all of E p, panels wider than p all of N(0, 1)."""
    whole = Panels(Gaussian(1e-4), 0.5, 0.0, 1.0)
    assert abs(whole.nodes.weight.sum() - 1.0) < 1e-12
    near = Short(Gaussian(1e-4), 0.5, 0.0, 1.0, low=0.1, high=0.9)
    with pytest.raises(NotConverged, match=r"mass 1 and .* it gave 0\.27"):
        _ = near.nodes
    wide = Short(Gaussian(1e-10), 0.5, 0.0, 1.0, low=-12.0, high=12.0)
    with pytest.raises(NotConverged, match="it gave 1 and is off by"):
        _ = wide.nodes


def test_the_record_warns_where_the_printed_gradient_has_the_wrong_sign():
    gradients = expected_gradients(Bernoulli("probit"), 1, 0.5, 2.0, [2, 100])
    assert gradients.wrong_sign.tolist() == [True, False]
    assert "Warning" in str(gradients)
    assert "Warning" not in str(expected_gradients(Bernoulli("probit"), 1, 0.5, 2.0, 100))
    m, v = exact_gradient(Bernoulli("probit"), 1, 0.5, 2.0)
    assert (gradients.by_mean[0], gradients.by_variance[0]) == (m, v)


def test_drawn_gradients_come_from_the_generator_that_is_given():
    arguments = (Poisson("exp"), [0, 3], 0.5, 1.0, 4)
    first, second = (sampled_gradient(*arguments, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)
    assert first[0].shape == (2,)
    assert np.isfinite(sampled_gradient(Poisson("exp"), 3, -1000.0, 1.0, 4, np.random.default_rng(0))).all()


@every_model
def test_drawn_gradients_are_the_ratios_of_sums(likelihood, y):
    """−Σφ'/Σφ, −Σφ'ε/(2√v Σφ) and −Σφ''/(2Σφ), from the same standard normals; minus means of the scores for uPS."""
    noise = np.random.default_rng(7).standard_normal((5, 3))
    m, v = np.array([-0.4, 0.1, 0.9]), 0.7
    value, first, second = likelihood.density_derivatives(y, m + np.sqrt(v) * noise)
    total = value.sum(axis=0)
    expected = {
        "reparametrised": -(first * noise).sum(axis=0) / (2.0 * np.sqrt(v) * total),
        "curvature": -second.sum(axis=0) / (2.0 * total),
    }
    for form, by_variance in expected.items():
        drawn = sampled_gradient(likelihood, y, m, v, 5, np.random.default_rng(7), estimator=form)
        np.testing.assert_allclose(drawn[0], -first.sum(axis=0) / total, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(drawn[1], by_variance, rtol=1e-10, atol=1e-14)
    f = m + noise
    drawn = product_gradient(f, m, v)
    np.testing.assert_allclose(drawn[0], -((f - m) / v).mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(drawn[1], -(((f - m) ** 2 - v) / (2.0 * v * v)).mean(axis=0), rtol=1e-12)


@pytest.fixture
def coarse(monkeypatch):
    """The outer rule with nodes so far apart that even and odd ones differ."""
    monkeypatch.setattr(integral, "STEP", 3.0)
    return monkeypatch


def test_the_outer_rule_halves_its_step_until_even_and_odd_nodes_agree(coarse):
    given_ = (Poisson("exp"), 3, 0.5, 1.0, [2.0, 10.0, 1e4])
    halved = bias(*given_, gradient=True)
    coarse.setattr(integral, "AGREEMENT", np.inf)
    rough = bias(*given_)
    coarse.undo()
    fine = bias(*given_, gradient=True)
    for a, b in zip(halved, fine, strict=True):
        assert a == pytest.approx(b, rel=1e-9)
    assert np.abs(rough / fine[0] - 1.0).max() > 1e-4


def test_an_outer_rule_that_does_not_agree_is_refused(coarse):
    coarse.setattr(integral, "HALVINGS", 1)
    with pytest.raises(NotConverged, match="even and odd nodes of the trapezoidal rule in log t"):
        bias(Poisson("exp"), 3, 0.5, 1.0, [2, 10])


def test_what_lies_beyond_the_last_node_is_infinite_not_nothing(monkeypatch):
    monkeypatch.setattr(integral, "FARTHEST", 1.0)
    assert bias(Poisson("exp"), 3, -1000.0, 1.0, [2, 10]).tolist() == [np.inf, np.inf]


@pytest.mark.broad
@pytest.mark.parametrize(
    ("likelihood", "y", "m", "v"),
    [
        (Poisson("exp"), 3, 0.4, 0.7),
        (Poisson("exp"), 3, -1000.0, 1.0),
        (Gaussian(0.01), 0.0, 0.0, 1e4),
        (Bernoulli("probit"), 0, 8.0, 4.0),
    ],
)
def test_what_the_outer_rule_cuts_off_is_negligible(likelihood, y, m, v, monkeypatch):
    """Values and gradients, also where all of the bias comes from values of p that are rarely drawn."""
    biases = bias(likelihood, y, m, v, [2, 1e6], gradient=True)
    monkeypatch.setattr(integral, "NEGLIGIBLE", 1e-25)
    for part, more in zip(biases, bias(likelihood, y, m, v, [2, 1e6], gradient=True), strict=True):
        assert part == pytest.approx(more, rel=1e-13)


def test_sizes_as_records():
    size = sample_size(Bernoulli("logit"), [0, 1], zeta=0.2, **STEP)
    assert size.L.shape == (2,)
    assert (size.L > size.threshold).all()
    assert "D-50" in str(size)
    assert json.loads(json.dumps(size.to_dict()))["L"] == size.L.tolist()
    single = sample_size(Bernoulli("logit"), 1, zeta=0.2, **STEP)
    assert isinstance(single.L, int)
    assert single.L == size.L[1]
    steps = sample_size(Bernoulli("logit"), 1, zeta=0.2, **{**STEP, "iteration": [1, 2], "step": lambda t: 1 / t})
    assert steps.relative_error.tolist() == [0.5, 0.5]
    assert any("D-43" in note for note in steps.notes)


@pytest.mark.parametrize("form", ["improved", "chernoff"])
def test_smaller_steps_more_data_and_less_failure_ask_for_more(form):
    base = sample_size(Poisson("exp"), 2, zeta=0.01, rule=form, **STEP).threshold
    for change in ({"step": 0.05}, {"n": 1000}, {"delta": 0.01}, {"iteration": 4}, {"zeta": 0.005}):
        assert sample_size(Poisson("exp"), 2, rule=form, **{**STEP, "zeta": 0.01, **change}).threshold > base


@every_model
def test_a_zeta_a_millionth_too_large_is_refused(likelihood, y):
    """Above E p(y|f), or above all of p(y|f), it would promise too few samples."""
    mean = float(np.exp(likelihood.log_expected_density(y, 0.4, 0.7)))
    top = float(likelihood.derivative_range(y).density[1])
    assert sample_size(likelihood, y, zeta=mean, m=0.4, v=0.7, **STEP).zeta == mean
    assert sample_size(likelihood, y, zeta=top, **STEP).zeta == top
    with pytest.raises(ValueError, match=r"zeta: expected at most E p\(y\|f\) at m and v"):
        sample_size(likelihood, y, zeta=mean * (1.0 + 1e-6), m=0.4, v=0.7, **STEP)
    with pytest.raises(ValueError, match="zeta: expected at most the largest value"):
        sample_size(likelihood, y, zeta=top * (1.0 + 1e-6), **STEP)


@pytest.mark.parametrize("k", [0, 1, 7, 738, 10**6, 2**40])
def test_a_number_of_samples_exceeds_its_threshold(k):
    """L exceeds the threshold strictly, also where the threshold was rounded down; and L ≥ 1."""
    assert least_above(float(k)) == k + 1
    assert least_above(k + 0.5) == k + 1
    assert least_above(np.nextafter(k + 1.0, 0.0)) == k + 2  # the threshold itself may be the whole number
    assert lemma6(2.0, 2.0, 2.0, relative_error=0.5, delta=0.1) == 1.0


@pytest.mark.parametrize("zeta", [0.1234564, 0.1234565001, 1 / 3, 0.07])
def test_what_is_said_of_a_sample_size_is_no_more_than_is_known(zeta):
    """c₃ in the sentence is no smaller than c₃, and ζ in the hypothesis no smaller than the one it rests on."""
    size = sample_size(Bernoulli("logit"), 1, zeta=zeta, design=1.2345678, **STEP)
    c3, floor = (re.search(f"{words} ([0-9.e+-]+)[ .]", str(size))[1] for words in ("at most", ">="))
    assert size.c3 <= float(c3) <= size.c3 * (1.0 + 1e-5)
    assert zeta <= float(floor) <= zeta * (1.0 + 1e-5)


def test_lemma6_and_shares():
    assert lemma6([-1.0, 0.0], 1.0, [-0.5, 0.5], relative_error=0.1, delta=0.05).tolist() == [2952.0, 738.0]
    assert failure_share([1, 2], delta=0.05)[1] == pytest.approx(failure_share(1, delta=0.05) / 4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: bias(Poisson(), 3, 0.0, 1.0, 0), "L: expected a whole number >= 1"),
        (lambda: bias(Poisson(), 3, 0.0, 1.0, 1.5), "L: expected a whole number >= 1"),
        (lambda: bias(Poisson(), 3, 0.0, -1.0, 2), "v: expected"),
        (lambda: bias(Poisson(), 3.5, 0.0, 1.0, 2), "y: expected counts"),
        (lambda: bias(Bernoulli(), 2, 0.0, 1.0, 2), "y: expected labels"),
        (lambda: bias("poisson", 3, 0.0, 1.0, 2), "likelihood: expected"),
        (lambda: bias(Poisson(), 3, 0.0, 1.0, 2, method="series"), "method: expected"),
        (lambda: bias(Poisson(), 3, [0.0, 1.0], 1.0, [1, 2, 3]), "broadcast"),
        (lambda: bias(Poisson(), 3, np.nan, 1.0, 2), "m: expected a finite number"),
        (lambda: expected_gradients(Poisson(), 3, 0.0, 0.0, 2), "v: expected a positive"),
        (lambda: sampled_gradient(Poisson(), 3, 0.0, 1.0, 0, np.random.default_rng(0)), "L: expected"),
        (
            lambda: sampled_gradient(Poisson(), 3, 0.0, 1.0, 2, np.random.default_rng(0), estimator="score"),
            "estimator: expected",
        ),
        (lambda: product_gradient([], 0.0, 1.0), "draws: expected"),
        (lambda: product_gradient([1.0], 0.0, 0.0), "v: expected a positive"),
        (lambda: sample_size(Poisson(), 3, zeta=0.1, **{**STEP, "step": 0.0}), "step: expected a positive"),
        (lambda: sample_size(Poisson(), 3, zeta=0.1, **{**STEP, "step": lambda t: -t}), "step: expected a positive"),
        (lambda: sample_size(Poisson(), 3, zeta=0.1, **{**STEP, "n": 0}), "n: expected a whole number >= 1"),
        (
            lambda: sample_size(Poisson(), 3, zeta=0.1, **{**STEP, "delta": 1.0}),
            r"delta: expected a number in \(0, 1\)",
        ),
        (lambda: sample_size(Poisson(), 3, zeta=0.1, **{**STEP, "iteration": 0}), "iteration: expected"),
        (lambda: sample_size(Poisson(), 3, zeta=0.0, **STEP), "zeta: expected a positive"),
        (lambda: sample_size(Poisson(), 3, zeta=0.5, **STEP), "zeta: expected at most the largest value"),
        (lambda: sample_size(Poisson(), 3, zeta=0.2, m=0.0, v=1.0, **STEP), r"zeta: expected at most E p\(y\|f\)"),
        (lambda: sample_size(Poisson(), 3, **STEP), "zeta: expected a lower bound"),
        (lambda: sample_size(Poisson(), 3, m=0.0, **STEP), "m and v: expected both"),
        (lambda: sample_size(Poisson(), 3, m=0.0, v=-1.0, **STEP), "v: expected"),
        (lambda: sample_size(Poisson(), 3, m=-1e4, v=1.0, **STEP), "underflows"),
        (lambda: sample_size(Poisson(), 3, zeta=0.1, rule="printed", **STEP), "expected m and v"),
        (lambda: sample_size(Poisson(), 3, zeta=0.1, rule="sharp", **STEP), "rule: expected"),
        (lambda: lemma6(0.0, 1.0, 0.0, relative_error=0.1, delta=0.1), "mean: expected"),
        (lambda: lemma6(0.0, 1.0, 2.0, relative_error=0.1, delta=0.1), "mean: expected"),
        (lambda: lemma6(0.0, 1.0, 0.5, relative_error=1.0, delta=0.1), "relative_error: expected"),
    ],
)
def test_what_makes_no_sense_is_refused(call, says):
    with pytest.raises((ValueError, NonFinite), match=says):
        call()
