"""Elements of figures: colours, curves, bands, axes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, exactly

BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#000000",
)
"""The palette of Okabe and Ito, which colour-blind readers can distinguish."""

CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
STYLES = ("-", "--", "-.", ":")
TEXT = 10.0
"""Size of the smallest text, in points."""
FAR = 2000
"""Beyond this number of inducing points their axis is logarithmic."""


@dataclass(frozen=True, eq=False)
class Curve:
    """A line: values against numbers of inducing points.

    Parameters
    ----------
    label : str
    M : array (n,)
    value : array (n,)
        In nats; the axis is logarithmic, so values that are not positive and finite leave a gap.
    color, style : str, optional
        Matplotlib color and line style; the defaults cycle.
    """

    label: str
    M: ArrayLike
    value: ArrayLike
    color: str = ""
    style: str = ""


@dataclass(frozen=True, eq=False)
class Band:
    """Repeated draws: a line of medians and a band from the least to the greatest draw.

    Parameters
    ----------
    label : str
    M : array (n,)
    draws : array (k, n)
        One row per draw, in nats; NaN for a missing draw.  A single row is plotted as a line.
    color : str
    marker : str
    """

    label: str
    M: ArrayLike
    draws: ArrayLike
    color: str
    marker: str = "o"


def numbers(name: str, value: ArrayLike) -> Float:
    """What a figure draws, as doubles; NaN leaves a gap."""
    return np.asarray(exactly(name, value), dtype=np.float64)


def positive(value: ArrayLike) -> Float:
    """``value`` with NaN instead of numbers that a logarithmic axis cannot show."""
    values = numbers("value", value)
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def divergence_symbol(alpha: float | None, direction: str = "q||p") -> str:
    """D_α[q*‖p] as mathematical text; KL for α = 1, and the symbol α if it is None.

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
            numbers("M", curve.M),
            positive(curve.value),
            color=curve.color or CYCLE[i % len(CYCLE)],
            linestyle=curve.style or STYLES[(i // len(CYCLE)) % len(STYLES)],
            linewidth=width,
            label=curve.label,
            marker="o" if np.size(curve.M) == 1 else "",
        )


def plot_band(ax: Any, band: Band) -> None:
    """Draw ``band`` on the axes ``ax``: least to greatest shaded, the median as a line with markers."""
    M, draws = numbers("M", band.M), positive(np.atleast_2d(numbers("draws", band.draws)))
    there = ~np.isnan(draws).all(axis=0)
    M, draws = M[there], draws[:, there]
    if draws.shape[0] > 1:
        low, high = np.nanmin(draws, axis=0), np.nanmax(draws, axis=0)
        ax.fill_between(M, low, high, color=band.color, alpha=0.22, linewidth=0)
    median = np.nanmedian(draws, axis=0)
    ax.plot(M, median, color=band.color, linewidth=1.4, marker=band.marker, markersize=4.5, label=band.label)


def headline(figure: Any, title: str) -> None:
    """Write ``title`` over ``figure``, folded where it is wide."""
    width = int(12.5 * figure.get_figwidth())  # number of letters of this size in a line
    lines = [part for line in title.splitlines() for part in textwrap.wrap(line, width, break_long_words=False)]
    figure.suptitle("\n".join(lines), fontsize=TEXT + 1, x=0.01, ha="left")


def axes(figure: Any, ylabel: str, position: int = 111, scale: str = "log") -> Any:
    """Axes with a vertical ``scale``, M below, ``ylabel`` beside."""
    ax = figure.add_subplot(position)
    ax.set_yscale(scale)
    ax.set_xlabel("Number of inducing points $M$", fontsize=TEXT + 1)
    ax.set_ylabel(ylabel, fontsize=TEXT + 1)
    ax.tick_params(labelsize=TEXT)
    ax.grid(True, which="major", color="0.88", linewidth=0.7)
    ax.set_axisbelow(True)
    for spine in ("top", "right"):
        ax.spines[spine].set_visible(False)
    return ax


def figure(width: float, height: float) -> Any:
    """An empty figure of this size in inches."""
    from gpbounds.plotting.whole import WholeFigure

    return WholeFigure(figsize=(width, height), layout="constrained", dpi=160)


def target_line(ax: Any, target: float | None) -> None:
    """A dotted line at ``target``, with a label."""
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


def plain_ticks(ax: Any, low: float, high: float) -> None:
    """1, 2, 5, 10, ... on a logarithmic horizontal axis, written as whole numbers."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    steps = [digit * 10.0**power for power in range(10) for digit in (1, 2, 5)]
    ax.xaxis.set_major_locator(FixedLocator([step for step in steps if low / 1.08 <= step <= high * 1.08]))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())
