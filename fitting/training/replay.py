"""Evaluations of an optimiser that keeps no state of its own, so that a stopped run continues on the same path."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from fitting.training.run import Loss, Run
from fitting.training.watch import Watch
from gpbounds.arrays import Float


class Diverged(Exception):
    """The optimiser asked for another point than in the recorded run: another release, or other rounding."""


class Replay:
    """The evaluations of a run in order: those of ``earlier`` are repeated without computation, further ones are added.

    The optimiser is deterministic.  If it starts at the same point and receives the same values and gradients, it asks
    for the same points, and has the same curvature when the record ends.  A digest of each point is compared.

    Parameters
    ----------
    watch : Watch
    loss : Loss
    earlier : Run, optional
        Its ``state`` holds the record.
    keeps : bool
        False records nothing.
    """

    def __init__(self, watch: Watch, loss: Loss, earlier: Run | None, keeps: bool) -> None:
        self.watch, self.loss, self.keeps = watch, loss, keeps
        state = {} if earlier is None else earlier.state
        self._digests: list[int] = [int(digest) for digest in state.get("digests", ())]
        self._values: list[float] = [float(value) for value in state.get("losses", ())]
        self._gradients: list[Float] = list(state.get("gradients", ()))
        self._next = 0

    @property
    def replaying(self) -> bool:
        """Whether recorded evaluations are left."""
        return self._next < len(self._values)

    def measure(self, x: Float) -> tuple[float, Float]:
        """As `Watch.measure`."""
        if not (self.keeps or self.replaying):
            return self.watch.measure(self.loss, x)
        digest = int.from_bytes(hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=8).digest(), "little")
        if self.replaying:
            if self._digests[self._next] != digest:
                raise Diverged
            f, g = self._values[self._next], self._gradients[self._next].copy()
            self.watch.evaluations += 1
            self.watch.failures += not math.isfinite(f)
        else:
            f, g = self.watch.measure(self.loss, x)
            self._digests.append(digest)
            self._values.append(f)
            self._gradients.append(np.array(g))
        self._next += 1
        self.watch.quiet = self.replaying
        return f, g

    def state(self) -> dict[str, Any]:
        """The record, as the state of a `Run`."""
        if not (self.keeps and self._values):
            return {}
        return {
            "digests": np.array(self._digests, dtype=np.uint64),
            "losses": np.array(self._values),
            "gradients": np.array(self._gradients),
        }
