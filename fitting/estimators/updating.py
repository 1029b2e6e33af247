"""The PAC-GP procedure with a prior from a share of the rows: train on them, then update and certify by the others.

A `Split` is fixed before the rows are seen.  Its rows train a GP by the evidence, hyperparameters included, and its law
of f is the prior P of a certificate about the other rows: nothing of P is charged.  Q starts at P, takes up the other
rows as far as the bound allows, and is trained by the bound (`fitting.data_priors`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fitting.data_priors.prior_law import MOST, one_point, priors_of
from fitting.data_priors.updates import Aim, Update, certified, engine_of
from fitting.estimators.base import GaussianProcess
from fitting.estimators.declared import log_choices
from fitting.estimators.exact_gp import ExactGP
from fitting.estimators.remarks import Remark
from fitting.estimators.sparse_gp import SparseGP
from fitting.objectives.goals import Relaxation
from fitting.training import Ending
from gpbounds.arrays import Float, host
from gpbounds.losses import Loss
from gpbounds.means import LinearMean
from gpbounds.pacbayes import Certificate, Charge, DeclaredMean, Scaling, Split
from gpbounds.pacbayes.certificate.rows import Arrays, Partitions, Raw, Scaled
from gpbounds.rows.source import changed

_PASSED = (
    *("kernel", "noise", "optimizer", "max_iter", "learning_rate", "n_restarts", "start", "fixed", "limits"),
    *("random_state", "device", "progress", "checkpoint", "n_inducing", "inducing", "learn_inducing"),
)
"""Arguments that the model of the prior's rows takes over."""

_METHODS = {"fitc": "fitc", "vfe": "vfe", "interpolated": "pep", "free": "vfe"}
"""The evidence that trains a sparse prior, by ``posterior``."""


@dataclass(frozen=True, eq=False)
class UpdatedModel:
    """A model of the prior's rows, the Q that updates it for one loss, and the certificate of Q.

    Attributes
    ----------
    prior : ExactGP or SparseGP
    update : Update
    certificate : Certificate
    row_noise : pair of arrays (N,) or None
        The noise variances of all rows as they were passed, and in the units of the model, where each row has one.
    """

    prior: Any
    update: Update
    certificate: Certificate
    row_noise: tuple[Any, Any] | None = None

    @property
    def results(self) -> dict[str, Any]:
        """The fitted attributes, by name."""
        run, prior = self.update.run, self.prior
        values = np.zeros(0) if run is None else -np.array(run.values)
        reason = "" if run is None else f" By the bound: {run.reason}"
        passed, noise = (prior.noise_, prior.noise_) if self.row_noise is None else self.row_noise
        return {
            "certificates_": (self.certificate,),
            "kernel_": self.certificate.kernel,
            "noise_": passed,
            "unrounded_kernel_": prior.kernel_,
            "inducing_": self.update.prior.Z,
            "jitter_": self.update.prior.jitter,
            "posterior_": self.update.posterior(noise),
            "objective_": -self.update.bound,
            "history_": values,
            "stop_reason_": f"On the prior's rows: {prior.stop_reason_}{reason}",
            "runs_": (*prior.runs_, *(() if run is None else (run,))),
            "n_iter_": prior.n_iter_ + (0 if run is None else run.iterations),
        }


def prior_model(model: GaussianProcess, mean: Any) -> ExactGP | SparseGP:
    """The unfitted model of the prior's rows with the settings of a PAC-GP ``model``."""
    given: dict[str, Any] = model.get_params(deep=False)
    settings: dict[str, Any] = {name: given[name] for name in _PASSED if name in given}
    if "n_inducing" not in given:
        return ExactGP(**settings, mean=mean)
    method = _METHODS[given["posterior"]]
    power = given["power"] if method == "pep" and not isinstance(given["power"], str) else None
    return SparseGP(method, **settings, power=power, mean=mean)


def updated_models(
    model: Any,
    rows: Raw,
    split: Split,
    losses: Sequence[Loss],
    *,
    delta: float,
    inputs: Scaling,
    outputs: Scaling,
    declared: DeclaredMean | None,
    charges: Sequence[Charge],
    relaxation: Relaxation,
    ending: Ending,
) -> list[UpdatedModel]:
    """For each loss, Q and its certificate.

    Parameters
    ----------
    model : PACGP or SparsePACGP
        Its settings, of which ``mean`` may be "constant" or "linear": of the prior's rows.
    rows : Raw
        All raw rows.
    split, losses, delta, inputs, outputs, charges, relaxation
        As in `PACGP`.
    declared : DeclaredMean or None
        The prior's mean, if it is declared.
    ending : Ending
        When the training by the bound has settled.

    Raises
    ------
    ValueError
        for more rows than the prior of an exact GP takes, and as `Certificate.issue`.
    """
    if not hasattr(model, "n_inducing") and rows.shape[0] > MOST:
        raise ValueError(
            f"X: expected at most {MOST} rows for PACGP with prior='data', whose certificate holds two triangles of "
            f"all rows, got {rows.shape[0]}: use SparsePACGP(prior='data')"
        )
    inner = prior_model(model, "zero" if isinstance(model.mean, DeclaredMean) else model.mean)
    row_noise = None if model._row_noise is None else (model.noise_, model._row_noise)
    if row_noise is not None:
        inner.noise = row_noise[1][split.prior(rows.shape[0])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # its remarks are the model's
        inner.fit(*_rows_of(rows.prior(split), Scaled(inputs, outputs, declared)))
    trained_mean = inner.mean_[0] if isinstance(inner.mean_, tuple) else inner.mean_
    mean = declared if declared is not None or trained_mean is None else _from_prior(trained_mean)
    unseen = rows.certified(split)
    grid, kernel = one_point(inner.kernel_)
    others: Float = np.zeros((0, rows.shape[1]))
    if isinstance(unseen, Arrays):
        others = inputs.apply(unseen.X)
    laws = priors_of(kernel, inner.posterior_, others)
    engine, paid = engine_of(unseen, inputs, outputs, mean), log_choices(grid, charges, (inputs, outputs), mean)
    declared_here = {
        "grid": grid,
        "inputs": inputs,
        "outputs": outputs,
        "mean": mean,
        "charges": tuple(charges),
        "nonrigorous": bool(model.nonrigorous),
        "split": split,
    }
    options = {"max_iter": int(model.max_iter), "ending": ending, "trained": model.optimizer is not None}
    models = []
    for loss in losses:
        aim = Aim(loss, unseen.shape[0], float(delta), paid, relaxation=relaxation)
        certificate, update = certified(laws, engine, aim, rows, None, declared_here, **options)
        models.append(UpdatedModel(inner, update, certificate, row_noise))
    return models


def _rows_of(rows: Raw, change: Scaled) -> tuple[Any, ...]:
    """The arguments of a fit to ``rows`` in the units of the model."""
    if isinstance(rows, Partitions):
        return (changed(rows.rows, change),)
    assert isinstance(rows, Arrays)
    return change.apply(rows.X, rows.y)


def _from_prior(mean: LinearMean) -> DeclaredMean:
    """A mean function that the prior's rows have trained."""
    return DeclaredMean("disjoint split", mean.intercept, () if mean.slopes is None else tuple(host(mean.slopes)))


def remarks_of_updates(models: Sequence[UpdatedModel]) -> list[Remark]:
    """The remarks on the training of the prior, and on bounds that say nothing."""
    remarks = list(models[0].prior.remarks_)
    for each in models:
        if each.certificate.bound >= 1.0:
            text = "The bound is 1 and says nothing. Use more data, another share, or a larger ε."
            remarks.append(Remark("vacuous", text))
    return remarks
