"""The record of a running optimiser: counts, the best point, the progress bar, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fitting.training.ending import Ending
from fitting.training.run import Loss, Run, Status
from gpbounds.arrays import Float, exactly
from gpbounds.errors import NonFinite, NotPositiveDefinite, shown
from gpbounds.progress import bar
from gpbounds.validation import count, finite, flag, function, instance, non_negative, scalar

EVERY = 10
"""Largest number of iterations between two checkpoints."""

_SPACING = 50.0
"""A checkpoint is also written if the time since the last one is at least `_SPACING` times the time that writing took:
after each long iteration; these additional checkpoints take at most a fiftieth of the time."""

FAULTS = (NotPositiveDefinite, NonFinite, ArithmeticError)
"""Errors that count as an objective of −inf at a point."""


def measured(loss: Loss, x: Float) -> tuple[float, Float, BaseException | None]:
    """The loss, its gradient and None; or (inf, 0) and the fault, if the loss has no value."""
    try:
        if not bool(np.isfinite(x).all()):
            raise ArithmeticError("the optimiser asked for a point that is not finite.")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            f, g, finite = _parts(loss(x))
        if finite:
            return f, g, None
        fault: BaseException = ArithmeticError(
            "the objective, its gradient, or the square of its gradient is not finite. Usual cause: targets far beyond "
            "the scale of the model."
        )
    except FAULTS as error:
        fault = error
    return math.inf, np.zeros_like(x), fault


def _parts(answer: Any) -> tuple[float, Float, bool]:
    """The value and the gradient of a loss, and whether they are finite, and the square of the gradient, as Adam's."""
    try:
        f, g = answer
        return f, g, math.isfinite(f) and math.isfinite(float(g @ g))
    except TypeError:
        raise ValueError(
            f"loss: expected a function that returns the value and an array of derivatives, got {shown(answer)} from it"
        ) from None


def no_start(fault: BaseException) -> BaseException:
    """The error for a loss without a value at the start of training; one that is not finite says the cause itself."""
    message = f"The objective has no value at the start of training: {fault}".removesuffix(".")
    hint = "" if isinstance(fault, NonFinite) else " Or start with a larger noise or a shorter lengthscale."
    return type(fault)(f"{message}.{hint}")


def checked(
    loss: Any,
    start: Any,
    bounds: Any,
    *,
    max_iter: Any,
    earlier: Any,
    save: Any,
    progress: Any,
    label: Any,
    **numbers: Any,
) -> list[tuple[float, float]]:
    """Refuse wrong arguments of the optimisers, by name; the bounds as pairs of doubles.  ``numbers`` are >= 0."""
    if not hasattr(loss, "draw"):  # `Batches`
        function("loss", loss, "a function of a vector that returns the value and the derivatives")
    x = finite("start", start)
    if x.ndim != 1:
        raise ValueError(f"start: expected shape (p,), got {x.shape}")
    try:
        pairs = [(float(low), float(high)) for low, high in bounds]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"bounds: expected a list of pairs (low, high), got {shown(bounds)}") from None
    if len(pairs) != x.size or not all(low <= high for low, high in pairs):
        raise ValueError(
            f"bounds: expected {x.size} pair(s) with low <= high, one for each of start, got {shown(pairs)}"
        )
    count("max_iter", max_iter, 0)
    for name, value in numbers.items():
        scalar(non_negative, name, value)
    for name, value, kind in (("earlier", earlier, Run), ("label", label, str)):
        if value is not None or kind is str:
            instance(name, value, kind, "a Run to continue" if kind is Run else "a text")
    if save is not None:
        function("save", save, "a function of a Run")
    flag("progress", progress)
    return pairs


def instances(**given: tuple[Any, type]) -> None:
    """Refuse values that are neither None nor of their types, by name."""
    for name, (value, kind) in given.items():
        if value is not None:
            instance(name, value, kind, f"{kind.__name__} or None")


class Watch:
    """The record that the optimisers share; ``earlier`` is the run to continue, ``ending`` says when it has settled."""

    def __init__(
        self,
        start: Float,
        *,
        max_iter: int,
        earlier: Run | None = None,
        ending: Ending | None = None,
        save: Callable[[Run], None] | None = None,
        progress: bool = False,
        label: str = "training",
    ) -> None:
        start = exactly("start", start)
        if earlier is not None:
            earlier.check_size(np.size(start))
        self.best = np.array(start if earlier is None else earlier.vector, dtype=np.float64)
        self.value = -math.inf if earlier is None else earlier.value
        self.values = [] if earlier is None else list(earlier.values)
        self.evaluations = 0 if earlier is None else earlier.evaluations
        self.failures = 0 if earlier is None else earlier.failures
        self.fault: BaseException | None = None
        self.state: Callable[[], dict[str, Any]] = dict
        self.ending = Ending(0.0) if ending is None else ending
        self.quiet, self.since = False, 0
        self._saved_at, self._cost = time.perf_counter(), 0.0
        self._save, self._most = save, max_iter
        self._bar = bar(label, None, "it", True, initial=self.iterations) if progress else None

    @property
    def iterations(self) -> int:
        """Number of steps."""
        return max(len(self.values) - 1, 0)

    def measure(self, loss: Loss, x: Float) -> tuple[float, Float]:
        """The loss and its gradient; (inf, 0) if the loss has no value, which counts as a failure."""
        self.evaluations += 1
        f, g, fault = measured(loss, x)
        if fault is not None:
            self.failures += 1
            self.fault = fault
        return f, g

    def keep(self, x: Float, f: float) -> None:
        """Store ``x`` if it is the best point so far."""
        if -f > self.value:
            self.best, self.value = np.array(x, dtype=np.float64), -f

    def begin(self, f: float) -> None:
        """Store the value at the start, unless a run is continued; a start without a value is an error."""
        if not math.isfinite(f):
            assert self.fault is not None
            raise no_start(self.fault) from self.fault
        if not self.values:
            self.values.append(-f)

    def step(self, f: float) -> None:
        """Record an iteration: its value, and the progress bar."""
        self.values.append(-f)
        if self._bar is not None:
            self._show(self._bar)

    def checkpoint(self) -> None:
        """Write a checkpoint if one is due and not ``quiet``; for a run that goes on after its last iteration."""
        if self._save is not None and not self.quiet and self._due():
            began = time.perf_counter()
            self._save(self.record("interrupted", "Training was interrupted."))
            self._saved_at = time.perf_counter()
            self._cost = self._saved_at - began

    def _due(self) -> bool:
        return self.iterations % EVERY == 0 or time.perf_counter() - self._saved_at >= _SPACING * self._cost

    def settled(self) -> str | None:
        """A sentence if further iterations are expected to gain less than matters, by the values after ``since``."""
        return self.ending.reason(self.values[self.since :])

    def _show(self, line: Any) -> None:
        """The bar has an end as soon as it is known where the run is expected to settle, and shows the time left.

        Before, it shows iterations and the objective alone: `max_iter` is seldom reached, and says nothing of the end.
        """
        values = self.values[self.since :]
        expected = self.ending.expected(values)
        if expected is not None:
            line.total = min(max(self.since + expected, self.iterations), self._most)
        line.set_postfix_str(f"{self.ending.shown(self.value)}{self.ending.outlook(values)}", refresh=False)
        line.update()

    def record(self, status: Status, reason: str) -> Run:
        """The current state as a `Run`."""
        counts = self.evaluations, self.failures
        return Run(self.best, self.value, tuple(self.values), status, reason, *counts, self.state())

    def close(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.close()

    def end(self, status: Status, reason: str) -> Run:
        """The final record; it is saved."""
        run = self.record(status, reason)
        if self._save is not None:
            self._save(run)
        return run

    def interrupted(self) -> Run:
        """The record after Ctrl-C; raises `KeyboardInterrupt` again if no point with a value was seen."""
        if not math.isfinite(self.value):
            raise KeyboardInterrupt
        return self.end(
            "interrupted", f"Interrupted after {self.iterations} iterations; the best point so far is kept."
        )
