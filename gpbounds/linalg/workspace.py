"""Memory that is kept from one call to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.validation import count

KEEP = 2**28
"""Bytes of features kept between the passes unless told otherwise: all of them at N = 32 000, M = 500."""


@dataclass
class Workspace:
    """Buffers that outlive a call, so that an optimiser's next one need not ask for memory again.

    ``keep`` is how many bytes of features may stay between the passes of one call; what does not fit is computed anew.
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
