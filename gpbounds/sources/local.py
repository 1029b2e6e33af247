"""Partitions that this process reads: one thread reads ahead, and rows that fit stay in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from gpbounds.mapreduce.program import Program, Rows
from gpbounds.mapreduce.progress import Counted, Tell
from gpbounds.mapreduce.serial import serial

KEPT = 2**29
"""Bytes of rows that stay in memory from one pass to the next; further partitions are read in every pass."""


class Part(Protocol):
    """One partition, which can be read again and again, also by another process."""

    def load(self) -> Rows:
        """Its checked rows."""


@dataclass
class Local:
    """The engine that reads partitions one after the other; see `gpbounds.mapreduce.serial`.

    Attributes
    ----------
    parts : sequence of Part
    keep : int
        Bytes of rows that stay in memory.
    """

    parts: Sequence[Part]
    keep: int = KEPT
    _kept: dict[int, Rows] = field(default_factory=dict, repr=False)
    _bytes: int = field(default=0, repr=False)

    def __iter__(self) -> Iterator[Rows]:
        return self.partitions()

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition, one after the other."""
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
        """The result of ``program``; ``tell`` is told how far it is."""
        if tell is None:
            return serial(program, self)
        counted = Counted(tell, len(self.parts), len(program.rounds))
        result = serial(program, self, counted)
        counted.end()
        return result

    def only(self, places: Sequence[int]) -> Local:
        """The same with the partitions at these places."""
        kept = {new: self._kept[old] for new, old in enumerate(places) if old in self._kept}
        return Local([self.parts[place] for place in places], 0, kept)

    def release(self) -> None:
        """Let the rows go; they are read again when they are needed."""
        self._kept.clear()
        self._bytes = 0

    def _remember(self, place: int, rows: Rows) -> None:
        size = rows.X.nbytes + rows.Y.nbytes
        if self._bytes + size <= self.keep:
            self._kept[place] = rows
            self._bytes += size
