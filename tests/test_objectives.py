"""Every goal at every law: derivatives by differences, the same numbers over partitions, batches of all rows.

A new goal or law takes a place in `GOALS` or `LAWS`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import fitting
from fitting.features import FeatureKernel, MercerMap
from fitting.objectives.collapsed import member
from fitting.objectives.goals import Evidence, ExpectedLosses, Goal, LossGoal, Target
from fitting.objectives.laws import ExactLaw, FamilyLaw, FreeLaw, LowRankLaw, ModelLaw
from fitting.objectives.losses import of_loss
from fitting.objectives.objective import Objective, at_point
from fitting.objectives.packing import packing_of
from fitting.objectives.point import Parameters
from fitting.rows.data import Held
from gpbounds.kernels import SquaredExponential
from gpbounds.likelihoods import Gaussian
from gpbounds.losses import Band, Loss, Squared
from gpbounds.rows import source

N, NOISE = 60, 0.2
KERNEL = SquaredExponential(1.3, [0.7, 1.4])


@dataclass(frozen=True)
class Linear(LossGoal):
    """A user's goal: R_S + KL/(λN)."""

    loss: Loss
    rate: float
    held = ("noise",)

    def losses(self, likelihood: Any) -> Any:
        return of_loss(self.loss)

    def price(self, total: float, kl: float, *, weight: float) -> tuple[float, float, float]:
        return (weight * total + kl / self.rate) / N, weight / N, 1.0 / (self.rate * N)


LAWS: dict[str, ModelLaw] = {
    **{name: FamilyLaw(member(name)) for name in ("vfe", "fitc", "dtc")},
    "pep": FamilyLaw(member("pep", power=0.4)),
    "exact": ExactLaw(member("exact")),
    "low rank": LowRankLaw(),
    "free": FreeLaw(),
    "free weights": FreeLaw(),
}
GOALS: dict[str, Goal] = {
    "evidence": Evidence(),
    "β-ELBO": Evidence(0.3),
    "ELBO": ExpectedLosses(Gaussian(NOISE)),
    "log loss": ExpectedLosses(Gaussian(NOISE), "log-loss", 0.5),
    "power": ExpectedLosses(Gaussian(NOISE), "power", 1.0, 0.5),
    "power EP": ExpectedLosses(Gaussian(NOISE), "pep", 1.0, 0.5),
    "diagonal": ExpectedLosses(Gaussian(NOISE), structure="diagonal"),
    "B": Target(Squared(1.0), N, delta=0.05),
    "B, Pinsker": Target(Band(0.6), N, delta=0.05, relaxation="pinsker"),
    "a user's": Linear(Band(0.5), 2.0),
}


def admitted(law: str, goal: str) -> bool:
    if goal == "β-ELBO":
        return law == "vfe"
    if goal in ("power EP", "diagonal"):
        return law.startswith("free")
    return law.startswith("free") == isinstance(GOALS[goal], LossGoal) or goal.startswith(("B", "a user"))


CELLS = [(law, goal) for law in LAWS for goal in GOALS if admitted(law, goal)]
each_cell = pytest.mark.parametrize(("law", "goal"), CELLS)


def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 2))
    return X, np.sin(X @ [1.0, 2.0]) + 0.3 * rng.standard_normal(N)


def cell(law: str, goal: str) -> tuple[Objective, Parameters]:
    """The objective, and a point, whose free q is not at its optimum."""
    X, y = rows()
    problem = replace(fitting.objective(X, y, chunk=17), law=LAWS[law], goal=GOALS[goal])
    if law in ("low rank", "free weights"):
        features = MercerMap.chosen(KERNEL, 9, "best", X.mean(axis=0), X.std(axis=0))
        point = at_point(FeatureKernel(features, KERNEL.log_parameters), NOISE)
    else:
        point = at_point(KERNEL, NOISE, None if law == "exact" else X[:7] + 0.1)
    point = problem.complete(point)
    if point.q is not None:
        point = replace(point, q=replace(point.q, mean=point.q.mean + 0.1, factor=1.1 * point.q.factor))
    return problem, point


def blocks(evaluation: Any) -> list[Any]:
    g = evaluation.gradient
    parts = (g.kernel, g.likelihood, g.Z, g.mean, g.factor, g.weights)
    return [np.ravel(part) for part in parts if part is not None]


@each_cell
def test_derivatives_are_slopes(law: str, goal: str) -> None:
    problem, point = cell(law, goal)
    layout = packing_of(point, fixed=problem.held)
    vector, loss = layout.pack(point), layout.loss(problem)
    _, slopes = loss(vector)
    for seed in range(3):
        step = np.random.default_rng(seed).standard_normal(vector.size)
        numeric = (loss(vector + 1e-5 * step)[0] - loss(vector - 1e-5 * step)[0]) / 2e-5
        assert slopes @ step == pytest.approx(numeric, rel=1e-5, abs=1e-6 * np.abs(slopes).max())


@pytest.mark.parametrize(("law", "goal"), [each for each in CELLS if each[0] != "exact"])  # which needs all rows
def test_partitions_give_the_numbers_of_one_array(law: str, goal: str) -> None:
    problem, point = cell(law, goal)
    X, y = rows()
    each = source(X, y)
    held = Held(each.holder, N, 2, 1, True, np.zeros(1), np.ones(1))
    here, there = problem.minimised(point), replace(problem, data=held).minimised(point)
    assert there.value == pytest.approx(here.value, rel=1e-11)
    for a, b in zip(blocks(here), blocks(there), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-10 * max(1.0, np.abs(a).max(initial=0.0)))
    assert replace(problem, data=held).minimised(point, gradient=False).value == pytest.approx(here.value, rel=1e-11)


@each_cell
def test_a_batch_of_all_rows_is_the_objective_and_other_goals_refuse(law: str, goal: str) -> None:
    problem, point = cell(law, goal)
    if not law.startswith("free") and (isinstance(problem.goal, LossGoal) or law == "low rank"):
        with pytest.raises(ValueError, match="rows: expected all of them"):
            problem.batch(np.arange(N))
        return
    whole, all_rows = (each.minimised(point).value for each in (problem, problem.batch(np.arange(N))))
    assert all_rows == pytest.approx(whole, rel=1e-12)
    if law.startswith("free") and isinstance(problem.goal, ExpectedLosses):
        halves = [problem.batch(np.arange(start, start + N // 2)).minimised(point).value for start in (0, N // 2)]
        assert np.mean(halves) == pytest.approx(whole, rel=1e-12)  # a sum over rows, N/n times


def test_a_free_law_has_no_evidence_and_losses_no_natural_steps_without_a_likelihood() -> None:
    problem, point = cell("free", "ELBO")
    with pytest.raises(ValueError, match="goal: expected one of losses for a free q"):
        replace(problem, goal=Evidence()).minimised(point)
    with pytest.raises(ValueError, match="goal: expected ExpectedLosses, got Target"):
        replace(problem, goal=GOALS["B"]).natural(point)
    with pytest.raises(ValueError, match="straddle partitions"):
        Objective(Held(None, N, 2, 1, True, np.zeros(1), np.ones(1)), LAWS["exact"], Evidence())  # type: ignore[arg-type]
