"""A Gaussian prior of the inducing variables that was trained on rows disjoint from those that a certificate covers.

A certificate's prior may be any law of f that does not depend on its rows: kernel, Z, jitter and the law of u are then
numbers that define P, and none of them costs anything.  P is stated in the coordinates of the GP
prior: u = Lv, L Lᵀ = Kuu + jitter·I, v ~ N(mean, factor·factorᵀ), f given u as under the GP prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitting.posterior import BlockPosterior, ExactPosterior, InducingPosterior, Posterior
from gpbounds.arrays import Float, host
from gpbounds.divergences.errors import Rounding
from gpbounds.divergences.measured import measured
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.law import gram_law
from gpbounds.linalg import AUTO_LADDER
from gpbounds.linalg.pivoted import pivoted
from gpbounds.pacbayes import HyperGrid
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.whitening import Inducing, inducing, residual_diagonal

MOST = 1500
"""Rows up to which the exact posterior is a prior: its record holds two triangles of as many rows."""

LEFT = (1e-4, 1e-2)
"""Shares of the largest variance of f: less of it left at a certified row is not worth an inducing input."""

STEADY = 1e-6
"""Largest relative change of Kuu + jitter·I by rounding, in the basis of its factor."""


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
        Added to the diagonal of Kuu; part of P, whose law of f depends on it.
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

    @classmethod
    def at(cls, kernel: Kernel, Z: Float, mean: Float, factor: Float, least: float) -> PriorLaw:
        """P with v ~ N(mean, factor·factorᵀ) at Z (M, D), and the jitter of `_steady_jitter`, at least ``least``."""
        points = np.array(Z, dtype=np.float64)
        numbers = np.array(mean, dtype=np.float64), np.tril(np.array(factor, dtype=np.float64))
        return cls(kernel, points, *numbers, _steady_jitter(kernel, points, least))

    @classmethod
    def of(cls, posterior: Posterior, kernel: Kernel) -> PriorLaw:
        """The law of u of a ``posterior`` at ``kernel``; that of an exact GP is stated at the rows of its data.

        For an exact GP P(v) = N(Sb/σ², S), S = (I + ΦΦᵀ/σ²)⁻¹, Φ = L⁻¹k(X₁, X₁), b = Φy₁, at the rows Z = X₁ of its
        data alone.  This law of f depends on Z through the jitter, so that certified rows are only added by `extended`.

        Raises
        ------
        ValueError
            for posteriors that are not the GP prior with another law of u; for an exact one of more than 1500 rows.
        """
        if not isinstance(posterior, ExactPosterior):
            law: Any = require_law(posterior)
            return cls.at(kernel, host(law.inducing.Z), host(law.q.mean)[:, 0], host(law.q.factor), law.jitter)
        X, Y, noise = host(posterior.X), host(posterior.exact.Y), float(posterior.noise)
        if len(X) > MOST:
            raise ValueError(
                f"model: expected at most {MOST} rows of training for the prior of an exact GP, got {len(X)}: a "
                "certificate holds two triangles of as many rows. Use SparseGP, whose law needs M inducing inputs only"
            )
        jitter = _steady_jitter(kernel, X)
        V = inducing(kernel, X, jitter).whiten(X)
        q = gram_law(V @ V.T / noise, V @ Y / noise)
        return cls(kernel, X, q.mean[:, 0], q.factor, jitter)


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


def _steady_jitter(kernel: Kernel, Z: Float, least: float = 0.0) -> float:
    """A jitter with which rounding hardly changes the law of f: P depends on it, so no certified row may choose it.

    The first of ``least`` and the steps of the ladder 1e-12 … 1e-6, times the largest variance at Z, for which the
    factor of Kuu + jitter·I is proved to be right to within `STEADY` (`gpbounds.divergences.errors`); the last step if
    there is none.  It is a function of kernel and Z alone.

    >>> from gpbounds import SquaredExponential
    >>> _steady_jitter(SquaredExponential(), np.array([[0.0], [9.0]]))
    0.0
    >>> _steady_jitter(SquaredExponential(), np.linspace(0.0, 1.0, 30)[:, None]) > 1e-10
    True
    """
    error = value_error(kernel, np.abs(Z).max(axis=0))
    steps = [step * kernel.largest_variance(Z) for step in AUTO_LADDER]
    for amount in (least, *(step for step in steps if step > least)):
        try:
            points = measured(inducing(kernel, Z, amount), error)
        except NotPositiveDefinite:
            continue
        if Rounding.of(points, error).F <= STEADY:
            return amount
    return max(least, steps[-1])


def extended(prior: PriorLaw, X: Float) -> PriorLaw:
    """P with rows of X (n, D) among its inducing inputs, for a Q that reaches what the old ones do not determine.

    The law of f stays the same, whatever X is: given the old inducing variables the new ones have their law under the
    GP prior, which is N(0, I) of the new coordinates, independent of the old ones (N-data-prior).  So certified rows
    may choose them.  They are taken greedily, by the variance of f that is left, down to `LEFT` of the largest; the
    result is ``prior`` itself if rounding would be more than `STEADY` with its jitter.
    """
    V = prior.inducing.whiten(X)
    left = prior.kernel(X) - V.T @ V
    diagonal = residual_diagonal(prior.kernel.diag(X), V)
    largest = prior.kernel.largest_variance(X)
    found = pivoted(lambda picked, columns: left[picked][:, columns], diagonal, len(X))
    for share in LEFT:
        new = np.sort(found.indices[found.variances >= share * largest])
        Z, n = np.concatenate([prior.Z, X[new]]), len(new)
        error = value_error(prior.kernel, np.abs(Z).max(axis=0))
        try:
            points = measured(inducing(prior.kernel, Z, prior.jitter), error)
        except NotPositiveDefinite:
            continue
        if Rounding.of(points, error).F <= STEADY:
            factor = np.eye(len(Z))
            factor[: -n or None, : -n or None] = prior.factor
            return PriorLaw(prior.kernel, Z, np.append(prior.mean, np.zeros(n)), factor, prior.jitter)
    return prior
