"""Sampled losses: derivatives at fixed samples, samples by row and step, extreme densities, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from fitting.objectives.collapsed import Diagonal
from fitting.objectives.free import LossOfRows, collapsed, free
from fitting.objectives.losses import METHODS, Sampling
from fitting.rows.data import Data
from gpbounds.arrays import host
from gpbounds.kernels import Matern, SquaredExponential
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.linalg.parallel import lanes
from gpbounds.linalg.workspace import Workspace
from gpbounds.montecarlo import cover
from gpbounds.montecarlo.addressed import Draws, product_draws
from tests.blas import blas_threads

pytestmark = pytest.mark.lanes

MODELS = [
    Gaussian(0.3),
    Bernoulli("probit"),
    Bernoulli("logit"),
    Poisson("exp"),
    Poisson("softplus"),
    StudentT(2.5, 0.7),
]
every_model = pytest.mark.parametrize("likelihood", MODELS, ids=str)
every_method = pytest.mark.parametrize("method", METHODS)
SEEDS = st.integers(0, 2**32 - 1)
DRAWS = Draws.of(3)


def targets_of(likelihood, rng, n):
    if isinstance(likelihood, Bernoulli):
        return rng.integers(0, 2, (n, 1)).astype(float)
    if isinstance(likelihood, Poisson):
        return rng.poisson(2.0, (n, 1)).astype(float)
    return rng.standard_normal((n, 1))


def sampling(method, samples=3, draws=DRAWS):
    return Sampling(method, draws, samples, smoothing=0.05 if method == "smooth-bmc" else 0.0)


def moments(rng, n):
    return rng.standard_normal((n, 1)), rng.uniform(0.1, 2.0, n)


def slope(function, step=1e-4):
    return (8 * (function(step) - function(-step)) - function(2 * step) + function(-2 * step)) / (12 * step)


# ---------------------------------------------------------------------- derivatives at fixed samples


@every_model
@pytest.mark.parametrize("method", ["bmc", "smooth-bmc", "elbo-mc"])
@given(seed=SEEDS, L=st.integers(1, 5))
def test_derivatives_are_those_of_the_sampled_value(likelihood, method, seed, L):
    rng = np.random.default_rng(seed)
    Y, (m, s) = targets_of(likelihood, rng, 7), moments(rng, 7)
    dm, ds, logs = rng.standard_normal((7, 1)), rng.standard_normal(7), likelihood.log_parameters
    own = rng.standard_normal(logs.size)

    def at(t):
        loss = sampling(method, L).loss(likelihood.with_log_parameters(logs + t * own), step=seed % 5)
        return loss.at(slice(4, 11))(Y, m + t * dm, s * np.exp(t * ds))

    result = at(0.0)
    exact = (result.in_mean * dm).sum() + (result.in_variance * s * ds).sum() + result.in_parameters @ own
    size = np.abs(result.in_mean).sum() + np.abs(result.in_variance).sum() + np.abs(result.in_parameters).sum()
    assert result.in_parameters.shape == logs.shape
    assert exact == pytest.approx(slope(lambda t: at(t).total), rel=1e-7, abs=1e-8 * size)


@every_model
def test_parameters_of_a_likelihood_by_differences(likelihood):
    rng = np.random.default_rng(1)
    y, f, logs = targets_of(likelihood, rng, 9), 3.0 * rng.standard_normal((9, 4)), likelihood.log_parameters
    computed = likelihood.parameter_derivatives(y, f)
    assert computed.shape == (logs.size, 9, 4)
    for row, unit in zip(computed, np.eye(logs.size), strict=True):
        numeric = slope(lambda t, unit=unit: likelihood.with_log_parameters(logs + t * unit).log_density(y, f))
        np.testing.assert_allclose(row, numeric, rtol=1e-7, atol=1e-9)


@every_model
@settings(max_examples=6)
@given(seed=SEEDS)
def test_gradient_of_a_free_posterior(likelihood, seed):
    """Through the features, in w, C, kernel, Z and the parameters of the likelihood."""
    rng = np.random.default_rng(seed)
    X, Z, Y = rng.standard_normal((19, 2)), rng.standard_normal((4, 2)), targets_of(likelihood, rng, 19)
    kernel = SquaredExponential(1.3, [0.7, 1.4])
    C = np.tril(0.3 * rng.standard_normal((4, 4)), -1) + np.diag(rng.uniform(0.3, 1.0, 4))
    point = (kernel.log_parameters, likelihood.log_parameters, Z, rng.standard_normal((4, 1)), C)
    steps = [rng.standard_normal(part.shape) for part in point]
    steps[4] = np.tril(steps[4])

    def at(t):
        logs, own, centres, w, factor = (part + t * step for part, step in zip(point, steps, strict=True))
        source = Data(X, Y, True, 1e-6, 7, space=Workspace(600)).stream(kernel.with_log_parameters(logs), centres, 1e-6)
        loss = sampling("bmc").loss(likelihood.with_log_parameters(own), step=2)
        return free(source, FactorLaw(w, factor), loss, lambda total, kl: (total + 0.1 * kl, 1.0, 0.1))

    g = at(0.0).gradient
    bars = (g.kernel, g.likelihood, g.Z, g.mean, g.factor)
    exact = sum(float((bar * step).sum()) for bar, step in zip(bars, steps, strict=True))
    size = sum(np.abs(bar).sum() for bar in bars)
    assert exact == pytest.approx(slope(lambda t: at(t).value, 1e-5), rel=1e-6, abs=1e-6 * size)


@given(seed=SEEDS, L=st.integers(2, 6))
def test_one_more_sample_lowers_the_mean_over_which_is_left_out(seed, L):
    """Jensen at fixed samples, from which D-22 follows; elbo-mc lies above bmc by the same inequality."""
    rng = np.random.default_rng(seed)
    f = 2.0 * rng.standard_normal(L)

    class Fixed(Draws):
        def normals(self, step, rows, count):
            return f[None, [k for k in range(L) if k != step]][:, :count]

    def value(method, step, count):
        loss = sampling(method, count, Fixed(0)).loss(Bernoulli("logit"), step)
        return loss.at(slice(0, 1))(np.ones((1, 1)), np.zeros((1, 1)), np.ones(1)).total

    all_of_them = value("bmc", L, L)
    without_one = np.mean([value("bmc", k, L - 1) for k in range(L)])
    assert all_of_them <= without_one + 1e-14
    assert without_one <= value("elbo-mc", L, L) + 1e-14
    if L == 2:
        assert without_one == pytest.approx(value("elbo-mc", L, L), rel=1e-14)


def test_the_curvature_form_is_another_derivative_in_the_variance_only():
    rng = np.random.default_rng(0)
    likelihood, Y, (m, s) = Bernoulli("probit"), rng.integers(0, 2, (9, 1)).astype(float), moments(rng, 9)
    plain, curved = (
        Sampling("bmc", DRAWS, 3, estimator=kind).loss(likelihood, 0).at(slice(0, 9))(Y, m, s)
        for kind in ("reparametrised", "curvature")
    )
    assert plain.total == curved.total
    np.testing.assert_array_equal(plain.in_mean, curved.in_mean)
    f = m + np.sqrt(s)[:, None] * DRAWS.normals(0, slice(0, 9), 3)
    density, _, second = likelihood.density_derivatives(Y, f)
    np.testing.assert_allclose(curved.in_variance, -0.5 * second.sum(axis=1) / density.sum(axis=1), rtol=1e-12)
    assert np.abs(plain.in_variance - curved.in_variance).max() > 0.01


def test_product_sampling_reports_the_exact_value():
    rng = np.random.default_rng(2)
    for likelihood in MODELS:
        Y, (m, s) = targets_of(likelihood, rng, 30), moments(rng, 30)
        value = sampling("ups", 1).loss(likelihood, 0).at(slice(0, 30))(Y, m, s).total
        assert value == pytest.approx(-likelihood.log_expected_density(Y[:, 0], m[:, 0], s).sum(), rel=1e-12)


def test_product_sampling_has_no_derivatives_where_the_samples_have_the_moments_of_q(monkeypatch):
    """Samples m ± √v have the mean and the variance of N(m, v): the likelihood has moved neither."""
    rng = np.random.default_rng(3)
    Y, (m, s) = targets_of(MODELS[0], rng, 20), moments(rng, 20)
    pairs = m + np.sqrt(s)[:, None] * np.array([-1.0, 1.0])
    monkeypatch.setattr("fitting.objectives.losses.product_draws", lambda *_: (pairs, np.zeros(20)))
    expected = sampling("ups", 2).loss(MODELS[0], 0).at(slice(0, 20))(Y, m, s)
    np.testing.assert_allclose(expected.in_mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(s * expected.in_variance, 0.0, atol=1e-12)


# ---------------------------------------------------------------------- samples by row and step


def test_numbers_belong_to_their_row_and_step():
    whole = DRAWS.uniforms(5, slice(0, 1000), 3)
    for start, stop in ((0, 1), (1, 8), (17, 900), (999, 1000)):
        np.testing.assert_array_equal(DRAWS.uniforms(5, slice(start, stop), 3), whole[start:stop])
    others = [DRAWS.uniforms(6, slice(0, 1000), 3), DRAWS.uniforms(5, slice(0, 1000), 3, turn=1)]
    for other in [*others, Draws.of(4).uniforms(5, slice(0, 1000), 3)]:
        assert np.unique(np.concatenate([whole, other])).size == 6000
        assert abs(np.corrcoef(whole.ravel(), other.ravel())[0, 1]) < 4.0 / np.sqrt(3000)
    assert Draws.of(np.random.default_rng(3)) == DRAWS == Draws.of(3)
    assert Draws.of(3).key.bit_length() > 64
    normals = DRAWS.normals(0, slice(0, 20_000), 2)
    assert kstest(normals.ravel(), norm.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(normals.T)[0, 1]) < 4.0 / np.sqrt(20_000)
    assert abs(np.corrcoef(normals[1:, 0], normals[:-1, 0])[0, 1]) < 4.0 / np.sqrt(20_000)


def test_draws_by_flat_proposals_have_the_law_of_the_product():
    """Counts far from a wide q, whose product is narrow: its proposals are flat on an interval about the mode."""
    likelihood, y, m, v, count = (
        Poisson("exp"),
        np.array([3.0, 5.0]),
        np.array([-5.0, 0.0]),
        np.array([100.0, 40.0]),
        4000,
    )
    assert (cover(likelihood, y, m, v).width > 0.0).all()
    samples, log_mean = product_draws(
        likelihood, y, m, v, count, lambda turn, k: DRAWS.uniforms(1, slice(0, 2), k, turn)
    )
    np.testing.assert_allclose(log_mean, likelihood.log_expected_density(y, m, v), rtol=1e-12)
    for row in range(2):
        grid = np.linspace(-8.0, 5.0, 8001)
        weights = np.exp(likelihood.log_density(y[row], grid) + norm.logpdf(grid, m[row], np.sqrt(v[row])))
        cdf = np.cumsum(weights) / weights.sum()
        assert kstest(samples[row], lambda f, grid=grid, cdf=cdf: np.interp(f, grid, cdf)).pvalue > 1e-3


@every_model
def test_product_draws_have_the_law_of_the_product(likelihood):
    """Against the distribution function of q̃ by the trapezoidal rule, for three rows at once."""
    y, m, v, count = np.array([1.0, 0.0, 1.0]), np.array([-1.5, 0.3, 2.0]), np.array([2.0, 0.5, 1.0]), 4000
    samples, log_mean = product_draws(
        likelihood, y, m, v, count, lambda turn, k: DRAWS.uniforms(1, slice(0, 3), k, turn)
    )
    np.testing.assert_allclose(log_mean, likelihood.log_expected_density(y, m, v), rtol=1e-12)
    assert samples.shape == (3, count)
    for row in range(3):
        grid = m[row] + np.sqrt(v[row]) * np.linspace(-9.0, 9.0, 4001)
        weights = np.exp(likelihood.log_density(y[row], grid) + norm.logpdf(grid, m[row], np.sqrt(v[row])))
        cdf = np.cumsum(weights) / weights.sum()
        assert kstest(samples[row], lambda f, grid=grid, cdf=cdf: np.interp(f, grid, cdf)).pvalue > 1e-3


@every_model
@every_method
def test_a_row_gets_the_same_from_any_chunk(likelihood, method):
    rng = np.random.default_rng(5)
    Y, (m, s) = targets_of(likelihood, rng, 101), moments(rng, 101)
    loss = sampling(method, 3).loss(likelihood, step=7)
    assert isinstance(loss, LossOfRows)
    whole = loss.at(slice(0, 101))(Y, m, s)
    for cuts in ([0, 50, 101], [0, 1, 2, 40, 101]):
        rows = [slice(a, b) for a, b in itertools.pairwise(cuts)]
        parts = [loss.at(part)(Y[part], m[part], s[part]) for part in reversed(rows)][::-1]
        for name in ("in_mean", "in_variance"):
            together = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(together, getattr(whole, name))
        assert sum(part.total for part in parts) == pytest.approx(whole.total, rel=1e-14)


@every_method
def test_the_number_of_lanes_changes_no_bit_and_the_chunk_only_the_rounding(method):
    rng = np.random.default_rng(0)
    X, likelihood = rng.standard_normal((3000, 2)), Poisson("softplus")
    Y, q = targets_of(likelihood, rng, 3000), FactorLaw(rng.standard_normal((50, 1)), 0.5 * np.eye(50))
    loss = sampling(method, 2).loss(likelihood, step=1)

    def flat(chunk):
        def evaluate(source):
            return free(source, q, loss, lambda total, kl: (total + kl, 1.0, 1.0))

        evaluation, _ = Data(X, Y, True, 1e-6, chunk).sweep(Matern(0.5, 1.3, 0.9), X[:50] + 1e-3, evaluate)
        g = evaluation.gradient
        return np.concatenate([[evaluation.value], g.kernel, g.Z.ravel(), g.mean.ravel(), g.factor.ravel()])

    with blas_threads(1):
        assert lanes() == 1
        single, whole = flat(256), flat(3000)
    with blas_threads(2):
        for _ in range(2):
            np.testing.assert_array_equal(flat(256), single)
        assert lanes() == 2
    np.testing.assert_allclose(whole, single, rtol=1e-9, atol=1e-9 * np.abs(single).max())
    assert np.abs(single).max() > 1.0


def test_a_collapsed_posterior_takes_sampled_losses():
    """Both passes see the same samples: the derivatives are those of the value."""
    rng = np.random.default_rng(6)
    X, Y, Z = rng.standard_normal((23, 1)), rng.standard_normal((23, 1)), np.linspace(-2.0, 2.0, 5)[:, None]
    kernel, loss = SquaredExponential(1.3, 0.8), sampling("bmc").loss(Gaussian(0.3), 0)

    def at(t):
        data = Data(X, Y, True, 1e-6, 7, space=Workspace(0))
        source = data.stream(kernel.with_log_parameters(kernel.log_parameters + np.array([t, -2.0 * t])), Z, 1e-6)
        return collapsed(Diagonal(1.0, 0.2), source, _without_parameters(loss), lambda u, kl: (u + kl, 1.0, 1.0))

    assert at(0.0).gradient.kernel @ [1.0, -2.0] == pytest.approx(slope(lambda t: at(t).value), rel=1e-7)


def _without_parameters(loss):
    class Held:
        def at(self, rows):
            return lambda *given: loss.at(rows)(*given)._replace(in_parameters=np.zeros(0))

    return Held()


def test_each_step_has_its_own_samples_and_a_schedule_its_own_number():
    rng = np.random.default_rng(0)
    Y, (m, s) = targets_of(MODELS[2], rng, 9), moments(rng, 9)
    sampler = Sampling("bmc", DRAWS, lambda step: 1 + step)
    values = []
    for step in range(4):
        loss = sampler.loss(MODELS[2], step)
        assert loss.L == 1 + step
        values += [loss.at(slice(0, 9))(Y, m, s).total, sampler.loss(MODELS[2], step).at(slice(0, 9))(Y, m, s).total]
    assert values[::2] == values[1::2]
    assert len(set(values)) == 4


# ---------------------------------------------------------------------- extreme densities


def test_the_share_of_silenced_rows():
    """Rows of density below c: of Gaussian rows far from their target, exactly those."""
    Y, m, s = np.array([[0.0]] * 6 + [[40.0]] * 4), np.zeros((10, 1)), np.full(10, 1e-4)
    smooth = Sampling("smooth-bmc", DRAWS, 5, smoothing=1e-4)
    loss = smooth.loss(Gaussian(1.0), 0)
    assert loss.silenced_share == 0.0
    parts = [loss.at(rows)(Y[rows], m[rows], s[rows]) for rows in (slice(0, 7), slice(7, 10))]
    assert loss.silenced_share == 0.4
    assert parts[1].total == pytest.approx(-3.0 * np.log(1e-4), rel=1e-12)
    assert np.abs(parts[1].in_mean).max() == 0.0
    bmc = Sampling("bmc", DRAWS, 5).loss(Gaussian(1.0), 0)
    assert np.abs(bmc.at(slice(7, 10))(Y[7:], m[7:], s[7:]).in_mean + 40.0).max() < 0.1
    assert bmc.silenced_share == 0.0


def test_densities_beyond_the_range_of_doubles():
    """log p = −5e5: the value and the derivatives of bmc are finite; a rate that overflows gives +∞, not NaN."""
    Y, m, s = np.array([[1000.0]]), np.zeros((1, 1)), np.array([1.0])
    result = sampling("bmc").loss(Gaussian(1.0), 0).at(slice(0, 1))(Y, m, s)
    f = DRAWS.normals(0, slice(0, 1), 3)[0]
    assert result.total == pytest.approx(
        0.5 * (1000.0 - f.max()) ** 2 + np.log(3.0) + 0.5 * np.log(2 * np.pi), rel=1e-9
    )
    assert result.in_mean[0, 0] == pytest.approx(f.max() - 1000.0, rel=1e-9)
    for method in ("bmc", "elbo-mc"):
        assert sampling(method).loss(Poisson("exp"), 0).at(slice(0, 1))(Y, m + 2000.0, s).total == np.inf


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "mc"}, "method: expected one of 'bmc', 'smooth-bmc', 'elbo-mc', 'ups', got 'mc'"),
        ({"method": "bmc", "samples": 0}, "samples: expected a whole number >= 1"),
        ({"method": "smooth-bmc"}, 'smoothing: expected a number > 0 with method="smooth-bmc" and 0 with others'),
        ({"method": "bmc", "smoothing": 1e-4}, 'got 0.0001 with "bmc"'),
        ({"method": "ups", "estimator": "curvature"}, 'expected "reparametrised" for method="ups"'),
        ({"method": "bmc", "estimator": "second"}, "estimator: expected one of"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Sampling(draws=DRAWS, **options)


def test_steps_targets_and_acceptance_that_make_no_sense_are_refused():
    sampler, one = sampling("bmc"), np.ones((2, 1))
    with pytest.raises(ValueError, match="step: expected a whole number >= 0"):
        sampler.loss(MODELS[0], -1)
    with pytest.raises(ValueError, match=r"y: expected one target for each row, shape \(n, 1\), got \(2, 2\)"):
        sampler.loss(MODELS[0], 0).at(slice(0, 2))(np.ones((2, 2)), np.ones((2, 2)), np.ones(2))
    narrow = StudentT(30.0, 1e-7)
    assert cover(narrow, 0.0, 0.0, 1.0).acceptance < 1e-5
    with pytest.raises(ValueError, match="acceptance above 1e-05"):
        sampling("ups").loss(narrow, 0).at(slice(0, 2))(0.0 * one, 0.0 * one, np.ones(2))


# ---------------------------------------------------------------------- device


@pytest.mark.gpu
@every_model
@every_method
def test_device_and_host_agree(cupy, likelihood, method):
    rng = np.random.default_rng(8)
    X, Z, Y = rng.standard_normal((40, 2)), rng.standard_normal((5, 2)), targets_of(likelihood, rng, 40)
    w, C, kernel = rng.standard_normal((5, 1)), 0.4 * np.eye(5), SquaredExponential(1.3, [0.7, 1.4])
    results = []
    for to in (np.asarray, cupy.asarray):
        source = Data(to(X), to(Y), True, 1e-6, 11).stream(kernel, to(Z), 1e-6)
        loss = sampling(method).loss(likelihood, 4)
        evaluation = free(source, FactorLaw(to(w), to(C)), loss, lambda total, kl: (total + kl, 1.0, 1.0))
        g = evaluation.gradient
        parts = [np.array([evaluation.value]), *map(host, (g.kernel, g.likelihood, g.Z, g.mean, g.factor))]
        results.append(np.concatenate([np.ravel(part) for part in parts]))
        share = loss.silenced_share
        assert isinstance(g.mean, type(to(X)))
    np.testing.assert_allclose(results[1], results[0], rtol=0.0, atol=1e-9 * np.abs(results[0]).max())
    assert 0.0 <= share <= 1.0
