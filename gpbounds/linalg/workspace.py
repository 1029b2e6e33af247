"""Memory that calls reuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.validation import count

KEEP = 2**28
"""Default number of bytes of features kept between passes: all features at N = 32 000, M = 500."""

_ALLOCATION = threading.Lock()


@dataclass
class Workspace:
    """Buffers that outlive a call, so that an optimiser's next call allocates no memory.

    ``keep`` is the number of bytes of features that may stay between the passes of one call; the other features are
    recomputed.  Lanes of one caller may share a workspace, two callers must not.

    >>> Workspace(keep=0).array("V", (2, 3), np).shape
    (2, 3)
    """

    keep: int = KEEP
    _buffers: dict[str, Array] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.keep = count("keep", self.keep, 0)

    def array(self, name: str, shape: tuple[int, ...], xp: Any) -> Array:
        """An array of ``shape`` with arbitrary entries; calls with the same ``name`` return the same memory."""
        size = int(np.prod(shape))
        with _ALLOCATION:  # two lanes that ask for the same memory at once must get the same
            buffer = self._buffers.get(name)
            if buffer is None or buffer.size < size or namespace(buffer) is not xp:
                buffer = self._buffers[name] = xp.empty(size)
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
