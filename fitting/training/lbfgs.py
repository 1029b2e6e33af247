"""SciPy's L-BFGS-B, with a record of its course."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fitting.training.ending import Ending, Resolution
from fitting.training.run import Loss, Run
from fitting.training.watch import Watch, checked, instances
from gpbounds.arrays import Float, host

# Evaluations of an optimiser that keeps no state of its own, so that a stopped run continues on the same path.


class _Diverged(Exception):
    """The optimiser asked for another point than in the recorded run: another release, or other rounding."""


class _Replay:
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
        if "sites" in state:
            loss.best, loss.sites = min(self._values, default=math.inf), state["sites"]  # type: ignore[attr-defined]

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
                raise _Diverged
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
        """The record, as the state of a `Run`, and where the search for q continues."""
        sites = getattr(self.loss, "sites", None)
        known = {} if sites is None else {"sites": host(sites)}
        if not (self.keeps and self._values):
            return known
        return known | {
            "digests": np.array(self._digests, dtype=np.uint64),
            "losses": np.array(self._values),
            "gradients": np.array(self._gradients),
        }


# SciPy's L-BFGS-B, with a record of its course.

RESTARTS = 3
"""Number of failed line searches, each of which resets the curvature, after which the run has stalled."""

FLAT = 1e-4
"""Largest projected derivative, relative to F, at which a failed line search counts as convergence."""

MEMORY = 100
"""Number of steps whose curvature is stored.  What 20 reach in 250 iterations takes 181 to 244 on five
problems; on three other optima are reached, FITC's worse by 0.5 and 470 nats, VFE's better by 330."""


def train_lbfgs(
    loss: Loss,
    start: Float,
    bounds: list[tuple[float, float]],
    *,
    max_iter: int,
    ending: Ending | None = None,
    resolution: Resolution | None = None,
    ftol: float = 1e-9,
    gtol: float = 1e-5,
    earlier: Run | None = None,
    save: Callable[[Run], None] | None = None,
    progress: bool = False,
    label: str = "training",
) -> Run:
    """Minimise ``loss`` within ``bounds``.

    A run that was saved continues on the same path, bit for bit: the stored evaluations are repeated without
    computation, after which L-BFGS-B has the same curvature.  If it asks for other points than those stored (another
    release, or other rounding), or none are stored, the run continues from its best point without curvature.

    Parameters
    ----------
    loss : vector ↦ (value, gradient)
    start : array (p,)
    bounds : list of (low, high)
    max_iter : int
        Largest number of iterations, including those of ``earlier``.
    ending : Ending, optional
        The run has settled when further iterations are expected to gain less than ``ending.tol``.
    resolution : Resolution, optional
        For an estimated loss: the run is resolved when the derivatives lie within their standard errors.
    ftol : float
        The run has converged when an iteration changes the loss by less than ``ftol`` times its size; with a
        ``resolution``, never.
    gtol : float
        The run has also converged when no projected derivative (one along which the bounds allow a move) is larger.
    earlier : Run, optional
        The run to continue.
    save : function of a Run, optional
        Called at least every 10 iterations, after each one that takes long, and at the end.
    progress : bool
        Show a progress bar with the best value, and the time until the run is expected to settle.

    Raises
    ------
    NotPositiveDefinite, NonFinite, ArithmeticError
        when the loss has no value at the start.

    >>> import numpy as np
    >>> run = train_lbfgs(lambda x: (float(x @ x), 2.0 * x), np.array([3.0]), [(-9.0, 9.0)], max_iter=50)
    >>> run.status, abs(run.value) < 1e-12
    ('converged', True)
    """
    shown: dict[str, Any] = {"progress": progress, "label": label}
    bounds = checked(loss, start, bounds, max_iter=max_iter, ftol=ftol, gtol=gtol, earlier=earlier, save=save, **shown)
    instances(ending=(ending, Ending), resolution=(resolution, Resolution))
    max_iter = int(max_iter)
    watched = {"max_iter": max_iter, "ending": ending, "save": save, **shown}
    search = _Search(loss, bounds, max_iter, min(ftol, 2.0) if resolution is None else 0.0, gtol, resolution)
    if earlier is not None and "losses" in earlier.state:
        try:
            return search.run(Watch(start, **watched), earlier, save is not None)
        except _Diverged:
            return search.run(Watch(start, earlier=earlier, **watched), None, False)
    return search.run(Watch(start, earlier=earlier, **watched), None, save is not None and earlier is None)


@dataclass(frozen=True)
class _Search:
    loss: Loss
    bounds: list[tuple[float, float]]
    max_iter: int
    ftol: float
    gtol: float
    resolution: Resolution | None = None

    def run(self, watch: Watch, recorded: Run | None, keeps: bool) -> Run:
        """Search, with the evaluations of ``recorded`` first; ``keeps`` records all evaluations."""
        replay = _Replay(watch, self.loss, recorded, keeps)
        watch.state = replay.state
        try:
            return self._searched(watch, replay)
        except KeyboardInterrupt:
            return watch.interrupted()
        finally:
            watch.close()

    def _searched(self, watch: Watch, replay: _Replay) -> Run:
        from scipy.optimize import minimize

        calls = _Calls(watch, replay, self.resolution)
        for _ in range(RESTARTS):
            remaining, before = self.max_iter - watch.iterations, watch.value
            if remaining <= 0:
                break
            limits = {"maxiter": remaining, "maxfun": 20 * remaining + 20}
            options = {**limits, "ftol": self.ftol, "gtol": self.gtol, "maxcor": MEMORY}
            result = minimize(
                calls.measure,
                watch.best,
                jac=True,
                method="L-BFGS-B",
                bounds=self.bounds,
                callback=calls.moved,
                options=options,
            )
            if calls.ended is not None:
                return watch.end(*calls.ended)
            if result.success:
                return watch.end("converged", f"Converged after {watch.iterations} iterations.")
            if result.status == 1:
                break
            if watch.value <= before + self.ftol * max(1.0, abs(watch.value)):
                return self._without_progress(watch)
        if watch.iterations < self.max_iter:
            return watch.end("stalled", f"The line search failed {RESTARTS} times; the best point seen is kept.")
        return watch.end("iterations", f"All {self.max_iter} iterations are used; raise max_iter to go on.")

    def _without_progress(self, watch: Watch) -> Run:
        """The end of a run whose line search has found no better point."""
        if self._slope(watch) <= FLAT * max(1.0, abs(watch.value)):
            return watch.end("converged", f"Converged after {watch.iterations} iterations, as far as rounding allows.")
        reason = f"The line search finds no better point after {watch.iterations} iterations; the best one is kept."
        return watch.end("stalled", reason)

    def _slope(self, watch: Watch) -> float:
        """Largest projected derivative at the best point."""
        low, high = (np.array(ends, dtype=np.float64) for ends in zip(*self.bounds, strict=True))
        _, g = watch.measure(self.loss, watch.best)
        return float(np.abs(watch.best - np.clip(watch.best - g, low, high)).max(initial=0.0))


@dataclass(eq=False)
class _Calls:
    """The functions that SciPy calls during one run.

    Attributes
    ----------
    worst : float
        The largest loss seen.
    last : (x, gradient) or None
        The last evaluation.
    ended : (status, reason) or None
        Why the run ends before SciPy would end it.
    """

    watch: Watch
    replay: _Replay
    resolution: Resolution | None
    worst: float = -math.inf
    last: tuple[Float, Float] | None = None
    ended: tuple[Literal["settled", "resolved"], str] | None = None

    def measure(self, x: Float) -> tuple[float, Float]:
        """Loss and gradient at x; a point without a value has a loss above all others and the gradient 0.

        From such a point the line search goes back towards its previous one.
        """
        f, g = self.replay.measure(x)
        self.last = np.array(x), np.array(g)
        if not math.isfinite(f):
            if self.worst == -math.inf:  # the first point of the run
                self.watch.begin(f)
            return self.worst + 10.0 * (1.0 + abs(self.worst)), g
        self.worst = max(self.worst, f)
        self.watch.begin(f)
        self.watch.keep(x, f)
        return f, g

    def moved(self, intermediate_result: Any) -> None:
        """Count an iteration, and stop SciPy where the run has settled or is resolved."""
        self.watch.step(float(intermediate_result.fun))
        self.watch.checkpoint()
        if self.replay.replaying:
            return
        if (reason := self.watch.settled()) is not None:
            self.ended = "settled", reason
        elif self.resolution is not None and self.last is not None and (self.last[0] == intermediate_result.x).all():
            resolved = self.resolution.reason(*self.last, self.watch.iterations)
            self.ended = None if resolved is None else ("resolved", resolved)
        if self.ended is not None:
            raise StopIteration
