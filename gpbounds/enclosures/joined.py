"""Spectra of products of kernels on different, independent columns, and of sums, from those of the parts, in balls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.enclosures.eigenvalues import Eigenvalues
from gpbounds.rigor import exact


class Products(Eigenvalues):
    """c·Π_i k_i on columns that are independent: all products of eigenvalues, Σ = c·Π_i Σ (N-tensor).

    The parts must have exact eigenvalues: the tail is what the eigenvalues taken leave of the trace.
    """

    def __init__(self, parts: Sequence[Eigenvalues], scale: float, dim: int) -> None:
        self.parts, self.scale, self.dim = tuple(parts), scale, dim
        self._taken: dict[int, list[tuple[int, ...]]] = {}

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        tables = [part.flat(count) for part in self.parts]
        if count not in self._taken:
            self._taken[count] = _largest_products([[float(value.log()) for value in table] for table in tables], count)
        scale = exact(self.scale)
        return [
            (reduce(lambda a, b: a * b, (table[n] for table, n in zip(tables, at, strict=True)), scale), 1)
            for at in self._taken[count]
        ]

    def tail(self, count: int) -> Any:
        return self.trace() - sum(self.flat(count), exact(0.0)) if count else self.trace()

    def trace(self) -> Any:
        return reduce(lambda a, b: a * b, (part.trace() for part in self.parts), exact(self.scale))

    def largest(self) -> Any:
        numbers = [part.largest() for part in self.parts]
        return None if None in numbers else reduce(lambda a, b: a * b, numbers, exact(self.scale))


class Sums(Eigenvalues):
    """Σ_i k_i: the eigenvalues of all summands together, whose tails are at least those of the sum (N-direct).

    They have the same total, so R of them is at least R of the sum, which is Schur-concave (N-pop).
    """

    note = "Eigenvalue sums are upper bounds, from those of the summands of the kernel."

    def __init__(self, parts: Sequence[Eigenvalues], dim: int) -> None:
        self.parts, self.dim = tuple(parts), dim

    def eigenvalues(self, count: int) -> list[tuple[Any, int]]:
        taken = self._taken(count)
        return [pair for part, number in zip(self.parts, taken, strict=True) for pair in part.eigenvalues(number)]

    def tail(self, count: int) -> Any:
        pairs = zip(self.parts, self._taken(count), strict=True)
        return sum((part.tail(number) for part, number in pairs), exact(0.0))

    def trace(self) -> Any:
        return sum((part.trace() for part in self.parts), exact(0.0))

    def largest(self) -> Any:
        numbers = [part.largest() for part in self.parts]
        return None if None in numbers else sum(numbers, exact(0.0))

    def _taken(self, count: int) -> list[int]:
        """How many eigenvalues of each summand are among the largest."""
        values = [[float(value) for value in part.flat(count)] for part in self.parts]
        ordered = sorted(((value, i) for i, column in enumerate(values) for value in column), reverse=True)[:count]
        numbers = Counter(i for _, i in ordered)
        return [numbers[i] for i in range(len(self.parts))]


def _largest_products(logs: list[list[float]], count: int) -> list[tuple[int, ...]]:
    """The indices of the ``count`` largest sums of one number of each decreasing list."""
    totals: Float = np.zeros(1)
    indices: list[tuple[int, ...]] = [()]
    for column in logs:
        pairs = [(i, n) for i in range(totals.size) for n in range(min(len(column), count // (i + 1) + 1))]
        sums = np.array([totals[i] + column[n] for i, n in pairs])
        best = np.argsort(-sums, kind="stable")[:count]
        totals, indices = sums[best], [(*indices[pairs[k][0]], pairs[k][1]) for k in best]
    return indices
