"""Likelihoods p(y|f), their derivatives in f and their means over f ~ N(m, v) in mpmath, by the definitions.

A likelihood is a function log p(y, f).  Means are quadratures of the definition; nothing is simplified first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import diff, erfc, exp, expm1, gamma, inf, log, log1p, loggamma, mp, mpf, pi, quad, sqrt

LogDensity = Callable[[Any, Any], Any]


def rate(f: Any, link: str) -> Any:
    """g(f): e^f or log(1 + e^f)."""
    return exp(f) if link == "exp" else log1p(exp(f))


def gaussian(noise: Any) -> LogDensity:
    """log N(y|f, σ²)."""
    return lambda y, f: -log(2 * pi * noise) / 2 - (y - f) ** 2 / (2 * noise)


def bernoulli(link: str) -> LogDensity:
    """log Φ(sf) or log σ(sf), s = ±1 for y ∈ {−1, 1}."""
    if link == "probit":
        return lambda y, f: log(erfc(-y * f / sqrt(mpf(2))) / 2)
    return lambda y, f: -log1p(exp(-y * f))


def poisson(link: str) -> LogDensity:
    """log g^y e^{−g}/y!  (D-33, D-34)."""
    return lambda y, f: (y * log(rate(f, link)) if y else 0) - rate(f, link) - loggamma(y + 1)


def printed_poisson(link: str) -> LogDensity:
    """log g^y e^{+g}/y!, as Table 1 prints it: no density, and unbounded."""
    return lambda y, f: (y * log(rate(f, link)) if y else 0) + rate(f, link) - loggamma(y + 1)


def student_t(df: Any, scale: Any) -> LogDensity:
    """log c (1 + (y−f)²/(σ²ν))^{−(ν+1)/2}, c = Γ((ν+1)/2)/(Γ(ν/2)√(πν)σ)  (D-35)."""
    c = student_constant(df, scale)
    return lambda y, f: log(c) - (df + 1) / mpf(2) * log1p((y - f) ** 2 / (scale**2 * df))


def student_constant(df: Any, scale: Any) -> Any:
    """c = Γ((ν+1)/2)/(Γ(ν/2)√(πν)σ)."""
    return gamma((mpf(df) + 1) / 2) / gamma(mpf(df) / 2) / (sqrt(pi * df) * scale)


def printed_student_constant(df: Any, scale: Any) -> Any:
    """c = Γ((ν+1)/2)/(Γ(ν/2)√(πνσ)), as Table 1 prints it: the density then has mass √σ."""
    return gamma((mpf(df) + 1) / 2) / gamma(mpf(df) / 2) / sqrt(pi * df * scale)


def derivatives(log_density: LogDensity, y: Any, f: Any, order: int = 3) -> list[Any]:
    """The first ``order`` derivatives of log p(y|f) in f, numerically with extra digits."""
    with mp.workdps(3 * mp.dps):
        found = [diff(lambda t: log_density(y, t), f, k) for k in range(1, order + 1)]
    return [+d for d in found]


def cuts(points: Sequence[Any], m: Any, v: Any, reach: Any = 16) -> list[Any]:
    """Where to cut the line for a quadrature over N(m, v): around its mean, and around ``points`` on every scale."""
    s = sqrt(mpf(v))
    around = {m + k * s for k in (-reach, -8, -5, -3, -1, 0, 1, 3, 5, 8, reach)}
    for p, width in points:
        around |= {p + sign * width * mpf(4) ** k for k in range(-1, 7) for sign in (-1, 1)} | {mpf(p)}
    return sorted(c for c in around if m - reach * s <= c <= m + reach * s)


def mean(value: Callable[[Any], Any], m: Any, v: Any, points: Sequence[Any] = (), reach: Any = 16) -> Any:
    """E value(f), f ~ N(m, v); ``points`` are pairs (where it bends, how sharply)."""
    m, v = mpf(m), mpf(v)
    grid = cuts([(mpf(p), mpf(w)) for p, w in points], m, v, mpf(reach))
    return quad(lambda f: value(f) * exp(-((f - m) ** 2) / (2 * v)), grid) / sqrt(2 * pi * v)


def expected_density(log_density: LogDensity, y: Any, m: Any, v: Any, points: Sequence[Any] = ()) -> Any:
    """E p(y|f), f ~ N(m, v), to a relative error: the line is cut around the mode of the product, too."""
    m, v = mpf(m), mpf(v)

    def height(f: Any) -> Any:
        return log_density(y, f) - (f - m) ** 2 / (2 * v)

    tops = [highest(height, *pair) for pair in _brackets(height, m, v, points)]
    top = max(height(t) for t in tops)
    here = [(mpf(p), mpf(w)) for p, w in points] + [(t, _width(height, t)) for t in tops]
    ends = [_edge(height, top, t, side) for t in tops for side in (-1, 1)]
    low, high = min(ends), max(ends)
    around = {low, high}
    for p, width in here:
        around |= {p + sign * width * mpf(3) ** k for k in range(-1, 10) for sign in (-1, 1)} | {p}
    grid = sorted(c for c in around if low <= c <= high)
    return exp(top) * quad(lambda f: exp(height(f) - top), grid) / sqrt(2 * pi * v)


def _brackets(height: Any, m: Any, v: Any, points: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Intervals around the local maxima of ``height`` on a grid that is fine near ``points`` and the mean."""
    s = sqrt(v)
    grid = {m + k * s / 4 for k in range(-60, 61)} | {m}
    for p, w in points:
        grid |= {mpf(p) + sign * mpf(w) * mpf(2) ** k for k in range(-2, 40) for sign in (-1, 1)} | {mpf(p)}
    line = sorted(grid)
    values = [height(f) for f in line]
    return [
        (line[i - 1], line[i + 1])
        for i in range(1, len(line) - 1)
        if values[i] >= values[i - 1] and values[i] >= values[i + 1]
    ]


def highest(height: Any, low: Any, high: Any) -> Any:
    """Where ``height`` is largest in (low, high), by golden section."""
    ratio = (sqrt(mpf(5)) - 1) / 2
    for _ in range(90):
        step = ratio * (high - low)
        left, right = high - step, low + step
        if height(left) < height(right):
            low = left
        else:
            high = right
    return (low + high) / 2


def _width(height: Any, top: Any) -> Any:
    step = mpf("1e-8") * (1 + abs(top))
    curvature = (height(top + step) - 2 * height(top) + height(top - step)) / step**2
    return 1 / sqrt(max(abs(curvature), mpf("1e-12")))


def _edge(height: Any, top: Any, start: Any, side: int, drop: Any = 100) -> Any:
    """How far out ``height`` is more than ``drop`` below the top."""
    step = _width(height, start)
    while height(start + side * step) > top - drop:
        step *= mpf(3) / 2
    return start + side * step


def extremes(function: Callable[[Any], Any], grid: Sequence[Any]) -> tuple[Any, Any]:
    """Least and largest value on the line, its limits 0 at both ends included, by a grid and golden sections."""
    values = [function(f) for f in grid]
    low = high = mpf(0)
    for i in range(1, len(grid) - 1):
        if values[i] >= max(values[i - 1], values[i + 1]) and values[i] > high - mpf("0.1") * abs(high):
            high = max(high, function(highest(function, grid[i - 1], grid[i + 1])))
        if values[i] <= min(values[i - 1], values[i + 1]) and values[i] < low + mpf("0.1") * abs(low):
            low = min(low, function(highest(lambda f: -function(f), grid[i - 1], grid[i + 1])))
    return low, high


def density_derivatives(log_density: LogDensity, y: Any, f: Any) -> tuple[Any, Any, Any]:
    """p(y|f) and its first two derivatives in f, numerically."""
    with mp.workdps(2 * mp.dps):
        found = [diff(lambda t: exp(log_density(y, t)), f, k) for k in range(3)]
    return +found[0], +found[1], +found[2]


__all__ = [
    "bernoulli",
    "density_derivatives",
    "derivatives",
    "expected_density",
    "expm1",
    "extremes",
    "gaussian",
    "inf",
    "mean",
    "poisson",
    "printed_poisson",
    "printed_student_constant",
    "student_constant",
    "student_t",
]
