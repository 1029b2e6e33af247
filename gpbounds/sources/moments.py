"""Means and spreads of columns, in one pass over partitions.

Of each column: its mean m and q = Σ(x − m)², in units of s, its largest absolute value so far, so that no square
overflows.  Two sets of rows join by (Chan, Golub and LeVeque, 1979), with δ = m₂ − m₁,

    m = m₁ + δ·n₂/n,    q = q₁ + q₂ + δ²·n₁n₂/n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float, is_constant
from gpbounds.mapreduce.statistics import Statistics


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
