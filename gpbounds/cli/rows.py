"""The rows that a certificate covers: the target column, the constants of the scaling; in memory or in their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.cli.options import UsageError
from gpbounds.once import cached_property
from gpbounds.pacbayes.certificate import DeclaredMean, Scaling
from gpbounds.pacbayes.certificate.rows import Scaled, raw
from gpbounds.rows import Source, read_table
from gpbounds.rows.encoding import Encoding, NumberColumn
from gpbounds.rows.engines import Local
from gpbounds.rows.formats import parquet_parts
from gpbounds.rows.parquet import is_parquet, parquet_names, parquet_size
from gpbounds.rows.program import Rows
from gpbounds.rows.source import changed
from gpbounds.rows.table_rows import TableRows, column_number, name_of, read_rows
from gpbounds.rows.tables import is_number, write_table
from gpbounds.rows.writing import writing

HELD = 2**29
"""Bytes of a Parquet file or folder, as doubles, that are read into memory; more are read in passes."""

SHOWN = 10_000
"""Number of rows of a file in the figure, evenly spaced."""


@dataclass(frozen=True, eq=False)
class Table(ABC):
    """The rows that a certificate covers: raw values, inputs and target.

    Attributes
    ----------
    name : str
        Name of the data.
    columns : list of str, optional
        Names of the inputs and, last, of the target, if the file has a header.
    inputs, outputs : Scaling
        Scalings of inputs and target, as the certificate declares them.
    as_in_file : bool
        Whether the file holds these rows in this order, with the target last.
    notes : tuple of str
        How the table was changed.
    mean : DeclaredMean or None
        The prior's mean, in the units of the scaled data; None is 0.
    encoding : Encoding or None
        How the columns of the file became these numbers; None for rows that are read in passes.
    """

    name: str
    columns: list[str] | None
    inputs: Scaling
    outputs: Scaling
    as_in_file: bool
    notes: tuple[str, ...]
    mean: DeclaredMean | None = field(default=None, kw_only=True)
    encoding: Encoding | None = field(default=None, kw_only=True)

    suffix = ".csv"
    """Of the file that `write` writes."""

    @property
    @abstractmethod
    def N(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def D(self) -> int:
        """Number of inputs."""

    @property
    def target(self) -> str:
        """Name of the target."""
        return self.columns[-1] if self.columns and self.columns[-1] else "target"

    @property
    @abstractmethod
    def data(self) -> tuple[Any, Any]:
        """X and y, as estimators take them."""

    @property
    @abstractmethod
    def shown(self) -> tuple[Float, Float]:
        """X (n, D) and y (n,) of the rows in the figure, raw."""

    @property
    @abstractmethod
    def scales(self) -> tuple[float, Float]:
        """The mean square of the scaled target about the prior's mean, and standard deviations (D,) of the inputs."""

    @abstractmethod
    def write(self, path: Path) -> None:
        """Write these rows with all digits, the target last."""


@dataclass(frozen=True, eq=False)
class _RowsInMemory(Table):
    """Rows in memory.

    Attributes
    ----------
    X, y : arrays (N, D), (N,)
        Raw values; ``y`` may hold labels of any kind.
    """

    X: Float
    y: Any

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
        """Write these rows as CSV with all digits, the target last; names that are numbers would be read as a row."""
        names = None if self.columns is None or all(map(is_number, self.columns)) else self.columns
        if self.y.dtype == np.float64:
            write_table(path, names, [np.column_stack([self.X, self.y])])
            return
        titles = names or [*(f"x{j + 1}" for j in range(self.D)), "label"]
        if len(set(titles)) < len(titles):
            raise ValueError(f"{self.name}: expected columns of different names, got {', '.join(titles)}")
        with writing(path) as write:
            write(dict(zip(titles, [*self.X.T, self.y], strict=True)))


@dataclass(frozen=True, eq=False)
class _RowsInPasses(Table):
    """Rows of Parquet files, of which this process holds a part at a time.

    Attributes
    ----------
    rows : Source
    """

    rows: Source

    suffix = ".parquet"

    @property
    def N(self) -> int:
        return self.rows.N

    @property
    def D(self) -> int:
        return self.rows.D

    @property
    def data(self) -> tuple[Any, Any]:
        return self.rows, None

    @cached_property
    def shown(self) -> tuple[Float, Float]:
        numbers = np.arange(self.N) if self.N <= SHOWN else np.arange(SHOWN) * self.N // SHOWN
        X, Y = self.rows.rows(numbers)
        return X, Y[:, 0]

    @property
    def scales(self) -> tuple[float, Float]:
        moments, D = self.rows.moments, self.D
        stds = np.sqrt(moments.variance)
        centre = self.outputs.apply(moments.mean[D:])[0]
        square = centre**2 + (stds[D] / np.ravel(self.outputs.scale)[0]) ** 2
        return float(square), stds[:D] / np.asarray(self.inputs.scale)

    def write(self, path: Path) -> None:
        """Write a Parquet file, a partition at a time."""
        parts = (np.column_stack([part.X, part.Y]) for part in self.rows.holder.partitions())
        write_table(path, self.columns, parts)


@dataclass(frozen=True, eq=False)
class _Kept:
    """The change that keeps some rows of each partition; ``masks`` are by the numbers of the partitions."""

    masks: Mapping[int, np.ndarray]

    def __call__(self, rows: Rows) -> Rows:
        mask = self.masks[rows.number]
        return rows._replace(X=rows.X[mask], Y=rows.Y[mask])


def _in_passes(path: Path, target: str) -> Source:
    """The rows of Parquet files after one pass, as doubles; refuses whole numbers from 2⁵³ on.

    Raises
    ------
    ValueError, NonFinite, OSError
        as `gpbounds.rows.read_table` and `gpbounds.pacbayes.certificate.rows.raw`.
    """
    rows = Source.of(Local(parquet_parts(path, [target], doubles=True)), single=True)
    raw(rows)
    return rows


def without(rows: Source, reserved: np.ndarray) -> Source:
    """The rows that are not ``reserved``, an array of N truth values."""
    pieces = np.split(~reserved, np.cumsum(rows.sizes)[:-1])
    return changed(rows, _Kept(dict(zip(map(int, rows.numbers), pieces, strict=True))))


def read_large(path: Path, target: str | None = None, *, in_memory: bool = False, **options: Any) -> Table:
    """As `read`; Parquet files of more than `HELD` bytes of numbers stay where they are, unless ``in_memory``.

    The rows that a split reserves are held in memory for the time in which their constants are computed.
    """
    if in_memory or not is_parquet(path) or parquet_size(path) <= HELD:
        return read(path, target, **options)
    return _read_in_passes(path, target, **options)


def certified(path: Path, *, in_memory: bool, labels: bool = False) -> tuple[Any, Any]:
    """X and y of a file whose last column is the target: arrays, or a source for Parquet unless ``in_memory``.

    Raises
    ------
    ValueError, OSError
        as `gpbounds.rows.read_table` and `_in_passes`; for a single column; for inputs that are no numbers beside
        ``labels``.
    """
    if labels:
        table = read_rows(path, labels=True)
        if not _as_in_file(table, labels):
            raise ValueError(
                f"{path}: expected columns of numbers, and then one of labels, got others: check a certificate with "
                "the file of rows that was written beside it"
            )
        return table.X, table.y
    if is_parquet(path) and not in_memory:
        names = parquet_names(path)
        _two_columns(path, len(names))
        return _in_passes(path, names[-1]), None
    values, _ = read_table(path)
    _two_columns(path, values.shape[1])
    return values[:, :-1], values[:, -1]


def unseen(path: Path, *, labels: bool = False) -> Table:
    """The rows of a file whose last column is the target, as `certified` reads them."""
    X, y = certified(path, in_memory=True, labels=labels)
    return _RowsInMemory(name_of(path), None, Scaling(), Scaling(), True, (), X, y)


def read(
    path: Path,
    target: str | None = None,
    *,
    split: bool = False,
    share: float = 0.1,
    seed: int = 0,
    centre: bool = True,
    linear: bool = False,
    labels: bool = False,
    **choice: Any,
) -> _RowsInMemory:
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
    labels : bool
        Whether the target may be labels of any kind; without ``split``.
    **choice
        How the table is read, as in `gpbounds.rows.table_rows.read_rows`.

    Raises
    ------
    ValueError, OSError
        as `read_rows`; for a share that leaves no rows, or a target that is constant in the reserved rows.
    """
    table = read_rows(path, target, labels=labels, **choice)
    name, notes, how = table.name, table.notes, table.encoding
    columns = [*table.columns, table.target] if table.columns else None
    if not split:
        as_they_are = Scaling(), Scaling(), _as_in_file(table, labels, **choice), notes, table.X, table.y
        return _RowsInMemory(name, columns, *as_they_are, encoding=how)
    values = np.column_stack([table.X, table.y])
    reserved = _reserved(values.shape[0], share, seed)
    inputs, outputs, constant = _constants(values[reserved], centre)
    trend = _trend(values[reserved], inputs, outputs) if linear else None
    values = values[~reserved]
    notes += _notes_on_split(reserved, seed, constant)
    X, y = values[:, :-1], values[:, -1]
    return _RowsInMemory(name, columns, inputs, outputs, False, notes, X, y, mean=trend, encoding=how)


def _as_in_file(
    table: TableRows, labels: bool, *, drop_missing: bool = False, header: str = "auto", **columns: Any
) -> bool:
    """Whether `certified` reads these rows from the file that was read so: numbers, with the target last."""
    if not labels:
        return table.strict
    how = table.encoding
    if how is None or drop_missing or header != "auto" or not len(how.inputs) + 1 == how.width == how.target.number:
        return False
    return all(isinstance(column, NumberColumn) for column in how.inputs)


def _read_in_passes(
    path: Path,
    target: str | None,
    *,
    split: bool = False,
    share: float = 0.1,
    seed: int = 0,
    centre: bool = True,
    linear: bool = False,
    **choice: Any,
) -> _RowsInPasses:
    if any(choice.get(name) for name in ("columns", "ignore", "drop_missing")):
        raise UsageError(
            f"--columns, --ignore, --drop-missing: expected none of them for {path}, whose rows are read in passes: "
            "write a file of the rows and columns to certify"
        )
    names = parquet_names(path)
    _two_columns(path, len(names))
    j = len(names) - 1 if target is None else column_number(target, names, "--target")
    columns, last = [*names[:j], *names[j + 1 :], names[j]], j == len(names) - 1
    rows, notes = _in_passes(path, names[j]), _notes_on_target(names[j], last)
    if not split:
        return _RowsInPasses(name_of(path), columns, Scaling(), Scaling(), last, notes, rows)
    reserved = _reserved(rows.N, share, seed)
    apart = np.column_stack(rows.rows(np.flatnonzero(reserved)))
    inputs, outputs, constant = _constants(apart, centre)
    trend = _trend(apart, inputs, outputs) if linear else None
    notes += _notes_on_split(reserved, seed, constant)
    return _RowsInPasses(name_of(path), columns, inputs, outputs, False, notes, without(rows, reserved), mean=trend)


def _two_columns(path: Path, width: int) -> None:
    if width < 2:
        raise ValueError(f"{path}: expected at least two columns, inputs and then the target, got one")


def _notes_on_target(target: str, last: bool) -> tuple[str, ...]:
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
