"""The standard normal law for losses, on NumPy or CuPy; only this file calls special functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import Array, has_axes, namespace
from gpbounds.numerics.pairs import two_sum

ROOT_TWO_PI = float(np.sqrt(2.0 * np.pi))
FAR = 40.0
"""Φ(−40) and ϕ(40) are 0 in double precision."""

_Pieces = Callable[..., tuple[Array, ...]]


def cdf(x: Array) -> Array:
    """Φ(x), with a relative error of about eps·(1 + x²) in the lower tail, which is how sensitive Φ is to x.

    >>> float(cdf(np.array(0.0))), float(cdf(np.array(-np.inf)))
    (0.5, 0.0)
    """
    if namespace(x) is np:
        from scipy.special import ndtr
    else:
        from cupyx.scipy.special import ndtr
    return ndtr(x)


def density(x: Array) -> Array:
    """ϕ(x) = exp(−x²/2)/√(2π); 0 at ±∞."""
    xp = namespace(x)
    value = x * x
    value *= -0.5
    xp.exp(value, out=value)
    value /= ROOT_TWO_PI
    return value


def moment_density(x: Array) -> Array:
    """x ϕ(x); 0 at ±∞."""
    return namespace(x).clip(x, -FAR, FAR) * density(x)


@functools.cache
def nodes(power: int, n: int = 6) -> tuple[tuple[float, float], ...]:
    """Nodes x and weights w: Σ w f(x) is ∫_0^1 x^p f(x) dx for even polynomials f of degree 4n − 2.

    Gauss–Jacobi in x².  Five nodes serve f(x) = ϕ(δ+ex) + ϕ(δ−ex), e ≤ 1, to 1e-15 for every δ.

    >>> [round(sum(w * x**8 for x, w in nodes(p, 3)), 12) for p in (0, 1, 2)]  # 1/9, 1/10, 1/11
    [0.111111111111, 0.1, 0.090909090909]
    """
    from scipy.special import roots_jacobi

    beta = 0.5 * (power - 1)
    x, w = roots_jacobi(n, 0.0, beta)
    return tuple(zip(np.sqrt(0.5 * (1.0 + x)).tolist(), (w * 0.5 ** (beta + 2.0)).tolist(), strict=True))


def absolute_moment(delta: Array, e: Array, power: int) -> Array:
    """e^(−p) ∫_{−e}^{e} |t|^p ϕ(δ+t) dt for e ≤ 1: a sum of positive terms, to 1e-15.

    >>> absolute_moment(np.array([0.0]), np.array([1.0]), 0).round(6)  # Φ(1) − Φ(−1)
    array([0.682689])
    """
    total = namespace(e).zeros_like(e)
    for x, w in nodes(power, 5):
        step = x * e
        at = density(delta - step)
        step += delta
        at += density(step)
        at *= w
        total += at
    total *= e
    return total


def both_sides(delta: Array, e: Array, x: float) -> tuple[Array, Array, Array, Array]:
    """z₋ = δ − ex, z₊ = δ + ex, ϕ(z₋), ϕ(z₊) for a node x of (0, 1)."""
    step = x * e
    below, above = delta - step, delta + step
    return below, above, density(below), density(above)


def pieces(
    mask: Array,
    inside: _Pieces,
    inside_arguments: tuple[Array, ...],
    outside: _Pieces,
    outside_arguments: tuple[Array, ...],
) -> tuple[Array, ...]:
    """``inside(*inside_arguments)`` where ``mask`` holds, ``outside(*outside_arguments)`` elsewhere.

    Each function is called only with the entries where its values are used.
    """
    xp = namespace(mask)
    chosen, rest = xp.flatnonzero(mask), xp.flatnonzero(~mask)
    if rest.size == 0:
        return inside(*inside_arguments)
    if chosen.size == 0:
        return outside(*outside_arguments)
    values_inside = inside(*(xp.ravel(a)[chosen] for a in inside_arguments))
    values_outside = outside(*(xp.ravel(a)[rest] for a in outside_arguments))
    values = tuple(xp.empty(mask.shape) for _ in values_inside)
    for whole, a, b in zip(values, values_inside, values_outside, strict=True):
        flat = whole.ravel()
        flat[chosen], flat[rest] = a, b
    return values


def sum_and_rest(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b = s + t exactly, s its double; t = 0 where s overflows.

    >>> [float(part) for part in sum_and_rest(np.array(1.0), np.array(1e-17))]
    [1.0, 1e-17]
    """
    xp = namespace(*(v for v in (a, b) if has_axes(v)))
    s, t = two_sum(a, b)
    if bool(xp.isnan(t.sum())):
        t = xp.where(xp.isfinite(t), t, 0.0)
    return s, t


def ratio(x: Array, s: Array) -> Array:
    """x/s for s ≥ 0, its limit ±∞ at s = 0, and 0 for 0/0."""
    quotient = x / s
    xp = namespace(x, s)
    return xp.where(x == 0.0, 0.0, quotient) if bool(xp.isnan(quotient.sum())) else quotient
