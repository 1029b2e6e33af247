"""Mean functions of a GP prior: constant and linear functions of x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points, namespace
from gpbounds.records import ANY, Record, Slots
from gpbounds.validation import finite


@dataclass(frozen=True, eq=False)
class LinearMean(Record):
    """m(x) = intercept + Σ_d slopes_d x_d; without slopes a constant.

    Parameters
    ----------
    intercept : float
        In units of y.
    slopes : array (D,), optional
        In units of y per unit of x.

    Raises
    ------
    ValueError
        for numbers that are not finite, and when it is evaluated for inputs with another number of columns.

    >>> LinearMean(1.0, [2.0, 0.0])([[0.0, 5.0], [3.0, 5.0]])
    array([1., 7.])
    """

    intercept: float = 0.0
    slopes: ArrayLike | None = None
    stored: ClassVar[Slots] = {"intercept": ANY, "slopes": ANY}

    def __post_init__(self) -> None:
        object.__setattr__(self, "intercept", float(finite("intercept", self.intercept)))
        if self.slopes is not None:
            slopes = finite("slopes", self.slopes)
            if slopes.ndim != 1:
                raise ValueError(f"slopes: expected one for each column of the inputs, got shape {slopes.shape}")
            object.__setattr__(self, "slopes", slopes)

    def __call__(self, X: ArrayLike | Array) -> Array:
        """m at the rows of X (N, D); shape (N,)."""
        points = as_points(X, "X")
        xp = namespace(points)
        values = xp.full(points.shape[0], self.intercept)
        if self.slopes is None:
            return values
        slopes: Float = np.asarray(self.slopes)
        if slopes.size != points.shape[1]:
            raise ValueError(f"X: expected {slopes.size} column(s), one for each slope, got {points.shape[1]}")
        return values + points @ xp.asarray(slopes)

    def _key(self) -> tuple[float, tuple[float, ...] | None]:
        return self.intercept, None if self.slopes is None else tuple(np.asarray(self.slopes).tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearMean) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())
