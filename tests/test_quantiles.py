"""Quantiles of predictive laws and intervals: they invert the distribution function, and hold what they promise."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

from fitting import ExactGP, SparseGP, VariationalGP, VariationalGPClassifier
from gpbounds import SquaredExponential
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT

CONTINUOUS = [Gaussian(0.3), StudentT(3.0, 0.7), StudentT(0.6, 0.2), StudentT(40.0, 2.0)]
DISCRETE = [Poisson("exp"), Poisson("softplus"), Bernoulli("probit"), Bernoulli("logit")]


@pytest.mark.parametrize("likelihood", CONTINUOUS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_quantile_of_a_real_target_is_the_root(likelihood, seed):
    rng = np.random.default_rng(seed)
    p, m, v = rng.uniform(1e-6, 1.0 - 1e-6, 20), 3.0 * rng.standard_normal(20), 10.0 ** rng.uniform(-4.0, 1.0, 20)
    y = likelihood.predictive_quantile(p, m, v)
    np.testing.assert_allclose(likelihood.predictive_cdf(y, m, v)[1], p, rtol=0.0, atol=3e-12)


@pytest.mark.parametrize("likelihood", DISCRETE, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_quantile_of_a_count_is_the_least_that_reaches_it(likelihood, seed):
    rng = np.random.default_rng(seed)
    p, m, v = rng.uniform(size=20), 2.0 * rng.standard_normal(20), 10.0 ** rng.uniform(-3.0, 0.7, 20)
    below, up_to = likelihood.predictive_cdf(likelihood.predictive_quantile(p, m, v), m, v)
    assert (up_to >= p - 1e-9).all()
    assert (below < p + 1e-9).all()


def test_point_masses_are_scipys():
    p = np.array([1e-5, 0.2, 0.5, 0.8, 0.999])
    np.testing.assert_allclose(
        Gaussian(0.3).predictive_quantile(p, 1.2, 0.5), scipy.stats.norm.ppf(p, 1.2, np.sqrt(0.8)), rtol=1e-13
    )
    for df in (0.7, 3.0, 30.0):
        own = StudentT(df, 0.7).predictive_quantile(p, 1.2, 0.0)
        np.testing.assert_allclose(own, scipy.stats.t.ppf(p, df, 1.2, 0.7), rtol=1e-6)
        np.testing.assert_allclose(own[1:], scipy.stats.t.ppf(p[1:], df, 1.2, 0.7), rtol=1e-9)
    np.testing.assert_array_equal(
        Poisson("exp").predictive_quantile(p, 3.0, 0.0), scipy.stats.poisson.ppf(p, np.exp(3.0))
    )
    np.testing.assert_array_equal(Bernoulli("probit").predictive_quantile([0.3, 0.32], 0.5, 0.0), [0.0, 1.0])


@pytest.mark.parametrize("df", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("y", [-1e7, -30.0, 0.4, 1e4])
def test_tails_of_a_student_keep_their_digits(df, y):
    """P(Y ≤ y) in mpmath; the incomplete beta function loses digits near 1, and df < 2 shows it."""
    with mp.workdps(30):
        x = mp.mpf(df) / (df + mp.mpf(y) ** 2)
        tail = mp.betainc(mp.mpf(df) / 2, 0.5, 0, x, regularized=True) / 2
        truth = 1 - tail if y > 0.0 else tail
    assert StudentT(df, 1.0).predictive_cdf(y, 0.0, 0.0)[1] == pytest.approx(float(truth), abs=1e-14)


def test_large_counts_and_wrong_arguments():
    y = Poisson("exp").predictive_quantile([0.025, 0.975], 12.0, 0.25)
    below, up_to = Poisson("exp").predictive_cdf(y, 12.0, 0.25)
    assert ((below < [0.025, 0.975]) & (up_to >= [0.025, 0.975])).all()
    with pytest.raises(ValueError, match="quantiles are below 2\\^53"):
        Poisson("exp").predictive_quantile(0.5, 50.0, 0.1)
    for p in (0.0, 1.0, -0.2, 3.0):
        with pytest.raises(ValueError, match=r"p: expected numbers in \(0, 1\)"):
            Gaussian(1.0).predictive_quantile(p, 0.0, 1.0)
    assert Gaussian(1.0).predictive_quantile(np.zeros((0,)), 0.0, 1.0).shape == (0,)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (80, 1))
    f = np.sin(2.0 * X[:, 0])
    return X, f + 0.2 * rng.standard_normal(80), rng.poisson(np.exp(1.0 + f)).astype(float)


def test_intervals_of_gaussian_models_are_mean_and_noisy_std(data):
    X, y, _ = data
    targets = np.column_stack([y, 50.0 + 10.0 * y])
    model = ExactGP(SquaredExponential(), 0.04, normalize_y=True, optimizer=None).fit(X, targets)
    mean, std = model.predict(X, return_std=True, noisy=True)
    low, high = model.predict_interval(X, 0.5)
    np.testing.assert_allclose(high - mean, 0.6744897501960817 * std, rtol=1e-12)
    np.testing.assert_allclose(low + high, 2.0 * mean, rtol=1e-12)
    sparse = SparseGP("vfe", SquaredExponential(), 0.04, n_inducing=10, optimizer=None).fit(X, y)
    free = VariationalGP(10, kernel=SquaredExponential(), noise=0.04, optimizer=None, random_state=0).fit(X, y)
    np.testing.assert_allclose(sparse.predict_interval(X), free.predict_interval(X), atol=1e-4)
    with pytest.raises(ValueError, match=r"level: expected a number in \(0, 1\)"):
        sparse.predict_interval(X, 1.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_intervals_of_other_likelihoods_hold_what_they_promise(data):
    X, y, counts = data
    poisson = VariationalGP(8, "poisson", kernel=SquaredExponential(), random_state=0, max_iter=20).fit(X, counts)
    low, high = poisson.predict_interval(X, 0.9)
    held = sum(
        np.where((low <= k) & (k <= high), np.exp(poisson.log_predictive_density(X, np.full(80, float(k)))), 0.0)
        for k in range(80)
    )
    assert (held >= 0.9 - 1e-8).all()
    assert held.mean() < 0.98  # as narrow as counts allow
    student = VariationalGP(8, "student-t", normalize_y=True, random_state=0, max_iter=20).fit(X, 5.0 + 100.0 * y)
    low, high = student.predict_interval(X[:3], 0.8)
    for x, a, b in zip(X[:3], low, high, strict=True):
        grid = np.linspace(a, b, 2001)
        density = np.exp(student.log_predictive_density(np.repeat(x[None], 2001, axis=0), grid))
        assert np.trapezoid(density, grid) == pytest.approx(0.8, abs=1e-5)
    assert not hasattr(VariationalGPClassifier(), "predict_interval")


@pytest.mark.gpu
@pytest.mark.parametrize("likelihood", [*CONTINUOUS, *DISCRETE], ids=str)
def test_quantiles_on_a_device_are_those_of_the_host(cupy, likelihood):
    p, m, v = np.array([0.1, 0.5, 0.95]), np.array([0.3, -1.0, 2.0]), np.array([0.2, 1.0, 3.0])
    far = likelihood.predictive_quantile(*(cupy.asarray(part) for part in (p, m, v)))
    np.testing.assert_allclose(far.get(), likelihood.predictive_quantile(p, m, v), rtol=1e-9, atol=1e-9)
