"""K − Q restricted to blocks of rows: PIC, and with one block the Rényi objective.  O(N(M² + n² + nM)) for blocks of n.

Blocks D_b = σ²I + aR_b = σ²CCᵀ with R_b = K_bb − V_bᵀV_b.  With B = D⁻¹Vᵀ, β = D⁻¹(Y − Vᵀw), G = VB, S = (I + G)⁻¹:

    F = −(P/2)[log|I + G| + N log 2πσ² + (1/a) Σ_b log|I + aR_b/σ²|] − ½[Σ tr(eᵀD⁻¹e) + |w|²],
    R̄ = ½[a(P·BSBᵀ + ββᵀ) − P·D⁻¹],    V̄ᵀ = P(B − BS) + βwᵀ − a(P·BSBᵀ + ββᵀ)Vᵀ.

Blocks of one row each are `fitting.objectives.collapsed`; a = 0 needs no blocks, since F depends on R through its
trace only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

import numpy as np

from fitting.objectives.point import Evaluation
from fitting.prior_means import derivatives as in_host_memory
from fitting.rows.basis import InducingBasis, InducingPullBack, Pulled
from fitting.rows.stream import Chunk, Stream
from gpbounds.arrays import Array, namespace
from gpbounds.kernels.fused import DevicePulling, Fused
from gpbounds.law import GramLaw, gram_law
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.linalg.inverses import inverse
from gpbounds.linalg.products import accumulate, add_gram
from gpbounds.linalg.psd import cholesky_unread
from gpbounds.linalg.triangular import inverse_factor, lift_rows, mirrored, solve_rows
from gpbounds.readings import Readings
from gpbounds.rows.program import Statistics
from gpbounds.whitening import residual_diagonal

# Blocks of equal size on a GPU: the same steps for a stack of them at a time.
#
# The formulas are the same.  L⁻¹ of the factors of I + aR_b/σ², whose eigenvalues are at least 1,
# takes the place of solves; the number of launches does not depend on the number of blocks of a size.

LARGEST = 512
"""Rows of a block up to which the routines for many small matrices are the faster ones."""
WHOLE = 2048
"""Rows of a block above which the host tests its factor at once: a test without a read takes as long as the factor."""
NAME = "I + aR/σ²"


def stackable(basis: InducingBasis) -> bool:
    """Whether the rows are on a GPU, and the kernel has a formula there and a constant diagonal."""
    known = basis.covariances
    return isinstance(known, Fused) and known.is_constant


@dataclass(frozen=True, eq=False)
class EqualBlocks:
    """Consecutive blocks of n rows each.

    Attributes
    ----------
    rows : slice
        Their rows within the chunk.
    V : array (B, n, M)
    R : array (B, n, n)
        R_b/σ².
    inverse : array (B, n, n)
        L⁻¹, LLᵀ = I + aR_b/σ².
    log_det : number
        (1/a) Σ_b log|I + aR_b/σ²|.
    """

    rows: slice
    V: Array
    R: Array
    inverse: Array
    log_det: Array

    def split(self, rows: Array) -> Array:
        """Rows of the chunk (…, k) as (B, n, k)."""
        B, n = self.V.shape[:2]
        return rows[self.rows].reshape(B, n, -1)


def runs(blocks: Sequence[slice], chunk: slice) -> Iterator[tuple[slice, int]]:
    """The rows within ``chunk`` of consecutive blocks of one size, and this size; each block above `LARGEST` alone.

    >>> blocks = [slice(0, 2), slice(2, 4), slice(4, 7), slice(7, 9)]
    >>> list(runs(blocks, slice(0, 7)))
    [(slice(0, 4, None), 2), (slice(4, 7, None), 3)]
    """
    within = [block for block in blocks if chunk.start <= block.start and block.stop <= chunk.stop]
    for (size, _), some in groupby(within, key=_kind):
        first, *others = some
        last = others[-1] if others else first
        yield slice(first.start - chunk.start, last.stop - chunk.start), size


def _kind(block: slice) -> tuple[int, int]:
    size = block.stop - block.start
    return size, block.start if size > LARGEST else -1


def stacks(chunk: Chunk, blocks: Sequence[slice], power: float, noise: float) -> Iterator[EqualBlocks]:
    """The stacks of one chunk."""
    basis = chunk.basis
    assert isinstance(basis, InducingBasis)
    assert isinstance(basis.covariances, Fused)
    chunk.residual  # noqa: B018  (its least entry is tested)
    for rows, size in runs(blocks, chunk.rows):
        V = chunk.V[rows].reshape(-1, size, chunk.V.shape[1])
        R = (basis.covariances.blocks(chunk.X[rows], size) - V @ V.swapaxes(1, 2)) / noise
        xp = namespace(V)
        L, inverse = _factors(power * R + xp.eye(size), basis.readings)
        yield EqualBlocks(rows, V, R, inverse, _log_det_ratio(R, L, power))


def _factors(A: Array, readings: Readings) -> tuple[Array, Array]:
    """L and L⁻¹ of a stack, by the routine for stacks or by that for a matrix."""
    if A.shape[0] > 1:
        L = cholesky_unread(A, 0.0, NAME, readings).L
        return L, namespace(A).linalg.inv(L)
    whole = A.shape[1] > WHOLE
    L = cholesky(A[0], name=NAME).L if whole else cholesky_unread(A[0], 0.0, NAME, readings).L
    return L[None], inverse_factor(L, checked=True)[None]


def _log_det_ratio(E: Array, L: Array, power: float) -> Array:
    """The sum of `fitting.objectives.blocks.log_det_ratio` over a stack."""
    xp = namespace(E)
    pivots, below = xp.diagonal(L, axis1=1, axis2=2) ** 2, xp.tril(L, -1)
    change = power * xp.diagonal(E, axis1=1, axis2=2) - (below * below).sum(axis=2)
    small = pivots < 2.0
    return xp.where(small, xp.log1p(xp.where(small, change, 0.0)), xp.log(pivots)).sum() / power


def cotangents(
    stack: EqualBlocks, Y: Array, X: Array, q: GramLaw, power: float, noise: float, out: Array, pull: InducingPullBack
) -> Array:
    """Write the cotangent V̄ᵀ of the rows into ``out``, pull those of K_bb back, and return a part of ∂F/∂σ².

    ``Y`` are the residuals e (B, n, P), ``X`` the inputs of the rows.
    """
    P, (B, n, M) = Y.shape[2], stack.V.shape
    D_inverse = stack.inverse.swapaxes(1, 2) @ stack.inverse
    D_inverse /= noise
    U, beta = D_inverse @ stack.V, D_inverse @ Y
    half = solve_rows(q.chol.L, U.reshape(B * n, M).copy())
    shrunk = lift_rows(q.chol.L, half.copy())
    halves = half.reshape(B, n, M)
    heavy = P * (halves @ halves.swapaxes(1, 2)) + beta @ beta.swapaxes(1, 2)
    trace = namespace(U).diagonal(D_inverse, axis1=1, axis2=2).sum()
    in_noise = 0.5 * ((beta * beta).sum() - P * (trace - (half * half).sum()))
    in_noise += 0.5 * P * (1.0 - power) * (stack.R * D_inverse).sum()
    out[...] = P * (U.reshape(B * n, M) - shrunk) + beta.reshape(B * n, P) @ q.mean.T
    out -= power * (heavy @ stack.V).reshape(B * n, M)
    heavy *= power
    heavy -= P * D_inverse
    heavy *= 0.5
    assert isinstance(pull.sums, DevicePulling)
    pull_blocks(pull.sums, X, heavy)
    return in_noise


def pull_blocks(sums: DevicePulling, X: Array, cotangent: Array) -> None:
    """Pull the cotangents (B, n, n) of the K_bb of a stack back."""
    if cotangent.shape[0] == 1:  # several threads for a column
        sums.add_block(X, cotangent[0])
    else:
        sums.add_blocks(X, cotangent)


# K − Q restricted to blocks of rows: PIC, and with one block the Rényi objective.  O(N(M² + n² + nM)) for blocks of n.


def log_det_ratio(E: Array, chol: Cholesky, power: float) -> Array:
    """(1/a) log|I + aE| from the Cholesky factor of I + aE, without cancellation when a is small.

    A pivot minus 1 is aE_ii − Σ_{j<i} L_ij², and both terms are of the order of a.

    >>> E = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> a = 1e-18
    >>> round(float(log_det_ratio(E, cholesky(np.eye(2) + a * E), a)), 12)  # the trace
    2.0
    """
    xp, L = namespace(E), chol.L
    pivots = xp.diagonal(L) ** 2
    below = xp.tril(L, -1)
    change = power * xp.diagonal(E) - xp.einsum("ij,ij->i", below, below)
    small = pivots < 2.0
    return xp.where(small, xp.log1p(xp.where(small, change, 0.0)), xp.log(pivots)).sum() / power


@dataclass(frozen=True)
class Block:
    """One block: its rows within the chunk, K_bb, R_b, C and (1/a) log|I + aR_b/σ²|."""

    rows: slice
    K: Array
    R: Array
    chol: Cholesky
    log_det: Array


@dataclass(frozen=True)
class Blocks:
    """The member with power a in (0, 1] of K − Q restricted to blocks of rows.

    Attributes
    ----------
    power, noise : float
    blocks : tuple of slices
        Consecutive rows that together cover all rows.  Each chunk of the stream must hold whole blocks.
    """

    power: float
    noise: float
    blocks: tuple[slice, ...]
    in_blocks: ClassVar[bool] = True

    def posterior(self, source: Stream) -> tuple[GramLaw, Moments]:
        """q(v), and the sums from which it is computed."""
        sums = source.reduce(lambda: _Forward(self, source))
        return gram_law(mirrored(sums.G), sums.b, source.basis.readings), sums

    def evaluate(self, source: Stream, *, gradient: bool = True) -> Evaluation:
        """F, and its derivatives in (kernel, log σ², Z)."""
        q, sums = self.posterior(source)
        back = source.reduce(lambda: _Reverse(self, source, q, gradient))
        readings = source.basis.readings
        parts = q.chol.log_determinant, sums.penalty, back.fit, (q.mean * q.mean).sum(), back.noise
        log_det, penalty, fit, squares, noise = (readings.take(part) for part in parts)
        derivatives = None
        if gradient:
            pulled = source.basis.finish(back.pulled, back.outer)
            derivatives = pulled.gradient(lambda: np.array([self.noise * float(noise)]), readings)
            derivatives = replace(derivatives, prior_mean=in_host_memory(back.prior_mean))
        volume = float(log_det) + source.N * math.log(2.0 * math.pi * self.noise) + float(penalty)
        return Evaluation(-0.5 * (source.P * volume + float(fit) + float(squares)), derivatives)

    def within(self, source: Stream, chunk: Chunk) -> Iterable[Block]:
        """The blocks of one chunk; the chunk keeps them if all blocks together fit into the memory allowed for Kuf."""
        if 24 * sum((b.stop - b.start) ** 2 for b in self.blocks) <= source.space.keep:
            return chunk.recall("blocks", lambda: list(self._made(chunk)))
        return self._made(chunk)

    def stacks(self, source: Stream, chunk: Chunk) -> Iterable[EqualBlocks]:
        """The same on a GPU, a stack of equal blocks at a time."""
        if 24 * sum((b.stop - b.start) ** 2 for b in self.blocks) <= source.space.keep:
            return chunk.recall("stacks", lambda: list(stacks(chunk, self.blocks, self.power, self.noise)))
        return stacks(chunk, self.blocks, self.power, self.noise)

    def _made(self, chunk: Chunk) -> Iterator[Block]:
        assert isinstance(chunk.basis, InducingBasis)
        kernel, xp, start = chunk.basis.kernel, namespace(chunk.V), chunk.rows.start
        for block in self.blocks:
            if start <= block.start and block.stop <= chunk.rows.stop:
                rows = slice(block.start - start, block.stop - start)
                K, V = kernel(chunk.X[rows]), chunk.V[rows]
                residual_diagonal(xp.diagonal(K), V.T)
                R = K - V @ V.T
                scaled = R / self.noise
                chol = cholesky(self.power * scaled + xp.eye(K.shape[0]), name="I + aR/σ²")
                yield Block(rows, K, R, chol, log_det_ratio(scaled, chol, self.power))


def _stackable(chunk: Chunk) -> bool:
    assert isinstance(chunk.basis, InducingBasis)
    return stackable(chunk.basis)


@dataclass(frozen=True, eq=False)
class Moments(Statistics):
    """VD⁻¹Vᵀ (only its upper triangle is set), VD⁻¹Y, and (1/a) Σ log|I + aR_b/σ²|."""

    G: Array
    b: Array
    penalty: Array | float


class _Forward:
    """Sums VD⁻¹Vᵀ, VD⁻¹Y and the logarithms of the blocks' determinants."""

    def __init__(self, member: Blocks, source: Stream) -> None:
        xp, M = namespace(source.X), source.basis.rank
        self.member, self.source = member, source
        self.G, self.b = xp.zeros((M, M)), xp.zeros((M, source.P))
        self.penalty: Array | float = 0.0

    def chunk(self, chunk: Chunk) -> None:
        root = math.sqrt(self.member.noise)
        if _stackable(chunk):
            for stack in self.member.stacks(self.source, chunk):
                rows = (stack.inverse @ stack.V).reshape(-1, stack.V.shape[2])
                rows /= root
                add_gram(self.G, rows)
                accumulate(self.b, rows.T, (stack.inverse @ stack.split(chunk.Y)).reshape(len(rows), -1) / root)
                self.penalty += stack.log_det
            return
        for block in self.member.within(self.source, chunk):
            whitened = namespace(chunk.V).ascontiguousarray(block.chol.solve_lower(chunk.V[block.rows]) / root)
            add_gram(self.G, whitened)
            self.b += whitened.T @ (block.chol.solve_lower(chunk.Y[block.rows]) / root)
            self.penalty += block.log_det

    def statistics(self) -> Moments:
        return Moments(self.G, self.b, self.penalty)


@dataclass(frozen=True, eq=False)
class Adjoints(Statistics):
    """Sums of the second pass: Σ tr(eᵀD⁻¹e), pulled-back cotangents, V̄Vᵀ, ∂F/∂σ², and Hᵀβ for a prior mean H."""

    fit: Array | float
    pulled: Pulled
    outer: Array
    noise: Array | float
    prior_mean: Array | float


class _Reverse:
    """The second pass: V̄ chunk by chunk."""

    def __init__(self, member: Blocks, source: Stream, q: GramLaw, gradient: bool) -> None:
        assert isinstance(source.basis, InducingBasis)
        self.member, self.source, self.q, self.gradient = member, source, q, gradient
        self.pull = source.basis.pull_back()
        self.outer = namespace(source.X).zeros((source.basis.rank, source.basis.rank))
        self.noise: Array | float = 0.0
        self.fit: Array | float = 0.0
        self.prior_mean: Array | float = 0.0

    def chunk(self, chunk: Chunk) -> None:
        cotangent = chunk.scratch("W")
        if _stackable(chunk):
            self._stacked(chunk, cotangent)
            return
        for block in self.member.within(self.source, chunk):
            V = chunk.V[block.rows]
            e = chunk.Y[block.rows] - V @ self.q.mean
            half = block.chol.solve_lower(e)
            self.fit += (half * half).sum() / self.member.noise
            if self.gradient:
                beta = self._block(block, chunk.X[block.rows], V, e, cotangent[block.rows])
                self.prior_mean += chunk.in_prior_mean(beta, block.rows)
        if self.gradient:
            self.outer += cotangent.T @ chunk.V
            self.pull.features(chunk.X, cotangent, chunk.K, chunk.V)

    def _stacked(self, chunk: Chunk, cotangent: Array) -> None:
        e, power, s2 = chunk.Y - chunk.V @ self.q.mean, self.member.power, self.member.noise
        for stack in self.member.stacks(self.source, chunk):
            rows, residuals = stack.rows, stack.split(e)
            half = stack.inverse @ residuals
            self.fit += (half * half).sum() / s2
            if self.gradient:
                arguments = residuals, chunk.X[rows], self.q, power, s2, cotangent[rows], self.pull
                self.noise += cotangents(stack, *arguments)
                beta = (stack.inverse.swapaxes(1, 2) @ half).reshape(-1, e.shape[1]) / s2
                self.prior_mean += chunk.in_prior_mean(beta, rows)
        if self.gradient:
            accumulate(self.outer, cotangent.T, chunk.V)
            self.pull.features(chunk.X, cotangent, chunk.K, chunk.V)

    def _block(self, block: Block, X: Array, V: Array, e: Array, cotangent: Array) -> Array:
        """Compute the cotangent V̄ᵀ (n, M) of one block, pull back the cotangent of K_bb, and return β = D⁻¹e."""
        xp, P, a, s2 = namespace(V), e.shape[1], self.member.power, self.member.noise
        Dinv = inverse(block.chol.L) / s2
        B, beta = Dinv @ V, Dinv @ e
        half = solve_rows(self.q.chol.L, B.copy())  # rows L_A⁻¹b: BSBᵀ = half·halfᵀ
        shrunk = lift_rows(self.q.chol.L, half.copy())  # BS
        heavy = P * (half @ half.T) + beta @ beta.T
        trace, explained = xp.trace(Dinv), (half * half).sum()
        self.noise += 0.5 * ((beta * beta).sum() - P * (trace - explained))
        self.noise += 0.5 * P * (1.0 - a) / s2 * (block.R * Dinv).sum()
        cotangent[...] = P * (B - shrunk) + beta @ self.q.mean.T - a * (heavy @ V)
        Dinv *= -P
        heavy *= a
        heavy += Dinv
        heavy *= 0.5
        self.pull.block(X, heavy, block.K)
        return beta

    def statistics(self) -> Adjoints:
        return Adjoints(self.fit, self.pull.statistics(), self.outer, self.noise, self.prior_mean)
