"""Predictions of a fitted model at rows of a table, pass by pass: columns for a file, and scores of known targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri

from fitting.study.predicted import LEVEL, Predicted, latent
from gpbounds.arrays import Float
from gpbounds.likelihoods import Bernoulli, Gaussian, Poisson
from gpbounds.renyi.models import Model
from gpbounds.validation import open_unit, scalar
from gpbounds.whitening import slices

PASS = 2**14
"""Rows that are predicted at a time."""


class Imported:
    """A model of another library with its q(u), with the attributes of a fitted estimator that `Predictor` reads.

    Raises
    ------
    ValueError
        for a model without q(u), whose predictions depend on rows that it does not hold.
    NotPositiveDefinite
        as `gpbounds.renyi.models.InducingLaw.posterior`.
    """

    def __init__(self, model: Model) -> None:
        if model.q is None or model.Z is None:
            raise ValueError(
                "expected a model with a law of its inducing variables, as an SVGP has one, got a model of another "
                "library without one: its predictions depend on the rows for training, which the file does not hold; "
                "predict with that library"
            )
        self._prior_mean, self._posterior = model.mean, model.q.posterior(model.kernel, model.Z)
        D = model.Z.shape[1]
        self.noise_, self.n_features_in_, self.X_train_ = model.noise, D, np.empty((0, D))
        self.y_mean_, self.y_scale_ = np.zeros(1), np.ones(1)

    def predict(self, X: Float, return_std: bool = True) -> tuple[Float, Float]:
        """Mean and standard deviation of f at X (n, D)."""
        made = self._posterior.predict(X)
        mean = made.mean if self._prior_mean is None else made.mean + self._prior_mean(X)
        return mean, np.sqrt(made.variance)


Columns = dict[str, Any]
"""Arrays (n,) by the names of their columns: numbers, or texts."""


class Predictor:
    """The predictions of a fitted ``model``, whose columns say what they are, and their scores.

    Parameters
    ----------
    model : a fitted estimator of one target
    level : float in (0, 1)
        Probability of the intervals of targets.

    Raises
    ------
    ValueError
        for a model of several targets, and a ``level`` that is no probability.

    >>> from fitting import ExactGP
    >>> X = np.linspace(0.0, 6.0, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> made = Predictor(ExactGP().fit(X, y), 0.9)
    >>> [sorted(columns) for columns in made.of(X, y)]
    [['high_90', 'low_90', 'mean', 'row', 'std_f', 'std_y', 'target']]
    >>> sorted(made.scores()["all rows"])
    ['RMSE', 'coverage of 90 % intervals', 'log loss']
    """

    def __init__(self, model: Any, level: float = LEVEL) -> None:
        self.model, self.level = model, scalar(open_unit, "level", level)
        if np.size(model.y_mean_) != 1:
            raise ValueError(f"expected a model of one target, got one of {np.size(model.y_mean_)}")
        self.likelihood, *_ = latent(model, np.zeros((1, model.n_features_in_)))
        self.known: list[Predicted] = []
        self._seen: list[Any] = []
        self._training = {row.tobytes() for row in np.asarray(model.X_train_, dtype=np.float64) + 0.0}

    @property
    def noisy(self) -> bool:
        """Whether the model has a law of new targets; the free posterior of a `SparsePACGP` has one of f only."""
        return not (hasattr(self.model, "certificate_") and getattr(self.model, "posterior", "") == "free")

    @property
    def explained(self) -> dict[str, str]:
        """What each column holds, in order, by its name; ``target`` is there if the table has targets."""
        percent, about = f"{100.0 * self.level:.12g}", {"row": "number of the row in the table, from 1"}
        if isinstance(self.likelihood, Bernoulli):
            about["label"] = "the more probable label"
            return about | {f"probability_{name}": f"probability of {name}" for name in self.model.classes_}
        ends = {f"{end}_{percent}": f"{end} end of the central {percent} % interval of y" for end in ("low", "high")}
        if isinstance(self.likelihood, Poisson):
            return about | {"mean": "mean of the count y", **ends}
        about |= {"mean": "mean of f and of y", "std_f": "standard deviation of f, the function without noise"}
        if isinstance(self.likelihood, Gaussian) and self.noisy:
            about["std_y"] = "standard deviation of y = f + noise, a new target"
        return about | (ends if self.noisy else {})

    def of(self, X: Float, y: Any = None, tell: Callable[[int], Any] = lambda rows: None) -> Iterator[Columns]:
        """The columns for the rows of X (N, D), at most `PASS` rows at a time; ``tell`` learns how many each time.

        Parameters
        ----------
        X : array (N, D)
        y : array (N,), optional
            Targets or labels, in the units of the model's table.

        Raises
        ------
        ValueError
            for another number of columns, and for a label that the model does not know.
        """
        if X.shape[1] != self.model.n_features_in_:
            raise ValueError(f"expected {self.model.n_features_in_} inputs, got {X.shape[1]}")
        for rows in slices(len(X), PASS):
            yield self._columns(X[rows], None if y is None else y[rows], rows.start)
            tell(rows.stop - rows.start)

    def _columns(self, X: Float, y: Any, first: int) -> Columns:
        """The columns for some rows, of which the first has the number ``first`` from 0."""
        likelihood, mean, std, shift, scale = latent(self.model, X)
        at = Predicted.at(self.model, (likelihood, mean, std, shift, scale), y)
        columns: Columns = {"row": np.arange(first + 1, first + len(X) + 1)}
        names = [name for name in self.explained if name != "row"]
        if isinstance(likelihood, Bernoulli):
            parts = [likelihood.predictive_mean(sign * at.mean, at.variance) for sign in (-1.0, 1.0)]
            values = [self.model.classes_[(at.mean > 0.0).astype(int)], *parts]
        elif isinstance(likelihood, Poisson):
            values = [at.predicted(), *(end.astype(np.int64) for end in at.interval(self.level))]
        elif not self.noisy:
            values = [mean, std]
        elif isinstance(likelihood, Gaussian):
            noisy = np.sqrt(std**2 + likelihood.noise * scale**2)
            reach = float(ndtri(0.5 * (1.0 + self.level))) * noisy
            values = [mean, std, noisy, mean - reach, mean + reach]
        else:
            values = [mean, std, *at.interval(self.level)]
        columns |= dict(zip(names, values, strict=True))
        if y is not None:
            columns["target"] = y
            self.known.append(at)
            self._seen.append(self._of_training(X))
        return columns

    def _of_training(self, X: Float) -> Any:
        """Truth values (n,): which rows of X were used in the training."""
        scaling = getattr(self.model, "inputs_", None)
        points = (X if scaling is None else scaling.apply(X)) + 0.0
        return np.array([row.tobytes() in self._training for row in points], dtype=bool)

    @property
    def seen(self) -> int:
        """Number of rows with a target so far that were used in the training."""
        return int(sum(map(np.sum, self._seen)))

    def scores(self) -> dict[str, dict[str, float]]:
        """The scores of the predictions so far whose targets are known, by name, for groups of rows.

        The groups are "all rows" and, if the model was trained on some of them but not on all, "new rows".
        """
        if not self.known:
            return {}
        parts, new = [Predicted.together(self.known)], ~np.concatenate(self._seen)
        if 0 < new.sum() < new.size:
            parts.append(parts[0].rows(new))
        names = ("all rows", "new rows")
        return {name: part.scores(self.level, self.noisy) for name, part in zip(names, parts, strict=False)}
