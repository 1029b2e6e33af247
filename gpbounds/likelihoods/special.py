"""The special functions of likelihoods, accurate in their tails, on NumPy or CuPy arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
HAZARD = math.sqrt(2.0 / math.pi)
UNDERFLOW = -700.0
"""Below it e^f is so small that doubles lose accuracy."""


def scipy_special(x: Array) -> Any:
    """``scipy.special``, or ``cupyx.scipy.special`` for CuPy arrays."""
    if namespace(x) is np:
        import scipy.special as module
    else:
        import cupyx.scipy.special as module
    return module


def softplus(f: Array) -> Array:
    """log(1 + e^f)."""
    xp = namespace(f)
    return xp.maximum(f, 0.0) + xp.log1p(xp.exp(-xp.abs(f)))


def sigmoid(f: Array) -> Array:
    """1/(1 + e^−f), relatively accurate in the lower tail."""
    xp = namespace(f)
    q = xp.exp(-xp.abs(f))
    return xp.where(f > 0.0, 1.0, q) / (1.0 + q)


def log_softplus(f: Array, g: Array) -> Array:
    """log g, g = log(1 + e^f): f itself where g underflows."""
    xp = namespace(f)
    logarithm = xp.log(g)
    return xp.where(f < UNDERFLOW, f, logarithm) if bool((f < UNDERFLOW).any()) else logarithm


def softplus_parts(f: Array) -> tuple[Array, Array, Array, Array, Array]:
    """g = log(1 + e^f), σ, 1 − σ, r = σ/g = (log g)' and (log g)'' = −r(r − 1 + σ), each to full relative accuracy.

    r − 1 + σ = e^−g(e^g − 1 − g)/g, without cancellation, and e^−g = 1 − σ.  Below `UNDERFLOW` the values at
    `UNDERFLOW` are returned.
    """
    xp = namespace(f)
    f = xp.maximum(f, UNDERFLOW)
    q = xp.exp(-xp.abs(f))
    g = xp.maximum(f, 0.0) + xp.log1p(q)
    inverse = 1.0 / (1.0 + q)
    upper = f > 0.0
    up, down = xp.where(upper, inverse, q * inverse), xp.where(upper, q * inverse, inverse)
    ratio = up / g
    return g, up, down, ratio, -ratio * xp.where(g < 1.0, bend(g) * down, 1.0 - (1.0 + g) * down) / g


def softplus_third(f: Array, y: Array) -> Array:
    """The third derivative of y log g − g, to the accuracy of its terms: r'' = r'(1 − σ − r) − r(σ(1 − σ) + r')."""
    _, up, down, ratio, curve = softplus_parts(f)
    lean = curve / ratio  # 1 − σ − r
    return y * (curve * lean - ratio * (up * down + curve)) - up * down * (down - up)


def bend(t: Array) -> Array:
    """e^t − 1 − t ≥ 0, by its series for |t| < 0.03.

    >>> float(bend(np.array(1e-6)))
    5.000001666667084e-13
    """
    xp = namespace(t)
    series = t * t * (0.5 + t * (1 / 6 + t * (1 / 24 + t * (1 / 120 + t * (1 / 720 + t * (1 / 5040 + t / 40320))))))
    return xp.where(xp.abs(t) < 0.03, series, xp.expm1(t) - t)


def log_factorial_excess(y: Array) -> Array:
    """log y! − (y log y − y) ≥ 0, which is ½ log 2πy + 1/(12y) − … ; 0 at y = 0.

    >>> round(float(log_factorial_excess(np.array(3.0))), 12)  # log 6 − 3 log 3 + 3
    1.495922603224
    """
    xp = namespace(y)
    large = xp.maximum(y, 15.0)
    inverse = 1.0 / large
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    stirling = 0.5 * xp.log(large) + HALF_LOG_TWO_PI + series
    small = xp.minimum(xp.maximum(y, 1.0), 15.0)
    direct = scipy_special(y).gammaln(small + 1.0) - small * xp.log(small) + small
    return xp.where(y < 1.0, 0.0, xp.where(y < 15.0, direct, stirling))


def log_rate_solution(z: Array) -> Array:
    """The l with e^l + l = z, that is log W₀(e^z), by Newton's method from above.

    >>> round(float(log_rate_solution(np.array(np.e + 1.0))), 15)
    1.0
    """
    xp = namespace(z)
    root = xp.where(z > 1.0, xp.log(xp.maximum(z, 1.0)), z)
    for _ in range(6):
        power = xp.exp(root)
        root = root - (power + root - z) / (1.0 + power)
    return root


def log_cdf(f: Array) -> Array:
    """log Φ(f)."""
    return scipy_special(f).log_ndtr(f)


def mills(f: Array) -> tuple[Array, Array, Array]:
    """(log Φ)', (log Φ)'' and (log Φ)''' at f, relatively accurate in the lower tail.

    With x = −f: M = ϕ/Φ = x + e, e = 1/(x + c), c = 2/(x + d), d = 3/(x + 4/(x + …)).  Then (log Φ)'' = −Me and
    (log Φ)''' = M(e² + Me − 1) = 2Me(d − c)/((x + c)(x + d)), without cancellation.

    >>> [float(f"{part:.12g}") for part in mills(np.array(-1e8))]
    [100000000.0, -1.0, 2e-24]
    """
    xp = namespace(f)
    M = HAZARD / scipy_special(f).erfcx(-xp.maximum(f, -6.0) / math.sqrt(2.0))
    bounded = xp.clip(f, -1e150, 1e150)  # the third derivative is 0 beyond
    near = (M, -M * (f + M), M * ((bounded + M) * (bounded + 2.0 * M) - 1.0))
    low = f < -6.0
    if not bool(low.any()):
        return near
    x = xp.maximum(-f, 6.0)
    tail = 0.0 * x
    for k in range(24, 3, -1):
        tail = k / (x + tail)
    d = 3.0 / (x + tail)
    c = 2.0 / (x + d)
    e = 1.0 / (x + c)
    within = xp.minimum(x, 1e150)
    far = (x + e, -(x + e) * e, 2.0 * (within + e) * e * (d - c) / ((within + c) * (within + d)))
    first, second, third = (xp.where(low, a, b) for a, b in zip(far, near, strict=True))
    return first, second, third
