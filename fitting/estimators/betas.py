"""The choice of β, the factor of KL(q‖p), by validation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.estimators.stages import Stages, at_its_best
from fitting.estimators.trainer import Outcome, Trainer
from fitting.objectives.objective import Objective
from fitting.objectives.point import Parameters
from fitting.rows.data import Data
from fitting.training import Run
from gpbounds.arrays import Float, host
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Kernel

SHARE = 0.2
"""Share of the rows on which each β is judged."""

LEAST = 0.01
"""The smallest β that is tried; the largest is the number of fitted rows, and each is half of the one before."""

STREAM = 6
"""Stream of random numbers that chooses the rows held out."""


@dataclass(frozen=True, eq=False)
class Betas:
    """The β that was chosen, each β with its loss on the rows held out, and all runs.

    Attributes
    ----------
    best : float
    path : array (k, 2)
    runs : list of Run
    point : Parameters
        The model of the fitted rows with the chosen β.
    """

    best: float
    path: Float
    runs: list[Run]
    point: Parameters

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.runs[-1].status == "interrupted"


def grid(n: int) -> list[float]:
    """n, n/2, n/4, … down to 0.01.

    >>> len(grid(1000)), grid(4)[:4]
    (17, [4.0, 2.0, 1.0, 0.5])
    """
    betas = [float(n)]
    while 0.5 * betas[-1] >= LEAST:
        betas.append(0.5 * betas[-1])
    return betas


def outwards(n: int) -> tuple[list[float], list[float]]:
    """The grid in two parts, each from the β next to 1 outwards: those below 1, and the others.

    >>> outwards(4)[0][:3], outwards(4)[1]
    ([0.5, 0.25, 0.125], [1.0, 2.0, 4.0])
    """
    betas = grid(n)
    return [beta for beta in betas if beta < 1.0], [beta for beta in betas[::-1] if beta >= 1.0]


def chosen_beta(
    stages: Stages,
    trainer: Trainer,
    problem: Objective,
    start: Parameters,
    draw: Callable[[Float, Float, Kernel], Any],
) -> Betas:
    """The β with the least loss on a fifth of the rows, for models of the other rows.

    The ELBO (β = 1) comes first, and each β starts where its neighbour towards 1 ended.  A large β can make the kernel
    forget the inputs; training with a smaller one does not find back from there.  The loss is the mean of
    −log E p(y|f), or of (y − m)² for the square loss.

    Parameters
    ----------
    draw : function
        (X, Y, kernel) ↦ the first inducing points, of the rows that are fitted.
    """
    N, data = problem.N, problem.data
    assert isinstance(data, Data)
    held = round(SHARE * N)
    if held < 1 or N - held < 1:
        raise ValueError(f"beta: expected a number, or 'auto' with at least 3 rows, got 'auto' with {N}")
    rng = np.random.default_rng([trainer.session.seed & (2**63 - 1), STREAM])
    order = rng.permutation(N)
    fitted, out = (data.only(np.sort(rows)) for rows in (order[: N - held], order[N - held :]))
    trainer = replace(trainer, N=fitted.N, prefix="validation ")
    if trainer.batch_size is not None and trainer.batch_size >= fitted.N:
        trainer = replace(trainer, batch_size=None)
    base = replace(problem, data=fitted)
    first = replace(start, Z=draw(host(fitted.X), host(fitted.Y), start.kernel))
    elbo, runs = stages.by_elbo(trainer, base.with_goal(loss="elbo", beta=1.0), first, lambda kernel, i: first.Z)
    tried: list[tuple[float, float, Parameters]] = []
    for betas in outwards(fitted.N):
        point = elbo.parameters
        for beta in betas:
            if runs[-1].status == "interrupted":
                break
            own = base.with_goal(beta=beta)
            try:
                outcome = _trained(stages, trainer, own, point)
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                continue  # such a β has no model
            runs.append(outcome.run)
            point = outcome.parameters
            tried.append((beta, _loss(own, point, out), point))
    if not tried:
        tried.append((1.0, _loss(base, elbo.parameters, out), elbo.parameters))
    best, _, point = min(tried, key=lambda each: each[1])
    path = sorted(((beta, loss) for beta, loss, _ in tried), reverse=True)
    return Betas(best, np.array(path), runs, point)


def _trained(stages: Stages, trainer: Trainer, problem: Objective, point: Parameters) -> Outcome:
    name = f"{problem.expected_losses.beta:g}"
    if stages.joint and problem.expected_losses.loss in ("elbo", "pep"):
        outcomes, _ = Stages(True).by_elbo(
            replace(trainer, otherwise=(), raises_noise=False), problem, point, lambda kernel, i: point.Z
        )
        return outcomes
    return stages.onwards(trainer, problem, at_its_best(problem, point), name)


def _loss(problem: Objective, point: Parameters, out: Any) -> float:
    mean, variance = problem.posterior_at(point).predict(out.X)
    y, mean = out.Y[:, 0], mean.reshape(-1)
    if point.prior_mean is not None:
        mean = mean + point.prior_mean(out.X)[:, 0]
    if problem.expected_losses.loss == "square-loss":
        return float(((y - mean) ** 2).mean())
    value = -float(point.likelihood.log_expected_density(y, mean, variance).mean())
    return value if np.isfinite(value) else np.inf
