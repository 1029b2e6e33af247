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
from fitting.rows.row_blocks import Blocking
from fitting.starts.starts import distinct_rows, units
from fitting.training import Run, Session
from gpbounds.arrays import Float
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.rows import Source
from gpbounds.validation import choice, count, positive, scalar
from gpbounds.vecchia.blocks import scales

WORTH = 0.01
"""Nats for each row and output by which blocks must raise the objective at the start for "auto" to train it."""

METHODS = ("vfe", "fitc", "dtc", "pep", "pic")


@dataclass(eq=False, repr=False)
class SparseGP(InducingGP):
    """Sparse Gaussian process; ``method`` selects its objective F and its predictive law, see `fitting.objective`.

    A step takes O(NM²) time (PIC with blocks of n: O(N(M² + nM + n²))) and O(M² + M·chunk + N) memory.

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
        bound on log p(y) and grows from left to right (N-fischer; `fitting.objectives.fischer`).  VFE with few inducing
        points trains a larger noise, so as to keep the trace small; these need not.  Predictions are those of VFE at
        the trained parameters.  Blocks are halves of halves of the rows, distances in units of the lengthscales at the
        start of training; for "vecchia" each is given as many earlier rows.  "auto" trains "blocks" if this raises the
        objective at the start by more than 0.01 nats per row, and otherwise VFE; ``structure_`` says which.
    block_size : int
        For "pic": the average number of rows in a block.  Blocks are k-means clusters of the standardised rows; a new
        point belongs to the block with the nearest centre.  For "blocks" and "vecchia": the largest number of rows.
    kernel, noise : as in `ExactGP`
    n_inducing, inducing, learn_inducing, target_gap, max_inducing, draws, delta : as in `RenyiGP`
        For every method, "auto" bounds the gap of order 1 of the variational posterior.
    optimizer, max_iter, tol, learning_rate, n_restarts, start, lengthscales, fixed, limits, normalize_y, mean, \
random_state, device, progress, checkpoint : as in `ExactGP`

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
    noise: float | None = None
    power: float | None = field(default=None, kw_only=True)
    beta: float = field(default=1.0, kw_only=True)
    structure: str | None = field(default=None, kw_only=True)
    block_size: int = field(default=100, kw_only=True)
    _partitions: ClassVar[bool] = True

    def _member(self) -> Member:
        choice("method", self.method, METHODS)
        if scalar(positive, "beta", self.beta) != 1.0 and self.method != "vfe":
            raise ValueError(f"beta: expected 1 for method={self.method!r}, got {self.beta!r}: only 'vfe' has a factor")
        power = 0.5 if self.method == "pep" and self.power is None else self.power
        if self.structure is not None:
            choice("structure", self.structure, (*PENALTIES, "auto"))
        structure = getattr(self, "structure_", None) if self.structure == "auto" else self.structure
        return member(self.method, power=power, structure=structure)

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
        if self.structure == "auto":
            trainer = self._structured(trainer, replace(start, Z=self._drawn(start, X, Y, trainer.session.seed, 0)))
        return super()._search(trainer, start, X, Y)

    def _structured(self, trainer: Trainer, start: Parameters) -> Trainer:
        """``trainer`` with the objective of blocks where it pays at ``start``; sets ``structure_``."""
        plain: Any = trainer.objective
        self.structure_: str | None = "blocks"
        try:
            blocks = self._objective()
            gain = float(plain.minimised(start, gradient=False).value - blocks.minimised(start, gradient=False).value)
        except (NotPositiveDefinite, NonFinite):
            gain = 0.0
        if gain > WORTH * plain.N * plain.data.P:
            return replace(trainer, objective=blocks)
        self.structure_ = None
        return trainer

    def _begun(self, X: Float, Y: Float, session: Session) -> tuple[Parameters, Parameters]:
        given, start = super()._begun(X, Y, session)
        if self.structure in ("blocks", "vecchia", "auto"):
            self.block_units_ = scales(start.kernel, self._some(X, Y, session)[0])
            if self._held is not None:
                self._held = replace(self._held, blocks=self._blocking)
        return given, start

    @property
    def _blocking(self) -> Blocking:
        size = count("block_size", self.block_size)
        return Blocking(self.block_units_, size, size if self.structure == "vecchia" else 0)

    def _blocks(self) -> Any:
        if self.method == "pic" or not self._member().needs_blocks:
            return super()._blocks()
        X = self.X_train_
        return self._blocking.of(X if len(X) else np.zeros((1, X.shape[1])))  # a model in a file, of rows elsewhere

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
