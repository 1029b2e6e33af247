"""Rows to certify that stay in their Parquet files: passes over row groups in place of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.cli import parquet
from gpbounds.cli.table import Table
from gpbounds.mapreduce.program import Rows
from gpbounds.pacbayes.certificate.rows import raw
from gpbounds.sources import Source
from gpbounds.sources.changed import changed
from gpbounds.sources.local import Local
from gpbounds.sources.parquet import parquet_parts

SHOWN = 10_000
"""Number of rows in the figure, evenly spaced."""


@dataclass(frozen=True, eq=False)
class RowsInPasses(Table):
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
        assert self.columns is not None
        parquet.write(path, self.columns, (np.column_stack([part.X, part.Y]) for part in self.rows.holder.partitions()))


@dataclass(frozen=True, eq=False)
class Kept:
    """The change that keeps some rows of each partition; ``masks`` are by the numbers of the partitions."""

    masks: Mapping[int, np.ndarray]

    def __call__(self, rows: Rows) -> Rows:
        mask = self.masks[rows.number]
        return rows._replace(X=rows.X[mask], Y=rows.Y[mask])


def in_passes(path: Path, target: str) -> Source:
    """The rows of Parquet files after one pass, as doubles; refuses whole numbers from 2⁵³ on.

    Raises
    ------
    ValueError, NonFinite, OSError
        as `gpbounds.cli.parquet.names` and `gpbounds.pacbayes.certificate.rows.raw`.
    """
    parquet.names(path)  # has the clearer messages
    parts = parquet_parts(path, [target], doubles=True)
    rows = Source.of(Local(parts), single=True)
    raw(rows)
    return rows


def without(rows: Source, reserved: np.ndarray) -> Source:
    """The rows that are not ``reserved``, an array of N truth values."""
    pieces = np.split(~reserved, np.cumsum(rows.sizes)[:-1])
    return changed(rows, Kept(dict(zip(map(int, rows.numbers), pieces, strict=True))))
