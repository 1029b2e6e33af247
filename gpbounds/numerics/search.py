"""The first whole number, or the first double near a guess, for which a monotone statement holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NotConverged

_SECTIONS = 48
"""Intervals that `last_above` evaluates in one vectorised round."""
STEPS = 64
"""Number of doubles that `first_double` tries."""


def least(holds: Callable[[int], bool], first: int, highest: float = math.inf, share: float = 0.0) -> int | None:
    """The least n in first ... highest with holds(n), for a monotone ``holds`` (once true, always true); None if none.

    The search doubles (`upward`), then bisects (`bisected`), so it evaluates nothing far beyond the answer.

    >>> least(lambda n: n * n >= 50, 0), least(lambda n: n * n >= 50, 0, 7)
    (8, None)
    """
    bracket = upward(holds, first, highest)
    return None if bracket is None else bisected(holds, *bracket, share)


def upward(holds: Callable[[int], bool], first: int, highest: float = math.inf) -> tuple[int, int] | None:
    """(last value that does not hold, next value) of first, 2·first, 4·first, ..., highest, for a monotone ``holds``.

    If first holds, the lower value is first − 1.  The result is None if highest does not hold.  After 0 comes 1.

    >>> upward(lambda n: n * n >= 50, 1)
    (4, 8)
    """
    low, high = first - 1, first
    while not holds(high):
        if high == highest:
            return None
        low, high = high, int(min(max(2 * high, 1), highest))
    return low, high


def bisected(holds: Callable[[int], Any], low: int, high: int, share: float = 0.0) -> int:
    """The least n in low + 1 ... high with holds(n), for a monotone ``holds`` that is true at high.

    With ``share`` the search stops at a relative error of ``share`` in n.

    >>> bisected(lambda n: n * n >= 50, 4, 8)
    8
    """
    while high - low > max(1, share * high):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def least_decreasing(value: Callable[[int], float], target: float, first: int, highest: int, guess: int) -> int | None:
    """The least n in first ... highest with value(n) ≤ target, for a decreasing ``value`` ≥ 0; None if there is none.

    Two evaluations if ``guess`` is right; else the search follows secants of log(value), at most to half or twice a
    number while the answer lies beyond all that were tried, and every third step halves what lies between two.

    >>> least_decreasing(lambda n: 0.5**n, 1e-3, 0, 99, 30), least_decreasing(lambda n: 0.5**n, 1e-3, 0, 7, 3)
    (10, None)
    """
    low, high, n = first - 1, highest + 1, guess
    logs: dict[int, float] = {}
    while high - low > 1:
        n = min(max(n, low + 1), high - 1)
        at = value(n)
        logs[n] = math.log(at) - math.log(target) if at > 0.0 else -math.inf
        low, high = (low, n) if at <= target else (n, high)
        if len(logs) == 1:
            n += -1 if high == n else 1
            continue
        between = low in logs and high in logs
        nearest, farthest = (low, high) if between else (high // 2, high) if high in logs else (low, max(2 * low, 1))
        one, two = (low, high) if between else list(logs)[-2:]
        slope = (logs[two] - logs[one]) / (two - one)
        if -math.inf < slope < 0.0 and (len(logs) % 3 or not between):
            n = math.ceil(min(max(one - logs[one] / slope, nearest), farthest))
        else:
            n = (low + high) // 2 if between else nearest if high in logs else farthest
    return None if high > highest else high


def least_each(holds: Callable[[Float], Any], low: Float, high: Float) -> Float:
    """For each entry the least whole n in low ... high with holds(n), for a monotone ``holds``; high if there is none.

    >>> least_each(lambda n: n * n >= np.array([50.0, 5.0, 1e9]), np.zeros(3), np.full(3, 20.0))
    array([ 8.,  3., 20.])
    """
    while (low < high).any():
        n = np.floor(0.5 * (low + high))
        true = holds(n)
        low, high = np.where(true | (low >= high), low, n + 1.0), np.where(true & (low < high), n, high)
    return low


def last_above(majorant: Callable[[Float, Float], Float], low: int, high: int, target: float) -> int | None:
    """The largest m in low ... high with majorant(m, m) > target, None if there is none.

    ``majorant(a, b)`` is at least majorant(m, m) for every m in a ... b, for each entry.  The search drops the
    intervals whose majorant is <= target, and splits the others from the right.  For a decreasing function it is a
    search in SECTIONS parts.
    """
    edges = np.unique(np.rint(np.linspace(low, high + 1, _SECTIONS + 1)))
    if high > 64 * low:
        edges = np.unique(np.concatenate([edges, np.rint(np.geomspace(low, high + 1, _SECTIONS + 1))]))
    first, last = edges[:-1], edges[1:] - 1
    for i in np.flatnonzero(majorant(first, last) > target)[::-1]:
        if first[i] == last[i]:
            return int(first[i])
        position = last_above(majorant, int(first[i]), int(last[i]), target)
        if position is not None:
            return position
    return None


def first_double(holds: Callable[[float], bool], guess: float, outward: float) -> float:
    """The first double towards ``outward`` (±∞) for which ``holds`` is true, from a guess a few doubles away.

    Raises
    ------
    NotConverged
        if it is not among the 64 doubles next to the guess.

    >>> first_double(lambda x: x * x >= 2.0, 1.414213562373094, math.inf)
    1.4142135623730951
    """
    inward, x = holds(guess), guess
    for _ in range(STEPS):
        following = math.nextafter(x, -outward if inward else outward)
        if holds(following) != inward:
            return x if inward else following
        x = following
    raise NotConverged(f"expected the result within {STEPS} doubles of its approximation {guess!r}, found none")


# Roots and extrema of functions of one variable, for each entry of an array: Newton, bisection, golden section.

_GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)

Part = Any
"""The entries that are not solved yet: a slice, or an array of their indices."""


def newton(
    slopes: Callable[[Array, Part], tuple[Array, Array]],
    low: Array,
    high: Array,
    start: Array,
    *,
    close: float,
    rounds: int,
    sought: str,
) -> Array:
    """The maximiser of concave functions h between the vectors ``low`` and ``high``, which are overwritten.

    ``slopes(x, part)`` returns h'(x) and −h''(x) > 0 for a part of the entries.  The method takes Newton steps on h'
    from ``start``; every fourth step, and each step that would leave the bracket, is a bisection.  It stops if h'² ≤
    close·(−h''), so that h is within about half of ``close`` of its maximum, or if the bracket is empty.

    Raises
    ------
    NotConverged
        if some entry is not solved after ``rounds`` steps; ``sought`` names the result in the message.

    >>> y = np.array([0.5, 3.0])  # h = xy − cosh x
    >>> x = newton(
    ...     lambda x, part: (y[part] - np.sinh(x), np.cosh(x)),
    ...     np.zeros(2), np.full(2, 5.0), np.zeros(2), close=1e-20, rounds=99, sought="the peak",
    ... )
    >>> np.sinh(x).round(9)
    array([0.5, 3. ])
    """
    xp = namespace(low)
    x, active = start.copy(), xp.arange(start.size)
    part: Part = slice(None)
    for k in range(rounds):
        point = x[part]
        slope, curve = slopes(point, part)
        lower, upper = xp.where(slope >= 0.0, point, low[part]), xp.where(slope <= 0.0, point, high[part])
        low[part], high[part] = lower, upper
        step = point + slope / curve
        inside = (step > lower) & (step < upper) & (k % 4 < 3)
        done = (slope * slope <= close * curve) | (lower >= upper)
        x[part] = xp.where(done, point, xp.where(inside, step, 0.5 * (lower + upper)))
        part = active = active[~done]
        if active.size == 0:
            return x
    raise NotConverged(f"expected {sought} after {rounds} steps, {active.size} of {x.size} were not found")


def false_position(
    values: Callable[[Array, Part], Array],
    low: Array,
    high: Array,
    at_high: Array,
    *,
    close: float,
    rounds: int,
    sought: str,
) -> Array:
    """For each entry a root of a continuous function below ``high``, where its value ``at_high`` is not negative.

    ``values(x, part)`` is the function at x for a part of the entries; no derivative is needed.  The search begins at
    ``low``, and moves down by twice the width of the bracket as long as the function is not negative there.  Each later
    step is one of false position, in which an end that stays a second time counts half (Illinois), or a bisection where
    an end is infinite.  An entry is solved where the absolute value is at most ``close``, or where no double is left
    between the ends.

    Raises
    ------
    NotConverged
        if some entry is not solved after ``rounds`` steps; ``sought`` names the result in the message.

    >>> y, low, high = np.array([0.5, 3.0]), np.full(2, 1.5), np.full(2, 2.0)
    >>> x = false_position(
    ...     lambda x, part: np.exp(x) + x - y[part], low, high, np.exp(high) + high - y,
    ...     close=1e-12, rounds=99, sought="the root",
    ... )
    >>> (np.exp(x) + x).round(9)
    array([0.5, 3. ])
    """
    xp = namespace(low)
    x, active, a, b = high.copy(), xp.arange(high.size), low, high
    at_a, at_b = xp.full(a.shape, -float("inf")), at_high
    side, moving = xp.zeros(a.shape), xp.ones(a.shape, dtype=bool)  # moving: the function at ``a`` is not known yet
    done = xp.abs(at_b) <= close
    for _ in range(rounds):
        left = xp.flatnonzero(~done)
        active, a, b, at_a, at_b, side, moving = (e[left] for e in (active, a, b, at_a, at_b, side, moving))
        if active.size == 0:
            return x
        with np.errstate(invalid="ignore", over="ignore"):
            step = (a * at_b - b * at_a) / (at_b - at_a)
        point = xp.where(moving, a, xp.where((step > a) & (step < b), step, 0.5 * (a + b)))
        x[active] = point
        here = values(point, active)
        below = here < 0.0
        done = (xp.abs(here) <= close) | (~moving & ((point <= a) | (point >= b)))
        again = ~moving & (side == xp.where(below, -1.0, 1.0))
        at_a = xp.where(below, here, xp.where(again, 0.5 * at_a, at_a))
        at_b = xp.where(below, xp.where(again, 0.5 * at_b, at_b), here)
        a = xp.where(below, point, xp.where(moving, a - 2.0 * (b - a), a))
        b = xp.where(below, b, point)
        side, moving = xp.where(below, -1.0, 1.0), moving & ~below
    raise NotConverged(f"expected {sought} after {rounds} steps, {active.size} of {x.size} were not found")


def halved(beyond: Callable[[Any], Any], low: Any, high: Any, rounds: int = 60) -> tuple[Any, Any]:
    """The bracket after ``rounds`` bisections; ``beyond(x)`` is true if the root lies between x and ``high``.

    ``low`` may be above ``high``.

    >>> [float(end) for end in halved(lambda x: x * x < 2.0, 0.0, 2.0)]
    [1.414213562373095, 1.4142135623730951]
    """
    for _ in range(rounds):
        middle = 0.5 * (low + high)
        further = beyond(middle)
        low, high = np.where(further, middle, low), np.where(further, high, middle)
    return low, high


def golden(
    objective: Callable[[Float], Float], low: Float, high: Float, rounds: int
) -> tuple[tuple[Float, Float], Float]:
    """Golden section for a function with one minimum: the final bracket, and the least value computed.

    >>> (low, high), value = golden(lambda x: (x - 1.0) ** 2, np.asarray(-3.0), np.asarray(4.0), 50)
    >>> abs(low - 1.0) < 1e-7, abs(high - 1.0) < 1e-7, value < 1e-14
    (np.True_, np.True_, np.True_)
    """
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_a, at_b = objective(a), objective(b)
    for _ in range(rounds):
        left = at_a < at_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        a, b = np.where(left, high - _GOLDEN * (high - low), b), np.where(left, a, low + _GOLDEN * (high - low))
        at_a, at_b = np.where(left, objective(a), at_b), np.where(left, at_a, objective(b))
    return (low, high), np.minimum(at_a, at_b)
