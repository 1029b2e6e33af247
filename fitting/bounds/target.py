"""The bound B that training minimises, as a function of the sum of the expected losses and of KL(Q‖P)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

import numpy as np

from fitting.evaluation import Evaluation
from gpbounds.arrays import is_cupy
from gpbounds.losses import Loss
from gpbounds.pacbayes import bound
from gpbounds.validation import choice, count, non_negative, positive, scalar

Relaxation = Literal["kl", "pinsker"]
RELAXATIONS = ("kl", "pinsker")
KEEP = 3 * 2**27
"""Default number of bytes of Kuf, V and SV kept between the passes on a CPU: all of them at N = 32 000, M = 500."""


LEAST = float(np.finfo(np.float64).smallest_subnormal)


def kept(X: object, keep: int | None) -> int | None:
    """``keep``, or the default on the device of X; None leaves the choice to a GPU's free memory."""
    return KEEP if keep is None and not is_cupy(X) else keep


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
class Target:
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

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Loss):
            raise ValueError(f"loss: expected one of gpbounds.losses, Band(0.6) for example, got {self.loss!r}")
        count("N", self.N)
        choice("relaxation", self.relaxation, RELAXATIONS)
        object.__setattr__(self, "delta", scalar(positive, "delta", self.delta))
        object.__setattr__(self, "log_prior_penalty", scalar(non_negative, "log_prior_penalty", self.log_prior_penalty))
        bound(0.5, 0.0, self.N, delta=self.delta)  # refuses δ > 1

    def __call__(self, total: float, kl: float) -> tuple[float, float, float]:
        """(B, ∂B/∂total, ∂B/∂KL), total = N·R_S the sum of the expected losses: a `fitting.evaluation.Goal`.

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
