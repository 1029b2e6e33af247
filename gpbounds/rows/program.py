"""Programs over partitions of rows: each partition becomes a record of sums, and a fixed tree adds the records.

A `Program` begins with a state.  In each of its rounds, ``map`` turns the state and the rows of one partition into a
record of sums, the records are added, and ``then`` turns the state and the total into the next state; the last state is
the result.  An evaluation of VFE or FITC has two rounds, five functions altogether: map and then, twice, and the sum of
records.

All of them are pure, and engines (`gpbounds.rows.engines`) send them to other processes by pickle.  They hold
parameters, never rows.  The tree depends on the number of partitions only, so that the bits of a result do not depend
on the engine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from gpbounds.arrays import Array

FAN_IN = 8
"""Number of sums that one step of the tree adds."""


class Rows(NamedTuple):
    """The rows of one partition, which may be none.

    Attributes
    ----------
    X : array (n, D)
    Y : array (n, P)
    number : int
        The number of the partition.
    exact : bool
        Whether these are the numbers of the source: doubles, or whole numbers below 2⁵³.
    """

    X: Array
    Y: Array
    number: int
    exact: bool = True

    @property
    def points(self) -> Array:
        """X in doubles."""
        return self.X.astype(np.float64, copy=False)


# Records of sums.


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
T = TypeVar("T")


def summed(parts: Iterable[S]) -> S:
    """The sum of one or more records, from the first to the last; it changes none of them."""
    first, *others = parts
    if not others:
        return first
    return functools.reduce(_onto, others[1:], first + others[0])


def _onto(total: S, other: S) -> S:
    """total + other, written into the arrays of ``total``, itself a sum, unless S defines its own addition."""
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


# The order of additions: a tree rounds less than a running sum, and does not depend on which partition is ready first.


def reduced(items: Sequence[T], add: Callable[[list[T]], T], fan_in: int = FAN_IN) -> T:
    """All ``items``, of which there is at least one: ``add`` joins up to ``fan_in`` neighbours, level after level.

    >>> reduced("abcdef", lambda several: "(" + "".join(several) + ")", fan_in=4)
    '((abcd)(ef))'
    """
    level = list(items)
    while len(level) > 1:
        groups = [level[start : start + fan_in] for start in range(0, len(level), fan_in)]
        level = [add(group) if len(group) > 1 else group[0] for group in groups]
    return level[0]


def total(records: Iterable[S], fan_in: int = FAN_IN) -> S:
    """The sum of an iterable of records in the order of `reduced`; few of them are in memory at a time.

    >>> from gpbounds.rows.source import Moments
    >>> total(Moments.of(np.array([[x]])) for x in (1.0, 2.0, 6.0)).mean
    array([3.])
    """
    levels: list[list[S]] = []

    def put(height: int, record: S) -> None:
        if height == len(levels):
            levels.append([])
        levels[height].append(record)
        if len(levels[height]) == fan_in:
            up(height)

    def up(height: int) -> None:
        group, levels[height] = levels[height], []
        put(height + 1, summed(group))

    for record in records:
        put(0, record)
    height = 0
    while sum(map(len, levels)) > 1:
        if levels[height]:
            up(height)
        height += 1
    return next(level[0] for level in levels if level)


# Programs.


class Round(NamedTuple):
    """One round of a program.

    Attributes
    ----------
    map : function of (state, rows), which returns a record of sums
    then : function of (state, total), which returns the next state
    """

    map: Callable[[Any, Any], Statistics]
    then: Callable[[Any, Any], Any]


def nothing() -> None:
    """The first state of programs that need none."""


def _the_total(state: Any, total: S) -> S:
    """The sum of all records as the next state."""
    return total


@dataclass(frozen=True, eq=False)
class Program:
    """A computation over rows, see the module.

    Attributes
    ----------
    begin : function without arguments, which returns the first state
    rounds : Round, …
        What follows.
    """

    begin: Callable[[], Any]
    rounds: tuple[Round, ...]

    @classmethod
    def one_pass(
        cls,
        map: Callable[[Any, Rows], Statistics],
        then: Callable[[Any, Any], Any] = _the_total,
        *,
        begin: Callable[[], Any] = nothing,
    ) -> Program:
        """The program of one round; by default its result is the sum of the records."""
        return cls(begin, (Round(map, then),))

    def after(self, change: Callable[[Rows], Rows]) -> Program:
        """The same computation over the rows ``change(rows)``."""
        return Program(self.begin, tuple(Round(_AfterChange(change, each.map), each.then) for each in self.rounds))


@dataclass(frozen=True, eq=False)
class _AfterChange:
    change: Callable[[Rows], Rows]
    map: Callable[[Any, Rows], Statistics]

    def __call__(self, state: Any, rows: Rows) -> Statistics:
        return self.map(state, self.change(rows))
