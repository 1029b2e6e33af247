"""What streaming K in blocks of rows adds: λ_max(K − Q) from above, Tr(B⁻¹Δ), ‖Δ‖_F, ΔW, and products with K + σ²I."""

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
"""Up to here K − Q is kept, and its largest eigenvalue computed."""

ENTRIES = 2**22
"""Entries of a block of K."""


@dataclass(frozen=True)
class Moments:
    """Of D = Δ/σ² = (K − Q)/σ².

    Attributes
    ----------
    largest : float
        At or above λ_max(D).
    squares : float
        ‖D‖_F².
    s, q : float
        Tr(B⁻¹Δ) and Tr((B⁻¹Δ)²), B = Q + σ²I.
    log_det : (float, float)
        Lower and upper bound on log|K_n| − log|B| = Σ log(1 + w_i): the w_i, eigenvalues of B⁻¹Δ, sum to s, their
        squares to q, and none is above λ_max(D).
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
    """One pass over the upper half of K: 3N²M multiplications, O(NM) memory.

    λ_max(D) is an eigenvalue with its rounding error up to N = 2000; beyond, the least of Tr D, the bound of
    Wolkowicz and Styan t/n + √((1 − 1/n)(‖D‖_F² − t²/n)), t = Tr D, and max_i (|D|x)_i/x_i for x = 1 and x = √diag(D)
    (Collatz and Wielandt).
    """
    white, noise = problem.white, problem.noise
    xp = namespace(white.X)
    free = xp.flatnonzero(white.residual > 0.0)
    if free.size == 0:
        return Moments(0.0, 0.0, 0.0, 0.0, (0.0, 0.0), np.zeros(W.shape[1]))
    X, w = white.X[free], W[free]
    V = white.inducing.whiten(X) / np.sqrt(noise)
    inner = cholesky(xp.eye(white.M) + white.gram / noise, name="I + VVᵀ/σ²")
    R = inner.solve_lower(V).T  # B⁻¹ = (I − RRᵀ)/σ²
    DR = xp.zeros_like(R)
    diagonal = white.residual[free] / noise
    n = int(free.size)
    positive = xp.stack([xp.ones(n), xp.sqrt(diagonal)], axis=1)
    reach, forms = xp.zeros((n, 2)), xp.zeros(w.shape[1])
    squares = 0.0
    dense = xp.zeros((n, n)) if n <= DENSE else None
    for rows in slices(n, max(1, ENTRIES // n)):
        start, stop = rows.start, rows.stop
        D = white.inducing.kernel(X[rows], X[start:]) / noise - V[:, rows].T @ V[:, start:]
        here = xp.arange(stop - start)
        D[here, here] = diagonal[rows]
        weight = xp.full(n - start, 2.0)  # an entry right of the block stands for its mirror image, too
        weight[: stop - start] = 1.0
        squares += float(((D * D) @ weight).sum())
        DR[rows] += D @ R[start:]
        DR[stop:] += D[:, stop - start :].T @ R[rows]
        forms += xp.einsum("ip,ip->p", w[rows], D @ (weight[:, None] * w[start:]))
        size = xp.abs(D)
        reach[rows] += size @ positive[start:]
        reach[stop:] += size[:, stop - start :].T @ positive[rows]
        if dense is not None:
            dense[rows, start:], dense[start:, rows] = D, D.T
    trace = float(diagonal.sum())
    if dense is not None:
        norm = float(dense.diagonal().max()) + float(problem.spectrum.values[0]) / noise
        found = eigen(dense, "K - Q", rounding=max(1e-10, 4.0 * (n + white.M) * EPS) * norm)
        largest = float(found.values[0]) * (1.0 + n * EPS)
    else:
        spread = max(squares - trace * trace / n, 0.0)
        largest = trace / n + float(np.sqrt((1.0 - 1.0 / n) * spread))
        largest = min(largest, *(float(v) for v in (reach / positive).max(axis=0)))
    largest = min(largest, trace)
    inside = R.T @ DR
    first = max(trace - float(inside.trace()), 0.0)
    second = max(squares - 2.0 * float((DR * DR).sum()) + float((inside * inside).sum()), 0.0)
    log_det = log1p_sum_bounds(first, second, min(n, white.rank), largest)
    return Moments(largest, squares, first, second, log_det, host(forms))


def products(kernel: Kernel, X: Array, noise: float) -> Callable[[Array], Array]:
    """V ↦ (K + σ²I)V in blocks of rows; K is kept while it has at most 2000² entries."""
    N = X.shape[0]
    kept = kernel(X) if N <= DENSE else None

    def times(V: Array) -> Array:
        if kept is not None:
            return kept @ V + noise * V
        out = noise * V
        for rows in slices(N, max(1, ENTRIES // N)):
            out[rows] += kernel(X[rows], X) @ V
        return out

    return times
