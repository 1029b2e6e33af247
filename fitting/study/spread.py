"""How far M is known: the same level for hyperparameters that are fitted to other rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.study.hyperparameters import Hyperparameters
from fitting.study.problem import Problem, of_rows
from fitting.study.ranks import AFTER, Aims, after_the_fact
from fitting.study.standardised import TableRows
from gpbounds.kernels import Kernel

LARGEST = 4000
"""Above so many rows the spread is that of a sample of the rows."""


@dataclass(frozen=True)
class Spread:
    """The M of one level for hyperparameters fitted to several draws of rows.

    Attributes
    ----------
    level : str
        "given y" or "after the fact".
    N : int
        Number of rows that the bounds are about.
    counts : tuple of int or None
        M for the hyperparameters of the plan, then for each refit; None where no M was found.
    """

    level: str
    N: int
    counts: tuple[int | None, ...]

    @property
    def refits(self) -> int:
        """Number of refits."""
        return len(self.counts) - 1

    def __str__(self) -> str:
        found = [M for M in self.counts if M is not None]
        if not found:
            return "no M"
        ends = f"M = {min(found)}" if min(found) == max(found) else f"M = {min(found)} to {max(found)}"
        return ends if len(found) == len(self.counts) else f"{ends}, or none"

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {"level": self.level, "rows": self.N, "M": self.counts}


def seeds(seed: int, refits: int) -> list[int]:
    """Seeds of the refits, derived from that of the plan.

    >>> seeds(0, 2) == seeds(0, 3)[:2], len(set(seeds(0, 5) + seeds(1, 5)))
    (True, 10)
    """
    return [int(np.random.SeedSequence([seed, k + 1]).generate_state(1)[0]) for k in range(refits)]


def spread(problem: Problem, aims: Aims, level: str, first: int | None, refits: int) -> Spread | None:
    """The M of ``level`` for each of ``refits`` fits, and ``first``, that of the plan; None where nothing was fitted.

    Above `LARGEST` rows all are computed for the sample of the data-aware level.
    """
    data, refit, settings = problem.data, problem.refit, problem.settings
    if data is None or refit is None or not refits or len(problem.kernels) > 1:
        return None
    rows = data.subset(problem.asked.rows, problem.asked.seed) if data.N > LARGEST else data
    if rows.N < data.N:
        first = _least(problem, rows, level, aims, problem.kernels[0], settings.noise)
    counts = [first]
    for seed in seeds(problem.asked.seed, refits):
        hyper = refit(seed)
        counts.append(_least(problem, rows, level, aims, hyper.kernel, hyper.noise))
    return Spread(level, rows.N, tuple(counts))


def _least(problem: Problem, rows: TableRows, level: str, aims: Aims, kernel: Kernel, noise: float) -> int | None:
    """The M of a level for these rows, kernel and noise."""
    asked = problem.asked
    if level == AFTER:
        return after_the_fact(problem, rows, aims, kernel, noise).M
    part = of_rows(rows, Hyperparameters(kernel, noise, ""), replace(asked, rows=rows.N, simulate=0, old_forms=False))
    (case,) = (case for case in part.cases if case.kind == level)
    return part.plan(case, aims.alpha, aims.nats).M
