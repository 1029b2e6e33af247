"""R_S(Q) and KL(Q‖P) from rows in partitions, as `evaluation` computes them from arrays: a pass for Q, one for R_S."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gpbounds.arrays import Float
from gpbounds.divergences.collapsed import CollapsedLaw, CollapsedSums
from gpbounds.divergences.measured import measured
from gpbounds.divergences.sparse import SparsePosterior
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.mapreduce.program import Engine, Round, Rows
from gpbounds.mapreduce.statistics import Statistics
from gpbounds.pacbayes.certificate.evaluation import Enclosed, enclosed, entry_error, from_record, sums_of_losses
from gpbounds.pacbayes.certificate.posteriors import Exact, Posterior, Sparse
from gpbounds.whitening import Inducing, inducing, with_jitter


def enclose_partitions(posterior: Posterior, kernel: Kernel, engine: Engine, reach: Float, loss: Loss) -> Enclosed:
    """As `gpbounds.pacbayes.certificate.evaluation.enclose`, for the scaled rows of ``engine``: |x_d| ≤ reach_d."""
    error = entry_error(posterior, kernel, reach)
    if isinstance(posterior, Exact):
        raise ValueError(
            "posterior: expected a sparse one for rows that are read by partitions, got the exact GP posterior, which "
            "needs all rows in memory"
        )
    if isinstance(posterior, Sparse):
        law, record = CollapsedLaw(posterior.noise, posterior.power, error), posterior

        def attempt(amount: float) -> Enclosed:
            return engine.run(FromRows(loss, law, kernel, record.Z, amount))

        return with_jitter(attempt, kernel, record.Z, posterior.jitter)
    return engine.run(FromRecord(loss, posterior, kernel, error))


@dataclass(frozen=True, eq=False)
class LossSums(Statistics):
    """The sums of the expected losses, and of their allowances, of each partition; the number of rows."""

    losses: tuple[float, ...]
    allowances: tuple[float, ...]
    rows: int


@dataclass(frozen=True, eq=False)
class FromRecord:
    """The program for a Q that does not depend on the rows."""

    loss: Loss
    posterior: Posterior
    kernel: Kernel
    error: float

    def begin(self) -> Any:
        """Q."""
        return from_record(self.posterior, self.kernel, self.error)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """One pass."""
        return (Round(self.losses, enclosed_sums),)

    def losses(self, q: SparsePosterior, rows: Rows) -> LossSums:
        """The sums of one partition, each rounded once."""
        return losses_of(q, rows, self.loss)


@dataclass(frozen=True, eq=False)
class FromRows:
    """The program for a Q given the rows: a pass for Q, and one for its losses."""

    loss: Loss
    law: CollapsedLaw
    kernel: Kernel
    Z: Any
    jitter: float

    def begin(self) -> Inducing:
        """The factor of Kuu."""
        return measured(inducing(self.kernel, self.Z, self.jitter), self.law.entry_error)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Two passes."""
        return Round(self.sums, self.law.posterior), Round(self.losses, enclosed_sums)

    def sums(self, whitener: Inducing, rows: Rows) -> CollapsedSums:
        """The sums of one partition from which Q is computed."""
        return self.law.sums(whitener, rows.X, rows.Y[:, 0])

    def losses(self, q: SparsePosterior, rows: Rows) -> LossSums:
        """The sums of one partition, each rounded once."""
        return losses_of(q, rows, self.loss)


def losses_of(q: SparsePosterior, rows: Rows, loss: Loss) -> LossSums:
    """The sums over ``rows``."""
    losses, allowances = sums_of_losses(q.predict(rows.X), rows.Y[:, 0], loss)
    return LossSums((losses,), (allowances,), len(rows.Y))


def enclosed_sums(q: SparsePosterior, sums: LossSums) -> Enclosed:
    """R_S and KL from the sums of all partitions."""
    return enclosed(q, math.fsum(sums.losses), math.fsum(sums.allowances), sums.rows)
