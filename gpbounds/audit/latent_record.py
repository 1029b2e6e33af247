"""The record of an audit of a model of labels or counts, and its findings as sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from gpbounds.audit.events import EventBounds, event_interval
from gpbounds.audit.in_words import divergence
from gpbounds.audit.latent_levels import LatentEnough, LatentLevel
from gpbounds.audit.model import LatentSubject
from gpbounds.audit.record import NOT_PROVED, AuditRecord, Finding, Grade
from gpbounds.bound import Bound, claims_of, outward
from gpbounds.texts import in_nats, table, wrapped

SHOWN = (0.5, 0.9)
"""Probabilities under the model that the summary names."""


@dataclass(frozen=True, eq=False)
class LatentAudit(AuditRecord[LatentSubject, LatentEnough]):
    """The results of an audit of a model of labels or counts.

    Attributes
    ----------
    name, model, subject, enough, target, again, notes
        As of `AuditRecord`.
    events : EventBounds or None
        What the divergence means for probabilities.
    scores : mapping of str to float
        Scores of the model's predictions at rows that were held out.
    limited : mapping of str to "lower" or "upper"
        Hyperparameters at a limit of their search.
    """

    events: EventBounds | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    limited: Mapping[str, Literal["lower", "upper"]] = field(default_factory=dict)

    @property
    def scored(self) -> str:
        """The scores in one line."""
        return ", ".join(f"{name} {value:.4g}" for name, value in self.scores.items())

    def _found(self) -> Iterable[Finding | None]:
        """One sentence or a few for each section, None for one that is missing."""
        return (
            _of_enough(self.enough, self.subject.N, self.again),
            _of_parts(self.enough),
            _of_estimate(self.enough),
            _of_events(self.events),
            _of_rows(self.events),
            _of_limits(self.limited),
        )

    @property
    def bounds(self) -> list[Bound]:
        """The bounds on which the findings rest."""
        return super().bounds + ([] if self.events is None else [self.events.tv])

    def _law(self) -> dict[str, Any]:
        """The likelihood."""
        return {"likelihood": self.subject.likelihood.to_dict()}

    def _sections(self) -> dict[str, Any]:
        """The records of the sections, ready for JSON."""
        return {
            "enough": self.enough and self.enough.to_dict(),
            "events": self.events and self.events.to_dict(),
            "scores": dict(self.scores),
            "limited": dict(self.limited),
        }


def between(ends: tuple[float, float], digits: int = 3) -> str:
    """A bracket of a divergence in words.

    >>> between((0.0, 0.1234)), between((1.0, 2.0))
    ('at most 0.124 nats', 'between 1 and 2 nats')
    """
    least, most = divergence(ends, digits)
    return f"at most {most} nats" if least == "0" else f"between {least} and {most} nats"


def _of_enough(enough: LatentEnough | None, N: int, again: str) -> Finding | None:
    """Whether M is enough for the divergence."""
    if enough is None:
        return None
    lower, upper = enough.divergence
    claims = claims_of(lower, upper)
    sure = "" if float(np.min(upper.confidence)) == 1.0 else _with_probability(float(np.min(upper.confidence)))
    row = divergence((0.0, float(upper) / N), 2)[1]
    about = (
        f"The model's law q has a divergence KL[q‖p] {between((float(lower), float(upper)))} ({row} for each of {N} "
        f"rows) from the exact posterior{sure}"
    )
    M, target, again = enough.model.M, in_nats(enough.target), f" {again}" if again else ""
    if enough.verdict == "enough":
        fewer = ""
        if enough.suffices is not None and enough.suffices < M:
            fewer = (
                f" With this kernel and likelihood {enough.suffices} chosen rows and their best law would do, "
                f"too.{again}"
            )
        return Finding("Inducing points", "good", f"M = {M} is enough for {target}. {about}.{fewer}", claims)
    words = NOT_PROVED[enough.verdict]
    return Finding("Inducing points", "warn", f"M = {M} {words} {target}. {about}; {would_do(enough)}{again}", claims)


def would_do(enough: LatentEnough) -> str:
    """Which number of inducing points is proved to reach the target."""
    kept, M = "with this kernel and likelihood", enough.model.M
    if enough.suffices == M:
        return f"{kept} the best law with the same points reaches the target: train q longer."
    added = enough.counts[1]
    if added is not None and added == enough.suffices:
        return f"{kept} {added} would do (these and {added - M} more rows, with their best law)."
    if enough.suffices is not None:
        return f"{kept} {enough.suffices} chosen rows and their best law would do."
    text = f"{kept} none of the numbers tried, up to {max(enough.tried)}, is proved enough"
    if enough.estimated is not None:
        text += f"; by the estimate {enough.estimated} would do (these and {enough.estimated - M} more rows)"
    return f"{text}."


def _of_parts(enough: LatentEnough | None) -> Finding | None:
    """How much of the divergence is the law's, how much the number of points', how much the bound's."""
    if enough is None:
        return None
    most, floor = parts(enough), float(enough.evidence[1]) - float(enough.evidence[0])
    rest = divergence((0.0, floor), 3)[1]
    text = (
        f"At least {_down(most[0])} nats are because q is not the best law with these {enough.model.M} points, and "
        f"at least {_down(most[1])} more because these points are too few; up to {rest} are left for what no further "
        "point is seen to save: the posterior is not Gaussian, or the bound is loose."
    )
    grade: Grade = "warn" if most[0] > max(most[1], 0.5 * enough.target) else "good"
    if grade == "warn":
        text += " Training q longer helps more than inducing points."
    return Finding("What the divergence is made of", grade, text, ("N-elbos",))


def parts(enough: LatentEnough) -> tuple[float, float]:
    """At least so many nats of the divergence are due to q at these points, and to the number of points."""
    return enough.excess, max(float(enough.evidence[0]) - enough.best.elbo, 0.0)


def _down(value: float) -> str:
    return divergence((value, value), 3)[0]


def _of_estimate(enough: LatentEnough | None) -> Finding | None:
    """The estimate beside the bound, called one."""
    if enough is None:
        return None
    lower, upper = map(float, enough.divergence)
    text = (
        f"An estimate, not a bound: the divergence is about {max(enough.estimate, 0.0):.3g} nats (half the variance of "
        "log p/q under the law with the smallest one, and differences of ELBOs)."
    )
    inside = lower - 0.05 * abs(lower) <= enough.estimate <= upper
    if not inside:
        text += " It is outside of the bounds: do not use it."
    return Finding("Estimate", "good" if inside else "warn", text)


def _of_events(events: EventBounds | None) -> Finding | None:
    """What the divergence means for the probability of any event."""
    if events is None:
        return None
    tv, kl = float(events.tv), float(events.divergence)
    sure = float(np.min(events.tv.confidence))
    text = f"No event has probabilities under q and under the exact posterior that differ by more than {up_to_one(tv)}"
    if events.useful:
        low, high = event_interval(np.array(SHOWN), kl)
        each = [
            f"where the model says {p:g} the exact posterior says {ends((float(a), float(b)))}"
            for p, a, b in zip(SHOWN, low, high, strict=True)
        ]
        text += f": {', and '.join(each)}."
    else:
        text += ", which says nothing: the divergence is too large."
    text += "" if sure == 1.0 else f" This holds{_with_probability(sure)}."
    grade: Grade = "good" if tv <= 0.25 else "warn"
    return Finding("Probabilities", grade, text, ("N-event",))


def _with_probability(sure: float) -> str:
    return f", with probability at least {outward(sure, 'lower')}"


def ends(pair: tuple[float, float]) -> str:
    """An interval of probabilities, rounded outwards to three decimal places.

    >>> ends((0.12345, 0.5)), ends((0.0, 0.99999))
    ('between 0.123 and 0.5', 'between 0 and 1')
    """
    low, high = np.floor(1e3 * pair[0]) / 1e3, np.ceil(1e3 * pair[1]) / 1e3
    return f"between {low:g} and {high:g}"


def up_to_one(value: float) -> str:
    """A probability rounded upwards to three digits.

    >>> up_to_one(0.12345), up_to_one(0.9999999)
    ('0.124', '1')
    """
    return outward(min(value, 1.0), "upper", 3)


def _of_rows(events: EventBounds | None) -> Finding | None:
    """What the divergence means at the rows that were held out."""
    if events is None or events.rows is None or not events.useful:
        return None
    rows = events.rows
    n = rows.model.size
    wide = f"half of these intervals are at most {up_to_one(rows.width)} wide"
    if not rows.labels:
        text = f"At {n} held-out rows the exact probability of {rows.event} lies in a proved interval; {wide}."
        return Finding("Held-out rows", "good" if rows.width <= 0.5 else "warn", text, ("N-event",))
    text = (
        f"At {100.0 * rows.same:.3g} % of {n} held-out rows the exact posterior is proved to find the same label "
        f"likelier as the model; {wide}."
    )
    return Finding("Held-out rows", "good" if rows.same >= 0.5 else "warn", text, ("N-event",))


def _of_limits(limited: Mapping[str, str]) -> Finding | None:
    """Hyperparameters at limits."""
    if not limited:
        return None
    named = ", ".join(f"{name} ({limit} limit)" for name, limit in limited.items())
    return Finding("Hyperparameters", "bad", f"At the limit of the search: {named}.")


def row_of(enough: LatentEnough, level: LatentLevel) -> tuple[str, str, str, str, str, str]:
    """M, what the law is, KL at least, KL at most, its own bound, its ELBO."""
    lower, upper = map(float, level.divergence(enough.evidence))
    least, most = divergence((lower, upper), 3)
    own = "" if level.gap is None else outward(float(level.gap.bound), "upper", 3)
    return str(level.M), enough.words[level.points], least, most, own, f"{level.elbo:.3f}"


HEADER = ("M", "law", "KL at least", "KL at most", "by itself", "ELBO")
LEGEND = (
    "KL at least, at most: nats, by the largest ELBO and by the sharpest upper bound on log p(y), of any law of the "
    'table (N-elbos). "By itself" is the bound of that law alone (N-fisher).'
)


def levels_in_text(enough: LatentEnough) -> str:
    """The table of all laws."""
    rows = [row_of(enough, level) for level in enough.telling()]
    return f"{table(HEADER, rows)}\n{wrapped(LEGEND)}"
