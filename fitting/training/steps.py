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
        n = self.x.size if self.natural is None else self.x.size - self.natural.size
        moved = np.empty_like(self.x)
        moved[:n] = self._moved(g[:n], n)
        if self.natural is not None:
            moved[n:] = self.natural.moved(self.x[n:], g[n:], self.t)
        self.x = np.clip(moved, self.low, self.high, out=moved)

    def _moved(self, g: Float, n: int) -> Float:
        """The first n entries after a step of Adam."""
        first, second = self.first.copy(), self.second.copy()  # no later step changes a `state`
        first[:n] += (1.0 - BETA1) * (g - first[:n])
        second[:n] += (1.0 - BETA2) * (g * g - second[:n])
        self.first, self.second = first, second
        size = np.sqrt(second[:n] / (1.0 - BETA2**self.t))
        size += EPSILON
        step = first[:n] / size
        step *= self.rate / (1.0 - BETA1**self.t)
        return np.subtract(self.x[:n], step, out=step)

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
