"""The streamed whitening with memory, and its pull-back: written once, used by every function of a sparse posterior.

The forward pass is that of `gpbounds.whitening`: L Lᵀ = Kuu + jitter·I and V = L⁻¹Kuf by chunks of rows.  What a
reverse pass needs again, Kuf and V, is kept as far as the workspace allows and computed anew beyond.

With C the cotangent of Kuf, V̄ that of V and d̄ that of the diagonal of Kff:

    C = L⁻ᵀV̄,    K̄uu = −½ L⁻ᵀ Φ L⁻¹,    Φ the symmetric matrix with the lower triangle of V̄Vᵀ,

as L̄ = −tril(L⁻ᵀV̄Vᵀ) and the pull-back of a Cholesky factor reads only tril(LᵀL̄) = −tril(V̄Vᵀ).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels import Kernel
from gpbounds.linalg import Jitter
from gpbounds.linalg.lanes import WORTH, share, threads
from gpbounds.linalg.triangular import inverse_factor, lift_rows, multiply_rows, solve_rows
from gpbounds.validation import count
from gpbounds.whitening import CHUNK, Inducing, inducing, slices

KEEP = 2**28
"""Bytes of Kuf and V kept between the passes unless told otherwise: all of them at N = 32 000, M = 500."""

TAME = 1e5
"""|L|·|L⁻¹| (Frobenius) up to which V = L⁻¹Kuf is a product with L⁻¹: the diagonal of Q is then off by less than 2e-13
of the variance, measured; at 1e7 it is by 2e-11, where solving keeps 1e-12."""


@dataclass
class Workspace:
    """Buffers that outlive a call, so that an optimiser's next one need not ask for memory again.

    ``keep`` is how many bytes of Kuf and V may stay between the passes of one call; what does not fit is computed anew.
    Not to be shared by two threads.

    >>> Workspace(keep=0).array("V", (2, 3), np).shape
    (2, 3)
    """

    keep: int = KEEP
    _buffers: dict[str, Array] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.keep = count("keep", self.keep, 0)

    def array(self, name: str, shape: tuple[int, ...], xp: Any) -> Array:
        """An array of ``shape`` with arbitrary entries, the same memory whenever ``name`` is asked for again."""
        size = int(np.prod(shape))
        held = self._buffers.get(name)
        if held is None or held.size < size or namespace(held) is not xp:
            held = self._buffers[name] = xp.empty(size)
        return held[:size].reshape(shape)

    def release(self) -> None:
        """Give the memory back."""
        self._buffers.clear()


class Visitor(Protocol):
    """What a pass does with its chunks: sums of its own, one visitor a thread."""

    def chunk(self, rows: slice, K: Array, V: Array) -> None:
        """K = k(X[rows], Z) and V = (L⁻¹Kᵀ)ᵀ, both (n, M); neither may be changed."""


V = TypeVar("V", bound=Visitor)


@dataclass(frozen=True)
class Lane:
    """The buffers of one thread."""

    source: Stream
    number: int

    def scratch(self, name: str, rows: slice) -> Array:
        """A buffer (n, M) for the chunk ``rows``, the same memory for the next chunk."""
        source = self.source
        most = max(part.stop - part.start for part in source.parts)
        whole = source.space.array(f"{name} {self.number}", (most, source.M), namespace(source.X))
        return whole[: rows.stop - rows.start]


@dataclass
class Stream:
    """Chunks (rows, K, V) of one (kernel, X, Z): K = k(X[rows], Z) and V = (L⁻¹Kᵀ)ᵀ, both (n, M).

    Attributes
    ----------
    inducing : Inducing
        Kernel, Z, L.
    X : array (N, D)
    parts : sequence of slices
        Consecutive rows of X taken at a time.
    space : Workspace
    """

    inducing: Inducing
    X: Array
    parts: Sequence[slice]
    space: Workspace
    _known: set[int] = field(default_factory=set)

    @property
    def N(self) -> int:
        """Number of data."""
        return int(self.X.shape[0])

    @property
    def M(self) -> int:
        """Number of inducing points."""
        return self.inducing.M

    @property
    def L(self) -> Array:
        """The Cholesky factor of Kuu + jitter·I."""
        return self.inducing.chol.L

    @cached_property
    def inverse(self) -> Array | None:
        """L⁻¹ where multiplying by it is as accurate as solving, and faster: |L|·|L⁻¹| ≤ `TAME`; else None."""
        found = inverse_factor(self.L)
        norm = namespace(found).linalg.norm
        return found if float(norm(found)) * float(norm(self.L)) <= TAME else None

    def whiten(self, B: Array) -> Array:
        """Overwrite the rows b of ``B`` (n, M) with L⁻¹b."""
        return solve_rows(self.L, B) if self.inverse is None else multiply_rows(self.inverse, B)

    def lift(self, B: Array) -> Array:
        """Overwrite the rows b of ``B`` (n, M) with L⁻ᵀb."""
        return lift_rows(self.L, B) if self.inverse is None else multiply_rows(self.inverse, B, transposed=True)

    def visit(self, start: Callable[[Lane], V]) -> list[V]:
        """One pass: every chunk goes to a visitor, of which ``start`` makes one for each thread; all are returned.

        As many threads as BLAS may use, each with BLAS to itself: entry by entry work then runs on all cores, too.
        Which visitor sees which chunk is fixed, so that sums come out the same every time.
        """
        self.inverse  # noqa: B018  (found once, before threads need it)
        count = self._threads()
        visitors = [start(Lane(self, number)) for number in range(count)]
        share(count, lambda number: self._run(visitors[number], number, count))
        return visitors

    def _threads(self) -> int:
        if namespace(self.X) is not np or len(self.parts) == 1 or self.N * self.M**2 < WORTH:
            return 1
        return min(threads(), len(self.parts))

    def _run(self, visitor: Visitor, first: int, step: int) -> None:
        lane = Lane(self, first)
        with np.errstate(over="ignore", invalid="ignore"):  # a thread has its own; what is not finite is refused later
            for number in range(first, len(self.parts), step):
                rows = self.parts[number]
                visitor.chunk(rows, *self._chunk(number, rows, lane))

    def _chunk(self, number: int, rows: slice, lane: Lane) -> tuple[Array, Array]:
        stays = rows.stop * 16 * self.M <= self.space.keep
        if stays:
            size = (min(self.N, self.space.keep // (16 * self.M)), self.M)
            K, V = (self.space.array(f"kept {name}", size, namespace(self.X))[rows] for name in "KV")
        else:
            K, V = lane.scratch("K", rows), lane.scratch("V", rows)
        if number not in self._known:
            self.inducing.kernel.fill(self.X[rows], self.inducing.Z, K)
            V[...] = K
            self.whiten(V)
            if stays:
                self._known.add(number)
        return K, V


def stream(
    kernel: Kernel,
    X: Array,
    Z: Array,
    jitter: Jitter = 0.0,
    *,
    chunk: int = CHUNK,
    parts: Sequence[slice] | None = None,
    space: Workspace | None = None,
) -> Stream:
    """Factorise Kuu and make ready to stream; float64 points, checked by the caller.

    >>> from gpbounds.kernels import SquaredExponential
    >>> class Trace:
    ...     value = 0.0
    ...     def chunk(self, rows, K, V):
    ...         self.value += float((V * V).sum())
    >>> source = stream(SquaredExponential(), np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), chunk=2)
    >>> round(sum(visitor.value for visitor in source.visit(lambda lane: Trace())), 4)  # Tr Q
    2.6481
    """
    pieces = list(slices(X.shape[0], chunk)) if parts is None else parts
    return Stream(inducing(kernel, Z, jitter), X, pieces, Workspace(0) if space is None else space)


@dataclass(frozen=True)
class Pulled:
    """Derivatives in the kernel's `log_parameters` (p,) and in Z (M, D)."""

    kernel: Float
    Z: Array


@dataclass
class PullBack:
    """Collects the cotangents of Kuf, of the diagonal of Kff, of blocks of Kff and of Kuu; `finish` adds them up."""

    source: Stream
    parameters: Float = field(init=False)
    moved: Array = field(init=False)

    def __post_init__(self) -> None:
        side = self.source.inducing
        self.parameters = np.zeros(side.kernel.log_parameters.size)
        self.moved = namespace(side.Z).zeros(side.Z.shape)

    def cross(self, rows: slice, cotangent: Array, K: Array) -> None:
        """C (n, M), of k(X[rows], Z); it is overwritten."""
        side = self.source.inducing
        parameters, moved = side.kernel.pull(self.source.X[rows], side.Z, cotangent, K)
        self.parameters += parameters
        self.moved += moved

    def whitened(self, rows: slice, cotangent: Array, K: Array) -> None:
        """V̄ (n, M), of V[rows]; it is overwritten."""
        self.cross(rows, self.source.lift(cotangent), K)

    def diagonal(self, cotangent: Array) -> None:
        """d̄ (N,), of the diagonal of Kff."""
        self.parameters += self.source.inducing.kernel.pull_diag(self.source.X, cotangent)

    def block(self, rows: slice, cotangent: Array, K: Array) -> None:
        """Symmetric (n, n), of k(X[rows], X[rows]); it is overwritten."""
        X = self.source.X[rows]
        self.parameters += self.source.inducing.kernel.pull(X, X, cotangent, K)[0]

    def add(self, other: PullBack) -> None:
        """What another thread has collected."""
        self.parameters += other.parameters
        self.moved += other.moved

    def finish(self, outer: Array, relative_jitter: float = 0.0) -> Pulled:
        """All derivatives, given V̄Vᵀ (M, M); jitter = relative_jitter·k(z, z) is differentiated, too."""
        side, xp = self.source.inducing, namespace(outer)
        lower = xp.tril(outer, -1)
        symmetric = lower + lower.T + xp.diag(xp.diagonal(outer))
        symmetric *= -0.5
        half = lift_rows(self.source.L, xp.ascontiguousarray(symmetric))  # rows: (L⁻ᵀS)ᵀ = S L⁻¹
        Kuu_bar = lift_rows(self.source.L, xp.ascontiguousarray(half.T))
        if relative_jitter:
            nugget = xp.full(1, relative_jitter * float(Kuu_bar.trace()))
            self.parameters += side.kernel.pull_diag(side.Z[:1], nugget)
        parameters, moved = side.kernel.pull(side.Z, side.Z, Kuu_bar)
        self.parameters += parameters
        self.moved += 2.0 * moved
        return Pulled(self.parameters, self.moved)
