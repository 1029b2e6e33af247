"""The law of the whitened inducing variables v = L⁻¹u: q(v) = N(w_p, S) for P outputs; prior p(v) = N(0, I).

Two classes represent S: `FactorLaw` by a factor C with CCᵀ = S, for a free q; `GramLaw` by the matrix G with
S = (I + G)⁻¹, if q is the posterior given Gaussian rows and G the weighted Gram matrix of their features. Each class is
accurate where the formulas of the other cancel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpbounds.arrays import Array, host, namespace
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.inverses import inverse
from gpbounds.linalg.products import gram
from gpbounds.linalg.triangular import inverse_factor
from gpbounds.numerics.log1p import log1p_residual


class Law(ABC):
    """q(v) = N(w_p, S), p = 1 … P.

    Attributes
    ----------
    mean : array (M, P)
        w, a column for each output.
    factor : array (M, M)
        C, lower triangular with CCᵀ = S.
    """

    mean: Array
    factor: Array

    @property
    def M(self) -> int:
        """Number of inducing variables."""
        return int(self.mean.shape[0])

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.mean.shape[1])

    @property
    @abstractmethod
    def covariance(self) -> Array:
        """S (M, M)."""

    @property
    @abstractmethod
    def gained(self) -> Array:
        """I − S (M, M)."""

    @abstractmethod
    def half(self, V: Array) -> Array:
        """H (M, n) with HᵀH = VᵀSV, for V (M, n)."""

    @property
    @abstractmethod
    def kl(self) -> float:
        """Σ_p KL[N(w_p, S)‖N(0, I)] = ½[P(tr S − M − log|S|) + |w|²], in nats (P-26).  Its derivative in w is w."""

    @property
    @abstractmethod
    def kl_in_covariance(self) -> Array:
        """The derivative of `kl` in S: ½P(I − S⁻¹)."""

    def moments(self, V: Array, residual: Array) -> tuple[Array, Array]:
        """Latent means (n, P) and variances (n,) at points with V = L⁻¹k(Z, ·) (M, n) and K − Q = ``residual`` (n,)."""
        half = self.half(V)
        return V.T @ self.mean, residual + namespace(V).einsum("ij,ij->j", half, half)

    def joint(self, V: Array, residual: Array) -> tuple[Array, Array]:
        """Latent means (n, P) and covariance (n, n) at the same points, ``residual`` = K − Q (n, n)."""
        half = self.half(V)
        return V.T @ self.mean, residual + half.T @ half


@dataclass(frozen=True, eq=False)
class FactorLaw(Law):
    """S = CCᵀ, C lower triangular with a positive diagonal.

    Attributes
    ----------
    mean : array (M, P)
    factor : array (M, M)
        C.

    >>> FactorLaw(np.array([[0.0], [2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).kl  # ½(1 + 4)
    2.5
    """

    mean: Array
    factor: Array

    @cached_property
    def covariance(self) -> Array:
        return gram(self.factor.T)

    @cached_property
    def gained(self) -> Array:
        return namespace(self.mean).eye(self.M) - self.covariance

    def half(self, V: Array) -> Array:
        return self.factor.T @ V

    @cached_property
    def kl(self) -> float:
        """½[P(Σ_i (C_ii² − 1 − log C_ii²) + Σ_{i>j} C_ij²) + |w|²]: a sum of terms ≥ 0."""
        xp, diagonal = namespace(self.factor), self.factor.diagonal()
        entries = host(diagonal)
        change = (entries - 1.0) * (entries + 1.0)
        spread = np.where(
            np.abs(change) < 0.5, log1p_residual(np.maximum(change, -0.5)), change - 2.0 * np.log(entries)
        )
        below = self.factor.copy()
        xp.fill_diagonal(below, 0.0)
        P = self.P
        return 0.5 * P * (float(spread.sum()) + _squared(below)) + 0.5 * _squared(self.mean)

    @property
    def kl_in_covariance(self) -> Array:
        half = inverse_factor(self.factor)
        return 0.5 * self.P * (namespace(half).eye(self.M) - gram(half))

    @property
    def kl_in_factor(self) -> Array:
        """The derivative of `kl` in C, lower triangular: P(C − diag(1/C_ii))."""
        xp = namespace(self.factor)
        slopes, places = self.P * self.factor, xp.arange(self.M)
        slopes[places, places] -= self.P / xp.diagonal(self.factor)
        return slopes


@dataclass(frozen=True, eq=False)
class GramLaw(Law):
    """S = (I + G)⁻¹ and w = Sb: the posterior of v given rows with Σ_i c_i v_i v_iᵀ = G and Σ_i c_i v_i y_i = b.

    Attributes
    ----------
    mean : array (M, P)
    G : array (M, M)
    chol : Cholesky
        Factor of I + G.
    """

    mean: Array
    G: Array
    chol: Cholesky

    @cached_property
    def covariance(self) -> Array:
        return inverse(self.chol.L)

    @property
    def precision(self) -> Array:
        """S⁻¹ = I + G."""
        return self.G + namespace(self.G).eye(self.M)

    @cached_property
    def factor(self) -> Array:
        """C = U⁻ᵀ for the upper triangular U with UUᵀ = I + G; no inverse is factorised.

        U is the Cholesky factor of I + G with rows and columns reversed, reversed back.
        """
        xp = namespace(self.G)
        turned = cholesky(self.precision[::-1, ::-1], name="I + G")
        return xp.tril(xp.ascontiguousarray(turned.solve_lower(xp.eye(self.M)).T[::-1, ::-1]))

    @cached_property
    def gained(self) -> Array:
        """I − S = SG, without the cancellation of I − S for weak data."""
        return self.chol.solve(self.G)

    def half(self, V: Array) -> Array:
        return self.chol.solve_lower(V)

    @cached_property
    def kl(self) -> float:
        """½[P(log|I + G| − tr(I − S)) + |w|²]."""
        spread = self.chol.logdet - float(self.gained.trace())
        return 0.5 * (self.P * spread + float((self.mean * self.mean).sum()))

    @property
    def kl_in_covariance(self) -> Array:
        return -0.5 * self.P * self.G


def gram_law(G: Array, b: Array) -> GramLaw:
    """Factorise I + G and solve for the mean; ``G`` (M, M) symmetric PSD, ``b`` (M, P).

    >>> q = gram_law(np.array([[3.0]]), np.array([[2.0]]))
    >>> q.mean, q.covariance, q.gained
    (array([[0.5]]), array([[0.25]]), array([[0.75]]))
    """
    chol = cholesky(G + namespace(G).eye(G.shape[0]), name="I + G")
    return GramLaw(chol.solve(b), G, chol)


def _squared(array: Array) -> float:
    """The sum of the squares of all entries."""
    flat = array.reshape(-1)
    return float(flat @ flat)
