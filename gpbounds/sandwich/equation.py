"""Both roots of x − 1 − log x = 2γ, to a few ulp, or rounded outwards by balls."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds import validation
from gpbounds.arrays import Float, as_number, blockwise, kind_of_caller
from gpbounds.numerics.pairs import two_product, two_sum
from gpbounds.overflow import within_doubles
from gpbounds.sandwich.balls import outer_end
from gpbounds.validation import extended, flag, rigor_of

TERMS = 28
"""Terms of the series; the first omitted one is below 1e-19 for v ≤ 1."""
TINY, LIFT = 1e-150, 300
"""γ below TINY is scaled by 4^LIFT, so that no square of v underflows."""


@kind_of_caller
def roots(gamma: ArrayLike, *, minus_one: bool = False, rigor: str = "auto") -> tuple[Any, ...]:
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
    rigor : "auto", "float" or "sharp"
        "sharp" rounds outwards, by construction: b, log b and b − 1 are the largest floats not above the exact value, t
        and t − 1 the smallest floats not below it, decided in Arb balls by the interval Newton method.  About 0.2 ms
        per value.

    Returns
    -------
    (b, t, log b) or (b − 1, t − 1) : floats, or arrays of the shape of ``gamma``

    Raises
    ------
    ValueError
        for γ < 0, NaN, values that are not numbers, or another ``rigor``.

    >>> b, t, log_b = roots(0.01)
    >>> f"{b:.6f} {t:.6f} {log_b:.6f}"
    '0.813105 1.213550 -0.206895'
    >>> roots(1e-30, minus_one=True)
    (-1.9999999999999986e-15, 2.0000000000000013e-15)
    """
    g = extended("gamma", gamma)
    flag("minus_one", minus_one)
    if rigor_of(rigor) == "sharp":
        names = ("low_less_one", "high_less_one") if minus_one else ("low", "high", "log_low")
        return tuple(as_number(outer_end(name, g)) for name in names)
    with np.errstate(over="ignore", under="ignore"):
        b, t, log_b, b_less, t_less = blockwise(_solve, g.ravel(), size=2**13)
    values: tuple[Float, ...] = (b_less, t_less) if minus_one else (b, t, log_b)
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


# Elementary bounds on both roots of x − 1 − log x = 2γ.


@kind_of_caller
@within_doubles
def explicit(gamma: ArrayLike, *, form: str = "sharpest") -> tuple[Any, Any, Any, Any]:
    """Elementary bounds (b_low, b_high, t_low, t_high) on the roots b ≤ 1 ≤ t of x − 1 − log x = 2γ.

    With v = 2√γ, exp(x − 1 − 2γ) at x = max(0, 1 − v) and x = e^(−v) encloses b, and 1 + 2γ + log x at x = 1 + v + v²/3
    and x = 1 + v + min(v²/2, v²/3 + v³/36) encloses t: all four agree with b and t to first order in v, and in ratio as
    γ → ∞.  ``form="printed"`` is footnote 2 of Prop. 4: max(1 − 2√γ, e^(−1−2γ)) ≤ b ≤ 1 and 1 ≤ t ≤ 1 + max(√(8γ), 8γ),
    which are wider.  For accurate numbers use :func:`roots`.

    The proof is that of L-33.

    Parameters
    ----------
    gamma : float or array
        γ ≥ 0, in nats.
    form : "sharpest" or "printed"

    Raises
    ------
    ValueError
        for γ < 0, NaN or infinity, or another form.

    >>> [round(x, 4) for x in explicit(0.01)]
    [0.8025, 0.8177, 1.2134, 1.2136]
    >>> [round(x, 4) for x in explicit(0.01, form="printed")]
    [0.8, 1.0, 1.0, 1.2828]
    """
    g = validation.non_negative("gamma", gamma)
    v = 2.0 * np.sqrt(g)
    if validation.choice("form", form, ("sharpest", "printed")) == "printed":
        ones = np.ones_like(g)
        bounds = (
            np.maximum(1.0 - v, np.exp(-1.0 - 2.0 * g)),
            ones,
            ones,
            1.0 + np.maximum(np.sqrt(8.0) * v / 2.0, 8.0 * g),
        )
    else:
        with np.errstate(over="ignore"):
            two = 2.0 * g
        least, most = v + v * v / 3.0, v + np.minimum(two, two / 1.5 + v / 9.0 * g)
        bounds = (
            np.exp(-two - np.minimum(1.0, v)),
            np.exp(np.expm1(-v) - two),
            1.0 + (two + np.log1p(least)),
            1.0 + (two + np.log1p(most)),
        )
    return tuple(float(x) if g.ndim == 0 else x for x in bounds)  # type: ignore[return-value]
