"""Engines, which run a program over partitions of rows: in memory, or read one after the other.

Every engine adds in the order of `gpbounds.rows.program.reduced`, so that results have equal bits.  `serial` is the
reference.  The third engine, for Dask, is `gpbounds.rows.dask_rows.Cluster`.  Each can report every partition that a
pass has finished to a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.rows.program import Program, Round, Rows, total

KEPT = 2**29
"""Bytes of rows that stay in memory from one pass to the next; further partitions are read in every pass."""


# Progress of an evaluation.


class Progress(NamedTuple):
    """The state of one evaluation.

    Attributes
    ----------
    done : int
        Number of partitions that its passes have finished, of ``partitions``·``passes``.
    partitions, passes : int
        Number of partitions, and of passes over all of them.
    """

    done: int
    partitions: int
    passes: int

    @property
    def total(self) -> int:
        """The number of tasks: a partition in a pass."""
        return self.partitions * self.passes

    @property
    def number(self) -> int:
        """The number of the present pass, from 1.

        >>> Progress(5, 4, 2).number, Progress(8, 4, 2).number
        (2, 2)
        """
        return min(self.done // self.partitions + 1, self.passes)


Tell = Callable[[Progress], None]
"""A function that may be called by another thread than the one that trains; ``done`` grows from 0 to the total."""


class Counted:
    """Counts the tasks of one evaluation; a task that is repeated, as its worker was lost, counts once."""

    def __init__(self, tell: Tell, partitions: int, passes: int) -> None:
        self._tell, self._partitions, self._passes = tell, partitions, passes
        self._seen: set[tuple[int, int]] = set()
        self._now()

    def finished(self, number: int, partition: int) -> None:
        """Pass ``number`` has finished a partition."""
        if (number, partition) not in self._seen:
            self._seen.add((number, partition))
            self._now()

    def end(self) -> None:
        """Count all tasks as finished, as the result is there; later messages change nothing."""
        everything = {(number, place) for number in range(self._passes) for place in range(self._partitions)}
        if self._seen != everything:
            self._seen = everything
            self._now()

    def _now(self) -> None:
        self._tell(Progress(len(self._seen), self._partitions, self._passes))


# Engines.


class Engine(Protocol):
    """Runs programs over the partitions that it holds."""

    def run(self, program: Program) -> Any:
        """The result of ``program``."""

    def only(self, places: Sequence[int]) -> Engine:
        """The same engine, restricted to the partitions at these positions."""

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition in this process, one after the other."""

    def release(self) -> None:
        """Free the memory of the partitions; they are read again when they are needed."""


def serial(program: Program, partitions: Sequence[Rows] | Local, tell: Tell | None = None) -> Any:
    """The result of ``program`` over ``partitions``, which are read once in each round; lanes share their work.

    ``tell`` is called after each partition.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.renyi.streamed import whitening_pass
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> program = whitening_pass(SquaredExponential(), X[::2], 0.0, 0.1)
    >>> white = serial(program, [Rows(X[:2], Y[:2], 0), Rows(X[2:], Y[2:], 1)])
    >>> white.rank, round(white.trace, 4)  # as gpbounds.whitening.whiten
    (1, 0.3519)
    """
    counted = None if tell is None else Counted(tell, len(partitions), len(program.rounds))
    with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
        state = program.begin()
        for number, step in enumerate(program.rounds):
            state = step.then(state, total(_mapped(step, number, state, partitions, counted)))
    if counted is not None:
        counted.end()
    return state


def _mapped(
    step: Round, number: int, state: Any, partitions: Sequence[Rows] | Local, counted: Counted | None
) -> Iterator[Any]:
    for place, rows in enumerate(partitions):
        yield step.map(state, rows)
        if counted is not None:
            counted.finished(number, place)


@dataclass(frozen=True, eq=False)
class Memory:
    """The engine of rows in memory.

    Attributes
    ----------
    rows : sequence of Rows
        The partitions.
    """

    rows: Sequence[Rows]

    def run(self, program: Program, tell: Tell | None = None) -> Any:
        """The result of ``program``; ``tell`` receives the progress."""
        return serial(program, self.rows, tell)

    def only(self, places: Sequence[int]) -> Memory:
        """The same engine, restricted to the partitions at these positions."""
        return Memory([self.rows[place] for place in places])

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition."""
        return iter(self.rows)

    def release(self) -> None:
        """Do nothing, as the caller owns the rows."""


class Loadable(Protocol):
    """One partition, which can be read again and again, also by another process."""

    def load(self) -> Rows:
        """Its checked rows."""


@dataclass
class Local:
    """The engine that reads partitions one after the other: one thread reads ahead, and rows that fit stay in memory.

    Attributes
    ----------
    parts : sequence of Loadable
    keep : int
        Bytes of rows that stay in memory.
    """

    parts: Sequence[Loadable]
    keep: int = KEPT
    _kept: dict[int, Rows] = field(default_factory=dict, repr=False)
    _bytes: int = field(default=0, repr=False)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[Rows]:
        waiting = [place for place in range(len(self.parts)) if place not in self._kept]
        with ThreadPoolExecutor(1) as reader:
            ahead = None
            for place in range(len(self.parts)):
                if place in self._kept:
                    yield self._kept[place]
                    continue
                waiting.pop(0)
                rows = (ahead or reader.submit(self.parts[place].load)).result()
                ahead = reader.submit(self.parts[waiting[0]].load) if waiting else None
                self._remember(place, rows)
                yield rows

    def run(self, program: Program, tell: Tell | None = None) -> Any:
        """The result of ``program``; ``tell`` receives the progress."""
        return serial(program, self, tell)

    def only(self, places: Sequence[int]) -> Local:
        """The same engine, restricted to the partitions at these positions."""
        kept = {new: self._kept[old] for new, old in enumerate(places) if old in self._kept}
        return Local([self.parts[place] for place in places], 0, kept)

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition, one after the other."""
        return iter(self)

    def release(self) -> None:
        """Let the rows go; they are read again when they are needed."""
        self._kept.clear()
        self._bytes = 0

    def _remember(self, place: int, rows: Rows) -> None:
        size = rows.X.nbytes + rows.Y.nbytes
        if self._bytes + size <= self.keep:
            self._kept[place] = rows
            self._bytes += size


# Engines around an engine.


@dataclass(frozen=True, eq=False)
class Reporting:
    """The engine ``holder``, which reports the progress of each evaluation to a function.

    Attributes
    ----------
    holder : Engine
    tell : Tell
    """

    holder: Any
    tell: Tell

    def run(self, program: Program) -> Any:
        """The result of ``program``."""
        return self.holder.run(program, tell=self.tell)

    def only(self, places: Sequence[int]) -> Reporting:
        """The same engine, restricted to the partitions at these positions."""
        return Reporting(self.holder.only(places), self.tell)

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition in this process, one after the other."""
        return self.holder.partitions()

    def release(self) -> None:
        """Free the memory of the partitions."""
        self.holder.release()


Change = Callable[[Rows], Rows]
"""A function that can be pickled."""


@dataclass(frozen=True, eq=False)
class Changed:
    """The engine ``holder`` for the rows ``change(rows)``, which are computed where the rows are."""

    holder: Engine
    change: Change

    def run(self, program: Program) -> Any:
        """The result of ``program``."""
        return self.holder.run(program.after(self.change))

    def only(self, places: Sequence[int]) -> Changed:
        """The same engine, restricted to the partitions at these positions."""
        return Changed(self.holder.only(places), self.change)

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition in this process, one after the other."""
        return map(self.change, self.holder.partitions())

    def release(self) -> None:
        """Free the memory of the partitions."""
        self.holder.release()
