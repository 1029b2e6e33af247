"""N-rank by its definition: ranks of sets of statistics among each other."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def extremities(sets: Sequence[Sequence[float]]) -> list[int]:
    """e_j = min_s min(#{i: T^i_s ≤ T^j_s}, #{i: T^i_s ≥ T^j_s}) for m + 1 sets of S statistics."""
    extremes = []
    for own in sets:
        ranks = []
        for s, value in enumerate(own):
            ranks += [sum(other[s] <= value for other in sets), sum(other[s] >= value for other in sets)]
        extremes.append(min(ranks))
    return extremes


def p_value(sets: Sequence[Sequence[float]]) -> Fraction:
    """#{j: e_j ≤ e_0}/(m + 1) for the first set."""
    e = extremities(sets)
    return Fraction(sum(other <= e[0] for other in e), len(e))


def is_outside(sets: Sequence[Sequence[float]], delta: Fraction) -> bool:
    """Whether the first set is outside a range: e_0 ≤ c for the greatest c with #{j: e_j ≤ c} ≤ δ(m + 1)."""
    e = extremities(sets)
    c = max(c for c in range(len(e) + 1) if sum(other <= c for other in e) <= delta * len(e))
    return e[0] <= c
