"""Tables in Parquet files and in folders of them, by pyarrow (extra ``parquet``)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.arrays import Float, exactly
from gpbounds.files import replacing
from gpbounds.sources.parquet import reading

LARGEST = 2**26
"""Bytes of numbers of a file that need no further reason."""

RATIO = 1000
"""Largest ratio of the bytes of numbers to those of the file beyond them: a constant column needs few."""


def is_parquet(path: Path) -> bool:
    """Whether ``path`` is a folder, or a file named \\*.parquet."""
    return path.suffix == ".parquet" or path.is_dir()


def names(path: Path) -> list[str]:
    """The names of the columns.

    Raises
    ------
    ValueError
        for a folder without Parquet files, files of other columns, or a damaged file.
    OSError
        if a file cannot be read.
    """
    files = _files(path)
    columns = []
    for file in files:
        about = _read(file, metadata=True)
        with reading(file):
            columns.append(list(about.schema.to_arrow_schema().names))
    for file, own in zip(files, columns, strict=True):
        if own != columns[0]:
            raise ValueError(f"{file}: expected the columns {columns[0]} of {files[0].name}, got {own}")
    return columns[0]


def numbers(path: Path, columns: list[str] | None = None) -> Float:
    """The numbers of all columns, or of some, shape (rows, columns); files of a folder in order of their names.

    Raises
    ------
    ValueError, OSError
        as `names`; for columns that hold no numbers, and for NaN, infinity or missing values (with their rows).
    """
    chosen = names(path) if columns is None else columns
    parts = []
    for file in _files(path):
        table = _read(file, columns=chosen)
        cells = [np.asarray(exactly(f"{file}: column {name!r}", table.column(name))) for name in chosen]
        for name, column in zip(chosen, cells, strict=True):
            if column.dtype.kind not in "biuf":
                raise ValueError(f"{file}: expected numbers in column {name!r}, got {table.column(name).type}")
            if column.dtype.kind in "iu" and column.size and np.abs(column.astype(np.float64)).max() >= 2.0**53:
                raise ValueError(f"{file}: expected whole numbers below 2^53 in column {name!r}, got larger ones")
        values = np.column_stack([column.astype(np.float64) for column in cells])
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


def size(path: Path) -> int:
    """Bytes of all columns as doubles; errors as `names`."""
    files = [_read(file, metadata=True) for file in _files(path)]
    return sum(8 * about.num_rows * len(about.schema.to_arrow_schema()) for about in files)


def write(path: Path, columns: list[str], parts: Iterable[Float]) -> None:
    """Write one file with a row group for each of the ``parts`` (n, number of columns), and checksums."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([(name, pyarrow.float64()) for name in columns])
    checked_writer = partial(pyarrow.parquet.ParquetWriter, write_page_checksum=True)
    with replacing(path, "wb") as target, checked_writer(target, schema) as file:
        for part in parts:
            file.write_table(pyarrow.Table.from_arrays(list(map(pyarrow.array, part.T)), schema=schema), len(part))


def words(path: Path, column: str) -> list[str]:
    """The cells of one column as text without spaces around them; an empty or missing one is an error."""
    cells: list[str] = []
    for file in _files(path):
        own = _read(file, columns=[column]).column(column).to_pylist()
        empty = [row for row, cell in enumerate(own) if cell is None or not str(cell).strip()]
        if empty:
            raise ValueError(f"{file}: expected a label, got an empty cell in row {empty[0] + 1}, column {column!r}")
        cells += [str(cell).strip() for cell in own]
    return cells


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path}: expected a CSV file, or a directory with files named *.parquet, got one without any")
    return files


def _read(path: Path, *, metadata: bool = False, columns: list[str] | None = None) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(f"{path}: Parquet files are read by pyarrow: pip install 'gpbounds[parquet]'") from None
    with reading(path):
        about = pyarrow.parquet.read_metadata(path)
        if metadata:
            return about
        rows, width = about.num_rows, about.num_columns if columns is None else len(columns)
        if 8 * rows * width > max(LARGEST, RATIO * path.stat().st_size):
            raise ValueError(
                f"{path}: expected at most {RATIO} bytes of numbers for each byte of the file, got {rows} rows of "
                f"{width} columns: write it again without compression if you trust it"
            )
        return pyarrow.parquet.read_table(path, columns=columns, page_checksum_verification=True)
