"""Rows in blocks: the rows are sorted by label, so that each block is a slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpbounds.arrays import host
from gpbounds.validation import count, finite


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
    """

    labels: tuple[float, ...]
    blocks: tuple[slice, ...]
    order: Any

    @cached_property
    def homes(self) -> dict[float, slice]:
        """The rows of each label."""
        return dict(zip(self.labels, self.blocks, strict=True))

    def chunks(self, size: int) -> list[slice]:
        """Chunks of whole blocks, each with at least ``size`` rows but the last.

        >>> partition(2, 7).chunks(3)
        [slice(0, 4, None), slice(4, 7, None)]
        """
        chunks, start = [], 0
        for block in self.blocks:
            if block.stop - start >= size or block is self.blocks[-1]:
                chunks.append(slice(start, block.stop))
                start = block.stop
        return chunks


def partition(blocks: int | Sequence[int] | Any, N: int) -> Partition:
    """Blocks of ``blocks`` consecutive rows, or one block for each distinct label in ``blocks`` (N,).

    >>> partition([5, 3, 5], 3)
    Partition(labels=(3.0, 5.0), blocks=(slice(0, 1, None), slice(1, 3, None)), order=array([1, 0, 2]))
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


def as_labels(labels: Any, N: int) -> Any:
    """``labels`` as finite numbers (N,)."""
    numbers = finite("blocks", host(labels))
    if numbers.shape != (N,):
        raise ValueError(f"blocks: expected a label for each of {N} rows, got shape {numbers.shape}")
    return numbers
