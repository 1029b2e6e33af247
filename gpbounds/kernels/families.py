"""Kernels by name, alone or in sums such as ``linear+rbf``, at the scale of data."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import shown
from gpbounds.kernels.base import Kernel
from gpbounds.kernels.constant import Constant
from gpbounds.kernels.inner_products import Linear, Polynomial
from gpbounds.kernels.periodic import Periodic
from gpbounds.kernels.plain import NAMED, smoothness, stationary
from gpbounds.kernels.rational_quadratic import RationalQuadratic

WORDS = "se (or rbf), matern12, matern32, matern52, matern:NU, rq, periodic, linear, polynomial:DEGREE, constant"
"""The names of kernels, as messages list them."""


class Scale(NamedTuple):
    """Where training starts: a share of the mean square of y, and √D standard deviations of the inputs."""

    square: float
    widths: Float
    shared: bool

    @property
    def lengths(self) -> float | Float:
        """One length for each input, or their geometric mean for all."""
        return math.exp(float(np.log(self.widths).mean())) if self.shared else self.widths


class Family(NamedTuple):
    """A kernel by name, or a sum such as ``linear+se``; made by `family`."""

    text: str

    def at(self, square: float, widths: Float, shared: bool = False) -> Kernel:
        """The kernel whose parts share the mean square of y.

        >>> family("linear+se").at(2.0, np.array([1.0, 2.0]), shared=True).k2.variance
        1.0
        """
        parts = [_part(name) for name in self.text.split("+")]
        scale = Scale(square / len(parts), widths, shared)
        return reduce(add, (part(scale) for part in parts))

    @property
    def is_stationary(self) -> bool:
        """Whether it is one kernel of a distance in lengthscales: squared exponential, Matérn, rational quadratic."""
        return self.text == "rq" or self.text in NAMED or self.text.startswith("matern:")

    @property
    def is_squared_exponential(self) -> bool:
        """Whether it is the squared exponential, the kernel of estimators to which none is passed."""
        return self.text in ("se", "rbf")


SQUARED_EXPONENTIAL = Family("se")


def family(text: str) -> Family:
    """The kernel that ``text`` names.

    Raises
    ------
    ValueError
        for another name; the message lists those that there are.

    >>> family("rbf").at(4.0, np.array([2.0]))
    SquaredExponential(variance=4.0, lengthscale=array([2.]))
    """
    for name in text.split("+"):
        _part(name)
    return Family(text)


def _part(name: str) -> Callable[[Scale], Kernel]:
    """The kernel of one name, as a function of the scale."""
    kind, _, degree = name.partition(":")
    if kind == "polynomial" and degree.isdigit() and 1 <= int(degree) <= 20:
        p = int(degree)

        def polynomial(s: Scale) -> Kernel:
            half = 0.5 * s.square ** (1.0 / p)
            return Polynomial(p, half / s.lengths**2, half)

        return polynomial
    if name == "rq":
        return lambda s: RationalQuadratic(1.0, s.square, s.lengths)
    if name == "periodic":
        return lambda s: Periodic(s.lengths, s.square, 1.0 if s.shared else np.ones(s.widths.size))
    if name == "linear":
        return lambda s: Linear(s.square / s.lengths**2)
    if name == "constant":
        return lambda s: Constant(s.square)
    try:
        nu = smoothness(name)
    except ValueError:
        raise ValueError(
            f"kernel: expected {WORDS} with a DEGREE up to 20, or several joined by +, got {shown(name)}"
        ) from None
    return lambda s: stationary(nu, s.square, s.lengths)
