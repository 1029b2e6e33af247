"""Learning curves of variational models that Adam trains: test scores against epochs and against processor time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dlm_setting import Task, error

from fitting import metrics
from fitting.objectives.losses import Sampling
from fitting.objectives.objective import Objective, variational_objective
from fitting.objectives.point import Parameters
from fitting.training import Batches, Loss, train_adam


@dataclass(frozen=True)
class Mark:
    """The scores of one model after some steps of training."""

    data: str
    N: int
    split: int
    method: str
    beta: float
    epoch: float
    seconds: float
    log_loss: float
    error: float


@dataclass(frozen=True)
class Adam:
    """How models are trained: ``marks`` are the numbers of steps after which they are judged."""

    marks: Sequence[int]
    batch: int
    rate: float


def first_point(part: Task, M: int, kernel: Any) -> Parameters:
    """The start: M random rows as inducing inputs, and the prior as q."""
    problem = objective_of(part, "log-loss", 1.0).with_goal(settles=False)
    rows = np.random.default_rng([part.split, M]).choice(len(part.y), M, replace=False)
    return problem.complete(Parameters(kernel, problem.likelihood, part.X[np.sort(rows)]))


def objective_of(part: Task, loss: str, beta: float) -> Objective:
    return variational_objective(part.X, part.y, part.likelihood, loss, beta=beta)


def curve(
    name: str,
    part: Task,
    loss: str,
    beta: float,
    start: Parameters,
    adam: Adam,
    *,
    sampling: Sampling | None = None,
    joint: bool = True,
) -> tuple[list[Mark], Parameters]:
    """The marks of one training from ``start``, and where it ends; all curves of a split draw the same batches.

    ``joint=False`` trains q alone.
    """
    problem = objective_of(part, loss, beta)
    N, batch = problem.N, min(adam.batch, problem.N)
    names = () if joint else (*start.kernel.parameter_names, *start.likelihood.parameter_names)
    packing = problem.packing(start, fixed=names, learn_Z=joint)

    def rows(rng: np.random.Generator) -> Objective:
        return problem if batch == N else problem.batch(np.sort(rng.choice(N, batch, replace=False)))

    def draw(rng: np.random.Generator, _: int) -> Loss:
        chosen: Any = rows(rng)
        key = int(rng.integers(2**63))
        return packing.loss(chosen if sampling is None else chosen.sampled(sampling, key))

    losses = Batches(draw, packing.value(rows(np.random.default_rng([part.split, 1]))))
    rng, vector, run = np.random.default_rng([part.split, 2]), packing.pack(start), None
    marks, spent = [], 0.0
    for steps in (0, *adam.marks):
        if steps:
            begin = time.process_time()
            run = train_adam(
                losses,
                packing.pack(start),
                packing.bounds,
                max_iter=steps,
                learning_rate=adam.rate,
                rng=rng,
                earlier=run,
            )
            spent += time.process_time() - begin
            vector = run.state["x"]
        point = packing.unpack(vector)
        mean, variance = problem.posterior_at(point).predict(part.X_test)
        judged = (point.likelihood, part.y_test, np.ravel(mean), variance)
        about = (part.data, N, part.split, name, beta, steps * batch / N, spent)
        marks.append(Mark(*about, metrics.log_loss(*judged), error(*judged)))
    return marks, packing.unpack(vector)
