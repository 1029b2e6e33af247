"""Hermite series of g(f) under f ~ N(m, v), for many functions g at once, by the trapezoidal rule with a proved error.

With h_k = He_k/√k!, orthonormal under N(0, 1), and s = √v,

    g(m + sz) = Σ_k a_k h_k(z),     a_k = E g(m + sz) h_k(z),     a_0 = E g,  a_1 = s E g',

and by Mehler's formula Cov(g₁(f₁), g₂(f₂)) = Σ_{k≥1} a_1k a_2k ρ^k for jointly Gaussian f with correlation ρ.  The
terms beyond k are at most |ρ|^(k+1) r₁r₂ in all, r² = Var g − Σ_{1≤j≤k} a_j² (Cauchy and Schwarz).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Float

U = 0.5 * EPS
UP = 1.01
"""Covers the rounding of the bounds on errors themselves."""
ORDER = 32
"""Largest k."""
REACH = 13.0
"""The nodes z lie within ±13."""
LEAST_STEP = 2.0**-13
"""Nodes nearer than this are not taken: there would be more than 200,000."""
CRAMER = 1.0865
"""|h_k(z)| ≤ CRAMER·e^(z²/4) for all k and z (Cramér)."""
TOGETHER = 2**18
"""Values of g that are computed at once."""


@dataclass(frozen=True, eq=False)
class Analytic:
    """What is proved of functions g, one a row, and of the program that computes them.

    Attributes
    ----------
    strip : float
        τ: each g is analytic where |Im f| < τ.
    constant, slope : arrays (n,)
        |g(x + it)| ≤ constant + slope·|x| for |t| < τ.
    first, second : arrays (n,)
        Upper bounds on |g'| and |g''| over the real line.
    rounding : float
        Error of g as it is computed, relative to its bound at f, and of g', relative to ``first``.
    proved : bool
        Whether this error is proved.
    """

    strip: float
    constant: Float
    slope: Float
    first: Float
    second: Float
    rounding: float
    proved: bool


@dataclass(frozen=True, eq=False)
class Series:
    """E g, E g' and the Hermite coefficients of order 2, 3, … of n functions g under N(m_i, v_i), with their errors.

    Attributes
    ----------
    mean, slope : arrays (n,)
        E g and E g'.
    coefficients : array (n, K)
        a_k for k = 2 … K + 1.
    rest : array (n,)
        At least the norm of the coefficients of higher order.
    mean_error, slope_error, error : arrays (n,)
        At least the errors of ``mean`` and ``slope``, and the norm of the errors of the coefficients.
    first, second : arrays (n,)
        If m and √v change by at most μ and d, g changes by at most first·(μ + stretch·d) in L², and E g' by at most
        second·(μ + stretch·d); s·first is at least √(Σ k a_k²).
    stretch : float
    proved : bool
        Whether the errors are proved.
    """

    mean: Float
    slope: Float
    coefficients: Float
    rest: Float
    mean_error: Float
    slope_error: Float
    error: Float
    first: Float
    second: Float
    stretch: float
    proved: bool

    @classmethod
    def joined(cls, parts: Sequence[Series]) -> Series:
        """The series of all rows; coefficients that a part has left out are 0, and their norm is in its rest."""
        width = max(part.coefficients.shape[1] for part in parts)
        padded = [np.pad(part.coefficients, ((0, 0), (0, width - part.coefficients.shape[1]))) for part in parts]

        def whole(name: str) -> Float:
            return np.concatenate([getattr(part, name) for part in parts])

        names = ("rest", "mean_error", "slope_error", "error", "first", "second")
        rows = {name: whole(name) for name in ("mean", "slope", *names)}
        stretch, proved = max(part.stretch for part in parts), all(part.proved for part in parts)
        return cls(coefficients=np.concatenate(padded), stretch=stretch, proved=proved, **rows)

    @property
    def norms(self) -> Float:
        """The norm of the coefficients of order 2 and higher, rounded up."""
        return np.asarray(UP * (np.sqrt((self.coefficients**2).sum(axis=1)) + self.rest + self.error))


Derivatives = Callable[[Float, Float], tuple[Float, Float]]


@functools.lru_cache(maxsize=32)
def _table(step: float) -> tuple[Float, Float]:
    """Nodes z (n,), multiples of ``step`` within `REACH`, and step·φ(z)h_k(z) for k = 0 … ORDER, shape (n, ORDER + 1).

    They are computed with 60 digits, of which the recursion costs less than 23: its errors grow by at most
    Π_k (13 + √k)/√(k + 1).  So each entry is rounded once.
    """
    from mpmath import mp, mpf

    half = int(REACH / step)
    rows = []
    with mp.workdps(60):
        roots = [mp.sqrt(k) for k in range(ORDER + 1)]
        for j in range(half + 1):
            z = mpf(step) * j
            before, here = mpf(0), mpf(step) * mp.npdf(z)
            row = [here]
            for k in range(1, ORDER + 1):
                before, here = here, (z * here - roots[k - 1] * before) / roots[k]
                row.append(here)
            rows.append([float(entry) for entry in row])
    upper = np.array(rows)
    signs = (-1.0) ** np.arange(ORDER + 1)
    z = np.asarray(step * np.arange(-half, half + 1), dtype=np.float64)
    return z, np.concatenate([(signs * upper[1:])[::-1], upper])


def _laguerre(d: float) -> float:
    """√L_ORDER(−d²) ≥ √(E|h_k(z + id)|²) for k ≤ ORDER, L the Laguerre polynomial: E|h_k(z + id)|² = L_k(−d²)."""
    return UP * math.sqrt(sum(math.comb(ORDER, j) * d ** (2 * j) / math.factorial(j) for j in range(ORDER + 1)))


def _rule(strip: float, widest: float) -> tuple[float, float]:
    """For a strip of z of half-width d the step, and the factor 2e^(d²/2)√L/(e^(2πd/step) − 1) of the error."""
    d = min(strip / max(widest, 1e-300), 3.0)
    growth = 0.5 * d * d + math.log(_laguerre(d))
    step = min(2.0 * math.pi * d / (42.0 + growth), 0.25)
    if step < LEAST_STEP:
        raise ValueError(f"v: expected variances of f below {(800.0 * strip) ** 2:.3g}, got {widest**2:.3g}")
    mantissa, power = math.frexp(step)
    step = math.ldexp(math.floor(8.0 * mantissa) / 8.0, power)  # nodes are exact doubles, and tables serve many calls
    factor = math.exp(math.log(2.0) + growth - 2.0 * math.pi * d / step) * 1.01
    return step, factor


def hermite_series(function: Derivatives, y: Float, m: Float, v: Float, known: Analytic) -> Series:
    """The `Series` of g = ``function(y, f)[0]`` and g' = ``function(y, f)[1]``, for rows y, m and v > 0 of one length.

    Claim N-hermite.  Proof of the errors.  With F(z) = g(m + sz)h_k(z)φ(z) the trapezoidal rule with step η errs by at
    most 2M/(e^(2πd/η) − 1), M ≥ ∫|F(x + it)|dx for |t| < d (Trefethen and Weideman 2014, theorem 5.1), and
    |φ(x + it)| ≤ φ(x)e^(d²/2).  Cauchy and Schwarz: M² ≤ e^(d²) E|g|² E|h_k|², whose second factor is L_k(−d²), and
    E|g|² ≤ (c + b(|m| + s))², sd ≤ ½τ.  g' is at most 2/τ times the bound of g at a distance of ½τ (Cauchy).  For g²,
    M ≤ e^(d²/2)·2[(c + b|m|)² + b²s²].  Nodes beyond z = 13 add at most .9e^(−13²/4)(c + b(|m| + 13s)) (Cramér).  A sum
    of n products has the relative error γ_(n+2) of the sum of their absolute values, ≤ √(E g²)√(E h_k²); an argument
    m + sz is off by u(|m| + 3s|z|), times sup|g'|.  QED

    >>> known = Analytic(1.0, np.zeros(1), np.ones(1), np.ones(1), np.zeros(1), 1e-15, True)
    >>> series = hermite_series(lambda y, f: (f, 1.0 + 0.0 * f), np.zeros(1), np.full(1, 2.0), np.ones(1), known)
    >>> series.mean.round(12), series.slope.round(12), bool(series.norms[0] < 1e-5)
    (array([2.]), array([1.]), True)
    """
    s = np.sqrt(v)
    step, factor = _rule(0.5 * known.strip, float(s.max(initial=0.0)))
    z, weights = _table(step)
    n, count = m.size, z.size
    coefficients, slope, square = np.empty((n, ORDER + 1)), np.empty(n), np.empty(n)
    rows = max(1, TOGETHER // count)
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        f = m[part, None] + s[part, None] * z
        value, first = function(np.broadcast_to(y[part, None], f.shape), f)
        coefficients[part] = value @ weights
        slope[part] = first @ weights[:, 0]
        square[part] = (value * value) @ weights[:, 0]
    size = known.constant + known.slope * (np.abs(m) + s)
    steep = (size + 0.5 * known.strip * known.slope) / (0.5 * known.strip)
    tail = math.exp(-0.25 * REACH**2)
    missed = 0.9 * tail * (known.constant + known.slope * (np.abs(m) + REACH * s))
    relative = UP * (count + 4.0) * U
    shifts = U * (np.abs(m) + 4.0 * s)
    own = UP * (relative * np.sqrt(square) + known.rounding * size + known.first * shifts + factor * size + missed)
    slope_error = UP * ((relative + known.rounding) * known.first + known.second * shifts + factor * steep)
    slope_error += 2.0 * missed / known.strip + known.slope * tail
    wide = 2.0 * (known.constant + known.slope * np.abs(m)) ** 2 + 2.0 * (known.slope * s) ** 2
    of_square = 2.0 * relative * square + 2.0 * np.sqrt(square) * (known.first * shifts + known.rounding * size)
    of_square += (factor + tail) * wide * (1.0 + REACH**2)
    gathered = UP * math.sqrt(ORDER + 1.0) * own
    norm = np.sqrt((coefficients**2).sum(axis=1))
    left = square - norm * norm + of_square + gathered * (2.0 * norm + gathered) + 4.0 * (ORDER + 4.0) * U * square
    kept = _kept(coefficients)
    beyond = (coefficients[:, kept:] ** 2).sum(axis=1)
    rest = UP * np.sqrt(np.maximum(left, 0.0) + beyond)
    return Series(
        coefficients[:, 0], slope, coefficients[:, 2:kept], rest, own, slope_error, gathered, known.first,
        known.second, 1.0, known.proved,
    )  # fmt: skip


def exponential_series(y: Float, m: Float, v: Float) -> Series:
    """The `Series` of g = y − e^f in closed form: a_k = −e^(m + v/2)s^k/√k! for k ≥ 1 (N-hermite).

    The rest beyond k has the square e^(2m + v)Σ_{j>k}v^j/j!.  exp errs by 4 units in the last place at most, its
    argument by u(2|m| + 2v).  Where m and s change by μ and d ≤ 0.01, e^f changes in L² by at most
    e^(m + v)(μ + (2s + 1)d) and a hundredth of it, as e^(2f) turns N(0, 1) into N(2s, 1).

    >>> series = exponential_series(np.array([3.0]), np.array([0.0]), np.array([1.0]))
    >>> bool(abs((series.coefficients**2).sum() - np.e * (np.e - 2.0)) < 1e-12)
    True
    """
    s, rate = np.maximum(np.sqrt(v), 1e-150), np.exp(m + 0.5 * v)
    widest = float(v.max(initial=0.0))
    order = next(k for k in range(2, 10**6) if k > 3.0 * widest and k * math.log(k / (math.e * widest + 1e-300)) > 45.0)
    orders = np.arange(2, order + 1)
    logs = np.log(s)[:, None] + np.cumsum(np.log(s)[:, None] - 0.5 * np.log(orders), axis=1)
    coefficients = -rate[:, None] * np.exp(logs)
    relative = U * (2.0 * np.abs(m) + 2.0 * v + 10.0)
    rest = UP * rate * np.exp(0.5 * v + (order + 1.0) * np.log(s) - 0.5 * math.lgamma(order + 2.0))
    size = np.exp(m + v)
    in_logs = U * (8.0 + order * (order + 4.0) * (np.abs(np.log(s)) + math.log(order)))
    own, error = UP * (relative * rate + U * np.abs(y)), UP * (relative + in_logs) * size
    stretch = 2.0 * math.sqrt(widest) + 1.0
    slope_error, steep = UP * relative * rate, UP**2 * size
    return Series(y - rate, -rate, coefficients, rest, own, slope_error, error, steep, steep, stretch, True)


def linear_series(mean: Float, slope: float) -> Series:
    """The `Series` of functions with the constant derivative ``slope``, whose means are ``mean`` to a few roundings."""
    zero = np.zeros_like(mean)
    steep, own = zero + UP * abs(slope), 4.0 * U * np.abs(mean)
    return Series(
        mean, zero + slope, np.zeros((mean.size, 0)), zero, own, 4.0 * U * steep, zero, steep, zero, 1.0, True
    )


def _kept(coefficients: Float) -> int:
    """How many columns to keep: in each row the norm of the others is below 1e-8 of those from 2 on, or below 1e-13."""
    squares = coefficients[:, 2:] ** 2
    later = np.cumsum(squares[:, ::-1], axis=1)[:, ::-1]
    needed = (later > 1e-16 * later[:, :1] + 1e-26).any(axis=0) if later.size else np.zeros(0, dtype=bool)
    return 2 + int(needed.sum())
