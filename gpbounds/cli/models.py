"""Models that ``gpbounds train`` fits: their options, training, and scores on rows that were held out."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study.predicted import LEVEL, Predicted
from fitting.study.standardised import multiplied
from fitting.study.words import describe_kernel, headline, kernel_record, options_of
from gpbounds.arrays import Float
from gpbounds.bound import outward
from gpbounds.cli.kept import Kept
from gpbounds.cli.options import UsageError
from gpbounds.kernels import Kernel, Stationary
from gpbounds.kernels.families import Family
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, StudentT
from gpbounds.pacbayes import Scaling
from gpbounds.rows.table_rows import TableRows, remarks_on_inputs, remarks_on_split
from gpbounds.texts import as_written, in_nats, short, table, wrapped

CLASSES = {
    "exact": "ExactGP",
    "sparse": "SparseGP",
    "renyi": "RenyiGP",
    "lowrank": "LowRankGP",
    "variational": "VariationalGP",
    "classifier": "VariationalGPClassifier",
    "pac": "PACGP",
    "sparse-pac": "SparsePACGP",
}
"""The estimator of each model."""

USUAL = 100
"""Number of inducing points if none is asked for."""

SPARSE, FREE, CERTIFIED = ("sparse", "renyi"), ("variational", "classifier"), ("pac", "sparse-pac")

MODELS_WITH: dict[str, tuple[str, ...]] = {
    "--likelihood": FREE,
    "--objective": (*FREE, *CERTIFIED),
    "--beta": ("sparse", *FREE),
    "--power": ("sparse", *FREE),
    "--hyperparameters": FREE,
    "--gradient": FREE,
    "--samples": FREE,
    "--method": ("sparse", "sparse-pac"),
    "--alpha": ("renyi",),
    "--solver": ("exact", "renyi"),
    "--kernel-lengthscale": ("exact", *SPARSE, "lowrank", *FREE),
    "--mean": ("exact", *SPARSE, "lowrank", *FREE),
    "--inducing": (*SPARSE, *FREE, "sparse-pac"),
    "--nats": SPARSE,
    "--most": SPARSE,
    "--features": ("lowrank",),
    "--rank": ("lowrank",),
    "--dim": ("lowrank",),
    "--order": ("lowrank",),
    "--batch-size": ("exact", "renyi", *FREE),
    "--epsilon": CERTIFIED,
    "--delta": CERTIFIED,
    "--loss": CERTIFIED,
}
"""The options that some models do not have, and the models that have them."""

ARGUMENTS = {
    "--kernel-lengthscale": "lengthscales",
    "--inducing": "n_inducing",
    "--nats": "target_gap",
    "--most": "max_inducing",
    "--seed": "random_state",
    "--restarts": "n_restarts",
}
"""Arguments of the estimators whose names differ from those of the options."""

_UNIVERSAL = ("kernel", "max_iter", "tol", "optimizer", "learning_rate")
"""Arguments that all estimators have, and that begin messages of errors."""


def settings(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the estimator for the options that were ``given``, by name.

    Raises
    ------
    UsageError
        for an option that the model does not have, or that another one needs.
    """
    if given.get("--inducing") == "auto" and model not in SPARSE:
        raise UsageError(f"--inducing: expected a whole number for --model {model}, got auto, which sparse, renyi have")
    for option in given:
        having = MODELS_WITH.get(option, tuple(CLASSES))
        if model not in having:
            raise UsageError(f"{option} is an option of --model {', '.join(having)}, got --model {model}")
        if option in ("--nats", "--most") and given.get("--inducing") != "auto":
            raise UsageError(f"{option} is an option of --inducing auto, which chooses the number of points")
    arguments = {ARGUMENTS.get(option, option[2:].replace("-", "_")): value for option, value in given.items()}
    if model in CERTIFIED and "objective" in arguments:
        arguments["relaxation"] = arguments.pop("objective")
    if model == "sparse-pac" and "method" in arguments:
        arguments["posterior"] = arguments.pop("method")
        if arguments["posterior"] == "free":
            raise UsageError("--method: expected fitc or vfe for --model sparse-pac, got free, which has no noise")
    if arguments.get("lengthscales") == "ard":
        arguments["lengthscales"] = "separate"
    if "batch_size" in arguments:
        arguments.setdefault("optimizer", "adam")
    return arguments


def fitted(model: str, arguments: Mapping[str, Any], train: TableRows, family: Family, progress: bool = False) -> Any:
    """The estimator with a kernel of this family, fitted to the rows ``train``.

    Every input has its own lengthscale, whose start is in standard deviations of the input, so that the units of the
    columns do not matter.  Real targets are standardised, and predictions are in the units of the file.

    Raises
    ------
    ValueError, NotPositiveDefinite
        as the estimator, with the names of the options.
    """
    # The command line is an application above both packages: a test (tests/test_package.py) lists the files that import
    # fitting.
    from sklearn.exceptions import ConvergenceWarning

    from fitting import estimators

    chosen = dict(arguments)
    if model == "classifier":  # which compares shared and separate lengthscales of a kernel that it knows by name
        chosen["kernel"] = family.text
    elif not family.is_squared_exponential and "kernel" not in chosen:  # else they start with that one by themselves
        kernel = family.at(1.0, _widths(model, chosen.get("dim"), train), shared=False)
        chosen |= {"kernel": kernel, "start": "evidence" if isinstance(kernel, Stationary) else "scale"}
    if model in CERTIFIED:
        chosen |= {"scaling": _own_scaling(train), "nonrigorous": True}
    elif model != "classifier" and not str(chosen.get("likelihood", "")).startswith("poisson"):
        chosen["normalize_y"] = True
    try:
        estimator = getattr(estimators, CLASSES[model])(progress=progress, **chosen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the notes contain the same message
            return estimator.fit(train.X, train.y)
    except ValueError as error:
        raise ValueError(_in_words_of_the_shell(str(error), model)) from error


def _widths(model: str, dim: int | None, train: TableRows) -> Float:
    """√D standard deviations of each input of the kernel, in the units in which the model sees it."""
    if dim is not None or model in CERTIFIED:
        count = train.D if dim is None else dim
        return np.full(count, math.sqrt(count))
    stds = train.X.std(axis=0)
    return math.sqrt(train.D) * np.where(stds > 0.0, stds, 1.0)


def saved(path: Path) -> Any:
    """The estimator in a file that ``gpbounds train`` or the method ``save`` wrote.

    Raises
    ------
    ValueError, OSError
        for a file that cannot be read, or holds something else.
    """
    from fitting import load

    return load(path)


def _own_scaling(train: TableRows) -> tuple[Scaling, Scaling]:
    """Scalings to mean 0 and variance 1 of the rows for training; a constant column keeps its unit."""

    def scaling(values: Float) -> Scaling:
        std = values.std(axis=0)
        return Scaling("same data", values.mean(axis=0), np.where(std > 1e-12 * np.abs(values).max(axis=0), std, 1.0))

    return scaling(train.X), scaling(train.y)


def _in_words_of_the_shell(text: str, model: str) -> str:
    """``text`` with options in place of arguments and of estimators, if it begins with an argument or with y."""
    names = {value: key for key, value in ARGUMENTS.items()}
    if model in CERTIFIED:
        names |= {"relaxation": "--objective", "posterior": "--method"}

    def option(name: str) -> str | None:
        flag = names.get(name, "--" + name.replace("_", "-"))
        return flag if name in names or flag in MODELS_WITH or name in _UNIVERSAL else None

    name, colon, rest = text.partition(":")
    head = option(name) or name
    if not colon or (head == name and name != "y"):
        return text
    rest = re.sub(
        r"\b([a-z_]+)='([\w-]+)'", lambda part: f"{option(part[1])} {part[2]}" if option(part[1]) else part[0], rest
    )
    for key, estimator in CLASSES.items():
        rest = re.sub(rf"\b{estimator} serves", f"--model {key} serves", rest)
    return f"{head}:{rest.replace('expected None', 'expected not to be given')}"


def without_inputs(own: Predicted, estimator: Any, train: TableRows) -> Predicted:
    """One law for all rows: the Gaussian, the shares of labels, or the Poisson law of the targets for training."""
    zero = 0.0 * own.y
    if isinstance(own.likelihood, Bernoulli):
        from scipy.special import ndtri

        share = (np.sum(train.y == estimator.classes_[1]) + 0.5) / (train.N + 1.0)
        return Predicted(Bernoulli("probit"), own.y, zero + float(ndtri(share)), zero)
    if isinstance(own.likelihood, Poisson):
        return Predicted(Poisson("exp"), own.y, zero + math.log((train.y.sum() + 0.5) / train.N), zero)
    mean, variance = float(train.y.mean()), float(train.y.var())
    return Predicted(Gaussian(variance), own.shift + own.scale * own.y, zero + mean, zero)


def remarks(estimator: Any) -> Sequence[str]:
    """The remarks of training, once each, with the names of options."""
    texts = (for_the_shell(remark.text) for remark in estimator.remarks_)
    reason = for_the_shell(estimator.stop_reason_)
    return tuple(dict.fromkeys(text for text in texts if text not in reason))


_SPELLED = {
    "max_iter": "--max-iter",
    "tol is": "--tol is",
    "n_inducing='auto'": "--inducing auto",
    "target_gap": "--nats",
    "max_inducing": "--most",
}
"""Arguments that remarks of estimators name, as the shell spells them."""


def for_the_shell(text: str) -> str:
    """``text`` on one line, with the names of options instead of arguments."""
    line = " ".join(text.split())
    for name, option in _SPELLED.items():
        line = line.replace(name, option)
    return line


# Scores on the rows held out, as text, as JSON and as a figure.


@dataclass(frozen=True, eq=False)
class Result:
    """A trained model and its predictions at the rows held out.

    Attributes
    ----------
    model : str
        Its name among `CLASSES`.
    train, test : TableRows
    estimator : Any
    own, baseline : Predicted
        The model's predictions at ``test``, and one law for all rows.
    seed : int
    kept : Kept, optional
        What was not trained.
    """

    model: str
    train: TableRows
    test: TableRows
    estimator: Any
    own: Predicted
    baseline: Predicted
    seed: int
    kept: Kept | None = None

    @property
    def kernel(self) -> Kernel:
        """The kernel in the units of the table."""
        kernel = multiplied(self.estimator.kernel_, self.own.scale**2)
        inputs = getattr(self.estimator, "inputs_", None)
        if inputs is None or not hasattr(kernel, "lengthscale"):
            return kernel
        scaled: Any = kernel
        return replace(scaled, lengthscale=np.asarray(scaled.lengthscale) * np.asarray(inputs.scale))

    @property
    def likelihood(self) -> Likelihood:
        """The likelihood in the units of the table."""
        own, scale = self.own.likelihood, self.own.scale
        if isinstance(own, Gaussian):
            return Gaussian(scale**2 * own.noise)
        return replace(own, scale=scale * own.scale) if isinstance(own, StudentT) else own

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
        if hasattr(self.estimator, "lengthscales_"):
            about.append(f"{self.estimator.lengthscales_} lengthscales, which have the larger evidence")
        if hasattr(self.estimator, "inducing_"):
            about.append(f"{self.estimator.inducing_.shape[0]} inducing points")
        return ", ".join(about)


def report(result: Result) -> str:
    """Data, model, and the scores as a table."""
    train, test, estimator = result.train, result.test, result.estimator
    own, baseline = result.own.scores(), result.baseline.scores()
    scores = [(name, f"{value:.4g}", f"{baseline[name]:.4g}") for name, value in own.items()]
    described = describe_kernel(result.kernel, train.titles)
    lines = [
        wrapped(
            f"Data: {train.name}, target {train.target}, D = {train.D}: {train.N} rows for training, {test.N} held out "
            f"(seed {result.seed}). {' '.join(train.notes)}".rstrip()
        ),
        wrapped(f"Model: {result.what}. {for_the_shell(estimator.stop_reason_)}"),
        wrapped(f"Kernel: {described}, {likelihood(result)}. {units(result)}".rstrip()),
        *elsewhere(result),
        *evidence(result),
        "",
        table(("score on the rows held out", "model", "without inputs"), scores),
        "",
        wrapped(EXPLAINED.get(type(result.own.likelihood), OF_REAL_TARGETS)),
        *(wrapped(f"Note: {note}") for note in notes(result)),
    ]
    return "\n".join(lines)


_LOG_LOSS = "Log loss: the mean of -log p(target), in nats; lower is better."
OF_REAL_TARGETS = f"RMSE: in units of the target.  {_LOG_LOSS}"
EXPLAINED: dict[type, str] = {
    Bernoulli: f"Error: the share of wrong labels.  {_LOG_LOSS}  Calibration: the mean distance between predicted "
    "probability and share of labels, in ten bins.",
    Poisson: f"Relative error: |y - prediction|/max(y, 1).  {_LOG_LOSS}  Intervals of counts cover more than 95 % even "
    "if the model is right.",
}


def likelihood(result: Result) -> str:
    """The likelihood with its parameters in the units of the table."""
    own = result.likelihood
    if isinstance(own, Gaussian):
        return f"noise variance {short(own.noise)}"
    values = [f"{name}={short(getattr(own, name))}" for name in own.parameter_names]
    link = [f"link={own.link}"] if isinstance(own, Bernoulli | Poisson) else []
    return f"likelihood {type(own).__name__}({', '.join([*link, *values])})"


def elsewhere(result: Result) -> list[str]:
    """The kernel and the noise as options of other commands."""
    if not isinstance(result.likelihood, Gaussian):
        return []
    line = options_of(result.kernel, result.likelihood.noise)
    return [] if line is None else [f"To use it elsewhere: {line}"]


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
    """A sentence on the units of kernel and noise."""
    if (result.own.shift, result.own.scale) == (0.0, 1.0):
        return ""
    return "Numbers here are in the table's units; columns are standardised inside."


def notes(result: Result) -> list[str]:
    """Remarks of training, and what a certificate of this model does not say."""
    held = [] if result.kept is None else [result.kept.note]
    texts = [*held, *remarks_on_inputs(result.train), *remarks_on_split(result.train, result.test)]
    texts += [*grown(result.estimator), *remarks(result.estimator)]
    if result.model in CERTIFIED:
        texts.append(
            f"The bound on the Gibbs risk is {result.estimator.bound_:.4g} with probability "
            f"{100.0 * (1.0 - result.estimator.delta):g} %, if the units of the columns had been fixed in advance; "
            "here they come from the same rows.  gpbounds certify train issues a certificate that holds."
        )
    return texts


def grown(estimator: Any) -> list[str]:
    """What ``--inducing auto`` has proved, and what it is about."""
    gap = getattr(estimator, "gap_", math.inf)
    if getattr(estimator, "n_inducing", None) != "auto" or not gap <= estimator.target_gap:
        return []
    trained, M = estimator.trained_with_, estimator.inducing_.shape[0]
    near = f"within {in_nats(estimator.target_gap)} (at most {outward(gap, 'upper', 3)})"
    text = f"{M} inducing points bring the model {near} of the exact GP with this kernel and noise"
    if trained == len(estimator.X_train_):
        return [f"{text}, which were trained by its log p(y).  Training again with --inducing {M} moves them a little."]
    return [f"{text}." if trained == 0 else f"{text}, which were trained with {trained} points."]


def record(result: Result) -> dict[str, Any]:
    """The content of `report`, ready for JSON."""
    train, test, estimator = result.train, result.test, result.estimator
    bounds = getattr(estimator, "evidence_bounds_", None)
    return {
        "model": result.model,
        "estimator": type(estimator).__name__,
        "data": {
            "name": train.name,
            "N": train.N,
            "held out": test.N,
            "D": train.D,
            "target": train.target,
            "notes": train.notes,
        },
        "scores": result.own.scores(),
        "without inputs": result.baseline.scores(),
        "objective": estimator.objective_,
        "log evidence": None if bounds is None else [float(end) for end in bounds],
        "beta": getattr(estimator, "beta_", getattr(estimator, "beta", 1.0)),
        "kernel": kernel_record(result.kernel),
        "likelihood": result.likelihood.to_dict(),
        "inducing": inducing(estimator),
        "target": {"shift": result.own.shift, "scale": result.own.scale},
        "training": for_the_shell(estimator.stop_reason_),
        "iterations": estimator.n_iter_,
        "notes": notes(result),
    }


def inducing(estimator: Any) -> dict[str, Any] | None:
    """The number of inducing points; of ``--inducing auto`` the proved gap, and with how many it was trained."""
    if not hasattr(estimator, "inducing_"):
        return None
    growth: dict[str, Any] = {"M": int(estimator.inducing_.shape[0])}
    if hasattr(estimator, "gap_"):
        growth |= {"gap": estimator.gap_, "trained with": estimator.trained_with_}
    return growth


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
    kernel = headline(result.kernel, 1.0).rpartition(", noise")[0]
    scores = ", ".join(f"{name} {value:.4g}" for name, value in own.scores().items())
    return (
        f"{train.name}: {train.N:,} rows for training, {result.test.N:,} held out, D = {train.D}\n"
        f"{result.what}; {likelihood(result)}\n{kernel}\n{scores}"
    )
