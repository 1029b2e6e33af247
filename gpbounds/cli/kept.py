"""Kernel, noise and mean that ``gpbounds train`` keeps: those of a model, or numbers in the units of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.cli.options import UsageError
from gpbounds.kernels import Kernel
from gpbounds.kernels.families import Family
from gpbounds.means import LinearMean

MODELS = ("exact", "sparse", "renyi")
"""The models that keep a kernel."""

GAUSSIAN = ("ExactGP", "SparseGP", "RenyiGP", "VariationalGP")
"""Estimators whose kernel, noise and mean another model can keep."""


@dataclass(frozen=True)
class Kept:
    """What is not trained.

    Attributes
    ----------
    arguments : dict
        Of the estimator, whose target has mean 0 and variance 1.
    note : str
        What was kept, as a sentence.
    """

    arguments: dict[str, Any]
    note: str


@dataclass(frozen=True)
class _Source:
    """Kernel, noise and mean of a model for the target shift + scale·y, and its inducing points."""

    kernel: Kernel
    noise: float
    mean: LinearMean | None
    Z: Any
    shift: float = 0.0
    scale: float = 1.0


def of_model(path: Path, train: Any, M: int | None) -> Kept:
    """Kernel, noise and mean of the model at ``path``: .npz of an estimator, or .json of another library.

    With ``M`` inducing points their training starts where an audit of the model counts: from greedy rows, or from those
    of the model and further rows, whichever are better.

    Raises
    ------
    ValueError, OSError
        for a file that holds no such model, or one of other inputs.
    """
    from fitting.study.standardised import multiplied

    source = _source(path, train.D)
    shift, scale = _units(train)
    arguments: dict[str, Any] = {"kernel": source.kernel, "noise": source.noise, "start": "scale", "fixed": "all"}
    if (source.shift, source.scale) == (shift, scale):  # the same rows: no digit changes
        arguments["mean"] = "zero" if source.mean is None else source.mean
    else:
        ratio = source.scale / scale
        arguments |= {"kernel": multiplied(source.kernel, ratio**2), "noise": ratio**2 * source.noise}
        inner = LinearMean(0.0) if source.mean is None else source.mean
        intercept = (source.shift + source.scale * inner.intercept - shift) / scale
        arguments["mean"] = LinearMean(intercept, None if inner.slopes is None else ratio * np.asarray(inner.slopes))
    if M is not None:
        arguments["inducing"] = _start(source, train, M)
    return Kept(arguments, f"Kernel, noise and mean are those of {path}; they were not trained.")


def _start(source: _Source, train: Any, M: int) -> Any:
    """M inducing points with which training starts."""
    from fitting.objectives.objective import objective
    from fitting.starts.starts import choose_inducing, with_further

    greedy = choose_inducing(source.kernel, train.X, M, "greedy", np.random.default_rng(0))
    if source.Z is None or len(source.Z) > M:
        return greedy
    targets = (train.y - source.shift) / source.scale
    residuals = targets if source.mean is None else targets - source.mean(train.X)
    elbo = objective(train.X, residuals, "vfe")
    more = with_further(source.kernel, train.X, source.Z, M)
    values = [elbo.evaluate(source.kernel, source.noise, Z, gradient=False).value for Z in (greedy, more)]
    return greedy if values[0] >= values[1] else more


def _source(path: Path, D: int) -> _Source:
    from fitting import load
    from fitting.study.predicted import noise_of
    from gpbounds.likelihoods import Gaussian
    from gpbounds.renyi import Model

    if path.suffix == ".json":
        imported = Model.load(path)
        _check_inputs(path, imported.kernel, imported.mean, D)
        return _Source(imported.kernel, imported.noise, imported.mean, imported.Z)
    if path.suffix != ".npz":
        raise UsageError(f"--keep-kernel: expected a file .npz or .json, got {path}")
    model: Any = load(path)
    name, likelihood = type(model).__name__, getattr(model, "likelihood_", None)
    if name not in GAUSSIAN or not isinstance(likelihood, Gaussian | type(None)) or model.y_scale_.size != 1:
        raise ValueError(
            f"--keep-kernel: expected a model of one target with Gaussian noise, {', '.join(GAUSSIAN)}, got a {name} "
            f"in {path}"
        )
    if model.n_features_in_ != D:
        raise ValueError(f"--keep-kernel: expected a model of {D} inputs, got one of {model.n_features_in_} in {path}")
    shift, scale = float(model.y_mean_[0]), float(model.y_scale_[0])
    return _Source(model.kernel_, noise_of(model), model.mean_, getattr(model, "inducing_", None), shift, scale)


def _check_inputs(path: Path, kernel: Kernel, mean: LinearMean | None, D: int) -> None:
    """Refuse a kernel or a mean of other inputs than D."""
    row = np.zeros((1, D))
    try:
        kernel(row)
        if mean is not None:
            mean(row)
    except ValueError as error:
        raise ValueError(f"--keep-kernel: expected a model of {D} inputs in {path}: {error}") from None


def of_numbers(
    family: Family,
    variance: float | None,
    lengthscale: list[float] | None,
    noise: float | None,
    *,
    train: Any,
    points: bool,
) -> Kept:
    """The numbers given, in the units of the table; what is None is trained.

    Where nothing is trained but inducing ``points``, they start at greedy rows, which plans and audits count.

    Raises
    ------
    UsageError
        for numbers that are not positive, another number of lengthscales, or a kernel without these parameters.
    """
    given: dict[str, list[float]] = {
        "--variance": [] if variance is None else [variance],
        "--lengthscale": lengthscale or [],
        "--noise": [] if noise is None else [noise],
    }
    for option, values in given.items():
        if not all(value > 0.0 for value in values):
            raise UsageError(f"{option}: expected positive numbers, got {', '.join(f'{value:g}' for value in values)}")
    if len(given["--lengthscale"]) not in (0, 1, train.D):
        raise UsageError(
            f"--lengthscale: expected one number, or one for each of the {train.D} inputs, got "
            f"{len(given['--lengthscale'])}"
        )
    _, scale = _units(train)
    arguments: dict[str, Any] = {"fixed": ()}
    if variance is not None or lengthscale is not None:
        kernel, held = _stated(family, variance, lengthscale, train, scale)
        free = set(kernel.parameter_names) - set(held)
        varied = free and not hasattr(kernel, "period")  # a start by fits from several lengthscales
        arguments = {"kernel": kernel, "start": "evidence" if varied else "scale", "fixed": held}
    if noise is not None:
        arguments |= {"noise": noise / scale**2, "fixed": (*arguments["fixed"], "noise")}
    if points and arguments.get("start") == "scale" and noise is not None:  # nothing but inducing points is trained
        arguments["inducing"] = "greedy"
    kept = [f"{option[2:]}{'s' * (len(values) > 1)}" for option, values in given.items() if values]
    listed = " and ".join(filter(None, [", ".join(kept[:-1]), kept[-1]]))
    return Kept(arguments, f"Kept as given, not trained: {listed}.")


def _stated(
    family: Family, variance: float | None, lengthscale: list[float] | None, train: Any, scale: float
) -> tuple[Any, tuple[str, ...]]:
    """The kernel of a family with these numbers, for the target divided by ``scale``, and the names of those given."""
    widths = np.sqrt(train.D) * np.where(train.X.std(axis=0) > 0.0, train.X.std(axis=0), 1.0)
    kernel: Any = family.at(1.0, widths, shared=False)
    if not hasattr(kernel, "lengthscale"):
        raise UsageError(
            "--variance, --lengthscale: expected --kernel se, matern12, matern32, matern52, rq or periodic with them, "
            f"got {family.text}: keep another kernel by --keep-kernel"
        )
    held: list[str] = []
    if variance is not None:
        kernel, held = replace(kernel, variance=variance / scale**2), ["variance"]
    if lengthscale is not None:
        kernel = replace(kernel, lengthscale=np.broadcast_to(lengthscale, (train.D,)).astype(np.float64))
        held += [name for name in kernel.parameter_names if name.startswith("lengthscale")]
    return kernel, tuple(held)


def _units(train: Any) -> tuple[float, float]:
    """Mean and standard deviation of the target, as estimators with ``normalize_y`` compute them."""
    from fitting.starts.starts import units

    columns = train.y[:, None]
    return float(columns.mean(axis=0)[0]), float(units(columns)[0])
