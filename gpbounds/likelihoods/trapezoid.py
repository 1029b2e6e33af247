"""The trapezoidal rule on the whole line, for many integrands at once, checked by halving its step.

For a function that is analytic in a strip of half width d and decays, the error falls like exp(−2πd/h) in the step h:
halving the step approximately squares the error.  So the difference of the sums over even and over odd nodes estimates,
at no cost, the error of each; where they agree to `AGREEMENT` = 2e-7, the sum over all nodes is accurate to 1e-12.
Where they do not agree, the number of nodes is doubled.

A wide Gaussian times a likelihood that bends within one unit has two scales.  The nodes t = c + x + κx³ resolve both:
they are dense at the bend c and sparse far out, and the map is a polynomial, so that the integrand stays analytic.

For v ≤ 1 and a smooth integrand fixed nodes suffice (`narrow_means`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.errors import NotConverged

DROP = 31.0
"""The integrand is followed until it is e^−31 = 3e-14 of its peak."""

AGREEMENT = 2e-7
"""Largest difference of the sums over even and odd nodes, relative to the sum."""

NEAR_ENOUGH = 1e-5
"""The same for the other columns, relative to the integral of their absolute value; it makes them accurate to 1e-10."""

NEGLIGIBLE = 1e-13
"""Where units are given: allowed error of the other columns, relative to the first integral and in their units."""

NODES = 36
GROWTH = 1.2
DOUBLING = 4
"""GROWTH⁴ = 2.07."""
LEVELS = 36
TOGETHER = 6
"""Nodes that are evaluated at once, an even number: few calls, and arrays that fit a cache."""
HALVINGS = 6
"""How often `gpbounds.likelihoods.student_t` halves its step."""
SMALLEST = 1e-290
"""Smaller sums, where variance and deviation are both negligible, are not compared: they have lost their accuracy."""
UNITS = 0.8
"""Length of x for each node."""
PER_ROOT = 5.6
"""Number of nodes for each unit of the cube root of a distance, tuned on the factors of this package."""

Columns = Callable[..., Sequence[Array]]
Drop = Callable[..., tuple[Array, Array]]


def outer_edge(start: Array, drop: Drop, parameters: Sequence[Array], rounds: int = 60) -> Array:
    """|t| beyond which a convex drop D(t), D(0) ≈ 0, exceeds `DROP`, by Newton's method, whose iterates stay beyond it.

    ``drop(t, *parameters)`` gives D and its slope.  Every entry takes two steps; entries that still shrink by a third
    take more.
    """
    xp = namespace(start)
    t, left, part = start.copy(), xp.arange(start.size), list(parameters)
    for k in range(rounds):
        here = t[left]
        value, slope = drop(here, *part)
        step = (value - DROP) / slope
        step = xp.where((step > 0.0) & (step < here), step, 0.0)
        t[left] = here - step
        if k > 0:
            moving = step > here / 3.0
            left, part = left[moving], [p[moving] for p in part]
            if left.size == 0:
                break
    return t


def spread(low: Array, high: Array, steps: Array) -> tuple[Array, Array, Array]:
    """κ and the ends of x for t = x + κx³ from −low to high (both ≥ 0), an interval of about ``steps`` in x."""
    xp = namespace(low)
    wide = low + high
    roots = (xp.cbrt(low) + xp.cbrt(high)) / steps
    kappa = xp.where(wide > steps, roots**3, 0.0)
    scale = xp.sqrt(3.0 * xp.where(kappa > 0.0, kappa, 1.0))

    def inverse(reach: Array) -> Array:
        bent = 2.0 / scale * xp.sinh(xp.arcsinh(1.5 * scale * reach) / 3.0)
        return xp.where(kappa > 0.0, bent, reach)

    return kappa, -inverse(low), inverse(high)


def integrate(
    columns: Columns,
    parameters: Sequence[Array],
    low: Array,
    high: Array,
    bend: Array,
    step: Array,
    count: int,
    units: Sequence[Array] = (),
) -> list[Array]:
    """∫ columns(t, *parameters) dt over [low, high], one integral for each entry of the one-dimensional arrays.

    Parameters
    ----------
    columns : callable
        ``columns(t, *parameters)`` gives ``count`` arrays, of which the first is positive.
    low, high : arrays
        Where the integrand is negligible.
    bend : array
        Where it bends; nodes are densest there.
    step : array
        The spacing that resolves the bend.
    units : sequence of arrays, optional
        One for each column but the first: smaller values than a tiny share of the unit may come from a tail without
        nodes.

    Raises
    ------
    NotConverged
        where 2⁸ times the first number of nodes are not enough.
    """
    xp = namespace(low)
    bend = xp.clip(bend, low, high)
    below, above = bend - low, high - bend
    wanted = PER_ROOT * (xp.cbrt(below / step) + xp.cbrt(above / step))
    level = xp.ceil(xp.log(xp.maximum(wanted / NODES, 1.0)) / np.log(GROWTH)).astype(np.int64)
    sums = [xp.empty(low.shape) for _ in range(count)]
    left = xp.ones(low.shape, dtype=bool)
    nodes = 0
    for k in range(LEVELS):
        chosen = xp.flatnonzero(left & (level <= k))
        if chosen.size == 0:
            if not bool(left.any()):
                return sums
            continue
        nodes = 2 * round(0.5 * NODES * GROWTH**k)
        whole = chosen.size == left.size
        part, unit = (list(arrays) if whole else [a[chosen] for a in arrays] for arrays in (parameters, units))
        values, good = _rule(
            partial(_on, columns, part), below[chosen], above[chosen], bend[chosen], step[chosen], nodes, count, unit
        )
        for total, value in zip(sums, values, strict=True):
            total[chosen] = value
        left[chosen] = ~good
        level[chosen] = k + DOUBLING
    if bool(left.any()):
        raise NotConverged(
            f"y, m, v: expected even and odd nodes of the trapezoidal rule to agree to {AGREEMENT:g}, and "
            f"{int(left.sum())} of {left.size} integrals did not with {nodes} nodes: are there counts beyond 1e8 or "
            "variances beyond 1e6?"
        )
    return sums


def _on(columns: Columns, parameters: Sequence[Array], t: Array) -> Sequence[Array]:
    return columns(t, *parameters)


def _rule(
    columns: Callable[[Array], Sequence[Array]],
    below: Array,
    above: Array,
    bend: Array,
    step: Array,
    nodes: int,
    count: int,
    units: Sequence[Array],
) -> tuple[list[Array], Array]:
    xp = namespace(below)
    kappa, first, last = spread(below / step, above / step, xp.asarray(UNITS * nodes))
    width = (last - first) / (nodes - 1)
    halves = [[xp.zeros(below.shape) for _ in range(count)] for _ in range(2)]
    sizes = [xp.zeros(below.shape) for _ in range(count - 1)]
    for j in range(0, nodes, TOGETHER):
        x = first + xp.arange(j, min(j + TOGETHER, nodes))[:, None] * width
        square = kappa * x * x
        t = bend + step * (x + square * x)
        stretch = 1.0 + 3.0 * square
        values = [stretch * value for value in columns(t)]
        for k, half in enumerate(halves):
            for total, value in zip(half, values, strict=True):
                total += value[k::2].sum(axis=0)
        for size, value in zip(sizes, values[1:], strict=True):
            size += xp.abs(value).sum(axis=0)
    even, odd = halves[0][0], halves[1][0]
    good = xp.abs(even - odd) <= AGREEMENT * (even + odd)
    slack = [NEGLIGIBLE * unit * (even + odd) for unit in units] or [0.0] * (count - 1)
    for a, b, size, rest in zip(halves[0][1:], halves[1][1:], sizes, slack, strict=True):
        good &= xp.abs(a - b) <= NEAR_ENOUGH * size + rest
    return [(a + b) * width * step for a, b in zip(*halves, strict=True)], good


# E g(f) for f ~ N(m, v) with v ≤ 1 and a smooth g, by the trapezoidal rule at fixed nodes.
#
# The nodes m + √v·x are h = 0.45 apart in x, and reach 8.8 standard deviations.  If g is analytic within 2.8 of the
# real line and grows by no more than e^(5|x|) there, the error is of the order exp(−2π·2.8/h + 2.8²/2) ≈ 5e-16.
# A factor of g that narrows the Gaussian adds an error: exp(−π²/h²) ≈ 7e-22 for g ~ e^(−f²/2).

WIDEST = 1.0
"""Largest variance."""
NARROW_STEP, NARROW_NODES, NARROW_TOGETHER = 0.45, 40, 5
"""h, the number of nodes, and how many are evaluated at once: fewer than 8, so that NumPy adds them up in order."""


def narrow_means(g: Callable[[Array], tuple[Array, ...]], m: Array, v: Array) -> tuple[Array, ...]:
    """The means of the entries of ``g(f)`` for f ~ N(m, v), for flat arrays m and v ≤ 1.

    >>> value, square = narrow_means(lambda f: (f, f * f), np.array([2.0]), np.array([0.25]))
    >>> value.round(10), square.round(10)
    (array([2.]), array([4.25]))
    """
    xp, root = namespace(m), namespace(m).sqrt(v)
    x = NARROW_STEP * (np.arange(NARROW_NODES) - 0.5 * (NARROW_NODES - 1))
    weights = NARROW_STEP / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * x * x)
    sums: list[Array] = []
    for start in range(0, NARROW_NODES, NARROW_TOGETHER):
        part = slice(start, start + NARROW_TOGETHER)
        f = m + xp.asarray(x[part])[:, None] * root
        parts = [(xp.asarray(weights[part])[:, None] * each).sum(axis=0) for each in g(f)]
        sums = [total + each for total, each in zip(sums, parts, strict=True)] if sums else parts
    return tuple(sums)
