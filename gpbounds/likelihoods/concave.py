"""E p(f) for f ~ N(m, v) and a log-concave factor p: mode, support, quadrature.

All formulas are in δ = f − m, so that a small variance keeps its accuracy beside a large mean.  With δ₀ near the mode
of −δ²/(2v) + log p(m + δ) and t = δ − δ₀,

    log E p = log p(f₀) − δ₀²/(2v) + log ∫ exp(−t(t + 2δ₀)/(2v) + log p(f₀ + t) − log p(f₀)) dt/√(2πv),

whose integrand is near 1 at 0 and unimodal.  The derivatives are means under the tilted law q̃ ∝ N(m, v)·p: with
ℓ = log p, ∂_m log E p = E ℓ' and ∂_v log E p = ½E[ℓ'² + ℓ''] (Stein); where v is large against the width of p
the equal expressions E[δ]/v and ½(E[δ²]/v² − 1/v) cancel less.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.likelihoods import cuda
from gpbounds.likelihoods.factor_sources import POINT_MASS, SOURCES, Source
from gpbounds.likelihoods.special import HALF_LOG_TWO_PI
from gpbounds.likelihoods.trapezoid import DROP, integrate, outer_edge
from gpbounds.numerics.roots import Part, newton


class Factor(ABC):
    """A log-concave factor p(f) = e^ℓ(f); y is a parameter, an array as long as f."""

    step: float
    """Spacing of nodes that resolves where ℓ bends."""

    @property
    def source(self) -> Source | None:
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
        return find_mode(self, m, v, y)


def find_mode(factor: Factor, m: Array, v: Array, y: Array) -> Array:
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


def log_mean(factor: Factor, y: Array, m: Array, v: Array, gradient: bool = False) -> tuple[Array, ...]:
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
