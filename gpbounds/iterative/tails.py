"""How far the mean of z'Az over m probes z ~ N(0, I) can be from tr A (N-slqtail).

A symmetric; its eigenvalues are at most ``above``, and in absolute value at most ``size``; ‖A‖_F at most ``norm``.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from gpbounds.arrays import Float

THIRD_MOMENT = 8.691563
"""E|g² − 1|³ for g ~ N(0, 1), rounded up."""
BERRY_ESSEEN = 0.56
"""The constant for sums of independent variables that are not identically distributed (Shevtsova 2010)."""
CELLS = 240
"""Intervals into which the range of possible ‖A‖_F is cut."""


def frobenius(squares: float, size: float, probes: int, delta: float) -> float:
    """F̂ ≥ ‖A‖_F with probability at least 1 − delta, from ``squares`` ≥ the mean of z'A²z over the probes.

        F̂ = Λ√(x/m) + √(s² + Λ²x/m),  x = log(1/delta),  Λ = ``size``

    The proof is that of N-slqtail.

    >>> frobenius(4.0, 0.0, 10, 0.01)
    2.0
    """
    shift = size * math.sqrt(-math.log(delta) / probes)
    return shift + math.sqrt(squares + shift * shift)


def chernoff(error: float, norm: Float, above: float, probes: int) -> Float:
    """P(mean z'Az − tr A ≥ error) ≤ exp(−(mκ/2)(u − log(1 + u))), κ = F²/a², u = error/(κa), a = ``above``.

    The proof is that of N-slqtail.  The bound increases in F and in a.
    """
    with np.errstate(divide="ignore", over="ignore"):
        shape = (norm / above) ** 2
        u = error / (shape * above)
        small = u < 1e-4
        exact = np.where(small, 0.5 * u * u * (1.0 - u / 1.5), u - np.log1p(u))
        return np.where(norm > 0.0, np.exp(-0.5 * probes * np.where(np.isinf(u), error / above, shape * exact)), 0.0)


def half_width(norm: float, *, above: float, size: float, probes: int, delta: float) -> float:
    """ε such that mean z'Az − tr A ≥ ε with probability at most delta, for every A with ‖A‖_F ≤ ``norm``.

    The smaller of `chernoff` and of Berry–Esseen's bound

        Φ(−ε√m/(√2·F)) + 0.56·E|g² − 1|³·Λ/(2^{3/2}·F·√m),

    which needs a lower bound on F: the range of F is cut into cells, and each cell takes the better one.

    Parameters
    ----------
    norm, above, size : float
        Upper bounds on ‖A‖_F, on the eigenvalues and on their absolute values.
    probes : int
        m.
    delta : float

    >>> round(half_width(1.0, above=0.1, size=0.1, probes=64, delta=0.025), 3)  # normal: 1.96·√(2/64) = 0.346
    0.488
    """
    if norm <= 0.0:
        return 0.0
    ends = norm * np.geomspace(1e-4, 1.0, CELLS)
    starts = np.concatenate([[0.0], ends[:-1]])
    with np.errstate(divide="ignore"):
        skew = BERRY_ESSEEN * THIRD_MOMENT / 2.0**1.5 * size / (math.sqrt(probes) * starts)

    def risk(error: float) -> float:
        normal = ndtr(-error * math.sqrt(0.5 * probes) / ends) + skew
        return float(np.minimum(chernoff(error, ends, max(above, 1e-9 * size), probes), normal).max())

    low, high = 0.0, norm
    while risk(high) > delta:
        low, high = high, 2.0 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if risk(middle) > delta else (low, middle)
    return high
