"""Bounds above VFE's: log-determinants of parts of R = K − Q in place of its trace (N-fischer).  O(NM² + Nn(M + n)).

With Q and q of VFE, R = K − Q and the blocks b of a partition of the rows, for each of P outputs

    L_VFE ≤ L_diagonal ≤ L_blocks ≤ L_vecchia ≤ log p(y),    L = log N(y; 0, Q + σ²I) − ½ penalty,

    | structure  | penalty                                                                          |
    |------------|----------------------------------------------------------------------------------|
    | None: VFE  | Tr R/σ²                                                                          |
    | "diagonal" | Σ_i log(1 + R_ii/σ²)                                                             |
    | "blocks"   | Σ_b log|I + R_bb/σ²|                                                             |
    | "vecchia"  | Σ_b log|I + R/σ²| of b given c(b), c(b) some earlier rows: log|A_cb,cb| − log|A_cc| |

Proof.  With A = I + R/σ², K + σ²I = (Q + σ²I) + R, so |K + σ²I| ≤ |Q + σ²I|·|A|, as (Q + σ²I)⁻¹ ≼ I/σ², and
yᵀ(K + σ²I)⁻¹y ≤ yᵀ(Q + σ²I)⁻¹y, as R ≽ 0.  log|A| is a sum of log|A_b given all earlier rows|, each of which grows as
fewer rows are given; log(1 + r) ≤ r and Hadamard's inequality give the rest.  Each L is an ELBO whose q(u) is that of
VFE and whose law of f given u has less variance, so predictions at new points are those of VFE.

Derivatives.  L = F_DTC − ½P·penalty.  With U_b the last rows of the inverse of the factor of A_cb,cb, where
log|A_cb,cb| − log|A_cc| has the derivative U_bᵀU_b in A_cb,cb, and T = Σ_b U_bᵀU_b put in its rows:

    R̄ = −(P/2σ²)·T,    V̄ = (P/σ²)·TV besides that of DTC,    ∂penalty/∂log σ² = −(N − tr T).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fitting.objectives.blocks import log_det_ratio
from fitting.objectives.collapsed import Adjoints, Diagonal, Fit, Lifted, Middle, Reverse
from fitting.rows.basis import InducingBasis, InducingPullBack
from fitting.rows.data import Partition
from fitting.rows.stream import Chunk, Stream
from gpbounds.arrays import Array, namespace
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.products import add_gram, add_product, product
from gpbounds.linalg.triangular import inverse_factor


@dataclass(frozen=True, eq=False)
class _Piece:
    """One block and the rows that it is given.

    Attributes
    ----------
    rows : slice or array (n,)
        Of the chunk: first those that are given, then those of the block.
    given : int
        Number of the former.
    K : array (n, n)
    chol : Cholesky
        Of A = I + R/σ² for these rows.
    log_det : number
        log|A| minus that of the rows that are given.
    """

    rows: Any
    given: int
    K: Array
    chol: Cholesky
    log_det: Array

    @cached_property
    def U(self) -> Array:
        """The last rows of the inverse factor (b, n)."""
        return inverse_factor(self.chol.L, checked=True)[self.given :]


@dataclass(frozen=True)
class Fischer(Diagonal):
    """DTC with the penalty of a structure of K − Q.

    Attributes
    ----------
    kept : bool
        False: the penalty stands apart.
    parts : Partition or None
        The blocks and the rows that each is given; None makes each row a block.
    """

    kept: bool = False
    parts: Partition | None = None

    def penalty(self, chunk: Chunk, source: Stream) -> Array | float:
        if self.parts is None:
            return namespace(chunk.V).log1p(chunk.residual / self.noise).sum()
        chunk.residual  # noqa: B018  (its least entry is tested)
        return sum(piece.log_det for piece in self.within(chunk, source))

    def backward(self, source: Stream, middle: Middle) -> Fit:
        if not middle.gradient:
            return super().backward(source, middle)
        return source.reduce(lambda: _Reverse(self, source, middle))

    def within(self, chunk: Chunk, source: Stream) -> Iterable[_Piece]:
        """The blocks of one chunk; the chunk keeps them if all blocks together fit into the memory allowed for Kuf."""
        assert self.parts is not None
        if 24 * self.parts.entries <= source.space.keep:
            return chunk.recall("pieces", lambda: list(self._made(chunk)))
        return self._made(chunk)

    def _made(self, chunk: Chunk) -> Iterator[_Piece]:
        assert isinstance(chunk.basis, InducingBasis)
        assert self.parts is not None
        kernel, xp, start = chunk.basis.kernel, namespace(chunk.V), chunk.rows.start
        for rows, earlier in self.parts.within(chunk.rows):
            used: Any = slice(rows.start - start, rows.stop - start)
            if earlier.size:
                used = xp.asarray(np.concatenate([earlier, np.arange(rows.start, rows.stop)]) - start)
            K, V = kernel(chunk.X[used]), chunk.V[used]
            scaled = (K - V @ V.T) / self.noise
            chol = cholesky(scaled + xp.eye(K.shape[0]), name="I + R/σ²", overwrite=True)
            yield _Piece(used, earlier.size, K, chol, log_det_ratio(scaled, chol, 1.0, earlier.size))


class _Reverse(Reverse):
    """The second pass: the cotangent of Kuf of DTC, and what the penalty adds to it."""

    def __init__(self, member: Fischer, source: Stream, middle: Middle) -> None:
        super().__init__(member, source, middle)
        self.structured, self.source, self.heavy, self.shrunk = member, source, source.square(), 0.0

    def common(self, chunk: Chunk, e: Array, total: Array, lifted: Lifted) -> None:
        s2, P = self.member.noise, self.P
        self.fit += total / s2
        self.prior_mean += chunk.in_prior_mean(lambda: e / s2)
        added = chunk.scratch("S")
        if self.structured.parts is None:
            self._diagonal(chunk, added)
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
        xp, scale = namespace(chunk.V), -0.5 * self.P / self.member.noise
        if self.structured.parts.sets is not None:
            out.fill(0.0)
        for piece in self.structured.within(chunk, self.source):
            U, rows = piece.U, piece.rows
            half = U @ chunk.V[rows]
            self.shrunk += U.shape[0] - xp.vdot(U, U)
            add_gram(self.heavy, half)
            if self.structured.parts.sets is None:
                out[rows] = U.T @ half
            else:
                out[rows] += U.T @ half
            self.pull.block(chunk.X[rows], scale * (U.T @ U), piece.K)

    def statistics(self) -> Adjoints:
        """The sums, with h = −(P/σ²)T in the place of that of a power."""
        self.heavy *= -self.P / self.member.noise
        noise = 0.5 * self.fit + 0.5 * self.P * self.shrunk
        return Adjoints(self.fit, self.pull.statistics(), self.heavy, noise, self.prior_mean)
