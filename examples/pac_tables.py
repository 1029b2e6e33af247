"""Comparison of trained models with the tables of paper 002 (Reeb et al., PAC-GP)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from pac_settings import Score

FIGURES = ("B", "B_pin", "train", "test", "MSE", "KL_N", "noise")
"""The columns of the paper's tables: bound, Pinsker's bound, Gibbs risks, mean squared error, KL/N, σ²."""
HEADS = ("B", "B_Pin", "R_S train", "test risk", "MSE", "KL/N", "σ²")

Printed = dict[str, tuple[float, float]]
"""Mean and standard error of ten repetitions, for each of FIGURES."""


def printed(line: str) -> Printed:
    """A line of the paper's tables: alternating means and standard errors."""
    numbers = [float(word) for word in line.split()]
    return {name: (numbers[2 * i], numbers[2 * i + 1]) for i, name in enumerate(FIGURES)}


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error; the error of a single value is NaN."""
    numbers = np.asarray(values, dtype=np.float64)
    error = float(numbers.std(ddof=1) / math.sqrt(numbers.size)) if numbers.size > 1 else math.nan
    return float(numbers.mean()), error


@dataclass(frozen=True)
class Agreement:
    """Our mean and a printed one.

    They agree if they differ by at most two standard errors of their difference plus half a unit of the last printed
    digit.  A single seed has no standard error: we take √10 times that of the paper's ten seeds.  A printed error of
    0.000 counts as 0.0005.
    """

    mean: float
    error: float
    count: int
    paper: float
    paper_error: float

    @property
    def allowed(self) -> float:
        theirs = max(self.paper_error, 5e-4)
        ours = theirs * math.sqrt(10.0 / self.count) if math.isnan(self.error) else self.error
        return 2.0 * math.hypot(ours, theirs) + 5e-4

    @property
    def agrees(self) -> bool:
        return abs(self.mean - self.paper) <= self.allowed

    @property
    def within_paper(self) -> bool:
        """Whether they agree by the paper's standard error alone."""
        return abs(self.mean - self.paper) <= 2.0 * max(self.paper_error, 5e-4) + 5e-4

    @property
    def word(self) -> str:
        return "agrees" if self.agrees else f"{'above' if self.mean > self.paper else 'below'}"


def agreement(scores: Sequence[Score], name: str, paper: Printed) -> Agreement:
    """The agreement of the figure ``name``; B is computed with 2√N, as in the paper."""
    mean, error = mean_and_error([getattr(s, "B_maurer" if name == "B" else name) for s in scores])
    return Agreement(mean, error, len(scores), *paper[name])


def cell(mean: float, error: float) -> str:
    """A cell such as 0.335 ± 0.004, with at most four digits."""
    digits = 3 if abs(mean) < 100.0 else 0
    return f"{mean:.{digits}f}" + ("" if math.isnan(error) else f" ± {error:.{digits}f}")


Groups = Iterable[tuple[str, Sequence[Score], Printed | None]]
"""Label of a row of the table, the scores whose means it contains, and the row of the paper."""


def beside(groups: Groups) -> str:
    """A text table: our means, those of the paper below them, and which of them agree."""
    width = 15
    lines = ["".join([f"{'':28}", *(f"{head:>{width}}" for head in HEADS)])]
    for name, scores, paper in groups:
        means = [mean_and_error([getattr(s, "B_maurer" if f == "B" else f) for s in scores]) for f in FIGURES]
        lines.append(f"{name:28}" + "".join(f"{cell(*pair):>{width}}" for pair in means))
        if paper is not None:
            lines.append(f"{'   paper':28}" + "".join(f"{cell(*paper[f]):>{width}}" for f in FIGURES))
            words = [agreement(scores, f, paper).word for f in FIGURES]
            lines.append(f"{'':28}" + "".join(f"{word:>{width}}" for word in words))
    return "\n".join(lines)


def markdown(groups: Groups) -> str:
    """A table for RESULTS.md with seeds and mean times; ✗ marks a printed number with which ours does not agree."""
    lines = ["| | " + " | ".join(HEADS) + " | seeds | time |", "|---|" + "---|" * (len(HEADS) + 2)]
    for name, scores, paper in groups:
        means = [mean_and_error([getattr(s, "B_maurer" if f == "B" else f) for s in scores]) for f in FIGURES]
        seeds, spent = [s.seed for s in scores], mean_and_error([s.seconds for s in scores])[0]
        about = f"{min(seeds)}" + (f" … {max(seeds)}" if len(seeds) > 1 else "")
        lines.append(
            f"| {name} | "
            + " | ".join(cell(*pair) for pair in means)
            + f" | {about} | {spent:.{int(spent < 10.0)}f} s |"
        )
        if paper is not None:
            words = ("" if agreement(scores, f, paper).agrees else " ✗" for f in FIGURES)
            shown = (f"{cell(*paper[f])}{word}" for f, word in zip(FIGURES, words, strict=True))
            lines.append("| *paper* | " + " | ".join(shown) + " | ten | |")
    return "\n".join(lines)
