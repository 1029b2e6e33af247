"""Stored results of long runs as lines of text: when they were measured, and whether today's files are still theirs.

A result names what it is about: files, properties, readers or works.  If one of them is gone, the number is of another
layout of the sources, and the line says so in its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cases
import history
import slow
from mutation import score

HERE = Path(__file__).parent
Record = dict[str, Any]


@dataclass(frozen=True)
class Measurement:
    """A kind of stored result.

    Attributes
    ----------
    name : str
    path : Path
        Its file.
    about : function
        What a record is about; None if the record does not say.
    exists : function
        Whether such a thing is there today.
    summary : function
        The record in a line.
    again : str
        The command that measures it.
    """

    name: str
    path: Path
    about: Callable[[Record], Iterable[str] | None]
    exists: Callable[[str], bool]
    summary: Callable[[Record], str]
    again: str

    def record(self) -> Record | None:
        """What is stored; None if nothing is."""
        return json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else None

    def gone(self, record: Record) -> list[str]:
        """What the record is about and is there no more."""
        return [each for each in self.about(record) or () if not self.exists(each)]

    def is_current(self) -> bool:
        """Whether the record is about things that are all there."""
        record = self.record()
        return record is not None and self.about(record) is not None and not self.gone(record)

    def line(self) -> str | None:
        """The number, or why there is none, and when it was measured; None if nothing is stored."""
        record = self.record()
        if record is None:
            return None
        commits = record.get("commits") or [record.get("commit", history.UNKNOWN)]
        when = history.measured(commits, self.path)
        if self.about(record) is None:
            return f"{self.name}: not shown, as {self.path.name} does not say what it is about ({when})"
        if gone := self.gone(record):
            others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            other = f"not shown, as it is about another layout of the sources, with {gone[0]}{others}"
            return f"{self.name}: {other} ({when}); {self.again} measures it again"
        return f"{self.name}: {self.summary(record)} ({when})"


@cache
def _properties() -> frozenset[str]:
    return frozenset(cases.properties())


def is_quoted(file: Path) -> Callable[[str], bool]:
    """Whether the file has the text in quotation marks."""
    return lambda name: f'"{name}"' in _text(file)


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _thorough(record: Record) -> str:
    return f"{cases.line(record)}, for {len(record['properties'])} of today's {len(_properties())} properties"


def _fuzzed(record: Record) -> str:
    return f"{record['files']:,} for {len(record['by reader'])} readers, {len(record['faults'])} faults"


def _killed(record: Record) -> str:
    return f"{record['kills']} in {len(record['by work'])} works, {record['faults']} faults"


def _attacked(record: Record) -> str:
    return f"{record['cases']:,} sets for {record['bounds']:,} bounds, {record['violations']} violations"


MUTANTS = Measurement(
    "mutation testing",
    score.SCORE,
    lambda record: record["modules"],
    lambda file: (history.ROOT / file).is_file(),
    score.summary,
    "python verification/mutants.py --score",
)
THOROUGH = Measurement(
    "thorough run",
    cases.THOROUGH,
    lambda record: record.get("properties"),
    lambda name: name in _properties(),
    _thorough,
    "python verification/cases.py",
)
SLOW = Measurement(
    "slow tests",
    slow.SLOW,
    lambda record: record["functions"],
    lambda name: name in slow.functions(),
    slow.line,
    "python verification/slow.py",
)
FUZZ = Measurement(
    "changed files",
    HERE / "fuzz.json",
    lambda record: record["by reader"],
    is_quoted(HERE / "robustness" / "readers.py"),
    _fuzzed,
    "python verification/fuzz.py --store",
)
KILLS = Measurement(
    "kills",
    HERE / "kills.json",
    lambda record: record["by work"],
    is_quoted(HERE / "robustness" / "jobs.py"),
    _killed,
    "python verification/kills.py --store",
)
HILBERT = Measurement(
    "rows against bounds of Hilbert-space GPs",
    HERE / "hilbert_rows.json",
    lambda record: record["kinds"],
    is_quoted(HERE / "hilbert_rows.py"),
    _attacked,
    "python verification/hilbert_rows.py --store",
)
ALL = (MUTANTS, THOROUGH, SLOW, FUZZ, KILLS, HILBERT)


def lines() -> list[str]:
    """A line for each stored result."""
    return [line for each in ALL if (line := each.line()) is not None]
