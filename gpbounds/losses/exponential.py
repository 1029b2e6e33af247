"""The smooth bounded loss ℓ_exp."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.losses import cuda
from gpbounds.losses.base import Loss

STEEPEST = math.sqrt(2.0 / math.e)
"""max |d/dt (1 − e^(−t²))|, at t = 1/√2."""


@dataclass(frozen=True)
class Exponential(Loss):
    """The smooth loss ℓ_exp(y, f) = 1 − exp(−(y − f)²/ε²), close to (y − f)²/ε² for small deviations.

    E ℓ_exp = 1 − (ε/√u) exp(−d²/u), u = ε² + 2s², d = y − m, f ~ N(m, v), s = √v.

    Claims P-32, P-36 (Reeb et al., PAC-GP, Eqs. 20, 28, where 2s is printed for 2s²).  Computed as
    −expm1(−½ log1p(2s²/ε²) − d²/u), with a relative error below 16 eps.

    Parameters
    ----------
    epsilon : float
        ε > 0, in the units of y.

    Raises
    ------
    ValueError
        unless ε is one positive finite number.

    >>> float(Exponential(0.5).expectation(1.0, 0.0, 0.01).round(8))
    0.97629772
    """

    epsilon: float
    name: ClassVar[str] = "exponential"

    def __post_init__(self) -> None:
        self._one_positive("epsilon")

    def _source(self) -> cuda.Source:
        return cuda.Source(cuda.EXPONENTIAL, self.epsilon)

    def _steepness(self, y: Array) -> float:
        return STEEPEST / self.epsilon

    def _parts(self, y: Array, m: Array, s: Array) -> tuple[Array, Array, Array]:
        """√u, d/√u and log(ε/√u)."""
        xp = namespace(y)
        root = xp.hypot(self.epsilon, np.sqrt(2.0) * s)
        width = s / self.epsilon
        return root, (y - m) / root, -0.5 * xp.log1p(2.0 * width * width)

    def _value(self, y: Array, f: Array) -> Array:
        return -namespace(y).expm1(-(((y - f) / self.epsilon) ** 2))

    def _expectation(self, y: Array, m: Array, s: Array) -> Array:
        _, z, shrunk = self._parts(y, m, s)
        return -namespace(y).expm1(shrunk - z * z)

    def _gradient(self, y: Array, m: Array, s: Array) -> tuple[Array, Array]:
        """−2dc/u and (c/u)(1 − 2d²/u), c = (ε/√u) exp(−d²/u)."""
        xp = namespace(y)
        root, z, shrunk = self._parts(y, m, s)
        z = xp.clip(z, -40.0, 40.0)  # exp(−z²) is 0 beyond
        rest = xp.exp(shrunk - z * z)
        return -2.0 * z * rest / root, rest * (1.0 - 2.0 * z * z) / root / root
