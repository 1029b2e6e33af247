"""Conditional variances that k(x, x) − kᵀA⁻¹k loses in its rounding: computed anew, or bounded (N-small).

A = K + σ²I of N rows and its computed factor L.  The computed difference is exactly that of A + E, ‖E‖ ≤ η, but for a
rounding of k(x, x); so its relative error is at most η/(σ² − η), and its absolute one (N + 24)u·k(x, x).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import EPS, Array, Float, host, namespace, place
from gpbounds.errors import NotPositiveDefinite, RoundingWarning
from gpbounds.kernels import Kernel
from gpbounds.kernels.finite import features
from gpbounds.kernels.pairs import U2, has_pairs, pair_covariances, pair_error, pair_variances
from gpbounds.law import triangular
from gpbounds.linalg import Cholesky
from gpbounds.linalg.pair_cholesky import PairFactor, pair_cholesky, with_diagonal
from gpbounds.linalg.pair_products import multiply
from gpbounds.linalg.pair_solve import remainder, solve_lower
from gpbounds.linalg.triangular import solve_triangular
from gpbounds.numerics.pairs import Pair, add, row_sums
from gpbounds.numerics.pairs import multiply as times
from gpbounds.once import cached_property
from gpbounds.whitening import residual_diagonal

UNIT = 0.5 * EPS
WITHIN = 0.02
"""Largest relative error of a variance that is returned as computed: 1 % of the standard deviation."""
RANK = 400
"""Largest number of features."""
ROWS = 1000
"""Rows up to which 30 digits are tried: a factor takes 11 s there."""


def factor_error(n: int, trace: Any) -> Any:
    """η: a computed Cholesky factor of A (n, n) and a solution with it are exact for A + E, ‖E‖ ≤ η = (4n + 24)u·tr A.

    |A − LLᵀ| ≤ γ|L||L|ᵀ and (L + ΔL)h = k, |ΔL| ≤ γ|L|, γ = γ_{n+1}: ‖E‖ ≤ (3γ + γ²)‖L‖_F², and ‖L‖_F² ≤ tr A/(1 − γ).
    The rest allows for 8 roundings of each entry of K.
    """
    return (4.0 * n + 24.0) * UNIT * trace


def difference_error(n: int, diagonal: Array) -> Array:
    """A bound on the rounding of k(x, x) − |h|² for h of n entries, without the error of h."""
    return (n + 24.0) * UNIT * diagonal


@dataclass(frozen=True, eq=False)
class Given:
    """f at the rows X, seen with noise of variance ``shift``: A = K + shift·I, and its computed factor."""

    kernel: Kernel
    X: Array
    shift: float
    chol: Cholesky

    @cached_property
    def error(self) -> float:
        """η of `factor_error`."""
        n = int(self.X.shape[0])
        return float(factor_error(n, float(self.kernel.diag(self.X).sum()) + n * self.shift))

    def first_order(self, X: Array, half: Array) -> Array:
        """The rounding of k(x, x) − |``half``|², to first order: (N + 24)u·k(x, x) + η|A⁻¹k|²."""
        weights = self.chol.solve_upper(half)
        squares = namespace(X).einsum("ij,ij->j", weights, weights)
        return difference_error(int(self.X.shape[0]), self.kernel.diag(X)) + self.error * squares

    def residual(self, X: Array, half: Array, within: Array) -> Array:
        """k(x, x) − kᵀA⁻¹k (n,), to be added to ``within`` ≥ 0; for any shift ≥ 0.

        Where `first_order` may be 2 % of the sum, it is the upper end, and a warning says so.
        """
        diagonal = self.kernel.diag(X)
        variance = residual_diagonal(diagonal, half)
        lost = self.first_order(X, half) > WITHIN * (variance + within)
        if bool(lost.any()):
            variance[lost], rounding, _ = self.upper_end(X[lost], half[:, lost], full=False)
            warn(int(lost.sum()), float(rounding.max()), float(diagonal.max()))
        return variance

    def residual_covariance(self, X: Array, half: Array, within: Array) -> Array:
        """K_** − K_*A⁻¹K_*ᵀ (n, n), as `residual` for its diagonal, beside a covariance ``within``."""
        xp = namespace(X)
        plain = self.kernel(X) - half.T @ half
        lost = self.first_order(X, half) > WITHIN * (xp.diagonal(plain) + xp.diagonal(within))
        if not bool(lost.any()):
            return plain
        spread, rounding, _ = self.upper_end(X, half, full=True)
        warn(int(lost.sum()), float(rounding.max()), float(self.kernel.diag(X).max()))
        return spread

    def covariance(self, X: Array, cross: Array, *, full: bool) -> Array:
        """K_** − ``cross``·A⁻¹·``cross``ᵀ (n, n), cross = k(X, rows) (n, N), or its diagonal (n,), for shift = σ².

        A variance whose rounding may exceed 2 % of it is computed anew (`again`).
        """
        half = self.chol.solve_lower(cross.T)
        diagonal = self.kernel.diag(X)
        variance = residual_diagonal(diagonal, half)
        lost = self.lost(variance, diagonal)
        again = bool(lost.any())
        if full:
            return self.again(X, half, full=True) if again else self.kernel(X) - half.T @ half
        if again:
            variance[lost] = self.again(X[lost], half[:, lost], full=False)
        return variance

    def lost(self, variance: Array, diagonal: Array) -> Array:
        """The points whose computed variance may err by more than `WITHIN`, for shift = σ²; costs O(n)."""
        allowed = difference_error(int(self.X.shape[0]), diagonal)
        if self.error >= 0.5 * self.shift:
            return namespace(variance).ones(variance.shape, dtype=bool)
        return allowed + self.error / (self.shift - self.error) * (variance + allowed) > WITHIN * variance

    def again(self, X: Array, half: Array, *, full: bool) -> Array:
        """Variances, or the covariance, of f at X given the rows: accurate, or the upper end with a warning.

        ``half`` = L⁻¹k(rows, X).  By features if the kernel has finite rank; else by `upper_end`, if its two errors are
        small beside it; else in 30 digits up to `ROWS` rows.
        """
        xp, points = namespace(X), np.asarray(host(X), dtype=np.float64)
        accurate = self._by_features(points, full)
        if accurate is not None:
            return place(accurate, xp)
        spread, rounding, above = self.upper_end(X, half, full=full)
        variance = xp.diagonal(spread) if full else spread
        if bool((rounding + above < 0.5 * WITHIN * variance).all()):
            return spread
        accurate = self._in_pairs(points, full)
        if accurate is not None:
            return place(accurate, xp)
        warn(int(points.shape[0]), float((rounding + above).max()), float(self.kernel.diag(X).max()))
        return spread

    def upper_end(self, X: Array, half: Array, *, full: bool) -> tuple[Array, Array, Array]:
        """A proved upper end of the variances (a covariance ⪰ the true one); the rounding and the excess in it.

        For any weights W, the covariance of f(X) − Wᵀy is K_** − K_*W − WᵀK_*ᵀ + WᵀAW = C + RᵀA⁻¹R ⪰ C, for the
        residual R = k(rows, X) − AW and the conditional covariance C.  W = A⁻¹k(rows, X) as computed; every product is
        charged by (N + 24)u times that of absolute values, twice.  The excess is at most |r|²/σ² in a variance.
        """
        xp, kernel, n = namespace(X), self.kernel, int(self.X.shape[0])
        W, cross, K = self.chol.solve_upper(half), kernel(self.X, X), kernel(self.X)
        sizes, AW = xp.abs(W), K @ W + self.shift * W
        bound = xp.abs(K) @ sizes + self.shift * sizes
        unit = 2.0 * (n + 24.0) * UNIT
        residual = xp.abs(cross - AW) + unit * (bound + xp.abs(cross))
        above = (residual * residual).sum(axis=0) / self.shift if self.shift > 0.0 else xp.full(X.shape[0], np.inf)
        if not full:
            diagonal = kernel.diag(X)
            spread = diagonal + ((AW - 2.0 * cross) * W).sum(axis=0)
            error = unit * (diagonal + ((bound + 2.0 * xp.abs(cross)) * sizes).sum(axis=0))
            return xp.minimum(spread + error, diagonal * (1.0 + 1e-15)), 2.0 * error, above
        prior, mixed = kernel(X), cross.T @ W
        spread = prior - mixed - mixed.T + W.T @ AW
        outer = xp.abs(cross).T @ sizes
        error = (unit * (xp.abs(prior) + outer + outer.T + sizes.T @ bound)).sum(axis=1)
        return 0.5 * (spread + spread.T) + xp.diag(error), 2.0 * error, above

    @cached_property
    def _triangle(self) -> Float | None:
        """R with RᵀR = ΦᵀΦ + σ²I, by reflections; None where R errs by too much."""
        rows = np.asarray(host(self.X), dtype=np.float64)
        phi = features(self.kernel, rows, RANK)
        if phi is None or not self.shift > 0.0:
            return None
        n, rank = phi.shape
        stacked = np.concatenate([phi, math.sqrt(self.shift) * np.eye(rank)])
        error = 8.0 * (n + rank) * rank * UNIT * float(np.linalg.norm(stacked)) / math.sqrt(self.shift)
        return triangular(stacked) if error < 0.1 * WITHIN else None

    def _by_features(self, X: Float, full: bool) -> Float | None:
        """σ²φᵀ(ΦᵀΦ + σ²I)⁻¹φ, a sum of squares: no difference is taken."""
        R = self._triangle
        if R is None:
            return None
        phi = features(self.kernel, X, RANK)
        assert phi is not None
        half = math.sqrt(self.shift) * solve_triangular(np.ascontiguousarray(R.T), np.ascontiguousarray(phi.T))
        return half.T @ half if full else np.einsum("ij,ij->j", half, half)

    @cached_property
    def _pairs(self) -> tuple[Pair, Float, float] | None:
        """L in 30 digits, its rows in the order that makes it triangular, their points, and η/σ²."""
        rows = np.asarray(host(self.X), dtype=np.float64)
        n = len(rows)
        if n > ROWS or not has_pairs(self.kernel):
            return None
        block = with_diagonal(lambda i, j: pair_covariances(self.kernel, rows[i], rows[j]), self.shift)
        try:
            factor: PairFactor = pair_cholesky(block, n, "K + σ²I")
        except NotPositiveDefinite:
            return None
        share = (factor.error + 2.0 * n * pair_error(self.kernel, rows)) / self.shift
        if factor.L[0].shape[1] < n or share > 0.1 * WITHIN:
            return None
        return (factor.L[0][factor.pivots], factor.L[1][factor.pivots]), rows[factor.pivots], share

    def _in_pairs(self, X: Float, full: bool) -> Float | None:
        """K_** − |L⁻¹k|² in 30 digits; None where its error is not small beside it."""
        if self._pairs is None:
            return None
        L, rows, share = self._pairs
        cross = pair_covariances(self.kernel, rows, X)
        w = solve_lower(L, cross)
        left = remainder(L, w, cross).largest / math.sqrt((1.0 - share) * self.shift)
        rows_of_w = np.ascontiguousarray(w[0].T), np.ascontiguousarray(w[1].T)
        high, low = row_sums(times(rows_of_w, rows_of_w))
        prior = pair_variances(self.kernel, X)
        rest = add(prior, (-high, -low))
        variance = rest[0] + rest[1]
        error = 2.0 * np.sqrt(prior[0]) * left + left * left + 100.0 * math.log2(len(rows) + 1.0) * U2 * prior[0]
        error += 2.0 * pair_error(self.kernel, np.concatenate([rows, X]))
        if not bool((error < 0.5 * WITHIN * variance).all()):
            return None
        if not full:
            return variance
        product = multiply(rows_of_w, rows_of_w)[0]
        all_of = pair_covariances(self.kernel, X, X)
        spread = add(all_of, (-product[0], -product[1]))
        return spread[0] + spread[1]


def upper_ends(computed: Array, error: Array, within: Array, diagonal: Array) -> Array:
    """``computed`` (n,) or (n, n); its upper end where ``error`` (n,) is above `WITHIN` of computed + ``within``."""
    xp, full = namespace(computed), computed.ndim == 2
    variance = xp.diagonal(computed) if full else computed
    others = xp.diagonal(within) if full else within
    lost = error > WITHIN * (xp.maximum(variance, 0.0) + others)
    if bool(lost.any()):
        warn(int(lost.sum()), float(error[lost].max()), float(diagonal.max()))
    if full:
        return computed + xp.diag(xp.where(lost, xp.maximum(-variance, 0.0) + error, 0.0))
    return xp.where(lost, xp.maximum(variance, 0.0) + error, variance)


def warn(points: int, error: float, scale: float) -> None:
    """Warn that variances are upper ends."""
    warnings.warn(
        f"variance: at {points} points the conditional variance is not large beside its rounding error, up to "
        f"{error:.2g} where the prior variance is {scale:.3g}: upper ends are returned, which are too large by up to "
        "about this error. Usual cause: a noise variance near the rounding error of K. Use a larger one.",
        RoundingWarning,
        stacklevel=3,
    )
