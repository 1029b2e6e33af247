"""Predictions of a fitted estimator at rows with known targets, in the units of these targets, and their scores."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting import metrics
from gpbounds.arrays import Float
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson

LEVEL = 0.95
"""Probability of the intervals whose coverage is reported."""


Latent = tuple[Likelihood, Float, Float, float, float]
"""The likelihood, means and standard deviations of f, and (shift, scale) from its units to those of the targets."""


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of a fitted model at rows.

    Attributes
    ----------
    likelihood : Likelihood
    y, mean, variance : arrays (n,)
        Targets, and mean and variance of the latent f, in the units of the likelihood; y is NaN if it is not known.
    shift, scale : float
        The target in the units of the file is shift + scale·y.
    """

    likelihood: Likelihood
    y: Float
    mean: Float
    variance: Float
    shift: float = 0.0
    scale: float = 1.0

    @classmethod
    def at(cls, estimator: Any, law: Latent, y: Any = None) -> Predicted:
        """The predictions from the ``law`` of f at some rows, whose targets or labels are y (n,)."""
        likelihood, mean, std, shift, scale = law
        m, v = (mean - shift) / scale, (std / scale) ** 2
        if y is None:
            return cls(likelihood, np.full(len(mean), np.nan), m, v, shift, scale)
        if isinstance(likelihood, Bernoulli):
            unknown = ~np.isin(y, estimator.classes_)
            if unknown.any():
                raise ValueError(
                    f"y: expected the labels of the rows for training, {estimator.classes_.tolist()}, got "
                    f"{y[unknown].tolist()[0]!r}"
                )
            y = np.where(y == estimator.classes_[1], 1.0, 0.0)
        return cls(likelihood, (y - shift) / scale, m, v, shift, scale)

    @classmethod
    def together(cls, parts: Sequence[Predicted]) -> Predicted:
        """The predictions of one model at all rows of ``parts``."""
        y, mean, variance = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("y", "mean", "variance")
        )
        return replace(parts[0], y=y, mean=mean, variance=variance)

    def rows(self, kept: Any) -> Predicted:
        """The predictions at the rows of the mask ``kept``."""
        return replace(self, y=self.y[kept], mean=self.mean[kept], variance=self.variance[kept])

    def predicted(self) -> Float:
        """The predictive means, in the units of the file; for labels, probabilities of the second one."""
        return self.shift + self.scale * self.likelihood.predictive_mean(self.mean, self.variance)

    def interval(self, level: float) -> tuple[Float, Float]:
        """The central intervals of targets, in the units of the file."""
        low, high = (
            self.shift + self.scale * self.likelihood.predictive_quantile(p, self.mean, self.variance)
            for p in (0.5 * (1.0 - level), 0.5 * (1.0 + level))
        )
        return low, high

    def scores(self, level: float = LEVEL, noisy: bool = True) -> dict[str, float]:
        """The scores of these predictions by name, errors in the units of the file.

        Without ``noisy``, of a model that has no law of targets, only the error of the means.
        """
        about = (self.likelihood, self.y, self.mean, self.variance)
        truth = self.shift + self.scale * self.y
        if not noisy:
            return {"RMSE": math.sqrt(metrics.square_loss(truth, self.predicted()))}
        loss = metrics.log_loss(*about)
        if isinstance(self.likelihood, Bernoulli):
            return {
                "error": metrics.classification_error(self.y, self.mean),
                "log loss": loss,
                "expected calibration error": metrics.calibration_error(self.y, self.predicted()),
            }
        scores = {f"coverage of {100 * level:.12g} % intervals": metrics.coverage(*about, level=level)}
        if isinstance(self.likelihood, Poisson):
            return {
                "mean relative error": metrics.mean_relative_error(self.y, self.predicted()),
                "log loss": loss,
                **scores,
            }
        rmse = math.sqrt(metrics.square_loss(truth, self.predicted()))
        return {"RMSE": rmse, "log loss": loss + math.log(self.scale), **scores}

    def ranks(self, seed: int) -> Float:
        """The randomised probability integral transform of each target, uniform under a true model."""
        return metrics.randomised_pit(self.likelihood, self.y, self.mean, self.variance, seed)


def latent(estimator: Any, X: Float) -> Latent:
    """The law of f at the rows X (n, D), in the units of the targets, and what makes targets of it."""
    likelihood = getattr(estimator, "likelihood_", None) or Gaussian(noise_of(estimator))
    with by_position():
        mean, std = getattr(estimator, "latent", estimator.predict)(X, return_std=True)
    return likelihood, mean, std, float(estimator.y_mean_[0]), float(estimator.y_scale_[0])


def predicted(estimator: Any, X: Float, y: Any) -> Predicted:
    """The predictions of a fitted estimator at the rows X (n, D), whose targets are y (n,)."""
    return Predicted.at(estimator, latent(estimator, X), y)


def joint(estimator: Any, X: Any) -> Any:
    """The joint covariance of the latent f at X, in squared units of the targets."""
    with by_position():
        return getattr(estimator, "latent", estimator.predict)(X, return_cov=True)[1]


def noise_of(estimator: Any) -> float:
    """The noise variance of a fitted estimator with Gaussian noise, in its own units of the target."""
    likelihood = getattr(estimator, "likelihood_", None)
    if np.ndim(getattr(estimator, "noise_", 0.0)):
        raise ValueError(
            "model: expected one whose rows share a noise variance, got one with a noise for each row, which says "
            "nothing about that of new rows"
        )
    return float(estimator.noise_ if likelihood is None else likelihood.noise)


@contextmanager
def by_position() -> Iterator[None]:
    """Predict from arrays also with a model of a data frame, whose columns have been compared before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
