"""Blocks of equal size on a GPU: the steps of `fitting.blocks` for a stack of them at a time.

The formulas are those of `fitting.blocks`.  L⁻¹ of the factors of I + aR_b/σ², whose eigenvalues are at least 1, takes
the place of solves; the number of launches does not depend on the number of blocks of a size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fitting.inducing import InducingBasis, InducingPullBack
from fitting.rows import Chunk
from gpbounds.arrays import Array, namespace
from gpbounds.kernels.fused import DevicePulling, Fused
from gpbounds.law import GramLaw
from gpbounds.linalg import cholesky
from gpbounds.linalg.psd import cholesky_unread
from gpbounds.linalg.triangular import inverse_factor, lift_rows, solve_rows
from gpbounds.readings import Readings

LARGEST = 512
"""Rows of a block up to which the routines for many small matrices are the faster ones."""
WHOLE = 2048
"""Rows of a block above which its factor is read at once, as testing it by its product would take as long as it."""
NAME = "I + aR/σ²"


def stackable(basis: InducingBasis) -> bool:
    """Whether the rows are on a GPU, and the kernel has a formula there and a constant diagonal."""
    known = basis.covariances
    return isinstance(known, Fused) and known.is_constant


@dataclass(frozen=True, eq=False)
class Stack:
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


def stacks(chunk: Chunk, blocks: Sequence[slice], power: float, noise: float) -> Iterator[Stack]:
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
        yield Stack(rows, V, R, inverse, _log_det_ratio(R, L, power))


def _factors(A: Array, readings: Readings) -> tuple[Array, Array]:
    """L and L⁻¹ of a stack, by the routine for stacks or by that for a matrix."""
    if A.shape[0] > 1:
        L = cholesky_unread(A, 0.0, NAME, readings).L
        return L, namespace(A).linalg.inv(L)
    whole = A.shape[1] > WHOLE
    L = cholesky(A[0], name=NAME).L if whole else cholesky_unread(A[0], 0.0, NAME, readings).L
    return L[None], inverse_factor(L, checked=True)[None]


def _log_det_ratio(E: Array, L: Array, power: float) -> Array:
    """The sum of `fitting.blocks.log_det_ratio` over a stack."""
    xp = namespace(E)
    pivots, below = xp.diagonal(L, axis1=1, axis2=2) ** 2, xp.tril(L, -1)
    change = power * xp.diagonal(E, axis1=1, axis2=2) - (below * below).sum(axis=2)
    small = pivots < 2.0
    return xp.where(small, xp.log1p(xp.where(small, change, 0.0)), xp.log(pivots)).sum() / power


def cotangents(
    stack: Stack, Y: Array, X: Array, q: GramLaw, power: float, noise: float, out: Array, pull: InducingPullBack
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
    own = 0.5 * ((beta * beta).sum() - P * (trace - (half * half).sum()))
    own += 0.5 * P * (1.0 - power) * (stack.R * D_inverse).sum()
    out[...] = P * (U.reshape(B * n, M) - shrunk) + beta.reshape(B * n, P) @ q.mean.T
    out -= power * (heavy @ stack.V).reshape(B * n, M)
    heavy *= power
    heavy -= P * D_inverse
    heavy *= 0.5
    assert isinstance(pull.sums, DevicePulling)
    if B == 1:  # several threads for a column
        pull.sums.add_block(X, heavy[0])
    else:
        pull.sums.add_blocks(X, heavy)
    return own
