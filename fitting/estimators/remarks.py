"""Remarks on how training ended: the kind of event, the parameters concerned, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from fitting.objectives.point import Parameters
from fitting.starts.starts import DISTANT
from fitting.training import Run
from gpbounds.kernels import Stationary
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

_HINTS: dict[tuple[str, str], str] = {
    ("lower limit", "noise"): "the data show no noise",
    ("upper limit", "noise"): "the inputs explain little of y",
    ("lower limit", "lengthscale"): "f varies within the distance of neighbouring rows",
    ("upper limit", "lengthscale"): "an input with such a lengthscale is irrelevant",
    ("lower limit", "variance"): "this part of the kernel explains nothing",
    ("upper limit", "variance"): "f is very large, as for a trend, targets far from 0, or labels that can be separated",
}
"""What a parameter of this kind at its limit usually means: (kind of remark, last word of the name) to a clause."""


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
    """Remarks on parameters that lie on their limits, one for those of a kind, as variances or lengthscales."""
    remarks: list[Remark] = []
    ends: list[tuple[Kind, str, tuple[str, ...]]] = [("lower limit", "smaller", low), ("upper limit", "larger", high)]
    for kind, other, names in ends:
        for word in dict.fromkeys(map(_word, names)):
            alike = tuple(name for name in names if _word(name) == word)
            hint = _HINTS.get((kind, word), "the data tell little about it")
            reasons = f"{hint}, or the data need a {other} value than `limits` allow"
            remarks.append(
                Remark(kind, f"At the {kind}: {', '.join(alike)} ({reasons}). Fix it, or widen `limits`.", alike)
            )
    return remarks


def _word(name: str) -> str:
    """The kind of parameter: "lengthscale" of "k1.lengthscale[2]"."""
    return name.rpartition(".")[2].partition("[")[0]


def of_noise(point: Parameters, start: str) -> list[Remark]:
    """The remark that a model explains nothing at the ``point`` where training from the estimator's ``start`` ended."""
    at_scale = "start='evidence', " if isinstance(point.kernel, Stationary) and start != "evidence" else ""
    more = "more rows" if point.Z is None else "more rows or more inducing points"
    text = (
        "Everything is noise: the objective is no better than that of a model without inputs. Either the inputs do not "
        f"determine y, or training needs another start ({at_scale}n_restarts, or a kernel with lengthscales like the "
        f"spread of the inputs and a variance like that of y), or {more}."
    )
    return [Remark("noise", text)]


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
