"""The mean of K − Q under a k-DPP with every number on the safe side: upper ends of Arb balls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.enclosures import kdpp as enclosures
from gpbounds.kdpp.mean_residual import ExpectedResidual
from gpbounds.rigor import MOST_BITS, above, at_bits, below, enclosed_each, exact, outer, rounded


@dataclass(frozen=True, eq=False)
class EnclosedResidual(ExpectedResidual):
    """An `ExpectedResidual` whose numbers are upper bounds by construction; only ``lowest`` is rounded down.

    The functions are sums over the stored doubles, evaluated in balls and rounded up; they increase in ``miss``,
    ``rho`` and ``eigenvalues``, and decrease in ``lowest``.
    """

    @cached_property
    def trace(self) -> float:
        return _sum_up(lambda rho: rho, self.rho)

    @cached_property
    def shares(self) -> Float:
        s2 = self._noise()
        return np.asarray(outer(lambda value: exact(value) / (exact(value) + exact(s2)), self.eigenvalues))

    @cached_property
    def omega(self) -> float:
        return self.omega_above(0.0)

    @cached_property
    def excess(self) -> float:
        s2 = exact(self._noise())
        return _sum_up(lambda rho, value: rho * value / (value + s2) / s2, self.rho, self.eigenvalues)

    def omega_above(self, a: float) -> float:
        s2 = exact(self._noise())

        def part(miss: Any, value: Any) -> Any:
            return miss * (value / (value + s2) - exact(a)).max(exact(0.0))

        return _sum_up(part, self.miss, self.eigenvalues)

    def quadratic(self, squares: Any) -> float:
        weights, s2 = self._weights(squares), exact(self._noise())
        return _sum_up(lambda rho, low, w: rho * w / (low + s2) ** 2, self.rho, self.lowest, weights)

    @cached_property
    def greatest_weight(self) -> float:
        s2 = self._noise()
        weights = outer(lambda rho, low: exact(rho) / (exact(low) + exact(s2)) ** 2, self.rho, self.lowest)
        return float(weights.max())


def _sum_up(part: Callable[..., Any], *columns: Float) -> float:
    """Σ part(…) over the entries of columns, rounded upwards."""
    rows = list(zip(*(column.tolist() for column in columns), strict=True))

    def total() -> Any:
        return sum((part(*map(exact, row)) for row in rows), exact(0.0))

    return rounded(total, upwards=True)


def enclosed_residual(
    values: Sequence[float], error: float, some: Any, M: int, noise: float | None
) -> EnclosedResidual:
    """`expected_residual` for checked arguments; ``some`` marks the eigenvalues that may differ from 0."""
    n, chosen = len(values), np.flatnonzero(some).tolist()

    def ends() -> tuple[list[Any], list[Any]]:
        upper = [exact(values[i]) + exact(error) for i in chosen]
        return upper, [(exact(values[i]) - exact(error)).max(exact(0.0)) for i in chosen]

    def numbers() -> list[Any]:
        (upper, lower), count = ends(), len(chosen)
        if M == 0:
            return upper + [exact(1.0)] * count + upper + lower
        rest, ratio = enclosures.residual(upper, M)
        rho = [value * r / (value + r) for value, r in zip(upper, rest, strict=True)]
        miss = [r / (low + r) if low > 0 else exact(1.0) for low, r in zip(lower, rest, strict=True)]
        return [*rho, *miss, *upper, *lower, ratio]

    balls, count = enclosed_each(numbers), len(chosen)
    with at_bits(MOST_BITS):
        rho, miss, upper = (_spread(n, chosen, balls[k * count : (k + 1) * count], above, k == 1) for k in range(3))
        lowest = _spread(n, chosen, balls[3 * count : 4 * count], below, False)
        ratio = above(balls[-1]) if M else np.inf
    if M == 0:
        miss = np.ones(n)
    return EnclosedResidual(M, upper, lowest, miss, rho, ratio, noise)


def _spread(n: int, chosen: list[int], balls: list[Any], end: Callable[[Any], float], ones: bool) -> Float:
    """An array of n numbers: an end of a ball for each chosen entry, 1 or 0 for the others."""
    numbers = np.ones(n) if ones else np.zeros(n)
    numbers[chosen] = [end(ball) for ball in balls]
    return numbers
