"""Estimators with inducing points: which, and for ``n_inducing="auto"`` how many."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fitting.estimators.base import GaussianProcess
from fitting.estimators.regression import Regression
from fitting.estimators.remarks import Remark
from fitting.estimators.trainer import Outcome, Trainer, with_inducing
from fitting.objectives.goals import Evidence
from fitting.objectives.laws import law_of
from fitting.objectives.objective import Objective, data_of, member
from fitting.objectives.point import Parameters
from fitting.prior_means import PriorMean
from fitting.starts.best import AFTER_TRAINING, at_jitter, best_inducing, gap_of, planned_number
from fitting.starts.starts import choose_inducing
from fitting.starts.sufficient import EXACT, Nested, nested
from fitting.training import RESUMED, Run
from gpbounds.arrays import Float, as_points, distinct_rows, host
from gpbounds.errors import shown
from gpbounds.kdpp.best import draws_to_make
from gpbounds.kernels import Kernel
from gpbounds.rates.draws.sentences import FIXED_BEFORE
from gpbounds.validation import array_module, choice, count, flag, open_unit, positive, scalar

WAYS = ("auto", "greedy", "kdpp", "kmeans", "uniform")

USUAL = 100
"""Number of inducing points by which the rows of the default start are chosen for ``n_inducing="auto"``."""

ROUNDS = 12
"""Largest number of trainings for ``n_inducing="auto"``."""

FIRST = 100
"""Largest number of inducing points of the first round."""

DEARER = 3
"""log p(y) is trained in place of an objective with more than N/`DEARER` inducing points: one training ends what would
be several rounds.  At N = 1503 a step takes .15 s, one of VFE .09 s with M = 501 and .58 s with M = 1100, on one
thread."""

BEYOND = 1000
"""Default of the largest number of inducing points above `EXACT` rows."""

DRAWN = 3
"""Largest number of rounds of drawing and training for ``n_inducing="auto", inducing="best"``."""

STREAM = 4
"""Stream of random numbers for the draws after training; batches, restarts and inducing points use streams 1 to 3, the
default start stream 5."""


@dataclass(eq=False, repr=False, kw_only=True)
class WithInducing(GaussianProcess):
    """Estimators with M inducing inputs, which are chosen by a method or passed.

    ``inducing="auto"`` takes centres of clusters of the rows (k-means).  Greedy points lie far from most rows: training
    from them takes longer and ends at a lower objective (`benchmarks/README.md`).

    Attributes
    ----------
    inducing_ : array (M, D)
        Inducing inputs Z.
    """

    n_inducing: Any = 100
    inducing: Any = "auto"
    learn_inducing: bool = True
    _ways: ClassVar[tuple[str, ...]] = WAYS  # that ``inducing`` may name

    @property
    def log_marginal_likelihood(self) -> Any:
        """An error with what there is instead: a model with inducing points does not compute log p(y).

        Raises
        ------
        AttributeError
        """
        raise AttributeError(
            f"log_marginal_likelihood: a {type(self).__name__} does not compute log p(y), ExactGP does: "
            "log_evidence_bounds() has a lower and an upper bound on it, for Gaussian noise"
        )

    @property
    def _way(self) -> str:
        """The method by which points are chosen."""
        return "kmeans" if self.inducing == "auto" else str(self.inducing)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        flag("learn_inducing", self.learn_inducing)
        if isinstance(self.inducing, str):
            choice("inducing", self.inducing, self._ways)
        else:
            as_points(self.inducing, "inducing")
        if not isinstance(self.n_inducing, str):
            count("n_inducing", self.n_inducing)

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        def draw(kernel: Kernel, i: int) -> Any:
            return self._drawn(replace(start, kernel=kernel), X, Y, trainer.session.seed, i)

        first = replace(start, Z=draw(start.kernel, 0))
        outcomes = trainer.best_of("sparse", first, self.n_restarts, with_inducing(draw))
        return outcomes[0], [outcome.run for outcome in outcomes]

    def _rank(self, N: int) -> int:
        if not isinstance(self.inducing, str):
            return len(self.inducing)
        return USUAL if isinstance(self.n_inducing, str) else int(self.n_inducing)

    def _drawn(self, start: Parameters, X: Float, Y: Float, seed: int, i: int) -> Any:
        """The inducing points of start i by ``inducing`` and ``n_inducing``, on the device of training."""
        if isinstance(self.inducing, str):
            choice_seed = 0 if self.random_state is None and self._way == "kmeans" else seed  # as for pilot rows
            rng = np.random.default_rng([choice_seed & (2**63 - 1), 3, i])
            Z = self._chosen(start, X, Y, count("n_inducing", self.n_inducing), rng)
        else:
            Z = np.array(host(as_points(self.inducing, "inducing", X.shape[1])), dtype=np.float64)
        return array_module(self.device).asarray(Z)  # type: ignore[arg-type]

    def _chosen(self, start: Parameters, X: Float, Y: Float, M: int, rng: np.random.Generator) -> Float:
        """M points by the method that ``inducing`` names."""
        return choose_inducing(start.kernel, X, M, self._way, rng)


# ``n_inducing="auto"``: it grows, and hyperparameters are trained, until the gap is small at the end.
#
# M depends on the hyperparameters, and they on M: few points overestimate noise and lengthscales, for which few points
# suffice.  So a round trains kernel, noise and mean from those of the round before, with as many greedy points as
# suffice there: its objective begins within the target of log p(y).  Greedy points stay where they are, so that few
# steps train what is left.  As M grows the objective becomes log p(y), whose optimum is the limit of all rounds: where
# a round would need more than N/3 points, log p(y) itself is trained, which costs less than what is left.  At the end
# kernel and noise are held, and the least number of greedy points is taken whose gap is proved to reach the target.


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
    evidence : Objective, `AtUnitNoise` or None
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
    evidence: Any
    xp: Any
    runs: list[Run] = field(default_factory=list)
    _last: _Trained = field(init=False)

    def grown(self, start: Parameters, draw: Callable[[Any, int, int], Any], restarts: int) -> Grown:
        """Train from ``start``; ``draw(kernel, M, i)`` are the inducing points with which start i begins."""
        if self.trainer.optimizer is None or not self.trainer.packing(replace(start, Z=None)).bounds:
            return self._untrained(start, self._greedy(start, self.most))
        first_most = min(FIRST, self.most)
        M = self._greedy(start, first_most).expected or first_most

        def first(kernel: Any, i: int) -> Any:
            return draw(kernel, M, i)

        outcomes = self.trainer.best_of(
            "growing 0", replace(start, Z=first(start.kernel, 0)), restarts, with_inducing(first)
        )
        self._last = _Trained(self._recorded(outcomes), M)
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
            order = self._greedy(now.point, self.most)
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
        trainer = replace(self.trainer, otherwise=(), raises_noise=False, anew=False, ending=ending, **changed)
        outcome = self._recorded(trainer.best_of(f"growing {number}", point, 0, lambda point, i: point))
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

    def _recorded(self, outcomes: list[Outcome]) -> Outcome:
        """The first of ``outcomes``; the runs of all are kept, an interrupted one last."""
        self.runs += sorted((each.run for each in outcomes), key=lambda run: run.status == "interrupted")
        return outcomes[0]

    def _greedy(self, point: Parameters, most: int) -> Nested:
        """The greedy order of at most ``most`` points at the kernel, noise and prior mean of ``point``."""
        residuals = self.residuals(point.prior_mean)
        sought = {"alpha": self.alpha, "target": self.target}
        return nested(point.kernel, self.X, residuals, noise=point.noise, most=most, **sought)

    def _with_points(self, now: _Trained, order: Nested | None) -> tuple[Outcome, float]:
        """The outcome with its final inducing points, and their gap.

        The trained points stay if they reach the target and no fewer greedy ones do, if nothing does and their gap is
        smaller, or after Ctrl-C.
        """
        order, own = order or self._greedy(now.point, self.most), now.point.Z
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
        outcome = self._recorded(
            replace(self.trainer, optimizer=None).best_of("growing 0", point, 0, lambda point, i: point)
        )
        return Grown(outcome, self.runs, gap, 0, False)


@dataclass(eq=False, repr=False, kw_only=True)
class InducingGP(Regression, WithInducing):
    """The common part of `RenyiGP` and `SparseGP`.

    Attributes
    ----------
    history_ : array
        For ``n_inducing="auto"`` that of the last training, in which F was log p(y) if ``trained_with_`` is N.
    gap_ : float
        Only for ``n_inducing="auto"``: proved upper bound on D_α from the final sparse posterior to the exact one with
        the same kernel, noise and mean.
    trained_with_ : int
        Only for ``n_inducing="auto"``: the M with which kernel, noise and mean were trained; N if log p(y) itself was,
        0 if nothing was.  Training again with M = ``len(inducing_)`` moves them, and with them the gap; keep them by
        ``SparseGP(kernel=model.kernel_, noise=model.noise_, fixed="all", n_inducing=M)``.
    bound_ : Bound
        Only for ``inducing="best"``: upper bound on that D_α, with its probability and its assumptions.
    """

    target_gap: float = 1.0
    max_inducing: int | None = None
    draws: Any = 10
    delta: float = 0.05
    _many_optima: ClassVar[bool] = True
    _ways: ClassVar[tuple[str, ...]] = (*WAYS, "best")

    @abstractmethod
    def _bounds(self) -> float | None:
        """The order α of the ELBO that is the objective; None if the objective is no ELBO."""

    @property
    def _order(self) -> float:
        """Order α in (0, 1] of the gap that "auto" and "best" bound."""
        return self._bounds() or 1.0

    @property
    def _best(self) -> bool:
        return isinstance(self.inducing, str) and self.inducing == "best"

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if isinstance(self.n_inducing, str):
            choice("n_inducing", self.n_inducing, ("auto",))
            if not (isinstance(self.inducing, str) and self.inducing in ("auto", "greedy", "best")):
                raise ValueError(
                    f"inducing: expected 'auto', 'greedy' or 'best' for n_inducing='auto', got {shown(self.inducing)}: "
                    "the smallest number that suffices is sought among the first points of the greedy order"
                )
        positive("target_gap", self.target_gap)
        if self.max_inducing is not None:
            count("max_inducing", self.max_inducing)
        draws_to_make(self.draws)
        scalar(open_unit, "delta", self.delta)
        if self._best and self._bounds() is None:
            raise ValueError(
                "inducing: expected 'best' with an objective that bounds log p(y) from below and depends on the "
                "inducing points: SparseGP('vfe'), or RenyiGP with alpha > 0"
            )

    def _search(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        self._limited = False
        if self.n_inducing != "auto":
            outcome, runs = super()._search(trainer, start, X, Y)
        else:
            rounds = self._drawn_in_rounds if self._best else self._grown
            outcome, runs = rounds(trainer, start, X, Y)
        return (self._redrawn(trainer, outcome, X, Y) if self._best else outcome), runs

    def _grown(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        """`Growth` to the target; sets ``gap_`` and ``trained_with_``."""
        seed, xp = trainer.session.seed, array_module(self.device)  # type: ignore[arg-type]
        way = "kmeans" if self.inducing == "auto" and self.learn_inducing else "greedy"

        def draw(kernel: Kernel, M: int, i: int) -> Any:
            choice_seed = 0 if self.random_state is None else seed  # as for pilot rows
            rng = np.random.default_rng([choice_seed & (2**63 - 1), 3, i])
            return xp.asarray(choose_inducing(kernel, X, M, way, rng))

        by_evidence = self._bounds() is not None and len(X) <= EXACT and self._batch(len(X)) is None
        growth = Growth(
            trainer,
            X,
            lambda mean: self._about(mean, X, Y),
            self._order,
            float(self.target_gap),
            most_points(self.max_inducing, len(X), distinct_rows(X)),
            self._log_evidence() if by_evidence else None,
            xp,
        )
        grown = growth.grown(start, draw, self.n_restarts)
        self.gap_, self.trained_with_, self._limited = grown.gap, grown.trained_with, grown.limited
        return grown.outcome, grown.runs

    def _log_evidence(self) -> Any:
        """log p(y) of the rows of training, on their device."""
        X, y = self._placed()
        exact = member("exact")
        rows = self._unit_rows()
        points, targets = (X, y) if rows is None else (rows.X, rows.y)
        return self._at_callers_rows(Objective(data_of(points, targets, exact), law_of(exact), Evidence()))

    def _drawn_in_rounds(self, trainer: Trainer, start: Parameters, X: Float, Y: Float) -> tuple[Outcome, list[Run]]:
        """For "best": plan M and draw for the current hyperparameters, and train; at most three rounds."""
        runs: list[Run] = []
        xp: Any = array_module(self.device)  # type: ignore[arg-type]
        point, M = start, 0
        for i in range(DRAWN):
            M = max(M, self._planned(point, X, Y))
            Z = self._chosen(point, X, Y, M, np.random.default_rng([trainer.session.seed & (2**63 - 1), 3, i]))

            def draw(kernel: Kernel, k: int, M: int = M) -> Any:
                return xp.asarray(choose_inducing(kernel, X, M, "greedy", np.random.default_rng(k)))

            first = replace(point, Z=xp.asarray(Z))
            current = trainer if i == 0 else replace(trainer, otherwise=(), raises_noise=False, anew=False)
            outcomes = current.best_of(f"round {i}", first, self.n_restarts if i == 0 else 0, with_inducing(draw))
            outcome = outcomes[0]
            runs += sorted((attempt.run for attempt in outcomes), key=lambda run: run.status == "interrupted")
            point = outcome.parameters
            if runs[-1].status == "interrupted" or trainer.optimizer is None or self._planned(point, X, Y) <= M:
                break
        return outcome, runs

    def _planned(self, point: Parameters, X: Float, Y: Float) -> int:
        """The number of points for which the best of the draws provably reaches the target, before any draw."""
        return planned_number(
            point.kernel,
            X,
            self._about(point.prior_mean, X, Y),
            noise=point.noise,
            alpha=self._order,
            target=float(self.target_gap),
            delta=float(self.delta),
            draws=self.draws,
            most=most_points(self.max_inducing, len(X), distinct_rows(X)),
        )

    def _chosen(self, start: Parameters, X: Float, Y: Float, M: int, rng: np.random.Generator) -> Float:
        if not self._best:
            return super()._chosen(start, X, Y, M, rng)
        best = self._best_of(start, X, Y, min(M, distinct_rows(X)), rng)
        return choose_inducing(start.kernel, X, M, "greedy", rng) if best is None else best.Z

    def _best_of(self, point: Parameters, X: Float, Y: Float, M: int, rng: Any, trained: tuple[Float, ...] = ()) -> Any:
        return best_inducing(
            point.kernel,
            X,
            self._about(point.prior_mean, X, Y),
            M,
            rng,
            noise=point.noise,
            alpha=self._order,
            draws=self.draws,
            delta=float(self.delta),
            candidates=trained,
        )

    def _redrawn(self, trainer: Trainer, outcome: Outcome, X: Float, Y: Float) -> Outcome:
        """The best of R new draws at the trained hyperparameters and of the trained points; sets ``bound_``."""
        point = outcome.parameters
        trained = host(point.Z)
        M = min(trained.shape[0], distinct_rows(X))
        if self.n_inducing == "auto":  # the trained hyperparameters may need more points
            M = max(M, self._planned(point, X, Y))
        rng = np.random.default_rng([trainer.session.seed & (2**63 - 1), STREAM])
        best = self._best_of(point, X, Y, M, rng, (trained,))
        Z = trained if best is None else best.Z
        selected = replace(point, Z=array_module(self.device).asarray(Z))  # type: ignore[arg-type]
        evaluation = trainer.objective.minimised(selected, gradient=False)
        options: dict[str, Any] = {"noise": point.noise, "alpha": self._order, "jitter": float(evaluation.jitter)}
        residuals = self._about(point.prior_mean, X, Y)
        if best is None or best.bound is None:
            self.bound_ = gap_of(point.kernel, X, residuals, Z, **options)
        else:
            self.bound_ = at_jitter(best.bound, point.kernel, X, residuals, Z, **options)
        sentences = [sentence for sentence in self.bound_.assumptions if sentence != FIXED_BEFORE]
        self.bound_ = replace(self.bound_, assumptions=(*sentences, AFTER_TRAINING))
        if self.n_inducing == "auto":
            self.gap_ = float(self.bound_)
        return replace(outcome, parameters=selected)

    def _adopt(self, problem: Any, outcome: Outcome, runs: list[Run]) -> None:
        super()._adopt(problem, outcome, runs)
        if self._best or self.n_inducing == "auto":  # the points may differ from the trained ones
            point, problem = outcome.parameters, problem.about(self._fitted_mean())
            self.objective_ = problem.evaluate(point.kernel, point.noise, point.Z, gradient=False).value

    def _remarks(self, outcome: Outcome) -> list[Remark]:
        remarks = super()._remarks(outcome)
        if self.n_inducing == "auto" and not self.gap_ <= self.target_gap:
            remarks.append(Remark("gap", self._too_few(outcome)))
        elif self._limited:
            most = most_points(self.max_inducing, len(self.X_train_), len(self.X_train_))
            text = (
                f"n_inducing='auto': kernel and noise are those that {self.trained_with_} inducing points trained; "
                f"after more training a gap of {self.target_gap:g} nats would need over max_inducing = {most} points. "
                "Raise it for a better fit."
            )
            remarks.append(Remark("gap", text))
        return remarks

    def _too_few(self, outcome: Outcome) -> str:
        """Why no M reached the target."""
        M, distinct = self.inducing_.shape[0], distinct_rows(self.X_train_)
        most = most_points(self.max_inducing, len(self.X_train_), distinct)
        reached = "not bounded" if math.isinf(self.gap_) else f"bounded by {self.gap_:.3g} nats"
        text = f"n_inducing='auto': with {M} inducing points the gap is {reached}, more than target_gap = "
        text += f"{self.target_gap:g}"
        if outcome.run.status == "interrupted":
            return f"{text}: training was interrupted before M had grown."
        if M < most or most == distinct:
            return (
                f"{text}, and more points do not help: at this noise variance the rounding of double precision "
                "decides. Fix a larger noise, or its limits, or raise target_gap."
            )
        return f"{text}: raise it, or max_inducing = {most}."
