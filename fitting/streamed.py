"""The streamed whitening with memory, and its pull-back: written once, used by every function of a sparse posterior.

The forward pass is that of `gpbounds.whitening`: L Lᵀ = Kuu + jitter·I and V = L⁻¹Kuf by chunks of rows.  What a
reverse pass needs again, Kuf and V, is kept as far as the workspace allows and computed anew beyond.

With C the cotangent of Kuf, V̄ that of V and d̄ that of the diagonal of Kff:

    C = L⁻ᵀV̄,    K̄uu = −½ L⁻ᵀ Φ L⁻¹,    Φ the symmetric matrix with the lower triangle of V̄Vᵀ,

as L̄ = −tril(L⁻ᵀV̄Vᵀ) and the pull-back of a Cholesky factor reads only tril(LᵀL̄) = −tril(V̄Vᵀ).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitting.backend import lift_rows, solve_rows
from gpbounds.arrays import Array, Float, namespace
from gpbounds.kernels import Kernel
from gpbounds.psd import Jitter
from gpbounds.validation import count
from gpbounds.whitening import CHUNK, Inducing, inducing, slices

KEEP = 2**28
"""Bytes of Kuf and V kept between the passes unless told otherwise: all of them at N = 32 000, M = 500."""


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
    _filled: int = 0

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

    @property
    def kept(self) -> int:
        """How many rows of Kuf and V stay between passes."""
        return min(self.N, self.space.keep // (16 * self.M))

    def scratch(self, name: str, rows: slice) -> Array:
        """A buffer (n, M) for the chunk ``rows``."""
        most = max(part.stop - part.start for part in self.parts)
        return self.space.array(name, (most, self.M), namespace(self.X))[: rows.stop - rows.start]

    def __iter__(self) -> Iterator[tuple[slice, Array, Array]]:
        kernel, Z, xp = self.inducing.kernel, self.inducing.Z, namespace(self.X)
        kept = self.kept
        whole = [self.space.array(f"kept {name}", (kept, self.M), xp) for name in "KV"] if kept else []
        for rows in self.parts:
            stays = rows.stop <= kept
            K, V = (a[rows] for a in whole) if stays else (self.scratch(name, rows) for name in "KV")
            if not stays or rows.stop > self._filled:
                kernel.fill(self.X[rows], Z, K)
                V[...] = K
                solve_rows(self.L, V)
            if stays:
                self._filled = max(self._filled, rows.stop)
            yield rows, K, V


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
    >>> found = stream(SquaredExponential(), np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [2.0]]), chunk=2)
    >>> [(rows.start, K.shape, bool((V == V).all())) for rows, K, V in found]
    [(0, (2, 2), True), (2, (1, 2), True)]
    """
    pieces = list(slices(X.shape[0], chunk)) if parts is None else parts
    return Stream(inducing(kernel, Z, jitter), X, pieces, Workspace(0) if space is None else space)


@dataclass(frozen=True)
class Pulled:
    """Derivatives in the kernel's `log_parameters` (p,) and in Z (M, D), None where there is no Z."""

    kernel: Float
    Z: Array | None


@dataclass
class PullBack:
    """Collects the cotangents of Kuf, of the diagonal of Kff, of blocks of Kff and of Kuu; `finish` adds them up."""

    source: Stream
    wants_Z: bool = True
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
        self.cross(rows, lift_rows(self.source.L, cotangent), K)

    def diagonal(self, cotangent: Array) -> None:
        """d̄ (N,), of the diagonal of Kff."""
        self.parameters += self.source.inducing.kernel.pull_diag(self.source.X, cotangent)

    def block(self, rows: slice, cotangent: Array, K: Array) -> None:
        """Symmetric (n, n), of k(X[rows], X[rows]); it is overwritten."""
        X = self.source.X[rows]
        self.parameters += self.source.inducing.kernel.pull(X, X, cotangent, K)[0]

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
        return Pulled(self.parameters, self.moved if self.wants_Z else None)
