"""Certificates under attack, and the posteriors that they are made of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from adversarial import laws, truths
from adversarial.instances import Instance, Refused, Statement, one_of
from gpbounds import divergences
from gpbounds.losses import Band, Exponential, Squared
from gpbounds.pacbayes import Certificate, Exact, Free, HyperGrid, Sparse, Whitened
from gpbounds.pacbayes.certificate import Posterior, formula, priors
from gpbounds.pacbayes.certificate.values import value_error

QUANTITIES = ("kl", "risk")


def issued(case: Instance, rng: np.random.Generator) -> Statement:
    """KL or R_S of a certificate is not below the truth."""
    certificate, quantity = _certificate(case, rng), one_of(QUANTITIES, rng)
    return None, _truth(certificate, quantity, case), float(getattr(certificate, quantity))


def confirmed(case: Instance, rng: np.random.Generator) -> Statement:
    """A number that the default check confirms is not below the truth: true ones are changed by 1e-16 to 1e-2."""
    certificate, quantity = _certificate(case, rng), one_of(QUANTITIES, rng)
    truth = _truth(certificate, quantity, case)
    sign, exponents = one_of([(-1.0, (-16.0, -2.0)), (1.0, (-16.0, -7.0))], rng)
    stated = float(truth.mid()) * (1.0 + sign * 10.0 ** rng.uniform(*exponents))
    changed = replace(certificate, **{quantity: min(max(stated, 0.0), 1.0 if quantity == "risk" else math.inf)})
    bound = formula.risk_bound(changed.risk, changed.kl, changed.count, len(case.X), changed.delta)
    changed = replace(changed, bound=bound).sealed()
    if not changed.check(case.X, case.y).confirmed:
        raise Refused("the check refuses it")
    return None, truth, float(getattr(changed, quantity))


def proved(case: Instance, rng: np.random.Generator) -> Statement:
    """Both ends of the rigorous check."""
    certificate, quantity = _certificate(case, rng), one_of(QUANTITIES, rng)
    numbers = certificate.check(case.X, case.y, rigorous=True).proved
    if numbers is None:
        raise Refused("nothing is proved")
    low, high = getattr(numbers, f"{quantity}_below"), getattr(numbers, quantity)
    return float(low), _truth(certificate, quantity, case), float(high)


def posterior(case: Instance, rng: np.random.Generator) -> Statement:
    """KL, mean and variance of `gpbounds.divergences`, each with the bound on its rounding."""
    record = _record(case, rng)
    known = np.concatenate([case.X, case.Z])
    at = (known[rng.integers(len(known))] + rng.choice([0.0, 0.3]) * (known[0] - known[-1]))[None]
    error = value_error(case.kernel, np.abs(np.concatenate([known, at])).max(axis=0))
    q, record = _computed(case, record, error)
    which = int(rng.integers(3))
    if which == 0:
        value, off = q.kl, q.kl_rounding
    else:
        laws_at = q.predict(at)
        columns = (laws_at.mean, laws_at.mean_error) if which == 1 else (laws_at.variance, laws_at.variance_error)
        value, off = (float(column[0]) for column in columns)
    if not math.isfinite(off):
        raise Refused("no error is known")

    def truth() -> Any:
        law = laws.law(case.kernel, record, case.X, case.y, at)
        return [law.kl, law.means[0], law.variances[0]][which]

    return math.nextafter(value - off, -math.inf), truths.narrow(truth), math.nextafter(value + off, math.inf)


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


def _truth(certificate: Certificate, quantity: str, case: Instance) -> Any:
    """KL(Q‖P) or R_S of the record."""

    def formula() -> Any:
        law = laws.law(certificate.kernel, certificate.posterior, case.X, case.y, case.X)
        return law.kl if quantity == "kl" else laws.risk(certificate.loss, case.y, law)

    return truths.narrow(formula)
