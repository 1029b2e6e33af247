"""Rows in partitions: checked arrays, moments of columns, and the `Source` that one pass over all rows makes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpbounds.arrays import Float, Indices, exactly, is_constant
from gpbounds.errors import NonFinite
from gpbounds.once import cached_property
from gpbounds.rows.engines import Change, Changed, Engine
from gpbounds.rows.program import Program, Rows, Statistics

SHOWN = 5
"""Number of rows that a message names."""


# The rows of one partition as checked arrays.


def checked(number: int, X: Any, Y: Any) -> Rows:
    """`Rows` of partition ``number`` from what was read: float32 stays, everything else becomes float64.

    Raises
    ------
    ValueError
        for something else than numbers, or numbers of rows that differ.
    NonFinite
        for NaN or infinity; the message names the partition and its rows.

    >>> checked(0, [[1], [2]], [0.5, 1.5]).X
    array([[1.],
           [2.]])
    """
    points, targets = _columns(number, "X", X), _columns(number, "y", Y).astype(np.float64, copy=False)
    if len(points) != len(targets):
        raise ValueError(f"y: expected as many rows as X has in partition {number}, {len(points)}, got {len(targets)}")
    return Rows(points, targets, number, exact=is_exact(X, points) and is_exact(Y, targets))


def is_exact(came: Any, taken: Float) -> bool:
    """Whether ``taken`` has exactly the numbers of ``came``; False for floats that are not doubles."""
    dtype = np.asarray(came).dtype
    if dtype.kind == "f":
        return dtype.itemsize == 8
    return dtype.kind == "b" or not taken.size or bool(np.abs(taken).max() < 2.0**53)


def _columns(number: int, name: str, values: Any) -> Float:
    array = np.asarray(exactly(f"{name} in partition {number}", values))
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected real numbers, got dtype {array.dtype} in partition {number}")
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{name}: expected one or two dimensions, got shape {array.shape} in partition {number}")
    wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if wrong.size:
        raise NonFinite(
            f"{name}: expected finite numbers, got NaN or infinity in partition {number}, in its row(s) "
            f"{[int(row) for row in wrong[:SHOWN]]} (first five shown)"
        )
    return np.ascontiguousarray(array)


# Means and spreads of columns, in one pass over partitions.
#
# Of each column: its mean m and q = Σ(x − m)², in units of s, its largest absolute value so far, so that no square
# overflows.  Two sets of rows join by (Chan, Golub and LeVeque, 1979), with δ = m₂ − m₁,
#
#     m = m₁ + δ·n₂/n,    q = q₁ + q₂ + δ²·n₁n₂/n.


@dataclass(frozen=True, eq=False)
class Moments(Statistics):
    """The record of some rows; ``+`` joins two.

    Attributes
    ----------
    n : int
        Number of rows.
    unit, centre, spread : arrays (d,)
        s, m/s and q/s² of each column.

    >>> joined = Moments.of(np.array([[1.0], [2.0]])) + Moments.of(np.array([[6.0]]))
    >>> joined.mean, joined.variance
    (array([3.]), array([4.66666667]))
    """

    n: int
    unit: Float
    centre: Float
    spread: Float

    @classmethod
    def of(cls, rows: Float) -> Moments:
        """The record of ``rows`` (n, d)."""
        n, d = rows.shape
        if n == 0:
            return cls(0, np.zeros(d), np.zeros(d), np.zeros(d))
        unit = np.abs(rows).max(axis=0).astype(np.float64)
        scaled = rows / np.where(unit > 0.0, unit, 1.0)
        centre = scaled.mean(axis=0)
        scaled -= centre
        return cls(n, unit, centre, (scaled * scaled).sum(axis=0))

    def __add__(self, other: Moments) -> Moments:
        n = self.n + other.n
        if self.unit.shape != other.unit.shape:
            raise ValueError(
                "X, y: expected the same columns in all partitions, got partitions with "
                f"{self.unit.size} and with {other.unit.size} columns of X and y"
            )
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        unit = np.maximum(self.unit, other.unit)
        safe = np.where(unit > 0.0, unit, 1.0)
        a, b = self.unit / safe, other.unit / safe
        delta = b * other.centre - a * self.centre
        both = self.n * (other.n / n)
        return Moments(
            n,
            unit,
            a * self.centre + delta * (other.n / n),
            a * a * self.spread + b * b * other.spread + delta * delta * both,
        )

    @property
    def mean(self) -> Float:
        """Mean of each column."""
        return self.unit * self.centre

    @property
    def variance(self) -> Float:
        """Mean squared distance from the mean, of each column."""
        return self.unit**2 * (self.spread / self.n)

    @property
    def units(self) -> Float:
        """Standard deviation of each column, 1 for a constant one: as `fitting.starts.starts.units`."""
        spread = np.sqrt(self.spread / self.n)
        return np.where(is_constant(spread, 1.0), 1.0, spread * np.where(self.unit > 0.0, self.unit, 1.0))


# Rows that are read by partitions.


@dataclass(frozen=True, eq=False)
class Source:
    """Rows that are read by partitions; made by `gpbounds.rows.source`.

    Attributes
    ----------
    holder : Engine
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

    holder: Engine
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

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all numbers in their order, and of the sizes of the partitions; one pass.

        >>> from gpbounds.rows import source
        >>> one, other = (source(np.eye(2), np.array(y)) for y in ([1.0, 2.0], [2.0, 1.0]))
        >>> one.digest == other.digest
        False
        """
        return hashlib.sha256(self.holder.run(Program.one_pass(_digested)).each).digest()

    def rows(self, numbers: Indices) -> tuple[Float, Float]:
        """X (n, D) and Y (n, P) of the rows with these numbers, which increase."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        cuts = np.searchsorted(numbers, starts)
        places = [place for place in range(len(self.sizes)) if cuts[place] < cuts[place + 1]]
        wanted = {int(self.numbers[place]): numbers[cuts[place] : cuts[place + 1]] - starts[place] for place in places}
        taken = self.holder.only(places).run(Program.one_pass(partial(_take, wanted)))
        return np.concatenate(taken.X).astype(np.float64, copy=False), np.concatenate(taken.Y)

    @classmethod
    def of(cls, holder: Engine, *, single: bool, names: tuple[str, ...] = (), numbers: Indices | None = None) -> Source:
        """Read all partitions once; ``numbers`` name them in messages, by default 0, 1, 2 …

        Raises
        ------
        ValueError, NonFinite
            for partitions that are not numbers, differ in their columns or contain NaN or infinity.
        """
        look = holder.run(Program.one_pass(_looked))
        sizes = np.array([size for size, _ in look.shapes])
        if not sizes.any():
            raise ValueError("X: expected at least one row, got none in any partition")
        columns = {D for size, D in look.shapes if size}
        if len(columns) > 1:
            raise ValueError(f"X: expected the same columns in all partitions, got {sorted(columns)} columns")
        D, filled = columns.pop(), np.flatnonzero(sizes)
        engine = holder if len(filled) == len(sizes) else holder.only(filled.tolist())
        kept = filled if numbers is None else numbers[filled]
        return cls(
            engine, kept, sizes[filled], D, len(look.moments.unit) - D, single, look.moments, names, not look.inexact
        )


@dataclass(frozen=True, eq=False)
class _Look(Statistics):
    """The numbers of rows and of columns of X of each partition; the moments of all; how many are not exact."""

    shapes: tuple[tuple[int, int], ...]
    moments: Moments
    inexact: int


def _looked(state: None, rows: Rows) -> _Look:
    return _Look((rows.X.shape,), Moments.of(np.concatenate([rows.X, rows.Y], axis=1)), int(not rows.exact))


@dataclass(frozen=True, eq=False)
class _Digests(Statistics):
    """The SHA-256 of each partition, in order."""

    each: bytes


def _digested(state: None, rows: Rows) -> _Digests:
    digest = hashlib.sha256(f"{rows.X.shape} {rows.X.dtype} {rows.Y.shape};".encode())
    for array in (rows.X, rows.Y):
        digest.update(array.tobytes())
    return _Digests(digest.digest())


@dataclass(frozen=True, eq=False)
class _Taken(Statistics):
    """Rows of several partitions, in order."""

    X: tuple[Float, ...]
    Y: tuple[Float, ...]


def _take(wanted: dict[int, Indices], state: None, rows: Rows) -> _Taken:
    """The rows of one partition at the positions that ``wanted`` has for its number."""
    chosen = wanted[rows.number]
    return _Taken((rows.X[chosen],), (rows.Y[chosen],))


# Rows in other units.


@dataclass(frozen=True, eq=False)
class Shifted:
    """The change of y into (y − shift)/scale."""

    shift: Float | float
    scale: Float | float

    def __call__(self, rows: Rows) -> Rows:
        return rows._replace(Y=(rows.Y - self.shift) / self.scale)


def changed(rows: Source, change: Change) -> Source:
    """The rows ``change(rows)``; one pass."""
    return Source.of(Changed(rows.holder, change), single=rows.single, names=rows.names, numbers=rows.numbers)


def with_targets(rows: Source, shift: Float, scale: Float) -> Source:
    """``rows`` with (y − shift)/scale in place of y; one pass.

    >>> from gpbounds.rows import source
    >>> rows = with_targets(source(np.eye(2), np.array([1.0, 3.0])), np.ones(1), np.full(1, 2.0))
    >>> rows.rows(np.arange(2))[1].tolist()
    [[0.0], [1.0]]
    """
    return changed(rows, Shifted(shift, scale))
