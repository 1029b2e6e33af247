"""Partitions of arrays in memory, of memory maps, and of .npy files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.files import mapped
from gpbounds.mapreduce.program import Rows
from gpbounds.sources.checked import checked
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
class NpyPart:
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


def npy_parts(X: str | os.PathLike[str], Y: str | os.PathLike[str], size: int = PART) -> tuple[list[NpyPart], bool]:
    """Partitions of two .npy files, and whether y has one dimension."""
    paths = os.path.abspath(X), os.path.abspath(Y)
    first, second = map(mapped, paths)
    if not first.ndim or not second.ndim:
        raise ValueError("X, y: expected arrays of rows, got one number")
    _same_rows(first, second)
    parts = [NpyPart(*paths, number, rows) for number, rows in enumerate(slices(first.shape[0], size))]
    return parts, second.ndim == 1


def _same_rows(X: Any, Y: Any) -> None:
    if X.shape[0] != Y.shape[0]:
        raise ValueError(f"y: expected one row of targets for each row of X, {X.shape[0]}, got {Y.shape[0]}")
    if X.shape[0] == 0:
        raise ValueError("X: expected at least one row, got none")
