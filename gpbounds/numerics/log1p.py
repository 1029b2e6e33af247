"""Functions of log(1 + x), accurate to a few ulp also for tiny x."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def log1p_residual(x: ArrayLike) -> Any:
    """x - log(1 + x) for x > -1, to a few ulp, also for tiny x.

    With z = x/(2 + x), log(1 + x) = 2 artanh z and x - 2z = x z, so the difference is x z - 2(z³/3 + z⁵/5 + ...).

    >>> float(log1p_residual(1e-9))
    4.999999996666666e-19
    """
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore"):
        z = x / (2.0 + x)
    square = z * z
    series = np.zeros_like(z)
    for k in range(25, 1, -2):  # |z| <= 0.2: the first omitted term is below 1e-18 of the sum
        series = 1.0 / k + square * series
    small = np.abs(z) <= 0.2
    near = z * (x - 2.0 * square * series)
    with np.errstate(invalid="ignore", divide="ignore"):
        far = x - np.log1p(x)
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
    return np.where(u == 0.0, 1.0, np.log1p(safe) / safe)


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

    Both increase in s and decrease in q: ``within`` are the errors of s and q, for which the bounds allow.  The lower
    one is at least log(1 + s), the upper one at most n log(1 + s/n).

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
