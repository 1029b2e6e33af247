"""Sparse GP posteriors in whitened form: u = m(Z) + Lv, v ~ N(μ, CCᵀ), L Lᵀ = Kuu + jitter·I.

The prior of v is N(0, I), so KL(Q‖P) needs no inverse and no determinant of Kuu, and does not depend on the rounding of
L. With jitter the inducing variables are f(Z) plus noise of that variance, both in the KL and in every prediction: Q
remains a law under the same prior P, and its KL bounds that of f.  (Jitter that is added only inside the KL makes it
too small, P-29.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, array_of, as_points, exactly, namespace
from gpbounds.divergences.errors import (
    ENOUGH,
    MARGIN,
    Errors,
    Rounding,
    U,
    free_errors,
    gamma,
    left_change,
    reciprocal,
    square,
    whitened_errors,
)
from gpbounds.divergences.gaussian import (
    Prediction,
    PriorMean,
    absolute_error,
    between,
    double,
    mean_at,
    rounded_up,
    vector,
)
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.law import FactorLaw
from gpbounds.linalg import Jitter, cholesky
from gpbounds.linalg.parallel import GROUPS
from gpbounds.linalg.products import norm
from gpbounds.linalg.psd import square_matrix, symmetric_matrix
from gpbounds.once import cached_property
from gpbounds.overflow import within_doubles
from gpbounds.row_noise import is_per_row, noise_of_rows
from gpbounds.rows.program import Statistics
from gpbounds.validation import function, instance, noise_variance, non_negative, scalar
from gpbounds.whitening import CHUNK, Inducing, Whitening, inducing, matched, whitened, with_jitter


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
    xp = namespace(mean, covariance, Kuu)
    shift = array_of(xp, "mean", mean)
    return between((shift, covariance), (xp.zeros(shift.shape), Kuu), 1.0, ("mean", "covariance"), ("mean", "Kuu"))


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

    @property
    def relative(self) -> FactorLaw:
        """The law of the coordinates in which the prior is N(0, I): those of v."""
        return FactorLaw(self.mean[:, None], self.factor)

    @cached_property
    def kl(self) -> float:
        """KL(Q‖P) in nats: `whitened_kl`."""
        return self.relative.kl

    @property
    def kl_rounding(self) -> float:
        """Proved bound on the rounding error of ``kl``, infinite where none is proved: ``errors.kl``, and the sum's."""
        M, C = float(self.inducing.M), self.relative.factor
        change = float(namespace(C).abs(C.diagonal() - 1.0).sum())
        return self.errors.kl + MARGIN * (gamma(0.5 * M * (M + 1.0) + 160.0) * self.kl + 4.0 * EPS * change)

    def inducing_law(self) -> tuple[Array, Array]:
        """a (M,) and B (M, M): u ~ N(a, B), a = m(Z) + Lμ, B = LCCᵀLᵀ."""
        L = self.inducing.chol.L
        half = L @ self.factor
        return mean_at(self.prior_mean, self.inducing.Z) + L @ self.mean, half @ half.T

    def predict(self, X: ArrayLike | Array, *, chunk: int = CHUNK) -> Prediction:
        """Mean and latent variance at X (n, D), streamed: O(nM²) time, O(M·chunk) memory.

        mean = m + Vᵀμ, variance = [k(x,x) − |V|²] + |CᵀV|², V = L⁻¹k(Z, x)  (P-25, P-37): both ≥ 0, [·] = 0 at Z.
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
        half = self.factor.T @ V
        within = xp.einsum("ij,ij->j", half, half)
        w = self.inducing.lift(V)
        sizes = xp.sqrt(squares), xp.sqrt(within), xp.sqrt(xp.einsum("ij,ij->j", w, w))
        mean_error = errors.of_mean(*sizes) + 4.0 * EPS * (xp.abs(m) + xp.abs(mean))
        variance_error = errors.of_variance(*sizes) + self.entry_error
        variance_error += 4.0 * errors.rounding.steps * squares + 4.0 * EPS * (diagonal + within)
        seen = xp.maximum(-left, 0.0)  # rounding below 0
        left = rounded_up(left, xp.maximum(max(1e-10, 100.0 * M * EPS) * diagonal, variance_error), "K - Q")
        return mean, left + within, mean_error, variance_error + 2.0 * seen


def as_sparse(posterior: object, name: str = "posterior") -> SparsePosterior:
    """The posterior, or an error that says how to make one."""
    expected = "a SparsePosterior, as gpbounds.divergences.collapsed_posterior returns"
    known: SparsePosterior = instance(name, posterior, SparsePosterior, expected)
    return known


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
    if prior_mean is not None:
        function("prior_mean", prior_mean, "a function of points (n, D)")
    C = triangular("factor", factor)
    if C.shape[0] != points.M:
        raise ValueError(f"factor: expected shape ({points.M}, {points.M}), one row for each row of Z, got {C.shape}")
    mu = vector("mean", mean, points.Z)
    return SparsePosterior(points, mu, C, prior_mean, whitened_errors(Rounding.of(points, error), points, mu, C), error)


@dataclass(frozen=True, eq=False)
class UpdatedPosterior(SparsePosterior):
    """A sparse posterior whose prior is P: v ~ N(μ₁, C₁C₁ᵀ): v = μ₁ + C₁z, z ~ ``update`` (N-data-prior).

    ``mean`` and ``factor`` are μ₁ + C₁E z and C₁C, C the factor of ``update``; KL(Q‖P) is that of z from N(0, I).
    """

    update: FactorLaw | None = None

    @property
    def relative(self) -> FactorLaw:
        """The law of z, of which the prior is N(0, I)."""
        assert self.update is not None
        return self.update


def updated_at(
    points: Inducing, prior: tuple[Array, Array], mean: ArrayLike | Array, factor: ArrayLike | Array, error: float
) -> UpdatedPosterior:
    """Q: v = μ₁ + C₁z, z ~ N(μ, CCᵀ), relative to P: v ~ N(μ₁, C₁C₁ᵀ), ``prior`` = (μ₁, C₁): N-data-prior.

    Its KL is exact for μ and C.  The predictions add the rounding of μ₁ + C₁μ and of C₁C: a product of triangles of
    order M errs in the Frobenius norm by at most γ_{M+2} ‖|C₁||C|‖.
    """
    xp = namespace(points.Z)
    prior_mean, prior_factor = vector("prior_mean", prior[0], points.Z), triangular("prior_factor", prior[1])
    mu, C = vector("mean", mean, points.Z), triangular("factor", factor)
    steps = MARGIN * gamma(points.M + 4.0)
    mean_error = steps * norm(xp.abs(prior_mean) + xp.abs(prior_factor) @ xp.abs(mu))
    factor_error = steps * norm(xp.abs(prior_factor) @ xp.abs(C))
    whole_mean, whole_factor = prior_mean + prior_factor @ mu, xp.tril(prior_factor @ C)
    rounding = Rounding.of(points, error)
    errors = whitened_errors(rounding, points, whole_mean, whole_factor, mean_error, factor_error)
    return UpdatedPosterior(points, whole_mean, whole_factor, None, errors, error, FactorLaw(mu[:, None], C))


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


# The sparse posteriors of FITC, VFE, DTC and of every other power, from data: streamed, O(NM²) time, O(M²) memory.


@within_doubles
def collapsed_posterior(
    kernel: Kernel,
    X: ArrayLike | Array,
    y: ArrayLike | Array,
    Z: ArrayLike | Array,
    *,
    noise: Any,
    power: float,
    prior_mean: PriorMean = None,
    jitter: Jitter = "auto",
    entry_error: float = 0.0,
    chunk: int = CHUNK,
) -> SparsePosterior:
    """The posterior of the inducing variables for a power of K − Q: 1 is FITC, 0 VFE and DTC.

    a = m_M + KuuP⁻¹Kuf D⁻¹r,  B = KuuP⁻¹Kuu,  P = Kuu + Kuf D⁻¹Kfu,  D = pΛ + σ²I,  Λ = diag(K − Q),  r = y − m;
    KL(Q‖P) = ½Σ[log(1 + x_i) − x_i/(1 + x_i)] + ½|μ|²,  x_i the eigenvalues of VD⁻¹Vᵀ.

    Claims P-25, P-26, P-27 (Reeb et al., PAC-GP, Eqs. 9–11; Eq. 11 leaves the prior mean out of a).  Q is the exact
    posterior of the model y|u ~ N(m + KfuKuu⁻¹(u − m_M), D).  p is ``power``.  Z = X gives the exact GP for every p,
    and its KL (P-22).  Whitened: μ = A⁻¹VD⁻¹r, CCᵀ = A⁻¹, A = I + VD⁻¹Vᵀ, V = L⁻¹Kuf.

    Parameters
    ----------
    kernel : Kernel
    X : array (N, D), NumPy or CuPy
    y : array (N,)
    Z : array (M, D)
    noise : float or array (N,)
        σ², in squared units of y; an array: s_i², one noise variance for each row, in D = pΛ + diag(s_i²).
    power : float
        p ≥ 0.  Q is a posterior for p > 1, too, as pΛ + σ²I is then still positive.
    prior_mean : function, optional
        m(x) of points (n, D), giving (n,).
    jitter : float or "auto"
        Added to the diagonal of Kuu, in the posterior, its KL and its predictions; the result reports the amount.
    entry_error : float
        Bound on the absolute error of the kernel's values.
    chunk : int
        Rows of X at a time.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments.
    NotPositiveDefinite
        when Kuu does not factorise.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, y = [0.0, 1.0, 2.0], [1.0, 0.5, -0.5]
    >>> q = collapsed_posterior(SquaredExponential(), X, y, [0.0, 2.0], noise=0.1, power=1.0)
    >>> round(q.kl, 6), q.predict(X).mean.round(4), q.predict(X).variance.round(4)
    (2.112999, array([ 0.9268,  0.272 , -0.4177]), array([0.086 , 0.3989, 0.086 ]))
    """
    as_kernel(kernel)
    points = double(as_points(X, "X"), "X")
    centres = double(as_points(Z, "Z", points.shape[1]), "Z")
    r = vector("y", y, points) - mean_at(prior_mean, points)
    many = is_per_row(noise)
    variance = namespace(points).asarray(noise_of_rows(noise, len(points))) if many else noise_variance(noise)
    law = CollapsedLaw(variance, scalar(non_negative, "power", power), absolute_error(entry_error))

    def attempt(amount: float) -> tuple[Inducing, CollapsedSums]:
        whitener = inducing(kernel, centres, amount)
        return whitener, law.sums(whitener, points, r, chunk)

    return law.posterior(*with_jitter(attempt, kernel, centres, jitter), prior_mean)


@dataclass(frozen=True, eq=False)
class CollapsedSums(Statistics):
    """Sums over some rows, for the posterior and the bounds on its rounding; ``+`` joins two sets of rows.

    Attributes
    ----------
    N : int
        Number of rows.
    G, b : arrays (M, M), (M,)
        VD⁻¹Vᵀ and VD⁻¹r, D = pΛ + σ².
    fit, columns : float
        Σ r_i²/D_i, and Σ |δ_i|²/D_i (`Rounding`).
    moved : float
        The largest |Λ̂_i − Λ_i|/D_i, 0 for p = 0.
    depth : int
        Largest number of successive roundings in a sum.
    """

    N: int
    G: Array
    b: Array
    fit: float
    columns: float
    moved: float
    depth: int

    def __add__(self, other: CollapsedSums) -> CollapsedSums:
        return CollapsedSums(
            self.N + other.N,
            self.G + other.G,
            self.b + other.b,
            self.fit + other.fit,
            self.columns + other.columns,
            max(self.moved, other.moved),
            max(self.depth, other.depth) + 1,
        )


@dataclass(frozen=True)
class CollapsedLaw:
    """The law y|u ~ N(KfuKuu⁻¹u, pΛ + σ²I), of which Q(u) is the posterior.

    Attributes
    ----------
    noise : float or array (N,)
        σ², or the noise variance of each of the rows that `sums` is given.
    power : float
        p.
    entry_error : float
        Bound on the absolute error of the kernel's values.
    """

    noise: Any
    power: float
    entry_error: float

    def sums(self, whitener: Inducing, X: Array, r: Array, chunk: int = CHUNK) -> CollapsedSums:
        """The sums over rows X (n, D) with r = y − m (n,)."""
        white = whitened(whitener, X, r, chunk)
        xp, D = namespace(r), self.power * white.residual + self.noise
        diagonal, of = whitener.kernel.diag(X), Rounding.of(whitener, self.entry_error)
        deltas = of.of_columns(xp.sqrt(diagonal))
        if self.power == 0.0 and not is_per_row(self.noise):
            G, b, moved = white.gram / self.noise, white.projected / self.noise, 0.0
        else:
            G, b, moved = _weighted(white, r, D, of, self.entry_error, chunk)
        columns, fit = square(norm(deltas / xp.sqrt(D))), square(norm(r / xp.sqrt(D)))
        depth = min(chunk, white.N) + white.N // chunk + GROUPS
        return CollapsedSums(white.N, G, b, fit, columns, moved, depth)

    def posterior(self, whitener: Inducing, sums: CollapsedSums, prior_mean: PriorMean = None) -> SparsePosterior:
        """Q from the sums over all rows."""
        G, b, M = sums.G, sums.b, whitener.M
        xp = namespace(G)
        A = xp.eye(M) + G
        turned = cholesky(A[::-1, ::-1], name="I + V(pΛ + σ²I)⁻¹Vᵀ")
        C = xp.ascontiguousarray(turned.solve_lower(xp.eye(M)).T[::-1, ::-1])  # A = UUᵀ, C = U⁻ᵀ
        mu = C @ (C.T @ b)
        errors = _errors(self, whitener, sums, mu, C, turned.L[::-1, ::-1])
        return SparsePosterior(whitener, mu, C, prior_mean, errors, self.entry_error)


def _weighted(
    white: Whitening, r: Array, D: Array, of: Rounding, entry_error: float, chunk: int
) -> tuple[Array, Array, float]:
    """VD⁻¹Vᵀ, VD⁻¹r, and the largest |Λ̂_i − Λ_i|/D_i: by `left_change`, the entries of diag K, and rounding."""
    xp = namespace(r)
    roots, G, b = xp.sqrt(D), xp.zeros((white.M, white.M)), xp.zeros(white.M)
    moved = 0.0
    for rows, V in white.inducing.chunks(white.X, chunk):
        w = white.inducing.lift(V)
        k = white.inducing.kernel.diag(white.X[rows])
        lengths = of.lifted * xp.sqrt(xp.einsum("ij,ij->j", w, w))
        changes = left_change(of, lengths, of.of_columns(xp.sqrt(k))) + entry_error + 4.0 * of.steps * k
        moved = max(moved, float((changes / D[rows]).max()))
        V /= roots[rows]
        G += V @ V.T  # a product of an array with itself: BLAS makes it a symmetric rank-k update
        b += V @ (r[rows] / roots[rows])
    return G, b, moved


def _errors(law: CollapsedLaw, inducing: Inducing, sums: CollapsedSums, mu: Array, C: Array, factor: Array) -> Errors:
    """Changes by E, by δ of each column, by η of D = pΛ + σ²I, relatively, and by the rounding of A = I + G = UUᵀ, of
    its inverse and of μ: all orders (N-rounded-kl).

    With Ṽ = VD^(−½), ρ = |D^(−½)(r − Vᵀμ)|, δ̃ = √Σ|δ_i|²/D_i, h = |H|δ̃, ζ = η/(1 − η), B = I − CᵀC,
    T = L⁻ᵀ(I − CCᵀ) and q ≥ ‖CᵀṼ‖, the true A is C⁻ᵀ(I + Π)C⁻¹ and the true mean μ + Cs, where

        |Π| ≤ π = |E||H|² + (2qh + h²)(1 + ζ) + ζ|B| + g + c,
        |s| ≤ [|E||H||e| + hρ + (q + h)(δ̃|e| + ζ(ρ + δ̃|e|)) + g' + |Cᵀ(b − Aμ)|]/(1 − π) = s̄,

    g that of CᵀGC, g' that of Cᵀ(VD⁻¹r − Gμ), c that of C; and twice the change of the KL is at most
        |E||T|² + (2qh + h²)(1 + ζ) + ζ|B|² + (g + c)|B| + 4π² + |F|²
        + |E||e|² + 2s̄(|Cᵀμ| + |E||e||H|) + 1.3s̄².
    """
    of, M, G, b = Rounding.of(inducing, law.entry_error), float(inducing.M), sums.G, sums.b
    xp = namespace(C)
    S, size, spread = C @ C.T, norm(mu), norm(C)
    E, columns, H, e = of.E, float(np.sqrt(sums.columns)), of.lift(inducing, C), of.lift(inducing, mu)
    T, B = of.lift(inducing, xp.eye(inducing.M) - S), norm(xp.eye(inducing.M) - C.T @ C) + of.steps * spread**2
    T += of.steps * spread**2 * of.inverse
    # |dG|_jk ≤ γ Σ_i|V_ij||V_ik|/D_i ≤ γ d_j d_k, and |d(VD⁻¹r)|_j ≤ γ d_j √fit
    sloppy, d = gamma(sums.depth + M + 16.0), xp.sqrt(G.diagonal())
    c, cd, fit = _inverse_error(C, factor), norm(xp.abs(C.T) @ d), float(np.sqrt(sums.fit))
    rho = float(np.sqrt(max(sums.fit - float(mu @ (2.0 * b - G @ mu)), 0.0)))
    rho += float(np.sqrt(sloppy)) * (fit + float(d @ xp.abs(mu)))
    g = sloppy * (cd * cd + spread**2)
    g_fit = sloppy * (cd * (fit + float(d @ xp.abs(mu))) + spread * size)
    sizes = xp.abs(b) + xp.abs(mu) + xp.abs(G) @ xp.abs(mu)
    residual = norm(C.T @ (b - mu - G @ mu)) + 2.0 * of.steps * norm(xp.abs(C.T) @ sizes)
    eta = law.power * sums.moved + 4.0 * U
    zeta, h, q = eta * reciprocal(eta), H * columns, 1.0 + c + g
    crossed = (2.0 * q * h + h * h) * (1.0 + zeta)
    pi = E * H * H + crossed + zeta * B + g + c
    if not (pi <= ENOUGH and of.F <= ENOUGH and c <= ENOUGH):
        unknown = 0.0 if sums.fit == size == 0.0 else np.inf  # y = m has the mean m for every Kuu
        none = {"weights": unknown, "mean_half": unknown, "relative": np.inf, "d_delta": np.inf}
        return Errors(of, size=size, spread=spread, kl=np.inf, **none)
    step = E * H * e + h * rho + (q + h) * (columns * e + zeta * (rho + columns * e)) + g_fit + residual
    step *= reciprocal(pi)
    along = norm(C.T @ mu) + of.steps * spread * size
    kl = E * T * T + crossed + zeta * B * B + (g + c) * B + 4.0 * pi * pi + of.F * of.F
    kl += E * e * e + 2.0 * step * (along + E * e * H) + 1.3 * step * step
    return Errors(
        of,
        weights=e + H * step,
        size=size,
        spread=spread,
        kl=MARGIN * 0.5 * kl,
        mean_half=step,
        relative=pi,
        d_delta=H,
    )


def _inverse_error(C: Array, factor: Array) -> float:
    """At least ‖Cᵀ(I + G)C − I‖ for C ≈ U⁻ᵀ, U the computed factor of I + G: |UUᵀ − I − G| ≤ γ|U||Uᵀ|."""
    xp, M = namespace(C), float(C.shape[0])
    sizes = norm(xp.abs(C.T) @ xp.abs(factor)) * (1.0 + gamma(M + 4.0))
    off = norm(C.T @ factor - xp.eye(C.shape[0])) + gamma(M + 4.0) * sizes
    return MARGIN * (off * (2.0 + off) + gamma(M + 8.0) * sizes**2)
