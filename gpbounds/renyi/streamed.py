"""The O(NM²) parts of the evidence bounds: log|B| and the quadratic forms yᵀ(B + sI)⁻¹y, B = Q + σ²I.

P outputs share the kernel: their log evidences add, so determinants count P times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, as_points, host, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import Eigen, Jitter, eigen
from gpbounds.validation import count, noise_variance
from gpbounds.whitening import CHUNK, Whitening, as_targets, slices, whiten

BLOCK = 512
"""Rows of a block of Δ: at M = 512 it costs as much as Kuf and bounds wᵀΔw up to 512 times better than √Δ_ii."""


@dataclass(frozen=True)
class Fits:
    """For shifts s (S,) and P outputs, with w = (B + sI)⁻¹y: arrays (S, P).

    Attributes
    ----------
    quadratic : array
        wᵀy = yᵀ(B + sI)⁻¹y, as a sum of squares.
    shifted : array
        s|w|², so that wᵀBw = wᵀy − s|w|².
    spread : array
        (Σ_b √(w_bᵀΔ_bb w_b))² ≥ wᵀΔw, b blocks of consecutive rows (Minkowski for |Δ^½ Σ_b w_b|).  Zeros where
        ``spread`` is not requested.
    """

    quadratic: Float
    shifted: Float
    spread: Float


@dataclass(frozen=True)
class Streamed:
    """One whitening with its targets (N, P), its noise and the number of rows of the blocks of Δ."""

    white: Whitening
    Y: Array
    noise: float
    block: int = BLOCK

    @property
    def N(self) -> int:
        """Number of data."""
        return self.white.N

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.Y.shape[1])

    @cached_property
    def ratio(self) -> float:
        """T/σ², T = Tr(K − Q)."""
        return self.white.trace / self.noise

    @cached_property
    def spectrum(self) -> Eigen:
        """Eigenvalues and eigenvectors of VVᵀ; the eigenvalues are the nonzero ones of Q."""
        gram = self.white.gram
        scale = float(gram.diagonal().sum())
        return eigen(gram, "VVᵀ", vectors=True, rounding=scale * (self.N + self.white.M) * EPS)

    @cached_property
    def log_det(self) -> float:
        """log|2πB|."""
        ratios = self.spectrum.values / self.noise
        return float(self.N * np.log(2.0 * np.pi * self.noise) + np.log1p(ratios).sum())

    def rounding(self, quadratic: float) -> float:
        """Allowance for the rounding error of ½log|K_n| + ½yᵀK_n⁻¹y, where yᵀB⁻¹y = ``quadratic``.

        Rounding changes K_n by about √N·eps·λ_max(Q), hence log|K_n|/N and yᵀK_n⁻¹y by that over σ², relatively.
        """
        steps = 4.0 + np.sqrt(self.N)
        relative = float(steps * EPS * (1.0 + self.spectrum.values[0] / self.noise))
        if relative > 1e-4:
            raise ValueError(
                f"noise: expected σ² well above the rounding error of K, {steps * EPS * self.spectrum.values[0]:.3g}, "
                f"got {self.noise:.3g}: no digit of the log evidence would be correct. Use a larger noise variance."
            )
        return 0.5 * relative * (quadratic + self.N * self.P)

    @cached_property
    def weighted_trace(self) -> float:
        """T/(σ² + λ_max(Q)) ≤ Tr(B⁻¹Δ)."""
        return self.white.trace / (self.noise + float(self.spectrum.values[0]))

    def fits(self, shifts: ArrayLike, Y: Array | None = None, *, spread: bool = False) -> Fits:
        """The quadratic forms of y, or of ``Y`` (N, P), for all shifts s ≥ 0 in one pass over Kuf: O(NM(S·P)).

        With ``spread`` the diagonal blocks of Δ are computed as well: O(N·block).
        """
        inducing, X = self.white.inducing, self.white.X
        xp = namespace(X)
        targets = self.Y if Y is None else Y
        projected = self.white.projected if Y is None else inducing.times(X, Y)
        tau = self.noise + np.atleast_1d(np.asarray(shifts, dtype=np.float64))
        S, P = tau.size, targets.shape[1]
        basis = self.spectrum.vectors
        assert basis is not None
        rotated = host(basis.T @ projected)
        coefficients = rotated[:, None, :] / (tau[None, :, None] + self.spectrum.values[:, None, None])
        lifted = inducing.lift(basis @ xp.asarray(coefficients.reshape(-1, S * P)))
        squares, spreads = xp.zeros(S * P), xp.zeros(S * P)
        for rows in slices(self.N, self.block if spread else CHUNK):
            Kxz = inducing.kernel(X[rows], inducing.Z)
            unexplained = xp.tile(targets[rows], (1, S)) - Kxz @ lifted
            squares += (unexplained * unexplained).sum(axis=0)
            if spread:
                spreads += self._spread(rows, Kxz, unexplained)
        scaled = host(squares).reshape(S, P) / tau[:, None]
        return Fits(
            scaled + (coefficients**2).sum(axis=0),
            (tau - self.noise)[:, None] / tau[:, None] * scaled,
            (host(spreads).reshape(S, P) * (self.noise / tau[:, None])) ** 2,
        )

    def _spread(self, rows: slice, Kxz: Array, w: Array) -> Array:
        """√(wᵀΔw)/σ² for the columns of w on one block of rows, rounded up, and at most Σ|w_i|√Δ_ii/σ²."""
        inducing, X = self.white.inducing, self.white.X[rows]
        xp = namespace(X)
        u = w / np.sqrt(self.noise)
        uKu = (u * (inducing.kernel(X) @ u / self.noise)).sum(axis=0)
        uQu = ((inducing.chol.solve_lower(Kxz.T @ u) / np.sqrt(self.noise)) ** 2).sum(axis=0)
        rounding = (w.shape[0] + self.white.M) * EPS * uKu
        diagonal = xp.sqrt(self.white.residual[rows] / self.noise) @ xp.abs(u)
        return xp.minimum(xp.sqrt(xp.maximum(uKu - uQu, 0.0) + rounding), diagonal)

    def solve(self, R: Array) -> Array:
        """B⁻¹R for R (N, P), in O(NM)."""
        inducing, X = self.white.inducing, self.white.X
        basis = self.spectrum.vectors
        assert basis is not None
        weights = namespace(X).asarray(1.0 / (self.noise + self.spectrum.values))
        inner = basis @ (weights[:, None] * (basis.T @ inducing.times(X, R)))
        out = R.copy()
        for rows, fitted in inducing.transposed_times(X, inner):
            out[rows] -= fitted
        return out / self.noise


def streamed(
    kernel: Kernel, X: ArrayLike, y: ArrayLike, Z: ArrayLike, noise: float, jitter: Jitter, block: int = BLOCK
) -> Streamed:
    """Checks the arguments and whitens them in double precision; y is (N,) or (N, P)."""
    variance, rows = noise_variance(noise), count("block", block)
    points = as_points(X, "X")
    points = points.astype(np.float64, copy=False)
    centres = as_points(Z, "Z", points.shape[1]).astype(np.float64, copy=False)
    targets = as_targets(y, points)
    columns = targets[:, None] if targets.ndim == 1 else targets
    return Streamed(whiten(kernel, points, centres, columns, jitter=jitter), columns, variance, rows)
