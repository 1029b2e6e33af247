"""Roots and extrema of functions of one variable, for each entry of an array: Newton, bisection, golden section."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NotConverged

GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)

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


def halved(beyond: Callable[[Any], Any], low: Any, high: Any, rounds: int = 60) -> tuple[Any, Any]:
    """The bracket after ``rounds`` bisections; ``beyond(x)`` says whether the root lies beyond x.

    ``low`` may be above ``high``; beyond x means: between x and ``high``.

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
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_a, at_b = objective(a), objective(b)
    for _ in range(rounds):
        left = at_a < at_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        a, b = np.where(left, high - GOLDEN * (high - low), b), np.where(left, a, low + GOLDEN * (high - low))
        at_a, at_b = np.where(left, objective(a), at_b), np.where(left, at_a, objective(b))
    return (low, high), np.minimum(at_a, at_b)
