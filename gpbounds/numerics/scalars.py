"""Scalar functions of the sharper Rényi bounds, without cancellation, including the limit α = 1 (β = 1 - α = 0).

All take x >= 0 (an eigenvalue of (K - Q)/σ²) and α in (0, 1], and broadcast.  Ledger R, notation, and N-F, N-G, N-psi.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged
from gpbounds.numerics.search import halved

# Functions of log(1 + x), accurate to a few ulp also for tiny x.


def log1p_residual(x: ArrayLike) -> Any:
    """x - log(1 + x) for x > -1, to a few ulp, also for tiny x.

    With z = x/(2 + x), log(1 + x) = 2 artanh z and x - 2z = x z, so the difference is x z - 2(z³/3 + z⁵/5 + ...).

    >>> float(log1p_residual(1e-9))
    4.999999996666666e-19
    """
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        z = np.where(x == np.inf, 1.0, x / (2.0 + x))
    square = z * z
    series = np.zeros_like(z)
    for k in range(25, 1, -2):  # |z| <= 0.2: the first omitted term is below 1e-18 of the sum
        series = 1.0 / k + square * series
    small = np.abs(z) <= 0.2
    near = z * (x - 2.0 * square * series)
    with np.errstate(invalid="ignore", divide="ignore"):
        far = np.where(x == np.inf, np.inf, x - np.log1p(x))
    return np.where(small, near, far)


def entropy_residual(a: ArrayLike) -> Any:
    """(1 + a) log(1 + a) - a for a >= -1, to a few ulp, also for tiny a.

    With w = -a/(1 + a), so that log(1 + a) = -log(1 + w), it is (1 + a)(w - log(1 + w)); beyond a = 1 nothing cancels.

    >>> float(entropy_residual(-1.0)), float(entropy_residual(1e-9))
    (1.0, 4.999999998333333e-19)
    """
    a = np.asarray(a, dtype=np.float64)
    near, far = np.clip(a, -0.75, 1.0), np.where(np.abs(a) < 0.75, 0.5, a)
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.where(far > -1.0, (1.0 + far) * np.log1p(far) - far, 1.0)
    return np.where(near == a, (1.0 + near) * log1p_residual(-near / (1.0 + near)), direct)


def log1p_ratio(u: ArrayLike) -> Any:
    """log(1 + u)/u for u > -1, and its limit 1 at u = 0.

    >>> float(log1p_ratio(0.0)), round(float(log1p_ratio(1.0)), 6)
    (1.0, 0.693147)
    """
    u = np.asarray(u, dtype=np.float64)
    safe = np.where(u == 0.0, 1.0, u)
    with np.errstate(invalid="ignore"):
        return np.where(u == 0.0, 1.0, np.where(u == np.inf, 0.0, np.log1p(safe) / safe))


def scaled_log1p(x: ArrayLike, beta: ArrayLike) -> Any:
    """log(1 + βx)/β for βx > -1, and its limit x at β = 0."""
    x, beta = np.asarray(x, dtype=np.float64), np.asarray(beta, dtype=np.float64)
    return x * log1p_ratio(beta * x)


def log1p_sum_bounds(
    s: float, q: float, n: int, m: float, within: tuple[float, float] = (0.0, 0.0)
) -> tuple[float, float]:
    """Lower and upper bound on Σ log(1 + w_i) for n numbers w_i in [0, m] with Σw_i = s and Σw_i² = q; both are sharp.

    Lower: (s/t) log(1 + t), t = q/s.  The parabola aw − bw² that is 0 at 0 and touches log(1 + w) at t is below it for
    w ≥ 0, and sums to the bound; equality when each w_i is 0 or t.
    Upper: k log(1 + m) + (n − k) log(1 + u), u = (sm − q)/(nm − s), k = (s − nu)/(m − u).  The parabola that touches at
    u and meets log(1 + w) at m is above it for w ≤ m; equality when k of the w_i are m and the others u.

    Both increase in s and decrease in q; with ``within``, the errors of s and q, they use the worst ends.  The
    lower one is at least log(1 + s), the upper one at most n log(1 + s/n).

    >>> [round(v, 6) for v in log1p_sum_bounds(5.0, 13.0, 2, 3.0)]  # w = 2 and 3: log 12
    [2.463334, 2.484907]
    """
    above, least, most = s + within[0], q - within[1], q + within[1]
    if above <= 0.0 or n == 0:
        return 0.0, 0.0
    below, low = s - within[0], 0.0
    if below > 0.0:
        t = max(min(most / below, above, m), below / n)
        low = below * float(np.log1p(t)) / t
    q = min(max(least, above * above / n), above * min(above, m))  # as s²/n ≤ q ≤ s·max w
    top = min(above, m, float(np.sqrt(max(most, q))))
    if n * top - above <= 1e-12 * above:
        return low, n * float(np.log1p(above / n))
    u = max((above * top - q) / (n * top - above), 0.0)
    k = (above - n * u) / (top - u)
    return low, (n - k) * float(np.log1p(u)) + k * float(np.log1p(top))


# Scalar functions of the sharper Rényi bounds, without cancellation, including the limit α = 1 (β = 1 - α = 0).

MARGIN = 1e-9
"""Relative error of the point from which F is concave, as `_touching` computes it and proves by signs of F''."""
LONGEST = 8.0
"""The maximum of F(x)/x lies below LONGEST times that point, for every double α."""
CLOSE = 500.0 * 2.0**-53
"""Largest relative excess of a computed tangent's slope over F(x)/x at the point of contact."""


def G(x: ArrayLike, alpha: ArrayLike) -> Any:
    """G(x) = ½[log(1 + βx)/β - log(1 + x)] >= 0: a lower bound on D_α(y) per eigenvalue, for every y (R-gap, N-G).

    >>> round(float(G(1.0, 1.0)), 6)  # ½(1 - log 2)
    0.153426
    """
    x, alpha = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(alpha, dtype=np.float64))
    beta = 1.0 - alpha
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        w = -x / (1.0 + x)
        # With φ(t) = t - log(1+t) and log(1+βx) = log(1+x) + log(1+αw), all first-order terms cancel.
        phi_w = np.where(x < 1.0, log1p_residual(w), w + np.log1p(x))
        small_alpha = (alpha * phi_w - log1p_residual(alpha * w)) / beta
        near = log1p_residual(x) - np.where(beta == 0.0, 0.0, log1p_residual(beta * x) / beta)
        far = np.log1p(beta * x) / beta - np.log1p(x)
    return 0.5 * np.where(alpha < 0.5, small_alpha, np.where(beta * x < 1.0, near, far))


def F(x: ArrayLike, alpha: ArrayLike) -> Any:
    """F(x) = ½[log(1 + βx)/β + αx/(1 + βx) - log(1 + x)]: an upper bound on E_y D_α per eigenvalue (R-lem2, N-F).

    >>> round(float(F(1.0, 1.0)), 6)  # 1 - ½ log 2
    0.653426
    """
    x, alpha = np.asarray(x, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    beta = 1.0 - alpha
    # With w = αx/(1 + βx), 1 + w = (1 + x)/(1 + βx): F = ½[(α/β) log(1 + βx) + w - log(1 + w)], two positive parts.
    return 0.5 * (alpha * scaled_log1p(x, beta) + log1p_residual(alpha * x / (1.0 + beta * x)))


_Tangent = tuple[Float, Float]


def tangent(alpha: ArrayLike) -> _Tangent:
    """(x0, slope) of a line through 0 that lies above F and touches it near x0; x0 = 0 for α <= ½, infinite at α = 1.

    With proved rounding (N-tangent) the slope is at least (1 − 500·2^-53) max_x F(x)/x, and F(x) beyond x0 at least
    (1 − 1100·2^-53) times the concave majorant of F.
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    start, slope = _tangents(alpha.tobytes())
    return start.reshape(alpha.shape), slope.reshape(alpha.shape)


@lru_cache(maxsize=32)
def _tangents(packed: bytes) -> _Tangent:
    """`tangent` for orders packed into bytes, cached because planners call it many times with one α."""
    orders, index = np.unique(np.frombuffer(packed), return_inverse=True)
    start, slope = np.zeros_like(orders), np.zeros_like(orders)
    bent = (orders > 0.5) & (orders < 1.0)
    if bent.any():
        start[bent], slope[bent] = _touching(orders[bent])
    start[orders == 1.0], slope[orders == 1.0] = np.inf, 1.0
    result = start[index], slope[index]
    for values in result:
        values.flags.writeable = False
    return result


def _touching(alpha: Float) -> _Tangent:
    """(x0, slope) for ½ < α < 1, slope = F'(x0) + max{F(x0)/x0 − F'(x0), 0}·x0/x1 >= max F(x)/x for x1 <= turn <= x0.

    F is convex up to turn, concave beyond, and F(x)/x = F'(x) there at the maximum of F(x)/x alone: bisection finds it.
    """
    beta, excess = 1.0 - alpha, 2.0 * alpha - 1.0

    def bend(x: Float) -> Float:
        return beta * x * (3.0 + 3.0 * x + beta * x * x)  # F''(x) has the sign of excess - bend(x)

    turn = np.minimum(excess / (3.0 * beta), np.sqrt(excess / (3.0 * beta)))  # each is beyond it
    for _ in range(4):  # Newton's method, from above, as bend is convex
        turn = turn - (bend(turn) - excess) / (3.0 * beta * (1.0 + 2.0 * turn + beta * turn * turn))
    low, high = turn * (1.0 - MARGIN), turn * (1.0 + MARGIN)
    proved = (bend(low) * (1.0 + MARGIN / 4.0) <= excess) & (excess * (1.0 + MARGIN / 4.0) <= bend(high))
    _, x0 = halved(lambda x: F(x, alpha) < x * _derivative(x, alpha), high, LONGEST * low)
    chord, derivative = F(x0, alpha) / x0, _derivative(x0, alpha)
    slope = derivative + np.maximum(chord - derivative, 0.0) * (x0 / low)
    proved &= slope <= chord * (1.0 + CLOSE)
    if not proved.all():
        raise NotConverged(f"expected the tangent of F̂ to 500 units of rounding, it is not found for {alpha[~proved]}")
    return x0, slope


def _derivative(x: Float, alpha: Float) -> Float:
    """F'(x) = ½[1/(1 + βx) + α/(1 + βx)² − 1/(1 + x)], as a product of positive numbers."""
    falling = 1.0 / (1.0 + (1.0 - alpha) * x)
    return 0.5 * alpha * falling * (x / (1.0 + x) + falling)


def F_hat(x: ArrayLike, alpha: ArrayLike) -> Any:
    """The least concave majorant of F (N-Fhat): F if α <= ½, else a line through 0 up to its tangent point; x at α = 1.

    >>> float(F_hat(3.0, 1.0))
    3.0
    """
    x, alpha = np.asarray(x, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    start, slope = tangent(alpha)
    curve = F(x, alpha)
    return np.where(x < start, np.maximum(slope * x, curve), curve)


def psi(x: ArrayLike, alpha: ArrayLike) -> Any:
    """ψ(x) = αx/((1 + βx)(1 + x)) up to x = 1/√β, then its maximum (1 - √β)/(1 + √β) (R-lem4, N-psi).

    >>> round(float(psi(1e9, 0.5)), 4)
    0.1716
    """
    x, alpha = np.asarray(x, dtype=np.float64), np.asarray(alpha, dtype=np.float64)
    root = np.sqrt(1.0 - alpha)
    peak = alpha / (1.0 + root) ** 2
    with np.errstate(over="ignore"):
        rising = alpha * (x / (1.0 + x)) / (1.0 + (1.0 - alpha) * x)
    return np.where(root * x >= 1.0, peak, rising)


def trace_term(T: ArrayLike, n: ArrayLike, alpha: ArrayLike, *, noise: ArrayLike) -> Any:
    """g_n(T) = (αn/(2β)) log(1 + βT/(nσ²)), T/(2σ²) at α = 1.

    R-amgm: an upper bound on (α/(2β)) log|I + βΔ/σ²| for Tr Δ = T, rank Δ <= n; equality if Δ has n equal eigenvalues.

    >>> float(trace_term(4.0, 2, 1.0, noise=0.5))
    4.0
    """
    T, n, noise, alpha = (np.asarray(a, dtype=np.float64) for a in (T, n, noise, alpha))
    with np.errstate(over="ignore"):
        return 0.5 * alpha * (T / noise) * log1p_ratio((1.0 - alpha) * (T / noise) / n)


def log_det_term(d: ArrayLike, alpha: float) -> float:
    """L_det = (α/(2β)) Σ_i log(1 + βd_i), Σd_i/2 at α = 1; d = eigenvalues of (K - Q)/σ² (R-cx).

    >>> log_det_term([1.0, 3.0], 1.0)
    2.0
    """
    return float(0.5 * alpha * np.sum(scaled_log1p(d, 1.0 - alpha)))


# The convex hull of a sequence from below.


def greatest_convex_below(values: Float) -> Float:
    """The greatest convex sequence that is nowhere above ``values``.

    >>> greatest_convex_below(np.array([4.0, 4.0, 1.0, 0.5, 0.25])).tolist()
    [4.0, 2.5, 1.0, 0.5, 0.25]
    """
    corners: list[int] = []
    plain = values.tolist()
    for k, value in enumerate(plain):
        while len(corners) > 1:
            i, j = corners[-2], corners[-1]
            if (plain[j] - plain[i]) * (k - j) <= (value - plain[j]) * (j - i):
                break
            corners.pop()
        corners.append(k)
    return np.interp(np.arange(values.size), corners, values[corners])
