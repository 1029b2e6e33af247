"""Training on one data set: restarts and rounds of the optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.estimators.remarks import Remark, of_interruptions, of_limits, of_noise, of_run
from fitting.features import FeatureKernel
from fitting.objectives.losses import Sampling
from fitting.objectives.packing import Packing, each_input, packing_of
from fitting.objectives.point import Minimised, Parameters
from fitting.objectives.unit_noise import RowNoise
from fitting.rows.data import Data
from fitting.training import RESUMED, Batches, Ending, Loss, Resolution, Run, Session, train_adam, train_lbfgs
from fitting.training.adam import Stale, train_semi_stochastic
from fitting.training.blocks import Blocks
from gpbounds.arrays import Float
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.kernels import Stationary
from gpbounds.likelihoods import Gaussian
from gpbounds.linalg.parallel import one_blas_thread

SPREAD = 1.0
"""Standard deviation of the log hyperparameters of a restart about those of the first start."""

LEAST = 1e-3
"""Least gain over noise alone by which a model explains something: nats per target, or units of a bound on the risk;
see `Trainer.is_noise`."""

_MORE = 4.0
"""Ratio of the noise variances that are compared before training starts."""

WORTH = 0.003
"""Standard errors of an estimated objective are computed where no derivative exceeds so many nats per row."""

SMALL = 0.01
"""Nats per unit of a packed parameter (a factor of e of a hyperparameter) up to which a derivative of an estimated
objective counts as 0.  On 1500 rows of six inputs the four lengthscales that do not matter have derivatives of 1e-5 to
4e-3 with standard errors of 1e-6 to 1e-5 where training ends, the other parameters standard errors of 0.03 to 0.3."""

BLOCKS = 9
"""Stream of the random numbers that draw blocks; see the streams of `fitting.estimators.inducing`."""

NEGLIGIBLE = 1e-9
"""Variance of a kernel, in units of the noise variance, that explains nothing."""


# Of Adam's steps on random rows before L-BFGS-B: their number, the length of the first, and the rows of one for each
# inducing point; see "Random rows first" in `benchmarks/README.md`.
STEPS, RATE, ROWS = 200, 0.1, 8

# They are taken from so many rows on, and so many for each inducing point: then they cost 28 evaluations or fewer.
FEW, MANY = 4096, 64


_Redraw = Callable[[Parameters, int], Parameters]
"""(point, number of a start) ↦ the point with the inducing inputs or weights of this start."""

Draw = Callable[[Any, int], Any]
"""(kernel, number of a start) ↦ the inducing inputs of this start."""


def with_inducing(draw: Draw) -> _Redraw:
    """(point, i) ↦ the point with the inducing inputs ``draw(kernel, i)``."""
    return lambda point, i: replace(point, Z=draw(point.kernel, i))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one run.

    Attributes
    ----------
    parameters : Parameters
        The best point seen.
    run : Run
    low, high : tuples of str
        Names of parameters that lie on their lower or upper limit there.
    noise : bool
        Whether everything is noise there: see `Trainer.is_noise`.
    """

    parameters: Parameters
    run: Run
    low: tuple[str, ...]
    high: tuple[str, ...]
    noise: bool = False

    def remarks(self, runs: Sequence[Run], batches: bool, start: str) -> list[Remark]:
        """Remarks on this outcome, the best of ``runs``; ``start`` is the estimator's argument."""
        return [
            *of_interruptions(runs),
            *of_run(self.run, batches),
            *of_limits(self.low, self.high),
            *(of_noise(self.parameters, start) if self.noise else ()),
        ]


@dataclass(frozen=True, eq=False)
class Trainer:
    """The settings that all runs of one training share.

    Attributes
    ----------
    objective : Minimised
    N : int
        Number of rows.
    optimizer : "lbfgs", "adam", "natgrad" or None
        "natgrad": Adam with natural-gradient steps for a free q.  None does not train: the start is kept.
    max_iter, learning_rate, batch_size : as in the estimators
    ending : Ending
        When a run has settled.
    limits : mapping of name to (low, high)
    fixed : sequence of str
        Hyperparameters that are not trained.
    learn_Z : bool
    scale : array (D,)
        Units of Z within the vector.
    session, progress : Session, bool
    prefix : str
        Prefix of the names of all runs, for a session with several trainings.
    gtol : float
        L-BFGS-B stops when no derivative is larger.
    square : float
        Mean square of the targets: the noise variance of a model without inputs.
    otherwise : sequence of functions
        Each returns a further start, which is tried if training ends where everything is noise.
    natural_rate : float or None
        Of natural-gradient steps; None takes 1 where one step reaches the optimum, otherwise 0.1.
    sampling : Sampling or None
        How Adam's losses are sampled, for a variational objective; new samples in every step.
    raises_noise : bool
        Whether a run may start with more noise than its first start has.
    by_blocks : bool
        Whether mini-batches take their rows from blocks (`fitting.training.blocks`).
    tied : bool
        Whether lengthscales keep their ratios, as `fitting.objectives.packing.packing_of` says.
    seed, period : int, float
        Source of the random numbers of batches; as of `fitting.training.Batches`.
    anew : bool
        Whether no run has ended where a run starts.
    stale : function of a Packing, or None
        The losses of the semi-stochastic scheme, which takes the place of Adam's mini-batches.
    single_precision : bool
        Whether losses of random rows may take features in single precision (`fitting.rows.data.Data`).
    """

    objective: Minimised
    N: int
    optimizer: str | None
    max_iter: int
    ending: Ending
    learning_rate: float
    batch_size: int | None
    limits: Mapping[str, tuple[float, float]]
    fixed: Sequence[str]
    learn_Z: bool
    scale: Float
    session: Session
    progress: bool
    prefix: str = ""
    gtol: float = 1e-5
    square: float = 1.0
    otherwise: Sequence[Callable[[], Parameters]] = ()
    raises_noise: bool = False
    by_blocks: bool = False
    natural_rate: float | None = None
    sampling: Sampling | None = None
    tied: bool = False
    seed: int = 0
    period: float = math.inf
    anew: bool = True
    stale: Callable[[Packing], Stale] | None = None
    single_precision: bool = False

    def best_of(self, name: str, start: Parameters, restarts: int, redraw: _Redraw) -> list[Outcome]:
        """The runs from ``start`` and from ``restarts`` random points about it, the best first.

        ``redraw(point, i)`` sets the inducing inputs or weights of start i.  A restart without a value is skipped;
        Ctrl-C ends all restarts.  As long as everything is noise where training ends, runs from ``otherwise`` follow.
        """
        outcomes = [self.run(f"{name} start 0", self._with_more_noise(start) if self.raises_noise else start)]
        noise = self.is_noise(outcomes[0])
        for i, other in enumerate(self.otherwise):
            if not noise or outcomes[-1].run.status == "interrupted":
                break
            second = other()
            try:
                outcomes.append(self.run(f"{name} otherwise {i}", redraw(second, 0)))
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                continue
            noise = self.is_noise(outcomes[-1])
        for i in range(1, int(restarts) + 1):
            if outcomes[-1].run.status == "interrupted":
                break
            moved = self._perturbed(start, i)
            try:
                outcomes.append(self.run(f"{name} start {i}", redraw(moved, i)))
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                continue
        best, *others = sorted(outcomes, key=lambda outcome: -outcome.run.value)
        return [replace(best, noise=noise and self.is_noise(best)), *others]

    def _with_more_noise(self, start: Parameters) -> Parameters:
        """``start`` with its noise multiplied by `_MORE` as long as the objective rises.

        The noise of an exact fit is too small for few inducing points, where K - Q counts as noise.
        """
        high = self.limits.get("noise", (0.0, math.inf))[1]
        best, value, noise = start, -math.inf, start.noise
        while noise <= high:
            point = replace(start, likelihood=Gaussian(noise))
            try:
                reached = -self.objective.minimised(self.objective.complete(point), gradient=False).value
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                reached = -math.inf
            if value > -math.inf and not reached > value:
                break
            if reached > value:
                best, value = point, reached
            noise *= _MORE
        return best

    def is_noise(self, outcome: Outcome) -> bool:
        """Whether ``outcome`` gains less than `LEAST` over noise alone, the same model with a variance of nearly 0.

        Tested for Gaussian noise, one variance that is trained to the end, and an objective of all rows; else False.
        """
        point = outcome.parameters
        trained = self.optimizer is not None and "variance" not in self.fixed and outcome.run.status != "interrupted"
        if (
            not (
                isinstance(point.kernel, Stationary | FeatureKernel)
                and isinstance(point.likelihood, Gaussian | RowNoise)
            )
            or self.batch_size is not None
            or not trained
        ):
            return False
        logs, likelihood = point.kernel.log_parameters, point.likelihood
        if isinstance(likelihood, Gaussian) and "noise" not in self.fixed:
            likelihood = Gaussian(self.square)
        logs[0] = math.log(NEGLIGIBLE * float(np.min(likelihood.noise)))
        mean = None if point.prior_mean is None else point.prior_mean.start  # the best one where all is noise
        kernel = point.kernel.with_log_parameters(logs)
        without = replace(point, kernel=kernel, likelihood=likelihood, q=None, prior_mean=mean)
        value = -self.objective.minimised(self.objective.complete(without), gradient=False).value
        return outcome.run.value < value + LEAST * self.ending.unit

    def run(self, name: str, start: Parameters) -> Outcome:
        """One run of the optimiser, or the finished run that the session holds."""
        if self._has_many_rows(start):
            return self._after_random_rows(name, start)
        name = self.prefix + name
        packing = self.packing(start)
        if self.optimizer is None or not packing.bounds:
            run = self._as_it_is(packing)
        else:
            # The session may hold an earlier part of this run, if it was stopped or max_iter has been raised since.
            with one_blas_thread():
                run = self.session.run(
                    name, self.max_iter, lambda earlier, save: self._train(name, packing, earlier, save), self.ending
                )
        run.check_size(len(packing.bounds))
        best = packing.start if run.state.get("kept") else packing.unpack(run.vector)
        best = replace(best, sites=run.state.get("sites"))
        return Outcome(best, run, *packing.at_lower_and_upper(run.vector))

    def _has_many_rows(self, start: Parameters) -> bool:
        # whether `_after_random_rows` saves evaluations: of VFE's inducing points, by rows that are in memory
        problem: Any = self.objective
        apt = self.optimizer == "lbfgs" and self.learn_Z and self.anew and getattr(problem, "is_vfe", False)
        return apt and isinstance(problem.data, Data) and self.N >= max(FEW, MANY * len(start.Z))  # type: ignore[arg-type]

    def _after_random_rows(self, name: str, start: Parameters) -> Outcome:
        """A run from where Adam's steps from ``start`` end, each by the ELBO of other rows."""
        adam: dict[str, Any] = {"optimizer": "adam", "max_iter": STEPS, "learning_rate": RATE, "period": STEPS}
        steps = replace(self, batch_size=ROWS * len(start.Z), single_precision=True, **adam)  # type: ignore[arg-type]
        first = steps.run(f"{name} by random rows", start)
        if first.run.status == "interrupted":
            value = self._value(first.parameters)
            return replace(first, run=replace(first.run, value=value, values=(value,)))
        rest = replace(self, anew=False, ending=replace(self.ending, after=RESUMED))
        return rest._in_two_precisions(name, first.parameters)

    def _in_two_precisions(self, name: str, start: Parameters) -> Outcome:
        """A run in single precision, whose value is that of doubles; unless it has settled, it goes on in doubles.

        It is in doubles from its start where the precisions differ there by a tenth of the tolerance or more, and where
        they do not differ, as on a GPU, which has doubles only.
        """
        problem: Any = self.objective
        single = replace(self, objective=replace(problem, data=replace(problem.data, single_precision=True)))
        allowed = 0.1 * self.ending.tol * self.ending.unit
        if not (allowed and 0.0 < abs(single._value(start) - self._value(start)) < allowed):
            return self.run(name, start)
        first = single.run(f"{name} in single precision", start)
        run, value = first.run, self._value(first.parameters)
        left = self.max_iter - run.iterations
        if run.status == "interrupted" or left < 1 or (run.status == "settled" and abs(run.value - value) < allowed):
            return replace(
                first, run=replace(run, value=value, reason=f"{run.reason} Features are in single precision.")
            )
        last = replace(self, max_iter=left).run(name, first.parameters)
        return replace(last, run=_joined(run, last.run))

    def _value(self, point: Parameters) -> float:
        return -self.objective.minimised(point, gradient=False).value

    def packing(self, start: Parameters) -> Packing:
        """The vector of a point: its free parameters, limits and units."""
        names = (*start.kernel.parameter_names, *start.likelihood.parameter_names)
        fixed = tuple(dict.fromkeys((*self.fixed, *self.objective.held)))
        limits = {key: pair for key, pair in self.limits.items() if key not in fixed and key in names}
        return packing_of(
            self.objective.complete(start),
            learn_Z=self.learn_Z,
            fixed=fixed,
            limits=limits,
            scale=self.scale,
            tied=self.tied,
            natural=self.optimizer == "natgrad",
        )

    def _train(self, name: str, packing: Packing, earlier: Run | None, save: Callable[[Run], None] | None) -> Run:
        low, high = (np.array(ends, dtype=np.float64) for ends in zip(*packing.bounds, strict=True))
        start = np.clip(packing.pack(packing.start), low, high)
        loss = packing.loss(self.objective)
        shared: dict[str, Any] = {
            "max_iter": self.max_iter,
            "ending": self.ending,
            "label": name,
            "earlier": earlier,
            "save": save,
            "progress": self.progress,
        }
        if hasattr(self.objective, "standard_errors"):  # an estimate
            shared["resolution"] = Resolution(self._errors(packing), packing.bounds, WORTH * self.N, SMALL)
        if self.optimizer == "lbfgs":
            return train_lbfgs(loss, start, packing.bounds, gtol=self.gtol, **shared)
        rng = np.random.default_rng([*_words(self.seed), *name.encode()])
        if self.stale is not None:
            del shared["ending"]
            how: dict[str, Any] = {"learning_rate": self.learning_rate, "rng": rng, **shared}
            return train_semi_stochastic(self.stale(packing), start, packing.bounds, **how)
        steps = loss if self.batch_size is None and self.sampling is None else self._batches(packing)
        if self.optimizer == "natgrad" and packing.start.q is not None:
            rate = self.natural_rate
            if rate is None and self.batch_size is not None:
                rate = 0.1
            shared["natural"] = self.objective.natural(packing.start, rate)  # type: ignore[attr-defined]
        return train_adam(steps, start, packing.bounds, learning_rate=self.learning_rate, rng=rng, **shared)

    def _errors(self, packing: Packing) -> Callable[[Float], Float]:
        """The function vector ↦ standard errors of the derivatives of an estimated objective."""
        problem: Any = self.objective

        def errors(vector: Float) -> Float:
            point = packing.unpack(vector)
            return packing.gradient(problem.standard_errors(point), point)

        return errors

    def _batches(self, packing: Packing) -> Batches:
        """Losses of random rows or with random samples, by which the objective estimates the loss of all rows."""

        size, seed = self.batch_size, _words(self.seed)
        blocks = None if size is None or not self.by_blocks else Blocks(self.N, size, (*seed, BLOCKS))

        def rows(rng: np.random.Generator, step: int | None = None) -> Minimised:
            if size is None:
                return self.objective
            if blocks is not None and step is not None:
                return self.objective.batch(blocks.rows(step))
            return self.objective.batch(np.sort(rng.choice(self.N, size, replace=False)))

        def draw(rng: np.random.Generator, step: int) -> Loss:
            part: Any = rows(rng, step)
            if self.sampling is not None:
                part = part.sampled(self.sampling, int(rng.integers(2**63)))
            if self.single_precision:
                part = replace(part, data=replace(part.data, single_precision=True))
            return packing.loss(part)

        return Batches(draw, packing.value(rows(np.random.default_rng([*seed, 1]))), self.period)

    def _as_it_is(self, packing: Packing) -> Run:
        end = self.objective.minimised(packing.start, gradient=False)
        if not math.isfinite(end.value):
            raise NonFinite("the objective: expected a finite value at these hyperparameters, got none")
        reason = "No training: the hyperparameters are those that were passed."
        state = {"kept": True, "sites": end.sites}
        return Run(packing.pack(packing.start), -end.value, (-end.value,), "converged", reason, 1, 0, state)

    def _perturbed(self, start: Parameters, i: int) -> Parameters:
        rng = np.random.default_rng([*_words(self.session.seed), 2, i])
        names = (*start.kernel.parameter_names, *start.likelihood.parameter_names)
        logs = np.append(start.kernel.log_parameters, start.likelihood.log_parameters)
        moved = logs + SPREAD * rng.standard_normal(logs.size)
        for places in each_input(start.kernel).values() if self.tied else ():
            moved[places] = logs[places] + (moved - logs)[places[0]]
        for k, name in enumerate(names):
            low, high = np.log(self.limits.get(name, (0.0, math.inf)))
            moved[k] = logs[k] if name in self.fixed else np.clip(moved[k], low, high)
        own, rest = np.split(moved, [start.kernel.log_parameters.size])
        kernel, likelihood = start.kernel.with_log_parameters(own), start.likelihood.with_log_parameters(rest)
        return replace(start, kernel=kernel, likelihood=likelihood, q=None)


def _joined(single: Run, last: Run) -> Run:
    """``last`` with the part in single precision before it."""
    return replace(
        last,
        values=(*single.values, *last.values[1:]),
        reason=f"{last.reason} The {single.iterations} iterations before were in single precision.",
        evaluations=single.evaluations + last.evaluations,
        failures=single.failures + last.failures,
    )


def _words(seed: int) -> list[int]:
    """A seed of any size as a list of 32-bit words for `numpy.random.default_rng`."""
    return [seed & 0xFFFFFFFF, *_words(seed >> 32)] if seed > 0xFFFFFFFF else [seed]
