"""What a divergence means for probabilities: of labels, of counts, and of any other event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, host
from gpbounds.bound import Bound
from gpbounds.likelihoods import Bernoulli, Likelihood
from gpbounds.likelihoods.base import as_likelihood
from gpbounds.pacbayes import kl_inverse
from gpbounds.rates.base import total_variation
from gpbounds.validation import closed_unit, extended, instance, scalar

USELESS = 0.9995
"""A total variation from which on nothing is said of probabilities."""
GRID = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Probabilities under the model, for which a report shows those under the exact posterior."""


@dataclass(frozen=True, eq=False)
class EventBounds:
    """What the divergence of a model's law from the exact posterior means for probabilities.

    Attributes
    ----------
    divergence : Bound
        KL[q‖p] ≤ this.
    tv : Bound
        Total variation: no event has probabilities further apart.
    interval : (array (g,), array (g,))
        Where the exact probability of an event lies whose probability is one of `GRID` under the model.
    rows : RowProbabilities or None
        The same for the rows that were held out.
    """

    divergence: Bound
    tv: Bound
    interval: tuple[Float, Float]
    rows: RowProbabilities | None = None

    @property
    def useful(self) -> bool:
        """Whether the bound on the total variation says anything to three digits."""
        return float(self.tv) < USELESS

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        low, high = self.interval
        return {
            "KL": self.divergence.to_dict(),
            "tv": self.tv.to_dict(),
            "probabilities": [
                {"model": p, "exact": [float(a), float(b)]} for p, a, b in zip(GRID, low, high, strict=True)
            ],
            "rows": self.rows and self.rows.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class RowProbabilities:
    """The probability of an event at each row under the model, and where the exact one lies.

    Attributes
    ----------
    event : str
        What happens at a row: "the second label", or "a count up to the one observed".
    model, low, high : arrays (n,)
    labels : bool
        Whether the event is a label.
    """

    event: str
    model: Float
    low: Float
    high: Float
    labels: bool

    @property
    def same(self) -> float:
        """Of labels: the share of the rows at which the exact posterior is proved to find the same label likelier."""
        return float(((self.low > 0.5) | (self.high < 0.5)).mean())

    @property
    def width(self) -> float:
        """The median width of the intervals."""
        return float(np.median(self.high - self.low))

    def to_dict(self) -> dict[str, Any]:
        """The record without its rows, ready for JSON."""
        record: dict[str, Any] = {"event": self.event, "n": int(self.model.size), "median width": self.width}
        return record | ({"same label": self.same} if self.labels else {})


def event_interval(probability: ArrayLike, divergence: float) -> tuple[Float, Float]:
    """Where the probability of an event under p lies, given that under q and KL[q‖p] ≤ ``divergence``.

    Claim N-event: kl(q(A)‖p(A)) ≤ KL[q‖p] for every event A, also about targets that are drawn given f, as no map of
    f to an outcome increases KL.  So p(A) lies between the two inverses of kl.  No interval is shorter, if nothing
    else is known of p; it lies within that of Pinsker, q(A) ± √(KL/2), and that of Bretagnolle and Huber.

    Parameters
    ----------
    probability : array in [0, 1]
        q(A).
    divergence : float
        At least KL[q‖p], in nats.

    Raises
    ------
    ValueError, NonFinite
        for numbers out of range.

    >>> low, high = event_interval([0.5, 0.99], 0.02)
    >>> low.round(3), high.round(3)
    (array([0.401, 0.956]), array([0.599, 0.999]))
    """
    p, d = closed_unit("probability", probability), scalar(extended, "divergence", divergence)
    low, high = (np.asarray(kl_inverse(p, d, side, rigor="sharp")) for side in ("lower", "upper"))
    return low, high


def event_bounds(divergence: Bound, rows: RowProbabilities | None = None) -> EventBounds:
    """What ``divergence``, an upper bound on KL[q‖p], means for probabilities of events under p.

    Claim N-event.  Total variation is at most √(KL/2) (Pinsker) and at most √(1 − e^−KL) (Bretagnolle and Huber), the
    smaller of which is below 1 for every finite KL.

    >>> bound = Bound(0.5, "upper", 1.0, "N-fisher", {}, (), False, "KL[q||p]")
    >>> round(float(event_bounds(bound).tv), 4), round(float(event_bounds(Bound(4.0, "upper", 1.0, "N-fisher")).tv), 4)
    (0.5, 0.9908)
    """
    instance("divergence", divergence, Bound, "a Bound on KL[q‖p], such as that of PosteriorGap")
    if rows is not None:
        instance("rows", rows, RowProbabilities, "what gpbounds.audit.row_probabilities returns")
    kl = max(float(divergence), 0.0)
    value = min(total_variation(kl, 1.0) * (1.0 + 1e-15), 1.0)
    claim = ", ".join(dict.fromkeys((*divergence.claim.split(", "), "N-event")))
    tv = Bound(
        value,
        "upper",
        divergence.confidence,
        claim,
        {"divergence": kl},
        divergence.assumptions,
        divergence.certified,
        "TV(q, p)",
    )
    return EventBounds(divergence, tv, event_interval(np.array(GRID), kl), rows)


def row_probabilities(
    likelihood: Likelihood, y: ArrayLike, m: ArrayLike, v: ArrayLike, divergence: float
) -> RowProbabilities:
    """Probabilities at rows where f ~ N(m, v) under the model, and where those under the exact posterior lie.

    Claim N-event, as `event_interval`: of labels for that of the second one, of counts for that of a count up to y.

    Parameters
    ----------
    likelihood : Likelihood
    y, m, v : arrays (n,)
        Targets, which matter for counts, and mean and variance of f.
    divergence : float
        At least the divergence of the model's law from the exact posterior.

    Raises
    ------
    ValueError, NonFinite
        for targets that the likelihood does not admit, variances below 0, NaN or infinity.

    >>> rows = row_probabilities(Bernoulli("probit"), [1.0], [2.0], [0.0], 0.02)
    >>> rows.model.round(4), rows.same, bool(rows.low[0] < rows.model[0] < rows.high[0])
    (array([0.9772]), 1.0, True)
    """
    labels = isinstance(as_likelihood(likelihood), Bernoulli)
    scalar(extended, "divergence", divergence)
    if labels:
        model, event = likelihood.predictive_mean(m, v), "the second label"
    else:
        model, event = likelihood.predictive_cdf(y, m, v)[1], "a count up to the one observed"
    model = np.clip(np.asarray(host(model), dtype=np.float64), 0.0, 1.0)
    return RowProbabilities(event, model, *event_interval(model, divergence), labels)
