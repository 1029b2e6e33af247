"""Adam on all data or on mini-batches, with a record of its course."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.training.natural import NaturalSteps
from fitting.training.run import Loss, Run
from fitting.training.tail import Ending
from fitting.training.watch import Watch
from gpbounds.arrays import Float

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
WINDOW = 50
"""A run on all data has converged after this many steps without progress."""
REFERENCE = 10
"""Steps between two evaluations of the reference batch."""
PATIENCE = 20
"""A run has stalled after this many failures in a row."""


@dataclass(frozen=True)
class Batches:
    """Losses of random rows.

    Attributes
    ----------
    draw : function of a Generator
        Returns the loss of the next batch.
    reference : Loss
        The loss of one fixed batch, on which points are compared to find the best.
    """

    draw: Callable[[np.random.Generator], Loss]
    reference: Loss


def train_adam(
    loss: Loss | Batches,
    start: Float,
    bounds: list[tuple[float, float]],
    *,
    max_iter: int,
    learning_rate: float = 0.05,
    ending: Ending | None = None,
    ftol: float = 1e-9,
    rng: np.random.Generator | None = None,
    natural: NaturalSteps | None = None,
    earlier: Run | None = None,
    save: Callable[[Run], None] | None = None,
    progress: bool = False,
    label: str = "training",
) -> Run:
    """Minimise by Adam, each step clipped to ``bounds``; a continued run takes the same path bit for bit.

    On all data, the run has settled when further steps are expected to gain less than ``ending.tol``, and has converged
    when 50 steps improve the loss by less than ``ftol`` times its size.  Mini-batches use all ``max_iter`` steps; the
    result is the best point on the reference batch, which is evaluated every 10 steps.
    At a point without a value, Adam returns to the best point, resets its moments and halves its step length.

    Parameters
    ----------
    loss : Loss or Batches
    start : array (p,)
    bounds : list of (low, high)
    max_iter : int
        Largest number of steps, including those of ``earlier``.
    learning_rate, ftol : float
    rng : numpy.random.Generator
        For `Batches`.
    natural : NaturalSteps, optional
        The last entries of the vector are a law, which takes natural-gradient steps instead of Adam's.
    ending, earlier, save, progress : as in `train_lbfgs`

    Raises
    ------
    NotPositiveDefinite, NonFinite, ArithmeticError
        when the loss has no value at the start.

    >>> run = train_adam(lambda x: (float(x @ x), 2.0 * x), np.array([0.3]), [(-9.0, 9.0)], max_iter=2000)
    >>> run.status, abs(run.value) < 1e-6
    ('converged', True)
    """
    ending = None if isinstance(loss, Batches) else ending
    shown: dict[str, Any] = {"progress": progress, "label": label}
    watch = Watch(start, max_iter=max_iter, earlier=earlier, ending=ending, save=save, **shown)
    walk = _Walk(watch, loss, bounds, learning_rate, np.random.default_rng(0) if rng is None else rng, natural)
    if earlier is not None and earlier.state:
        walk.restore(earlier.state)
    watch.state = walk.state
    try:
        return walk.go(max_iter, ftol)
    except KeyboardInterrupt:
        return watch.interrupted()
    finally:
        watch.close()


class _Walk:
    def __init__(
        self,
        watch: Watch,
        loss: Loss | Batches,
        bounds: list[tuple[float, float]],
        learning_rate: float,
        rng: np.random.Generator,
        natural: NaturalSteps | None,
    ) -> None:
        self.watch, self.loss, self.rng, self.rate, self.natural = watch, loss, rng, learning_rate, natural
        self.low, self.high = (np.array(ends, dtype=np.float64) for ends in zip(*bounds, strict=True))
        self.x = np.clip(watch.best, self.low, self.high)
        self.first, self.second, self.t = np.zeros_like(self.x), np.zeros_like(self.x), 0
        self.failed = 0
        self._done = self._snapshot()

    def go(self, max_iter: int, ftol: float) -> Run:
        watch, batches = self.watch, isinstance(self.loss, Batches)
        if not watch.values:
            f, _ = self._reference(self.x)
            watch.begin(f)
            watch.keep(self.x, f)
        while watch.iterations < max_iter:
            f = self._advance()
            self._done = self._snapshot()  # the state that is kept if Ctrl-C interrupts the next step
            watch.step(f)
            if self.failed >= PATIENCE:
                return watch.end("stalled", f"{PATIENCE} steps in a row had no value; the best point seen is kept.")
            if (settled := watch.settled()) is not None:
                return watch.end("settled", settled)
            if not batches and self._rests(ftol):
                return watch.end("converged", f"Converged after {watch.iterations} steps.")
        if batches:
            return watch.end("iterations", f"All {max_iter} mini-batches were drawn.")
        return watch.end("iterations", f"All {max_iter} steps are used; raise max_iter to go on.")

    def _advance(self) -> float:
        watch, loss = self.watch, self.loss
        f, g = watch.measure(loss.draw(self.rng) if isinstance(loss, Batches) else loss, self.x)
        if not math.isfinite(f):
            self.x, self.t, self.rate, self.failed = watch.best.copy(), 0, 0.5 * self.rate, self.failed + 1
            self.first, self.second = np.zeros_like(self.x), np.zeros_like(self.x)
            return f
        self.failed = 0
        if not isinstance(loss, Batches):
            watch.keep(self.x, f)
        self.t += 1
        self.first = BETA1 * self.first + (1.0 - BETA1) * g
        self.second = BETA2 * self.second + (1.0 - BETA2) * g * g
        mean, square = self.first / (1.0 - BETA1**self.t), self.second / (1.0 - BETA2**self.t)
        moved = self.x - self.rate * mean / (np.sqrt(square) + EPSILON)
        if self.natural is not None:
            n = self.natural.size
            moved[-n:] = self.natural.moved(self.x[-n:], g[-n:], self.t)
        self.x = np.clip(moved, self.low, self.high)
        if isinstance(loss, Batches) and (watch.iterations + 1) % REFERENCE == 0:
            watch.keep(self.x, self._reference(self.x)[0])
        return f

    def _reference(self, x: Float) -> tuple[float, Float]:
        return self.watch.measure(self.loss.reference if isinstance(self.loss, Batches) else self.loss, x)

    def _rests(self, ftol: float) -> bool:
        values = self.watch.values
        if len(values) <= 2 * WINDOW:
            return False
        recent, before = max(values[-WINDOW:]), max(values[:-WINDOW])
        return recent <= before + ftol * max(1.0, abs(before))

    def _snapshot(self) -> dict[str, Any]:
        plain = {"t": self.t, "rate": self.rate, "failed": self.failed, "rng": self.rng.bit_generator.state}
        return {"x": self.x, "first": self.first, "second": self.second, **plain}

    def state(self) -> dict[str, Any]:
        """The state after the last complete step."""
        return self._done

    def restore(self, state: dict[str, Any]) -> None:
        self.x, self.first, self.second = state["x"], state["first"], state["second"]
        self.t, self.rate, self.failed = state["t"], state["rate"], state["failed"]
        self.rng.bit_generator.state = state["rng"]
        self._done = self._snapshot()
