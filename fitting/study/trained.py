"""The problem that a trained model states: its kernel, noise and mean, on its own training rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fitting.study.auditing import supported, training_rows
from fitting.study.hyperparameters import Hyperparameters, limited
from fitting.study.predicted import noise_of
from fitting.study.problem import Problem, Question, of_rows
from fitting.study.standardised import TableRows, multiplied
from fitting.study.steps import WrongArguments
from fitting.study.words import Spelling
from gpbounds.inputs import InputLaw
from gpbounds.renyi import Model
from gpbounds.row_noise import is_per_row

_STATED = ("variance", "lengthscale", "noise", "lengthscale_range")


def about_model(
    model: Any, table: TableRows, asked: Question, law: InputLaw | None = None, source: str = ""
) -> Problem:
    """The problem of a fitted estimator, or of a `gpbounds.renyi.Model`, on the rows on which it was trained.

    The rows of an estimator are recognised among those of ``table``; a `Model` has none, and all rows are used.  Kernel
    and noise are in the units of the table.

    Raises
    ------
    ValueError
        for a model that `fitting.audit` refuses, and for hyperparameters beside those of the model.
    """
    spelled = asked.spelled
    for name in _STATED:
        if getattr(asked, name) is not None:
            raise WrongArguments(f"{spelled('model')}: it states kernel and noise; omit {spelled(name)}")
    if isinstance(model, Model):
        rows, hyper = _imported(model, table, spelled("model"), source)
    else:
        rows, hyper = _estimator(model, table, spelled, source)
    return of_rows(rows, hyper, asked, law)


_RESIDUALS = "The targets are the residuals of the model's mean function."


def _imported(model: Model, table: TableRows, option: str, source: str) -> tuple[TableRows, Hyperparameters]:
    """All rows of the table, the targets less the mean of the model, with its kernel and noise."""
    if is_per_row(model.noise):
        what = source or "a Model"
        raise WrongArguments(
            f"{option}: expected one whose rows share a noise variance, got {what} with a noise for each row: the rows "
            "of a plan may be others, whose noise is not known; gpbounds.renyi.evidence and gap take the noise of each "
            "row"
        )
    try:
        model.kernel(table.X[:1])
        residuals = model.residuals(table.X, table.y)
    except ValueError as error:
        raise WrongArguments(f"{option}: {source or 'it'} does not fit {table.name}: {error}") from None
    notes = table.notes if model.mean is None else (*table.notes, _RESIDUALS)
    origin = f"Kernel and noise are those of {source or 'the model'}; all {table.N} rows are used."
    return replace(table, y=residuals, notes=notes), Hyperparameters(model.kernel, model.noise, origin, (_FITTED,))


def _estimator(model: Any, table: TableRows, spelled: Spelling, source: str) -> tuple[TableRows, Hyperparameters]:
    """The training rows of an estimator in the units of the table, less its mean, with its kernel and noise."""
    place = f" in {source}" if source else ""
    supported(model, table, place, spelled)
    training_rows(model, table, place, spelled)  # refuses another table
    unit, noise = float(model.y_scale_[0]), noise_of(model)
    residuals = Model(model.kernel_, noise, None, model.mean_).residuals(model.X_train_, np.ravel(model.y_train_))
    rows = replace(
        table,
        X=np.asarray(model.X_train_, dtype=np.float64),
        y=unit * residuals,
        notes=table.notes if model.mean_ is None else (*table.notes, _RESIDUALS),
    )
    points = getattr(model, "inducing_", None)
    what = type(model).__name__ + ("" if points is None else f" with M = {len(points)}")
    origin = f"Kernel and noise are those of the {what}{place}, on its {rows.N} of {table.N} rows."
    notes, edges = limited(model.remarks_, table.columns)
    kernel = multiplied(model.kernel_, unit**2)
    return rows, Hyperparameters(kernel, noise * unit**2, origin, (_FITTED,), notes, edges)


_FITTED = "kernel and noise"
