"""log p(y) of the exact GP as an objective at large N: an estimate that is smooth, with standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.iterative.posterior import iterative_posterior
from fitting.iterative.solution import (
    PROBES,
    Cotangent,
    Layout,
    Solution,
    is_narrow,
    layout,
    of_evidence,
    pulled,
    solution,
)
from fitting.objectives.collapsed import Member, one_number
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import law_of
from fitting.objectives.objective import Objective
from fitting.objectives.point import Evaluation, Gradient, Parameters, finite_or_refused
from fitting.posterior import Posterior
from fitting.prior_means import PriorMean, derivatives, residuals
from fitting.rows.data import Data
from gpbounds.arrays import Array, Float, host, namespace
from gpbounds.iterative.probes import Probes
from gpbounds.kernels import Kernel
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.validation import positive

GROUPS = 8
"""Groups of probes; standard errors come from the differences between their derivatives."""


def groups(m: int) -> list[range]:
    """The probes of each group.

    >>> groups(16)[:2]
    [range(0, 2), range(2, 4)]
    """
    ends = np.linspace(0, m, min(GROUPS, m) + 1).astype(int).tolist()
    return [range(start, stop) for start, stop in pairwise(ends)]


def spread(values: Float) -> Float:
    """Standard errors of the mean of the rows (groups, p); 0 without groups."""
    if len(values) < 2:
        return np.zeros(values.shape[1])
    return values.std(axis=0, ddof=1) / math.sqrt(len(values))


@dataclass(frozen=True, eq=False)
class IterativeEvidence:
    """Σ_p log N(y_p; 0, K + σ²I), with an unbiased estimate of log|K + σ²I|: an `fitting.objectives.point.Minimised`.

    `prepared` freezes blocks, conditioning sets, probes and Lanczos steps.  The estimate is then one smooth function of
    (kernel, noise), and its derivatives are exact; `standard_errors` are those of the derivatives of log p(y).
    Few rows of a mini-batch are factorised.

    Attributes
    ----------
    data : Data
    member : Member
    frozen : Layout or None
    ordered : pair of arrays or None
        X and Y in the order of the blocks.
    """

    data: Data
    member: Member
    frozen: Layout | None = None
    ordered: tuple[Array, Array] | None = None

    held = ()

    @property
    def N(self) -> int:
        """Number of data."""
        return self.data.N

    @property
    def probes(self) -> Probes | None:
        """The source of the probes."""
        return None if self.frozen is None else self.frozen.seed

    def prepared(self, point: Parameters, entropy: tuple[int, ...]) -> IterativeEvidence:
        """The objective with blocks and steps that suit ``point``, and probes that depend on ``entropy``."""
        chosen = layout(point.kernel, self.data.X, Probes(entropy, PROBES))
        order = namespace(self.data.X).asarray(chosen.blocks.order)
        ready = replace(self, frozen=chosen, ordered=(self.data.X[order], self.data.Y[order]))
        return replace(ready, frozen=chosen.with_steps(ready.solved(point, derivatives=False).tridiagonal.steps))

    def is_stale(self, point: Parameters, negligible: float = 0.0) -> bool:
        """Whether ``point``, where the estimate is largest, needs more steps, or other blocks.

        It needs other blocks if a lengthscale has changed by more than a factor of 2, unless the estimate's standard
        error is at most ``negligible``/4 nats: at the estimate's maximiser, log p(y) is below its maximum by at most
        the sum of the estimate's errors at both maximisers.
        """
        assert self.frozen is not None
        solved = self.solved(point, derivatives=False)
        moved = self.frozen.is_stale(point.kernel, host(self.data.X))
        return not is_narrow(solved, within=10.0) or (moved and solved.log_evidence_error > 0.25 * negligible)

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def evaluate(
        self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None, *, gradient: bool = True
    ) -> Evaluation:
        """The estimate at (kernel, noise), with its derivatives in log hyperparameters and log noise.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        NotPositiveDefinite
            when σ² is below the rounding error of K.
        """
        s2 = one_number("noise", positive("noise", noise))
        solved = self._solved(kernel, s2, derivatives=gradient)
        if not gradient:
            return finite_or_refused(Evaluation(solved.log_evidence, None))
        columns = solved.columns(range(solved.layout.m)) if solved.layout.m else None
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            (slopes,) = pulled(solved, [of_evidence(solved, columns)])
        derivative = Gradient(slopes[:-1], slopes[-1:], prior_mean=self._in_mean(solved.weights))
        return finite_or_refused(Evaluation(solved.log_evidence, derivative))

    def _in_mean(self, weights: Array) -> Float | None:
        """Derivatives in the coefficients of the prior mean, from (K + σ²I)⁻¹(Y − m) in the order of the blocks."""
        assert self.ordered is not None
        mean = self.data.prior_mean
        return None if mean is None else derivatives(mean.pulled(self.ordered[0], weights))

    def about(self, mean: PriorMean | None) -> IterativeEvidence:
        """As `Objective.about`."""
        return replace(self, data=self.data.about(mean))

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """Minus the estimate at ``point``."""
        return -self.about(point.prior_mean).evaluate(point.kernel, point.noise, gradient=gradient)

    def standard_errors(self, point: Parameters) -> Gradient:
        """Standard errors of the derivatives, estimated from `GROUPS` groups of probes."""
        solved = self.solved(point)
        half = -0.5 * self.data.Y.shape[1]
        parts = [Cotangent(solved.columns(some), half, deterministic=False) for some in groups(solved.layout.m)]
        with one_blas_thread():
            each = pulled(solved, parts) if parts else np.zeros((0, point.kernel.log_parameters.size + 1))
        errors = spread(each)
        exact = None if point.prior_mean is None else 0.0 * point.prior_mean.coefficients
        return Gradient(errors[:-1], errors[-1:], prior_mean=exact)

    def solved(self, point: Parameters, *, derivatives: bool = True) -> Solution:
        """The solution at ``point``."""
        return self.about(point.prior_mean)._solved(point.kernel, point.noise, derivatives=derivatives)

    def _solved(self, kernel: Kernel, noise: float, *, derivatives: bool) -> Solution:
        if self.frozen is None or self.ordered is None:
            raise ValueError("objective: expected one that `prepared` has returned: it has neither blocks nor probes")
        X, Y = self.ordered[0], residuals(self.data.prior_mean, *self.ordered)
        shared: dict[str, Any] = {"layout": self.frozen, "space": self.data.space, "derivatives": derivatives}
        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            return solution(kernel, X, Y, noise=noise, **shared)

    def batch(self, rows: Array) -> Objective:
        """N/n times log p of the n given rows alone, by a Cholesky factor."""
        return Objective(self.data, law_of(self.member), Evidence()).batch(rows)

    def posterior(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> Posterior:
        """The exact posterior, with certified solves."""
        return iterative_posterior(
            kernel,
            self.data.X,
            self.data.residuals,
            noise=one_number("noise", positive("noise", noise)),
            single=self.data.single,
        )
