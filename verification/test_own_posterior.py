"""N-excess: by how much the divergence of any q from the exact posterior exceeds that of the best q."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from mpmath import mpf
from observer import Observer
from renyi_instances import SEEDS, any_posterior, data, instance

from gpbounds.audit.own import excess
from gpbounds.divergences import free_posterior
from gpbounds.reference import renyi
from gpbounds.reference.divergences import gaussian_kl


@pytest.mark.claim("N-excess")
@given(seed=SEEDS)
def test_divergences_differ_by_that_of_the_inducing_variables(observe: Observer, seed: int) -> None:
    """log p(y) − L_VI is KL to the exact posterior (R-order); also from the two joint laws, where K − Q ≻ 0."""
    case = instance(seed, "apart")
    q, best = any_posterior(case, seed), renyi.inducing_posterior(*case.all, mpf(1))
    own = gaussian_kl(*q, *best)
    values = [renyi.variational_of(*each, *case.all) for each in (best, q)]
    observe.equal("N-excess", values[0] - values[1], own, rtol=mpf("1e-25"))
    joint = []
    for each in (best, q):
        mean, cov, exact_mean, exact_cov = renyi.joint_laws(*each, *case.all)
        joint.append(gaussian_kl(mean, cov, exact_mean, exact_cov))
    observe.equal("N-excess", joint[1] - joint[0], own, rtol=mpf("1e-15"))
    observe.lower("N-excess", own, mpf(0))


@pytest.mark.claim("N-excess")
@given(seed=SEEDS)
def test_function_agrees_with_the_reference(observe: Observer, seed: int) -> None:
    """`excess` in double precision, for a free posterior without jitter."""
    case = data(seed)
    exact = case.exact
    q = any_posterior(exact, seed)
    mean, cov = (np.array(part.tolist(), dtype=float) for part in q)
    kernel, X, y, Z = case.problem
    own = excess(free_posterior(kernel, Z, mean[:, 0], cov, jitter=0.0), X, y, noise=case.noise)
    held = renyi.matrix(mean[:, 0]), renyi.matrix(cov)
    truth = gaussian_kl(*held, *renyi.inducing_posterior(*exact.all, mpf(1)))
    observe.equal("N-excess", own, truth, rtol=1e-7)


@pytest.mark.claim("N-excess")
@given(seed=SEEDS)
def test_the_best_posterior_has_no_excess(observe: Observer, seed: int) -> None:
    case = data(seed)
    exact = case.exact
    mean, cov = (np.array(part.tolist(), dtype=float) for part in renyi.inducing_posterior(*exact.all, mpf(1)))
    kernel, X, y, Z = case.problem
    own = excess(free_posterior(kernel, Z, mean[:, 0], cov, jitter=0.0), X, y, noise=case.noise)
    observe.equal("N-excess", own, 0.0, atol=1e-9)
