"""Smooth bounded losses: the squared loss, clipped at 1, ℓ₂, and the exponential one, ℓ_exp."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.losses import cuda
from gpbounds.losses.base import Loss, beyond
from gpbounds.losses.normal import FAR, absolute_moment, both_sides, cdf, density, nodes, pieces, ratio


@dataclass(frozen=True)
class Squared(Loss):
    """The clipped squared loss ℓ₂(y, f) = min((y − f)²/ε², 1).

    E ℓ₂ = Φ(a) + Φ(−b) + (1/ε²) ∫_a^b s²(z−δ)²ϕ(z) dz
         = 1 + (1 − (d²+s²)/ε²)(Φ(a)−Φ(b)) + (s/ε²)[(d−ε)ϕ(b) − (d+ε)ϕ(a)],

    d = y − m, δ = d/s, a = (d−ε)/s, b = (d+ε)/s, f ~ N(m, v), s = √v.

    Claims P-31, P-36 (Reeb et al., PAC-GP, Eqs. 19, 27, where one sign is wrong and 1/ε stands for 1/ε²).  Computed by
    the first line, a sum of positive terms: the integral in closed form for s ≤ ε, by quadrature for s > ε.  The
    relative error is below 16 eps, also where E ℓ₂ ≈ (d² + s²)/ε² is tiny.

    Parameters
    ----------
    epsilon : float
        ε > 0, in the units of y.

    Raises
    ------
    ValueError
        unless ε is one positive finite number.

    >>> float(Squared(1.0).expectation(0.5, 0.0, 1.0).round(8))
    0.56330703
    >>> float(Squared(1.0).expectation(0.0, 3e-9, 1.6e-17)) / 2.5e-17
    1.0
    """

    epsilon: float
    name: ClassVar[str] = "squared"

    def __post_init__(self) -> None:
        self._one_positive("epsilon")

    def _source(self) -> cuda.LossSource:
        return cuda.LossSource(cuda.squared(), self.epsilon)

    def _steepness(self, y: Array) -> float:
        return 2.0 / self.epsilon

    def _value(self, y: Array, f: Array) -> Array:
        size, near, _ = beyond(y, f, self.epsilon)
        return namespace(y).where(near > 0.0, 1.0, (size / self.epsilon) ** 2)

    def _expectation(self, y: Array, m: Array, s: Array) -> Array:
        xp, epsilon = namespace(y), self.epsilon
        size, near, _ = beyond(y, m, epsilon)
        a, b, width = ratio(near, s), ratio(size + epsilon, s), s / epsilon
        tail, above = cdf(-xp.abs(a)), cdf(-b)
        total = xp.where(a > 0.0, 1.0 - tail, tail)
        total += above

        def narrow(a: Array, b: Array, tail: Array, above: Array, size: Array, width: Array) -> tuple[Array]:
            share = xp.minimum(size / epsilon, FAR)  # s ≤ ε: where it is larger, Φ(b) − Φ(a) is 0
            inside = share * share
            inside += width * width
            inside *= mass(a, tail, above)
            inside -= width * ((share + 1.0) * density(a) - (share - 1.0) * density(b))
            return (inside,)

        def wide(size: Array, width: Array) -> tuple[Array]:
            return (absolute_moment(size / epsilon / width, 1.0 / width, 2),)

        total += pieces(width > 1.0, wide, (size, width), narrow, (a, b, tail, above, size, width))[0]
        if bool((s == 0.0).any()):
            total = xp.where(s == 0.0, xp.where(near > 0.0, 1.0, (size / epsilon) ** 2), total)
        return total

    def _gradient(self, y: Array, m: Array, s: Array) -> tuple[Array, Array]:
        """(2s/ε²) ∫_a^b (z−δ)ϕ dz and (1/ε²) [Φ(b) − Φ(a) − (ε/s)(ϕ(a) + ϕ(b))]."""
        xp, epsilon = namespace(y), self.epsilon
        size, near, sign = beyond(y, m, epsilon)

        def narrow(a: Array, b: Array, size: Array, width: Array) -> tuple[Array, Array]:
            at_a, within = density(a), mass(a, cdf(-xp.abs(a)), cdf(-b))
            drop = xp.where(at_a == 0.0, 0.0, -at_a * xp.expm1(-2.0 * size / epsilon / width / width))  # ϕ(a) − ϕ(b)
            odd = width * drop - xp.minimum(size / epsilon, FAR) * within
            edge = at_a + density(b)
            return odd, within - xp.where(edge == 0.0, 0.0, edge / width)

        def wide(size: Array, width: Array) -> tuple[Array, Array]:
            delta, e = xp.minimum(size / epsilon / width, 2.0 * FAR), 1.0 / width
            odd, even = xp.zeros_like(e), xp.zeros_like(e)
            for x, w in nodes(2):
                low, high, at_low, at_high = both_sides(delta, e, x)
                odd += (w / x) * at_low * xp.expm1(-2.0 * x * e * delta)
                even += (w / x) * (high * at_high - low * at_low)
            return e * odd, e * e * even

        a, b, width = ratio(near, s), ratio(size + epsilon, s), s / epsilon
        odd, even = pieces(width > 1.0, wide, (size, width), narrow, (a, b, size, width))
        return sign * (2.0 / epsilon) * odd, even / epsilon / epsilon


def mass(a: Array, tail: Array, above: Array) -> Array:
    """Φ(b) − Φ(a) from Φ(−|a|) and Φ(−b), b ≥ |a|."""
    return namespace(a).where(a > 0.0, tail, 1.0 - tail) - above


# The smooth bounded loss ℓ_exp.

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

    def _source(self) -> cuda.LossSource:
        return cuda.LossSource(cuda.EXPONENTIAL, self.epsilon)

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
