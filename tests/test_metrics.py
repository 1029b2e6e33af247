"""Scores of predictions: predictive laws against mpmath, calibration by enumeration, PIT of true and wrong models."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from fitting import (
    calibration_error,
    classification_error,
    coverage,
    log_loss,
    mean_relative_error,
    randomised_pit,
    square_loss,
)
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT

MODELS = [
    Gaussian(0.3),
    Bernoulli("probit"),
    Bernoulli("logit"),
    Poisson("exp"),
    Poisson("softplus"),
    StudentT(3.0, 0.7),
]
every_model = pytest.mark.parametrize("likelihood", MODELS, ids=str)
SEEDS = st.integers(0, 2**32 - 1)


def draw(likelihood, f, rng):
    """Targets given f, by NumPy's generators."""
    if isinstance(likelihood, Gaussian):
        return f + np.sqrt(likelihood.noise) * rng.standard_normal(f.shape)
    if isinstance(likelihood, StudentT):
        return f + likelihood.scale * rng.standard_t(likelihood.df, f.shape)
    if isinstance(likelihood, Poisson):
        return rng.poisson(np.exp(f) if likelihood.link == "exp" else np.log1p(np.exp(f))).astype(float)
    p = scipy.stats.norm.cdf(f) if likelihood.link == "probit" else 1.0 / (1.0 + np.exp(-f))
    return (rng.random(f.shape) < p).astype(float)


def instances(likelihood, n=2000, seed=0):
    rng = np.random.default_rng(seed)
    m, v = 1.5 * rng.standard_normal(n), rng.uniform(0.05, 1.0, n)
    return draw(likelihood, m + np.sqrt(v) * rng.standard_normal(n), rng), m, v


# ---------------------------------------------------------------------- predictive laws


def given_f(likelihood, y, f):
    """P(Y ≤ y) given f, in mpmath."""
    if isinstance(likelihood, StudentT):
        x = (y - f) / (likelihood.scale * mp.sqrt(3))  # the closed form for three degrees of freedom
        return mp.mpf(1) / 2 + (x / (1 + x * x) + mp.atan(x)) / mp.pi
    rate = mp.exp(f) if likelihood.link == "exp" else mp.log1p(mp.exp(f))
    return mp.gammainc(int(y) + 1, rate, mp.inf, regularized=True)


@pytest.mark.parametrize("likelihood", [Poisson("exp"), Poisson("softplus"), StudentT(3.0, 0.7)], ids=str)
@pytest.mark.parametrize("v", [1e-4, 0.3, 30.0])
@pytest.mark.parametrize("y", [0.0, 4.0, 300.0])
def test_predictive_probabilities_against_mpmath(likelihood, y, v):
    """Absolute errors below 1e-9, for narrow and wide laws of f at, below and above the target."""
    s, rng = np.sqrt(v), np.random.default_rng(int(y))
    if isinstance(likelihood, StudentT):
        bend, width = y, likelihood.scale
    else:
        bend, width = (np.log(y + 1.0), (y + 1.0) ** -0.5) if likelihood.link == "exp" else (y + 1.0, (y + 1.0) ** 0.5)
    m = bend + np.hypot(s, width) * rng.uniform(-2.0, 2.0)
    near = [bend + k * width for k in range(-20, 21, 2) if abs(bend + k * width - m) < 9.0 * s]
    points = [mp.mpf(p) for p in sorted({m + k * s for k in (-9, -4, -1, 1, 4, 9)} | set(near))]
    rule = {"method": "gauss-legendre", "maxdegree": 4}
    with mp.workdps(15):
        truth = mp.quad(lambda f: given_f(likelihood, y, f) * mp.npdf(f, m, mp.sqrt(v)), points, **rule)
    assert likelihood.predictive_cdf(y, m, v)[1] == pytest.approx(float(truth), abs=1e-9)


@pytest.mark.broad
@every_model
@given(seed=SEEDS)
def test_probabilities_of_one_target_are_its_density(likelihood, seed):
    """P(Y ≤ y) − P(Y < y) = E p for counts and labels; the derivative of P(Y ≤ y) is E p otherwise."""
    rng = np.random.default_rng(seed)
    m, v = 2.0 * rng.standard_normal(20), 10.0 ** rng.uniform(-3.0, 1.0, 20)
    y = draw(likelihood, m + np.sqrt(v) * rng.standard_normal(20), rng)
    below, up_to = likelihood.predictive_cdf(y, m, v)
    density = np.exp(likelihood.log_expected_density(y, m, v))
    if isinstance(likelihood, Gaussian | StudentT):
        np.testing.assert_array_equal(below, up_to)
        sides = [likelihood.predictive_cdf(y + k * 1e-3, m, v)[0] for k in (-2, -1, 1, 2)]
        np.testing.assert_allclose(np.array([1.0, -8.0, 8.0, -1.0]) @ sides / 0.012, density, rtol=1e-6, atol=1e-9)
    else:
        np.testing.assert_allclose(up_to - below, density, atol=1e-9)
        if isinstance(likelihood, Poisson):
            np.testing.assert_allclose(likelihood.predictive_cdf(y + 1.0, m, v)[0], up_to, atol=1e-9)
        else:
            np.testing.assert_array_equal(up_to[y > 0], 1.0)
            np.testing.assert_array_equal(below[y == 0], 0.0)


def test_closed_forms_and_point_masses_are_scipys():
    y, m, v = np.array([-1.0, 0.0, 3.0]), np.array([0.3, -2.0, 1.0]), np.array([0.1, 2.0, 0.0])
    np.testing.assert_allclose(
        Gaussian(0.3).predictive_cdf(y, m, v)[1], scipy.stats.norm.cdf(y, m, np.sqrt(v + 0.3)), rtol=1e-14
    )
    probit = scipy.stats.norm.cdf(m / np.sqrt(1.0 + v))
    np.testing.assert_allclose(Bernoulli("probit").predictive_mean(m, v), probit, rtol=1e-13)
    np.testing.assert_allclose(Bernoulli("probit").predictive_cdf(-1.0, m, v)[1], 1.0 - probit, rtol=1e-13)
    counts, none = np.array([0.0, 2.0, 7.0]), np.zeros(3)
    np.testing.assert_allclose(
        Poisson("exp").predictive_cdf(counts, m, none),
        scipy.stats.poisson.cdf([counts - 1, counts], np.exp(m)),
        atol=1e-14,
    )
    np.testing.assert_allclose(
        StudentT(3.0, 0.7).predictive_cdf(y, m, none)[1], scipy.stats.t.cdf(y, 3.0, m, 0.7), atol=1e-14
    )


@every_model
def test_predictive_means(likelihood):
    """E Y: e^(m + v/2) for the exponential link; for counts and labels also Σ y P(Y = y)."""
    m, v = np.array([-1.0, 0.5, 1.0]), np.array([0.2, 0.4, 0.5])
    mean = likelihood.predictive_mean(m, v)
    if isinstance(likelihood, Gaussian | StudentT):
        np.testing.assert_array_equal(mean, m)
        return
    values = np.arange(2.0 if isinstance(likelihood, Bernoulli) else 2000.0)[:, None]
    np.testing.assert_allclose(
        (values * np.exp(likelihood.log_expected_density(values, m, v))).sum(axis=0), mean, rtol=1e-9
    )
    if likelihood == Poisson("exp"):
        np.testing.assert_allclose(mean, np.exp(m + 0.5 * v), rtol=1e-14)


# ---------------------------------------------------------------------- calibration of predictive laws


@every_model
def test_pit_is_uniform_for_the_true_model_and_for_no_other(likelihood):
    """2000 draws, Kolmogorov-Smirnov; a wrong model is overconfident, or has its mean moved."""
    y, m, v = instances(likelihood)
    true = randomised_pit(likelihood, y, m, v, rng=1)
    assert scipy.stats.kstest(true, "uniform").pvalue > 0.02
    np.testing.assert_array_equal(true, randomised_pit(likelihood, y, m, v, rng=np.random.default_rng(1)))
    wrong = randomised_pit(likelihood, y, m + 0.5, v, rng=1)
    assert scipy.stats.kstest(wrong, "uniform").pvalue < 1e-6
    if not isinstance(likelihood, Bernoulli):  # a label says nothing about the spread of its probability
        assert scipy.stats.kstest(randomised_pit(likelihood, y, m, 6.0 * v, rng=1), "uniform").pvalue < 1e-4


@every_model
def test_coverage_of_true_and_overconfident_models(likelihood):
    y, m, v = instances(likelihood)
    covered = coverage(likelihood, y, m, v, [0.5, 0.9])
    error = 4.0 * np.sqrt([0.25 / 2000, 0.09 / 2000])
    assert (covered >= np.array([0.5, 0.9]) - error).all()
    if isinstance(likelihood, Gaussian | StudentT):
        assert (covered <= np.array([0.5, 0.9]) + error).all()
        assert coverage(likelihood, y, m + 0.7, v, 0.9) < 0.88


@given(seed=SEEDS)
def test_coverage_of_counts_is_that_of_intervals_between_quantiles(seed):
    """Quantiles by summing E p over a table of counts; SciPy's intervals at v = 0."""
    rng = np.random.default_rng(seed)
    m, v = rng.uniform(-1.0, 2.0, 30), rng.uniform(0.01, 0.5, 30)
    y, levels = draw(Poisson("exp"), m, rng) + rng.integers(0, 3, 30), np.array([0.3, 0.5, 0.9])
    sums = np.cumsum(np.exp(Poisson("exp").log_expected_density(np.arange(300.0)[:, None], m, v)), axis=0)
    ends = [(sums < 0.5 * (1.0 + sign * levels)[:, None, None]).sum(axis=1) for sign in (-1.0, 1.0)]
    expected = ((ends[0] <= y) & (y <= ends[1])).mean(axis=1)
    np.testing.assert_allclose(coverage(Poisson("exp"), y, m, v, levels), expected, rtol=1e-14)
    low, high = scipy.stats.poisson.interval(0.9, np.exp(m))
    assert coverage(Poisson("exp"), y, m, 0.0 * v, 0.9) == ((low <= y) & (y <= high)).mean()


# ---------------------------------------------------------------------- calibration of probabilities


def test_calibration_error_of_exact_frequencies_is_zero():
    """In each bin k of 10 rows with probability (k + ½)/10 exactly this share of ones, twice; and shifted by .03."""
    probability = np.repeat((np.arange(10) + 0.5) / 10.0, 20)
    labels = np.concatenate([np.arange(20) < 2 * k + 1 for k in range(10)]).astype(float)
    assert calibration_error(labels, probability) == pytest.approx(0.0, abs=1e-15)
    assert calibration_error(labels, probability + 0.03) == pytest.approx(0.03, rel=1e-12)
    assert calibration_error(2.0 * labels - 1.0, probability) == calibration_error(labels, probability)


@pytest.mark.parametrize("p", [0.15, 0.5, 0.72])
def test_calibration_error_of_a_calibrated_model_tends_to_zero(p):
    """Its mean by enumeration of all labels is E|K/n − p|, K binomial, which falls like √(2p(1−p)/(πn))."""
    means = []
    for n in (1, 2, 4, 8):
        enumerated = sum(
            p ** sum(labels) * (1.0 - p) ** (n - sum(labels)) * calibration_error(np.array(labels), np.full(n, p))
            for labels in itertools.product((0, 1), repeat=n)
        )
        k = np.arange(n + 1)
        assert enumerated == pytest.approx(scipy.stats.binom.pmf(k, n, p) @ np.abs(k / n - p), rel=1e-12)
        means.append(enumerated)
    assert means == sorted(means, reverse=True)
    n, k = 4000, np.arange(4001)
    limit = np.sqrt(2.0 * p * (1.0 - p) / (np.pi * n))
    assert scipy.stats.binom.pmf(k, n, p) @ np.abs(k / n - p) == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_calibration_error_of_true_and_overconfident_classifiers(link):
    y, m, v = instances(Bernoulli(link), 4000)
    true, sharp = (calibration_error(y, Bernoulli(link).predictive_mean(scale * m, v)) for scale in (1.0, 4.0))
    assert true < 0.5 * np.sqrt(10 / 4000) < 0.06 < sharp


@given(seed=SEEDS, bins=st.integers(1, 12))
def test_calibration_error_is_its_definition(seed, bins):
    rng = np.random.default_rng(seed)
    p, y = np.concatenate([rng.random(30), [0.0, 1.0]]), rng.integers(0, 2, 32).astype(float)
    inside = np.minimum((p * bins).astype(int), bins - 1)
    terms = [abs(y[inside == b].sum() - p[inside == b].sum()) for b in range(bins)]
    assert calibration_error(y, p, bins) == pytest.approx(sum(terms) / 32.0, rel=1e-12, abs=1e-15)


# ---------------------------------------------------------------------- losses and errors


def test_log_loss_is_that_of_the_closed_forms():
    """Gaussian: the normal density at variance v + σ² (D-05); labels: scikit-learn's log loss of the probabilities."""
    y, m, v = instances(MODELS[0], 50)
    density = scipy.stats.norm.logpdf(y, m, np.sqrt(v + 0.3))
    assert log_loss(Gaussian(0.3), y, m, v) == pytest.approx(-density.mean(), rel=1e-13)
    for likelihood in (Bernoulli("probit"), Bernoulli("logit")):
        y, m, v = instances(likelihood, 50)
        entropy = sklearn.metrics.log_loss(y, likelihood.predictive_mean(m, v))
        assert log_loss(likelihood, y, m, v) == pytest.approx(entropy, rel=1e-12)


@every_model
def test_the_true_law_has_the_least_log_loss(likelihood):
    y, m, v = instances(likelihood)
    least = log_loss(likelihood, y, m, v)
    assert least < min(log_loss(likelihood, y, m + shift, v) for shift in (-0.4, 0.4))


def test_errors_by_hand():
    assert square_loss([1.0, 2.0, 4.0], [1.0, 3.0, 2.0]) == pytest.approx(5.0 / 3.0, rel=1e-15)
    assert classification_error([1, 1, -1, -1], [0.1, -0.1, 0.0, 3.0]) == 0.5
    assert mean_relative_error([0, 1, 10], [0.5, 3.0, 5.0]) == pytest.approx(1.0, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_loss(Gaussian(1.0), [1.0, 2.0], [0.0], [1.0]), r"one shape \(n,\) with n >= 1, got y \(2,\)"),
        (lambda: log_loss(Gaussian(1.0), [], [], []), r"one shape \(n,\) with n >= 1"),
        (lambda: log_loss(Poisson("exp"), [1.5], [0.0], [1.0]), "y: expected counts"),
        (lambda: square_loss([np.nan], [0.0]), "y: expected a finite number"),
        (
            lambda: classification_error([0, 2], [0.0, 1.0]),
            r"y: expected labels in {0, 1} or in {-1, 1}, got \[0.0, 2.0\]",
        ),
        (lambda: calibration_error([0, 1], [0.5, 1.5]), r"probability: expected a number in \[0, 1\]"),
        (lambda: calibration_error([0, 1], [0.5, 0.5], 0), "bins: expected a whole number >= 1"),
        (lambda: mean_relative_error([-1.0], [0.0]), "y: expected a finite number >= 0"),
        (lambda: coverage(Gaussian(1.0), [0.0], [0.0], [1.0], 1.0), r"level: expected a number in \(0, 1\)"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.gpu
@every_model
def test_device_arrays(cupy, likelihood):
    """Predictive laws on the device are those of the host; scores take arrays from either."""
    y, m, v = instances(likelihood, 40)
    far = [cupy.asarray(part) for part in (y, m, v)]
    for on_device, on_host in zip(likelihood.predictive_cdf(*far), likelihood.predictive_cdf(y, m, v), strict=True):
        np.testing.assert_allclose(on_device.get(), on_host, atol=1e-12)
    np.testing.assert_allclose(likelihood.predictive_mean(*far[1:]).get(), likelihood.predictive_mean(m, v), rtol=1e-12)
    assert log_loss(likelihood, *far) == log_loss(likelihood, y, m, v)
