"""Remarks on how training ended: the kind of event, the parameters concerned, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from fitting.starts.starts import DISTANT
from fitting.training import Run
from gpbounds.records import TEXT, TEXTS, Record, Slots

Kind = Literal[
    "iterations",
    "stalled",
    "interrupted",
    "lower limit",
    "upper limit",
    "noise",
    "distance",
    "gap",
    "interval",
    "vacuous",
    "untrained",
]

_HINTS = {
    "lower limit": "the data show no noise, or need a smaller value than `limits` allow",
    "upper limit": "an input with such a lengthscale is irrelevant, or `limits` are too narrow",
}


@dataclass(frozen=True)
class Remark(Record):
    """One remark.

    Attributes
    ----------
    kind : str
        "iterations": all were used.  "stalled": no step improved the objective.  "interrupted": by Ctrl-C.
        "lower limit", "upper limit": parameters lie there.  "noise": the inputs explain nothing.  "distance": the
        targets are far from the prior mean.  "gap": more inducing points are needed than allowed.  "interval": log p(y)
        has no interval.  "vacuous": the bound says nothing.  "untrained": a model was certified for an ε for which it
        was not trained.
    text : str
        The remark as a sentence.
    names : tuple of str
        The parameters concerned.
    """

    kind: Kind
    text: str
    names: tuple[str, ...] = ()
    stored: ClassVar[Slots] = {"kind": TEXT, "text": TEXT, "names": TEXTS}


def of_run(run: Run, batches: bool) -> list[Remark]:
    """A remark on a run that stalled or used all iterations; with mini-batches only if steps were cut."""
    if run.status == "stalled" or (run.status == "iterations" and (not batches or run.state.get("since"))):
        return [Remark(run.status, run.reason)]
    return []


def of_interruptions(runs: Sequence[Run]) -> list[Remark]:
    """A remark for each run that Ctrl-C ended."""
    return [Remark("interrupted", run.reason) for run in runs if run.status == "interrupted"]


def of_limits(low: tuple[str, ...], high: tuple[str, ...]) -> list[Remark]:
    """Remarks on parameters that lie on their limits."""
    by_kind: list[tuple[Kind, tuple[str, ...]]] = [("lower limit", low), ("upper limit", high)]
    return [
        Remark(kind, f"At the {kind}: {', '.join(names)} ({_HINTS[kind]}). Fix it, or widen `limits`.", names)
        for kind, names in by_kind
        if names
    ]


def of_noise(noise: bool) -> list[Remark]:
    """A remark on a model that explains nothing."""
    text = (
        "Everything is noise: the objective is no better than that of a model without inputs. Either the inputs do not "
        "determine y, or training needs another start (kernel, n_restarts), more rows or more inducing points."
    )
    return [Remark("noise", text)] if noise else []


def of_distance(distance: float, others: Sequence[str] = ()) -> list[Remark]:
    """A remark on targets whose median is more than `DISTANT` of their ``distance`` spreads from the prior mean.

    ``others`` are further arguments besides ``mean="constant"`` that serve this model.
    """
    choices = " or ".join(("mean='constant'", *others))
    text = (
        f"The targets are {distance:.3g} times their own spread away from the prior mean, so that the variance of f "
        f"must explain this distance first, and training may miss what lies within the spread: pass {choices}."
    )
    return [Remark("distance", text)] if distance > DISTANT else []
