"""Whether the intervals of predictions cover as many held-out targets as they claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, array_of
from gpbounds.audit.ranks import Ranges, ranges
from gpbounds.errors import NotPositiveDefinite, shown
from gpbounds.linalg import Cholesky, cholesky
from gpbounds.validation import count, finite, generator, positive, repetitions, within_memory

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
DELTA = Fraction(1, 20)
"""Largest probability that any share or bin lies outside its range if the predictions are right."""
SETS = 1999
"""Sets of targets that are drawn from the model."""
MOST = 2000
"""Rows that are tested: sets of targets at n rows take O(n³ + n² `SETS`) time."""
SAME = 1e-4
"""Relative difference of ``variance`` from the diagonal of ``covariance``, by rounding."""
_MARGINALS = "not tested: the predictions give the law of each target, but not the joint law of all"
_UNRESOLVED = "not tested: the joint covariance of the targets is not positive definite at double precision"


@dataclass(frozen=True)
class Coverage:
    """The share of targets within the central intervals of one level.

    Attributes
    ----------
    level, share : float
    low, high : float or None
        The range of the share, one of the ranges of `Calibration`; None where there is no test.
    """

    level: float
    share: float
    low: float | None = None
    high: float | None = None

    @property
    def plausible(self) -> bool | None:
        """Whether the share is in its range; None where there is no test."""
        return None if self.low is None or self.high is None else self.low <= self.share <= self.high

    @property
    def verdict(self) -> str:
        """What the share says of the intervals, in words."""
        if self.low is None or self.high is None:
            return "not tested"
        if self.share < self.low:
            return "too narrow"
        return "too wide" if self.share > self.high else "as expected"


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predictions N(mean, variance) of targets at n held-out rows, k of which are tested together.

    If the predictions are right, then all shares and all numbers of bins lie in their ranges with a probability of at
    least 95 %, whatever the dependence of the targets (N-rank).

    Attributes
    ----------
    y, mean, variance : arrays (n,)
        Targets, and the laws of targets, noise included, in the units of y.
    pit : array (n,)
        P(Y ≤ y) under the prediction; uniform if the predictions are right.
    coverage : tuple of Coverage
        Shares of the tested rows; of all rows where there is no test.
    bins : array (B,)
        Number of ``pit`` of the same rows in each of B equal parts of [0, 1].
    bin_ranges : array (B, 2) or None
        The range of each of these numbers; None where there is no test.
    tested : array (k,)
        The rows of shares and bins: numbers from 0 to n − 1.
    test : Ranges or None
        The test, with its p-value.
    untested : str or None
        Why there is no test.
    rmse, log_loss : float
        √mean (y − mean)², and −mean log p(y) in nats, of all rows.
    baseline : (float, float)
        The same of one normal law for all rows, if there is one.
    """

    y: Float
    mean: Float
    variance: Float
    pit: Float
    coverage: tuple[Coverage, ...]
    bins: Float
    bin_ranges: Float | None
    tested: Any
    test: Ranges | None
    untested: str | None
    rmse: float
    log_loss: float
    baseline: tuple[float, float] | None = None

    @property
    def n(self) -> int:
        """Number of held-out rows."""
        return int(self.y.size)

    @property
    def strange_bins(self) -> list[int]:
        """The bins whose number is outside its range, from 0."""
        if self.bin_ranges is None:
            return []
        low, high = self.bin_ranges.T
        return [int(i) for i in np.flatnonzero((self.bins < low) | (self.bins > high))]

    @property
    def plausible(self) -> bool | None:
        """Whether all shares and all bins are in their ranges; None where there is no test."""
        return None if self.test is None else all(each.plausible for each in self.coverage) and not self.strange_bins

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        spans = self.bin_ranges
        return {
            "rows": self.n,
            "coverage": [vars(each) | {"plausible": each.plausible} for each in self.coverage],
            "PIT": self.bins.tolist(),
            "expected in each bin": None if spans is None else [float(spans[:, 0].min()), float(spans[:, 1].max())],
            "PIT ranges": None if spans is None else spans.tolist(),
            "test": self.test
            and {
                "claim": "N-rank",
                "rows": int(self.tested.size),
                "sets": self.test.sets,
                "delta": float(DELTA),
                "p-value": self.test.p_value,
                "plausible": self.plausible,
            },
            "untested": self.untested,
            "RMSE": self.rmse,
            "log loss": self.log_loss,
            "without inputs": self.baseline and {"RMSE": self.baseline[0], "log loss": self.baseline[1]},
        }


def calibration(
    y: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    *,
    covariance: ArrayLike | None = None,
    rows: ArrayLike | None = None,
    baseline: tuple[float, float] | None = None,
    sets: int = SETS,
    rng: int | np.random.Generator = 0,
) -> Calibration:
    """Coverage of central intervals and the probability integral transform of normal predictions of targets.

    Held-out targets are dependent given the training rows, and a share of them is not binomial.  So ``sets`` sets of
    targets are drawn from the joint law N(mean, covariance), and the shares of y are ranked among theirs: if y is from
    that law, all shares and bins lie within their ranges with a probability of at least 95 % (claim N-rank; up to the
    rounding of the covariance).

    Parameters
    ----------
    y, mean, variance : arrays (n,)
        Held-out targets, and the predictive laws of targets (noise included).
    covariance : array (k, k), optional
        Joint covariance of the targets (noise included) at ``rows``; ``np.diag(variance)`` for independent targets.
        Without it nothing is tested, as marginal laws do not say how far a share may be from its level.
    rows : array (k,) of int, optional
        The rows of ``covariance``, by default all; they must have been chosen without y (see `rows_to_test`).
    baseline : (float, float), optional
        Mean and variance of one normal law for all rows, whose scores are reported beside the model's.
    sets : int
    rng : int or numpy.random.Generator

    Raises
    ------
    ValueError, NonFinite
        for shapes that differ, NaN, a variance that is not positive or is not that of ``covariance``.

    >>> rng = np.random.default_rng(0)
    >>> result = calibration(rng.standard_normal(500), np.zeros(500), np.ones(500), covariance=np.eye(500))
    >>> [each.plausible for each in result.coverage], result.plausible
    ([True, True, True, True, True], True)
    """
    from scipy.special import ndtr

    level = None if baseline is None else _baseline(baseline)
    sets = repetitions("sets", sets)
    targets, means, variances = finite("y", y), finite("mean", mean), positive("variance", variance)
    if targets.ndim != 1 or targets.size == 0 or not targets.shape == means.shape == variances.shape:
        raise ValueError(
            f"y, mean, variance: expected arrays of one shape (n,) with n >= 1, got {targets.shape}, {means.shape} and "
            f"{variances.shape}"
        )
    n, tested = targets.size, _rows(rows, targets.size)
    pit = ndtr((targets - means) / np.sqrt(variances))
    size = 10 if tested.size >= 100 else 5
    observed = _statistics(pit[tested, None], size)[0]
    test: Ranges | None = None
    untested: str | None = _MARGINALS
    if covariance is not None:
        joint, std = _joint(covariance, variances[tested]), np.sqrt(variances[tested])
        try:
            factor = cholesky(joint, name="covariance")
        except NotPositiveDefinite:
            untested = _UNRESOLVED
        else:
            drawn = np.concatenate(list(_simulated(factor, std, repetitions("sets", sets), size, rng)))
            test, untested = ranges(observed, drawn, delta=DELTA), None
    k, shares, bins = tested.size, observed[: len(LEVELS)], observed[len(LEVELS) :]
    spans = None if test is None else np.clip(np.stack([test.low, test.high], axis=1), 0.0, float(k))
    covered = [
        Coverage(level, float(share) / k, *(() if spans is None else (spans[i] / k).tolist()))
        for i, (level, share) in enumerate(zip(LEVELS, shares, strict=True))
    ]
    return Calibration(
        targets,
        means,
        variances,
        pit,
        tuple(covered),
        bins,
        None if spans is None else spans[len(LEVELS) :],
        tested,
        test,
        untested,
        *_scores(targets, means, variances),
        None if level is None else _scores(targets, np.full(n, level[0]), np.full(n, level[1])),
    )


def rows_to_test(n: int, rng: int | np.random.Generator = 0, most: int = MOST) -> Any:
    """The rows to test: all of n, or ``most`` of them at random, without a look at y; sorted.

    >>> rows_to_test(5), rows_to_test(5, most=2).size
    (array([0, 1, 2, 3, 4]), 2)
    """
    rows, chosen, source = count("n", n), count("most", most), generator(rng)
    with within_memory("n"):
        return np.arange(rows) if rows <= chosen else np.sort(source.permutation(rows)[:chosen])


def _baseline(baseline: Any) -> Float:
    """Mean and variance of one normal law."""
    law = finite("baseline", baseline)
    if law.shape != (2,) or not law[1] > 0.0:
        raise ValueError(f"baseline: expected a mean and a variance > 0, got {shown(baseline)}")
    return law


def _rows(rows: ArrayLike | None, n: int) -> Any:
    """The numbers of the tested rows."""
    if rows is None:
        return np.arange(n)
    numbers = array_of(np, "rows", rows)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not 0 < np.unique(numbers).size == numbers.size:
        raise ValueError(f"rows: expected different row numbers, shape (k,), got {numbers.dtype} of {numbers.shape}")
    if numbers.min() < 0 or numbers.max() >= n:
        raise ValueError(f"rows: expected numbers from 0 to {n - 1}, got {numbers.min()} to {numbers.max()}")
    return numbers.astype(np.int64)


def _joint(covariance: ArrayLike, variances: Float) -> Float:
    """The covariance of the tested targets, checked against their variances."""
    joint, k = finite("covariance", covariance), variances.size
    if joint.shape != (k, k):
        raise ValueError(f"covariance: expected shape ({k}, {k}), one row for each tested target, got {joint.shape}")
    apart = np.abs(joint.diagonal() / variances - 1.0)
    if apart.max() > SAME:
        i = int(apart.argmax())
        raise ValueError(
            f"covariance: expected the variances of the targets, noise included, on its diagonal, got "
            f"{joint[i, i]:.6g} where variance is {variances[i]:.6g}"
        )
    return joint


def _simulated(factor: Cholesky, std: Float, sets: int, size: int, rng: Any) -> Iterator[Float]:
    """The statistics of sets of targets from N(mean, LLᵀ), some sets at a time."""
    from scipy.special import ndtr

    source = generator(rng)
    for start in range(0, sets, 250):
        noise = source.standard_normal((std.size, min(250, sets - start)))
        yield _statistics(ndtr((np.tril(factor.L) @ noise) / std[:, None]), size)


def _statistics(pit: Float, size: int) -> Float:
    """Numbers of covered targets and of the bins, (sets, levels + bins), from P(Y ≤ y) of (rows, sets)."""
    inside = np.abs(2.0 * pit - 1.0)
    covered = [(inside <= level).sum(axis=0) for level in LEVELS]
    place = np.minimum((pit * size).astype(np.int64), size - 1)
    bins = [(place == i).sum(axis=0) for i in range(size)]
    return np.stack([*covered, *bins], axis=1).astype(np.float64)


def _scores(y: Float, mean: Float, variance: Float) -> tuple[float, float]:
    """Root mean squared error, and −mean log N(y; mean, variance)."""
    with np.errstate(over="ignore"):
        error = (y - mean) ** 2
    loss = 0.5 * np.mean(np.log(2.0 * np.pi * variance) + error / variance)
    return float(np.sqrt(error.mean())), float(loss)
