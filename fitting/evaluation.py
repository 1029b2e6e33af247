"""A point at which an objective is evaluated, and what is found there: value and derivatives, by named blocks.

The blocks are the kernel's hyperparameters, the likelihood's, the inducing inputs and a free law q of the inducing
variables; a model has those it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Protocol

import numpy as np

from gpbounds.arrays import Array, Float
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
        With parameters of its own: the noise variance of a Gaussian.
    Z : array (M, D) or None
        Inducing inputs.
    q : FactorLaw or None
        The law of the whitened inducing variables, where it is free.
    """

    kernel: Kernel
    likelihood: Likelihood
    Z: Array | None = None
    q: FactorLaw | None = None

    @property
    def noise(self) -> float:
        """σ² of a Gaussian likelihood."""
        return self.likelihood.noise  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of an objective in the blocks of a point; None for a block that is not there.

    Attributes
    ----------
    kernel : array (p,)
        In the kernel's `log_parameters`.
    likelihood : array (q,)
        In the likelihood's `log_parameters`.
    Z : array (M, D) or None
        In the inducing inputs.
    mean : array (M, P) or None
        In the mean of q(v).
    factor : array (M, M) or None
        In the lower triangular factor of its covariance.
    """

    kernel: Float
    likelihood: Float
    Z: Array | None = None
    mean: Array | None = None
    factor: Array | None = None

    @property
    def noise(self) -> float:
        """In log σ² of a Gaussian likelihood."""
        return float(self.likelihood[0])

    def times(self, factor: float) -> Gradient:
        """Every block multiplied by ``factor``."""
        names = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return replace(self, **{name: factor * getattr(self, name) for name in names})


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What an objective is at a point.

    Attributes
    ----------
    value : float
    gradient : Gradient or None
        None where it was not asked for.
    jitter : float
        What was added to the diagonal of Kuu.
    total, kl : float or None
        Σ losses and KL(q‖p), for a function of these.
    """

    value: float
    gradient: Gradient | None
    jitter: float = 0.0
    total: float | None = None
    kl: float | None = None

    def times(self, factor: float) -> Evaluation:
        """Value and derivatives multiplied by ``factor``."""
        gradient = None if self.gradient is None else self.gradient.times(factor)
        return replace(self, value=factor * self.value, gradient=gradient)

    def __neg__(self) -> Evaluation:
        return self.times(-1.0)


class Objective(Protocol):
    """What training makes small, as a function of a point.

    A jitter on Kuu that has to grow is tried within; a point at which there is no value raises `NotPositiveDefinite`
    or `NonFinite`.
    """

    @property
    def held(self) -> tuple[str, ...]:
        """Names of parameters on which it does not depend."""

    def complete(self, point: Parameters) -> Parameters:
        """``point`` with every block that the objective needs, from the others where it is not there."""

    def minimised(self, point: Parameters, *, gradient: bool = True) -> Evaluation:
        """The value at ``point``, and its derivatives."""

    def batch(self, rows: Array) -> Objective:
        """What stands for this objective, from some rows: the same in size, from less data."""


Goal = Callable[[float, float], tuple[float, float, float]]
"""(Σ losses, KL(Q‖P)) ↦ what training makes small, and its derivatives in both."""


def finite_or_refused(evaluation: Evaluation) -> Evaluation:
    """``found``, refused where its value or a derivative is not finite."""
    numbers = {"value": evaluation.value}
    if (g := evaluation.gradient) is not None:
        numbers["derivative in the hyperparameters"] = float(g.kernel.sum() + g.likelihood.sum())
        numbers |= {
            f"derivative in {block}": float(part.sum())
            for block, part in (("Z", g.Z), ("the mean of q", g.mean), ("the factor of q", g.factor))
            if part is not None
        }
    for name, number in numbers.items():
        if not np.isfinite(number):
            raise NonFinite(
                f"objective: expected a finite {name}, got {number}. Usual causes: targets of a size whose square "
                "overflows, a noise variance that is 0 beside them, or a variance of 0 where the loss jumps. Rescale "
                "y, or start elsewhere."
            )
    return evaluation
