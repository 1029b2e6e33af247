"""The functions under attack: each returns a lower bound, an upper bound, and a truth between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adversarial import truths
from adversarial.instances import Instance, instance
from gpbounds import NotPositiveDefinite, renyi
from gpbounds.renyi.computed import computed_evidence
from gpbounds.whitening import whiten

Statement = tuple[float | None, Any, float | None]
Attack = Callable[[Instance, np.random.Generator], Statement]

REFUSALS = (ValueError, NotPositiveDefinite)
"""A refusal is no bound; `renyi.evidence` refuses noise below the rounding error of K."""


def evidence(case: Instance, rng: np.random.Generator) -> Statement:
    options: list[dict[str, Any]] = [
        {},
        {"rigor": "float"},
        {"members": "cheap"},
        {"members": "all", "alphas": (0.3, 1.0)},
    ]
    lower, upper = renyi.evidence(*case.arguments, noise=case.noise, **options[int(rng.integers(4))])
    return float(lower), truths.evidence(case), float(upper)


def gap(case: Instance, rng: np.random.Generator) -> Statement:
    jitter = _jitter(case, rng)
    method = ("auto", "dense", "blocks", "streamed")[int(rng.integers(4))]
    lower, upper = renyi.gap(*case.arguments, 1.0, noise=case.noise, jitter=jitter, method=method)
    return float(lower), truths.divergence(case, jitter), float(upper)


def gap_from_trace(case: Instance, rng: np.random.Generator) -> Statement:
    jitter = _jitter(case, rng)
    upper = renyi.gap_from_trace(*case.arguments, 1.0, noise=case.noise, jitter=jitter)
    return None, truths.divergence(case, jitter), float(upper)


def expected_gap_bounds(case: Instance, rng: np.random.Generator) -> Statement:
    jitter = _jitter(case, rng)
    lower, upper = renyi.expected_gap_bounds(case.kernel, case.X, case.Z, 1.0, noise=case.noise, jitter=jitter)
    return float(lower), truths.mean_divergence(case, jitter), float(upper)


def computed(case: Instance, rng: np.random.Generator) -> Statement:
    lower, upper = computed_evidence(case.kernel, case.X, case.y[:, None], noise=case.noise)
    return float(lower), truths.evidence(case), float(upper)


def _jitter(case: Instance, rng: np.random.Generator) -> float:
    """The least sound jitter as it was computed, 0, or one that an imported model states."""
    wanted: Any = ("auto", 0.0, 1e-10 * case.kernel.max_variance)[int(rng.integers(3))]
    return float(whiten(case.kernel, case.X, case.Z, jitter=wanted).jitter)


ATTACKS: dict[str, Attack] = {
    "evidence": evidence,
    "gap": gap,
    "gap_from_trace": gap_from_trace,
    "expected_gap_bounds": expected_gap_bounds,
    "computed_evidence": computed,
}


def violated(name: str, seed: int) -> tuple[str, bool]:
    """("stated", "refused" or "undecided", whether the bound of this instance excludes the truth)."""
    case = instance(seed)
    try:
        statement = ATTACKS[name](case, np.random.default_rng([seed, 1]))
    except truths.Undecided:
        return "undecided", False
    except REFUSALS:
        return "refused", False
    return "stated", not truths.contains(*statement)
