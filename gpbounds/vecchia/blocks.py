"""Blocks of rows that lie near each other, and for each block the nearest rows of earlier blocks.

Any choice gives valid bounds (N-vecchia); a good choice makes them narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gpbounds.arrays import Float, Indices, as_points, host
from gpbounds.kernels.base import Kernel, OnColumns, as_kernel
from gpbounds.kernels.facts import Fold
from gpbounds.linalg.parallel import share
from gpbounds.overflow import within_doubles
from gpbounds.validation import count, generator

CANDIDATES = 4
"""Rows near the centre of a block among which its nearest ones are searched, as a multiple of their number."""


@dataclass(frozen=True)
class Blocks:
    """A partition of N rows into blocks B_1 … B_J, and sets S_j ⊂ B_1 ∪ … ∪ B_{j−1}.

    Attributes
    ----------
    order : array (N,)
        Row numbers, one block after another; all else counts rows in this order.
    parts : list of slice
        B_j.
    sets : list of array
        S_j, increasing row numbers below ``parts[j].start``.

    Raises
    ------
    ValueError
        if ``order`` is no permutation, the parts do not follow one another, or a set contains a later row.
    """

    order: Indices
    parts: list[slice]
    sets: list[Indices]

    def __post_init__(self) -> None:
        N = self.order.size
        if not np.array_equal(np.sort(self.order), np.arange(N)):
            raise ValueError(f"order: expected a permutation of 0 ... {N - 1}")
        ends = [0, *(part.stop for part in self.parts)]
        if [part.start for part in self.parts] != ends[:-1] or ends[-1] != N or min(np.diff(ends), default=0) < 1:
            raise ValueError(f"parts: expected consecutive non-empty slices of 0 ... {N - 1}, got {self.parts}")
        for j, (part, chosen) in enumerate(zip(self.parts, self.sets, strict=True)):
            if chosen.size and not (0 <= chosen[0] and chosen[-1] < part.start and (np.diff(chosen) > 0).all()):
                raise ValueError(f"sets: expected increasing rows below {part.start} for block {j}, got {chosen}")

    @property
    def rows(self) -> list[Indices]:
        """(S_j, B_j) of each block."""
        return [
            np.concatenate([chosen, np.arange(part.start, part.stop)])
            for part, chosen in zip(self.parts, self.sets, strict=True)
        ]

    @property
    def complete(self) -> bool:
        """Whether every set holds all earlier rows, so that UᵀU = (K + σ²I)⁻¹."""
        return all(chosen.size == part.start for part, chosen in zip(self.parts, self.sets, strict=True))


@within_doubles
def near(
    kernel: Kernel, X: Any, *, block: int, neighbours: int, rng: np.random.Generator | int | None = None
) -> Blocks:
    """Blocks of at most ``block`` rows by bisection along principal directions, in random order; S_j are the
    ``neighbours`` earlier rows nearest to a member of block j, distances in units of lengthscales.

    Rows further from the block's centre than 4·neighbours others are not considered.

    >>> from gpbounds.kernels import SquaredExponential
    >>> blocks = near(SquaredExponential(), np.arange(6.0)[:, None], block=3, neighbours=1, rng=0)
    >>> [blocks.order[part].tolist() for part in blocks.parts], [chosen.tolist() for chosen in blocks.sets]
    ([[0, 1, 2], [3, 4, 5]], [[], [2]])
    """
    as_kernel(kernel)
    rows, size, earlier = host(as_points(X)), count("block", block), count("neighbours", neighbours, 0)
    points = rows / scales(kernel, rows)
    leaves = bisected(points, size)
    leaves = [leaves[i] for i in generator(rng).permutation(len(leaves))]
    order, ends = np.concatenate(leaves), np.cumsum([0, *(leaf.size for leaf in leaves)])
    parts = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
    ordered, sets = points[order], [np.empty(0, dtype=np.int64)] * len(parts)

    def choose(number: int, worker: int) -> None:
        sets[number] = nearest_before(ordered, parts[number], earlier)

    share(len(parts), choose)
    return Blocks(order, parts, sets)


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

    def of(self, X: Float) -> Blocks:
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
        return Blocks(np.concatenate(order), parts, sets)


def scales(kernel: Kernel, X: Float) -> Float:
    """The length on which the kernel varies, for each column of X: its least lengthscale, or the standard deviation.

    Infinity for a column that the kernel does not read.
    """
    return kernel.fold(_SCALES, X)


def _on(kernel: OnColumns, X: Float, inner: Callable[[Float], Float]) -> Float:
    own = np.full(X.shape[1], np.inf)
    own[list(kernel.columns)] = inner(kernel.chosen(X))
    return own


_SCALES: Fold[Float, Float] = Fold(lambda kernel, X: kernel.lengths(X), np.minimum, np.minimum, _on)


def bisected(points: Float, block: int, *, full: bool = False) -> list[Indices]:
    """Parts of at most ``block`` rows: halves of halves, split at the median along the first principal direction.

    With ``full`` a part is split so that as few parts as possible result.
    """
    waiting, leaves = [np.arange(points.shape[0])], []
    while waiting:
        rows = waiting.pop()
        if rows.size <= block:
            leaves.append(rows)
            continue
        centred = points[rows] - points[rows].mean(axis=0)
        along = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -1]
        ranked = rows[np.argsort(along, kind="stable")]
        half = rows.size // 2
        if full:
            half = rows.size * (-(-rows.size // block) // 2) // -(-rows.size // block)
        waiting += [ranked[half:], ranked[:half]]
    return leaves


def nearest_before(points: Float, part: slice, count: int) -> Indices:
    """The ``count`` rows before ``part`` that are nearest to one of its rows, in increasing order."""
    earlier, members = points[: part.start], points[part]
    if part.start <= count:
        return np.arange(part.start if count else 0)
    candidates = np.arange(part.start)
    if part.start > CANDIDATES * count:
        away = ((earlier - members.mean(axis=0)) ** 2).sum(axis=1)
        candidates = np.argpartition(away, CANDIDATES * count)[: CANDIDATES * count]
    chosen = earlier[candidates]
    products = chosen @ members.T
    products *= -2.0
    products += (members * members).sum(axis=1)
    distances = products.min(axis=1) + (chosen * chosen).sum(axis=1)
    return np.sort(candidates[np.argpartition(distances, count)[:count]])
