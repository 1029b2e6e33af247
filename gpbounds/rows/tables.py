"""Tables of numbers in files: CSV, CSV in gzip, Parquet files, and folders of Parquet files.

`read_table` is the strict reader: names of columns, numbers that doubles hold exactly, finite numbers; each refusal
names the file and the place in it.  Words, dates and missing cells are read by `gpbounds.rows.table_rows`.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import math
import os
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpbounds.arrays import Float
from gpbounds.files import LARGEST, content, regular, replacing
from gpbounds.rows.parquet import is_parquet, parquet_names, parquet_numbers, write_parquet
from gpbounds.validation import path_of


class TableOfNumbers(NamedTuple):
    """The numbers in a file, and the names of their columns.

    Attributes
    ----------
    values : array (rows, columns)
    names : list of str, optional
        None without a header.
    """

    values: Float
    names: list[str] | None


def read_table(path: str | os.PathLike[str]) -> TableOfNumbers:
    """The numbers of a CSV file (also .csv.gz), a Parquet file, or the Parquet files of a folder by name.

    The first line of a CSV file is a header if one of its cells holds no number.

    Raises
    ------
    ValueError
        for text (the message names line and column), lines of different lengths, whole numbers that no double equals,
        NaN or infinity (the message names the lines), no rows, or a damaged file.
    OSError
        if the file cannot be read.
    ImportError
        for Parquet without pyarrow.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "table.csv"
    ...     _ = path.write_text("length,width\\n1.5,2\\n0.5,4\\n", encoding="utf-8")
    ...     values, names = read_table(path)
    >>> values.tolist(), names
    ([[1.5, 2.0], [0.5, 4.0]], ['length', 'width'])
    """
    file = Path(path_of(path))
    if is_parquet(file):
        names = parquet_names(file)
        return TableOfNumbers(parquet_numbers(file, names), names)
    lines = lines_of(file)
    first = next(lines, None)
    header = first is not None and not all(map(is_number, first[1]))
    body = lines if header or first is None else itertools.chain([first], lines)
    names_of_header = [cell.strip() for cell in first[1]] if header and first is not None else None
    return TableOfNumbers(csv_numbers(file, body, header)[0], names_of_header)


def write_table(path: Path, names: Sequence[str] | None, parts: Iterable[Float]) -> None:
    """Write ``parts`` (n, columns), one after the other, with all digits: Parquet if ``path`` is so named, else CSV.

    A Parquet file has a row group for each part, and checksums; its columns have names.
    """
    if is_parquet(path):
        assert names is not None
        write_parquet(path, names, parts)
        return
    with replacing(path) as file:
        out = csv.writer(file, lineterminator="\n")
        if names:
            out.writerow(names)
        for part in parts:
            out.writerows(part.tolist())


# CSV.

_GZIP_LARGEST = 2**22
"""Characters of text to which any gzip file may be unpacked."""

_GZIP_RATIO = 100
"""Largest ratio of a longer text to its gzip file; tables of numbers have 2 to 20."""

NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*", re.ASCII)
"""A decimal number; Python's ``float`` also reads 1_0 and the digits of other scripts."""

USUAL = frozenset("0123456789+-.eE \t")
"""Characters of decimal numbers: a text of these alone is a decimal number if ``float`` reads it."""

WHOLE = re.compile(r"[ \t]*[+-]?[0-9]{16,}[ \t]*", re.ASCII)
"""A whole number of so many digits that a double may not hold it."""

_NO_VALUE = re.compile(r"[ \t]*[+-]?(?:nan|inf|infinity)[ \t]*", re.ASCII | re.IGNORECASE)


def _bytes(path: Path) -> bytes:
    """The bytes of a file; a gzip file is not unpacked beyond what its size justifies."""
    if path.suffix != ".gz":
        return content(path)
    limit, unpacked = min(max(_GZIP_LARGEST, _GZIP_RATIO * regular(path)), LARGEST), bytearray()
    try:
        with gzip.open(path, "rb") as file:
            while piece := file.read(2**18):
                unpacked += piece
                if len(unpacked) > limit:
                    raise ValueError(
                        f"{path}: expected a gzip file of at most {limit} characters, got a longer text, more than "
                        f"{_GZIP_RATIO} times the file: unpack it yourself if you trust it"
                    )
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{path}: expected a gzip file, got a damaged file or another format") from None
    return bytes(unpacked)


def _delimiter(data: bytes) -> str:
    """The comma, semicolon or TAB of the first line; of both, a comma inside numbers is a decimal comma.

    >>> _delimiter(b"a,b"), _delimiter(b"1,5;2,5"), _delimiter(b'"a, in m";b')
    (',', ';', ';')
    """
    first = re.split(rb"[\r\n]", data.removeprefix(codecs.BOM_UTF8).lstrip(b" \r\n"), maxsplit=1)[0]
    line = re.sub(rb'"[^"]*"', b"", first).decode("utf-8", "replace")
    marks = [mark for mark in ",;\t" if mark in line]
    if marks[:1] == [","]:
        for mark in marks[1:]:
            cells = line.split(mark)
            if all(NUMBER.fullmatch(cell.replace(",", ".")) for cell in cells):
                return mark
    return marks[0] if marks else ","


def delimiter_of(path: Path) -> str:
    """The mark between the cells of a CSV file."""
    return _delimiter(_bytes(path))


def lines_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not blank."""
    data = _bytes(path)
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline=""), delimiter=_delimiter(data))
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except UnicodeDecodeError:
        raise ValueError(f"{path}: expected a text file with comma-separated numbers") from None
    except csv.Error as error:
        raise ValueError(f"{path}: expected comma-separated numbers, but {error}") from None


def is_number(cell: str) -> bool:
    """Whether a cell holds a decimal number, NaN or infinity."""
    return NUMBER.fullmatch(cell) is not None or _NO_VALUE.fullmatch(cell) is not None


def csv_numbers(path: Path, body: Iterable[tuple[int, list[str]]], header: bool) -> tuple[Float, array[int]]:
    """The numbers of the lines of a table, and those of the lines; every cell must hold a finite number.

    Memory is taken as they come.
    """
    values, numbers, width = array("d"), array("q"), 0
    for line, cells in body:
        width = width or len(cells)
        if len(cells) != width:
            raise ValueError(f"{path}: expected {width} columns in every row, got {len(cells)} in line {line}")
        try:
            if not USUAL.issuperset("".join(cells)) and not all(map(is_number, cells)):
                raise ValueError
            values.extend(map(float, cells))
        except ValueError:
            column = next(j for j, cell in enumerate(cells) if not is_number(cell))
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
    return table, numbers


def _require_whole(path: Path, line: int, cells: list[str], numbers: Iterable[float]) -> None:
    """Refuse whole numbers, as those of times and keys, whose last digits doubles do not hold."""
    for column, (cell, number) in enumerate(zip(cells, numbers, strict=True)):
        if WHOLE.fullmatch(cell) and math.isfinite(number) and int(cell) != int(number):
            raise ValueError(
                f"{path}: expected numbers that doubles hold exactly (all whole numbers up to 2^53), got "
                f"{cell.strip()} in line {line}, column {column + 1}: subtract a common offset from this column"
            )
