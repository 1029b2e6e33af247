"""log p(y) of low-rank GPs over partitions: as `fitting.lowrank`, for any engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitting.diagonal import Diagonal
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.lowrank import FeaturePosterior, feature_kernel
from fitting.mapreduce.objective import Held
from fitting.mapreduce.two_passes import PosteriorPass, TwoPasses, settled
from fitting.prior_means import PriorMean
from gpbounds.arrays import Array
from gpbounds.kernels import Kernel
from gpbounds.validation import positive, scalar


@dataclass(frozen=True, eq=False)
class PartitionedLowRank:
    """log p(y) as a function of a `FeatureKernel` and the noise.

    Attributes
    ----------
    data : Held
    """

    data: Held

    held = ()

    @property
    def N(self) -> int:
        """Number of data."""
        return self.data.N

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def evaluate(self, kernel: Kernel, noise: float, *, gradient: bool = True) -> Evaluation:
        """log p(y) and its derivatives; arguments and errors as `fitting.lowrank.LowRankObjective.evaluate`."""
        return finite_or_refused(settled(self._program(TwoPasses, kernel, noise, gradient=gradient), self._run))

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """−log p(y) at ``point``: an `fitting.evaluation.Objective`."""
        return -self.about(point.prior_mean).evaluate(point.kernel, point.noise, gradient=gradient)

    def about(self, mean: PriorMean | None) -> PartitionedLowRank:
        """As `fitting.family.FamilyObjective.about`."""
        return PartitionedLowRank(self.data.about(mean))

    def batch(self, rows: Array) -> PartitionedLowRank:
        """Raises an error."""
        raise ValueError("rows: expected all of them, as log p(y) is no sum over rows, got some")

    def posterior(self, kernel: Kernel, noise: float) -> FeaturePosterior:
        """The posterior, in local memory."""
        _, q = settled(self._program(PosteriorPass, kernel, noise), self._run)
        return FeaturePosterior(feature_kernel(kernel), float(noise), q, self.data.single, self.data.D)

    def _run(self, program: Any) -> Any:
        return self.data.engine.run(program)

    def _program(self, kind: type[TwoPasses], kernel: Kernel, noise: float, **options: Any) -> TwoPasses:
        member = Diagonal(0.0, scalar(positive, "noise", noise), kept=False)
        return kind(member, feature_kernel(kernel), None, **self.data.settings(), **options)
