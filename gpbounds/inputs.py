"""The law p(x) of the inputs: Gaussian, uniform on a box, or the empirical law of data points."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points
from gpbounds.validation import count, finite, positive


@dataclass(frozen=True)
class Gaussian:
    """x ~ N(0, diag(std²)); the mean is irrelevant for a stationary kernel.

    Parameters
    ----------
    std : float or array of shape (dim,)
        Standard deviation, in the units of x: one number for all dimensions, or one for each.
    dim : int
        Number of dimensions; if ``std`` is an array, its length.

    >>> Gaussian([1.0, 2.0]).dim
    2
    """

    std: ArrayLike = 1.0
    dim: int = 1
    stds: Float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        std = positive("std", self.std)
        dim = count("dim", self.dim)
        if std.ndim > 1 or std.size == 0 or (std.ndim == 1 and dim not in (1, std.size)):
            raise ValueError(f"std: expected a number or one per dimension ({dim}), got shape {std.shape}")
        object.__setattr__(self, "std", float(std) if std.ndim == 0 else tuple(std.tolist()))
        object.__setattr__(self, "dim", std.size if std.ndim else dim)
        object.__setattr__(self, "stds", np.broadcast_to(std, (self.dim,)))

    def sample(self, N: int, rng: np.random.Generator) -> Float:
        """``N`` independent draws, shape (N, dim)."""
        return rng.standard_normal((N, self.dim)) * self.stds


@dataclass(frozen=True)
class Uniform:
    """x uniform on the box [low, high].

    Parameters
    ----------
    low, high : float or array of shape (dim,)
        Ends of the box, in the units of x; low < high.

    >>> Uniform([0.0, 0.0], [1.0, 2.0]).widths
    array([1., 2.])
    """

    low: ArrayLike = 0.0
    high: ArrayLike = 1.0
    dim: int = field(init=False)
    widths: Float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        low, high = finite("low", self.low), finite("high", self.high)
        try:
            low, high = np.broadcast_arrays(np.atleast_1d(low), np.atleast_1d(high))
        except ValueError:
            raise ValueError(f"low, high: expected matching shapes, got {low.shape} and {high.shape}") from None
        if low.ndim != 1 or low.size == 0 or not (low < high).all():
            raise ValueError(f"low, high: expected low < high in every dimension, got {self.low!r} and {self.high!r}")
        for name, end in (("low", low), ("high", high)):
            object.__setattr__(self, name, float(end[0]) if low.size == 1 else tuple(end.tolist()))
        object.__setattr__(self, "dim", low.size)
        object.__setattr__(self, "widths", high - low)

    def sample(self, N: int, rng: np.random.Generator) -> Float:
        """``N`` independent draws, shape (N, dim)."""
        return np.atleast_1d(finite("low", self.low)) + rng.random((N, self.dim)) * self.widths


@dataclass(frozen=True, eq=False)
class Empirical:
    """The data themselves: x is one of the N rows of ``X``, each with probability 1/N.

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy

    >>> Empirical([[0.0], [1.0], [3.0]]).dim
    1
    """

    X: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", as_points(self.X))

    @property
    def dim(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def N(self) -> int:
        """Number of rows of X."""
        return int(self.X.shape[0])

    def __repr__(self) -> str:
        return f"Empirical(X of shape {self.X.shape})"


InputLaw = Gaussian | Uniform | Empirical


def on_a_line(inputs: object) -> bool:
    """Whether inputs are Gaussian or uniform in one dimension.

    >>> on_a_line(Gaussian()), on_a_line(Uniform([0, 0], [1, 1])), on_a_line(Empirical([[0.0]]))
    (True, False, False)
    """
    return isinstance(inputs, Gaussian | Uniform) and inputs.dim == 1
