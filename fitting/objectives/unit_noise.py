"""Objectives of rows with a noise variance each: those of rows of unit noise of another GP (N-rows-noise).

With w_i = 1/s_i the rows ((x_i, w_i), w_i y_i) have unit noise and the kernel k(x, x')·w·w'.  An objective of theirs is
evaluated at the caller's kernel, inducing inputs and prior mean, and its derivatives are read back: the factor w·w' and
the last column of the inducing inputs, which is 1, are no parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fitting.objectives.collapsed import Member
from fitting.objectives.goals import Target, Terms
from fitting.objectives.losses import Expected, ExpectedLoss
from fitting.objectives.point import Evaluation, Gradient, Parameters
from fitting.posterior import InducingPosterior, Posterior, RowNoisePosterior
from fitting.prior_means import PriorMean
from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.iterative.probes import Probes
from gpbounds.kernels import Kernel, Product
from gpbounds.likelihoods import Gaussian, Likelihood
from gpbounds.row_noise import UnitNoise
from gpbounds.whitening import Inducing

UNIT = Gaussian(1.0)


@dataclass(frozen=True, eq=False)
class RowNoise:
    """Gaussian noise of given variances, one for each row, as the likelihood of a point: nothing of it is trained.

    Attributes
    ----------
    noise : array (N,)
        σ_i², in the units of the model, in host memory.
    """

    noise: Float
    parameter_names: ClassVar[tuple[str, ...]] = ()

    @property
    def log_parameters(self) -> Float:
        """Empty: no parameter is trained."""
        return np.zeros(0)

    def with_log_parameters(self, logs: Float) -> RowNoise:
        """The same noise."""
        return self

    def of(self, rows: Any) -> RowNoise:
        """The noise of some rows."""
        return RowNoise(self.noise[rows])


def at_rows(kernel: Kernel, noise: Float, Z: Array | None = None) -> Parameters:
    """The point (kernel, Z) of rows with the variances ``noise`` (N,)."""
    likelihood: Any = RowNoise(noise)
    return Parameters(kernel, likelihood, Z)


@dataclass(frozen=True, eq=False)
class _Weighted:
    """The prior mean of the rows of unit noise, w·m(x), with the coefficients of m."""

    mean: PriorMean

    @property
    def coefficients(self) -> Float:
        """Those of m."""
        return self.mean.coefficients

    @property
    def trained(self) -> bool:
        """Whether they are trained."""
        return self.mean.trained

    def __call__(self, X: Array) -> Array:
        return X[:, -1:] * self.mean(X[:, :-1])

    def pulled(self, X: Array, slopes: Array) -> Array | float:
        """As `PriorMean.pulled`."""
        return self.mean.pulled(X[:, :-1], X[:, -1:] * slopes)


@dataclass(frozen=True, eq=False)
class _LossesOfRows:
    """Expected losses of the caller's rows at means and variances of the rows of unit noise: a
    `fitting.objectives.free.LossOfRows`.

    Attributes
    ----------
    loss : ExpectedLoss
        In the caller's units.
    weights : array (N,)
        w, on the device of the rows.
    """

    loss: ExpectedLoss
    weights: Array

    def at(self, rows: slice) -> ExpectedLoss:
        """The expected losses of these rows."""
        w = self.weights[rows]

        def expected(Y: Array, m: Array, v: Array) -> Expected:
            own = self.loss(Y / w[:, None], m / w[:, None], v / w**2)
            return own._replace(in_mean=own.in_mean / w[:, None], in_variance=own.in_variance / w**2)

        return expected


@dataclass(frozen=True)
class TargetOfRows(Target):
    """The PAC-Bayes bound of the caller's rows, as a goal of the rows of unit noise with the ``weights`` w (N,)."""

    weights: Any = None

    def losses(self, likelihood: Likelihood) -> Any:
        """As `Target.losses`, in the caller's units."""
        return _LossesOfRows(super().losses(likelihood), self.weights)


@dataclass(frozen=True, eq=False)
class AtUnitNoise:
    """An objective of rows with a noise each, by ``unit``, that of the rows of unit noise.

    Attributes
    ----------
    unit : Objective, or an estimate of `fitting.iterative`
    rows : UnitNoise
        The rows of unit noise.  Its kernel counts as a product of two.
    log_scale : float
        What the objective exceeds that of the rows of unit noise by: Σ log w_i over rows and outputs, for a member of
        the family of log p(y).
    """

    unit: Any
    rows: UnitNoise
    log_scale: float
    held: ClassVar[tuple[str, ...]] = ()

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.unit.N)

    @property
    def data(self) -> Any:
        """The rows of unit noise."""
        return self.unit.data

    @property
    def goal(self) -> Any:
        """The goal of ``unit``."""
        return self.unit.goal

    @property
    def member(self) -> Member:
        """The member of the family."""
        chosen: Member = self.unit.member
        return chosen

    def kernel(self, kernel: Kernel) -> Kernel:
        """k(x, x')·w·w'."""
        weight: Any = self.rows.kernel
        return Product(kernel.on(range(self.columns)), weight.k2)

    @property
    def columns(self) -> int:
        """Number of columns of the caller's X."""
        return int(self.rows.X.shape[1]) - 1

    def at(self, point: Parameters) -> Parameters:
        """``point`` for the rows of unit noise."""
        Z = None if point.Z is None else self.rows.points(point.Z)
        mean: Any = None if point.prior_mean is None else _Weighted(point.prior_mean)
        return replace(point, kernel=self.kernel(point.kernel), likelihood=UNIT, Z=Z, prior_mean=mean)

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself: no q is free."""
        return point

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """As `fitting.objectives.objective.Objective.minimised`, with derivatives in the caller's parameters."""
        evaluation = self.unit.minimised(self.at(point), gradient=gradient)
        evaluation = replace(evaluation, value=evaluation.value - self.log_scale)
        if evaluation.gradient is None:
            return evaluation
        return replace(evaluation, gradient=_read_back(evaluation.gradient))

    def evaluate(self, kernel: Kernel, noise: Float, Z: Array | None = None, *, gradient: bool = True) -> Evaluation:
        """As `fitting.objectives.objective.Objective.evaluate`; ``noise`` must be that of the rows."""
        return -self.minimised(self._point(kernel, noise, Z), gradient=gradient)

    def about(self, mean: PriorMean | None) -> AtUnitNoise:
        """As `fitting.objectives.objective.Objective.about`."""
        weighted: Any = None if mean is None else _Weighted(mean)
        return replace(self, unit=self.unit.about(weighted))

    def batch(self, rows: Array) -> AtUnitNoise:
        """As `fitting.objectives.objective.Objective.batch`."""
        share = self.unit.N / len(rows)
        logs = np.log(self.rows.weights[host(rows)]).sum() * self.data.P
        return AtUnitNoise(self.unit.batch(rows), self.rows, float(share * logs) if self.log_scale else 0.0)

    def posterior(self, kernel: Kernel, noise: Float, Z: Array | None = None) -> Posterior:
        """The law of f minus the prior mean, at the caller's inputs."""
        return self.posterior_at(self._point(kernel, noise, Z))

    def posterior_at(self, point: Parameters) -> Posterior:
        """As `posterior`, at a point."""
        within = self.at(point)
        return in_callers_terms(self.unit.posterior(within.kernel, 1.0, within.Z), point)

    def terms_at(self, point: Parameters) -> Terms:
        """R_S over all data, KL, B and the jitter at ``point``, for a `TargetOfRows`."""
        terms: Terms = self.goal.terms(self.minimised(point, gradient=False))
        return terms

    def _point(self, kernel: Kernel, noise: Float, Z: Array | None) -> Parameters:
        if not np.array_equal(noise, self.rows.noise):
            raise ValueError("noise: expected the noise variances of the rows of this objective, got others")
        return at_rows(kernel, noise, Z)


@dataclass(frozen=True, eq=False)
class EstimateAtUnitNoise(AtUnitNoise):
    """An estimate of `fitting.iterative` for rows with a noise each."""

    @property
    def probes(self) -> Probes | None:
        """The source of the probes."""
        chosen: Probes | None = self.unit.probes
        return chosen

    def prepared(self, point: Parameters, entropy: tuple[int, ...]) -> EstimateAtUnitNoise:
        """As `fitting.iterative.evidence.IterativeEvidence.prepared`."""
        return replace(self, unit=self.unit.prepared(self.at(point), entropy))

    def is_stale(self, point: Parameters, negligible: float = 0.0) -> bool:
        """As `fitting.iterative.evidence.IterativeEvidence.is_stale`."""
        return bool(self.unit.is_stale(self.at(point), negligible))

    def standard_errors(self, point: Parameters) -> Gradient:
        """As `fitting.iterative.evidence.IterativeEvidence.standard_errors`."""
        return _read_back(self.unit.standard_errors(self.at(point)))


def _read_back(gradient: Gradient) -> Gradient:
    """Derivatives in the caller's parameters: without those of the factor w·w', the noise and the last column of Z."""
    Z = None if gradient.Z is None else gradient.Z[:, :-1]
    return replace(gradient, kernel=gradient.kernel[:-1], likelihood=np.zeros(0), Z=Z)


def in_callers_terms(posterior: Posterior, point: Parameters) -> Posterior:
    """The law of the latent f at x, from that of the rows of unit noise at (x, 1).

    At inducing points (z, 1) both have the same Kuu, and so the same q of the whitened inducing variables.
    """
    noise: Any = point.noise
    if type(posterior) is not InducingPosterior:
        return RowNoisePosterior(posterior, point.kernel, noise)
    points = posterior.inducing
    own = Inducing(point.kernel, namespace(points.Z).ascontiguousarray(points.Z[:, :-1]), points.chol, points.defect)
    return replace(posterior, inducing=own, noise=noise)


def of_unit_rows(unit: Any, rows: UnitNoise) -> AtUnitNoise:
    """The objective of the caller's rows, from ``unit``, that of ``rows`` at unit noise.

    >>> from fitting.objectives.objective import objective
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.row_noise import at_unit_noise
    >>> X, y, noise, kernel = [[0.0], [1.0], [2.0]], [1.0, 0.5, -0.5], np.array([0.1, 0.2, 0.1]), SquaredExponential()
    >>> rows = at_unit_noise(kernel, X, y, noise)
    >>> unit = objective(rows.X, rows.y, "exact")
    >>> round(of_unit_rows(unit, rows).evaluate(kernel, noise).value, 4)  # log p(y)
    -3.28
    """
    kind = EstimateAtUnitNoise if hasattr(unit, "standard_errors") else AtUnitNoise
    of_losses = isinstance(getattr(unit, "goal", None), Target)
    return kind(unit, rows, 0.0 if of_losses else rows.P * rows.log_scale)
