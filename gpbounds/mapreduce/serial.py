"""Programs on one machine: one partition after the other.  The reference for every other engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.mapreduce.program import Program, Round, Rows
from gpbounds.mapreduce.progress import Counted
from gpbounds.mapreduce.tree import total


def serial(program: Program, partitions: Iterable[Rows], counted: Counted | None = None) -> Any:
    """The result of ``program`` over ``partitions``, which are read once in each round; lanes share their work.

    ``counted`` is told of each partition.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.renyi.streamed import WhiteningPass
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> program = WhiteningPass(SquaredExponential(), X[::2], 0.0)
    >>> white = serial(program, [Rows(X[:2], Y[:2], 0), Rows(X[2:], Y[2:], 1)])
    >>> white.rank, round(white.trace, 4)  # as gpbounds.whitening.whiten
    (1, 0.3519)
    """
    with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
        state = program.begin()
        for number, step in enumerate(program.rounds):
            state = step.then(state, total(_mapped(step, number, state, partitions, counted)))
    return state


def _mapped(step: Round, number: int, state: Any, partitions: Iterable[Rows], counted: Counted | None) -> Iterator[Any]:
    for place, rows in enumerate(partitions):
        yield step.map(state, rows)
        if counted is not None:
            counted.finished(number, place)


@dataclass(frozen=True)
class Serial:
    """The engine that runs `serial`.

    Attributes
    ----------
    partitions : iterable of Rows
        They can be read as often as needed.
    """

    partitions: Iterable[Rows]

    def run(self, program: Program) -> Any:
        """The result of ``program``."""
        return serial(program, self.partitions)

    def release(self) -> None:
        """Nothing: the caller holds the rows."""
