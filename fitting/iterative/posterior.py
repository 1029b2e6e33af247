"""The exact GP's predictions at large N: certified solves for the mean and the variances, or one factor for many."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.posterior import Posterior
from gpbounds.arrays import Array, Float, as_points, host, namespace
from gpbounds.errors import NotPositiveDefinite
from gpbounds.exact import factor_of
from gpbounds.iterative.solves import COLUMNS, Solver, factor_pays, fast_solver
from gpbounds.kernels import Kernel
from gpbounds.linalg.parallel import one_blas_thread
from gpbounds.once import cached_property
from gpbounds.small_variances import Given, difference_error, upper_ends
from gpbounds.texts import in_one_line
from gpbounds.whitening import CHUNK, slices

MEANS = 1e-3
"""Largest error of a predicted mean, in standard deviations of the noise, that the solve for the mean aims at."""
SPREADS = 1e-2
"""Largest relative error of a predicted standard deviation; it is never too small."""


@dataclass(frozen=True, eq=False)
class FactoredPosterior(Posterior):
    """The exact GP from weights (N, P), approximately (K + σ²I)⁻¹Y, and rows with a factor of K + σ²I."""

    kernel: Kernel
    noise: float
    single: bool
    given: Given
    weights: Array

    __repr__ = in_one_line

    @property
    def dim(self) -> int:
        return int(self.given.X.shape[1])

    @property
    def module(self) -> Any:
        return namespace(self.given.X)

    def _law(self, X: Array, labels: Any, full: bool) -> tuple[Array, Array]:
        cross = self.kernel(X, self.given.X)
        return cross @ self.weights, self.given.covariance(X, cross, full=full)


@dataclass(frozen=True, eq=False)
class IterativePosterior(Posterior):
    """The exact GP: mean K_*f(K + σ²I)⁻¹Y, covariance K_** − K_*f(K + σ²I)⁻¹K_f* (R-gp), by conjugate gradients.

    A solve v ≈ (K + σ²I)⁻¹b with residual r has bᵀ(K + σ²I)⁻¹b − vᵀ(b + r) ∈ [0, |r|²/σ²], for any v.  Variances are
    therefore never below the true ones.  Cost of n variances: some 10 to 40 products of K with n columns.

    Attributes
    ----------
    kernel, noise, single : as in `Posterior`
    X : array (N, D)
        Inputs of the data.
    weights : array (N, P)
        Approximately (K + σ²I)⁻¹Y.
    mean_error : float
        |R|/σ for the residual R of the weights: the predicted mean at x differs from the exact one by at most
        mean_error·√k(x, x).
    """

    kernel: Kernel
    noise: float
    single: bool
    X: Array
    weights: Array
    mean_error: float

    __repr__ = in_one_line

    @property
    def dim(self) -> int:
        return int(self.X.shape[1])

    @property
    def module(self) -> Any:
        return namespace(self.X)

    @cached_property
    def _solver(self) -> tuple[Solver, Array]:
        """The solver, and the numbers of the rows in its order."""
        known = fast_solver(self.kernel, self.X, noise=self.noise)
        return known, namespace(self.X).asarray(known.order)

    @cached_property
    def _factored(self) -> FactoredPosterior:
        """The same with a factor of K + σ²I."""
        given = Given(self.kernel, self.X, self.noise, factor_of(self.kernel, self.X, noise=self.noise))
        return FactoredPosterior(self.kernel, self.noise, self.single, given, self.weights)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_solver", "_factored")}

    def mean(self, X: ArrayLike | Array, *, blocks: ArrayLike | Array | None = None, chunk: int = CHUNK) -> Array:
        points = as_points(X, "X", self.dim).astype(np.float64, copy=False)
        self._labels(blocks, points.shape[0])
        step = max(1, min(chunk, COLUMNS // int(self.X.shape[0])))
        parts = [self.kernel(points[rows], self.X) @ self.weights for rows in slices(points.shape[0], step)]
        means = namespace(points).concatenate(parts)
        return means[:, 0] if self.single else means

    def predict(self, X: ArrayLike | Array, **options: Any) -> tuple[Array, Array]:
        N, points = int(self.X.shape[0]), as_points(X, "X", self.dim)
        options.setdefault("chunk", max(1, COLUMNS // N))
        if self.module is np and factor_pays(N, int(points.shape[0])):
            with suppress(NotPositiveDefinite):  # conjugate gradients need no factor of all of K + σ²I
                return self._factored.predict(points, **options)
        return super().predict(points, **options)

    def _law(self, X: Array, labels: Any, full: bool) -> tuple[Array, Array]:
        cross = self.kernel(X, self.X)
        mean, prior = cross @ self.weights, self.kernel.diag(X)
        known, order = self._solver
        B = namespace(X).ascontiguousarray(cross.T[order])

        def variances(V: Array, R: Array) -> Array:
            return prior - (V * (B + R)).sum(axis=0)

        def allowed(V: Array, R: Array, errors: Float) -> Float:
            least = host(variances(V, R)) - errors  # at most the true variances
            limits = np.where(least > 0.0, 2.0 * SPREADS * least, 1e-8 * errors)
            return np.maximum(limits, 1e-14 * host(prior))

        with one_blas_thread():
            V, R, _ = known.solve(B, allowed)
        if full:
            spread = self.kernel(X) - V.T @ (B + R)
            return mean, upper_ends(spread, self._rounding(V, prior), 0.0 * spread, prior)
        return mean, upper_ends(variances(V, R), self._rounding(V, prior), 0.0 * prior, prior)

    def _rounding(self, V: Array, prior: Array) -> Array:
        """The rounding of k(x, x) − 2vᵀk + vᵀ(K + σ²I)v, which is an upper end of the variance for any v."""
        xp = namespace(V)
        sizes = xp.abs(V).sum(axis=0)
        terms = prior + self.kernel.largest_variance(self.X) * (sizes + sizes**2) + self.noise * (V * V).sum(axis=0)
        return 2.0 * difference_error(int(self.X.shape[0]), terms)


def iterative_posterior(kernel: Kernel, X: Array, Y: Array, *, noise: float, single: bool) -> IterativePosterior:
    """The posterior given X (N, D), Y (N, P), in any order of the rows.

    >>> from gpbounds.kernels import SquaredExponential
    >>> from gpbounds.exact import exact
    >>> X, Y, kernel = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [0.5], [-0.5]]), SquaredExponential()
    >>> fast = iterative_posterior(kernel, X, Y, noise=0.1, single=True)
    >>> new = np.array([[0.5]])
    >>> (mean, variance), (exactly, spread) = fast.predict(new), exact(kernel, X, Y, noise=0.1).predict(new)
    >>> bool(np.allclose(mean, exactly[:, 0]) and np.allclose(variance, spread))
    True
    """
    xp = namespace(X)
    with one_blas_thread():
        known = fast_solver(kernel, X, noise=noise)
        order = xp.asarray(known.order)

        def allowed(V: Array, R: Array, errors: Float) -> Float:
            return np.full(errors.shape, MEANS**2 * noise / kernel.largest_variance(X))

        V, _, errors = known.solve(Y[order], allowed)
    weights = xp.empty_like(V)
    weights[order] = V
    return IterativePosterior(kernel, noise, single, X, weights, math.sqrt(float(errors.max())))
