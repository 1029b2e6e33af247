"""`examine`: what a library says of a model, log p(y) and predictions, beside proved intervals; why it is off."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fitting.study import claimed_rows
from fitting.study.answer import Answer
from fitting.study.audited_rows import AuditQuestion, training_rows
from fitting.study.auditing import of_model, of_points, supported
from fitting.study.claimed_rows import ClaimedRows
from fitting.study.standardised import inputs_and_target
from fitting.study.steps import Steps, WrongArguments
from fitting.study.words import Spelling, argument, describe_kernel
from gpbounds import audit as audits
from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.audit import Subject, subject
from gpbounds.audit.claimed import DEVIATION, NATS
from gpbounds.audit.exact_rows import ExactRows
from gpbounds.audit.examination import Examination, rows_of
from gpbounds.records import plain
from gpbounds.renyi import Model
from gpbounds.renyi.members import WORK
from gpbounds.row_noise import is_per_row, noise_of_rows
from gpbounds.rows.table_rows import TableRows
from gpbounds.texts import table, wrapped

Claims = Callable[[TableRows], ClaimedRows]
"""The claimed predictions, given the table of training, in whose columns the points may be."""


def examine(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    target: str | None = None,
    claimed_evidence: float | None = None,
    claimed_predictions: Any = None,
    per_row: bool = False,
    noisy: bool = False,
    claimed_jitter: float | None = None,
    dtype: Literal["float64", "float32"] = "float64",
    nats: float = NATS,
    deviation: float = DEVIATION,
    work: float = WORK,
    delta: float = 0.05,
    rng: int = 0,
    name: str = "data",
    progress: bool = False,
) -> ModelExamination:
    """Is what a library says of a model right: its log p(y), its means and variances; and if not, why?

    The exact GP with the model's kernel, noise and mean has one log p(y), and one mean and variance at each point.
    They are enclosed (claims N-computed, N-exact, N-solve) and the claims are held beside them.  The error of a claim
    is split into parts that add up to it: sparsity (the gap of the model's inducing points), jitter (σ² + jitter in
    place of σ²), dtype (the same in single precision) and the solver, which has the rest.  `gpbounds examine` prints
    the same record.  All numbers are in the units of X and y.

    Parameters
    ----------
    model : SparseGP, RenyiGP, ExactGP, VariationalGP, or `gpbounds.renyi.Model`
        With Gaussian noise; what `gpbounds.renyi.from_gpytorch` and its like read from another library.
    X : array (N, D) or a data frame, optional
        The rows of its training; an estimator holds its own.
    y : array (N,), optional
        Without it, ``target`` names a column of X.
    target : str, optional
    claimed_evidence : float, optional
        What the library says log p(y) is, in nats.
    claimed_predictions : (X_new, mean), (X_new, mean, variance) or path, optional
        What it predicts; or a table with a header, as `gpbounds predict` writes it.  At least one claim is needed.
    per_row : bool
        The claimed evidence is log p(y)/N, as GPyTorch's marginal log likelihood is.
    noisy : bool
        The claimed variances are those of new targets, with the noise; by default of the latent f.
    claimed_jitter : float, optional
        What the library adds to the diagonal of K, or of Kuu where the model has inducing points; by default that of
        the model's q(u), or 0.
    dtype : {"float64", "float32"}
        The precision in which the library computed.
    nats : float
        Errors of log p(y) below this count as none.
    deviation : float
        Errors of a mean below this share of the exact standard deviation count as none, and errors of that deviation.
    work : float
        Flops that a factor of K + σ²I may take; the default affords 10 000 rows.  Beyond, the interval for log p(y)
        holds with probability 1 − ``delta``, and conjugate gradients solve for predictions.
    delta : float
    rng : int
        Seed of the probes.
    name : str
        Name of the data in reports.
    progress : bool

    Returns
    -------
    ModelExamination
        ``print()``, ``to_dict()``, ``save("examined.html")``, ``plot()``.  ``evidence.verdict`` is "inside", "above",
        "below" or "not decided"; ``predictions.outside`` marks rows that are off for certain; ``causes`` has the parts.

    Raises
    ------
    ValueError, NonFinite
        for a model of another kind, other rows, and claims of other shapes.

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> answer = examine(Model(SquaredExponential(), 0.1, None), X, y, claimed_evidence=-10.5)
    >>> answer.evidence.verdict, [round(float(end), 3) for end in answer.evidence.evidence]
    ('below', [-4.194, -4.194])
    """
    asked = ExamineQuestion(
        None
        if claimed_evidence is None
        else validation.scalar(validation.finite, "claimed_evidence", claimed_evidence),
        validation.flag("per_row", per_row),
        validation.flag("noisy", noisy),
        None
        if claimed_jitter is None
        else validation.scalar(validation.non_negative, "claimed_jitter", claimed_jitter),
        validation.choice("dtype", dtype, ("float64", "float32")) == "float32",
        validation.scalar(validation.positive, "nats", nats),
        validation.scalar(validation.positive, "deviation", deviation),
        validation.scalar(validation.non_negative, "work", work),
        validation.scalar(validation.open_unit, "delta", delta),
        validation.count("rng", rng, 0),
        validation.flag("progress", progress),
    )
    validation.instance("name", name, str, "a text")
    rows = _rows(model, X, y, target, name)
    claims: Claims | None = None
    if isinstance(claimed_predictions, str | os.PathLike):
        path = claimed_predictions
        claims = lambda given: claimed_rows.in_file(path, given.titles, given, noisy=asked.noisy)  # noqa: E731
    elif claimed_predictions is not None:
        claims = lambda given: claimed_rows.in_arrays(claimed_predictions, given.D)  # noqa: E731
    return examined(model, rows, claims, asked)


@dataclass(frozen=True)
class ExamineQuestion:
    """What is claimed, and how it is examined; `examine` describes its arguments."""

    evidence: float | None = None
    per_row: bool = False
    noisy: bool = False
    jitter: float | None = None
    single: bool = False
    nats: float = NATS
    deviation: float = DEVIATION
    work: float = WORK
    delta: float = 0.05
    rng: int = 0
    progress: bool = False
    spelled: Spelling = argument
    source: str = ""


def _rows(model: Any, X: Any, y: Any, target: str | None, name: str) -> TableRows | None:
    """The rows of training as a table; None for those that an estimator holds."""
    if X is None:
        if y is not None or target is not None:
            raise ValueError("X: expected the rows of training together with y or target, got none")
        return None
    columns, points, targets, named = inputs_and_target(X, y, target)
    return TableRows(name, points, targets, columns=columns, target=named)


def examined(
    model: Any, rows: TableRows | None, claims: Claims | None, asked: ExamineQuestion, points: TableRows | None = None
) -> ModelExamination:
    """The sections of the examination one after another; ``points`` are the rows that predictions may be about."""
    spelled = asked.spelled
    if asked.evidence is None and claims is None:
        raise WrongArguments(
            f"{spelled('claimed_evidence')}, {spelled('claimed_predictions')}: expected at least one claim, got none"
        )
    given = _subject(model, rows, asked)
    claimed = None if claims is None else claims(given.table if points is None else points)
    about, steps = given.about, Steps(3, asked.progress)
    jitter = asked.jitter
    if jitter is None:
        jitter = 0.0 if about.posterior is None else float(about.posterior.jitter)
    known, shown = ExactRows.of(about), asked.progress and sys.stderr.isatty()
    options: dict[str, Any] = {"work": asked.work, "rows": known, "progress": shown}
    evidence = predictions = None
    if asked.evidence is not None:
        own: dict[str, Any] = {"per_row": asked.per_row, "nats": asked.nats, "delta": asked.delta, "rng": asked.rng}
        evidence = steps.take("log p(y)", partial(audits.claimed_evidence, about, asked.evidence, **own, **options))
    offset: Float | float = 0.0
    if claimed is not None:
        offset = given.mean(claimed.X)
        own = {"noisy": asked.noisy, "offset": offset, "deviation": asked.deviation}
        compute = partial(
            audits.claimed_predictions, about, claimed.X, claimed.mean, claimed.variance, **own, **options
        )
        predictions = steps.take("predictions", compute)
    causes = None
    if evidence is not None or predictions is not None:
        split: dict[str, Any] = {"claimed_jitter": jitter, "single": asked.single, "work": asked.work, "rows": known}
        causes = steps.take("causes", partial(audits.causes, about, evidence, predictions, **split))
    steps.finish(evidence is not None or predictions is not None)
    return ModelExamination(
        given.table.name,
        given.described,
        about,
        evidence,
        predictions,
        causes,
        np.arange(0) if claimed is None else claimed.numbers,
        (*given.notes, *_about_causes(given, jitter, asked), *steps.reasons),
        interrupted=steps.stopped,
    )


@dataclass(frozen=True, eq=False)
class _Subject:
    """A model with its rows.

    Attributes
    ----------
    table : TableRows
    about : Subject
    described : str
    notes : tuple of str
    mean : function
        The prior mean at points (n, D), in the units of the table.
    other : str
        A method whose log p(y) is neither exact nor the ELBO, or nothing.
    """

    table: TableRows
    about: Subject
    described: str
    notes: tuple[str, ...]
    mean: Callable[[Float], Any]
    other: str = ""


def _subject(model: Any, rows: TableRows | None, asked: ExamineQuestion) -> _Subject:
    """The model with its rows, as an audit reads both."""
    spelled = asked.spelled
    if isinstance(model, Model):
        if rows is None:
            raise WrongArguments(
                f"{spelled('X')}: expected the rows that the model was trained on, as it does not hold them, got none"
            )
        if is_per_row(model.noise):
            return _with_noise_of_rows(model, rows, asked)
        answer = of_points(model, rows, asked.source, AuditQuestion(spelled=spelled))
        mean = model.mean
        notes = tuple(note for note in answer.notes if "Calibration" not in note)
        return _Subject(
            rows, answer.subject, answer.about, notes, lambda X: 0.0 if mean is None else np.asarray(mean(X))
        )
    where = f" in {asked.source}" if asked.source else ""
    own = rows is None
    table = _own_rows(model) if rows is None else rows
    supported(model, table, where, spelled)
    numbers = training_rows(model, table, where, spelled)
    answer = of_model(model, table, (numbers[0], numbers[1][:0]), ())
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    zero = Model(model.kernel_, 1.0, None, model.mean_)
    method = getattr(model, "method", "vfe")
    note = (
        "The rows are those that the model holds." if own else f"{len(numbers[0])} rows of the table are its training."
    )
    return _Subject(
        table,
        answer.subject,
        answer.about,
        (*answer.notes, note),
        lambda X: shift - scale * zero.residuals(X, np.zeros(len(X))),
        method if method != "vfe" else "",
    )


def _with_noise_of_rows(model: Model, rows: TableRows, asked: ExamineQuestion) -> _Subject:
    """A model with a noise variance for each row; an audit, which is about new rows, has none."""
    try:
        noises: Any = noise_of_rows(model.noise, rows.N)
        own = None if model.q is None or model.Z is None else model.q.posterior(model.kernel, model.Z)
        residuals, columns = model.residuals(rows.X, rows.y), rows.columns or None
        about = subject(model.kernel, rows.X, residuals, model.Z, noise=1.0, columns=columns, posterior=own)
        model.kernel(rows.X[:1])
    except ValueError as error:
        where = asked.source or "it"
        raise WrongArguments(f"{asked.spelled('model')}: {where} does not fit {rows.name}: {error}") from None
    label = f"{Path(asked.source).name}, " if asked.source else ""
    between = f"a noise variance for each row, {noises.min():.3g} to {noises.max():.3g}"
    mean = model.mean
    return _Subject(
        rows,
        replace(about, noise=noises),
        f"{label}{describe_kernel(model.kernel, about.columns)}, {between}",
        tuple(rows.notes),
        lambda X: 0.0 if mean is None else np.asarray(mean(X)),
    )


def _own_rows(model: Any) -> TableRows:
    """The rows that an estimator holds, in the units of its table."""
    X, y = getattr(model, "X_train_", None), getattr(model, "y_train_", None)
    if X is None or y is None:
        raise WrongArguments("X: expected the rows of training, or a fitted model that holds them, got neither")
    targets = float(np.ravel(model.y_mean_)[0]) + float(np.ravel(model.y_scale_)[0]) * np.ravel(y)
    columns = tuple(map(str, getattr(model, "feature_names_in_", ())))
    return TableRows("the rows of the model", np.asarray(X, dtype=np.float64), targets, columns=columns)


def _about_causes(given: _Subject, jitter: float, asked: ExamineQuestion) -> tuple[str, ...]:
    """What the causes assume."""
    notes = list[str]()
    if given.about.Z is not None:
        notes.append(
            "The part of sparsity is that of the best posterior with the model's inducing points (its ELBO is at most "
            "log p(y)), and jitter is taken to be on Kuu."
        )
    if given.other:
        notes.append(
            f"The model is of method {given.other}, whose own log p(y) is not that ELBO: what is particular to the "
            "method is in the part of the solver."
        )
    if jitter == 0.0:
        notes.append(
            f"No jitter was stated: if the library adds one, pass it, {asked.spelled('claimed_jitter')}; else it is "
            "counted as the solver's."
        )
    if asked.single:
        notes.append(
            "The part of single precision is that of entries of the kernel rounded once, and a Cholesky factor; what a "
            "library loses beyond it, by distances |x|² + |x'|² − 2x·x' for example, is in the part of the solver."
        )
    else:
        notes.append(
            f"The library is taken to compute in double precision; if not, {asked.spelled('dtype', 'float32')} splits "
            "off the part of single precision."
        )
    return tuple(notes)


@dataclass(frozen=True, eq=False)
class ModelExamination(Examination, Answer):
    """A `gpbounds.audit.examination.Examination` with its text, page and figure.

    Attributes
    ----------
    interrupted : bool
        Whether Ctrl-C ended the computation; other attributes are those of `Examination`.
    """

    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = plain({"command": "examine", **super().to_dict()}, spelled=True)
        return record

    def __str__(self) -> str:
        about = self.subject
        points = "no inducing points" if about.M is None else f"M = {about.M}"
        lines = [
            wrapped(f"Data: {self.name}, {about.N} training rows, D = {about.D}."),
            wrapped(f"Model: {self.model}; {points}."),
            "",
        ]
        for each in self.findings:
            lines.append(wrapped(f"{each.about}: {each.text} ({', '.join(each.claims)})"))
        if self.causes is not None:
            lines += ["", *_in_text(self)]
        lines += ["", *(wrapped(f"Note: {note}") for note in self.notes)]
        return "\n".join(lines)

    def page(self) -> str:
        from gpbounds.pages.claimed_numbers import examination_page

        return examination_page(self)

    def plot(self) -> Any:
        """What each cause adds to the claimed log p(y) and to the worst prediction; claimed means beside exact ones.

        Raises
        ------
        ValueError
            if nothing could be computed.
        """
        from gpbounds.plotting.claims_beside import claims_figure

        return claims_figure(self)


def _in_text(answer: Examination) -> list[str]:
    """The causes as a table for each number."""
    assert answer.causes is not None
    lines, title = list[str](), ""
    rows = rows_of(answer.causes)
    for name in dict.fromkeys(row[0] for row in rows):
        lines += [f"{name}:"] if not title else ["", f"{name}:"]
        title = name
        cells = [
            (cause.split(":")[0], size, effect, known) for what, cause, size, effect, known in rows if what == name
        ]
        lines.append(table(("part", "contribution", "effect", "known"), cells))
    return lines
