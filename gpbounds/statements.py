"""Shared parts of bounds that are stated before the data are seen: hypotheses, rounding, and their record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpbounds.arrays import as_number
from gpbounds.bound import Bound
from gpbounds.inputs import InputLaw

UP = 1.0 + 1e-11
"""Values are multiplied by this number: it allows for ten times the rounding error of their computation."""
MEASURED = (
    "The allowance for rounding, 1e-11 of the value, is measured, not proved; rigor='sharp' proves it where the "
    "eigenvalues are known in balls."
)
"""The assumption of bounds whose roundings are not counted."""
ENCLOSED = (
    "All rounding is enclosed, if the platform's exp errs by at most 4 units in the last place and its matrix products "
    "are sums of products in double precision, in any order."
)
"""The assumption of bounds from an eigendecomposition in doubles whose error is proved."""
SMALLEST = np.finfo(np.float64).tiny

FIXED = "Kernel, input law and noise are fixed in advance, not fitted to these data."
FIXED_IN_ADVANCE = "Kernel and noise are fixed in advance, not fitted to these data."


def drawn_from(inputs: InputLaw) -> str:
    """The hypothesis on the inputs."""
    return f"The N inputs are drawn independently from {inputs!r}."


def given_inputs(N: int) -> str:
    """The hypothesis of a statement about N given rows."""
    return f"The {N} inputs are the given ones: the statement is conditional on X."


def exp_up(log_value: Any) -> Any:
    """e^log_value, raised to the least normal double unless it is 0: an upper bound must not underflow."""
    log_value = np.asarray(log_value)
    return np.where(log_value == -np.inf, 0.0, np.exp(np.maximum(log_value, np.log(SMALLEST))))


def enlargement(roundings: Any) -> Any:
    """The factor that enlarges an upper bound with a relative error of at most ``roundings``·2^-53: 1 + 1e-11 or more.

    It is 1 + 1e-11 where ``roundings`` is inf: they are not counted.

    >>> [bool(enlargement(c) == UP) for c in (1000.0, np.inf)], bool(enlargement(2.0**20) == 1.0 + 2.0**-33)
    ([True, True], True)
    """
    return np.maximum(UP, 1.0 + np.where(np.isfinite(roundings), roundings, 0.0) * 2.0**-53)


def normal_or_zero(value: Any, positive: Any) -> Any:
    """``value`` where ``positive``, raised to the least normal double if it is smaller; 0 elsewhere."""
    return np.where(positive, np.maximum(value, SMALLEST), 0.0)


def upper_bound(
    value: Any,
    delta: Any,
    claim: str,
    terms: Mapping[str, Any],
    assumptions: tuple[str, ...],
    *,
    certified: bool,
    quantity: str,
) -> Bound:
    """The record of an upper bound that fails with probability at most ``delta``."""
    return Bound(
        value=as_number(value),
        side="upper",
        confidence=as_number(np.broadcast_to(1.0 - delta, np.shape(value))),
        claim=claim,
        terms={name: as_number(term) for name, term in terms.items()},
        assumptions=assumptions,
        certified=certified,
        quantity=quantity,
    )
