"""Intervals: a lower and an upper bound on one number, formed here from members with proved errors of evaluation.

An interval that cannot be true never leaves the library: `interval` raises `ImpossibleInterval` instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from gpbounds.bound import SMALLEST, Bound
from gpbounds.errors import ImpossibleInterval


@dataclass(frozen=True)
class Member:
    """A bound as it was computed, and a bound on the error of that computation.

    Attributes
    ----------
    value : float
    error : float
        At least |computed − exact|; infinite where nothing is known.
    claim : str
    proved : bool
        Whether ``error`` is proved; False for one that is only measured.
    """

    value: float
    error: float
    claim: str
    proved: bool = True

    @property
    def lowest(self) -> float:
        """A lower bound on the exact value, rounded down; −inf where the computation failed."""
        return _end(self.value - self.error, -math.inf)

    @property
    def highest(self) -> float:
        """An upper bound on the exact value, rounded up; inf where the computation failed."""
        return _end(self.value + self.error, math.inf)


def _end(value: float, outwards: float) -> float:
    """The double beyond ``value``; what underflows in its computation adds less than the least normal double."""
    return outwards if math.isnan(value) else math.nextafter(value + math.copysign(SMALLEST, outwards), outwards)


class Interval(NamedTuple):
    """(lower, upper), which unpacks as a pair."""

    lower: Bound
    upper: Bound

    @property
    def width(self) -> float:
        """Distance of the two ends."""
        return float(self.upper) - float(self.lower)


def interval(
    quantity: str,
    lowers: Mapping[str, Member],
    uppers: Mapping[str, Member],
    *,
    terms: Mapping[str, Any] | None = None,
    assumptions: tuple[str, ...] = (),
    least: float = -math.inf,
) -> Interval:
    """The interval of the greatest lower and the least upper end; a member drops out where its error is large.

    Parameters
    ----------
    quantity : str
    lowers, uppers : mapping of str to Member
        By name; each exact value is a bound from its side.
    terms : mapping
        Further terms of both bounds.
    assumptions : tuple of str
    least : float
        A number that the quantity cannot be below, such as 0 for a divergence.

    Returns
    -------
    Interval
        ``terms`` of a bound: the value of each of its members, what is shared, and "rounding", the error of the member
        that was chosen, which the bound includes.

    Raises
    ------
    ImpossibleInterval
        if the lower end is above the upper one, or the upper one below ``least``.

    >>> pair = interval("x", {"a": Member(1.0, 0.5, "A"), "b": Member(0.9, 0.1, "B")}, {"c": Member(2.0, 0.25, "C")})
    >>> round(float(pair.lower), 12), pair.lower.claim, round(float(pair.upper), 12), round(pair.width, 12)
    (0.8, 'B', 2.25, 1.45)
    """
    shared = dict(terms or {})
    pair = Interval(
        _bound(quantity, "lower", lowers, shared, assumptions), _bound(quantity, "upper", uppers, shared, assumptions)
    )
    if float(pair.lower) < least:
        pair = pair._replace(lower=replace(pair.lower, value=least))
    return possible(pair, least)


def _bound(
    quantity: str,
    side: Literal["lower", "upper"],
    members: Mapping[str, Member],
    shared: dict[str, Any],
    assumptions: tuple[str, ...],
) -> Bound:
    ends = {name: each.lowest if side == "lower" else each.highest for name, each in members.items()}
    name = (max if side == "lower" else min)(ends, key=lambda member: ends[member])
    best = members[name]
    terms = {each: member.value for each, member in members.items()} | shared | {"rounding": best.error}
    return Bound(ends[name], side, 1.0, best.claim, terms, assumptions, best.proved, quantity)


def possible(pair: tuple[Bound, Bound], least: float = -math.inf) -> Interval:
    """The two bounds as an `Interval`, if they can both be true.

    Raises
    ------
    ImpossibleInterval
        as `interval`.
    """
    lower, upper = pair
    low, high = float(lower), float(upper)
    if not (low <= high and high >= least):  # False for NaN
        floor = "" if math.isinf(least) else f" at least {least:g}"
        raise ImpossibleInterval(
            f"{upper.quantity}: expected a lower bound{floor} below the upper one, got [{low:.17g}, {high:.17g}] from "
            f"{lower.claim} and {upper.claim}. This is an error of gpbounds, and neither number may be used: please "
            "report it with the kernel, the noise variance and the data, or with numbers that show it"
        )
    return Interval(lower, upper)
