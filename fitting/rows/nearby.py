"""Blocks of near rows, each with near rows before it, for the bounds of `fitting.objectives.fischer`.

Any choice gives lower bounds on log p(y) (N-fischer); a good one makes them high.
"""

from __future__ import annotations

import numpy as np

from gpbounds.arrays import Float
from gpbounds.kernels import SquaredExponential
from gpbounds.vecchia import Blocks, near
from gpbounds.vecchia.blocks import bisected

GROUP = 1024
"""Rows of a group: a block is given rows of its own group only, so that a chunk of rows holds all that it needs."""


def nearby(X: Float, lengths: Float, *, block: int, neighbours: int) -> Blocks:
    """Blocks of at most ``block`` rows of X (N, D) by bisection, given ``neighbours`` earlier rows of the same group.

    Distances are in units of ``lengths`` (D,), infinite for a column that does not matter.  The result depends on the
    rows and their order only.

    >>> blocks = nearby(np.arange(6.0)[:, None], np.ones(1), block=3, neighbours=1)
    >>> [blocks.order[part].tolist() for part in blocks.parts], [chosen.tolist() for chosen in blocks.sets]
    ([[3, 4, 5], [0, 1, 2]], [[], [0]])
    """
    points, unit = X / lengths, SquaredExponential()
    groups = bisected(points, max(GROUP, 2 * block))
    inside = [near(unit, points[rows], block=block, neighbours=neighbours, rng=0) for rows in groups]
    order = np.concatenate([rows[one.order] for rows, one in zip(groups, inside, strict=True)])
    starts = np.cumsum([0, *(rows.size for rows in groups)])
    parts = [slice(a + part.start, a + part.stop) for a, one in zip(starts, inside, strict=False) for part in one.parts]
    sets = [start + chosen for start, one in zip(starts, inside, strict=False) for chosen in one.sets]
    return Blocks(order, [slice(int(part.start), int(part.stop)) for part in parts], sets)
