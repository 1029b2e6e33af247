"""The model of ``gpbounds audit`` with its rows, the steps of the audit, and its report as text."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fitting.study.steps import Steps
from fitting.study.words import describe_kernel
from gpbounds import audit as audits
from gpbounds.arrays import Float
from gpbounds.audit import Audit, Subject, subject
from gpbounds.audit.limits import Limit
from gpbounds.cli import examples, models
from gpbounds.cli.data import column_names
from gpbounds.cli.examples import Examples
from gpbounds.cli.families import SQUARED_EXPONENTIAL
from gpbounds.cli.options import UsageError
from gpbounds.divergences import SparsePosterior, whitened_posterior
from gpbounds.likelihoods import Gaussian
from gpbounds.means import LinearMean
from gpbounds.renyi import Model
from gpbounds.texts import wrapped

SAME = 1e-9
"""Largest difference, relative to the largest value, of a target in the file from that of a training row."""
DEFAULT_INDUCING = 100


Joint = Callable[[Float], Float]


@dataclass(frozen=True, eq=False)
class Case:
    """A model with its training rows and rows that were held out.

    Attributes
    ----------
    name, about : str
        The data, and the model in one line.
    subject : Subject
    train, held : Examples
        In the units of the file.
    numbers : array of int
        Numbers of the rows in the file, from 1: those for training, then those held out.
    predicted : (array, array)
        Means and variances of the latent f at the held-out rows, in the units of the file.
    joint : function or None
        Joint covariance (k, k) of the latent f at k inputs (k, D), in squared units of the file; None where the model
        has marginal laws only.
    shift, scale : float
        The target is shift + scale·y, for the y of ``subject``.
    limited : mapping of str to str
        Hyperparameters at a limit of their search.
    notes : tuple of str
    """

    name: str
    about: str
    subject: Subject
    train: Examples
    held: Examples
    numbers: Any
    predicted: tuple[Float, Float]
    joint: Joint | None
    shift: float
    scale: float
    limited: Mapping[str, Limit]
    notes: tuple[str, ...]


def case(args: argparse.Namespace) -> Case:
    """The case of a saved model, or of a new one.

    Raises
    ------
    ValueError, OSError
        for a table or a model that cannot be read, a model of other inputs or other rows, or without a Gaussian
        likelihood.
    """
    table = examples.read(args.file, args.target)
    columns = _columns(args, table)
    if args.model is None:
        numbers = _split(table, args.held_out, args.seed)
        chosen = {"n_inducing": DEFAULT_INDUCING if args.inducing is None else args.inducing}
        train, held = (_part(table, part) for part in numbers)
        settings = {**chosen, "random_state": args.seed}
        model = models.fitted("sparse", settings, train, SQUARED_EXPONENTIAL, progress=sys.stderr.isatty())
        if any(run.status == "interrupted" for run in model.runs_):
            raise KeyboardInterrupt  # nobody asked about a model that is trained in part
        notes: tuple[str, ...] = (
            f"A new sparse GP was trained on {train.N} rows; {held.N} were held out at random (seed {args.seed}).",
            models.for_the_shell(model.stop_reason_),
        )
    elif args.model.suffix == ".json":
        return _imported(args, table, columns)
    elif args.model.suffix != ".npz":
        raise UsageError(f"--model: expected a file .npz or .json, got {args.model}: {OTHER_LIBRARIES}")
    else:
        model = models.saved(args.model)
        _supported(model, args.model, table)
        numbers = _training_rows(model, table, args.model)
        train, held = (_part(table, part) for part in numbers)
        notes = (f"The model was read from {args.model}; {held.N} rows of the file were not used in its training.",)
    return _of_model(model, table.name, columns, train, held, np.concatenate(numbers) + 1, (*table.notes, *notes))


OTHER_LIBRARIES = (
    "convert a model of GPflow, GPyTorch, GPJax or scikit-learn in Python by "
    'gpbounds.renyi.from_gpflow(model).save("model.json"), from_gpytorch, from_gpjax or from_sklearn'
)
"""How models of other libraries are passed; no file is unpickled, because that runs any code in it."""


def _imported(args: argparse.Namespace, table: Examples, columns: list[str]) -> Case:
    """The case of a kernel, a noise variance and inducing points, whose posterior is q* given the training rows."""
    model = Model.load(args.model)
    numbers = _split(table, args.held_out, args.seed)
    train, held = (_part(table, part) for part in numbers)
    try:
        residuals = model.residuals(train.X, train.y)
        about = subject(model.kernel, train.X, residuals, model.Z, noise=model.noise, columns=columns)
        model.kernel(train.X[:1])
    except ValueError as error:
        raise UsageError(f"--model: {args.model} does not fit {table.name}: {error}") from None
    notes = [
        *table.notes,
        f"Kernel, noise and inducing points were read from {args.model}; the posterior is the best one with them given "
        f"{train.N} rows. The {held.N} others were drawn at random (seed {args.seed}); if they were used in training, "
        "their coverage is better than that of new rows.",
    ]
    mean, variance = np.empty(0), np.empty(0)
    joint: Joint | None = None
    if model.Z is not None:
        best = about.best(model.Z)
        law, joint = best.predict(held.X), best.joint
        mean, variance = np.asarray(law.mean), np.asarray(law.variance)
    elif about.N <= args.rows:
        means, variance = about.exact.predict(held.X)
        mean, joint = means[:, 0], lambda points: about.exact.predict(points, full_cov=True)[1]
    else:
        notes.append(f"Calibration is missing: it needs the exact GP of {about.N} rows; raise --rows.")
        held, numbers = _part(table, numbers[1][:0]), (numbers[0], numbers[1][:0])
    if model.mean is not None:
        notes.append("The divergence and log p(y) are those of the residuals of the model's mean function.")
        mean = mean + (0.0 if held.N == 0 else np.asarray(model.mean(held.X)))
    described = f"{args.model.name}, {describe_kernel(model.kernel)}, noise variance {model.noise:.3g}"
    places = np.concatenate(numbers) + 1
    predicted = mean, variance
    return Case(table.name, described, about, train, held, places, predicted, joint, 0.0, 1.0, {}, tuple(notes))


def _of_model(
    model: Any, name: str, columns: list[str], train: Examples, held: Examples, numbers: Any, notes: tuple[str, ...]
) -> Case:
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    Z = getattr(model, "inducing_", None)
    noise = models.noise_of(model)
    standardised = Model(model.kernel_, noise, Z, model.mean_)
    about = subject(
        model.kernel_,
        model.X_train_,
        standardised.residuals(model.X_train_, np.ravel(model.y_train_)),
        Z,
        noise=noise,
        columns=columns,
        posterior=_own_posterior(model),
    )
    own = models.law(model, held) if held.N else None
    predicted = (np.empty(0), np.empty(0))
    if own is not None:
        predicted = (shift + scale * own.mean, scale**2 * own.variance)
    method = getattr(model, "method", None)
    label = type(model).__name__ + (f", method {method}" if method else "")
    if scale != 1.0 or shift != 0.0:
        sign = "−" if shift >= 0.0 else "+"
        standard = f"(y {sign} {abs(shift):.5g})/{scale:.5g}"
        notes = (*notes, f"Kernel, noise and log p(y) are for the standardised target, {standard}.")
    if model.mean_ is not None:
        fitted = "" if isinstance(model.mean, LinearMean) else ", which was trained on the same rows"
        notes = (
            *notes,
            f"The divergence and log p(y) are those of the residuals of the model's mean function{fitted}.",
        )
    if not _variational(model) and about.posterior is None:
        notes = (
            *notes,
            f"{type(model).__name__} predicts by a posterior that is not given by its inducing points alone; the "
            "divergence is that of the best sparse posterior with the same kernel, noise and inducing points. "
            "Calibration is that of the model itself.",
        )
    if method in ("fitc", "pep", "pic"):
        notes = (
            *notes,
            f"Method {method} counts unexplained variance as noise of its own and chooses hyperparameters for that; "
            "the exact posterior here is that of the Gaussian process with these hyperparameters and no such noise.",
        )
    limited: dict[str, Limit] = {}
    for remark in model.remarks_:
        if remark.kind in ("lower limit", "upper limit"):
            limited |= dict.fromkeys(remark.names, remark.kind.removesuffix(" limit"))
    described = f"{label}, {describe_kernel(model.kernel_)}, noise variance {noise:.3g}"
    joint = partial(models.joint, model)
    return Case(name, described, about, train, held, numbers, predicted, joint, shift, scale, limited, notes)


def _variational(model: Any) -> bool:
    """Whether the model predicts by q*: the exact GP and VFE do."""
    name = type(model).__name__
    return name == "ExactGP" or (name == "SparseGP" and model.method == "vfe" and model.beta == 1.0)


def _own_posterior(model: Any) -> SparsePosterior | None:
    """The model's posterior, where it is another than q* and given by its inducing points."""
    law = model.posterior_
    if _variational(model) or type(law).__name__ != "InducingPosterior":
        return None
    q = law.q
    return whitened_posterior(law.kernel, model.inducing_, q.mean[:, 0], q.factor, jitter=law.jitter)


def _columns(args: argparse.Namespace, table: Examples) -> list[str]:
    """Names of the inputs."""
    names = column_names(args.file)
    if names is None:
        return [f"x{j + 1}" for j in range(table.D)]
    last = names[-1] if args.target is None else args.target
    if last not in names and last.isdecimal():
        last = names[int(last) - 1]
    where = names.index(last)
    return [name or f"x{j + 1}" for j, name in enumerate([*names[:where], *names[where + 1 :]])]


def _split(table: Examples, share: float, seed: int) -> tuple[Any, Any]:
    """Numbers of the rows for training and of those held out, as `Examples.split` draws them."""
    indexed = replace(table, X=np.arange(table.N, dtype=np.float64)[:, None])
    train, held = indexed.split(share, seed)
    return train.X[:, 0].astype(np.int64), held.X[:, 0].astype(np.int64)


def _part(table: Examples, numbers: Any) -> Examples:
    return replace(table, X=table.X[numbers], y=table.y[numbers])


def _supported(model: Any, path: Any, table: Examples) -> None:
    """Refuse models without a Gaussian likelihood, without a kernel, or of other inputs."""
    name = type(model).__name__
    likelihood = getattr(model, "likelihood_", None)
    if name not in ("SparseGP", "RenyiGP", "ExactGP", "VariationalGP") or not isinstance(
        likelihood, Gaussian | type(None)
    ):
        what = name if likelihood is None else f"{name} with a {type(likelihood).__name__} likelihood"
        raise UsageError(
            "--model: expected a SparseGP, RenyiGP, ExactGP or a VariationalGP with a Gaussian likelihood, got a "
            f"{what} in {path}: the bounds are for Gaussian processes with Gaussian noise"
        )
    if model.n_features_in_ != table.D:
        raise UsageError(
            f"--model: expected a model of {table.D} inputs, as {table.name} has, got one of {model.n_features_in_} in "
            f"{path}"
        )
    if np.ndim(model.y_train_) == 2 and np.shape(model.y_train_)[1] != 1:
        raise UsageError(f"--model: expected a model of one target, got one of {np.shape(model.y_train_)[1]} in {path}")
    if len(model.X_train_) == 0:
        raise UsageError(
            f"--model: expected a model that holds its training rows, got one trained by partitions in {path}: audit a "
            "model of a sample of the rows"
        )


def _training_rows(model: Any, table: Examples, path: Any) -> tuple[Any, Any]:
    """Numbers of the rows that the model was trained on, in its order, and of the others."""
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    X, y = np.asarray(model.X_train_), shift + scale * np.ravel(model.y_train_)
    close = SAME * max(float(np.abs(table.y).max()), 1e-300)
    waiting: dict[bytes, list[int]] = defaultdict(list)
    for number, row in enumerate(table.X + 0.0):
        waiting[row.tobytes()].append(number)
    chosen, missing = [], 0
    for row, target in zip(X + 0.0, y, strict=True):
        numbers = waiting[row.tobytes()]
        place = next((i for i, number in enumerate(numbers) if abs(table.y[number] - target) <= close), None)
        if place is None:
            missing += 1
        else:
            chosen.append(numbers.pop(place))
    if missing:
        raise UsageError(
            f"--model: expected a model whose training rows are among those of {table.name}, but {missing} of its "
            f"{len(X)} rows in {path} are not"
        )
    return np.array(chosen, dtype=np.int64), np.setdiff1d(np.arange(table.N), chosen)


def audit(audited: Case, args: argparse.Namespace, steps: Steps) -> Audit:
    """The sections of the audit one after another; what is missing has its reason in ``steps``."""
    about, held = audited.subject, audited.held
    enough = steps.take(
        "bounds against M",
        partial(audits.enough, about, target=args.enough, most=args.most, rows=args.rows, progress=sys.stderr.isatty()),
    )
    steps.stopped |= enough is not None and enough.interrupted
    points = np.concatenate([about.X, _scaled_inputs(audited)])
    parts: dict[str, Any] = {}
    if enough is not None:
        parts["consequences"] = steps.take(
            "predictions", partial(audits.consequences, about, enough, points, rows=args.rows)
        )
    if about.Z is not None:
        parts["places"] = steps.take("where it is worst", partial(audits.places, about, about.Z, points))
    parts["hyperparameters"] = audits.hyperparameters(about, audited.limited)
    notes = list(audited.notes)
    if held.N:
        parts["calibration"] = steps.take("calibration", lambda: calibration(audited, args.seed))
        if args.certificate is not None:
            parts["risk"] = steps.take(
                "certificate",
                lambda: audits.held_out_risk(held.y, *audited.predicted, args.certificate, delta=args.delta),
            )
    else:
        if not any("Calibration is missing" in note for note in notes):
            notes.append("Calibration is missing: the model was trained on all rows of the file.")
        if args.certificate is not None:
            notes.append("The certificate is missing: it needs rows that the model was not trained on.")
    if enough is not None and enough.interrupted:
        notes.append("The search for M was interrupted; fewer points may do.")
    return Audit(
        audited.name,
        audited.about,
        about,
        enough=enough,
        numbers=audited.numbers,
        unit=(audited.shift, audited.scale),
        notes=tuple(notes),
        **parts,
    )


def _scaled_inputs(audited: Case) -> Float:
    return np.asarray(audited.held.X, dtype=np.float64).reshape(-1, audited.subject.D)


def calibration(audited: Case, seed: int) -> audits.Calibration:
    """`gpbounds.audit.calibration` of the held-out rows, in the units of the file."""
    mean, variance = audited.predicted
    noise = audited.scale**2 * audited.subject.noise
    variance = variance + noise
    targets, rows, covariance = audited.train.y, audits.rows_to_test(audited.held.N, seed), None
    if audited.joint is not None:
        latent = audited.joint(np.asarray(audited.held.X, dtype=np.float64)[rows])
        covariance = 0.5 * (latent + latent.T) + noise * np.eye(rows.size)
        variance[rows] = covariance.diagonal()  # the same, but for rounding
    return audits.calibration(
        audited.held.y,
        mean,
        variance,
        covariance=covariance,
        rows=rows,
        baseline=(float(targets.mean()), float(targets.var())),
        rng=seed,
    )


def with_notes(result: Audit, reasons: list[str]) -> Audit:
    """The audit with the reasons why sections are missing."""
    return replace(result, notes=(*result.notes, *reasons))


def report(result: Audit) -> str:
    """The findings as text."""
    about = result.subject
    points = "no inducing points" if about.M is None else f"M = {about.M}"
    lines = [
        wrapped(f"Data: {result.name}, {about.N} training rows, D = {about.D}."),
        wrapped(f"Model: {result.model}; {points}."),
        "",
    ]
    for each in result.findings:
        claims = f" ({', '.join(each.claims)})" if each.claims else ""
        lines.append(wrapped(f"{each.about}: {each.text}{claims}"))
    lines += ["", *(wrapped(f"Note: {note}") for note in result.notes)]
    return "\n".join(lines)
