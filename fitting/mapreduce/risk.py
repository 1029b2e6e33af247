"""PAC-Bayes bounds over partitions: as `fitting.bounds`, for any engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fitting.bounds.target import Target, Terms
from fitting.diagonal import Diagonal
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.family import at_point
from fitting.mapreduce.objective import Held, PartitionedObjective
from fitting.mapreduce.risk_passes import FreeRiskPass, RiskPasses
from fitting.mapreduce.two_passes import settled
from gpbounds.arrays import Array, Float
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw
from gpbounds.validation import positive, scalar
from gpbounds.whitening import with_jitter


@dataclass(frozen=True, eq=False)
class PartitionedRisk:
    """B of the posterior of a member, as a function of (kernel, noise, Z): `fitting.bounds.RiskBound` over partitions.

    Attributes
    ----------
    source : PartitionedObjective
        The rows, and the member whose posterior is Q.
    target : Target
    """

    source: PartitionedObjective
    target: Target

    held: tuple[str, ...] = ()

    @property
    def data(self) -> Held:
        """The rows."""
        return self.source.data

    @property
    def N(self) -> int:
        """Number of data."""
        return self.source.N

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def batch(self, rows: Array) -> PartitionedRisk:
        """Raises an error."""
        raise ValueError("rows: expected all of them, as partitions are read in full, got some")

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """B at ``point``: an `fitting.evaluation.Objective`."""

        def attempt(amount: float) -> Evaluation:
            evaluation = settled(self._program(point, amount, gradient), self.data.engine.run)
            return replace(evaluation, jitter=amount)

        return finite_or_refused(with_jitter(attempt, point.kernel, self.data.inputs(point.Z), self.source.jitter))

    def terms_at(self, point: Parameters) -> Terms:
        """R_S, KL, B and the jitter at ``point``."""
        return self.target.terms(self.minimised(point, gradient=False))

    def _program(self, point: Parameters, jitter: float, gradient: bool) -> Any:
        scalar(positive, "noise", point.noise)
        Z = self.data.inputs(point.Z)
        return RiskPasses(
            Diagonal.at(self.source.member, point),
            point.kernel,
            Z,
            jitter=jitter,
            relative_jitter=self._relative(point.kernel, Z, jitter),
            gradient=gradient,
            target=self.target,
            in_power=point.power is not None,
            **self.data.settings(),
        )

    def _relative(self, kernel: Kernel, Z: Float, jitter: float) -> float:
        return jitter / kernel.largest_variance(Z) if self.source.jitter == "auto" else 0.0


@dataclass(frozen=True, eq=False)
class PartitionedFreeRisk(PartitionedRisk):
    """B of a free q, as a function of (kernel, Z, μ, C): `fitting.bounds.FreeBound` over partitions."""

    held: tuple[str, ...] = ("noise",)

    def complete(self, point: Parameters) -> Parameters:
        """``point``, with the q of FITC if it has none."""
        return point if point.q is not None else self.start(point.kernel, point.noise, self.data.inputs(point.Z))

    def start(self, kernel: Kernel, noise: float, Z: Float) -> Parameters:
        """The q of FITC at (kernel, noise, Z)."""
        posterior = self.source.posterior(kernel, noise, Z)
        law = FactorLaw(posterior.q.mean, posterior.q.factor)
        return replace(at_point(kernel, noise, posterior.inducing.Z), q=law)

    def _program(self, point: Parameters, jitter: float, gradient: bool) -> Any:
        assert point.q is not None
        Z = self.data.inputs(point.Z)
        return FreeRiskPass(
            self.target,
            point.kernel,
            Z,
            point.q,
            jitter,
            self._relative(point.kernel, Z, jitter),
            gradient,
        )
