"""The O(NM²) parts of the evidence bounds: log|B| and the quadratic forms yᵀ(B + sI)⁻¹y, B = Q + σ²I.

P outputs share the kernel: their log evidences add, so determinants count P times.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, as_points, host, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import Eigen, Jitter, eigen
from gpbounds.validation import count, noise_variance
from gpbounds.whitening import CHUNK, Inducing, Whitened, Whitening, as_targets, slices, whiten

BLOCK = 512
"""Rows of a block of Δ: at M = 512 it costs as much as Kuf and bounds wᵀΔw up to 512 times better than √Δ_ii."""

LARGEST = 0.5
"""Largest error of K_n, relative to σ², for which the log evidence has an allowance."""


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


class Problem(ABC):
    """N rows with P targets, the sums of one pass over them, and a noise variance: all that bounds in O(NM²) need."""

    noise: float

    @property
    @abstractmethod
    def sums(self) -> Whitened:
        """The sums over all rows."""

    @property
    @abstractmethod
    def P(self) -> int:
        """Number of outputs."""

    @abstractmethod
    def fits(self, shifts: ArrayLike, *, spread: bool = False) -> Fits:
        """The quadratic forms of y for all shifts s ≥ 0 in one pass over Kuf: O(NM(S·P)).

        With ``spread`` the diagonal blocks of Δ are computed as well: O(N·block), beside Kuf.
        """

    @property
    def N(self) -> int:
        """Number of data."""
        return self.sums.N

    @cached_property
    def ratio(self) -> float:
        """T/σ², T = Tr(K − Q)."""
        return self.sums.trace / self.noise

    @cached_property
    def spectrum(self) -> Eigen:
        """Eigenvalues and eigenvectors of VVᵀ; the eigenvalues are the nonzero ones of Q."""
        gram = self.sums.gram
        scale = float(gram.diagonal().sum())
        return eigen(gram, "VVᵀ", vectors=True, rounding=scale * (self.N + self.sums.M) * EPS)

    @cached_property
    def log_det(self) -> float:
        """log|2πB|."""
        ratios = self.spectrum.values / self.noise
        return float(self.N * np.log(2.0 * np.pi * self.noise) + np.log1p(ratios).sum())

    def rounding(self, quadratic: float, *, entries: float = 0.0) -> float:
        """`rounding_allowance` of these rows, where yᵀB⁻¹y = ``quadratic``."""
        return rounding_allowance(
            self.N, self.P, float(self.spectrum.values[0]), quadratic, noise=self.noise, entries=entries
        )

    @cached_property
    def weighted_trace(self) -> float:
        """T/(σ² + λ_max(Q)) ≤ Tr(B⁻¹Δ)."""
        return self.sums.trace / (self.noise + float(self.spectrum.values[0]))

    def combinations(self, shifts: ArrayLike, projected: Array) -> Combinations:
        """The combinations of features that explain y at each shift, ``projected`` = V y."""
        tau = self.noise + np.atleast_1d(np.asarray(shifts, dtype=np.float64))
        S, P = tau.size, projected.shape[1]
        basis = self.spectrum.vectors
        assert basis is not None
        rotated = host(basis.T @ projected)
        coefficients = rotated[:, None, :] / (tau[None, :, None] + self.spectrum.values[:, None, None])
        inner = basis @ namespace(basis).asarray(coefficients.reshape(-1, S * P))
        return Combinations(tau, coefficients, self.sums.inducing.lift(inner), self.noise)


@dataclass(frozen=True, eq=False)
class Combinations:
    """For shifts s (S,), τ = σ² + s, and P outputs: (τI + VVᵀ)⁻¹Vy, in the basis of VVᵀ and as weights of k(·, Z).

    Attributes
    ----------
    tau : array (S,)
    coefficients : array (M, S, P)
    lifted : array (M, S·P)
        k(X, Z) lifted = y − τ(B + sI)⁻¹y.
    noise : float
    """

    tau: Float
    coefficients: Float
    lifted: Array
    noise: float

    def unexplained(self, inducing: Inducing, X: Array, Y: Array) -> tuple[Array, Array]:
        """k(X, Z), and τ(B + sI)⁻¹y (n, S·P) at these rows."""
        Kxz = inducing.kernel(X, inducing.Z)
        return Kxz, namespace(X).tile(Y, (1, self.tau.size)) - Kxz @ self.lifted

    def fits(self, squares: Array, spreads: Array) -> Fits:
        """The quadratic forms from Σ|unexplained|² and from the sum of `spread_of_block` over all rows, (S·P,) each."""
        tau, shape = self.tau[:, None], self.coefficients.shape[1:]
        scaled = host(squares).reshape(shape) / tau
        return Fits(
            scaled + (self.coefficients**2).sum(axis=0),
            (tau - self.noise) / tau * scaled,
            (host(spreads).reshape(shape) * (self.noise / tau)) ** 2,
        )


@dataclass(frozen=True)
class Streamed(Problem):
    """Rows in memory: one whitening with its targets (N, P), its noise and the number of rows of the blocks of Δ."""

    white: Whitening
    Y: Array
    noise: float
    block: int = BLOCK

    @property
    def sums(self) -> Whitening:
        """The whitening."""
        return self.white

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.Y.shape[1])

    def fits(self, shifts: ArrayLike, Y: Array | None = None, *, spread: bool = False) -> Fits:
        """As in the base class, of y, or of ``Y`` (N, P)."""
        inducing, X = self.white.inducing, self.white.X
        targets = self.Y if Y is None else Y
        combined = self.combinations(shifts, self.white.projected if Y is None else inducing.times(X, Y))
        xp, width = namespace(X), combined.lifted.shape[1]
        squares, spreads = xp.zeros(width), xp.zeros(width)
        for rows in slices(self.N, self.block if spread else CHUNK):
            Kxz, unexplained = combined.unexplained(inducing, X[rows], targets[rows])
            squares += (unexplained * unexplained).sum(axis=0)
            if spread:
                spreads += spread_of_block(
                    inducing, X[rows], Kxz, unexplained, self.white.residual[rows], noise=self.noise
                )
        return combined.fits(squares, spreads)

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


def rounding_allowance(
    N: int, P: int, largest: float, quadratic: float, *, noise: float, entries: float = 0.0
) -> float:
    """Allowance for the rounding error of ½log|K_n| + ½yᵀK_n⁻¹y, summed over P outputs, where yᵀK_n⁻¹y ≤ ``quadratic``.

    Rounding changes K_n by about √N·eps·λ_max in norm, λ_max ≤ ``largest``, which is r times its least eigenvalue or
    less.  An error of each entry of K by a factor of at most 1 ± ``entries`` adds entries·λ_max.  Between (1 − r)K_n
    and (1 + r)K_n, log|·| moves by at most −N log(1 − r) and the quadratic form by a share of r/(1 − r) at most.

    Raises
    ------
    ValueError
        if rounding may make K + σ²I indefinite.
    """
    unit = (4.0 + np.sqrt(N)) * EPS + entries
    relative = float(unit * (1.0 + largest / noise))
    if relative > LARGEST:
        raise ValueError(
            f"noise: expected σ² above twice the rounding error of K, {unit * largest:.3g}, got {noise:.3g}: rounding "
            "may make K + σ²I indefinite. Use a larger noise variance, or rigor='arb' where it is an argument."
        )
    return 0.5 * (relative / (1.0 - relative) * quadratic - np.log1p(-relative) * N * P)


def spread_of_block(inducing: Inducing, X: Array, Kxz: Array, w: Array, residual: Array, *, noise: float) -> Array:
    """√(wᵀΔw)/σ² for the columns of w on one block of rows, rounded up, and at most Σ|w_i|√Δ_ii/σ².

    ``residual`` is the diagonal of Δ.
    """
    xp = namespace(X)
    u = w / np.sqrt(noise)
    uKu = (u * (inducing.kernel(X) @ u / noise)).sum(axis=0)
    uQu = ((inducing.chol.solve_lower(Kxz.T @ u) / np.sqrt(noise)) ** 2).sum(axis=0)
    rounding = (w.shape[0] + inducing.M) * EPS * uKu
    diagonal = xp.sqrt(residual / noise) @ xp.abs(u)
    return xp.minimum(xp.sqrt(xp.maximum(uKu - uQu, 0.0) + rounding), diagonal)


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
