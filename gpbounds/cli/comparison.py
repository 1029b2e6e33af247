"""Format the ranks of several approximations as text and as one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.bound import Plan
from gpbounds.cli import output
from gpbounds.cli.afterwards import Afterwards

NAMES = {"inducing": "Inducing points", "fourier": "Random Fourier features", "mercer": "Mercer expansion"}


@dataclass(frozen=True)
class Entry:
    """A plan with its level ("a priori" or "data-aware"), a heading, and a description of the inputs."""

    level: str
    title: str
    inputs: str
    plan: Plan
    y_norm2: float | None = None
    about: str = ""
    points: str = "k-DPP"

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {"case": self.level, "inputs": self.inputs, "y_norm2": self.y_norm2, **self.plan.to_dict()}


def comparison(entries: list[Entry], after: Afterwards | None, target: float) -> str:
    """A table of the ranks, including that of inducing points after the fact."""
    rows = []
    for entry in entries:
        plan, bound = entry.plan, entry.plan.bound
        rank = "none < N" if plan.M is None else str(plan.M)
        made = {
            "inducing": "inducing points",
            "fourier": "features" if plan.M is None else f"cos, sin of {plan.M // 2}",
            "mercer": "eigenfunctions",
        }[plan.method]
        confidence = "-" if bound is None else _percent(float(np.asarray(bound.confidence)))
        value = "-" if bound is None else f"{float(bound):.3g}"
        needed = "-" if plan.needed is None else str(plan.needed)
        rows.append((plan.method, entry.level, str(plan.N), rank, made, confidence, needed, value))
    if after is not None:
        rank = f"none <= {after.tried}" if after.M is None else str(after.M)
        value = "-" if after.at is None else f"{float(after.at[1]):.3g}"
        row = ("inducing", "after the fact", str(after.N), rank, "inducing points", "certain", str(after.needed), value)
        rows.append(row)
    head = f"Ranks that suffice for KL <= {target:g} nats:"
    return (
        f"{head}\n{output.table(('method', 'level', 'rows', 'rank', 'basis', 'probability', 'needed', 'bound'), rows)}"
    )


def _percent(confidence: float) -> str:
    return "certain" if confidence == 1.0 else f"{100 * confidence:g} %"
