"""Statements about inputs that are simulated: the statement given X, of each set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.inputs import Empirical
from gpbounds.kernels import Kernel
from gpbounds.plan import Cost, Plan
from gpbounds.rates.base import Numbers, Statement
from gpbounds.rates.draws.rows import DENSE, StreamedRows
from gpbounds.rates.draws.statement import DrawsFromRows, draws_from_rows
from gpbounds.rates.meaning import sentences
from gpbounds.rates.one_draw import OneDraw, one_draw_only
from gpbounds.rates.simulation import Simulation, simulated_bound, simulated_size, simulated_target

DECOMPOSED = 600
"""Number of rows up to which K is always decomposed."""
ROWS_PER_POINT = 12
"""K is also decomposed below this number of rows per inducing point, where three pivots per point cost as much."""
PIVOTS = 64
"""Number of pivots at the start."""


@dataclass(frozen=True, eq=False)
class ToCome(Statement):
    """The greatest, or k-th greatest, of the bounds given X of simulated sets of inputs (N-sim).

    Attributes
    ----------
    kernel : Kernel
    plan : Simulation
    numbers : Numbers
        With all of δ.
    draws : int or None
        None for one draw.
    options : dict
        y_norm2_known, law, form, direction.
    """

    kernel: Kernel
    plan: Simulation
    numbers: Numbers
    draws: int | None
    options: dict[str, Any]

    @classmethod
    def checked(
        cls, kernel: Kernel, plan: Simulation, numbers: Numbers, draws: int | str | None, options: dict[str, Any]
    ) -> ToCome:
        """With one law for all sets: by default the tilted one for y from the prior, else the k-DPP."""
        if draws is None:
            one_draw_only(options["y_norm2_known"], options["law"])
        elif options["law"] is None:
            tilted = numbers.y_norm2 is None and plan.N <= DENSE
            options = {**options, "law": "tilted" if tilted else "kdpp"}
        if isinstance(draws, str):
            raise ValueError(f"draws: expected a whole number with simulate, because redrawing needs y; got {draws!r}")
        return cls(kernel, plan, numbers, draws, options)

    @property
    def within(self) -> Numbers:
        """The numbers of the statement given X, with the remaining part of δ."""
        return replace(self.numbers, delta=np.asarray(self.plan.rest))

    def one_draw(self, X: Float) -> OneDraw:
        """One draw from the rows X."""
        form, direction, N = self.options["form"], self.options["direction"], np.asarray(float(self.plan.N))
        return OneDraw.of(self.kernel, Empirical(X), N, self.within, form=form, direction=direction, rigor="float")

    def several(self, X: Float, *, decomposed: bool) -> DrawsFromRows:
        """The best of several draws from the rows X, from eigenvalues or from pivots."""
        return draws_from_rows(
            self.kernel,
            Empirical(X),
            self.within,
            y=None,
            draws=self.draws,
            dense=self.plan.N if decomposed else 0,
            first=PIVOTS,
            rigor="float",
            **self.options,
        )

    def ways(self, largest: int) -> tuple[bool, ...]:
        """Whether to decompose K for M up to ``largest``: pivots first where they cost less, then eigenvalues."""
        N = self.plan.N
        if N > DENSE:
            return (False,)
        return (True,) if N <= max(DECOMPOSED, ROWS_PER_POINT * largest) else (False, True)

    def given(self, X: Float, M: Float) -> Bound:
        """The bound given the rows X."""
        if self.draws is None:
            return self.one_draw(X).bound(M)
        for decomposed in self.ways(int(M.max())):
            bound = self.several(X, decomposed=decomposed).bound(M)
            if np.isfinite(bound.value).all():
                break
        return bound

    def bound(self, M: Float) -> Bound:
        """The k-th greatest of the bounds of the sets, entry by entry."""
        return simulated_bound(self.plan, lambda X: self.given(X, M), delta=float(self.numbers.delta))

    def least_given(self, X: Float, target: float) -> tuple[int, Bound] | None:
        """The least M at which the bound given the rows X is at most the target, and the bound there."""
        N = self.plan.N
        if self.draws is None:
            plan = self.one_draw(X).least(target, lambda: None)
            return None if plan.M is None or plan.bound is None else (plan.M, plan.bound)
        few = N // ROWS_PER_POINT
        for decomposed in self.ways(few - 1):
            largest = N - 1 if decomposed or N > DENSE else few
            answer = _least(self.several(X, decomposed=decomposed), target, largest)
            if answer is not None:
                return answer
        return None

    def least(self, target: float, advance: Callable[[], Any]) -> Plan:
        """The k-th greatest of the M's that the simulated sets need.

        Given X the bounds decrease in M, so at this M the bound for the future inputs is at most the target, except
        with the probability that the simulation spends.
        """
        alpha, delta, N = float(self.numbers.alpha), float(self.numbers.delta), self.plan.N
        bounds: list[Bound] = []

        def size_for(X: Float) -> int | None:
            advance()
            answer = self.least_given(X, target)
            if answer is None:
                return None
            bounds.append(answer[1])
            return answer[0]

        M, sizes = simulated_size(self.plan, size_for)
        fewest, middle, most = (_number(size) for size in (sizes[0], np.median(sizes), sizes[-1]))
        return Plan(
            method="inducing",
            N=N,
            target=target,
            M=M,
            bound=None if M is None else simulated_target(self.plan, bounds, target, delta, sizes),
            bound_before=None,
            meaning=sentences(target, alpha),
            cost=None if M is None else Cost.of(N, M),
            notes=(
                f"The {self.plan.sets} simulated sets of inputs need from {fewest} to {most} points, in the median "
                f"{middle}.",
            ),
        )


def _number(size: float) -> str:
    return f"{size:.0f}" if np.isfinite(size) else "N or more"


def _least(statement: DrawsFromRows, target: float, largest: int) -> tuple[int, Bound] | None:
    """The least M up to ``largest`` at which the bound is at most the target, and the bound there."""
    rows = statement.rows
    M = statement.least_below(target, min(largest, statement.largest))
    if M is None and isinstance(rows, StreamedRows) and 1 < rows.pivots <= largest:
        # beyond the pivots there are up to rounding error nothing is proved
        M = statement.least_below(target, rows.pivots - 1)
    return None if M is None else (M, statement.at(M))
