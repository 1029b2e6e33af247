"""Memory that calls reuse."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.validation import count, free_bytes

KEEP = 2**28
"""Default number of bytes of features kept between passes: all features at N = 32 000, M = 500."""

MOST = 2**16
"""Rows that a GPU processes at a time if its memory suffices: launches then take little of the time."""

_ALLOCATION = threading.Lock()
if hasattr(os, "register_at_fork"):  # not on Windows; in a forked process no thread is left that could free it
    os.register_at_fork(after_in_child=_ALLOCATION._at_fork_reinit)  # type: ignore[attr-defined]


@dataclass
class Workspace:
    """Buffers that outlive a call, so that an optimiser's next call allocates no memory.

    ``keep`` is the number of bytes of features that may stay between the passes of one call; the other features are
    recomputed.  ``free`` is the number of bytes that were free on the GPU when the workspace was made; 0 on a CPU.
    Lanes of one caller may share a workspace, two callers must not.

    >>> Workspace(keep=0).array("V", (2, 3), np).shape
    (2, 3)
    """

    keep: int = KEEP
    free: int = 0
    _buffers: dict[str, Array] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.keep = count("keep", self.keep, 0)

    @classmethod
    def on(cls, xp: Any, keep: int | None, on_cpu: int = KEEP) -> Workspace:
        """A workspace for arrays of ``xp``; ``keep`` None keeps ``on_cpu`` bytes, or half of a GPU's free memory.

        >>> Workspace.on(np, None).keep == KEEP
        True
        """
        free = free_bytes(xp)
        return cls((free // 2 if free else on_cpu) if keep is None else keep, free)

    def rows(self, M: int, on_cpu: int) -> int:
        """Rows of M features that are processed at a time: ``on_cpu``, or by the free memory of a GPU.

        On a GPU four arrays of so many rows take at most an eighth of the memory.

        >>> Workspace().rows(100, 1024), Workspace(0, 8 * 10**10).rows(1000, 1024), Workspace(0, 10**9).rows(1000, 1024)
        (1024, 65536, 3906)
        """
        return max(on_cpu, min(MOST, self.free // (8 * 4 * 8 * max(M, 1)))) if self.free else on_cpu

    def array(self, name: str, shape: tuple[int, ...], xp: Any, dtype: Any = np.float64) -> Array:
        """An array of ``shape`` with arbitrary entries; calls with the same ``name`` return the same memory."""
        size = int(np.prod(shape))
        with _ALLOCATION:  # two lanes that ask for the same memory at once must get the same
            buffer = self._buffers.get(name)
            if buffer is None or buffer.size < size or buffer.dtype != dtype or namespace(buffer) is not xp:
                buffer = self._buffers[name] = xp.empty(size, dtype=dtype)
        return buffer[:size].reshape(shape)

    def release(self) -> None:
        """Free the memory."""
        self._buffers.clear()


class Spares:
    """Vectors that threads borrow for a while, so that repeated calls allocate no memory.

    A call that frees large arrays returns their pages to the system, which clears them for the next call.  That took
    a seventh of the time of a step of a deep kernel.  A copy, or a stored object, begins without vectors.

    >>> spares = Spares()
    >>> with spares.lent(3, np) as first:
    ...     first[:] = 1.0
    >>> with spares.lent(2, np) as second:
    ...     second.tolist()  # arbitrary entries, here those of ``first``
    [1.0, 1.0]
    """

    def __init__(self) -> None:
        self._free: list[Array] = []

    def __reduce__(self) -> tuple[type[Spares], tuple[()]]:
        return Spares, ()

    @contextmanager
    def lent(self, size: int, xp: Any) -> Iterator[Array]:
        """A vector (size,) with arbitrary entries; nobody else has it until the context ends."""
        try:
            vector = self._free.pop()
        except IndexError:
            vector = xp.empty(size)
        if vector.size < size or namespace(vector) is not xp:
            vector = xp.empty(size)
        try:
            yield vector[:size]
        finally:
            self._free.append(vector)
