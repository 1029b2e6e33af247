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

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged
from gpbounds.likelihoods.special import bend
from gpbounds.montecarlo.panels import LARGEST, Nodes, Panels, means

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
