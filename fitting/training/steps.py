"""Adam's steps, with natural-gradient steps for a law, one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from fitting.training.natural import NaturalSteps
from gpbounds.arrays import Float
from gpbounds.linalg.workspace import Workspace

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

PIECE = 2**13
"""Entries that move at a time, so that a processor's nearest cache holds all that a step needs of them."""


class Steps:
    """A vector that moves by Adam's steps, each clipped to its bounds.

    Parameters
    ----------
    x : array (p,)
        The start.
    bounds : list of (low, high)
    rate : float
        Step length.
    natural : NaturalSteps, optional
        The last entries of the vector are a law, which takes natural-gradient steps instead of Adam's.

    >>> steps = Steps(np.array([3.0]), [(-9.0, 9.0)], 0.5)
    >>> for _ in range(200):
    ...     steps.take(2.0 * steps.x)
    >>> bool(abs(steps.x[0]) < 0.1)
    True
    """

    def __init__(
        self, x: Float, bounds: list[tuple[float, float]], rate: float, natural: NaturalSteps | None = None
    ) -> None:
        self.low, self.high = (np.array(ends, dtype=np.float64) for ends in zip(*bounds, strict=True))
        self.x, self.rate, self.natural = np.clip(x, self.low, self.high), rate, natural
        self._bounded = np.flatnonzero(np.isfinite(self.low) | np.isfinite(self.high))
        self.first, self.second, self.t = np.zeros_like(self.x), np.zeros_like(self.x), 0
        self.failed = 0
        self._spare: tuple[Float, Float, Float] | None = None
        self._space = Workspace(0)

    def take(self, g: Float) -> None:
        """One step, for the gradient g at the current vector.

        It writes into the memory of the vector before the current one: a vector stays as it is for one more step.
        """
        self.failed = 0
        self.t += 1
        x, first, second = self._spare or (np.empty_like(self.x), np.empty_like(self.x), np.empty_like(self.x))
        q = 0 if self.natural is None else self.natural.size
        rest, work = g.size - q, np.empty(PIECE)
        for start in range(0, rest, PIECE):
            piece = slice(start, min(start + PIECE, rest))
            self._adam(g[piece], piece, x[piece], first[piece], second[piece], work[: piece.stop - start])
        if self.natural is not None:
            x[rest:] = self.natural.moved(self.x[rest:], g[rest:], self.t, self._space)
            first[rest:], second[rest:] = 0.0, 0.0
        at = self._bounded
        x[at] = np.clip(x[at], self.low[at], self.high[at])
        self._spare = self.x, self.first, self.second
        self.x, self.first, self.second = x, first, second

    def _adam(self, g: Float, piece: slice, x: Float, first: Float, second: Float, work: Float) -> None:
        """Adam's step of some entries, bounds apart, written into ``x``, ``first``, ``second``; overwrites ``work``."""
        np.multiply(BETA1, self.first[piece], out=first)
        first += np.multiply(1.0 - BETA1, g, out=work)
        np.multiply(BETA2, self.second[piece], out=second)
        np.multiply(g, g, out=work)
        work *= 1.0 - BETA2
        second += work
        np.multiply(second, 1.0 / (1.0 - BETA2**self.t), out=work)
        np.sqrt(work, out=work)
        work += EPSILON
        np.divide(first, work, out=x)
        x *= -self.rate / (1.0 - BETA1**self.t)
        x += self.x[piece]

    def back(self, x: Float) -> None:
        """Return to x from a point without a value: the moments begin anew, and the step length is halved."""
        self.x, self.t, self.rate, self.failed = x.copy(), 0, 0.5 * self.rate, self.failed + 1
        self.first, self.second, self._spare = np.zeros_like(self.x), np.zeros_like(self.x), None

    def state(self) -> dict[str, Any]:
        """Arrays and plain numbers; the next step does not change them, the one after does."""
        plain = {"t": self.t, "rate": self.rate, "failed": self.failed}
        return {"x": self.x, "first": self.first, "second": self.second, **plain}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`."""
        self.x, self.first, self.second = (np.array(state[name]) for name in ("x", "first", "second"))
        self._spare = None
        self.t, self.rate, self.failed = state["t"], state["rate"], state["failed"]
