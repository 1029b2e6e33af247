"""The common part of the PAC-GP estimators: train by the bound, round to the grid, train the rest, certify."""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from fitting.bounds import with_room
from fitting.estimators.base import GaussianProcess
from fitting.estimators.declared import Limits, box, charges_of, grid_of, log_choices, losses_of, scaled_by, scalings_of
from fitting.estimators.fingerprint import seed_of
from fitting.estimators.kinds import Kind
from fitting.estimators.procedure import Certified, certified, remarks_of
from fitting.estimators.regression import Regression
from fitting.estimators.remarks import Remark
from fitting.estimators.updating import remarks_of_updates, updated_models
from fitting.objectives.goals import RELAXATIONS
from fitting.objectives.point import Parameters
from fitting.prior_means import KINDS
from fitting.rows.data import Dataset
from fitting.training import Ending
from gpbounds.arrays import Float, host
from gpbounds.errors import shown
from gpbounds.kernels import Kernel
from gpbounds.losses import Loss
from gpbounds.means import LinearMean
from gpbounds.pacbayes import Certificate, DeclaredMean, HyperGrid, MeanGrid, Split
from gpbounds.pacbayes.certificate.declarations import for_loss
from gpbounds.pacbayes.certificate.rows import raw
from gpbounds.validation import choice, positive, scalar

PRIORS = ("grid", "data")

_GTOL = 1e-8
"""Largest derivative of B at which L-BFGS-B stops; there may be thousands of derivatives in Z."""


@dataclass(eq=False, repr=False, kw_only=True)
class PacGaussianProcess(Regression, GaussianProcess):
    """Gaussian process regression trained by a PAC-Bayes bound on its Gibbs risk; use `PACGP` or `SparsePACGP`.

    With probability ≥ 1 − δ over the N rows, R(Q) ≤ kl⁻¹(R_S(Q), (KL(Q‖P^θ) + ln|Θ| + ln(ξ(N)/δ))/N).  These steps
    keep this bound valid (P-44): a grid Θ is fixed before the data are seen; hyperparameters, noise, inducing inputs
    and free parameters are trained within its box; θ is rounded to Θ; the other parameters are trained again at the
    rounded θ; R_S and KL are evaluated on all N rows.  With ``prior="data"`` a share of the rows gives P, of which
    nothing is charged, and the other n rows the certificate: R(Q) ≤ kl⁻¹(R_S(Q), (KL(Q‖P) + ln(ξ(n)/δ))/n)
    (N-data-prior).

    Attributes
    ----------
    certificate_ : gpbounds.pacbayes.Certificate
        The certificate of the model that predicts; ``certificate_.check(X, y)`` recomputes it from the raw data, which
        must be float64.
    certificates_ : tuple of Certificate
        One certificate for each ε, in order, each of a model trained for this ε; ``certificate_`` is the first.  The
        other models are those of `models`.
    risk_, kl_, bound_ : float
        R_S(Q), KL(Q‖P^θ) and the bound of ``certificate_``, rounded upwards.
    grid_ : HyperGrid
        For ``prior="data"`` one point.
    split_ : Split or None
        Which rows gave the prior, for ``prior="data"``.
    kernel_ : Kernel
        Its hyperparameters lie on the grid, to the last bit.
    unrounded_kernel_ : Kernel
        The kernel at the end of training, before rounding.
    inputs_, outputs_ : Scaling
        The maps from raw data to X_train_ and, minus the prior's mean, y_train_; kernel, noise, ε, mean and inducing
        inputs are in their units.
    history_ : array
        The minimised bound, B or B_Pin, at the start and after each iteration; then the same at the rounded θ.
    objective_ : float
        The negative of the minimised bound, B or B_Pin, at the end of training.
    """

    epsilon: Any
    delta: float
    loss: Any
    relaxation: str
    grid: HyperGrid | None
    tol: float | None = 0.001
    scaling: Any = "as given"
    nonrigorous: bool = False
    prior: str = "grid"
    share: float = 0.5
    order: str = "random"
    _many_optima: ClassVar[bool] = True
    normalize_y: ClassVar[bool] = False  # type: ignore[misc]
    lengthscales: ClassVar[str] = "auto"  # type: ignore[misc]  # a grid with one lengthscale has a smaller penalty
    _subtracts_mean: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    @abstractmethod
    def _kind(self) -> Kind:
        """The kind of posterior."""

    def fit(self, X: Any, y: Any = None, *, client: Any = None) -> Self:
        """Train on X (N, D) and y (N,), and certify.

        The model keeps the best point seen.  After Ctrl-C this point is rounded and certified without further training,
        for the remaining ε, too, and a warning is raised.

        Parameters
        ----------
        X, y : arrays
            For `SparsePACGP` also rows that are read by partitions, as in `SparseGP.fit`.
        client : distributed.Client, optional
            Where Dask computes.

        Raises
        ------
        ValueError
            for wrong arguments, NaN or infinity, a checkpoint of other data or settings, or a Q whose KL cannot be
            bounded because of rounding.
        NotPositiveDefinite
            when a covariance does not factorise at the start of training.

        Warns
        -----
        ConvergenceWarning
            when all iterations were used, a line search failed, training was interrupted, a hyperparameter lies on the
            edge of the grid or on its limit, or the bound is vacuous.
        """
        return super().fit(X, y, client=client)

    def models(self) -> tuple[Self, ...]:
        """The fitted model of each ε, in the order of ``certificates_``; each has its own certificate alone.

        Raises
        ------
        ValueError
            for a model of several ε that was loaded: its file holds the model of the first, as `save` writes one.

        >>> import numpy as np
        >>> from fitting import PACGP
        >>> X = np.linspace(0.0, 6.0, 100)[:, None]
        >>> trained = PACGP((0.4, 0.8), delta=0.05).fit(X, np.sin(X[:, 0]))
        >>> [model.certificate_.loss for model in trained.models()]
        [Band(epsilon=0.4), Band(epsilon=0.8)]
        """
        self._fitted()
        if len(self.certificates_) == 1:
            return (self,)
        if not hasattr(self, "_each"):
            raise ValueError(
                f"expected a model as fit left it, got one of {len(self.certificates_)} values of ε from a file, which "
                "holds the model of the first: save each of models() after fit"
            )
        trained = []
        for results in self._each:
            model = copy(self)
            del model._each
            model.__dict__.update(results)
            model._certified(list(model.certificates_))
            trained.append(model)
        return tuple(trained)

    @property
    def _from_data(self) -> bool:
        """Whether a share of the rows gives the prior."""
        return choice("prior", self.prior, PRIORS) == "data"

    @property
    def _split(self) -> Split:
        """The rows that give the prior; the same in every fit unless ``random_state`` says otherwise."""
        return Split(self.order, self.share, 0 if self.random_state is None else seed_of(self.random_state))

    def _train(self, X: Float, Y: Float) -> list[Remark]:
        losses = losses_of(self.loss, self.epsilon)
        if self._from_data:
            return self._update(losses)
        scalings = scalings_of(self.scaling, self.nonrigorous)
        session = self._session()
        given = self._within(self._given(X, Y))
        start = self._start(given, X, Y, session)
        grid, charges, kind = grid_of(self.grid, start.kernel), charges_of(losses), self._kind()
        declared = {
            "charges": charges,
            "inputs": scalings[0],
            "outputs": scalings[1],
            "mean": self._declared,
            "nonrigorous": self.nonrigorous,
        }
        for loss in losses:
            for_loss(self._declared, loss)
        options = {
            "delta": self.delta,
            "log_prior_penalty": log_choices(grid, charges, scalings, self._declared),
            "relaxation": self.relaxation,
        }
        in_bound = Ending(self._tolerance(), name="of the bound", symbol="B", sign=-1)
        data, shared_trainer, models = self._data(), None, list[Certified]()
        for i, loss in enumerate(losses):
            problem = kind.bound(with_room(data), loss, start.kernel, **options)
            if shared_trainer is None:
                shared_trainer = self._trainer(problem, start, given, session, gtol=_GTOL, ending=in_bound)
            trainer = replace(shared_trainer, objective=problem, prefix=f"epsilon {i} " if i else "")
            interrupted = next((each for each in models if each.interrupted), None)
            if interrupted is None:
                outcome, runs = self._search(trainer, start, X, Y)
            else:
                outcome = replace(trainer, optimizer=None).run("untrained", interrupted.point)
                runs = [outcome.run]
            declared_here = {**declared, "loss": loss}
            models.append(certified(kind, trainer, outcome, runs, self._raw, grid, float(self.delta), declared_here))
        del self._raw, self._declared
        self._take_over(kind, data, models)
        return remarks_of(models, getattr(self, "batch_size", None) is not None, self.start)

    def _update(self, losses: tuple[Loss, ...]) -> list[Remark]:
        """Train on the prior's rows, and Q by the bound on the others."""
        for loss in losses:
            for_loss(self._declared, loss)
        models = updated_models(
            self,
            self._raw,
            self._split_of_fit,
            losses,
            delta=self.delta,
            inputs=self.inputs_,
            outputs=self.outputs_,
            declared=self._declared,
            charges=charges_of(losses),
            relaxation=self.relaxation,  # type: ignore[arg-type]
            ending=Ending(self._tolerance(), name="of the bound", symbol="B", sign=-1),
        )
        del self._raw, self._declared, self._split_of_fit
        self._keep([model.results for model in models])
        return remarks_of_updates(models)

    def _in_units(self, X: Float, Y: Float) -> tuple[Float, Float]:
        self._raw = raw(X, Y[:, 0])
        self._set_scalings()
        points, columns = self.inputs_.apply(X), self.outputs_.apply(Y[:, 0])[:, None]
        self._declared = mean = self._declared_mean(points, columns)
        return points, columns if mean is None else mean.apply(points, columns)

    def _set_scalings(self) -> None:
        """Set the attributes of the units."""
        if self._from_data:
            self._split_of_fit = self._split
        if isinstance(self.scaling, str) and self.scaling == "prior":
            self.inputs_, self.outputs_ = scaled_by(self._raw.prior(self._split_of_fit))
        else:
            self.inputs_, self.outputs_ = scalings_of(self.scaling, self.nonrigorous)
        self.y_mean_, self.y_scale_ = (np.full(1, np.ravel(v)[0]) for v in (self.outputs_.shift, self.outputs_.scale))

    def _declared_mean(self, X: Any, Y: Any) -> DeclaredMean | None:
        """The prior's mean for scaled rows; None is 0."""
        if isinstance(self.mean, MeanGrid):
            return self.mean.nearest(X, Y[:, 0])
        return self.mean if isinstance(self.mean, DeclaredMean) else None

    def _take_over(self, kind: Kind, data: Dataset, models: list[Certified]) -> None:
        """Set the fitted attributes from the first of ``models``, and the certificates from all."""
        self._keep([_results(kind, data, model) for model in models])
        self.runs_ = tuple(run for model in models for run in model.runs)

    def _keep(self, each: list[dict[str, Any]]) -> None:
        """Set the fitted attributes of the model of each ε; the estimator is the first."""
        self.__dict__.update(each[0])
        self._certified([certificate for results in each for certificate in results["certificates_"]])
        self._each = each

    def _certified(self, certificates: list[Certificate]) -> None:
        """Set the attributes that the certificates determine."""
        first = certificates[0]
        self.certificates_, self.certificate_ = tuple(certificates), first
        self.risk_, self.kl_, self.bound_ = first.risk, first.kl, first.bound
        self.grid_, self.inputs_, self.outputs_ = first.grid, first.inputs, first.outputs
        self.mean_ = None if first.mean is None else first.mean.function
        self.split_ = first.split

    # ------------------------------------------------------------------ arguments and complaints

    def _check_arguments(self) -> None:
        super()._check_arguments()
        self._check_declared_mean()
        losses_of(self.loss, self.epsilon)
        self._check_prior()
        choice("relaxation", self.relaxation, RELAXATIONS)
        if scalar(positive, "delta", self.delta) >= 1.0:
            raise ValueError(f"delta: expected a probability of failure in (0, 1), got {shown(self.delta)}")
        for name in () if self._from_data else self.limits or {}:
            if name != "noise":
                raise ValueError(
                    f"limits: expected 'noise' alone, got {name!r}: the grid, which is fixed before the data are seen, "
                    "limits the kernel's hyperparameters"
                )

    def _check_prior(self) -> None:
        """Refuse arguments that do not go together with ``prior``."""
        Split(self.order, self.share)  # refuses other arguments
        by_prior = isinstance(self.scaling, str) and self.scaling == "prior"
        if not by_prior:
            scalings_of(self.scaling, self.nonrigorous)
        if not self._from_data:
            if by_prior:
                raise ValueError(
                    "scaling: expected 'as given', a Scaling or a pair of them for prior='grid', got 'prior': all rows "
                    "are certified, and none are left for the constants"
                )
            return
        if self.grid is not None:
            raise ValueError(
                f"grid: expected None for prior='data', got {shown(self.grid)}: hyperparameters come from rows that "
                "are not certified, and cost nothing"
            )
        if getattr(self, "batch_size", None) is not None:
            raise ValueError(f"batch_size: expected None for prior='data', got {shown(self.batch_size)}")

    def _check_declared_mean(self) -> None:
        declared = isinstance(self.mean, DeclaredMean | MeanGrid)
        if self._from_data:
            if isinstance(self.mean, DeclaredMean) or (isinstance(self.mean, str) and self.mean in KINDS):
                return
            raise ValueError(
                f"mean: expected 'zero', 'constant' or 'linear', which the prior's rows train, or a gpbounds.pacbayes."
                f"DeclaredMean, for prior='data', got {shown(self.mean)}"
            )
        if isinstance(self.mean, LinearMean):
            raise ValueError(
                f"mean: expected the origin of the coefficients as well, got {shown(self.mean)}: pass gpbounds."
                "pacbayes.DeclaredMean('fixed in advance', intercept, slopes) if they were fixed before these rows "
                "were seen, or 'disjoint split' if they come from other rows; the certificate repeats it"
            )
        if not (declared or (isinstance(self.mean, str) and self.mean == "zero")):
            raise ValueError(
                f"mean: expected 'zero', or a DeclaredMean or MeanGrid of gpbounds.pacbayes, got {shown(self.mean)}: a "
                "prior whose mean is fitted to the certified rows needs a grid that was fixed in advance, which is "
                "charged"
            )

    def _limits(self, kernel: Kernel) -> Limits:
        return {**box(grid_of(self.grid, kernel), kernel), **(self.limits or {})}

    def _within(self, start: Parameters) -> Parameters:
        """The start; it must lie in the box of the grid."""
        logs = zip(start.kernel.parameter_names, start.kernel.log_parameters, strict=True)
        limits = self._limits(start.kernel)
        for name, value in logs:
            low, high = limits[name]
            if not math.log(low) - 1e-9 <= value <= math.log(high) + 1e-9:
                raise ValueError(
                    f"kernel: expected {name} in the grid, {low:.6g} to {high:.6g}, got {math.exp(value):.6g}: "
                    "start within the grid, or fix another grid, or other units, before the data are seen"
                )
        return start


def _results(kind: Kind, data: Dataset, model: Certified) -> dict[str, Any]:
    """The fitted attributes of one ``model``, by name."""
    point, kernel, own_runs = model.point, model.certificate.kernel, [end.run for end in model.ends]
    jitter, power = float(getattr(model.certificate.posterior, "jitter", 0.0)), kind.power(point)
    posterior: Any = kind.posterior(data, replace(point, kernel=kernel), jitter)
    inducing = getattr(posterior, "inducing", None)
    return {
        "certificates_": (model.certificate,),
        "kernel_": kernel,
        "noise_": kind.noise(point),
        "unrounded_kernel_": model.free.parameters.kernel,
        **({} if inducing is None else {"inducing_": host(inducing.Z)}),
        "jitter_": jitter,
        "posterior_": posterior,
        **({} if power is None else {"power_": power}),
        "objective_": -model.terms.bound,
        "history_": -np.concatenate([np.array(run.values) for run in own_runs]),
        "stop_reason_": " On the grid: ".join(run.reason for run in own_runs),
        "runs_": model.runs,
        "n_iter_": max(sum(run.iterations for run in own_runs), 1),
    }
