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
from dataclasses import replace
from pathlib import Path

import numpy as np

from fitting.study.standardised import Standardised, standardise
from gpbounds.arrays import Float
from gpbounds.cli import parquet

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


def load(path: Path) -> Standardised:
    """`Standardised` from a CSV file (or .csv.gz) with the target in its last column.

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
    return replace(data, notes=(*data.notes, *(("The first line was read as a header.",) if header else ())))
