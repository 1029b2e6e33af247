"""Read the rows to certify: the target column, and the constants of the scaling."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.cli import parquet
from gpbounds.cli.data import column_names, read_table
from gpbounds.cli.options import UsageError
from gpbounds.cli.passes import RowsInPasses, in_passes, without
from gpbounds.cli.table import Table
from gpbounds.files import replacing
from gpbounds.pacbayes.certificate import DeclaredMean, Scaling
from gpbounds.pacbayes.certificate.rows import Scaled


@dataclass(frozen=True, eq=False)
class Rows(Table):
    """Rows in memory.

    Attributes
    ----------
    X, y : arrays (N, D), (N,)
        Raw values.
    """

    X: Float
    y: Float

    @property
    def N(self) -> int:
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        return int(self.X.shape[1])

    @property
    def data(self) -> tuple[Any, Any]:
        return self.X, self.y

    @property
    def shown(self) -> tuple[Float, Float]:
        """All rows."""
        return self.X, self.y

    @property
    def scales(self) -> tuple[float, Float]:
        X, y = Scaled(self.inputs, self.outputs, self.mean).apply(self.X, self.y)
        return float(np.mean(y * y)), X.std(axis=0)

    def write(self, path: Path) -> None:
        """Write these rows as CSV with all digits, the target last."""
        with replacing(path) as file:
            out = csv.writer(file, lineterminator="\n")
            if self.columns:
                out.writerow(self.columns)
            out.writerows(np.column_stack([self.X, self.y]).tolist())


HELD = 2**29
"""Bytes of a Parquet file or folder, as doubles, that are read into memory; more are read in passes."""


def read_large(path: Path, target: str | None = None, *, in_memory: bool = False, **options: Any) -> Table:
    """As `read`; Parquet files of more than `HELD` bytes of numbers stay where they are, unless ``in_memory``.

    The rows that a split reserves are held in memory for the time in which their constants are computed.
    """
    if in_memory or not parquet.is_parquet(path) or parquet.size(path) <= HELD:
        return read(path, target, **options)
    return _read_in_passes(path, target, **options)


def certified(path: Path, *, in_memory: bool) -> tuple[Any, Any]:
    """X and y of a file whose last column is the target: arrays, or a source for Parquet unless ``in_memory``.

    Raises
    ------
    ValueError, OSError
        as `gpbounds.cli.data.read_table` and `gpbounds.cli.passes.in_passes`; for a single column.
    """
    if parquet.is_parquet(path) and not in_memory:
        names = parquet.names(path)
        _two_columns(path, len(names))
        return in_passes(path, names[-1]), None
    values, _ = read_table(path)
    _two_columns(path, values.shape[1])
    return values[:, :-1], values[:, -1]


def read(
    path: Path,
    target: str | None = None,
    *,
    split: bool = False,
    share: float = 0.1,
    seed: int = 0,
    centre: bool = True,
    linear: bool = False,
) -> Rows:
    """The rows of ``path`` to certify.

    Parameters
    ----------
    path : Path
        CSV, .csv.gz, or Parquet.
    target : str, optional
        Name or number (from 1) of the target's column; by default the last column.
    split : bool
        True reserves a random ``share`` of the rows, whose means and standard deviations scale the other rows.
    share : float in (0, 1)
    seed : int
    centre : bool
        False does not subtract the target's mean.
    linear : bool
        True fits a linear mean of the prior to the reserved rows.

    Raises
    ------
    ValueError, OSError
        as `gpbounds.cli.data.read_table`; for a single column, an unknown column, a share that leaves no rows, or a
        target that is constant in the reserved rows.
    """
    values, _ = read_table(path)
    columns = column_names(path)
    _two_columns(path, values.shape[1])
    j = values.shape[1] - 1 if target is None else column_number(target, columns, values.shape[1])
    order = [k for k in range(values.shape[1]) if k != j] + [j]
    values = values[:, order]
    columns = columns and [columns[k] for k in order]
    last = order == sorted(order)
    notes = _notes_on_target(target, last)
    if not split:
        X, y = values[:, :-1], values[:, -1]
        return Rows(_name(path), columns, Scaling(), Scaling(), last, notes, X, y)
    reserved = _reserved(values.shape[0], share, seed)
    inputs, outputs, constant = _constants(values[reserved], centre)
    trend = _trend(values[reserved], inputs, outputs) if linear else None
    values = values[~reserved]
    notes += _notes_on_split(reserved, seed, constant)
    return Rows(_name(path), columns, inputs, outputs, False, notes, values[:, :-1], values[:, -1], mean=trend)


def _read_in_passes(
    path: Path,
    target: str | None,
    *,
    split: bool = False,
    share: float = 0.1,
    seed: int = 0,
    centre: bool = True,
    linear: bool = False,
) -> RowsInPasses:
    names = parquet.names(path)
    _two_columns(path, len(names))
    j = len(names) - 1 if target is None else column_number(target, names, len(names))
    columns, last = [*names[:j], *names[j + 1 :], names[j]], j == len(names) - 1
    rows, notes = in_passes(path, names[j]), _notes_on_target(target, last)
    if not split:
        return RowsInPasses(_name(path), columns, Scaling(), Scaling(), last, notes, rows)
    reserved = _reserved(rows.N, share, seed)
    apart = np.column_stack(rows.rows(np.flatnonzero(reserved)))
    inputs, outputs, constant = _constants(apart, centre)
    trend = _trend(apart, inputs, outputs) if linear else None
    notes += _notes_on_split(reserved, seed, constant)
    return RowsInPasses(_name(path), columns, inputs, outputs, False, notes, without(rows, reserved), mean=trend)


def _two_columns(path: Path, width: int) -> None:
    if width < 2:
        raise ValueError(f"{path}: expected at least two columns, inputs and then the target, got one")


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")


def _notes_on_target(target: str | None, last: bool) -> tuple[str, ...]:
    return () if last else (f"The target is {target}; the other columns keep their order.",)


def _notes_on_split(reserved: np.ndarray, seed: int, constant: list[int]) -> tuple[str, ...]:
    note = (
        f"{reserved.sum()} rows drawn at random (seed {seed}) gave the constants of the scaling and are not certified."
    )
    if not constant:
        return (note,)
    return (
        note,
        f"Input column(s) that are constant in these rows keep their unit: {', '.join(map(str, constant))}.",
    )


def column_number(target: str, columns: list[str] | None, width: int) -> int:
    """The number, from 0, of the column with this name or this number from 1."""
    if columns and columns.count(target) == 1:
        return columns.index(target)
    if columns and target in columns:
        raise UsageError(
            f"--target: expected the name of one column, got {target!r}, the name of {columns.count(target)} columns"
        )
    if target.isdecimal() and 1 <= int(target) <= width:
        return int(target) - 1
    names = f"one of {', '.join(columns)} or " if columns else ""
    raise UsageError(f"--target: expected {names}a column's number from 1 to {width}, got {target!r}")


def _reserved(N: int, share: float, seed: int) -> np.ndarray:
    """A mask of the reserved rows among N; it reserves at least two and leaves at least one."""
    if not 0.0 < share < 1.0:
        raise UsageError(f"--share: expected a number between 0 and 1, got {share:g}")
    size = max(2, round(share * N))
    if size >= N:
        raise UsageError(f"--share: expected to leave some rows, got {size} of {N} reserved")
    chosen = np.zeros(N, dtype=bool)
    chosen[np.random.default_rng(seed).choice(N, size, replace=False)] = True
    return chosen


def _constants(rows: Float, centre: bool) -> tuple[Scaling, Scaling, list[int]]:
    """Scalings by means and standard deviations of ``rows``, and the numbers of the inputs that are constant there."""
    with np.errstate(over="ignore"):  # a Scaling refuses infinity
        means, stds = rows.mean(axis=0), rows.std(axis=0)
    constant = stds <= 1e-12 * np.abs(rows).max(axis=0)
    if constant[-1]:
        raise ValueError(
            f"--scaling split: expected a target that varies in the {rows.shape[0]} reserved rows, got a constant one: "
            "choose a larger --share"
        )
    scales = np.where(constant, 1.0, stds)
    inputs = Scaling("disjoint split", means[:-1], scales[:-1])
    outputs = Scaling("disjoint split", float(means[-1]) if centre else 0.0, float(scales[-1]))
    return inputs, outputs, (np.flatnonzero(constant[:-1]) + 1).tolist()


def _trend(rows: Float, inputs: Scaling, outputs: Scaling) -> DeclaredMean:
    """The linear function of the scaled inputs that is nearest to the scaled target of ``rows``."""
    X, y = inputs.apply(rows[:, :-1]), outputs.apply(rows[:, -1])
    if len(y) <= X.shape[1] + 1:
        raise UsageError(
            f"--mean linear: expected more than {X.shape[1] + 1} reserved rows for {X.shape[1]} slopes, got {len(y)}: "
            "choose a larger --share"
        )
    intercept, *slopes = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0].tolist()
    return DeclaredMean("disjoint split", intercept, slopes)
