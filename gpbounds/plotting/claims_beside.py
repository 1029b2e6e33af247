"""The figure of an examination: what each cause adds to a claimed number, and claimed predictions beside exact ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbounds.plotting.elements import BLUE, GREEN, VERMILLION

if TYPE_CHECKING:
    from gpbounds.audit.causes import Cause
    from gpbounds.audit.examination import Examination

TITLES = {"evidence": "log p(y): claimed − exact, nats", "mean": "worst mean", "variance": "worst variance"}


def claims_figure(answer: Examination) -> Any:
    """The figure of an examination; a panel for each number whose error is split, and one for all predictions.

    Raises
    ------
    ValueError
        if there is nothing to show.
    """
    from matplotlib.figure import Figure

    parts = [] if answer.causes is None else [name for name in TITLES if getattr(answer.causes, name)]
    panels = len(parts) + (answer.predictions is not None)
    if not panels:
        raise ValueError("plot: expected a claim that was examined, got none; its notes say why")
    figure = Figure(figsize=(4.6 * panels, 3.4), layout="constrained")
    axes = np.atleast_1d(np.asarray(figure.subplots(1, panels)))
    for axis, part in zip(axes, parts, strict=False):
        _bars(axis, getattr(answer.causes, part), TITLES[part])
    if answer.predictions is not None:
        _predictions(axes[-1], answer)
    return figure


def _bars(axis: Any, causes: tuple[Cause, ...], title: str) -> None:
    """A bar for each cause, on an axis that is linear below what counts and logarithmic beyond."""
    least = max(causes[0].least, 1e-300)
    sizes = [abs(end) for each in causes for end in each.ends if math.isfinite(end)]
    axis.set_xscale("symlog", linthresh=least)
    for place, each in enumerate(reversed(causes)):
        low, high = each.ends
        if not (math.isfinite(low) and math.isfinite(high)):
            axis.text(0.0, place, " not decided", va="center")
            continue
        color = GREEN if each.effect == "none" else VERMILLION if low > 0.0 else BLUE
        axis.barh(place, 0.5 * (low + high), color=color, height=0.6)
        axis.plot([low, high], [place, place], color="black", linewidth=2.0)
    reach = 3.0 * max([least, *sizes])
    axis.set_xlim(-reach, reach)
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.axvspan(-least, least, color="0.92", zorder=0)
    axis.set_yticks(range(len(causes)), [each.name for each in reversed(causes)])
    axis.set_xlabel("part of the error; grey: counts as none")
    axis.set_title(title, fontsize=10)
    axis.locator_params(axis="x", numticks=5)


def _predictions(axis: Any, answer: Examination) -> None:
    """Claimed standard deviations over exact ones, or errors of means, against the number of the row."""
    claims = answer.predictions
    assert claims is not None
    outside = claims.outside
    if claims.ratio is not None:
        low, high = claims.ratio
        values = np.where(np.isfinite(high), np.sqrt(low * np.where(np.isfinite(high), high, 1.0)), low)
        label, level = "claimed / exact standard deviation", 1.0
        axis.set_yscale("log")
        values = np.where(values > 0.0, values, np.nan)
    else:
        values, label, level = claims.off[1], "|claimed − exact mean|, exact st. dev.", claims.deviation
        axis.set_yscale("log")
    numbers = np.asarray(answer.numbers)
    axis.plot(numbers[~outside], values[~outside], ".", color=BLUE, label="within, or not decided")
    axis.plot(numbers[outside], values[outside], ".", color=VERMILLION, label="off for certain")
    axis.axhline(level, color=GREEN, linewidth=1.0)
    axis.set_xlabel("row")
    axis.set_ylabel(label)
    axis.set_title("predictions", fontsize=10)
    axis.legend(fontsize=8)
