"""Where a statement begins to hold: among whole numbers, and among doubles next to a good guess."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import NotConverged

SECTIONS = 48
"""Intervals that `last_above` looks at in one vectorised round."""
STEPS = 64
"""How many doubles `first_double` may walk."""


def least(holds: Callable[[int], bool], first: int, highest: float = math.inf, share: float = 0.0) -> int | None:
    """The least n in first ... highest with holds(n), which once true stays true; None where there is none.

    `upward`, then `bisected`: nothing far beyond the answer is asked for.

    >>> least(lambda n: n * n >= 50, 0), least(lambda n: n * n >= 50, 0, 7)
    (8, None)
    """
    found = upward(holds, first, highest)
    return None if found is None else bisected(holds, *found, share)


def upward(holds: Callable[[int], bool], first: int, highest: float = math.inf) -> tuple[int, int] | None:
    """The last of first, 2·first, 4·first, ..., highest that does not hold (first − 1 if there is none), and the next.

    None where highest does not hold.  From 0 it goes on at 1.

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
    """The least n in low + 1 ... high with holds(n), which once true stays true; holds(high) is known, and not asked.

    With ``share`` the search ends where that n is known up to ``share`` of it.

    >>> bisected(lambda n: n * n >= 50, 4, 8)
    8
    """
    while high - low > max(1, share * high):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def least_each(holds: Callable[[Float], Any], low: Float, high: Float) -> Float:
    """Entry by entry the least whole n in low ... high with holds(n), which once true stays true; high where none is.

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

    ``majorant(a, b)`` is at least majorant(m, m) for every m in a ... b, entry by entry; intervals it clears are
    dropped, the rest is split, from the right.  For a function that decreases this is a search in SECTIONS parts.
    """
    edges = np.unique(np.rint(np.linspace(low, high + 1, SECTIONS + 1)))
    if high > 64 * low:
        edges = np.unique(np.concatenate([edges, np.rint(np.geomspace(low, high + 1, SECTIONS + 1))]))
    first, last = edges[:-1], edges[1:] - 1
    for i in np.flatnonzero(majorant(first, last) > target)[::-1]:
        if first[i] == last[i]:
            return int(first[i])
        found = last_above(majorant, int(first[i]), int(last[i]), target)
        if found is not None:
            return found
    return None


def first_double(holds: Callable[[float], bool], guess: float, outward: float) -> float:
    """The first double that holds on the way to ``outward`` (±∞), beyond which all do, from a guess a few doubles away.

    Raises
    ------
    NotConverged
        where it is not among the 64 doubles next to the guess.

    >>> first_double(lambda x: x * x >= 2.0, 1.414213562373094, math.inf)
    1.4142135623730951
    """
    inward, x = holds(guess), guess
    for _ in range(STEPS):
        following = math.nextafter(x, -outward if inward else outward)
        if holds(following) != inward:
            return x if inward else following
        x = following
    raise NotConverged(f"expected the double that is sought within {STEPS} of its approximation {guess!r}")
