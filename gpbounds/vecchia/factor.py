"""The block Vecchia factor U of (K + σ²I)⁻¹, and its products with vectors (N-vecchia)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gpbounds.arrays import Array, as_points, is_cupy, namespace
from gpbounds.exact import factor_noisy
from gpbounds.kernels import Kernel
from gpbounds.kernels.base import as_kernel
from gpbounds.kernels.covariances import covariances
from gpbounds.kernels.fused import Fused
from gpbounds.linalg.parallel import WORTH, share
from gpbounds.linalg.triangular import solve_triangular
from gpbounds.linalg.workspace import Workspace
from gpbounds.once import cached_property
from gpbounds.row_noise import OF_FACTORS, one_for_all
from gpbounds.validation import extended, instance, non_negative, positive, scalar
from gpbounds.vecchia.blocks import Blocks

# Products with a block Vecchia factor on a GPU: all row blocks at once, with nothing read or uploaded for a product.
#
# The row blocks are padded with zeros to one shape and lie in one array.  Uᵀw is a sum over the blocks that hold a row,
# which one thread adds up in the order of the blocks, so that results do not vary.

_SUM = """
double total = 0.0;
long long row = i / m, column = i % m;
for (long long j = starts[row]; j < starts[row + 1]; ++j) total += parts[places[j] * m + column];
out = total;
"""


@lru_cache
def _summed() -> Any:
    import cupy

    inputs = "raw float64 parts, raw int64 starts, raw int64 places, int64 m"
    return cupy.ElementwiseKernel(inputs, "float64 out", _SUM, "summed")


class _Stacked:
    """V ↦ UV and V ↦ UᵀV for CuPy arrays V (N, m); the weights are those of `gpbounds.vecchia.Factor`."""

    def __init__(self, blocks: Blocks, weights: Sequence[Array]) -> None:
        import cupy

        sizes = [part.stop - part.start for part in blocks.parts]
        columns = [int(W.shape[1]) for W in weights]
        count, b, c = len(weights), max(sizes), max(columns)
        self.weights = cupy.zeros((count, b, c))
        rows = np.zeros((count, c), dtype=np.int64)  # of V, for each column; padding has the weight 0
        for j, (W, used) in enumerate(zip(weights, blocks.rows, strict=True)):
            self.weights[j, : sizes[j], : columns[j]] = W
            rows[j, : columns[j]] = used
        numbers = np.arange(count)
        own = np.concatenate([j * b + np.arange(size) for j, size in zip(numbers, sizes, strict=True)])  # of UV
        padded = np.zeros((count, b), dtype=np.int64)
        for j, part in enumerate(blocks.parts):
            padded[j, : sizes[j]] = np.arange(part.start, part.stop)
        used = np.concatenate([j * c + np.arange(size) for j, size in zip(numbers, columns, strict=True)])
        order = np.argsort(rows.reshape(-1)[used], kind="stable")
        N = own.size
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows.reshape(-1)[used], minlength=N))])
        moved = cupy.asarray(np.concatenate([rows.reshape(-1), own, padded.reshape(-1), starts, used[order]]))
        ends = np.cumsum([rows.size, own.size, padded.size, starts.size])
        self.rows, self.own = moved[: ends[0]].reshape(count, c), moved[ends[0] : ends[1]]
        self.padded, self.starts = moved[ends[1] : ends[2]].reshape(count, b), moved[ends[2] : ends[3]]
        self.places = moved[ends[3] :]

    def times(self, V: Array) -> Array:
        """UV."""
        count, b, _ = self.weights.shape
        return (self.weights @ V[self.rows]).reshape(count * b, V.shape[1])[self.own]

    def transposed_times(self, V: Array) -> Array:
        """UᵀV."""
        import cupy

        parts = self.weights.swapaxes(1, 2) @ V[self.padded]
        return _summed()(parts, self.starts, self.places, V.shape[1], cupy.empty(V.shape))


# The block Vecchia factor U of (K + σ²I)⁻¹, and its products with vectors (N-vecchia).

ROWS = 256
"""Rows of the chunks in which a host computes the lower triangle of a block's covariance."""
GROUPS = 4
"""Groups of blocks whose contributions to Uᵀw are added up separately, so that lanes can share them."""


@dataclass(frozen=True, eq=False)
class Factor:
    """U (N, N) with P⁻¹ = UᵀU ≈ (K + σ²I)⁻¹; row block j is zero outside S_j and B_j.  Memory: N(p + b) numbers.

    With c = (S_j, B_j) and the Cholesky factor [[L₁₁, 0], [L₂₁, L₂₂]] of (K + σ²I)[c, c], the row block is
    [−L₂₂⁻¹L₂₁L₁₁⁻¹, L₂₂⁻¹], the last rows of the inverse factor.  For B = U(K + σ²I)Uᵀ (N-vecchia):

        the diagonal blocks of B are I, so tr B = N;
        log|K + σ²I| = log|P| − Σ_i ψ(b_i) ≤ log|P|,  b_i the eigenvalues of B,  ψ(x) = x − 1 − log x ≥ 0.

    The proof is that of N-vecchia.

    Attributes
    ----------
    blocks : Blocks
    weights : list of arrays
        The nonzero columns (S_j, B_j) of each row block.
    log_det : float
        log|P| = 2Σ_j log|L₂₂|.
    roots : list of arrays or None
        The Cholesky factors of (K + σ²I)[c, c], if they are kept.
    """

    blocks: Blocks
    weights: list[Array]
    log_det: float
    roots: list[Array] | None = None

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.blocks.order.size)

    @property
    def numbers(self) -> int:
        """How many numbers are stored."""
        return sum(W.size for W in self.weights)

    @cached_property
    def _stacked(self) -> _Stacked:
        return _Stacked(self.blocks, self.weights)

    def times(self, V: Array) -> Array:
        """UV for V (N, m)."""
        if namespace(V) is not np:
            return self._stacked.times(V)
        out, blocks = namespace(V).empty_like(V), self.blocks

        def multiply(number: int, worker: int) -> None:
            W, part, chosen = self.weights[number], blocks.parts[number], blocks.sets[number]
            out[part] = W[:, chosen.size :] @ V[part]
            if chosen.size:
                out[part] += W[:, : chosen.size] @ V[chosen]

        self._each(range(len(self.weights)), multiply, V)
        return out

    def transposed_times(self, V: Array) -> Array:
        """UᵀV for V (N, m)."""
        if namespace(V) is not np:
            return self._stacked.transposed_times(V)
        xp, blocks = namespace(V), self.blocks
        numbers = range(len(self.weights))
        count = min(GROUPS, len(self.weights)) if self.numbers * V.shape[1] >= WORTH else 1
        sums = [xp.zeros_like(V) for _ in range(count)]

        def add(group: int, worker: int) -> None:
            for number in numbers[group::count]:
                W, part, chosen = self.weights[number], blocks.parts[number], blocks.sets[number]
                sums[group][part] += W[:, chosen.size :].T @ V[part]
                if chosen.size:
                    sums[group][chosen] += W[:, : chosen.size].T @ V[part]

        self._each(range(count), add, V)
        for other in sums[1:]:
            sums[0] += other
        return sums[0]

    def _each(self, numbers: range, run: Callable[[int, int], Any], V: Array) -> None:
        """Lanes share the tasks."""
        if self.numbers * V.shape[1] >= WORTH:
            share(len(numbers), run)
        else:
            for number in numbers:
                run(number, 0)


def lower_chunks(n: int, xp: Any) -> list[slice]:
    """The rows [i, j) of the parts [i, j) × [0, j) of an n × n lower triangle; a GPU takes all rows at once.

    >>> lower_chunks(300, np)
    [slice(0, 256, None), slice(256, 300, None)]
    """
    size = ROWS if xp is np else max(n, 1)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def factor(
    kernel: Kernel, X: Array, *, noise: float, blocks: Blocks, keep: float = 0.0, space: Workspace | None = None
) -> Factor:
    """The factor for the rows X (N, D) in the order of ``blocks``: O(N(p + b)³/b) flops.

    Its `Factor.roots` are kept, in ``space``, if they need at most ``keep`` bytes.

    Raises
    ------
    NotPositiveDefinite
        if σ² is below the rounding error of K.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X, rows = np.array([[0.0], [1.0], [2.0]]), np.arange(3)
    >>> whole = Blocks(rows, [slice(0, 3)], [rows[:0]])
    >>> U = factor(SquaredExponential(), X, noise=0.1, blocks=whole)
    >>> B = U.times(SquaredExponential()(X) + 0.1 * np.eye(3)) @ U.transposed_times(np.eye(3))
    >>> bool(np.allclose(B, np.eye(3)))
    True
    """
    as_kernel(kernel)
    X, noise = as_points(X, finite=not is_cupy(X)), one_for_all(noise, OF_FACTORS)
    instance("blocks", blocks, Blocks, "what gpbounds.vecchia.near returns")
    scalar(non_negative, "keep", keep)
    if space is not None:
        instance("space", space, Workspace, "a Workspace")
    if blocks.order.size != X.shape[0]:
        raise ValueError(f"blocks: expected blocks of {X.shape[0]} rows, as X has, got {blocks.order.size}")
    xp, count = namespace(X), len(blocks.parts)
    known = None if xp is np else covariances(kernel, X[:1])
    numbers = None if xp is np else xp.asarray(np.concatenate(blocks.rows))
    weights: list[Any] = [None] * count
    halves: list[Any] = [0.0] * count
    sizes = [int(chosen.size) + part.stop - part.start for part, chosen in zip(blocks.parts, blocks.sets, strict=True)]
    starts = np.cumsum([0, *sizes])
    ends = np.cumsum([0, *(n * n for n in sizes)])
    kept = None
    if 8.0 * float(ends[-1]) <= keep:
        whole = (Workspace() if space is None else space).array("roots", (int(ends[-1]),), xp)
        kept = [whole[start:stop].reshape(n, n) for start, stop, n in zip(ends[:-1], ends[1:], sizes, strict=True)]

    def fill(number: int, worker: int) -> None:
        part, chosen = blocks.parts[number], blocks.sets[number]
        n, b = sizes[number], part.stop - part.start
        if numbers is not None:
            rows = X[numbers[starts[number] : starts[number + 1]]]
        else:
            rows = xp.concatenate([X[chosen], X[part]]) if chosen.size else X[part]
        K = xp.empty((n, n)) if kept is None else kept[number]
        if isinstance(known, Fused):
            known.at(rows).fill(rows, K)
        else:
            for some in lower_chunks(n, xp):
                shape = (some.stop - some.start, some.stop)
                K[some, : some.stop] = kernel.fill(rows[some], rows[: some.stop], xp.empty(shape))
        K.reshape(-1)[:: n + 1] += noise
        L = factor_noisy(K, noise).L
        last = xp.zeros((n, b))
        last[n - b :] = xp.eye(b)
        if kept is not None:
            kept[number] = L
        weights[number] = xp.ascontiguousarray(solve_triangular(L, last, transposed=True).T)
        halves[number] = xp.log(xp.diagonal(L)[n - b :]).sum()

    if xp is np:
        share(count, fill)
    else:
        for number in range(count):
            fill(number, 0)
    total = np.array(halves).sum() if xp is np else xp.stack(halves).sum()
    return Factor(blocks, weights, 2.0 * float(total), kept)


def log_det_error(U: Factor, variance: float, entry: float, *, noise: float) -> float:
    """An upper bound on the error of log|P| (N-vecchia); ``entry`` bounds the error of an entry of K.

    The factor of the n rows of a block is exact for (K + σ²I)[c, c] + E, ‖E‖_F ≤ γ_(n+2)·n(k + σ²) + n·entry, k the
    largest variance; the last pivots are quotients of determinants, each of which moves by √n‖E‖_F/(σ² − ‖E‖_F) in the
    logarithm.
    """
    instance("U", U, Factor, "what gpbounds.vecchia.factor returns")
    noise, entry = scalar(positive, "noise", noise), scalar(extended, "entry", entry)
    variance, total = scalar(non_negative, "variance", variance), 0.0
    for part, chosen in zip(U.blocks.parts, U.blocks.sets, strict=True):
        n = int(chosen.size) + part.stop - part.start
        off = 1.01 * n * ((n + 4.0) * 2.0**-53 * 1.01 * (variance + noise) + entry)
        if not off < 0.5 * noise:
            return math.inf
        total += 2.0 * math.sqrt(n) * off / (noise - off)
    sizes = abs(math.log(noise)) + abs(math.log(variance + noise))  # a pivot is between σ² and k + σ²
    return 1.01 * (total + 80.0 * 2.0**-53 * U.N * sizes)
