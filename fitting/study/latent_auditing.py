"""`audit` of models of labels and counts: how far q is from the posterior, what M would do, what it means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study.audited import Audited, LatentModelAudit, limits_of
from fitting.study.audited_rows import AuditQuestion, training_and_held_out
from fitting.study.predicted import Predicted, latent
from fitting.study.steps import Steps, WrongArguments
from fitting.study.words import Spelling, describe_kernel
from gpbounds import audit as audits
from gpbounds.arrays import Float
from gpbounds.audit import LatentSubject, latent_subject
from gpbounds.audit.model import NOT_CONCAVE
from gpbounds.divergences import SparsePosterior, whitened_posterior
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson, StudentT
from gpbounds.renyi import LatentModel, Model
from gpbounds.rows.table_rows import TableRows, remarks_on_split

VARIATIONAL = ("VariationalGP", "VariationalGPClassifier")


def is_latent(model: Any) -> bool:
    """Whether the model is one of labels or counts: another section of `audit` is about it."""
    return isinstance(model, LatentModel) or (
        type(model).__name__ in VARIATIONAL and not isinstance(getattr(model, "likelihood_", None), Gaussian | None)
    )


def refuse_unless_concave(model: Any, where: str, spelled: Spelling) -> None:
    """Refuse a model whose likelihood is not log-concave, in one sentence that says what holds."""
    likelihood = model.likelihood if isinstance(model, LatentModel) else model.likelihood_
    if isinstance(likelihood, StudentT):
        raise WrongArguments(
            f"{spelled('model')}: expected a log-concave likelihood, got a {type(model).__name__} with a StudentT "
            f"likelihood{where}: {NOT_CONCAVE}"
        )


def signed(model: Any, y: Any) -> Float:
    """Targets of the model as numbers: of a classifier −1 and 1, in the order of its classes."""
    return np.asarray(model._targets(y) if hasattr(model, "classes_") else y, dtype=np.float64)


def labels_apart(model: Any, X: Any, y: Any, test: Any, target: str | None) -> tuple[Any, Any, Any]:
    """X, y and ``test`` of a classifier with −1 and 1 in place of its labels, which may be of any kind."""
    if y is not None:
        return X, signed(model, y), test if test is None else (test[0], signed(model, test[1]))
    if isinstance(target, str) and target in getattr(X, "columns", ()):
        X = _signed_column(model, X, target)
        test = test if test is None else _signed_column(model, test, target)
    return X, y, test


def _signed_column(model: Any, frame: Any, target: str) -> Any:
    """A data frame, of pandas or polars, with −1 and 1 in the column ``target``."""
    values = signed(model, np.asarray(frame[target]))
    if hasattr(frame, "assign"):
        return frame.assign(**{target: values})
    return frame.with_columns(type(frame)({target: values})[target])


@dataclass(frozen=True, eq=False)
class LatentExamined(Audited[LatentSubject]):
    """A model of labels or counts with its training rows and rows that were held out.

    Attributes
    ----------
    name, about, subject, held, limited, notes, keeps
        As of `Audited`.
    predicted : Predicted or None
        The law of f at the held-out rows.
    """

    predicted: Predicted | None


def of_latent_estimator(
    model: Any, table: TableRows, numbers: tuple[Any, Any], notes: tuple[str, ...]
) -> LatentExamined:
    """A fitted estimator; ``numbers`` are those of its training rows, and of the others."""
    held = table.part(numbers[1])
    law, X = model.posterior_, np.asarray(model.X_train_)
    own = whitened_posterior(model.kernel_, model.inducing_, law.q.mean[:, 0], law.q.factor, jitter=law.jitter)
    prior = Model(model.kernel_, 1.0, model.inducing_, model.mean_)
    about = latent_subject(
        model.kernel_,
        model.likelihood_,
        X,
        np.ravel(model.y_train_),
        model.inducing_,
        posterior=own,
        offset=-prior.residuals(X, np.zeros(len(X))),
        columns=table.columns or None,
    )
    described = f"{type(model).__name__}, {_described(about)}"
    seen = None
    if held.N:
        likelihood, mean, std, shift, scale = latent(model, held.X)
        seen = _predicted(likelihood, held.y, (mean - shift) / scale, (std / scale) ** 2)
    notes = (*table.notes, *notes)
    if model.mean_ is not None:
        notes = (*notes, "The exact posterior has the model's mean function, which is held fixed.")
    keeps = 'kernel=model.kernel_, fixed="all"'
    return LatentExamined(table.name, described, about, held, limits_of(model), notes, keeps, seen)


def of_latent_points(
    model: LatentModel, table: TableRows, source: str, asked: AuditQuestion, test: TableRows | None = None
) -> LatentExamined:
    """A model that was read from another library, with its own q(u) or, without one, the best one."""
    spelled = asked.spelled
    refuse_unless_concave(model, "", spelled)
    table, numbers = training_and_held_out(table, asked, test, own=model.q is not None)
    train, held = (table.part(each) for each in numbers)
    try:
        own = None if model.q is None else model.q.posterior(model.kernel, model.Z)
        offset = np.zeros(train.N) if model.mean is None else np.asarray(model.mean(train.X))
        about = latent_subject(
            model.kernel,
            model.likelihood,
            train.X,
            train.y,
            model.Z,
            posterior=own,
            offset=offset,
            columns=table.columns or None,
        )
        model.kernel(train.X[:1])
    except ValueError as error:
        raise WrongArguments(f"{spelled('model')}: {source or 'it'} does not fit {table.name}: {error}") from None
    origin = f"were read from {source}" if source else "are those of the model"
    law = "the posterior q(u)" if own is not None else "inducing points"
    note = f"Kernel, likelihood and {law} {origin}; {train.N} rows are taken for its training."
    if own is None:
        about = about.owning(audits.best_law(about, about.Z).posterior)
        note += " The law is the best one with these points."
    posterior = about.posterior
    assert posterior is not None
    seen = None if not held.N else _predicted(about.likelihood, held.y, *_law_at(posterior, model, held.X))
    label = f"{Path(source).name}, " if source else ""
    keeps = 'kernel=model.kernel, fixed="all"'
    notes = (*table.notes, *model.notes, note)
    return LatentExamined(table.name, f"{label}{_described(about)}", about, held, {}, notes, keeps, seen)


def _law_at(posterior: SparsePosterior, model: LatentModel, X: Float) -> tuple[Float, Float]:
    """Means and variances of f at the rows X."""
    law = posterior.predict(X)
    mean = np.asarray(law.mean) + (0.0 if model.mean is None else np.asarray(model.mean(X)))
    return mean, np.asarray(law.variance)


def _described(about: LatentSubject) -> str:
    return f"{describe_kernel(about.kernel, about.columns)}, {about.likelihood!r}"


def _predicted(likelihood: Any, y: Float, mean: Float, variance: Float) -> Predicted:
    """Predictions whose labels are 0 and 1."""
    targets = np.where(y > 0.0, 1.0, 0.0) if isinstance(likelihood, Bernoulli) else y
    return Predicted(likelihood, targets, mean, variance)


def latent_audit_of(examined: LatentExamined, asked: AuditQuestion) -> LatentModelAudit:
    """The sections of the audit one after another; the notes say why a section is missing."""
    _refuse_what_is_of_others(asked)
    steps = Steps(2, asked.progress)
    about, held = examined.subject, examined.held
    enough = examined.against_M(audits.latent_enough, asked, steps, rng=asked.seed)
    events = None
    if enough is not None:
        events = steps.take("probabilities", partial(_events, enough, examined.predicted))
    notes = [*examined.notes, *remarks_on_split(TableRows(examined.name, about.X, about.y), held)]
    if examined.predicted is None:
        notes.append(
            "What the divergence means at rows that the model was not trained on is missing: pass them, "
            f"{asked.spelled('test')}."
        )
    record: LatentModelAudit = examined.answered(
        LatentModelAudit,
        enough,
        steps,
        notes,
        events=events,
        scores={} if examined.predicted is None else examined.predicted.scores(),
        limited=examined.limited,
        again="" if enough is None else _again(enough, examined.keeps),
    )
    return record


def _refuse_what_is_of_others(asked: AuditQuestion) -> None:
    """Refuse what only an audit of a model with Gaussian noise has."""
    if asked.retrain:
        raise WrongArguments(
            f"{asked.spelled('retrain')}: expected not to be given for labels or counts, whose exact "
            "posterior predicts in no closed form"
        )
    if asked.epsilon is not None:
        raise WrongArguments(
            f"{asked.spelled('epsilon')}: expected not to be given for labels or counts: fitting.certify bounds their "
            "errors"
        )


def _events(enough: audits.LatentEnough, seen: Predicted | None) -> audits.EventBounds:
    """What the divergence means for probabilities, at the held-out rows, too."""
    bound = enough.divergence[1]
    rows = None
    if seen is not None and isinstance(seen.likelihood, Bernoulli | Poisson):
        rows = audits.row_probabilities(seen.likelihood, seen.y, seen.mean, seen.variance, float(bound))
    return audits.event_bounds(bound, rows)


def _again(enough: audits.LatentEnough, keeps: str) -> str:
    """What happens to the numbers of inducing points if a model is trained again."""
    M = enough.suffices or enough.estimated or "M"
    return (
        "These numbers are for this kernel, which moves if a model is trained again, and the numbers with it: keep it "
        f"by {keeps}, n_inducing={M}."
    )
