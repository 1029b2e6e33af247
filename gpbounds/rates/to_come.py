"""``rate`` and ``inducing_points`` for inputs that are simulated: the statement given X that is computed for each
set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.bound import Bound
from gpbounds.inputs import Empirical
from gpbounds.kernels import Kernel
from gpbounds.numerics.search import least
from gpbounds.rates.draws.rows import DENSE, StreamedRows
from gpbounds.rates.draws.statement import DrawStatement, draw_statement
from gpbounds.rates.setting import Numbers, Setting, one_draw_only
from gpbounds.rates.simulation import Simulation, simulated_bound

DECOMPOSED = 600
"""Number of rows up to which K is always decomposed."""
ROWS_PER_POINT = 12
"""K is also decomposed below this number of rows per inducing point, where three pivots per point cost as much."""
PIVOTS = 64
"""Number of pivots at the start."""


@dataclass(frozen=True, eq=False)
class ToCome:
    """The statement that is computed for each simulated set of inputs.

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

    def setting(self, X: Float) -> Setting:
        """One draw from the rows X."""
        n = self.within
        return Setting.checked(
            self.kernel,
            n.alpha,
            Empirical(X),
            n.noise,
            n.delta,
            n.y_norm2,
            n.tv,
            self.options["form"],
            self.options["direction"],
            "float",
        )

    def statement(self, X: Float, *, decomposed: bool) -> DrawStatement:
        """The best of several draws from the rows X, from eigenvalues or from pivots."""
        return draw_statement(
            self.kernel,
            Empirical(X),
            y=None,
            draws=self.draws,
            prior=self.numbers.y_norm2 is None,
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

    def least(self, X: Float, target: float) -> tuple[int, Bound] | None:
        """The least M at which the bound for several draws from X is at most the target, and the bound there."""
        N, within = self.plan.N, self.within.single()
        few = N // ROWS_PER_POINT
        for decomposed in self.ways(few - 1):
            largest = N - 1 if decomposed or N > DENSE else few
            answer = least_cell(self.statement(X, decomposed=decomposed), within, target, largest)
            if answer is not None:
                return answer
        return None

    def given(self, X: Float, M: Float) -> Bound:
        """The bound given the rows X."""
        if self.draws is None:
            return self.setting(X).bound(np.asarray(float(self.plan.N)), M)
        for decomposed in self.ways(int(M.max())):
            bound = self.statement(X, decomposed=decomposed).bound(M, **vars(self.within))
            if np.isfinite(bound.value).all():
                break
        return bound

    def bound(self, M: Float) -> Bound:
        """The k-th greatest of the bounds of the sets, entry by entry."""
        return simulated_bound(self.plan, lambda X: self.given(X, M), delta=float(self.numbers.delta))


def least_cell(
    statement: DrawStatement, within: dict[str, Any], target: float, largest: int
) -> tuple[int, Bound] | None:
    """The least M up to ``largest`` at which the bound is at most the target, and the bound there."""
    rows = statement.rows
    M = least(lambda m: float(statement.cell(m, **within)) <= target, 1, min(largest, statement.largest))
    if M is None and isinstance(rows, StreamedRows) and 1 < rows.pivots <= largest:
        # beyond the pivots there are up to rounding error nothing is proved
        M = least(lambda m: float(statement.cell(m, **within)) <= target, 1, rows.pivots - 1)
    return None if M is None else (M, statement.cell(M, **within))
