"""Predictions of any model at rows that its training had not seen: of estimators, imported models, files and arrays."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.base import BaseEstimator, is_classifier

from fitting.estimators import GaussianProcess, SparsePACGP
from fitting.estimators.pac import PacGaussianProcess
from fitting.study.predicted import by_position
from gpbounds.arrays import Float, exactly, host, is_cupy, unmasked
from gpbounds.likelihoods import Gaussian, Poisson
from gpbounds.pacbayes import Scaling
from gpbounds.pacbayes.certificate.rows import Raw, Scaled
from gpbounds.renyi import Model
from gpbounds.rows.tables import csv_numbers, lines_of
from gpbounds.validation import finite, positive

CLOSE = 1e-9
"""Largest difference, relative to the largest target, of a target that counts as one of training."""

ONE_DEVIATION = float(ndtr(1.0) - ndtr(-1.0))
"""Probability of a central interval whose half width takes the place of a standard deviation."""


@dataclass(frozen=True, eq=False)
class UnseenPredictions:
    """Predictions at n rows that the model has not seen.

    Attributes
    ----------
    values : array (n,)
        Numbers in the units of the targets as they were passed, or labels.
    spread : array (n,) or None
        The standard deviation of a new target, or a number in its place; None for a model that has none.
    """

    values: Any
    spread: Float | None = None

    @property
    def spreads(self) -> Float:
        """``spread``, or 1 at every row."""
        return np.ones(len(self.values)) if self.spread is None else self.spread


class UnseenPredictor(ABC):
    """A fixed function of the inputs, which no certified row has influenced."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A phrase that names it in a certificate."""

    @abstractmethod
    def at(self, rows: Raw, *, spread: bool = False) -> UnseenPredictions:
        """Its predictions at raw rows, with the spread on request."""


def kind_of(model: Any) -> str:
    """Whether ``model`` is "unfitted" or "fitted", "imported", or predictions that are "given".

    Raises
    ------
    ValueError
        for something else, and for an imported model without its own law.
    """
    if isinstance(model, Model):
        return "imported"
    if hasattr(model, "fit") and hasattr(model, "predict"):
        return "fitted" if _is_fitted(model) else "unfitted"
    is_array = isinstance(model, np.ndarray | list | tuple) or hasattr(model, "to_numpy")
    if is_array or isinstance(model, str | os.PathLike):
        return "given"
    raise ValueError(
        f"model: expected an estimator with fit and predict, a gpbounds.renyi.Model, the path of a CSV file of "
        f"predictions, or predictions (n,), got {type(model).__name__}: gpbounds.renyi.from_gpytorch, from_gpflow and "
        "from_gpjax read models of these libraries, and any model's predictions can be passed"
    )


def _is_fitted(model: Any) -> bool:
    """Whether an estimator has been fitted.

    `sklearn.utils.validation.check_is_fitted` accepts unfitted models that predict without a fit, such as a
    GaussianProcessRegressor, and pipelines that end in one.
    """
    last = _last_step(model)
    if hasattr(last, "__sklearn_is_fitted__"):
        return bool(last.__sklearn_is_fitted__())
    return any(name.endswith("_") and not name.startswith("__") for name in vars(last))


# ----------------------------------------------------------------------------------------------------------------------
# Models.


@dataclass(frozen=True, eq=False)
class OfModel(UnseenPredictor):
    """The predictions of a fitted estimator.

    Attributes
    ----------
    model : estimator
        With ``predict``; fitted to ``inputs.apply(X)`` and ``outputs.apply(y)`` for raw X and y.
    inputs, outputs : Scaling
    table : data frame or None
        A table whose columns name the inputs, for a model that was fitted to such a table.
    origin : str
        Which rows trained it.
    """

    model: Any
    inputs: Scaling
    outputs: Scaling
    table: Any = None
    origin: str = "trained on other rows"

    @property
    def name(self) -> str:
        return f"{title_of(self.model)}, {self.origin}"

    def at(self, rows: Raw, *, spread: bool = False) -> UnseenPredictions:
        parts = [self._at(part.X.astype(np.float64, copy=False), spread) for part in rows.partitions() if len(part.X)]
        values = np.concatenate([part.values for part in parts])
        if any(part.spread is None for part in parts):
            return UnseenPredictions(values)
        return UnseenPredictions(values, np.concatenate([part.spreads for part in parts]))

    def _at(self, X: Float, spread: bool) -> UnseenPredictions:
        """The predictions at raw X (n, D), which is one partition."""
        points = named(self.table, self.inputs.apply(X))
        with by_position():
            values, own = _predicted(self.model, points, spread)
        if labels_rows(self.model):
            return UnseenPredictions(one_column("predict", values, len(X)))
        shift, scale = float(np.ravel(self.outputs.shift)[0]), float(np.ravel(self.outputs.scale)[0])
        numbers = shift + scale * finite("predict", one_column("predict", values, len(X)))
        if own is None:
            return UnseenPredictions(numbers)
        deviations = scale * one_column("predict", own, len(X))
        return UnseenPredictions(numbers, positive("the standard deviation of a prediction", deviations))


@dataclass(frozen=True, eq=False)
class OfImported(UnseenPredictor):
    """The predictions of a model of another library with its q(u)."""

    model: Model
    inputs: Scaling
    outputs: Scaling

    @property
    def name(self) -> str:
        return "an imported sparse GP with its q(u), trained on other rows"

    def at(self, rows: Raw, *, spread: bool = False) -> UnseenPredictions:
        if self.model.q is None or self.model.Z is None:
            raise ValueError(
                "model: expected a Model with its q(u), got one without, whose predictions depend on the rows of its "
                "training: pass its predictions, (mean, std), for these rows"
            )
        law = self.model.q.posterior(self.model.kernel, self.model.Z)
        means, variances = [], []
        for X, _ in rows.parts(self.inputs, Scaling()):
            at_rows = law.predict(X)
            means.append(host(at_rows.mean) + (0.0 if self.model.mean is None else self.model.mean(X)))
            variances.append(host(at_rows.variance))
        shift, scale = float(np.ravel(self.outputs.shift)[0]), float(np.ravel(self.outputs.scale)[0])
        values = shift + scale * np.concatenate(means)
        return UnseenPredictions(
            values, scale * np.sqrt(np.concatenate(variances) + self.model.noise) if spread else None
        )


def labels_rows(model: Any) -> bool:
    """Whether ``model`` is a classifier, by the tags of scikit-learn."""
    return isinstance(model, BaseEstimator) and bool(is_classifier(model))


def _predicted(model: Any, points: Any, spread: bool) -> tuple[Any, Any]:
    """What ``model`` predicts, and its standard deviation with noise, if it has one and it is asked for."""
    if not spread or labels_rows(model):
        return _on_host(model.predict(points)), None
    if isinstance(model, GaussianProcess):
        return _with_noise(model, points)
    if "return_std" in inspect.signature(_last_step(model).predict).parameters:
        return model.predict(points, return_std=True)
    return _on_host(model.predict(points)), None


def _with_noise(model: Any, points: Any) -> tuple[Any, Any]:
    """Mean and standard deviation of a new target, or of other likelihoods a number in its place."""
    likelihood = getattr(model, "likelihood_", None)
    free = isinstance(model, SparsePACGP) and model.posterior == "free"
    if free or model._row_noise is not None:  # a law of f only; the noise of new rows is not known
        return host(model.predict(points)), None
    if likelihood is None or isinstance(likelihood, Gaussian):
        mean, std = model.predict(points, return_std=True, noisy=True)
        return host(mean), host(std)
    mean = host(model.predict(points))
    if isinstance(likelihood, Poisson):
        return mean, np.sqrt(mean)  # the standard deviation of a count with this mean
    low, high = (host(end) for end in model.predict_interval(points, ONE_DEVIATION))
    return mean, 0.5 * (high - low)


def _last_step(model: Any) -> Any:
    """The estimator at the end of a pipeline, which takes the arguments of its ``predict``."""
    while getattr(model, "steps", None):
        model = model.steps[-1][1]
    return model


def _on_host(values: Any) -> Any:
    """Predictions in host memory: numbers, or labels as they are."""
    return host(values) if is_cupy(values) else np.asarray(values)


def one_column(name: str, values: Any, n: int) -> Any:
    """``values`` as n numbers or labels; a model of several outputs is refused."""
    array = np.asarray(values)
    if array.shape == (n, 1):
        array = array[:, 0]
    if array.shape != (n,):
        raise ValueError(
            f"{name}: expected one prediction for each of {n} rows, got shape {array.shape}: certify the outputs one "
            "by one, each with a share of delta"
        )
    return array


def title_of(model: Any) -> str:
    """The name of a model's class; of a pipeline that of its last step as well."""
    last = _last_step(model)
    own = type(model).__name__
    return own if last is model else f"{own} with {type(last).__name__}"


def named(table: Any, X: Float) -> Any:
    """X as a table with the columns of ``table``, or X itself without one."""
    if table is None:
        return X
    columns = list(table.columns)
    return type(table)(X, columns=columns) if hasattr(table, "iloc") else type(table)(X, schema=columns)


# ----------------------------------------------------------------------------------------------------------------------
# Predictions that are given: in a file, or in arrays.


@dataclass(frozen=True, eq=False)
class PassedPredictions(UnseenPredictor):
    """Predictions that were passed, for all rows in their order.

    Attributes
    ----------
    values, spread : as in `UnseenPredictions`
    source : str
        Where they come from.
    labels : bool
        Whether they are labels.
    """

    values: Any
    spread: Float | None
    source: str
    labels: bool = False

    @property
    def name(self) -> str:
        return f"the predictions {self.source}"

    def at(self, rows: Raw, *, spread: bool = False) -> UnseenPredictions:
        N = rows.shape[0]
        if len(self.values) != N:
            raise ValueError(
                f"model: expected one prediction for each of the {N} certified rows, in their order, got "
                f"{len(self.values)} {self.source}"
            )
        return UnseenPredictions(self.values, self.spread if spread else None)


COLUMNS = (
    "a header line with the column 'mean', the columns 'mean' and 'std', or the column 'label', or that of a file of "
    "gpbounds predict"
)


def in_file(path: str | os.PathLike[str], numeric: bool) -> PassedPredictions:
    """The predictions in a CSV file with a header: mean, mean and std, or label; or as ``gpbounds predict`` writes it.

    Parameters
    ----------
    path : path
    numeric : bool
        Whether the labels of the rows are numbers; those of the file are then read as numbers.

    Raises
    ------
    ValueError
        for another header, cells that hold no number, or a std that is not positive: the message names file and line.
    OSError
        if the file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "predictions.csv"
    ...     _ = path.write_text("mean,std\\n0.5,1\\n0.25,2\\n", encoding="utf-8")
    ...     read = in_file(path, numeric=True)
    >>> read.values.tolist(), read.spread.tolist(), read.name
    ([0.5, 0.25], [1.0, 2.0], 'the predictions in predictions.csv')
    """
    file = Path(path)
    lines = lines_of(file)
    first = next(lines, None)
    header = [] if first is None else [cell.strip().lower() for cell in first[1]]
    of_predict = header[:1] == ["row"] and len({"mean", "label"} & set(header)) == 1
    if not of_predict and sorted(header) not in (["mean"], ["mean", "std"], ["label"]):
        got = "no line" if first is None else f"{', '.join(map(repr, first[1][:6]))} in line {first[0]}"
        raise ValueError(f"{path}: expected {COLUMNS}, got {got}")
    source, spread = f"in {file.name}", "std_y" if of_predict else "std"
    if "label" in header:
        return PassedPredictions(_labels(file, header, lines, numeric), None, source, True)
    wanted = [name for name in header if name in ("mean", spread)]
    table, numbers = csv_numbers(file, _columns(file, header, lines, wanted), True)
    means = table[:, wanted.index("mean")]
    if spread not in wanted:
        return PassedPredictions(means, None, source)
    deviations = table[:, wanted.index(spread)]
    wrong = np.flatnonzero(~(deviations > 0.0))
    if wrong.size:
        raise ValueError(
            f"{path}: expected a positive {spread} in every row, got {deviations[wrong[0]]:g} in line "
            f"{numbers[wrong[0]]}"
        )
    return PassedPredictions(means, deviations, source)


_Lines = Iterator[tuple[int, list[str]]]


def _columns(path: Path, header: list[str], lines: _Lines, wanted: list[str]) -> _Lines:
    """The cells of the ``wanted`` columns in each line."""
    places = [header.index(name) for name in wanted]
    for line, cells in lines:
        if len(cells) != len(header):
            raise ValueError(f"{path}: expected {len(header)} columns in every row, got {len(cells)} in line {line}")
        yield line, [cells[place] for place in places]


def _labels(path: Path, header: list[str], lines: _Lines, numeric: bool) -> Any:
    """The column of labels, as numbers or as texts."""
    column = _columns(path, header, lines, ["label"])
    if numeric:
        return csv_numbers(path, column, True)[0][:, 0]
    return np.array([cells[0].strip() for _, cells in column], dtype=object)


def in_arrays(passed: Any, labels: bool) -> PassedPredictions:
    """Predictions (n,), or a pair (mean, std) of such arrays; with ``labels``, or where they are no numbers, labels."""
    source = "that were passed"
    if isinstance(passed, tuple) and len(passed) == 2 and np.ndim(passed[0]) > 0:
        mean, std = (finite("model", exactly("model", part)) for part in passed)
        if mean.ndim != 1 or mean.shape != std.shape:
            raise ValueError(f"model: expected (mean, std) of one shape (n,), got {mean.shape} and {std.shape}")
        return PassedPredictions(mean, positive("model", std), source)
    array = np.asarray(unmasked("model", passed))
    if array.ndim != 1:
        raise ValueError(f"model: expected predictions (n,), or a pair (mean, std) of them, got shape {array.shape}")
    if labels or array.dtype.kind not in "iuf":
        return PassedPredictions(array, None, source, True)
    return PassedPredictions(finite("model", exactly("model", passed)), None, source)


def given_as(model: Any, *, labels: bool, numeric: bool) -> PassedPredictions:
    """The predictions in a file, or in arrays; see `in_file` and `in_arrays`."""
    return in_file(model, numeric) if isinstance(model, str | os.PathLike) else in_arrays(model, labels)


# ----------------------------------------------------------------------------------------------------------------------
# Rows of training among those to be certified.


def refuse_seen(model: Any, rows: Raw, inputs: Scaling, outputs: Scaling, labels: Sequence[Any] | None = None) -> None:
    """Refuse rows that a fitted model keeps as rows of its training.

    ``labels`` are those of which the targets of ``rows`` are numbers.

    Raises
    ------
    ValueError
        with the number of such rows.
    """
    seen = count_seen(model, rows, inputs, outputs, labels)
    if seen:
        raise ValueError(
            f"X, y: expected rows that the model had not seen, got {rows.shape[0]} of which {seen} are among the "
            f"{len(model.X_train_)} rows of its training, whose errors say nothing about new ones. Pass the rows that "
            "were held out; or an unfitted model, sklearn.base.clone(model), which is trained on a share of these rows "
            "and certified by the others; or method='pac-bayes', for a GP and exactly the rows of its training. If new "
            "rows happen to be equal to those, certify the model's predictions for them, certify(predictions, X, y, …)"
        )


def count_seen(model: Any, rows: Raw, inputs: Scaling, outputs: Scaling, labels: Sequence[Any] | None = None) -> int:
    """The number of ``rows`` that are rows of the training of ``model``, as far as it keeps them.

    Inputs must be equal, targets up to rounding.
    """
    trained = _rows_of_training(model, labels)
    if trained is None:
        return 0
    X, y = trained
    places: dict[bytes, list[int]] = {}
    for place, row in enumerate(X):
        places.setdefault(row.tobytes(), []).append(place)
    largest, seen = float(np.abs(y).max(initial=0.0)), 0
    own = (model.inputs_, Scaling()) if isinstance(model, PacGaussianProcess) else (Scaling(), Scaling())
    for part in map(Scaled(*own), map(Scaled(inputs, outputs), rows.partitions())):
        points, targets = part.X.astype(np.float64) + 0.0, part.Y[:, 0]
        for row, target in zip(points, targets, strict=True):
            same = places.get(row.tobytes())
            seen += same is not None and bool((np.abs(y[same] - target) <= CLOSE * largest).any())
    return seen


def _rows_of_training(model: Any, labels: Sequence[Any] | None) -> tuple[Float, Float] | None:
    """X and y of training as the model keeps them, y in the units in which it was passed; None if it keeps none."""
    X, y = getattr(model, "X_train_", None), getattr(model, "y_train_", None)
    if X is None or y is None or np.ndim(X) != 2 or np.ndim(y) != 1 or len(X) == 0:
        return None
    points = np.ascontiguousarray(host(X), dtype=np.float64) + 0.0  # −0 becomes 0
    targets = np.asarray(host(y), dtype=np.float64)
    if labels is not None:  # of which −1 and 1 stand for two
        if not isinstance(model, GaussianProcess):
            return None
        places = np.array([labels.index(label) for label in model.classes_.tolist()], dtype=np.float64)
        return points, places[(targets > 0.0).astype(int)]
    if not isinstance(model, GaussianProcess):  # scikit-learn's regressor
        return points, targets * getattr(model, "_y_train_std", 1.0) + getattr(model, "_y_train_mean", 0.0)
    if isinstance(model, PacGaussianProcess) and model.mean_ is not None:
        mean: Any = model.mean_
        targets = targets + mean(points)
    return points, float(model.y_mean_[0]) + float(model.y_scale_[0]) * targets
