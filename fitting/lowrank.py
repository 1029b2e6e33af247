"""Low-rank Gaussian processes y ~ N(0, ΞΞᵀ + σ²I) as objectives: log p(y) and its derivatives in O(Nr²).

With S = (I + ΞᵀΞ/σ²)⁻¹, w = SΞᵀy/σ² and e = y − Ξw, for each of P outputs,

    log p(y) = −½[log|S⁻¹| + N log 2πσ² + |e|²/σ² + |w|²],   Ξ̄ = ewᵀ/σ² − ΞS/σ²:

this is DTC of `fitting.diagonal` with V = Ξ, as its Q is ΞΞᵀ.  Predictions have the mean φᵀw and the latent
variance φᵀSφ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fitting.data import Data
from fitting.diagonal import Diagonal
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.features.basis import FeatureBasis
from fitting.features.kernel import FeatureKernel
from fitting.posterior import Posterior
from fitting.prior_means import PriorMean
from fitting.rows import Stream
from gpbounds.arrays import Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.law import Law
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.validation import positive, scalar


@dataclass(frozen=True, eq=False)
class LowRankObjective:
    """log p(y) of one data set, as a function of a `FeatureKernel` and the noise.

    Attributes
    ----------
    data : Data

    >>> from fitting.family import objective
    >>> from fitting.features import MercerMap
    >>> from gpbounds import SquaredExponential
    >>> data = objective([0.0, 1.0, 2.0], [1.0, 0.5, -0.5]).data
    >>> features = MercerMap.chosen(SquaredExponential(), 20, "best", np.zeros(1), np.ones(1))
    >>> kernel = FeatureKernel(features, features.kernel.log_parameters)
    >>> round(LowRankObjective(data).evaluate(kernel, 0.1).value, 4)  # as the exact GP: gpbounds.renyi.log_evidence
    -3.2002
    """

    data: Data

    held = ()

    @property
    def N(self) -> int:
        """Number of data."""
        return self.data.N

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def stream(self, kernel: Kernel) -> Stream:
        """The chunks of all rows with the features of ``kernel``."""
        return self.data.stream_of(FeatureBasis.of(feature_kernel(kernel)))

    def evaluate(self, kernel: Kernel, noise: float, *, gradient: bool = True) -> Evaluation:
        """log p(y), summed over outputs, with its derivatives in the parameters of the features and in log noise.

        Parameters
        ----------
        kernel : FeatureKernel
        noise : float
            σ², in squared units of y.
        gradient : bool
            False computes the value only.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments, or features that are not finite.
        NotPositiveDefinite
            when I + ΞᵀΞ/σ² does not factorise.
        """
        member = Diagonal(0.0, scalar(positive, "noise", noise), kept=False)
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            evaluation = member.evaluate(self.stream(kernel), gradient=gradient)
        return finite_or_refused(evaluation)

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """−log p(y) at ``point``: an `fitting.evaluation.Objective`."""
        return -self.about(point.prior_mean).evaluate(point.kernel, point.noise, gradient=gradient)

    def about(self, mean: PriorMean | None) -> LowRankObjective:
        """As `fitting.family.FamilyObjective.about`."""
        return LowRankObjective(self.data.about(mean))

    def batch(self, rows: Array) -> LowRankObjective:
        """Not defined: log p(y) is no sum over rows."""
        raise ValueError("rows: expected all of them, as log p(y) is no sum over rows, got some")

    def posterior(self, kernel: Kernel, noise: float) -> FeaturePosterior:
        """The posterior; arguments and errors as in `evaluate`."""
        s2, source = scalar(positive, "noise", noise), self.stream(kernel)
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            q, _ = Diagonal(0.0, s2, kept=False).posterior(source)
        return FeaturePosterior(feature_kernel(kernel), s2, q, self.data.single, int(self.data.X.shape[1]))


def feature_kernel(kernel: Kernel) -> FeatureKernel:
    """``kernel`` if it is a `FeatureKernel`; otherwise an error."""
    if not isinstance(kernel, FeatureKernel):
        raise ValueError(f"kernel: expected a FeatureKernel, got {kernel!r}")
    return kernel


@dataclass(frozen=True, eq=False)
class FeaturePosterior(Posterior):
    """f(x) = φ(x)ᵀv, v ~ q: mean Ξw, covariance ΞSΞᵀ.

    Attributes
    ----------
    kernel : FeatureKernel
    noise : float
        σ².
    q : Law
        The law of the weights v of the features; their prior is N(0, I).
    single : bool
        Whether means have the shape (N*,) rather than (N*, P).
    columns : int
        Number of input dimensions.
    """

    kernel: FeatureKernel
    noise: float
    q: Law
    single: bool
    columns: int

    @property
    def dim(self) -> int:
        return self.columns

    def _law(self, X: Array, labels: object, full: bool) -> tuple[Array, Array]:
        xp = namespace(X)
        V = self.kernel.features(self.kernel.parameters, X).T
        if full:
            return self.q.joint(V, xp.zeros((X.shape[0], X.shape[0])))
        return self.q.moments(V, xp.zeros(X.shape[0]))
