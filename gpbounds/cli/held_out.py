"""The output of ``gpbounds train``: scores on the rows held out as text, as JSON and as a figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fitting.study.predicted import LEVEL, Predicted
from fitting.study.terms import as_written
from fitting.study.words import describe_kernel, headline, kernel_record
from gpbounds.bound import outward
from gpbounds.cli import models
from gpbounds.cli.examples import Examples
from gpbounds.likelihoods import Bernoulli, Poisson
from gpbounds.texts import short, table, wrapped


@dataclass(frozen=True, eq=False)
class Result:
    """A trained model and its predictions at the rows held out.

    Attributes
    ----------
    model : str
        Its name among `gpbounds.cli.models.CLASSES`.
    train, test : Examples
    estimator : Any
    own, baseline : Law
        The model's predictions at ``test``, and one law for all rows.
    seed : int
    """

    model: str
    train: Examples
    test: Examples
    estimator: Any
    own: Predicted
    baseline: Predicted
    seed: int

    @property
    def what(self) -> str:
        """The estimator, and its settings that were not left out, in one sentence."""
        about = [type(self.estimator).__name__]
        for name in ("method", "features", "rank", "objective", "posterior", "relaxation"):
            value = getattr(self.estimator, name, None)
            if value is not None:
                about.append(f"{name} {value}")
        if getattr(self.estimator, "dim", None) is not None:
            about.append(f"of the inputs projected to {self.estimator.dim} dimensions")
        if hasattr(self.estimator, "beta_") and self.estimator.beta_ != 1.0:
            about.append(f"beta {self.estimator.beta_:g}")
        if hasattr(self.estimator, "inducing_"):
            about.append(f"{self.estimator.inducing_.shape[0]} inducing points")
        return ", ".join(about)


def report(result: Result) -> str:
    """Data, model, and the scores as a table."""
    train, test, estimator = result.train, result.test, result.estimator
    own, baseline = result.own.scores(), result.baseline.scores()
    scores = [(name, f"{value:.4g}", f"{baseline[name]:.4g}") for name, value in own.items()]
    lines = [
        wrapped(
            f"Data: {train.name}, D = {train.D}: {train.N} rows for training, {test.N} held out (seed {result.seed}). "
            f"{' '.join(train.notes)}".rstrip()
        ),
        wrapped(f"Model: {result.what}. {models.for_the_shell(estimator.stop_reason_)}"),
        wrapped(f"Kernel: {describe_kernel(estimator.kernel_)}; likelihood: {likelihood(result)}. {units(result)}"),
        *evidence(result),
        "",
        table(("score on the rows held out", "model", "without inputs"), scores),
        "",
        wrapped(EXPLAINED.get(type(result.own.likelihood), OF_REAL_TARGETS)),
        *(wrapped(f"Note: {note}") for note in notes(result)),
    ]
    return "\n".join(lines)


LOG_LOSS = "Log loss: the mean of -log p(target), in nats; lower is better."
OF_REAL_TARGETS = f"RMSE: in units of the target.  {LOG_LOSS}"
EXPLAINED: dict[type, str] = {
    Bernoulli: f"Error: the share of wrong labels.  {LOG_LOSS}  Calibration: the mean distance between predicted "
    "probability and share of labels, in ten bins.",
    Poisson: f"Relative error: |y - prediction|/max(y, 1).  {LOG_LOSS}  Intervals of counts cover more than 95 % even "
    "if the model is right.",
}


def likelihood(result: Result) -> str:
    """The likelihood with its parameters, to four digits."""
    own = result.own.likelihood
    values = [f"{name}={short(getattr(own, name))}" for name in own.parameter_names]
    link = [f"link={own.link}"] if isinstance(own, Bernoulli | Poisson) else []
    return f"{type(own).__name__}({', '.join([*link, *values])})"


def evidence(result: Result) -> list[str]:
    """The interval of log p(y) that a model trained by iterations comes with."""
    bounds = getattr(result.estimator, "evidence_bounds_", None)
    if bounds is None:
        return []
    lower, upper = bounds
    ends = f"{outward(float(lower), 'lower')} and {outward(float(upper), 'upper')}"
    what = "Log p(y) of the rows for training" + (", y standardised" if units(result) else "")
    return [wrapped(f"{what}: between {ends}, with probability {100 * lower.confidence:g} %.")]


def units(result: Result) -> str:
    """A sentence on the standardised target."""
    if (result.own.shift, result.own.scale) == (0.0, 1.0):
        return ""
    shift, scale = short(result.own.shift), short(result.own.scale)
    return f"Variance and noise are in units of the standardised target, (y - {shift})/{scale}."


def notes(result: Result) -> list[str]:
    """Remarks of training, and what a certificate of this model does not say."""
    texts = list(models.remarks(result.estimator))
    if result.model in models.CERTIFIED:
        texts.append(
            f"The bound on the Gibbs risk is {result.estimator.bound_:.4g} with probability "
            f"{100.0 * (1.0 - result.estimator.delta):g} %, if the units of the columns had been fixed in advance; "
            "here they come from the same rows.  gpbounds certify train issues a certificate that holds."
        )
    return texts


def record(result: Result) -> dict[str, Any]:
    """The content of `report`, ready for JSON."""
    train, test, estimator = result.train, result.test, result.estimator
    bounds = getattr(estimator, "evidence_bounds_", None)
    return {
        "model": result.model,
        "estimator": type(estimator).__name__,
        "data": {"name": train.name, "N": train.N, "held out": test.N, "D": train.D, "notes": train.notes},
        "scores": result.own.scores(),
        "without inputs": result.baseline.scores(),
        "objective": estimator.objective_,
        "log evidence": None if bounds is None else [float(end) for end in bounds],
        "beta": getattr(estimator, "beta_", getattr(estimator, "beta", 1.0)),
        "kernel": kernel_record(estimator.kernel_),
        "likelihood": result.own.likelihood.to_dict(),
        "target": {"shift": result.own.shift, "scale": result.own.scale},
        "training": models.for_the_shell(estimator.stop_reason_),
        "iterations": estimator.n_iter_,
        "notes": notes(result),
    }


def picture(result: Result) -> Any:
    """The figure: predictions against targets, and their calibration."""
    from gpbounds import plotting

    own, target = result.own, as_written(result.test.target)
    title = as_written(heading(result))
    if isinstance(own.likelihood, Bernoulli):
        first, second = (as_written(str(label)) for label in result.estimator.classes_)
        return plotting.labels_page(
            plotting.Probabilities(own.y > 0.0, own.predicted(), first, second), title=title, target=target
        )
    low, high = own.interval(LEVEL)
    predictions = plotting.Intervals(own.shift + own.scale * own.y, own.predicted(), low, high)
    counts = isinstance(own.likelihood, Poisson)
    return plotting.targets_page(
        predictions, own.ranks(result.seed), level=LEVEL, counts=counts, title=title, target=target
    )


def heading(result: Result) -> str:
    """Three lines: the data, the model, the scores."""
    train, own = result.train, result.own
    kernel = headline(result.estimator.kernel_, 1.0).rpartition(", noise")[0]
    scores = ", ".join(f"{name} {value:.4g}" for name, value in own.scores().items())
    return (
        f"{train.name}: {train.N:,} rows for training, {result.test.N:,} held out, D = {train.D}\n"
        f"{result.what}; likelihood {likelihood(result)}\n{kernel}\n{scores}"
    )
