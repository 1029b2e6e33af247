"""Biased Monte Carlo: exact bias, gradients, envelopes, product sampling, sample sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from data import normal, numbers
from language import BITS, Call, Cases, Seeded, call

from calls.likelihoods import LIKELIHOODS

cases = Cases("montecarlo", BITS)


def mc(name: str, /, **arguments: Any) -> Call:
    return call(f"gpbounds.montecarlo.{name}", **arguments)


TARGETS = {"gaussian": 1.0, "probit": 1, "logit": 0, "poisson exp": 3, "poisson softplus": 2, "student": 2.0}
SAMPLES = [1, 2, 10, 1000, np.inf]
for name, y in TARGETS.items():
    likelihood = LIKELIHOODS[name][0]
    at = {"likelihood": likelihood, "y": y, "m": 0.5, "v": 1.2}
    cases.add(f"bias, {name}", mc("bias", **at, L=SAMPLES))
    cases.add(f"bias, {name}, gradient", mc("bias", **at, L=[1, 7], gradient=True))
    cases.add(f"bias, {name}, expansion", mc("bias", **at, L=[10, 1000], method="expansion", gradient=True))
    cases.add(f"expected_objective, {name}", mc("expected_objective", **at, L=SAMPLES))
    cases.add(f"expected_gradients, {name}", mc("expected_gradients", **at, L=[2, 50]))
    arrays = {"likelihood": likelihood, "y": y, "m": [-3.0, 0.1], "v": [[0.2], [3.0]]}
    cases.add(f"exact_gradient, {name}", mc("exact_gradient", **arrays))
    cases.add(f"cover, {name}", mc("cover", **arrays))
    cases.add(f"cover, {name}, widened", mc("cover", **arrays, proposal="widened"))
    cases.add(f"cover, {name}, of a width", mc("cover", **arrays, proposal="widened", n=2.5))
    if name not in ("student", "gaussian"):
        cases.add(f"cover, {name}, shifted", mc("cover", **arrays, proposal="shifted"))
        cases.add(f"cover, {name}, flat", mc("cover", **arrays, proposal="flat"))
    cases.add(f"sample_product, {name}", mc("sample_product", **at, size=6, rng=Seeded(1)))
    for estimator in ("reparametrised", "curvature"):
        drawn = mc("sampled_gradient", **arrays, L=4, rng=Seeded(2), estimator=estimator)
        cases.add(f"sampled_gradient, {name}, {estimator}", drawn)
    steps = {"likelihood": likelihood, "y": y, "n": 1000, "delta": 0.05, "iteration": [1, 10, 1000]}
    for rule in ("improved", "chernoff", "printed"):
        cases.add(f"sample_size, {name}, {rule}", mc("sample_size", **steps, step=0.1, m=0.5, v=1.2, rule=rule))
poisson, probit = LIKELIHOODS["poisson exp"][0], LIKELIHOODS["probit"][0]
cases.add("bias, tiny variance", mc("bias", likelihood=poisson, y=3, m=0.5, v=[0.0, 1e-12], L=100, gradient=True))
cases.add("bias, arrays", mc("bias", likelihood=probit, y=[1, -1], m=[[0.5], [-2.0]], v=2.0, L=3))
cases.add(
    "expected_objective, gradient",
    mc("expected_objective", likelihood=probit, y=1, m=0.5, v=2.0, L=[1, 5, np.inf], gradient=True),
)
cases.add(
    "expected_objective, expansion",
    mc("expected_objective", likelihood=probit, y=1, m=0.5, v=2.0, L=200, method="expansion"),
)
cases.add(
    "sample_product, arrays",
    mc("sample_product", likelihood=poisson, y=[0, 3], m=0.5, v=1.0, size=3, rng=Seeded(0), proposal="widened"),
)
cases.add(
    "sample_size, zeta and schedule",
    mc(
        "sample_size",
        likelihood=probit,
        y=1,
        n=1000,
        delta=0.05,
        step=lambda t: 1.0 / t,
        iteration=10,
        zeta=0.1,
        design=2.0,
    ),
)
cases.add(
    "sample_size, several targets",
    mc(
        "sample_size",
        likelihood=poisson,
        y=[0, 5, 50],
        n=10**6,
        delta=1e-3,
        step=0.7,
        iteration=1,
        zeta=1e-9,
        rule="chernoff",
    ),
)
cases.add("failure_share", mc("failure_share", delta=[[0.05], [0.5]], iteration=[1, 2, 10**6]))
cases.add(
    "lemma6", mc("lemma6", low=[0.0, -1.0], high=1.0, mean=[[0.5], [1e-9]], relative_error=0.1, delta=[0.05, 0.9])
)
cases.add("product_gradient", mc("product_gradient", draws=[[0.5, 1.0], [1.5, -1.0]], m=[0.5, 0.0], v=2.0))
for seed in range(3):
    share = numbers(5, seed=seed, low=0.01, high=0.99)
    cases.add(f"failure_share, seed {seed}", mc("failure_share", delta=share, iteration=[1, 3, 10, 99, 12345]))
    mean = numbers(5, seed=20 + seed, low=0.1, high=2.0)
    cases.add(
        f"lemma6, seed {seed}", mc("lemma6", low=-0.5, high=2.0, mean=mean, relative_error=share, delta=share[::-1])
    )
    draws = normal(8, 5, seed=30 + seed)
    cases.add(f"product_gradient, seed {seed}", mc("product_gradient", draws=draws, m=mean - 1.0, v=share))
