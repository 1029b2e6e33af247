"""Rows of data in chunks: a pass maps every chunk to sums, in several lanes, and adds the sums.

A pass is an object with two methods (`Pass`): it takes chunks one after the other, and returns its sums.  A chunk keeps
its features, and the results of earlier passes for its rows, as far as memory allows; the rest is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from fitting.prior_means import PriorMean
from fitting.rows.basis import Basis, PullBack
from gpbounds.arrays import Array, Float, namespace
from gpbounds.linalg.parallel import ENTRY, groups, share
from gpbounds.linalg.workspace import Workspace
from gpbounds.rows.program import Statistics, summed

if TYPE_CHECKING:
    from fitting.rows.data import Partition

T = TypeVar("T")
_S_co = TypeVar("_S_co", bound=Statistics, covariant=True)


@dataclass(eq=False)
class Chunk:
    """Consecutive rows: inputs, targets, features, and the results of earlier passes for them.

    Attributes
    ----------
    rows : slice
        The positions of these rows among all rows.
    X : array (n, D)
    Y : array (n, P)
        Targets minus the prior mean.
    K : array (n, m)
        The numbers that the pull-back of the basis needs: k(X, Z) for inducing points.
    V : array (n, M)
        Features.
    targets : array (n, P)
        Targets as they are.
    prior_mean : array (n, P), or 0
        The prior mean of these rows.
    """

    rows: slice
    X: Array
    Y: Array
    K: Array
    V: Array
    targets: Array
    prior_mean: Array | float
    basis: Basis
    _stream: Stream
    _lane: int
    _results: dict[str, Any]

    @property
    def residual(self) -> Array:
        """The diagonal of K − Q (n,), computed once."""
        return self.recall("residual", lambda: self.basis.residual(self.X, self.V))

    def recall(self, name: str, compute: Callable[[], T]) -> T:
        """The result of ``compute`` for these rows; it is called once for each ``name``."""
        if name not in self._results:
            self._results[name] = compute()
        return self._results[name]

    def in_prior_mean(self, slopes: Array | Callable[[], Array], rows: slice | None = None) -> Array | float:
        """Derivatives in the coefficients of the prior mean, from those in its values at all rows or at some.

        Slopes that have to be computed come as a function, which is called only if the mean has coefficients to train.
        """
        mean = self._stream.prior_mean
        if mean is None or not mean.trained:
            return 0.0
        return mean.pulled(self.X if rows is None else self.X[rows], slopes() if callable(slopes) else slopes)

    def scratch(self, name: str) -> Array:
        """A buffer (n, M); the next chunk in the same worker uses the same memory."""
        stream = self._stream
        most = max(part.stop - part.start for part in stream.parts)
        whole = stream.space.array(f"{name} {self._lane}", (most, self.basis.rank), namespace(self.X), self.basis.dtype)
        return whole[: self.rows.stop - self.rows.start]

    def kept(self, name: str, fill: Callable[[Array], object], *, last: bool = False) -> Array:
        """A buffer (n, M) that ``fill`` has filled; a later pass calls ``fill`` again only if memory did not suffice.

        The memory is the part of ``keep`` that K and V leave.  The ``last`` caller may overwrite the buffer.
        """
        stream, M = self._stream, self.basis.rank
        rows = min(stream.N, max(0, stream.space.keep // (8 * M) - 2 * stream.N))
        if self.rows.stop > rows:
            buffer = self.scratch(name)
            fill(buffer)
            return buffer
        buffer = stream.space.array(f"kept {name}", (rows, M), namespace(self.X), self.basis.dtype)[self.rows]
        self.recall(name, lambda: fill(buffer))
        if last:
            del self._results[name]
        return buffer


class Pass(Protocol[_S_co]):
    """The work on one group of chunks in a pass."""

    def chunk(self, chunk: Chunk) -> None:
        """Process one chunk; its X, Y, K and V must not be changed."""

    def statistics(self) -> _S_co:
        """The sums over the chunks so far."""


S = TypeVar("S", bound=Statistics)


@dataclass(eq=False)
class Stream:
    """The chunks of one data set with the features of one basis.

    Attributes
    ----------
    basis : Basis
    X : array (N, D)
    Y : array (N, P)
    parts : sequence of slices
        The consecutive rows of each chunk.
    space : Workspace
    prior_mean : PriorMean or None
        None is 0.
    blocks : Partition or None
        Blocks of rows, if the rows are sorted by such; each chunk has whole ones.
    """

    basis: Basis
    X: Array
    Y: Array
    parts: Sequence[slice]
    space: Workspace = field(default_factory=lambda: Workspace(0))
    prior_mean: PriorMean | None = None
    blocks: Partition | None = None
    _filled: set[int] = field(default_factory=set, repr=False)
    _results: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False)
    _squares: list[Array] = field(default_factory=list, repr=False)
    _vectors: list[Float] = field(default_factory=list, repr=False)

    @property
    def N(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.Y.shape[1])

    def mean_of(self, rows: slice) -> Array | float:
        """The prior mean (n, P) of some rows, or 0."""
        return 0.0 if self.prior_mean is None else self.prior_mean(self.X[rows])

    def forget(self, name: str) -> None:
        """Let the chunks compute the result of this ``name`` again."""
        for results in self._results.values():
            results.pop(name, None)

    def reduce(self, start: Callable[[], Pass[S]]) -> S:
        """One pass: ``start`` makes a `Pass` for each group of chunks; lanes take the groups, and their sums are added.

        The size of the problem determines the groups, and their sums are added in order, so that results do not depend
        on the number of lanes.
        """
        self.basis.prepare()
        count = self._groups()
        self._squares.clear()
        self._vectors.clear()
        passes: list[Pass[S]] = []
        squares: list[list[Array]] = []
        for _ in range(count):
            before = len(self._squares)
            passes.append(start())
            squares.append(self._squares[before:])
        sums: dict[int, S] = {}

        def run(group: int, worker: int) -> None:
            for square in squares[group]:
                square.fill(0.0)
            self._run(passes[group], range(group, len(self.parts), count), worker)
            sums[group] = passes[group].statistics()

        flops = 2.0 * self.N * self.basis.effort * (self.basis.effort + ENTRY / 2)
        share(count, run, flops=flops)
        self.basis.require()
        return summed(sums[group] for group in range(count))

    def square(self) -> Array:
        """Memory (M, M) for a sum of a `Pass` that is being made; it is 0 before the first chunk.

        The squares of several groups belong to the workspace: fresh memory would cost as much as adding the groups up.
        """
        xp, M = namespace(self.X), self.basis.rank
        if self._groups() == 1:  # the sum of one group is the result, and outlives the pass
            return xp.zeros((M, M))
        self._squares.append(self.space.array(f"sum {len(self._squares)}", (M, M), xp))
        return self._squares[-1]

    def pull_back(self) -> PullBack:
        """The pull-back of the basis for a `Pass` that is being made; its sums lie in memory like those of `square`."""
        return self.basis.pull_back(self._vector)

    def _vector(self, size: int) -> Float:
        if self._groups() == 1:
            return np.zeros(size)
        self._vectors.append(self.space.array(f"vector {len(self._vectors)}", (size,), np))
        self._vectors[-1].fill(0.0)
        return self._vectors[-1]

    def _groups(self) -> int:
        return groups(len(self.parts), self.N, self.basis.effort) if namespace(self.X) is np else 1

    def _run(self, each: Pass[S], numbers: range, worker: int) -> None:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # errstate is per thread; callers refuse results that are not finite
            for number in numbers:
                each.chunk(self._chunk(number, worker))

    def _chunk(self, number: int, worker: int) -> Chunk:
        rows, basis, xp = self.parts[number], self.basis, namespace(self.X)
        X, results = self.X[rows], self._results.setdefault(number, {})
        targets, mean = self.Y[rows], self.mean_of(rows)
        Y = targets if self.prior_mean is None else targets - mean
        chunk = Chunk(rows, X, Y, X, X, targets, mean, basis, self, worker, results)
        per_row = 8 * (basis.rank + basis.width)
        stays = rows.stop * per_row <= self.space.keep
        for name, columns in (("V", basis.rank), ("K", basis.width)):
            if stays:
                most = min(self.N, self.space.keep // per_row)
                buffer = self.space.array(f"kept {name}", (most, columns), xp, basis.dtype)[rows]
            else:
                most = max(part.stop - part.start for part in self.parts)
                buffer = self.space.array(f"{name} {worker}", (most, columns), xp, basis.dtype)[
                    : rows.stop - rows.start
                ]
            setattr(chunk, name, buffer)
        if number not in self._filled:
            basis.fill(X, chunk.K, chunk.V)
            if stays:
                self._filled.add(number)
        return chunk
