"""Table 3 of paper 000 and Table 2 of its App. F: how sharp the optima of the methods are.

Keskar's measure (`fitting.sharpness`, ε = 1e-3) in the logarithms of lengthscales, variance and noise, on two
functions: each method's own objective per row, which is another function for every α, and −log p(y)/N of the exact GP,
one function for all.  There the hyperparameters of the other methods are no optimum, and the rise contains the slope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from dlm_setting import cell, markdown, plain
from regression_sets import split
from renyi_pictures import boxes
from renyi_setting import CLAIMED, Group, Job, Part, Score, fit, score, source
from renyi_tables import in_settings, near

from fitting import sharpness
from gpbounds.plotting.elements import TEXT, figure, headline

CORNERS = 4
MEASURES = {
    "own": "sharpness, own objective, %",
    "own_curvature": "largest curvature, own",
    "evidence": "sharpness, log p(y), %",
    "evidence_curvature": "largest curvature, log p(y)",
    "RMSE": "RMSE",
}
PRINTED = {
    "House electric, M = 256": (2.25, 0.53, 0.11, 0.42, 2.01, 2.57, 2.13, 0.58),
    "Battery, M = 512": (13.70, 10.11, 4.38, 9.98, 15.22, 19.99, 27.12, 18.43),
}
"""Printed sharpness: α = 0.2, 0.4, 0.5, 0.6, 0.8, EGP, SGP, PEP."""


@dataclass(frozen=True)
class Flat(Score):
    """A trained model with its sharpness, rise and largest curvature on both functions.

    ``slope`` is the largest derivative of its own objective per row at the end of training.
    """

    own: float
    own_rise: float
    own_curvature: float
    evidence: float
    evidence_rise: float
    evidence_curvature: float
    slope: float


def measured(job: Job, settings: Part, folder: Path) -> Flat:
    """Train and test a model, and measure how sharp its optimum is."""
    chosen = source(job.data, folder)
    assert chosen is not None
    part = split(chosen, job.rows, job.seed)
    fitted, seconds = fit(job, part, settings)
    own, common = (
        sharpness(fitted, part.X, part.y, on=on, corners=CORNERS, rng=job.seed) for on in ("own", "evidence")
    )
    sides = (number for side in (own, common) for number in (side.value, side.rise, side.curvature))
    return Flat(*astuple(score(job, part, fitted, seconds)), *sides, float(np.abs(own.gradient).max()))


def digits(numbers: np.ndarray) -> str:
    """Mean ± standard error over splits with two digits: the measures differ by orders of magnitude."""
    error = f" ± {numbers.std(ddof=1) / np.sqrt(numbers.size):.1g}" if numbers.size > 1 else ""
    return f"{numbers.mean():.2g}{error}"


def table(group: Group) -> str:
    """Measures by α and method, in the layout of the paper's Table 3; PEP at the power with the least RMSE."""
    orders, power = group.orders("Rényi"), group.by_test("PEP")
    columns = [("Rényi", a) for a in orders] + [("EGP", 0.0), ("SGP", 0.0), ("PEP", power)]
    header = [group.data, *(f"α = {a:g}" for a in orders), "EGP", "SGP", f"PEP* ({power:g})"]
    rows = [
        [text, *((cell if metric == "RMSE" else digits)(group.values(*c, metric)) for c in columns)]
        for metric, text in MEASURES.items()
    ]
    return markdown(header, rows)


def claims(groups: Sequence[Group]) -> list[str]:
    """Whether the flattest optimum is near α = ½, and whether the order of least RMSE is the flattest."""
    lines = []
    for measure, text in MEASURES.items():
        if measure == "RMSE":
            continue
        least = [group.by_test("Rényi", measure) for group in groups]
        middle = [min(group.orders("Rényi"), key=lambda a: abs(a - CLAIMED)) for group in groups]
        gaps = [
            [
                group.gap(("Rényi", at), ("Rényi", group.orders("Rényi")[end]), measure)
                for group, at in zip(groups, middle, strict=True)
            ]
            for end in (0, -1)
        ]
        lower, upper = (in_settings(gap) for gap in gaps)
        lines.append(
            f"{text}: least at α = {', '.join(f'{a:g}' for a in least)}, near ½ in {sum(map(near, least))} of "
            f"{len(least)}; the middle order below the smallest: {lower}; below the largest: {upper}."
        )
    best = ", ".join(f"{group.by_test('Rényi'):g}" for group in groups)
    slopes = max(score.slope for group in groups for score in group.scores if isinstance(score, Flat))
    return [*lines, f"RMSE is least at α = {best}.", f"Largest derivative left in training: {slopes:.1g} nats per row."]


def picture(groups: Sequence[Group], title: str) -> Any:
    """Boxplots of the sharpness on both functions."""
    page = figure(4.8 * len(groups), 6.5)
    headline(page, title)
    axes = page.subplots(2, len(groups), squeeze=False)
    for j, group in enumerate(groups):
        for ax, measure in zip(axes[:, j], ("own", "evidence"), strict=True):
            boxes(ax, group, measure)
            ax.set_yscale("log")
            plain(ax, f"{group.data}, N = {round(0.6 * group.rows)}, M = {group.M}", "", MEASURES[measure])
            ax.tick_params(axis="x", labelsize=TEXT - 2)
    return page
