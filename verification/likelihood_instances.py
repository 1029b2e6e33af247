"""Likelihoods with arguments drawn over a broad domain, each with its reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mpf

from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.reference import likelihoods as reference

FAMILIES = ("gaussian", "probit", "logit", "exp", "softplus", "student")


@dataclass(frozen=True)
class Case:
    """One (y, m, v) under one likelihood; ``points`` are where the likelihood bends, for the reference."""

    likelihood: Likelihood
    log_density: reference.LogDensity
    y: Any
    m: float
    v: float
    points: list[tuple[Any, Any]]


def make(family: str, y: float, m: float, v: float, *parameters: float) -> Case:
    exact = [mpf(p) for p in parameters]
    if family == "gaussian":
        points = [(y, parameters[0] ** 0.5)]
        return Case(Gaussian(*parameters), reference.gaussian(*exact), mpf(y), m, v, points)
    if family in ("probit", "logit"):
        return Case(Bernoulli(family), reference.bernoulli(family), int(y), m, v, [(0, 3)])
    if family == "exp":
        points = [(0, 1), (float(np.log(y + 1.0)), 1.0 / (y + 1.0) ** 0.5)]
        return Case(Poisson("exp"), reference.poisson("exp"), int(y), m, v, points)
    if family == "softplus":
        return Case(Poisson("softplus"), reference.poisson("softplus"), int(y), m, v, [(0, 3), (y, (y + 1.0) ** 0.5)])
    points = [(y, parameters[1] * parameters[0] ** 0.5)]
    return Case(StudentT(*parameters), reference.student_t(*exact), mpf(y), m, v, points)


def draw(family: str, seed: int) -> Case:
    """|m| up to 50, v from 1e-6 to 1e4, counts to 2e4, degrees of freedom 0.3 to 300, scales 0.01 to 10."""
    rng = np.random.default_rng(seed)
    v = float(10.0 ** rng.uniform(-6.0, 4.0))
    m = float(rng.uniform(-50.0, 50.0) if seed % 2 else 2.0 * rng.standard_normal())
    if family == "gaussian":
        return make(family, float(5.0 * rng.standard_normal()), m, v, float(10.0 ** rng.uniform(-3.0, 2.0)))
    if family in ("probit", "logit"):
        return make(family, float(rng.choice([-1.0, 1.0])), m, v)
    if family in ("exp", "softplus"):
        y = float(rng.integers(0, 5) if seed % 3 else np.floor(10.0 ** rng.uniform(0.0, 4.3)))
        return make(family, y, m, v)
    parameters = float(10.0 ** rng.uniform(-0.5, 2.5)), float(10.0 ** rng.uniform(-2.0, 1.0))
    return make(family, float(2.0 * rng.standard_normal()), m, v, *parameters)
