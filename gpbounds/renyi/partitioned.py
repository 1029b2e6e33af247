"""The O(NM²) parts of the evidence bounds for rows in partitions: as `gpbounds.renyi.streamed`, in two passes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Array, Float, as_points, exactly
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.mapreduce.program import Engine, Round, Rows
from gpbounds.mapreduce.statistics import Statistics
from gpbounds.renyi.accuracy import Accuracy, accuracy, errors_of_entries
from gpbounds.renyi.streamed import BLOCK, Combinations, Fits, Problem, Unexplained, unexplained_sums
from gpbounds.sources import is_elsewhere, source
from gpbounds.validation import count, noise_variance
from gpbounds.whitening import CHUNK, Inducing, inducing, whitened, with_jitter


@dataclass(frozen=True, eq=False)
class Sums(Statistics):
    """Of some rows: VVᵀ, Vy, ‖y‖², Tr(K − Q), an integer >= rank(K − Q), their number, and `errors_of_entries`."""

    gram: Float
    projected: Float
    squares: Float
    trace: float
    rank: int
    rows: int
    entry: float
    proved: bool

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.gram + other.gram,
            self.projected + other.projected,
            self.squares + other.squares,
            self.trace + other.trace,
            self.rank + other.rank,
            self.rows + other.rows,
            max(self.entry, other.entry),
            self.proved and other.proved,
        )


@dataclass(frozen=True)
class WhitenedParts:
    """The sums over all rows, as `gpbounds.whitening.Whitened`.

    Equal rows of X count once for each partition they lie in: ``rank`` is at least that of the same rows in one array.
    """

    inducing: Inducing
    gram: Float
    projected: Float
    squares: Float
    rank: int
    trace: float
    N: int
    entry: float
    proved: bool

    @property
    def additions(self) -> int:
        """At least the number of additions that one entry of VVᵀ went through: in a partition, and up the tree."""
        return min(self.N, CHUNK + -(-self.N // CHUNK) + 64)

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return self.inducing.M

    @property
    def jitter(self) -> float:
        """The number that was added to the diagonal of Kuu."""
        return self.inducing.chol.jitter


@dataclass(frozen=True, eq=False)
class WhiteningPass:
    """The program of the first pass.

    Attributes
    ----------
    kernel : Kernel
    Z : array (M, D)
    jitter : float
    """

    kernel: Kernel
    Z: Float
    jitter: float

    def begin(self) -> Inducing:
        """The factor of Kuu."""
        return inducing(self.kernel, self.Z, self.jitter)

    @property
    def rounds(self) -> tuple[Round, ...]:
        """One pass."""
        return (Round(_sums, _whole),)


def _sums(whitener: Inducing, rows: Rows) -> Sums:
    white = whitened(whitener, _doubles(rows), rows.Y)
    errors = errors_of_entries(whitener.kernel, white.X, whitener.Z)
    return Sums(white.gram, white.projected, white.squares, white.trace, white.rank, len(rows.Y), *errors)


def _whole(whitener: Inducing, total: Sums) -> WhitenedParts:
    numbers = total.rank, total.trace, total.rows, total.entry, total.proved
    return WhitenedParts(whitener, total.gram, total.projected, total.squares, *numbers)


@dataclass(frozen=True, eq=False)
class FitsPass:
    """The program of the second pass.

    Attributes
    ----------
    first : WhiteningPass
    combined : Combinations
    known : Accuracy
    block : int
        Rows of a block of Δ, or 0 without spread.
    """

    first: WhiteningPass
    combined: Combinations
    known: Accuracy
    block: int

    def begin(self) -> Inducing:
        """The factor of Kuu, computed again: a graph holds no M × M numbers."""
        return self.first.begin()

    @property
    def rounds(self) -> tuple[Round, ...]:
        """One pass."""
        return (Round(self.sums, lambda whitener, total: total),)

    def sums(self, whitener: Inducing, rows: Rows) -> Unexplained:
        """The sums of one partition, whose blocks begin with its first row."""
        return unexplained_sums(self.combined, self.known, whitener, _doubles(rows), rows.Y, self.block)


@dataclass(frozen=True)
class Partitioned(Problem):
    """Rows in partitions.

    Attributes
    ----------
    engine : Engine
    white : WhitenedParts
    noise : float
    block : int
        Largest number of rows of a block of Δ; no block has rows of several partitions.
    """

    engine: Engine
    white: WhitenedParts
    noise: float
    block: int = BLOCK

    @property
    def sums(self) -> WhitenedParts:
        """The sums of the first pass."""
        return self.white

    @property
    def P(self) -> int:
        """Number of outputs."""
        return int(self.white.projected.shape[1])

    def fits(self, shifts: ArrayLike, *, spread: bool = False) -> Fits:
        """As in the base class; the diagonal of Δ is computed again for ``spread``, in O(NM²)."""
        combined = self.combinations(shifts, self.white.projected)
        first = WhiteningPass(self.white.inducing.kernel, self.white.inducing.Z, self.white.jitter)
        total = self.engine.run(FitsPass(first, combined, self.accuracy, self.block if spread else 0))
        return self.forms(combined, total, self.lengths)

    @cached_property
    def accuracy(self) -> Accuracy:
        """How far Q is from what was computed."""
        return accuracy(self.white, self.white.entry, self.white.proved)

    @cached_property
    def lengths(self) -> Float:
        """At least the norm of y, for each output (P,)."""
        return 1.01 * np.sqrt(self.white.squares)


def by_partitions(X: Any) -> bool:
    """Whether passes over the rows X go by partitions: all but arrays in memory."""
    return is_elsewhere(X) or isinstance(X, np.memmap)


def partitioned(
    kernel: Kernel, X: Any, y: Any, Z: ArrayLike, noise: float, jitter: Jitter, block: int = BLOCK
) -> Partitioned:
    """Checks the arguments and makes the first pass; X and y as in `gpbounds.sources.source`."""
    variance, size = noise_variance(noise), count("block", block)
    rows = source(X, y if is_elsewhere(X) else np.asarray(exactly("y", y)))
    centres = as_points(Z, "Z", rows.D).astype(np.float64, copy=False)

    def attempt(amount: float) -> Any:
        return rows.holder.run(WhiteningPass(kernel, centres, amount))

    white = with_jitter(attempt, kernel, centres, jitter, sound=True)
    return Partitioned(rows.holder, white, variance, size)


def _doubles(rows: Rows) -> Array:
    return rows.X.astype(np.float64, copy=False)
