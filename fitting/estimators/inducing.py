"""Estimators with inducing points: how many, which, and rounds of choosing and training."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.estimators.base import GaussianProcess
from fitting.estimators.remarks import Remark
from fitting.estimators.trainer import Outcome, Trainer
from fitting.evaluation import Parameters
from fitting.starts import bounded_gap, choose_inducing, enough_inducing
from fitting.training import Run
from gpbounds.arrays import Float, as_points, host
from gpbounds.devices import array_module
from gpbounds.kernels import Kernel
from gpbounds.validation import choice, count, positive

ROUNDS = 3
"""Largest number of rounds of choosing and training for ``n_inducing="auto"``."""

WAYS = ("greedy", "kdpp", "kmeans", "uniform")


@dataclass(eq=False, repr=False, kw_only=True)
class WithInducing(GaussianProcess):
    """Estimators with M inducing inputs, which are chosen by a method or passed.

    Attributes
    ----------
    inducing_ : array (M, D)
        Inducing inputs Z.
    """

    n_inducing: Any = 100
    inducing: Any = "greedy"
    learn_inducing: bool = True

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if isinstance(self.inducing, str):
            choice("inducing", self.inducing, WAYS)
        if not isinstance(self.n_inducing, str):
            count("n_inducing", self.n_inducing)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        def draw(kernel: Kernel, i: int) -> Any:
            return self._drawn(kernel, X, trainer.session.seed, i)

        first = replace(start, Z=draw(start.kernel, 0))
        outcomes = trainer.best_of("sparse", first, self.n_restarts, draw)
        return outcomes[0], [outcome.run for outcome in outcomes]

    def _drawn(self, kernel: Kernel, X: Float, seed: int, i: int) -> Any:
        """The inducing points of start i by ``inducing`` and ``n_inducing``, on the device of training."""
        if isinstance(self.inducing, str):
            rng = np.random.default_rng([seed & (2**63 - 1), 3, i])
            Z = choose_inducing(kernel, X, count("n_inducing", self.n_inducing), self.inducing, rng)
        else:
            Z = np.array(host(as_points(self.inducing, "inducing", X.shape[1])), dtype=np.float64)
        return array_module(self.device).asarray(Z)  # type: ignore[arg-type]


@dataclass(eq=False, repr=False, kw_only=True)
class InducingGP(WithInducing):
    """The common part of `RenyiGP` and `SparseGP`.

    Attributes
    ----------
    gap_ : float
        Only for ``n_inducing="auto"``: upper bound on D_α from the trained sparse posterior to the exact one.
    """

    target_gap: float = 1.0
    max_inducing: int = 1000

    def _order(self) -> float:
        """Order α in (0, 1] of the gap that "auto" bounds."""
        return 1.0

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if isinstance(self.n_inducing, str):
            choice("n_inducing", self.n_inducing, ("auto",))
            if not (isinstance(self.inducing, str) and self.inducing == "greedy"):
                raise ValueError(f"inducing: expected 'greedy' for n_inducing='auto', got {self.inducing!r}")
        positive("target_gap", self.target_gap)
        count("max_inducing", self.max_inducing)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        if self.n_inducing != "auto":
            return super()._search(trainer, start, X, Y)
        return self._rounds(trainer, start, X, Y)

    def _rounds(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        """Choose M points for the current hyperparameters and train; at most three rounds."""
        target, alpha, runs = float(self.target_gap), self._order(), []
        xp: Any = array_module(self.device)  # type: ignore[arg-type]
        point, M = start, 0
        for i in range(ROUNDS):
            Z, _ = enough_inducing(point.kernel, X, Y, alpha, noise=point.noise, target=target, most=self.max_inducing)
            if Z.shape[0] < M:  # M never decreases from round to round
                Z = choose_inducing(point.kernel, X, M, "greedy", np.random.default_rng(0))
            M = Z.shape[0]

            def draw(kernel: Kernel, k: int, M: int = M) -> Any:
                return xp.asarray(choose_inducing(kernel, X, M, "greedy", np.random.default_rng(k)))

            first = replace(point, Z=xp.asarray(Z))
            outcomes = trainer.best_of(f"round {i}", first, self.n_restarts if i == 0 else 0, draw)
            outcome = outcomes[0]
            runs += sorted((attempt.run for attempt in outcomes), key=lambda run: run.status == "interrupted")
            point = outcome.parameters
            self.gap_ = bounded_gap(point.kernel, X, Y, host(point.Z), alpha, noise=point.noise)
            if self.gap_ <= target or runs[-1].status == "interrupted" or trainer.optimizer is None:
                break
        return outcome, runs

    def _remarks(self, outcome: Outcome) -> list[Remark]:
        remarks = super()._remarks(outcome)
        if self.n_inducing == "auto" and not self.gap_ <= self.target_gap:
            reached = "not bounded" if math.isinf(self.gap_) else f"bounded by {self.gap_:.3g} nats"
            text = (
                f"n_inducing='auto': with {self.inducing_.shape[0]} inducing points the gap is {reached}, more than "
                f"target_gap = {self.target_gap:g}: raise it, or max_inducing = {self.max_inducing}."
            )
            remarks.append(Remark("gap", text))
        return remarks
