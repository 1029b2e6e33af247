"""Statements about the best of several draws: a bound for one M and one set of numbers, extended to arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.bound import Bound, Plan, claims_of
from gpbounds.numerics.search import least, least_decreasing
from gpbounds.rates.base import Numbers, Statement, sentences, silent


class SeveralDraws(Statement):
    """The bound for the best of R draws, or for draws until one is proved to be good."""

    numbers: Numbers

    @property
    @abstractmethod
    def N(self) -> int:
        """Number of data."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """The largest possible M."""

    @abstractmethod
    def cell(
        self, M: int, *, alpha: float, noise: float, delta: float, tv: float = 0.0, y_norm2: float | None = None
    ) -> Bound:
        """The least bound that is proved for one M and these numbers."""

    def needed(self, target: float) -> int | None:
        """A number below which no choice of inducing variables reaches the target (N-low); None if unknown."""
        return None

    def bound(self, M: Float) -> Bound:
        numbers = self.numbers
        norm = np.asarray(np.nan) if numbers.y_norm2 is None else numbers.y_norm2
        cells = np.broadcast(M, numbers.alpha, numbers.noise, numbers.delta, numbers.tv, norm)
        bounds = [
            self.cell(
                int(m),
                alpha=float(a),
                noise=float(s),
                delta=float(d),
                tv=float(t),
                y_norm2=None if numbers.y_norm2 is None else float(n),
            )
            for m, a, s, d, t, n in cells
        ]
        if not bounds:
            raise ValueError(f"M: expected at least one number of inducing points, got shape {cells.shape}")
        pair = bounds[0].quantity.partition("[")[2]
        return joined(bounds, cells.shape, bounds[0].quantity if numbers.alpha.ndim == 0 else f"D_alpha[{pair}")

    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        """The bounds decrease in M, because E(K − Q) decreases in M and the bounds increase in E(K − Q)."""
        M = self.least_below(target, self.largest, advance)
        return Plan.at(
            M,
            self.at,
            first=1,
            method="inducing",
            N=self.N,
            target=target,
            needed=self.needed(target),
            meaning=sentences(target, float(self.numbers.alpha)),
        )

    def at(self, M: int) -> Bound:
        """The bound for one M, where the numbers are scalars."""
        single: dict[str, Any] = self.numbers.single()
        return self.cell(M, **single)

    def least_below(
        self, target: float, largest: int, advance: Callable[[], Any] = silent, guess: int | None = None
    ) -> int | None:
        """The least M up to ``largest`` at which the bound is at most the target; sooner known with a good guess."""

        def above(M: int) -> float:
            advance()
            return float(self.at(M))

        if guess is None:
            return least(lambda M: above(M) <= target, 1, largest)
        return least_decreasing(above, target, 1, largest, guess)


def joined(cells: list[Bound], shape: tuple[int, ...], quantity: str) -> Bound:
    """Join the records of cells: their values, the terms that all have, and every claim and assumption."""
    if not shape:
        return cells[0]
    common = [name for name in cells[0].terms if all(name in cell.terms for cell in cells)]
    return Bound(
        value=np.array([cell.value for cell in cells]).reshape(shape),
        side="upper",
        confidence=np.array([cell.confidence for cell in cells]).reshape(shape),
        claim=", ".join(claims_of(*cells)),
        terms={name: np.array([cell.terms[name] for cell in cells]).reshape(shape) for name in common},
        assumptions=tuple(dict.fromkeys(sentence for cell in cells for sentence in cell.assumptions)),
        certified=all(cell.certified for cell in cells),
        quantity=quantity,
    )
