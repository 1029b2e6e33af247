"""Predictions of a fitted estimator at rows with known targets, in the units of these targets, and their scores."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitting import metrics
from gpbounds.arrays import Float
from gpbounds.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson

LEVEL = 0.95
"""Probability of the intervals whose coverage is reported."""


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of a fitted model at rows with known targets.

    Attributes
    ----------
    likelihood : Likelihood
    y, mean, variance : arrays (n,)
        Targets, and mean and variance of the latent f, in the units of the likelihood.
    shift, scale : float
        The target in the units of the file is shift + scale·y.
    """

    likelihood: Likelihood
    y: Float
    mean: Float
    variance: Float
    shift: float = 0.0
    scale: float = 1.0

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

    def scores(self) -> dict[str, float]:
        """The scores of these predictions by name, errors in the units of the file."""
        about = (self.likelihood, self.y, self.mean, self.variance)
        loss = metrics.log_loss(*about)
        if isinstance(self.likelihood, Bernoulli):
            return {
                "error": metrics.classification_error(self.y, self.mean),
                "log loss": loss,
                "expected calibration error": metrics.calibration_error(self.y, self.predicted()),
            }
        scores = {f"coverage of {100 * LEVEL:g} % intervals": metrics.coverage(*about, level=LEVEL)}
        if isinstance(self.likelihood, Poisson):
            return {
                "mean relative error": metrics.mean_relative_error(self.y, self.predicted()),
                "log loss": loss,
                **scores,
            }
        truth = self.shift + self.scale * self.y
        rmse = math.sqrt(metrics.square_loss(truth, self.predicted()))
        return {"RMSE": rmse, "log loss": loss + math.log(self.scale), **scores}

    def ranks(self, seed: int) -> Float:
        """The randomised probability integral transform of each target, uniform under a true model."""
        return metrics.randomised_pit(self.likelihood, self.y, self.mean, self.variance, seed)


def predicted(estimator: Any, X: Float, y: Any) -> Predicted:
    """The predictions of a fitted estimator at the rows X (n, D), whose targets are y (n,)."""
    likelihood = getattr(estimator, "likelihood_", None) or Gaussian(estimator.noise_)
    latent = getattr(estimator, "latent", estimator.predict)
    with by_position():
        mean, std = latent(X, return_std=True)
    shift, scale = float(estimator.y_mean_[0]), float(estimator.y_scale_[0])
    if isinstance(likelihood, Bernoulli):
        unknown = ~np.isin(y, estimator.classes_)
        if unknown.any():
            raise ValueError(
                f"y: expected the labels of the rows for training, {estimator.classes_.tolist()}, in the rows held "
                f"out, got {y[unknown].tolist()[0]!r}"
            )
        y = np.where(y == estimator.classes_[1], 1.0, 0.0)
    return Predicted(likelihood, (y - shift) / scale, (mean - shift) / scale, (std / scale) ** 2, shift, scale)


def joint(estimator: Any, X: Any) -> Any:
    """The joint covariance of the latent f at X, in squared units of the targets."""
    latent = getattr(estimator, "latent", estimator.predict)
    with by_position():
        return latent(X, return_cov=True)[1]


def noise_of(estimator: Any) -> float:
    """The noise variance of a fitted estimator with Gaussian noise, in its own units of the target."""
    likelihood = getattr(estimator, "likelihood_", None)
    return float(estimator.noise_ if likelihood is None else likelihood.noise)


@contextmanager
def by_position() -> Iterator[None]:
    """Predict from arrays also with a model of a data frame, whose columns have been compared before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
