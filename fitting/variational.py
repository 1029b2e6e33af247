"""The variational objective J, for any likelihood, as a function of (kernel, likelihood, Z, q(v) = N(w, CCᵀ)).

    J = (N/n) Σ ℓ(y_i, m_i, s_i) + β·KL(q‖p),      m_i = wᵀv_i,    s_i = r_i + v_iᵀCCᵀv_i,

with the losses of `fitting.expected` and a sum over n of the N rows.  For the loss "elbo" and β = 1, −J is a lower
bound on log p(y).  For another β and for the other losses J bounds nothing (D-01, D-02); they serve predictions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting import family
from fitting.data import Data
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.expected import OBJECTIVES, ExpectedLoss, PowerEP, of_likelihood, only_gaussian
from fitting.family import FamilyObjective, Member, member
from fitting.functional import Losses, free
from fitting.parameters import Packing, law, packing_of
from fitting.posterior import InducingPosterior
from fitting.prior_means import PriorMean
from fitting.sampled import Sampling
from fitting.settling import quadratic_loss, settled
from fitting.starts import default_likelihood
from fitting.training import NaturalSteps
from gpbounds.arrays import Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw
from gpbounds.likelihoods import Gaussian, Likelihood, Poisson, StudentT
from gpbounds.linalg import Jitter
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.montecarlo.addressed import Draws
from gpbounds.validation import choice, closed_unit, positive, positive_unit, scalar
from gpbounds.whitening import inducing

ENOUGH = 2**14
"""Rows by which the start of q is chosen, if there are more; they are equally far apart."""

LOSSES = (*OBJECTIVES, "pep")


def loss_of(likelihood: Likelihood, objective: str, power: float) -> ExpectedLoss | PowerEP:
    """The loss with this name: one of `fitting.expected.of_likelihood`, or `fitting.expected.PowerEP`.

    >>> loss_of(Gaussian(0.5), "pep", 1.0)
    PowerEP(noise=0.5, power=1.0)
    """
    choice("objective", objective, LOSSES)
    if objective == "pep":
        return PowerEP(only_gaussian(likelihood, objective).noise, scalar(closed_unit, "power", power))
    return of_likelihood(likelihood, objective, power)


@dataclass(frozen=True, eq=False)
class VariationalObjective:
    """J of one data set; made by `variational_objective`.

    Attributes
    ----------
    data : Data
    likelihood : Likelihood
        The start of the likelihood.
    loss : "elbo", "log-loss", "square-loss", "power" or "pep"
    beta : float
        Factor of KL(q‖p).
    power : float
        a, for "power" and "pep".
    weight : float
        Factor of the sum of losses: N/n where n rows estimate the sum over N.
    sampling : Sampling or None
        How the losses of "log-loss" are sampled; None computes them exactly.
    is_quadratic : bool
        Whether `fitting.settling.quadratic_loss` takes the place of the losses.
    settles : bool
        Whether the start of q for counts is moved from the prior towards the minimum.
    """

    data: Data
    likelihood: Likelihood
    loss: str
    beta: float = 1.0
    power: float = 1.0
    weight: float = 1.0
    sampling: Sampling | None = None
    is_quadratic: bool = False
    settles: bool = True

    @property
    def N(self) -> int:
        """Number of data."""
        return self.data.N

    @property
    def held(self) -> tuple[str, ...]:
        """The square loss does not depend on the noise."""
        return ("noise",) if self.loss == "square-loss" else ()

    @property
    def member(self) -> Member:
        """The member of the family whose posterior minimises J, or from whose posterior q starts."""
        return member("pep", power=self.power) if self.loss == "pep" else member("vfe")

    def natural(self, start: Parameters, rate: float | None = None) -> NaturalSteps:
        """Natural-gradient steps for q; by default ρ = 1 where one step reaches the optimum, and 0.1 elsewhere.

        Parameters
        ----------
        start : Parameters
            Its likelihood and its number of inducing inputs count.
        rate : float in (0, 1], optional
            ρ.
        """
        assert start.q is not None
        if self.loss == "square-loss":
            raise ValueError("loss: expected another loss than 'square-loss', whose best q has a closed form")
        conjugate = isinstance(start.likelihood, Gaussian) and self.loss in ("elbo", "pep")
        conjugate = conjugate or self.is_quadratic
        convex = conjugate or (self.loss == "elbo" and not isinstance(start.likelihood, StudentT))
        rho = rate if rate is not None else 1.0 if conjugate and self.weight == 1.0 else 0.1
        return NaturalSteps(start.q.M, self.beta, scalar(positive_unit, "rate", rho), convex)

    def quadratic(self) -> VariationalObjective:
        """J with quadratic losses, for the start of q."""
        return replace(self, is_quadratic=True, sampling=None)

    def complete(self, point: Parameters) -> Parameters:
        """``point``, with the start of q if it has none.

        For a Gaussian likelihood it minimises J of the loss "elbo" (VFE's posterior with the noise βσ²), of the square
        loss (VFE's mean with the noise β, and S = I, D-08), or of power EP if β = 1.  For counts `settled` moves the
        prior towards the minimum, on at most 16 384 rows; for other likelihoods it is the prior.
        """
        if point.q is not None:
            return point
        points = self.data.inputs(point.Z)
        xp, M, data = namespace(points), int(points.shape[0]), self.data.about(point.prior_mean)
        if not isinstance(point.likelihood, Gaussian):
            prior = replace(point, Z=points, q=FactorLaw(xp.zeros((M, 1)), xp.eye(M)))
            if not (self.settles and isinstance(point.likelihood, Poisson)):
                return prior
            rows = np.linspace(0, self.N - 1, min(self.N, ENOUGH)).astype(np.int64)
            return settled(self if self.N <= ENOUGH else self.batch(xp.asarray(rows)), prior)
        square = self.loss == "square-loss"
        noise = self.beta if square else self.beta * point.noise
        posterior = FamilyObjective(self.member, data).posterior(point.kernel, noise, points)
        self.data.space.release()  # steps, above all those of mini-batches, need other memory
        assert isinstance(posterior, InducingPosterior)
        factor = xp.eye(M) if square else posterior.q.factor
        return replace(point, Z=points, q=FactorLaw(posterior.q.mean, factor))

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """J at ``point``: an `fitting.evaluation.Objective`; the next call may overwrite the arrays of the gradient."""
        q, weight, beta = point.q, self.weight, self.beta
        assert q is not None
        loss: Losses = loss_of(point.likelihood, self.loss, self.power)
        if self.is_quadratic:
            loss = quadratic_loss(point.likelihood)
        if self.sampling is not None:
            loss = self.sampling.loss(point.likelihood, 0)

        def outer(total: float, kl: float) -> tuple[float, float, float]:
            return weight * total + beta * kl, weight, beta

        evaluation, jitter = self.about(point.prior_mean).data.sweep(
            point.kernel, point.Z, lambda source: free(source, q, loss, outer, gradient=gradient)
        )
        assert evaluation.total is not None
        return finite_or_refused(replace(evaluation, jitter=jitter, total=weight * evaluation.total))

    def about(self, mean: PriorMean | None) -> VariationalObjective:
        """J with another prior mean; None keeps that of the data."""
        return replace(self, data=self.data.about(mean))

    def batch(self, rows: ArrayLike | Array) -> VariationalObjective:
        """J with N/n times the losses of the n given rows; its mean over random rows is J, with all derivatives."""
        part = self.data.only(rows)
        return replace(self, data=part, weight=self.weight * self.data.N / part.N)

    def standing_for(self, N: int) -> VariationalObjective:
        """J in which the losses of these n rows count N/n times."""
        return replace(self, weight=N / self.data.N)

    def sampled(self, sampling: Sampling, seed: int) -> VariationalObjective:
        """J of "log-loss" whose losses are sampled, with the samples that ``seed`` determines."""
        if self.loss != "log-loss":
            raise ValueError(f"objective: expected 'log-loss' for sampled losses, got {self.loss!r}")
        return replace(self, sampling=replace(sampling, draws=Draws.of(seed)))

    def evaluate(
        self,
        kernel: Kernel,
        likelihood: Likelihood,
        Z: ArrayLike | Array,
        mean: ArrayLike | Array,
        factor: ArrayLike | Array,
        rows: ArrayLike | Array | None = None,
        *,
        gradient: bool = True,
    ) -> Evaluation:
        """−J, with its derivatives in the log hyperparameters, the likelihood's log parameters, Z, w and C.

        Parameters
        ----------
        kernel : Kernel
        likelihood : Likelihood
        Z : array (M, D), NumPy or CuPy as X is
        mean : array (M,) or (M, 1)
            w, of v = L⁻¹u, L Lᵀ = Kuu + jitter·I; its derivative has shape (M, 1).
        factor : array (M, M)
            C, lower triangular with a positive diagonal.
        rows : array (n,) of int, optional
            The sum is estimated from these rows only, as in `batch`.
        gradient : bool
            False computes the value only.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments, or where J is not finite.
        NotPositiveDefinite
            when Kuu does not factorise with any admitted jitter.
        """
        problem = self if rows is None else self.batch(rows)
        points = self.data.inputs(Z)
        q = law(mean, factor, int(points.shape[0]))
        return -problem.minimised(Parameters(kernel, likelihood, points, q), gradient=gradient)

    def packing(self, start: Parameters, **options: Any) -> Packing:
        """The conversion between points and vectors, for training that starts at ``start``, completed.

        ``options`` are those of `fitting.parameters.packing`: learn_Z, fixed, limits, scale.
        """
        fixed = tuple(dict.fromkeys((*options.pop("fixed", ()), *self.held)))
        return packing_of(self.complete(start), fixed=fixed, **options)

    def posterior(self, point: Parameters) -> InducingPosterior:
        """The law of f minus the prior mean at ``point``; its noise is that of a Gaussian likelihood, or 0."""
        assert point.q is not None
        noise = point.noise if isinstance(point.likelihood, Gaussian) else 0.0
        with one_blas_thread():
            points = inducing(point.kernel, self.data.inputs(point.Z), self.data.jitter)
        return InducingPosterior(points, noise, point.q, self.data.single)


def variational_objective(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    likelihood: str | Likelihood = "gaussian",
    objective: str = "elbo",
    *,
    beta: float = 1.0,
    power: float = 1.0,
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> VariationalObjective:
    """J of variational inference and of direct loss minimisation, for one output.

    Claims D-01 … D-09 (Wei et al., DLM, §§1, 2, 5).

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy
        All computations run on the device of X, in float64.
    y : array (N,) or (N, 1)
        Real numbers; labels in {0, 1} or {−1, 1}; counts.
    likelihood : Likelihood, or "gaussian", "probit", "logit", "poisson", "poisson-softplus" or "student-t"
        A name stands for parameters at the scale of y.  It decides which y are admitted; each point has its own.
    objective : "elbo", "log-loss", "square-loss", "power" or "pep"
        The loss: a row of the table in `fitting.expected`, or `fitting.expected.PowerEP`.
    beta : float
        β > 0.
    power : float in [0, 1]
        a, for "power" and "pep".
    jitter, chunk, keep : as in `fitting.family.objective`

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, and for y that the likelihood does not admit.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> X, Z, kernel = np.linspace(0.0, 6.0, 50), np.array([[1.0], [3.0], [5.0]]), SquaredExponential()
    >>> J = variational_objective(X, np.sin(X) > 0.0, "probit")
    >>> start = J.complete(Parameters(kernel, J.likelihood, Z))
    >>> round(J.evaluate(kernel, J.likelihood, Z, start.q.mean, start.q.factor).value, 6)  # q is the prior
    -50.0
    """
    data = family.objective(X, y, "vfe", jitter=jitter, chunk=chunk, keep=keep).data
    if data.Y.shape[1] != 1:
        raise ValueError(f"y: expected one target for each row of X, shape (N,) or (N, 1), got {data.Y.shape}")
    chosen = default_likelihood(likelihood, data.Y)
    loss_of(chosen, objective, power)
    chosen.log_density(data.Y, 0.0)  # a likelihood may refuse targets
    return VariationalObjective(
        data, chosen, objective, scalar(positive, "beta", beta), scalar(closed_unit, "power", power)
    )
