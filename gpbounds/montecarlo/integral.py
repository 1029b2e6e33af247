"""The one integral behind every mean of L-sample averages (D-21), without cancellation.

With Z = p(y|f)/E p(y|f), so that E Z = 1, s = t/L and D(s) = E[e^(−s(Z−1)) − 1 + s(Z−1)] ≥ 0,

    E[−log Z̄_L] = ∫ [(E e^(−sZ))^L − e^(−Ls)] ds/s = ∫ e^(−Ls) [(1 + D(s))^L − 1] ds/s,

an integrand ≥ 0, so that a bias of 1e-20 is as accurate as one of 1.  A ratio of sums is likewise
E[ΣA/ΣX] − E A/E X = ∫ L {E[(A/E X)(e^(−sZ) − e^(−s))] M^(L−1) + (E A/E X) e^(−s) (M^(L−1) − e^(−(L−1)s))} ds,
M = E e^(−sZ).  The outer rule is the trapezoidal one in z, s = e^u, u = z + e^(z−2), for all L at once; sums over
even and odd nodes are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged
from gpbounds.likelihoods import Likelihood, StudentT
from gpbounds.likelihoods.special import bend
from gpbounds.numerics.search import halved
from gpbounds.once import cached_property

# Means over f ~ N(m, v) of functions of p(y|f) that may change as abruptly as p itself: Gauss–Legendre on panels.
#
# Panels end where p has fallen by so many nats from its peak, and at fractions of the widths of N(m, v) and of
# N(m, v)·p^k around their modes.  All formulas are in δ = f − m and ratio = log p(f) − log E p, so that a small
# variance and a small density keep their accuracy.

REACH = 10.0
"""The integral extends so many standard deviations beyond the modes."""
ORDER = 12
_FALLS = np.concatenate(
    [
        10.0 ** np.array([-16.0, -12.0, -9.0, -7.0, -5.0, -4.0, -3.0, -2.0, -1.0]),
        [0.4],
        np.arange(1.0, 49.0),
        48.0 * 1.25 ** np.arange(1.0, 75.0),
    ]
)
"""Nats below the peak of p where panels end."""
_EDGES = np.array([-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 38.0])
"""Ends of panels around p = 1/s, in nats: there e^(−sp) falls from 1 to 0."""
PANELS_AGREE = 1e-9
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
        cuts += self.falls(_FALLS)
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
        if not max(abs(mass - 1.0), off / (1.0 + 1e-6 * abs(truth))) <= PANELS_AGREE:
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
        level = self.top - self.log_mean + u[:, None] + _EDGES  # nats below the peak where log Z = −u − edge
        cuts = np.concatenate([np.broadcast_to(self.fixed, (u.size, self.fixed.size)), *self.falls(level)], axis=1)
        delta, log_weight = self.place(np.sort(cuts, axis=1))
        return Nodes(delta, log_weight, self.rise(delta) - self.log_mean)


def means(weight: Float, values: Sequence[Float]) -> list[Float]:
    """Σ weight·value along the last axis."""
    return [(weight * value).sum(axis=-1) for value in values]


# The one integral behind every mean of L-sample averages (D-21), without cancellation.

STEP = 0.3
HALVINGS = 5
AGREEMENT = 1e-6
"""Largest relative difference of the sums over even and odd nodes; their mean is accurate to about its square."""
NEGLIGIBLE = 1e-17
FIXED_UP_TO = 8.0
"""The fixed panels resolve e^(−sZ) up to so many nats beyond the peak's level."""
CENTRED = 3.0
"""Below this u the means of the numerators are subtracted first, since the effect of e^(−sZ) is small there."""
ENTRIES = 1_000_000
FARTHEST = 709.0
"""The largest z: u = e^707 there.  Where the integrand has not decayed before, the integral counts as infinite."""

Numerator = Callable[[Panels, Float], Float]
"""A(f)/p(f) at δ = f − m."""


def by_mean(panels: Panels, delta: Float) -> Float:
    """φ'/φ: the gradient in m (Eq. 7)."""
    return panels.slope(delta)


def by_variance(panels: Panels, delta: Float) -> Float:
    """φ'ε/(2√v φ): the reparametrised gradient in v, ε = (f − m)/√v."""
    return panels.slope(delta) * (0.5 * delta / panels.v)


def by_curvature(panels: Panels, delta: Float) -> Float:
    """½φ''/φ: the terms that Eq. 8 averages."""
    with np.errstate(all="ignore"):
        first, second, _ = panels.likelihood.derivatives(panels.y, panels.m + delta)
    return 0.5 * np.asarray(first * first + second)


@dataclass(frozen=True, eq=False)
class Table:
    """Laplace transforms at s = e^u: log M, log(M e^s), and for each numerator s·E[(A/E X)(e^(−sZ) − e^(−s))]."""

    u: Float
    log_mean: Float
    excess: Float
    numerators: list[Float]

    def power(self, L: Float) -> Float:
        """M^L − e^(−Ls), without cancellation; one row for each node, one column for each L."""
        s = np.exp(np.minimum(self.u, 709.0))[:, None]
        grown = L * np.minimum(self.excess, 1e300)[:, None]
        with np.errstate(all="ignore"):
            small = np.exp(-L * s) * np.expm1(np.minimum(grown, 1.0))
            large = np.exp(L * self.log_mean[:, None]) - np.exp(-L * s)
        return np.where(grown < 1.0, small, large)


def transforms(panels: Panels, u: Float, numerators: Sequence[Numerator] = (), ratios: Sequence[float] = ()) -> Table:
    """The `Table` at the nodes u, in blocks.

    The fixed rule of the panels serves where it resolves e^(−sZ), else a rule for each node.  ``ratios`` are E A/E X of
    the numerators.
    """
    edge = panels.log_mean - panels.top + FIXED_UP_TO
    columns: list[list[Float]] = []
    k = 0
    while k < u.size:
        if u[k] < edge:
            nodes = panels.nodes
            size = max(1, ENTRIES // nodes.delta.size)
            stop = min(k + size, k + int(np.searchsorted(u[k:], edge)))
        else:
            stop = min(u.size, k + max(1, ENTRIES // (2 * panels.nodes.delta.size)))
            nodes = panels.nodes_about(u[k:stop])
        columns.append(_block(panels, nodes, u[k:stop], numerators, ratios))
        k = stop
    log_mean, excess, *rest = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    return Table(u, log_mean, excess, rest)


def _block(
    panels: Panels, nodes: Nodes, u: Float, numerators: Sequence[Numerator], ratios: Sequence[float]
) -> list[Float]:
    s = np.exp(np.minimum(u, 709.0))[:, None]
    with np.errstate(all="ignore"):
        exponent = -np.exp(np.minimum(u[:, None] + nodes.ratio, 709.0))
        fall = np.expm1(exponent)
        missing, left = means(nodes.weight, [fall, np.exp(exponent)])
        log_mean = np.where(missing > -0.5, np.log1p(np.maximum(missing, -0.5)), np.log(left))
        low = u < np.log(600.0)
        s_low = np.where(low[:, None], s, 1.0)
        x = -s_low * np.expm1(np.minimum(nodes.ratio, LARGEST))
        D = means(nodes.greater / np.maximum(nodes.Z, 1.0), [bend(x)])[0] if low.any() else 0.0 * u
        excess = np.where(low, np.log1p(D), log_mean + s[:, 0])
        log_mean = np.where(u > 0.0, log_mean, excess - s[:, 0])
        rows = [log_mean, excess]
        for numerator, ratio in zip(numerators, ratios, strict=True):
            # where Z underflows and φ'/φ overflows, φ' is 0
            a = numerator(panels, nodes.delta)
            weight = np.where(nodes.tilted > 0.0, nodes.tilted * a, 0.0)
            centred = means(weight - ratio * nodes.weight, [s_low * np.exp(-s_low) * np.expm1(x)])[0]
            centred += ratio * (s_low * np.exp(-s_low))[:, 0] * D  # E[x] is 0; the rule gives nearly 0
            weight = nodes.weight * a
            weight = np.where(np.isfinite(weight), weight, 0.0)
            plain = means(weight, [np.exp(exponent + np.minimum(u[:, None] + nodes.ratio, 709.0))])[0]
            plain -= ratio * (s * np.exp(-s))[:, 0]
            rows.append(np.where(u < CENTRED, centred, plain))
    return rows


@dataclass
class _Sums:
    """Sums of the integrands and of their absolute values at equidistant nodes: objective, then each numerator."""

    panels: Panels
    L: Float
    numerators: Sequence[Numerator]
    ratios: Sequence[float]
    total: Float = field(init=False)
    size: Float = field(init=False)

    def __post_init__(self) -> None:
        self.total = np.zeros((1 + len(self.numerators), self.L.size))
        self.size = np.zeros_like(self.total)

    def add(self, z: Float) -> Float:
        """Add the integrands at z; return the share of each node in the sums of absolute values."""
        bulge = np.exp(z - 2.0)
        u = z + bulge
        table = transforms(self.panels, u, self.numerators, self.ratios)
        rows = [table.power(self.L)]
        if self.numerators:
            with np.errstate(all="ignore"):
                s = np.exp(np.minimum(u, 709.0))
                rest = table.power(self.L - 1.0)
                whole = np.exp((self.L - 1.0) * table.log_mean[:, None])
                for part, ratio in zip(table.numerators, self.ratios, strict=True):
                    value = part[:, None] * whole + (ratio * (s * np.exp(-s)))[:, None] * rest
                    rows.append(self.L * value)
        values = np.stack(rows) * (1.0 + bulge)[:, None]
        self.total += values.sum(axis=1)
        self.size += np.abs(values).sum(axis=1)
        with np.errstate(all="ignore"):
            return np.nan_to_num(np.abs(values) / self.size[:, None, :], nan=0.0).max(axis=(0, 2))


def excesses(panels: Panels, L: Float, numerators: Sequence[Numerator] = ()) -> tuple[Float, Float]:
    """E[−log X̄_L] + log E X, and E[ΣA/ΣX] − E A/E X of each numerator, for all L ≥ 2; (L.size,), (numerators, L.size).

    Raises
    ------
    NotConverged
        where even and odd nodes do not agree after all halvings.
    """
    nodes = panels.nodes
    with np.errstate(all="ignore"):
        weights = [np.where(nodes.tilted > 0.0, nodes.tilted * a(panels, nodes.delta), 0.0) for a in numerators]
    ratios = [float(w.sum()) for w in weights]
    spreads = [float(np.abs(w - r * nodes.weight).sum()) for w, r in zip(weights, ratios, strict=True)]
    noise = np.array([0.0, *(1e-12 * a + 1e-15 * abs(r) for a, r in zip(spreads, ratios, strict=True))])
    counted = nodes.ratio[nodes.tilted > NEGLIGIBLE * nodes.tilted.sum()]
    start = -float(np.log(L.max())) - 19.0 - min(18.0, max(0.0, float(counted.max())))
    sums = _Sums(panels, L, numerators, ratios)
    step, z, share = STEP, start, np.ones(1)
    while True:
        block = z + step * np.arange(48.0 if z < -12.0 else 8.0)
        share = sums.add(block)
        z = block[-1] + step
        if z > 0.0 and bool((share[-6:] < NEGLIGIBLE).all()):
            break
        if z > FARTHEST:
            return np.full(L.size, np.inf), np.full((len(numerators), L.size), np.nan)
    last, even = z, step * sums.total
    for _ in range(HALVINGS):
        odd = _Sums(panels, L, numerators, ratios)
        points = np.arange(start + 0.5 * step, last, step)
        for k in range(0, points.size, 48):
            odd.add(points[k : k + 48])
        off = np.abs(even - step * odd.total)
        size = step * (sums.size + odd.size)
        sums.size += odd.size
        even, step = 0.5 * (even + step * odd.total), 0.5 * step
        rounding = noise[:, None] * np.sqrt(np.minimum(np.abs(even[0]), 1.0))
        if bool((off <= AGREEMENT * size + rounding).all()):
            return even[0], even[1:]
        if not np.isfinite(off).all():
            break
    raise NotConverged(
        f"expected even and odd nodes of the trapezoidal rule in log t to agree to {AGREEMENT:g}, and after "
        f"{HALVINGS} halvings they are {float((off / size).max()):.3g} apart (y = {panels.y:g}, m = {panels.m:g}, "
        f"v = {panels.v:g})"
    )
