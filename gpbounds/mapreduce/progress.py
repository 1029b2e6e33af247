"""How far an evaluation over partitions is: a function is told of every partition that a pass has finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpbounds.mapreduce.program import Program, Rows


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
        """The result has come; messages that are still under way no longer matter."""
        everything = {(number, place) for number in range(self._passes) for place in range(self._partitions)}
        if self._seen != everything:
            self._seen = everything
            self._now()

    def _now(self) -> None:
        self._tell(Progress(len(self._seen), self._partitions, self._passes))


@dataclass(frozen=True, eq=False)
class Reporting:
    """The engine ``holder``, which tells a function how far each evaluation is.

    Attributes
    ----------
    holder : Holder
    tell : Tell
    """

    holder: Any
    tell: Tell

    def run(self, program: Program) -> Any:
        """The result of ``program``."""
        return self.holder.run(program, tell=self.tell)

    def only(self, places: Sequence[int]) -> Reporting:
        """The same with the partitions at these places."""
        return Reporting(self.holder.only(places), self.tell)

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition in this process, one after the other."""
        return self.holder.partitions()

    def release(self) -> None:
        """Free the memory of the partitions."""
        self.holder.release()
