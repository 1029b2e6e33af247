"""Bounds above VFE's: log-determinants of parts of R = K − Q in place of its trace (N-fischer).  O(NM² + Nn(M + n)).

With Q and q of VFE, R = K − Q and the blocks b of a partition of the rows, for each of P outputs

    L_VFE ≤ L_diagonal ≤ L_blocks ≤ L_vecchia ≤ log p(y),    L = log N(y; 0, Q + σ²I) − ½ penalty,

    | structure  | penalty                                                                          |
    |------------|----------------------------------------------------------------------------------|
    | None: VFE  | Tr R/σ²                                                                          |
    | "diagonal" | Σ_i log(1 + R_ii/σ²)                                                             |
    | "blocks"   | Σ_b log|I + R_bb/σ²|                                                             |
    | "vecchia"  | Σ_b (log|A_cb,cb| − log|A_cc|), c = c(b) some rows before b: log|A_b given c|     |

A = I + R/σ².  |K + σ²I| ≤ |Q + σ²I|·|A| and yᵀ(K + σ²I)⁻¹y ≤ yᵀ(Q + σ²I)⁻¹y (N-fischer, N-fischer-vecchia).  Each L is
an ELBO whose q(u) is that of VFE and whose law of f given u has less variance at the rows: predictions at new points
are those of VFE.  All hold in exact arithmetic; a value in doubles has no proved error (`gpbounds.renyi.evidence` has).

Derivatives.  L = F_DTC − ½P·penalty.  With U_b the last rows of the inverse of the factor of A_cb,cb, where
log|A_cb,cb| − log|A_cc| has the derivative U_bᵀU_b in A_cb,cb, and T = Σ_b U_bᵀU_b put in its rows:

    R̄ = −(P/2σ²)·T,    V̄ = (P/σ²)·TV besides that of DTC,    ∂penalty/∂log σ² = −(N − tr T).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.objectives.blocks import EqualBlocks, pull_blocks, stackable, stacks
from fitting.objectives.collapsed import Adjoints, Diagonal, Fit, Lifted, Middle, Reverse
from fitting.rows.basis import InducingBasis, InducingPullBack
from fitting.rows.data import Partition
from fitting.rows.stream import Chunk, Stream
from gpbounds.arrays import Array, namespace
from gpbounds.kernels.fused import DevicePulling
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.products import add_gram, add_product, product
from gpbounds.linalg.triangular import inverse_factor
from gpbounds.once import cached_property


@dataclass(frozen=True, eq=False)
class _Piece:
    """One block and the rows that it is given.

    Attributes
    ----------
    used : slice or array (n,)
        Rows of the chunk: first those that are given, then those of the block.
    rows : slice
        The latter.
    K : array (n, n)
    chol : Cholesky
        Of A = I + R/σ² for these rows.
    log_det : number
        log|A| minus that of the rows that are given.
    """

    used: Any
    rows: slice
    K: Array
    chol: Cholesky
    log_det: Array

    @cached_property
    def U(self) -> Array:
        """The last rows of the inverse factor (b, n)."""
        return inverse_factor(self.chol.L, checked=True)[self.rows.start - self.rows.stop :]


@dataclass(frozen=True)
class Structured(Diagonal):
    """DTC with the penalty of a structure of K − Q.

    Attributes
    ----------
    kept : bool
        False: the penalty stands apart.
    in_blocks : bool
        Whether the stream has blocks; otherwise each row is one.
    """

    kept: bool = False
    in_blocks: bool = False  # type: ignore[misc]

    def penalty(self, chunk: Chunk, source: Stream) -> Array | float:
        if not self.in_blocks:
            return namespace(chunk.V).log1p(chunk.residual / self.noise).sum()
        chunk.residual  # noqa: B018  (its least entry is tested)
        pieces: Iterable[EqualBlocks | _Piece] = self.within(chunk, source)
        return sum(piece.log_det for piece in pieces)

    def backward(self, source: Stream, middle: Middle) -> Fit:
        if not middle.gradient:
            return super().backward(source, middle)
        return source.reduce(lambda: _Reverse(self, source, middle))

    def within(self, chunk: Chunk, source: Stream) -> Any:
        """The blocks of one chunk; the chunk keeps them if all blocks together fit into the memory allowed for Kuf."""
        made, blocks = self._stacks if stacked(source) else self._made, source.blocks
        assert blocks is not None
        if 24 * blocks.entries <= source.space.keep:
            return chunk.recall("pieces", lambda: list(made(chunk, blocks)))
        return made(chunk, blocks)

    def _stacks(self, chunk: Chunk, blocks: Partition) -> Iterator[EqualBlocks]:
        return stacks(chunk, blocks.blocks, 1.0, self.noise)

    def _made(self, chunk: Chunk, blocks: Partition) -> Iterator[_Piece]:
        assert isinstance(chunk.basis, InducingBasis)
        kernel, xp, start = chunk.basis.kernel, namespace(chunk.V), chunk.rows.start
        for rows, earlier in blocks.within(chunk.rows):
            used: Any = slice(rows.start - start, rows.stop - start)
            if earlier.size:
                used = xp.asarray(np.concatenate([earlier, np.arange(rows.start, rows.stop)]) - start)
            K, V = kernel(chunk.X[used]), chunk.V[used]
            A = K - V @ V.T
            A /= self.noise
            A.reshape(-1)[:: A.shape[0] + 1] += 1.0
            chol = cholesky(A, name="I + R/σ²", overwrite=True)
            log_det = 2.0 * xp.log(xp.diagonal(chol.L)[earlier.size :]).sum()
            yield _Piece(used, slice(rows.start - start, rows.stop - start), K, chol, log_det)


def stacked(source: Stream) -> bool:
    """Whether blocks of one size are computed together: on a GPU, where no block is given other rows."""
    assert source.blocks is not None
    return source.blocks.sets is None and isinstance(source.basis, InducingBasis) and stackable(source.basis)


class _Reverse(Reverse):
    """The second pass: the cotangent of Kuf of DTC, and what the penalty adds to it."""

    def __init__(self, member: Structured, source: Stream, middle: Middle) -> None:
        super().__init__(member, source, middle)
        self.structured, self.source, self.heavy, self.shrunk = member, source, source.square(), 0.0

    def common(self, chunk: Chunk, e: Array, total: Array, lifted: Lifted) -> None:
        s2, P = self.member.noise, self.P
        self.fit += total / s2
        self.prior_mean += chunk.in_prior_mean(lambda: e / s2)
        added = chunk.scratch("S")
        if not self.structured.in_blocks:
            self._diagonal(chunk, added)
        elif stacked(self.source):
            self._stacks(chunk, added)
        else:
            self._blocks(chunk, added)
        added *= P / s2
        C = product(chunk.V, lifted.turn, chunk.scratch("W"))
        C += chunk.basis.lift(added)
        self.pull.lifted(chunk.X, add_product(e, lifted.weights, C), chunk.K, chunk.V)

    def _diagonal(self, chunk: Chunk, out: Array) -> None:
        """Write TV for T = diag(σ²/(σ² + r))."""
        xp, s2 = namespace(chunk.V), self.member.noise
        share = s2 / (s2 + chunk.residual)
        self.shrunk += (chunk.residual * share).sum() / s2
        xp.multiply(chunk.V, xp.sqrt(share)[:, None], out=out)
        add_gram(self.heavy, out)
        xp.multiply(chunk.V, share[:, None], out=out)
        self.pull.diagonal(chunk.X, (-0.5 * self.P / s2) * share)

    def _blocks(self, chunk: Chunk, out: Array) -> None:
        """Write TV."""
        assert isinstance(self.pull, InducingPullBack)
        scale, halves = -0.5 * self.P / self.member.noise, chunk.scratch("W")
        out.fill(0.0)
        for piece in self.structured.within(chunk, self.source):
            U = piece.U
            half = U @ chunk.V[piece.used]
            out[piece.used] += U.T @ half
            halves[piece.rows] = half
            T = U.T @ U
            self.shrunk += U.shape[0] - T.trace()
            T *= scale
            self.pull.block(chunk.X[piece.used], T, piece.K)
        add_gram(self.heavy, halves)

    def _stacks(self, chunk: Chunk, out: Array) -> None:
        """Write TV, blocks of one size at a time."""
        assert isinstance(self.pull, InducingPullBack)
        assert isinstance(self.pull.sums, DevicePulling)
        xp, scale, halves = namespace(chunk.V), -0.5 * self.P / self.member.noise, chunk.scratch("W")
        for stack in self.structured.within(chunk, self.source):
            turned = stack.inverse.swapaxes(1, 2)
            half, T = stack.inverse @ stack.V, turned @ stack.inverse
            out[stack.rows] = (turned @ half).reshape(-1, out.shape[1])
            halves[stack.rows] = half.reshape(-1, out.shape[1])
            self.shrunk += T.shape[0] * T.shape[1] - xp.diagonal(T, axis1=1, axis2=2).sum()
            T *= scale
            pull_blocks(self.pull.sums, chunk.X[stack.rows], T)
        add_gram(self.heavy, halves)

    def statistics(self) -> Adjoints:
        """The sums, with h = −(P/σ²)T in the place of that of a power."""
        self.heavy *= -self.P / self.member.noise
        noise = 0.5 * self.fit + 0.5 * self.P * self.shrunk
        return Adjoints(self.fit, self.pull.statistics(), self.heavy, noise, self.prior_mean)
