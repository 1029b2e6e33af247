"""How the columns of a table become inputs: numbers, seconds, truth values, one input for each word.

An `Encoding` is found on the rows for training and stored with the model, so that new rows become the same inputs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from gpbounds.arrays import Float
from gpbounds.records import NATURAL, TEXT, TEXTS, TRUTH, Format, Record, Slot, Variants, many
from gpbounds.rows.cells import TRUTH as TRUTH_VALUES
from gpbounds.rows.cells import FileCells, FileColumn, is_time, listed
from gpbounds.rows.tables import is_number

MOST_WORDS = 50
"""Number of different words of a column, each of which becomes an input."""

_DAY_FIRST = re.compile(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{2,4}\b.*|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?", re.ASCII)
"""Dates and times of day that are not those of ISO 8601."""

_UNIT = re.compile(r"[$€£]\s*[+-]?[0-9][0-9.,]*|[+-]?[0-9][0-9.,]*\s*[%$€£]", re.ASCII)
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[.,' ][0-9]{3})*(?:[.,][0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class ColumnEncoding(Record, ABC):
    """How one column becomes numbers.

    Attributes
    ----------
    name : str
        From the header; empty without one.
    number : int
        From 1, in the file for training.
    """

    name: str
    number: int

    kind: ClassVar[str]
    stored: ClassVar[dict[str, Slot]] = {"name": TEXT, "number": NATURAL}

    @property
    def title(self) -> str:
        """The name, or x1, x2, ... by the number in the file."""
        return self.name or f"x{self.number}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs that the column becomes."""
        return (self.title,)

    @property
    def note(self) -> str:
        """What becomes of the column, in one sentence; empty if it holds numbers."""
        return ""

    @abstractmethod
    def numbers(self, column: FileColumn) -> Float:
        """The inputs (N, k) of the cells; `Unlike` for a cell of another kind."""


class Unlike(Exception):
    """A cell that the encoding of its column does not know.

    Attributes
    ----------
    row : int
    expected : str
    """

    def __init__(self, row: int, expected: str) -> None:
        super().__init__(row, expected)
        self.row, self.expected = row, expected


def _texts(column: FileColumn, expected: str) -> list[str]:
    """The texts of a column; numbers are unlike them."""
    if isinstance(column.cells, list):
        return column.cells
    raise Unlike(0, expected)


@dataclass(frozen=True)
class NumberColumn(ColumnEncoding):
    """A column of numbers, which stay as they are."""

    kind = "number"

    def numbers(self, column: FileColumn) -> Float:
        """The cells."""
        if isinstance(column.cells, list):
            first = next(i for i, cell in enumerate(column.cells) if not is_number(cell))
            raise Unlike(first, "a number")
        return np.asarray(column.cells, dtype=np.float64)[:, None]


@dataclass(frozen=True)
class TimeColumn(ColumnEncoding):
    """A column of dates, or of dates and times of day: seconds since ``origin``, the time of the first row.

    >>> when = TimeColumn("when", 1, "2024-01-31T12:00:00")
    >>> when.numbers(FileColumn("when", 1, ["2024-01-31 12:00", "2024-02-01"])).ravel().tolist()
    [0.0, 43200.0]
    """

    origin: str

    kind = "time"
    stored: ClassVar[dict[str, Slot]] = {**ColumnEncoding.stored, "origin": TEXT}

    def __post_init__(self) -> None:
        if not is_time(self.origin):
            raise ValueError(f"origin: expected a time such as 2024-01-31T12:00:00, got {self.origin[:60]!r}")

    @property
    def note(self) -> str:
        """The origin."""
        return f"{_named(self)} holds dates or times: seconds since {self.origin}."

    def numbers(self, column: FileColumn) -> Float:
        """Seconds; fractions of microseconds are not in a cell."""
        origin = datetime.fromisoformat(self.origin)
        zone = (
            "a time with a zone, as of the first row" if origin.tzinfo else "a time without zone, as of the first row"
        )
        expected = "a date or time such as 2024-01-31 or 2024-01-31 12:00"
        texts = _texts(column, expected)
        seconds = np.empty((len(texts), 1))
        for i, cell in enumerate(texts):
            time = datetime.fromisoformat(cell) if is_time(cell) else None
            if time is None or (time.tzinfo is None) != (origin.tzinfo is None):
                raise Unlike(i, expected if time is None else zone)
            seconds[i, 0] = (time - origin).total_seconds()
        return seconds


@dataclass(frozen=True)
class TruthColumn(ColumnEncoding):
    """A column of true and false: 1 and 0."""

    kind = "truth"

    @property
    def note(self) -> str:
        """Which number is which."""
        return f"{_named(self)} holds true and false: 1 and 0."

    def numbers(self, column: FileColumn) -> Float:
        """1 and 0; these numbers are read, too."""
        if isinstance(column.cells, np.ndarray):
            others = np.flatnonzero((column.cells != 0.0) & (column.cells != 1.0))
            if others.size:
                raise Unlike(int(others[0]), "true or false")
            return column.cells[:, None]
        values = [TRUTH_VALUES.get(cell.lower()) for cell in _texts(column, "true or false")]
        if None in values:
            raise Unlike(values.index(None), "true or false")
        return np.array(values, dtype=np.float64)[:, None]


@dataclass(frozen=True)
class CategoryColumn(ColumnEncoding):
    """A column of words: an input for each of ``levels``, 1 where the cell holds this word and 0 elsewhere.

    >>> CategoryColumn("region", 2, ("east", "west")).names
    ('region=east', 'region=west')
    """

    levels: tuple[str, ...]

    kind = "category"
    stored: ClassVar[dict[str, Slot]] = {**ColumnEncoding.stored, "levels": TEXTS}

    def __post_init__(self) -> None:
        if not self.levels or list(self.levels) != sorted(set(self.levels)):
            raise ValueError(f"levels: expected different words in order, got {', '.join(self.levels[:10])[:60]!r}")

    @property
    def names(self) -> tuple[str, ...]:
        """One for each word."""
        return tuple(f"{self.title}={level}" for level in self.levels)

    @property
    def note(self) -> str:
        """How many inputs."""
        count = len(self.levels)
        return f"{_named(self)} holds words: one input for each of {count} values ({_some(self.levels)})."

    def numbers(self, column: FileColumn) -> Float:
        """A row of zeros and a one for each cell."""
        known = {level: i for i, level in enumerate(self.levels)}
        expected = f"one of the {len(known)} words of the rows for training ({_some(self.levels)})"
        codes = [known.get(cell) for cell in _texts(column, expected)]
        if None in codes:
            raise Unlike(codes.index(None), expected)
        return np.eye(len(known))[np.array(codes, dtype=np.int64)]


@dataclass(frozen=True)
class LabelColumn(ColumnEncoding):
    """The target of a classifier: labels of any kind."""

    kind = "label"

    def numbers(self, column: FileColumn) -> Any:
        """The labels (N,): whole numbers or numbers if all of them are, else texts."""
        if isinstance(column.cells, list):
            return np.array(column.cells)
        cells = np.asarray(column.cells)
        return cells.astype(np.int64) if np.array_equal(cells, np.round(cells)) else cells


COLUMNS: Variants[ColumnEncoding] = Variants(
    "kind",
    {
        each.kind: Format(each, each.stored)
        for each in (NumberColumn, TimeColumn, TruthColumn, CategoryColumn, LabelColumn)
    },
)
"""The kinds of columns by their words in files."""

_KINDS = Slot(COLUMNS.read, COLUMNS.write)


def _named(column: ColumnEncoding) -> str:
    return listed([FileColumn(column.name, column.number, "")])


def _some(levels: tuple[str, ...]) -> str:
    shown = [level if len(level) <= 30 else level[:27] + "..." for level in levels[:8]]
    return ", ".join(shown) + (f" and {len(levels) - 8} more" if len(levels) > 8 else "")


def encoding_of(cells: FileCells, column: FileColumn) -> ColumnEncoding:
    """The kind of a column without missing cells, by all of its cells.

    Raises
    ------
    ValueError
        for dates of other formats, numbers among words, more than `MOST_WORDS` words, or a different word in each row.
    """
    name, number, texts = column.name, column.number, column.cells
    if isinstance(texts, np.ndarray):
        return NumberColumn(name, number)
    assert isinstance(texts, list)
    if all(text.lower() in TRUTH_VALUES for text in texts):
        return TruthColumn(name, number)
    if is_time(texts[0]):
        return TimeColumn(name, number, datetime.fromisoformat(texts[0]).isoformat())
    levels = sorted(set(texts))
    _refuse_numbers_in_words(cells, column, levels)
    if len(levels) > MOST_WORDS or len(levels) == len(texts) > 2:
        many_words = f"{len(levels)} different words in {len(texts)} rows"
        raise ValueError(
            f"{cells.path}: expected at most {MOST_WORDS} different words in {column}, each in several rows, got "
            f"{many_words}, such as {_some(tuple(levels[:3]))}: leave it out with {_ignored(column)}, or write its "
            "information as numbers or fewer words"
        )
    return CategoryColumn(name, number, tuple(levels))


def _ignored(column: FileColumn) -> str:
    return f"--ignore {column.option}"


def _refuse_numbers_in_words(cells: FileCells, column: FileColumn, levels: list[str]) -> None:
    """Refuse a column of numbers in which some cells are none, and cells that are numbers or times for people only."""
    texts = column.cells
    assert isinstance(texts, list)
    numbers = [level for level in levels if is_number(level)]
    remedies = (
        (_DAY_FIRST, "dates and times as ISO 8601 writes them, such as 2024-01-31 or 2024-01-31 12:00"),
        (_GROUPED, "numbers with a decimal point and without separators of thousands"),
        (_UNIT, "numbers without a unit"),
    )
    for pattern, expected in remedies:
        alike = [level for level in levels if pattern.fullmatch(level) and _sort(level) == "words"]
        if alike and len(alike) + len(numbers) == len(levels):
            raise ValueError(
                f"{cells.path}: expected {expected}, got {alike[0][:60]!r} in {cells.place(texts.index(alike[0]))}, "
                f"{column}: write the column anew, or leave it out with {_ignored(column)}"
            )
    sorts = [_sort(text) for text in texts]
    counts = sorted((sorts.count(sort), sort) for sort in set(sorts))
    if len(counts) > 1:
        first = sorts.index(counts[0][1])
        got = " and ".join(f"{sort} in {count}" for count, sort in counts)
        raise ValueError(
            f"{cells.path}: expected numbers, dates or words in all cells of {column}, got {got} of them, such as "
            f"{texts[first][:60]!r} in {cells.place(first)}: correct these cells, or empty them and pass "
            f"--drop-missing, or leave the column out with {_ignored(column)}"
        )


def _sort(text: str) -> str:
    return "numbers" if is_number(text) else "dates" if is_time(text) else "words"


@dataclass(frozen=True)
class Encoding(Record):
    """How the columns of a table become inputs and target.

    Attributes
    ----------
    inputs : tuple of ColumnEncoding
        The columns that become inputs, in their order.
    target : ColumnEncoding
        The column of the target.
    named : bool
        Whether a header names the columns, so that columns of another file are found by name; otherwise by number.
    width : int
        Number of columns of the file for training.

    >>> encoding = Encoding((NumberColumn("area", 1), CategoryColumn("region", 2, ("east", "west"))),
    ...                     NumberColumn("price", 3), named=True, width=3)
    >>> encoding.names
    ('area', 'region=east', 'region=west')
    >>> Encoding.from_dict(encoding.to_dict()) == encoding
    True
    """

    inputs: tuple[ColumnEncoding, ...]
    target: ColumnEncoding
    named: bool
    width: int

    stored: ClassVar[dict[str, Slot]] = {
        "inputs": many(COLUMNS.read)._replace(write=lambda columns: [COLUMNS.write(each) for each in columns]),
        "target": _KINDS,
        "named": TRUTH,
        "width": NATURAL,
    }

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("inputs: expected at least one column, got none")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs, one for each column of X."""
        return tuple(name for column in self.inputs for name in column.names)

    @property
    def target_name(self) -> str:
        """The name of the target, or "column 6" by its number in the file."""
        return self.target.name or f"column {self.target.number}"

    @property
    def notes(self) -> Iterator[str]:
        """What becomes of columns that hold no numbers, a sentence for each."""
        return (column.note for column in self.inputs if column.note)

    @property
    def numbers_only(self) -> bool:
        """Whether every column holds numbers."""
        return all(isinstance(column, NumberColumn) for column in (*self.inputs, self.target))


def encoded(cells: FileCells, column: FileColumn, how: ColumnEncoding) -> Any:
    """The inputs (N, k) of a column, or its labels.

    Raises
    ------
    ValueError
        for a cell of another kind, and for a word that the encoding does not know; the message says what it knows.
    """
    try:
        return how.numbers(column)
    except Unlike as unlike:
        got = column.cells[unlike.row]
        shown = repr(got[:60]) if isinstance(got, str) else f"{got:g}"
        raise ValueError(
            f"{cells.path}: expected {unlike.expected}, got {shown} in {cells.place(unlike.row)}, {column}"
        ) from None
