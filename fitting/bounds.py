"""PAC-Bayes bounds as training objectives: B of Theorem 1 as a function of hyperparameters, noise, Z and free q(u)."""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike

from fitting.objectives import objective
from fitting.objectives.goals import Relaxation, Target, Terms
from fitting.objectives.laws import FreeLaw, ModelLaw
from fitting.objectives.objective import Member, Objective
from fitting.rows.data import Data, Dataset
from gpbounds.arrays import Array, is_cupy, namespace
from gpbounds.linalg import Jitter
from gpbounds.linalg.workspace import Workspace
from gpbounds.losses import Loss
from gpbounds.validation import choice

__all__ = ["Target", "Terms", "free_bound", "risk_bound"]

METHODS = ("fitc", "vfe", "pep", "exact")
KEEP = 3 * 2**27
"""Default number of bytes of Kuf, V and SV kept between the passes on a CPU: all of them at N = 32 000, M = 500."""


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
) -> Objective:
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
    jitter, chunk : as in `fitting.objectives.objective.objective`
    keep : int, optional
        Bytes of Kuf, V and SV that are kept between the passes; further rows are computed again.  None: 3·2²⁷ on a CPU,
        and half of the free memory of a GPU.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.

    >>> import numpy as np
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
    source = objective.objective(X, y, method, power=power, jitter=jitter, chunk=chunk, keep=_kept(X, keep))
    if not (source.member.is_diagonal or source.member.is_evidence):
        raise ValueError(f"method: expected K - Q kept on its diagonal, or the exact GP, got {source.member}")
    target = Target(loss, source.N, delta=delta, log_prior_penalty=log_prior_penalty, relaxation=relaxation)
    return bound_of(source.data, source.law, target)


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
) -> Objective:
    """The PAC-Bayes bound on the Gibbs risk of a sparse GP whose law of the inducing variables is free.

    Q: u = Lv, v ~ N(μ, CCᵀ), f given u as under the prior; KL(Q‖P) = ½[tr CCᵀ − M − log|CCᵀ| + |μ|²].

    Claims P-25, P-26, P-49 (Reeb et al., PAC-GP, Eqs. 9, 10).  Parameters and errors as in
    `risk_bound`.

    >>> import numpy as np
    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.losses import Band
    >>> from fitting.objectives.objective import at_point
    >>> X, Z = np.linspace(0.0, 6.0, 200), np.linspace(0.0, 6.0, 6)
    >>> B = free_bound(X, np.sin(X), Band(0.5), delta=0.01)
    >>> round(B.terms_at(B.complete(at_point(SquaredExponential(), 0.1, Z))).bound, 4)
    0.1141
    """
    source = objective.objective(X, y, Member("diagonal", 1.0), jitter=jitter, chunk=chunk, keep=_kept(X, keep))
    target = Target(loss, source.N, delta=delta, log_prior_penalty=log_prior_penalty, relaxation=relaxation)
    return bound_of(source.data, FreeLaw(), target)


def _kept(X: object, keep: int | None) -> int | None:
    """``keep``, or the default on the device of X; None leaves the choice to a GPU's free memory."""
    return KEEP if keep is None and not is_cupy(X) else keep


def with_room(data: Dataset) -> Dataset:
    """``data`` with the default memory of `risk_bound` between passes."""
    if not isinstance(data, Data):
        return data
    return replace(data, space=Workspace.on(namespace(data.X), _kept(data.X, None)))


def bound_of(data: Dataset, law: ModelLaw, target: Target) -> Objective:
    """B; refuses targets that are not one column, and targets for which ``loss`` is not defined."""
    if isinstance(data, Data):
        if data.P != 1:
            raise ValueError(f"y: expected one target for each row of X, shape (N,) or (N, 1), got {data.Y.shape}")
        target.loss.value(data.Y, data.Y)  # a loss may refuse targets
    return Objective(data, law, target)
