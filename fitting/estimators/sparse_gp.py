"""Sparse Gaussian processes in O(NM²): VFE, FITC, DTC, power EP, PIC."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fitting.estimators.inducing import InducingGP
from fitting.estimators.trainer import Outcome, Trainer
from fitting.objectives.collapsed import PENALTIES, row_by_row
from fitting.objectives.goals import Evidence, Goal
from fitting.objectives.laws import ModelLaw, law_of
from fitting.objectives.objective import Member, member
from fitting.objectives.point import Parameters
from fitting.starts.starts import units
from fitting.training import RESUMED, Run, Session
from gpbounds.arrays import Float, distinct_rows
from gpbounds.errors import NonFinite, NotPositiveDefinite, shown
from gpbounds.kernels import Kernel
from gpbounds.rows import Source
from gpbounds.validation import choice, count, positive, scalar
from gpbounds.vecchia.blocks import Blocking, scales

WORTH = 0.01
"""Nats for each row and output by which blocks must raise the objective after VFE for "auto" to train them."""

ROUNDS = 3
"""Largest number of trainings, each with blocks by the lengthscales where the one before ended."""

METHODS = ("vfe", "fitc", "dtc", "pep", "pic")

FAR = 1e150
"""Length, in place of an infinite one, of a column that the kernel does not read."""


def _lengths(kernel: Kernel, X: Float) -> Float:
    return np.minimum(scales(kernel, X), FAR)


@dataclass(eq=False, repr=False)
class SparseGP(InducingGP):
    """Sparse Gaussian process; ``method`` selects its objective F and its predictive law, see `fitting.objective`.

    A step takes O(NM²) time (PIC with blocks of n: O(N(M² + nM + n²))) and O(M² + M·chunk + N) memory.  VFE of rows in
    memory, 4096 and 64·M or more, starts L-BFGS-B after 200 steps of Adam on 8·M random rows each (``random_state``).
    On a CPU the features of the steps are in single precision, and, unless ``tol`` is None, those of L-BFGS-B while its
    values err by less than a tenth of ``tol``; where it does not settle, it goes on in doubles.

    Parameters
    ----------
    method : "vfe", "fitc", "dtc", "pep" or "pic"
        Only the objective of "vfe" is a lower bound on log p(y).
    power : float, optional
        Power of K − Q in [0, 1], for "pep" only; None is ½.
    beta : float
        For "vfe": factor of KL(q‖p) in the objective, with q at its optimum.  For another number than 1 the objective
        is no bound on log p(y).
    structure : None, "diagonal", "blocks", "vecchia" or "auto"
        For "vfe": log-determinants of parts of K − Q take the place of its trace in the objective, which stays a lower
        bound on log p(y) and grows from left to right (N-fischer; `fitting.objectives.structured`).  VFE with few
        inducing points trains a larger noise, so as to keep the trace small; these need not.  Predictions are those of
        VFE at the trained parameters.  Blocks are halves of halves of the rows, distances in units of the lengthscales;
        training is repeated with new blocks as long as this pays.  For "vecchia" each is given as many earlier rows.
        Rows that are read by partitions have blocks within each.  "auto" trains VFE, and then goes on with "blocks"
        if these raise the objective there by more than 0.01 nats per row and output.
    block_size : int
        For "pic": the average number of rows in a block.  Blocks are k-means clusters of the standardised rows; a new
        point belongs to the block with the nearest centre.  For "blocks" and "vecchia": the largest number of rows.
    kernel, noise : as in `ExactGP`
    n_inducing, inducing, learn_inducing, target_gap, max_inducing, draws, delta : as in `RenyiGP`
        For every method, "auto" bounds the gap of order 1 of the variational posterior.
    optimizer, max_iter, tol, learning_rate, n_restarts, start, lengthscales, fixed, limits, normalize_y, mean, \
random_state, device, progress, checkpoint : as in `ExactGP`

    Attributes
    ----------
    structure_ : "blocks" or "none"
        Only for ``structure="auto"``: what was trained.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.cos(40.0 * X[:, 0])
    >>> model = SparseGP("vfe", n_inducing=8).fit(X, y)
    >>> lower, upper = model.log_evidence_bounds()
    >>> bool(model.objective_ <= upper)
    True
    """

    method: str = "vfe"
    kernel: Kernel | str | None = None
    noise: Any = None
    power: float | None = field(default=None, kw_only=True)
    beta: float = field(default=1.0, kw_only=True)
    structure: str | None = field(default=None, kw_only=True)
    block_size: int = field(default=100, kw_only=True)
    _partitions: ClassVar[bool] = True

    def _member(self) -> Member:
        choice("method", self.method, METHODS)
        if scalar(positive, "beta", self.beta) != 1.0 and self.method != "vfe":
            raise ValueError(
                f"beta: expected 1 for method={self.method!r}, got {shown(self.beta)}: only 'vfe' has a factor"
            )
        power = 0.5 if self.method == "pep" and self.power is None else self.power
        if self.structure is not None:
            choice("structure", self.structure, (*PENALTIES, "auto"))
        structure = self.structure
        if structure == "auto":
            structure = "blocks" if getattr(self, "structure_", "none") == "blocks" else None
        return member(self.method, power=power, structure=structure)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        count("block_size", self.block_size)

    def _bounds(self) -> float | None:
        return 1.0 if self.method == "vfe" and self.beta == 1.0 else None

    def _check_source(self, rows: Source) -> None:
        if self.method == "pic":
            row_by_row(self._member())
        if isinstance(self.n_inducing, str) or self._best:
            raise ValueError(
                "n_inducing, inducing: expected a number, and another choice than 'best', for rows that are read by "
                "partitions: n_inducing='auto' and inducing='best' prove bounds, for which they need all rows in memory"
            )

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        if not (isinstance(self.n_inducing, str) or self._best):  # these prove bounds for all rows
            X, Y = self._some(X, Y, trainer.session)
        outcome, runs = super()._search(trainer, start, X, Y)
        if self.structure == "auto":
            trainer, outcome, runs = self._structured(trainer, outcome, runs)
        if self.method == "pic" or self._held is not None or not self._member().needs_blocks:
            return outcome, runs
        return self._reblocked(trainer, outcome, runs)

    def _structured(self, trainer: Trainer, outcome: Outcome, runs: list[Run]) -> tuple[Trainer, Outcome, list[Run]]:
        """Go on with the objective of blocks if it is worth it where training by VFE ended; sets ``structure_``."""
        self.structure_ = "blocks"
        if self._held is None:
            self.block_units_ = _lengths(outcome.parameters.kernel, self.X_train_)
        try:
            blocks: Any = self._objective()
            gain = -blocks.minimised(outcome.parameters, gradient=False).value - outcome.run.value
        except (NotPositiveDefinite, NonFinite):
            gain = 0.0
        plain: Any = trainer.objective
        if outcome.run.status == "interrupted" or not gain > WORTH * plain.N * plain.data.P:
            self.structure_ = "none"
            return trainer, outcome, runs
        ending = replace(trainer.ending, after=RESUMED)
        trainer = replace(trainer, objective=blocks, otherwise=(), raises_noise=False, ending=ending)
        outcome = trainer.run("blocks 0", outcome.parameters)
        return trainer, outcome, [outcome.run, *runs]

    def _start(
        self, given: Parameters, X: Float, Y: Float, session: Session, attempt: int = 0, prefix: str = ""
    ) -> Parameters:
        """As in every estimator; the first start also sets the units in which rows are near."""
        if self.structure == "auto":
            self.structure_ = "none"
        start = super()._start(given, X, Y, session, attempt, prefix)
        if self.structure in ("blocks", "vecchia", "auto") and attempt == 0:
            self.block_units_ = _lengths(start.kernel, self._some(X, Y, session)[0])
            if self._held is not None:
                size = count("block_size", self.block_size)
                self._held = replace(self._held, blocks=Blocking(self.block_units_, size, self._neighbours))
        return start

    @property
    def _neighbours(self) -> int:
        """Earlier rows that a block is given."""
        return int(self.block_size) if self.structure == "vecchia" else 0

    @property
    def _blocking(self) -> Blocking | None:
        if self.method == "pic" or not self._member().needs_blocks:
            return None
        if not hasattr(self, "block_units_"):
            raise ValueError(f"block_units_: expected in a model with structure={self.structure!r}, got none")
        return Blocking(self.block_units_, count("block_size", self.block_size), self._neighbours)

    def _law_and_goal(self) -> tuple[ModelLaw, Goal]:
        return law_of(self._member()), Evidence(float(self.beta))

    def _prepare(self, X: Float) -> None:
        if self.method != "pic":
            return
        size = count("block_size", self.block_size)
        self.block_units_ = units(X)
        scaled = X / self.block_units_
        blocks = min(-(-X.shape[0] // size), distinct_rows(X))
        if blocks == 1:
            self.block_centres_ = scaled.mean(axis=0, keepdims=True)
            return
        from sklearn.cluster import KMeans

        self.block_centres_ = KMeans(blocks, n_init=1, random_state=0).fit(scaled).cluster_centers_

    def _reblocked(self, trainer: Trainer, outcome: Outcome, runs: list[Run]) -> tuple[Outcome, list[Run]]:
        """Train again with the blocks of the trained lengthscales, as long as these raise the objective by ``tol``."""
        negligible = max(trainer.ending.tol * trainer.ending.unit, WORTH)
        for number in range(1, ROUNDS):
            if self.optimizer is None or outcome.run.status == "interrupted" or self._best or self.n_inducing == "auto":
                break
            before: Float = self.block_units_
            self.block_units_ = _lengths(outcome.parameters.kernel, self.X_train_)
            renewed = self._objective()
            if -renewed.minimised(outcome.parameters, gradient=False).value - outcome.run.value <= negligible:
                self.block_units_ = before
                break
            ending = replace(trainer.ending, after=RESUMED)
            trainer = replace(trainer, objective=renewed, otherwise=(), raises_noise=False, ending=ending)
            outcome = trainer.run(f"blocks {number}", outcome.parameters)
            runs = [outcome.run, *runs]
        return outcome, runs
