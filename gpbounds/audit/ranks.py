"""Ranges of several statistics that hold together for data from a law that can be drawn from: their ranks (N-rank)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpbounds.arrays import Float


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ranges of S statistics of the data, from m sets of data drawn from a hypothetical law.

    Attributes
    ----------
    low, high : arrays (S,)
        If the data are from that law, all S statistics lie within them with a probability of at least 1 − δ.
    p_value : float
        At most δ if and only if a statistic is outside; P(p_value ≤ a) ≤ a for every a, if the data are from the law.
    sets : int
        m.
    """

    low: Float
    high: Float
    p_value: float
    sets: int


def ranges(observed: Float, drawn: Float, *, delta: Fraction) -> Ranges:
    """The ranges of S statistics at one level δ for all of them, exact for any law and any dependence (N-rank).

    A set's rank in a statistic is the number of the m + 1 sets, itself included, that lie on its rarer side or at the
    same value; its extremity is the least of its S ranks.  c is the largest rank such that at most δ(m + 1) sets have
    an extremity of at most c.  The m + 1 sets are exchangeable, so the data are among these with probability at most
    δ; and they are exactly where one of their statistics is below the c-th smallest or above the c-th greatest drawn.

    Parameters
    ----------
    observed : array (S,)
        Statistics of the data.
    drawn : array (m, S)
        The same statistics of m sets that were drawn independently from the law.
    delta : Fraction
        δ.

    >>> rng = np.random.default_rng(0)
    >>> found = ranges(np.array([0.3, 5.0]), rng.standard_normal((999, 2)), delta=Fraction(1, 20))
    >>> found.low.round(1), found.high.round(1), found.p_value
    (array([-2.5, -2.2]), array([2.2, 2.2]), 0.004)
    """
    m, S = drawn.shape
    every = np.concatenate([observed[None, :], drawn])
    extremity = np.full(m + 1, m + 1)
    for values in every.T:
        order = np.sort(values)
        at_most = np.searchsorted(order, values, side="right")
        at_least = m + 1 - np.searchsorted(order, values, side="left")
        extremity = np.minimum(extremity, np.minimum(at_most, at_least))
    allowed = math.floor(delta * (m + 1))
    c = int(np.sort(extremity)[allowed]) - 1 if allowed <= m else m + 1
    ordered = np.sort(drawn, axis=0)
    low, high = (ordered[c - 1], ordered[m - c]) if 1 <= c <= m else (np.full(S, -np.inf), np.full(S, np.inf))
    return Ranges(low, high, float(np.mean(extremity <= extremity[0])), m)
