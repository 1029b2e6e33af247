"""The functions under attack: each attack returns a lower bound, an upper bound, and a truth between them."""

from __future__ import annotations

import math

import numpy as np

from adversarial import bounds, certificates, draws, factors, truths
from adversarial.instances import Attack, Refused, instance
from gpbounds.errors import ImpossibleInterval, NotConverged

ATTACKS: dict[str, Attack] = {
    "evidence": bounds.evidence,
    "computed_evidence": bounds.computed,
    "iterative.evidence": bounds.by_iterations,
    "log_evidence_bounds": bounds.of_model,
    "gap": bounds.gap,
    "gap_from_trace": bounds.gap_from_trace,
    "expected_gap_bounds": bounds.expected_gap_bounds,
    "operator_gap": bounds.operator_gap,
    "enough": bounds.enough,
    "consequences": bounds.consequences,
    "select": bounds.selected,
    "spectrum": bounds.spectrum_of_rows,
    "rate": bounds.rate_of_rows,
    "rate with y": draws.rate_of_targets,
    "posterior": certificates.posterior,
    "issue": certificates.issued,
    "check": certificates.confirmed,
    "rigorous check": certificates.proved,
    "log_det_error": factors.block_factor,
    "residual_certificate": factors.residual_certificate,
    "kl_from": factors.compared_laws,
}


EACH = {
    "evidence": 8,
    "computed_evidence": 20,
    "iterative.evidence": 6,
    "log_evidence_bounds": 1,
    "gap": 6,
    "gap_from_trace": 8,
    "expected_gap_bounds": 8,
    "operator_gap": 4,
    "enough": 8,
    "consequences": 3,
    "select": 4,
    "spectrum": 20,
    "rate": 14,
    "rate with y": 6,
    "posterior": 50,
    "issue": 12,
    "check": 2,
    "rigorous check": 6,
    "log_det_error": 26,
    "residual_certificate": 8,
    "kl_from": 10,
}
"""Intervals of each among 230: fewer of those that take longer."""


def outcomes(name: str, seed: int) -> list[tuple[str, bool]]:
    """("stated", "refused" or "undecided", whether it excludes the truth) of each interval about this instance.

    An interval counts as stated if it is finite on one side at least and was compared with the ball of its truth.  A
    refusal is no bound, and neither is an interval without ends; `renyi.evidence` refuses noise below the rounding
    error of K.  Exceptions of other packages are errors; NaN, and two bounds that contradict each other, exclude the
    truth.
    """
    compared: list[tuple[str, bool]] = []
    case = instance(seed)
    try:
        for low, truth, high in ATTACKS[name](case, np.random.default_rng([seed, 1])):
            compared.append(_compared(low, truth, high))
    except truths.Undecided:
        compared.append(("undecided", False))
    except ImpossibleInterval:
        compared.append(("stated", True))
    except (Refused, ValueError, NotConverged) as error:
        if not isinstance(error, Refused) and "expected" not in str(error):
            raise
        compared.append(("refused", False))
    return compared or [("refused", False)]


def _compared(low: float | None, truth: truths.Formula, high: float | None) -> tuple[str, bool]:
    if low in (None, -math.inf) and high in (None, math.inf):
        return "refused", False
    if any(end is not None and math.isnan(end) for end in (low, high)):
        return "stated", True
    try:
        return "stated", not truths.contains(low, truths.narrow(truth), high)
    except truths.Undecided:
        return "undecided", False


def violated(name: str, seed: int) -> bool:
    """Whether an interval about this instance excludes its truth."""
    return any(excluded for _, excluded in outcomes(name, seed))
