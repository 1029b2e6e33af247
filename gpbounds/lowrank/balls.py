"""The bounds on random Fourier features with ``rigor="sharp"``: outer ends of balls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.enclosures import fourier as enclosures
from gpbounds.errors import NotConverged
from gpbounds.kernels import SquaredExponential
from gpbounds.lowrank import frequencies
from gpbounds.lowrank.approximation import kappa_inverse
from gpbounds.lowrank.leverage import LeverageDensity
from gpbounds.numerics.search import first_double, least
from gpbounds.rigor import at_bits, end_above, exact, outer, rounded, sign

PROOF = 512
"""Bits with which the heights of the density are compared with their bounds."""


def enclosed_density(
    kernel: SquaredExponential, width: ArrayLike | None, density: LeverageDensity
) -> enclosures.Density:
    """``density`` with the widths of the inputs themselves, in the units of x."""
    dim = density.dim
    widths = np.broadcast_to(np.asarray(width, dtype=np.float64), (dim,))
    return enclosures.Density(
        widths=tuple(widths.tolist()),
        lengthscales=tuple(kernel.lengthscales(dim).tolist()),
        radii=tuple(density.radii.tolist()),
        log_heights=tuple(density.log_heights.tolist()),
        pairs=density.pairs,
    )


@dataclass(frozen=True)
class EnclosedFrequencies:
    """s̃ and s_λ rounded up as exact numbers, and their nearest doubles, which choose Δ.

    Attributes
    ----------
    mass, dimension : balls of radius 0
        Upper ends.
    total, effective : float
        About the same in doubles.
    """

    mass: Any
    dimension: Any
    total: float
    effective: float

    @classmethod
    def checked(
        cls,
        N: int,
        variance: float,
        noise: float,
        effective_dimension: float | None,
        density: enclosures.Density | None,
        total: float,
        effective: float,
    ) -> EnclosedFrequencies:
        """For n = N·variance/noise; a density must be proved to be at least the leverage."""

        def n() -> Any:
            return exact(N) * exact(variance) / exact(noise)

        with at_bits(PROOF):  # heights exceed the bounds by 1e-10 of themselves
            if density is not None and not density.proves(n()):
                raise NotConverged(
                    "expected a density of frequencies above the ridge leverage, got one not proved to be"
                )
        mass = end_above(lambda: n() if density is None else density.mass(n()))

        def dimension() -> Any:
            known = mass.min(exact(N) / (1 + exact(noise) / exact(variance)))
            return known if effective_dimension is None else known.min(exact(float(effective_dimension)))

        return cls(mass, end_above(dimension), total, effective)

    @property
    def rounded_mass(self) -> float:
        """s̃ rounded up."""
        return rounded(lambda: self.mass, upwards=True)

    @property
    def rounded_dimension(self) -> float:
        """s_λ rounded up."""
        return rounded(lambda: self.dimension, upwards=True)

    def bound(self, m: Any, delta: float) -> Float:
        """N-rff for each number of frequencies, at the Δ that doubles choose, as any Δ gives a bound."""
        return np.asarray(outer(lambda number: self._ball(number, delta), np.asarray(m, dtype=np.float64)))

    def _ball(self, m: float, delta: float) -> Any:
        gap = frequencies.best_gap(m, self.total, self.effective, delta)
        return enclosures.weighted_kl(exact(m), self.mass, self.dimension, exact(delta), exact(gap))

    def number(self, rule: str, delta: float, level: float) -> float:
        """The least whole number of frequencies by a rule, rounded up; ``level`` as in `_Setting.number`."""
        if rule == "sharpest":
            m = least(lambda m: float(self.bound(float(m), delta)) <= level, 1, share=2.0**-52)
            assert m is not None  # the bound falls to 0
            return float(m)
        numbers = (self.mass, self.dimension, exact(delta))
        if rule == "frobenius":
            return rounded(lambda: enclosures.frobenius(*numbers, exact(level)).ceil(), upwards=True)

        def small_enough(gap: float) -> bool:
            return gap <= 0.5 and sign(lambda: enclosures.kappa(exact(gap)) - exact(level)) <= 0

        gap = first_double(small_enough, min(float(kappa_inverse(level)), 0.5), -math.inf)
        return rounded(lambda: enclosures.spectral(*numbers, exact(gap)).ceil(), upwards=True)
