"""Adam on all data or on mini-batches, with a record of its course."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.training.natural import NaturalSteps
from fitting.training.resolution import Resolution
from fitting.training.run import Loss, Run
from fitting.training.steps import Steps
from fitting.training.tail import Ending
from fitting.training.watch import Watch
from gpbounds.arrays import Float

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
    draw : function of a Generator and of the number of the step, from 0
        Returns the loss of the next batch.
    reference : Loss
        The loss of one fixed batch, on which points are compared to find the best; its derivatives are not used.
    """

    draw: Callable[[np.random.Generator, int], Loss]
    reference: Loss


def train_adam(
    loss: Loss | Batches,
    start: Float,
    bounds: list[tuple[float, float]],
    *,
    max_iter: int,
    learning_rate: float = 0.05,
    ending: Ending | None = None,
    resolution: Resolution | None = None,
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
    ending, resolution, earlier, save, progress : as in `train_lbfgs`; mini-batches need no ``resolution``

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
    steps = Steps(watch.best, bounds, learning_rate, natural)
    state = {} if earlier is None else earlier.state
    walk = _Walk(watch, loss, steps, np.random.default_rng(0) if rng is None else rng, state)
    walk.resolution = None if isinstance(loss, Batches) else resolution
    watch.state = walk.state
    try:
        return walk.go(max_iter, ftol)
    except KeyboardInterrupt:
        return watch.interrupted()
    finally:
        watch.close()


class _Walk:
    resolution: Resolution | None = None

    def __init__(
        self, watch: Watch, loss: Loss | Batches, steps: Steps, rng: np.random.Generator, earlier: dict[str, Any]
    ) -> None:
        self.watch, self.loss, self.steps, self.rng = watch, loss, steps, rng
        if earlier:
            self.steps.restore(earlier)
            self.rng.bit_generator.state = earlier["rng"]
        self._done = self._snapshot()

    def go(self, max_iter: int, ftol: float) -> Run:
        watch, batches = self.watch, isinstance(self.loss, Batches)
        if not watch.values:
            f, _ = self._reference(self.steps.x)
            watch.begin(f)
            watch.keep(self.steps.x, f)
        while watch.iterations < max_iter:
            f = self._advance()
            self._done = self._snapshot()  # the state that is kept if Ctrl-C interrupts the next step
            watch.step(f)
            if self.steps.failed >= PATIENCE:
                return watch.end("stalled", f"{PATIENCE} steps in a row had no value; the best point seen is kept.")
            if (settled := watch.settled()) is not None:
                return watch.end("settled", settled)
            if self.resolved is not None:
                return watch.end("resolved", self.resolved)
            if not batches and self.resolution is None and self._rests(ftol):
                return watch.end("converged", f"Converged after {watch.iterations} steps.")
            watch.checkpoint()  # of a run that goes on: one that has ended would take a step more after a kill
        if batches:
            return watch.end("iterations", f"All {max_iter} mini-batches were drawn.")
        return watch.end("iterations", f"All {max_iter} steps are used; raise max_iter to go on.")

    def _advance(self) -> float:
        watch, loss, steps = self.watch, self.loss, self.steps
        self.resolved: str | None = None
        f, g = watch.measure(loss.draw(self.rng, watch.iterations) if isinstance(loss, Batches) else loss, steps.x)
        if not math.isfinite(f):
            steps.back(watch.best)
            return f
        if not isinstance(loss, Batches):
            watch.keep(steps.x, f)
        if self.resolution is not None:
            self.resolved = self.resolution.reason(steps.x, g, watch.iterations)
        steps.take(g)
        if isinstance(loss, Batches) and (watch.iterations + 1) % REFERENCE == 0:
            watch.keep(steps.x, self._reference(steps.x)[0])
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
        return {**self.steps.state(), "rng": self.rng.bit_generator.state}

    def state(self) -> dict[str, Any]:
        """The state after the last complete step, which no later step changes."""
        return {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in self._done.items()}
