"""The O(NM²) parts of the evidence bounds: log|B| and the quadratic forms yᵀ(B + sI)⁻¹y, B = Q + σ²I.

P outputs share the kernel: their log evidences add, so determinants count P times.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import EPS, Array, Float, array_of, as_points, host, namespace
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import Eigen, Jitter, cholesky, eigen
from gpbounds.linalg.residuals import largest_eigenvalue
from gpbounds.once import cached_property
from gpbounds.renyi.accuracy import Accuracy, U, accuracy, errors_of_entries, gamma
from gpbounds.renyi.members import BLOCK
from gpbounds.rows import is_elsewhere, source
from gpbounds.rows.engines import Engine
from gpbounds.rows.program import Program, Rows, Statistics
from gpbounds.validation import count, noise_variance
from gpbounds.whitening import (
    CHUNK,
    Inducing,
    Whitened,
    Whitening,
    as_targets,
    inducing,
    residual_diagonal,
    slices,
    whiten,
    whitened,
    with_jitter,
)


@dataclass(frozen=True)
class Fits:
    """For shifts s (S,) and P outputs, with w = (B + sI)⁻¹y: arrays (S, P).

    ``below``, ``above``, ``own`` and ``weighted`` are proved for every conditioning (N-forms); the others are
    estimates.

    Attributes
    ----------
    quadratic : array
        wᵀy = yᵀ(B + sI)⁻¹y, as a sum of squares.
    shifted : array
        s|w|², so that wᵀBw = wᵀy − s|w|².
    spread : array
        (Σ_b √(w_bᵀΔ_bb w_b))² ≥ wᵀΔw, b blocks of consecutive rows (Minkowski for |Δ^½ Σ_b w_b|).  Zeros where
        ``spread`` is not requested.
    below, above : array
        Bounds on yᵀ(Q₋ + (σ² + s)I)⁻¹y, Q₋ ⪯ Q as in `Accuracy`.
    own : array
        A lower bound on yᵀ(Q + (σ² + s)I)⁻¹y; −inf where none is known.
    weighted : array
        A lower bound on (wᵀy)²/(wᵀ(K + σ²I)w) ≤ yᵀ(K + σ²I)⁻¹y, where ``spread`` is requested.
    """

    quadratic: Float
    shifted: Float
    spread: Float
    below: Float
    above: Float
    own: Float
    weighted: Float


@dataclass(frozen=True, eq=False)
class Unexplained(Statistics):
    """Sums over rows, for each column of r = y − k(X, Z)b: |r|², the sum of `spread_of_block`, and k(Z, X)r."""

    squares: Array
    spreads: Array
    seen: Array


@dataclass(frozen=True)
class LogDeterminant:
    """An upper bound on log|C|, C = I + (K − Q)/σ², as it was computed, and at least the error of that computation.

    Attributes
    ----------
    value : float
    error : float
        Infinite where rounding spoils ``value``.
    """

    value: float
    error: float

    @property
    def above(self) -> float:
        """An upper bound on log|C|, rounding included."""
        return (self.value + self.error) * (1.0 + 8.0 * U)


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

    @property
    @abstractmethod
    def diagonal_logs(self) -> float:
        """Σ_i log(1 + Δ_ii/σ²), Δ = K − Q, as computed."""

    @cached_property
    def diagonal(self) -> LogDeterminant:
        """Σ_i log(1 + Δ_ii/σ²) ≥ log|C| (N-fischer).

        Proof of the error.  log(1 + x) has slopes of at most 1 for x ≥ 0, and the errors of the Δ_ii, Δ = K − Q₋, sum
        to at most the error of T that `trace_error` states.  QED
        """
        value = self.diagonal_logs
        return LogDeterminant(value, 1.01 * (self.trace_error[0] / self.noise + gamma(80) * value))

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

    @property
    @abstractmethod
    def accuracy(self) -> Accuracy:
        """How far Q is from what was computed."""

    @property
    @abstractmethod
    def lengths(self) -> Float:
        """An upper bound on the norm of y, for each output (P,)."""

    @cached_property
    def log_det_error(self) -> float:
        """An upper bound on the error of `log_det` as log|2π(Q₋ + σ²I)|, Q₋ as in `Accuracy` (N-Q).

        LLᵀ = I + VVᵀ/σ² + E with ‖E‖_F ≤ ε gives |Σ 2 log L_ii − log|I + VVᵀ/σ²|| ≤ √M ε/(1 − ε); and log|I + Q/σ²|
        moves by at most the nuclear norm of the change of Q, divided by σ².
        """
        M, gram = self.sums.M, host(self.sums.gram)
        inner = gram / self.noise
        inner[np.diag_indices(M)] += 1.0
        trace = float(inner.diagonal().sum())
        try:
            factored = cholesky(inner, name="I + VVᵀ/σ²", overwrite=True).logdet
        except NotPositiveDefinite:  # σ² is below the rounding error of VVᵀ
            return float("inf")
        off = 1.01 * (gamma(M + 4) * trace + self.accuracy.gram / self.noise)
        if not off < 0.5:
            return float("inf")
        value = float(np.log1p(self.spectrum.values / self.noise).sum())
        own = gamma(8) * (abs(value) + self.N * abs(float(np.log(2.0 * np.pi * self.noise)))) + gamma(M) * abs(value)
        apart = abs(factored - value) + gamma(M + 4) * (abs(factored) + 2.0 * M)
        return float(1.01 * (np.sqrt(M) * off / (1.0 - off) + apart + own + self.accuracy.below / self.noise))

    @cached_property
    def trace_error(self) -> tuple[float, float]:
        """Upper bounds on the errors of T as Tr(K − Q₋) and as Tr(K − Q)."""
        known = self.accuracy
        own = 2.0 * gamma(self.sums.M + 4) * known.total[0] + self.N * known.entry + gamma(64) * self.sums.trace
        own += 4.0 * U * self.noise  # of σ² + T
        if self.sums.jitter == 0.0:
            own += 2.0 * self.N * known.factor  # K − Q₋ at rows that are rows of Z, where the computed one is 0
        return 1.01 * (own + known.below), 1.01 * (own + known.above)

    @cached_property
    def trace_above(self) -> float:
        """At least Tr(K − Q₋): the first shift."""
        return self.sums.trace + self.trace_error[0]

    @property
    def rank(self) -> tuple[int, float]:
        """n and x with log|K_n| − log|Q₋ + σ²I| ≤ Σ log(1 + w_i) + x for n numbers w_i ≥ 0, those of Q.

        K − Q is 0 at rows that are rows of Z, K − Q₋ is not: x = (‖Q₋ − Q̃‖ + ‖Q₊ − Q̃‖)/σ² in the nuclear norm.
        """
        known = self.accuracy
        more = (known.below + known.above) / self.noise if self.sums.jitter == 0.0 else 0.0
        return (self.sums.rank, more) if np.isfinite(more) else (self.N, 0.0)

    @cached_property
    def largest(self) -> float:
        """At least λ_max(Q₋)."""
        gram = largest_eigenvalue(self.sums.gram, float(self.spectrum.values[0]))
        return 1.01 * (self.accuracy.gram + self.accuracy.below) + gram

    def forms(self, combined: Combinations, total: Unexplained, lengths: Float) -> Fits:
        """The quadratic forms from the sums over all rows; ``lengths`` (P,) is at least the norm of each output."""
        rounded = gamma(self.sums.additions + self.sums.M + 4)
        trace = self.trace_above
        return combined.fits(total, self.accuracy, self.sums.inducing, lengths, rounded, self.N, trace)

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
        return Combinations(tau, host(inner), self.sums.inducing.lift(inner), self.noise)


@dataclass(frozen=True, eq=False)
class Combinations:
    """For shifts s (S,), τ = σ² + s, and P outputs: a near (τI + VVᵀ)⁻¹Vy, and b = L⁻ᵀa, weights of k(·, Z).

    Attributes
    ----------
    tau : array (S,)
    inner : array (M, S·P)
        a.
    lifted : array (M, S·P)
        b: k(X, Z)b = y − τ(B + sI)⁻¹y nearly.
    noise : float
    """

    tau: Float
    inner: Float
    lifted: Array
    noise: float

    def unexplained(self, inducing: Inducing, X: Array, Y: Array) -> tuple[Array, Array]:
        """k(X, Z), and r = y − k(X, Z)b (n, S·P) at these rows."""
        Kxz = inducing.kernel(X, inducing.Z)
        return Kxz, namespace(X).tile(Y, (1, self.tau.size)) - Kxz @ self.lifted

    def fits(
        self,
        total: Unexplained,
        known: Accuracy,
        inducing: Inducing,
        lengths: Float,
        rounded: float,
        N: int,
        trace: float,
    ) -> Fits:
        """The quadratic forms from the sums over all N rows, for b as it was computed (N-forms).

        For any b, r = y − Kfu b, C = A + eI, Q₋ = KfuC⁻¹Kuf, ρ = Kuf r/τ − Cb:

            |r|²/τ + bᵀCb − ρᵀC⁻¹ρ ≤ yᵀ(Q₋ + τI)⁻¹y ≤ |r|²/τ + bᵀCb.

        Proof.  The form is the least value of the right side over b.  With w = r/τ it is at least 2wᵀy − wᵀ(Q₋ +
        τI)w, and
        wᵀy = |r|²/τ + bᵀ(Cb + ρ), wᵀQ₋w = (Cb + ρ)ᵀC⁻¹(Cb + ρ).  QED.  So no accuracy of b is needed: what is charged
        is the rounding of r (η), of L⁻¹Kuf r (through ψ, in a square), of Lᵀb (ζ), and e.  ``rounded`` is γ of a sum
        over the rows, ``trace`` at least Tr(K − Q₋).
        """
        S, P = self.tau.size, self.inner.shape[1] // self.tau.size
        tau, b = np.repeat(self.tau, P), host(self.lifted)
        M, e, psi, size = b.shape[0], known.factor, known.inverse, known.size
        roots = np.sqrt(np.maximum(np.asarray(host(inducing.kernel.diag(inducing.Z))), 0.0))
        norm = 1.01 * np.sqrt((b * b).sum(axis=0))
        y = np.tile(lengths, S)
        with np.errstate(invalid="ignore", over="ignore"):
            eta = gamma(M + 3) * (y + 1.01 * (roots @ np.abs(b)) * np.sqrt(known.total[0]))
            eta = 1.01 * (eta + known.entry * np.abs(b).sum(axis=0) * np.sqrt(N))
            squares = host(total.squares)
            r = np.sqrt(squares)
            low_r, high_r = np.maximum(r * (1.0 - rounded) - eta, 0.0), r * (1.0 + rounded) + eta
            zeta = gamma(M + 4) * size * norm
            a = np.sqrt((self.inner**2).sum(axis=0))
            low_a, high_a = np.maximum(a * (1.0 - gamma(M + 3)) - zeta, 0.0), a * (1.0 + gamma(M + 3)) + zeta
            seen = np.asarray(host(inducing.chol.solve_lower(total.seen)))
            length = 1.01 * np.sqrt((seen * seen).sum(axis=0))
            in_seen = (rounded * np.sqrt(known.total[0] * known.total[1]) + known.entry * np.sqrt(N * M)) * high_r
            moved = psi * (in_seen + gamma(M + 4) * size * length)
            moved = (moved + np.sqrt((1.0 + e * psi * psi) * known.total[0]) * eta + 4.0 * U * length) / tau
            left = seen / tau - self.inner
            rho = 1.01 * (np.sqrt((left * left).sum(axis=0)) + moved + 4.0 * U * high_a + zeta + psi * e * norm)
            up, down = 1.0 + 16.0 * U, 1.0 - 16.0 * U
            above = up * (high_r**2 / tau + high_a**2 + e * norm**2)
            base = down * (low_r**2 / tau + low_a**2)
            below = base - rho**2
            own = base - e * norm**2 - rho**2 / (1.0 - known.share)
            kept = np.sqrt(high_a**2 + e * norm**2)
            spread = host(total.spreads) / tau
            product = base - 1.01 * kept * rho
            beside = spread * self.noise + np.sqrt(trace) * eta / tau
            curvature = self.noise * (high_r / tau) ** 2 + (kept + rho) ** 2 + beside**2
            weighted = down * np.where(product > 0.0, product * (product / (up * curvature)), 0.0)
        scaled = squares / tau
        numbers = (
            scaled + a * a,
            (tau - self.noise) / tau * scaled,
            (spread * self.noise) ** 2,
            np.maximum(np.nan_to_num(below, nan=0.0), 0.0),
            np.nan_to_num(above, nan=np.inf, posinf=np.inf),
            np.nan_to_num(own, nan=-np.inf, neginf=-np.inf) if known.share < 1.0 else np.full_like(own, -np.inf),
            np.maximum(np.nan_to_num(weighted, nan=0.0), 0.0),
        )
        return Fits(*(each.reshape(S, P) for each in numbers))


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
        total = _unexplained_sums(
            combined, self.accuracy, inducing, X, targets, self.block if spread else 0, self.white
        )
        return self.forms(combined, total, self.lengths if Y is None else lengths(targets))

    @cached_property
    def diagonal_logs(self) -> float:
        """As in the base class."""
        return _sum_of_logs(self.white.residual, self.noise)

    @cached_property
    def accuracy(self) -> Accuracy:
        """How far Q is from what was computed."""
        inducing = self.white.inducing
        return accuracy(self.white, *errors_of_entries(inducing.kernel, self.white.X, inducing.Z))

    @cached_property
    def lengths(self) -> Float:
        """An upper bound on the norm of y, for each output (P,)."""
        return lengths(self.Y)

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


def _sum_of_logs(residual: Array, noise: float) -> float:
    return float(namespace(residual).log1p(residual / noise).sum())


def lengths(Y: Array) -> Float:
    """An upper bound on the norm of each column."""
    return 1.01 * np.asarray(host(namespace(Y).sqrt((Y * Y).sum(axis=0))))


def _unexplained_sums(
    combined: Combinations,
    known: Accuracy,
    inducing: Inducing,
    X: Array,
    Y: Array,
    block: int,
    residuals: Whitening | None = None,
) -> Unexplained:
    """The sums over the rows X; with ``block`` > 0 also those of `spread_of_block`, for blocks of so many rows."""
    xp, width = namespace(X), combined.lifted.shape[1]
    squares, spreads, seen = xp.zeros(width), xp.zeros(width), xp.zeros((inducing.M, width))
    for rows in slices(int(X.shape[0]), block or CHUNK):
        Kxz, r = combined.unexplained(inducing, X[rows], Y[rows])
        squares += (r * r).sum(axis=0)
        seen += Kxz.T @ r
        if block:
            left = None if residuals is None else residuals.residual[rows]
            spreads += spread_of_block(inducing, X[rows], Kxz, r, known, left, noise=combined.noise)
    return Unexplained(squares, spreads, seen)


def spread_of_block(
    inducing: Inducing,
    X: Array,
    Kxz: Array,
    w: Array,
    known: Accuracy,
    residual: Array | None = None,
    *,
    noise: float,
) -> Array:
    """At least √(wᵀΔw)/σ² for the columns of w on one block of rows, Δ = K − Q₋, and at most about Σ|w_i|√Δ_ii/σ².

    wᵀQ₋w ≥ 2zᵀg − |Lᵀz|² − e|z|², g = k(Z, X)w, for any z, here C⁻¹g nearly (N-forms).  ``residual`` is the computed
    diagonal of Δ, which is computed again where it is not given.
    """
    xp, (n, M) = namespace(X), Kxz.shape
    u = w / np.sqrt(noise)
    K, magnitude, roots = inducing.kernel(X), xp.abs(u), xp.sqrt(inducing.kernel.diag(X))
    one = magnitude.sum(axis=0)
    uKu = (u * (K @ u / noise)).sum(axis=0)
    length_of_K = roots @ magnitude  # |u|ᵀ|K||u| ≤ (Σ|u_i|√k_ii)²
    rounded = 2.0 * gamma(n + 3) * (length_of_K / np.sqrt(noise)) ** 2 + (np.sqrt(known.entry / noise) * one) ** 2
    g = Kxz.T @ u / np.sqrt(noise)
    t = inducing.chol.solve_lower(g)
    z = inducing.chol.solve_upper(t)
    length, in_t = xp.sqrt((z * z).sum(axis=0)), xp.sqrt((t * t).sum(axis=0))
    in_g = (gamma(n + 3) * np.sqrt(known.total[1]) * length_of_K + known.entry * np.sqrt(M) * one) / np.sqrt(noise)
    zeta = gamma(M + 4) * known.size * length
    off = 2.0 * length * in_g + 2.0 * gamma(M + 3) * length * xp.sqrt((g * g).sum(axis=0))
    off += (2.0 * in_t + zeta) * zeta + known.factor * length * length + gamma(M + 3) * in_t * in_t
    explained = 2.0 * (z * g).sum(axis=0) - in_t * in_t - 1.02 * off
    if residual is None:
        V = inducing.chol.solve_lower(Kxz.T)
        residual = residual_diagonal(inducing.kernel.diag(X), V)
    allowed = residual + 2.0 * gamma(M + 4) * roots * roots + known.row
    diagonal = 1.001 * (xp.sqrt(allowed / noise) @ magnitude)
    whole = xp.sqrt(xp.maximum(uKu - xp.maximum(explained, 0.0), 0.0) + 1.02 * rounded)
    return xp.fmin(whole * (1.0 + 8.0 * U), diagonal)


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


# The O(NM²) parts of the evidence bounds for rows in partitions: as `gpbounds.renyi.streamed`, in two passes.


@dataclass(frozen=True, eq=False)
class Sums(Statistics):
    """Sums over some rows: VVᵀ, Vy, ‖y‖², Tr(K − Q), Σ log(1 + (K − Q)_ii/σ²), an integer >= rank(K − Q), the rows,
    and `errors_of_entries`.
    """

    gram: Float
    projected: Float
    squares: Float
    trace: float
    logs: float
    rank: int
    rows: int
    entry: float
    proved: bool

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.gram + other.gram,
            self.projected + other.projected,
            self.squares + other.squares,
            self.trace + other.trace,
            self.logs + other.logs,
            self.rank + other.rank,
            self.rows + other.rows,
            max(self.entry, other.entry),
            self.proved and other.proved,
        )


@dataclass(frozen=True)
class _WhitenedParts:
    """The sums over all rows, as `gpbounds.whitening.Whitened`.

    Equal rows of X count once for each partition they lie in: ``rank`` is at least that of the same rows in one array.
    """

    inducing: Inducing
    gram: Float
    projected: Float
    squares: Float
    rank: int
    trace: float
    logs: float
    N: int
    entry: float
    proved: bool

    @property
    def additions(self) -> int:
        """An upper bound on the number of additions for one entry of VVᵀ: in a partition, and up the tree."""
        return min(self.N, CHUNK + -(-self.N // CHUNK) + 64)

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return self.inducing.M

    @property
    def jitter(self) -> float:
        """The number that was added to the diagonal of Kuu."""
        return self.inducing.chol.jitter


def whitening_pass(kernel: Kernel, Z: Float, jitter: float, noise: float) -> Program:
    """The program of the first pass, whose result is a `_WhitenedParts`."""
    return Program.one_pass(partial(_sums, noise), _whole, begin=partial(inducing, kernel, Z, jitter))


def _sums(noise: float, whitener: Inducing, rows: Rows) -> Sums:
    white = whitened(whitener, rows.points, rows.Y)
    errors = errors_of_entries(whitener.kernel, white.X, whitener.Z)
    logs = _sum_of_logs(white.residual, noise)
    return Sums(white.gram, white.projected, white.squares, white.trace, logs, white.rank, len(rows.Y), *errors)


def _whole(whitener: Inducing, total: Sums) -> _WhitenedParts:
    numbers = total.rank, total.trace, total.logs, total.rows, total.entry, total.proved
    return _WhitenedParts(whitener, total.gram, total.projected, total.squares, *numbers)


def _unexplained(combined: Combinations, known: Accuracy, block: int, whitener: Inducing, rows: Rows) -> Unexplained:
    """The sums of one partition in the second pass; its blocks begin with its first row."""
    return _unexplained_sums(combined, known, whitener, rows.points, rows.Y, block)


@dataclass(frozen=True)
class _Partitioned(Problem):
    """Rows in partitions.

    Attributes
    ----------
    engine : Engine
    white : WhitenedParts
    noise : float
    block : int
        Largest number of rows of a block of Δ; no block has rows of several partitions.
    """

    engine: Engine
    white: _WhitenedParts
    noise: float
    block: int = BLOCK

    @property
    def sums(self) -> _WhitenedParts:
        """The sums of the first pass."""
        return self.white

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.white.projected.shape[1])

    def fits(self, shifts: ArrayLike, *, spread: bool = False) -> Fits:
        """As in the base class; the diagonal of Δ is computed again for ``spread``, in O(NM²)."""
        combined = self.combinations(shifts, self.white.projected)
        own, sums = self.white.inducing, partial(_unexplained, combined, self.accuracy, self.block if spread else 0)
        again = partial(inducing, own.kernel, own.Z, self.white.jitter)  # a graph holds no M × M numbers
        total = self.engine.run(Program.one_pass(sums, begin=again))
        return self.forms(combined, total, self.lengths)

    @property
    def diagonal_logs(self) -> float:
        """As in the base class; from the first pass."""
        return self.white.logs

    @cached_property
    def accuracy(self) -> Accuracy:
        """How far Q is from what was computed."""
        return accuracy(self.white, self.white.entry, self.white.proved)

    @cached_property
    def lengths(self) -> Float:
        """An upper bound on the norm of y, for each output (P,)."""
        return 1.01 * np.sqrt(self.white.squares)


def problem_of(
    kernel: Kernel, X: Any, y: Any, Z: ArrayLike, noise: float, jitter: Jitter, block: int = BLOCK
) -> Problem:
    """Checks the arguments and makes the first pass: over arrays in memory, or by partitions over any other rows.

    X and y are as in `gpbounds.rows.source`.
    """
    if not (is_elsewhere(X) or isinstance(X, np.memmap)):
        return streamed(kernel, X, y, Z, noise, jitter, block)
    variance, size = noise_variance(noise), count("block", block)
    rows = source(X, y if is_elsewhere(X) else array_of(np, "y", y))
    centres = as_points(Z, "Z", rows.D).astype(np.float64, copy=False)

    def attempt(amount: float) -> Any:
        return rows.holder.run(whitening_pass(kernel, centres, amount, variance))

    white = with_jitter(attempt, kernel, centres, jitter, sound=True)
    return _Partitioned(rows.holder, white, variance, size)
