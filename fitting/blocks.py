"""K − Q kept within blocks of rows: PIC, and with one block the Rényi objective.  O(N(M² + n² + nM)) for blocks of n.

Blocks D_b = σ²I + aR_b = σ²CCᵀ with R_b = K_bb − V_bᵀV_b.  With B = D⁻¹Vᵀ, β = D⁻¹(Y − Vᵀw), G = VB, S = (I + G)⁻¹:

    F = −(P/2)[log|I + G| + N log 2πσ² + (1/a) Σ_b log|I + aR_b/σ²|] − ½[Σ tr(eᵀD⁻¹e) + |w|²],
    R̄ = ½[a(P·BSBᵀ + ββᵀ) − P·D⁻¹],    V̄ᵀ = P(B − BS) + βwᵀ − a(P·BSBᵀ + ββᵀ)Vᵀ.

One row a block is `fitting.diagonal`; a = 0 needs no blocks, as only the trace of R enters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fitting.inner import Evaluation, Gradient, Inner, inner
from fitting.streamed import Lane, PullBack, Stream
from gpbounds.arrays import Array, namespace
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.products import add_gram
from gpbounds.linalg.triangular import inverse, lift_rows, mirrored, solve_rows
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

    def within(self, source: Stream, rows: slice, V: Array, kept: dict[int, list[Block]]) -> Iterable[Block]:
        """The blocks of one chunk; remembered in ``kept`` as far as they need no more memory than Kuf may."""
        if rows.start in kept:
            return kept[rows.start]
        blocks = self._within(source, rows, V)
        if 24 * sum((b.stop - b.start) ** 2 for b in self.blocks) <= source.space.keep:
            kept[rows.start] = list(blocks)
            return kept[rows.start]
        return blocks

    def _within(self, source: Stream, rows: slice, V: Array) -> Iterator[Block]:
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

    def forward(self, source: Stream, Y: Array, kept: dict[int, list[Block]] | None = None) -> tuple[Inner, float]:
        """q(v), and (1/a) Σ log|I + aR_b/σ²|."""
        found: dict[int, list[Block]] = {} if kept is None else kept
        sums = source.visit(lambda lane: _Forward(self, lane, Y, found))
        return inner(mirrored(sum(s.G for s in sums)), sum(s.b for s in sums)), sum(s.penalty for s in sums)

    def evaluate(self, source: Stream, Y: Array, *, gradient: bool = True, relative_jitter: float = 0.0) -> Evaluation:
        """F, and its derivatives."""
        kept: dict[int, list[Block]] = {}
        state, penalty = self.forward(source, Y, kept)
        first, *others = source.visit(lambda lane: _Reverse(self, lane, Y, state, gradient, kept))
        for other in others:
            first.add(other)
        N, P = Y.shape
        volume = state.chol.logdet + N * math.log(2.0 * math.pi * self.noise) + penalty
        value = -0.5 * (P * volume + first.fit + float((state.mean * state.mean).sum()))
        return Evaluation(value, first.finish(relative_jitter) if gradient else None, source.inducing.chol.jitter)


class _Forward:
    """Sums VD⁻¹Vᵀ, VD⁻¹Y and the logarithms of the blocks' determinants."""

    def __init__(self, member: Blocks, lane: Lane, Y: Array, kept: dict[int, list[Block]]) -> None:
        xp, M = namespace(Y), lane.source.M
        self.member, self.lane, self.Y, self.kept = member, lane, Y, kept
        self.G, self.b, self.penalty = xp.zeros((M, M)), xp.zeros((M, Y.shape[1])), 0.0

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        root = math.sqrt(self.member.noise)
        for block in self.member.within(self.lane.source, rows, V, self.kept):
            whitened = namespace(V).ascontiguousarray(block.chol.solve_lower(V[block.here]) / root)
            add_gram(self.G, whitened)
            self.b += whitened.T @ (block.chol.solve_lower(self.Y[block.rows]) / root)
            self.penalty += block.log_det


class _Reverse:
    """The second pass: chunk by chunk, then `finish`."""

    def __init__(
        self, member: Blocks, lane: Lane, Y: Array, state: Inner, gradient: bool, kept: dict[int, list[Block]]
    ) -> None:
        M, self.kept = lane.source.M, kept
        self.member, self.lane, self.Y, self.state, self.gradient = member, lane, Y, state, gradient
        self.pull = PullBack(lane.source)
        self.outer = namespace(Y).zeros((M, M))
        self.noise = self.fit = 0.0

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        cotangent = self.lane.scratch("W", rows)
        for block in self.member.within(self.lane.source, rows, V, self.kept):
            e = self.Y[block.rows] - V[block.here] @ self.state.mean
            half = block.chol.solve_lower(e)
            self.fit += float((half * half).sum()) / self.member.noise
            if self.gradient:
                self._block(block, V[block.here], e, cotangent[block.here])
        if self.gradient:
            self.outer += cotangent.T @ V
            self.pull.whitened(rows, cotangent, K)

    def _block(self, block: Block, V: Array, e: Array, cotangent: Array) -> None:
        """Fill the cotangent V̄ᵀ (n, M) of one block, and pull that of K_bb."""
        xp, P, a, s2 = namespace(V), e.shape[1], self.member.power, self.member.noise
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

    def add(self, other: _Reverse) -> None:
        """What another thread has summed."""
        self.pull.add(other.pull)
        self.outer += other.outer
        self.noise += other.noise
        self.fit += other.fit

    def finish(self, relative_jitter: float) -> Gradient:
        """All derivatives."""
        pulled = self.pull.finish(self.outer, relative_jitter)
        return Gradient(pulled.kernel, self.member.noise * self.noise, pulled.Z)
