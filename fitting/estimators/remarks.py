"""What a user should know of how training ended, as records: what happened, to which parameters, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fitting.training import Run

Kind = Literal["iterations", "stalled", "interrupted", "lower limit", "upper limit", "gap", "vacuous", "untrained"]

HINTS = {
    "lower limit": "no noise is found, or the data ask for less than `limits` allow",
    "upper limit": "an input with such a lengthscale does not matter, or `limits` are too narrow",
}


@dataclass(frozen=True)
class Remark:
    """One remark.

    Attributes
    ----------
    kind : str
        "iterations": they ran out.  "stalled": no step improved.  "interrupted": Ctrl-C.  "lower limit", "upper limit":
        parameters sit there.  "gap": more inducing points are needed than were allowed.  "vacuous": the bound says
        nothing.  "untrained": a model was certified without training of its own.
    text : str
        As a sentence.
    names : tuple of str
        The parameters that it is about.
    """

    kind: Kind
    text: str
    names: tuple[str, ...] = ()


def of_run(run: Run, batches: bool) -> list[Remark]:
    """How one run stopped, if that needs saying; steps on mini-batches are a budget and may run out."""
    if run.status == "stalled" or (run.status == "iterations" and not batches):
        return [Remark(run.status, run.reason)]
    return []


def of_interruptions(runs: Sequence[Run]) -> list[Remark]:
    """Runs that Ctrl-C ended."""
    return [Remark("interrupted", run.reason) for run in runs if run.status == "interrupted"]


def of_limits(low: tuple[str, ...], high: tuple[str, ...]) -> list[Remark]:
    """Parameters that sit on their limits."""
    by_kind: list[tuple[Kind, tuple[str, ...]]] = [("lower limit", low), ("upper limit", high)]
    return [
        Remark(kind, f"At the {kind}: {', '.join(names)} ({HINTS[kind]}). Fix it, or widen `limits`.", names)
        for kind, names in by_kind
        if names
    ]
