"""The one objective: rows × law × goal, as a function of a point.

| part  | what it is                                                    | its classes                          |
|-------|---------------------------------------------------------------|--------------------------------------|
| rows  | the data, in memory or held by an engine, and how to read them | `fitting.data.Data`, `Held`          |
| law   | q of the inducing variables or of the weights of features      | `fitting.laws`                       |
| goal  | the number that training minimises                            | `fitting.goals`                      |

`fitting.objective` and its neighbours `risk_bound`, `free_bound`, `variational_objective` make the usual ones from
arrays.  Estimates by iterations are objectives of their own, see `fitting.iterative`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from fitting.data import Dataset, Held
from fitting.evaluation import Evaluation, Parameters
from fitting.goals import ExpectedLosses, Goal, Losses, Target, Terms
from fitting.laws import CollapsedLaw, FreeLaw, ModelLaw
from fitting.members import Member, row_by_row
from fitting.parameters import Packing, law, packing_of
from fitting.posterior import Posterior
from fitting.prior_means import PriorMean
from fitting.sampled import Sampling
from fitting.training import NaturalSteps
from gpbounds.arrays import Array
from gpbounds.kernels import Kernel
from gpbounds.likelihoods import Gaussian, Likelihood


@dataclass(frozen=True, eq=False)
class Objective:
    """The goal of one law and one data set, as a function of a point: a `fitting.evaluation.Minimised`.

    Attributes
    ----------
    data : Data or Held
        The rows.
    law : ModelLaw
    goal : Goal
    weight : float
        N/n where n rows stand for N: the factor of a sum over rows.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]])
    >>> point = at_point(SquaredExponential(), 0.1, np.array([[0.0], [2.0]]))
    >>> vfe = CollapsedLaw(Member("diagonal", 0.0))
    >>> [round(Objective(Data(X, y, True), vfe, Evidence(b)).minimised(point).value, 6) for b in (1.0, 0.1)]
    [4.509929, 1.792132]
    """

    data: Dataset
    law: ModelLaw
    goal: Goal
    weight: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.data, Held) and isinstance(self.law, CollapsedLaw):
            row_by_row(self.law.member)

    @property
    def N(self) -> int:
        """Number of rows."""
        return self.data.N

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the parameters on which the objective does not depend."""
        return self.goal.held if isinstance(self.law, FreeLaw) else ()

    @property
    def member(self) -> Member:
        """The member of the family whose posterior q is, or where a free q starts."""
        return self.law.member if isinstance(self.law, CollapsedLaw) else self.loss_goal.member

    @property
    def likelihood(self) -> Likelihood:
        """The start of the likelihood, for `ExpectedLosses`."""
        return self.expected_losses.likelihood

    @property
    def loss_goal(self) -> Losses:
        """The goal, which must be a function of expected losses and KL(q‖p)."""
        if not isinstance(self.goal, Losses):
            raise ValueError(f"goal: expected one of expected losses and KL(q‖p), got {self.goal!r}")
        return self.goal

    @property
    def expected_losses(self) -> ExpectedLosses:
        """The goal, which must be `fitting.goals.ExpectedLosses`."""
        if not isinstance(self.goal, ExpectedLosses):
            raise ValueError(f"goal: expected ExpectedLosses, got {self.goal!r}")
        return self.goal

    def complete(self, point: Parameters) -> Parameters:
        """``point`` with a free q if it has none; for other laws ``point`` itself."""
        return self.law.complete(self, point)

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """The goal at ``point``; the next call may overwrite the arrays of the gradient.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments, or where the value is not finite.
        NotPositiveDefinite
            when Kuu or a block does not factorise with any admitted jitter.
        """
        return self.goal.value(self.about(point.prior_mean), point, gradient=gradient)

    def about(self, mean: PriorMean | None) -> Objective:
        """The same objective with another prior mean, and with derivatives in its coefficients; None keeps it."""
        return self if mean is None else replace(self, data=self.data.about(mean))

    def batch(self, rows: ArrayLike | Array) -> Objective:
        """An estimate from the n given rows, whose sum counts N/n times.

        For sums of losses and for evidences of members without blocks.  Of a sum over random rows the mean is the
        objective, with all derivatives.  `Target` at random rows is no bound: since B is concave in R_S (P-04), it is
        smaller than B on average (P-46).
        """
        part = self.law.some(self.data, rows, sums=isinstance(self.goal, Losses))
        return replace(self, data=part, weight=self.weight * self.data.N / part.N)

    def standing_for(self, N: int) -> Objective:
        """The objective in which the n rows count N/n times."""
        return replace(self, weight=N / self.data.N)

    def evaluate(
        self,
        kernel: Kernel,
        likelihood: Likelihood | float,
        Z: ArrayLike | Array | None = None,
        mean: ArrayLike | Array | None = None,
        factor: ArrayLike | Array | None = None,
        rows: ArrayLike | Array | None = None,
        *,
        gradient: bool = True,
    ) -> Evaluation:
        """Minus the goal, such as log p(y) or −B, with its derivatives in all blocks of the point.

        Parameters
        ----------
        kernel : Kernel
            Derivatives are in the logarithms of its hyperparameters.
        likelihood : Likelihood or float
            A number is the noise variance σ² of a Gaussian likelihood, in squared units of y.
        Z : array (M, D), NumPy or CuPy as X is
            Inducing inputs; None for features, and where the objective does not depend on them.
        mean : array (M,) or (M, 1)
            w of a free q(v) = N(w, CCᵀ), v = L⁻¹u, L Lᵀ = Kuu + jitter·I; its derivative has shape (M, 1).
        factor : array (M, M)
            C, lower triangular with a positive diagonal.
        rows : array (n,) of int, optional
            The sum is estimated from these rows only, as in `batch`.
        gradient : bool
            False computes the value only.

        Raises
        ------
        ValueError, NonFinite, NotPositiveDefinite
            as `minimised`.
        """
        problem = self if rows is None else self.batch(rows)
        return -problem.minimised(self._point(kernel, likelihood, Z, mean, factor), gradient=gradient)

    def terms(self, kernel: Kernel, likelihood: Likelihood | float, *more: ArrayLike | Array | None) -> Terms:
        """R_S over all data, KL, B and the jitter, for a `Target`; arguments and errors as in `evaluate`."""
        return self.terms_at(self._point(kernel, likelihood, *more))

    def terms_at(self, point: Parameters) -> Terms:
        """As `terms`, at a point."""
        assert isinstance(self.goal, Target)
        return self.goal.terms(self.minimised(point, gradient=False))

    def posterior(self, kernel: Kernel, likelihood: Likelihood | float, *more: ArrayLike | Array | None) -> Posterior:
        """The law of f minus the prior mean; arguments and errors as in `evaluate`."""
        return self.posterior_at(self._point(kernel, likelihood, *more))

    def posterior_at(self, point: Parameters) -> Posterior:
        """As `posterior`, at a point, whose prior mean the data must have (`about`)."""
        if self.goal.temper == 1.0:
            return self.law.posterior(self.data, point)
        own = replace(point, likelihood=Gaussian(self.goal.temper * point.noise))
        posterior: Any = self.law.posterior(self.data, own)
        return replace(posterior, noise=point.noise)

    def packing(self, start: Parameters, **options: Any) -> Packing:
        """The conversion between points and vectors, for training that starts at ``start``, completed.

        ``options`` are those of `fitting.parameters.packing`: learn_Z, fixed, limits, scale.
        """
        fixed = tuple(dict.fromkeys((*options.pop("fixed", ()), *self.held)))
        return packing_of(self.complete(start), fixed=fixed, **options)

    def natural(self, start: Parameters, rate: float | None = None) -> NaturalSteps:
        """Natural-gradient steps for a free q; by default ρ = 1 where one step reaches the optimum, and 0.1 elsewhere.

        Parameters
        ----------
        start : Parameters
            Its likelihood and its number of inducing inputs count.
        rate : float in (0, 1], optional
            ρ.
        """
        return self.expected_losses.natural(start, rate, weight=self.weight)

    def with_goal(self, **changes: Any) -> Objective:
        """The objective whose `ExpectedLosses` have other attributes."""
        return replace(self, goal=replace(self.expected_losses, **changes))

    def sampled(self, sampling: Sampling, seed: int) -> Objective:
        """The objective of "log-loss" whose losses are sampled, with the samples that ``seed`` determines."""
        return replace(self, goal=self.expected_losses.sampled(sampling, seed))

    def _point(
        self, kernel: Kernel, likelihood: Likelihood | float, Z: Any = None, mean: Any = None, factor: Any = None
    ) -> Parameters:
        if mean is None:
            return at_point(kernel, likelihood, Z)
        points = None if Z is None else self.data.inputs(Z)
        M = kernel.features.rank if points is None else int(points.shape[0])  # type: ignore[attr-defined]
        return replace(at_point(kernel, likelihood, points), q=law(mean, factor, M))


def at_point(kernel: Kernel, likelihood: Likelihood | float, Z: Array | None = None) -> Parameters:
    """The point (kernel, likelihood, Z); a number is the noise variance of a Gaussian likelihood."""
    return Parameters(kernel, likelihood if isinstance(likelihood, Likelihood) else Gaussian(likelihood), Z)
