"""Proofs that A is positive definite, by a triangular R with RARᵀ = I + E and small E; log|A|, A⁻¹ and solves from R.

`gpbounds.linalg.pair_solve` encloses log|A| and yᵀA⁻¹y for A ⪰ λI, λ known, and says how the two differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from gpbounds.arrays import EPS, Float
from gpbounds.errors import NotPositiveDefinite
from gpbounds.linalg.pair_products import ROWS, UP, left, multiply, product, right
from gpbounds.numerics.pairs import Pair, add, row_sums
from gpbounds.numerics.pairs import multiply as times
from gpbounds.once import cached_property
from gpbounds.rigor import at_bits, exact, within

U = 0.5 * EPS
LEAST = 1e-290
"""Added to bounds: products of slices and of low parts that underflow are below it, for numbers above 1e-100."""
WITHIN = 0.1
"""Largest ‖E‖ that is accepted; the theorem holds below ½."""
BITS = 160
"""Arb's precision, in bits, for sums of numbers with 30 correct digits."""
STEPS = 8
"""Largest number of improvements of R."""


def norm_above(A: Float) -> float:
    """Upper bound on the Frobenius norm of an array of doubles, even if squares underflow.

    >>> norm_above(np.array([3.0, 4.0])) >= 5.0
    True
    """
    return UP * float(np.linalg.norm(A)) + 1e-150


def dot(a: Pair, b: Pair) -> tuple[Pair, Any]:
    """Sums of products over the last axis, and bounds on their errors: (18 + 7⌈log₂ k⌉)u² Σ|ab|, rounded up."""
    k = max(a[0].shape[-1], 1)
    with np.errstate(under="ignore"):
        sizes = np.abs(a[0] * b[0]).sum(axis=-1)
    return row_sums(times(a, b)), 1.01 * (20.0 + 7.0 * math.ceil(math.log2(k))) * U * U * sizes + LEAST


@dataclass(frozen=True, eq=False)
class Verified:
    """RARᵀ = I + E, R lower triangular with a positive diagonal, ‖E − defect‖_F ≤ error: hence A ≻ 0  (N-verified).

    A is any symmetric matrix within the error that was given to `verified`.

    Attributes
    ----------
    R : pair of arrays (n, n)
    defect : array (n, n)
    error : float
    floor : float
        Lower bound on the eigenvalues of A.
    """

    R: Pair
    defect: Float
    error: float
    floor: float

    @property
    def n(self) -> int:
        """Rows of A."""
        return int(self.defect.shape[0])

    @cached_property
    def size(self) -> float:
        """Upper bound on ‖defect‖_F."""
        return norm_above(self.defect)

    @cached_property
    def delta(self) -> float:
        """Upper bound on ‖E‖_F; below 0.1."""
        return UP * (self.size + self.error)

    @cached_property
    def norm(self) -> float:
        """Upper bound on ‖R‖, from floor·RRᵀ ⪯ RARᵀ ⪯ 1 + ‖E‖, or the Frobenius norm where that is less."""
        frobenius = norm_above(self.R[0]) * (1.0 + 4.0 * U)
        return min(frobenius, UP * math.sqrt((1.0 + self.delta) / self.floor)) if self.floor > 0.0 else frobenius

    @property
    def turned(self) -> float:
        """Upper bound on ‖(I + T)⁻¹ − I‖ for RL = I + T, L the Cholesky factor of A."""
        tau = math.sqrt(2.0) * self.delta / (1.0 + math.sqrt(1.0 - 2.0 * self.delta))
        return UP * tau / (1.0 - tau)

    def log_det(self) -> Any:
        """log|A| as a ball: −2 Σ log R_ii + tr E − ½‖E‖_F² + θ, |θ| ≤ ‖E‖_F³/(3(1 − ‖E‖_F))."""
        rest = math.sqrt(self.n) * self.error + self.size * (2e-8 * self.size + self.error) + self.error**2
        rest += self.delta**3 / (3.0 * (1.0 - self.delta))
        with at_bits(BITS):
            ball = within(0.0, UP * rest + LEAST) - exact(float(np.linalg.norm(self.defect))) ** 2 / 2
            for high, low, e in zip(self.R[0].diagonal(), self.R[1].diagonal(), self.defect.diagonal(), strict=True):
                ball += exact(e) - 2 * (exact(high) + exact(low)).log()
        return ball

    def whitened(self, b: Pair, error: float = 0.0) -> tuple[Pair, float]:
        """Rb for a vector b within ``error`` of the true one, and a bound on the norm of the error of Rb."""
        rows = self.R, (b[0][None, :], b[1][None, :])
        (high, low), rounded = multiply(*rows)
        return (high[:, 0], low[:, 0]), UP * (rounded + self.norm * error) + LEAST

    def solve(self, b: Pair, error: float = 0.0) -> tuple[Pair, float]:
        """A⁻¹b = Rᵀ(I + E)⁻¹Rb, and a bound on the norm of its error; (I + E)⁻¹w = w − Ew + θ, |θ| ≤ δ²|w|/(1 − δ)."""
        w, off = self.whitened(b, error)
        double = w[0] + w[1]
        step = self.defect @ double
        size = norm_above(double)
        gamma = 1.01 * self.n * U
        off = off / (1.0 - self.delta) + size * (
            self.delta**2 / (1.0 - self.delta) + self.error + (gamma + 2.0 * U) * self.size + 8.0 * U * U
        )
        z = add(w, (-step, np.zeros_like(step)))
        transposed = self.R[0].T, self.R[1].T
        (high, low), rounded = multiply(transposed, (z[0][None, :], z[1][None, :]))
        return (high[:, 0], low[:, 0]), UP * (rounded + self.norm * off) + LEAST

    def inverse(self) -> tuple[Pair, float]:
        """A⁻¹ as RᵀR, and a bound on the Frobenius norm of its error: δ/(1 − δ)·‖R‖‖R‖_F and the product's."""
        transposed = self.R[0].T.copy(), self.R[1].T.copy()
        S, rounded = multiply(transposed, transposed)
        off = self.delta / (1.0 - self.delta) * self.norm * norm_above(self.R[0]) * (1.0 + 4.0 * U)
        return S, UP * (rounded + off) + LEAST

    def inverse_diagonal(self) -> tuple[Pair, Float]:
        """(A⁻¹)_ii = |c_i|² − c_iᵀEc_i + θ, |θ| ≤ δ²|c_i|²/(1 − δ), c_i the columns of R; and bounds on the errors."""
        n, R = self.n, self.R
        high, low, errors = np.empty(n), np.empty(n), np.empty(n)
        for start in range(0, n, ROWS):
            columns = slice(start, min(start + ROWS, n))
            C: Pair = R[0][start:, columns].T.copy(), R[1][start:, columns].T.copy()
            squares, rounded = dot(C, C)
            double = C[0] + C[1]
            moved = double @ self.defect[start:, start:]
            first = (moved * double).sum(axis=1)
            high[columns], low[columns] = add(squares, (-first, np.zeros_like(first)))
            sizes = UP * squares[0] + LEAST
            allowed = self.delta**2 / (1.0 - self.delta) + self.error + (2.1 * n + 6.0) * U * self.size + 8.0 * U * U
            errors[columns] = UP * (rounded + allowed * sizes) + LEAST
        return (high, low), errors


def verified(A: Pair, error: float, *, floor: float, target: float, name: str = "matrix") -> Verified:
    """R with RARᵀ = I + E, from double precision, improved in double-double until ‖E‖ ≤ ``target`` where possible.

    Claim N-verified.  E is computed from A and R in double-double numbers, with a bound on its error; the proof assumes
    nothing about the factorisations that lead to R.

    Theorem.  A symmetric, R lower triangular with a positive diagonal, E = RARᵀ − I, ‖E‖_F ≤ δ < ½.  Then A ≻ 0;
    A⁻¹ = Rᵀ(I + E)⁻¹R; log|A| = −2 Σ log R_ii + tr E − ½‖E‖_F² + θ, |θ| ≤ δ³/(3(1 − δ)); and the Cholesky factor L of A
    has RL = I + T, ‖T‖_F ≤ τ = √2 δ/(1 + √(1 − 2δ)), so that |L⁻¹x − Rx| ≤ τ/(1 − τ)·|Rx|.

    Proof.  R is invertible and I + E ≻ 0, hence A = R⁻¹(I + E)R⁻ᵀ ≻ 0 and the second claim.  log|A| = −2 log|R| +
    Σ log(1 + e_i), e_i the eigenvalues of E, and |log(1 + e) − e + e²/2| ≤ |e|³/(3(1 − |e|)), Σ|e_i|³ ≤ δ³.  RL is
    lower triangular with a positive diagonal and (RL)(RL)ᵀ = I + E: it is the Cholesky factor I + T of I + E, and T +
    Tᵀ = E − TTᵀ.  T is the lower half of the right side, with half of its diagonal, so that ‖T‖_F ≤ (δ + ‖T‖_F²)/√2:
    ‖T‖_F is at most the smaller root τ of t² − √2 t + δ, or at least the larger one.  For sE, 0 ≤ s ≤ 1, T is
    continuous in s and 0 at s = 0, and the roots stay apart: it is the smaller one.  L⁻¹ = (I + T)⁻¹R.  QED

    Rounding.  The products are those of `pair_products.product`, whose bounds (N-slices) hold for every order of
    summation.  With T̂ ≈ RA off by t, Ê ≈ T̂Rᵀ off by e, both in the Frobenius norm and of lower triangles, and A known
    to ``error``: ‖E − Ê‖_F ≤ √2(e + t‖R‖_F) + ‖R‖²·error + u‖Ê‖_F, the last for the double next to a pair.  With a
    least eigenvalue ``floor`` of A, ‖R‖² ≤ (1 + δ̂)/(floor − error), δ̂ without the error of A.

    Parameters
    ----------
    A : pair of arrays (n, n)
        The lower triangle is read.
    error : float
        A bound on the Frobenius norm of the error of the symmetric matrix with this lower triangle.
    floor : float
        Lower bound ≥ 0 on the eigenvalues of the true matrix; 0 if none is known.
    target : float
    name : str
        The name of A in error messages.

    Raises
    ------
    NotPositiveDefinite
        if no ‖E‖ ≤ 0.1 is proved.

    >>> A = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> factor = verified((A, 0.0 * A), 0.0, floor=0.0, target=1e-15)
    >>> factor.delta < 1e-15, factor.log_det().contains(3)  # e^log|A| = 3
    (True, False)
    """
    whole: Pair = _mirrored(A[0]), _mirrored(A[1])
    start = _inverse_factor(whole[0], name)
    R: Pair = start, np.zeros_like(start)
    best: Verified | None = None
    for _ in range(STEPS):
        trial = _measured(whole, error, R, floor)
        falls = best is None or trial.delta < 0.5 * best.delta
        if best is None or trial.delta < best.delta:
            best = trial
        if trial.size <= target or not falls or not np.isfinite(trial.delta):
            break
        R = _improved(R, trial.defect, trial.size, name)
    assert best is not None
    if not (best.delta <= WITHIN and bool((best.R[0].diagonal() > 0.0).all())):
        raise NotPositiveDefinite(
            f"{name}: expected a matrix that can be proved positive definite, but ‖RARᵀ − I‖ is known only to be below "
            f"{best.delta:.3g}, where 0.1 is needed. Usual cause: it is singular to within the rounding of its "
            "entries; a larger noise variance or fewer points help"
        )
    return best


def _measured(A: Pair, error: float, R: Pair, floor: float) -> Verified:
    """E = RARᵀ − I by blocks of the lower triangle, for an A that equals its transpose."""
    n = A[0].shape[0]
    parts = [slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS)]
    T: Pair = np.zeros((n, n)), np.zeros((n, n))  # RA on and below the diagonal of blocks
    squares = 0.0
    for i, rows in enumerate(parts):
        known = slice(0, rows.stop)
        factor = left((R[0][rows, known], R[1][rows, known]))
        for columns in parts[: i + 1]:
            part, off = product(factor, right((A[0][columns, known], A[1][columns, known])))
            T[0][rows, columns], T[1][rows, columns] = part
            squares += (off + LEAST) ** 2
    in_first, squares = math.sqrt(squares), 0.0
    E = np.zeros((n, n))
    for j, columns in enumerate(parts):
        known = slice(0, columns.stop)
        factor_right = right((R[0][columns, known], R[1][columns, known]))
        for i in range(j, len(parts)):
            rows = parts[i]
            (high, low), off = product(left((T[0][rows, known], T[1][rows, known])), factor_right)
            if i == j:
                high, low = add((high, low), (-np.eye(len(high)), np.zeros_like(low)))
                off += 12.0 * U * U * math.sqrt(len(high)) * (1.0 + norm_above(high))
                E[rows, columns] = np.tril(high + low)
            else:
                E[rows, columns] = high + low
            squares += (off + LEAST) ** 2
    E = E + np.tril(E, -1).T
    size, frobenius = norm_above(E), norm_above(R[0]) * (1.0 + 4.0 * U)
    own = UP * (math.sqrt(2.0) * (math.sqrt(squares) + in_first * frobenius) + 1.01 * U * size) + LEAST
    square = frobenius**2
    if floor > error:
        square = min(square, (1.0 + size + own) / (floor - error))
    return Verified(R, E, UP * (own + UP * square * error), floor)


def _mirrored(A: Float) -> Float:
    """The symmetric matrix with the lower triangle of A."""
    return np.tril(A) + np.tril(A, -1).T


def _inverse_factor(A: Float, name: str) -> Float:
    """L⁻¹ of the double matrix A + shift·I, for the least shift in a ladder with which it factorises."""
    n = A.shape[0]
    if not np.isfinite(A).all():
        raise NotPositiveDefinite(f"{name}: expected finite numbers, got an overflow")
    shift, top = 0.0, float(np.abs(A.diagonal()).max(initial=0.0))
    while shift <= top:
        moved = A if shift == 0.0 else A + shift * np.eye(n)
        L, failed = scipy.linalg.lapack.dpotrf(moved, lower=1, clean=1)
        if failed == 0:
            inverse, failed = scipy.linalg.lapack.dtrtri(L, lower=1)
            if failed == 0 and np.isfinite(inverse).all():
                return np.ascontiguousarray(np.tril(inverse))
        shift = max(4.0 * shift, 4.0 * n * EPS * top)
        if shift == 0.0:
            break
    raise NotPositiveDefinite(f"{name}: expected a positive definite matrix, got one with a negative pivot")


def _improved(R: Pair, defect: Float, size: float, name: str) -> Pair:
    """R times the inverse Cholesky factor of I + E, to first order where E is small."""
    if size < 0.05:
        half = np.tril(defect)
        half[np.diag_indices_from(half)] *= 0.5
        step = np.tril(half @ (R[0] + R[1]))
        return add(R, (-step, np.zeros_like(step)))
    again = _inverse_factor(defect + np.eye(len(defect)), name)
    transposed = R[0].T.copy(), R[1].T.copy()
    (high, low), _ = multiply((again, np.zeros_like(again)), transposed)
    return np.tril(high), np.tril(low)
