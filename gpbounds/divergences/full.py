"""The exact GP posterior: its divergence from the prior and its latent predictions, in the eigenbasis of K."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, as_points, namespace
from gpbounds.divergences.errors import ENOUGH, MARGIN, gamma, reciprocal, square
from gpbounds.divergences.gaussian import (
    Prediction,
    PriorMean,
    absolute_error,
    double,
    mean_at,
    rounded_up,
    vector,
)
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.linalg import Eigen, cholesky, eigen
from gpbounds.linalg.products import gram, matmul, norm, norms
from gpbounds.linalg.psd import symmetric_matrix
from gpbounds.numerics.scalars import log1p_residual
from gpbounds.once import cached_property
from gpbounds.overflow import within_doubles
from gpbounds.row_noise import is_per_row, noise_of_rows, one_for_all
from gpbounds.validation import choice, noise_variance

_ELSEWHERE = (
    "the spectral form has one σ²; collapsed_posterior(kernel, X, y, X, noise=noise, power=0.0) is the exact posterior "
    "with the noise of each row"
)


@within_doubles
def posterior_kl(
    K: ArrayLike | Array,
    y_minus_mean: ArrayLike | Array,
    *,
    noise: Any,
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
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row (N-rows-noise).
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
    matrix = symmetric_matrix("K", K)
    r = vector("y_minus_mean", y_minus_mean, matrix)
    if is_per_row(noise):
        weights = namespace(matrix).asarray(1.0 / np.sqrt(noise_of_rows(noise, len(r))))
        matrix, r, noise = matrix * weights[:, None] * weights, r * weights, 1.0
    variance = noise_variance(noise)
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
    """K = UΛUᵀ + E with r = y − m and σ²: these determine the KL and the predictions at the data.

    No accuracy of U and Λ is assumed: ‖E‖ ≤ ``shift`` and ‖UᵀU − I‖ ≤ ``skew`` are measured, with the rounding
    of the measurements (N-rounded-exact).  With K' = UΛUᵀ, A' = K' + σ²I, D = Λ + σ²I, s = max λ/(λ + σ²) and o the
    ``skew``, Λ^½UᵀA'⁻¹ = (D + Λ^½(UᵀU − I)Λ^½)⁻¹Λ^½Uᵀ differs from D⁻¹Λ^½Uᵀ by at most so/(1 − so), relatively and in
    the basis D^½, and A = A' + E ⪰ σ²I.
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
        return 0.5 * float(volume.sum()) + 0.5 * float((self.explained * self.explained).sum())

    @cached_property
    def explained(self) -> Array:
        """Λ^½D⁻¹Uᵀr: its square is rᵀA⁻¹KA⁻¹r."""
        xp = namespace(self.r)
        return xp.sqrt(self.x) / (1.0 + self.x) * (self.rotated / np.sqrt(self.noise))

    @property
    def N(self) -> int:
        """Number of data."""
        return int(self.r.shape[0])

    @property
    def share(self) -> float:
        """s."""
        return float((self.x / (1.0 + self.x)).max())

    @cached_property
    def sums(self) -> float:
        """Relative to |U||b|, the error of a computed product Uᵀb: γ_{N+8}√N."""
        return MARGIN * gamma(self.N + 8.0) * float(np.sqrt(self.N))

    @cached_property
    def skew(self) -> float:
        """At least ‖UᵀU − I‖_F: as computed, and γ_{N+8}N for the rounding of UᵀU."""
        excess = gram(self.basis) - namespace(self.r).eye(self.N)
        return MARGIN * (norm(excess) + self.sums * float(np.sqrt(self.N)))

    @cached_property
    def shift(self) -> float:
        """At least ‖E‖_F: |K − UΛUᵀ| as computed, γ_{N+8} tr UΛUᵀ for its rounding, N times the error of a value."""
        values = namespace(self.r).asarray(self.eigen.values)
        left = self.K - matmul(self.basis * values, self.basis.T)
        rounded = gamma(self.N + 8.0) * float(values.sum()) * (1.0 + self.skew)
        return MARGIN * (norm(left) + rounded + self.N * self.entry_error)

    @cached_property
    def left(self) -> float:
        """1/(1 − ‖E‖/σ²); infinite unless ‖E‖/σ² and ‖UᵀU − I‖ are at most 1/10."""
        return reciprocal(self.shift / self.noise) if self.skew <= ENOUGH else np.inf

    @cached_property
    def alpha(self) -> float:
        """At least σ|A'⁻¹r|."""
        return self.solved(norm(self.rotated / (1.0 + self.x)), norm(self.r)) / float(np.sqrt(self.noise))

    def solved(self, size: Any, whole: Any) -> Any:
        """An upper bound on σ²|A'⁻¹b|, from the computed σ²|D⁻¹Uᵀb| = ``size`` and |b| = ``whole``."""
        return (1.0 + 3.0 * self.skew) * (size + (1.2 * self.skew + 2.0 * self.sums) * whole)

    @property
    def kl_rounding(self) -> float:
        """½‖E‖/σ² [‖σ²(A'⁻¹ − σ²A'⁻²)‖ + ‖E‖/σ² + 3σ²|α|²/(1 − ‖E‖/σ²)²], α = A'⁻¹r, for E; 2.3o of the KL, and the
        change of z = Λ^½D⁻¹Uᵀr by o and rounding.
        """
        if not np.isfinite(self.left):
            return np.inf
        moved, slope = self.shift / self.noise, norm(self.x / (1.0 + self.x) / (1.0 + self.x))
        step = (1.2 * self.share**1.5 * self.skew + self.sums) * norm(self.r) / float(np.sqrt(self.noise))
        twice = moved * ((1.0 + 1.2 * self.skew) * slope + moved + 3.0 * square(self.alpha * self.left))
        twice += (2.0 * norm(self.explained) + step) * step
        return MARGIN * (0.5 * twice + (2.3 * self.skew + gamma(self.N + 160.0)) * self.kl)


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
        # σ|A⁻¹r|‖E‖/σ bounds the effect of E on the mean, and ‖E‖ that on the variance
        moved = s.shift * s.alpha * s.left / float(np.sqrt(s.noise))
        moved += (1.3 * s.share**2 * s.skew + 2.5 * s.share * s.sums) * norm(s.r)
        own = 1.3 * s.share * s.skew + gamma(s.N + 16.0)
        return Prediction(
            mean,
            variance,
            MARGIN * (moved + 4.0 * EPS * (xp.abs(self.mean_at_data) + xp.abs(mean))),
            MARGIN * (s.shift * s.left + own * variance),
        )

    def _elsewhere(self, X: Array) -> Prediction:
        s, xp = self.spectral, namespace(self.X)
        m, diagonal = mean_at(self.prior_mean, X), self.kernel.diag(X)
        k = self.kernel(X, self.X)
        cross = matmul(k, s.basis)
        weights = cross / (s.noise * (1.0 + s.x))
        mean = m + weights @ s.rotated
        explained = (weights * cross).sum(axis=1)
        sizes = norms(k)
        reach = s.solved(norms(weights), sizes / s.noise)
        alpha, off = s.alpha / float(np.sqrt(s.noise)), np.sqrt(s.N) * s.entry_error
        own = 1.3 * s.skew + 2.0 * s.sums
        mean_error = s.left * (s.left * s.shift * reach + off) * alpha + own * (sizes * alpha + 2.0 * reach * norm(s.r))
        mean_error += 4.0 * EPS * (xp.abs(m) + xp.abs(mean))
        variance_error = s.left * (s.shift * reach**2 + 2.0 * off * reach) + off * (off / s.noise) + s.entry_error
        variance_error += 4.0 * EPS * diagonal + 3.0 * own * sizes * reach
        variance = rounded_up(diagonal - explained, MARGIN * variance_error, "latent variance")
        return Prediction(mean, variance, MARGIN * mean_error, MARGIN * variance_error)


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
        σ² of the likelihood, in squared units of y.  With noise of each row `collapsed_posterior` with Z = X is the
        exact posterior.
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
    as_kernel(kernel)
    points, error = double(as_points(X, "X"), "X"), absolute_error(entry_error)
    variance = one_for_all(noise, _ELSEWHERE)
    m = mean_at(prior_mean, points)
    r = vector("y", y, points) - m
    K = symmetric_matrix("k(X, X)", kernel(points))
    spectral = Spectral(K, eigen(K, "k(X, X)", vectors=True), r, variance, error)
    return FullPosterior(kernel, points, variance, prior_mean, m, spectral)
