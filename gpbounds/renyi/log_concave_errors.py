"""The proved error of `gpbounds.renyi.posterior_gap` in doubles: of the columns V, of the series, and of the sums.

Each entry of a matrix of N² entries has an error that is a sum of products x_i y_j, so that the errors of the sums cost
O(N) operations.  No entry is computed again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import Float
from gpbounds.linalg.residuals import factor_residual, inverse_norms
from gpbounds.numerics.hermite import UP
from gpbounds.renyi.accuracy import U, errors_of_entries, gamma
from gpbounds.renyi.log_concave_rows import AtRows
from gpbounds.renyi.log_concave_sums import BLOCK, FAINT

SMALL = 0.01
"""Largest change of m and √v for which the change of a Poisson rate is bounded."""


@dataclass(frozen=True, eq=False)
class ColumnErrors:
    """Errors of q at the rows; V*_i = (I + T)⁻¹(V_i − L⁻¹δ_i) for the exact column V*_i.

    Attributes
    ----------
    entry : float
        κ, of an entry of K.
    proved : bool
        Whether κ is proved.
    length, solved, turned : arrays (N,)
        At least |V_i|, |δ_i|, and the change of V_i by T.
    weight, half_weight : arrays (N,)
        At least |L⁻ᵀV_i| and |L⁻ᵀSV_i|.
    inverse, size, frobenius : float
        At least ‖L⁻¹‖, ‖C‖ and ‖C‖_F.
    sums : float
        γ of sums over the M entries of a column.
    """

    entry: float
    proved: bool
    length: Float
    solved: Float
    turned: Float
    weight: Float
    half_weight: Float
    inverse: float
    size: float
    frobenius: float
    sums: float

    @property
    def moved(self) -> Float:
        """At least |V*_i − V_i|."""
        return np.asarray(UP * (self.inverse * self.solved + self.turned))

    def of_Q(self, W: Float) -> float:
        """At least Σ W_i W_j |error of Q_ij|, for W ≥ 0."""
        length, solved, turned = (float(W @ part) for part in (self.length, self.solved, self.turned))
        by_solve = 2.0 * float(W @ self.weight) * solved + (self.inverse * solved) ** 2
        by_factor = 2.0 * (length + self.inverse * solved) * turned + turned**2
        return UP * (by_solve + by_factor + self.sums * length**2)

    def of_K(self, W: Float) -> float:
        """At least Σ W_i W_j |error of K_ij|."""
        return UP * self.entry * float(W.sum()) ** 2

    def of_Delta(self, W: Float, roots: Float) -> float:
        """At least Σ W_i W_j |error of Δ_ij|; ``roots`` are those of the diagonal of K."""
        return self.of_K(W) + self.of_Q(W) + 3.0 * U * float(W @ roots) ** 2

    def of_half(self, W: Float, s: Float) -> float:
        """At least Σ W_i W_j |error of (HᵀH)_ij|, H = CᵀV; ``s`` ≥ |H_i|."""
        own, solved, turned = (float(W @ part) for part in (s, self.solved, self.turned))
        off = self.size * turned + self.sums * self.frobenius * float(W @ self.length)
        by_solve = 2.0 * float(W @ self.half_weight) * solved + (self.size * self.inverse * solved) ** 2
        by_others = 2.0 * (own + self.size * self.inverse * solved) * off + off**2
        return UP * (by_solve + by_others + (self.sums + 3.0 * U) * own**2)

    def of_Sigma(self, W: Float, roots: Float, s: Float) -> float:
        """At least Σ W_i W_j |error of Σ_ij|; ``s`` are the standard deviations."""
        return self.of_Delta(W, roots) + self.of_half(W, s)


def columns(latent: AtRows) -> ColumnErrors:
    """The errors of V and of products of its columns.

    Claim N-fisher-rounding.  Proof.  (1) L, whose product is LLᵀ = Kuu + jI + E, ‖E‖ ≤ e, defines v where j ≥ e: U is
    then observed with noise of covariance jI + E ⪰ 0.  Otherwise the exact factor is L(I + T) with a triangular T,
    T + Tᵀ + TTᵀ = −L⁻¹EL⁻ᵀ, whose norm is φ at most, hence √2‖T‖_F ≤ φ + ‖T‖_F² and ‖T‖_F ≤ φ where φ ≤ ¼, so that
    columns change by at most 1.5φ of their length.  (2) A triangular solve has V = L⁻¹(k + δ),
    |δ| ≤ γ_(M+3)‖L‖_F|V| + κ√M (N-Q), and V_iᵀL⁻¹δ_j = (L⁻ᵀV_i)ᵀδ_j.  (3) A computed solution x of Lᵀx = b has
    |L⁻ᵀb| ≤ |x|(1 + γ‖L‖_F‖L⁻¹‖), and |L⁻ᵀb| ≤ ‖L⁻¹‖|b|.  QED
    """
    whitener, C, M = latent.whitener, latent.law.factor, latent.whitener.M
    both = np.concatenate([latent.X, whitener.Z])
    entry, proved = errors_of_entries(whitener.kernel, both, both)
    L, Kuu = np.asarray(whitener.chol.L), np.asarray(whitener.kernel(whitener.Z))
    e = UP * (factor_residual(L, Kuu, whitener.chol.jitter) + M * entry)
    _, size, off = inverse_norms(L)
    floor = whitener.chol.jitter - e
    inverse = min(size / (1.0 - off) if off < 0.5 else math.inf, 1.0 / math.sqrt(floor) if floor > 0.0 else math.inf)
    share = UP * e * inverse**2
    relative = 0.0 if floor >= 0.0 else 1.5 * share if share <= 0.25 else math.inf
    norm, sums = UP * float(np.linalg.norm(L)), gamma(M + 4.0)
    length = UP * np.sqrt(np.maximum(latent.prior - latent.residual, 0.0) + 4.0 * (M + 4.0) * U * latent.prior)
    solved = UP * (gamma(M + 3.0) * norm * length + entry * math.sqrt(M))
    turned = UP * relative * (length + inverse * solved) if relative else np.zeros_like(length)
    absolute = np.abs(C)
    frobenius = UP * float(np.linalg.norm(C))
    size_of_C = min(UP * math.sqrt(float(absolute.sum(axis=0).max()) * float(absolute.sum(axis=1).max())), frobenius)
    weight, half_weight = np.empty_like(length), np.empty_like(length)
    for rows, V in whitener.chunks(latent.X):
        weight[rows] = _lengths(whitener.lift(V))
        half_weight[rows] = _lengths(whitener.lift(C @ (C.T @ V)))
    lost = gamma(M + 4.0) * norm * inverse
    factor = UP * (1.0 + lost) if lost < 0.1 else math.inf
    weight = np.fmin(factor * weight, inverse * length)
    rounded = 3.0 * inverse * sums * frobenius**2 * length  # C(CᵀV) is rounded before it is lifted
    half_weight = np.fmin(factor * half_weight + rounded, inverse * size_of_C**2 * length)
    return ColumnErrors(
        entry, proved, length, solved, turned, weight, half_weight, inverse, size_of_C, frobenius, sums
    )  # fmt: skip


def _lengths(A: Float) -> Float:
    """The lengths of the columns, rounded up."""
    return np.asarray(UP * np.sqrt(np.einsum("ij,ij->j", A, A)))


@dataclass(frozen=True, eq=False)
class SeriesErrors:
    """At least the errors of m, of s, of ḡ, of λ, and of the coefficients of r in norm, at each row."""

    centre: Float
    deviation: Float
    mean: Float
    slope: Float
    shape: Float


def moved(latent: AtRows, at: ColumnErrors) -> SeriesErrors | None:
    """The errors of the series at the exact m and s; None where they are not known.

    m = wᵀV, and s² = k(x, x) − |V|² + |CᵀV|², sums of M products; |s* − s| is at most the error of s² over s, and at
    most its root.
    """
    series, w = latent.series, latent.law.mean[:, 0]
    s = UP * np.sqrt(latent.variance)
    length_of_w = UP * float(np.linalg.norm(w))
    lifted = min(at.inverse * length_of_w, float(_lifted(latent, w, at)))
    of_mean = lifted * at.solved + length_of_w * (at.turned + at.sums * at.length) + 2.0 * U * np.abs(latent.mean)
    off = at.size * at.turned + at.sums * at.frobenius * at.length
    far = at.inverse * at.solved
    of_square = at.entry + 2.0 * (at.weight + at.half_weight) * at.solved + (1.0 + at.size**2) * far**2
    of_square += 2.0 * (at.length + far) * at.turned + at.turned**2 + 2.0 * (s + at.size * far) * off + off**2
    of_square += 2.0 * at.sums * (at.length**2 + s * s) + 4.0 * U * (latent.prior + s * s)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = UP * np.fmin(of_square / np.sqrt(latent.variance), np.sqrt(of_square))
    shift = UP * (of_mean + series.stretch * deviation)
    if not (np.isfinite(shift).all() and (series.stretch == 1.0 or float(shift.max()) < SMALL)):
        return None
    return SeriesErrors(
        of_mean,
        deviation,
        series.mean_error + UP * series.first * shift,
        series.slope_error + UP * series.second * shift,
        series.error + UP * series.first * shift,
    )


def _lifted(latent: AtRows, w: Float, at: ColumnErrors) -> float:
    """At least |L⁻ᵀw|."""
    lost = gamma(len(w) + 4.0) * UP * float(np.linalg.norm(latent.whitener.chol.L)) * at.inverse
    return UP * (1.0 + lost) * float(np.linalg.norm(latent.whitener.lift(w[:, None]))) if lost < 0.1 else math.inf


@dataclass(frozen=True, eq=False)
class Allowance:
    """What `rounding` returns.

    Attributes
    ----------
    total : float
        At least the error of twice the bound, infinite where it is not known.
    proved : bool
    mean, deviation : arrays (N,)
        At least the errors of m_i and of s_i.
    """

    total: float
    proved: bool
    mean: Float
    deviation: Float

    @classmethod
    def none(cls, N: int) -> Allowance:
        """No allowance, which is not proved."""
        return cls(0.0, False, np.zeros(N), np.zeros(N))


def rounding(latent: AtRows) -> Allowance | None:
    """The error of twice the bound of N-fisher as it is computed in doubles; None where no finite one is known.

    Claim N-fisher-rounding.  Proof.  With A_i the norm of the coefficients of r_i, which are off by α_i in norm at the
    exact m and s, |Cov*(r_i, r_j) − Cov(r_i, r_j)| ≤ A_iα_j + α_iA_j + α_iα_j + F_iF_j s_is_j|ρ* − ρ|, as
    |Σ a_ik a_jk(ρ*^k − ρ^k)| ≤ |ρ* − ρ|Σ k|a_ik a_jk| and Σ_k k a_k² = s²E g'² ≤ s²F²; and s_is_j|ρ* − ρ| is at most
    the error of Σ_ij and s_j|s_i* − s_i| + s_i|s_j* − s_j| + their product.  The rest is the error of products.  QED
    """
    with np.errstate(over="ignore", invalid="ignore"):
        at = columns(latent)
        off = moved(latent, at)
        if off is None:
            return None
        total = UP * (_shapes(latent, at, off) + _lines(latent, at, off) + _training(latent, at, off))
    if not math.isfinite(total):
        return None
    return Allowance(total, at.proved and latent.series.proved, off.centre, off.deviation)


def _product(x: Float, dx: Float) -> float:
    """At least Σ_ij |(x_i + dx_i)(x_j + dx_j) − x_i x_j|."""
    a, b = float(x.sum()), float(dx.sum())
    return UP * (2.0 * a * b + b * b)


def _added(latent: AtRows) -> float:
    """γ of the additions of a sum over all pairs."""
    blocks = len(latent.X) / BLOCK + 1.0
    return gamma(4.0 * BLOCK + blocks * blocks)


def _shapes(latent: AtRows, at: ColumnErrors, off: SeriesErrors) -> float:
    """The error of Σ K_ij Cov(r_i, r_j)."""
    series, roots, s = latent.series, UP * np.sqrt(latent.prior), UP * np.sqrt(latent.variance)
    A, F = series.norms, roots * series.first
    orders = series.coefficients.shape[1]
    total = 2.0 * at.of_K(A) + at.of_Q(A) + 3.0 * U * float(A @ roots) ** 2
    total += _product(roots * A, roots * off.shape) + at.of_Sigma(F, roots, s)
    total += _product(F * s, F * off.deviation) + 8.0 * U * float(F @ s) ** 2
    return total + (gamma(3.0 * orders + 12.0) + FAINT**2 + _added(latent)) * float(roots @ A) ** 2


def _lines(latent: AtRows, at: ColumnErrors, off: SeriesErrors) -> float:
    """The error of ḡᵀΔḡ + tr ΛΔΛ(Q + Σ)."""
    series, roots, s = latent.series, UP * np.sqrt(latent.prior), UP * np.sqrt(latent.variance)
    rest = latent.residual + at.entry + 2.0 * at.length * at.moved + at.moved**2 + 4.0 * U * latent.prior
    rest = UP * np.sqrt(rest + at.sums * at.length**2)
    both = UP * np.sqrt(latent.prior + latent.variance)
    g, slope = np.abs(series.mean), np.abs(series.slope)
    total = _product(g * rest, off.mean * rest) + at.of_Delta(g + off.mean, roots)
    total += _product(slope * rest * both, off.slope * rest * both) + at.of_Delta((slope + off.slope) * both, roots)
    by_sum = (slope + off.slope) * rest
    total += at.of_Q(by_sum) + at.of_Sigma(by_sum, roots, s) + 4.0 * U * float(by_sum @ both) ** 2
    weights = float(g @ rest) ** 2 + float((slope * rest) @ both) ** 2
    return total + (gamma(12.0) + _added(latent)) * weights


def _training(latent: AtRows, at: ColumnErrors, off: SeriesErrors) -> float:
    """The error of |Φᵀḡ − w|² + ‖BC‖_F²."""
    series, law, (N, M) = latent.series, latent.law, (len(latent.X), latent.whitener.M)
    g, slope = np.abs(series.mean), np.abs(series.slope)
    wrong = float(g @ at.moved) + float((at.length + at.moved) @ off.mean)
    wrong += gamma(N + 4.0) * (float(g @ at.length) + float(np.linalg.norm(law.mean)))
    pull = float(np.linalg.norm(latent.pull))
    total = UP * (2.0 * pull * wrong + wrong * wrong + gamma(M + 4.0) * pull * pull)
    _, size, apart = inverse_norms(law.factor)
    if not apart < 0.5:
        return math.inf
    squares = at.length**2
    bent = float(slope @ (2.0 * at.length * at.moved + at.moved**2)) + float(off.slope @ (at.length + at.moved) ** 2)
    bent += gamma(N + 4.0) * float(slope @ squares)
    norm = UP * float(np.linalg.norm(law.factor))
    wide = size * apart / (1.0 - apart) + at.size * bent + gamma(M + 6.0) * norm * float(slope @ squares)
    wide += 4.0 * U * (size + norm + float(slope @ squares) * at.size)
    excess = float(np.linalg.norm(latent.excess))
    return total + UP * (2.0 * excess * wide + wide * wide + gamma(M * 1.0 * M + 4.0) * excess * excess)
