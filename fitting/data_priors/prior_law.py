"""A Gaussian prior of the inducing variables that was trained on rows disjoint from those that a certificate covers.

A certificate's prior may be any law of f that does not depend on its rows: kernel, Z, noise and the law of u are then
numbers that define P, and none of them costs anything (B(θ) has no grid).  P is stated in the coordinates of the GP
prior: u = Lv, L Lᵀ = Kuu + jitter·I, v ~ N(mean, factor·factorᵀ), f given u as under the GP prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.posterior import BlockPosterior, ExactPosterior, InducingPosterior, Posterior, RowNoisePosterior
from gpbounds.arrays import Float, host
from gpbounds.divergences.measured import measured
from gpbounds.divergences.sparse import whitened_at
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.law import gram_law
from gpbounds.linalg import AUTO_LADDER, cholesky
from gpbounds.linalg.residuals import least_sound_jitter
from gpbounds.once import cached_property
from gpbounds.pacbayes import HyperGrid
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.values import value_error
from gpbounds.whitening import Inducing, inducing, residual_diagonal

BLUR, COARSE = 1e-4, 1e-2
"""Total variation by rounding up to which a jitter is accepted, and up to which the least blurred one is."""

OPEN = (1e-7, 1e-4, 1e-2)
"""Shares of the variance that must be left open at certified inputs for these to be inducing inputs, in turn."""

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


def priors_of(kernel: Kernel, posterior: Posterior, others: Float) -> tuple[PriorLaw, ...]:
    """The law of f of a ``posterior`` at ``kernel``, in one or several sets of inducing variables, the largest first.

    A sparse posterior keeps its inducing inputs and its law of v.  The exact one given rows X₁ is u₁ = f(X₁) (plus the
    jitter's noise) with its law, and f given u₁ as under the GP prior.  ``others`` (n, D), the certified rows, or some
    of them, may follow: v₂ ~ N(0, I) of their u₂ is that same law of f, as u₂ given u₁ is that of the GP prior, for any
    choice of these rows.  Without them an update could not reach what X₁ leaves open.

    The jitter is chosen by kernel, Z and law alone: another one is another P, which must not depend on certified rows.

    Raises
    ------
    ValueError
        for posteriors that are not the GP prior with another law of u; for an exact one of more than 1500 rows.
    """
    as_kernel(kernel)
    given = _exact(posterior)
    if given is not None:
        return _of_exact(kernel, *given, others)
    law: Any = require_law(posterior)
    return (of_law(kernel, host(law.inducing.Z), host(law.q.mean)[:, 0], host(law.q.factor), law.jitter),)


def require_law(posterior: Posterior) -> Posterior:
    """Refuse a posterior that is not the GP prior with another law of u."""
    inducing_law = isinstance(posterior, InducingPosterior) and not isinstance(posterior, BlockPosterior)
    if not (inducing_law or _exact(posterior) is not None):
        raise ValueError(
            f"model: expected one whose posterior is the GP prior with another law of inducing variables, got a "
            f"{type(posterior).__name__}: PIC predicts with the rows of a block, LowRankGP has features in place of a "
            "kernel, and an ExactGP that iterates holds no factor. Use SparseGP, or method='held-out', which takes any "
            "model"
        )
    return posterior


def of_law(kernel: Kernel, Z: Float, mean: Float, factor: Float, least: float) -> PriorLaw:
    """v ~ N(mean, factor·factorᵀ) at Z (M, D), with a jitter of at least ``least``."""
    as_kernel(kernel)
    Z, mean, factor = (np.array(each, dtype=np.float64) for each in (Z, mean, factor))
    return _settled(lambda jitter: PriorLaw(kernel, Z, mean, np.tril(factor), jitter), kernel, Z, least)


def _settled(at: Callable[[float], PriorLaw], kernel: Kernel, Z: Float, least: float) -> PriorLaw:
    """The law with the least jitter of a ladder at which rounding in doubles blurs predictions at Z little.

    The blur is a bound on the mean total variation between computed and true predictions; it sees P alone.  Where every
    jitter leaves much, the least that factorises changes P least: certificates then compute in 30 digits, if they can.
    """
    error = value_error(kernel, np.abs(Z).max(axis=0))
    sound = max(least, least_sound_jitter(kernel(Z)))
    first: PriorLaw | None = None
    best, smallest = first, math.inf
    for jitter in [sound, *(step * kernel.max_variance for step in AUTO_LADDER if step * kernel.max_variance > sound)]:
        try:
            law = at(jitter)
            q = whitened_at(measured(law.inducing, error), law.mean, law.factor, None, error).predict(Z)
        except NotPositiveDefinite:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            blur = 0.4 * q.mean_error / np.sqrt(q.variance) + 0.5 * q.variance_error / q.variance
        size = float(np.where(blur <= 1.0, blur, 1.0).mean())
        first = first or law
        if size < smallest:
            best, smallest = law, size
        if size <= BLUR:
            break
    if first is None:
        raise NotPositiveDefinite(
            "Kuu: expected a covariance that factorises with a jitter of 1e-6 variances, got none"
        )
    return best if best is not None and smallest <= COARSE else first


def _exact(posterior: Posterior) -> tuple[Float, Float, Any] | None:
    """X (N, D), Y (N, P) and noise, one number or (N,), of an exact posterior that holds a factor; None of others."""
    if isinstance(posterior, ExactPosterior):
        return host(posterior.X), host(posterior.exact.Y), float(posterior.noise)
    if isinstance(posterior, RowNoisePosterior) and isinstance(posterior.unit, ExactPosterior):
        X, Y = host(posterior.unit.X), host(posterior.unit.exact.Y)
        return np.ascontiguousarray(X[:, :-1]), Y / X[:, -1:], posterior.noise
    return None


def _of_exact(kernel: Kernel, X: Float, Y: Float, noise: Any, others: Float) -> tuple[PriorLaw, ...]:
    """P(v₁) = N(Sb, S), S = (I + ΦΣ⁻¹Φᵀ)⁻¹, Φ = L₁⁻¹K₁₁, b = ΦΣ⁻¹y₁, Σ the diagonal of the noise; v₂ ~ N(0, I) for more
    or fewer of the others."""
    if len(X) + len(others) > MOST:
        raise ValueError(
            f"model: expected at most {MOST} rows for the prior of an exact GP, {len(X)} of training and "
            f"{len(others)} of the certificate, got {len(X) + len(others)}: a certificate holds two triangles of as "
            "many rows. Use SparseGP, whose law needs M inducing inputs only"
        )

    def at(jitter: float) -> PriorLaw:
        V = inducing(kernel, X, jitter).whiten(X)
        if np.ndim(noise):
            W = V / np.sqrt(noise)
            law = gram_law(W @ W.T, (V / noise) @ Y)
        else:
            law = gram_law(V @ V.T / noise, V @ Y / noise)
        return PriorLaw(kernel, X, law.mean[:, 0], law.factor, jitter)

    own = _settled(at, kernel, X, 0.0)
    laws: list[PriorLaw] = []
    for share in OPEN if len(others) else ():
        extended = _extended(own, others[_left_open(own, others) >= share * kernel.max_variance])
        if not laws or len(extended.Z) < len(laws[-1].Z):
            laws.append(extended)
    return (*laws, own)


def _left_open(law: PriorLaw, others: Float) -> Float:
    """The variance of f under the GP prior at each of the ``others``, given Z and those before it."""
    K = law.kernel(np.concatenate([law.Z, others]))
    added = max(law.jitter, AUTO_LADDER[-1] * 1e-3 * law.kernel.max_variance)
    return np.diagonal(cholesky(K, added, name="K").L)[len(law.Z) :] ** 2 - added


def _extended(law: PriorLaw, others: Float) -> PriorLaw:
    """The same law of f with further inducing inputs: u there given u as under the GP prior."""
    M, n = len(law.Z), len(others)
    factor = np.eye(M + n)
    factor[:M, :M] = law.factor
    return replace(law, Z=np.concatenate([law.Z, others]), mean=np.append(law.mean, np.zeros(n)), factor=factor)
