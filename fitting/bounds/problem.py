"""The PAC-Bayes bound B as a function of (kernel, noise, Z), where Q is the posterior given the data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fitting import family, full
from fitting.bounds.target import Relaxation, Target, Terms, kept
from fitting.data import Data
from fitting.diagonal import Diagonal
from fitting.evaluation import Evaluation, Parameters, finite_or_refused
from fitting.expected import of_loss
from fitting.family import FamilyObjective, Member, at_point
from fitting.functional import collapsed
from fitting.posterior import Posterior
from gpbounds.arrays import Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.losses import Loss
from gpbounds.validation import choice, positive, scalar

METHODS = ("fitc", "vfe", "pep", "exact")


@dataclass(frozen=True, eq=False)
class RiskBound:
    """B of one posterior and one data set, as a function of (kernel, noise, Z); made by `risk_bound`.

    Attributes
    ----------
    source : FamilyObjective
        The data, and the member of the family whose posterior is Q.
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

    held = ()

    def complete(self, point: Parameters) -> Parameters:
        """``point`` itself."""
        return point

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """B at ``point``: an `fitting.evaluation.Objective`."""
        kernel, Z = point.kernel, point.Z
        noise, member, data = scalar(positive, "noise", point.noise), self.source.member, self.data
        loss = of_loss(self.target.loss)
        if member.is_evidence:
            evaluation = full.evaluate(
                kernel, data.X, data.Y, loss, self.target, noise=noise, gradient=gradient, space=data.space
            )
            if Z is not None and evaluation.gradient is not None:
                zeros = namespace(data.X).zeros(np.shape(Z))
                evaluation = replace(evaluation, gradient=replace(evaluation.gradient, Z=zeros))
            return finite_or_refused(evaluation)
        approximation, trained = Diagonal.at(member, point), point.power is not None
        evaluation, jitter = data.sweep(
            kernel,
            Z,
            lambda source: collapsed(approximation, source, loss, self.target, gradient=gradient, in_power=trained),
        )
        return finite_or_refused(replace(evaluation, jitter=jitter))

    def batch(self, rows: Array) -> RiskBound:
        """Raises an error: Q, its KL and every loss depend on all rows at once."""
        raise ValueError(
            "rows: expected all of them: a subset of rows does not estimate the bound of a posterior given all rows"
        )

    def evaluate(
        self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None, *, gradient: bool = True
    ) -> Evaluation:
        """−B at (kernel, noise, Z), with its derivatives in log hyperparameters, log noise and Z.

        Parameters
        ----------
        kernel : Kernel
        noise : float
            σ², in squared units of y; Q depends on it, the loss does not.
        Z : array (M, D), NumPy or CuPy as X is
            Inducing inputs; may be None where Q is the full posterior, which does not depend on them.
        gradient : bool
            False computes the value only.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        NotPositiveDefinite
            when Kuu does not factorise with any admitted jitter.
        """
        return -self.minimised(at_point(kernel, noise, Z), gradient=gradient)

    def terms(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> Terms:
        """R_S, KL, B and the jitter at (kernel, noise, Z); arguments and errors as in `evaluate`."""
        return self.terms_at(at_point(kernel, noise, Z))

    def terms_at(self, point: Parameters) -> Terms:
        """As `terms`, at a point."""
        return self.target.terms(self.minimised(point, gradient=False))

    def posterior(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> Posterior:
        """Q at (kernel, noise, Z); arguments and errors as in `evaluate`."""
        return self.source.posterior(kernel, noise, Z)


def one_output(problem: FamilyObjective, loss: Loss) -> FamilyObjective:
    """``problem``; refuses targets that are not one column, and targets for which ``loss`` is not defined."""
    Y = problem.data.Y
    if Y.shape[1] != 1:
        raise ValueError(f"y: expected one target for each row of X, shape (N,) or (N, 1), got {Y.shape}")
    loss.value(Y, Y)  # a loss may refuse targets
    return problem


def risk_bound(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    loss: Loss,
    *,
    delta: float,
    method: str | Member = "fitc",
    power: float | None = None,
    log_prior_penalty: float = 0.0,
    relaxation: Relaxation = "kl",
    jitter: Jitter = "auto",
    chunk: int | None = None,
    keep: int | None = None,
) -> RiskBound:
    """The PAC-Bayes bound on the Gibbs risk of a posterior Q of GP regression, as a training objective.

    B(θ, σ², Z) of `Target` with R_S(Q) = (1/N) Σ E ℓ(y_i, v), v ~ N(m_i, s_i) the *latent* prediction at x_i (without
    σ²), and KL(Q‖P) of the inducing variables (P-26), or of f at the data where Q is the full posterior (P-22).

    Claims P-01, P-08, P-14, P-26, P-27, P-49 (Reeb et al., PAC-GP, Eqs. 5, 9–11, 14).  The theorem holds for any
    law Q, so that σ², Z and a cost nothing; θ costs ln(1/p_θ).  A jitter is part of the prior and of Q (P-29).

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy
    y : array (N,) or (N, 1)
    loss : gpbounds.losses.Loss
    delta : float in (0, 1]
    method : "fitc", "vfe", "pep", "exact", or a Member that keeps K − Q on its diagonal or is the exact GP
        Q is sparse with power a = 1, 0 or ``power`` (P-27), or the full posterior.
    power : float >= 0
        a, for "pep".  At a point with a power of its own (`Parameters.power`) this one counts, and B has a derivative
        in it.
    log_prior_penalty : float >= 0
        ln(1/p_θ).
    relaxation : "kl" or "pinsker"
        B is minimised, or Pinsker's bound B_Pin above it, as `Target` says.
    jitter, chunk : as in `fitting.family.objective`
    keep : int, optional
        Bytes of Kuf, V and SV that are kept between the passes; further rows are computed again.  None: 3·2²⁷ on a CPU,
        and half of the free memory of a GPU.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.losses import Band
    >>> X = np.linspace(0.0, 6.0, 200)
    >>> B = risk_bound(X, np.sin(X), Band(0.5), delta=0.01)
    >>> terms = B.terms(SquaredExponential(), 0.1, np.linspace(0.0, 6.0, 6))
    >>> round(terms.risk, 4), round(terms.kl, 3), round(terms.bound, 4)
    (0.0033, 13.642, 0.1141)
    """
    if isinstance(method, str):
        choice("method", method, METHODS)
        if method == "pep" and power is not None:
            method, power = Member("diagonal", power), None
    source = family.objective(X, y, method, power=power, jitter=jitter, chunk=chunk, keep=kept(X, keep))
    if not (source.member.is_diagonal or source.member.is_evidence):
        raise ValueError(f"method: expected K - Q kept on its diagonal, or the exact GP, got {source.member}")
    target = Target(loss, source.data.N, delta=delta, log_prior_penalty=log_prior_penalty, relaxation=relaxation)
    return RiskBound(one_output(source, loss), target)
