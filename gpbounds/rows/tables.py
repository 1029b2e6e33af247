"""Tables of numbers in files: CSV, CSV in gzip, Parquet files, and folders of Parquet files.

This is the one reader of both formats: names of columns, numbers that doubles hold exactly, finite numbers; each
refusal names the file and the place in it.  Partitions of Parquet files (`gpbounds.rows.formats`) are read by it, too.
Parquet needs pyarrow (extra ``parquet``).
"""

from __future__ import annotations

import contextlib
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
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpbounds.arrays import Float, exactly
from gpbounds.errors import NotInstalled
from gpbounds.files import replacing


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
    file = Path(path)
    if is_parquet(file):
        names = parquet_names(file)
        return TableOfNumbers(_parquet_numbers(file, names), names)
    lines = _lines(file)
    first = next(lines, None)
    header = first is not None and not all(map(_is_number, first[1]))
    body = lines if header or first is None else itertools.chain([first], lines)
    names_of_header = [cell.strip() for cell in first[1]] if header and first is not None else None
    return TableOfNumbers(_csv_numbers(file, body, header), names_of_header)


def read_with_words(path: Path, column: int) -> tuple[Float, list[str], str | None]:
    """The numbers of a table without one ``column``, the cells of this column, and its name.

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
    if is_parquet(path):
        names = parquet_names(path)
        label = names.pop(column)
        return _parquet_numbers(path, names), _parquet_words(path, label), label
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
    values = np.delete(_csv_numbers(path, body, header), column, axis=1)
    return values, words, first[column].strip() if header else None


def first_cells(path: Path) -> list[str]:
    """The cells of the first line, without spaces around them; the names of the columns of a Parquet file."""
    if is_parquet(path):
        return parquet_names(path)
    return [cell.strip() for cell in next((cells for _, cells in _lines(path)), [])]


def column_names(path: Path) -> list[str] | None:
    """The cells of the first line if it is a header; None if it holds numbers."""
    cells = first_cells(path)
    if is_parquet(path):
        return cells
    return None if all(_is_number(cell) for cell in cells) else cells


def write_table(path: Path, names: Sequence[str] | None, parts: Iterable[Float]) -> None:
    """Write ``parts`` (n, columns), one after the other, with all digits: Parquet if ``path`` is so named, else CSV.

    A Parquet file has a row group for each part, and checksums; its columns have names.
    """
    if is_parquet(path):
        assert names is not None
        _write_parquet(path, names, parts)
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
        return path.read_bytes()
    limit, unpacked = max(_GZIP_LARGEST, _GZIP_RATIO * path.stat().st_size), bytearray()
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
    return NUMBER.fullmatch(cell) is not None or _NO_VALUE.fullmatch(cell) is not None


def _csv_numbers(path: Path, body: Iterable[tuple[int, list[str]]], header: bool) -> Float:
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


# Parquet.

_PARQUET_LARGEST = 2**26
"""Bytes that the numbers of any Parquet file may take."""

_PARQUET_RATIO = 1000
"""Largest ratio of more bytes of numbers to those of their file, in which a constant column takes few."""


def is_parquet(path: Path) -> bool:
    """Whether ``path`` is a folder, or a file named \\*.parquet."""
    return path.suffix == ".parquet" or path.is_dir()


def parquet_names(path: Path) -> list[str]:
    """The names of the columns.

    Raises
    ------
    ValueError
        for a folder without Parquet files, files of other columns, or a damaged file.
    OSError
        if a file cannot be read.
    """
    files = parquet_files(path)
    columns = []
    for file in files:
        about = _read(file, metadata=True)
        with reading_parquet(file):
            columns.append(list(about.schema.to_arrow_schema().names))
    for file, own in zip(files, columns, strict=True):
        if own != columns[0]:
            raise ValueError(f"{file}: expected the columns {columns[0]} of {files[0].name}, got {own}")
    return columns[0]


def parquet_size(path: Path) -> int:
    """Bytes of all columns as doubles; errors as `parquet_names`."""
    files = [_read(file, metadata=True) for file in parquet_files(path)]
    return sum(8 * about.num_rows * len(about.schema.to_arrow_schema()) for about in files)


def _parquet_numbers(path: Path, chosen: list[str]) -> Float:
    """The numbers of some columns, shape (rows, columns); files of a folder in order of their names.

    Raises
    ------
    ValueError, OSError
        as `parquet_names`; for columns that hold no numbers, and for NaN, infinity or missing values (with their rows).
    """
    parts = []
    for file in parquet_files(path):
        table = _read(file, columns=chosen)
        cells = cells_of(table, chosen, f"{file}: ")
        for name, column in cells.items():
            if column.dtype.kind not in "biuf":
                raise ValueError(f"{file}: expected numbers in column {name!r}, got {table.column(name).type}")
            if column.dtype.kind in "iu" and column.size and np.abs(column.astype(np.float64)).max() >= 2.0**53:
                raise ValueError(f"{file}: expected whole numbers below 2^53 in column {name!r}, got larger ones")
        values = np.column_stack([column.astype(np.float64) for column in cells.values()])
        if (bad := np.flatnonzero(~np.isfinite(values).all(axis=1))).size:
            shown = ", ".join(str(row + 1) for row in bad[:5]) + (" ..." if bad.size > 5 else "")
            raise ValueError(
                f"{file}: expected finite numbers, got NaN, infinity or nothing in {bad.size} row(s): {shown}"
            )
        parts.append(values)
    whole = np.concatenate(parts)
    if len(whole) == 0:
        raise ValueError(f"{path}: expected rows of numbers, got none")
    return whole


def _parquet_words(path: Path, column: str) -> list[str]:
    """The cells of one column as text without spaces around them; an empty or missing one is an error."""
    cells: list[str] = []
    for file in parquet_files(path):
        own = _read(file, columns=[column]).column(column).to_pylist()
        empty = [row for row, cell in enumerate(own) if cell is None or not str(cell).strip()]
        if empty:
            raise ValueError(f"{file}: expected a label, got an empty cell in row {empty[0] + 1}, column {column!r}")
        cells += [str(cell).strip() for cell in own]
    return cells


def _write_parquet(path: Path, columns: Sequence[str], parts: Iterable[Float]) -> None:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([(name, pyarrow.float64()) for name in columns])
    checked_writer = partial(pyarrow.parquet.ParquetWriter, write_page_checksum=True)
    with replacing(path, "wb") as target, checked_writer(target, schema) as file:
        for part in parts:
            file.write_table(pyarrow.Table.from_arrays(list(map(pyarrow.array, part.T)), schema=schema), len(part))


def parquet_files(path: Path) -> list[Path]:
    """The file, or the Parquet files in the folder by name."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path}: expected a file, or a directory with files named *.parquet, got one without any")
    return files


def cells_of(table: Any, names: Sequence[str], before: str = "", after: str = "") -> dict[str, Any]:
    """Columns of a table of pyarrow as arrays, by name; refusals say where between ``before`` and ``after``.

    Each is tested before it stands beside columns of other types, which may round it.
    """
    return {name: np.asarray(exactly(f"{before}column {name!r}{after}", table.column(name))) for name in names}


def _read(path: Path, *, metadata: bool = False, columns: list[str] | None = None) -> Any:
    arrow = pyarrow_of(path)
    with reading_parquet(path):
        about = arrow.read_metadata(path)
        if metadata:
            return about
        rows, width = about.num_rows, about.num_columns if columns is None else len(columns)
        if 8 * rows * width > max(_PARQUET_LARGEST, _PARQUET_RATIO * path.stat().st_size):
            raise ValueError(
                f"{path}: expected at most {_PARQUET_RATIO} bytes of numbers for each byte of the file, got {rows} "
                f"rows of {width} columns: write it again without compression if you trust it"
            )
        return arrow.read_table(path, columns=columns, page_checksum_verification=True)


@contextlib.contextmanager
def reading_parquet(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of pyarrow into one that says that the file is not Parquet; errors of the system pass.

    Raises
    ------
    ValueError
        for a damaged file, or another format.
    """
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system cannot read it
            raise
        name = os.fspath(path)
        raise ValueError(f"{name}: expected a Parquet file, got a damaged file or another format") from None


def pyarrow_of(path: str | os.PathLike[str]) -> Any:
    """The module that reads the Parquet file ``path``."""
    try:
        import pyarrow.parquet
    except ImportError:
        name = os.fspath(path)
        raise NotInstalled(f"{name}: Parquet files are read by pyarrow: pip install 'gpbounds[parquet]'") from None
    return pyarrow.parquet
