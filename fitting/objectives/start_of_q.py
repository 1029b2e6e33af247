"""The best q(v) at fixed hyperparameters, for losses without a closed form.

At the minimum of J = Σ ℓ(y_i, m_i, s_i) + β·KL(q‖p) over q, with λ_i = (2/β)∂ℓ/∂s_i and b_i = λ_i m_i − (1/β)∂ℓ/∂m_i,

    S⁻¹ = I + V·diag(λ)Vᵀ,   w = SVb:

q is a posterior given the sites exp(b_i f_i − ½λ_i f_i²) in place of the likelihood.  The sites at one q give the next:
a natural-gradient step of rate 1, Newton's step for w (conjugate computation).  Where it does not lower J, the rate
becomes smaller.  V stays the same, so that a step costs a pass over the losses and a factor of S⁻¹.

The derivatives of the minimum in other parameters are those of J at the best q.  From the sites of a point nearby, two
or three steps lead there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fitting.objectives.free import Losses, free_sums, free_whole, natural_under
from fitting.objectives.losses import Expected, ExpectedLoss
from fitting.objectives.passes import AtLosses
from fitting.objectives.point import Evaluation, Parameters, Price
from fitting.rows.data import Data
from fitting.rows.stream import Stream
from fitting.training.watch import FAULTS
from gpbounds.arrays import Array, namespace
from gpbounds.errors import NonFinite
from gpbounds.law import FactorLaw, GramLaw, gram_law
from gpbounds.likelihoods import Gaussian, Likelihood, Poisson, StudentT

if TYPE_CHECKING:
    from fitting.objectives.objective import Objective

ROUNDS, REDUCTIONS = 60, 30
"""Largest number of steps, and how often the rate is halved in one of them."""

GAIN = 1e-8
"""A step that gains less, in units of max(1, |J|), is the last: L-BFGS-B ends where its own steps gain no more."""


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


@dataclass(frozen=True, eq=False)
class _GivenSites:
    """Sites b and λ (2, N) as losses at the prior of v: a `fitting.objectives.free.LossOfRows`."""

    sites: Array

    def at(self, rows: slice) -> ExpectedLoss:
        """The losses of these rows."""
        b, curvatures = self.sites[:, rows]
        return lambda Y, m, v: Expected(0.0, -b[:, None], 0.5 * curvatures)


@dataclass(frozen=True, eq=False)
class _Point:
    """q with J, its natural parameters [S⁻¹ − I, S⁻¹w], the sites (2, N) at q, and the parameters that these give."""

    q: GramLaw
    total: float
    value: float
    natural: Array
    given: Array
    sites: Array


@dataclass(frozen=True, eq=False)
class _Solve:
    source: Stream
    losses: Losses
    price: Price

    def at(self, natural: Array) -> _Point | None:
        """The point of these natural parameters; None if q or J does not exist there."""
        try:
            q = gram_law(natural[:, :-1], natural[:, -1:])
            total, given, sites = natural_under(q, self.source, self.losses)
            value, in_total, in_kl = self.price(total, q.kl)
        except FAULTS:
            return None
        times = in_total / in_kl
        return _Point(q, total, value, natural, times * given, times * sites) if math.isfinite(value) else None

    def start(self, likelihood: Likelihood, sites: Array | None) -> _Point | None:
        """The point of ``sites``, or the better one of the prior and of that of quadratic losses."""
        M, xp = self.source.basis.rank, namespace(self.source.X)
        natural = xp.zeros((M, M + 1))
        prior = gram_law(natural[:, :-1], natural[:, -1:])
        if sites is not None:
            first = self.at(natural_under(prior, self.source, _GivenSites(xp.asarray(sites)))[1])
            if first is not None:
                return first
        _, in_total, in_kl = self.price(0.0, 0.0)
        quadratic = in_total / in_kl * natural_under(prior, self.source, quadratic_loss(likelihood))[1]
        points = [point for point in (self.at(natural), self.at(quadratic)) if point is not None]
        return min(points, key=lambda point: point.value, default=None)

    def end(self, best: _Point) -> _Point:
        """The point to which the steps from ``best`` lead: the first try of each is accelerated, later ones lower J."""
        rate, before = 1.0, None
        for _ in range(ROUNDS):
            small = GAIN * max(1.0, abs(best.value))
            there = None if before is None else self.at(_extrapolated(before, best))
            if there is None or not there.value < best.value + small:
                for _ in range(REDUCTIONS):
                    there = self.at(best.natural + rate * (best.given - best.natural))
                    if there is not None and there.value < best.value + rate * small:
                        break
                    rate *= 0.5
                else:
                    break
            gain, before, best = best.value - there.value, best, there
            if gain <= rate * small:
                break
        return best


def _extrapolated(before: _Point, best: _Point) -> Array:
    """The step from where steps are least on the line through two points if they are linear: Anderson's of order 1."""
    step = best.given - best.natural
    change = step - (before.given - before.natural)
    share = (step * change).sum() / (change * change).sum()
    return best.given - share * (best.given - before.given)


def optimal(
    source: Stream, at: AtLosses, sites: Array | None, *, gradient: bool = True
) -> tuple[FactorLaw, Evaluation]:
    """The best q, and J there with its sites and its derivatives in the other parameters; from ``sites`` if given.

    Raises
    ------
    NonFinite
        where J has no value at any start.
    """
    source.basis.prepare()
    solve = _Solve(source, at.losses, at.price)
    start = solve.start(at.likelihood, sites)
    if start is None:
        raise NonFinite("the objective: expected a finite value at a start of q, got none")
    end = solve.end(start)
    q = FactorLaw(end.q.mean, end.q.factor)
    if gradient:
        return q, replace(free_whole(source.basis, q, free_sums(q, source, at.losses), at.price), sites=end.sites)
    return q, Evaluation(end.value, None, total=end.total, kl=end.q.kl, sites=end.sites)


def settled(objective: Objective, point: Parameters) -> Parameters:
    """``point`` with the best q, or itself where J has no finite value.

    >>> from fitting.objectives.objective import variational_objective
    >>> from gpbounds.kernels import SquaredExponential
    >>> J = variational_objective(np.linspace(0.0, 6.0, 50), np.arange(50.0), "poisson")
    >>> prior = FactorLaw(np.zeros((3, 1)), np.eye(3))
    >>> point = Parameters(SquaredExponential(4.0), J.likelihood, np.array([[1.0], [3.0], [5.0]]), prior)
    >>> [round(J.minimised(each).value, 1) for each in (point, settled(J, point))]
    [3429.9, 730.4]
    """
    data = objective.data.about(point.prior_mean)
    assert isinstance(data, Data)
    at = AtLosses(objective.loss_goal, point.likelihood, objective.weight)
    try:
        (q, _), _ = data.sweep(point.kernel, point.Z, lambda source: optimal(source, at, point.sites, gradient=False))
    except NonFinite:
        return point
    data.space.release()
    return replace(point, q=q)
