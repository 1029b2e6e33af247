"""One training: restarts and rounds of the optimiser on the objective of one data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting.family import Objective
from fitting.parameters import Packing, Parameters, packing
from fitting.training import Batches, Loss, Run, Session, train_adam, train_lbfgs
from gpbounds.arrays import Array, Float, namespace
from gpbounds.errors import NonFinite, NotPositiveDefinite

SPREAD = 1.0
"""Standard deviation of a restart's log hyperparameters about the first start's."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where a run ended.

    Attributes
    ----------
    parameters : Parameters
        The best point seen.
    run : Run
    low, high : tuples of str
        Names of hyperparameters that sit on their lower or upper limit there.
    """

    parameters: Parameters
    run: Run
    low: tuple[str, ...]
    high: tuple[str, ...]

    def complaints(self, runs: Sequence[Run], batches: bool) -> list[str]:
        """What is not as one hopes, sentence by sentence; steps on mini-batches are a budget and may run out."""
        said = [one.reason for one in runs if one.status == "interrupted"]
        if self.run.status == "stalled" or (self.run.status == "iterations" and not batches):
            said.append(self.run.reason)
        for side, names, hint in (
            ("lower", self.low, "no noise is found, or the data ask for less than `limits` allow"),
            ("upper", self.high, "an input with such a lengthscale does not matter, or `limits` are too narrow"),
        ):
            if names:
                said.append(f"At the {side} limit: {', '.join(names)} ({hint}). Fix it, or widen `limits`.")
        return said


@dataclass(frozen=True, eq=False)
class Trainer:
    """What every run of one training shares.

    Attributes
    ----------
    make : (X, Y) ↦ Objective
    X, Y : arrays (N, D), (N, P)
        On the device.
    optimizer : "lbfgs", "adam" or None
        None keeps the start.
    max_iter, tol, learning_rate, batch_size : as in the estimators
    limits : mapping of name to (low, high)
    fixed : sequence of str
        Hyperparameters that keep their start.
    learn_Z : bool
    scale : array (D,)
        Units of Z.
    session : Session
    progress : bool
    prefix : str
        Of the names of all runs: where one session has several trainings.
    gtol : float
        Largest derivative at which L-BFGS-B stops.
    """

    make: Callable[[Array, Array], Objective]
    X: Array
    Y: Array
    optimizer: str | None
    max_iter: int
    tol: float
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

    def best_of(self, name: str, start: Parameters, restarts: int, redraw: Callable[[Any, int], Any]) -> list[Outcome]:
        """The runs from ``start`` and from ``restarts`` points about it, the best first.

        ``redraw(kernel, i)`` gives the inducing points of restart i.  A restart without a value at its start is passed
        over; Ctrl-C ends them all.
        """
        found = [self.run(f"{name} start 0", start)]
        for i in range(1, restarts + 1):
            if found[-1].run.status == "interrupted":
                break
            where = self._perturbed(start, i)
            try:
                there = Parameters(where.kernel, where.noise, redraw(where.kernel, i))
                found.append(self.run(f"{name} start {i}", there))
            except (NotPositiveDefinite, NonFinite, ArithmeticError):
                continue
        return sorted(found, key=lambda outcome: -outcome.run.value)

    def run(self, name: str, start: Parameters) -> Outcome:
        """One run of the optimiser, or what the session has of it."""
        name = self.prefix + name
        how = self._packing(start)
        if self.optimizer is None or not how.bounds:
            run = self._as_it_is(how)
        else:
            # The session may hold an older part of the same run: it was stopped, or max_iter was raised since.
            run = self.session.run(name, self.max_iter, lambda earlier, save: self._train(name, how, earlier, save))
        best = how.start if run.state.get("kept") else how.unpack(run.vector)
        ends = how.at_bounds(run.vector)
        rows = zip(how.names, run.vector, how.bounds, strict=True)
        nearer_low = {name for name, v, (low, high) in rows if v - low < high - v}
        low = tuple(name for name in ends if name in nearer_low)
        return Outcome(best, run, low, tuple(name for name in ends if name not in nearer_low))

    def _packing(self, start: Parameters) -> Any:
        """What `Packing` is: parameters as a vector, and back."""
        limits = {key: pair for key, pair in self.limits.items() if key not in self.fixed}
        return packing(
            start.kernel,
            start.noise,
            start.Z,
            learn_Z=self.learn_Z,
            fixed=tuple(self.fixed),
            limits=limits,
            scale=self.scale,
        )

    def _loss(self, how: Any) -> Loss:
        """The objective of all data as a function of the vector, to be minimised."""
        return how.loss(self.make(self.X, self.Y))

    def _train(self, name: str, how: Packing, earlier: Run | None, save: Callable[[Run], None] | None) -> Run:
        start, shared = how.pack(how.start), {"earlier": earlier, "save": save, "progress": self.progress}
        low, high = (np.array(side, dtype=np.float64) for side in zip(*how.bounds, strict=True))
        start = np.clip(start, low, high)
        everything: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "label": name, **shared}
        if self.optimizer == "lbfgs":
            return train_lbfgs(self._loss(how), start, how.bounds, gtol=self.gtol, **everything)
        rng = np.random.default_rng([*_words(self.session.seed), *name.encode()])
        loss = self._loss(how) if self.batch_size is None else self._batches(how)
        return train_adam(loss, start, how.bounds, learning_rate=self.learning_rate, rng=rng, **everything)

    def _batches(self, how: Packing) -> Batches:
        """Losses of B random rows: here N/B times the F of their covariances."""
        N = int(self.X.shape[0])
        B, xp = min(int(self.batch_size or N), N), namespace(self.X)

        def draw(rng: np.random.Generator) -> Loss:
            return self._part(how, xp.asarray(np.sort(rng.choice(N, B, replace=False))))

        return Batches(draw, draw(np.random.default_rng([*_words(self.session.seed), 1])))

    def _part(self, how: Packing, rows: Array) -> Loss:
        """What stands for the loss of all data, from some rows."""
        inner, scale = how.loss(self.make(self.X[rows], self.Y[rows])), self.X.shape[0] / rows.shape[0]

        def scaled(vector: Float) -> tuple[float, Float]:
            f, g = inner(vector)
            return scale * f, scale * g

        return scaled

    def _value(self, start: Any) -> float:
        """The objective at ``start``."""
        return self.make(self.X, self.Y).evaluate(start.kernel, start.noise, start.Z, gradient=False).value

    def _as_it_is(self, how: Packing) -> Run:
        value = self._value(how.start)
        if not math.isfinite(value):
            raise NonFinite("the objective: expected a finite value at the hyperparameters given, got none")
        said = "The hyperparameters are kept as they were given."
        return Run(how.pack(how.start), value, (value,), "converged", said, 1, 0, {"kept": True})

    def _perturbed(self, start: Parameters, i: int) -> Parameters:
        rng = np.random.default_rng([*_words(self.session.seed), 2, i])
        names = (*start.kernel.parameter_names, "noise")
        logs = np.append(start.kernel.log_parameters, math.log(start.noise))
        moved = logs + SPREAD * rng.standard_normal(logs.size)
        for k, name in enumerate(names):
            low, high = np.log(self.limits.get(name, (0.0, math.inf)))
            moved[k] = logs[k] if name in self.fixed else np.clip(moved[k], low, high)
        return Parameters(start.kernel.with_log_parameters(moved[:-1]), float(np.exp(moved[-1])), start.Z)


def _words(seed: int) -> list[int]:
    """A seed of any size as a list for `numpy.random.default_rng`."""
    return [seed & 0xFFFFFFFF, *_words(seed >> 32)] if seed > 0xFFFFFFFF else [seed]
