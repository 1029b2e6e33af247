"""Computations that stream K in blocks of rows: bounds on λ_max(K − Q), Tr(B⁻¹Δ), ‖Δ‖_F, and products with K + σ²I."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import cholesky, eigen
from gpbounds.linalg.residuals import largest_eigenvalue
from gpbounds.numerics.log1p import log1p_sum_bounds
from gpbounds.renyi.accuracy import gamma
from gpbounds.renyi.streamed import Streamed, host
from gpbounds.whitening import slices

DENSE = 2000
"""Largest N at which K − Q is stored and its largest eigenvalue computed."""

TINY = 1e-300
"""Keeps the weights of rows positive."""

ENTRIES = 2**22
"""Entries of a block of K."""


@dataclass(frozen=True)
class Moments:
    """Moments of D = Δ/σ² = (K − Q)/σ².

    Attributes
    ----------
    largest : float
        An upper bound on λ_max(D).
    squares : float
        ‖D‖_F².
    s, q : float
        Tr(B⁻¹Δ) and Tr((B⁻¹Δ)²), B = Q + σ²I.
    log_det : (float, float)
        Lower and upper bound on log|K_n| − log|B| = Σ log(1 + w_i), where the w_i are the eigenvalues of B⁻¹Δ: they sum
        to s, their squares sum to q, and each is at most λ_max(D).  Here B = Q₋ + σ²I, Q₋ as in `Accuracy`, and both
        bounds allow for the rounding of s and q (N-moment-rounding).
    forms : array (P,)
        wᵀDw for each column of W.
    """

    largest: float
    squares: float
    s: float
    q: float
    log_det: tuple[float, float]
    forms: Array


def moments(problem: Streamed, W: Array) -> Moments:
    """The moments of D from one pass over the upper triangle of K: 3N²M multiplications, O(NM) memory.

    Up to N = 2000 λ_max(D) is computed as an eigenvalue, and a Cholesky factor proves a bound just above it.  Beyond,
    it is bounded by the least of Tr D, t/n + √((1 − 1/n)(‖D‖_F² − t²/n)) with t = Tr D (Wolkowicz and Styan), and
    max_i (|D|x)_i/x_i for x = 1 and x = √diag(D) (Collatz and Wielandt).
    """
    white, noise = problem.white, problem.noise
    xp = namespace(white.X)
    unknown = xp.flatnonzero(~xp.asarray(white.known))
    if unknown.size == 0:
        wide = min(problem.accuracy.below + problem.accuracy.above, problem.trace_above) / noise
        return Moments(wide, 0.0, 0.0, 0.0, (0.0, wide), np.zeros(W.shape[1]))
    X, W_unknown = white.X[unknown], W[unknown]
    V = white.inducing.whiten(X) / np.sqrt(noise)
    inner = cholesky(xp.eye(white.M) + white.gram / noise, name="I + VVᵀ/σ²")
    R = inner.solve_lower(V).T  # B⁻¹ = (I − RRᵀ)/σ²
    DR = xp.zeros_like(R)
    diagonal = white.residual[unknown] / noise
    n = int(unknown.size)
    positive = xp.stack([xp.ones(n), xp.sqrt(diagonal + 1e-9 * diagonal.mean() + TINY)], axis=1)
    row_sums, forms = xp.zeros((n, 2)), xp.zeros(W_unknown.shape[1])
    squares = 0.0
    dense = xp.zeros((n, n)) if n <= DENSE else None
    for rows in slices(n, max(1, ENTRIES // n)):
        start, stop = rows.start, rows.stop
        D = white.inducing.kernel(X[rows], X[start:]) / noise - V[:, rows].T @ V[:, start:]
        entries = xp.arange(stop - start)
        D[entries, entries] = diagonal[rows]
        weight = xp.full(n - start, 2.0)  # an entry to the right of the diagonal block counts for its mirror image, too
        weight[: stop - start] = 1.0
        squares += float(((D * D) @ weight).sum())
        DR[rows] += D @ R[start:]
        DR[stop:] += D[:, stop - start :].T @ R[rows]
        forms += xp.einsum("ip,ip->p", W_unknown[rows], D @ (weight[:, None] * W_unknown[start:]))
        magnitude = xp.abs(D)
        row_sums[rows] += magnitude @ positive[start:]
        row_sums[stop:] += magnitude[:, stop - start :].T @ positive[rows]
        if dense is not None:
            dense[rows, start:], dense[start:, rows] = D, D.T
    trace = float(diagonal.sum())
    off = Moved.of(problem, n)
    if dense is not None:
        norm = float(dense.diagonal().max()) + float(problem.spectrum.values[0]) / noise
        spectrum = eigen(dense, "K - Q", rounding=max(1e-10, 4.0 * (n + white.M) * EPS) * norm)
        largest = largest_eigenvalue(dense, float(spectrum.values[0]))
    else:
        spread = max(squares * (1.0 + gamma(3 * n)) - trace * trace / n, 0.0) + gamma(64) * trace * trace / n
        largest = (trace / n + float(np.sqrt((1.0 - 1.0 / n) * spread))) * (1.0 + gamma(64))
        largest = min(largest, *(float(v) * (1.0 + gamma(n + 8)) for v in (row_sums / positive).max(axis=0)))
    largest = min(largest + off.frobenius, problem.trace_above / noise * (1.0 + 8.0 * EPS))
    RDR = R.T @ DR
    s = max(trace - float(RDR.trace()), 0.0)
    q = max(squares - 2.0 * float((DR * DR).sum()) + float((RDR * RDR).sum()), 0.0)
    within = off.of_sums(q, trace, squares)
    rank, more = problem.rank
    low, high = log1p_sum_bounds(s, q, min(n, rank) if rank < white.N else rank, largest, within)
    log_det = low, high + more
    return Moments(largest, squares, s, q, log_det, host(forms))


@dataclass(frozen=True)
class Moved:
    """How far the computed D, and I − RRᵀ in place of σ²B⁻¹, are from the exact ones, for Q₋ (N-moment-rounding).

    Attributes
    ----------
    frobenius, nuclear : float
        At least the Frobenius and the nuclear norm of the error of D.
    inverse : float
        Spectral norm of the error of I − RRᵀ.
    rounded : float
        γ of sums over the rows.
    M : int
    """

    frobenius: float
    nuclear: float
    inverse: float
    rounded: float
    M: int

    @staticmethod
    def of(problem: Streamed, n: int) -> Moved:
        """For the sums over n rows.

        Proof.  An entry of D is off by (κ + 2γ_(M+4)k)/σ², k the largest variance, and Q₋ is within its nuclear norm of
        VᵀV.  (I + VVᵀ/σ² + E)⁻¹ is within ε/(1 − ε) of (I + VVᵀ/σ²)⁻¹ relatively, ‖E‖_F ≤ ε; the solve for R adds
        2γ‖L_I‖_F‖R‖_F, ‖R‖_F² ≤ M, a second computation of V adds 4ψd/σ, and P = (I + Q/σ²)⁻¹ moves by ‖ΔQ‖/σ².
        """
        known, noise, M = problem.accuracy, problem.noise, problem.white.M
        top = problem.white.inducing.kernel.max_variance
        variance = top if math.isfinite(top) else known.total[0]
        entry = (known.entry + 2.0 * gamma(M + 4) * variance) / noise
        moved = known.below / noise
        if bool(problem.white.known.any()):
            moved += (known.below + known.above) / noise
        whole = M + 1.01 * float(problem.white.gram.trace()) / noise
        epsilon = gamma(M + 4) * whole + known.gram / noise
        inverse = epsilon / (1.0 - epsilon) if epsilon < 0.5 else math.inf
        inverse += 3.0 * gamma(M + 4) * math.sqrt(whole * M) + moved
        inverse += 5.0 * known.inverse * known.columns / math.sqrt(noise)
        return Moved(
            1.01 * (n * entry + moved), 1.01 * (n * math.sqrt(n) * entry + moved), 1.01 * inverse, gamma(n + M + 8), M
        )

    def of_sums(self, q: float, trace: float, squares: float) -> tuple[float, float]:
        """At least the errors of s and q, which were computed as ``q`` and from Tr D = ``trace``, ‖D‖_F² = ``squares``.

        Proof.  s = Tr PD: |Tr PD − Tr P̂D̂| ≤ ‖P − P̂‖(Tr D + ‖D − D̂‖_*) + ‖D − D̂‖_*.  q = ‖P^½DP^½‖_F²: its root
        moves by ‖D − D̂‖_F, and q by ‖P − P̂‖(2 + ‖P − P̂‖)‖D‖_F².  The sums themselves: with ‖R‖² ≤ 1 and ‖R‖_F² ≤ M,
        2γM‖D‖_F and 8γ(M + 1)‖D‖_F².
        """
        size = 1.01 * squares
        in_s = self.inverse * (trace + self.nuclear) + self.nuclear
        in_s += self.rounded * (trace + 2.0 * self.M * math.sqrt(size))
        in_q = self.inverse * (2.0 + self.inverse) * size + 10.0 * self.rounded * (self.M + 1.0) * size
        in_q += 2.0 * math.sqrt(max(q, 0.0) + in_q) * self.frobenius + self.frobenius * self.frobenius
        return 1.01 * in_s, 1.01 * in_q


def products(kernel: Kernel, X: Array, noise: float) -> Callable[[Array], Array]:
    """The function V ↦ (K + σ²I)V, in blocks of rows; K is stored if N ≤ 2000."""
    N = X.shape[0]
    K = kernel(X) if N <= DENSE else None

    def times(V: Array) -> Array:
        if K is not None:
            return K @ V + noise * V
        out = noise * V
        for rows in slices(N, max(1, ENTRIES // N)):
            out[rows] += kernel(X[rows], X) @ V
        return out

    return times
