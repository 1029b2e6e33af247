"""Pictures of bounds and of what real subsets reach: matplotlib figures from arrays that are already computed.

Nothing here touches matplotlib's global state: figures are made by their class, and nothing is shown or saved.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float

BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#000000",
)
"""Okabe and Ito's colours: told apart by colour-blind readers, and in grey by their order."""

CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
STYLES = ("-", "--", "-.", ":")
TEXT = 10.0
"""Size of the smallest text, in points."""
FAR = 2000
"""A picture of more inducing points than this has a logarithmic axis for them."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line: values against numbers of inducing points.

    Parameters
    ----------
    label : str
    M : array (n,)
    value : array (n,)
        In nats; values that are not positive and finite leave a gap, the axis being logarithmic.
    color, style : str, optional
        Matplotlib's; chosen in turn where left out.
    """

    label: str
    M: ArrayLike
    value: ArrayLike
    color: str = ""
    style: str = ""


@dataclass(frozen=True, eq=False)
class Band:
    """Repeated draws: a band from least to greatest about a line of medians.

    Parameters
    ----------
    label : str
    M : array (n,)
    draws : array (k, n)
        One row a draw, in nats; NaN where a draw is not there.  A single row is a line.
    color : str
    marker : str
    """

    label: str
    M: ArrayLike
    draws: ArrayLike
    color: str
    marker: str = "o"


def positive(value: ArrayLike) -> Float:
    """``value`` with NaN in place of what a logarithmic axis can't hold."""
    values = np.asarray(value, dtype=np.float64)
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def divergence_symbol(alpha: float | None, direction: str = "q||p") -> str:
    """D_α[q*‖p] in mathematical type, α left open where it is None, KL where it is 1.

    >>> print(divergence_symbol(1.0))
    $\\mathrm{KL}\\,[q^*\\Vert\\, p]$
    """
    pair = r"[q^*\Vert\, p]" if direction == "q||p" else r"[p\,\Vert\, q^*]"
    symbol = r"\mathrm{KL}" if alpha == 1.0 else r"D_{\alpha}" if alpha is None else f"D_{{{alpha:g}}}"
    return rf"${symbol}\,{pair}$"


def plot_curves(ax: Any, curves: Sequence[Curve], *, width: float = 1.8) -> None:
    """Draw ``curves`` on the axes ``ax``, in turn through the colours and, after these, the line styles."""
    for i, curve in enumerate(curves):
        ax.plot(
            np.asarray(curve.M, dtype=np.float64),
            positive(curve.value),
            color=curve.color or CYCLE[i % len(CYCLE)],
            linestyle=curve.style or STYLES[(i // len(CYCLE)) % len(STYLES)],
            linewidth=width,
            label=curve.label,
            marker="o" if np.size(curve.M) == 1 else "",
        )


def plot_band(ax: Any, band: Band) -> None:
    """Draw ``band`` on the axes ``ax``: least to greatest shaded, the median as a line with markers."""
    M, draws = np.asarray(band.M, dtype=np.float64), positive(np.atleast_2d(band.draws))
    there = ~np.isnan(draws).all(axis=0)
    M, draws = M[there], draws[:, there]
    if draws.shape[0] > 1:
        low, high = np.nanmin(draws, axis=0), np.nanmax(draws, axis=0)
        ax.fill_between(M, low, high, color=band.color, alpha=0.22, linewidth=0)
    median = np.nanmedian(draws, axis=0)
    ax.plot(M, median, color=band.color, linewidth=1.4, marker=band.marker, markersize=4.5, label=band.label)


def _axes(figure: Any, title: str, ylabel: str) -> Any:
    room = int(10.5 * figure.get_figwidth())  # letters of this size that a line holds
    lines = [part for line in title.splitlines() for part in textwrap.wrap(line, room, break_long_words=False)]
    figure.suptitle("\n".join(lines), fontsize=TEXT + 1, x=0.01, ha="left")
    ax = figure.add_subplot()
    ax.set_yscale("log")
    ax.set_xlabel("Number of inducing points $M$", fontsize=TEXT + 1)
    ax.set_ylabel(ylabel, fontsize=TEXT + 1)
    ax.tick_params(labelsize=TEXT)
    ax.grid(True, which="major", color="0.88", linewidth=0.7)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=160)


def _target_line(ax: Any, target: float | None) -> None:
    if target is not None:
        ax.axhline(target, color="0.45", linewidth=1.0, linestyle=(0, (1, 2)))
        ax.annotate(
            f"target {target:g}",
            (0.0, target),
            xycoords=("axes fraction", "data"),
            xytext=(6, 3),
            textcoords="offset points",
            fontsize=TEXT - 1,
            color="0.35",
        )


def bound_curves(curves: Sequence[Curve], *, title: str, ylabel: str, target: float | None = None) -> Any:
    """A figure of bounds against M, with a logarithmic vertical axis; M is logarithmic, too, where it goes far.

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
    figure = _figure(7.6, 4.8)
    ax = _axes(figure, title, ylabel)
    plot_curves(ax, curves)
    if max(np.max(curve.M, initial=1) for curve in curves) > FAR:
        ax.set_xscale("log")
    _target_line(ax, target)
    ax.legend(fontsize=TEXT, frameon=False)
    return figure


def bound_vs_empirical(
    bounds: Sequence[Curve],
    subsets: Sequence[Band],
    lower: Curve | None,
    *,
    title: str,
    ylabel: str,
    confidence: str,
    target: float | None = None,
) -> Any:
    """A figure of what subsets of the data truly reach, between upper bounds and a lower bound, against M.

    Parameters
    ----------
    bounds : sequence of Curve
        Upper bounds; no assumption that they lie above what was reached is made.
    subsets : sequence of Band
    lower : Curve, optional
        A lower bound; the axis ends just below the least value reached and the target, so it may leave the picture.
    title, ylabel : str
    confidence : str
        Heading of the bounds in the legend, as "Upper bounds, probability 95 %"; may have several lines.
    target : float, optional
        A horizontal line, in nats.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = _figure(10.0, 5.6)
    ax = _axes(figure, title, ylabel)
    ax.set_xscale("log")
    plot_curves(ax, bounds, width=2.0)
    upper_handles = list(ax.get_lines())
    for band in subsets:
        plot_band(ax, band)
    subset_handles = ax.get_lines()[len(upper_handles) :]
    lower_handles = []
    if lower is not None:
        plot_curves(ax, [lower], width=1.5)
        lower_handles = ax.get_lines()[-1:]
    reached = np.concatenate([positive(band.draws).ravel() for band in subsets])
    counts = np.concatenate([np.asarray(band.M, dtype=np.float64) for band in subsets])
    least = min(float(np.nanmin(reached)), np.inf if target is None else target)
    ax.set_ylim(bottom=10.0 ** np.floor(np.log10(least) - 0.3))
    counts = np.concatenate([counts, *(np.asarray(curve.M, dtype=np.float64) for curve in bounds)])
    ax.set_xlim(counts.min() / 1.06, counts.max() * 1.06)
    _plain_ticks(ax, counts.min(), counts.max())
    _target_line(ax, target)
    blocks = [(confidence, upper_handles), ("Truly reached by subsets", subset_handles)]
    if lower_handles:
        blocks.append(("Lower bound, for certain", lower_handles))
    _legends(figure, blocks)
    return figure


def _plain_ticks(ax: Any, low: float, high: float) -> None:
    """1, 2, 5, 10, ... on a logarithmic horizontal axis, written as whole numbers."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    steps = [digit * 10.0**power for power in range(10) for digit in (1, 2, 5)]
    ax.xaxis.set_major_locator(FixedLocator([step for step in steps if low / 1.08 <= step <= high * 1.08]))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())


def _legends(figure: Any, blocks: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """One legend to the right of the axes, a heading over each block."""
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
