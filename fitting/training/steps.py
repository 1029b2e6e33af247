"""Adam's steps, with natural-gradient steps for a law, one at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from fitting.training.natural import NaturalSteps
from gpbounds.arrays import Float

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


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
        self.first, self.second, self.t = np.zeros_like(self.x), np.zeros_like(self.x), 0
        self.failed = 0

    def take(self, g: Float) -> None:
        """One step, for the gradient g at the current vector."""
        self.failed = 0
        self.t += 1
        work = (1.0 - BETA1) * g
        self.first = np.multiply(BETA1, self.first)
        self.first += work
        np.multiply(g, g, out=work)
        work *= 1.0 - BETA2
        self.second = np.multiply(BETA2, self.second)
        self.second += work
        np.multiply(self.second, 1.0 / (1.0 - BETA2**self.t), out=work)
        np.sqrt(work, out=work)
        work += EPSILON
        np.divide(self.first, work, out=work)
        work *= -self.rate / (1.0 - BETA1**self.t)
        work += self.x
        if self.natural is not None:
            n = self.natural.size
            work[-n:] = self.natural.moved(self.x[-n:], g[-n:], self.t)
        self.x = np.clip(work, self.low, self.high, out=work)

    def back(self, x: Float) -> None:
        """Return to x from a point without a value: the moments begin anew, and the step length is halved."""
        self.x, self.t, self.rate, self.failed = x.copy(), 0, 0.5 * self.rate, self.failed + 1
        self.first, self.second = np.zeros_like(self.x), np.zeros_like(self.x)

    def state(self) -> dict[str, Any]:
        """Arrays and plain numbers; no later step changes them."""
        plain = {"t": self.t, "rate": self.rate, "failed": self.failed}
        return {"x": self.x, "first": self.first, "second": self.second, **plain}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`."""
        self.x, self.first, self.second = state["x"], state["first"], state["second"]
        self.t, self.rate, self.failed = state["t"], state["rate"], state["failed"]
