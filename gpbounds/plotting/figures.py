"""Bounds against M, alone or with the divergences that subsets reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpbounds.plotting.elements import (
    FAR,
    TEXT,
    Band,
    Curve,
    axes,
    figure,
    headline,
    numbers,
    plain_ticks,
    plot_band,
    plot_curves,
    positive,
    target_line,
)


def bound_curves(curves: Sequence[Curve], *, title: str, ylabel: str, target: float | None = None) -> Any:
    """A figure of bounds against M with a logarithmic vertical axis; the M axis is logarithmic for large M.

    Parameters
    ----------
    curves : sequence of Curve
    title, ylabel : str
    target : float, optional
        A horizontal line, in nats.

    Returns
    -------
    matplotlib.figure.Figure
    """
    page = figure(7.6, 4.8)
    headline(page, title)
    ax = axes(page, ylabel)
    plot_curves(ax, curves)
    if max(np.max(curve.M, initial=1) for curve in curves) > FAR:
        ax.set_xscale("log")
    target_line(ax, target)
    ax.legend(fontsize=TEXT, frameon=False)
    return page


def bound_vs_empirical(
    bounds: Sequence[Curve],
    subsets: Sequence[Band],
    lower: Curve | Sequence[Curve] | None,
    *,
    title: str,
    ylabel: str,
    confidence: str,
    target: float | None = None,
) -> Any:
    """A figure of the divergences that subsets of the data reach, with upper and lower bounds, against M.

    Parameters
    ----------
    bounds : sequence of Curve
        Upper bounds; they need not lie above the divergences reached.
    subsets : sequence of Band
    lower : Curve, or several, optional
        Lower bounds; the axis ends just below the least divergence reached and the target, so parts of them may not be
        visible.
    title, ylabel : str
    confidence : str
        Heading of the bounds in the legend, as "Upper bounds, probability 95 %"; may have several lines.
    target : float, optional
        A horizontal line, in nats.

    Returns
    -------
    matplotlib.figure.Figure
    """
    page = figure(10.0, 5.6)
    headline(page, title)
    ax = axes(page, ylabel)
    ax.set_xscale("log")
    plot_curves(ax, bounds, width=2.0)
    upper_handles = list(ax.get_lines())
    for band in subsets:
        plot_band(ax, band)
    subset_handles = ax.get_lines()[len(upper_handles) :]
    floors = [] if lower is None else [lower] if isinstance(lower, Curve) else list(lower)
    before = len(ax.get_lines())
    plot_curves(ax, floors, width=1.5)
    lower_handles = ax.get_lines()[before:]
    reached = np.concatenate([positive(band.draws).ravel() for band in subsets])
    counts = np.concatenate([numbers("M", band.M) for band in subsets])
    least = min(float(np.nanmin(reached)), np.inf if target is None else target)
    ax.set_ylim(bottom=10.0 ** np.floor(np.log10(least) - 0.3))
    counts = np.concatenate([counts, *(numbers("M", curve.M) for curve in bounds)])
    ax.set_xlim(counts.min() / 1.06, counts.max() * 1.06)
    plain_ticks(ax, counts.min(), counts.max())
    target_line(ax, target)
    blocks = [(confidence, upper_handles), ("Truly reached by subsets", subset_handles)]
    if lower_handles:
        blocks.append(("Lower bound" + "s" * (len(floors) > 1) + ", for certain", lower_handles))
    _legends(page, blocks)
    return page


def _legends(figure: Any, blocks: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """One legend to the right of the axes, with a heading above each block."""
    from matplotlib.lines import Line2D

    def nothing(label: str) -> Any:
        return Line2D([], [], linestyle="none", label=label)

    handles: list[Any] = []
    for heading, members in blocks:
        handles += [nothing(" ")] * bool(handles) + [nothing(heading), *members]
    legend = figure.legend(
        handles=handles, loc="outside right center", fontsize=TEXT - 0.5, frameon=False, handlelength=2.4
    )
    headings = {heading for heading, _ in blocks}
    for text in legend.get_texts():
        if text.get_text() in headings:
            text.set_fontweight("bold")
