"""Both roots of x − 1 − log x = 2γ, to a few ulp, or rounded outwards with proof."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, blockwise
from gpbounds.numerics.pairs import two_product, two_sum
from gpbounds.numerics.search import first_double
from gpbounds.rigor import exact, sign
from gpbounds.validation import extended

TERMS = 28
"""Terms of the series; the first omitted one is below 1e-19 for v ≤ 1."""
TINY, LIFT = 1e-150, 300
"""γ below TINY is scaled by 4^LIFT, so that no square of v underflows."""


def roots(gamma: ArrayLike, *, minus_one: bool = False, certified: bool = False) -> tuple[Any, ...]:
    """The roots b ≤ 1 ≤ t of x − 1 − log x = 2γ: (b, t, log b), or (b − 1, t − 1) with ``minus_one``.

    KL(N₁‖N₂) ≤ γ confines each eigenvalue of Σ₂⁻¹Σ₁ to [b, t] (L-31).  Claims L-32 (b and t are branches of Lambert's
    W, useless in float64) and L-34, γ ≥ 0; b = t = 1 at γ = 0.  With v = 2√γ: for v ≤ 1 a series gives t = 1 + w(v), b
    = 1 + w(−v); its even powers are exact, and the rounding error of v is kept.  For v > 1 Newton's method is monotone
    from 1 + v + 2γ for t and from −2γ − 1 for log b; its last step uses an exact residual.

    The relative error is at most 3e-16 for normal results (the largest measured against 60 digits is 2.8e-16, in b near
    γ = 0.3).  b underflows for γ > 353 and is 0 for γ > 372; t is inf for γ ≥ 9e307.  log b is accurate there as well.

    Parameters
    ----------
    gamma : float or array
        γ ≥ 0, in nats; inf gives the limits b = 0, t = inf, log b = −inf.
    minus_one : bool
        Return b − 1 and t − 1, which are accurate where both are tiny.
    certified : bool
        Round outwards, with a proof by Arb balls for each number: b, log b and b − 1 are the largest floats not above
        the exact value, t and t − 1 the smallest floats not below it.  About 60 µs per value.

    Returns
    -------
    (b, t, log b) or (b − 1, t − 1) : floats, or arrays of the shape of ``gamma``

    Raises
    ------
    ValueError
        for γ < 0, NaN, or values that are not numbers.

    >>> b, t, log_b = roots(0.01)
    >>> f"{b:.6f} {t:.6f} {log_b:.6f}"
    '0.813105 1.213550 -0.206895'
    >>> roots(1e-30, minus_one=True)
    (-1.9999999999999986e-15, 2.0000000000000013e-15)
    """
    g = extended("gamma", gamma)
    with np.errstate(over="ignore", under="ignore"):
        b, t, log_b, b_less, t_less = blockwise(_solve, g.ravel(), size=2**13)
    values: tuple[Float, ...] = (b_less, t_less) if minus_one else (b, t, log_b)
    if certified:
        values = _outwards(g.ravel(), values)
    return tuple(float(x[0]) if g.ndim == 0 else x.reshape(g.shape) for x in values)


def _solve(g: Float) -> tuple[Float, ...]:
    """(b, t, log b, b − 1, t − 1) of a vector."""
    near = g <= 0.25
    if near.all():
        return _near(g)
    if not near.any():
        return _far(g)
    solutions = np.empty((5, g.size))
    solutions[:, near], solutions[:, ~near] = _near(g[near]), _far(g[~near])
    return tuple(solutions)


@cache
def _coefficients() -> tuple[list[float], list[float]]:
    """a_2, a_4, ... and a_3, a_5, ... of w, from their recurrence in rational numbers."""
    a = [Fraction(0), Fraction(1)]
    for k in range(2, TERMS + 1):
        a.append((a[k - 1] - sum(j * a[j] * a[k + 1 - j] for j in range(2, k))) / (k + 1))
    return [float(x) for x in a[2::2]], [float(x) for x in a[3::2]]


def _horner(coefficients: list[float], x: Float) -> Float:
    total = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        total *= x
        total += c
    return total


def _root(g: Float) -> tuple[Float, Float]:
    """2√g as an unevaluated sum of two floats."""
    tiny = g < TINY
    x = 4.0 * np.where(tiny, np.ldexp(g, 2 * LIFT), g)
    v = np.sqrt(x)
    square, error = two_product(v, v)
    rest = ((x - square) - error) / (2.0 * np.where(v > 0.0, v, 1.0))
    return np.where(tiny, np.ldexp(v, -LIFT), v), np.where(tiny, np.ldexp(rest, -LIFT), rest)


def _near(g: Float) -> tuple[Float, ...]:
    """v ≤ 1: the series."""
    v, v_rest = _root(g)
    x = 4.0 * g
    evens, odds = _coefficients()
    even = x * _horner(evens, x)
    tail = x * _horner(odds, x)
    odd = v_rest * (1.0 + tail) + v * tail
    above, below = odd + even, even - odd
    up, down = 1.0 + v, 1.0 - v
    t = up + ((v - (up - 1.0)) + above)
    b = down + (((1.0 - down) - v) + below)
    low = v > 0.5  # here b is not accurate to its last digit
    if low.any():
        b[low] = np.where(b[low] > 0.37, _newton(b[low], g[low]), _power(b[low], g[low]))
    return b, t, below - 2.0 * g - v, below - v, v + above


def _newton(b: Float, g: Float) -> Float:
    """One Newton step for b, for b above about 0.37, where |log b| ≤ 1."""
    high, low = _log(b, g)
    return b + ((high - np.log(b)) + low) * b / (1.0 - b)


def _power(b: Float, g: Float) -> Float:
    """b ← e^(b−1−2γ), which multiplies the error by b."""
    high, low = _log(b, g)
    power = np.exp(high)
    return power + power * low


def _log(b: Float, g: Float) -> tuple[Float, Float]:
    """b − 1 − 2g as an unevaluated sum of two floats, 0 ≤ b ≤ 1."""
    first, error = two_sum(-2.0 * g, -1.0)
    total, rest = two_sum(first, b)
    return total, rest + error


def _far(g: Float) -> tuple[Float, ...]:
    """v ≥ 1: Newton's method, then one step on an exact residual."""
    beyond = 2.0 * g == np.inf
    safe = np.where(beyond, 1.0, g)
    two = 2.0 * safe
    u = 2.0 * np.sqrt(safe) + two
    for _ in range(3):
        u -= ((u - two) - np.log1p(u)) * (1.0 + 1.0 / u)
    less, error = two_sum(u, -two)
    step = ((np.log1p(u) - less) - error) * (1.0 + 1.0 / u)
    whole = 1.0 + u
    t = whole + ((1.0 - (whole - u)) + step)
    s = -two - 1.0
    for _ in range(4):
        slope = np.expm1(s)
        s -= (slope - s - two) / slope
    b = _power(_power(np.exp(s), safe), safe)
    high, low = _log(b, safe)
    solutions = (b, t, high + low, b - 1.0, u + step)
    limits = (0.0, np.inf, -np.inf, -1.0, np.inf)
    return tuple(np.where(beyond, limit, x) for limit, x in zip(limits, solutions, strict=True))


# --- outward rounding, proved by the sign of φ(x) − 2γ in Arb balls ----------------------------------------------


def _outwards(gamma: Float, start: tuple[Float, ...]) -> tuple[Float, ...]:
    """(b down, t up, log b down), or (b − 1 down, t − 1 up): the nearest safe floats to approximations ``start``.

    φ(x) = x − 1 − log x falls up to 1 and rises beyond, so x ≤ b exactly where x < 1 and φ(x) ≥ 2γ, and x ≥ t exactly
    where x > 1 and φ(x) ≥ 2γ.  A float x ≠ 1 is never a root for a float γ (log x would be algebraic), so enough bits
    settle the sign.
    """
    kinds = ((_less_one, -1), (_less_one, 1)) if len(start) == 2 else ((_ratio, -1), (_ratio, 1), (_logarithm, -1))
    rounded = [np.array(values) for values in start]
    for i, g in enumerate(gamma):
        if g == 0.0 or g == np.inf:
            continue  # exact
        for values, (excess, direction) in zip(rounded, kinds, strict=True):
            values[i] = first_double(
                partial(_beyond, excess, float(g), direction), float(values[i]), direction * math.inf
            )
    return tuple(rounded)


def _beyond(excess: Callable[[Any, Any], Any], gamma: float, direction: int, x: float) -> bool:
    """Whether x lies beyond the root in ``direction``, decided by Arb balls that exclude 0."""
    middle = 1.0 if excess is _ratio else 0.0
    if (x - middle) * direction <= 0.0:
        return False
    if math.isinf(x) or (excess is _ratio and x <= 0.0) or (excess is _less_one and x <= -1.0):
        return True  # b > 0, b − 1 > −1, and every root is finite
    if excess is _logarithm and x < -40.0 and 1 + Fraction(x) + 2 * Fraction(gamma) <= 0:
        return True  # the excess is e^x + (a number ≥ 0) > 0; e^x may be too small for any number of bits
    return sign(lambda: excess(exact(x), exact(gamma)), bits=128) > 0


def _ratio(x: Any, gamma: Any) -> Any:
    return x - 1 - x.log() - 2 * gamma


def _less_one(h: Any, gamma: Any) -> Any:
    return h - h.log1p() - 2 * gamma


def _logarithm(s: Any, gamma: Any) -> Any:
    return s.expm1() - s - 2 * gamma
