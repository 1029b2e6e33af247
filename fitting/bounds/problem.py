"""−B as a function of (kernel, noise, Z), where Q is the posterior that the data give: full, FITC, VFE or between."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from fitting import family
from fitting.bounds import full
from fitting.bounds.sourced import Sourced
from fitting.bounds.target import KEEP, Goal, Target, Terms
from fitting.diagonal import Diagonal
from fitting.family import Member, Objective, checked
from fitting.functional import Law, Loss, Outer, collapsed
from fitting.inner import Evaluation, Gradient
from fitting.members import one_number
from fitting.posterior import Posterior
from gpbounds.arrays import Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.linalg.lanes import suited
from gpbounds.losses import Loss as BoundedLoss
from gpbounds.validation import choice, positive
from gpbounds.whitening import CHUNK, with_jitter

METHODS = ("fitc", "vfe", "pep", "exact")


@dataclass(frozen=True, eq=False)
class RiskBound(Sourced):
    """−B of one posterior and one data set, as a function of (kernel, noise, Z); made by `risk_bound`.

    It takes the place of a `fitting.family.Objective` wherever one is trained: what is larger is better.

    Attributes
    ----------
    source : Objective
        The member of the family whose posterior Q is.
    target : Target
        Loss, N, δ, ln(1/p_θ) and which bound.
    """

    @property
    def member(self) -> Member:
        """Of the family."""
        return self.source.member

    def evaluate(
        self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None, *, gradient: bool = True
    ) -> Evaluation:
        """−B at (kernel, noise, Z), with its derivatives in log hyperparameters, log noise and Z.

        Parameters
        ----------
        kernel : Kernel
        noise : float
            σ², in squared units of y; it shapes Q and is no part of the loss.
        Z : array (M, D), NumPy or CuPy as X is
            Inducing inputs; they do not enter where Q is the full posterior, and may be None there.
        gradient : bool
            False for the value alone.

        Raises
        ------
        ValueError, NonFinite
            for wrong arguments.
        NotPositiveDefinite
            when Kuu does not factorise with the jitter allowed.
        """
        return self._evaluated(kernel, noise, Z, gradient)[1]

    def terms(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> Terms:
        """R_S, KL, B and the jitter at (kernel, noise, Z); arguments and errors as in `evaluate`."""
        return self._evaluated(kernel, noise, Z, False)[0]

    def posterior(self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None = None) -> Posterior:
        """Q at (kernel, noise, Z); arguments and errors as in `evaluate`."""
        return self.source.posterior(kernel, noise, Z)

    def _evaluated(
        self, kernel: Kernel, noise: float, Z: ArrayLike | Array | None, gradient: bool
    ) -> tuple[Terms, Evaluation]:
        s2, widest = one_number("noise", positive("noise", noise)), 0 if Z is None else len(Z)  # type: ignore[arg-type]
        work = self.N * (self.N if self.member.is_evidence else widest) ** 2
        with np.errstate(over="ignore", invalid="ignore"), suited(work):
            found = self._full if self.member.is_evidence else self._sparse
            terms, evaluation = found(kernel, s2, Z, gradient)
            return terms, checked(evaluation)

    def _full(self, kernel: Kernel, s2: float, Z: ArrayLike | Array | None, gradient: bool) -> tuple[Terms, Evaluation]:
        terms, g = full.evaluate(kernel, self.X, self.Y, s2, self.target, gradient=gradient, space=self.space)
        if g is None:
            return terms, Evaluation(-terms.bound, None, terms.jitter)
        still = None if Z is None else namespace(self.X).zeros(np.shape(Z))
        return terms, Evaluation(-terms.bound, Gradient(-g.kernel, -g.noise, still), terms.jitter)

    def _sparse(
        self, kernel: Kernel, s2: float, Z: ArrayLike | Array | None, gradient: bool
    ) -> tuple[Terms, Evaluation]:
        room = Diagonal(self.member.power, s2, kept=self.member.structure != "none")
        loss, outer = expected(self.target.loss, self.Y), Negative(self.target)

        def attempt(amount: float) -> Evaluation:
            relative = amount / kernel.max_variance if self.source.jitter == "auto" else 0.0
            source = self.source.stream(kernel, Z, amount)
            return collapsed(room, source, self.Y, loss, outer, gradient=gradient, relative_jitter=relative)

        evaluation = with_jitter(attempt, kernel, self.source.jitter)
        return outer.terms(evaluation.jitter), evaluation


class Negative:
    """(Σ losses, q(v)) ↦ −B and its derivatives; remembers what the last evaluation says."""

    last: Terms

    def __init__(self, target: Target) -> None:
        self.target = target

    def __call__(self, total: float, law: Law) -> Outer:
        kl, in_mean, in_covariance = law.kl()
        B, in_total, in_kl = self.target.value_and_slopes(total, kl)
        self.last = self.target.terms(total, kl, B)
        return Outer(-B, -in_total, -in_kl * in_mean, -in_kl * in_covariance)

    def terms(self, jitter: float) -> Terms:
        """Of the last evaluation."""
        return replace(self.last, jitter=jitter)


def expected(loss: BoundedLoss, Y: Array) -> Loss:
    """The expected losses of targets Y (N, 1) under N(m, s), with their derivatives, as `fitting.functional` asks."""
    y = Y[:, 0]

    def found(rows: slice, means: Array, variances: Array) -> tuple[float, Array, Array]:
        given = y[rows], means[:, 0], variances
        in_mean, in_variance = loss.gradient(*given)
        return float(loss.expectation(*given).sum()), in_mean[:, None], in_variance

    return found


def one_output(problem: Objective, loss: BoundedLoss) -> Objective:
    """``problem``, refused where its targets are not one column or make no sense for ``loss``."""
    if problem.Y.shape[1] != 1:
        raise ValueError(f"y: expected one target for each row of X, shape (N,) or (N, 1), got {problem.Y.shape}")
    loss.value(problem.Y, problem.Y)  # a loss may refuse targets
    return problem


def risk_bound(
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    loss: BoundedLoss,
    *,
    delta: float,
    method: str | Member = "fitc",
    power: float | None = None,
    log_prior_penalty: float = 0.0,
    objective: Goal = "kl",
    jitter: Jitter = "auto",
    chunk: int = CHUNK,
    keep: int = KEEP,
) -> RiskBound:
    """The PAC-Bayes bound on the Gibbs risk of a posterior Q of GP regression, ready for training.

    B(θ, σ², Z) of `Target` with R_S(Q) = (1/N) Σ E ℓ(y_i, v), v ~ N(m_i, s_i) the *latent* prediction at x_i (without
    σ²), and KL(Q‖P) of the inducing variables (P-26), or of f at the data where Q is the full posterior (P-22).

    Claims P-01, P-08, P-14, P-26, P-27, P-49 (Reeb et al., PAC-GP, Eqs. 5, 9–11, 14).  Q may be any law, so that σ², Z
    and a cost nothing; θ costs ln(1/p_θ).  A jitter belongs to the prior and to Q alike (P-29).

    Parameters
    ----------
    X : array (N, D), NumPy or CuPy
    y : array (N,) or (N, 1)
    loss : gpbounds.losses.Loss
    delta : float in (0, 1]
    method : "fitc", "vfe", "pep", "exact", or a Member that keeps K − Q on its diagonal or is the exact GP
        Q: sparse with power a = 1, 0 or ``power`` (P-27), or the full posterior.
    power : float in [0, 1]
        a, for "pep".
    log_prior_penalty : float >= 0
        ln(1/p_θ).
    objective : "kl" or "pinsker"
    jitter, chunk : as in `fitting.family.objective`
    keep : int
        Bytes of Kuf, V and SV kept between the passes; beyond it they are computed again.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.losses import Band
    >>> X = np.linspace(0.0, 6.0, 200)
    >>> B = risk_bound(X, np.sin(X), Band(0.5), delta=0.01)
    >>> found = B.terms(SquaredExponential(), 0.1, np.linspace(0.0, 6.0, 6))
    >>> round(found.risk, 4), round(found.kl, 3), round(found.bound, 4)
    (0.0033, 13.642, 0.1141)
    """
    if isinstance(method, str):
        choice("method", method, METHODS)
    source = family.objective(X, y, method, power=power, jitter=jitter, chunk=chunk, keep=keep)
    if not (source.member.is_diagonal or source.member.is_evidence):
        raise ValueError(f"method: expected K - Q kept on its diagonal, or the exact GP, got {source.member}")
    target = Target(loss, source.N, delta, log_prior_penalty, objective)
    return RiskBound(one_output(source, loss), target)
