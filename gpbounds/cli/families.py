"""Kernels by name: ``linear+se`` is the sum of a linear and a squared exponential kernel at the scale of the data."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from gpbounds.arrays import Float
from gpbounds.cli import options
from gpbounds.kernels import Constant, Kernel, Linear, Periodic, Polynomial, RationalQuadratic
from gpbounds.kernels.plain import stationary

NAMES = "se, matern12, matern32, matern52, rq, periodic, linear, polynomial:DEGREE, constant"


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
    """A sum of named kernels."""

    text: str
    parts: tuple[Callable[[Scale], Kernel], ...]

    def at(self, square: float, widths: Float, shared: bool) -> Kernel:
        """The kernel whose parts share the mean square of y.

        >>> family("linear+se").at(2.0, np.array([1.0, 2.0]), shared=True).k2.variance
        1.0
        """
        scale = Scale(square / len(self.parts), widths, shared)
        return reduce(add, (part(scale) for part in self.parts))


def family(text: str) -> Family:
    """The kernel that ``text`` names, for argparse."""
    return Family(text, tuple(_part(name) for name in text.split("+")))


def _part(name: str) -> Callable[[Scale], Kernel]:
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
        nu = options.kernel_family(name)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected {NAMES} with a DEGREE up to 20, or several joined by +, got {name!r}"
        ) from None
    return lambda s: stationary(nu, s.square, s.lengths)


SQUARED_EXPONENTIAL = family("se")
