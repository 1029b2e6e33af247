"""``rigor="auto"``: 30 digits where the rounding of doubles, and not a theorem, makes an interval wide."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gpbounds.arrays import Array, is_cupy
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.exact import Exact
from gpbounds.interval import Interval, possible
from gpbounds.kernels import Kernel
from gpbounds.renyi.computed import computed_evidence
from gpbounds.renyi.pairs import enclosed_evidence
from gpbounds.rigor import AFFORDABLE
from gpbounds.sources import is_elsewhere

SPOILT = 0.01
"""Nats of rounding that ``rigor="auto"`` always accepts."""


def spoilt(pair: Interval) -> bool:
    """Whether the errors of evaluation in doubles, and not the theorems, make an interval wide."""
    rounding = max(float(end.terms["rounding"]) for end in pair)
    return not (rounding < math.inf and rounding <= max(SPOILT, 0.05 * pair.width))


def thirty_digits(kernel: Kernel, X: Any, y: Any, noise: float) -> Interval | None:
    """log p(y) to 30 digits (N-exact), or None: above `AFFORDABLE` rows, and for kernels or noise that it refuses."""
    if is_elsewhere(X) or is_cupy(X) or not (0 < len(np.shape(X)) and np.shape(X)[0] <= AFFORDABLE):
        return None
    try:
        return possible(enclosed_evidence(kernel, X, y, None, noise=noise, members="exact"))
    except (ValueError, ArithmeticError, ImportError):  # a kernel without 30 digits, or noise below them
        return None


def whole_evidence(
    kernel: Kernel, X: Array, Y: Array, *, noise: float, model: Callable[[], Exact] | None = None
) -> Interval:
    """log p(y) of Y (N, P) with all its rounding, from both sides; to 30 digits where doubles do not decide it.

    An end is infinite where neither decides it.  Arguments and errors as `computed_evidence`; ``model`` returns the
    exact GP of these data, if others need it, too.
    """
    try:
        pair = computed_evidence(kernel, X, Y, noise=noise, model=None if model is None else model())
    except NotPositiveDefinite:
        exact = thirty_digits(kernel, X, Y, noise)
        if exact is None:
            raise
        return exact
    exact = thirty_digits(kernel, X, Y, noise) if spoilt(pair) else None
    return pair if exact is None else sharper(pair, exact)


def sharper(pair: Interval, other: Interval) -> Interval:
    """The higher lower and the lower upper end of two intervals for one number, with the terms of both."""

    def chosen(one: Bound, two: Bound, better: bool) -> Bound:
        best, terms = (two if better else one), {**one.terms, **two.terms}
        return replace(best, terms=terms | {"rounding": best.terms.get("rounding", 0.0)})

    return possible(
        (
            chosen(pair.lower, other.lower, float(other.lower) > float(pair.lower)),
            chosen(pair.upper, other.upper, float(other.upper) < float(pair.upper)),
        )
    )


def decided(pair: Interval, noise: float) -> Interval:
    """The interval, unless doubles say nothing."""
    if np.isfinite(float(pair.lower)) and np.isfinite(float(pair.upper)):
        return pair
    raise ValueError(
        f"noise: expected σ² above the rounding error of K, where doubles decide log p(y), got {float(noise):.3g}: "
        "rounding may make K + σ²I indefinite. Use a larger noise variance, or rigor='sharp' where it is an argument."
    )
