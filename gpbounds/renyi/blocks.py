"""Computations that stream K in blocks of rows: bounds on λ_max(K − Q), Tr(B⁻¹Δ), ‖Δ‖_F, and products with K + σ²I."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpbounds.arrays import EPS, Array, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import cholesky, eigen
from gpbounds.numerics.log1p import log1p_sum_bounds
from gpbounds.renyi.streamed import Streamed, host
from gpbounds.whitening import slices

DENSE = 2000
"""Largest N at which K − Q is stored and its largest eigenvalue computed."""

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
        to s, their squares sum to q, and each is at most λ_max(D).
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

    Up to N = 2000 λ_max(D) is computed as an eigenvalue and its rounding error is added.  Beyond, it is bounded by the
    least of Tr D, t/n + √((1 − 1/n)(‖D‖_F² − t²/n)) with t = Tr D (Wolkowicz and Styan), and max_i (|D|x)_i/x_i for
    x = 1 and x = √diag(D) (Collatz and Wielandt).
    """
    white, noise = problem.white, problem.noise
    xp = namespace(white.X)
    nonzero = xp.flatnonzero(white.residual > 0.0)
    if nonzero.size == 0:
        return Moments(0.0, 0.0, 0.0, 0.0, (0.0, 0.0), np.zeros(W.shape[1]))
    X, W_nonzero = white.X[nonzero], W[nonzero]
    V = white.inducing.whiten(X) / np.sqrt(noise)
    inner = cholesky(xp.eye(white.M) + white.gram / noise, name="I + VVᵀ/σ²")
    R = inner.solve_lower(V).T  # B⁻¹ = (I − RRᵀ)/σ²
    DR = xp.zeros_like(R)
    diagonal = white.residual[nonzero] / noise
    n = int(nonzero.size)
    positive = xp.stack([xp.ones(n), xp.sqrt(diagonal)], axis=1)
    row_sums, forms = xp.zeros((n, 2)), xp.zeros(W_nonzero.shape[1])
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
        forms += xp.einsum("ip,ip->p", W_nonzero[rows], D @ (weight[:, None] * W_nonzero[start:]))
        magnitude = xp.abs(D)
        row_sums[rows] += magnitude @ positive[start:]
        row_sums[stop:] += magnitude[:, stop - start :].T @ positive[rows]
        if dense is not None:
            dense[rows, start:], dense[start:, rows] = D, D.T
    trace = float(diagonal.sum())
    if dense is not None:
        norm = float(dense.diagonal().max()) + float(problem.spectrum.values[0]) / noise
        spectrum = eigen(dense, "K - Q", rounding=max(1e-10, 4.0 * (n + white.M) * EPS) * norm)
        largest = float(spectrum.values[0]) * (1.0 + n * EPS)
    else:
        spread = max(squares - trace * trace / n, 0.0)
        largest = trace / n + float(np.sqrt((1.0 - 1.0 / n) * spread))
        largest = min(largest, *(float(v) for v in (row_sums / positive).max(axis=0)))
    largest = min(largest, trace)
    RDR = R.T @ DR
    s = max(trace - float(RDR.trace()), 0.0)
    q = max(squares - 2.0 * float((DR * DR).sum()) + float((RDR * RDR).sum()), 0.0)
    log_det = log1p_sum_bounds(s, q, min(n, white.rank), largest)
    return Moments(largest, squares, s, q, log_det, host(forms))


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
