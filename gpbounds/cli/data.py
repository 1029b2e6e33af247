"""Read tables of numbers, inputs first and the target in the last column, and standardise them: CSV or Parquet."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, is_constant
from gpbounds.cli import parquet


@dataclass(frozen=True, eq=False)
class Data:
    """Standardised data: every column of X and y has mean 0 and variance 1.

    Attributes
    ----------
    name : str
        Name of the data in figures and reports.
    X : array (N, D)
    y : array (N,)
    notes : tuple of str
        How they were changed.
    """

    name: str
    X: Float
    y: Float
    notes: tuple[str, ...] = ()

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])

    def subset(self, rows: int, seed: int) -> Data:
        """``rows`` rows drawn without replacement, in their order; all rows if there are no more."""
        if rows < 2:
            raise ValueError(f"--rows: expected a whole number >= 2, got {rows}")
        if rows >= self.N:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(self.N, rows, replace=False))
        return Data(self.name, self.X[chosen], self.y[chosen], self.notes)


LARGEST = 2**22
"""Characters of the text of a gzip file that need no further reason."""

RATIO = 100
"""Largest ratio of the text to the gzip file beyond them; that of numbers is 2 to 20."""

NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*", re.ASCII)
"""A decimal number; Python's ``float`` also reads 1_0 and the digits of other scripts."""

USUAL = frozenset("0123456789+-.eE \t")
"""Characters of decimal numbers; what ``float`` reads of them is one."""

WHOLE = re.compile(r"[ \t]*[+-]?[0-9]{16,}[ \t]*", re.ASCII)
"""A whole number of so many digits that a double may not hold it."""

NO_VALUE = re.compile(r"[ \t]*[+-]?(?:nan|inf|infinity)[ \t]*", re.ASCII | re.IGNORECASE)


def _bytes(path: Path) -> bytes:
    """The bytes of a file; a gzip file is not unpacked beyond what its size justifies."""
    if path.suffix != ".gz":
        return path.read_bytes()
    limit, unpacked = max(LARGEST, RATIO * path.stat().st_size), bytearray()
    try:
        with gzip.open(path, "rb") as file:
            while piece := file.read(2**18):
                unpacked += piece
                if len(unpacked) > limit:
                    raise ValueError(
                        f"{path}: expected a gzip file of at most {limit} characters, got a longer text, more than "
                        f"{RATIO} times the file: unpack it yourself if you trust it"
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{path}: expected a gzip file, got a damaged file or another format") from None
    return bytes(unpacked)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not blank."""
    data = _bytes(path)
    first = data.lstrip().partition(b"\n")[0]
    delimiter = next((mark for mark in ",;\t" if mark.encode() in first), ",")
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline=""), delimiter=delimiter)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected a text file with comma-separated numbers") from None
    except csv.Error as error:
        raise ValueError(f"{path}: expected comma-separated numbers, but {error}") from None


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None or NO_VALUE.fullmatch(cell) is not None


def read_table(path: Path) -> tuple[Float, bool]:
    """The numbers of a CSV file, shape (rows, columns), and whether its first line was a header.

    Parquet files, and folders of them, have a header.

    Raises
    ------
    ValueError
        for text (the message names line and column), lines of different lengths, NaN or infinity (the message names the
        lines), or no rows.
    OSError
        if the file cannot be read.
    """
    if parquet.is_parquet(path):
        return parquet.numbers(path), True
    lines = _lines(path)
    first = next(lines, None)
    header = first is not None and not all(map(_is_number, first[1]))
    return _numbers(path, lines if header or first is None else itertools.chain([first], lines), header), header


def read_with_words(path: Path, column: int) -> tuple[Float, list[str], str | None]:
    """The numbers of a CSV file without one ``column``, the cells of this column, and its name.

    The first line is a header if another cell than that of ``column`` holds no number.

    Returns
    -------
    values : array (rows, columns - 1)
    words : list of str
        Without spaces around them.
    name : str, optional
        None without a header.

    Raises
    ------
    ValueError, OSError
        as `read_table`; for an empty cell in ``column``.
    """
    if parquet.is_parquet(path):
        names = parquet.names(path)
        label = names.pop(column)
        return parquet.numbers(path, names), parquet.words(path, label), label
    lines = list(_lines(path))
    first = lines[0][1] if lines else []
    header = not all(_is_number(cell) for i, cell in enumerate(first) if i != column)
    body, words = [], []
    for line, cells in lines[header:]:
        if len(cells) != len(first):
            raise ValueError(f"{path}: expected {len(first)} columns in every row, got {len(cells)} in line {line}")
        if not cells[column].strip():
            raise ValueError(f"{path}: expected a label, got an empty cell in line {line}, column {column + 1}")
        words.append(cells[column].strip())
        body.append((line, ["0" if i == column else cell for i, cell in enumerate(cells)]))
    values = np.delete(_numbers(path, body, header), column, axis=1)
    return values, words, first[column].strip() if header else None


def _numbers(path: Path, body: Iterable[tuple[int, list[str]]], header: bool) -> Float:
    """The numbers of the lines of a table; every cell must hold one.  Memory is taken as they come."""
    values, numbers, width = array("d"), array("q"), 0
    for line, cells in body:
        width = width or len(cells)
        if len(cells) != width:
            raise ValueError(f"{path}: expected {width} columns in every row, got {len(cells)} in line {line}")
        try:
            if not USUAL.issuperset("".join(cells)) and not all(map(_is_number, cells)):
                raise ValueError
            values.extend(map(float, cells))
        except ValueError:
            column = next(j for j, cell in enumerate(cells) if not _is_number(cell))
            cell_text = repr(cells[column][:60]) if cells[column].strip() else "an empty cell"
            raise ValueError(f"{path}: expected numbers, got {cell_text} in line {line}, column {column + 1}") from None
        if max(map(len, cells)) > 15:
            _require_whole(path, line, cells, values[-width:])
        numbers.append(line)
    if not numbers:
        raise ValueError(f"{path}: expected rows of numbers, got {'a header line only' if header else 'none'}")
    table = np.array(values).reshape(len(numbers), width)
    bad = [numbers[i] for i in np.flatnonzero(~np.isfinite(table).all(axis=1))]
    if bad:
        shown = ", ".join(map(str, bad[:5])) + (" ..." if len(bad) > 5 else "")
        raise ValueError(f"{path}: expected finite numbers, got NaN or infinity in {len(bad)} row(s), line(s) {shown}")
    return table


def _require_whole(path: Path, line: int, cells: list[str], numbers: Iterable[float]) -> None:
    """Refuse whole numbers, as those of times and keys, whose last digits doubles do not hold."""
    for column, (cell, number) in enumerate(zip(cells, numbers, strict=True)):
        if WHOLE.fullmatch(cell) and math.isfinite(number) and int(cell) != int(number):
            raise ValueError(
                f"{path}: expected numbers that doubles hold exactly (all whole numbers up to 2^53), got "
                f"{cell.strip()} in line {line}, column {column + 1}: subtract a common offset from this column"
            )


def first_cells(path: Path) -> list[str]:
    """The cells of the first line, without spaces around them; the names of the columns of a Parquet file."""
    if parquet.is_parquet(path):
        return parquet.names(path)
    return [cell.strip() for cell in next((cells for _, cells in _lines(path)), [])]


def column_names(path: Path) -> list[str] | None:
    """The cells of the first line if it is a header; None if it holds numbers."""
    cells = first_cells(path)
    if parquet.is_parquet(path):
        return cells
    return None if all(_is_number(cell) for cell in cells) else cells


def standardised(column: Float) -> Float | None:
    """``column`` shifted and scaled to mean 0 and variance 1; None if it is constant up to rounding."""
    scale = float(np.abs(column).max())
    if scale == 0.0:
        return None
    centred = column / scale
    centred = centred - centred.mean()
    std = float(np.sqrt((centred**2).mean()))
    return None if is_constant(std, 1.0) else centred / std


def standardise(name: str, X: ArrayLike, y: ArrayLike) -> Data:
    """`Data` from raw inputs (N, D) and targets (N,); drops constant inputs and refuses a constant target.

    Raises
    ------
    ValueError
        for fewer than two rows, if no input varies, or if the target does not vary.

    >>> data = standardise("three", [[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]], [0.0, 1.0, 5.0])
    >>> data.X.round(3).ravel().tolist(), data.notes[1]
    ([-1.225, 0.0, 1.225], 'Dropped constant input column(s) 2.')
    """
    raw, target = np.asarray(X, dtype=np.float64), standardised(np.asarray(y, dtype=np.float64))
    if raw.shape[0] < 2:
        raise ValueError(f"{name}: expected at least 2 rows, got {raw.shape[0]}")
    if target is None:
        raise ValueError(f"{name}: expected a target (the last column) that varies, got a constant one")
    columns = [standardised(raw[:, j]) for j in range(raw.shape[1])]
    kept = [column for column in columns if column is not None]
    if not kept:
        raise ValueError(f"{name}: expected an input column that varies, got only constant ones")
    notes = ["Inputs and target are standardised: mean 0, variance 1."]
    if len(kept) < len(columns):
        dropped = ", ".join(str(j + 1) for j, column in enumerate(columns) if column is None)
        notes.append(f"Dropped constant input column(s) {dropped}.")
    return Data(name, np.column_stack(kept), target, tuple(notes))


def load(path: Path) -> Data:
    """`Data` from a CSV file (or .csv.gz) with the target in its last column.

    Raises
    ------
    ValueError, OSError
        as :func:`read_table` and :func:`standardise`; for a single column.
    """
    values, header = read_table(path)
    if values.shape[1] < 2:
        raise ValueError(f"{path}: expected at least two columns, inputs and then the target, got one")
    name = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")
    data = standardise(name, values[:, :-1], values[:, -1])
    return Data(name, data.X, data.y, (*data.notes, *(("The first line was read as a header.",) if header else ())))
