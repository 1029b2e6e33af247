"""A Gaussian prior of the inducing variables that was trained on rows disjoint from those that a certificate covers.

A certificate's prior may be any law of f that does not depend on its rows: kernel, Z, noise and the law of u are then
numbers that define P, and none of them costs anything (B(θ) has no grid).  P is stated in the coordinates of the GP
prior: u = Lv, L Lᵀ = Kuu + jitter·I, v ~ N(mean, factor·factorᵀ), f given u as under the GP prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitting.posterior import BlockPosterior, ExactPosterior, InducingPosterior, Posterior
from gpbounds.arrays import Float, host
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.law import gram_law
from gpbounds.linalg.residuals import least_sound_jitter
from gpbounds.pacbayes import HyperGrid
from gpbounds.pacbayes.certificate import priors
from gpbounds.whitening import Inducing, inducing, residual_diagonal

MOST = 1500
"""Rows up to which the exact posterior is a prior: its record holds two triangles of all rows."""


@dataclass(frozen=True, eq=False)
class PriorLaw:
    """P: u = Lv at inducing inputs Z, v ~ N(mean, factor·factorᵀ), and f given u as under GP(0, kernel).

    Attributes
    ----------
    kernel : Kernel
    Z : array (M, D)
    mean : array (M,)
    factor : array (M, M)
        Lower triangular with a positive diagonal.
    jitter : float
        Added to the diagonal of Kuu; part of the law of u.
    """

    kernel: Kernel
    Z: Float
    mean: Float
    factor: Float
    jitter: float

    @cached_property
    def inducing(self) -> Inducing:
        """Z, and L; NotPositiveDefinite if Kuu + jitter·I does not factorise."""
        return inducing(self.kernel, self.Z, self.jitter)

    def features(self, X: Float) -> tuple[Float, Float, Float]:
        """The prior mean of f (n,), φ (n, M) and K − Q (n,) at X (n, D).

        With v = mean + factor·z, f(x) = mean(x) + φ(x)ᵀz + what u does not determine: φ = factorᵀL⁻¹k(Z, x).

        >>> from gpbounds import SquaredExponential
        >>> P = PriorLaw(SquaredExponential(), np.array([[0.0]]), np.array([2.0]), np.array([[0.5]]), 0.0)
        >>> P.features(np.array([[0.0]]))
        (array([2.]), array([[0.5]]), array([0.]))
        """
        V = self.inducing.whiten(X)
        return V.T @ self.mean, V.T @ self.factor, residual_diagonal(self.kernel.diag(X), V)


Priors = Callable[[float], PriorLaw]
"""jitter on Kuu ↦ P.  Every jitter gives a valid prior; of a larger one rounding is known better."""


def one_point(kernel: Kernel) -> tuple[HyperGrid, Kernel]:
    """The grid of one point at the hyperparameters of ``kernel``, and the kernel at this point, units of rounding away.

    >>> from gpbounds import SquaredExponential
    >>> grid, kernel = one_point(SquaredExponential(0.7, 0.3))
    >>> grid.size, kernel.variance, kernel.lengthscale
    (1, 0.7, 0.3)
    """
    named = priors.hyperparameters(kernel)
    logs = [math.log(value) for value in named.values()]
    grid = HyperGrid(logs, logs, [0] * len(logs), tuple(named))
    return grid, priors.with_hyperparameters(kernel, grid.at([0] * grid.T))


def priors_of(kernel: Kernel, posterior: Posterior, others: Float) -> tuple[Priors, float]:
    """The law of u of a ``posterior`` at ``kernel``, as a function of the jitter; and the least jitter to try.

    A sparse posterior keeps its inducing inputs and its law of v.  The exact one is stated at all rows, those of its
    data and ``others`` (n, D), the rows of the certificate: between them nothing is left that an update could not
    reach.

    Raises
    ------
    ValueError
        for posteriors that are not the GP prior with another law of u; for an exact one of more than 1500 rows.
    """
    as_kernel(kernel)
    if isinstance(posterior, ExactPosterior):
        return _of_exact(kernel, posterior, others)
    law: Any = require_law(posterior)
    return of_law(kernel, host(law.inducing.Z), host(law.q.mean)[:, 0], host(law.q.factor), law.jitter)


def require_law(posterior: Posterior) -> Posterior:
    """Refuse a posterior that is not the GP prior with another law of u."""
    inducing_law = isinstance(posterior, InducingPosterior) and not isinstance(posterior, BlockPosterior)
    if not (inducing_law or isinstance(posterior, ExactPosterior)):
        raise ValueError(
            f"model: expected one whose posterior is the GP prior with another law of inducing variables, got a "
            f"{type(posterior).__name__}: PIC predicts with the rows of a block, LowRankGP has features in place of a "
            "kernel, and an ExactGP that iterates holds no factor. Use SparseGP, or method='held-out', which takes any "
            "model"
        )
    return posterior


def of_law(kernel: Kernel, Z: Float, mean: Float, factor: Float, least: float) -> tuple[Priors, float]:
    """`priors_of` for v ~ N(mean, factor·factorᵀ) at Z (M, D), the same numbers for every jitter ≥ ``least``."""
    as_kernel(kernel)
    Z, mean, factor = (np.array(each, dtype=np.float64) for each in (Z, mean, factor))
    sound = max(least, least_sound_jitter(kernel(Z)))
    return lambda jitter: PriorLaw(kernel, Z, mean, np.tril(factor), jitter), sound


def _of_exact(kernel: Kernel, posterior: ExactPosterior, others: Float) -> tuple[Priors, float]:
    """P(v) = N(Sb/σ², S), S = (I + ΦΦᵀ/σ²)⁻¹, Φ = L⁻¹k(Z, X₁), b = Φy₁, Z the rows X₁ and then the others."""
    X, Y, noise = host(posterior.X), host(posterior.exact.Y), float(posterior.noise)
    if len(X) + len(others) > MOST:
        raise ValueError(
            f"model: expected at most {MOST} rows for the prior of an exact GP, {len(X)} of training and "
            f"{len(others)} of the certificate, got {len(X) + len(others)}: a certificate holds two triangles of as "
            "many rows. Use SparseGP, whose law needs M inducing inputs only"
        )
    Z = np.concatenate([X, others])

    def at(jitter: float) -> PriorLaw:
        points = inducing(kernel, Z, jitter)
        V = points.whiten(X)
        law = gram_law(V @ V.T / noise, V @ Y / noise)
        return PriorLaw(kernel, Z, law.mean[:, 0], law.factor, jitter)

    return at, least_sound_jitter(kernel(Z))
