"""What the PAC-GP estimators share: train by the bound, round to the grid, settle the rest there, certify."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from fitting.bounds.target import GOALS, Terms
from fitting.estimators.base import GaussianProcess
from fitting.estimators.declared import Limits, box, charges_of, grid_of, log_choices, losses_of, scalings_of
from fitting.estimators.inputs import training_data
from fitting.estimators.issuing import issue
from fitting.estimators.starting import starting_point, trainer_of
from fitting.estimators.trained import Trained, complaints
from fitting.estimators.trainer import Outcome, Trainer
from fitting.parameters import Parameters
from fitting.posterior import Posterior
from fitting.training import Run
from gpbounds.arrays import Array, Float, host, is_cupy, namespace, place
from gpbounds.devices import array_module
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.pacbayes import Certificate, HyperGrid, bound
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.forms import Posterior as Form
from gpbounds.validation import choice, one, positive

GTOL = 1e-8
"""Derivatives of B, of which there may be thousands in Z, at which L-BFGS-B stops."""


class PacGaussianProcess(GaussianProcess):
    """Gaussian process regression trained by a PAC-Bayes bound on its Gibbs risk; use `PACGP` or `SparsePACGP`.

    With probability ≥ 1 − δ over the N rows, R(Q) ≤ kl⁻¹(R_S(Q), (KL(Q‖P^θ) + ln|Θ| + ln(ξ(N)/δ))/N): Q is made for
    this bound, in the order that keeps it valid (P-44).  A grid Θ is fixed before the data; hyperparameters, noise,
    inducing inputs, free parameters are trained within its box; θ is rounded to Θ; all but θ is trained again there;
    R_S and KL are evaluated on all N rows.

    Attributes
    ----------
    certificate_ : gpbounds.pacbayes.Certificate
        Of the model that predicts; ``certificate_.check(X, y)`` recomputes it from the raw data, in float64.
    certificates_ : tuple of Certificate
        One for each ε, in order, of a model trained for it; ``certificate_`` is the first.
    risk_, kl_, bound_ : float
        R_S(Q), KL(Q‖P^θ) and the bound, as ``certificate_`` has them: rounded upwards.
    grid_ : HyperGrid
    kernel_ : Kernel
        On the grid, to the last bit.
    unrounded_kernel_ : Kernel
        Where free training ended.
    inputs_, outputs_ : Scaling
        How raw data become X_train_ and y_train_, in whose units kernel, noise, ε and inducing inputs are.
    history_ : array
        What was made small, B or B_Pin, at the start and after each iteration; then the same at the rounded θ.
    objective_ : float
        Less what was made small, at the end.
    """

    epsilon: Any
    delta: float
    loss: Any
    objective: str
    grid: HyperGrid | None
    scaling: Any
    nonrigorous: bool
    normalize_y: ClassVar[bool] = False  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    @abstractmethod
    def _bounds(self, loss: Loss, penalty: float, start: Parameters) -> Callable[[Array, Array], Any]:
        """(X, Y) ↦ the bound that is trained, from ``start`` on."""

    @abstractmethod
    def _terms(self, problem: Any, point: Any) -> Terms:
        """R_S and KL of all data at ``point``."""

    @abstractmethod
    def _form(self, point: Any) -> Callable[[float], Form]:
        """jitter ↦ Q as certificates write it."""

    @abstractmethod
    def _law(self, point: Any, jitter: float) -> Posterior:
        """Q as the model predicts with it."""

    def _trainer_kind(self) -> type[Trainer]:
        return Trainer

    def fit(self, X: ArrayLike | Array, y: ArrayLike | Array) -> Self:
        """Train on X (N, D) and y (N,), and certify.

        The best point seen stays, also after Ctrl-C, with a warning: it is rounded and certified as it is, and other ε
        are certified for it, too.

        Raises
        ------
        ValueError
            for wrong arguments, NaN or infinity, a checkpoint of other data, or a Q whose KL rounding leaves unknown.
        NotPositiveDefinite
            when a covariance does not factorise where training starts.

        Warns
        -----
        ConvergenceWarning
            when iterations ran out, nothing better was found, training was interrupted, a hyperparameter sits on the
            edge of the grid or on its limit, or the bound says nothing.
        """
        self._member()
        self._check_arguments()
        losses = losses_of(self.loss, self.epsilon)
        scalings = scalings_of(self.scaling, self.nonrigorous)
        self._forget()
        raw = training_data(self, X, y)
        self.inputs_, self.outputs_ = scalings
        points, columns = self._settled(*raw)
        start = self._within(starting_point(self, points, columns))
        self.grid_ = grid_of(self.grid, start.kernel)
        charges = charges_of(losses)
        penalty = log_choices(self.grid_, charges, scalings)
        declared = {"charges": charges, "inputs": scalings[0], "outputs": scalings[1], "nonrigorous": self.nonrigorous}
        make = self._bounds(losses[0], penalty, start)
        first = trainer_of(self, make, points, columns, start, kind=self._trainer_kind(), gtol=GTOL)
        found: list[Trained] = []
        for i, loss in enumerate(losses):
            trainer = replace(first, make=self._bounds(loss, penalty, start), prefix=f"epsilon {i} " if i else "")
            stopped = next((each for each in found if each.interrupted), None)
            if stopped is None:
                outcome, runs = self._search(trainer, start, points, columns)
            else:
                outcome = replace(trainer, optimizer=None).run("untrained", stopped.point)
                runs = [outcome.run]
            found.append(self._rounded(trainer, outcome, runs, raw, {**declared, "loss": loss}))
        self._take(found)
        for sentence in complaints(found, getattr(self, "batch_size", None) is not None):
            warnings.warn(sentence, ConvergenceWarning, stacklevel=2)
        return self

    def _rounded(
        self, trainer: Trainer, outcome: Outcome, runs: list[Run], raw: tuple[Float, Float], declared: dict[str, Any]
    ) -> Trained:
        """From free training to the grid: rounding, training of the rest at θ there, and the certificate (P-44)."""
        free = outcome.parameters.kernel
        kernel = priors.with_hyperparameters(free, self.grid_.round(priors.hyperparameters(free)))
        points, last = [replace(outcome.parameters, kernel=kernel)], None
        if not (outcome.run.state.get("kept") or any(run.status == "interrupted" for run in runs)):
            last = replace(trainer, fixed=(*kernel.parameter_names, *trainer.fixed)).run("on the grid", points[0])
            points.append(replace(last.parameters, kernel=kernel))  # logarithms there and back may cost a bit
            runs = [*runs, last.run]
        problem: Any = trainer.make(trainer.X, trainer.Y)
        terms = [self._terms(problem, point) for point in points]
        problem.space.release()
        paid = problem.target.log_prior_penalty
        values = [float(bound(each.risk, each.kl, problem.N, self.delta, paid)) for each in terms]
        best = int(np.argmin(values))
        certificate = issue(
            *raw,
            self._form(points[best]),
            terms[best].jitter,
            values[best],
            kernel,
            grid=self.grid_,
            delta=float(self.delta),
            **declared,
        )
        return Trained(outcome, last, tuple(runs), points[best], terms[best], certificate)

    def _take(self, found: list[Trained]) -> None:
        one = found[0]
        self._certified([each.certificate for each in found])
        self.kernel_, self.noise_ = one.certificate.kernel, one.point.noise
        self.unrounded_kernel_ = one.free.parameters.kernel
        if one.point.Z is not None:
            self.inducing_ = host(one.point.Z)
        self.jitter_ = float(getattr(one.certificate.posterior, "jitter", 0.0))
        self.posterior_ = self._law(one.point, self.jitter_)
        own = [end.run for end in one.ends]
        self.objective_ = -one.terms.bound
        self.history_ = -np.concatenate([np.array(run.values) for run in own])
        self.stop_reason_ = " On the grid: ".join(run.reason for run in own)
        self.runs_ = tuple(run for each in found for run in each.runs)
        self.n_iter_ = max(sum(run.iterations for run in own), 1)

    def _certified(self, certificates: list[Certificate]) -> None:
        """Take over what certificates say."""
        one = certificates[0]
        self.certificates_, self.certificate_ = tuple(certificates), one
        self.risk_, self.kl_, self.bound_ = one.risk, one.kl, one.bound
        self.grid_, self.inputs_, self.outputs_ = one.grid, one.inputs, one.outputs

    # ------------------------------------------------------------------ units

    def _inputs(self, X: Array) -> Array:
        if not is_cupy(X):
            return self.inputs_.apply(X)
        xp = namespace(X)
        return (X - xp.asarray(self.inputs_.shift)) / xp.asarray(self.inputs_.scale)

    def _normalised(self, Y: Float) -> Float:
        self.y_mean_, self.y_scale_ = (np.full(1, np.ravel(v)[0]) for v in (self.outputs_.shift, self.outputs_.scale))
        return self.outputs_.apply(Y[:, 0])[:, None]

    # ------------------------------------------------------------------ arguments and complaints

    def _check_arguments(self) -> None:
        super()._check_arguments()
        choice("objective", self.objective, GOALS)
        if one(positive, "delta", self.delta) >= 1.0:
            raise ValueError(f"delta: expected a probability of failure in (0, 1), got {self.delta!r}")
        for name in self.limits or {}:
            if name != "noise":
                raise ValueError(
                    f"limits: expected 'noise' alone, got {name!r}: the grid, fixed before the data, is the box of the "
                    "kernel's hyperparameters"
                )

    def _limits(self, kernel: Kernel) -> Limits:
        return {**box(grid_of(self.grid, kernel), kernel), **(self.limits or {})}

    def _within(self, start: Parameters) -> Parameters:
        """The start, refused outside the grid's box."""
        logs = zip(start.kernel.parameter_names, start.kernel.log_parameters, strict=True)
        limits = self._limits(start.kernel)
        for name, value in logs:
            low, high = limits[name]
            if not math.log(low) - 1e-9 <= value <= math.log(high) + 1e-9:
                raise ValueError(
                    f"kernel: expected {name} in the grid, {low:.6g} to {high:.6g}, got {math.exp(value):.6g}: "
                    "start within, or fix another grid, or other units, before the data are seen"
                )
        return start

    def _placed(self) -> tuple[Array, Array]:
        """The training data, on the device."""
        xp = array_module(self.device)  # type: ignore[arg-type]
        return place(self.X_train_, xp), place(self.y_train_, xp)
