"""Expected losses proved: Gaussian means of the losses in Arb balls."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.losses.base import SPREAD, Loss
from gpbounds.losses.intervals import Band, Interval, Relative
from gpbounds.losses.sign import Sign
from gpbounds.losses.smooth import Exponential, Squared
from gpbounds.numerics.pairs import Pair
from gpbounds.rigor import at_bits, exact, within

KNOWN = (Band, Squared, Exponential, Relative, Interval, Sign)
MOST_BITS = 1 << 13
NARROW = 2.0**-70
"""Radius of a ball at which more bits are not tried."""
UP = 1.0 + 1e-8


def enclosed_sum(
    loss: Loss, y: Float, m: Pair, v: Pair, mean_error: Float, variance_error: Float, *, squared: bool = False
) -> Any:
    """A ball that holds Σ_i E ℓ(y_i, f_i), f_i ~ N(m'_i, v'_i), for every |m'_i − m_i| ≤ mean_error and |v'_i − v_i| ≤
    variance_error; with ``squared`` one that holds Σ_i (E ℓ(y_i, f_i))², n times the tandem risk.

    Claim N-proved-risk.  The mean at (m_i, v_i), exact numbers, is evaluated in balls, with more bits until it is known
    to 2⁻⁷⁰; a negative v_i counts as 0, and its size is added to variance_error.  The change from there to N(m', v'), s
    = √v, is at most the least of 1, the total variation mean_error/(s√(2π)) − √(2/(πe))·½log(1 − variance_error/v), and
    for a loss with Lipschitz constant C in f C(mean_error + √(2/π)·min(variance_error/s, √variance_error)), by the
    coupling f' = m' + (s'/s)(f − m).

    Parameters
    ----------
    loss : Band, Squared, Exponential, Relative, Interval or Sign
    y : array (n,)
    m, v : pairs of arrays (n,)
    mean_error, variance_error : arrays (n,) >= 0
        Infinite where no bound is known.
    squared : bool

    Raises
    ------
    ValueError
        for another loss, and for targets for which the loss is not defined.

    >>> one, zero = np.ones(1), np.zeros(1)
    >>> ball = enclosed_sum(Band(0.5), one, (one, zero), (0.25 * one, zero), zero, zero)  # 2Φ(−1)
    >>> float(ball.mid()), float(ball.rad()) < 1e-20
    (0.3173105078629141, True)
    """
    if type(loss) not in KNOWN:
        names = ", ".join(kind.__name__ for kind in KNOWN)
        raise ValueError(f"loss: expected one whose mean is proved ({names}), got {type(loss).__name__}")
    loss._check(y)
    below = np.minimum(v[0] + v[1], 0.0)
    variance_error = variance_error - below
    clipped = np.where(below < 0.0, 0.0, v[0]), np.where(below < 0.0, 0.0, v[1])
    allowed = _change(loss, y, clipped[0] + clipped[1], mean_error, variance_error)
    total = exact(0.0)
    for target, mh, ml, vh, vl, change in zip(y, *m, *clipped, allowed, strict=True):
        mean = exact(0.5) if change >= 1.0 else expectation(loss, float(target), (mh, ml), (vh, vl))
        with at_bits(256):
            changed = (mean + within(0.0, change)).intersection(within(0.5, 0.5))  # every mean is in [0, 1]
            total += changed * changed if squared else changed
    return total


def _change(loss: Loss, y: Float, v: Float, mean_error: Float, variance_error: Float) -> Float:
    """The bound of `enclosed_sum` on the change, rounded up."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        s = np.sqrt(v)
        moved = np.where(mean_error == 0.0, 0.0, mean_error / (2.5 * s))  # √(2π) > 2.5
        scaling = -0.5 * SPREAD * np.log1p(-variance_error / v)
        scaled = np.where(variance_error == 0.0, 0.0, scaling)
        allowed = np.where(np.isfinite(moved + scaled), moved + scaled, 1.0)
        steep = loss._steepness(y)
        if steep is not None:
            apart = np.fmin(variance_error / s, np.sqrt(variance_error))
            coupled = steep * (mean_error + 0.8 * apart)  # √(2/π) < 0.8
            allowed = np.fmin(allowed, np.where(np.isfinite(coupled), coupled, 1.0))
    allowed = np.where(np.isfinite(v), allowed, 1.0)
    return np.minimum(UP * allowed + 1e-300, 1.0)


def expectation(loss: Loss, y: float, m: tuple[float, float], v: tuple[float, float]) -> Any:
    """E ℓ(y, f), f ~ N(m₁ + m₂, v₁ + v₂), as a ball, for a loss of `KNOWN` and v₁ + v₂ ≥ 0."""
    bits, widest = 128, 1.0
    while True:
        with at_bits(bits):
            d = exact(y) - exact(m[0]) - exact(m[1])
            ball = _evaluated(loss, exact(y), exact(m[0]) + exact(m[1]), d, exact(v[0]) + exact(v[1]))
        radius = float(ball.rad()) if ball.is_finite() else np.inf
        if radius <= NARROW or bits >= MOST_BITS or (bits > 128 and 0.5 * widest < radius < np.inf):
            return ball if ball.is_finite() else within(0.5, 0.5)
        bits, widest = 2 * bits, min(radius, widest)


def _evaluated(loss: Any, y: Any, m: Any, d: Any, v: Any) -> Any:
    """The mean for the deviation d = y − m, from the formulas of P-30 … P-34 and N-sign."""
    s = v.sqrt()
    if isinstance(loss, Sign):
        return _certainly(y * m <= 0, y * m > 0, exact(0.0)) if v.is_zero() else _cdf(-y * m / s)
    if isinstance(loss, Exponential):
        squared = exact(loss.epsilon) ** 2
        u = squared + 2 * v
        return 1 - (squared / u).sqrt() * (-d * d / u).exp()
    if isinstance(loss, Band | Interval):
        low, high = (-loss.epsilon, loss.epsilon) if isinstance(loss, Band) else (loss.low, loss.high)
        edges = [exact(low), exact(high)]
        if isinstance(loss, Interval) and loss.relative:
            edges = [edge * _rounded(abs(y)) for edge in edges]
        below, above = d + edges[0], d + edges[1]
        if v.is_zero():
            return _certainly(below > 0 or above < 0, below <= 0 and above >= 0, exact(0.0))
        return _cdf(below / s) + _cdf(-above / s)
    c = exact(loss.epsilon)
    if isinstance(loss, Relative):
        c *= _rounded(abs(y))
    size = abs(d)
    if v.is_zero():
        return _certainly(size > c, size <= c, size / c if isinstance(loss, Relative) else (size / c) ** 2)
    a, b = (size - c) / s, (size + c) / s
    outside = _cdf(a) + _cdf(-b)
    if isinstance(loss, Relative):
        middle = size / s
        inside = size * (2 * _cdf(middle) - _cdf(a) - _cdf(b)) + s * (2 * _density(middle) - _density(a) - _density(b))
        return outside + inside / c
    within_band = _cdf(b) - _cdf(a)
    inside = (d * d + v) * within_band + s * ((size - c) * _density(b) - (size + c) * _density(a))
    return outside + inside / c**2


def _certainly(outside: bool, inside: bool, value: Any) -> Any:
    """The loss of a point mass: 1 outside, ``value`` inside, unknown where neither is decided."""
    if outside:
        return exact(1.0)
    return value if inside else within(0.5, 0.5)


def _rounded(size: Any) -> Any:
    """|y| within a relative 2⁻⁵², for a product that the loss may take exactly or round to the nearest double."""
    return size * within(1.0, 2.0**-52)


def _cdf(x: Any) -> Any:
    return (-x / exact(2.0).sqrt()).erfc() / 2


def _density(x: Any) -> Any:
    from flint import arb

    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()
