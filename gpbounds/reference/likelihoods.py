"""Likelihoods p(y|f), their derivatives in f and their means over f ~ N(m, v) in mpmath, by the definitions.

A likelihood is a function log p(y, f).  Derivatives are numerical, means are quadratures; nothing is simplified.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mpmath import diff, erfc, exp, gamma, log, log1p, loggamma, mp, mpf, pi, quad, sqrt

LogDensity = Callable[[Any, Any], Any]
Function = Callable[[Any], Any]
Points = Sequence[tuple[Any, Any]]
"""Where a likelihood bends, and how sharply: pairs (place, width)."""


def rate(f: Any, link: str) -> Any:
    """g(f): e^f or log(1 + e^f)."""
    return exp(f) if link == "exp" else log1p(exp(f))


def gaussian(noise: Any) -> LogDensity:
    """log N(y|f, σ²)."""
    return lambda y, f: -log(2 * pi * noise) / 2 - (y - f) ** 2 / (2 * noise)


def bernoulli(link: str) -> LogDensity:
    """log Φ(yf) or log 1/(1 + e^−yf), y ∈ {−1, 1}."""
    if link == "logit":
        return lambda y, f: -log1p(exp(-y * f))

    def probit(y: Any, f: Any) -> Any:
        tail = erfc(abs(f) / sqrt(mpf(2))) / 2
        return log1p(-tail) if y * f > 0 else log(tail)

    return probit


def poisson(link: str) -> LogDensity:
    """log g^y e^−g/y!  (D-33, D-34)."""
    return lambda y, f: (y * log(rate(f, link)) if y else 0) - rate(f, link) - loggamma(y + 1)


def printed_poisson(link: str) -> LogDensity:
    """log g^y e^{+g}/y!, as Table 1 prints it: not a density, and unbounded."""
    return lambda y, f: (y * log(rate(f, link)) if y else 0) + rate(f, link) - loggamma(y + 1)


def student_t(df: Any, scale: Any) -> LogDensity:
    """log c (1 + (y−f)²/(σ²ν))^(−(ν+1)/2)  (D-35)."""
    c = student_constant(df, scale)
    return lambda y, f: log(c) - (df + 1) / mpf(2) * log1p((y - f) ** 2 / (scale**2 * df))


def student_constant(df: Any, scale: Any) -> Any:
    """c = Γ((ν+1)/2)/(Γ(ν/2)√(πν)σ)."""
    return gamma((mpf(df) + 1) / 2) / gamma(mpf(df) / 2) / (sqrt(pi * df) * scale)


def printed_student_constant(df: Any, scale: Any) -> Any:
    """c = Γ((ν+1)/2)/(Γ(ν/2)√(πνσ)), as Table 1 prints it: the density then has mass √σ."""
    return gamma((mpf(df) + 1) / 2) / gamma(mpf(df) / 2) / sqrt(pi * df * scale)


def derivatives(log_density: LogDensity, y: Any, f: Any) -> list[Any]:
    """The first three derivatives of log p(y|f) in f."""
    with mp.workdps(4 * mp.dps):
        values = [diff(lambda t: log_density(y, t), mpf(f), k) for k in (1, 2, 3)]
    return [+d for d in values]


def density_derivatives(log_density: LogDensity, y: Any, f: Any, order: int) -> Any:
    """The derivative of p(y|f) in f of that order."""
    with mp.workdps(2 * mp.dps):
        derivative = diff(lambda t: exp(log_density(y, t)), mpf(f), order)
    return +derivative


def extremes(function: Function, grid: Sequence[Any]) -> tuple[Any, Any]:
    """Least and largest value on the line, its limits 0 at ±∞ included: the best of a grid, then golden sections."""
    values = [function(f) for f in grid]
    inner = range(1, len(grid) - 1)
    least, most = min(inner, key=lambda i: values[i]), max(inner, key=lambda i: values[i])
    low = function(highest(lambda f: -function(f), grid[least - 1], grid[least + 1]))
    high = function(highest(function, grid[most - 1], grid[most + 1]))
    return min(low, mpf(0)), max(high, mpf(0))


def expected_log_density(log_density: LogDensity, y: Any, m: Any, v: Any, points: Points = ()) -> list[Any]:
    """E log p and its derivatives in m and in v, as means of log p times the scores (f−m)/v, ((f−m)²−v)/(2v²)."""
    m, v = mpf(m), mpf(v)
    s = sqrt(v)
    reach = (16 + s) * s  # log p may grow like e^f, whose mean lies around m + v, or bend where all of it comes from
    low, high = min(m - reach, *(p - 9 * w for p, w in points)), max(m + reach, *(p + 9 * w for p, w in points))
    grid = _cuts([(m, s), *points], low, high)
    return _integrals(lambda f: log_density(y, f) * exp(-((f - m) ** 2) / (2 * v)) / sqrt(2 * pi * v), m, v, grid)


def narrowed_row(log_density: LogDensity, y: Any, m: Any, t: Any, r: Any, v: Any, points: Points = ()) -> Any:
    """E log p(y|f) for f ~ N(m, t + v·r), minus the divergence ½(v − 1 − log v) of N(·, v·r) from N(·, r)."""
    variance = mpf(t) + mpf(v) * mpf(r)
    return expected_log_density(log_density, y, m, variance, points)[0] - (mpf(v) - 1 - log(mpf(v))) / 2


def log_evidence_of_two(log_density: LogDensity, y: Any, K: Any) -> Any:
    """log ∫∫ p(y_1|f_1) p(y_2|f_2) N(f; 0, K) df for two rows, by quadrature over f = Lz."""
    L, ends = mp.cholesky(K), [-9, -4, 0, 4, 9]

    def within(z: Any) -> Any:
        rest = quad(lambda x: exp(log_density(y[1], L[1, 0] * z + L[1, 1] * x) - x * x / 2), ends)
        return rest * exp(log_density(y[0], L[0, 0] * z) - z * z / 2)

    return log(quad(within, ends) / (2 * pi))


def log_expected_density(log_density: LogDensity, y: Any, m: Any, v: Any, points: Points = ()) -> list[Any]:
    """log E p and its derivatives in m and in v, accurate relative to E p, however small E p is."""
    m, v = mpf(m), mpf(v)

    def height(f: Any) -> Any:
        return log_density(y, f) - (f - m) ** 2 / (2 * v)

    tops = [highest(height, *pair) for pair in _brackets(height, m, v, points)]
    top = max(height(t) for t in tops)
    ends = [_edge(height, top, t, side) for t in tops for side in (-1, 1)]
    grid = _cuts([*points, *((t, _width(height, t)) for t in tops)], min(ends), max(ends))
    mass, by_mean, by_variance = _integrals(lambda f: exp(height(f) - top), m, v, grid)
    return [top + log(mass) - log(2 * pi * v) / 2, by_mean / mass, by_variance / mass]


def _integrals(function: Function, m: Any, v: Any, grid: Sequence[Any]) -> list[Any]:
    """∫ function, alone and times the two scores of N(m, v); scaled, since quadrature has an absolute tolerance.

    The three quadratures share their nodes, at which the function is computed once.
    """
    function = cache(function)
    s, size = sqrt(v), max(abs(function(c)) for c in grid)
    integrals = []
    for unit, score in (
        (1, lambda z: 1),
        (s, lambda z: z),
        (v, lambda z: (z * z - 1) / 2),
    ):
        total = quad(lambda f, score=score: function(f) / size * score((f - m) / s), grid)
        integrals.append(total * size / unit)
    return integrals


def _cuts(points: Points, low: Any, high: Any) -> list[Any]:
    """Cuts of [low, high] for a quadrature: around every point, on every scale."""
    cuts = {low, high}
    for place, width in points:
        p, w = mpf(place), mpf(width)
        cuts |= {p + sign * w * mpf(3) ** k for k in range(-1, 10) for sign in (-1, 1)} | {p}
    return sorted(c for c in cuts if low <= c <= high)


def _brackets(height: Function, m: Any, v: Any, points: Points) -> list[tuple[Any, Any]]:
    """Intervals around the local maxima of ``height`` on a grid that is fine near the points and the mean."""
    grid = {m + k * sqrt(v) / 4 for k in range(-60, 61)}
    for place, width in points:
        p, w = mpf(place), mpf(width)
        grid |= {p + sign * w * mpf(2) ** k for k in range(-2, 40) for sign in (-1, 1)} | {p}
    line = sorted(grid)
    values = [height(f) for f in line]
    inner = range(1, len(line) - 1)
    return [(line[i - 1], line[i + 1]) for i in inner if values[i] >= max(values[i - 1], values[i + 1])]


def highest(height: Function, low: Any, high: Any) -> Any:
    """Where ``height`` is largest in (low, high), by golden sections."""
    ratio = (sqrt(mpf(5)) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    of_left, of_right = height(left), height(right)
    for _ in range(90):
        if of_left >= of_right:
            high, right, of_right = right, left, of_left
            left = high - ratio * (high - low)
            of_left = height(left)
        else:
            low, left, of_left = left, right, of_right
            right = low + ratio * (high - low)
            of_right = height(right)
    return (low + high) / 2


def _width(height: Function, top: Any) -> Any:
    step = mpf("1e-8") * (1 + abs(top))
    curvature = (height(top + step) - 2 * height(top) + height(top - step)) / step**2
    return 1 / sqrt(max(abs(curvature), mpf("1e-12")))


def _edge(height: Function, top: Any, start: Any, side: int, drop: Any = 100) -> Any:
    """The distance beyond which ``height`` is more than ``drop`` below its maximum."""
    step = _width(height, start)
    while height(start + side * step) > top - drop:
        step *= mpf(3) / 2
    return start + side * step
