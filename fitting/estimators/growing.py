"""``n_inducing="auto"``: inducing points are added and hyperparameters are trained until the gap is small at the end.

M depends on the hyperparameters, and they on M: few points overestimate noise and lengthscales, with which few points
suffice.  So a round trains kernel, noise and mean from those of the round before, with as many greedy points as
suffice there; its objective then begins within the target of log p(y).  Greedy points stay where they are: few steps
train what is left.  As M grows the objective becomes log p(y) itself, which costs less than a sparse objective of more
than N/3 points: it is then trained in its place, with the limit of all further rounds as its result.  At the end kernel
and noise are held, and the least number of greedy points is taken whose gap is proved to reach the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fitting.estimators.trainer import Outcome, Trainer, with_inducing
from fitting.objectives.objective import Objective
from fitting.objectives.point import Parameters
from fitting.prior_means import PriorMean
from fitting.starts.sufficient import EXACT, Nested, nested
from fitting.training import RESUMED, Run
from gpbounds.arrays import Float, host

ROUNDS = 12
"""Largest number of trainings."""

FIRST = 100
"""Largest number of inducing points of the first round."""

DEARER = 3
"""log p(y) is trained in place of an objective with more than N/`DEARER` inducing points.  At N = 1503 a step of VFE
with M = 1100 takes .57 s, one of log p(y) .13 s (8 inputs, one thread)."""

BEYOND = 1000
"""Default of the largest number of inducing points above `EXACT` rows."""


def most_points(asked: int | None, rows: int, distinct: int) -> int:
    """The largest M of ``max_inducing``: None is the number of rows up to `EXACT` rows, and `BEYOND` above.

    >>> most_points(None, 1503, 1500), most_points(None, 80_000, 80_000), most_points(40, 1503, 1500)
    (1500, 1000, 40)
    """
    limit = (rows if rows <= EXACT else BEYOND) if asked is None else asked
    return min(limit, distinct)


@dataclass(frozen=True, eq=False)
class Grown:
    """The result of all rounds.

    Attributes
    ----------
    outcome : Outcome
        Its inducing points are the final ones.
    runs : list of Run
    gap : float
        Proved upper bound on D_α at the final point; inf if rounding allows none.
    trained_with : int
        M in the training of the final kernel and noise; N if log p(y) was trained, 0 if nothing was.
    limited : bool
        Whether another round would have needed more than the largest number of points.
    """

    outcome: Outcome
    runs: list[Run]
    gap: float
    trained_with: int
    limited: bool


@dataclass(frozen=True, eq=False)
class _Trained:
    """A trained point, the M of its training, and whether another training is expected to change little."""

    outcome: Outcome
    M: int
    calm: bool = False

    @property
    def point(self) -> Parameters:
        return self.outcome.parameters

    @property
    def interrupted(self) -> bool:
        return self.outcome.run.status == "interrupted"


@dataclass(eq=False)
class Growth:
    """The rounds of one fit.

    Attributes
    ----------
    trainer : Trainer
    X : array (N, D)
        In host memory.
    residuals : function
        Prior mean ↦ targets (N, P) minus it.
    alpha, target : float
    most : int
        Largest number of inducing points.
    evidence : Objective or None
        log p(y), where it may be trained.
    xp : module
        Of the device of training.
    """

    trainer: Trainer
    X: Float
    residuals: Callable[[PriorMean | None], Float]
    alpha: float
    target: float
    most: int
    evidence: Objective | None
    xp: Any
    runs: list[Run] = field(default_factory=list)
    _last: _Trained = field(init=False)

    def grown(self, start: Parameters, draw: Callable[[Any, int, int], Any], restarts: int) -> Grown:
        """Train from ``start``; ``draw(kernel, M, i)`` are the inducing points with which start i begins."""
        order = self._order(start)
        if self.trainer.optimizer is None or not self.trainer.packing(replace(start, Z=None)).bounds:
            return self._untrained(start, order)
        M = min(order.expected or FIRST, FIRST, self.most)

        def first(kernel: Any, i: int) -> Any:
            return draw(kernel, M, i)

        outcomes = self.trainer.best_of(
            "growing 0", replace(start, Z=first(start.kernel, 0)), restarts, with_inducing(first)
        )
        self._last = _Trained(self._best(outcomes), M)
        try:
            now, last, limited = self._rounds(self._last)
        except KeyboardInterrupt:
            now, last, limited = self._stopped(), None, False
        outcome, gap = self._with_points(now, last)
        return Grown(outcome, self.runs, gap, now.M, limited)

    def _rounds(self, now: _Trained) -> tuple[_Trained, Nested | None, bool]:
        """The rounds after the first: the last point for which some M suffices, or the last one if none ever does.

        With its greedy order, if that is known, and whether the next point would have needed more than ``most`` points.
        """
        kept: tuple[_Trained, Nested] | None = None
        crowded = False
        for number in range(1, ROUNDS):
            if now.interrupted:
                return now, None, False
            order = self._order(now.point)
            if order.expected is not None:
                kept = now, order
                if now.calm or order.expected <= now.M:
                    return now, order, False
            elif kept is None:
                if crowded:
                    return now, order, False
                now, crowded = self._round(number, now, order, self.most, self.trainer.learn_Z), True
                continue
            elif now.M < len(self.X):
                return (*kept, True)
            before, sufficient = kept  # not ``now`` if log p(y) has an optimum that needs more than ``most`` points
            now = self._next(number, before, sufficient)
        return (now, None, False) if kept is None else (*kept, False)

    def _next(self, number: int, now: _Trained, order: Nested) -> _Trained:
        """Training from ``now`` with the points that suffice there, or by log p(y) where that costs less."""
        assert order.expected is not None
        if self.evidence is None or DEARER * order.expected <= len(self.X):
            return self._round(number, now, order, order.expected, False)
        problem, self.evidence = self.evidence, None
        return self._training(number, replace(now.point, Z=None), len(self.X), objective=problem, learn_Z=False)

    def _round(self, number: int, now: _Trained, order: Nested, M: int, learn_Z: bool) -> _Trained:
        point = replace(now.point, Z=self.xp.asarray(order.points[:M]))
        return self._training(number, point, M, learn_Z=learn_Z)

    def _training(self, number: int, point: Parameters, M: int, **changed: Any) -> _Trained:
        """One run from ``point``; another is expected to change little if its gain is negligible."""
        ending = replace(self.trainer.ending, after=RESUMED)
        trainer = replace(self.trainer, otherwise=(), raises_noise=False, ending=ending, **changed)
        outcome = self._best(trainer.best_of(f"growing {number}", point, 0, lambda point, i: point))
        gain, negligible = outcome.run.value - outcome.run.values[0], ending.tol * ending.unit
        self._last = _Trained(outcome, M, M == len(self.X) or gain <= max(negligible, self.target))
        return self._last

    def _stopped(self) -> _Trained:
        """The last trained point, after Ctrl-C between two rounds."""
        run = self._last.outcome.run
        reason = f"Interrupted after {run.iterations} iterations, before more inducing points were chosen."
        run = replace(run, status="interrupted", reason=reason)
        self.runs.append(run)
        return replace(self._last, outcome=replace(self._last.outcome, run=run))

    def _best(self, outcomes: list[Outcome]) -> Outcome:
        """The first of ``outcomes``; the runs of all are kept, an interrupted one last."""
        self.runs += sorted((each.run for each in outcomes), key=lambda run: run.status == "interrupted")
        return outcomes[0]

    def _order(self, point: Parameters) -> Nested:
        """The greedy order at the kernel, noise and prior mean of ``point``."""
        residuals = self.residuals(point.prior_mean)
        sought = {"alpha": self.alpha, "target": self.target, "most": self.most}
        return nested(point.kernel, self.X, residuals, noise=point.noise, **sought)

    def _with_points(self, now: _Trained, order: Nested | None) -> tuple[Outcome, float]:
        """The outcome with its final inducing points, and their gap.

        The trained points stay if they reach the target and no fewer greedy ones do, if nothing does and their gap is
        smaller, or after Ctrl-C.
        """
        order, own = order or self._order(now.point), now.point.Z
        if now.interrupted and own is not None:
            return now.outcome, order.gap(host(own))
        Z, gap = order.least()
        if own is not None and (gap > self.target or own.shape[0] <= len(Z)):
            of_trained = order.gap(host(own))
            if of_trained <= max(self.target, gap):
                return now.outcome, of_trained
        return replace(now.outcome, parameters=replace(now.point, Z=self.xp.asarray(Z))), gap

    def _untrained(self, start: Parameters, order: Nested) -> Grown:
        """Greedy points at a kernel, noise and mean that are not trained."""
        Z, gap = order.least()
        point = replace(start, Z=self.xp.asarray(Z))
        outcome = self._best(
            replace(self.trainer, optimizer=None).best_of("growing 0", point, 0, lambda point, i: point)
        )
        return Grown(outcome, self.runs, gap, 0, False)
