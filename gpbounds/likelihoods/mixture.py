"""Means of a Student-t likelihood over f ~ N(m, v), as integrals over one positive variable; scale 1.

The Gaussian averages are done first, in closed form.  With d = y − m, the density is a mixture of Gaussians over their
variance w = e^x, x having density ∝ exp(−½ν(x + e^−x)):

    E p = ∫ N(d|0, v + e^x) W(x) dx,

and by log(1 + z) = ∫ (1 − e^−zt) e^−t dt/t with E e^{−t(y−f)²/ν} in closed form, a = v/ν, b = d²/ν, q = 1 + 2at:

    E log(1 + (y − f)²/ν) = ∫ (1 − q^−½ e^{−bt/q}) e^−t dt/t.

Both integrands are analytic in |Im| < π/2 of log w and log t, and no peak of the product in f has to be located.  The
nodes are the same for all y, m, v; only the right end differs, so the arrays are sorted by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.errors import NotConverged
from gpbounds.likelihoods import cuda
from gpbounds.likelihoods.special import HALF_LOG_TWO_PI
from gpbounds.likelihoods.trapezoid import AGREEMENT, DROP, HALVINGS, SMALLEST

LEFT = -3.7
"""Left end of the second integral, whose left tail is compressed: e^−u − u > 43 there."""

STEP = 0.25

Columns = Callable[..., Sequence[Array]]


def log_mean_student(d: Array, v: Array, df: float, gradient: bool = False) -> tuple[Array, ...]:
    """log E p for scale 1, and with ``gradient`` its derivatives in d, in v and in log ν.

    With h = ½ν and the mixing law tilted by N(d|0, v + e^x), ∂_ν = ½[E(x − 1 + e^−x) without the tilt − with it], whose
    first term is ψ(h) − log h, negated.
    """
    xp = namespace(d)
    half, square = 0.5 * df, d * d
    start, step = _left_end(df), min(0.24, 0.5 / math.sqrt(half))
    if xp is not np:
        parts = list(cuda.log_mean_student(d, v, df, start, step, _log_mass(half), _log_mass_slope(half)))
        return tuple(parts if gradient else parts[:1])
    best = _peak(square, v, df)
    # Right of ``reach`` the mixing law, alone or times a Gaussian no wider than w^½, is below e^−DROP of the peak.
    width = xp.maximum(DROP - best - 0.5 * xp.log(xp.maximum(v, square)), 1.0) / half
    reach = xp.minimum(0.5 * width + xp.sqrt(0.25 * width * width + 2.0 * width), (DROP - best + half) / (half + 0.5))
    reach = xp.maximum(reach, 2.0 / math.sqrt(half))

    def columns(x: float, d: Array, square: Array, v: Array, best: Array) -> list[Array]:
        log_weight = -half * (x + math.expm1(-x))
        inverse = 1.0 / (v + math.exp(x))
        weight = xp.exp(log_weight - best - 0.5 * square * inverse) * xp.sqrt(inverse)
        if not gradient:
            return [weight]
        slope = 0.5 * weight * (square * inverse - 1.0) * inverse
        return [weight, -weight * d * inverse, slope, -half * (x + math.expm1(-x)) * weight]

    sums = _marched(columns, (d, square, v, best), start, step, reach, 4 if gradient else 1)
    value = best + xp.log(sums[0]) - HALF_LOG_TWO_PI - _log_mass(half)
    parts = [part / sums[0] for part in sums[1:]]
    if gradient:
        parts[2] = parts[2] - half * _log_mass_slope(half)
    return (value, *parts)


def _peak(square: Array, v: Array, df: float) -> Array:
    """A close lower bound on the largest value of −½ log(v + w) − ½d²/(v + w) − ½ν(log w − 1 + 1/w).

    Its derivative in log w vanishes where w(d² − v − w)/(v + w)² = ν(1 − 1/w): near w = 1, or, where 1/w is
    negligible, near a root of (ν + 1)w² − (d² − (2ν + 1)v)w + νv².  Newton's steps improve these points.
    """
    xp = namespace(v)

    def parts(x: Array) -> tuple[Array, Array, Array]:
        w = xp.exp(x)
        total, p = v + w, w / (v + w)
        q = square / total
        value = -0.5 * xp.log(total) - 0.5 * q - 0.5 * df * (x + xp.expm1(-x))
        first = 0.5 * p * (q - 1.0) + 0.5 * df * xp.expm1(-x)
        second = 0.5 * p * (1.0 - p) * (q - 1.0) - 0.5 * p * p * q - 0.5 * df / w
        return value, first, second

    middle = square - (2.0 * df + 1.0) * v
    root = xp.sqrt(xp.maximum(middle * middle - 4.0 * df * (df + 1.0) * v * v, 0.0))
    x = xp.zeros(v.shape)
    best = parts(x)[0]
    near = xp.clip((square - v - 1.0) / (df * (v + 1.0) ** 2), -0.5, 3.0)
    far = xp.log(xp.maximum((middle + root) / (2.0 * (df + 1.0)), 1.0))
    for guess in (near, far, xp.log((square + df) / (df + 1.0))):
        value = parts(guess)[0]
        x, best = xp.where(value > best, guess, x), xp.maximum(value, best)
    for _ in range(4):
        _, first, second = parts(x)
        x = x + xp.clip(first / xp.maximum(xp.abs(second), 0.1), -1.0, 1.0)
        best = xp.maximum(best, parts(x)[0])
    return best


def mean_log_student(d: Array, v: Array, df: float, gradient: bool = False) -> tuple[Array, ...]:
    """−½(ν + 1) E log(1 + (y − f)²/ν), and with ``gradient`` its derivatives in d, in v and in log ν.

    It is −½(ν + 1)h(a, b), and ν∂_ν h = −(a∂_a + b∂_b)h, so that the last derivative is −½νh − v∂_v − ½d∂_d.
    The left tail is compressed by t = e^(u − e^−u)/(1 + a + b).
    """
    xp = namespace(d)
    if xp is not np:
        results = cuda.mean_log_student(d, v, df, LEFT, STEP)
        return results if gradient else results[:1]
    a, b = v / df, d * d / df
    size = 1.0 + a + b

    def columns(u: float, a: Array, b: Array, size: Array) -> list[Array]:
        t = math.exp(u - math.exp(-u)) / size
        at = a * t
        inverse = 1.0 / (1.0 + 2.0 * at)
        bt = b * t * inverse
        power = -0.5 * xp.log1p(2.0 * at) - bt
        weight = (1.0 + math.exp(-u)) * xp.exp(-t)
        values = [-weight * xp.expm1(power)]
        if gradient:
            slope = weight * t * inverse * xp.exp(power)
            values += [slope, slope * (1.0 - 2.0 * bt)]
        return values

    sums = _marched(columns, (a, b, size), LEFT, STEP, xp.log(DROP * size), 3 if gradient else 1)
    factor = -0.5 * (df + 1.0)
    parts = [factor * part * c for part, c in zip(sums, (1.0, 2.0 * d / df, 1.0 / df), strict=False)]
    if gradient:
        parts.append(-0.5 * df * sums[0] - v * parts[2] - 0.5 * d * parts[1])
    return tuple(parts)


def _left_end(df: float) -> float:
    """The x < 0 left of which the mixing law times any Gaussian is below e^−DROP of the integrand at 0.

    There ½ν(e^−x − 1 + x) + x/2 > DROP: N(d|0, v + w) ≤ w^−½ N(d|0, v + 1) for w < 1.
    """
    r = math.log1p(2.0 * (DROP + 20.0) / df) + 1.0
    for _ in range(60):
        r = math.log(1.0 + r + (2.0 * DROP + r) / df)
    return -r


def _log_mass(half: float) -> float:
    """log ∫ exp(−h(x − 1 + e^−x)) dx = log Γ(h) + h − h log h."""
    if half < 15.0:
        return math.lgamma(half) + half - half * math.log(half)
    square = 1.0 / half**2
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / half
    return HALF_LOG_TWO_PI - 0.5 * math.log(half) + series


def _log_mass_slope(half: float) -> float:
    """The derivative of `_log_mass`: ψ(h) − log h, by its series for large h, where the two cancel."""
    if half < 15.0:
        from scipy.special import digamma

        return float(digamma(half)) - math.log(half)
    square = 1.0 / half**2
    return -0.5 / half - square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))


def _marched(
    columns: Columns, parameters: Sequence[Array], start: float, step: float, reach: Array, count: int
) -> list[Array]:
    """∫ columns(x, *parameters) dx by the trapezoidal rule from ``start`` to ``reach``, checked as in `trapezoid`."""
    xp = namespace(reach)
    sums = [xp.empty(reach.shape) for _ in range(count)]
    left = xp.argsort(-reach)
    for _ in range(HALVINGS):
        lengths = np.ceil((reach[left] - start) / step)
        part = [p[left] for p in parameters]
        halves = [[xp.zeros(left.shape) for _ in range(count)] for _ in range(2)]
        active = lengths.size
        for j in range(int(lengths[0]) + 1):
            while active > 1 and lengths[active - 1] < j:
                active -= 1
            for total, value in zip(halves[j % 2], columns(start + j * step, *(p[:active] for p in part)), strict=True):
                total[:active] += value
        for total, even, odd in zip(sums, *halves, strict=True):
            total[left] = step * (even + odd)
        even, odd = halves[0][0], halves[1][0]
        left = left[~(xp.abs(even - odd) <= AGREEMENT * (even + odd) + SMALLEST)]
        if left.size == 0:
            return sums
        step *= 0.5
    raise NotConverged(
        f"expected even and odd nodes of the trapezoidal rule to agree to {AGREEMENT:g}, and {left.size} of "
        f"{reach.size} integrals did not with a step of {2.0 * step:.3g}: are targets or variances beyond 1e100?"
    )
