"""The order in which the sums of partitions are added: a tree that depends on their number only.

A tree rounds less than a running sum, and does not depend on which partition is ready first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from gpbounds.mapreduce.statistics import Statistics, summed

FAN_IN = 8
"""Number of sums that one step adds."""

S = TypeVar("S", bound=Statistics)
T = TypeVar("T")


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
    """The sum in the order of `reduced`, of records that come one by one; few of them are held at a time.

    >>> from gpbounds.sources.moments import Moments
    >>> import numpy as np
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
