"""Parquet files, and folders of Parquet files: names of columns, numbers, cells of any type.

Parquet needs pyarrow (extra ``parquet``).
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.arrays import Float, exactly
from gpbounds.errors import NotInstalled
from gpbounds.files import regular, replacing

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


def parquet_numbers(path: Path, chosen: list[str]) -> Float:
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


def parquet_cells(path: Path) -> list[Float | list[str] | str]:
    """Each column: numbers, NaN where there is none; texts, "" where there is none; or what else it holds, in words.

    Truth values are the texts True and False, times and dates those of ISO 8601.

    Raises
    ------
    ValueError, OSError
        as `parquet_names`.
    """
    parts: list[list[Any]] = [[] for _ in parquet_names(path)]
    for file in parquet_files(path):
        table = _read(file, texts=True)
        for own, name in zip(parts, table.column_names, strict=True):
            own.append(_cells(table.column(name)))
    return [_joined(own) for own in parts]


def _cells(column: Any) -> Float | list[str] | str:
    """One column of one file, as `parquet_cells` gives it."""
    import pyarrow
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    nothing = column.is_null().to_numpy()
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_floating(kind) or types.is_integer(kind):
        values = np.asarray(column.drop_null()).astype(np.float64)
        if types.is_integer(kind) and values.size and np.abs(values).max() >= 2.0**53:
            return "larger ones than whole numbers below 2^53, which doubles hold: subtract a common offset"
        numbers = np.full(len(column), np.nan)
        numbers[~nothing] = values
        return numbers
    if types.is_string(kind) or types.is_large_string(kind):
        encoded = column.combine_chunks().dictionary_encode()
        texts = [text.strip() for text in encoded.dictionary.to_pylist()]
        return ["" if i is None else texts[i] for i in encoded.indices.to_pylist()]
    if types.is_boolean(kind):
        return ["" if value is None else str(value) for value in column.to_pylist()]
    if types.is_date(kind) or types.is_timestamp(kind):
        zone = "+00:00" if types.is_timestamp(kind) and kind.tz else ""
        unit = pyarrow.date32() if types.is_date(kind) else pyarrow.timestamp("us", kind.tz)
        try:
            times = column.cast(unit).to_numpy()
        except pyarrow.ArrowInvalid:
            return "times of nanoseconds: round them to microseconds"
        written = np.datetime_as_string(times).tolist()
        return ["" if missing else text + zone for text, missing in zip(written, nothing, strict=True)]
    return f"values of type {column.type}"


def _joined(parts: list[Any]) -> Float | list[str] | str:
    """The parts of a column in several files, in which a part without any value fits numbers and texts."""
    other = next((part for part in parts if isinstance(part, str)), None)
    if other is not None:
        return other
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    texts: list[str] = []
    for part in parts:
        if isinstance(part, np.ndarray) and not np.isnan(part).all():
            return "numbers in one file and texts in another"
        texts += [""] * len(part) if isinstance(part, np.ndarray) else part
    return texts


def write_parquet(path: Path, columns: Sequence[str], parts: Iterable[Float]) -> None:
    """Write ``parts`` (n, columns), a row group each, with checksums."""
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


def _read(path: Path, *, metadata: bool = False, columns: list[str] | None = None, texts: bool = False) -> Any:
    """The metadata of a file, or its table; ``texts`` holds each different text once."""
    arrow = pyarrow_of(path)
    regular(path)
    with reading_parquet(path):
        about = arrow.read_metadata(path)
        twice = [name for name, times in Counter(about.schema.to_arrow_schema().names).items() if times > 1]
        if twice:
            raise ValueError(
                f"{path}: expected a name of its own for each column, got {twice[0][:60]!r} more than once: rename the "
                "columns and write the file again"
            )
        if metadata:
            return about
        schema = about.schema.to_arrow_schema()
        once = [field.name for field in schema if str(field.type) in ("string", "large_string")] if texts else []
        rows, width = about.num_rows, about.num_columns if columns is None else len(columns)
        limit = max(_PARQUET_LARGEST, _PARQUET_RATIO * path.stat().st_size)
        if texts and _unpacked(about) > limit:
            raise ValueError(f"{path}: expected at most {limit} bytes of unpacked columns, got {_unpacked(about)}")
        if 8 * rows * width > limit:
            raise ValueError(
                f"{path}: expected at most {_PARQUET_RATIO} bytes of numbers for each byte of the file, got {rows} "
                f"rows of {width} columns: write it again without compression if you trust it"
            )
        return arrow.read_table(path, columns=columns, read_dictionary=once, page_checksum_verification=True)


def _unpacked(about: Any) -> int:
    """Bytes of all columns, as the file states them of groups of rows; asked for one column, pyarrow may abort."""
    return sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))


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
