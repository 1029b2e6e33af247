"""Log losses and squared errors of predictions between proved ends, and paired differences of two predictions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.validation import finite, noise_variance, open_unit, scalar

_ULP = float(np.finfo(np.float64).eps)
_LOSS_ULPS = 8.0
"""Units in the last place that log, division and sum of a log loss may miss together, of each of its two terms."""
_SHARE = 1e-9
"""By so much the ends of a binomial range are moved outwards, for the error of the inverse of the beta integral."""


class Enclosure(NamedTuple):
    """A number, or an array of numbers, that lies between ``low`` and ``high``."""

    low: Any
    high: Any

    @property
    def middle(self) -> Any:
        """The centre of the two ends."""
        return 0.5 * (self.low + self.high)

    @property
    def width(self) -> Any:
        """The distance of the two ends."""
        return self.high - self.low


def shifted(ends: tuple[Any, Any], by: Any) -> Enclosure:
    """The ends with ``by`` added, rounded outwards."""
    return Enclosure(np.nextafter(ends[0] + by, -np.inf), np.nextafter(ends[1] + by, np.inf))


def squared_error_ends(y: ArrayLike, mean: tuple[ArrayLike, ArrayLike]) -> Enclosure:
    """Ends of (y − m)² for every m between the ends of ``mean``.

    Parameters
    ----------
    y : array (n,)
    mean : (array (n,), array (n,))
        Lower and upper ends of the predictive means; infinite ends are allowed.

    Returns
    -------
    Enclosure of arrays (n,)
        Rounded outwards.

    Raises
    ------
    ValueError
        for shapes that differ, NaN, infinite targets, or a lower end above the upper one.

    >>> low, high = squared_error_ends([1.0, 0.0], ([0.5, -1.0], [0.5, 2.0]))
    >>> low.round(6), high.round(6)
    (array([0.25, 0.  ]), array([0.25, 4.  ]))
    """
    targets, below, above = _checked("y", y, "mean", mean)
    first = np.nextafter(targets - above, -np.inf)  # y − m lies between first and last
    last = np.nextafter(targets - below, np.inf)
    near = np.maximum(np.maximum(first, -last), 0.0)
    far = np.maximum(np.abs(first), np.abs(last))
    return Enclosure(np.maximum(np.nextafter(near * near, -np.inf), 0.0), np.nextafter(far * far, np.inf))


def log_loss_ends(
    y: ArrayLike, mean: tuple[ArrayLike, ArrayLike], variance: tuple[ArrayLike, ArrayLike], noise: float
) -> Enclosure:
    """Ends of −log N(y; m, v + σ²) for every m and v between their ends.

    With r² = (y − m)² and s = v + σ² the log loss is ½ log(2πs) + r²/(2s), which grows with r² and, as a function of
    s, falls up to s = r² and grows from there: its least value is at the least r² and at the s nearest to it, its
    greatest one at the greatest r² and at one of the two ends of s.

    Parameters
    ----------
    y : array (n,)
    mean, variance : (array (n,), array (n,))
        Lower and upper ends of the means and variances of the latent f; infinite ends are allowed, and a lower end of
        a variance below 0 counts as 0.
    noise : float
        σ², in squared units of y.

    Returns
    -------
    Enclosure of arrays (n,)
        In nats, rounded outwards.

    Raises
    ------
    ValueError
        as `squared_error_ends`, and for a noise variance that is not positive.

    >>> low, high = log_loss_ends([0.0], ([0.0], [1.0]), ([0.0], [0.5]), 1.0)
    >>> low.round(6), high.round(6)
    (array([0.918939]), array([1.455004]))
    """
    sigma2 = noise_variance(noise)
    errors = squared_error_ends(y, mean)
    _, below, above = _checked("y", y, "variance", variance)
    least = np.maximum(np.nextafter(np.maximum(below, 0.0) + sigma2, -np.inf), sigma2)
    most = np.nextafter(np.maximum(above, 0.0) + sigma2, np.inf)
    best = np.clip(errors.low, least, most)
    low = _log_loss(errors.low, best)
    ends = [_log_loss(errors.high, s) for s in (least, most)]
    return Enclosure(low[0], np.maximum(ends[0][1], ends[1][1]))


def _log_loss(square: Float, s: Float) -> tuple[Float, Float]:
    """½ log(2πs) + r²/(2s), rounded down and up; infinite where an argument is."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        log, ratio = 0.5 * np.log(2.0 * np.pi * s), 0.5 * (square / s)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)  # ∞/∞
        value, error = log + ratio, _LOSS_ULPS * _ULP * (1.0 + np.abs(log) + ratio)
        low = np.where(np.isfinite(value), value - error, np.where(np.isfinite(log), 0.0, -np.inf))
        return np.where(np.isfinite(square), low, -np.inf), np.where(np.isfinite(value), value + error, np.inf)


def _checked(name: str, y: ArrayLike, other: str, ends: tuple[ArrayLike, ArrayLike]) -> tuple[Float, Float, Float]:
    targets = np.asarray(finite(name, y), dtype=np.float64)
    below, above = (np.asarray(end, dtype=np.float64) for end in ends)
    if targets.ndim != 1 or targets.size == 0 or not targets.shape == below.shape == above.shape:
        raise ValueError(
            f"{name}, {other}: expected arrays of one shape (n,) with n >= 1, got {targets.shape}, {below.shape} and "
            f"{above.shape}"
        )
    if not (below <= above).all():  # also False for NaN
        i = int(np.flatnonzero(~(below <= above))[0])
        raise ValueError(f"{other}: expected lower ends below the upper ones, got {below[i]:g} and {above[i]:g} at {i}")
    return targets, below, above


def average(ends: tuple[Float, Float]) -> Enclosure:
    """Ends of the mean of numbers between ``ends``, rounded outwards.

    >>> low, high = average((np.array([1.0, 2.0]), np.array([1.0, 3.0])))
    >>> round(low, 9), round(high, 9)
    (1.5, 2.0)
    """
    low, high = (_sum(end) / len(end) for end in ends)
    return Enclosure(_moved(low, -math.inf), _moved(high, math.inf))


def root_mean(squares: tuple[Float, Float]) -> Enclosure:
    """Ends of √mean of non-negative numbers between the ends ``squares``, rounded outwards.

    >>> low, high = root_mean((np.array([9.0, 16.0]), np.array([9.0, 16.0])))
    >>> low <= math.sqrt(12.5) <= high
    True
    """
    low, high = average(squares)
    return Enclosure(max(_moved(math.sqrt(max(low, 0.0)), -math.inf), 0.0), _moved(math.sqrt(high), math.inf))


def _sum(values: Float) -> float:
    """The correctly rounded sum; infinite if a number is, or if it overflows."""
    if not np.isfinite(values).all():
        return float(values.sum())
    try:
        return math.fsum(values.tolist())
    except OverflowError:
        return math.copysign(math.inf, float(np.sign(values).sum()))


def _moved(value: float, outwards: float) -> float:
    """Two units in the last place further out, for a sum and a division or a root, each correctly rounded."""
    return math.nextafter(math.nextafter(value, outwards), outwards)


@dataclass(frozen=True)
class Difference:
    """The mean over rows of first − second, for two predictions of the same rows: negative where the first is better.

    Attributes
    ----------
    rows : int
        n.
    mean : float
        The centre of ``enclosure``.
    enclosure : Enclosure of floats
        Proved: the mean difference at these rows.
    interval : Enclosure of floats
        For the mean difference at all such rows: every Student interval of differences within their enclosures.
        Approximate, as Student's intervals are for rows of another than the normal law.
    share : Enclosure of floats
        Proved for rows that are drawn independently: of all such rows, the share at which the first prediction is
        better, by the binomial law (Clopper and Pearson), whatever the law of the differences.
    confidence : float
        Of ``interval`` and of ``share``.
    """

    rows: int
    enclosure: Enclosure
    interval: Enclosure
    share: Enclosure
    confidence: float = 0.95

    @property
    def mean(self) -> float:
        """The centre of the enclosure."""
        return float(self.enclosure.middle)

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {
            "mean": self.mean,
            "enclosure": list(self.enclosure),
            "interval": list(self.interval),
            "share better": list(self.share),
            "confidence": self.confidence,
        }


def difference(
    first: tuple[Float, Float], second: tuple[Float, Float], *, slack: Float | float = 0.0, confidence: float = 0.95
) -> Difference:
    """The paired difference first − second of scores of two predictions of the same rows.

    Parameters
    ----------
    first, second : (array (n,), array (n,))
        Ends of the scores of each row, as `log_loss_ends` and `squared_error_ends` return them.
    slack : array (n,) or float
        Differences up to so much count as none in ``share``.
    confidence : float

    Returns
    -------
    Difference

    Raises
    ------
    ValueError
        for shapes that differ, NaN, or a confidence outside (0, 1).

    >>> apart = difference(([0.0, 0.1, 0.2], [0.0, 0.1, 0.3]), ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5]))
    >>> [round(end, 4) for end in apart.enclosure], [round(end, 3) for end in apart.share]
    ([-0.4, -0.3667], [0.292, 1.0])
    """
    level = scalar(open_unit, "confidence", confidence)
    _, below, above = _checked("zeros", np.zeros(len(first[0])), "first", first)
    _, least, most = _checked("zeros", np.zeros(len(below)), "second", second)
    row = Enclosure(np.nextafter(below - most, -np.inf), np.nextafter(above - least, np.inf))
    n = len(row.low)
    better = int((row.high < -np.asarray(slack)).sum())
    possible = int((row.low < -np.asarray(slack)).sum())
    return Difference(n, average(row), _student(row, level), binomial_range(better, possible, n, level), level)


def _student(row: Enclosure, confidence: float) -> Enclosure:
    """The union of Student's intervals for the mean of n numbers, over all numbers between their ends.

    With numbers c + e, |e| ≤ w: their mean is within mean w of that of c, and their standard deviation at most that of
    c plus that of e, which is at most √(Σw²/(n − 1)).
    """
    from scipy.special import stdtrit

    n = len(row.low)
    if n < 2 or not (np.isfinite(row.low).all() and np.isfinite(row.high).all()):
        return Enclosure(-math.inf, math.inf)
    centre, half = row.middle, 0.5 * row.width
    spread = float(centre.std(ddof=1)) + math.sqrt(float(half @ half) / (n - 1))
    reach = float(stdtrit(n - 1, 0.5 + 0.5 * confidence)) * spread / math.sqrt(n) + float(half.mean())
    middle = float(centre.mean())
    return Enclosure(middle - reach, middle + reach)


def binomial_range(least: int, most: int, n: int, confidence: float) -> Enclosure:
    """A range for the probability of a success after between ``least`` and ``most`` of n independent trials succeeded.

    Clopper and Pearson (1934): the lower end is the p with P(Bin(n, p) ≥ least) = (1 − confidence)/2, the upper one
    that with P(Bin(n, p) ≤ most) = (1 − confidence)/2; the range contains the truth with probability ≥ confidence.

    >>> [round(end, 4) for end in binomial_range(10, 10, 10, 0.95)]
    [0.6915, 1.0]
    """
    from scipy.special import betaincinv

    tail = 0.5 * (1.0 - confidence)
    low = 0.0 if least == 0 else float(betaincinv(least, n - least + 1, tail))
    high = 1.0 if most == n else float(betaincinv(most + 1, n - most, 1.0 - tail))
    return Enclosure(max(low - _SHARE, 0.0), min(high + _SHARE, 1.0))
