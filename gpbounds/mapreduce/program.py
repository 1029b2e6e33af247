"""What an evaluation over partitions consists of, for any engine.

A program begins with a state.  In each of its rounds, ``map`` turns the state and the rows of one partition into a
record of sums, the records are added, and ``then`` turns the state and the total into the next state; the last state is
the result.  An evaluation of VFE or FITC has two rounds,
five functions altogether: map, then, map and then, and the sum of records.

All of them are pure, and engines send them to other processes by pickle.  They hold parameters, never rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from gpbounds.arrays import Array
from gpbounds.mapreduce.statistics import Statistics


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


class Round(NamedTuple):
    """One round of a program.

    Attributes
    ----------
    map : function of (state, rows), which returns a record of sums
    then : function of (state, total), which returns the next state
    """

    map: Callable[[Any, Rows], Statistics]
    then: Callable[[Any, Any], Any]


class Program(Protocol):
    """An evaluation; see the module."""

    def begin(self) -> Any:
        """The first state."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        """What follows."""


class Engine(Protocol):
    """Runs programs over the partitions that it holds."""

    def run(self, program: Program) -> Any:
        """The result of ``program``."""

    def release(self) -> None:
        """Free the memory of the partitions; they are read again when they are needed."""
