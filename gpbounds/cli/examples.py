"""Read the examples of ``gpbounds train`` from a CSV file, and hold some of them out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.arrays import Float, is_constant
from gpbounds.cli import rows
from gpbounds.cli.options import UsageError
from gpbounds.rows.tables import first_cells, read_with_words


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and targets in the units of the file.

    Attributes
    ----------
    name : str
        Name of the data.
    X : array (N, D)
    y : array (N,)
        Numbers, or labels of any kind.
    target : str
        Name of the target.
    notes : tuple of str
        How the table was read.
    """

    name: str
    X: Float
    y: Any
    target: str
    notes: tuple[str, ...] = ()

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of inputs."""
        return int(self.X.shape[1])

    def split(self, share: float, seed: int) -> tuple[Examples, Examples]:
        """The rows for training and a random ``share`` that is held out."""
        held = round(share * self.N)
        if not 0.0 < share < 1.0:
            raise UsageError(f"--held-out: expected a share between 0 and 1, got {share:g}")
        if held < 1 or self.N - held < 2:
            raise UsageError(
                f"--held-out: expected to hold out at least one row and to leave two, got {held} of {self.N}"
            )
        order = np.random.default_rng(seed).permutation(self.N)
        train, test = np.sort(order[held:]), np.sort(order[:held])
        return tuple(replace(self, X=self.X[part], y=self.y[part]) for part in (train, test))  # type: ignore[return-value]


def read(path: Path, target: str | None = None, *, labels: bool = False) -> Examples:
    """The examples in ``path``, CSV or .csv.gz; ``target`` is a column's name or number from 1, by default the last.

    Raises
    ------
    ValueError, OSError
        as `gpbounds.cli.rows.read`, and for a constant target; ``labels`` may be words.
    """
    if not labels:
        table = rows.read(path, target)
        if is_constant(table.y.std(), np.abs(table.y).max()):
            raise ValueError(f"{table.name}: expected a target ({table.target}) that varies, got a constant one")
        return Examples(table.name, table.X, table.y, table.target, table.notes)
    first = first_cells(path)
    if len(first) < 2:
        raise ValueError(f"{path}: expected at least two columns, inputs and then the target, got {len(first)}")
    column = len(first) - 1
    if target is not None:
        column = rows.column_number(target, None if target.isdecimal() else first, len(first))
    values, words, name = read_with_words(path, column)
    return Examples(
        path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".parquet"),
        values,
        _labels(words),
        name or "label",
    )


def _labels(words: list[str]) -> Any:
    """The labels as whole numbers or numbers if all of them are, otherwise as text."""
    for kind in (int, float):
        try:
            return np.array([kind(word) for word in words])
        except ValueError:
            continue
    return np.array(words)
