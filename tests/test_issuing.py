"""The choice of the jitter of a certificate: the search for the least bound, and where it stops."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fitting import SparseGP, certify
from fitting.estimators import procedure
from fitting.estimators.kinds import sparse_forms
from fitting.estimators.procedure import issue
from fitting.objectives.objective import member
from gpbounds import SquaredExponential
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import AUTO_LADDER
from gpbounds.losses import Band
from gpbounds.pacbayes import Certificate, HyperGrid
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.rows import raw

KERNEL = SquaredExponential(2.0, 1.0)
RUNGS = [2.0 * step for step in AUTO_LADDER]


@pytest.fixture
def trial(monkeypatch):
    """``trial(bounds, goal, jitter)``: the jitter taken and those tried, where the n-th jitter gives the n-th bound."""

    def run(bounds, goal=0.0, jitter=0.0):
        tried, left = [], list(bounds)

        def made(rows, none, form, kernel, **declared):
            tried.append(form)
            bound = left.pop(0)
            if bound is None:
                raise NotPositiveDefinite(f"jitter {form:g} is too small")
            return SimpleNamespace(bound=bound, jitter=form)

        monkeypatch.setattr(procedure, "Certificate", SimpleNamespace(issue=made))
        return issue(raw(np.zeros((1, 1)), np.zeros(1)), lambda amount: amount, jitter, goal, KERNEL), tried

    return run


@pytest.mark.parametrize(
    ("bounds", "taken", "count"),
    [
        ([0.9, 0.5, 0.7, 0.8, 0.9], 1, 5),  # three in a row without a gain end the search
        ([0.9, 0.91, 0.92, 0.5, 0.6, 0.6, 0.6], 3, 7),
        ([0.9, 0.91, 0.92, 0.93, 0.5], 0, 4),
        ([None, None, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], 7, 8),
        ([0.9, None, 0.8, None, 0.85, 0.86, 0.87], 2, 7),
    ],
)
def test_the_least_bound_wins_as_long_as_there_are_gains(trial, bounds, taken, count):
    certificate, tried = trial(bounds)
    assert (certificate.bound, certificate.jitter) == (bounds[taken], RUNGS[taken])
    assert tried == RUNGS[:count]


@pytest.mark.parametrize(("goal", "count"), [(0.9, 1), (0.8999101, 1), (0.89990, 4), (0.5, 4)])
def test_a_bound_within_a_ten_thousandth_of_the_goal_is_enough(trial, goal, count):
    certificate, tried = trial([0.9, 0.91, 0.92, 0.93], goal)
    assert certificate.bound == 0.9
    assert len(tried) == count


def test_only_larger_jitters_are_tried_and_the_first_fault_is_told(trial):
    tried = trial([0.9, 0.8, 0.95, 0.96, 0.97], jitter=RUNGS[2])[1]
    assert tried == RUNGS[2:7]
    with pytest.raises(NotPositiveDefinite, match="jitter 0 is too small"):
        trial([None] * len(RUNGS))


def test_a_nearly_singular_kuu_gets_the_best_rung_of_all():
    rng = np.random.default_rng(0)
    x, grid = rng.uniform(-2.0, 2.0, (60, 1)), HyperGrid.shared(-3.0, 3.0, 6)
    y = np.sin(2.0 * x[:, 0]) + 0.1 * rng.standard_normal(60)
    theta = grid.at([3, 4]).theta
    kernel = SquaredExponential(theta["variance"], theta["lengthscale"])
    form = sparse_forms(np.linspace(-2.0, 2.0, 25)[:, None], 0.1, member("fitc"))
    declared = {"grid": grid, "loss": Band(0.5), "delta": 0.05}
    every = []
    for step in AUTO_LADDER:
        try:
            every.append(Certificate.issue(x, y, form(step * kernel.max_variance), kernel, **declared).bound)
        except (NotPositiveDefinite, ValueError):
            every.append(np.inf)
    assert every[0] == np.inf
    assert issue(raw(x, y), form, 0.0, 0.0, kernel, **declared).bound == min(every)


def test_where_rounding_costs_nothing_one_certificate_is_made(monkeypatch):
    """The goal is the bound without rounding, with the penalties of all choices."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    model = SparseGP("vfe", SquaredExponential(0.7, [0.9, 1.4]), 0.2, inducing=X[:8], optimizer=None).fit(X, y)
    made, true = [], Certificate.issue
    monkeypatch.setattr(
        procedure,
        "Certificate",
        SimpleNamespace(issue=lambda *arguments, **options: made.append(1) or true(*arguments, **options)),
    )
    certificates = certify(model, X, y, epsilon=(0.5, 0.8))
    assert len(made) == 2
    assert all(c.posterior.jitter == 0.0 and c.check(X, y).confirmed for c in certificates)
    assert priors.locate(certificates[0].kernel, certificates[0].grid).indices == certificates[0].indices


def test_where_every_loss_is_one_no_jitter_is_looked_for(monkeypatch):
    """So many data that kl⁻¹(0.999, divergence) is below 1: the goal must be kl⁻¹(1, divergence) = 1."""
    N, single = 20_000, HyperGrid([0.0, 0.0], [0.0, 0.0], 0, ("variance", "lengthscale"))
    X, y = np.linspace(0.0, 1.0, N)[:, None], np.full(N, 20.0)
    model = SparseGP("vfe", SquaredExponential(), 1e9, inducing=[[0.5]], optimizer=None).fit(X, y)
    made, true = [], Certificate.issue
    monkeypatch.setattr(
        procedure,
        "Certificate",
        SimpleNamespace(issue=lambda *args, **options: made.append(1) or true(*args, **options)),
    )
    certificate = certify(model, X, y, epsilon=0.5, grid=single)
    assert certificate.bound == certificate.risk == 1.0
    assert len(made) == 1
