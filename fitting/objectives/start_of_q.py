"""The start of q(v) for likelihoods without a closed form: natural-gradient steps at fixed hyperparameters.

The prior is far from a posterior whose precision is in the hundreds, as that of large counts.  Adam and L-BFGS do not
know this scale, while a natural-gradient step of rate 1 is Newton's step for q.  Where such a step does not lower the
objective, its rate becomes smaller, so that q never becomes worse.

The first step is one for quadratic losses ½c(f − t)² in place of −log p(y|f), whose minimum it reaches; it is left out
if the prior is better.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fitting.objectives.losses import Expected, ExpectedLoss
from fitting.objectives.packing import LawBlock
from fitting.objectives.point import Parameters
from fitting.training.adam import RAMP
from fitting.training.watch import FAULTS
from gpbounds.arrays import Array, namespace
from gpbounds.likelihoods import Gaussian, Likelihood, Poisson, StudentT

if TYPE_CHECKING:
    from fitting.objectives.objective import Objective

ROUNDS, REDUCTIONS, SMALLER = 20, 12, 8.0
"""Largest number of steps; how often the rate is divided in one of them, and by what."""

GAIN = 1e-3
"""Nats per row; a step that gains less is the last."""


def quadratic_loss(likelihood: Likelihood) -> ExpectedLoss:
    """The expectation of ½c(f − t)², which stands for −log p(y|f).

    For counts it has the minimum and the curvature of −log p at y + ½ in place of y, for real targets those of −log p;
    for labels t = ±1 and c = 1.

    >>> y, m, v = np.array([[7.0]]), np.array([[2.0]]), np.array([0.5])
    >>> round(float(quadratic_loss(Poisson("exp"))(y, m, v).total), 4)  # t = log 7.5, c = 7.5
    1.8758
    """

    def expected(Y: Array, m: Array, v: Array) -> Expected:
        t, c = _sites(likelihood, Y[:, 0])
        gap = m[:, 0] - t
        total = 0.5 * (c * (gap * gap + v)).sum()
        in_parameters = np.zeros(len(likelihood.parameter_names))
        return Expected(total, (c * gap)[:, None], 0.5 * c, in_parameters)

    return expected


def _sites(likelihood: Likelihood, y: Array) -> tuple[Array, Array]:
    """t and c."""
    xp = namespace(y)
    if isinstance(likelihood, Poisson):
        rate = y + 0.5
        if likelihood.link == "exp":
            return xp.log(rate), rate
        share = -xp.expm1(-rate)  # the slope of log(1 + e^f) where it is the rate
        return rate + xp.log(share), share * share / rate
    if isinstance(likelihood, StudentT):
        return y, 0.0 * y + (likelihood.df + 1.0) / (likelihood.df * likelihood.scale**2)
    if isinstance(likelihood, Gaussian):
        return y, 0.0 * y + 1.0 / likelihood.noise
    return xp.where(y > 0.0, 1.0, -1.0), 0.0 * y + 1.0


def settled(objective: Objective, point: Parameters) -> Parameters:
    """``point`` with a better q, or itself where no step lowers the objective.

    >>> from fitting.objectives.objective import variational_objective
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.law import FactorLaw
    >>> J = variational_objective(np.linspace(0.0, 6.0, 50), np.arange(50.0), "poisson")
    >>> prior = FactorLaw(np.zeros((3, 1)), np.eye(3))
    >>> point = Parameters(SquaredExponential(4.0), J.likelihood, np.array([[1.0], [3.0], [5.0]]), prior)
    >>> [round(J.minimised(each).value, 1) for each in (point, settled(J, point))]
    [3429.9, 730.4]
    """
    assert point.q is not None
    block, rate = LawBlock(point.q.M), 1.0
    best, value = point, _value(objective, point)
    first = _moved(objective.with_goal(is_quadratic=True, sampling=None), point, block, 1.0)
    if first is not None and not _value(objective, first) >= value:
        best, value = first, _value(objective, first)
    for _ in range(ROUNDS if math.isfinite(value) else 0):
        for _ in range(REDUCTIONS):
            there = _moved(objective, best, block, rate)
            if there is not None and (reached := _value(objective, there)) < value:
                break
            rate /= SMALLER
        else:
            break
        gain, best, value = value - reached, there, reached
        if gain < GAIN * objective.N:
            break
        rate = min(1.0, SMALLER * rate)
    return best


def _value(objective: Objective, point: Parameters) -> float:
    try:
        return objective.minimised(point, gradient=False).value
    except FAULTS:
        return math.inf


def _moved(objective: Objective, point: Parameters, block: LawBlock, rate: float) -> Parameters | None:
    """The point after a step of this rate; None if there is none."""
    try:
        gradient = objective.minimised(point).gradient
        assert gradient is not None
        steps = objective.natural(point, rate)
        moved = steps.moved(block.pack(point), block.pull(gradient, point), RAMP + 1)
    except FAULTS:
        return None
    return block.unpack(np.clip(moved, *np.array(block.bounds).T), point)
