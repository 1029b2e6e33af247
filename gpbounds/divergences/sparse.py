"""Sparse GP posteriors in whitened form: u = m(Z) + Lv, v ~ N(μ, CCᵀ), L Lᵀ = Kuu + jitter·I.

The prior of v is N(0, I), so KL(Q‖P) needs no inverse and no determinant of Kuu, and does not depend on the rounding of
L. With jitter the inducing variables are f(Z) plus noise of that variance, both in the KL and in every prediction: Q
remains a law under the same prior P, and its KL bounds that of f.  (Jitter that is added only inside the KL makes it
too small, P-29.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, as_points, exactly, namespace
from gpbounds.divergences.errors import MARGIN, Errors, Rounding, free_errors, gamma, whitened_errors
from gpbounds.divergences.gaussian import gaussian_kl
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
from gpbounds.kernels.base import as_kernel
from gpbounds.law import FactorLaw
from gpbounds.linalg import Jitter, cholesky
from gpbounds.linalg.matrices import square_matrix, symmetric_matrix
from gpbounds.whitening import CHUNK, Inducing, inducing, matched


def sparse_kl(Kuu: ArrayLike | Array, mean: ArrayLike | Array, covariance: ArrayLike | Array) -> float:
    """KL(Q‖P) of the sparse GP with Q(f_M) = N(a, B): that of N(a − m_M, B) from N(0, Kuu).

    KL = ½[tr Kuu⁻¹B − M − log(|B|/|Kuu|) + (a−m_M)ᵀKuu⁻¹(a−m_M)].

    Claim P-26 (Reeb et al., PAC-GP, Eq. 10): Q(f|f_M) = P(f|f_M), so only f_M contributes. The function adds no jitter:
    jitter that is only inside the KL would make it too small (P-29).  `whitened_kl` needs no inverse of Kuu.

    Parameters
    ----------
    Kuu : array (M, M), NumPy or CuPy, positive definite
    mean : array (M,)
        a − m_M.
    covariance : array (M, M), positive definite
        B.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as `gaussian_kl`.

    >>> round(sparse_kl([[1.0]], [1.0], [[2.0]]), 6)  # 1 − ½ log 2
    0.653426
    """
    mean, covariance, Kuu = exactly("mean", mean), exactly("covariance", covariance), exactly("Kuu", Kuu)
    return gaussian_kl(mean, covariance, namespace(mean).zeros(np.shape(mean)), Kuu)


def whitened_kl(mean: ArrayLike | Array, factor: ArrayLike | Array) -> float:
    """KL[N(μ, CCᵀ)‖N(0, I)] = ½[Σ_i (C_ii² − 1 − log C_ii²) + Σ_{i>j} C_ij² + |μ|²], C lower triangular.

    Claim P-26 for u = m_M + Lv, L Lᵀ = Kuu: a sum of positive terms, so that its relative error is a few eps
    for these μ and C.

    Parameters
    ----------
    mean : array (M,)
        μ = L⁻¹(a − m_M).
    factor : array (M, M)
        C, lower triangular with a positive diagonal: CCᵀ = L⁻¹BL⁻ᵀ.

    Raises
    ------
    ValueError, NonFinite
        for wrong shapes, NaN, or a C that is not such a factor.

    >>> whitened_kl([0.0, 2.0], [[1.0, 0.0], [1.0, 1.0]])  # ½(1 + 4)
    2.5
    """
    C = triangular("factor", factor)
    return FactorLaw(vector("mean", mean, C)[:, None], C).kl


def triangular(name: str, value: ArrayLike | Array) -> Array:
    """A finite lower triangular float64 matrix with a positive diagonal."""
    C = square_matrix(name, value)
    if bool(namespace(C).triu(C, 1).any()) or not bool((C.diagonal() > 0.0).all()):
        raise ValueError(f"{name}: expected a lower triangular matrix with a positive diagonal (a Cholesky factor)")
    return C


@dataclass(frozen=True, eq=False)
class SparsePosterior:
    """A sparse GP posterior Q: q(v) = N(μ, CCᵀ), u = m(Z) + Lv, and f given u as under the prior.

    Attributes
    ----------
    inducing : Inducing
        Kernel, Z (M, D), and L with L Lᵀ = Kuu + jitter·I.
    mean : array (M,)
        μ.
    factor : array (M, M)
        C, lower triangular with a positive diagonal.
    prior_mean : function or None
        m(x).
    errors : Errors
        Bounds on the effect of rounding on Q and its predictions.
    entry_error : float
        Bound on the absolute error of the kernel's values.
    """

    inducing: Inducing
    mean: Array
    factor: Array
    prior_mean: PriorMean
    errors: Errors
    entry_error: float = 0.0

    @property
    def jitter(self) -> float:
        """The number that was added to the diagonal of Kuu."""
        return self.inducing.chol.jitter

    @cached_property
    def kl(self) -> float:
        """KL(Q‖P) in nats: `whitened_kl`."""
        return FactorLaw(self.mean[:, None], self.factor).kl

    @property
    def kl_rounding(self) -> float:
        """Proved bound on the rounding error of ``kl``, infinite where none is proved: ``errors.kl``, and the sum's."""
        M, xp = float(self.inducing.M), namespace(self.factor)
        change = float(xp.abs(self.factor.diagonal() - 1.0).sum())
        return self.errors.kl + MARGIN * (gamma(0.5 * M * (M + 1.0) + 160.0) * self.kl + 4.0 * EPS * change)

    def inducing_law(self) -> tuple[Array, Array]:
        """a (M,) and B (M, M): u ~ N(a, B), a = m(Z) + Lμ, B = LCCᵀLᵀ."""
        L = self.inducing.chol.L
        half = L @ self.factor
        return mean_at(self.prior_mean, self.inducing.Z) + L @ self.mean, half @ half.T

    def predict(self, X: ArrayLike | Array, *, chunk: int = CHUNK) -> Prediction:
        """Mean and latent variance at X (n, D), streamed: O(nM²) time, O(M·chunk) memory.

        mean = m + Vᵀμ, variance = [k(x,x) − |V|²] + |CᵀV|², V = L⁻¹k(Z, x)  (P-25, P-37): two terms ≥ 0, the first
        exactly 0 at the rows of Z.
        """
        points = double(as_points(X, "X", self.inducing.Z.shape[1]), "X")
        xp = namespace(points, self.inducing.Z)
        at_inducing = np.zeros(points.shape[0], dtype=bool) if self.jitter else matched(points, self.inducing.Z)[0]
        on_device = xp.asarray(at_inducing)
        columns = [xp.empty(points.shape[0]) for _ in range(4)]
        for rows, V in self.inducing.chunks(points, chunk):
            parts = self._at(points[rows], V, on_device[rows])
            for whole, part in zip(columns, parts, strict=True):
                whole[rows] = part
        return Prediction(*columns)

    def joint(self, X: ArrayLike | Array) -> Array:
        """The latent covariance K − VᵀV + (CᵀV)ᵀCᵀV (n, n) at X (n, D), without a bound on its rounding."""
        points = double(as_points(X, "X", self.inducing.Z.shape[1]), "X")
        V = self.inducing.whiten(points)
        half = self.factor.T @ V
        return self.inducing.kernel(points) - V.T @ V + half.T @ half

    def _at(self, X: Array, V: Array, at_inducing: Array) -> tuple[Array, Array, Array, Array]:
        xp, M, errors = namespace(V), self.inducing.M, self.errors
        m, diagonal = mean_at(self.prior_mean, X), self.inducing.kernel.diag(X)
        mean = m + V.T @ self.mean
        squares = xp.einsum("ij,ij->j", V, V)
        left = diagonal - squares
        left[at_inducing] = 0.0
        seen = xp.maximum(-left, 0.0)  # rounding below 0
        left = rounded_up(left, max(1e-10, 100.0 * M * EPS) * diagonal, "K - Q")
        half = self.factor.T @ V
        within = xp.einsum("ij,ij->j", half, half)
        w = self.inducing.lift(V)
        sizes = xp.sqrt(squares), xp.sqrt(within), xp.sqrt(xp.einsum("ij,ij->j", w, w))
        mean_error = errors.of_mean(*sizes) + 4.0 * EPS * (xp.abs(m) + xp.abs(mean))
        variance_error = errors.of_variance(*sizes) + self.entry_error + 2.0 * seen
        variance_error += 4.0 * errors.rounding.steps * squares + 4.0 * EPS * (diagonal + within)
        return mean, left + within, mean_error, variance_error


def whitened_posterior(
    kernel: Kernel,
    Z: ArrayLike | Array,
    mean: ArrayLike | Array,
    factor: ArrayLike | Array,
    *,
    prior_mean: PriorMean = None,
    jitter: Jitter = "auto",
    entry_error: float = 0.0,
) -> SparsePosterior:
    """The sparse posterior with a free q(v) = N(μ, CCᵀ), u = m(Z) + Lv; its KL needs no inverse of Kuu.

    Claims P-25, P-26 (Reeb et al., PAC-GP, Eqs. 9, 10).  μ and C *define* Q: any numbers give a valid certificate.

    Parameters
    ----------
    kernel : Kernel
    Z : array (M, D)
    mean : array (M,)
        μ.
    factor : array (M, M)
        C, lower triangular with a positive diagonal.
    prior_mean : function, optional
        m(x) of points (n, D), giving (n,).
    jitter : float or "auto"
        Added to the diagonal of Kuu, in the KL and in the predictions; the result's ``jitter`` is the amount.
    entry_error : float
        Bound on the absolute error of the kernel's values; the predictions' errors include it.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.
    NotPositiveDefinite
        when Kuu does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> q = whitened_posterior(SquaredExponential(), [0.0], [1.0], [[0.5]])
    >>> round(q.kl, 6), q.predict([0.0, 9.0]).mean.round(4), q.predict([0.0, 9.0]).variance.round(4)
    (0.818147, array([1., 0.]), array([0.25, 1.  ]))
    """
    as_kernel(kernel)
    points = inducing(kernel, double(as_points(Z, "Z"), "Z"), jitter)
    return whitened_at(points, mean, factor, prior_mean, absolute_error(entry_error))


def whitened_at(
    points: Inducing, mean: ArrayLike | Array, factor: ArrayLike | Array, prior_mean: PriorMean, error: float
) -> SparsePosterior:
    """As `whitened_posterior`, with the factor of Kuu given."""
    C = triangular("factor", factor)
    if C.shape[0] != points.M:
        raise ValueError(f"factor: expected shape ({points.M}, {points.M}), one row for each row of Z, got {C.shape}")
    mu = vector("mean", mean, points.Z)
    return SparsePosterior(points, mu, C, prior_mean, whitened_errors(Rounding.of(points, error), points, mu, C), error)


def free_posterior(
    kernel: Kernel,
    Z: ArrayLike | Array,
    mean: ArrayLike | Array,
    covariance: ArrayLike | Array,
    *,
    prior_mean: PriorMean = None,
    jitter: Jitter = "auto",
    entry_error: float = 0.0,
) -> SparsePosterior:
    """The sparse posterior with Q(f_M) = N(a, B): μ = L⁻¹(a − m_M), C = L⁻¹·(Cholesky factor of B).

    Claims P-25, P-26 (Reeb et al., PAC-GP, Eqs. 9, 10), B ≻ 0.  Parameters and errors as in `whitened_posterior`;
    mean = a (M,), covariance = B (M, M).  ``errors`` bounds how much rounding changes KL and predictions from those of
    (a, B); this matters if Kuu is ill-conditioned.

    >>> from gpbounds.kernels import SquaredExponential
    >>> q = free_posterior(SquaredExponential(), [0.0], [1.0], [[0.25]])
    >>> q.factor.tolist(), round(q.kl, 6)
    ([[0.5]], 0.818147)
    """
    as_kernel(kernel)
    points = inducing(kernel, double(as_points(Z, "Z"), "Z"), jitter)
    return free_at(points, mean, covariance, prior_mean, absolute_error(entry_error))


def free_at(
    points: Inducing, mean: ArrayLike | Array, covariance: ArrayLike | Array, prior_mean: PriorMean, error: float
) -> SparsePosterior:
    """As `free_posterior`, with the factor of Kuu given."""
    B = symmetric_matrix("covariance", covariance, points.M)
    shift = vector("mean", mean, points.Z) - mean_at(prior_mean, points.Z)
    chol = cholesky(B, name="covariance")
    C, mu = namespace(B).tril(points.chol.solve_lower(chol.L)), points.chol.solve_lower(shift)
    errors = free_errors(Rounding.of(points, error), points, shift, mu, C, chol)
    return SparsePosterior(points, mu, C, prior_mean, errors, error)
