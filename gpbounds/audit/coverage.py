"""Whether the intervals of predictions cover as many held-out targets as they claim."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.validation import finite, positive

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
CONFIDENCE = 0.95
"""Probability of the range in which the share of covered targets lies if the model is right."""


@dataclass(frozen=True)
class Coverage:
    """The share of targets within the central intervals of one level.

    Attributes
    ----------
    level, share : float
    low, high : float
        The range of the share, with probability at least 95 % if the predictions are right (binomial quantiles).
    """

    level: float
    share: float
    low: float
    high: float

    @property
    def plausible(self) -> bool:
        """Whether the share is in its range."""
        return self.low <= self.share <= self.high


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predictions N(mean, variance) of targets at n held-out rows.

    Attributes
    ----------
    y, mean, variance : arrays (n,)
        Targets, and the laws of targets, noise included, in the units of y.
    pit : array (n,)
        P(Y ≤ y) under the prediction; uniform if the predictions are right.
    coverage : tuple of Coverage
    bins : array (B,)
        Number of ``pit`` in each of B equal parts of [0, 1].
    expected : (float, float)
        The range of each of these numbers, with probability at least 95 % if the predictions are right.
    rmse, log_loss : float
        √mean (y − mean)², and −mean log p(y) in nats.
    baseline : (float, float)
        The same of one normal law for all rows, if there is one.
    """

    y: Float
    mean: Float
    variance: Float
    pit: Float
    coverage: tuple[Coverage, ...]
    bins: Float
    expected: tuple[float, float]
    rmse: float
    log_loss: float
    baseline: tuple[float, float] | None = None

    @property
    def n(self) -> int:
        """Number of held-out rows."""
        return int(self.y.size)

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {
            "rows": self.n,
            "coverage": [vars(each) | {"plausible": each.plausible} for each in self.coverage],
            "PIT": self.bins.tolist(),
            "expected in each bin": list(self.expected),
            "RMSE": self.rmse,
            "log loss": self.log_loss,
            "without inputs": self.baseline and {"RMSE": self.baseline[0], "log loss": self.baseline[1]},
        }


def calibration(
    y: ArrayLike, mean: ArrayLike, variance: ArrayLike, *, baseline: tuple[float, float] | None = None
) -> Calibration:
    """Coverage of central intervals and the probability integral transform of normal predictions of targets.

    Parameters
    ----------
    y, mean, variance : arrays (n,)
        Held-out targets, and the predictive laws of targets (noise included).
    baseline : (float, float), optional
        Mean and variance of one normal law for all rows, whose scores are reported beside the model's.

    Raises
    ------
    ValueError, NonFinite
        for shapes that differ, NaN, or a variance that is not positive.

    >>> rng = np.random.default_rng(0)
    >>> result = calibration(rng.standard_normal(500), np.zeros(500), np.ones(500))
    >>> [each.plausible for each in result.coverage]
    [True, True, True, True, True]
    """
    from scipy.special import ndtr
    from scipy.stats import binom

    targets, means, variances = finite("y", y), finite("mean", mean), positive("variance", variance)
    if targets.ndim != 1 or targets.size == 0 or not targets.shape == means.shape == variances.shape:
        raise ValueError(
            f"y, mean, variance: expected arrays of one shape (n,) with n >= 1, got {targets.shape}, {means.shape} and "
            f"{variances.shape}"
        )
    n, tail = targets.size, 0.5 * (1.0 - CONFIDENCE)
    pit = ndtr((targets - means) / np.sqrt(variances))
    shares = [float(np.mean(np.abs(2.0 * pit - 1.0) <= level)) for level in LEVELS]
    ranges = [[float(end) / n for end in binom.ppf([tail, 1.0 - tail], n, level)] for level in LEVELS]
    size = 10 if n >= 100 else 5
    bins = np.bincount(np.minimum((pit * size).astype(np.int64), size - 1), minlength=size).astype(np.float64)
    expected = tuple(float(end) for end in binom.ppf([tail, 1.0 - tail], n, 1.0 / size))
    rmse, loss = _scores(targets, means, variances)
    return Calibration(
        targets,
        means,
        variances,
        pit,
        tuple(Coverage(level, share, *ends) for level, share, ends in zip(LEVELS, shares, ranges, strict=True)),
        bins,
        (expected[0], expected[1]),
        rmse,
        loss,
        None if baseline is None else _scores(targets, np.full(n, baseline[0]), np.full(n, baseline[1])),
    )


def _scores(y: Float, mean: Float, variance: Float) -> tuple[float, float]:
    """Root mean squared error, and −mean log N(y; mean, variance)."""
    error = (y - mean) ** 2
    loss = 0.5 * np.mean(np.log(2.0 * np.pi * variance) + error / variance)
    return float(np.sqrt(error.mean())), float(loss)
