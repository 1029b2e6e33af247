"""The finite set Θ of prior hyperparameters, fixed before the data are seen, in ln θ."""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.errors import shown
from gpbounds.kernels.plain import hyperparameter_names
from gpbounds.records import NUMBERS, TEXTS, WHOLES, Record, Slots
from gpbounds.validation import count, finite, positive, whole

FARTHEST = 700.0
"""e^±700 are doubles with all their digits."""
_FINEST = 1e-9
"""Least spacing in ln θ: a million times the spacing of doubles."""
MOST = 1_000_000
"""Inputs with a lengthscale of their own."""
DIGITS = 60
"""A grid value is computed with so many decimal digits, then rounded to a double."""


@dataclass(frozen=True)
class GridPoint:
    """A member of Θ, and which hyperparameters were moved to an edge.

    Attributes
    ----------
    indices : tuple of int
        One index for each name of the grid, from 0 to steps.
    theta : dict of str to float
        The hyperparameters themselves.
    clipped : tuple of str
        Names whose value lay outside the grid and was moved to its edge.
    """

    indices: tuple[int, ...]
    theta: dict[str, float]
    clipped: tuple[str, ...] = ()


@dataclass(frozen=True)
class HyperGrid(Record):
    """The set Θ = {exp(low + (high − low)·i/G) : i = 0 ... G}, one axis for each name; the prior over Θ is uniform.

    A bound that holds for every θ in Θ pays ln(1/p_θ) = ln|Θ| = Σ ln(G_t + 1), T ln(G + 1) for T equal axes; T
    is 2 with one shared lengthscale and D + 1 with one for each input.  Only hyperparameters of the *prior*
    are charged: the noise, the inducing points and everything else that defines Q cost nothing (P-49).

    Claims P-43, P-44, P-48 (Reeb et al., PAC-GP, §3.1).  Grid values do not depend on a machine's ``exp``: they are
    computed with 60 decimal digits and then rounded, so that equal indices give equal doubles everywhere.

    Parameters
    ----------
    low, high : float or one for each name
        Edges in ln θ.
    steps : int or one for each name
        G, the number of *intervals*: an axis has G + 1 points.  0, with low = high, for a value fixed in advance: a
        value that a fit to the same rows chose makes the prior depend on them, and the bound does not hold.
    names : sequence of str
        Hyperparameters of the kernel: "variance" and "lengthscale", or "lengthscale_1" ... "lengthscale_D".

    Raises
    ------
    ValueError
        for edges in the wrong order or beyond ±700, steps that are not whole, names that repeat.

    >>> grid = HyperGrid(-6.0, 6.0, 1200, ("variance", "lengthscale"))
    >>> grid.size, round(grid.log_size, 2)
    (1442401, 14.18)
    >>> point = grid.round({"variance": 1.004, "lengthscale": 1e-4})
    >>> point.indices, point.clipped, point.theta["variance"]
    ((600, 0), ('lengthscale',), 1.0)
    """

    low: Any = -6.0
    high: Any = 6.0
    steps: Any = 1200
    names: Any = ("variance", "lengthscale")
    stored: ClassVar[Slots] = {"names": TEXTS, "low": NUMBERS, "high": NUMBERS, "steps": WHOLES}

    def __post_init__(self) -> None:
        names = (self.names,) if isinstance(self.names, str) else self.names
        names = tuple(names) if isinstance(names, list | tuple) else ()
        if not names or not all(isinstance(n, str) and n for n in names) or len(set(names)) < len(names):
            raise ValueError(f"names: expected different names, one for each axis, got {shown(self.names)}")
        low, high = (_one_each(n, finite(n, v), len(names)) for n, v in (("low", self.low), ("high", self.high)))
        steps = tuple(int(g) for g in _one_each("steps", whole("steps", self.steps, 0), len(names)))
        for name, a, b, g in zip(names, low, high, steps, strict=True):
            if not -FARTHEST <= a <= b <= FARTHEST:
                raise ValueError(f"{name}: expected ln θ from low to high between ±{FARTHEST:g}, got {a!r} and {b!r}")
            if (a == b) != (g == 0) or (g and (b - a) / g < _FINEST):
                raise ValueError(
                    f"{name}: expected low < high and 1 or more steps of at least {_FINEST:g} in ln θ (or low = high "
                    f"and 0 steps for a fixed value), got low {a!r}, high {b!r}, steps {g}"
                )
        for name, value in (("names", names), ("low", low), ("high", high), ("steps", steps)):
            object.__setattr__(self, name, value)

    @classmethod
    def shared(cls, low: Any = -6.0, high: Any = 6.0, steps: Any = 1200) -> HyperGrid:
        """Variance and one lengthscale for all inputs: T = 2.

        >>> HyperGrid.shared().names
        ('variance', 'lengthscale')
        """
        return cls(low, high, steps, hyperparameter_names(None))

    @classmethod
    def ard(cls, dim: int, low: Any = -6.0, high: Any = 6.0, steps: Any = 1200) -> HyperGrid:
        """Variance and a lengthscale for each of ``dim`` inputs: T = dim + 1.

        >>> HyperGrid.ard(13).T, round(HyperGrid.ard(13).log_size, 1)
        (14, 99.3)
        """
        columns = count("dim", dim)
        if columns > MOST:
            raise ValueError(f"dim: expected at most {MOST:,} inputs, got {columns:,}")
        return cls(low, high, steps, hyperparameter_names(columns))

    @property
    def T(self) -> int:
        """Number of axes."""
        return len(self.names)

    @property
    def size(self) -> int:
        """|Θ|, an exact integer."""
        return math.prod(g + 1 for g in self.steps)

    @property
    def log_size(self) -> float:
        """ln|Θ| = Σ ln(G_t + 1), to the nearest few ulp; certificates round it up from the integer |Θ|."""
        return math.log(self.size)

    def at(self, indices: ArrayLike) -> GridPoint:
        """The member of Θ with these integer indices.

        Raises
        ------
        ValueError
            unless there is one whole number in 0 ... steps for each name.
        """
        numbers = whole("indices", indices, 0)
        if numbers.shape != (self.T,):
            raise ValueError(
                f"indices: expected {self.T} whole numbers, one for each of {self.names}, got {shown(indices)}"
            )
        chosen = tuple(int(i) for i in numbers)
        for name, i, g in zip(self.names, chosen, self.steps, strict=True):
            if i > g:
                raise ValueError(f"indices: expected {name} in 0 ... {g}, got {i}")
        return GridPoint(chosen, {n: self._value(t, chosen[t]) for t, n in enumerate(self.names)})

    def round(self, theta: Mapping[str, float] | Sequence[float]) -> GridPoint:
        """The member of Θ nearest to θ: ln θ clipped to the edges, then rounded to integer indices.

        Parameters
        ----------
        theta : mapping from the grid's names, or a sequence in their order
            Positive hyperparameters.

        Raises
        ------
        ValueError
            for missing or unknown names, or numbers that are not positive.
        """
        values = self._ordered(theta)
        indices, clipped = [], []
        for name, value, a, b, g in zip(self.names, values, self.low, self.high, self.steps, strict=True):
            place = math.log(value)
            index = round((min(max(place, a), b) - a) / (b - a) * g) if g else 0
            # Rounding may put ln of a grid value beyond the edge: that is not clipping.
            if not a <= place <= b and value != self._value(self.names.index(name), index):
                clipped.append(name)
            indices.append(index)
        return GridPoint(tuple(indices), self.at(indices).theta, tuple(clipped))

    def locate(self, theta: Mapping[str, float] | Sequence[float]) -> GridPoint:
        """The member of Θ that equals θ to the last bit; other hyperparameters are refused.

        Raises
        ------
        ValueError
            when θ is not in Θ; and as `round`.
        """
        point = self.round(theta)
        for name, value in zip(self.names, self._ordered(theta), strict=True):
            if value != point.theta[name]:
                raise ValueError(
                    f"{name}: expected a value of the grid, got {shown(value)}; the nearest is {point.theta[name]!r}. "
                    "Round with HyperGrid.round, then rebuild Q at the rounded hyperparameters: the old Q has no bound"
                )
        return GridPoint(point.indices, point.theta)

    def _ordered(self, theta: Mapping[str, float] | Sequence[float]) -> list[float]:
        if isinstance(theta, Mapping):
            if set(theta) != set(self.names):
                raise ValueError(f"theta: expected the names {', '.join(self.names)}, got {', '.join(map(str, theta))}")
            theta = [theta[name] for name in self.names]
        values = positive("theta", theta)
        if values.shape != (self.T,):
            raise ValueError(
                f"theta: expected {self.T} numbers, one for each of {self.names}, got shape {values.shape}"
            )
        return [float(v) for v in values]

    def _value(self, axis: int, index: int) -> float:
        """exp(low + (high − low)·index/steps), the same double on every machine."""
        with decimal.localcontext(decimal.Context(prec=DIGITS, rounding=decimal.ROUND_HALF_EVEN)):
            low, high, steps = decimal.Decimal(self.low[axis]), decimal.Decimal(self.high[axis]), self.steps[axis]
            place = low + (high - low) * index / steps if steps else low
            return float(place.exp())


def _one_each(name: str, values: Any, axes: int) -> tuple[float, ...]:
    if values.shape not in ((), (1,), (axes,)):
        raise ValueError(f"{name}: expected one number or {axes}, one for each axis, got shape {values.shape}")
    return tuple(float(v) for v in np.broadcast_to(values, (axes,)))
