"""The rows of an objective, in memory or held by an engine, and computations over them.

A computation is a `Passes`.  Rows in memory are one stream, over which it runs in lanes; each partition that an engine
holds is a stream of its own.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fitting.features.base import FeatureKernel
from fitting.features.basis import FeatureBasis
from fitting.objectives.passes import Passes, StrongData
from fitting.prior_means import PriorMean, residuals
from fitting.rows.basis import Basis, InducingBasis
from fitting.rows.stream import Stream
from gpbounds.arrays import Array, Float, as_points, host, is_cupy, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.linalg.parallel import groups, one_blas_thread
from gpbounds.linalg.workspace import Workspace
from gpbounds.once import cached_property
from gpbounds.rows.engines import Engine
from gpbounds.rows.program import Program, Round, Rows, Statistics
from gpbounds.validation import count, finite
from gpbounds.vecchia import Blocks as Neighbourhoods
from gpbounds.vecchia.blocks import Blocking
from gpbounds.whitening import CHUNK, slices, with_jitter

# Rows in blocks: the rows are sorted by label, so that each block is a slice.


@dataclass(frozen=True, eq=False)
class Partition:
    """Blocks of consecutive rows, after sorting.

    Attributes
    ----------
    labels : tuple
        The label of each block.
    blocks : tuple of slices
    order : array (N,) or None
        The permutation that sorts the rows; None if they were sorted already.
    sets : tuple of arrays or None
        Earlier rows that each block is given, in increasing order; None if no block is given any.
    """

    labels: tuple[float, ...]
    blocks: tuple[slice, ...]
    order: Any
    sets: tuple[Any, ...] | None = None

    @cached_property
    def homes(self) -> dict[float, slice]:
        """The rows of each label."""
        return dict(zip(self.labels, self.blocks, strict=True))

    def chunks(self, size: int) -> list[slice]:
        """Chunks of whole blocks and the rows that they are given, each with at least ``size`` rows but the last.

        >>> partition(2, 7).chunks(3)
        [slice(0, 4, None), slice(4, 7, None)]
        """
        chunks, start, ends = [], 0, self._ends
        for block in self.blocks:
            if (block.stop - start >= size and block.stop in ends) or block is self.blocks[-1]:
                chunks.append(slice(start, block.stop))
                start = block.stop
        return chunks

    @cached_property
    def _ends(self) -> set[int]:
        """The ends of blocks after which no block is given a row before them."""
        first = self.blocks[-1].stop
        ends: set[int] = set()
        for number in reversed(range(len(self.blocks))):
            block = self.blocks[number]
            if block.stop <= first:
                ends.add(block.stop)
            chosen = np.empty(0) if self.sets is None else self.sets[number]
            first = min(first, block.start if len(chosen) == 0 else int(chosen[0]))
        return ends

    @cached_property
    def entries(self) -> int:
        """The number of entries of the covariances of all blocks, each with the rows that it is given."""
        given = [0] * len(self.blocks) if self.sets is None else [len(chosen) for chosen in self.sets]
        return sum((b.stop - b.start + n) ** 2 for b, n in zip(self.blocks, given, strict=True))

    def within(self, chunk: slice) -> Iterator[tuple[slice, Any]]:
        """The blocks of a chunk, with the rows that each is given."""
        first = bisect_left(self.blocks, chunk.start, key=lambda block: block.start)
        for number in range(first, len(self.blocks)):
            block = self.blocks[number]
            if block.start >= chunk.stop:
                return
            yield block, np.empty(0, dtype=np.int64) if self.sets is None else self.sets[number]


def partition(blocks: int | Sequence[int] | Any, N: int) -> Partition:
    """Blocks of ``blocks`` consecutive rows, or one block for each distinct label in ``blocks`` (N,).

    >>> partition([5, 3, 5], 3)
    Partition(labels=(3.0, 5.0), blocks=(slice(0, 1, None), slice(1, 3, None)), order=array([1, 0, 2]), sets=None)
    """
    sizes_or_labels = host(blocks)
    if sizes_or_labels.ndim == 0:
        labels = np.arange(N) // count("blocks", sizes_or_labels)
    else:
        labels = as_labels(sizes_or_labels, N)
    order = np.argsort(labels, kind="stable")
    names, starts = np.unique(labels[order], return_index=True)
    stops = [*starts[1:].tolist(), N]
    slices = tuple(slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True))
    in_order = bool((order == np.arange(N)).all())
    return Partition(tuple(float(v) for v in names), slices, None if in_order else order)


def neighbourhoods(blocks: Neighbourhoods) -> Partition:
    """The partition of `gpbounds.vecchia.Blocks`, with the rows that each block is given."""
    order, labels = blocks.order, tuple(float(number) for number in range(len(blocks.parts)))
    in_order = bool((order == np.arange(order.size)).all())
    sets = tuple(blocks.sets) if any(chosen.size for chosen in blocks.sets) else None
    return Partition(labels, tuple(blocks.parts), None if in_order else order, sets)


def as_labels(labels: Any, N: int) -> Any:
    """``labels`` as finite numbers (N,)."""
    numbers = finite("blocks", host(labels))
    if numbers.shape != (N,):
        raise ValueError(f"blocks: expected a label for each of {N} rows, got shape {numbers.shape}")
    return numbers


def nearest(centres: Float, X: Float, scale: Float) -> Any:
    """The number of the nearest of the ``centres`` for each row of X, as labels of blocks; X is in units of ``scale``.

    >>> nearest(np.array([[0.0], [1.0]]), np.array([[0.9], [0.2]]), np.ones(1)).tolist()
    [1, 0]
    """
    from scipy.spatial.distance import cdist

    rows = X / scale
    pieces = [rows[i : i + 4096] for i in range(0, rows.shape[0], 4096)]
    return np.concatenate([cdist(piece, centres, "sqeuclidean").argmin(axis=1) for piece in pieces])


# The rows of an objective, in memory or held by an engine, and computations over them.

T = TypeVar("T")

PIECES, LEAST = 8, 512
"""Number of chunks into which few rows are cut if lanes share them, and the least number of rows of such a chunk."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows with targets, and the settings with which they are read.

    Attributes
    ----------
    X : array (N, D)
        Sorted by block if there are blocks.
    Y : array (N, P)
        P outputs, which share the hyperparameters and are independent given them.
    single : bool
        Whether y has the shape (N,); predictions then have it, too.
    jitter : float or "auto"
        Added to the diagonal of Kuu.
    chunk : int or None
        Largest number of rows processed at a time; on a CPU fewer are if `PIECES` chunks need fewer.  None: `CHUNK` on
        a CPU, and on a GPU as many as its free memory allows.
    parts : Partition or None
        Blocks of rows that a chunk must not split.
    prior_mean : PriorMean or None
        The mean function of the prior; None is 0.
    space : Workspace
        Memory that is reused from one evaluation to the next.
    single_precision : bool
        Whether VFE's features are in single precision where that is harmless on the way; see `InducingBasis`.
    """

    X: Array
    Y: Array
    single: bool
    jitter: Jitter = "auto"
    chunk: int | None = None
    parts: Partition | None = None
    space: Workspace = field(default_factory=Workspace, repr=False)
    prior_mean: PriorMean | None = None
    single_precision: bool = False

    @property
    def N(self) -> int:
        """Number of data."""
        return int(self.X.shape[0])

    @property
    def D(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.Y.shape[1])

    @property
    def residuals(self) -> Array:
        """Y minus the prior mean (N, P)."""
        return residuals(self.prior_mean, self.X, self.Y)

    def about(self, mean: PriorMean | None) -> Data:
        """The same rows with another prior mean; None keeps it."""
        return self if mean is None else replace(self, prior_mean=mean)

    def inputs(self, Z: ArrayLike | Array | None, *, finite: bool = True) -> Array:
        """The inducing inputs as a float64 array on the device of X, tested for NaN and infinity if ``finite``."""
        if Z is None:
            raise ValueError(f"Z: expected inducing inputs of shape (M, {self.X.shape[1]}), got None")
        namespace(self.X, Z)
        return as_points(Z, "Z", self.X.shape[1], finite=finite).astype(np.float64, copy=False)

    def stream(self, kernel: Kernel, Z: Array, jitter: float) -> Stream:
        """The chunks of all rows with the features of the checked inducing points Z."""
        return self.stream_of(_inducing_basis(kernel, Z, jitter, self.jitter, self.single_precision))

    def run(self, kernel: Kernel, Z: ArrayLike | Array | None, passes: Passes) -> tuple[Any, float]:
        """The result of ``passes`` at one kernel and Z, and the jitter."""
        return self.sweep(kernel, Z, passes.over)

    def stream_of(self, basis: Basis) -> Stream:
        """The chunks of all rows with the features of ``basis``."""
        chunk = self.space.rows(basis.rank, CHUNK) if self.chunk is None else self.chunk
        lanes = namespace(self.X) is np and groups(PIECES, self.N, basis.effort) > 1
        size = min(chunk, max(LEAST, -(-self.N // PIECES))) if lanes else chunk
        pieces = list(slices(self.N, size)) if self.parts is None else self.parts.chunks(size)
        return Stream(basis, self.X, self.Y, pieces, self.space, self.prior_mean, self.parts)

    def sweep(self, kernel: Kernel, Z: ArrayLike | Array | None, work: Callable[[Stream], T]) -> tuple[T, float]:
        """The result of ``work`` on the chunks, and the jitter: for "auto" the smallest that lets ``work`` succeed."""

        def unread() -> bool:
            return namespace(self.X) is not np and math.isfinite(kernel.max_variance)

        def attempt(basis: Basis) -> T:
            source = self.stream_of(basis)
            if isinstance(basis, InducingBasis) and unread():
                basis.readings.require_finite("Z", basis.Z)
            return self._settled(source, work)

        with np.errstate(over="ignore", invalid="ignore"), one_blas_thread():
            return _at(
                kernel, lambda: self.inputs(Z, finite=not unread()), self.jitter, attempt, self.X, self.single_precision
            )

    def _settled(self, source: Stream, work: Callable[[Stream], T]) -> T:
        result = work(source)
        source.basis.readings.settle()  # a number that is not read yet may be an error
        return result

    def only(self, rows: ArrayLike | Array) -> Data:
        """The data of some rows, without blocks."""
        xp = namespace(self.X)
        chosen: Array = rows if is_cupy(rows) else np.asarray(rows)  # tested where it is
        if chosen.ndim != 1 or chosen.size == 0 or chosen.dtype.kind not in "iu":
            raise ValueError(f"rows: expected whole numbers, shape (n,), got shape {chosen.shape}, {chosen.dtype}")
        if int(chosen.min()) < 0 or int(chosen.max()) >= self.N:
            raise ValueError(f"rows: expected numbers in 0 ... {self.N - 1}, got {chosen.min()} to {chosen.max()}")
        chosen = xp.asarray(chosen)
        return replace(self, X=self.X[chosen], Y=self.Y[chosen], parts=None)

    def sorted_by(self, blocks: Blocking) -> Data:
        """The same rows in blocks."""
        parts = neighbourhoods(blocks.of(self.X))
        order = slice(None) if parts.order is None else parts.order
        return replace(self, X=self.X[order], Y=self.Y[order], parts=parts)

    def release(self) -> None:
        """Free the memory of evaluations."""
        self.space.release()


@dataclass(frozen=True, eq=False)
class Held:
    """The rows that an engine holds, and how the model sees them.

    Attributes
    ----------
    engine : Engine
    N, D, P : int
        Numbers of rows, of columns of X and of columns of Y.
    single : bool
        Whether y has the shape (N,).
    shift, scale : arrays (P,)
        The model is one of (y − shift)/scale.
    jitter : float or "auto"
        As for `Data`.
    prior_mean : PriorMean or None
        The mean function of the prior; None is 0.
    blocks : Blocking or None
        How an objective with blocks puts the rows of each partition into such.
    """

    engine: Engine
    N: int
    D: int
    P: int
    single: bool
    shift: Float
    scale: Float
    jitter: Jitter = "auto"
    space: Workspace = field(default_factory=lambda: Workspace(0), repr=False)
    prior_mean: PriorMean | None = None
    blocks: Blocking | None = None

    def about(self, mean: PriorMean | None) -> Held:
        """The same rows with another prior mean; None keeps it."""
        return self if mean is None else replace(self, prior_mean=mean)

    def inputs(self, Z: ArrayLike | None) -> Float:
        """The inducing inputs as a checked float64 array."""
        if Z is None:
            raise ValueError(f"Z: expected inducing inputs of shape (M, {self.D}), got None")
        return as_points(Z, "Z", self.D).astype(np.float64, copy=False)

    def run(self, kernel: Kernel, Z: ArrayLike | None, passes: Passes) -> tuple[Any, float]:
        """The result of ``passes`` at one kernel and Z, and the jitter."""

        def attempt(basis: Basis, passes: Passes = passes) -> Any:
            try:
                blocks = self.blocks if passes.in_blocks else None
                return self.engine.run(over_partitions(passes, basis, self.shift, self.scale, self.prior_mean, blocks))
            except StrongData:
                return attempt(basis, passes.stacked())

        return _at(kernel, lambda: self.inputs(Z), self.jitter, attempt)

    def only(self, rows: ArrayLike | Array) -> Held:
        """Raises an error."""
        raise ValueError("rows: expected all of them, as partitions are read in full, got some")

    def release(self) -> None:
        """Free the memory of the rows."""
        self.engine.release()


def over_partitions(
    passes: Passes,
    basis: Basis,
    shift: Float | float = 0.0,
    scale: Float | float = 1.0,
    prior_mean: PriorMean | None = None,
    blocks: Blocking | None = None,
) -> Program:
    """`Passes` as a program, for a model of (y − shift)/scale: each partition is a stream, of which nothing is kept."""
    rounds = [Round(partial(_mapped, map, shift, scale, prior_mean, blocks), then) for map, then in passes.rounds]
    return Program(partial(_prepared, basis), tuple(rounds))


def _prepared(basis: Basis) -> Basis:
    """The features, with the factor of Kuu."""
    basis.prepare()
    return basis


def _mapped(
    step: Callable[[Any, Stream], Statistics],
    shift: Float | float,
    scale: Float | float,
    prior_mean: PriorMean | None,
    blocks: Blocking | None,
    state: Any,
    rows: Rows,
) -> Statistics:
    """The sums of one partition."""
    basis = state if isinstance(state, Basis) else state.basis
    data = Data(rows.points, (rows.Y - shift) / scale, single=False, space=Workspace(0), prior_mean=prior_mean)
    return step(state, (data if blocks is None else data.sorted_by(blocks)).stream_of(basis))


Dataset = Data | Held
"""What an objective takes as rows."""


def _at(
    kernel: Kernel,
    points: Callable[[], Array],
    setting: Jitter,
    work: Callable[[Basis], T],
    rows: Array | None = None,
    single_precision: bool = False,
) -> tuple[T, float]:
    """The result of ``work`` for the features of ``kernel``, its own or those of inducing ``points``, and the jitter.

    For "auto" it is the smallest that lets ``work`` succeed.  Features that depend on moments of rows take those of
    ``rows``, if there are any.
    """
    if isinstance(kernel, FeatureKernel):
        return work(FeatureBasis.of(kernel if rows is None else kernel.over(rows))), 0.0
    Z = points()

    def attempt(amount: float) -> tuple[T, float]:
        return work(_inducing_basis(kernel, Z, amount, setting, single_precision)), amount

    return with_jitter(attempt, kernel, Z, setting)


def _inducing_basis(
    kernel: Kernel, Z: Array, jitter: float, setting: Jitter, single_precision: bool = False
) -> InducingBasis:
    """The features of the checked inducing points Z."""
    relative = jitter / kernel.largest_variance(Z) if setting == "auto" else 0.0
    return InducingBasis(kernel, Z, jitter, relative, single_precision)
