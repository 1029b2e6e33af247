"""Blocks of near rows, each with near rows before it, for the bounds of `fitting.objectives.fischer`.

Any choice gives lower bounds on log p(y) (N-fischer); a good one makes them high.
"""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float, Indices
from gpbounds.vecchia import Blocks
from gpbounds.vecchia.blocks import bisected, nearest_before

GROUP = 1024
"""Rows of a group: a block is given rows of its own group only, so that a chunk of rows holds all that it needs."""


def nearby(X: Float, lengths: Float, *, block: int, neighbours: int) -> Blocks:
    """Blocks of at most ``block`` rows of X (N, D) by bisection, given ``neighbours`` earlier rows of the same group.

    Distances are in units of ``lengths`` (D,), infinite for a column that does not matter.  The blocks of a group are
    in random order, so that most have near rows before them; the result depends on the rows only.

    >>> blocks = nearby(np.arange(6.0)[:, None], np.ones(1), block=3, neighbours=1)
    >>> [blocks.order[part].tolist() for part in blocks.parts], [chosen.tolist() for chosen in blocks.sets]
    ([[0, 1, 2], [3, 4, 5]], [[], [2]])
    """
    points, rng = X / lengths, np.random.default_rng(0)
    order: list[Indices] = []
    parts: list[slice] = []
    sets: list[Indices] = []
    start = 0
    for group in bisected(points, max(GROUP, 2 * block), full=True):
        leaves = bisected(points[group], block, full=True)
        leaves = [group[leaves[i]] for i in rng.permutation(len(leaves))]
        order += leaves
        ordered, stop = points[np.concatenate(leaves)], 0
        for leaf in leaves:
            part = slice(stop, stop := stop + leaf.size)
            sets.append(start + nearest_before(ordered, part, neighbours))
            parts.append(slice(start + part.start, start + part.stop))
        start += stop
    return Blocks(np.concatenate(order), parts, sets)
