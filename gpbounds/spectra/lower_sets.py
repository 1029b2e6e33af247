"""Sets of multi-indices that contain with n whatever is below n: the largest products, and what lies outside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpbounds.arrays import Float

Degrees = NDArray[np.int64]


def smallest_totals(costs: Sequence[Float], count: int) -> tuple[Float, Degrees]:
    """The ``count`` smallest values of Σ_d costs[d][n_d], increasing, and their n, shape (count, D).

    Each of ``costs`` increases from 0; ``count`` is less where they have fewer combinations.

    Dimensions are added one at a time.  Among the sums of the first d dimensions only the ``count`` smallest matter.
    With S sorted, at least (i + 1)(n + 1) sums are <= S_i + costs[n], so only i < count/(n + 1) are needed.

    >>> smallest_totals([np.array([0.0, 1.0, 4.0]), np.array([0.0, 2.5])], 4)[1].tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    sums, degrees = np.zeros(1), np.zeros((1, 0), dtype=np.int64)
    for cost in costs:
        copies = np.arange(min(count, cost.size))
        lengths = np.minimum(count // (copies + 1), sums.size)
        n = np.repeat(copies, lengths)
        i = np.arange(n.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        candidates = sums[i] + cost[n]
        # Ties in rounded arithmetic are broken by total degree, so that the chosen degrees always form a lower set.
        best = np.lexsort((degrees[i].sum(axis=1) + n, candidates))[:count]
        sums, degrees = candidates[best], np.column_stack([degrees[i[best]], n[best]])
    return sums, degrees


def edges(degrees: Degrees) -> list[tuple[Degrees, NDArray[np.int64]]]:
    """The complement of the lower set ``degrees`` as disjoint orthants: for each d prefixes (E, d) and starts (E,).

    Each n in the complement has a first coordinate d at which it leaves the set: its prefix n_0 … n_{d−1}, continued by
    zeros, is in the set, and n_d is at least the start.  The start is one more than the largest value in the set with
    that prefix and zeros after it.

    >>> edges(np.array([[0, 0], [1, 0], [0, 1]]))[1]
    (array([[0],
           [1]]), array([2, 1]))
    """
    orthants = []
    for d in range(degrees.shape[1]):
        inside = degrees[(degrees[:, d + 1 :] == 0).all(axis=1), : d + 1]
        inside = inside[np.lexsort(inside.T[::-1])]
        last = np.ones(len(inside), dtype=bool)
        last[:-1] = (inside[1:, :d] != inside[:-1, :d]).any(axis=1) if d else False
        orthants.append((inside[last, :d], inside[last, d] + 1))
    return orthants


def log_sum(logs: Float) -> float:
    """log Σ e^logs, −inf for terms that are all 0.

    >>> round(log_sum(np.array([-1000.0, -1000.0])) + 1000.0, 12)  # log 2
    0.69314718056
    """
    top = logs.max()
    if top == -np.inf:
        return -np.inf
    return float(top + np.log(np.exp(logs - top).sum()))
