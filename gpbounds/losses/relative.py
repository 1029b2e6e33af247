"""The relative deviation, clipped at 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpbounds.arrays import Array, namespace
from gpbounds.losses import cuda
from gpbounds.losses.base import Loss, beyond
from gpbounds.losses.normal import FAR, absolute_moment, both_sides, cdf, density, nodes, pieces, ratio


@dataclass(frozen=True)
class Relative(Loss):
    """The relative loss ℓ(y, f) = min(|f − y|/c, 1), c = ε|y|, for targets that are not 0.

    E ℓ = Φ(a) + Φ(−b) + {d[2Φ(d/s) − Φ(a) − Φ(b)] + s[2ϕ(d/s) − ϕ(a) − ϕ(b)]}/c,
    ∂E/∂m = −[2Φ(d/s) − Φ(a) − Φ(b)]/c,    ∂E/∂v = [2ϕ(d/s) − ϕ(a) − ϕ(b)]/(2cs),

    d = y − m, a = (d−c)/s, b = (d+c)/s, f ~ N(m, v), s = √v.

    Claims P-34, P-36 (Reeb et al., PAC-GP, App. C, where max stands for min).  The derivatives are E ℓ' and ½E ℓ'',
    ℓ'' being 2/c at y and −1/c at y ± c.  As in `Squared` the integral over |f − y| < c is a sum of positive terms, by
    quadrature for s > c; the relative error is below 16 eps.

    Parameters
    ----------
    epsilon : float
        ε > 0, the relative deviation from which on the loss is 1 (ε = 1 in the paper).

    Raises
    ------
    ValueError
        unless ε is one positive finite number; for a target 0, from which no relative deviation exists.

    >>> Relative().value([2.0, -2.0], 1.5).tolist()
    [0.25, 1.0]
    >>> float(Relative().expectation(1.0, 1.0, 1e-8)) / (1e-4 * (2.0 / 3.141592653589793) ** 0.5)  # E|f − y| = s√(2/π)
    1.0
    """

    epsilon: float = 1.0
    name: ClassVar[str] = "relative"

    def __post_init__(self) -> None:
        self._one_positive("epsilon")

    def _objection(self, y: Array) -> str:
        if not bool((self.epsilon * namespace(y).abs(y) == 0.0).any()):
            return ""
        return "y: expected targets that are not 0, got a target that is 0: no relative deviation from it exists"

    def _source(self) -> cuda.Source:
        return cuda.Source(cuda.relative(), self.epsilon)

    def _steepness(self, y: Array) -> Array:
        return 1.0 / (self.epsilon * namespace(y).abs(y))

    def _value(self, y: Array, f: Array) -> Array:
        c = self.epsilon * namespace(y).abs(y)
        size, near, _ = beyond(y, f, c)
        return namespace(y).where(near > 0.0, 1.0, size / c)

    def _expectation(self, y: Array, m: Array, s: Array) -> Array:
        xp = namespace(y)
        size, near, a, b, c, _ = self._scaled(y, m, s)
        tail, above = cdf(-xp.abs(a)), cdf(-b)
        total = xp.where(a > 0.0, 1.0 - tail, tail)
        total += above

        def narrow(a: Array, b: Array, tail: Array, above: Array, size: Array, c: Array, s: Array) -> tuple[Array]:
            delta = ratio(size, s)
            inside = xp.minimum(size / c, FAR) * lean(a, tail, above, cdf(-delta))
            inside += (s / c) * (2.0 * density(delta) - density(a) - density(b))
            return (inside,)

        def wide(size: Array, c: Array, s: Array) -> tuple[Array]:
            return (absolute_moment(size / s, c / s, 1),)

        total += pieces(s > c, wide, (size, c, s), narrow, (a, b, tail, above, size, c, s))[0]
        if bool((s == 0.0).any()):
            total = xp.where(s == 0.0, xp.where(near > 0.0, 1.0, size / c), total)
        return total

    def _gradient(self, y: Array, m: Array, s: Array) -> tuple[Array, Array]:
        xp = namespace(y)
        size, _, a, b, c, sign = self._scaled(y, m, s)

        def narrow(a: Array, b: Array, size: Array, c: Array, s: Array) -> tuple[Array, Array]:
            delta = ratio(size, s)
            first = lean(a, cdf(-xp.abs(a)), cdf(-b), cdf(-delta))
            return first, 2.0 * density(delta) - density(a) - density(b)

        def wide(size: Array, c: Array, s: Array) -> tuple[Array, Array]:
            delta, e = xp.minimum(size / s, 2.0 * FAR), c / s
            first, second = xp.zeros_like(e), xp.zeros_like(e)
            for power, sign_of_power in ((0, 1.0), (1, -1.0)):  # (1 − x) times an even function
                for x, w in nodes(power):
                    low, high, at_low, at_high = both_sides(delta, e, x)
                    second += sign_of_power * w * ((1.0 - low * low) * at_low + (1.0 - high * high) * at_high)
                    if power:
                        first -= (w / x) * at_low * xp.expm1(-2.0 * x * e * delta)
            return e * first, e * e * second

        first, second = pieces(s > c, wide, (size, c, s), narrow, (a, b, size, c, s))
        return -sign * first / c, xp.where(second == 0.0, 0.0, 0.5 * second / s / c)

    def _scaled(self, y: Array, m: Array, s: Array) -> tuple[Array, ...]:
        """|d|, |d| − c, a, b, c and the sign of d, for |d| in place of d."""
        c = self.epsilon * namespace(y).abs(y)
        size, near, sign = beyond(y, m, c)
        return size, near, ratio(near, s), ratio(size + c, s), c, sign


def lean(a: Array, tail: Array, above: Array, middle: Array) -> Array:
    """2Φ(δ) − Φ(a) − Φ(b) from Φ(−|a|), Φ(−b) and Φ(−δ)."""
    return namespace(a).where(a > 0.0, tail, 1.0 - tail) + above - 2.0 * middle
