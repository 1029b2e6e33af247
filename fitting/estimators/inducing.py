"""Estimators with inducing points: how many, which, and rounds of choosing and training."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fitting.backend import host
from fitting.estimators.base import GaussianProcess
from fitting.estimators.trainer import Outcome, Trainer
from fitting.parameters import Parameters
from fitting.starts import bounded_gap, choose_inducing, enough_inducing
from fitting.training import Run
from gpbounds.arrays import Float, as_points, namespace
from gpbounds.kernels import Kernel
from gpbounds.validation import choice, count, positive

ROUNDS = 3
"""Rounds of choosing and training for ``n_inducing="auto"``, at most."""

WAYS = ("greedy", "kdpp", "kmeans", "uniform")


def drawn(estimator: Any, trainer: Trainer, X: Float) -> Callable[[Kernel, int], Any]:
    """(kernel, i) ↦ the inducing points of start i, as the estimator's ``inducing`` and ``n_inducing`` ask for them."""

    def draw(kernel: Kernel, i: int) -> Any:
        if not isinstance(estimator.inducing, str):
            Z = np.array(host(as_points(estimator.inducing, "inducing", X.shape[1])), dtype=np.float64)
        else:
            rng = np.random.default_rng([trainer.session.seed & (2**63 - 1), 3, i])
            Z = choose_inducing(kernel, X, count("n_inducing", estimator.n_inducing), estimator.inducing, rng)
        return namespace(trainer.X).asarray(Z)

    return draw


class InducingGP(GaussianProcess):
    """What `RenyiGP` and `SparseGP` share.

    Attributes
    ----------
    inducing_ : array (M, D)
        Inducing inputs Z.
    gap_ : float
        Only for ``n_inducing="auto"``: upper bound on D_α from the sparse posterior to the exact one at the end.
    """

    n_inducing: int | str
    inducing: Any
    learn_inducing: bool
    target_gap: float
    max_inducing: int

    def _order(self) -> float:
        """Order α in (0, 1] of the gap that "auto" looks at."""
        return 1.0

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if isinstance(self.inducing, str):
            choice("inducing", self.inducing, WAYS)
        if isinstance(self.n_inducing, str):
            choice("n_inducing", self.n_inducing, ("auto",))
            if not (isinstance(self.inducing, str) and self.inducing == "greedy"):
                raise ValueError(f"inducing: expected 'greedy' for n_inducing='auto', got {self.inducing!r}")
        else:
            count("n_inducing", self.n_inducing)
        positive("target_gap", self.target_gap)
        count("max_inducing", self.max_inducing)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        if self.n_inducing == "auto":
            return self._rounds(trainer, start, X, Y)

        draw = drawn(self, trainer, X)
        first = Parameters(start.kernel, start.noise, draw(start.kernel, 0))
        found = trainer.best_of("sparse", first, self.n_restarts, draw)
        return found[0], [outcome.run for outcome in found]

    def _rounds(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        """Choose M points for the hyperparameters at hand, train, and again with those found, at most three times."""
        target, alpha, runs = float(self.target_gap), self._order(), []
        xp, here, M = namespace(trainer.X), start, 0
        for i in range(ROUNDS):
            Z, _ = enough_inducing(here.kernel, X, Y, here.noise, alpha, target, self.max_inducing)
            if Z.shape[0] < M:  # what earlier hyperparameters needed is not given up
                Z = choose_inducing(here.kernel, X, M, "greedy", np.random.default_rng(0))
            M = Z.shape[0]
            first = Parameters(here.kernel, here.noise, xp.asarray(Z))

            def draw(kernel: Kernel, k: int, M: int = M) -> Any:
                return xp.asarray(choose_inducing(kernel, X, M, "greedy", np.random.default_rng(k)))

            found = trainer.best_of(f"round {i}", first, self.n_restarts if i == 0 else 0, draw)
            outcome = found[0]
            runs += sorted((one.run for one in found), key=lambda run: run.status == "interrupted")
            here = outcome.parameters
            self.gap_ = bounded_gap(here.kernel, X, Y, host(here.Z), here.noise, alpha)
            if self.gap_ <= target or runs[-1].status == "interrupted" or trainer.optimizer is None:
                break
        return outcome, runs

    def _complaints(self, outcome: Outcome) -> list[str]:
        said = super()._complaints(outcome)
        if self.n_inducing == "auto" and not self.gap_ <= self.target_gap:
            reached = "not bounded" if math.isinf(self.gap_) else f"bounded by {self.gap_:.3g} nats"
            said.append(
                f"n_inducing='auto': with {self.inducing_.shape[0]} inducing points the gap is {reached}, more than "
                f"target_gap = {self.target_gap:g}: raise it, or max_inducing = {self.max_inducing}."
            )
        return said
