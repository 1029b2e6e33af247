"""`audit`: would the exact GP predict better than a trained model, was M enough; from a model to the record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.study.audited import Audited, LatentModelAudit, ModelAudit, limits_of
from fitting.study.audited_rows import AuditQuestion, test_rows_of, training_and_held_out, training_rows, with_test
from fitting.study.latent_auditing import (
    is_latent,
    labels_apart,
    latent_audit_of,
    of_latent_estimator,
    of_latent_points,
    refuse_unless_concave,
)
from fitting.study.predicted import joint, noise_of, predicted
from fitting.study.standardised import inputs_and_target, multiplied
from fitting.study.steps import Steps, WrongArguments
from fitting.study.words import Spelling, argument, describe_kernel
from gpbounds import audit as audits
from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.audit import Subject, subject
from gpbounds.divergences import SparsePosterior, whitened_posterior
from gpbounds.kernels import Kernel
from gpbounds.likelihoods import Gaussian
from gpbounds.means import LinearMean
from gpbounds.renyi import LatentModel, Model
from gpbounds.renyi.further import further_rows
from gpbounds.renyi.members import WORK
from gpbounds.rows.table_rows import TableRows, remarks_on_split

Joint = Callable[[Float], Float]


def audit(
    model: Any,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    target: str | None = None,
    nats: float = 1.0,
    test: Any = None,
    loss: float = audits.LOSS,
    test_rows: int | None = None,
    retrain: bool = False,
    most: int = 1000,
    rows: int = 3000,
    work: float = WORK,
    held_out: float = 0.0,
    epsilon: float | None = None,
    delta: float = 0.05,
    rng: int = 0,
    name: str = "data",
    progress: bool = False,
) -> ModelAudit | LatentModelAudit:
    """Would the exact GP predict better than this model, was M enough, where is it worst, do its intervals cover?

    Claims N-solve (the exact GP at held-out rows), R-gap, R-gp, N-low (is M enough), L-30, L-31 (a guarantee at every
    input), N-excess (a posterior other than the best one), N-rank (calibration).  Hypotheses: Gaussian noise, and the
    kernel, noise and mean of the model; calibration tests them.

    Of labels and counts, under a Bernoulli or Poisson likelihood: is M enough, how much of KL[q‖p] is q's and how much
    M's, and what it means for probabilities (N-fisher, N-elbos, N-event; `gpbounds.audit.latent_enough`).

    Pass all rows that you have: those that an estimator was trained on are recognised; predictions are compared and
    calibration is measured on the others, or on ``test``.  `gpbounds audit` prints the same record.  Kernel, noise and
    log p(y) are in the units of X and y.  The answer is about this kernel and noise: a model that is trained again with
    another number of inducing points has others.

    Parameters
    ----------
    model : SparseGP, RenyiGP, ExactGP, VariationalGP, VariationalGPClassifier, `gpbounds.renyi.Model` or `LatentModel`
        A fitted estimator; or what `gpbounds.renyi.from_gpytorch` and its like read from a model of another library,
        whose posterior is its own q(u), where it has one, and else the best one with its inducing points.  A Student-t
        likelihood is refused: it is not log-concave.
    X : array (N, D), or a data frame (pandas, polars), whose columns name the inputs
        In the units in which the model was trained.
    y : array (N,), optional
        Without it, ``target`` names a column of X.
    target : str, optional
        The column of the data frame X that holds the targets.
    nats : float
        The divergence from the exact posterior that counts as enough.
    test : (array (n, D), array (n,)) or a data frame with the columns of X, optional
        Rows that the model was not trained on, for the comparison with the exact GP, for calibration and risk; then no
        others are used for them.
    loss : float
        Differences of log loss below this count as none, in nats a row.
    test_rows : int, optional
        Rows, drawn at random from those that are held out, at which the exact GP predicts: by default all, at most
        2000, up to 6000 training rows, and 200 beyond.
    retrain : bool
        Train an estimator with inducing points again, with twice as many, from its hyperparameters, and compare it at
        the same rows: an estimate of what more points would bring if hyperparameters move along.
    most : int
        Largest number of inducing points to try.
    rows : int
        Up to so many training rows the exact GP is computed, for comparison.
    work : float
        Flops that may be spent on bounds on log p(y), as in `gpbounds.renyi.evidence`; notes say what is left out.
    held_out : float
        Of a `Model`, which has no rows of its own: share of the rows that are drawn at random, not used for the
        posterior, and on which calibration is measured; by default all rows are those of its training.
    epsilon : float, optional
        Adds a bound on the probability that a draw from the prediction misses a new target by more than this, from the
        held-out rows, in units of y; choose it before you look at them.
    delta : float
        Probability with which that bound may fail.
    rng : int
        The seed of all random choices.
    name : str
        Name of the data in reports.
    progress : bool
        Show on stderr, if it is a terminal, what is being computed.

    Returns
    -------
    ModelAudit, or LatentModelAudit of labels and counts
        ``print()``, ``to_dict()``, ``save("audit.html")``, ``plot()``; a notebook shows its page.  Its sections are
        those of `gpbounds.audit.Audit`: ``compared``, ``enough``, ``consequences``, ``places``, ``calibration``, …;
        or of `gpbounds.audit.LatentAudit`: ``enough``, ``events``, ``scores``.

    Raises
    ------
    ValueError, NonFinite
        for a model of another kind, of other inputs or other rows, and for arguments out of range.

    >>> from fitting import SparseGP
    >>> X = np.linspace(0.0, 6.0, 80)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(80)
    >>> audited = audit(SparseGP("vfe", n_inducing=10).fit(X[::2], y[::2]), X, y)
    >>> audited.enough.verdict, audited.calibration.n
    ('enough', 40)
    """
    if not isinstance(model, Model | LatentModel):
        auditable(model, "", argument)
    if hasattr(model, "classes_"):
        X, y, test = labels_apart(model, X, y, test, target)
    columns, points, targets, named = inputs_and_target(X, y, target)
    asked = AuditQuestion(
        validation.scalar(validation.positive, "nats", nats),
        validation.count("most", most),
        validation.count("rows", rows, 0),
        validation.scalar(validation.non_negative, "held_out", held_out),
        None if epsilon is None else validation.scalar(validation.positive, "epsilon", epsilon),
        validation.scalar(validation.open_unit, "delta", delta),
        validation.count("rng", rng, 0),
        validation.flag("progress", progress),
        work=validation.scalar(validation.non_negative, "work", work),
        loss=validation.scalar(validation.positive, "loss", loss),
        test_rows=None if test_rows is None else validation.count("test_rows", test_rows),
        retrain=validation.flag("retrain", retrain),
    )
    validation.instance("name", name, str, "a text")
    table = TableRows(name, points, targets, columns=columns, target=named)
    others = None if test is None else test_rows_of(test, table, None if y is not None else target)
    if isinstance(model, LatentModel):
        return latent_audit_of(of_latent_points(model, table, "", asked, others), asked)
    if isinstance(model, Model):
        examined = of_points(model, table, "", asked, others)
    else:
        with_its_rows(model, table, "", argument)
        names = tuple(map(str, getattr(model, "feature_names_in_", ())))
        if names and columns and names != columns:
            there, here = ", ".join(names), ", ".join(columns)
            raise ValueError(f"X: expected the columns of training in their order, {there}, got {here}")
        numbers = training_rows(model, table, "", argument)
        note = f"{numbers[1].size} rows of the table were not used in the training of the model."
        if is_latent(model):
            return latent_audit_of(of_latent_estimator(model, *with_test(table, numbers, others), (note,)), asked)
        examined = of_model(model, *with_test(table, numbers, others), (note,))
    return audit_of(examined, asked)


@dataclass(frozen=True, eq=False)
class Examined(Audited[Subject]):
    """A model with Gaussian noise, its training rows and rows that were held out; numbers are in units of the table.

    Attributes
    ----------
    name, about, subject, held, limited, notes, keeps
        As of `Audited`.
    targets : array (N,)
        Those of the training rows.
    numbers : array of int
        Numbers of the rows in the table, from 1: those for training, then those held out.
    predicted : (array, array)
        Means and variances of the latent f at the held-out rows.
    joint : function or None
        Joint covariance (k, k) of the latent f at k inputs (k, D); None where the model has marginal laws only.
    offset : array (n,) or float
        The model's prior mean at the held-out rows.
    trained_again : function or None
        Trains the model again with so many inducing points; None where it is no estimator with inducing points.
    """

    targets: Float
    numbers: Any
    predicted: tuple[Float, Float]
    joint: Joint | None
    offset: Float | float = 0.0
    trained_again: Callable[[int], Any] | None = None


def of_model(model: Any, table: TableRows, numbers: tuple[Any, Any], notes: tuple[str, ...]) -> Examined:
    """A fitted estimator with a Gaussian likelihood; ``numbers`` are those of its training rows, and of the others."""
    train, held = (table.part(each) for each in numbers)
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    Z = getattr(model, "inducing_", None)
    residuals = Model(model.kernel_, 1.0, Z, model.mean_).residuals(model.X_train_, np.ravel(model.y_train_))
    kernel, noise = multiplied(model.kernel_, scale**2), noise_of(model) * scale**2
    about = subject(
        kernel,
        model.X_train_,
        scale * residuals,
        Z,
        noise=noise,
        columns=table.columns or None,
        posterior=_own_posterior(model, kernel, scale**2),
    )
    own = predicted(model, held.X, held.y) if held.N else None
    latent = (np.empty(0), np.empty(0))
    if own is not None:
        latent = (shift + scale * own.mean, scale**2 * own.variance)
    method = getattr(model, "method", None)
    label = type(model).__name__ + (f", method {method}" if method else "")
    described = f"{label}, {describe_kernel(kernel, about.columns)}, noise variance {noise:.3g}"
    places = np.concatenate(numbers) + 1
    together = partial(joint, model)
    notes = (*table.notes, *notes, *_about_the_posterior(model, about))
    keeps = 'kernel=model.kernel_, noise=model.noise_, fixed="all"' + (", normalize_y=True" if scale != 1.0 else "")
    zero = Model(model.kernel_, 1.0, Z, model.mean_).residuals(held.X, np.zeros(held.N)) if held.N else np.empty(0)
    return Examined(
        table.name,
        described,
        about,
        held,
        limits_of(model),
        notes,
        keeps,
        train.y,
        places,
        latent,
        together,
        shift - scale * zero,
        None if Z is None else partial(trained_again, model),
    )


def _about_the_posterior(model: Any, about: Subject) -> list[str]:
    """What of the model the divergence, and the exact posterior, are about."""
    method, notes = getattr(model, "method", None), list[str]()
    if model.mean_ is not None:
        fitted = "" if isinstance(model.mean, LinearMean) else ", which was trained on the same rows"
        notes.append(f"The divergence and log p(y) are those of the residuals of the model's mean function{fitted}.")
    if not _variational(model) and about.posterior is None:
        notes.append(
            f"{type(model).__name__} predicts by a posterior that is not given by its inducing points alone; the "
            "divergence is that of the best sparse posterior with the same kernel, noise and inducing points. "
            "Calibration is that of the model itself."
        )
    if method in ("fitc", "pep", "pic"):
        notes.append(
            f"Method {method} counts unexplained variance as noise of its own and chooses hyperparameters for that; "
            "the exact posterior here is that of the Gaussian process with these hyperparameters and no such noise."
        )
    return notes


def of_points(
    model: Model, table: TableRows, source: str, asked: AuditQuestion, test: TableRows | None = None
) -> Examined:
    """A kernel, a noise variance and inducing points, with the model's own posterior or, without one, q*."""
    spelled = asked.spelled
    table, numbers = training_and_held_out(table, asked, test, own=model.q is not None)
    drawn = 0 if test is not None else numbers[1].size
    train, held = (table.part(each) for each in numbers)
    try:
        residuals = model.residuals(train.X, train.y)
        own = None if model.q is None or model.Z is None else model.q.posterior(model.kernel, model.Z)
        columns = table.columns or None
        about = subject(model.kernel, train.X, residuals, model.Z, noise=model.noise, columns=columns, posterior=own)
        model.kernel(train.X[:1])
    except ValueError as error:
        raise WrongArguments(f"{spelled('model')}: {source or 'it'} does not fit {table.name}: {error}") from None
    notes = [*table.notes, *_origin(model, train.N, drawn, source, asked)]
    mean, variance = np.empty(0), np.empty(0)
    together: Joint | None = None
    if held.N == 0:
        drawn_instead = f", or a share to hold out, {spelled('held_out')}" if model.q is None else ""
        notes.append(
            f"Calibration is missing: pass rows that were not used in training, {spelled('test')}{drawn_instead}."
        )
    elif model.Z is not None:
        posterior = about.law
        law, together = posterior.predict(held.X), posterior.joint
        mean, variance = np.asarray(law.mean), np.asarray(law.variance)
    elif about.N <= asked.rows:
        means, variance = about.exact.predict(held.X)
        mean, together = means[:, 0], lambda points: about.exact.predict(points, full_cov=True)[1]
    else:
        notes.append(f"Calibration is missing: it needs the exact GP of {about.N} rows; raise {spelled('rows')}.")
        held, numbers = table.part(numbers[1][:0]), (numbers[0], numbers[1][:0])
    if model.mean is not None:
        notes.append("The divergence and log p(y) are those of the residuals of the model's mean function.")
        mean = mean + (0.0 if held.N == 0 else np.asarray(model.mean(held.X)))
    label = f"{Path(source).name}, " if source else ""
    described = f"{label}{describe_kernel(model.kernel, about.columns)}, noise variance {model.noise:.3g}"
    places = np.concatenate(numbers) + 1
    latent = mean, variance
    keeps = 'kernel=model.kernel, noise=model.noise, fixed="all"'
    offset = 0.0 if model.mean is None or held.N == 0 else np.asarray(model.mean(held.X))
    return Examined(
        table.name, described, about, held, {}, tuple(notes), keeps, train.y, places, latent, together, offset
    )


def _origin(model: Model, N: int, drawn: int, source: str, asked: AuditQuestion) -> list[str]:
    """Where the parts of an imported model are from, and which rows are taken for those of its training."""
    origin = f"were read from {source}" if source else "are those of the model"
    if model.q is not None:
        note = f"Kernel, noise, inducing points and the posterior q(u) {origin}; {N} rows are taken for its training."
    elif model.Z is None:
        note = f"Kernel and noise {origin}; the posterior is the exact one given {N} rows."
    else:
        note = f"Kernel, noise and inducing points {origin}; the posterior is the best one with them given {N} rows."
    if drawn:
        note += (
            f" {drawn} others were drawn at random (seed {asked.seed}); if they were used in training, their "
            "coverage is better than that of new rows."
        )
    return [note]


def _variational(model: Any) -> bool:
    """Whether the model predicts by q*: the exact GP and VFE do."""
    name = type(model).__name__
    return name == "ExactGP" or (name == "SparseGP" and model.method == "vfe" and model.beta == 1.0)


def _own_posterior(model: Any, kernel: Kernel, square: float) -> SparsePosterior | None:
    """The model's posterior in the units of the table, where it is another than q* and given by its inducing points.

    ``kernel`` is ``square`` times that of the model: the whitened inducing variables are the same.
    """
    law = model.posterior_
    if _variational(model) or type(law).__name__ != "InducingPosterior":
        return None
    q = law.q
    return whitened_posterior(kernel, model.inducing_, q.mean[:, 0], q.factor, jitter=square * law.jitter)


def of_gaussian_noise(model: Any, where: str, spelled: Spelling) -> None:
    """Refuse models without a Gaussian likelihood, or without a kernel."""
    name, option = type(model).__name__, spelled("model")
    likelihood = getattr(model, "likelihood_", None)
    if np.ndim(getattr(model, "noise_", 0.0)):
        raise WrongArguments(
            f"{option}: expected one whose rows share a noise variance, got {name} with a noise for each row{where}: "
            "its tables and figures are stated in that variance; model.log_evidence_bounds() bounds its log p(y)"
        )
    if name not in ("SparseGP", "RenyiGP", "ExactGP", "VariationalGP") or not isinstance(
        likelihood, Gaussian | type(None)
    ):
        what = name if likelihood is None else f"{name} with a {type(likelihood).__name__} likelihood"
        raise WrongArguments(
            f"{option}: expected a SparseGP, RenyiGP, ExactGP or a VariationalGP with a Gaussian likelihood, got a "
            f"{what}{where}: the bounds are for Gaussian processes with Gaussian noise"
        )


def auditable(model: Any, where: str, spelled: Spelling) -> None:
    """Refuse models that are neither of Gaussian noise nor of labels or counts under a log-concave likelihood."""
    if is_latent(model):
        refuse_unless_concave(model, where, spelled)
    else:
        of_gaussian_noise(model, where, spelled)


def supported(model: Any, table: TableRows, where: str, spelled: Spelling) -> None:
    """Refuse models of another kind than `of_gaussian_noise`, of other inputs, or without their training rows."""
    of_gaussian_noise(model, where, spelled)
    with_its_rows(model, table, where, spelled)


def with_its_rows(model: Any, table: TableRows, where: str, spelled: Spelling) -> None:
    """Refuse models of other inputs than the table's, of several targets, or without their training rows."""
    option = spelled("model")
    if model.n_features_in_ != table.D:
        raise WrongArguments(
            f"{option}: expected a model of {table.D} inputs, as {table.name} has, got one of {model.n_features_in_}"
            f"{where}"
        )
    if np.ndim(model.y_train_) == 2 and np.shape(model.y_train_)[1] != 1:
        P = np.shape(model.y_train_)[1]
        raise WrongArguments(f"{option}: expected a model of one target, got one of {P}{where}")
    if hasattr(model, "sample_weight_"):
        raise WrongArguments(f"{option}: expected one without sample_weight, got one whose rows are weighted{where}")
    if len(model.X_train_) == 0:
        raise WrongArguments(
            f"{option}: expected a model that holds its training rows, got one trained by partitions{where}: audit a "
            "model of a sample of the rows"
        )


def audit_of(examined: Examined, asked: AuditQuestion) -> ModelAudit:
    """The sections of the audit one after another; the notes say why a section is missing."""
    if asked.retrain:
        _can_train_again(examined, asked.spelled)
    steps = Steps(7 if asked.retrain else 6, asked.progress)
    about, held = examined.subject, examined.held
    enough = examined.against_M(audits.enough, asked, steps, rows=asked.rows, work=asked.work)
    points = np.concatenate([about.X, np.asarray(held.X, dtype=np.float64).reshape(-1, about.D)])
    parts: dict[str, Any] = {}
    if held.N:
        parts["compared"] = _compared(examined, asked, enough, steps)
    if enough is not None:
        parts["consequences"] = steps.take(
            "predictions", partial(audits.consequences, about, enough, points, rows=asked.rows)
        )
    if about.Z is not None:
        parts["places"] = steps.take("where it is worst", partial(audits.places, about, about.Z, points))
    parts["hyperparameters"] = audits.hyperparameters(about, examined.limited)
    left_out = () if enough is None else enough.left_out
    notes = [*examined.notes, *left_out, *remarks_on_split(TableRows(examined.name, about.X, examined.targets), held)]
    if held.N:
        parts["calibration"] = steps.take("calibration", lambda: calibration(examined, asked.seed))
        if asked.epsilon is not None:
            epsilon, delta = asked.epsilon, asked.delta
            parts["risk"] = steps.take(
                "certificate", lambda: audits.held_out_risk(held.y, *examined.predicted, epsilon, delta=delta)
            )
    else:
        if not any("Calibration is missing" in note for note in notes):
            notes.append("Calibration is missing: the model was trained on all rows of the table.")
        notes.append(
            "Whether the exact GP would predict better is not known without rows that the model was not trained on: "
            f"pass them, {asked.spelled('test')}."
        )
        if asked.epsilon is not None:
            notes.append("The certificate is missing: it needs rows that the model was not trained on.")
    record: ModelAudit = examined.answered(
        ModelAudit,
        enough,
        steps,
        notes,
        numbers=examined.numbers,
        again="" if enough is None else _again(enough, examined.keeps, asked),
        **parts,
    )
    return record


def _can_train_again(examined: Examined, spelled: Spelling) -> None:
    """Refuse to train again, before anything is computed, what cannot be trained or compared."""
    if examined.trained_again is None or examined.subject.M is None:
        raise WrongArguments(
            f"{spelled('retrain')}: expected an estimator with inducing points, which can be trained again, got a "
            "model of another kind"
        )
    if not examined.held.N:
        raise WrongArguments(
            f"{spelled('retrain')}: expected rows that the model was not trained on, at which both are compared, got "
            f"none: pass them, {spelled('test')}"
        )


def _compared(
    examined: Examined, asked: AuditQuestion, enough: audits.Enough | None, steps: Steps
) -> audits.Compared | None:
    """The exact GP's predictions at held-out rows beside the model's, and those of a model that is trained again."""
    about, held = examined.subject, examined.held
    here = audits.HeldOut(np.asarray(held.X, dtype=np.float64), held.y, *examined.predicted, examined.offset)
    compared = steps.take(
        "would the exact GP predict better",
        partial(
            audits.compare,
            about,
            here,
            enough,
            loss=asked.loss,
            rows=asked.test_rows,
            most=asked.most,
            rng=asked.seed,
            progress=asked.progress and sys.stderr.isatty(),
        ),
    )
    if compared is None:
        return None
    steps.stopped |= compared.interrupted
    compared = replace(compared, again=f"raise {asked.spelled('test_rows')}")
    train = examined.trained_again
    if asked.retrain and train is not None and about.M is not None:
        M = min(2 * about.M, asked.most, about.N)
        again = steps.take(f"training again with {M} points", partial(_scored_again, train, M, compared, here))
        compared = replace(compared, retrained=again)
    return compared


def _scored_again(
    train: Callable[[int], Any], M: int, compared: audits.Compared, held: audits.HeldOut
) -> audits.PredictionScores:
    """The scores, at the rows that are compared, of a model that is trained again with M inducing points."""
    model, rows = train(M), compared.rows
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    law = predicted(model, held.X[rows], held.y[rows])
    mean, variance = shift + scale * law.mean, scale**2 * law.variance
    return compared.scored(len(model.inducing_), "retrained", mean, variance, noise_of(model) * scale**2)


def trained_again(model: Any, M: int) -> Any:
    """A copy of a fitted estimator, trained from its kernel, noise and inducing points, and more rows, M in all."""
    from sklearn.base import clone  # a plan from the shell needs no scikit-learn

    X, y = np.asarray(model.X_train_), np.ravel(model.y_train_)
    targets = float(model.y_mean_[0]) + float(model.y_scale_[0]) * y
    Z = np.asarray(model.inducing_)
    Z = np.concatenate([Z, further_rows(model.kernel_, X, Z, max(M - len(Z), 0))])
    settings = {
        "kernel": model.kernel_,
        "noise": noise_of(model),
        "inducing": Z,
        "n_inducing": len(Z),
        "n_restarts": 0,
        "checkpoint": None,
        "progress": False,
    }
    again = clone(model).set_params(**settings).fit(X, targets)
    if any(run.status == "interrupted" for run in again.runs_):
        raise KeyboardInterrupt  # a training that was stopped is no estimate
    return again


def _again(enough: audits.Enough, keeps: str, asked: AuditQuestion) -> str:
    """What happens to the numbers of inducing points if a model is trained again, and how to keep or to find them."""
    M = enough.suffices or "M"
    if asked.file:
        saved = asked.saved or "MODEL"
        keep = f"gpbounds train {asked.file} --keep-kernel {saved} --inducing {M}"
        grow = f"gpbounds train {asked.file} --inducing auto {asked.spelled('nats', f'{asked.nats:g}')}"
    else:
        keep = f"SparseGP({keeps}, n_inducing={M})"
        grow = f'SparseGP(n_inducing="auto", target_gap={asked.nats:g})'
    return (
        "These numbers are for this kernel and noise, which move if a model is trained again, and the numbers with "
        f"them: keep both by {keep}, or let M grow along by {grow}."
    )


def calibration(examined: Examined, seed: int) -> audits.Calibration:
    """`gpbounds.audit.calibration` of the held-out rows, in the units of the table."""
    mean, variance = examined.predicted
    noise = examined.subject.noise
    variance = variance + noise
    targets, rows, covariance = examined.targets, audits.rows_to_test(examined.held.N, seed), None
    if examined.joint is not None:
        latent = examined.joint(np.asarray(examined.held.X, dtype=np.float64)[rows])
        covariance = 0.5 * (latent + latent.T) + noise * np.eye(rows.size)
        variance[rows] = covariance.diagonal()  # the same, but for rounding
    return audits.calibration(
        examined.held.y,
        mean,
        variance,
        covariance=covariance,
        rows=rows,
        baseline=(float(targets.mean()), float(targets.var())),
        rng=seed,
    )
