"""kl(q‖p) of two Bernoulli laws, without cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, blockwise, kind_of_caller
from gpbounds.numerics.pairs import two_product
from gpbounds.validation import broadcast, closed_unit

NEAR = 0.6
"""The series is used where |b − a|/(a + b) is at most this: a/4 <= b <= 4a."""


@kind_of_caller
def kl(q: ArrayLike, p: ArrayLike) -> Any:
    """Binary Kullback-Leibler divergence of the Bernoulli law of mean q from the one of mean p.

    kl(q‖p) = q ln(q/p) + (1−q) ln((1−q)/(1−p)) ≥ 2(p−q)², with 0 ln 0 = 0; infinite where p = 0 < q or p = 1 > q.

    Claims P-02 and P-05 (Reeb et al., §2.2).  Evaluated as D(q, p) + D(1−q, 1−p) with D(a, b) = a ln(a/b) − a + b ≥ 0,
    so that nothing cancels for p ≈ q: the error is at most 4 ulp for all doubles in [0, 1]².

    Parameters
    ----------
    q, p : float or array in [0, 1]
        They broadcast.

    Raises
    ------
    ValueError
        for numbers outside [0, 1], and for shapes that do not broadcast.

    >>> float(kl(0.02, 0.05)), float(kl(0.5, 0.5 + 1e-9))
    (0.012142960691147363, 1.9999998868722757e-18)
    """
    a, b = broadcast(q=closed_unit("q", q), p=closed_unit("p", p))
    d = b - a
    with np.errstate(all="ignore"):
        return (_excess(a, b, d) + _excess(1.0 - a, 1.0 - b, -d))[()]


def _excess(a: Float, b: Float, d: Float) -> Float:
    """D(a, b) = a ln(a/b) − a + b for a, b >= 0, d = b − a."""
    z = d / (a + b)
    square = z * z
    near = z * (d - 2.0 * a * square * _artanh_remainder(square, 36))  # ln(b/a) = 2 artanh z
    above = d - a * _log_ratio(b, a)
    below = a * (_log_ratio(a, b) - 1.0) + b
    far = np.where(d > 0.0, np.where(a == 0.0, b, above), below)
    return np.where(d == 0.0, 0.0, np.where(np.abs(z) <= NEAR, near, far))


def _log_ratio(a: Float, b: Float) -> Float:
    """ln(a/b), also where a/b overflows."""
    ratio = a / b
    return np.where(ratio < np.inf, np.log(ratio), np.log(a) - np.log(b))


def _artanh_remainder(square: Float, terms: int) -> Float:
    """(artanh z − z)/z³ = 1/3 + z²/5 + z⁴/7 + ... at z² = ``square``, cut after ``terms`` terms.

    Full accuracy needs 36 terms for z² up to 0.36, and 17 for z² up to 1/9.

    >>> round(float(_artanh_remainder(np.array(0.36), 36)) * 0.6**3 + 0.6, 12), round(float(np.arctanh(0.6)), 12)
    (0.69314718056, 0.69314718056)
    """
    total = np.zeros_like(square)
    for k in range(2 * terms + 1, 1, -2):
        total *= square
        total += 1.0 / k
    return total


# Solves kl(q‖p) = d for p >= q, for many pairs (q, d) at once.
#
# With t = ln((1−q)/(1−p)), y = 1 − e^−t = (p−q)/(1−q), r = (1−q)/q and c = d/(1−q) the equation reads
#
#     t = c + u,   u = ln(1 + ry)/r,   0 <= u <= 1.
#
# The start is within 2.2 % of t (rational in √(2qc); exact to second order at c = 0, and at c = ∞); a step of fourth
# order makes the error 1e-8, and a step of Newton 1e-16.  Where y < q/2 the terms cancel; there the unknown is y, and
# the equation is kl/(1−q) = g(ry)/r + g(−y) = c with g(x) = x − ln(1 + x), whose left-hand side is y times a sum of
# positive terms.

FAR = 800.0
"""e^−800 is 0 in double precision, so that c is cut off there."""
_BEND = 0.2
"""A constant of the start: its largest error is 2.1 %, while with 0 it would be 8.5 %."""


def rise(q: Float, rest: Float, divergence: Float) -> Float:
    """y = (p−q)/(1−q) of the upper inverse p, for one-dimensional q, ``rest`` = 1 − q and d.

    Both q and 1 − q are arguments, since either may be tiny; q must be 0 or at least 1e-300.
    """
    with np.errstate(all="ignore"):
        fixed = (divergence == 0.0) | (rest == 0.0)
        if fixed.any():
            q, rest, divergence = (np.where(fixed, 0.5, v) for v in (q, rest, divergence))
        c = np.minimum(divergence / rest, FAR)
        ratio = odds(q, rest)
        t = _start(q, c)
        y = -np.expm1(-t)
        near = y < 0.5 * q
        if near.all():
            y = _near(q, rest, c, ratio, y)
        elif not near.any():
            y = _far(q, rest, c, ratio, t, y)
        else:
            for member, solve in ((near, _near), (~near, _far)):
                at = np.flatnonzero(member)
                pair = (y[at],) if solve is _near else (t[at], y[at])
                y[at] = solve(q[at], rest[at], c[at], ratio[at], *pair)
        return np.where(fixed, 0.0, y) if fixed.any() else y


def odds(q: Float, rest: Float) -> Float:
    """r = (1−q)/q, limited to 1e-30 … 1e300; values beyond have the same effect."""
    return np.maximum(rest / np.maximum(q, 1e-300), 1e-30)


def _log_rise(q: Float, rest: Float, ratio: Float, y: Float) -> Float:
    """u = ln(1 + ry)/r = (q/(1−q)) ln(p/q), with r = ``ratio``."""
    x = ratio * y
    log = np.log1p(x)
    return np.where(ratio < 1.0, y * (log / x), q / rest * log)


def _start(q: Float, c: Float) -> Float:
    """t within 2.2 %: c + s − s²(1+q)/(6q) + ... for small s = √(2qc), about c + q ln(1/q)/(1−q) for large s."""
    root, width = np.sqrt(q), np.sqrt(2.0 * c)
    s = root * width
    bend = _BEND * s
    limit = 3.0 * q / (2.0 * root + 0.5 * (1.0 + q))
    slope = (1.0 + q) * width / (6.0 * np.maximum(root, 1e-150))
    return c + s * (1.0 + bend) / (1.0 + slope + bend + bend * s / np.maximum(limit, 1e-300))


def _far(q: Float, rest: Float, c: Float, ratio: Float, t: Float, y: Float) -> Float:
    """Two steps for t = c + u(t)."""
    for last in (False, True):
        p, left = q + rest * y, 1.0 - y
        step = ((c - t) + _log_rise(q, rest, ratio, y)) * (p / y)
        if last:
            return np.minimum(y + left * (step - 0.5 * step * step), 1.0)
        second = 0.5 * (q / p) * (left * t / y)
        third = second * (1.0 + rest * left) * (t / p) / -3.0
        t = t + t * _fourth_order(step / t, second, third)
        y = -np.expm1(-t)
    raise AssertionError


def _near(q: Float, rest: Float, c: Float, ratio: Float, y: Float) -> Float:
    """Two steps for kl/(1−q) = c in y."""
    for last in (False, True):
        x = ratio * y
        above, below = 2.0 + x, 2.0 - y
        z, w = x / above, y / below
        terms = 17 if last else 9
        g = z * (1.0 - 2.0 * z * _artanh_remainder(z * z, terms) / above)
        g += w * (1.0 + 2.0 * w * _artanh_remainder(w * w, terms) / below)
        p, left = q + rest * y, 1.0 - y
        step = (c / y - g) * (p / y) * left
        if last:
            return y + y * step
        lean, slip = rest * y / p, y / left
        first = 1.0 - lean + slip
        third = (first * first - 1.0 + lean * lean + slip * slip) / 6.0
        y = y + y * _fourth_order(step, 0.5 * first, third)
    raise AssertionError


def _fourth_order(step: Float, second: Float, third: Float) -> Float:
    """The root δ of δ + aδ² + bδ³ = ``step`` to fourth order: Newton's step corrected by a = f″/(2f′), b = f‴/(6f′).

    All are relative to the unknown, so that nothing overflows where the unknown is 1e-300.
    """
    bent: Any = second * step
    return step * (1.0 + bent) / (1.0 + 2.0 * bent + third * step * step)


# The inverse of the binary kl to the nearest few doubles: p, 1 − p and the derivatives from one solution.

SMALL = 1e-300
"""Below it q is scaled, so that (1−q)/q does not overflow."""
SCALE = 2.0**200


def nearest_inverse(q: Float, divergence: Float, upper: bool, complement: bool) -> Float:
    """`kl_inverse` of checked arrays, not certified."""
    quantity = _remaining if upper == complement else _reached
    return _flat(lambda a, b: (quantity(_solve(a, b, upper)),), q, divergence)[0]


def nearest_gradient(q: Float, divergence: Float, upper: bool) -> tuple[Float, Float]:
    """∂p/∂q and |∂p/∂d| of checked arrays."""
    in_q, in_divergence = _flat(lambda a, b: _slopes(a if upper else 1.0 - a, _solve(a, b, upper)), q, divergence)
    return in_q, in_divergence


def _flat(work: Callable[[Float, Float], tuple[Float, ...]], q: Float, divergence: Float) -> tuple[Float, ...]:
    """``work(q, divergence)`` of broadcasting arrays, in one-dimensional blocks that fit a cache."""
    q, divergence = np.broadcast_arrays(q, divergence)
    with np.errstate(all="ignore"):  # the limits divide by 0 and underflow
        parts = blockwise(work, q.reshape(-1), divergence.reshape(-1))
    return tuple(part.reshape(q.shape) for part in parts)


class _Solved(NamedTuple):
    """An upper inverse p = q + (1−q)y, 1 − q = rest + lost; q, the divergence and p are multiplied by ``scale``."""

    q: Float
    rest: Float
    lost: Any
    divergence: Float
    scale: Any
    y: Float


def _solve(q: Float, divergence: Float, upper: bool) -> _Solved:
    """The upper inverse, or for the lower one that of 1 − q.  A tiny q is scaled; where negligible it becomes 0."""
    if not upper:
        return _Solved(1.0 - q, q, 0.0, divergence, 1.0, rise(1.0 - q, q, divergence))
    scale: Any = 1.0
    rest = 1.0 - q
    lost = (1.0 - rest) - q
    tiny = (q < SMALL) & (q > 0.0)
    if tiny.any():
        scaled = tiny & (divergence < SMALL * 1e40)
        scale = np.where(scaled, SCALE, 1.0)
        q, divergence = np.where(tiny & ~scaled, 0.0, q * scale), divergence * scale
    return _Solved(q, rest, lost, divergence, scale, rise(q, rest, divergence))


def _reached(s: _Solved) -> Float:
    """p of the upper inverse, 1 − p of the lower one."""
    return (s.q + s.rest * s.y) / s.scale


def _remaining(s: _Solved) -> Float:
    """1 − p of the upper inverse, p of the lower one."""
    return s.rest * _share(s)


def _share(s: _Solved) -> Float:
    """(1−p)/(1−q) = 1 − y, or e^−c e^−u where y is not small."""
    c = np.minimum(s.divergence / s.rest, FAR)
    # c is rounded, and e^−c is sensitive to it: ``lacking`` is the rounding error, by an exact product c·rest.
    high, low = two_product(c, s.rest)
    lacking = np.where(c < FAR, (((s.divergence - high) - low) - c * s.lost) / s.rest, 0.0)
    far = np.exp(-c) * np.exp(-(_log_rise(s.q, s.rest, odds(s.q, s.rest), s.y) + lacking))
    near = (s.y < 0.5 * s.q) | (s.rest == 0.0) | (s.divergence == 0.0)
    return np.where(near, 1.0 - s.y, far)


def _slopes(risk: Float, s: _Solved) -> tuple[Float, Float]:
    """∂p/∂q and |∂p/∂d|: the latter is p(1−p)/(p−q), and the former that times logit p − logit q = ln(p/q) + c + u."""
    p, share, d = _reached(s), _share(s), s.rest * s.y
    in_divergence = (s.q + d) / s.y * share
    c = np.minimum(s.divergence / s.rest, FAR)
    log = np.where(s.q > 0.0, np.log1p(d / s.q), np.log(p) - np.log(risk))
    in_q = in_divergence * (log + (c + _log_rise(s.q, s.rest, odds(s.q, s.rest), s.y)))
    # The limits: d = 0, then q = 1, then p = 1.
    still, end = s.divergence == 0.0, s.rest == 0.0
    in_divergence = np.where(end, 0.0, np.where(still, np.where(s.q == 0.0, 1.0, np.inf), in_divergence))
    return np.where(still, 1.0, np.where(end | (share == 0.0), 0.0, in_q)), in_divergence
