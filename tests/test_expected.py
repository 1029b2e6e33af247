"""Expected losses of likelihoods: closed forms in mpmath, limits of the power, derivatives, and their order."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import erfc, exp, log, loggamma, mp, mpf, pi, sqrt

from fitting.objectives.losses import OBJECTIVES, of_likelihood
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT

LIKELIHOODS = [
    Gaussian(0.3),
    Bernoulli("probit"),
    Bernoulli("logit"),
    Poisson("exp"),
    Poisson("softplus"),
    StudentT(2.5, 0.7),
]
POWER = 0.4
PAIRS = [(each, name) for each in LIKELIHOODS for name in OBJECTIVES if name != "square-loss" or each == Gaussian(0.3)]
every_pair = pytest.mark.parametrize(("likelihood", "objective"), PAIRS, ids=lambda each: str(each))


def rows(likelihood, seed: int, n: int = 5):
    """Targets (n, 1), means (n, 1) and variances (n,)."""
    rng = np.random.default_rng(seed)
    m, v = rng.standard_normal(n), 10.0 ** rng.uniform(-2.0, 0.5, n)
    if isinstance(likelihood, Bernoulli):
        y = rng.choice([-1.0, 1.0], n)
    elif isinstance(likelihood, Poisson):
        y = rng.poisson(3.0, n).astype(float)
    else:
        y = m + rng.standard_normal(n)
    return y[:, None], m[:, None], v


def derivative(function, step: float):
    """Central differences of fourth order."""
    return (function(-2 * step) - 8 * function(-step) + 8 * function(step) - function(2 * step)) / (12 * step)


@every_pair
@pytest.mark.parametrize("seed", [0, 1])
def test_derivatives_are_those_of_the_sum(likelihood, objective, seed):
    y, m, v = rows(likelihood, seed)
    rng = np.random.default_rng(seed)
    d_mean, d_variance = rng.standard_normal(m.shape), v * rng.standard_normal(v.shape)
    logs = likelihood.log_parameters
    d_own = rng.standard_normal(logs.size)

    def total(t: float) -> float:
        there = likelihood.with_log_parameters(logs + t * d_own)
        return float(of_likelihood(there, objective, POWER)(y, m + t * d_mean, v + t * d_variance).total)

    here = of_likelihood(likelihood, objective, POWER)(y, m, v)
    assert here.in_parameters.shape == logs.shape
    analytic = (here.in_mean * d_mean).sum() + here.in_variance @ d_variance + here.in_parameters @ d_own
    assert analytic == pytest.approx(derivative(total, 1e-3), rel=1e-7, abs=1e-7)


def exact_terms(likelihood, objective, y, m, v):
    """D-05, D-06, D-07 as the ledger states them."""
    y, m, v = mpf(float(y)), mpf(float(m)), mpf(float(v))
    if isinstance(likelihood, Bernoulli):
        return -log(erfc(-y * m / sqrt(1 + v) / sqrt(mpf(2))) / 2)
    if isinstance(likelihood, Poisson):
        return exp(m + v / 2) - y * m + loggamma(y + 1)
    noise = mpf(likelihood.noise)
    if objective == "elbo":
        return log(2 * pi * noise) / 2 + ((y - m) ** 2 + v) / (2 * noise)
    if objective == "log-loss":
        return log(2 * pi * (noise + v)) / 2 + (y - m) ** 2 / (2 * (noise + v))
    if objective == "square-loss":
        return (y - m) ** 2 / 2
    a = mpf(POWER)
    wide = v + noise / a
    log_normal = -log(2 * pi * wide) / 2 - (y - m) ** 2 / (2 * wide)
    return -(log_normal + log(2 * pi * noise / a) / 2 - a / 2 * log(2 * pi * noise)) / a


@pytest.mark.parametrize(
    ("likelihood", "objective"),
    [
        *((Gaussian(0.3), name) for name in OBJECTIVES),
        (Bernoulli("probit"), "log-loss"),
        (Poisson("exp"), "elbo"),
    ],
    ids=str,
)
def test_closed_forms_of_the_ledger(likelihood, objective):
    y, m, v = rows(likelihood, 3, 40)
    with mp.workdps(30):
        exact = sum(exact_terms(likelihood, objective, *row) for row in zip(y[:, 0], m[:, 0], v, strict=True))
    total = of_likelihood(likelihood, objective, POWER)(y, m, v).total
    assert float(total) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_the_power_joins_the_log_loss_and_the_elbo(likelihood):
    """a = 1 is the log loss (D-03), a → 0 the ELBO's term, and the loss decreases in a (Jensen)."""
    y, m, v = rows(likelihood, 5, 30)

    def parts(objective: str, power: float = 1.0):
        here = of_likelihood(likelihood, objective, power)(y, m, v)
        return np.concatenate([[float(here.total)], here.in_mean[:, 0], here.in_variance, here.in_parameters])

    np.testing.assert_allclose(parts("power", 1.0), parts("log-loss"), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(parts("power", 0.0), parts("elbo"))
    np.testing.assert_array_equal(parts("power", 1e-7), parts("elbo"))
    if not isinstance(likelihood, StudentT):
        np.testing.assert_allclose(parts("power", 2e-6), parts("elbo"), rtol=1e-3, atol=1e-3)
    losses = [parts("power", a)[0] for a in (0.0, 0.35, 0.6, 1.0)]
    assert np.all(np.diff(losses) < 0.0)


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match="square-loss"):
        of_likelihood(Bernoulli("probit"), "square-loss")
    with pytest.raises(ValueError, match="expected one of"):
        of_likelihood(Gaussian(1.0), "risk")
    with pytest.raises(ValueError, match=r"1/\(df \+ 1\)"):
        of_likelihood(StudentT(2.0, 1.0), "power", 0.3)(*rows(StudentT(2.0, 1.0), 0))
    with pytest.raises(ValueError, match="power"):
        of_likelihood(Gaussian(1.0), "power", 1.5)
