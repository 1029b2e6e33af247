"""Models that ``gpbounds train`` fits: their options, training, and scores on rows that were held out."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fitting.study.predicted import Predicted
from gpbounds.arrays import Float
from gpbounds.cli.examples import Examples
from gpbounds.cli.families import SQUARED_EXPONENTIAL, Family
from gpbounds.cli.options import UsageError
from gpbounds.kernels import Stationary
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson
from gpbounds.pacbayes import Scaling

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
    "--mean": ("exact", *SPARSE, "lowrank", *FREE),
    "--inducing": (*SPARSE, *FREE, "sparse-pac"),
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

ARGUMENTS = {"--inducing": "n_inducing", "--seed": "random_state", "--restarts": "n_restarts"}
"""Arguments of the estimators whose names differ from those of the options."""

UNIVERSAL = ("kernel", "max_iter", "tol", "optimizer", "learning_rate")
"""Arguments that all estimators have, and that begin messages of errors."""


def settings(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the estimator for the options that were ``given``, by name.

    Raises
    ------
    UsageError
        for an option that the model does not have.
    """
    for option in given:
        having = MODELS_WITH.get(option, tuple(CLASSES))
        if model not in having:
            raise UsageError(f"{option} is an option of --model {', '.join(having)}, got --model {model}")
    arguments = {ARGUMENTS.get(option, option[2:].replace("-", "_")): value for option, value in given.items()}
    if model in CERTIFIED and "objective" in arguments:
        arguments["relaxation"] = arguments.pop("objective")
    if model == "sparse-pac" and "method" in arguments:
        arguments["posterior"] = arguments.pop("method")
        if arguments["posterior"] == "free":
            raise UsageError("--method: expected fitc or vfe for --model sparse-pac, got free, which has no noise")
    if "batch_size" in arguments:
        arguments.setdefault("optimizer", "adam")
    return arguments


def fitted(model: str, arguments: Mapping[str, Any], train: Examples, family: Family, progress: bool = False) -> Any:
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
    if family.text != SQUARED_EXPONENTIAL.text:  # with which the estimators start if no kernel is passed
        kernel = family.at(1.0, _widths(model, chosen.get("dim"), train), shared=False)
        chosen |= {"kernel": kernel, "start": "evidence" if isinstance(kernel, Stationary) else "scale"}
    if model in CERTIFIED:
        chosen |= {"scaling": own_scaling(train), "nonrigorous": True}
    elif model != "classifier" and not str(chosen.get("likelihood", "")).startswith("poisson"):
        chosen["normalize_y"] = True
    try:
        estimator = getattr(estimators, CLASSES[model])(progress=progress, **chosen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the notes contain the same message
            return estimator.fit(train.X, train.y)
    except ValueError as error:
        raise ValueError(in_words_of_the_shell(str(error), model)) from error


def _widths(model: str, dim: int | None, train: Examples) -> Float:
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


def own_scaling(train: Examples) -> tuple[Scaling, Scaling]:
    """Scalings to mean 0 and variance 1 of the rows for training; a constant column keeps its unit."""

    def scaling(values: Float) -> Scaling:
        std = values.std(axis=0)
        return Scaling("same data", values.mean(axis=0), np.where(std > 1e-12 * np.abs(values).max(axis=0), std, 1.0))

    return scaling(train.X), scaling(train.y)


def in_words_of_the_shell(text: str, model: str) -> str:
    """``text`` with options in place of arguments and of estimators, if it begins with an argument or with y."""
    names = {value: key for key, value in ARGUMENTS.items()}
    if model in CERTIFIED:
        names |= {"relaxation": "--objective", "posterior": "--method"}

    def option(name: str) -> str | None:
        flag = names.get(name, "--" + name.replace("_", "-"))
        return flag if name in names or flag in MODELS_WITH or name in UNIVERSAL else None

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


def without_inputs(own: Predicted, estimator: Any, train: Examples) -> Predicted:
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


def for_the_shell(text: str) -> str:
    """``text`` on one line, with the names of options instead of arguments."""
    return " ".join(text.split()).replace("max_iter", "--max-iter").replace("tol is", "--tol is")
