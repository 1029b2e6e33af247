"""Certificates under attack, and the posteriors that they are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from adversarial import laws, truths
from adversarial.instances import Instance, Refused, Statement, one_of
from gpbounds import divergences
from gpbounds.losses import Band, Exponential, Squared
from gpbounds.pacbayes import Certificate, Exact, Free, HyperGrid, Sparse, Whitened
from gpbounds.pacbayes.certificate import Posterior, priors, statement
from gpbounds.pacbayes.certificate.values import value_error


def issued(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """KL and R_S of a certificate are not below the truth."""
    certificate = _certificate(case, rng)
    kl, risk = _truths(certificate, case)
    yield None, kl, float(certificate.kl)
    yield None, risk, float(certificate.risk)


def confirmed(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """Numbers that the default check confirms are not below the truth: true ones are changed by 1e-16 to 1e-2."""
    certificate = _certificate(case, rng)
    exact = _truths(certificate, case)
    kl, risk = (_changed(truths.narrow(each), rng) for each in exact)
    risk = min(risk, 1.0)
    bound = statement.risk_bound(risk, kl, certificate.count, len(case.X), certificate.delta)
    report = replace(certificate, kl=kl, risk=risk, bound=bound).sealed().check(case.X, case.y)
    states = {line.name: line.state for line in report.lines}
    for name, truth, stated in (("kl", exact[0], kl), ("risk", exact[1], risk)):
        if states[name] == "confirmed":
            yield None, truth, stated


def _changed(truth: Any, rng: np.random.Generator) -> float:
    sign, exponents = one_of([(-1.0, (-16.0, -2.0)), (1.0, (-16.0, -7.0))], rng)
    return max(float(truth.mid()) * (1.0 + sign * 10.0 ** rng.uniform(*exponents)), 0.0)


def proved(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """Both ends of the rigorous check, of KL and of R_S."""
    certificate = _certificate(case, rng)
    numbers = certificate.check(case.X, case.y, rigorous=True).proved
    if numbers is None:
        raise Refused("nothing is proved")
    kl, risk = _truths(certificate, case)
    yield float(numbers.kl_below), kl, float(numbers.kl)
    yield float(numbers.risk_below), risk, float(numbers.risk)


def posterior(case: Instance, rng: np.random.Generator) -> Iterator[Statement]:
    """KL, mean and variance of `gpbounds.divergences`, each with the bound on its rounding."""
    record = _record(case, rng)
    known = np.concatenate([case.X, case.Z])
    at = (known[rng.integers(len(known))] + rng.choice([0.0, 0.3]) * (known[0] - known[-1]))[None]
    error = value_error(case.kernel, np.abs(np.concatenate([known, at])).max(axis=0))
    q, record = _computed(case, record, error)
    there = q.predict(at)
    law = truths.once(partial(laws.law, case.kernel, record, case.X, case.y, at))
    for value, off, truth in (
        (q.kl, q.kl_rounding, lambda: law().kl),
        (there.mean[0], there.mean_error[0], lambda: law().means[0]),
        (there.variance[0], there.variance_error[0], lambda: law().variances[0]),
    ):
        if math.isfinite(off):
            yield math.nextafter(float(value - off), -math.inf), truth, math.nextafter(float(value + off), math.inf)


def _computed(case: Instance, record: Posterior, error: float) -> tuple[Any, Posterior]:
    """The posterior of a record in doubles, and the record with the jitter that was taken."""
    if isinstance(record, Exact):
        return divergences.full_posterior(case.kernel, case.X, case.y, noise=record.noise, entry_error=error), record
    settings: dict[str, Any] = {"jitter": record.jitter, "entry_error": error}  # type: ignore[attr-defined]
    if isinstance(record, Sparse):
        settings |= {"noise": record.noise, "power": record.power}
        q = divergences.collapsed_posterior(case.kernel, case.X, case.y, record.Z, **settings)
    elif isinstance(record, Free):
        q = divergences.free_posterior(case.kernel, record.Z, record.mean, record.cov, **settings)
    else:
        assert isinstance(record, Whitened)
        q = divergences.whitened_posterior(case.kernel, record.Z, record.mean, record.factor, **settings)
    return q, record.with_jitter(q.jitter)


def _record(case: Instance, rng: np.random.Generator) -> Posterior:
    """One of the four kinds of Q, with a jitter of 0 to 1e-6 of the variance."""
    v, M = case.kernel.max_variance, len(case.Z)
    jitter = one_of(["auto", 0.0, *(v * 10.0 ** rng.uniform(-16.0, -6.0, 2))], rng)
    kind = int(rng.integers(5))
    if kind == 0:
        return Exact(case.noise)
    if kind == 1:
        return Sparse(case.Z, case.noise, float(rng.choice([0.0, 0.5, 1.0, 20.0])), jitter)
    mean = rng.standard_normal(M) * 10.0 ** rng.uniform(-2.0, 2.0)
    factor = np.tril(rng.standard_normal((M, M)), -1) * rng.choice([0.0, 1e-3, 1.0])
    factor += np.diag(10.0 ** rng.uniform(-2.0, 1.0, M))
    if kind == 2:
        return Whitened(case.Z, mean, factor, jitter)
    spread = case.kernel(case.Z) + 10.0 ** rng.uniform(-12.0, -6.0) * v * np.eye(M)
    root = np.linalg.cholesky(spread) if kind == 3 else v**0.5 * np.eye(M)
    half = root @ factor
    B = half @ half.T
    return Free(case.Z, root @ mean, (B + B.T) / 2.0, jitter)


def _certificate(case: Instance, rng: np.random.Generator) -> Certificate:
    """Issued at a grid of one point, at which the kernel is."""
    theta = priors.hyperparameters(case.kernel)
    edges = [math.log(value) for value in theta.values()]
    grid = HyperGrid(edges, edges, [0] * len(edges), tuple(theta))
    kernel = priors.with_hyperparameters(case.kernel, grid.at([0] * len(edges)))
    epsilon = float(kernel.max_variance**0.5 * 10.0 ** rng.uniform(-2.0, 1.0))
    loss = one_of([Band, Squared, Exponential], rng)(epsilon)
    record = _record(case, rng)
    return Certificate.issue(case.X, case.y, record, kernel, grid=grid, loss=loss, delta=0.05)


def _truths(certificate: Certificate, case: Instance) -> tuple[truths.Formula, truths.Formula]:
    """KL(Q‖P) and R_S of the record."""
    law = truths.once(partial(laws.law, certificate.kernel, certificate.posterior, case.X, case.y, case.X))
    return lambda: law().kl, lambda: laws.risk(certificate.loss, case.y, law())
