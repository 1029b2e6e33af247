"""Partitions of arrays in memory, of memory maps and .npy files, and of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.files import mapped
from gpbounds.rows.parquet import cells_of, parquet_files, parquet_names, pyarrow_of, reading_parquet
from gpbounds.rows.program import Rows
from gpbounds.rows.source import checked, is_exact
from gpbounds.whitening import slices

PART = 2**17
"""Rows of a partition, where nothing else decides."""


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """Rows of arrays in memory or of memory maps."""

    X: Any
    Y: Any
    number: int
    rows: slice

    def load(self) -> Rows:
        """The checked rows."""
        return checked(self.number, self.X[self.rows], self.Y[self.rows])


@dataclass(frozen=True)
class _NpyPart:
    """Rows of two .npy files, which are mapped into memory when they are read."""

    X: str
    Y: str
    number: int
    rows: slice

    def load(self) -> Rows:
        """A copy of the checked rows."""
        X, Y = (np.array(mapped(path)[self.rows]) for path in (self.X, self.Y))
        return checked(self.number, X, Y)


def array_parts(X: Any, Y: Any, size: int = PART) -> list[ArrayPart]:
    """Partitions of ``size`` rows.

    >>> [part.load().X.shape for part in array_parts(np.zeros((5, 2)), np.zeros(5), 3)]
    [(3, 2), (2, 2)]
    """
    _same_rows(X, Y)
    return [ArrayPart(X, Y, number, rows) for number, rows in enumerate(slices(X.shape[0], size))]


def npy_parts(X: str | os.PathLike[str], Y: str | os.PathLike[str], size: int = PART) -> tuple[list[_NpyPart], bool]:
    """Partitions of two .npy files, and whether y has one dimension."""
    paths = os.path.abspath(X), os.path.abspath(Y)
    first, second = map(mapped, paths)
    if not first.ndim or not second.ndim:
        raise ValueError("X, y: expected arrays of rows, got one number")
    _same_rows(first, second)
    parts = [_NpyPart(*paths, number, rows) for number, rows in enumerate(slices(first.shape[0], size))]
    return parts, second.ndim == 1


def _same_rows(X: Any, Y: Any) -> None:
    if X.shape[0] != Y.shape[0]:
        raise ValueError(f"y: expected one row of targets for each row of X, {X.shape[0]}, got {Y.shape[0]}")
    if X.shape[0] == 0:
        raise ValueError("X: expected at least one row, got none")


@dataclass(frozen=True)
class _ParquetPart:
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
        names, arrow = [*self.features, *self.targets], pyarrow_of(self.path)
        with reading_parquet(self.path), arrow.ParquetFile(self.path, page_checksum_verification=True) as file:
            table = file.read_row_groups(list(self.groups), columns=names, use_threads=False)
        cells = cells_of(table, names, after=f" in partition {self.number}")
        if self.doubles:
            cells |= {name: column.astype(np.float64) for name, column in cells.items() if column.dtype.kind == "f"}
        X, Y = (np.column_stack([cells[name] for name in side]) for side in (self.features, self.targets))
        rows = checked(self.number, X, Y)
        whole = (column for column in cells.values() if column.dtype.kind in "iu")  # beside floats, X has floats only
        return rows._replace(exact=rows.exact and all(is_exact(column, column.astype(np.float64)) for column in whole))


def parquet_parts(
    path: str | os.PathLike[str], targets: Sequence[str], size: int = PART, *, doubles: bool = False
) -> list[_ParquetPart]:
    """Partitions of whole row groups, of at least ``size`` rows where a file has so many; files in order of name.

    Parameters
    ----------
    path : path
        A file, or a folder with files named \\*.parquet, which have the same columns.
    targets : sequence of str
        The columns of y; all others are columns of X.
    doubles : bool
        As in `_ParquetPart`.

    Raises
    ------
    ValueError, OSError, ImportError
        as `gpbounds.rows.tables.read_table`; for columns that do not exist.
    """
    columns = parquet_names(Path(path))
    if missing := [name for name in targets if name not in columns]:
        raise ValueError(f"y: expected columns among {columns}, got {missing}")
    features = tuple(name for name in columns if name not in targets)
    if not features:
        raise ValueError(f"y: expected some columns to be left for X, got {list(targets)} of {columns}")
    parts: list[_ParquetPart] = []
    for file in parquet_files(Path(path)):
        with reading_parquet(file):
            about = pyarrow_of(file).read_metadata(file)
        groups: list[int] = []
        rows = 0
        for group in range(about.num_row_groups):
            groups.append(group)
            rows += about.row_group(group).num_rows
            if rows >= size or group == about.num_row_groups - 1:
                whole = os.path.abspath(file)
                parts.append(_ParquetPart(whole, tuple(groups), features, tuple(targets), len(parts), doubles))
                groups, rows = [], 0
    if not parts:
        raise ValueError(f"X: expected at least one row, got none in {os.fspath(path)!r}")
    return parts
