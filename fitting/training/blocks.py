"""Mini-batches of rows that are read from a disk: blocks of consecutive rows in random order, a few at a time.

An epoch begins at a random row and cuts the rows, as on a circle, into blocks.  It takes the blocks in random order,
`TOGETHER` at a time, permutes the rows of these, and cuts the result into batches; the rest of the epoch, less than a
batch, is left out.  Every row is in a batch with the same probability, and no row is twice in an epoch.  The batch of a
step depends on the seed and the number of the step only, so that a continued run draws what it would have drawn.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import Float, Indices

BLOCK = 4096
"""Rows of a block."""

TOGETHER = 16
"""Blocks whose rows are mixed."""

CACHED = 2**32
"""Bytes of a memory map beyond which mini-batches take rows from blocks: a system keeps fewer in memory by itself."""

_LOOKED_AT = 64
"""Number of blocks by which the order of the rows is judged."""

_ORDERED = 0.02
"""Share of a column's variance between blocks from which rows count as ordered.  At this share, the mean of 16 blocks
varies as much as that of 800 random rows."""


def read_by_blocks(X: Any) -> bool:
    """Whether X is a memory map of more than `CACHED` bytes, or a view of one."""
    owner = X
    while owner is not None and not isinstance(owner, np.memmap):
        owner = getattr(owner, "base", None)
    return owner is not None and X.nbytes > CACHED


def drawn_by_blocks(X: Any, y: Any, batch_size: int | None) -> bool:
    """Whether mini-batches take rows from blocks; a warning if the rows of X and y are ordered then."""
    if batch_size is None or not read_by_blocks(X):
        return False
    warn_of_order(X, y[:, None] if y.ndim == 1 else y)
    return True


@dataclass(frozen=True)
class Blocks:
    """Numbers of the rows of mini-batches.

    Attributes
    ----------
    N, batch : int
        Number of rows, and of rows of a batch.
    seed : tuple of int
    block, together : int

    >>> blocks = Blocks(10, 4, (0,), block=2, together=2)
    >>> epoch = [blocks.rows(step).tolist() for step in (0, 1)]
    >>> epoch, len({row for rows in epoch for row in rows})
    ([[2, 3, 6, 7], [4, 5, 8, 9]], 8)
    """

    N: int
    batch: int
    seed: tuple[int, ...]
    block: int = BLOCK
    together: int = TOGETHER

    def rows(self, step: int) -> Indices:
        """The rows of step 0, 1, …, in increasing order."""
        epoch, place = divmod(step, self.N // self.batch)
        start, stop = place * self.batch, (place + 1) * self.batch
        group = self.block * self.together
        most = max(1, -(-(self.N // self.block) // self.together))  # groups; the last one may be longer
        first = min(start // group, most - 1)
        parts = [_mixed(self, epoch, i) for i in range(first, min(-(-stop // group), most))]
        return np.sort(np.concatenate(parts)[start - first * group : stop - first * group])


@lru_cache(maxsize=2)
def _order(blocks: Blocks, epoch: int) -> tuple[int, Indices]:
    """The row with which an epoch begins, and its full blocks in order; less than a block of rows comes last."""
    rng = np.random.default_rng([*blocks.seed, epoch, 0])
    return int(rng.integers(blocks.N)), rng.permutation(blocks.N // blocks.block)


@lru_cache(maxsize=4)
def _mixed(blocks: Blocks, epoch: int, group: int) -> Indices:
    """The rows of a group of blocks, permuted."""
    first, order = _order(blocks, epoch)
    chosen = order[group * blocks.together : (group + 1) * blocks.together]
    rows = (chosen[:, None] * blocks.block + np.arange(blocks.block)).ravel()
    if (group + 1) * blocks.together >= len(order):  # the last group
        rows = np.concatenate([rows, np.arange(len(order) * blocks.block, blocks.N)])
    return np.random.default_rng([*blocks.seed, epoch, 1 + group]).permutation((rows + first) % blocks.N)


def share_between(columns: Float, block: int) -> Float:
    """The share of each column's variance (c,) that lies between blocks, from the rows of k blocks (k·``block``, c).

    It is estimated without bias, so that it is about 0 for rows in random order.

    >>> share_between(np.repeat([[0.0], [1.0]], 50, axis=0), 50)
    array([1.])
    """
    parts = columns.reshape(-1, block, columns.shape[1])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = np.maximum(parts.mean(axis=1).var(axis=0, ddof=1) - within / block, 0.0)
    total = within + between
    return np.where(total > 0.0, between / np.where(total > 0.0, total, 1.0), 0.0)


def warn_of_order(X: Any, Y: Any, block: int = BLOCK) -> None:
    """Warn if the rows are ordered, by some blocks of X (N, D) and Y (N, P).

    Warns
    -----
    UserWarning
        if 2 % or more of the variance of a column lie between blocks.
    """
    blocks = min(_LOOKED_AT, len(X) // block)
    if blocks < 2:
        return
    starts = np.linspace(0, len(X) - block, blocks).astype(np.int64)
    both = [np.concatenate([values[start : start + block] for start in starts]) for values in (X, Y)]
    shares = share_between(np.column_stack(both), block)
    worst = int(shares.argmax())
    if shares[worst] >= _ORDERED:
        name = f"column {worst} of X" if worst < X.shape[1] else "y"
        warnings.warn(
            f"The rows are ordered: {100.0 * shares[worst]:.3g} % of the variance of {name} lie between blocks of "
            f"{block} rows, and mini-batches of a memory map of this size take rows from {TOGETHER} blocks at a time. "
            "Shuffle the rows first: gpbounds.rows.shuffle_to(folder, X, y).",
            UserWarning,
            stacklevel=2,
        )
