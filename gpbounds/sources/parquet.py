"""Partitions of a Parquet file, or of the Parquet files in a folder.  They are read by pyarrow (extra ``parquet``)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.arrays import exactly
from gpbounds.mapreduce.program import Rows
from gpbounds.sources.arrays import PART
from gpbounds.sources.checked import checked, is_exact


@dataclass(frozen=True)
class ParquetPart:
    """Consecutive row groups of one file.

    Attributes
    ----------
    path : str
    groups : tuple of int
    features, targets : tuples of str
        The columns that are read.
    number : int
    doubles : bool
        Whether columns of shorter floats become doubles, which have the same values.
    """

    path: str
    groups: tuple[int, ...]
    features: tuple[str, ...]
    targets: tuple[str, ...]
    number: int
    doubles: bool = False

    def load(self) -> Rows:
        """The checked rows; a missing value is NaN, which is an error."""
        with reading(self.path), _arrow().ParquetFile(self.path, page_checksum_verification=True) as file:
            table = file.read_row_groups(list(self.groups), columns=[*self.features, *self.targets], use_threads=False)
        cells = {name: self._cells(name, table.column(name)) for name in (*self.features, *self.targets)}
        if self.doubles:
            cells |= {name: column.astype(np.float64) for name, column in cells.items() if column.dtype.kind == "f"}
        X, Y = (np.column_stack([cells[name] for name in names]) for names in (self.features, self.targets))
        rows = checked(self.number, X, Y)
        whole = (column for column in cells.values() if column.dtype.kind in "iu")  # beside floats, X has floats only
        return rows._replace(exact=rows.exact and all(is_exact(column, column.astype(np.float64)) for column in whole))

    def _cells(self, name: str, column: Any) -> Any:
        """One column, tested before it stands beside columns of other types, which may round it."""
        return np.asarray(exactly(f"column {name!r} in partition {self.number}", column))


def parquet_parts(
    path: str | os.PathLike[str], targets: Sequence[str], size: int = PART, *, doubles: bool = False
) -> list[ParquetPart]:
    """Partitions of whole row groups, of at least ``size`` rows where a file has so many; files in order of name.

    Parameters
    ----------
    path : path
        A file, or a folder with files named \\*.parquet, which have the same columns.
    targets : sequence of str
        The columns of y; all others are columns of X.
    doubles : bool
        As in `ParquetPart`.

    Raises
    ------
    ValueError
        for a folder without such files, or columns that do not exist or differ.
    ImportError
        without pyarrow.
    """
    arrow, files = _arrow(), files_of(path)
    parts: list[ParquetPart] = []
    columns: list[str] | None = None
    for each in files:
        with reading(each):
            about = arrow.read_metadata(each)
            own = list(about.schema.to_arrow_schema().names)
        if columns is not None and own != columns:
            raise ValueError(f"X: expected the columns {columns} in every file, got {own} in {os.fspath(each)!r}")
        columns = own
        if missing := [name for name in targets if name not in columns]:
            raise ValueError(f"y: expected columns among {columns}, got {missing}")
        features = tuple(name for name in columns if name not in targets)
        if not features:
            raise ValueError(f"y: expected some columns to be left for X, got {list(targets)} of {columns}")
        groups: list[int] = []
        rows = 0
        for group in range(about.num_row_groups):
            groups.append(group)
            rows += about.row_group(group).num_rows
            if rows >= size or group == about.num_row_groups - 1:
                whole = os.path.abspath(each)
                parts.append(ParquetPart(whole, tuple(groups), features, tuple(targets), len(parts), doubles))
                groups, rows = [], 0
    if not parts:
        raise ValueError(f"X: expected at least one row, got none in {os.fspath(path)!r}")
    return parts


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say of the errors of pyarrow that the file is none; those of the system pass.

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


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """The file, or the Parquet files in the folder by name."""
    whole = Path(path)
    files = sorted(whole.glob("*.parquet")) if whole.is_dir() else [whole]
    if not files:
        raise ValueError(f"X: expected files named *.parquet in the folder {os.fspath(path)!r}, got none")
    return files


def _arrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            "Parquet files are read by pyarrow, which is missing: pip install 'gpbounds[parquet]'"
        ) from None
    return pyarrow.parquet
