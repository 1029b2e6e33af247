"""The names of the members of `gpbounds.renyi.evidence`, and their selection by the argument ``members``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.validation import closed_unit

LARGE = 10_000
"""Largest N at which members="auto" computes the members that need all of K."""

CHEAP = ("trace", "determinant", "weighted")
BLOCKS = ("eigenvalue", "tangent", "quadratic")
ORDERS = ("order", "secant")
SETS = ("vecchia",)


def orders_of(alphas: ArrayLike) -> tuple[float, ...]:
    """The orders, increasing and each once."""
    values = closed_unit("alphas", alphas)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(f"alphas: expected at least one number in [0, 1], got {alphas!r}")
    return tuple(sorted({float(a) for a in np.atleast_1d(values)}))


def by_partitions_only(members: str | Sequence[str], orders: tuple[float, ...]) -> tuple[str, ...]:
    """The members selected for rows in partitions; all but the cheap ones at α = 1 are refused."""
    names = CHEAP if members in ("auto", "cheap") else (members,) if isinstance(members, str) else tuple(members)
    if not names or not set(names) <= set(CHEAP) or orders != (1.0,):
        raise ValueError(
            f"members, alphas: expected 'auto', 'cheap' or some of {', '.join(map(repr, CHEAP))}, and 1, for rows that "
            f"are read by partitions, got {members!r} and {orders}: the others need all rows in memory"
        )
    return names


def member_names(members: str | Sequence[str], orders: tuple[float, ...], N: int) -> tuple[str, ...]:
    """The members that ``members`` selects for N rows in memory."""
    below = ORDERS if orders[0] < 1.0 else ()
    if isinstance(members, str):
        plans = {
            "auto": CHEAP + (BLOCKS if N <= LARGE else ()) + below,
            "cheap": CHEAP,
            "all": CHEAP + BLOCKS + SETS + below,
        }
        if members in plans:
            return plans[members]
    names = (members,) if isinstance(members, str) else tuple(members)
    allowed = (*CHEAP, *BLOCKS, *SETS, *ORDERS)
    if not names or not set(names) <= set(allowed):
        raise ValueError(
            f"members: expected 'auto', 'cheap', 'all' or some of {', '.join(map(repr, allowed))}, got {members!r}"
        )
    if set(names) & set(ORDERS) and not below:
        raise ValueError(f"alphas: expected an order below 1 for the members 'order' and 'secant', got {orders}")
    return names if set(names) - {*SETS, "tangent"} else (*names, "trace")
