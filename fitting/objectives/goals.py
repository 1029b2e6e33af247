"""The numbers that training minimises: functions of the evidence, or of expected losses and KL(q‖p).

| goal             | minimised                                                            |
|------------------|----------------------------------------------------------------------|
| `Evidence`       | −log p(y), or the objective of a member of the family in its place   |
| `ExpectedLosses` | J = (N/n) Σ ℓ(y_i, m_i, s_i) + β·KL(q‖p): ELBO, direct losses        |
| `Target`         | the PAC-Bayes bound B on the Gibbs risk                              |

Another goal of losses is another subclass of `LossGoal`, with two methods: its losses, and its value as a function of
their sum and of KL(q‖p).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fitting.objectives.collapsed import Member, member
from fitting.objectives.free import Losses
from fitting.objectives.losses import (
    OBJECTIVES,
    ExpectedLoss,
    PowerEP,
    Sampling,
    WeightedLosses,
    of_likelihood,
    of_loss,
    only_gaussian,
)
from fitting.objectives.narrowed import NarrowedLosses, narrowable
from fitting.objectives.passes import AtLosses
from fitting.objectives.point import Evaluation, Parameters, finite_or_refused
from fitting.training import NaturalSteps
from gpbounds.arrays import Array
from gpbounds.errors import shown
from gpbounds.likelihoods import Gaussian, Likelihood, StudentT
from gpbounds.losses import Loss
from gpbounds.montecarlo.addressed import Draws
from gpbounds.pacbayes import bound
from gpbounds.validation import choice, closed_unit, count, non_negative, positive, positive_unit, scalar

if TYPE_CHECKING:
    from fitting.objectives.objective import Objective

LOSSES = (*OBJECTIVES, "pep")
Relaxation = Literal["kl", "pinsker"]
RELAXATIONS = ("kl", "pinsker")
LEAST = float(np.finfo(np.float64).smallest_subnormal)


class Goal(ABC):
    """A number that training minimises; see the module."""

    held: tuple[str, ...] = ()
    """Names of the parameters on which the goal does not depend at a free q."""

    @property
    def temper(self) -> float:
        """The factor t such that the collapsed posterior has the noise t·σ² where observations have σ²."""
        return 1.0

    def of_rows(self, rows: Any) -> Goal:
        """The same goal for some of its rows."""
        return self

    @abstractmethod
    def value(self, problem: Objective, point: Parameters, *, gradient: bool) -> Evaluation:
        """The number for the rows and the law of ``problem``, whose data have the prior mean of ``point``."""


@dataclass(frozen=True)
class Evidence(Goal):
    """−F, F the evidence of the law: log p(y), or the objective of a member of the family.

    With β ≠ 1, for VFE, it is the β-ELBO of a Gaussian likelihood at its optimal q:

        −min_q J = β log N(y; 0, Q + βσ²I) + ½βN log 2πβσ² − tr(K − Q)/(2σ²) − ½N log 2πσ²
                 = β F(βσ²) + ½βN log 2πβσ² − ½N log 2πσ²,    J = Σ −E log N(y_i; f_i, σ²) + β·KL(q‖p),

    F(s) the objective of VFE at the noise s, whose posterior at s = βσ² is the optimal q.  Observations have the noise
    σ².  For P outputs N is replaced by NP.  For β ≠ 1 this is no bound on log p(y) (D-01).

    Attributes
    ----------
    beta : float
        β > 0.
    """

    beta: float = 1.0

    @property
    def temper(self) -> float:
        return self.beta

    def value(self, problem: Objective, point: Parameters, *, gradient: bool) -> Evaluation:
        beta, weight, data = self.beta, problem.weight, problem.data
        tempered = point if beta == 1.0 else replace(point, likelihood=Gaussian(beta * point.noise))
        F = problem.law.evidence(data, tempered, gradient=gradient)
        F = finite_or_refused(F if weight == 1.0 else F.times(weight))
        if beta == 1.0:
            return -F
        F = F.times(beta)
        half, log_noise = 0.5 * weight * data.N * data.P, math.log(2.0 * math.pi * point.noise)
        F = replace(F, value=F.value + half * (beta * (log_noise + math.log(beta)) - log_noise))
        if F.gradient is None:
            return -F
        slope = F.gradient.likelihood + np.array([half * (beta - 1.0)])
        return -replace(F, gradient=replace(F.gradient, likelihood=slope))


class LossGoal(Goal):
    """A function of the sum of expected losses and of KL(q‖p)."""

    member: Member = member("vfe")
    """The member of the family from whose posterior a free q starts."""
    settles: bool = False
    """Whether the start of q for counts is moved from the prior towards the minimum."""
    ignores_variance: bool = False
    """Whether the losses ignore the variance of f, so that the best covariance of q is that of the prior."""

    @abstractmethod
    def losses(self, likelihood: Likelihood) -> Losses:
        """The losses of rows."""

    @abstractmethod
    def price(self, total: float, kl: float, *, weight: float) -> tuple[float, float, float]:
        """The value, and its derivatives in the sum of the losses of the rows, which count ``weight`` times, and KL."""

    def start_noise(self, noise: float) -> float:
        """The noise with which `member` gives the start of q."""
        return noise

    def value(self, problem: Objective, point: Parameters, *, gradient: bool) -> Evaluation:
        at = AtLosses(self, point.likelihood, problem.weight)
        evaluation = problem.law.with_losses(problem.data, point, at, gradient=gradient)
        assert evaluation.total is not None
        return finite_or_refused(replace(evaluation, total=problem.weight * evaluation.total))


@dataclass(frozen=True)
class ExpectedLosses(LossGoal):
    """J = (N/n) Σ ℓ(y_i, m_i, s_i) + β·KL(q‖p), with the losses of `fitting.objectives.losses`.

    Attributes
    ----------
    likelihood : Likelihood
        The start of the likelihood.
    loss : "elbo", "log-loss", "square-loss", "power" or "pep"
    beta : float
        Factor of KL(q‖p).
    power : float
        a, for "power" and "pep".
    sampling : Sampling or None
        How the losses of "log-loss" are sampled; None computes them exactly.
    settles : bool
        As for `LossGoal`.
    weights : array (N,) or None
        Factors of the losses of the rows, on their device; None is 1.  No q then has a closed form.
    structure : "diagonal" or None
        "diagonal", for "elbo": the losses of `fitting.objectives.narrowed.NarrowedLosses`, without ``weights``.
    """

    likelihood: Likelihood
    loss: str = "elbo"
    beta: float = 1.0
    power: float = 1.0
    sampling: Sampling | None = None
    settles: bool = True
    weights: Array | None = field(default=None, compare=False)
    structure: str | None = None

    @property
    def held(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("noise",) if self.loss == "square-loss" else ()

    def of_rows(self, rows: Any) -> ExpectedLosses:
        return self if self.weights is None else replace(self, weights=self.weights[rows])

    @property
    def member(self) -> Member:  # type: ignore[override]
        """The member of the family whose posterior minimises J, or from whose posterior q starts."""
        return member("pep", power=self.power) if self.loss == "pep" else member("vfe", structure=self.structure)

    @property
    def ignores_variance(self) -> bool:  # type: ignore[override]
        return self.loss == "square-loss"

    def start_noise(self, noise: float) -> float:
        """βσ², with which VFE's posterior minimises the β-ELBO, or β for the mean of the square loss (D-08)."""
        return self.beta if self.loss == "square-loss" else self.beta * noise

    def losses(self, likelihood: Likelihood) -> Losses:
        if self.sampling is not None:
            return self.sampling.loss(likelihood, 0)
        if self.structure is not None:
            return NarrowedLosses(narrowable(likelihood))
        if self.weights is not None:
            return WeightedLosses(likelihood, self.loss, self.power, self.weights)
        return loss_of(likelihood, self.loss, self.power)

    def price(self, total: float, kl: float, *, weight: float) -> tuple[float, float, float]:
        return weight * total + self.beta * kl, weight, self.beta

    def sampled(self, sampling: Sampling, seed: int) -> ExpectedLosses:
        """ "log-loss" whose losses are sampled, with the samples that ``seed`` determines."""
        if self.loss != "log-loss":
            raise ValueError(f"objective: expected 'log-loss' for sampled losses, got {self.loss!r}")
        return replace(self, sampling=replace(sampling, draws=Draws.of(seed)))

    def natural(self, start: Parameters, rate: float | None, *, weight: float) -> NaturalSteps:
        """Natural-gradient steps for q: see `fitting.objectives.objective.Objective.natural`."""
        assert start.q is not None
        if self.loss == "square-loss":
            raise ValueError("loss: expected another loss than 'square-loss', whose best q has a closed form")
        conjugate = isinstance(start.likelihood, Gaussian) and self.loss in ("elbo", "pep")
        convex = conjugate or (self.loss == "elbo" and not isinstance(start.likelihood, StudentT))
        rho = rate if rate is not None else 1.0 if conjugate and weight == 1.0 else 0.1
        return NaturalSteps(start.q.M, self.beta, scalar(positive_unit, "rate", rho), convex)


def loss_of(likelihood: Likelihood, objective: str, power: float) -> ExpectedLoss | PowerEP:
    """The loss with this name: one of `of_likelihood` of `fitting.objectives.losses`, or its `PowerEP`.

    >>> loss_of(Gaussian(0.5), "pep", 1.0)
    PowerEP(noise=0.5, power=1.0)
    """
    choice("objective", objective, LOSSES)
    if objective == "pep":
        return PowerEP(only_gaussian(likelihood, objective).noise, scalar(closed_unit, "power", power))
    return of_likelihood(likelihood, objective, power)


@dataclass(frozen=True)
class Terms:
    """Risk, KL and bound of one evaluation.

    Attributes
    ----------
    risk : float
        R_S(Q), the mean over the data of the expected losses.
    kl : float
        KL(Q‖P) in nats.
    bound : float
        B.
    jitter : float
        The number that was added to the diagonal of Kuu, in Q and in P.
    """

    risk: float
    kl: float
    bound: float
    jitter: float = 0.0


@dataclass(frozen=True)
class Target(LossGoal):
    """B for N data, a loss and a confidence: an upper bound on the true Gibbs risk with probability ≥ 1 − δ.

    B = kl⁻¹(R_S, (KL + ln(1/p_θ) + ln(ξ(N)/δ))/N), or B_Pin = R_S + √((KL + ln(1/p_θ) + ln(2√N/δ))/(2N)).

    Claims P-08, P-11, P-14 (Reeb et al., PAC-GP, Eqs. 5, 14).  Hypotheses: those of `gpbounds.pacbayes.bound`.  While
    hyperparameters vary continuously, B is a training objective and no certificate: P-44 rounds them first.

    Parameters
    ----------
    loss : Loss
    N : int
    delta : float in (0, 1]
    log_prior_penalty : float >= 0
        ln(1/p_θ).
    relaxation : "kl" or "pinsker"
        Which of the two is minimised: B, or Pinsker's bound B_Pin ≥ B.

    Raises
    ------
    ValueError
        for wrong arguments.

    >>> from gpbounds.losses import Band
    >>> B, in_total, in_kl = Target(Band(0.6), 404, delta=0.01)(0.093 * 404, 42.0)
    >>> round(B, 6), round(404 * in_total, 6), round(404 * in_kl, 6)
    (0.297313, 1.449364, 1.02254)
    """

    loss: Loss
    N: int
    _: KW_ONLY
    delta: float
    log_prior_penalty: float = 0.0
    relaxation: Relaxation = "kl"

    held = ("noise",)
    member = member("fitc")

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise ValueError(f"loss: expected one of gpbounds.losses, Band(0.6) for example, got {shown(self.loss)}")
        count("N", self.N)
        choice("relaxation", self.relaxation, RELAXATIONS)
        object.__setattr__(self, "delta", scalar(positive, "delta", self.delta))
        object.__setattr__(self, "log_prior_penalty", scalar(non_negative, "log_prior_penalty", self.log_prior_penalty))
        bound(0.5, 0.0, self.N, delta=self.delta)  # refuses δ > 1

    def losses(self, likelihood: Likelihood) -> ExpectedLoss:
        """The expected losses, which do not depend on the likelihood."""
        return of_loss(self.loss)

    def price(self, total: float, kl: float, *, weight: float = 1.0) -> tuple[float, float, float]:
        B, in_total, in_kl = self(weight * total, kl)
        return B, weight * in_total, in_kl

    def __call__(self, total: float, kl: float) -> tuple[float, float, float]:
        """(B, ∂B/∂total, ∂B/∂KL), total = N·R_S the sum of the expected losses: a `fitting.objectives.point.Price`.

        ∂_q kl⁻¹ grows like ln(1/q) as q → 0.  If all losses are 0 in double precision, it is evaluated at the smallest
        positive double; its product with the derivatives of the losses, which are 0 as well, is then 0.
        """
        risk, kl = min(total / self.N, 1.0), max(kl, 0.0)  # outside the range by rounding only
        B = partial(
            bound,
            N=self.N,
            delta=self.delta,
            log_prior_penalty=self.log_prior_penalty,
            form="printed" if self.relaxation == "pinsker" else "sharpest",
            relaxation=self.relaxation,
        )
        _, in_risk, in_kl = B(max(risk, LEAST), kl, gradient=True)
        return float(B(risk, kl)), float(in_risk) / self.N, float(in_kl)

    def terms(self, evaluation: Evaluation) -> Terms:
        """R_S, KL and B of an evaluation whose value is B."""
        assert evaluation.total is not None
        assert evaluation.kl is not None
        # outside the range by rounding only
        return Terms(min(evaluation.total / self.N, 1.0), max(evaluation.kl, 0.0), evaluation.value, evaluation.jitter)
