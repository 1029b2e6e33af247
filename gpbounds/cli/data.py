"""Data of which the target is the last column of a table, standardised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, is_constant
from gpbounds.rows import read_table


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
        as `gpbounds.rows.read_table` and :func:`standardise`; for a single column.
    """
    values, names = read_table(path)
    if values.shape[1] < 2:
        raise ValueError(f"{path}: expected at least two columns, inputs and then the target, got one")
    name = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")
    data = standardise(name, values[:, :-1], values[:, -1])
    return Data(name, data.X, data.y, (*data.notes, *(("The first line was read as a header.",) if names else ())))
