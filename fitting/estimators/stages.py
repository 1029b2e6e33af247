"""The stages in which a variational objective J is trained.

The ELBO with β = 1 comes first, except where J is a β-ELBO or power EP.  Then either q alone is trained by J, with all
hyperparameters and inducing inputs as the ELBO left them, or everything by J: from the ELBO's optimum and from the
first start, because a direct loss has several optima; the better end is kept.

For a Gaussian likelihood and all rows, the ELBO is trained with its optimal q in closed form.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from fitting.estimators.trainer import Draw, Outcome, Trainer, with_inducing
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import law_of
from fitting.objectives.objective import Objective
from fitting.objectives.point import Parameters
from fitting.training import Run
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.likelihoods import Gaussian

HYPERPARAMETERS = ("joint", "fixed")


@dataclass(frozen=True)
class Stages:
    """How J is trained.

    Attributes
    ----------
    joint : bool
        Whether J trains the hyperparameters, too.
    restarts : int
        Number of random starts of the first stage besides the first one.
    """

    joint: bool
    restarts: int = 0

    def run(self, trainer: Trainer, start: Parameters, draw: Draw) -> tuple[Outcome, list[Run]]:
        """The best outcome, whose parameters hold q, and all runs."""
        problem = trainer.objective
        assert isinstance(problem, Objective)
        goal = problem.expected_losses
        if (goal.loss in ("elbo", "pep") and self.joint) or (goal.loss == "elbo" and goal.beta == 1.0):
            return self.by_elbo(trainer, problem, start, draw)
        elbo, runs = self.by_elbo(trainer, problem.with_goal(loss="elbo", beta=1.0), start, draw)
        if elbo.run.status == "interrupted" or trainer.optimizer is None:
            return replace(elbo, parameters=at_its_best(problem, elbo.parameters)), runs
        outcomes = [self.onwards(trainer, problem, elbo.parameters, "after the ELBO")]
        if self.joint and goal.loss != "square-loss" and outcomes[0].run.status != "interrupted":
            with suppress(NotPositiveDefinite, NonFinite, ArithmeticError):  # the other start has a value
                outcomes.append(self.onwards(trainer, problem, replace(start, q=None), "from the start"))
        best = max(outcomes, key=lambda outcome: outcome.run.value)
        return best, [*runs, *(outcome.run for outcome in outcomes)]

    def by_elbo(self, trainer: Trainer, problem: Objective, start: Parameters, draw: Draw) -> tuple[Outcome, list[Run]]:
        """The best run that trains everything by a β-ELBO or power EP, from ``start`` and its restarts."""
        collapses = isinstance(start.likelihood, Gaussian) and trainer.batch_size is None and has_closed_form(problem)
        chosen = collapsed(problem) if collapses else problem
        start = replace(start, q=None) if collapses else start
        name = f"{problem.expected_losses.loss} {problem.expected_losses.beta:g}"
        outcomes = replace(trainer, objective=chosen, sampling=None).best_of(
            name, start, self.restarts, with_inducing(draw)
        )
        best = replace(outcomes[0], parameters=problem.complete(outcomes[0].parameters))
        return best, [outcome.run for outcome in outcomes]

    def onwards(self, trainer: Trainer, problem: Objective, point: Parameters, name: str) -> Outcome:
        """One run by J from ``point``: of q alone, or of everything.

        The square loss is never given the variance of f: it falls to 0 as this variance grows.
        """
        names = (*point.kernel.parameter_names, *point.likelihood.parameter_names)
        if not self.joint:
            trainer, point = replace(trainer, fixed=names, learn_Z=False), with_mean_held(point)
        elif problem.expected_losses.loss == "square-loss":
            variances = [each for each in point.kernel.parameter_names if "variance" in each]
            trainer = replace(trainer, fixed=(*trainer.fixed, *variances))
        return replace(trainer, objective=problem).run(name, at_its_best(problem, point))


def with_mean_held(point: Parameters) -> Parameters:
    """``point``, whose prior mean training leaves as it is."""
    return point if point.prior_mean is None else replace(point, prior_mean=point.prior_mean.held)


def at_its_best(problem: Objective, point: Parameters) -> Parameters:
    """``point``, with the best q where it has a closed form for a Gaussian."""
    closed = problem.expected_losses.loss == "square-loss" or has_closed_form(problem)
    closed = closed and isinstance(point.likelihood, Gaussian)
    return problem.complete(replace(point, q=None) if closed else point)


def has_closed_form(problem: Objective) -> bool:
    """Whether `collapsed` has the minimum over q, for a Gaussian likelihood."""
    goal = problem.expected_losses
    return goal.loss == "elbo" or (goal.loss == "pep" and goal.beta == 1.0)


def collapsed(problem: Objective) -> Objective:
    """The minimum over q of a β-ELBO, or of power EP with β = 1, with a Gaussian likelihood."""
    return replace(problem, law=law_of(problem.member), goal=Evidence(problem.expected_losses.beta))
