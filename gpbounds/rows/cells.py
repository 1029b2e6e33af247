"""The cells of a table in a file, column by column: numbers, or texts; the header, decimal commas, missing cells."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.rows.parquet import is_parquet, parquet_cells, parquet_names
from gpbounds.rows.tables import NUMBER, WHOLE, csv_numbers, delimiter_of, is_number, lines_of

MISSING = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "?"))
"""FileCells that say that a value is missing, in small letters."""

TRUTH = {"true": 1.0, "false": 0.0}
"""Truth values, in small letters, and their numbers."""

ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?",
    re.ASCII,
)
"""A date, or a date and a time of day, as ISO 8601 writes it."""

HEADERS = ("auto", "yes", "no")
"""Whether the first line of a CSV file is a header: what its cells say, or what the caller says."""

_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+(?:,[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)

INDEX = ("", "Unnamed: 0")
"""Names of the first column in which pandas writes the numbers of the rows."""

_STORED_INDEX = "__index_level_0__"
"""Name of such a column in a Parquet file."""


@dataclass(frozen=True, eq=False)
class FileColumn:
    """One column of a file.

    Attributes
    ----------
    name : str
        From the header; empty without one.
    number : int
        From 1.
    cells : array, list of str, or str
        Numbers, NaN where a cell is missing; texts, empty where a cell is missing; or in words what else it holds.
    """

    name: str
    number: int
    cells: Float | list[str] | str

    def __str__(self) -> str:
        return f"column {self.name!r}" if self.name else f"column {self.number}"

    @property
    def option(self) -> str:
        """The column as an option names it."""
        return self.name or str(self.number)

    @property
    def missing(self) -> Any:
        """Truth values (N,): which cells are missing."""
        return np.isnan(self.cells) if isinstance(self.cells, np.ndarray) else np.array([not c for c in self.cells])

    def rows(self, kept: Any) -> FileColumn:
        """The rows of the mask ``kept``."""
        if isinstance(self.cells, np.ndarray):
            return FileColumn(self.name, self.number, self.cells[kept])
        cells = [cell for cell, keep in zip(self.cells, kept, strict=True) if keep]
        return FileColumn(self.name, self.number, cells)


@dataclass(frozen=True, eq=False)
class FileCells:
    """The columns of a file.

    Attributes
    ----------
    path : Path
    columns : tuple of FileColumn
    named : bool
        Whether a header names them.
    lines : sequence of int
        The line of each row; in a Parquet file its number.
    notes : tuple of str
        How the file was read.
    strict : bool
        Whether `gpbounds.rows.read_table` reads the same rows of numbers.
    """

    path: Path
    columns: tuple[FileColumn, ...]
    named: bool
    lines: Sequence[int]
    notes: tuple[str, ...] = ()
    strict: bool = False

    @property
    def N(self) -> int:
        """Number of rows."""
        return len(self.lines)

    def place(self, row: Any) -> str:
        """Where a row stands in the file."""
        return f"{'row' if is_parquet(self.path) else 'line'} {self.lines[int(row)]}"

    @property
    def index(self) -> FileColumn | None:
        """The column in which pandas has written the numbers of the rows: 0, 1, 2, ... or 1, 2, 3, ..."""
        for column in self.columns:
            first = self.named and column.number == 1 and column.name in INDEX
            if (first or column.name == _STORED_INDEX) and isinstance(column.cells, np.ndarray) and self.N:
                counted = column.cells - column.cells[0]
                if column.cells[0] in (0.0, 1.0) and np.array_equal(counted, np.arange(self.N)):
                    return column
        return None


def read_cells(path: Path, header: str = "auto") -> FileCells:
    """The cells of a CSV file (also .csv.gz), a Parquet file, or the Parquet files of a folder.

    With ``header="auto"`` the first line of a CSV file is a header if one of its cells holds neither a value, such as a
    number or a date, nor a word that the same column holds again; and if it counts the columns, 0, 1, 2, ..., as the
    names do that pandas gives.

    Raises
    ------
    ValueError, OSError, ImportError
        for lines of different lengths, no rows, or a damaged file.
    """
    if is_parquet(path):
        return _parquet_table(path)
    lines = lines_of(path)
    line, first = next(lines, (0, []))
    names = [cell.strip() for cell in first]
    counted = header == "auto" and _counts(names)
    strict = not all(map(is_number, first))
    heading = counted or strict if header == "auto" else header == "yes"
    notes = (
        (_COUNTED.format(", ".join(names) if len(names) < 8 else f"{', '.join(names[:3])}, ..., {names[-1]}"),)
        if counted
        else ()
    )
    if counted or not (heading and all(is_number(cell) or _is_missing(cell) for cell in names)):
        body = lines if heading or not first else itertools.chain([(line, first)], lines)
        try:
            values, numbers = csv_numbers(path, body, heading)
        except ValueError:  # not a table of finite numbers alone, or one that the reader of texts refuses, too
            return _texts(path, header, notes)
        if not heading or len(names) == values.shape[1]:
            titles = names if heading else [""] * values.shape[1]
            columns = tuple(FileColumn(name, j + 1, values[:, j]) for j, name in enumerate(titles))
            return FileCells(path, columns, heading, numbers, notes, strict=heading == strict)
    return _texts(path, header, notes)


_COUNTED = (
    "The first line ({}) was read as a header, as pandas writes one for columns without names; --header no "
    "reads it as a row."
)
_MIXED_HEADER = "The first line was read as a header: {}; --header no reads it as a row."


def _counts(names: list[str]) -> bool:
    """Whether the first line counts the columns, 0, 1, 2, ..., perhaps after pandas' index, which has no name."""
    own = names[1:] if names[:1] == [""] else names
    return len(own) > 1 and own == [str(j) for j in range(len(own))]


def _is_missing(cell: str) -> bool:
    return cell.lower() in MISSING


def is_time(cell: str) -> bool:
    """Whether a cell holds a date or a date and a time of day, as ISO 8601 writes it.

    >>> is_time("2024-01-31 12:00"), is_time("2024-02-31"), is_time("31.1.2024")
    (True, False, False)
    """
    if not ISO.fullmatch(cell):
        return False
    try:
        datetime.fromisoformat(cell)
    except ValueError:
        return False
    return True


def _is_heading(first: list[str], body: list[list[str]]) -> bool:
    """Whether a cell of the first line holds no value, and no word that its column holds again."""
    for j, cell in enumerate(first):
        value = is_number(cell) or _is_missing(cell) or is_time(cell) or cell.lower() in TRUTH
        value = value or _DECIMAL_COMMA.fullmatch(cell) is not None
        if not value and not any(row[j].strip() == cell for row in body):
            return True
    return False


def _texts(path: Path, header: str, notes: tuple[str, ...]) -> FileCells:
    """The columns of a CSV file whose cells are not all numbers."""
    lines, width = [], 0
    for line, cells in lines_of(path):
        width = width or len(cells)
        if len(cells) != width:
            raise ValueError(f"{path}: expected {width} columns in every row, got {len(cells)} in line {line}")
        lines.append((line, cells))
    first = [cell.strip() for cell in lines[0][1]] if lines else []
    body = [cells for _, cells in lines]
    heading = header == "yes" or (header == "auto" and (bool(notes) or _is_heading(first, body[1:])))
    if not body[heading:]:
        raise ValueError(f"{path}: expected rows of numbers, got {'a header line only' if heading else 'none'}")
    if heading and not notes and header == "auto" and any(map(is_number, first)):
        notes = (_MIXED_HEADER.format(", ".join(first)),)
    texts = [[cell.strip(" \t") for cell in column] for column in zip(*body[heading:], strict=True)]
    texts = [["" if _is_missing(cell) else cell for cell in column] for column in texts]
    columns = [FileColumn(first[j] if heading else "", j + 1, _numbers(cells)) for j, cells in enumerate(texts)]
    if any(isinstance(column.cells, list) and any("," in cell for cell in column.cells) for column in columns):
        columns, commas = _with_decimal_commas(path, columns, texts)
        notes += commas
    return FileCells(path, tuple(columns), heading, [line for line, _ in lines[heading:]], notes)


def _numbers(cells: list[str]) -> Float | list[str] | str:
    """The numbers of a column in which every cell holds one or is missing; else its texts."""
    if not all(is_number(cell) for cell in cells if cell):
        return cells
    if any(WHOLE.fullmatch(cell) and math.isfinite(float(cell)) and int(cell) != int(float(cell)) for cell in cells):
        return "larger ones than whole numbers below 2^53, which doubles hold: subtract a common offset"
    return np.array([float(cell) if cell else np.nan for cell in cells])


def _with_decimal_commas(path: Path, columns: list[FileColumn], texts: list[list[str]]) -> tuple[Any, tuple[str, ...]]:
    """The columns, those with decimal commas as numbers, and a note; a comma that separates cells is none."""
    if delimiter_of(path) == ",":
        return columns, ()
    read: list[FileColumn] = []
    changed: list[FileColumn] = []
    for column in columns:
        if isinstance(column.cells, list) and all(_DECIMAL_COMMA.fullmatch(cell) for cell in column.cells if cell):
            numbers = _numbers([cell.replace(",", ".") for cell in column.cells])
            column = FileColumn(column.name, column.number, numbers)
            changed.append(column)
        read.append(column)
    for column, cells in zip(read, texts, strict=True):
        point = next((cell for cell in cells if "." in cell and NUMBER.fullmatch(cell)), None)
        if changed and point is not None:
            raise ValueError(
                f"{path}: expected one decimal mark in all columns, got a comma in {changed[0]} and {point!r} in "
                f"{column}: write all numbers with points, or with commas, and without separators of thousands"
            )
    if not changed:
        return columns, ()
    return read, (f"{listed(changed)} {'has' if len(changed) == 1 else 'have'} decimal commas.",)


def listed(columns: Sequence[FileColumn]) -> str:
    """Columns at the beginning of a sentence."""
    if len(columns) == 1:
        return str(columns[0]).capitalize() if not columns[0].name else f"Column {columns[0].name!r}"
    shown = [repr(column.name) if column.name else str(column.number) for column in columns]
    return "Columns " + ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")


def _parquet_table(path: Path) -> FileCells:
    names, cells = parquet_names(path), parquet_cells(path)
    sizes = [len(column) for column in cells if not isinstance(column, str)]
    if not sizes:
        raise ValueError(f"{path}: expected columns of numbers, texts, times or truth values, got none")
    if sizes[0] == 0:
        raise ValueError(f"{path}: expected rows of numbers, got none")
    columns = tuple(FileColumn(name, j + 1, own) for j, (name, own) in enumerate(zip(names, cells, strict=True)))
    strict = all(isinstance(own, np.ndarray) and np.isfinite(own).all() for own in cells)
    texts = tuple(_without_words_for_missing(column) for column in columns)
    return FileCells(path, texts, True, range(1, sizes[0] + 1), strict=strict)


def _without_words_for_missing(column: FileColumn) -> FileColumn:
    """A column of texts in which no cell says in words that its value is missing; texts of numbers are numbers."""
    if not isinstance(column.cells, list):
        return column
    cells = ["" if _is_missing(cell) else cell for cell in column.cells]
    return FileColumn(column.name, column.number, _numbers(cells))
