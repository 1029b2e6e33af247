"""−B as a function of (kernel, Z, μ, C): the inducing variables' law q(v) = N(μ, CCᵀ) is free, u = Lv."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting import family, functional
from fitting.bounds.free_packing import FreePacking, FreeParameters, free_packing, law
from fitting.bounds.problem import Negative, expected, one_output
from fitting.bounds.sourced import Sourced
from fitting.bounds.target import KEEP, Goal, Target, Terms
from fitting.functional import FreeEvaluation, Law, Outer
from fitting.members import Member
from fitting.posterior import InducingPosterior
from gpbounds.arrays import Array, as_points, namespace
from gpbounds.errors import NonFinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter, cholesky
from gpbounds.linalg.lanes import suited
from gpbounds.linalg.triangular import inverse
from gpbounds.losses import Loss
from gpbounds.whitening import CHUNK, with_jitter


@dataclass(frozen=True, eq=False)
class FreeBound(Sourced):
    """−B of one data set, as a function of (kernel, Z, μ, C); made by `free_bound`.

    Attributes
    ----------
    source : fitting.family.Objective
        Data, jitter, chunks and memory; its member is where `start` takes Q from.
    target : Target
        Loss, N, δ, ln(1/p_θ) and which bound.
    """

    def evaluate(
        self,
        kernel: Kernel,
        Z: ArrayLike | Array,
        mean: ArrayLike | Array,
        factor: ArrayLike | Array,
        rows: ArrayLike | Array | None = None,
    ) -> FreeEvaluation:
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
            R_S is estimated by the mean over these rows, drawn at random and not by the model (P-46).  The value is
            then no bound, and, as B is concave in R_S (P-04), on average larger than −B.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        NotPositiveDefinite
            when Kuu does not factorise with the jitter allowed.
        """
        return self._evaluated(kernel, Z, mean, factor, rows)[1]

    def terms(self, kernel: Kernel, Z: ArrayLike | Array, mean: ArrayLike | Array, factor: ArrayLike | Array) -> Terms:
        """R_S over all data, KL, B and the jitter; arguments and errors as in `evaluate`."""
        return self._evaluated(kernel, Z, mean, factor, None)[0]

    def packing(
        self,
        kernel: Kernel,
        Z: ArrayLike | Array,
        mean: ArrayLike | Array | None = None,
        factor: ArrayLike | Array | None = None,
        **options: Any,
    ) -> FreePacking:
        """How (kernel, Z, μ, C) becomes a vector, with the loss to be minimised; the arguments are the start.

        Q = P, μ = 0 and C = I, where they are left out.  ``options`` are those of `fitting.parameters.packing`:
        learn_Z, fixed, limits, scale.
        """
        return free_packing(self.evaluate, kernel, as_points(Z, "Z", self.X.shape[1]), mean, factor, **options)

    def start(self, kernel: Kernel, noise: float, Z: ArrayLike | Array) -> FreeParameters:
        """FITC's Q at (kernel, noise, Z), from which B can only become smaller."""
        found = self.source.posterior(kernel, noise, Z)
        assert isinstance(found, InducingPosterior)
        C = cholesky(inverse(found.state.chol.L), name="S").L
        return FreeParameters(kernel, found.inducing.Z, found.state.mean[:, 0], C)

    def _evaluated(
        self,
        kernel: Kernel,
        Z: ArrayLike | Array,
        mean: ArrayLike | Array,
        factor: ArrayLike | Array,
        rows: ArrayLike | Array | None,
    ) -> tuple[Terms, FreeEvaluation]:
        problem = self.source if rows is None else _restricted(self.source, rows)
        M = as_points(Z, "Z", problem.X.shape[1]).shape[0]
        mu, C = law(mean, factor, M)
        outer = Scaled(self.target, self.N / problem.N)
        loss = expected(self.target.loss, problem.Y)

        def attempt(amount: float) -> FreeEvaluation:
            relative = amount / kernel.max_variance if problem.jitter == "auto" else 0.0
            source = problem.stream(kernel, Z, amount)
            return functional.free(source, mu, C, loss, outer, relative_jitter=relative)

        with np.errstate(over="ignore", invalid="ignore"), suited(problem.N * M**2):
            found = _finite(with_jitter(attempt, kernel, problem.jitter))
        return outer.terms(found.jitter), found


class Scaled(Negative):
    """`Negative` of ``factor`` times the sum of some losses."""

    def __init__(self, target: Target, factor: float) -> None:
        super().__init__(target)
        self.factor = factor

    def __call__(self, total: float, law: Law) -> Outer:
        found = super().__call__(self.factor * total, law)
        return replace(found, total=self.factor * found.total)


def _restricted(problem: family.Objective, rows: ArrayLike | Array) -> family.Objective:
    xp = namespace(problem.X)
    chosen = xp.asarray(rows)
    if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
        raise ValueError(f"rows: expected whole numbers, shape (n,), got shape {chosen.shape}, {chosen.dtype}")
    if int(chosen.min()) < 0 or int(chosen.max()) >= problem.N:
        raise ValueError(f"rows: expected numbers in 0 ... {problem.N - 1}, got {chosen.min()} to {chosen.max()}")
    return replace(problem, X=problem.X[chosen], Y=problem.Y[chosen])


def _finite(found: FreeEvaluation) -> FreeEvaluation:
    """``found``, refused where its value or a derivative is not finite."""
    sums = [found.value, *(float(part.sum()) for part in (found.kernel, found.Z, found.mean, found.factor))]
    if not np.isfinite(sums).all():
        raise NonFinite(
            f"bound: expected a finite value and derivatives, got {found.value}. Usual causes: targets or a mean of a "
            "size whose square overflows, or a variance of 0 where the loss jumps. Rescale y, or start elsewhere."
        )
    return found


def free_bound(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    loss: Loss,
    *,
    delta: float,
    log_prior_penalty: float = 0.0,
    objective: Goal = "kl",
    jitter: Jitter = "auto",
    chunk: int = CHUNK,
    keep: int = KEEP,
) -> FreeBound:
    """The PAC-Bayes bound on the Gibbs risk of a sparse GP whose law of the inducing variables is free.

    Q: u = Lv, v ~ N(μ, CCᵀ), f given u as under the prior; KL(Q‖P) = ½[tr CCᵀ − M − log|CCᵀ| + |μ|²].

    Claims P-25, P-26, P-49 (Reeb et al., PAC-GP, Eqs. 9, 10).  Parameters and errors as in
    `fitting.bounds.problem.risk_bound`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.losses import Band
    >>> X, Z = np.linspace(0.0, 6.0, 200), np.linspace(0.0, 6.0, 6)
    >>> B = free_bound(X, np.sin(X), Band(0.5), delta=0.01)
    >>> here = B.start(SquaredExponential(), 0.1, Z)
    >>> round(B.terms(here.kernel, here.Z, here.mean, here.factor).bound, 4)
    0.1141
    """
    source = family.objective(X, y, Member("diagonal", 1.0), jitter=jitter, chunk=chunk, keep=keep)
    return FreeBound(one_output(source, loss), Target(loss, source.N, delta, log_prior_penalty, objective))
