"""Read the rows to certify from a CSV file: the target column, and the constants of the scaling."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpbounds.arrays import Float
from gpbounds.cli.data import column_names, read_table
from gpbounds.cli.options import UsageError
from gpbounds.pacbayes.certificate import Scaling


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that a certificate covers: raw values, inputs and target.

    Attributes
    ----------
    name : str
        Name of the data.
    X, y : arrays (N, D), (N,)
        Raw values.
    columns : list of str, optional
        Names of the inputs and, last, of the target, if the file has a header.
    inputs, outputs : Scaling
        Scalings of inputs and target, as the certificate declares them.
    as_in_file : bool
        Whether the file holds these rows in this order, with the target last.
    notes : tuple of str
        How the table was changed.
    """

    name: str
    X: Float
    y: Float
    columns: list[str] | None
    inputs: Scaling
    outputs: Scaling
    as_in_file: bool
    notes: tuple[str, ...]

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.columns[-1] if self.columns and self.columns[-1] else "target"

    def write(self, path: Path) -> None:
        """Write these rows as CSV with all digits, the target last."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            if self.columns:
                out.writerow(self.columns)
            out.writerows(np.column_stack([self.X, self.y]).tolist())


def read(
    path: Path,
    target: str | None = None,
    *,
    split: bool = False,
    share: float = 0.1,
    seed: int = 0,
    centre: bool = True,
) -> Rows:
    """The rows of ``path`` to certify.

    Parameters
    ----------
    path : Path
        CSV or .csv.gz.
    target : str, optional
        Name or number (from 1) of the target's column; by default the last column.
    split : bool
        True reserves a random ``share`` of the rows, whose means and standard deviations scale the other rows.
    share : float in (0, 1)
    seed : int
    centre : bool
        False does not subtract the target's mean.

    Raises
    ------
    ValueError, OSError
        as `gpbounds.cli.data.read_table`; for a single column, an unknown column, a share that leaves no rows, or a
        target that is constant in the reserved rows.
    """
    values, _ = read_table(path)
    columns = column_names(path)
    if values.shape[1] < 2:
        raise ValueError(f"{path}: expected at least two columns, inputs and then the target, got one")
    j = values.shape[1] - 1 if target is None else column_number(target, columns, values.shape[1])
    order = [k for k in range(values.shape[1]) if k != j] + [j]
    values = values[:, order]
    columns = columns and [columns[k] for k in order]
    name = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet")
    last = order == sorted(order)
    notes = () if last else (f"The target is {target}; the other columns keep their order.",)
    if not split:
        X, y = values[:, :-1], values[:, -1]
        return Rows(name, X, y, columns, Scaling(), Scaling(), last, notes)
    reserved = _reserved(values.shape[0], share, seed)
    inputs, outputs, constant = _constants(values[reserved], centre)
    values = values[~reserved]
    note = (
        f"{reserved.sum()} rows drawn at random (seed {seed}) gave the constants of the scaling and are not certified."
    )
    notes = (*notes, note)
    if constant:
        notes = (
            *notes,
            f"Input column(s) that are constant in these rows keep their unit: {', '.join(map(str, constant))}.",
        )
    return Rows(name, values[:, :-1], values[:, -1], columns, inputs, outputs, False, notes)


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
