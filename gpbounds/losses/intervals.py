"""Losses that are 0 in an interval about the target and 1 outside: the zero-one band ℓ₁ and the general ℓ_±."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from gpbounds.arrays import Array, broadcastable, namespace, over_blocks
from gpbounds.errors import shown
from gpbounds.losses import cuda
from gpbounds.losses.base import ROUNDING, Loss, beyond, deviation, spread
from gpbounds.losses.normal import (
    FAR,
    absolute_moment,
    both_sides,
    cdf,
    density,
    moment_density,
    nodes,
    pieces,
    ratio,
    sum_and_rest,
)
from gpbounds.validation import finite, scalar


class Outside(Loss):
    """1{f ∉ [y + low, y + high]}: E = Φ(a) + Φ(−b), a = (y + low − m)/s, b = (y + high − m)/s  (P-33)."""

    zero_one: ClassVar[bool] = True

    def _offsets(self, y: Array) -> tuple[Any, Any]:
        raise TypeError(f"{type(self).__name__} has no interval of its own: use Band or Interval")

    def _edges(self, y: Array, m: Array) -> tuple[Array, Array]:
        """y + low − m and y + high − m, each with a small relative error despite cancellation."""
        high, low = deviation(y, m)
        edges = []
        for offset in self._offsets(y):
            near, rest = sum_and_rest(high, offset)
            edges.append(near + (rest + low))
        return edges[0], edges[1]

    def _value(self, y: Array, f: Array) -> Array:
        below, above = self._edges(y, f)
        return ((below > 0.0) | (above < 0.0)) * 1.0

    def _expectation(self, y: Array, m: Array, s: Array) -> Array:
        return outside(*self._edges(y, m), s)

    def _gradient(self, y: Array, m: Array, s: Array) -> tuple[Array, Array]:
        return _outside_gradient(*self._edges(y, m), s)

    def _allowance(self, y: Array, m: Array, s: Array, mean_error: Array, variance_error: Array) -> Array:
        """Φ(a) and Φ(−b) are monotone in m and in s, so that the corners of a box of (m, s) bound them."""
        xp = namespace(y)
        below, above = self._edges(y, m)
        least, most = spread(s, variance_error)

        def extreme(x: Array, up: bool) -> Array:
            moved = x + mean_error if up else x - mean_error
            return cdf(ratio(moved, xp.where((moved > 0.0) == up, least, most)))

        now = outside(below, above, s)
        largest = extreme(below, True) + extreme(-above, True)
        smallest = extreme(below, False) + extreme(-above, False)
        edges = xp.maximum(largest - now, now - smallest) + ROUNDING
        edges = xp.where(least > 0.0, edges, 1.0 + ROUNDING)  # a jump under a point mass: no bound below 1
        return xp.minimum(edges, super()._allowance(y, m, s, mean_error, variance_error))


@dataclass(frozen=True)
class Band(Outside):
    """The zero-one loss ℓ₁(y, f) = 1{|y − f| > ε}: 1 where the prediction misses the target by more than ε.

    E ℓ₁ = Φ((d−ε)/s) + Φ(−(d+ε)/s), d = y − m, f ~ N(m, v), s = √v.

    Claims P-30, P-35, P-36 (Reeb et al., PAC-GP, Eqs. 18, 26; the gradient in Eq. 31 lacks 1/√(2π)).  On the edge,
    |y − f| = ε, the loss is 0.  A point mass (v = 0) on the edge has expectation 0, while the limit s → 0 is ½.
    Relative error below 8 eps·(1 + a²), a = (|d| − ε)/s; y − m ± ε is computed without cancellation.

    Parameters
    ----------
    epsilon : float
        ε > 0, in the units of y.

    Raises
    ------
    ValueError
        unless ε is one positive finite number.

    >>> loss = Band(0.5)
    >>> loss.value(1.0, [0.4, 0.5, 1.2]).tolist()
    [1.0, 0.0, 0.0]
    >>> float(loss.expectation(1.0, 1.0, 0.25).round(6))  # 2Φ(−1)
    0.317311
    """

    epsilon: float
    name: ClassVar[str] = "band"

    def __post_init__(self) -> None:
        self._one_positive("epsilon")

    def _offsets(self, y: Array) -> tuple[Any, Any]:
        return -self.epsilon, self.epsilon

    def _source(self) -> cuda.LossSource:
        return cuda.LossSource(cuda.outside(relative=False), -self.epsilon, self.epsilon)


@dataclass(frozen=True)
class Interval(Outside):
    """The loss ℓ_±(y, f) = 1{f ∉ [r₋, r₊]}, r₋ = y + low, r₊ = y + high; with ``relative`` y + low·|y|, y + high·|y|.

    E ℓ_± = Φ((r₋−m)/s) + Φ((m−r₊)/s), f ~ N(m, v), s = √v.

    Claim P-33 (Reeb et al., PAC-GP, Eqs. 21, 29).  ``Interval(-e, e)`` is ``Band(e)``, and with ``relative=True`` it
    is the relative band of App. C.  The edges belong to the interval.  The accuracy is that of `Band`; low·|y| and
    high·|y| are rounded to the nearest doubles.

    Parameters
    ----------
    low, high : float
        low ≤ high, in the units of y, or as fractions of |y|.
    relative : bool

    Raises
    ------
    ValueError
        unless low and high are finite numbers in this order.

    >>> float(Interval(-1.0, 2.0).expectation(0.0, 0.0, 1.0).round(6))  # Φ(−1) + Φ(−2)
    0.181405
    """

    low: float
    high: float
    relative: bool = False
    name: ClassVar[str] = "interval"

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, scalar(finite, name, getattr(self, name)))
        if not self.low <= self.high:
            raise ValueError(f"low, high: expected low <= high, got {shown(self.low)} and {self.high!r}")
        if not isinstance(self.relative, bool):
            raise ValueError(f"relative: expected True or False, got {shown(self.relative)}")

    def _offsets(self, y: Array) -> tuple[Any, Any]:
        if not self.relative:
            return self.low, self.high
        size = namespace(y).abs(y)
        return self.low * size, self.high * size

    def _source(self) -> cuda.LossSource:
        return cuda.LossSource(cuda.outside(self.relative), self.low, self.high)


def outside_probability(
    low: ArrayLike | Array, high: ArrayLike | Array, m: ArrayLike | Array, v: ArrayLike | Array
) -> Any:
    """P(f ∉ [low, high]) = Φ((low−m)/s) + Φ((m−high)/s), f ~ N(m, v), s = √v, for any edges low ≤ high.

    Claim P-33 (Reeb et al., PAC-GP, Eq. 29): r_±(y) may be any functions of y.  Arguments broadcast.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, NaN, infinity, or edges in the wrong order.

    >>> float(outside_probability(0.0, 0.0, 3.0, 1.0))
    1.0
    """
    xp, (below, above, means, variances) = broadcastable(low=low, high=high, m=m, v=v)
    if bool((below > above).any()):
        raise ValueError("low, high: expected low <= high everywhere")
    if bool((variances < 0.0).any()):
        raise ValueError(f"v: expected variances >= 0, got {float(variances.min())!r}")

    def probability(below: Array, above: Array, m: Array, v: Array) -> tuple[Array]:
        return (outside(below - m, above - m, xp.sqrt(v)),)

    return over_blocks(probability, xp, below, above, means, variances)[0]


def outside(below: Array, above: Array, s: Array) -> Array:
    """Φ(below/s) + Φ(−above/s), and at s = 0 whether 0 is outside [below, above]."""
    probability = cdf(ratio(below, s))
    probability += cdf(ratio(-above, s))
    if bool((s == 0.0).any()):
        xp = namespace(s)
        probability = xp.where(s == 0.0, ((below > 0.0) | (above < 0.0)) * 1.0, probability)
    return probability


def _outside_gradient(below: Array, above: Array, s: Array) -> tuple[Array, Array]:
    """−[ϕ(a) − ϕ(b)]/s and [bϕ(b) − aϕ(a)]/(2s²), by quadrature where b − a < 2 and the differences cancel."""
    xp = namespace(s)

    def narrow(a: Array, b: Array) -> tuple[Array, Array]:
        mid, half = xp.clip(0.5 * (a + b), -2.0 * FAR, 2.0 * FAR), 0.5 * (b - a)
        slope, bend = xp.zeros_like(mid), xp.zeros_like(mid)
        for x, w in nodes(0):
            low, high, at_low, at_high = both_sides(mid, half, x)
            slope -= w * (low * at_low + high * at_high)
            bend += w * ((1.0 - low * low) * at_low + (1.0 - high * high) * at_high)
        return half * slope, half * bend

    def broad(a: Array, b: Array) -> tuple[Array, Array]:
        return density(b) - density(a), moment_density(b) - moment_density(a)

    a, b = ratio(below, s), ratio(above, s)
    slope, bend = pieces(b - a < 2.0, narrow, (a, b), broad, (a, b))
    return xp.where(slope == 0.0, 0.0, slope / s), xp.where(bend == 0.0, 0.0, 0.5 * bend / s / s)


# The relative deviation, clipped at 1.


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

    def _source(self) -> cuda.LossSource:
        return cuda.LossSource(cuda.relative(), self.epsilon)

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
