"""An interval for tr log B from probes, where tr B = N is known (N-slq)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtr

from gpbounds.arrays import Float
from gpbounds.linalg.krylov import Quadrature, Tridiagonal, gauss, radau
from gpbounds.validation import open_unit, scalar

# How far the mean of z'Az over m probes z ~ N(0, I) can be from tr A (N-slqtail).
#
# A symmetric; its eigenvalues are at most ``above``, and in absolute value at most ``size``; ‖A‖_F at most ``norm``.

THIRD_MOMENT = 8.691563
"""E|g² − 1|³ for g ~ N(0, 1), rounded up."""
_BERRY_ESSEEN = 0.56
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
        skew = _BERRY_ESSEEN * THIRD_MOMENT / 2.0**1.5 * size / (math.sqrt(probes) * starts)

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


# Bounds on the extreme eigenvalues of B from Lanczos matrices of random start vectors (N-edge).

_INTERVALS = 26
"""Number of inner ends that are tried for each edge."""


def edges(T: Tridiagonal, *, delta: float) -> tuple[float, float]:
    """a ≤ λ_min(B) and b ≥ λ_max(B), each with probability at least 1 − delta, from start vectors z_j ~ N(0, I).

    With u the eigenvector of λ_min, Σ_j (uᵀz_j)² ~ χ²_m is at least its delta-quantile q with probability 1 − delta.
    Then for every polynomial g ≥ 0 of degree at most 2k − 1 at once

        g(λ_min)·q ≤ Σ_j (uᵀz_j)² g(λ_min) ≤ Σ_j z_jᵀg(B)z_j,

    and Gauss quadrature computes the right-hand side exactly.  g = T_d² of an affine map of [l, h] to [−1, 1], d < k,
    is at most cosh²(d·arcosh) outside [l, h] only where λ_min is near l.  The best of several l, h and d is valid, and
    so is a k that was chosen from the probes' values, as q depends neither on g nor on k.  The same holds for λ_max.
    A negative a is valid but useless.

    >>> rng, values = np.random.default_rng(0), np.linspace(0.5, 2.0, 200)
    >>> from gpbounds.linalg.krylov import Lanczos
    >>> run = Lanczos(lambda V: values[:, None] * V, rng.standard_normal((200, 7)))
    >>> run.advance(24)
    >>> a, b = edges(run.tridiagonal(), delta=0.001)
    >>> bool(0.45 < a <= 0.5 and 2.0 <= b < 2.05)
    True
    """
    share = scalar(open_unit, "delta", delta)
    if T.steps < 2:
        raise ValueError(f"T: expected at least 2 Lanczos steps, got {T.steps}")
    nodes = gauss(T)
    quantile = 2.0 * float(gammaincinv(0.5 * T.squares.size, share))
    low, high = (float(end) for end in _range(nodes))
    below = _outermost(nodes, quantile, T.steps - 1, low, high)
    above = _outermost(Quadrature(-nodes.points, nodes.weights), quantile, T.steps - 1, -high, -low)
    return below, -above


def _range(nodes: Quadrature) -> tuple[float, float]:
    """The least and the greatest node that has a weight."""
    points = nodes.points[nodes.weights > 0.0]
    return points.min(), points.max()


def _outermost(nodes: Quadrature, quantile: float, degree: int, low: float, high: float) -> float:
    """The best lower bound on the least eigenvalue."""
    if high - low <= 1e-6 * abs(high):  # nearly one eigenvalue: any interval around it will do
        low, high = low - 1e-6 * abs(low), high + 1e-6 * abs(high)
    width = high - low
    inner = low + width * np.concatenate([[0.0], np.geomspace(1e-4, 0.5, _INTERVALS - 1)])
    best = -np.inf
    for left in inner:
        for right in (high, high + 0.05 * width):
            half, middle = 0.5 * (right - left), 0.5 * (right + left)
            total = float((nodes.weights * _chebyshev(degree, (nodes.points - middle) / half) ** 2).sum())
            reached = np.sqrt(max(total / quantile, 1.0))
            best = max(best, middle - half * float(np.cosh(np.arccosh(reached) / degree)))
    return float(best)


def _chebyshev(degree: int, t: Float) -> Float:
    """|T_d(t)|, where t may lie outside [−1, 1]."""
    outside = np.abs(t) > 1.0
    inner = np.cos(degree * np.arccos(np.where(outside, 0.0, t)))
    return np.where(outside, np.cosh(degree * np.arccosh(np.where(outside, np.abs(t), 1.0))), np.abs(inner))


# An interval for tr log B from probes, where tr B = N is known (N-slq).

EDGE, NORM, TAIL = 0.02, 0.08, 0.44
"""Shares of δ: two edges, the Frobenius norm, two tails."""


@dataclass(frozen=True)
class TraceLog:
    """An interval for tr log B ≤ 0.

    Attributes
    ----------
    low, high : float
        The interval; low is −inf if the probes prove no a > 0.
    estimate : float
        Its centre before the tails are added.
    spread : float
        Standard error of the estimate.
    gap : float
        Width of the interval for the mean over the probes, from the two quadratures.
    least, greatest : float
        Bounds a, b on the eigenvalues of B.
    norm : float
        F̂ ≥ ‖log B − (B − I) − c₀I‖_F.
    probes : int
    """

    low: float
    high: float
    estimate: float
    spread: float
    gap: float
    least: float
    greatest: float
    norm: float
    probes: int


def trace_log(main: Tridiagonal, pilot: Tridiagonal, N: int, *, delta: float) -> TraceLog:
    """An interval that contains tr log B with probability at least 1 − delta, for B (N, N) with tr B = N.

    With A = log B − (B − I) − c₀I and f(x) = log x − (x − 1) − c₀ its function, tr log B = N·c₀ + tr A, and the mean of
    zᵀAz over the m main probes is within the two ends of its quadratures.  c₀ comes from the pilot probes, which are
    independent of the main ones.  With probability 1 − delta none of the following fails:

        a ≤ λ_min(B), λ_max(B) ≤ b                    N-edge, from the pilot                 0.02·delta each
        ‖A‖_F ≤ F̂                                     N-slqtail, s² from log²x, x log x      0.08·delta
        −ε₋ ≤ mean zᵀAz − tr A ≤ ε₊                   N-slqtail, sup f = −c₀, Λ = max|f|     0.44·delta each

    The tails increase in (F̂, Λ), so that upper bounds on them serve.  Eigenvalues of Lanczos matrices lie between λ_min
    and λ_max: where one of the main probes' is outside [a, b], an edge has failed, and [a, b] is widened to it.

    Parameters
    ----------
    main, pilot : Tridiagonal
        Of independent start vectors N(0, I).
    N : int
    delta : float
    """
    nodes, m = gauss(main), main.squares.size
    a, b = edges(pilot, delta=EDGE * delta)
    a, b = min(a, (1.0 - 1e-6) * float(nodes.points.min())), max(b, float(nodes.points.max()))
    some = gauss(pilot)
    with np.errstate(invalid="ignore", divide="ignore"):  # of nodes ≤ 0 by rounding, where a ≤ 0, too
        c0 = float((some.of(np.log) - some.of(lambda x: x - 1.0)).sum() / pilot.squares.sum())
        linear = nodes.of(lambda x: x - 1.0 + c0)
        above = nodes.of(np.log) - linear
    if a <= 0.0:
        estimate = N * c0 + float(above.mean())
        return TraceLog(-math.inf, 0.0, estimate, _error(above), math.inf, a, b, norm=math.inf, probes=m)
    lower = radau(main, a)
    below = lower.of(np.log) - linear

    def f(x: float) -> float:
        return math.log(x) - (x - 1.0) - c0

    deepest = max(-f(a), -f(b))
    size = max(deepest, abs(c0))
    squares = lower.of(lambda x: np.log(x) ** 2) - 2.0 * nodes.of(lambda x: x * np.log(x))
    squares += 2.0 * (1.0 - c0) * (nodes if c0 <= 1.0 else lower).of(np.log) + nodes.of(lambda x: (x - 1.0 + c0) ** 2)
    norm = size * math.sqrt(N)
    if b < math.exp(sum(1.0 / n for n in range(1, 2 * main.steps + 1))):
        norm = min(norm, frobenius(max(float(squares.mean()), 0.0), size, m, NORM * delta))
    over = half_width(norm, above=max(-c0, 0.0), size=size, probes=m, delta=TAIL * delta)
    under = half_width(norm, above=max(deepest, 0.0), size=size, probes=m, delta=TAIL * delta)
    ends = N * c0 + float(below.mean()), N * c0 + float(above.mean())
    return TraceLog(
        low=ends[0] - over,
        high=min(ends[1] + under, 0.0),
        estimate=0.5 * sum(ends),
        spread=_error(above),
        gap=ends[1] - ends[0],
        least=a,
        greatest=b,
        norm=norm,
        probes=m,
    )


def _error(values: Float) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.inf
