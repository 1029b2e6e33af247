"""Rows in blocks: the rows are sorted by label, so that each block is a slice, or lie near each other.

`Blocking` makes blocks, each with near rows before it, for the bounds of `fitting.objectives.structured`.  Any choice
gives lower bounds on log p(y) (N-fischer); a good one makes them high.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpbounds.arrays import Float, Indices, host
from gpbounds.validation import count, finite
from gpbounds.vecchia import Blocks as Neighbourhoods
from gpbounds.vecchia.blocks import bisected, nearest_before


@dataclass(frozen=True, eq=False)
class Partition:
    """Blocks of consecutive rows, after sorting.

    Attributes
    ----------
    labels : tuple
        The label of each block.
    blocks : tuple of slices
    order : array (N,) or None
        The permutation that sorts the rows; None if they were sorted already.
    sets : tuple of arrays or None
        Earlier rows that each block is given, in increasing order; None if no block is given any.
    """

    labels: tuple[float, ...]
    blocks: tuple[slice, ...]
    order: Any
    sets: tuple[Any, ...] | None = None

    @cached_property
    def homes(self) -> dict[float, slice]:
        """The rows of each label."""
        return dict(zip(self.labels, self.blocks, strict=True))

    def chunks(self, size: int) -> list[slice]:
        """Chunks of whole blocks and the rows that they are given, each with at least ``size`` rows but the last.

        >>> partition(2, 7).chunks(3)
        [slice(0, 4, None), slice(4, 7, None)]
        """
        chunks, start, ends = [], 0, self._ends
        for block in self.blocks:
            if (block.stop - start >= size and block.stop in ends) or block is self.blocks[-1]:
                chunks.append(slice(start, block.stop))
                start = block.stop
        return chunks

    @cached_property
    def _ends(self) -> set[int]:
        """The ends of blocks after which no block is given a row before them."""
        first = self.blocks[-1].stop
        ends: set[int] = set()
        for number in reversed(range(len(self.blocks))):
            block = self.blocks[number]
            if block.stop <= first:
                ends.add(block.stop)
            chosen = np.empty(0) if self.sets is None else self.sets[number]
            first = min(first, block.start if len(chosen) == 0 else int(chosen[0]))
        return ends

    @cached_property
    def entries(self) -> int:
        """The number of entries of the covariances of all blocks, each with the rows that it is given."""
        given = [0] * len(self.blocks) if self.sets is None else [len(chosen) for chosen in self.sets]
        return sum((b.stop - b.start + n) ** 2 for b, n in zip(self.blocks, given, strict=True))

    def within(self, chunk: slice) -> Iterator[tuple[slice, Any]]:
        """The blocks of a chunk, with the rows that each is given."""
        first = bisect_left(self.blocks, chunk.start, key=lambda block: block.start)
        for number in range(first, len(self.blocks)):
            block = self.blocks[number]
            if block.start >= chunk.stop:
                return
            yield block, np.empty(0, dtype=np.int64) if self.sets is None else self.sets[number]


def partition(blocks: int | Sequence[int] | Any, N: int) -> Partition:
    """Blocks of ``blocks`` consecutive rows, or one block for each distinct label in ``blocks`` (N,).

    >>> partition([5, 3, 5], 3)
    Partition(labels=(3.0, 5.0), blocks=(slice(0, 1, None), slice(1, 3, None)), order=array([1, 0, 2]), sets=None)
    """
    sizes_or_labels = host(blocks)
    if sizes_or_labels.ndim == 0:
        labels = np.arange(N) // count("blocks", sizes_or_labels)
    else:
        labels = as_labels(sizes_or_labels, N)
    order = np.argsort(labels, kind="stable")
    names, starts = np.unique(labels[order], return_index=True)
    stops = [*starts[1:].tolist(), N]
    slices = tuple(slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True))
    in_order = bool((order == np.arange(N)).all())
    return Partition(tuple(float(v) for v in names), slices, None if in_order else order)


def neighbourhoods(blocks: Neighbourhoods) -> Partition:
    """The partition of `gpbounds.vecchia.Blocks`, with the rows that each block is given."""
    order, labels = blocks.order, tuple(float(number) for number in range(len(blocks.parts)))
    in_order = bool((order == np.arange(order.size)).all())
    sets = tuple(blocks.sets) if any(chosen.size for chosen in blocks.sets) else None
    return Partition(labels, tuple(blocks.parts), None if in_order else order, sets)


def as_labels(labels: Any, N: int) -> Any:
    """``labels`` as finite numbers (N,)."""
    numbers = finite("blocks", host(labels))
    if numbers.shape != (N,):
        raise ValueError(f"blocks: expected a label for each of {N} rows, got shape {numbers.shape}")
    return numbers


def nearest(centres: Float, X: Float, scale: Float) -> Any:
    """The number of the nearest of the ``centres`` for each row of X, as labels of blocks; X is in units of ``scale``.

    >>> nearest(np.array([[0.0], [1.0]]), np.array([[0.9], [0.2]]), np.ones(1)).tolist()
    [1, 0]
    """
    from scipy.spatial.distance import cdist

    rows = X / scale
    pieces = [rows[i : i + 4096] for i in range(0, rows.shape[0], 4096)]
    return np.concatenate([cdist(piece, centres, "sqeuclidean").argmin(axis=1) for piece in pieces])


# Blocks of near rows.

GROUP = 1024
"""Rows of a group: a block is given rows of its own group only, so that a chunk of rows holds all that it needs."""


@dataclass(frozen=True, eq=False)
class Blocking:
    """How rows are put into blocks of near rows.

    Attributes
    ----------
    lengths : array (D,)
        Units of distances; infinite for a column that does not matter.
    block : int
        The largest number of rows of a block.
    neighbours : int
        The number of earlier rows that a block is given.
    """

    lengths: Float
    block: int
    neighbours: int

    def of(self, X: Float) -> Neighbourhoods:
        """Blocks of rows X (N, D) by bisection, given earlier rows of the same group.

        The blocks of a group are in random order, so that most have near rows before them; the result depends on the
        rows only.

        >>> blocks = Blocking(np.ones(1), block=3, neighbours=1).of(np.arange(6.0)[:, None])
        >>> [blocks.order[part].tolist() for part in blocks.parts], [chosen.tolist() for chosen in blocks.sets]
        ([[0, 1, 2], [3, 4, 5]], [[], [2]])
        """
        points, rng = X / self.lengths, np.random.default_rng(0)
        order: list[Indices] = []
        parts: list[slice] = []
        sets: list[Indices] = []
        start = 0
        for group in bisected(points, max(GROUP, 2 * self.block), full=True):
            leaves = bisected(points[group], self.block, full=True)
            leaves = [group[leaves[i]] for i in rng.permutation(len(leaves))]
            order += leaves
            ordered, stop = points[np.concatenate(leaves)], 0
            for leaf in leaves:
                part = slice(stop, stop := stop + leaf.size)
                sets.append(start + nearest_before(ordered, part, self.neighbours))
                parts.append(slice(start + part.start, start + part.stop))
            start += stop
        return Neighbourhoods(np.concatenate(order), parts, sets)
