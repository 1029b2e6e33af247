"""Rows in partitions, and what is known of them after one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpbounds.arrays import Float, Indices
from gpbounds.mapreduce.program import Engine, Round, Rows
from gpbounds.mapreduce.statistics import Statistics
from gpbounds.sources.moments import Moments


class Holder(Engine, Protocol):
    """An engine of which a part of the partitions can be taken."""

    def only(self, places: Sequence[int]) -> Holder:
        """The same with the partitions at these places."""

    def partitions(self) -> Iterator[Rows]:
        """The rows of each partition in this process, one after the other."""


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that are read by partitions; made by `gpbounds.sources.source`.

    Attributes
    ----------
    holder : Holder
        The partitions with rows.
    numbers, sizes : arrays of int
        The number of each, by which messages name it, and its number of rows.
    D, P : int
        Numbers of columns of X and of y.
    single : bool
        Whether y has the shape (N,).
    moments : Moments
        Of the columns of X, then of y.
    names : tuple of str
        The names of the columns of X; empty if they have none.
    exact : bool
        Whether all numbers are doubles, or whole numbers below 2⁵³.
    """

    holder: Holder
    numbers: Indices
    sizes: Indices
    D: int
    P: int
    single: bool
    moments: Moments
    names: tuple[str, ...] = ()
    exact: bool = True

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.sizes.sum())

    def rows(self, numbers: Indices) -> tuple[Float, Float]:
        """X (n, D) and Y (n, P) of the rows with these numbers, which increase."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        cuts = np.searchsorted(numbers, starts)
        places = [place for place in range(len(self.sizes)) if cuts[place] < cuts[place + 1]]
        wanted = {int(self.numbers[place]): numbers[cuts[place] : cuts[place + 1]] - starts[place] for place in places}
        taken = self.holder.only(places).run(_Taking(wanted))
        return np.concatenate(taken.X).astype(np.float64, copy=False), np.concatenate(taken.Y)

    @classmethod
    def of(cls, holder: Holder, *, single: bool, names: tuple[str, ...] = (), numbers: Indices | None = None) -> Source:
        """Read all partitions once; ``numbers`` are theirs, by default 0, 1, 2 …

        Raises
        ------
        ValueError, NonFinite
            for partitions that are not numbers, differ in their columns or contain NaN or infinity.
        """
        look = holder.run(_Looking())
        sizes = np.array([size for size, _ in look.shapes])
        if not sizes.any():
            raise ValueError("X: expected at least one row, got none in any partition")
        columns = {D for size, D in look.shapes if size}
        if len(columns) > 1:
            raise ValueError(f"X: expected the same columns in all partitions, got {sorted(columns)} columns")
        D, filled = columns.pop(), np.flatnonzero(sizes)
        own = holder if len(filled) == len(sizes) else holder.only(filled.tolist())
        kept = filled if numbers is None else numbers[filled]
        return cls(
            own, kept, sizes[filled], D, len(look.moments.unit) - D, single, look.moments, names, not look.inexact
        )


@dataclass(frozen=True, eq=False)
class _Look(Statistics):
    """The numbers of rows and of columns of X of each partition; the moments of all; how many are not exact."""

    shapes: tuple[tuple[int, int], ...]
    moments: Moments
    inexact: int


class _Looking:
    """The program of the first pass."""

    def begin(self) -> None:
        """Nothing."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(_looked, _as_it_is),)


def _looked(state: None, rows: Rows) -> _Look:
    return _Look((rows.X.shape,), Moments.of(np.concatenate([rows.X, rows.Y], axis=1)), int(not rows.exact))


@dataclass(frozen=True, eq=False)
class _Taken(Statistics):
    """Rows of several partitions, in order."""

    X: tuple[Float, ...]
    Y: tuple[Float, ...]


@dataclass(frozen=True, eq=False)
class _Taking:
    """The program that takes rows; positions in each partition by its number."""

    wanted: dict[int, Indices]

    def begin(self) -> None:
        """Nothing."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self.take, _as_it_is),)

    def take(self, state: None, rows: Rows) -> _Taken:
        """The rows of one partition."""
        chosen = self.wanted[rows.number]
        return _Taken((rows.X[chosen],), (rows.Y[chosen],))


def _as_it_is(state: None, total: Statistics) -> Statistics:
    return total
