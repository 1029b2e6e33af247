"""Numbers that a library claims of a model, log p(y) and predictions, beside proved intervals for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, as_host_points, exactly
from gpbounds.audit.exact_rows import ExactRows
from gpbounds.audit.model import Subject
from gpbounds.bound import outward
from gpbounds.interval import Interval
from gpbounds.iterative import ExactPredictions
from gpbounds.once import cached_property
from gpbounds.renyi.members import WORK
from gpbounds.validation import finite, flag, generator, non_negative, open_unit, positive, scalar

NATS = 0.01
"""Errors of log p(y) below this count as none."""
DEVIATION = 0.01
"""Errors of a mean below this share of the exact standard deviation, and of that deviation itself, count as none."""
FINER = 1e-2
"""The solves aim at ends this share of the deviation apart."""

Verdict = Literal["inside", "above", "below", "not decided"]


@dataclass(frozen=True, eq=False)
class ClaimedEvidence:
    """A claimed log p(y) beside an interval for it.

    Attributes
    ----------
    value : float
        The claimed number, in nats.
    evidence : (Bound, Bound)
        A lower and an upper bound on log p(y) of the exact GP with the model's kernel, noise and mean.
    N : int
        Number of rows.
    nats : float
        Errors below this count as none.
    """

    value: float
    evidence: Interval
    N: int
    nats: float = NATS

    @property
    def error(self) -> tuple[float, float]:
        """Ends of claimed − exact, in nats."""
        return below(self.value, float(self.evidence.upper)), above(self.value, float(self.evidence.lower))

    @property
    def verdict(self) -> Verdict:
        """Whether the claim is off by less than ``nats``, too high, too low, or the interval is too wide to tell."""
        return _verdict(*self.error, self.nats)

    @property
    def convention(self) -> str:
        """What else the claimed number may be, where this fits log p(y) and the number itself does not; or nothing."""
        if self.verdict in ("inside", "not decided"):
            return ""
        constant = 0.5 * self.N * math.log(2.0 * math.pi)
        for sentence, value in (
            ("log p(y) per row", self.value * self.N),
            ("the negative of log p(y)", -self.value),
            ("the negative of log p(y), per row", -self.value * self.N),
            ("log p(y) without the constant −½N log 2π", self.value - constant),
            ("the negative of log p(y) without the constant ½N log 2π", -self.value - constant),
        ):
            if replace(self, value=value).verdict == "inside":
                return sentence
        return ""

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        low, high = self.error
        return {
            "claimed": self.value,
            "log p(y)": [float(end) for end in self.evidence],
            "claims": sorted({claim for end in self.evidence for claim in end.claim.split(", ")}),
            "certified": all(end.certified for end in self.evidence),
            "confidence": min(float(end.confidence) for end in self.evidence),
            "error": [low, high],
            "error per row": [below(low / self.N, 0.0), above(high / self.N, 0.0)],
            "nats": self.nats,
            "verdict": self.verdict,
            "convention": self.convention,
        }


def below(value: float, other: float) -> float:
    """value − other, rounded down."""
    return math.nextafter(value - other, -math.inf)


def above(value: float, other: float) -> float:
    """value − other, rounded up."""
    return math.nextafter(value - other, math.inf)


def _verdict(low: float, high: float, least: float) -> Verdict:
    if -least <= low and high <= least:
        return "inside"
    return "above" if low > least else "below" if high < -least else "not decided"


def claimed_evidence(
    about: Subject,
    value: float,
    *,
    per_row: bool = False,
    nats: float = NATS,
    work: float = WORK,
    delta: float = 0.05,
    rng: int = 0,
    progress: bool = False,
    rows: ExactRows | None = None,
) -> ClaimedEvidence:
    """A claimed log p(y) beside a lower and an upper bound on log p(y) of the exact GP of these rows.

    From a factor of K + σ²I with a proved error (N-computed), in 30 digits where doubles are too coarse (N-exact);
    where ``work`` affords no factor from probes, with probability 1 − ``delta`` (`gpbounds.iterative.evidence`).

    Parameters
    ----------
    about : Subject
    value : float
        The claimed number, in nats.
    per_row : bool
        Whether it is log p(y)/N, as GPyTorch has it.
    nats : float
        Errors below this count as none.
    work : float
        Flops that the factor of K + σ²I may take; the default affords 10 000 rows.
    delta : float
    rng : int
        Seed of the probes.
    progress : bool
    rows : ExactRows, optional
        The exact GP of these rows, if it is known already: `ExactRows.of`.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, or a noise variance at which nothing decides log p(y).

    >>> from gpbounds.audit import subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> about = subject(SquaredExponential(), [0.0, 1.0, 2.0], [1.0, 0.5, -0.5], noise=0.1)
    >>> claimed_evidence(about, -3.2002).verdict, claimed_evidence(about, 3.2002).convention
    ('inside', 'the negative of log p(y)')
    """
    known = ExactRows.known(about, rows)
    number = scalar(finite, "value", value) * (about.N if flag("per_row", per_row) else 1)
    threshold, budget = scalar(positive, "nats", nats), scalar(non_negative, "work", work)
    generator(rng)  # refuses other seeds, also where none is drawn
    pair = known.evidence(
        work=budget, delta=scalar(open_unit, "delta", delta), rng=rng, progress=flag("progress", progress)
    )
    return ClaimedEvidence(number, pair, about.N, threshold)


@dataclass(frozen=True, eq=False)
class ClaimedPredictions:
    """Claimed means and variances at n points beside proved ends of the exact ones.

    Attributes
    ----------
    mean : array (n,)
        Claimed means.
    variance : array (n,) or None
        Claimed variances: of the latent f, or of new targets where ``noisy``.
    exact : ExactPredictions
        Ends of the exact means and variances; of new targets where ``noisy``.
    deviation : float
        Errors of a mean below this share of the exact standard deviation count as none, and errors of the standard
        deviation below this share of it.
    noisy : bool
    X : array (n, D)
        The points.
    offset : array (n,)
        The prior mean there, which is in ``mean`` and in the exact means.
    """

    mean: Float
    variance: Float | None
    exact: ExactPredictions
    deviation: float = DEVIATION
    noisy: bool = False
    X: Float = field(default_factory=lambda: np.empty((0, 1)))
    offset: Float = field(default_factory=lambda: np.empty(0))

    @property
    def n(self) -> int:
        """Number of points."""
        return len(self.mean)

    @cached_property
    def stds(self) -> tuple[Float, Float]:
        """Ends of the exact standard deviations."""
        low, high = self.exact.variance
        return np.nextafter(np.sqrt(low), 0.0), np.nextafter(np.sqrt(high), np.inf)

    @cached_property
    def off(self) -> tuple[Float, Float]:
        """Ends of |claimed − exact mean|, in exact standard deviations."""
        (low, high), (least, most) = self.exact.mean, self.stds
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            near = np.maximum(np.maximum(low - self.mean, self.mean - high), 0.0) / most
            far = np.maximum(np.abs(self.mean - low), np.abs(self.mean - high)) / least
        return np.nan_to_num(near, nan=0.0) * (1.0 - 1e-15), np.where(np.isnan(far), np.inf, far) * (1.0 + 1e-15)

    @cached_property
    def ratio(self) -> tuple[Float, Float] | None:
        """Ends of claimed / exact standard deviation, 0 for a negative variance; None without claimed variances."""
        if self.variance is None:
            return None
        claimed, (least, most) = np.sqrt(np.maximum(self.variance, 0.0)), self.stds
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = claimed / most, claimed / least
        return np.nan_to_num(low, nan=0.0) * (1.0 - 1e-15), np.where(np.isnan(high), np.inf, high) * (1.0 + 1e-15)

    @cached_property
    def apart(self) -> tuple[Float, Float]:
        """Ends of |log(claimed / exact standard deviation)|; infinite for a variance that is not positive."""
        if self.variance is None or self.ratio is None:
            return np.zeros(self.n), np.zeros(self.n)
        low, high = self.ratio
        with np.errstate(divide="ignore"):
            ends = np.log(low), np.log(high)
        near = np.maximum(np.maximum(ends[0], -ends[1]), 0.0)
        far = np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        wrong = self.variance < 0.0
        return np.where(wrong, np.inf, near), np.where(wrong, np.inf, far)

    @property
    def outside(self) -> Any:
        """Truth values (n,): a mean or standard deviation that is off by more than ``deviation``, for certain."""
        return (self.off[0] > self.deviation) | (self.apart[0] > math.log1p(self.deviation))

    @property
    def open(self) -> Any:
        """Truth values (n,): the proved ends are too far apart to tell."""
        inside = (self.off[1] <= self.deviation) & (self.apart[1] <= math.log1p(self.deviation))
        return ~inside & ~self.outside

    @property
    def share(self) -> tuple[float, float]:
        """Ends of the share of points that are off by more than ``deviation``."""
        outside, unknown = int(self.outside.sum()), int(self.open.sum())
        return outside / self.n, (outside + unknown) / self.n

    @property
    def worst(self) -> tuple[int, int]:
        """The points with the worst mean and the worst standard deviation, by what is proved."""
        return int(np.argmax(self.off[0])), int(np.argmax(self.apart[0]))

    def at(self, point: int) -> dict[str, Any]:
        """One point: what is claimed and what is exact, ready for JSON."""
        record: dict[str, Any] = {
            "mean": float(self.mean[point]),
            "exact mean": [float(end[point]) for end in self.exact.mean],
            "off": [float(end[point]) for end in self.off],
            "variance": None,
            "exact variance": [float(end[point]) for end in self.exact.variance],
            "ratio": None,
        }
        if self.variance is not None and self.ratio is not None:
            record |= {
                "variance": float(self.variance[point]),
                "ratio": [float(end[point]) for end in self.ratio],
            }
        return record

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON; points are numbered from 0."""
        worst: Mapping[str, int] = dict(zip(("mean", "variance"), self.worst, strict=True))
        return {
            "points": self.n,
            "of new targets": self.noisy,
            "deviation": self.deviation,
            "outside": int(self.outside.sum()),
            "not decided": int(self.open.sum()),
            "share outside": list(self.share),
            "certified": self.exact.certified,
            "method": self.exact.method,
            "worst mean": {"point": worst["mean"], **self.at(worst["mean"])},
            "worst variance": None
            if self.variance is None
            else {"point": worst["variance"], **self.at(worst["variance"])},
        }


def claimed_predictions(
    about: Subject,
    X_new: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike | None = None,
    *,
    noisy: bool = False,
    offset: ArrayLike = 0.0,
    deviation: float = DEVIATION,
    work: float = WORK,
    progress: bool = False,
    rows: ExactRows | None = None,
) -> ClaimedPredictions:
    """Claimed means and variances beside proved ends of those of the exact GP of these rows (N-solve).

    Parameters
    ----------
    about : Subject
    X_new : array (n, D)
    mean : array (n,)
    variance : array (n,), optional
        Of the latent f, or with ``noisy`` of new targets.  Any number is taken: a negative one is wrong, and counted.
    noisy : bool
    offset : float or array (n,)
        The prior mean at ``X_new``, which was taken off the targets of ``about``.
    deviation : float
        Errors below this share of the exact standard deviation count as none.
    work : float
        Flops that a factor of K + σ²I may take; beyond, conjugate gradients solve.
    progress : bool
    rows : ExactRows, optional
        The exact GP of these rows, if it is known already: `ExactRows.of`.

    Raises
    ------
    ValueError, NonFinite
        for wrong arguments, and for ``noisy`` with a noise variance for each row, which new targets do not have.

    >>> from gpbounds.audit import subject
    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 6.0, 50)[:, None]
    >>> about = subject(SquaredExponential(), X, np.sin(X[:, 0]), noise=0.01)
    >>> claims = claimed_predictions(about, [[1.0], [2.0]], [0.84, 0.99], [0.0025, 0.0015])
    >>> claims.outside.tolist(), claims.worst
    ([True, True], (1, 0))
    """
    known = ExactRows.known(about, rows)
    points = as_host_points(X_new, "X_new", about.D).astype(np.float64, copy=False)
    means = _claims("mean", mean, len(points))
    variances = None if variance is None else _claims("variance", variance, len(points))
    threshold, budget = scalar(positive, "deviation", deviation), scalar(non_negative, "work", work)
    shown = flag("progress", progress)
    added = finite("offset", offset)
    if added.shape not in ((), means.shape):
        raise ValueError(f"offset: expected a number or shape {means.shape}, got {added.shape}")
    if flag("noisy", noisy) and np.ndim(about.noise):
        raise ValueError(
            "noisy: expected False for a model with a noise variance for each row, which says nothing of the noise of "
            "new targets, got True: pass variances of the latent f"
        )
    made = known.predictions(points, tolerance=FINER * min(threshold, 0.1), work=budget, progress=shown)
    shift = np.broadcast_to(added, means.shape)
    low, high = (end + shift for end in made.mean)
    shifted = made.mean if not shift.any() else (np.nextafter(low, -np.inf), np.nextafter(high, np.inf))
    spread = made.variance
    if noisy:
        spread = np.nextafter(spread[0] + about.noise, 0.0), np.nextafter(spread[1] + about.noise, np.inf)
    exact = replace(made, mean=shifted, variance=spread)
    return ClaimedPredictions(means, variances, exact, threshold, bool(noisy), points, shift)


def _claims(name: str, values: ArrayLike, n: int) -> Float:
    """Claimed numbers (n,)."""
    array = finite(name, exactly(name, values))
    if array.shape != (n,):
        raise ValueError(f"{name}: expected shape ({n},), one for each row of X_new, got {array.shape}")
    return array


def ends(low: float, high: float, digits: int = 6) -> str:
    """An interval in words, rounded outwards.

    >>> ends(0.12345678, 0.1234999), ends(1.0, 1.0)
    ('0.123456 to 0.1235', '1')
    """
    least, most = outward(low, "lower", digits), outward(high, "upper", digits)
    return least if least == most else f"{least} to {most}"
