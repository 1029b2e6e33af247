"""Programs on one machine: one partition after the other.  The reference for every other engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.mapreduce.program import Program, Rows
from fitting.mapreduce.tree import total
from gpbounds.linalg.parallel import one_blas_thread


def serial(program: Program, partitions: Iterable[Rows]) -> Any:
    """The result of ``program`` over ``partitions``, which are read once in each round; lanes share their work.

    >>> from fitting.mapreduce.two_passes import TwoPasses
    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> vfe = TwoPasses.of("vfe", SquaredExponential(), 0.1, Z=X[::2], N=3)
    >>> round(serial(vfe, [Rows(X[:2], Y[:2], 0), Rows(X[2:], Y[2:], 1)]).value, 4)  # as fitting.family.objective
    -4.5099
    """
    with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
        state = program.begin()
        for step in program.rounds:
            state = step.then(state, total(step.map(state, rows) for rows in partitions))
    return state


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
