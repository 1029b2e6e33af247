"""A point at which an objective is evaluated, and the value and derivatives there, by named blocks.

The blocks are the kernel's hyperparameters, the likelihood's, the inducing inputs and a free law q of the inducing
variables; each model uses some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Protocol

import numpy as np

from fitting.prior_means import PriorMean
from gpbounds.arrays import Array, Float, is_cupy
from gpbounds.errors import NonFinite
from gpbounds.kernels import Kernel
from gpbounds.law import FactorLaw
from gpbounds.likelihoods.base import Likelihood


@dataclass(frozen=True, eq=False)
class Parameters:
    """A point.

    Attributes
    ----------
    kernel : Kernel
    likelihood : Likelihood
        It has parameters of its own: a Gaussian has the noise variance.
    Z : array (M, D) or None
        Inducing inputs.
    q : FactorLaw or None
        The law of the whitened inducing variables, if it is free.
    power : float or None
        The power of K − Q in the posterior, if it is trained.
    prior_mean : PriorMean or None
        The mean function of the prior; None is that of the data, or 0.
    sites : array (2, N) or None
        Where the search for the best q begins (`fitting.objectives.start_of_q`).
    in_covariance : bool
        Whether the derivatives in q are those that natural-gradient steps take: `Gradient.covariance` in place of
        `Gradient.factor`.
    """

    kernel: Kernel
    likelihood: Likelihood
    Z: Array | None = None
    q: FactorLaw | None = None
    power: float | None = None
    prior_mean: PriorMean | None = None
    sites: Array | None = None
    in_covariance: bool = False

    @property
    def noise(self) -> float:
        """σ² of a Gaussian likelihood."""
        return self.likelihood.noise  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of an objective in the blocks of a point; None for a block that the point does not have.

    Attributes
    ----------
    kernel : array (p,)
        Derivatives in the kernel's `log_parameters`.
    likelihood : array (q,)
        Derivatives in the likelihood's `log_parameters`.
    Z : array (M, D) or None
        Derivatives in the inducing inputs.
    mean : array (M, P) or None
        Derivatives in the mean of q(v).
    factor : array (M, M) or None
        Derivatives in the lower triangular factor of the covariance of q(v).
    covariance : array (M, M) or None
        Derivatives of the losses, without those of KL(q‖p), in the covariance of q(v); the lower triangle counts.
    weights : array (p,) or None
        Derivatives in the weights of a feature map.
    power : float or None
        The derivative in the power of K − Q.
    prior_mean : array (q, P) or None
        Derivatives in the coefficients of the prior mean, in host memory.
    checked : bool
        Whether arrays on a GPU are known to be finite.
    """

    kernel: Float
    likelihood: Float
    Z: Array | None = None
    mean: Array | None = None
    factor: Array | None = None
    covariance: Array | None = None
    weights: Float | None = None
    power: float | None = None
    prior_mean: Float | None = None
    checked: bool = False

    @property
    def noise(self) -> float:
        """The derivative in log σ² of a Gaussian likelihood."""
        return float(self.likelihood[0])

    def times(self, factor: float) -> Gradient:
        """Every block multiplied by ``factor``."""
        names = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        names.remove("checked")
        return replace(self, **{name: factor * getattr(self, name) for name in names})


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Value and derivatives of an objective at a point.

    Attributes
    ----------
    value : float
    gradient : Gradient or None
        None if the call said ``gradient=False``.
    jitter : float
        The number that was added to the diagonal of Kuu.
    total, kl : float or None
        Σ losses and KL(q‖p), if the objective is a function of these.
    sites : array (2, N) or None
        Those of the best q, if the objective is a minimum over q.
    """

    value: float
    gradient: Gradient | None
    jitter: float = 0.0
    total: float | None = None
    kl: float | None = None
    sites: Array | None = None

    def times(self, factor: float) -> Evaluation:
        """Value and derivatives multiplied by ``factor``."""
        gradient = None if self.gradient is None else self.gradient.times(factor)
        return replace(self, value=factor * self.value, gradient=gradient)

    def __neg__(self) -> Evaluation:
        return self.times(-1.0)


class Minimised(Protocol):
    """A function of a point that training minimises: an `Objective`, or one of those of `fitting.iterative`.

    Implementations try larger jitters on Kuu themselves.  A point without a value raises `NotPositiveDefinite` or
    `NonFinite`.
    """

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the parameters on which the objective does not depend."""

    def complete(self, point: Parameters) -> Parameters:
        """``point`` with every block that the objective needs; missing blocks are computed from the others."""

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """The value at ``point``, and its derivatives, whose arrays the next call may overwrite."""

    def batch(self, rows: Array) -> Minimised:
        """An estimate of this objective, on the same scale, from some of the rows."""


Price = Callable[[float, float], tuple[float, float, float]]
"""(Σ losses, KL(Q‖P)) ↦ the number that training minimises, and its derivatives in both arguments."""


def finite_or_refused(evaluation: Evaluation) -> Evaluation:
    """``evaluation``; raises `NonFinite` if its value or a derivative is not finite."""
    require_finite("", evaluation.value)
    if (g := evaluation.gradient) is not None:
        require_finite("kernel", float(g.kernel.sum() + g.likelihood.sum()))
        for block in ("Z", "mean", "factor", "covariance", "weights", "prior_mean"):
            part = getattr(g, block)
            if part is not None and not (g.checked and is_cupy(part)):
                require_finite(block, float(part.sum()))
        if g.power is not None:
            require_finite("power", g.power)
    return evaluation


def require_finite(block: str, number: float) -> None:
    """Raise `NonFinite` for the value, ``block`` "", or for the sum of the derivatives in a block of `Gradient`."""
    if np.isfinite(number):
        return
    raise NonFinite(
        f"objective: expected a finite {_WORDS[block]}, got {number}. Usual causes: targets whose squares overflow, a "
        "noise variance that is negligible beside them, or a variance of 0 where the loss jumps. Rescale y, or start "
        "at other hyperparameters."
    )


_WORDS = {
    "": "value",
    "kernel": "derivative in the hyperparameters",
    "Z": "derivative in Z",
    "mean": "derivative in the mean of q",
    "factor": "derivative in the factor of q",
    "covariance": "derivative in the covariance of q",
    "weights": "derivative in the weights of the features",
    "power": "derivative in the power",
    "prior_mean": "derivative in the coefficients of the prior mean",
}
