"""Training on one data set: restarts and rounds of the optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.estimators.remarks import Remark, of_interruptions, of_limits, of_run
from fitting.evaluation import Objective, Parameters
from fitting.parameters import Packing, packing_of
from fitting.training import Batches, Ending, Loss, Run, Session, train_adam, train_lbfgs
from gpbounds.arrays import Float
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.linalg.parallel import one_blas_thread

SPREAD = 1.0
"""Standard deviation of the log hyperparameters of a restart about those of the first start."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one run.

    Attributes
    ----------
    parameters : Parameters
        The best point seen.
    run : Run
    low, high : tuples of str
        Names of parameters that lie on their lower or upper limit there.
    """

    parameters: Parameters
    run: Run
    low: tuple[str, ...]
    high: tuple[str, ...]

    def remarks(self, runs: Sequence[Run], batches: bool) -> list[Remark]:
        """Remarks on this outcome, the best of ``runs``."""
        return [*of_interruptions(runs), *of_run(self.run, batches), *of_limits(self.low, self.high)]


@dataclass(frozen=True, eq=False)
class Trainer:
    """The settings that all runs of one training share.

    Attributes
    ----------
    objective : Objective
    N : int
        Number of rows.
    optimizer : "lbfgs", "adam" or None
        None does not train: the start is kept.
    max_iter, learning_rate, batch_size : as in the estimators
    ending : Ending
        When a run has settled.
    limits : mapping of name to (low, high)
    fixed : sequence of str
        Hyperparameters that are not trained.
    learn_Z : bool
    scale : array (D,)
        Units of Z within the vector.
    session : Session
    progress : bool
    prefix : str
        Prefix of the names of all runs, for a session with several trainings.
    gtol : float
        L-BFGS-B stops when no derivative is larger.
    """

    objective: Objective
    N: int
    optimizer: str | None
    max_iter: int
    ending: Ending
    learning_rate: float
    batch_size: int | None
    limits: Mapping[str, tuple[float, float]]
    fixed: Sequence[str]
    learn_Z: bool
    scale: Float
    session: Session
    progress: bool
    prefix: str = ""
    gtol: float = 1e-5

    def best_of(self, name: str, start: Parameters, restarts: int, redraw: Callable[[Any, int], Any]) -> list[Outcome]:
        """The runs from ``start`` and from ``restarts`` random points about it, the best first.

        ``redraw(kernel, i)`` returns the inducing points of restart i.  A restart whose start has no value is skipped;
        Ctrl-C ends all restarts.
        """
        outcomes = [self.run(f"{name} start 0", start)]
        for i in range(1, restarts + 1):
            if outcomes[-1].run.status == "interrupted":
                break
            moved = self._perturbed(start, i)
            try:
                restart = replace(moved, Z=redraw(moved.kernel, i))
                outcomes.append(self.run(f"{name} start {i}", restart))
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                continue
        return sorted(outcomes, key=lambda outcome: -outcome.run.value)

    def run(self, name: str, start: Parameters) -> Outcome:
        """One run of the optimiser, or the finished run that the session holds."""
        name = self.prefix + name
        packing = self._packing(start)
        if self.optimizer is None or not packing.bounds:
            run = self._as_it_is(packing)
        else:
            # The session may hold an earlier part of this run, if it was stopped or max_iter has been raised since.
            with one_blas_thread():
                run = self.session.run(
                    name, self.max_iter, lambda earlier, save: self._train(name, packing, earlier, save), self.ending
                )
        best = packing.start if run.state.get("kept") else packing.unpack(run.vector)
        return Outcome(best, run, *packing.at_lower_and_upper(run.vector))

    def _packing(self, start: Parameters) -> Packing:
        names = (*start.kernel.parameter_names, *start.likelihood.parameter_names)
        fixed = tuple(dict.fromkeys((*self.fixed, *self.objective.held)))
        limits = {key: pair for key, pair in self.limits.items() if key not in fixed and key in names}
        return packing_of(
            self.objective.complete(start), learn_Z=self.learn_Z, fixed=fixed, limits=limits, scale=self.scale
        )

    def _train(self, name: str, packing: Packing, earlier: Run | None, save: Callable[[Run], None] | None) -> Run:
        low, high = (np.array(ends, dtype=np.float64) for ends in zip(*packing.bounds, strict=True))
        start = np.clip(packing.pack(packing.start), low, high)
        loss = packing.loss(self.objective)
        shared: dict[str, Any] = {
            "max_iter": self.max_iter,
            "ending": self.ending,
            "label": name,
            "earlier": earlier,
            "save": save,
            "progress": self.progress,
        }
        if self.optimizer == "lbfgs":
            return train_lbfgs(loss, start, packing.bounds, gtol=self.gtol, **shared)
        rng = np.random.default_rng([*_words(self.session.seed), *name.encode()])
        steps = loss if self.batch_size is None else self._batches(packing, self.batch_size)
        return train_adam(steps, start, packing.bounds, learning_rate=self.learning_rate, rng=rng, **shared)

    def _batches(self, packing: Packing, size: int) -> Batches:
        """Losses of random rows, by which the objective estimates the loss of all rows."""

        def draw(rng: np.random.Generator) -> Loss:
            return packing.loss(self.objective.batch(np.sort(rng.choice(self.N, size, replace=False))))

        return Batches(draw, draw(np.random.default_rng([*_words(self.session.seed), 1])))

    def _as_it_is(self, packing: Packing) -> Run:
        value = -self.objective.minimised(packing.start, gradient=False).value
        if not math.isfinite(value):
            raise NonFinite("the objective: expected a finite value at these hyperparameters, got none")
        reason = "No training: the hyperparameters are those that were passed."
        return Run(packing.pack(packing.start), value, (value,), "converged", reason, 1, 0, {"kept": True})

    def _perturbed(self, start: Parameters, i: int) -> Parameters:
        rng = np.random.default_rng([*_words(self.session.seed), 2, i])
        names = (*start.kernel.parameter_names, *start.likelihood.parameter_names)
        logs = np.append(start.kernel.log_parameters, start.likelihood.log_parameters)
        moved = logs + SPREAD * rng.standard_normal(logs.size)
        for k, name in enumerate(names):
            low, high = np.log(self.limits.get(name, (0.0, math.inf)))
            moved[k] = logs[k] if name in self.fixed else np.clip(moved[k], low, high)
        own, rest = np.split(moved, [start.kernel.log_parameters.size])
        kernel, likelihood = start.kernel.with_log_parameters(own), start.likelihood.with_log_parameters(rest)
        return replace(start, kernel=kernel, likelihood=likelihood, q=None)


def _words(seed: int) -> list[int]:
    """A seed of any size as a list of 32-bit words for `numpy.random.default_rng`."""
    return [seed & 0xFFFFFFFF, *_words(seed >> 32)] if seed > 0xFFFFFFFF else [seed]
