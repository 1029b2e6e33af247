"""The proved error of `gpbounds.renyi.posterior_gap` in doubles: of the columns V, of the series, and of the sums.

Each entry of a matrix of N² entries has an error that is a sum of products x_i y_j, so that the errors of the sums cost
O(N) operations.  No entry is computed again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpbounds.arrays import Float
from gpbounds.law import FactorLaw
from gpbounds.linalg.residuals import factor_residual, inverse_norms
from gpbounds.numerics.hermite import UP, Series
from gpbounds.renyi.accuracy import U, errors_of_entries, gamma
from gpbounds.whitening import Inducing

SMALL = 0.01
"""Largest change of m and √v for which the change of a Poisson rate is bounded."""
ADDED = 2048.0
"""Additions within the blocks of a sum over pairs, rounded up; those of the blocks come on top."""


class AtRows(Protocol):
    """What the errors need of `gpbounds.renyi.log_concave.Latent`."""

    whitener: Inducing
    law: FactorLaw
    X: Float
    prior: Float
    residual: Float
    variance: Float
    mean: Float
    series: Series
    pull: Float
    excess: Float


@dataclass(frozen=True, eq=False)
class Columns:
    """Errors of q at the rows.

    Attributes
    ----------
    entry : float
        κ, of an entry of K.
    proved : bool
        Whether κ is proved.
    length, moved : arrays (N,)
        At least |V_i|, and |V*_i − V_i| for the exact column V*_i.
    half : array (N,)
        At least the error of CᵀV_i.
    mean, deviation : arrays (N,)
        At least the errors of m_i and of s_i.
    size : float
        At least ‖C‖.
    sums : float
        γ of sums over the M entries of a column.
    """

    entry: float
    proved: bool
    length: Float
    moved: Float
    half: Float
    mean: Float
    deviation: Float
    size: float
    sums: float

    def of_Q(self, W: Float) -> float:
        """At least Σ W_i W_j |error of Q_ij|."""
        a, b = float(W @ self.length), float(W @ self.moved)
        return UP * (2.0 * a * b + b * b + self.sums * a * a)

    def of_K(self, W: Float) -> float:
        """At least Σ W_i W_j |error of K_ij|."""
        return UP * self.entry * float(W.sum()) ** 2

    def of_Delta(self, W: Float, roots: Float) -> float:
        """At least Σ W_i W_j |error of Δ_ij|; ``roots`` are those of the diagonal of K."""
        return self.of_K(W) + self.of_Q(W) + 3.0 * U * float(W @ roots) ** 2

    def of_Sigma(self, W: Float, roots: Float, s: Float) -> float:
        """At least Σ W_i W_j |error of Σ_ij|; ``s`` are the standard deviations."""
        a, b = float(W @ s), float(W @ self.half)
        return self.of_Delta(W, roots) + UP * (2.0 * a * b + b * b + (self.sums + 3.0 * U) * a * a)


def columns(latent: AtRows) -> Columns:
    """The errors of V, m and s.

    Claim N-fisher-rounding.  Proof.  (1) L, whose product is LLᵀ = Kuu + jI + E, ‖E‖ ≤ e, defines v where j ≥ e: U is then
    observed with noise of covariance jI + E ⪰ 0.  Otherwise the exact factor is L(I + T) with a triangular T,
    T + Tᵀ + TTᵀ = −L⁻¹EL⁻ᵀ, whose norm is φ at most, hence √2‖T‖_F ≤ φ + ‖T‖_F² and ‖T‖_F ≤ φ where φ ≤ ¼, so that
    columns change by at most 1.5φ of their length.  (2) A triangular solve has V = L⁻¹(k + δ),
    |δ| ≤ γ_(M+3)‖L‖_F|V| + κ√M (N-Q).  (3) m = wᵀV, and s² = k(x, x) − |V|² + |CᵀV|², each sum of M products; |s* − s| is
    at most the error of s² over s, and at most its root.  QED
    """
    whitener, law, M = latent.whitener, latent.law, latent.whitener.M
    both = np.concatenate([latent.X, whitener.Z])
    entry, proved = errors_of_entries(whitener.kernel, both, both)
    L = np.asarray(whitener.chol.L)
    Kuu = np.asarray(whitener.kernel(whitener.Z))
    e = UP * (factor_residual(L, Kuu, whitener.chol.jitter) + M * entry)
    _, size, off = inverse_norms(L)
    floor = whitener.chol.jitter - e
    inverse = min(size / (1.0 - off) if off < 0.5 else math.inf, 1.0 / math.sqrt(floor) if floor > 0.0 else math.inf)
    share = UP * e * inverse**2
    turned = 0.0 if floor >= 0.0 else 1.5 * share if share <= 0.25 else math.inf
    length = UP * np.sqrt(np.maximum(latent.prior - latent.residual, 0.0) + 4.0 * (M + 4.0) * U * latent.prior)
    solved = gamma(M + 3.0) * UP * float(np.linalg.norm(L)) * length + entry * math.sqrt(M)
    moved = UP * (inverse * solved * (1.0 + turned) + turned * length)
    sums, C = gamma(M + 4.0), law.factor
    absolute = np.abs(C)
    size_of_C = UP * math.sqrt(float(absolute.sum(axis=0).max()) * float(absolute.sum(axis=1).max()))
    size_of_C = min(size_of_C, UP * float(np.linalg.norm(C)))
    half = UP * (size_of_C * moved + sums * UP * float(np.linalg.norm(C)) * length)
    s = np.sqrt(latent.variance)
    of_mean = UP * float(np.linalg.norm(law.mean)) * (moved + sums * length) + 2.0 * U * np.abs(latent.mean)
    of_square = entry + 2.0 * length * moved + moved**2 + 2.0 * s * half + half**2
    of_square += 2.0 * sums * (length**2 + s * s) + 4.0 * U * (latent.prior + s * s)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = UP * np.fmin(of_square / s, np.sqrt(of_square))
    return Columns(entry, proved, length, moved, half, of_mean, deviation, size_of_C, sums)


def rounding(latent: AtRows) -> tuple[float, bool]:
    """At least the error of twice the bound of N-fisher as it is computed in doubles, and whether this is proved.

    Claim N-fisher-rounding.  Proof.  With A_i the norm of the coefficients of r_i, which are off by α_i in norm at the exact
    m and s, |Cov*(r_i, r_j) − Cov(r_i, r_j)| ≤ A_iα_j + α_iA_j + α_iα_j + F_iF_j s_is_j|ρ* − ρ|, as
    |Σ a_ik a_jk(ρ*^k − ρ^k)| ≤ |ρ* − ρ|Σ k|a_ik a_jk| and Σ_k k a_k² = s²E g'² ≤ s²F²; and s_is_j|ρ* − ρ| is at most the
    error of Σ_ij and s_j|s_i* − s_i| + s_i|s_j* − s_j| + their product.  The rest is the error of products.  QED
    """
    at, series = columns(latent), latent.series
    shift = at.mean + series.stretch * at.deviation
    if series.stretch > 1.0 and not float(shift.max()) < SMALL:
        return math.inf, False
    of_mean = series.mean_error + UP * series.first * shift
    of_slope = series.slope_error + UP * series.second * shift
    of_shape = series.error + UP * series.first * shift
    with np.errstate(over="ignore", invalid="ignore"):
        total = (
            _shapes(latent, at, of_shape)
            + _lines(latent, at, of_mean, of_slope)
            + _training(latent, at, of_mean, of_slope)
        )
    return (UP * total, at.proved and series.proved) if math.isfinite(total) else (math.inf, False)


def _product(x: Float, dx: Float) -> float:
    """At least Σ_ij |(x_i + dx_i)(x_j + dx_j) − x_i x_j|."""
    a, b = float(x.sum()), float(dx.sum())
    return UP * (2.0 * a * b + b * b)


def _added(latent: AtRows) -> float:
    """γ of the additions of a sum over all pairs."""
    blocks = len(latent.X) / 512.0 + 1.0
    return gamma(ADDED + blocks * blocks)


def _shapes(latent: AtRows, at: Columns, of_shape: Float) -> float:
    """The error of Σ K_ij Cov(r_i, r_j)."""
    series, roots, s = latent.series, UP * np.sqrt(latent.prior), UP * np.sqrt(latent.variance)
    A, F = series.norms, roots * series.first
    orders = series.coefficients.shape[1]
    total = 2.0 * at.of_K(A) + at.of_Q(A) + 3.0 * U * float(A @ roots) ** 2
    total += _product(roots * A, roots * of_shape) + at.of_Sigma(F, roots, s)
    total += _product(F * s, F * at.deviation) + 8.0 * U * float(F @ s) ** 2
    return total + (gamma(3.0 * orders + 12.0) + _added(latent)) * float(roots @ A) ** 2


def _lines(latent: AtRows, at: Columns, of_mean: Float, of_slope: Float) -> float:
    """The error of ḡᵀΔḡ + tr ΛΔΛ(Q + Σ)."""
    series, roots, s = latent.series, UP * np.sqrt(latent.prior), UP * np.sqrt(latent.variance)
    rest = UP * np.sqrt(latent.residual + at.entry + 2.0 * at.length * at.moved + at.moved**2 + 4.0 * U * latent.prior)
    both = UP * np.sqrt(latent.prior + latent.variance)
    g, slope = np.abs(series.mean), np.abs(series.slope)
    total = _product(g * rest, of_mean * rest) + at.of_Delta(g + of_mean, roots)
    total += _product(slope * rest * both, of_slope * rest * both) + at.of_Delta((slope + of_slope) * both, roots)
    by_sum = (slope + of_slope) * rest
    total += at.of_Q(by_sum) + at.of_Sigma(by_sum, roots, s) + 4.0 * U * float(by_sum @ both) ** 2
    weights = float(g @ rest) ** 2 + float((slope * rest) @ both) ** 2
    return total + (gamma(12.0) + _added(latent)) * weights


def _training(latent: AtRows, at: Columns, of_mean: Float, of_slope: Float) -> float:
    """The error of |Φᵀḡ − w|² + ‖BC‖_F²."""
    series, law, (N, M) = latent.series, latent.law, (len(latent.X), latent.whitener.M)
    g, slope = np.abs(series.mean), np.abs(series.slope)
    off = float(g @ at.moved) + float((at.length + at.moved) @ of_mean)
    off += gamma(N + 4.0) * (float(g @ at.length) + float(np.linalg.norm(law.mean)))
    pull = float(np.linalg.norm(latent.pull))
    total = UP * (2.0 * pull * off + off * off + gamma(M + 4.0) * pull * pull)
    _, size, apart = inverse_norms(law.factor)
    if not apart < 0.5:
        return math.inf
    squares = at.length**2
    bent = float(slope @ (2.0 * at.length * at.moved + at.moved**2)) + float(of_slope @ (at.length + at.moved) ** 2)
    bent += gamma(N + 4.0) * float(slope @ squares)
    norm = UP * float(np.linalg.norm(law.factor))
    wide = size * apart / (1.0 - apart) + at.size * bent + gamma(M + 6.0) * norm * float(slope @ squares)
    wide += 4.0 * U * (size + norm + float(slope @ squares) * at.size)
    excess = float(np.linalg.norm(latent.excess))
    return total + UP * (2.0 * excess * wide + wide * wide + gamma(M * 1.0 * M + 4.0) * excess * excess)
