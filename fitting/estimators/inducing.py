"""Estimators with inducing points: how many, which, and rounds of choosing and training."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fitting.estimators.base import GaussianProcess
from fitting.estimators.regression import Regression
from fitting.estimators.remarks import Remark
from fitting.estimators.trainer import Outcome, Trainer, with_inducing
from fitting.objectives.objective import Objective
from fitting.objectives.point import Parameters
from fitting.starts.best import AFTER_TRAINING, at_jitter, best_inducing, gap_of, planned_number
from fitting.starts.starts import bounded_gap, choose_inducing, distinct_rows, enough_inducing
from fitting.training import Run
from gpbounds.arrays import Float, as_points, host
from gpbounds.kernels import Kernel
from gpbounds.rates.draws.given import draws_argument
from gpbounds.rates.draws.sentences import FIXED_BEFORE
from gpbounds.validation import array_module, choice, count, open_unit, positive, scalar

ROUNDS = 3
"""Largest number of rounds of choosing and training for ``n_inducing="auto"``."""

WAYS = ("auto", "greedy", "kdpp", "kmeans", "uniform")

USUAL = 100
"""Number of inducing points by which the rows of the default start are chosen for ``n_inducing="auto"``."""

STREAM = 4
"""Stream of random numbers for the draws after training; batches, restarts and inducing points use streams 1 to 3, the
default start stream 5."""


@dataclass(eq=False, repr=False, kw_only=True)
class WithInducing(GaussianProcess):
    """Estimators with M inducing inputs, which are chosen by a method or passed.

    ``inducing="auto"`` takes centres of clusters of the rows (k-means).  Greedy points lie far from most rows: training
    from them takes longer and ends at a lower objective (`benchmarks/README.md`).

    Attributes
    ----------
    inducing_ : array (M, D)
        Inducing inputs Z.
    """

    n_inducing: Any = 100
    inducing: Any = "auto"
    learn_inducing: bool = True
    _ways: ClassVar[tuple[str, ...]] = WAYS  # that ``inducing`` may name

    @property
    def log_marginal_likelihood(self) -> Any:
        """An error with what there is instead: a model with inducing points does not compute log p(y).

        Raises
        ------
        AttributeError
        """
        raise AttributeError(
            f"log_marginal_likelihood: a {type(self).__name__} does not compute log p(y), ExactGP does: "
            "log_evidence_bounds() has a lower and an upper bound on it, for Gaussian noise"
        )

    @property
    def _way(self) -> str:
        """The method by which points are chosen."""
        return "kmeans" if self.inducing == "auto" else str(self.inducing)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if isinstance(self.inducing, str):
            choice("inducing", self.inducing, self._ways)
        if not isinstance(self.n_inducing, str):
            count("n_inducing", self.n_inducing)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        def draw(kernel: Kernel, i: int) -> Any:
            return self._drawn(replace(start, kernel=kernel), X, Y, trainer.session.seed, i)

        first = replace(start, Z=draw(start.kernel, 0))
        outcomes = trainer.best_of("sparse", first, self.n_restarts, with_inducing(draw))
        return outcomes[0], [outcome.run for outcome in outcomes]

    def _rank(self, N: int) -> int:
        if not isinstance(self.inducing, str):
            return len(self.inducing)
        return USUAL if isinstance(self.n_inducing, str) else int(self.n_inducing)

    def _drawn(self, start: Parameters, X: Float, Y: Float, seed: int, i: int) -> Any:
        """The inducing points of start i by ``inducing`` and ``n_inducing``, on the device of training."""
        if isinstance(self.inducing, str):
            choice_seed = 0 if self.random_state is None and self._way == "kmeans" else seed  # as for pilot rows
            rng = np.random.default_rng([choice_seed & (2**63 - 1), 3, i])
            Z = self._chosen(start, X, Y, count("n_inducing", self.n_inducing), rng)
        else:
            Z = np.array(host(as_points(self.inducing, "inducing", X.shape[1])), dtype=np.float64)
        return array_module(self.device).asarray(Z)  # type: ignore[arg-type]

    def _chosen(self, start: Parameters, X: Float, Y: Float, M: int, rng: np.random.Generator) -> Float:
        """M points by the method that ``inducing`` names."""
        return choose_inducing(start.kernel, X, M, self._way, rng)


@dataclass(eq=False, repr=False, kw_only=True)
class InducingGP(Regression, WithInducing):
    """The common part of `RenyiGP` and `SparseGP`.

    Attributes
    ----------
    gap_ : float
        Only for ``n_inducing="auto"``: upper bound on D_α from the trained sparse posterior to the exact one.
    bound_ : Bound
        Only for ``inducing="best"``: upper bound on that D_α, with its probability and its assumptions.
    """

    target_gap: float = 1.0
    max_inducing: int = 1000
    draws: Any = 10
    delta: float = 0.05
    _many_optima: ClassVar[bool] = True
    _ways: ClassVar[tuple[str, ...]] = (*WAYS, "best")

    @abstractmethod
    def _bounds(self) -> float | None:
        """The order α of the ELBO that is the objective; None if the objective is no ELBO."""

    @property
    def _order(self) -> float:
        """Order α in (0, 1] of the gap that "auto" and "best" bound."""
        return self._bounds() or 1.0

    @property
    def _best(self) -> bool:
        return isinstance(self.inducing, str) and self.inducing == "best"

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if isinstance(self.n_inducing, str):
            choice("n_inducing", self.n_inducing, ("auto",))
            if not (isinstance(self.inducing, str) and self.inducing in ("auto", "greedy", "best")):
                raise ValueError(
                    f"inducing: expected 'auto', 'greedy' or 'best' for n_inducing='auto', got {self.inducing!r}: the "
                    "smallest number that suffices is sought among the first points of the greedy order"
                )
        positive("target_gap", self.target_gap)
        count("max_inducing", self.max_inducing)
        draws_argument(self.draws)
        scalar(open_unit, "delta", self.delta)
        if self._best and self._bounds() is None:
            raise ValueError(
                "inducing: expected 'best' with an objective that bounds log p(y) from below and depends on the "
                "inducing points: SparseGP('vfe'), or RenyiGP with alpha > 0"
            )

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        if self.n_inducing == "auto":
            outcome, runs = self._rounds(trainer, start, X, Y)
        else:
            outcome, runs = super()._search(trainer, start, X, Y)
        return (self._redrawn(trainer, outcome, X, Y) if self._best else outcome), runs

    def _rounds(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        """Choose M points for the current hyperparameters and train; at most three rounds."""
        target, alpha, runs = float(self.target_gap), self._order, []
        xp: Any = array_module(self.device)  # type: ignore[arg-type]
        point, M = start, 0
        for i in range(ROUNDS):
            if self._best:
                M = max(M, self._planned(point, X, Y))
                Z = self._chosen(point, X, Y, M, np.random.default_rng([trainer.session.seed & (2**63 - 1), 3, i]))
            else:
                residuals = self._about(point.prior_mean, X, Y)
                Z, _ = enough_inducing(
                    point.kernel, X, residuals, alpha, noise=point.noise, target=target, most=self.max_inducing
                )
                if Z.shape[0] < M:  # M never decreases from round to round
                    Z = choose_inducing(point.kernel, X, M, "greedy", np.random.default_rng(0))
                M = Z.shape[0]

            def draw(kernel: Kernel, k: int, M: int = M) -> Any:
                return xp.asarray(choose_inducing(kernel, X, M, "greedy", np.random.default_rng(k)))

            first = replace(point, Z=xp.asarray(Z))
            current = trainer if i == 0 else replace(trainer, otherwise=(), raises_noise=False)
            outcomes = current.best_of(f"round {i}", first, self.n_restarts if i == 0 else 0, with_inducing(draw))
            outcome = outcomes[0]
            runs += sorted((attempt.run for attempt in outcomes), key=lambda run: run.status == "interrupted")
            point = outcome.parameters
            if runs[-1].status == "interrupted" or trainer.optimizer is None:
                break
            if self._best and self._planned(point, X, Y) <= M:
                break
            if not self._best and self._gap(point, X, Y) <= target:
                break
        if not self._best:
            self.gap_ = self._gap(point, X, Y)
        return outcome, runs

    def _gap(self, point: Parameters, X: Float, Y: Float) -> float:
        """`bounded_gap` at ``point``."""
        residuals = self._about(point.prior_mean, X, Y)
        return bounded_gap(point.kernel, X, residuals, host(point.Z), self._order, noise=point.noise)

    def _planned(self, point: Parameters, X: Float, Y: Float) -> int:
        """The number of points for which the best of the draws provably reaches the target, before any draw."""
        return planned_number(
            point.kernel,
            X,
            self._about(point.prior_mean, X, Y),
            noise=point.noise,
            alpha=self._order,
            target=float(self.target_gap),
            delta=float(self.delta),
            draws=self.draws,
            most=self.max_inducing,
        )

    def _chosen(self, start: Parameters, X: Float, Y: Float, M: int, rng: np.random.Generator) -> Float:
        if not self._best:
            return super()._chosen(start, X, Y, M, rng)
        best = self._best_of(start, X, Y, min(M, distinct_rows(X)), rng)
        return choose_inducing(start.kernel, X, M, "greedy", rng) if best is None else best.Z

    def _best_of(self, point: Parameters, X: Float, Y: Float, M: int, rng: Any, trained: tuple[Float, ...] = ()) -> Any:
        return best_inducing(
            point.kernel,
            X,
            self._about(point.prior_mean, X, Y),
            M,
            rng,
            noise=point.noise,
            alpha=self._order,
            draws=self.draws,
            delta=float(self.delta),
            candidates=trained,
        )

    def _redrawn(self, trainer: Trainer, outcome: Outcome, X: Float, Y: Float) -> Outcome:
        """The best of R new draws at the trained hyperparameters and of the trained points; sets ``bound_``."""
        point = outcome.parameters
        trained = host(point.Z)
        M = min(trained.shape[0], distinct_rows(X))
        if self.n_inducing == "auto":  # the trained hyperparameters may need more points
            M = max(M, self._planned(point, X, Y))
        rng = np.random.default_rng([trainer.session.seed & (2**63 - 1), STREAM])
        best = self._best_of(point, X, Y, M, rng, (trained,))
        Z = trained if best is None else best.Z
        selected = replace(point, Z=array_module(self.device).asarray(Z))  # type: ignore[arg-type]
        evaluation = trainer.objective.minimised(selected, gradient=False)
        options: dict[str, Any] = {"noise": point.noise, "alpha": self._order, "jitter": float(evaluation.jitter)}
        residuals = self._about(point.prior_mean, X, Y)
        if best is None or best.bound is None:
            self.bound_ = gap_of(point.kernel, X, residuals, Z, **options)
        else:
            self.bound_ = at_jitter(best.bound, point.kernel, X, residuals, Z, **options)
        sentences = [sentence for sentence in self.bound_.assumptions if sentence != FIXED_BEFORE]
        self.bound_ = replace(self.bound_, assumptions=(*sentences, AFTER_TRAINING))
        if self.n_inducing == "auto":
            self.gap_ = float(self.bound_)
        return replace(outcome, parameters=selected)

    def _adopt(self, problem: Objective, outcome: Outcome, runs: list[Run]) -> None:
        super()._adopt(problem, outcome, runs)
        if self._best:  # the points may differ from the trained ones
            point, problem = outcome.parameters, problem.about(self._fitted_mean())
            self.objective_ = problem.evaluate(point.kernel, point.noise, point.Z, gradient=False).value

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
