"""The functions under attack: each attack returns a lower bound, an upper bound, and a truth between them."""

from __future__ import annotations

import math

import numpy as np

from adversarial import bounds, certificates, factors, truths
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
    "enough": bounds.enough,
    "consequences": bounds.consequences,
    "select": bounds.selected,
    "rate": bounds.rate_of_rows,
    "posterior": certificates.posterior,
    "issue": certificates.issued,
    "check": certificates.confirmed,
    "rigorous check": certificates.proved,
    "log_det_error": factors.block_factor,
    "residual_certificate": factors.residual_certificate,
}


EACH = {
    "evidence": 10,
    "computed_evidence": 38,
    "iterative.evidence": 4,
    "log_evidence_bounds": 1,
    "gap": 8,
    "gap_from_trace": 10,
    "expected_gap_bounds": 10,
    "enough": 2,
    "consequences": 2,
    "select": 6,
    "rate": 8,
    "posterior": 36,
    "issue": 12,
    "check": 6,
    "rigorous check": 6,
    "log_det_error": 21,
    "residual_certificate": 8,
}
"""Instances of each among 188: fewer of those that take longer."""


def violated(name: str, seed: int) -> tuple[str, bool]:
    """("stated", "refused" or "undecided", whether the bound of this instance excludes the truth).

    A refusal is no bound, and neither is an interval without ends; `renyi.evidence` refuses noise below the rounding
    error of K.  Exceptions of other packages, NaN, and two bounds that contradict each other, are errors.
    """
    case = instance(seed)
    try:
        statement = ATTACKS[name](case, np.random.default_rng([seed, 1]))
    except truths.Undecided:
        return "undecided", False
    except Refused:
        return "refused", False
    except ImpossibleInterval:
        return "stated", True
    except (ValueError, NotConverged) as error:
        if "expected" not in str(error):
            raise
        return "refused", False
    low, truth, high = statement
    if low in (None, -math.inf) and high in (None, math.inf):
        return "refused", False
    if any(end is not None and math.isnan(end) for end in (low, high)):
        return "stated", True
    return "stated", not truths.contains(low, truth, high)
