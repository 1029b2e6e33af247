"""The PAC-Bayes bound B as a function of (kernel, Z, q), with a free law q(v) = N(μ, CCᵀ) of the inducing variables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from fitting import family
from fitting.bounds.problem import one_output
from fitting.bounds.target import Relaxation, Target, Terms, kept
from fitting.data import Data
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.expected import of_loss
from fitting.family import FamilyObjective, at_point
from fitting.functional import free
from fitting.members import Member
from fitting.parameters import Packing, law, packing
from fitting.posterior import InducingPosterior
from gpbounds.arrays import Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw
from gpbounds.linalg import Jitter
from gpbounds.losses import Loss


@dataclass(frozen=True, eq=False)
class FreeBound:
    """B of one data set, as a function of (kernel, Z, μ, C); made by `free_bound`.

    Attributes
    ----------
    source : FamilyObjective
        The data, and the member of the family from which `start` takes Q.
    target : Target
        Loss, N, δ, ln(1/p_θ) and the relaxation.
    """

    source: FamilyObjective
    target: Target

    @property
    def data(self) -> Data:
        """The rows."""
        return self.source.data

    @property
    def N(self) -> int:
        """Number of data."""
        return self.source.N

    held = ("noise",)

    def complete(self, point: Parameters) -> Parameters:
        """``point``, with the q of FITC if it has none."""
        return point if point.q is not None else self.start(point.kernel, point.noise, point.Z)

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """B at ``point``: an `fitting.evaluation.Objective`."""
        q, loss, share = point.q, of_loss(self.target.loss), self.target.N / self.data.N
        assert q is not None

        def goal(total: float, kl: float) -> tuple[float, float, float]:
            B, in_total, in_kl = self.target(share * total, kl)
            return B, share * in_total, in_kl

        evaluation, jitter = self.data.sweep(
            point.kernel, point.Z, lambda source: free(source, q, loss, goal, gradient=gradient)
        )
        assert evaluation.total is not None
        return finite_or_refused(replace(evaluation, jitter=jitter, total=share * evaluation.total))

    def batch(self, rows: ArrayLike | Array) -> FreeBound:
        """B with R_S estimated by the mean over ``rows``, which are drawn at random, independently of the model (P-46).

        Its value is no bound: since B is concave in R_S (P-04), it is smaller than B on average.
        """
        return replace(self, source=replace(self.source, data=self.data.only(rows)))

    def evaluate(
        self,
        kernel: Kernel,
        Z: ArrayLike | Array,
        mean: ArrayLike | Array,
        factor: ArrayLike | Array,
        rows: ArrayLike | Array | None = None,
        *,
        gradient: bool = True,
    ) -> Evaluation:
        """−B at (kernel, Z, μ, C), with its derivatives in log hyperparameters, Z, μ and C.

        Parameters
        ----------
        kernel : Kernel
        Z : array (M, D), NumPy or CuPy as X is
        mean : array (M,) or (M, 1)
            μ, of v = L⁻¹u, L Lᵀ = Kuu + jitter·I; its derivative has shape (M, 1).
        factor : array (M, M)
            C, lower triangular with a positive diagonal.
        rows : array (n,) of int, optional
            R_S is estimated from these rows only, as in `batch`.
        gradient : bool
            False computes the value only.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        NotPositiveDefinite
            when Kuu does not factorise with any admitted jitter.
        """
        problem, point = self if rows is None else self.batch(rows), self._point(kernel, Z, mean, factor)
        return -problem.minimised(point, gradient=gradient)

    def terms(self, kernel: Kernel, Z: ArrayLike | Array, mean: ArrayLike | Array, factor: ArrayLike | Array) -> Terms:
        """R_S over all data, KL, B and the jitter; arguments and errors as in `evaluate`."""
        return self.terms_at(self._point(kernel, Z, mean, factor))

    def terms_at(self, point: Parameters) -> Terms:
        """As `terms`, at a point."""
        return self.target.terms(self.minimised(point, gradient=False))

    def packing(
        self,
        kernel: Kernel,
        Z: ArrayLike | Array,
        mean: ArrayLike | Array | None = None,
        factor: ArrayLike | Array | None = None,
        **options: Any,
    ) -> Packing:
        """The conversion between (kernel, Z, μ, C) and vectors, for training that starts there; by default at Q = P.

        ``options`` are those of `fitting.parameters.packing`: learn_Z, fixed, limits, scale.
        """
        points = self.data.inputs(Z)
        xp, M = namespace(points), int(points.shape[0])
        mu, C = xp.zeros(M) if mean is None else mean, xp.eye(M) if factor is None else factor
        fixed = (*options.pop("fixed", ()), "noise")
        return packing(kernel, 1.0, points, mean=mu, factor=C, fixed=fixed, **options)

    def start(self, kernel: Kernel, noise: float, Z: ArrayLike | Array) -> Parameters:
        """The Q of FITC at (kernel, noise, Z), as the start of training."""
        posterior = self.source.posterior(kernel, noise, Z)
        assert isinstance(posterior, InducingPosterior)
        return replace(at_point(kernel, noise, posterior.inducing.Z), q=FactorLaw(posterior.q.mean, posterior.q.factor))

    def _point(self, kernel: Kernel, Z: Any, mean: Any, factor: Any) -> Parameters:
        points = self.data.inputs(Z)
        return replace(at_point(kernel, 1.0, points), q=law(mean, factor, int(points.shape[0])))


def free_bound(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    loss: Loss,
    *,
    delta: float,
    log_prior_penalty: float = 0.0,
    relaxation: Relaxation = "kl",
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> FreeBound:
    """The PAC-Bayes bound on the Gibbs risk of a sparse GP whose law of the inducing variables is free.

    Q: u = Lv, v ~ N(μ, CCᵀ), f given u as under the prior; KL(Q‖P) = ½[tr CCᵀ − M − log|CCᵀ| + |μ|²].

    Claims P-25, P-26, P-49 (Reeb et al., PAC-GP, Eqs. 9, 10).  Parameters and errors as in
    `fitting.bounds.problem.risk_bound`.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.losses import Band
    >>> X, Z = np.linspace(0.0, 6.0, 200), np.linspace(0.0, 6.0, 6)
    >>> B = free_bound(X, np.sin(X), Band(0.5), delta=0.01)
    >>> round(B.terms_at(B.start(SquaredExponential(), 0.1, Z)).bound, 4)
    0.1141
    """
    source = family.objective(X, y, Member("diagonal", 1.0), jitter=jitter, chunk=chunk, keep=kept(X, keep))
    target = Target(loss, source.data.N, delta=delta, log_prior_penalty=log_prior_penalty, relaxation=relaxation)
    return FreeBound(one_output(source, loss), target)
