"""Product sampling: shapes, seeds, proposals, acceptance, wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest

from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.montecarlo import cover, sample_product
from gpbounds.montecarlo.product import Rejection

MODELS = [
    (Gaussian(0.3), lambda rng, n: 3.0 * rng.standard_normal(n)),
    (Bernoulli("probit"), lambda rng, n: rng.integers(0, 2, n).astype(float)),
    (Bernoulli("logit"), lambda rng, n: rng.integers(0, 2, n).astype(float)),
    (Poisson("exp"), lambda rng, n: rng.poisson(5.0, n).astype(float)),
    (Poisson("softplus"), lambda rng, n: rng.poisson(5.0, n).astype(float)),
    (StudentT(2.0, 0.3), lambda rng, n: 3.0 * rng.standard_normal(n)),
]
every_model = pytest.mark.parametrize(("likelihood", "targets"), MODELS, ids=lambda x: str(x)[:24])


@every_model
@pytest.mark.parametrize("proposal", ["best", "widened", "shifted", "flat"])
def test_no_acceptance_probability_exceeds_one(likelihood, targets, proposal):
    if isinstance(likelihood, StudentT) and proposal in ("shifted", "flat"):
        return
    rng = np.random.default_rng(0)
    n = 3000
    y, m, v = targets(rng, n), 8.0 * rng.standard_normal(n), 10.0 ** rng.uniform(-6, 3, n)
    envelope = cover(likelihood, y, m, v, proposal)
    assert ((envelope.acceptance > 0.0) & (envelope.acceptance <= 1.0)).all()
    work = Rejection(likelihood, y, m, v, envelope, 1)
    columns = np.arange(n)
    for scale in (1e-9, 1e-6, 1e-3, 1.0, 5.0):
        t = scale * np.sqrt(v) * rng.standard_normal((20, n))
        with np.errstate(all="ignore"):
            log_ratio = work.log_ratio(t, columns)
            tail = np.where(
                work.width > 0.0, np.maximum(np.abs(t) / np.where(work.width > 0, work.width, 1) - 1, 0), 0.0
            )
        if not (isinstance(likelihood, Gaussian) and proposal == "best"):
            assert (log_ratio + tail).max() <= 1e-11


@pytest.mark.parametrize(("likelihood", "targets"), [MODELS[1], MODELS[2], MODELS[5]], ids=lambda x: str(x)[:24])
def test_near_the_contact_rounding_makes_no_ratio_exceed_one(likelihood, targets):
    """Where |log p| is moderate its rounding is below 1e-14, by which the base is raised."""
    rng = np.random.default_rng(4)
    n = 2000
    y, m, v = targets(rng, n), 2.0 * rng.standard_normal(n), 10.0 ** rng.uniform(-2, 1, n)
    for proposal in ("best", "widened"):
        work = Rejection(likelihood, y, m, v, cover(likelihood, y, m, v, proposal), 1)
        for scale in (1e-9, 1e-7, 1e-5):
            t = scale * np.sqrt(v) * rng.standard_normal((10, n))
            assert work.log_ratio(t, np.arange(n)).max() <= 0.0


@every_model
def test_many_columns_of_very_different_need(likelihood, targets):
    rng = np.random.default_rng(1)
    y, m, v = targets(rng, 500), 3.0 * rng.standard_normal(500), 10.0 ** rng.uniform(-3, 2, 500)
    sample = sample_product(likelihood, y, m, v, 400, rng)
    assert sample.draws.shape == (400, 500)
    assert np.isfinite(sample.draws).all()
    assert sample.accepted >= sample.draws.size
    by_mean = np.asarray(likelihood.log_expected_density(y, m, v, gradient=True)[1])
    pull = (sample.draws - m) / v
    z = (pull.mean(axis=0) - by_mean) / (pull.std(axis=0) / 20.0)
    assert abs(z.mean()) < 0.25
    assert 0.8 < z.std() < 1.25


def test_shapes_and_seeds():
    arguments = (Poisson("exp"), [[0], [3]], [0.1, 0.2, 0.3], 1.0, 7)
    first, second = (sample_product(*arguments, np.random.default_rng(5)) for _ in range(2))
    assert first.draws.shape == (7, 2, 3)
    assert np.array_equal(first.draws, second.draws)
    assert first.envelope.acceptance.shape == (2, 3)
    assert sample_product(Poisson("exp"), 3, 0.1, 1.0, 7, np.random.default_rng(5)).draws.shape == (7,)
    assert sample_product(Poisson("exp"), np.empty(0), 0.1, 1.0, 7, np.random.default_rng(5)).draws.shape == (7, 0)


def test_a_gaussian_likelihood_rejects_nothing():
    sample = sample_product(Gaussian(0.5), [1.0, -2.0], 0.3, 1.5, 100_000, np.random.default_rng(2))
    assert sample.acceptance == 1.0
    variance = 1 / (1 / 1.5 + 2)
    assert sample.draws.mean(axis=0) == pytest.approx(variance * (0.3 / 1.5 + 2 * np.array([1.0, -2.0])), abs=0.01)
    assert sample.draws.var(axis=0) == pytest.approx([variance] * 2, rel=0.02)


def test_the_best_proposal_is_the_most_accepted():
    rng = np.random.default_rng(3)
    y, m, v = rng.poisson(3.0, 300), 3.0 * rng.standard_normal(300), 10.0 ** rng.uniform(-3, 3, 300)
    for likelihood in (Poisson("exp"), Poisson("softplus")):
        rates = {kind: cover(likelihood, y, m, v, kind).acceptance for kind in ("best", "widened", "shifted", "flat")}
        rest = np.maximum.reduce([rates["widened"], rates["shifted"], rates["flat"]])
        assert rates["best"] == pytest.approx(rest, rel=1e-12)
        assert (rates["best"] >= 0.25 * (1 - 1e-8)).all()
        wider = cover(likelihood, y[:, None], m[:, None], v[:, None], "widened", np.array([1.0, 2.0, 30.0])).acceptance
        assert (wider <= rates["widened"][:, None] * (1 + 1e-10)).all()


@pytest.mark.parametrize("m", [-1e4, -40.0, 0.0, 40.0, 700.0])
@pytest.mark.parametrize("v", [1e-12, 1.0, 1e6])
def test_extremes(m, v):
    for likelihood, y in ((Bernoulli("probit"), 1), (Bernoulli("logit"), 0), (Poisson("softplus"), 4)):
        sample = sample_product(likelihood, y, m, v, 100, np.random.default_rng(0))
        assert np.isfinite(sample.draws).all()
        assert sample.envelope.acceptance > 0.2


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda rng: sample_product(Poisson(), 3, 0.0, 1.0, 0, rng), "size: expected"),
        (lambda rng: sample_product(Poisson(), 3, 0.0, 0.0, 5, rng), "v: expected a positive"),
        (lambda rng: sample_product(Poisson(), -1, 0.0, 1.0, 5, rng), "y: expected counts"),
        (lambda rng: sample_product(Poisson(), 3, 0.0, 1.0, 5, rng, "narrow"), "proposal: expected"),
        (lambda rng: sample_product(StudentT(3.0, 1.0), 3, 0.0, 1.0, 5, rng, "flat"), "not log-concave"),
        (lambda rng: sample_product(Gaussian(1e-20), 1.0, 0.0, 1.0, 5, rng, "widened"), "acceptance above 1e-09"),
        (lambda rng: cover(Poisson(), 3, 0.0, 1.0, "widened", 0.5), "n: expected widths >= 1"),
        (lambda rng: cover(Poisson(), 3, 0.0, 1.0, "best", 2.0), 'n: expected proposal="widened"'),
        (lambda rng: cover(Poisson(), [3, 4], [0.0, 1.0, 2.0], 1.0), "broadcast"),
        (lambda rng: cover(None, 3, 0.0, 1.0), "likelihood: expected"),
    ],
)
def test_what_makes_no_sense_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call(np.random.default_rng(0))
