"""log|I + Δ/σ²| from above, Δ = K − Q, by blocks, and by blocks given earlier rows (N-fischer, N-fischer-vecchia).

With B = Q + σ²I and C = I + Δ/σ² the determinant of K_n = K + σ²I is at most |B|·|C|, and |C| is at most the product of
the determinants of its diagonal blocks, or of the conditional covariances of blocks given some earlier rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpbounds.arrays import Array, host, namespace
from gpbounds.errors import NotPositiveDefinite
from gpbounds.kernels import Kernel
from gpbounds.linalg import cholesky
from gpbounds.linalg.parallel import share
from gpbounds.renyi.accuracy import Accuracy, gamma
from gpbounds.renyi.streamed import LogDeterminant, Streamed
from gpbounds.vecchia.blocks import Blocks, near

LARGEST = 0.25
"""Largest change of C, relative to its least eigenvalue 1, for which the determinants are bounded."""


def partition(kernel: Kernel, X: Array, block: int | Blocks, *, conditioned: bool) -> Blocks:
    """Parts of at most ``block`` rows that lie near each other; if ``conditioned``, with as many near earlier rows.

    The parts and their order (of seed 0) are the same in both cases, so that conditioning never raises the bound.
    `Blocks` of the caller are taken as they are, with their sets if ``conditioned``.
    """
    if isinstance(block, Blocks):
        if block.order.size != len(X):
            raise ValueError(f"block: expected Blocks of {len(X)} rows, as X has, got Blocks of {block.order.size}")
        alone = [np.empty(0, dtype=np.int64)] * len(block.parts)
        return block if conditioned else Blocks(block.order, block.parts, alone)
    return near(kernel, X, block=block, neighbours=block if conditioned else 0, rng=0)


def of_blocks(problem: Streamed, blocks: Blocks) -> LogDeterminant:
    """Σ_j log|C_j|, C_j the conditional covariance of block j of z ~ N(0, C) given the rows S_j; C_jj for an empty S_j.

    O(N(n²/b)(M + n)) flops for n rows in a block and its set, b of them in the block; O(NM) memory if there are sets.
    Claims N-fischer, N-fischer-vecchia.

    Proof of the error.  Let Δ = K − Q₋, C ⪰ I, and let V be the columns computed here.  C̃ = I + (K − VᵀV)/σ² differs
    from C by F with ‖F‖_* ≤ θ (`_moved`), so C̃ ⪰ (1 − θ)I and log|C| ≤ log|C̃| + θ/(1 − θ), and the inequality holds for
    C̃.  A factor of the n rows of a block and its set has LLᵀ = C̃ + E with ‖E‖_F ≤ e: entries of K within κ, products
    |fl(VᵀV) − VᵀV| ≤ γ|V|ᵀ|V|, whose norm is at most γ‖V‖_F², and γ|L||Lᵀ|, whose norm is at most γ‖L‖_F².  So
    log|LLᵀ|, and that of its leading rows, are within √n e/(1 − θ − e) of those of C̃.  QED
    """
    white, noise = problem.white, problem.noise
    xp, kernel = namespace(white.X), white.inducing.kernel
    X, rows = white.X[xp.asarray(blocks.order)], blocks.rows
    sums: list[Any] = [None] * len(rows)
    whole = _columns(problem, X) if any(chosen.size for chosen in blocks.sets) else None

    def add(number: int, worker: int) -> None:
        here, part = xp.asarray(rows[number]), blocks.parts[number]
        points = X[here]
        V = white.inducing.whiten(points) if whole is None else whole[:, here]
        C = kernel(points)
        size = xp.diagonal(C).sum() + (V * V).sum()
        C -= V.T @ V
        C /= noise
        C.reshape(-1)[:: len(points) + 1] += 1.0
        L = cholesky(C, name="I + (K − Q)/σ²", overwrite=True).L
        logs = xp.log(xp.diagonal(L)[len(points) - (part.stop - part.start) :])
        sums[number] = xp.stack([logs.sum(), xp.abs(logs).sum(), size, (L * L).sum()])

    try:
        if xp is np:
            share(len(rows), add)
        else:
            for number in range(len(rows)):
                add(number, 0)
    except NotPositiveDefinite:  # σ² is below the rounding error of K
        return LogDeterminant(problem.diagonal.value, math.inf)
    halves, magnitudes, sizes, traces = np.asarray(host(xp.stack(sums))).T
    value = 2.0 * float(halves.sum())
    theta = _moved(problem.accuracy, white.M) / noise
    if not theta < LARGEST:
        return LogDeterminant(value, math.inf)
    n = np.array([each.size for each in rows], dtype=float)
    given = np.array([1.0 if chosen.size == 0 else 2.0 for chosen in blocks.sets])
    off = (n * problem.accuracy.entry + gamma(white.M + 8) * sizes) / noise
    off = 1.02 * (off + np.array([gamma(count + 4) for count in n]) * traces)
    if not off.max() < LARGEST:
        return LogDeterminant(value, math.inf)
    in_factors = float((given * np.sqrt(n) * off / (1.0 - theta - off)).sum())
    own = gamma(160) * float(magnitudes.sum())
    return LogDeterminant(value, 1.02 * (in_factors + theta / (1.0 - theta) + own))


def _columns(problem: Streamed, X: Array) -> Array:
    """V = L⁻¹k(Z, X), once for all rows: rows that lie in several sets then have one rounding."""
    inducing = problem.white.inducing
    V = namespace(X).empty((inducing.M, X.shape[0]))
    for rows, part in inducing.chunks(X):
        V[:, rows] = part
    return V


def _moved(known: Accuracy, M: int) -> float:
    """At least ‖Q₋ − VᵀV‖_* for columns V computed a second time, whose rounding need not be that of the first time.

    Proof.  Both times V = L⁻¹(Kuf + δ).  First ‖δ‖_F ≤ d; then ‖V‖_F, and with it d, is larger by at most a share
    γ‖L‖_F ψ(1 + …) ≤ .02.  W = L⁻ᵀV moves by at most 2.03ψ²d, so 2ωd + ψ²d² of `accuracy` becomes at most 1.03 times
    itself and 5.3(ψd)².  QED
    """
    if not gamma(M + 3) * known.size * known.inverse < 0.01:
        return math.inf
    return 1.03 * known.below + 5.4 * (known.inverse * known.columns) ** 2
