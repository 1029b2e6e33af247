"""Means over N(m, v): gradients, limits, and errors where the quadrature fails."""

from __future__ import annotations

import time

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpbounds.likelihoods.bernoulli as bernoulli
import gpbounds.likelihoods.student_t as mixture
import gpbounds.likelihoods.trapezoid as trapezoid
from gpbounds.errors import NotConverged
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.reference import likelihoods as reference

ALL = [
    Gaussian(0.3),
    Bernoulli("probit"),
    Bernoulli("logit"),
    Poisson("exp"),
    Poisson("softplus"),
    StudentT(2.5, 0.7),
    StudentT(40.0, 0.05),
]
every = pytest.mark.parametrize("model", ALL, ids=str)


def exact(model):
    if isinstance(model, Gaussian):
        return reference.gaussian(mp.mpf(model.noise))
    if isinstance(model, StudentT):
        return reference.student_t(mp.mpf(model.df), mp.mpf(model.scale))
    return reference.bernoulli(model.link) if isinstance(model, Bernoulli) else reference.poisson(model.link)


MEANS = ("log_expected_density", "expected_log_density")


@every
@pytest.mark.parametrize("mean", MEANS)
@given(seed=st.integers(0, 10**6))
def test_gradients_are_derivatives(model, mean, seed):
    rng = np.random.default_rng(seed)
    function = getattr(model, mean)
    y, m, v = 1.0, float(3.0 * rng.standard_normal()), float(10.0 ** rng.uniform(-3, 1.5))
    _, by_mean, by_variance = function(y, m, v, gradient=True)
    for got, h, shift in ((by_mean, 2e-4 * np.sqrt(v), (1, 0)), (by_variance, 2e-4 * v, (0, 1))):
        steps = np.array([-2.0, -1.0, 1.0, 2.0]) * h
        values = function(y, m + shift[0] * steps, v + shift[1] * steps)
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        assert abs(got - slope) <= 1e-9 * (1.0 + abs(got)) + 1e-13 * np.abs(values).max() / h


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_fixed_nodes_agree_with_those_that_are_searched(link, monkeypatch):
    """Value and gradient of the ELBO's term for small variances, and beyond the limits of the fixed nodes."""
    rng = np.random.default_rng(0)
    n, model = 3000, Bernoulli(link)
    y, v = rng.choice([-1.0, 1.0], n), 10.0 ** rng.uniform(-12.0, 0.2, n)
    m = rng.choice([1.0, 5.0, 30.0], n) * rng.standard_normal(n)
    m[:200], v[:200], y[:200] = rng.uniform(3.0, 4.0, 200), rng.uniform(0.9, 1.0, 200), 1.0
    assert 300 < ((v > 1.0) | (y * m > 4.0)).sum() < 1500
    fixed = model.expected_log_density(y, m, v, gradient=True)
    monkeypatch.setattr(bernoulli, "WIDEST", -1.0)
    searched = model.expected_log_density(y, m, v, gradient=True)
    for a, b, rtol in zip(fixed, searched, (2e-12, 1e-10, 1e-10), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-290)
        assert (a != b).sum() > 1000
    each = [model.expected_log_density(*row) for row in zip(y[:20], m[:20], v[:20], strict=True)]
    monkeypatch.undo()
    np.testing.assert_array_equal(
        [float(model.expected_log_density(*row)) for row in zip(y[:20], m[:20], v[:20], strict=True)], fixed[0][:20]
    )
    np.testing.assert_allclose(each, fixed[0][:20], rtol=2e-12)


@every
@pytest.mark.parametrize(("a", "seed"), [(0.35, 1), pytest.param(0.8, 2, marks=pytest.mark.slow)])
def test_means_of_powers_are_those_of_mpmath(model, a, seed):
    """log E p^a, whose reference has p^a for p."""
    rng = np.random.default_rng(seed)
    y, m, v = 1.0, float(2.0 * rng.standard_normal()), float(10.0 ** rng.uniform(-2, 1.0))
    log_density = exact(model)
    bends = {Gaussian: [(y, 0.5)], StudentT: [(y, 0.05), (y, 1.0)]}.get(type(model), [(0.0, 1.0)])
    with mp.workdps(20):
        truth = reference.log_expected_density(lambda y, f: mp.mpf(a) * log_density(y, f), y, m, v, bends)
    got = model.log_expected_power(y, m, v, a, gradient=True)
    np.testing.assert_allclose(got, [float(part) for part in truth], rtol=1e-9, atol=1e-11)


@every
@pytest.mark.parametrize("mean", [*MEANS, "log_expected_power"])
def test_derivatives_in_the_parameters_of_a_likelihood(model, mean):
    m, v = np.linspace(-3.0, 4.0, 8), np.geomspace(1e-3, 30.0, 8)
    more = (0.45,) if mean == "log_expected_power" else ()

    def at(logs):
        return getattr(model.with_log_parameters(logs), mean)(1, m, v, *more)

    logs = model.log_parameters
    first = getattr(model, mean)(1, m, v, *more, gradient=True)
    value, by_mean, by_variance, *own = getattr(model, mean)(1, m, v, *more, gradient=True, parameters=True)
    np.testing.assert_array_equal(first, [value, by_mean, by_variance])
    assert len(own) == logs.size
    for k, part in enumerate(own):
        unit = 2e-4 * np.eye(logs.size)[k]
        values = [at(logs + step * unit) for step in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * 2e-4)
        np.testing.assert_allclose(part, slope, rtol=1e-8, atol=1e-8 * np.abs(values[0]).max())
    with pytest.raises(ValueError, match="gradient=True"):
        getattr(model, mean)(1, m, v, *more, parameters=True)


def test_the_parameter_slopes_of_a_student_tend_to_those_of_a_gaussian():
    """ν → ∞ at σ² = noise: ∂ log σ is twice ∂ log σ², and ∂ log ν falls like 1/ν."""
    m, v = np.linspace(-2.0, 2.0, 5), 0.3
    gaussian = Gaussian(0.49)
    for mean in MEANS:
        *_, by_noise = getattr(gaussian, mean)(1, m, v, gradient=True, parameters=True)
        slopes = []
        for df in (1e5, 1e7):
            *_, by_df, by_scale = getattr(StudentT(df, 0.7), mean)(1, m, v, gradient=True, parameters=True)
            slopes.append(by_df)
        np.testing.assert_allclose(by_scale, 2.0 * by_noise, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(slopes[1], slopes[0] / 100.0, rtol=1e-3, atol=1e-9)


@every
def test_the_predictive_mean_is_the_mean_of_the_mean(model):
    """E over N(m, v) of E[y|f], whose inner mean is that at variance 0, by Gauss–Hermite."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    m, v = np.array([-1.5, 0.0, 2.0]), 0.6
    inner = model.predictive_mean(m[:, None] + np.sqrt(v) * nodes, 0.0)
    np.testing.assert_allclose(model.predictive_mean(m, v), inner @ weights / weights.sum(), rtol=1e-8, atol=1e-14)
    if isinstance(model, Poisson):
        rate = np.exp(0.3) if model.link == "exp" else np.log1p(np.exp(0.3))
        assert model.predictive_mean(0.3, 0.0) == pytest.approx(rate, rel=1e-12)


@every
def test_variance_zero_is_the_limit(model):
    y, m = 1.0, np.array([-30.0, -1.0, 0.0, 0.4, 5.0])
    first, second, _ = model.derivatives(y, m)
    for mean, curve in (("log_expected_density", first**2 + second), ("expected_log_density", second)):
        value, by_mean, by_variance = getattr(model, mean)(y, m, 0.0, gradient=True)
        np.testing.assert_allclose(value, model.log_density(y, m), rtol=1e-12)
        np.testing.assert_allclose(by_mean, first, rtol=1e-11)
        np.testing.assert_allclose(by_variance, 0.5 * curve, rtol=1e-9, atol=1e-11)
        for v in (1e-300, 1e-100, 1e-30, 1e-14):
            near = getattr(model, mean)(y, m, v, gradient=True)
            np.testing.assert_allclose(near[0], value, rtol=1e-9)
            np.testing.assert_allclose(near[1], by_mean, rtol=1e-9, atol=1e-13)
            np.testing.assert_allclose(near[2], by_variance, rtol=1e-6, atol=1e-10)


@every
def test_a_mean_is_a_mean_of_means(model):
    """E over N(m, v + w) is E over N(a, v) with a ~ N(m, w): Gauss–Hermite for the outer one."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    m, v, w = np.array([-2.0, 0.3, 1.5]), 0.7, 0.09
    outer = m[:, None] + np.sqrt(w) * nodes
    inner = np.exp(model.log_expected_density(1, outer, v)) @ weights
    np.testing.assert_allclose(np.log(inner), model.log_expected_density(1, m, v + w), rtol=1e-10, atol=1e-12)
    inner = model.expected_log_density(1, outer, v) @ weights
    np.testing.assert_allclose(inner, model.expected_log_density(1, m, v + w), rtol=1e-10)


def test_symmetries():
    m, v = np.linspace(-40.0, 40.0, 9), np.geomspace(1e-4, 1e4, 5)[:, None]
    for model in (Bernoulli("probit"), Bernoulli("logit")):
        for mean in MEANS:
            function = getattr(model, mean)
            np.testing.assert_allclose(function(-1, m, v), function(1, -m, v), rtol=1e-13)
    for mean in MEANS:
        function = getattr(StudentT(3.0, 1.0), mean)
        np.testing.assert_allclose(function(2.0 + m, m, v), function(2.0 - m, -m, v), rtol=1e-12)
        wide = getattr(StudentT(3.0, 10.0), mean)(20.0, 10.0 * m, 100.0 * v)
        np.testing.assert_allclose(wide, function(2.0, m, v) - np.log(10.0), rtol=1e-12, atol=1e-12)
    # no event at all: the softplus rate at y = 0 is the logit at −f
    both = Poisson("softplus").log_expected_density(0, m, v), Bernoulli("logit").log_expected_density(-1, m, v)
    np.testing.assert_allclose(*both, rtol=1e-11, atol=1e-13)


def test_a_probability_next_to_one_keeps_what_is_missing():
    for model in (Bernoulli("probit"), Bernoulli("logit")):
        sure = model.log_expected_density(1, 30.0, 1e-3)
        np.testing.assert_allclose(-sure, np.exp(model.log_expected_density(-1, 30.0, 1e-3)), rtol=1e-12)


def test_cauchy_is_voigt():
    from scipy.special import voigt_profile

    rng = np.random.default_rng(0)
    m, v = 20.0 * rng.standard_normal(200), 10.0 ** rng.uniform(-4, 4, 200)
    density = np.exp(StudentT(1.0, 0.3).log_expected_density(0.0, m, v))
    np.testing.assert_allclose(density, voigt_profile(m, np.sqrt(v), 0.3), rtol=1e-10)


def test_extremes_are_finite_or_said():
    m = np.array([-1e4, -1e3, 1e3, 1e4])
    for model in ALL:
        for v in (1e-8, 1.0, 1e8):
            assert np.isfinite(model.log_expected_density(1, m, v)).all() or isinstance(model, Poisson)
            assert not np.isnan(model.expected_log_density(1, m, v)).any()
    assert Poisson("exp").expected_log_density(1, 0.0, 1e4) == -np.inf
    assert np.isfinite(Poisson("softplus").log_expected_density([0, 3, 10**6], 0.0, 1e8)).all()


def test_what_does_not_converge_is_said(monkeypatch):
    monkeypatch.setattr(trapezoid, "LEVELS", 1)
    monkeypatch.setattr(trapezoid, "NODES", 6)
    with pytest.raises(NotConverged, match="even and odd nodes"):
        Bernoulli("logit").log_expected_density(1, 0.0, 100.0)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("model", ALL[1:5], ids=str)
def test_gradients_are_found_however_small_they_are(model, mean):
    """Means to ±300 and every variance: negligible slopes that underflow do not make the rule fail."""
    m, v = np.linspace(-300.0, 300.0, 25)[:, None], np.array([0.01, 1.0, 8.0, 16.0, 31.0, 50.0, 80.0, 1e3, 1e4])
    assert all(not np.isnan(part).any() for part in getattr(model, mean)(1, m, v, gradient=True))


@pytest.mark.parametrize("width", [0.2, 0.1, 0.05])
def test_the_rule_doubles_its_nodes_until_even_and_odd_ones_agree(width, monkeypatch):
    """N(t|0.3, width²), and t² times it, much narrower than the spacing of the nodes."""

    def bump(t, w):
        density = np.exp(-0.5 * ((t - 0.3) / w) ** 2) / (np.sqrt(2.0 * np.pi) * w)
        return [density, t * t * density]

    unit = np.ones(1)
    given_ = (bump, (width * unit,), -6.0 * unit, 6.0 * unit, 0.3 * unit, unit, 2)
    total, moment = trapezoid.integrate(*given_)
    assert total[0] == pytest.approx(1.0, rel=1e-11)
    assert moment[0] == pytest.approx(width**2 + 0.09, rel=1e-9)
    monkeypatch.setattr(trapezoid, "AGREEMENT", np.inf)
    monkeypatch.setattr(trapezoid, "NEAR_ENOUGH", np.inf)
    assert abs(trapezoid.integrate(*given_)[0][0] - 1.0) > 1e-5  # by the first nodes


def test_what_is_integrated_beside_must_agree_too_unless_it_is_negligible_in_its_units():
    """A second column that oscillates within a node's spacing never converges, unless it is below 1e-20 units."""
    unit = np.ones(1)

    def columns(t, size):
        return [np.exp(-0.5 * t * t), size * np.sin(1e12 * (t + 0.1) ** 2) * np.exp(-0.5 * t * t)]

    given_ = (-8.0 * unit, 8.0 * unit, 0.0 * unit, 0.5 * unit, 2)
    with pytest.raises(NotConverged, match="even and odd nodes"):
        trapezoid.integrate(columns, (unit,), *given_)
    with pytest.raises(NotConverged, match="even and odd nodes"):
        trapezoid.integrate(columns, (unit,), *given_, (unit,))
    tiny = trapezoid.integrate(columns, (1e-20 * unit,), *given_, (unit,))
    assert tiny[0][0] == pytest.approx(np.sqrt(2.0 * np.pi), rel=1e-12)
    assert abs(tiny[1][0]) < 1e-18


@pytest.mark.parametrize(("width", "refused"), [(0.5, False), (0.05, False), (0.003, True)])
def test_the_rule_of_mixtures_halves_its_step_until_it_agrees(width, refused):
    def columns(x, w):
        return [np.exp(-0.5 * ((x - 0.07) / w) ** 2) / (np.sqrt(2.0 * np.pi) * w)]

    given_ = (columns, [np.array([width])], -4.0, 0.25, np.array([4.0]), 1)
    if refused:
        with pytest.raises(NotConverged):
            mixture._marched(*given_)
    else:
        assert mixture._marched(*given_)[0][0] == pytest.approx(1.0, rel=1e-11)


@every
def test_many_are_quick(model):
    rng = np.random.default_rng(1)
    m, v = 2.0 * rng.standard_normal(20_000), rng.lognormal(size=20_000)
    spent = []
    for _ in range(3):
        start = time.process_time()
        model.log_expected_density(1, m, v)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.2  # ten microseconds each; the benchmark holds the promise of two


@pytest.mark.gpu
@every
def test_on_a_gpu_the_means_are_the_same(model, cupy):
    rng = np.random.default_rng(2)
    m, v = 10.0 * rng.standard_normal(300), 10.0 ** rng.uniform(-4, 3, 300)
    arrays = [cupy.asarray(a) for a in (np.ones(300), m, v)]
    for mean in MEANS:
        expected = getattr(model, mean)(1, m, v, gradient=True)
        for a, b in zip(getattr(model, mean)(*arrays, gradient=True), expected, strict=True):
            np.testing.assert_allclose(a.get(), b, rtol=1e-10, atol=1e-14)
    for a, b in zip(model.derivatives(arrays[0], arrays[1]), model.derivatives(1, m), strict=True):
        np.testing.assert_allclose(a.get(), b, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(
        model.derivative_range(arrays[0]).second[1].get()[0], model.derivative_range(1).second[1]
    )


@pytest.mark.parametrize(("y", "m", "v", "a"), [(1000, -5, 3, 0.6), (10000, 2, 30, 0.6), (10000, -20, 0.5, 0.01)])
def test_the_power_of_a_large_count_far_from_its_mean(y, m, v, a):
    """The bracket of the mode then reaches rates that overflow."""
    with mp.workdps(30):

        def log_product(f):
            return a * (y * f - mp.exp(f) - mp.loggamma(y + 1)) - (f - m) ** 2 / (2 * mp.mpf(v))

        peak = mp.findroot(lambda f: a * (y - mp.exp(f)) - (f - m) / mp.mpf(v), mp.log(y) - 0.1)
        top, width = log_product(peak), 1 / mp.sqrt(a * mp.exp(peak) + 1 / mp.mpf(v))
        nodes = [peak + k * width for k in range(-40, 41, 4)]
        expected = top + mp.log(mp.quad(lambda f: mp.exp(log_product(f) - top), nodes) / mp.sqrt(2 * mp.pi * v))
    assert Poisson("exp").log_expected_power(y, m, v, a) == pytest.approx(float(expected), rel=1e-12)


def close_on_a_gpu(got, expected, names):
    """Equal to rounding, beside what the sums of derivatives with cancellation lose."""
    for name, a, b in zip(names, got, expected, strict=True):
        np.testing.assert_allclose(a.get(), b, rtol=1e-12 if name == "value" else 2e-11, atol=1e-13, err_msg=name)


@pytest.mark.gpu
@pytest.mark.parametrize("model", ALL[1:], ids=str)
def test_a_quadrature_in_one_kernel_is_that_of_the_host(model, cupy):
    """Both means and a power, with all derivatives: any targets, deviations, and variances from 0 on."""
    rng = np.random.default_rng(5)
    n, wide = 400, not isinstance(model, Poisson)
    m, v = (10.0 if wide else 2.0) * rng.standard_normal(n), 10.0 ** rng.uniform(-6.0, 3.0 if wide else 0.5, n)
    v[:20], m[20:40], v[40:60] = 0.0, 30.0 * rng.standard_normal(20) if wide else -20.0, 1e-230
    y = rng.choice([0.0, 1.0], n) if isinstance(model, Bernoulli) else 5.0 * rng.standard_normal(n)
    if isinstance(model, Poisson):
        y = np.floor(10.0 ** rng.uniform(-1.0, 4.0, n))
    names = ("value", "in the mean", "in the variance", *model.parameter_names)
    asked = {"gradient": True, "parameters": True}
    for mean in (*MEANS, "log_expected_power"):
        function, power = getattr(model, mean), (0.6,) if mean == "log_expected_power" else ()
        moved, expected = [cupy.asarray(a) for a in (y, m, v)], function(y, m, v, *power, **asked)
        close_on_a_gpu(function(*moved, *power, **asked), expected, names)
        np.testing.assert_array_equal(function(*moved, *power).get(), function(*moved, *power, **asked)[0].get())
    np.testing.assert_allclose(model.predictive_mean(*moved[1:]).get(), model.predictive_mean(m, v), rtol=1e-11)


@pytest.mark.gpu
@pytest.mark.parametrize("model", ALL[1:], ids=str)
def test_a_kernel_says_nan_where_it_cannot_integrate(model, cupy):
    """Where its caller has checked the arguments; others get the error of the host."""
    y, m = cupy.ones(3), cupy.asarray([0.5, 0.5, float("nan")])
    v = cupy.asarray([0.5, -1e-9, 0.5])
    for mean in (model.log_expected_power, model.expected_log_density):
        power = {"power": 0.5} if mean == model.log_expected_power else {}
        if mean == model.expected_log_density and model == Poisson("exp"):
            continue  # a closed form
        parts = mean(y, m, v, **power, gradient=True, checked=True)
        for part in parts:
            np.testing.assert_array_equal(np.isnan(part.get()), [False, True, True])
    if not isinstance(model, StudentT):
        with pytest.raises(NotConverged, match="even and odd nodes"):
            model.log_expected_power(cupy.ones(1), cupy.zeros(1), cupy.asarray([1e60]), 0.5)


@given(st.floats(-3.0, 14.0), st.floats(-3.0, 14.0), st.floats(4.0, 40.0))
def test_a_long_interval_is_spread_over_as_many_steps(low_power, high_power, steps):
    """t = x + κx³ reaches both ends, and x covers at most the steps, nearly all of them if the interval is long."""
    low, high = np.array([10.0**low_power]), np.array([10.0**high_power])
    kappa, first, last = trapezoid.spread(low, high, np.array([steps]))
    for x, t in ((first, -low), (last, high)):
        assert x + kappa * x**3 == pytest.approx(t, rel=1e-9)
    length = float((last - first)[0])
    assert length <= max(steps, float((low + high)[0]) if kappa[0] == 0.0 else steps) * (1.0 + 1e-12)
    if min(low[0], high[0]) > 1e9 * steps:
        assert length >= 0.99 * steps
