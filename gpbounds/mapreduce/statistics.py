"""Results of a pass over rows: records of sums, which can be added."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar


@dataclass(frozen=True, eq=False)
class Statistics:
    """A record of arrays and numbers; ``+`` adds them field by field.

    >>> @dataclass(frozen=True, eq=False)
    ... class Moments(Statistics):
    ...     count: int
    ...     total: float
    >>> both = Moments(2, 1.5) + Moments(1, 4.0)
    >>> both.count, both.total
    (3, 5.5)
    """

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})


S = TypeVar("S", bound=Statistics)


def summed(parts: Iterable[S]) -> S:
    """The sum of one or more records, from the first to the last; it changes none of them."""
    first, *others = parts
    if not others:
        return first
    return functools.reduce(_onto, others[1:], first + others[0])


def _onto(total: S, other: S) -> S:
    """total + other, in the memory of the arrays of ``total``, which is itself a sum, unless S adds in its own way."""
    if type(total).__add__ is not Statistics.__add__:
        return total + other
    return type(total)(
        **{field.name: _added(getattr(total, field.name), getattr(other, field.name)) for field in fields(total)}
    )


def _added(total: Any, other: Any) -> Any:
    if isinstance(total, Statistics):
        return _onto(total, other)
    if getattr(total, "shape", ()) and total.shape == getattr(other, "shape", None):
        total += other
        return total
    return total + other
