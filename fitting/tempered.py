"""The β-ELBO of a Gaussian likelihood, at its optimal q: VFE with another weight of KL(q‖p).

    −min_q J = β log N(y; 0, Q + βσ²I) + ½βN log 2πβσ² − tr(K − Q)/(2σ²) − ½N log 2πσ²
             = β F(βσ²) + ½βN log 2πβσ² − ½N log 2πσ²,    J = Σ −E log N(y_i; f_i, σ²) + β·KL(q‖p),

F(s) the objective of VFE at the noise s, whose posterior at s = βσ² is the optimal q.  Observations have the noise σ².
For P outputs N is replaced by NP.  β = 1 is VFE; for another β this is no bound on log p(y) (D-01).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fitting.data import Data
from fitting.evaluation import Evaluation, Parameters
from fitting.family import FamilyObjective, Member
from fitting.mapreduce.objective import Held, PartitionedObjective
from fitting.posterior import InducingPosterior
from fitting.prior_means import PriorMean
from gpbounds.arrays import Array
from gpbounds.kernels import Kernel
from gpbounds.validation import positive, scalar


@dataclass(frozen=True, eq=False)
class TemperedVFE:
    """−min_q J as a function of (kernel, noise, Z).

    Attributes
    ----------
    source : FamilyObjective
        VFE on the same data.
    beta : float
        β > 0.

    >>> from fitting.family import objective
    >>> from gpbounds.kernels import SquaredExponential
    >>> vfe = objective([0.0, 1.0, 2.0], [1.0, 0.5, -0.5])
    >>> arguments = SquaredExponential(), 0.1, [[0.0], [2.0]]
    >>> [round(each.evaluate(*arguments).value, 6) for each in (vfe, TemperedVFE(vfe, 1.0), TemperedVFE(vfe, 0.1))]
    [-4.509929, -4.509929, -1.792132]
    """

    source: FamilyObjective | PartitionedObjective
    beta: float

    held = ()

    @property
    def data(self) -> Data | Held:
        """The rows."""
        return self.source.data

    @property
    def member(self) -> Member:
        """VFE."""
        return self.source.member

    @property
    def N(self) -> int:
        """Number of data."""
        return self.source.N

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def evaluate(
        self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None, *, gradient: bool = True
    ) -> Evaluation:
        """−min_q J, with its derivatives in log hyperparameters, log noise and Z; as `FamilyObjective.evaluate`."""
        s2, beta = scalar(positive, "noise", noise), self.beta
        inner = self.source.evaluate(kernel, beta * s2, Z, gradient=gradient).times(beta)
        half = 0.5 * self.source.weight * self.source.N * self.source.P
        log_noise = math.log(2.0 * math.pi * s2)
        value = inner.value + half * (beta * (log_noise + math.log(beta)) - log_noise)
        if inner.gradient is None:
            return replace(inner, value=value)
        slope = inner.gradient.likelihood + np.array([half * (beta - 1.0)])
        return replace(inner, value=value, gradient=replace(inner.gradient, likelihood=slope))

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """min_q J at ``point``: an `fitting.evaluation.Objective`."""
        about = self.about(point.prior_mean)
        return -about.evaluate(point.kernel, point.noise, point.Z, gradient=gradient)

    def about(self, mean: PriorMean | None) -> TemperedVFE:
        """As `FamilyObjective.about`."""
        return replace(self, source=self.source.about(mean))

    def batch(self, rows: Array) -> TemperedVFE:
        """N/n times the objective of the n given rows alone."""
        return replace(self, source=self.source.batch(rows))

    def posterior(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> InducingPosterior:
        """The optimal q, with the noise σ² of observations."""
        s2 = scalar(positive, "noise", noise)
        posterior = self.source.posterior(kernel, self.beta * s2, Z)
        assert isinstance(posterior, InducingPosterior)
        return replace(posterior, noise=s2)
