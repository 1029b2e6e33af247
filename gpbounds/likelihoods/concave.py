"""E p(f) for f ~ N(m, v) and a log-concave factor p: mode, support, quadrature.

All formulas are in δ = f − m, so that a small variance keeps its accuracy beside a large mean.  With δ₀ near the mode
of −δ²/(2v) + log p(m + δ) and t = δ − δ₀,

    log E p = log p(f₀) − δ₀²/(2v) + log ∫ exp(−t(t + 2δ₀)/(2v) + log p(f₀ + t) − log p(f₀)) dt/√(2πv),

whose integrand is near 1 at 0 and unimodal.  The derivatives are means under the tilted law q̃ ∝ N(m, v)·p: with
ℓ = log p, ∂_m log E p = E ℓ' and ∂_v log E p = ½E[ℓ'² + ℓ''] (Stein); where v is large against the width of p
the equal expressions E[δ]/v and ½(E[δ²]/v² − 1/v) cancel less.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.likelihoods import cuda
from gpbounds.likelihoods.cuda import FAR, POINT_MASS, SOURCES, FactorSource
from gpbounds.likelihoods.special import (
    HALF_LOG_TWO_PI,
    HAZARD,
    UNDERFLOW,
    bend,
    log_cdf,
    log_factorial_excess,
    log_rate_solution,
    log_softplus,
    mills,
    scipy_special,
    sigmoid,
    softplus,
    softplus_parts,
)
from gpbounds.likelihoods.trapezoid import DROP, integrate, outer_edge
from gpbounds.numerics.search import Part, newton


class LogConcaveFactor(ABC):
    """A log-concave factor p(f) = e^ℓ(f); y is a parameter, an array as long as f."""

    step: float
    """Spacing of nodes that resolves where ℓ bends."""

    @property
    def source(self) -> FactorSource | None:
        """The factor as CUDA source, if it has one."""
        return SOURCES.get(type(self).__name__)

    @abstractmethod
    def value(self, f: Array, y: Array) -> Array:
        """ℓ(f)."""

    @abstractmethod
    def slopes(self, f: Array, y: Array) -> tuple[Array, Array]:
        """ℓ'(f), which decreases, and ℓ''(f)."""

    def ratios(self, f: Array, y: Array) -> tuple[Array, Array]:
        """p'/p = ℓ' and p''/p = ℓ'² + ℓ''."""
        first, curve = self.slopes(f, y)
        return first, first * first + curve

    def rise(self, t: Array, f0: Array, y: Array, base: tuple[Array, ...]) -> Array:
        """ℓ(f₀ + t) − ℓ(f₀)."""
        return self.value(f0 + t, y) - base[0]

    def base(self, f0: Array, y: Array) -> tuple[Array, ...]:
        """The numbers at f₀ that `rise` uses; the first is ℓ(f₀)."""
        return (self.value(f0, y),)

    def peak(self, y: Array) -> Array:
        """Where ℓ is largest, ±∞ where it is monotone."""
        return namespace(y).full(y.shape, float("inf"))

    def bend(self, y: Array) -> Array:
        """Where ℓ bends most."""
        return 0.0 * y

    def nearer(self, t: Array, base: tuple[Array, ...], gap: Array) -> Array:
        """A bound on the upper end of the product's support that is at most t."""
        return t

    def mode(self, m: Array, v: Array, y: Array) -> Array:
        """δ₀ with δ₀ ≈ v ℓ'(m + δ₀), to within a fraction of the width of the product."""
        return _find_mode(self, m, v, y)


def _find_mode(factor: LogConcaveFactor, m: Array, v: Array, y: Array) -> Array:
    """The mode of −δ²/(2v) + ℓ(m + δ), to a tenth of the width of the product, in a bracket."""
    xp = namespace(m)
    slope, _ = factor.slopes(m, y)
    reach, peak = v * slope, factor.peak(y) - m
    up = slope > 0.0
    low = xp.where(up, 0.0, xp.maximum(reach, xp.where(xp.isfinite(peak), xp.minimum(peak, 0.0), reach)))
    high = xp.where(up, xp.minimum(reach, xp.where(xp.isfinite(peak), xp.maximum(peak, 0.0), reach)), 0.0)

    def slopes(d: Array, part: Part) -> tuple[Array, Array]:
        first, second = factor.slopes(m[part] + d, y[part])
        return first - d / v[part], 1.0 / v[part] - second

    return newton(slopes, low, high, xp.zeros(m.shape), close=0.04, rounds=200, sought="the mode of N(m, v)·p")


def log_mean(factor: LogConcaveFactor, y: Array, m: Array, v: Array, gradient: bool = False) -> tuple[Array, ...]:
    """log E p, and with ``gradient`` its derivatives in m and in v; flat arrays of one length.

    Raises
    ------
    NotConverged
        see `gpbounds.likelihoods.trapezoid.integrate`; on a GPU such entries are NaN.
    """
    xp = namespace(m)
    if xp is not np and (source := factor.source) is not None:
        results = cuda.log_mean(source, factor.step, y, m, v)
        return results if gradient else results[:1]
    flat = v < POINT_MASS
    v = xp.where(flat, 1.0, v)
    d0 = factor.mode(m, v, y)
    f0 = m + d0
    base = factor.base(f0, y)
    slope, curve = factor.slopes(f0, y)
    gap = slope - d0 / v

    def falls(sign: int, t: Array, y: Array, v: Array, d0: Array, f0: Array, *base: Array) -> tuple[Array, Array]:
        here = sign * t
        drop = here * (here + 2.0 * d0) / (2.0 * v) - factor.rise(here, f0, y, base)
        return drop, sign * ((here + d0) / v - factor.slopes(f0 + here, y)[0])

    ends = []
    for sign in (-1, 1):
        push = sign * gap * v
        edge = push + xp.sqrt(push * push + 2.0 * v * DROP)
        edge = factor.nearer(edge, base, gap) if sign > 0 else edge
        ends.append(outer_edge(edge, partial(falls, sign), (y, v, d0, f0, *base)))
    width = xp.minimum(factor.step, xp.maximum(ends[0], ends[1]))  # a narrow product needs no finer step
    sharp = -curve * v > 1.0

    def columns(t: Array, y: Array, v: Array, d0: Array, f0: Array, sharp: Array, *base: Array) -> list[Array]:
        weight = xp.exp(factor.rise(t, f0, y, base) - t * (t + 2.0 * d0) / (2.0 * v))
        if not gradient:
            return [weight]
        f, pull = f0 + t, (d0 + t) / v
        first, second = factor.ratios(f, y)
        by_mean = xp.where(sharp, pull, first)
        by_variance = 0.5 * xp.where(sharp, pull * pull - 1.0 / v, second)
        return [weight, weight * by_mean, weight * by_variance]

    sums = integrate(
        columns,
        (y, v, d0, f0, sharp, *base),
        -ends[0],
        ends[1],
        factor.bend(y) - f0,
        width,
        3 if gradient else 1,
        (1.0 / xp.sqrt(v), 1.0 / v) if gradient else (),
    )
    parts = [base[0] - d0 * d0 / (2.0 * v) + xp.log(sums[0]) - HALF_LOG_TWO_PI - 0.5 * xp.log(v)]
    parts += [part / sums[0] for part in sums[1:]]
    if bool(flat.any()):
        first, second = factor.ratios(m, y)
        limits = (factor.value(m, y), first, 0.5 * second)
        parts = [xp.where(flat, limit, part) for limit, part in zip(limits, parts, strict=False)]
    return tuple(parts)


# The log-concave factors whose means have no closed form.


class Sigmoid(LogConcaveFactor):
    """1/(1 + e^−f); poles at ±iπ."""

    step = 0.6

    def value(self, f: Array, y: Array) -> Array:
        return -softplus(-f)

    def slopes(self, f: Array, y: Array) -> tuple[Array, Array]:
        down = sigmoid(-f)
        return down, -down * sigmoid(f)


class NormalCdf(LogConcaveFactor):
    """Φ(f); its zeros are at least 2.8 away from the real line."""

    step = 0.5

    def value(self, f: Array, y: Array) -> Array:
        return log_cdf(f)

    def slopes(self, f: Array, y: Array) -> tuple[Array, Array]:
        first, second, _ = mills(f)
        return first, second


class Powered(LogConcaveFactor):
    """p^a for another factor p and a in (0, 1]: where p bends within a width, p^a does not bend more.

    >>> import numpy as np
    >>> factor = Powered(Sigmoid(), 0.5)
    >>> np.exp(factor.value(np.zeros(1), np.ones(1))).round(6)
    array([0.707107])
    """

    def __init__(self, factor: LogConcaveFactor, power: float) -> None:
        self.factor, self.power, self.step = factor, power, factor.step

    @property
    def source(self) -> FactorSource | None:
        plain = self.factor.source
        return None if plain is None else plain.powered(self.power)

    def value(self, f: Array, y: Array) -> Array:
        return self.power * self.factor.value(f, y)

    def slopes(self, f: Array, y: Array) -> tuple[Array, Array]:
        first, second = self.factor.slopes(f, y)
        return self.power * first, self.power * second

    def base(self, f0: Array, y: Array) -> tuple[Array, ...]:
        value, *rest = self.factor.base(f0, y)
        return (self.power * value, value, *rest)

    def rise(self, t: Array, f0: Array, y: Array, base: tuple[Array, ...]) -> Array:
        return self.power * self.factor.rise(t, f0, y, base[1:])

    def peak(self, y: Array) -> Array:
        return self.factor.peak(y)

    def bend(self, y: Array) -> Array:
        return self.factor.bend(y)

    def nearer(self, t: Array, base: tuple[Array, ...], gap: Array) -> Array:
        """The fall of aℓ is that of ℓ for numbers at f₀ that are a times as large."""
        return self.factor.nearer(t, tuple(self.power * part for part in base[1:]), gap)

    def mode(self, m: Array, v: Array, y: Array) -> Array:
        """The peak of −δ²/(2v) + aℓ(m + δ) is that of −δ²/(2av) + ℓ(m + δ), which is no wider."""
        return self.factor.mode(m, self.power * v, y)


class Softplus(LogConcaveFactor):
    """log(1 + e^f); singular at ±iπ."""

    step, highest = 0.6, math.inf

    def value(self, f: Array, y: Array) -> Array:
        return log_softplus(f, softplus(f))

    def slopes(self, f: Array, y: Array) -> tuple[Array, Array]:
        _, _, _, ratio, curve = softplus_parts(f)
        return ratio, curve

    def ratios(self, f: Array, y: Array) -> tuple[Array, Array]:
        _, _, down, ratio, _ = softplus_parts(f)
        return ratio, ratio * down

    def with_derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        """A, A' and A''."""
        up = sigmoid(f)
        return softplus(f), up, up * sigmoid(-f)


class LogCdf(LogConcaveFactor):
    """A(f) = −log Φ(f); its zeros and poles are at least 2.8 away from the real line.

    With x = |f|, the tail T = Φ(−x) and the hazard H = ϕ(x)/T: A = −log T for f < 0, −log(1 − T) above.
    Up to the mean ``highest``, `gpbounds.likelihoods.trapezoid` has nodes where A·N(m, 1) is not negligible.
    """

    step, highest = 0.5, 4.0

    def value(self, f: Array, y: Array) -> Array:
        xp, (size, log_tail, tail, _) = namespace(f), self._parts(f)
        return xp.where(f > FAR, log_tail + 0.5 * tail, xp.log(size))

    def slopes(self, f: Array, y: Array) -> tuple[Array, Array]:
        first, second = self.ratios(f, y)
        return first, second - first * first

    def ratios(self, f: Array, y: Array) -> tuple[Array, Array]:
        """A'/A = −M/A and A''/A, where M = ϕ/Φ and A'' = M(f + M)."""
        xp, (size, _, tail, hazard) = namespace(f), self._parts(f)
        steep, bend = self._steep(f, tail, hazard)
        first = -xp.where(f > FAR, hazard * (1.0 + 0.5 * tail), steep / size)
        return first, -first * bend

    def with_derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        """A, A' and A''."""
        size, _, tail, hazard = self._parts(f)
        steep, bend = self._steep(f, tail, hazard)
        return size, -steep, steep * bend

    def _steep(self, f: Array, tail: Array, hazard: Array) -> tuple[Array, Array]:
        """M, and f + M without cancellation."""
        xp = namespace(f)
        x = xp.abs(f)
        excess, far = hazard - x, x > 10.0
        if bool(far.any()):
            tall = xp.maximum(x, 10.0)
            fraction = 0.0 * x
            for k in range(8, 0, -1):
                fraction = k / (tall + fraction)
            excess = xp.where(far, fraction, excess)  # H − x = 1/(x + 2/(x + …))
        steep = xp.where(f > 0.0, hazard * tail / (1.0 - tail), hazard)
        return steep, xp.where(f > 0.0, f + steep, excess)

    def _parts(self, f: Array) -> tuple[Array, ...]:
        """A, log T, T, H."""
        xp = namespace(f)
        x = xp.abs(f)
        scaled = scipy_special(f).erfcx(x / math.sqrt(2.0))
        log_tail = xp.log(0.5 * scaled) - 0.5 * x * x
        tail = xp.exp(log_tail)
        return xp.where(f > 0.0, -xp.log1p(-tail), -log_tail), log_tail, tail, HAZARD / scaled


class ExponentialRate(LogConcaveFactor):
    """g^y e^−g/y!, g = e^f.  With λ = e^f₀: ℓ(f₀ + t) − ℓ(f₀) = (y − λ)t − λ(e^t − 1 − t)."""

    step = 0.28

    def value(self, f: Array, y: Array) -> Array:
        """−y(e^u − 1 − u) − [log y! − y log y + y], u = f − log y; −e^f for y = 0."""
        xp = namespace(f)
        u = f - xp.log(xp.maximum(y, 1.0))
        return xp.where(y > 0.0, -y * bend(u), -xp.exp(f)) - log_factorial_excess(y)

    def slopes(self, f: Array, y: Array) -> tuple[Array, Array]:
        xp = namespace(f)
        rate = xp.exp(f)
        u = f - xp.log(xp.maximum(y, 1.0))
        return xp.where(y > 0.0, -y * xp.expm1(u), -rate), -rate

    def base(self, f0: Array, y: Array) -> tuple[Array, ...]:
        return self.value(f0, y), namespace(f0).exp(f0), self.slopes(f0, y)[0]

    def rise(self, t: Array, f0: Array, y: Array, base: tuple[Array, ...]) -> Array:
        large = bool((base[1] > 1e6).any())  # below, e^t − 1 − t computed directly is accurate to eps·√λ
        return base[2] * t - base[1] * (bend(t) if large else namespace(t).expm1(t) - t)

    def bend(self, y: Array) -> Array:
        return namespace(y).log1p(y) + 1.0

    def nearer(self, t: Array, base: tuple[Array, ...], gap: Array) -> Array:
        """λ(e^t − 1 − t) ≤ D + gap⁺t."""
        xp = namespace(t)
        for _ in range(3):
            t = xp.minimum(t, xp.log1p(t + (DROP + xp.maximum(gap, 0.0) * t) / base[1]))
        return t

    def mode(self, m: Array, v: Array, y: Array) -> Array:
        """δ = v(y − e^(m + δ)) by Lambert's function: w = v e^(m + δ) solves w + log w = m + vy + log v (D-14)."""
        xp = namespace(m)
        log_w = log_rate_solution(m + v * y + xp.log(v))
        delta = xp.where(v * y < 1.0, v * y - xp.exp(log_w), log_w - xp.log(v) - m)
        slope, curve = self.slopes(m + delta, y)
        return delta + (slope - delta / v) / (1.0 / v - curve)


class SoftplusRate(LogConcaveFactor):
    """g^y e^−g/y!, g = log(1 + e^f)."""

    step = 0.5

    def value(self, f: Array, y: Array) -> Array:
        """−y(e^u − 1 − u) − [log y! − y log y + y], u = log g − log y; −g for y = 0."""
        xp = namespace(f)
        g = softplus(f)
        u = log_softplus(f, g) - xp.log(xp.maximum(y, 1.0))
        return xp.where(y > 0.0, -y * bend(u), -g) - log_factorial_excess(y)

    def slopes(self, f: Array, y: Array) -> tuple[Array, Array]:
        _, up, down, ratio, curve = softplus_parts(f)
        return y * ratio - up, y * curve - up * down

    def base(self, f0: Array, y: Array) -> tuple[Array, ...]:
        g = softplus(f0)
        return self.value(f0, y), g, log_softplus(f0, g)

    def rise(self, t: Array, f0: Array, y: Array, base: tuple[Array, ...]) -> Array:
        """y log(g/g₀) − (g − g₀), the logarithm from g/g₀ − 1 where g₀ > 2000."""
        xp = namespace(t)
        f = f0 + t
        g, g0 = softplus(f), base[1]
        change = g - g0
        ratio = xp.log(g / g0)
        low = f < UNDERFLOW
        if bool(low.any()):
            ratio = xp.where(low, f - base[2], ratio)
        far = g0 > 2000.0
        if bool(far.any()):
            far = far & (change > -0.5 * g0)
            ratio = xp.where(far, xp.log1p(xp.maximum(change / g0, -0.5)), ratio)
        return y * ratio - change

    def peak(self, y: Array) -> Array:
        xp = namespace(y)
        count = xp.maximum(y, 1.0)
        return xp.where(y > 0.0, count + xp.log(-xp.expm1(-count)), -float("inf"))
