"""K − Q kept within blocks of rows: PIC, and with one block the Rényi objective.  O(N(M² + n² + nM)) for blocks of n.

Blocks D_b = σ²I + aR_b = σ²CCᵀ with R_b = K_bb − V_bᵀV_b.  With B = D⁻¹Vᵀ, β = D⁻¹(Y − Vᵀw), G = VB, S = (I + G)⁻¹:

    F = −(P/2)[log|I + G| + N log 2πσ² + (1/a) Σ_b log|I + aR_b/σ²|] − ½[Σ tr(eᵀD⁻¹e) + |w|²],
    R̄ = ½[a(P·BSBᵀ + ββᵀ) − P·D⁻¹],    V̄ᵀ = P(B − BS) + βwᵀ − a(P·BSBᵀ + ββᵀ)Vᵀ.

One row a block is `fitting.diagonal`; a = 0 needs no blocks, as only the trace of R enters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fitting.backend import add_gram, inverse, lift_rows, mirrored, solve_rows
from fitting.inner import Evaluation, Gradient, Inner, inner
from fitting.streamed import PullBack, Stream
from gpbounds.arrays import Array, namespace
from gpbounds.psd import Cholesky, cholesky
from gpbounds.whitening import residual_diagonal


def log_det_ratio(E: Array, chol: Cholesky, power: float) -> float:
    """(1/a) log|I + aE| from the Cholesky factor of I + aE, without the cancellation of a small a.

    A pivot less 1 is aE_ii − Σ_{j<i} L_ij², both parts of the size of a.

    >>> import numpy as np
    >>> E = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> a = 1e-18
    >>> round(log_det_ratio(E, cholesky(np.eye(2) + a * E), a), 12)  # the trace
    2.0
    """
    xp, L = namespace(E), chol.L
    pivots = xp.diagonal(L) ** 2
    left = xp.tril(L, -1)
    change = power * xp.diagonal(E) - xp.einsum("ij,ij->i", left, left)
    small = pivots < 2.0
    return float(xp.where(small, xp.log1p(xp.where(small, change, 0.0)), xp.log(pivots)).sum()) / power


@dataclass(frozen=True)
class Block:
    """One block: its rows, within the chunk and among all, K_bb, R_b, C and (1/a) log|I + aR_b/σ²|."""

    here: slice
    rows: slice
    K: Array
    R: Array
    chol: Cholesky
    log_det: float


@dataclass(frozen=True)
class Blocks:
    """Power a in (0, 1] of the blocks of K − Q.

    Attributes
    ----------
    power, noise : float
    blocks : tuple of slices
        Consecutive rows; together they are all rows.  Each chunk of the stream must hold whole blocks.
    """

    power: float
    noise: float
    blocks: tuple[slice, ...]

    def within(self, source: Stream, rows: slice, V: Array) -> Iterator[Block]:
        """The blocks of one chunk."""
        kernel, xp = source.inducing.kernel, namespace(V)
        for block in self.blocks:
            if rows.start <= block.start and block.stop <= rows.stop:
                X, here = source.X[block], slice(block.start - rows.start, block.stop - rows.start)
                K, size = kernel(X), block.stop - block.start
                residual_diagonal(xp.diagonal(K), V[here].T)
                R = K - V[here] @ V[here].T
                scaled = R / self.noise
                chol = cholesky(self.power * scaled + xp.eye(size), name="I + aR/σ²")
                yield Block(here, block, K, R, chol, log_det_ratio(scaled, chol, self.power))

    def forward(self, source: Stream, Y: Array) -> tuple[Inner, float]:
        """q(v), and (1/a) Σ log|I + aR_b/σ²|."""
        xp, M = namespace(source.X), source.M
        G, b, penalty = xp.zeros((M, M)), xp.zeros((M, Y.shape[1])), 0.0
        root = math.sqrt(self.noise)
        for rows, _, V in source:
            for block in self.within(source, rows, V):
                whitened = block.chol.solve_lower(V[block.here]) / root
                add_gram(G, xp.ascontiguousarray(whitened))
                b += whitened.T @ (block.chol.solve_lower(Y[block.rows]) / root)
                penalty += block.log_det
        return inner(mirrored(G), b), penalty

    def evaluate(self, source: Stream, Y: Array, *, gradient: bool = True, relative_jitter: float = 0.0) -> Evaluation:
        """F, and its derivatives."""
        state, penalty = self.forward(source, Y)
        reverse = _Reverse(self, source, state, Y.shape[1]) if gradient else None
        fit = float((state.mean * state.mean).sum())
        for rows, K, V in source:
            cotangent = source.scratch("W", rows)
            for block in self.within(source, rows, V):
                e = Y[block.rows] - V[block.here] @ state.mean
                half = block.chol.solve_lower(e)
                fit += float((half * half).sum()) / self.noise
                if reverse is not None:
                    reverse.block(block, V[block.here], e, cotangent[block.here])
            if reverse is not None:
                reverse.outer += cotangent.T @ V
                reverse.pull.whitened(rows, cotangent, K)
        N, P = Y.shape
        volume = state.chol.logdet + N * math.log(2.0 * math.pi * self.noise) + penalty
        found = None if reverse is None else reverse.finish(relative_jitter)
        return Evaluation(-0.5 * (P * volume + fit), found, source.inducing.chol.jitter)


class _Reverse:
    def __init__(self, member: Blocks, source: Stream, state: Inner, P: int) -> None:
        self.member, self.source, self.state, self.P = member, source, state, P
        self.pull = PullBack(source)
        self.outer = namespace(source.X).zeros((source.M, source.M))
        self.noise = 0.0

    def block(self, block: Block, V: Array, e: Array, cotangent: Array) -> None:
        """Fill the cotangent V̄ᵀ (n, M) of one block, and pull that of K_bb."""
        xp, P, a, s2 = namespace(V), self.P, self.member.power, self.member.noise
        Dinv = inverse(block.chol.L) / s2
        B, beta = Dinv @ V, Dinv @ e
        half = solve_rows(self.state.chol.L, B.copy())  # rows L_A⁻¹b: BSBᵀ = half·halfᵀ
        shrunk = lift_rows(self.state.chol.L, half.copy())  # BS
        heavy = P * (half @ half.T) + beta @ beta.T
        trace, known = float(xp.trace(Dinv)), float((half * half).sum())
        self.noise += 0.5 * (float((beta * beta).sum()) - P * (trace - known))
        self.noise += 0.5 * P * (1.0 - a) / s2 * float((block.R * Dinv).sum())
        cotangent[...] = P * (B - shrunk) + beta @ self.state.mean.T - a * (heavy @ V)
        Dinv *= -P
        heavy *= a
        heavy += Dinv
        heavy *= 0.5
        self.pull.block(block.rows, heavy, block.K)

    def finish(self, relative_jitter: float) -> Gradient:
        """All derivatives."""
        pulled = self.pull.finish(self.outer, relative_jitter)
        return Gradient(pulled.kernel, self.member.noise * self.noise, pulled.Z)
