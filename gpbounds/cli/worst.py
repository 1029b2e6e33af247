"""The worst case over a box of lengthscales: its lower end where a proof says so, else the maximum on a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.bound import Bound, Plan
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import stationary
from gpbounds.rates.base import Numbers, Statement, silent

GRID = 9


def box(nu: float, variance: float, low: float, high: float) -> tuple[tuple[Kernel, ...], str]:
    """(kernels, note): the bound of some kernel among ``kernels`` is the worst for lengthscales in [low, high].

    Squared exponential and Matérn-½: k with the shorter lengthscale is k with the longer one times a correlation
    function, exp(-cr²) or exp(-cr).  A Schur product with a correlation matrix has majorised eigenvalues (Bapat and
    Sunder, 1985).  Tails and e_{M+1}/e_M are Schur-concave, so they do not decrease as the lengthscale falls.  All
    bounds here increase in the trace, so they do not decrease either.
    """
    which = (
        "every choice of lengthscales, one per input or one for all," if nu == np.inf else "every shared lengthscale"
    )
    where = f"in [{low:g}, {high:g}]"
    each = "The statement holds for each kernel in the box that is fixed in advance, not for one that data chose."
    if nu in (np.inf, 0.5):
        proof = "proved: shorter lengthscales multiply k by a correlation function, so eigenvalue tails grow"
        return (
            (stationary(nu, variance, low),),
            f"Worst case over {which} {where}: the least lengthscale ({proof}, Bapat and Sunder 1985). {each}",
        )
    scales = np.unique(np.geomspace(low, high, GRID))
    note = (
        f"Worst case over {scales.size} log-spaced shared lengthscales {where}: evaluated on a grid, not proved. {each}"
    )
    return tuple(stationary(nu, variance, float(scale)) for scale in scales), note


@dataclass(frozen=True, eq=False)
class WorstOf(Statement):
    """The largest bound over kernels, and the largest of the least M's.

    Attributes
    ----------
    numbers : Numbers
    each : tuple of Statement
        One for each kernel.
    names : tuple of str
        The kernels in words.
    """

    numbers: Numbers
    each: tuple[Statement, ...]
    names: tuple[str, ...]

    def bound(self, M: Float) -> Bound:
        return _largest([statement.bound(M) for statement in self.each])

    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        plans = [statement.least(target, advance) for statement in self.each]
        i = worst_plan(plans)
        note = f"The worst kernel of the grid is {self.names[i]}."
        return replace(plans[i], notes=(*plans[i].notes, note)) if len(plans) > 1 else plans[i]


def _largest(bounds: Sequence[Bound]) -> Bound:
    """The largest of ``bounds`` in each cell, with its terms."""
    first = bounds[0]
    if len(bounds) == 1:
        return first
    values = np.stack([np.asarray(b.value) for b in bounds])
    index = values.argmax(axis=0)[None]

    def at_worst(parts: Sequence[Any]) -> Any:
        wide = np.stack([np.broadcast_to(np.asarray(part), values.shape[1:]) for part in parts])
        worst = np.take_along_axis(wide, index, axis=0)[0]
        return worst if worst.ndim else float(worst)

    return replace(
        first,
        value=at_worst([b.value for b in bounds]),
        terms={name: at_worst([b.terms[name] for b in bounds]) for name in first.terms},
        certified=False,
    )


def worst_plan(plans: Sequence[Plan]) -> int:
    """Index of the plan that needs the highest rank; a plan without an answer counts as the largest."""
    return max(range(len(plans)), key=lambda i: (plans[i].M is None, plans[i].M or 0))
