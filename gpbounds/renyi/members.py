"""The members of `gpbounds.renyi.evidence`: their names, their selection by ``members``, and what ``work`` affords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.errors import shown
from gpbounds.linalg.parallel import ENTRY
from gpbounds.numerics.search import bisected
from gpbounds.validation import closed_unit

LARGE = 10_000
"""Largest N at which the members that stream K take the place of a factor of K + σ²I that fails."""

WORK = 4e11
"""Default of ``work``, in flops: N = 10 000 for "exact"; at N = 100 000 some 800 inducing points for "further"."""

CANDIDATES = 20_000
"""Largest number of rows among which "further" chooses."""

CHEAP = ("trace", "determinant", "weighted")
BLOCKS = ("eigenvalue", "tangent", "quadratic")
LADDER = ("diagonal", "blocks", "conditioned")
"""Lower members with log|I + Δ/σ²| from above; each is at least the one before it (N-fischer, N-fischer-vecchia)."""
ORDERS = ("order", "secant")
SETS = ("vecchia",)
"""The lower member with log|K + σ²I| from above, without inducing points (N-vecchia)."""
BLOCK = 512
"""Rows of a block of Δ: at M = 512 it costs as much as Kuf and bounds wᵀΔw up to 512 times better than √Δ_ii."""
BEYOND = ("exact", "further")
"""Members that use more than the inducing points Z."""


def exact_work(N: int) -> float:
    """Flops of the member "exact": the factor of K + σ²I, and K twice."""
    return N**3 / 3.0 + 1.5 * ENTRY * N * N


def further_work(N: int, M: int) -> float:
    """Flops of the member "further" with M inducing points: their choice, two passes over the rows, the spectrum, and
    "blocks"; those of Δ in "weighted" are not counted, as they are not at Z.
    """
    candidates = min(N, CANDIDATES)
    passes = N * M * (4.0 * M + 3.0 * ENTRY) + candidates * M * (2.0 * M + ENTRY) + 25.0 * M**3
    return passes + blocks_work(N, M)


def blocks_work(N: int, M: int) -> float:
    """Flops of the member "blocks": K and VᵀV within the blocks, V once more, and the factors."""
    rows = min(BLOCK, N)
    return N * (rows * (ENTRY + 2.0 * M + rows / 3.0) + float(M) * M)


def further_points(N: int, work: float) -> int:
    """The largest number of inducing points below N with which "further" takes at most ``work``; 0 if 1 is too many."""
    if N < 2 or further_work(N, 1) > work:
        return 0
    if further_work(N, N - 1) <= work:
        return N - 1
    return bisected(lambda M: further_work(N, M) > work, 1, N - 1) - 1


@dataclass(frozen=True)
class Chosen:
    """The members that are computed.

    Attributes
    ----------
    names : tuple of str
        Those at the inducing points Z.
    exact : bool
        Whether "exact" is one of them.
    points : int
        Inducing points of "further", Z included; 0 leaves it out.
    notes : tuple of str
        A sentence for each member that "auto" leaves out and that may be sharper.
    """

    names: tuple[str, ...]
    exact: bool = False
    points: int = 0
    notes: tuple[str, ...] = ()


_BY_PARTITIONS = (
    "The members 'exact', 'further', 'eigenvalue' and 'quadratic' are left out: they need all rows in memory. Pass the "
    "rows as arrays, or more inducing points as Z."
)


def chosen_members(
    members: str | Sequence[str], orders: tuple[float, ...], N: int, M: int, work: float, *, mapped: bool
) -> Chosen:
    """The members that ``members`` selects for N rows in memory and M inducing points, "auto" within ``work`` flops.

    ``mapped`` rows are a memory map: "further", which reads rows several times, is then left out by "auto".
    """
    names = member_names(members, orders)
    rest = tuple(name for name in names if name not in BEYOND)
    if members != "auto":
        points = max(further_points(N, work), min(2 * M, N - 1)) if "further" in names else 0
        return Chosen(rest, "exact" in names, points if points > M else 0)
    if exact_work(N) <= work:
        return Chosen(rest, True)  # "blocks" would cost time, and "exact" is sharper
    points = 0 if mapped else further_points(N, work)
    enough = points >= 1.25 * M
    left = [
        f"The member 'exact' is left out, the factor of K + σ²I: it needs work={_up(exact_work(N))} and "
        f"{12e-9 * N * N:.2g} GB of memory."
    ]
    larger = min(2 * (points if enough else M), N - 1)
    if larger > max(points if enough else 0, M):
        seen = f"has {points}" if enough else "is left out: it would have few more than the"
        seen += " inducing points" if enough else f" {M} of Z"
        left.append(f"The member 'further' {seen}; work={_up(further_work(N, larger))} affords {larger}.")
    if not (enough or mapped) and blocks_work(N, M) <= work:
        rest = (*rest, "blocks")
    return Chosen(rest, False, points if enough else 0, tuple(left))


def chosen_by_partitions(members: str | Sequence[str], orders: tuple[float, ...]) -> Chosen:
    """As `chosen_members`, for rows in partitions."""
    names = by_partitions_only(members, orders)
    return Chosen(names, notes=(_BY_PARTITIONS,) if members == "auto" else ())


def _up(flops: float) -> str:
    """Two digits, rounded up, so that the number suffices."""
    power = 10.0 ** (np.floor(np.log10(flops)) - 1.0)
    return f"{np.ceil(1.0001 * flops / power) * power:.2g}"


def orders_of(alphas: ArrayLike) -> tuple[float, ...]:
    """The orders, increasing and each once."""
    values = closed_unit("alphas", alphas)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"alphas: expected at least one number in [0, 1], got {shown(alphas)}")
    return tuple(sorted({float(a) for a in np.atleast_1d(values)}))


def by_partitions_only(members: str | Sequence[str], orders: tuple[float, ...]) -> tuple[str, ...]:
    """The members selected for rows in partitions; all but the cheap ones at α = 1 are refused."""
    names = CHEAP if members in ("auto", "cheap") else (members,) if isinstance(members, str) else tuple(members)
    allowed = (*CHEAP, "diagonal")
    if not names or not set(names) <= set(allowed) or orders != (1.0,):
        raise ValueError(
            f"members, alphas: expected 'auto', 'cheap' or some of {', '.join(map(repr, allowed))}, and 1, for rows "
            f"that are read by partitions, got {shown(members)} and {orders}: the others need all rows in memory"
        )
    return _with_an_upper_one(names)


def member_names(members: str | Sequence[str], orders: tuple[float, ...]) -> tuple[str, ...]:
    """The members that ``members`` names, for rows in memory; "auto" are those at Z, to which `Chosen` adds."""
    below = ORDERS if orders[0] < 1.0 else ()
    if isinstance(members, str):
        plans = {
            "auto": CHEAP + below,
            "cheap": CHEAP,
            "all": CHEAP + BLOCKS + LADDER + SETS + below + BEYOND,
        }
        if members in plans:
            return plans[members]
    names = (members,) if isinstance(members, str) else members
    names = tuple(names) if isinstance(names, list | tuple | set | frozenset) else ()
    allowed = (*CHEAP, *BLOCKS, *LADDER, *SETS, *ORDERS, *BEYOND)
    if not names or not all(isinstance(name, str) and name in allowed for name in names):
        raise ValueError(
            f"members: expected 'auto', 'cheap', 'all' or some of {', '.join(map(repr, allowed))}, got {shown(members)}"
        )
    if set(names) & set(ORDERS) and not below:
        raise ValueError(f"alphas: expected an order below 1 for the members 'order' and 'secant', got {orders}")
    return _with_an_upper_one(names)


def _with_an_upper_one(names: tuple[str, ...]) -> tuple[str, ...]:
    """``names``, and "trace" if none of them has a proved upper bound at Z."""
    return names if set(names) - {*LADDER, *SETS, *BEYOND, "tangent"} else (*names, "trace")
