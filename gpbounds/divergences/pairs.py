"""GP posteriors with proved errors: KL(Q‖P) as a ball, latent means and variances within proved bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.errors import NotPositiveDefinite, shown
from gpbounds.kernels.matrices import LARGEST, SMALLEST, EnclosedKernel
from gpbounds.linalg.pair_inverse import BITS, LEAST, U, Verified, dot, norm_above, verified
from gpbounds.linalg.pair_products import UP, left, multiply, product, right
from gpbounds.numerics.pairs import Pair, add, reciprocal, row_sums
from gpbounds.numerics.pairs import multiply as times
from gpbounds.rigor import at_bits, exact, within

U2 = U * U
CHUNK = 1024
"""Rows of X at a time."""
Parts = Callable[[], Iterable[tuple[Float, Float]]]
"""() ↦ the scaled rows (X, y), part by part: each call is a pass."""


@dataclass(frozen=True, eq=False)
class Latent:
    """Laws N(mean, variance) of f at n rows, each number within its error.

    Attributes
    ----------
    mean, variance : pairs of arrays (n,)
    mean_error, variance_error : arrays (n,)
    """

    mean: Pair
    variance: Pair
    mean_error: Float
    variance_error: Float


def full_law(kernel: EnclosedKernel, X: Float, y: Float, noise: float) -> tuple[Any, Latent]:
    """KL(Q‖P) as a ball and the latent laws at the data, for the exact posterior given y  (N-proved-kl, N-proved-risk).

    With A = K + σ²I and α = A⁻¹y the law at x_i is N(y_i − σ²α_i, σ² − σ⁴(A⁻¹)_ii), and
    KL = ½[log|A| − N log σ² − N + σ² tr A⁻¹ + yᵀα − σ²|α|²]  (P-20, P-22: K = A − σ²I).

    Raises
    ------
    NotPositiveDefinite
        where A cannot be proved positive definite.
    """
    N = len(y)
    _in_range("noise", noise)
    _in_range("y", np.abs(y).max(initial=0.0), zero=True)
    K, error = kernel.gram(X)
    rows = np.diag_indices(N)
    diagonal = add((K[0][rows], K[1][rows]), (np.full(N, noise), np.zeros(N)))
    K[0][rows], K[1][rows] = diagonal
    rounded = 8.0 * U2 * math.sqrt(N) * float(diagonal[0].max())
    A = verified(K, UP * (error + rounded), floor=noise, target=1e-7, name="K + σ²I")
    del K
    target = y, np.zeros(N)
    alpha, off = A.solve(target)
    inverse, apart = A.inverse_diagonal()
    sigma2 = np.full(N, noise), np.zeros(N)
    one = np.ones(N), np.zeros(N)
    moved, share = times(alpha, sigma2), times(inverse, sigma2)
    mean = add(target, (-moved[0], -moved[1]))
    mean_error = UP * noise * off + 30.0 * U2 * (np.abs(y) + np.abs(moved[0])) + LEAST
    variance = times(add(one, (-share[0], -share[1])), sigma2)
    variance_error = noise * (UP * noise * apart + 60.0 * U2 * (1.0 + np.abs(share[0]))) + LEAST
    trace, in_trace = _sum(inverse, apart)
    fit, in_fit = dot(target, alpha)
    square, in_square = dot(alpha, alpha)
    size, length = norm_above(y), norm_above(alpha[0])
    with at_bits(BITS):
        kl = A.log_det() - N * exact(noise).log() - N + exact(noise) * ball(trace, in_trace)
        kl += ball(fit, in_fit + UP * size * off)
        kl -= exact(noise) * ball(square, in_square + UP * (2.0 * length + off) * off)
        kl /= 2
    return kl, Latent(mean, variance, np.asarray(mean_error), np.asarray(variance_error))


@dataclass(frozen=True, eq=False)
class _PairBasis:
    """u = f(Z) + jitter in the basis of its Cholesky factor: V_i = L⁻¹k(Z, x_i), L Lᵀ = Kuu + jitter·I."""

    kernel: EnclosedKernel
    Z: Float
    factor: Verified

    @staticmethod
    def of(kernel: EnclosedKernel, Z: Float, jitter: float) -> _PairBasis:
        """The basis at Z."""
        K, error = kernel.gram(Z)
        rows = np.diag_indices(len(Z))
        diagonal = add((K[0][rows], K[1][rows]), (np.full(len(Z), jitter), np.zeros(len(Z))))
        K[0][rows], K[1][rows] = diagonal
        error = UP * (error + 8.0 * U2 * math.sqrt(len(Z)) * float(diagonal[0].max(initial=0.0)))
        return _PairBasis(kernel, Z, verified(K, error, floor=jitter, target=1e-24, name="Kuu + jitter·I"))

    @property
    def M(self) -> int:
        """Number of inducing inputs."""
        return len(self.Z)

    def whitened(self, X: Float) -> tuple[Pair, Float, Float]:
        """V (n, M), bounds on |V_i| as computed, and bounds on the errors of the rows in the Euclidean norm."""
        k, error = self.kernel.cross(X, self.Z)
        V, rounded = product(left(k), right(self.factor.R))
        inputs = UP * (rounded + error * self.factor.norm) + LEAST
        sizes = UP * np.sqrt((V[0] * V[0]).sum(axis=1)) + 1e-150
        return V, sizes, UP * (inputs + self.factor.turned * (sizes + inputs))

    def residual(self, X: Float, V: Pair, sizes: Float, errors: Float) -> tuple[Pair, Float]:
        """k(x_i, x_i) − |V_i|² ≥ 0, and bounds on the errors."""
        k, error = self.kernel.diagonal(X)
        squares, rounded = dot(V, V)
        allowed = error + rounded + (2.0 * sizes + errors) * errors + 8.0 * U2 * (np.abs(k[0]) + squares[0])
        return add(k, (-squares[0], -squares[1])), UP * allowed + LEAST


@dataclass(frozen=True, eq=False)
class SparseLaw:
    """u = Lv, v ~ N(μ, S), f given u as under the prior.

    Attributes
    ----------
    basis : PairBasis
    mean, cov : pairs of arrays (M,) and (M, M)
        μ and S.
    mean_error, cov_error : float
        In the Euclidean and in the Frobenius norm.
    kl : ball
        KL(Q‖P).
    """

    basis: _PairBasis
    mean: Pair
    cov: Pair
    mean_error: float
    cov_error: float
    kl: Any

    def latent(self, X: Float) -> Latent:
        """The laws at X: mean V_iᵀμ, variance [k(x_i, x_i) − |V_i|²] + V_iᵀSV_i  (P-25, P-37).

        With |V_i − V̂_i| ≤ ν, |μ − μ̂| ≤ e and ‖S − Ŝ‖_F ≤ s the mean errs by |V̂_i|e + ν(|μ̂| + e), and V_iᵀSV_i by
        s|V̂_i|² + (2ν|V̂_i| + ν²)(‖Ŝ‖_F + s), beside the rounding of products.
        """
        M = self.basis.M
        both = tuple(np.concatenate([S, m[None, :]]) for S, m in zip(self.cov, self.mean, strict=True))
        factor = right((both[0], both[1]))
        size, spread = norm_above(self.mean[0]) * UP, norm_above(self.cov[0]) * UP + self.cov_error
        laws = []
        for start in range(0, len(X), CHUNK):
            points = X[start : start + CHUNK]
            V, sizes, errors = self.basis.whitened(points)
            left_over, off = self.basis.residual(points, V, sizes, errors)
            (high, low), rounded = product(left(V), factor)
            turned: Pair = high[:, :M], low[:, :M]
            within_inducing, in_dot = dot(V, turned)
            variance = add(left_over, within_inducing)
            second = in_dot + sizes * rounded + self.cov_error * sizes**2 + (2.0 * sizes + errors) * errors * spread
            total = np.abs(left_over[0]) + np.abs(within_inducing[0])
            laws.append(
                Latent(
                    (high[:, M], low[:, M]),
                    variance,
                    UP * (rounded + sizes * self.mean_error + errors * (size + self.mean_error)) + LEAST,
                    UP * (off + second + 8.0 * U2 * total) + LEAST,
                )
            )
        return joined(laws)


def joined(laws: list[Latent]) -> Latent:
    """The laws at all rows."""
    pairs = [
        tuple(np.concatenate([getattr(law, name)[part] for law in laws]) for part in (0, 1))
        for name in ("mean", "variance")
    ]
    errors = [np.concatenate([getattr(law, name) for law in laws]) for name in ("mean_error", "variance_error")]
    return Latent((pairs[0][0], pairs[0][1]), (pairs[1][0], pairs[1][1]), *errors)


def whitened_law(kernel: EnclosedKernel, Z: Float, mean: Float, factor: Float, jitter: float) -> SparseLaw:
    """v ~ N(μ, CCᵀ), with exact μ and C: KL = ½[Σ C_ij² − M − 2 Σ log C_ii + |μ|²]  (P-26)."""
    _in_range("mean", np.abs(mean).max(initial=0.0), zero=True)
    _in_range("factor", np.abs(factor).max(initial=0.0))
    _in_range("factor", factor.diagonal().min())
    basis = _PairBasis.of(kernel, Z, jitter)
    S, rounded = multiply(_exactly(factor), _exactly(factor))
    return SparseLaw(basis, _exactly(mean), S, LEAST, rounded + LEAST, _from_standard(mean, factor))


def updated_law(
    kernel: EnclosedKernel, Z: Float, prior: tuple[Float, Float], mean: Float, factor: Float, jitter: float
) -> SparseLaw:
    """v = μ₁ + C₁z, z ~ N(μ, CCᵀ), ``prior`` = (μ₁, C₁), all exact: the KL of z from N(0, I)  (N-data-prior).

    With C₁C known to within e in the Frobenius norm, its square errs by (2‖C₁C‖ + e)e.
    """
    for name, vector, matrix in (("prior_", *prior), ("", mean, factor)):
        _in_range(f"{name}mean", np.abs(vector).max(initial=0.0), zero=True)
        _in_range(f"{name}factor", np.abs(matrix).max(initial=0.0))
        _in_range(f"{name}factor", matrix.diagonal().min())
    basis = _PairBasis.of(kernel, Z, jitter)
    prior_factor = _exactly(prior[1])
    whole, error = multiply(prior_factor, _exactly(np.ascontiguousarray(factor.T)))
    S, rounded = multiply(whole, whole)
    moved, off = multiply(prior_factor, _exactly(mean[None, :]))
    mu = add(_exactly(prior[0]), (moved[0][:, 0], moved[1][:, 0]))
    off = UP * (off + 8.0 * U2 * (norm_above(prior[0]) + norm_above(moved[0]))) + LEAST
    apart = UP * (rounded + (2.0 * norm_above(whole[0]) * UP + error) * error) + LEAST
    return SparseLaw(basis, mu, S, off, apart, _from_standard(mean, factor))


def _exactly(values: Float) -> Pair:
    """Doubles as pairs."""
    return values, np.zeros_like(values)


def _from_standard(mean: Float, factor: Float) -> Any:
    """KL[N(μ, CCᵀ)‖N(0, I)] = ½[Σ C_ij² − M − 2 Σ log C_ii + |μ|²] as a ball, for exact μ and C."""
    C, mu = flat(_exactly(factor)), _exactly(mean)
    with at_bits(BITS):
        kl = ball(*dot(C, C)) - len(mean) + ball(*dot(mu, mu))
        for c in factor.diagonal():
            kl -= 2 * exact(float(c)).log()
        return kl / 2


def free_law(kernel: EnclosedKernel, Z: Float, mean: Float, cov: Float, jitter: float) -> SparseLaw:
    """u ~ N(a, B), with exact a and B: μ = L⁻¹a, S = L⁻¹BL⁻ᵀ, KL = ½[tr S − M − log|B| + log|LLᵀ| + |μ|²]  (P-26).

    R stands for L⁻¹ = (I + T)⁻¹R: with ‖(I + T)⁻¹ − I‖ ≤ t the vector Ra moves by t|Ra|, and RBRᵀ by (2t + t²)‖RBRᵀ‖_F.
    """
    _in_range("mean", np.abs(mean).max(initial=0.0), zero=True)
    _in_range("cov", np.abs(cov).max(initial=0.0))
    basis = _PairBasis.of(kernel, Z, jitter)
    A = basis.factor
    B = cov, np.zeros_like(cov)
    spread = verified(B, 0.0, floor=0.0, target=1e-12, name="cov")
    mu, off = A.whitened((mean, np.zeros_like(mean)))
    off = UP * (off + A.turned * (norm_above(mu[0]) + off))
    half, first = multiply(A.R, B)
    S, second = multiply(half, A.R)
    apart = UP * (first * A.norm + second)
    apart = UP * (apart + (2.0 + A.turned) * A.turned * (norm_above(S[0]) + apart)) + LEAST
    trace, in_trace = _sum((S[0].diagonal(), S[1].diagonal()), np.zeros(basis.M))
    square, in_square = dot(mu, mu)
    with at_bits(BITS):
        kl = ball(trace, in_trace + math.sqrt(basis.M) * apart) - basis.M - spread.log_det() + A.log_det()
        kl += ball(square, in_square + UP * (2.0 * norm_above(mu[0]) + off) * off)
        kl /= 2
    return SparseLaw(basis, mu, S, off, apart, kl)


def collapsed_law(
    kernel: EnclosedKernel, parts: Parts, Z: Float, noise: float, power: float, jitter: float
) -> SparseLaw:
    """v ~ N(A⁻¹b, A⁻¹), A = I + Σ V_iV_iᵀ/D_i, b = Σ V_i y_i/D_i, D_i = p(k(x_i, x_i) − |V_i|²) + σ²  (P-27); one pass.

    KL = ½[log|A| − M + tr A⁻¹ + |A⁻¹b|²].  With |V_i − V̂_i| ≤ ν_i and D_i q̂_i = 1 + η, |η| ≤ η_i, the sums change by
    at most Σ_i q_i[(2|V̂_i| + ν_i)ν_i + |V̂_i|²η_i] and Σ_i q_i|y_i|[ν_i + |V̂_i|η_i], q_i = q̂_i(1 + 2η_i), beside
    their rounding.
    """
    _in_range("noise", noise)
    if power > LARGEST:
        raise ValueError(f"power: expected a number up to {LARGEST:g}, got {shown(power)}")
    basis = _PairBasis.of(kernel, Z, jitter)
    sums = _Sums.empty(basis.M)
    for X, y in parts():
        _in_range("y", np.abs(y).max(initial=0.0), zero=True)
        for start in range(0, len(X), CHUNK):
            rows = slice(start, start + CHUNK)
            _add(sums, basis, X[rows], y[rows], noise, power)
    return sums.law(basis)


@dataclass(eq=False)
class _Sums:
    """Σ V_iV_iᵀ/D_i and Σ V_i y_i/D_i side by side, (M, M + 1), and bounds on the norms of the errors of both."""

    high: Float
    low: Float
    gram_error: float = 0.0
    fit_error: float = 0.0

    @staticmethod
    def empty(M: int) -> _Sums:
        return _Sums(np.zeros((M, M + 1)), np.zeros((M, M + 1)))

    def law(self, basis: _PairBasis) -> SparseLaw:
        M = basis.M
        G = self.high[:, :M].copy(), self.low[:, :M].copy()
        rows = np.diag_indices(M)
        diagonal = add((G[0][rows], G[1][rows]), (np.ones(M), np.zeros(M)))
        G[0][rows], G[1][rows] = diagonal
        rounded = 8.0 * U2 * math.sqrt(M) * (1.0 + float(np.abs(diagonal[0]).max(initial=0.0)))
        error = UP * (math.sqrt(2.0) * self.gram_error + rounded)
        A = verified(G, error, floor=1.0, target=1e-15, name="I + VD⁻¹Vᵀ")
        mu, off = A.solve((self.high[:, M].copy(), self.low[:, M].copy()), self.fit_error)
        S, apart = A.inverse()
        trace, in_trace = _sum((S[0].diagonal(), S[1].diagonal()), np.zeros(M))
        square, in_square = dot(mu, mu)
        with at_bits(BITS):
            kl = A.log_det() - M + ball(trace, in_trace + math.sqrt(M) * apart)
            kl += ball(square, in_square + UP * (2.0 * norm_above(mu[0]) + off) * off)
            kl /= 2
        return SparseLaw(basis, mu, S, off, apart, kl)


def _add(sums: _Sums, basis: _PairBasis, X: Float, y: Float, noise: float, power: float) -> None:
    """Add the terms of some rows."""
    n = len(X)
    V, sizes, errors = basis.whitened(X)
    D: Pair = np.full(n, noise), np.zeros(n)
    off = np.zeros(n)
    if power > 0.0:
        left_over, apart = basis.residual(X, V, sizes, errors)
        scaled = times(left_over, (np.full(n, power), np.zeros(n)))
        D = add(scaled, D)
        off = UP * (power * apart + 40.0 * U2 * (np.abs(scaled[0]) + noise)) + LEAST
    # D_i ≥ σ² in truth, as K − Q ≥ 0
    if not bool((UP * off < 0.1 * noise).all() and (D[0] > 0.5 * noise).all()):
        raise NotPositiveDefinite(
            "D = p·diag(K − Q) + σ²: expected errors far below the noise variance, but the proof knows D only to "
            f"{float(off.max()):.3g}. Usual cause: a noise variance that is small against the rounding of Kuu's inverse"
        )
    q = reciprocal(D)
    checked = add((np.ones(n), np.zeros(n)), _minus(times(q, D)))
    share = UP * (np.abs(checked[0]) + 40.0 * U2 + q[0] * off) + LEAST
    weights = UP * q[0] * (1.0 + 2.0 * share)
    weighted = times(V, (q[0][:, None], q[1][:, None]))
    fitted = times(q, (y, np.zeros(n)))
    high = np.concatenate([weighted[0], fitted[0][:, None]], axis=1).T
    low = np.concatenate([weighted[1], fitted[1][:, None]], axis=1).T
    part, rounded = product(left((V[0].T, V[1].T)), right((high, low)))
    total = add((sums.high, sums.low), part)
    own = UP * (rounded + 8.0 * U2 * (norm_above(sums.high) + norm_above(part[0]))) + LEAST
    sums.high, sums.low = total
    # the products with q err by 18u² of themselves
    share = share + 20.0 * U2
    gram = weights * ((2.0 * sizes + errors) * errors + sizes**2 * share)
    fit = weights * np.abs(y) * (errors + sizes * share)
    sums.gram_error = UP * (sums.gram_error + own + float(gram.sum()))
    sums.fit_error = UP * (sums.fit_error + own + float(fit.sum()))


def ball(value: Pair, error: float) -> Any:
    """A number that is known as a pair, as a ball."""
    return exact(float(value[0])) + exact(float(value[1])) + within(0.0, float(error))


def flat(A: Pair) -> Pair:
    """The entries of a matrix as one vector."""
    return A[0].ravel(), A[1].ravel()


def _sum(values: Pair, errors: Float) -> tuple[Pair, float]:
    """Σ values, and a bound on its error."""
    depth = 7.0 * math.ceil(math.log2(max(len(values[0]), 2)))
    return row_sums(values), UP * float(errors.sum() + depth * U2 * np.abs(values[0]).sum()) + LEAST


def _minus(a: Pair) -> Pair:
    return -a[0], -a[1]


def _in_range(name: str, value: Any, *, zero: bool = False) -> None:
    """Refuse numbers whose products could over- or underflow."""
    if not (SMALLEST <= value <= LARGEST or (zero and value <= LARGEST)):
        raise ValueError(
            f"{name}: expected numbers between {SMALLEST:g} and {LARGEST:g} for a proof, got {shown(value)}"
        )
