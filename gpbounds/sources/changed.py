"""Rows in other units: an engine that changes the rows of each partition where they are, before a program sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpbounds.arrays import Float
from gpbounds.mapreduce.program import Program, Round, Rows
from gpbounds.mapreduce.statistics import Statistics
from gpbounds.sources.source import Holder, Source

Change = Callable[[Rows], Rows]
"""A function that can be pickled."""


@dataclass(frozen=True, eq=False)
class Changed:
    """The engine ``holder`` for the rows ``change(rows)``."""

    holder: Holder
    change: Change

    def run(self, program: Program) -> Any:
        """The result of ``program``."""
        return self.holder.run(_OfChanged(program, self.change))

    def only(self, places: Sequence[int]) -> Changed:
        """The same with the partitions at these places."""
        return Changed(self.holder.only(places), self.change)

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition in this process, one after the other."""
        return map(self.change, self.holder.partitions())

    def release(self) -> None:
        """Free the memory of the partitions."""
        self.holder.release()


@dataclass(frozen=True, eq=False)
class Shifted:
    """The change of y into (y − shift)/scale."""

    shift: Float | float
    scale: Float | float

    def __call__(self, rows: Rows) -> Rows:
        return rows._replace(Y=(rows.Y - self.shift) / self.scale)


def changed(rows: Source, change: Change) -> Source:
    """The rows ``change(rows)``; one pass."""
    return Source.of(Changed(rows.holder, change), single=rows.single, names=rows.names, numbers=rows.numbers)


def with_targets(rows: Source, shift: Float, scale: Float) -> Source:
    """``rows`` with (y − shift)/scale in place of y; one pass.

    >>> import numpy as np
    >>> from gpbounds.sources import source
    >>> rows = with_targets(source(np.eye(2), np.array([1.0, 3.0])), np.ones(1), np.full(1, 2.0))
    >>> rows.rows(np.arange(2))[1].tolist()
    [[0.0], [1.0]]
    """
    return changed(rows, Shifted(shift, scale))


@dataclass(frozen=True, eq=False)
class _OfChanged:
    """A program that changes rows first."""

    program: Program
    change: Change

    def begin(self) -> Any:
        """The first state."""
        return self.program.begin()

    @property
    def rounds(self) -> tuple[Round, ...]:
        return tuple(Round(_AfterChange(self.change, each.map), each.then) for each in self.program.rounds)


@dataclass(frozen=True, eq=False)
class _AfterChange:
    change: Change
    map: Callable[[Any, Rows], Statistics]

    def __call__(self, state: Any, rows: Rows) -> Statistics:
        return self.map(state, self.change(rows))
