"""Predictions that a library claims, from arrays or from a table in a file, and the points that they are about."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study.words import Spelling, argument
from gpbounds.arrays import Float, as_host_points, exactly
from gpbounds.rows.cells import FileCells, FileColumn, read_cells
from gpbounds.rows.table_rows import TableRows
from gpbounds.validation import finite

LATENT = {"variance": 1, "var": 1, "std": 2, "std_f": 2}
"""Columns of the spread of f, and the power that makes variances of them."""
NOISY = {"variance_y": 1, "std_y": 2, "variance": 1, "var": 1, "std": 2}
"""The same of new targets; those with the ending _y first."""


@dataclass(frozen=True, eq=False)
class ClaimedRows:
    """Claimed predictions.

    Attributes
    ----------
    X : array (n, D)
    mean : array (n,)
    variance : array (n,) or None
    numbers : array of int (n,)
        Numbers of the rows, from 1: those of the table of the points, or of the file itself.
    """

    X: Float
    mean: Float
    variance: Float | None
    numbers: Any


def in_arrays(passed: Any, D: int) -> ClaimedRows:
    """``(X_new, mean)`` or ``(X_new, mean, variance)``.

    Raises
    ------
    ValueError, NonFinite
        for anything else, and for claims that are not finite numbers: leave such rows out.
    """
    if not isinstance(passed, tuple | list) or len(passed) not in (2, 3):
        raise ValueError(
            "claimed_predictions: expected (X_new, mean) or (X_new, mean, variance), or the path of a table, got "
            f"{type(passed).__name__}"
        )
    X = as_host_points(passed[0], "claimed_predictions", D).astype(np.float64, copy=False)
    claims = [_claims(part, name, len(X)) for part, name in zip(passed[1:], ("means", "variances"), strict=False)]
    return ClaimedRows(X, claims[0], claims[1] if len(claims) == 2 else None, np.arange(1, len(X) + 1))


def _claims(part: Any, name: str, n: int) -> Float:
    """Claimed means or variances (n,)."""
    values = finite("claimed_predictions", exactly("claimed_predictions", part))
    if values.shape != (n,):
        raise ValueError(f"claimed_predictions: expected {n} {name}, one for each row of X_new, got {values.shape}")
    return values


def in_file(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    points: TableRows,
    *,
    noisy: bool = False,
    header: str = "auto",
    spelled: Spelling = argument,
) -> ClaimedRows:
    """The claims in a CSV or Parquet file with a header: ``mean``, and a column of `LATENT` or of `NOISY`.

    The points are the columns with the names of the inputs, where the file has all of them; else the rows of
    ``points`` that its column ``row`` numbers from 1, as `gpbounds predict` writes it; else these rows in their order.

    Raises
    ------
    ValueError, OSError
        for a file without these columns, with other cells than numbers, or of another number of rows.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "said.csv"
    ...     _ = file.write_text("row,mean,std\\n2,0.5,0.1\\n", encoding="utf-8")
    ...     read = in_file(file, ("x1",), TableRows("data", np.array([[1.0], [3.0]]), np.zeros(2)))
    >>> read.X.tolist(), read.variance.round(4).tolist(), read.numbers.tolist()
    ([[3.0]], [0.01], [2])
    """
    cells = read_cells(Path(path), header)
    named = {column.name.strip().lower(): column for column in cells.columns if column.name}
    if "mean" not in named:
        got = ", ".join(repr(column.name) for column in cells.columns[:6]) if cells.named else "no header"
        raise ValueError(f"{path}: expected a header with the column mean, got {got}")
    mean = _numbers(cells, named["mean"])
    variance = _variance(cells, named, noisy, spelled)
    exactly = {column.name: column for column in cells.columns}
    if columns and all(name in exactly for name in columns):
        X = np.column_stack([_numbers(cells, exactly[name]) for name in columns])
        return ClaimedRows(X, mean, variance, np.arange(1, cells.N + 1))
    if "row" in named:
        numbers = _numbers(cells, named["row"])
        wrong = (numbers != np.floor(numbers)) | (numbers < 1) | (numbers > points.N)
        if wrong.any():
            raise ValueError(
                f"{path}: expected numbers of rows of {points.name}, from 1 to {points.N}, in the column row, got "
                f"{numbers[wrong][0]:g} in {cells.place(np.flatnonzero(wrong)[0])}"
            )
        chosen = numbers.astype(np.int64)
        return ClaimedRows(np.asarray(points.X)[chosen - 1], mean, variance, chosen)
    if cells.N != points.N:
        raise ValueError(
            f"{path}: expected one prediction for each of the {points.N} rows of {points.name}, in their order, or a "
            f"column row, or the columns {', '.join(columns)}, got {cells.N} rows without them"
        )
    return ClaimedRows(np.asarray(points.X), mean, variance, np.arange(1, cells.N + 1))


def _variance(cells: FileCells, named: dict[str, FileColumn], noisy: bool, spelled: Spelling) -> Float | None:
    """The claimed variances, if the file has any."""
    known = NOISY if noisy else LATENT
    name = next((each for each in known if each in named), None)
    if name is None:
        others = [each for each in (LATENT if noisy else NOISY) if each in named]
        if others:
            way = "without" if noisy else "with"
            raise ValueError(
                f"{cells.path}: expected one of the columns {', '.join(known)}, got {others[0]}: examine it {way} "
                f"{spelled('noisy')}"
            )
        return None
    return _numbers(cells, named[name]) ** known[name]


def _numbers(cells: FileCells, column: FileColumn) -> Float:
    """The numbers of a column, all of which must be there."""
    values = column.cells
    if not isinstance(values, np.ndarray) or np.isnan(values).any():
        where = f", got a missing one in {cells.place(np.argmax(column.missing))}" if column.missing.any() else ""
        raise ValueError(f"{cells.path}: expected numbers in {column}{where or ', got texts'}")
    return values
