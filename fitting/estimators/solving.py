"""Estimators that factorise an N × N covariance, or where N is large estimate its determinant by iterations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fitting.estimators.base import GaussianProcess
from fitting.estimators.remarks import Remark
from fitting.estimators.trainer import Outcome, Trainer
from fitting.iterative import IterativeEvidence, IterativeRenyi
from fitting.objectives.point import Parameters
from fitting.training import RESUMED, Run, Session
from gpbounds.bound import Bound
from gpbounds.errors import NotPositiveDefinite
from gpbounds.iterative import Probes, evidence
from gpbounds.validation import choice

_SOLVERS = ("auto", "cholesky", "iterative")
SWITCH = 6000
"""Rows above which "auto" iterates.  On two cores, value and derivatives of log p(y) take as long either way near 5500
rows (kin40k, squared exponential of lengthscale 1.5, noise .01); fewer rows are factorised, which is exact."""

ROUNDS = 3
"""Largest number of trainings; each has the blocks that suit the hyperparameters where the one before ended."""

TRAINING, INTERVAL = 6, 7
"""Streams of random numbers: probes of training, and those of the interval after it."""


def _is_estimate(problem: Any) -> bool:
    """Whether ``problem`` is one of `fitting.iterative`, with probes and standard errors."""
    return hasattr(problem, "standard_errors")


@dataclass(eq=False, repr=False, kw_only=True)
class Solving(GaussianProcess):
    """The common part of `ExactGP` and `RenyiGP`.

    Attributes
    ----------
    evidence_bounds_ : (Bound, Bound)
        By iterations only: bounds on log p(y) at (kernel_, noise_, mean_), for the targets as they were fitted, that
        hold together with probability 95 %, by `gpbounds.iterative.evidence` with probes that training has not used.
    probes_ : Probes
        By iterations only: the probes of training, which no interval accepts.
    """

    solver: str = "auto"

    def _check_arguments(self) -> None:
        super()._check_arguments()
        choice("solver", self.solver, _SOLVERS)

    def _iterates(self, N: int) -> bool:
        """Whether training estimates by iterations instead of factorising N × N matrices."""
        if self._member().is_diagonal:
            return False
        return self.solver == "iterative" or (self.solver == "auto" and SWITCH < N)

    def _objective(self) -> Any:
        problem = super()._objective()
        if not self._iterates(len(self.X_train_)):
            return problem
        data = replace(problem.data, parts=None)
        kind = IterativeEvidence if problem.member.inside else IterativeRenyi
        return self._at_callers_rows(kind(data, problem.member))

    def _trainer(self, problem: Any, start: Parameters, given: Parameters, session: Session, **more: Any) -> Trainer:
        if _is_estimate(problem) and self._batch(len(self.X_train_)) is None:
            problem = problem.prepared(start, (session.seed & (2**63 - 1), TRAINING))
        return super()._trainer(problem, start, given, session, **more)

    def _again(self, trainer: Trainer, outcome: Outcome, runs: list[Run]) -> tuple[Outcome, list[Run]]:
        """Train again with blocks that suit the trained hyperparameters, as long as this may gain more than ``tol``.

        Each training starts where the one before ended, and may therefore end after fewer iterations.
        """
        negligible = trainer.ending.tol * trainer.ending.unit
        for number in range(1, ROUNDS):
            problem: Any = trainer.objective
            if (
                not _is_estimate(problem)
                or problem.probes is None
                or self.optimizer is None
                or outcome.run.status == "interrupted"
                or not problem.is_stale(outcome.parameters, negligible)
            ):
                break
            renewed = problem.prepared(outcome.parameters, problem.probes.entropy)
            ending = replace(trainer.ending, after=RESUMED)
            trainer = replace(trainer, objective=renewed, otherwise=(), raises_noise=False, ending=ending)
            outcome = trainer.run(f"blocks {number}", outcome.parameters)
            runs = [outcome.run, *runs]
        return outcome, runs

    def _adopt(self, problem: Any, outcome: Outcome, runs: list[Run]) -> None:
        self._interval: Remark | None = None
        if not _is_estimate(problem):
            super()._adopt(problem, outcome, runs)
            return
        if problem.probes is None:  # mini-batches need no probes
            seed = self._session().seed & (2**63 - 1)
            problem = problem.prepared(outcome.parameters, (seed, TRAINING))
        super()._adopt(problem, outcome, runs)
        self.probes_: Probes = problem.probes
        try:
            self.evidence_bounds_: tuple[Bound, Bound] = self._bounded_evidence(rng=[*self.probes_.entropy, INTERVAL])
        except (ValueError, NotPositiveDefinite) as error:
            self._interval = Remark("interval", f"No interval for log p(y) was found: {error}")

    def _remarks(self, outcome: Outcome) -> list[Remark]:
        remarks, interval = super()._remarks(outcome), getattr(self, "_interval", None)
        return remarks if interval is None else [*remarks, interval]

    def _bounded_evidence(self, **options: Any) -> tuple[Bound, Bound]:
        """`gpbounds.iterative.evidence` at the trained kernel and noise, on the device of the model."""
        X, y = self._residuals()
        return self._of_residuals(evidence(self.kernel_, X, y, noise=self._model_noise, **options))
