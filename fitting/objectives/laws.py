"""The laws q of the inducing variables, or of the weights of features, at which an objective is evaluated.

| law            | q                                                                       |
|----------------|-------------------------------------------------------------------------|
| `FamilyLaw` | the posterior of a member of the family, a function of the other parameters |
| `ExactLaw`     | the exact posterior of f at the data; its evidence is log p(y)          |
| `LowRankLaw`   | the posterior of the weights of a feature map                           |
| `FreeLaw`      | N(w, CCᵀ), whose w and C are trained                                    |
| `OptimalLaw`   | the best N(w, CCᵀ) for losses without a closed form                     |

Another law is another class with these five methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fitting.features.base import FeatureKernel
from fitting.features.basis import FeatureBasis
from fitting.objectives.blocks import Blocks
from fitting.objectives.collapsed import Diagonal, Member, member
from fitting.objectives.exact import log_evidence, of_losses
from fitting.objectives.free import LossOfRows
from fitting.objectives.passes import AtLosses, EvidencePasses, FreePass, LossPasses, Passes, PosteriorPass
from fitting.objectives.point import Evaluation, Parameters
from fitting.objectives.start_of_q import optimal, settled
from fitting.objectives.structured import Structured
from fitting.posterior import BlockPosterior, ExactPosterior, FeaturePosterior, InducingPosterior, Posterior
from fitting.rows.basis import InducingBasis
from fitting.rows.data import Data, Dataset, Held, partition
from fitting.rows.stream import Stream
from gpbounds import exact as exact_gp
from gpbounds.arrays import Array, namespace
from gpbounds.law import FactorLaw, Law
from gpbounds.likelihoods import Gaussian, Poisson
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.whitening import inducing

if TYPE_CHECKING:
    from fitting.objectives.objective import Objective

DTC = member("dtc")
ENOUGH = 2**14
"""Largest number of rows, equally far apart, from which the start of a free q for counts is computed."""


class ModelLaw(ABC):
    """A kind of q; see the module."""

    @abstractmethod
    def complete(self, problem: Objective, point: Parameters) -> Parameters:
        """``point`` with the blocks that this law needs; missing ones are computed."""

    @abstractmethod
    def evidence(self, data: Dataset, point: Parameters, *, gradient: bool) -> Evaluation:
        """log p(y), or the objective of a member of the family in its place, at the optimal q."""

    @abstractmethod
    def with_losses(self, data: Dataset, point: Parameters, at: AtLosses, *, gradient: bool) -> Evaluation:
        """A function of the sum of expected losses under q and of KL(q‖p)."""

    @abstractmethod
    def posterior(self, data: Dataset, point: Parameters) -> Posterior:
        """The law of f minus the prior mean."""

    @abstractmethod
    def some(self, data: Dataset, rows: Array, *, sums: bool) -> Dataset:
        """The data of ``rows``; refused unless they estimate the goal of all rows.

        ``sums`` says whether the goal is a function of a sum of losses.
        """


@dataclass(frozen=True)
class FamilyLaw(ModelLaw):
    """The posterior of a member of the family.

    Attributes
    ----------
    member : Member
    """

    member: Member

    def complete(self, problem: Objective, point: Parameters) -> Parameters:
        return point

    def evidence(self, data: Dataset, point: Parameters, *, gradient: bool) -> Evaluation:
        return _evaluated(data, point, EvidencePasses(self._penalised(data, point), data.N, gradient))

    def with_losses(self, data: Dataset, point: Parameters, at: AtLosses, *, gradient: bool) -> Evaluation:
        trained = point.power is not None
        passes = LossPasses(self._approximation(data, point), data.N, gradient, at=at, in_power=trained)
        return _evaluated(data, point, passes)

    def posterior(self, data: Dataset, point: Parameters) -> Posterior:
        passes = PosteriorPass(self._approximation(data, point), data.N)
        (basis, q), _ = data.run(point.kernel, point.Z, passes)
        if self.member.inside:
            assert isinstance(data, Data)
            assert data.parts is not None
            return BlockPosterior(basis.inducing, point.noise, q, data.single, data.X, data.residuals, data.parts)
        return _of_basis(basis, point.noise, q, data)

    def some(self, data: Dataset, rows: Array, *, sums: bool) -> Dataset:
        if isinstance(data, Held):
            return data.only(rows)
        if sums:
            raise ValueError(
                "rows: expected all of them: a subset of rows does not estimate the bound of a posterior given all rows"
            )
        if self.member.needs_blocks:
            raise ValueError("rows: expected all of them, as a subset of rows would split the blocks of the objective")
        part = data.only(rows)
        if self.member.is_diagonal:
            return part
        return replace(part, parts=partition(part.N, part.N))

    def _penalised(self, data: Dataset, point: Parameters) -> Diagonal | Blocks:
        """As `_approximation`, with the penalty of the member."""
        if self.member.penalty is None:
            return self._approximation(data, point)
        return Structured(0.0, point.noise, in_blocks=self.member.joins_rows)

    def _approximation(self, data: Dataset, point: Parameters) -> Diagonal | Blocks:
        if self.member.is_diagonal:
            return Diagonal.at(self.member, point)
        assert isinstance(data, Data)
        assert data.parts is not None
        return Blocks(self.member.power, point.noise, data.parts.blocks)


@dataclass(frozen=True)
class ExactLaw(FamilyLaw):
    """The member of the family with Q + R = K: the exact GP, or Rényi at α = 0, which predicts with Q."""

    def evidence(self, data: Dataset, point: Parameters, *, gradient: bool) -> Evaluation:
        assert isinstance(data, Data)
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            evaluation = log_evidence(
                point.kernel,
                data.X,
                data.residuals,
                noise=point.noise,
                gradient=gradient,
                space=data.space,
                prior_mean=data.prior_mean,
            )
        return _constant_in_Z(evaluation, data, point)

    def with_losses(self, data: Dataset, point: Parameters, at: AtLosses, *, gradient: bool) -> Evaluation:
        assert isinstance(data, Data)
        losses: Any = at.losses
        if isinstance(losses, LossOfRows):
            losses = losses.at(slice(None))
        evaluation = of_losses(
            point.kernel, data.X, data.Y, losses, at.price, noise=point.noise, gradient=gradient, space=data.space
        )
        return _constant_in_Z(evaluation, data, point)

    def posterior(self, data: Dataset, point: Parameters) -> Posterior:
        if not self.member.inside:
            return super().posterior(data, point)
        assert isinstance(data, Data)
        given = exact_gp.exact(point.kernel, data.X, data.residuals, noise=point.noise)
        return ExactPosterior(given, data.single)


@dataclass(frozen=True)
class LowRankLaw(FamilyLaw):
    """The posterior of the weights v of features Ξ, v ~ N(0, I): DTC with V = Ξ, as its Q is K = ΞΞᵀ.

    With S = (I + ΞᵀΞ/σ²)⁻¹, w = SΞᵀy/σ² and e = y − Ξw, for each of P outputs,

        log p(y) = −½[log|S⁻¹| + N log 2πσ² + |e|²/σ² + |w|²],   Ξ̄ = ewᵀ/σ² − ΞS/σ².
    """

    member: Member = DTC

    def evidence(self, data: Dataset, point: Parameters, *, gradient: bool) -> Evaluation:
        _feature_kernel(point)
        return super().evidence(data, point, gradient=gradient)

    def posterior(self, data: Dataset, point: Parameters) -> Posterior:
        _feature_kernel(point)
        return super().posterior(data, point)

    def some(self, data: Dataset, rows: Array, *, sums: bool) -> Dataset:
        raise ValueError("rows: expected all of them, as log p(y) is no sum over rows, got some")


@dataclass(frozen=True)
class FreeLaw(ModelLaw):
    """q(v) = N(w, CCᵀ), v the whitened inducing variables or the weights of features; `Parameters.q` holds it."""

    def complete(self, problem: Objective, point: Parameters) -> Parameters:
        """``point`` with the start of q if it has none.

        For a Gaussian likelihood it is the posterior of the goal's ``member``: the minimum, if a closed form exists.
        For counts, and where sites are known, it is the minimum (on at most 16 384 rows); for other likelihoods it is
        the prior.
        """
        if point.q is not None:
            return point
        goal, data = problem.loss_goal, problem.data.about(point.prior_mean)
        if not isinstance(point.likelihood, Gaussian):
            points = data.inputs(point.Z)
            xp, M = namespace(points), int(points.shape[0])
            prior = replace(point, Z=points, q=FactorLaw(xp.zeros((M, 1)), xp.eye(M)))
            if point.sites is None and not (goal.settles and isinstance(point.likelihood, Poisson)):
                return prior
            rows = np.linspace(0, data.N - 1, min(data.N, ENOUGH)).astype(np.int64)
            return settled(problem if data.N <= ENOUGH else problem.batch(xp.asarray(rows)), prior)
        noise = goal.start_noise(point.noise)
        posterior = FamilyLaw(goal.member).posterior(data, replace(point, likelihood=Gaussian(noise)))
        data.space.release()  # steps, above all those of mini-batches, need other memory
        assert isinstance(posterior, InducingPosterior | FeaturePosterior)
        mean, factor = posterior.q.mean, posterior.q.factor
        if goal.ignores_variance:
            factor = namespace(mean).eye(int(mean.shape[0]))
        Z = posterior.inducing.Z if isinstance(posterior, InducingPosterior) else None
        return replace(point, Z=Z, q=FactorLaw(mean, factor))

    def evidence(self, data: Dataset, point: Parameters, *, gradient: bool) -> Evaluation:
        raise ValueError("goal: expected one of losses for a free q, got the evidence: use ExpectedLosses for the ELBO")

    def with_losses(self, data: Dataset, point: Parameters, at: AtLosses, *, gradient: bool) -> Evaluation:
        assert point.q is not None
        return _evaluated(data, point, FreePass(point.q, at, gradient, point.in_covariance))

    def posterior(self, data: Dataset, point: Parameters) -> Posterior:
        """The law of f minus the prior mean, with the noise of a Gaussian likelihood, or 0 for others."""
        assert point.q is not None
        noise = point.noise if isinstance(point.likelihood, Gaussian) else 0.0
        if point.Z is None:
            kernel = _feature_kernel(point) if isinstance(data, Held) else _feature_kernel(point).over(data.X)
            return FeaturePosterior(kernel.held(), noise, point.q, data.single, data.D)
        with one_blas_thread():
            points = inducing(point.kernel, data.inputs(point.Z), data.jitter)
        return InducingPosterior(points, noise, point.q, data.single)

    def some(self, data: Dataset, rows: Array, *, sums: bool) -> Dataset:
        return data.only(rows)


@dataclass(frozen=True)
class OptimalLaw(FreeLaw):
    """The q(v) that minimises a goal of losses at the other parameters, found by steps from the point's sites.

    For rows in memory.  Several minima may exist for a likelihood that is not log-concave.
    """

    def complete(self, problem: Objective, point: Parameters) -> Parameters:
        return replace(point, q=None)

    def with_losses(self, data: Dataset, point: Parameters, at: AtLosses, *, gradient: bool) -> Evaluation:
        assert isinstance(data, Data)

        def work(source: Stream) -> Evaluation:
            return optimal(source, at, point.sites, gradient=gradient)[1]

        evaluation, jitter = data.sweep(point.kernel, point.Z, work)
        return replace(evaluation, jitter=jitter)


def law_of(chosen: Member) -> FamilyLaw:
    """The posterior of this member of the family."""
    return ExactLaw(chosen) if chosen.is_evidence else FamilyLaw(chosen)


def _feature_kernel(point: Parameters) -> FeatureKernel:
    """The kernel of ``point`` if it is a `FeatureKernel`; otherwise an error."""
    if not isinstance(point.kernel, FeatureKernel):
        raise ValueError(f"kernel: expected a FeatureKernel, got {point.kernel!r}")
    return point.kernel


def _evaluated(data: Dataset, point: Parameters, passes: Passes) -> Evaluation:
    evaluation, jitter = data.run(point.kernel, point.Z, passes)
    return replace(evaluation, jitter=jitter)


def _constant_in_Z(evaluation: Evaluation, data: Data, point: Parameters) -> Evaluation:
    """``evaluation`` with derivatives 0 in the inducing inputs that the point has."""
    if point.Z is None or evaluation.gradient is None:
        return evaluation
    zeros = namespace(data.X).zeros_like(data.inputs(point.Z))
    return replace(evaluation, gradient=replace(evaluation.gradient, Z=zeros))


def _of_basis(basis: Any, noise: float, q: Law, data: Dataset) -> Posterior:
    if isinstance(basis, FeatureBasis):
        return FeaturePosterior(basis.kernel.held(), noise, q, data.single, data.D)
    assert isinstance(basis, InducingBasis)
    return InducingPosterior(basis.inducing, noise, q, data.single)
