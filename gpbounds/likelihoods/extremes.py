"""The extreme values of the derivatives of a Poisson likelihood in f."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.likelihoods.factors import SoftplusRate
from gpbounds.likelihoods.special import bend, log_factorial_excess, log_softplus, softplus_parts, softplus_third
from gpbounds.numerics.roots import halved


def exponential_extremes(y: Array) -> tuple[Array, Array, Array, Array]:
    """Least and largest φ', least and largest φ'' of g^y e^−g/y!, g = e^f, in closed form (D-34).

    φ' = (y − g)p has its extremes at g = y + ½ ± √(y + ¼); φ'' = ((y − g)² − g)p at g = y + 1 + s, s the three roots
    of s³ − (3y + 2)s − (2y + 1), s_k = 2√(y + ⅔) cos((θ − 2πk)/3); there (y − g)² − g = s² + s − y.  The limits at
    ±∞ are 0.
    """
    xp = namespace(y)

    def density(shift: Array) -> Array:
        """p at g = y + shift, by −y(u − log(1 + u)) − …, u = shift/y."""
        g = y + shift
        count = xp.maximum(y, 1.0)
        u = xp.log(xp.where(y > 0.0, xp.maximum(g, 1e-300) / count, 1.0))
        drop = xp.where(y > 0.0, y * bend(u), g)
        return xp.exp(-drop - log_factorial_excess(y))

    root = xp.sqrt(y + 0.25)
    first = [-(0.5 + sign * root) * density(0.5 + sign * root) for sign in (-1, 1)]
    p = 3.0 * y + 2.0
    angle = xp.arccos(xp.minimum(1.5 * (2.0 * y + 1.0) / p * xp.sqrt(3.0 / p), 1.0))
    second = []
    for k in range(3):
        s = 2.0 * xp.sqrt(p / 3.0) * xp.cos((angle - 2.0 * math.pi * k) / 3.0)
        second.append((s * s + s - y) * density(xp.maximum(1.0 + s, -y)))
    zero = 0.0 * y
    low = functools.reduce(xp.minimum, second, zero)
    high = functools.reduce(xp.maximum, second, zero)
    return xp.minimum(first[1], zero), xp.maximum(first[0], zero), low, high


def softplus_extremes(y: Array) -> tuple[Array, Array, Array, Array]:
    """The same for g = log(1 + e^f), by a search over f (D-33), once for each distinct count."""
    xp = namespace(y)
    targets = host(y)
    distinct, where = np.unique(targets, return_inverse=True)
    table = np.array(_search(tuple(distinct.tolist()))).reshape(4, -1)
    a, b, c, d = (xp.asarray(row[where].reshape(targets.shape)) for row in table)
    return a, b, c, d


@functools.lru_cache(maxsize=64)
def _search(counts: tuple[float, ...]) -> tuple[Float, ...]:
    y = np.array(counts)[:, None]
    peak = np.where(y > 0.0, SoftplusRate().peak(y), 0.0)
    width = np.sqrt(y) + 1.0
    grid = peak + width * np.linspace(-45.0, 45.0, 6001)
    with np.errstate(all="ignore"):
        extremes = []
        for order in (1, 2):
            values = _derivative(y, grid, order)
            for sign in (-1.0, 1.0):
                best = (sign * values).argmax(axis=1)[:, None]
                best = np.clip(best, 1, grid.shape[1] - 2)
                low = np.take_along_axis(grid, best - 1, axis=1)
                high = np.take_along_axis(grid, best + 1, axis=1)

                def rising(f: Float, sign: float = sign, order: int = order) -> Any:
                    return sign * _derivative(y, f, order + 1) > 0.0

                low, high = halved(rising, low, high)
                ends = _derivative(y, low, order)[:, 0]
                extremes.append(np.minimum(ends, 0.0) if sign < 0.0 else np.maximum(ends, 0.0))
    return tuple(extremes)


def _derivative(y: Float, f: Float, order: int) -> Float:
    """The derivative of g^y e^−g/y! of that order, g = log(1 + e^f)."""
    g, up, down, ratio, curve = softplus_parts(f)
    u = log_softplus(f, g) - np.log(np.maximum(y, 1.0))
    density = np.exp(np.where(y > 0.0, -y * bend(u), -g) - log_factorial_excess(y))
    first = y * ratio - up
    second = y * curve - up * down
    if order == 1:
        return density * first
    if order == 2:
        return density * (first * first + second)
    return density * (first**3 + 3.0 * first * second + softplus_third(f, y))
