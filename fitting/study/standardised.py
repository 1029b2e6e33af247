"""Rows from arrays, data frames and files, as they came or with columns of mean 0 and variance 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, is_constant
from gpbounds.rows import read_table


@dataclass(frozen=True, eq=False)
class TableRows:
    """Inputs and targets from a table, in its units.

    Attributes
    ----------
    name : str
        Name of the data in figures and reports.
    X : array (N, D)
    y : array (N,)
    notes : tuple of str
        How they were read and changed.
    columns : tuple of str
        Names of the inputs, where they have names.
    """

    name: str
    X: Float
    y: Any
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])

    def part(self, numbers: Any) -> Self:
        """The rows with these numbers, from 0."""
        return replace(self, X=self.X[numbers], y=self.y[numbers])


class Standardised(TableRows):
    """Rows whose columns, and whose target, have mean 0 and variance 1."""

    def subset(self, rows: int, seed: int) -> Standardised:
        """``rows`` rows drawn without replacement, in their order; all rows if there are no more."""
        if rows < 2:
            raise ValueError(f"rows: expected a whole number >= 2, got {rows}")
        if rows >= self.N:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(self.N, rows, replace=False))
        return self.part(chosen)


def standardised(column: Float) -> Float | None:
    """``column`` shifted and scaled to mean 0 and variance 1; None if it is constant up to rounding."""
    scale = float(np.abs(column).max())
    if scale == 0.0:
        return None
    centred = column / scale
    centred = centred - centred.mean()
    std = float(np.sqrt((centred**2).mean()))
    return None if is_constant(std, 1.0) else centred / std


def standardise(name: str, X: ArrayLike, y: ArrayLike, columns: tuple[str, ...] = ()) -> Standardised:
    """`Standardised` from raw inputs (N, D) and targets (N,); drops constant inputs and refuses a constant target.

    ``columns`` are the names of the inputs, if they have names.

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
        raise ValueError(f"{name}: expected a target that varies, got a constant one")
    all_columns = [standardised(raw[:, j]) for j in range(raw.shape[1])]
    kept = [j for j, column in enumerate(all_columns) if column is not None]
    if not kept:
        raise ValueError(f"{name}: expected an input column that varies, got only constant ones")
    notes = ["Inputs and target are standardised: mean 0, variance 1."]
    if len(kept) < len(all_columns):
        dropped = ", ".join(str(j + 1) for j, column in enumerate(all_columns) if column is None)
        notes.append(f"Dropped constant input column(s) {dropped}.")
    inputs = np.column_stack([column for column in all_columns if column is not None])
    return Standardised(name, inputs, target, tuple(notes), tuple(columns[j] for j in kept) if columns else ())


def columns_of(table: Any, argument: str) -> tuple[tuple[str, ...], Float]:
    """The names of the columns of a data frame, none of an array; and the numbers, of shape (N, D).

    A data frame has ``columns`` (pandas, polars), or speaks the interchange protocol ``__dataframe__``; a series has a
    name.

    Raises
    ------
    ValueError, NonFinite
        for text, NaN or infinity, or another shape; the message names the argument, and the column that holds text.
    """
    names: tuple[str, ...] = ()
    if hasattr(table, "columns"):
        names = tuple(map(str, table.columns))
    elif hasattr(table, "__dataframe__"):
        names = tuple(map(str, table.__dataframe__().column_names()))
    elif getattr(table, "name", None) is not None:
        names = (str(table.name),)
    if names and np.asarray(table).dtype == object:
        _refuse_text(table, names, argument)
    return names, as_host_points(table, argument)


def inputs_and_target(X: Any, y: Any = None, target: str | None = None) -> tuple[tuple[str, ...], Float, Float, str]:
    """Names of the inputs (none of an array), inputs (N, D), targets (N,), and the name of the target.

    The targets are ``y``, or the column of the data frame ``X`` that ``target`` names; the other columns are the
    inputs then.  The name of an array without one is "y".

    Raises
    ------
    TypeError
        for a ``target`` that is not text; a level in nats is called ``nats``.
    ValueError, NonFinite
        for both or none of ``y`` and ``target``, an unknown column, and as :func:`columns_of`.

    >>> inputs_and_target([[1.0], [2.0]], [3.0, 4.0])[2:]
    (array([3., 4.]), 'y')
    """
    if target is not None and not isinstance(target, str):
        raise TypeError(
            f"target: expected the name of a column of X, got {target!r}; the level in nats is the argument nats="
        )
    columns, points = columns_of(X, "X")
    if target is None:
        if y is None:
            raise ValueError("y: expected targets, or target=, the name of a column of the data frame X; got neither")
        names, targets = columns_of(y, "y")
        if targets.shape != (len(points), 1):
            raise ValueError(f"y: expected {len(points)} targets, one for each row of X, got shape {targets.shape}")
        return columns, points, targets[:, 0], names[0] if names else "y"
    if y is not None:
        raise ValueError("target: expected either y or target, got both")
    if columns.count(target) != 1:
        there = ", ".join(columns) or "no names: X is an array"
        raise ValueError(f"target: expected the name of one column of X ({there}), got {target!r}")
    if len(columns) < 2:
        raise ValueError(f"X: expected an input beside the target {target!r}, got no other column")
    place = columns.index(target)
    inputs = tuple(name for name in columns if name != target)
    return inputs, np.delete(points, place, axis=1), points[:, place], target


def _refuse_text(table: Any, names: tuple[str, ...], argument: str) -> None:
    """Refuse a column of a data frame that holds text, by its name."""
    cells = np.asarray(table)
    for name, column in zip(names, cells.reshape(len(cells), -1).T, strict=True):
        text = next((cell for cell in column if isinstance(cell, str)), None)
        if text is not None:
            raise ValueError(
                f"{argument}: expected columns of numbers, got {text!r} in column {name!r}: drop it, or encode it"
            )


def load(path: Path) -> Standardised:
    """`Standardised` from a CSV file (or .csv.gz) with the target in its last column.

    Raises
    ------
    ValueError, OSError
        as `gpbounds.rows.read_table` and :func:`standardise`; for a single column.
    """
    values, names = read_table(path)
    if values.shape[1] < 2:
        raise ValueError(f"{path}: expected at least two columns, inputs and then the target, got one")
    name = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")
    data = standardise(name, values[:, :-1], values[:, -1])
    return replace(data, notes=(*data.notes, *(("The first line was read as a header.",) if names else ())))
