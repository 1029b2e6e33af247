"""log p(y) of a low-rank GP as the maximum of a sum over rows, for mini-batches.

With q(v) = N(w, CCᵀ) the law of the weights of the features, whose prior is N(0, I), for every q

    log p(y) ≥ Σ_i [log N(y_i; φ_iᵀw, σ²) − φ_iᵀCCᵀφ_i/(2σ²)] − KL(q‖p),

and the two sides are equal at q = p(v|y): there is no gap, as K − Q is 0.  A sum over random rows, N/n times, has the
mean of the sum over all of them, with all derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fitting.data import Data
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.expected import of_likelihood
from fitting.functional import free
from fitting.lowrank import LowRankObjective
from fitting.training import NaturalSteps
from gpbounds.arrays import Array
from gpbounds.law import FactorLaw
from gpbounds.linalg.parallel import one_blas_thread

RATE = 0.1
"""Rate of natural-gradient steps on mini-batches."""


@dataclass(frozen=True, eq=False)
class LowRankBound:
    """The bound of one data set with one output, as a function of a `FeatureKernel`, the noise and q.

    Attributes
    ----------
    data : Data
    weight : float
        Factor of the sum over rows: N/n where n rows stand for N.

    >>> from fitting.family import at_point, objective
    >>> from fitting.features import FeatureKernel, MercerMap
    >>> from gpbounds import SquaredExponential
    >>> data = objective([0.0, 1.0, 2.0], [1.0, 0.5, -0.5]).data
    >>> features = MercerMap.chosen(SquaredExponential(), 20, "best", np.zeros(1), np.ones(1))
    >>> point = at_point(FeatureKernel(features, features.kernel.log_parameters), 0.1)
    >>> best = LowRankBound(data).complete(point)
    >>> round(-LowRankBound(data).minimised(best).value, 4)  # log p(y)
    -3.2002
    """

    data: Data
    weight: float = 1.0

    held = ()

    @property
    def N(self) -> int:
        """Number of rows."""
        return self.data.N

    def complete(self, point: Parameters) -> Parameters:
        """``point`` with the best q, p(v|y), if it has none."""
        if point.q is not None:
            return point
        q = LowRankObjective(self.data.about(point.prior_mean)).posterior(point.kernel, point.noise).q
        return replace(point, q=FactorLaw(q.mean, q.factor))

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """The negative bound at ``point``: an `fitting.evaluation.Objective`."""
        q, weight = point.q, self.weight
        assert q is not None

        def outer(total: float, kl: float) -> tuple[float, float, float]:
            return weight * total + kl, weight, 1.0

        data = self.data.about(point.prior_mean)
        source, loss = LowRankObjective(data).stream(point.kernel), of_likelihood(point.likelihood)
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            return finite_or_refused(free(source, q, loss, outer, gradient=gradient))

    def batch(self, rows: Array) -> LowRankBound:
        """The bound with N/n times the sum over the n given rows."""
        part = self.data.only(rows)
        return LowRankBound(part, self.weight * self.data.N / part.N)

    def natural(self, start: Parameters, rate: float | None = None) -> NaturalSteps:
        """Natural-gradient steps for q; with rate 1 on all rows a step reaches the best q from everywhere."""
        assert start.q is not None
        return NaturalSteps(start.q.M, 1.0, RATE if rate is None else rate, True)
