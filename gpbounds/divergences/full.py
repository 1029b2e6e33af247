"""The exact GP posterior: its divergence from the prior and its latent predictions, in the eigenbasis of K."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, as_points, namespace
from gpbounds.divergences.predictions import (
    Prediction,
    PriorMean,
    absolute_error,
    double,
    mean_at,
    rounded_up,
    vector,
)
from gpbounds.kernels import Kernel
from gpbounds.linalg import Eigen, cholesky, eigen
from gpbounds.linalg.matrices import symmetric_matrix
from gpbounds.linalg.products import gram, matmul
from gpbounds.numerics.log1p import log1p_residual
from gpbounds.validation import choice, noise_variance


def posterior_kl(
    K: ArrayLike | Array,
    y_minus_mean: ArrayLike | Array,
    *,
    noise: float,
    method: Literal["eigen", "cholesky"] = "eigen",
) -> float:
    """KL(Q‖P) of the exact GP posterior Q from its prior P, computed from the kernel matrix of the data.

    KL = ½Σ[log(1 + x_i) − x_i/(1 + x_i)] + (1/2σ²) Σ x_i/(1 + x_i)² (e_iᵀr)², x_i = λ_i/σ², r = y − m;
       = ½log|K + σ²I| − (N/2) log σ² − ½tr K(K + σ²I)⁻¹ + ½rᵀ(K + σ²I)⁻¹K(K + σ²I)⁻¹r.

    Claims P-22, P-23 (P-21: points without data contribute nothing); Reeb et al., PAC-GP, Eq. 8 and App. D.  K ⪰ 0
    may be singular, inputs may repeat, and the function adds no jitter.  The eigenvalue form is a sum of positive
    terms, so it is accurate also when the KL is tiny; "cholesky" is several times faster, with an absolute error of
    about N·eps. The KL tends to ∞ as σ → 0, and to 0 as σ → ∞ (P-24).

    Parameters
    ----------
    K : array (N, N)
        Kernel matrix of the data, NumPy or CuPy.
    y_minus_mean : array (N,)
        Targets minus the prior mean.
    noise : float
        σ², in squared units of y.
    method : "eigen" or "cholesky"

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.
    NotPositiveDefinite
        when K has a negative eigenvalue beyond rounding.

    >>> round(posterior_kl([[1.0]], [2.0], noise=1.0), 6)  # ½(log 2 − ½) + ½
    0.596574
    >>> round(posterior_kl([[1.0, 1.0], [1.0, 1.0]], [2.0, 2.0], noise=0.5, method="cholesky"), 6)
    1.684719
    """
    chosen = choice("method", method, ("eigen", "cholesky"))
    matrix, variance = symmetric_matrix("K", K), noise_variance(noise)
    r = vector("y_minus_mean", y_minus_mean, matrix)
    return (
        _by_cholesky(matrix, r, variance)
        if chosen == "cholesky"
        else Spectral(matrix, eigen(matrix, "K", vectors=True), r, variance).kl
    )


def _by_cholesky(K: Array, r: Array, noise: float) -> float:
    xp, N = namespace(K), K.shape[0]
    factor = cholesky(K / noise + xp.eye(N), name="K/σ² + I")
    inverse = factor.solve_lower(xp.eye(N))
    a = factor.solve(r) / noise
    spread = factor.logdet - (N - float((inverse * inverse).sum()))
    return 0.5 * spread + 0.5 * float(a @ (K @ a))


@dataclass(frozen=True, eq=False)
class Spectral:
    """K = U diag(λ) Uᵀ with r = y − m and σ²: these determine the KL and the predictions at the data.

    Rounding is described by a symmetric perturbation E of K, |E| ≤ ``shift``, and by eigenvectors that are orthonormal
    up to ``steps``; both are measured.
    """

    K: Array
    eigen: Eigen
    r: Array
    noise: float
    entry_error: float = 0.0

    @cached_property
    def x(self) -> Array:
        """λ/σ²."""
        return namespace(self.r).asarray(self.eigen.values) / self.noise

    @cached_property
    def basis(self) -> Array:
        """U."""
        assert self.eigen.vectors is not None
        return self.eigen.vectors

    @cached_property
    def rotated(self) -> Array:
        """Uᵀr."""
        return self.basis.T @ self.r

    @property
    def kl(self) -> float:
        """KL(Q‖P), P-23."""
        x = np.asarray(self.eigen.values) / self.noise
        volume = np.where(x < 1.0, log1p_residual(-x / (1.0 + x)), np.log1p(x) - x / (1.0 + x))
        fit = self.x / (1.0 + self.x) * self.rotated**2 / (1.0 + self.x)
        return 0.5 * float(volume.sum()) + 0.5 * float(fit.sum()) / self.noise

    @cached_property
    def steps(self) -> float:
        """(16 + 2N) eps + 2|UᵀU − I|: for eigenvectors that are nearly orthonormal and a product with them."""
        excess = gram(self.basis) - namespace(self.r).eye(self.r.shape[0])
        return (16.0 + 2.0 * self.r.shape[0]) * EPS + 2.0 * float((excess * excess).sum()) ** 0.5

    @cached_property
    def shift(self) -> float:
        """|E|: |K − U diag(λ) Uᵀ| as computed, steps·|K|, and N times the error of a kernel value."""
        values = namespace(self.r).asarray(self.eigen.values)
        left = self.K - matmul(self.basis * values, self.basis.T)
        own = float((left * left).sum()) ** 0.5 + self.steps * float(self.eigen.values[0])
        return own + self.r.shape[0] * self.entry_error

    @cached_property
    def margin(self) -> float:
        """(1 − |E|/σ²)⁻³, a factor on first-order changes that covers the higher orders; infinite where |E| ≥ σ²/2."""
        share = self.shift / self.noise
        return float((1.0 - share) ** -3) if share < 0.5 else np.inf

    @property
    def kl_rounding(self) -> float:
        """½|E| [Σ λ/(λ+σ²)² + 3|α|²], α = (K+σ²I)⁻¹r, plus steps·(KL + |r|²/σ²) for the sums."""
        summed = self.steps * (self.kl + self._squares(self.r))
        if self.shift == 0.0:
            return summed
        slope = float((self.x / (1.0 + self.x) / (1.0 + self.x)).sum()) + 3.0 * self._squares(
            self.rotated / (1.0 + self.x)
        )
        return 0.5 * self.shift / self.noise * slope * self.margin + summed

    def _squares(self, a: Array) -> float:
        """|a|²/σ²."""
        with np.errstate(over="ignore"):
            return float(((a / np.sqrt(self.noise)) ** 2).sum())


@dataclass(frozen=True, eq=False)
class FullPosterior:
    """The exact GP posterior Q given N data; `full_posterior` builds it.

    Attributes
    ----------
    kernel : Kernel
    X : array (N, D)
    noise : float
    prior_mean : function or None
    mean_at_data : array (N,)
        m(X).
    spectral : Spectral
    """

    kernel: Kernel
    X: Array
    noise: float
    prior_mean: PriorMean
    mean_at_data: Array
    spectral: Spectral

    @property
    def kl(self) -> float:
        """KL(Q‖P) in nats: `posterior_kl`."""
        return self.spectral.kl

    @property
    def kl_rounding(self) -> float:
        """Bound on the rounding error of ``kl``, for kernel values with errors up to ``entry_error``."""
        return self.spectral.kl_rounding

    def predict(self, X: ArrayLike | Array | None = None) -> Prediction:
        """Mean and latent variance at X (n, D), or at the data when X is left out.

        mean = m + k(K + σ²I)⁻¹r, variance = k(x,x) − k(K + σ²I)⁻¹kᵀ  (P-20).  At the data the variance is
        σ² Σ_j u_ij² λ_j/(λ_j + σ²): a sum of positive terms, however small σ² is.
        """
        return self._at_data() if X is None else self._elsewhere(double(as_points(X, "X", self.X.shape[1]), "X"))

    def _at_data(self) -> Prediction:
        s, xp = self.spectral, namespace(self.X)
        share = s.x / (1.0 + s.x)
        mean = self.mean_at_data + s.basis @ (share * s.rotated)
        variance = self.noise * ((s.basis * s.basis) @ share)
        alpha = float(xp.sqrt(((s.rotated / (1.0 + s.x)) ** 2).sum())) / self.noise
        moved = s.shift * alpha * s.margin + s.steps * float(xp.sqrt(s.r @ s.r))
        return Prediction(
            mean,
            variance,
            moved + 4.0 * EPS * (xp.abs(self.mean_at_data) + xp.abs(mean)),
            s.shift * s.margin + 2.0 * s.steps * self.noise * float(share.max()) + 4.0 * EPS * variance,
        )

    def _elsewhere(self, X: Array) -> Prediction:
        s, xp = self.spectral, namespace(self.X)
        N, scale = self.X.shape[0], self.noise * (1.0 + s.x)
        m, diagonal = mean_at(self.prior_mean, X), self.kernel.diag(X)
        cross = matmul(self.kernel(X, self.X), s.basis)
        weights = cross / scale
        mean = m + weights @ s.rotated
        explained = (weights * cross).sum(axis=1)
        size, reach = xp.sqrt((cross * cross).sum(axis=1)), xp.sqrt((weights * weights).sum(axis=1))
        weighted = s.rotated / scale
        alpha = float(xp.sqrt(weighted @ weighted))
        shift = (s.shift + s.steps * float(scale.max())) * s.margin
        off = np.sqrt(N) * s.entry_error
        mean_error = shift * alpha * reach + off * alpha + s.steps * size * alpha
        mean_error += 4.0 * EPS * (xp.abs(m) + xp.abs(mean))
        variance_error = shift * reach**2 + 2.0 * off * reach + s.entry_error + 4.0 * EPS * diagonal
        variance_error += 2.0 * s.steps * size * reach
        variance = rounded_up(diagonal - explained, variance_error, "latent variance")
        return Prediction(mean, variance, mean_error, variance_error)


def full_posterior(
    kernel: Kernel,
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    *,
    noise: float,
    prior_mean: PriorMean = None,
    entry_error: float = 0.0,
) -> FullPosterior:
    """The exact posterior of a GP with Gaussian noise: its KL to the prior and its latent predictions.

    Claims P-20 ... P-24 (Reeb et al., PAC-GP, Eqs. 6–8).  O(N³) time, O(N²) memory, no jitter.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D)
    y : array (N,)
    noise : float
        σ² of the likelihood, in squared units of y.
    prior_mean : function, optional
        m(x) of points (n, D), giving (n,).
    entry_error : float
        Bound on the absolute error of the kernel's values; every rounding allowance includes it.  The default 0 treats
        the computed values as exact.

    Raises
    ------
    ValueError, NonFinite, NotPositiveDefinite
        as `posterior_kl`.

    >>> from gpbounds.kernels import SquaredExponential
    >>> q = full_posterior(SquaredExponential(), [0.0, 1.0], [1.0, 0.5], noise=0.1)
    >>> round(q.kl, 6), q.predict().mean.round(4), q.predict().variance.round(4)
    (1.758581, array([0.9054, 0.5067]), array([0.0869, 0.0869]))
    """
    points, variance, error = double(as_points(X, "X"), "X"), noise_variance(noise), absolute_error(entry_error)
    m = mean_at(prior_mean, points)
    r = vector("y", y, points) - m
    K = symmetric_matrix("k(X, X)", kernel(points))
    spectral = Spectral(K, eigen(K, "k(X, X)", vectors=True), r, variance, error)
    return FullPosterior(kernel, points, variance, prior_mean, m, spectral)
