"""Means over f ~ N(m, v) of functions of p(y|f) that may change as abruptly as p itself: Gauss–Legendre on panels.

Panels end where p has fallen by so many nats from its peak, and at fractions of the widths of N(m, v) and of
N(m, v)·p^k around their modes.  All formulas are in δ = f − m and ratio = log p(f) − log E p, so that a small
variance and a small density keep their accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged
from gpbounds.likelihoods import Likelihood, StudentT
from gpbounds.numerics.roots import halved

REACH = 10.0
"""The integral extends so many standard deviations beyond the modes."""
ORDER = 12
FALLS = np.concatenate(
    [
        10.0 ** np.array([-16.0, -12.0, -9.0, -7.0, -5.0, -4.0, -3.0, -2.0, -1.0]),
        [0.4],
        np.arange(1.0, 49.0),
        48.0 * 1.25 ** np.arange(1.0, 75.0),
    ]
)
"""Nats below the peak of p where panels end."""
EDGES = np.array([-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 38.0])
"""Ends of panels around p = 1/s, in nats: there e^(−sp) falls from 1 to 0."""
AGREEMENT = 1e-9
LARGEST = 690.0


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of a rule: f = m + δ, the logarithm of weight times density, and log p(f) − log E p."""

    delta: Float
    log_weight: Float
    ratio: Float

    @cached_property
    def Z(self) -> Float:
        """p/E p, at most e^690."""
        return np.exp(np.minimum(self.ratio, LARGEST))

    @cached_property
    def weight(self) -> Float:
        """Weights of a mean over N(m, v)."""
        return np.exp(self.log_weight)

    @cached_property
    def tilted(self) -> Float:
        """Weights of a mean over N(m, v)·p/E p."""
        return np.exp(self.log_weight + self.ratio)

    @cached_property
    def greater(self) -> Float:
        """Weights times max(Z, 1), which do not underflow where the product with Z is relevant."""
        return np.exp(self.log_weight + np.maximum(self.ratio, 0.0))


@dataclass(frozen=True)
class Panels:
    """One target y, one N(m, v) with v > 0, and the modes of N(m, v)·p^k for k = 1 .. powers."""

    likelihood: Likelihood
    y: float
    m: float
    v: float
    powers: int = 1
    _grid: tuple[Float, Float] = field(default=np.polynomial.legendre.leggauss(ORDER), repr=False, compare=False)

    @cached_property
    def std(self) -> float:
        return float(np.sqrt(self.v))

    def slope(self, delta: Float) -> Float:
        """ℓ'(m + δ)."""
        with np.errstate(all="ignore"):
            return np.asarray(self.likelihood.derivatives(self.y, self.m + delta)[0])

    @cached_property
    def taylor(self) -> tuple[float, float, float] | None:
        """ℓ', ℓ''/2 and ℓ'''/6 at m where v is so small that the series of ℓ(m + δ) − ℓ(m) is the more accurate form.

        The series must be accurate up to three standard deviations beyond the modes.
        """
        first, second, third = (float(d) for d in self.likelihood.derivatives(self.y, self.m))
        reach = 3.0 * self.std + float(np.abs(self.modes[: self.powers + 1]).max())
        with np.errstate(all="ignore"):
            ends = self.likelihood.derivatives(self.y, self.m + reach * np.array([-2.0, 2.0]))[2]
        left_out = 0.011 * float(np.ptp(ends)) * reach**3  # a bound on the fourth term
        rounding = 2e-16 * (abs(float(self.likelihood.log_density(self.y, self.m))) + abs(self.m * first))
        return (first, second / 2.0, third / 6.0) if left_out < rounding and self.std < 0.01 else None

    @cached_property
    def base(self) -> float:
        """The δ where `rise` is 0: 0, or the mode of N(m, v)·p, since ℓ(m) may be huge."""
        return 0.0 if self.taylor is not None else float(self.modes[1])

    def log_density(self, delta: ArrayLike) -> Float:
        """ℓ(m + δ)."""
        with np.errstate(all="ignore"):
            return np.asarray(self.likelihood.log_density(self.y, self.m + np.asarray(delta)))

    def rise(self, delta: Float) -> Float:
        """ℓ(m + δ) − ℓ(m + base)."""
        if self.taylor is not None:
            a, b, c = self.taylor
            return delta * (a + delta * (b + delta * c))
        return self.log_density(delta) - self.log_density(self.base)

    @cached_property
    def modes(self) -> Float:
        """0 and the modes of N(m, v)·p^k as δ; for Student's t also y − m, which lies beyond them."""
        modes = [0.0]
        for k in range(1, self.powers + 1):
            sign = float(np.sign(self.slope(np.zeros(1))[0]))

            def up(reach: float, k: int = k, sign: float = sign) -> bool:
                return k * self.slope(np.array([sign * reach]))[0] * sign > reach / self.v

            far = self.std
            while sign and up(far):
                far *= 2.0
            low, _ = halved(up, 0.0, far)
            modes.append(sign * float(low))
        if isinstance(self.likelihood, StudentT):
            modes.append(float(self.y) - self.m)
        return np.array(modes)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The interval of δ outside of which the integrand is negligible; e^f in ℓ may shift a mean by v/2."""
        reach = self.std * (REACH + min(0.5 * self.std, 1e3))
        return float(self.modes.min()) - reach, float(self.modes.max()) + reach

    @cached_property
    def peak(self) -> float:
        """The point between the ends at which p is largest."""
        low, high = halved(lambda delta: self.slope(np.array([delta]))[0] > 0.0, *self.ends)
        return float(0.5 * (low + high))

    @cached_property
    def top(self) -> float:
        """ℓ(peak) − ℓ(m + base)."""
        return float(self.rise(np.array([self.peak]))[0])

    def falls(self, levels: Float) -> tuple[Float, Float]:
        """The places left and right of the peak where ℓ is ``levels`` nats below it; the ends where no place is."""
        places = []
        for end in self.ends:
            inner, outer = np.full(levels.shape, self.peak), np.full(levels.shape, end)
            places.append(halved(lambda delta: ~(self.top - self.rise(delta) > levels), inner, outer, 44)[1])
        return places[0], places[1]

    @cached_property
    def fixed(self) -> Float:
        """Ends of panels that every mean needs."""
        steps = np.arange(-2.0 * REACH, 2.0 * REACH + 1.0) / 2.0
        cuts = [np.array([*self.ends, self.peak])]
        with np.errstate(all="ignore"):
            curves = np.asarray(self.likelihood.derivatives(self.y, self.m + self.modes)[1])
        for k, (mode, curve) in enumerate(zip(self.modes, curves, strict=True)):
            cuts.append(mode + steps * self.std)
            stiff = 1.0 / self.v - max(k, 1) * min(float(curve), 0.0)
            cuts.append(mode + steps / np.sqrt(stiff))
        cuts += self.falls(FALLS)
        return np.unique(np.clip(np.concatenate(cuts), *self.ends))

    def place(self, cuts: Float) -> tuple[Float, Float]:
        """δ and log(weight·density) on panels between ``cuts``, sorted along the last axis."""
        points, weights = self._grid
        half = 0.5 * np.diff(cuts)[..., None]
        delta = cuts[..., :-1, None] + half * (1.0 + points)
        with np.errstate(divide="ignore"):
            log_weight = np.log(half * weights) - 0.5 * delta**2 / self.v - 0.5 * np.log(2.0 * np.pi * self.v)
        shape = (*cuts.shape[:-1], -1)
        return delta.reshape(shape), log_weight.reshape(shape)

    @cached_property
    def nodes(self) -> Nodes:
        """The rule on the fixed panels.

        Raises
        ------
        NotConverged
            where its mass is not 1, or its mean of p not that of the likelihood.
        """
        delta, log_weight = self.place(self.fixed)
        rise = self.rise(delta)
        mass = float(np.exp(log_weight).sum())
        top = float((log_weight + rise).max())
        log_mean = top + float(np.log(np.exp(log_weight + rise - top).sum()))
        if abs(log_mean) < 0.5:
            log_mean = float(np.log1p((np.exp(log_weight) * np.expm1(np.minimum(rise, LARGEST))).sum() / mass))
        truth = float(self.likelihood.log_expected_density(self.y, self.m, self.v))
        off = abs(log_mean + float(self.log_density(self.base)) - truth)
        if not max(abs(mass - 1.0), off / (1.0 + 1e-6 * abs(truth))) <= AGREEMENT:
            raise NotConverged(
                f"expected a rule on {self.fixed.size - 1} panels to give mass 1 and log E p = {truth:.12g}, it gave "
                f"{mass:.12g} and is off by {off:.3g} (y = {self.y:g}, m = {self.m:g}, v = {self.v:g}): is the "
                "variance far beyond the width of the likelihood?"
            )
        return Nodes(delta, log_weight, rise - log_mean)

    @cached_property
    def log_mean(self) -> float:
        """log E p − ℓ(m + base), by the rule."""
        return float(self.rise(self.nodes.delta[:1])[0] - self.nodes.ratio[0])

    def nodes_about(self, u: Float) -> Nodes:
        """A rule for each u that also resolves e^(−e^u Z), Z = p/E p; arrays (u.size, nodes)."""
        level = self.top - self.log_mean + u[:, None] + EDGES  # nats below the peak where log Z = −u − edge
        cuts = np.concatenate([np.broadcast_to(self.fixed, (u.size, self.fixed.size)), *self.falls(level)], axis=1)
        delta, log_weight = self.place(np.sort(cuts, axis=1))
        return Nodes(delta, log_weight, self.rise(delta) - self.log_mean)


def means(weight: Float, values: Sequence[Float]) -> list[Float]:
    """Σ weight·value along the last axis."""
    return [(weight * value).sum(axis=-1) for value in values]
