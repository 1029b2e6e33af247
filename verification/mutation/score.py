"""The counts of mutation testing, as they are stored and as the claims report gives them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SCORE = Path(__file__).parents[1] / "mutants.json"
COLUMNS = ("mutants", "killed", "examples", "survived", "open", "equivalent")


@dataclass
class Count:
    """How the mutants of a module fared."""

    mutants: int = 0
    killed: int = 0
    examples: int = 0
    survived: int = 0
    open: int = 0
    equivalent: int = 0

    @property
    def score(self) -> float:
        """Share of the killed ones among those that are not equivalent; 1 where there are none."""
        counted = self.mutants - self.equivalent
        return self.killed / counted if counted else 1.0

    def __add__(self, other: Count) -> Count:
        return Count(*(getattr(self, name) + getattr(other, name) for name in COLUMNS))


def record(counts: dict[str, Count], commits: dict[str, int], seed: int, density: float) -> dict[str, Any]:
    """What is stored: the counts in all and by file, what was sampled, and how many verdicts came at which commit."""
    total = sum(counts.values(), Count())
    return {
        "commits": commits,
        "seed": seed,
        "density": density,
        "score": round(total.score, 4),
        **asdict(total),
        "modules": {file: asdict(c) | {"score": round(c.score, 4)} for file, c in counts.items()},
    }


def summary(record: dict[str, Any]) -> str:
    """The record in one line."""
    counted = record["mutants"] - record["equivalent"]
    low = min((entry["score"], file) for file, entry in record["modules"].items())
    return f"{100.0 * record['score']:.1f} % of {counted} faults noticed; least: {100.0 * low[0]:.0f} % in {low[1]}"
