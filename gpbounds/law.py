"""The law of the whitened inducing variables v = L⁻¹u: q(v) = N(w_p, S) for P outputs; prior p(v) = N(0, I).

Two classes represent S: `FactorLaw` by a factor C with CCᵀ = S, for a free q; `GramLaw` by the matrix G with
S = (I + G)⁻¹, if q is the posterior given Gaussian rows and G the weighted Gram matrix of their features. Each class is
accurate where the formulas of the other cancel.

The rounding of G changes eigenvalues of I + G near 1 by about eps·λ, λ the largest: `gram_law` is accurate if λ is
moderate.  `root_law` takes R with RᵀR = I + G from a QR decomposition of the rows themselves, which changes them by
about eps·√λ only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.inverses import inverse
from gpbounds.linalg.products import gram
from gpbounds.linalg.psd import cholesky_unread
from gpbounds.linalg.triangular import inverse_factor
from gpbounds.numerics.scalars import log1p_residual
from gpbounds.once import cached_property
from gpbounds.readings import Reading, Readings
from gpbounds.texts import in_one_line

STRONG, STRONGEST = 1e10, 1e18
"""tr G up to which `gram_law`, and up to which `root_law`, keep about six digits of values and five of gradients."""


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

    @cached_property
    def kl(self) -> float:
        """Σ_p KL[N(w_p, S)‖N(0, I)] = ½[P(tr S − M − log|S|) + |w|²], in nats (P-26).  Its derivative in w is w."""
        return self.kl_unread(Readings())()

    @abstractmethod
    def kl_unread(self, readings: Readings) -> Callable[[], float]:
        """A function that returns `kl`, from numbers that it takes from ``readings``."""

    @property
    @abstractmethod
    def kl_in_covariance(self) -> Array:
        """The derivative of `kl` in S: ½P(I − S⁻¹)."""

    def moments(self, V: Array, residual: Array | float) -> tuple[Array, Array]:
        """Latent means (n, P) and variances (n,) at points with V = L⁻¹k(Z, ·) (M, n) and K − Q = ``residual`` (n,)."""
        half = self.half(V)
        return V.T @ self.mean, residual + namespace(V).einsum("ij,ij->j", half, half)

    def joint(self, V: Array, residual: Array | float) -> tuple[Array, Array]:
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
    __repr__ = in_one_line

    @cached_property
    def covariance(self) -> Array:
        return gram(self.factor.T)

    @cached_property
    def gained(self) -> Array:
        return namespace(self.mean).eye(self.M) - self.covariance

    def half(self, V: Array) -> Array:
        return self.factor.T @ V

    def kl_unread(self, readings: Readings) -> Callable[[], float]:
        """½[P(Σ_i (C_ii² − 1 − log C_ii²) + Σ_{i>j} C_ij²) + |w|²]: a sum of terms ≥ 0."""
        xp, diagonal = namespace(self.factor), readings.take(self.factor.diagonal())
        below, places = self.factor.copy(), xp.arange(self.M)
        below[places, places] = 0.0
        others, squares, P = readings.take(_squared(below)), readings.take(_squared(self.mean)), self.P

        def value() -> float:
            entries = diagonal.numbers
            change = (entries - 1.0) * (entries + 1.0)
            spread = np.where(
                np.abs(change) < 0.5, log1p_residual(np.maximum(change, -0.5)), change - 2.0 * np.log(entries)
            )
            return 0.5 * P * (float(spread.sum()) + float(others)) + 0.5 * float(squares)

        return value

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
    readings : Readings
        Where its numbers are read.
    """

    mean: Array
    G: Array
    chol: Cholesky
    readings: Readings = field(default_factory=Readings, repr=False)
    __repr__ = in_one_line

    @cached_property
    def _trace(self) -> Reading:
        return self.readings.take(self.G.trace())

    @property
    def is_strong(self) -> bool:
        """As `strong` for G."""
        return float(self._trace) > STRONG

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
        if self.is_strong:
            turned = Cholesky(xp.ascontiguousarray(triangular(self.chol.L.T[:, ::-1]).T), 0.0)
        else:
            turned = cholesky(self.precision[::-1, ::-1], name="I + G")
        return xp.tril(xp.ascontiguousarray(turned.solve_lower(xp.eye(self.M)).T[::-1, ::-1]))

    @cached_property
    def gained(self) -> Array:
        """I − S, as SG for weak data, where the difference cancels."""
        if self.is_strong:
            return namespace(self.G).eye(self.M) - self.covariance
        return self.chol.solve(self.G)

    def half(self, V: Array) -> Array:
        return self.chol.solve_lower(V)

    def kl_unread(self, readings: Readings) -> Callable[[], float]:
        """½[P(log|I + G| − tr(I − S)) + |w|²]."""
        parts = self.chol.log_determinant, self.gained.trace(), (self.mean * self.mean).sum()
        log_det, gained, squares = (readings.take(part) for part in parts)
        return lambda: 0.5 * (self.P * (float(log_det) - float(gained)) + float(squares))

    @property
    def kl_in_covariance(self) -> Array:
        return -0.5 * self.P * self.G


def gram_law(G: Array, b: Array, readings: Readings | None = None, *, replaced: bool = False) -> GramLaw:
    """Factorise I + G and solve for the mean; ``G`` (M, M) symmetric PSD, ``b`` (M, P).

    On a GPU with ``readings``, the factor is tested when they are read.  Where the caller has ``replaced`` the law if G
    is `strong`, it is not tested then.

    >>> q = gram_law(np.array([[3.0]]), np.array([[2.0]]))
    >>> q.mean, q.covariance, q.gained
    (array([[0.5]]), array([[0.25]]), array([[0.75]]))
    """
    precision = G + namespace(G).eye(G.shape[0])
    if readings is None or namespace(G) is np:
        chol = cholesky(precision, name="I + G")
        return GramLaw(chol.solve(b), G, chol)
    chol = cholesky_unread(precision, 0.0, "I + G", readings, lambda: not (replaced and q.is_strong))
    q = GramLaw(chol.solve(b), G, chol, readings)
    q._trace  # noqa: B018  (read together with the test)
    return q


def strong(G: Array) -> bool:
    """Whether G is so large that its rounding costs digits of the small eigenvalues of I + G; see `root_law`."""
    return float(G.trace()) > STRONG


def root_law(G: Array, R: Array) -> GramLaw:
    """The law from G = Σ_i c_i v_i v_iᵀ, and R (k, M + P) with RᵀR = Σ_i c_i [v_i y_i][v_i y_i]ᵀ.

    The triangle of R over the prior's rows [I 0] is [Lᵀ L⁻¹b] in its first M rows, LLᵀ = I + G.

    Raises
    ------
    NotPositiveDefinite
        if tr G is above 1e18: rounding of the rows themselves then changes small eigenvalues of I + G.
    """
    xp, M = namespace(G), int(G.shape[0])
    if float(G.trace()) > STRONGEST:
        raise NotPositiveDefinite(
            f"I + G: expected a Gram matrix G of weighted features with trace at most {STRONGEST:g}, got "
            f"{float(G.trace()):.3g}: float64 loses the directions in which the data say little. Use a larger noise "
            "variance, or features of a smaller scale."
        )
    below = xp.zeros((M, int(R.shape[1])))
    below[:, :M] = xp.eye(M)
    triangle = triangular(xp.concatenate([R, below]))[:M]
    chol = Cholesky(xp.ascontiguousarray(triangle[:, :M].T), 0.0)
    return GramLaw(chol.solve_upper(triangle[:, M:]), G, chol)


def triangular(rows: Array) -> Array:
    """The upper triangular R with RᵀR = rowsᵀrows by Householder reflections, and a diagonal that is not negative.

    >>> abs(triangular(np.array([[3.0, 1.0], [4.0, 1.0]]))).round(2)
    array([[5. , 1.4],
           [0. , 0.2]])
    """
    xp = namespace(rows)
    R = xp.linalg.qr(xp.ascontiguousarray(rows), mode="r")
    return R * xp.where(xp.diagonal(R) < 0.0, -1.0, 1.0)[:, None]


def _squared(array: Array) -> Array:
    """The sum of the squares of all entries."""
    flat = array.reshape(-1)
    return flat @ flat
