"""Figures: bounds against M; the log evidence between its bounds; the course of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.plotting.elements import (
    BLACK,
    BLUE,
    FAR,
    GREEN,
    SKY,
    TEXT,
    VERMILLION,
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


# The log evidence between its bounds, beside the bound on the divergence.


@dataclass(frozen=True, eq=False)
class Bracket:
    """Bounds on log p(y) from both sides, against numbers of inducing points.

    Parameters
    ----------
    label : str
        How the inducing points were chosen.
    M : array (n,)
    elbo, lower, upper : array (n,)
        In nats; ``lower`` is the best lower bound known, at least ``elbo``.
    exact : float, optional
        log p(y) itself, where it is known.
    """

    label: str
    M: ArrayLike
    elbo: ArrayLike
    lower: ArrayLike
    upper: ArrayLike
    exact: float | None = None

    @property
    def reference(self) -> float:
        """The reference of the figure: the exact value, or the middle of the narrowest bracket."""
        if self.exact is not None:
            return self.exact
        lower, upper = numbers("lower", self.lower), numbers("upper", self.upper)
        i = int((upper - lower).argmin())
        return float((lower[i] + upper[i]) / 2.0)


def plot_bracket(ax: Any, bracket: Bracket) -> None:
    """Draw the distances of all bounds from the reference on the axes ``ax``: linear near 0, logarithmic beyond."""
    M = numbers("M", bracket.M)
    zero = bracket.reference
    elbo, lower, upper = (numbers(name, getattr(bracket, name)) - zero for name in ("elbo", "lower", "upper"))
    ax.fill_between(M, lower, upper, color=SKY, alpha=0.25, linewidth=0)
    ax.plot(M, upper, color=VERMILLION, linewidth=1.6, marker="v", markersize=4.5, label="upper bound")
    ax.plot(M, lower, color=BLUE, linewidth=1.6, marker="^", markersize=4.5, label="lower bound")
    ax.plot(M, elbo, color=GREEN, linewidth=1.6, linestyle="--", label="ELBO of the sparse model")
    ax.axhline(0.0, color=BLACK, linewidth=1.2, linestyle=":")
    _both_ways(ax, np.concatenate([elbo, lower, upper]))


def _both_ways(ax: Any, values: Float) -> None:
    """A vertical axis that is linear up to a power of ten near the least of ``values``, logarithmic on both sides."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    sizes = np.abs(values[values != 0.0])
    top = int(np.ceil(np.log10(sizes.max(initial=1.0))))
    bottom = int(np.clip(np.floor(np.log10(sizes.min(initial=1.0))), max(-3, top - 12), top - 1))
    step = max(1, -(-(top - bottom) // 5))
    decades = [10.0**k for k in range(top, bottom - 1, -step)]
    ax.set_yscale("symlog", linthresh=10.0**bottom, linscale=max(0.5, (top - bottom) / 8))
    ax.yaxis.set_major_locator(FixedLocator([*(-d for d in decades), 0.0, *decades]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(
        FuncFormatter(lambda v, _: "0" if v == 0.0 else f"${'-' if v < 0 else '+'}10^{{{np.log10(abs(v)):.0f}}}$")
    )
    low, high = values.min(), values.max()
    ax.set_ylim(2.0 * min(low, -(10.0**bottom)), 2.0 * max(high, 10.0**bottom))


def bounds_and_evidence(
    curves: Sequence[Curve], bracket: Bracket, *, title: str, ylabel: str, target: float | None = None
) -> Any:
    """A figure of two panels against M: bounds on the divergence, and the log evidence between its own bounds.

    Parameters
    ----------
    curves : sequence of Curve
    bracket : Bracket
    title, ylabel : str
    target : float, optional
        A horizontal line in the left panel, in nats.

    Returns
    -------
    matplotlib.figure.Figure
    """
    page = figure(12.0, 5.0)
    headline(page, title)
    left = axes(page, ylabel, 121)
    plot_curves(left, curves)
    if max(np.max(curve.M, initial=1) for curve in curves) > FAR:
        left.set_xscale("log")
    target_line(left, target)
    if len(curves) > 4:  # with more curves, no corner of the axes is free
        left.legend(fontsize=TEXT, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=2)
    else:
        left.legend(fontsize=TEXT, framealpha=0.8, edgecolor="none")
    right = axes(page, r"Bounds on $\log p(y)$ minus $c$ (nats)", 122, scale="linear")
    right.set_xscale("log")
    plot_bracket(right, bracket)
    M = numbers("M", bracket.M)
    plain_ticks(right, M.min(), M.max())
    exact = r"exact $\log p(y)$" if bracket.exact is not None else "middle of narrowest bracket"
    right.set_title(f"{bracket.label} points; $c$ = {bracket.reference:.7g} ({exact})", fontsize=TEXT, loc="left")
    right.legend(fontsize=TEXT, framealpha=0.8, edgecolor="none", loc="best")
    return page


# The course of training: the objective after each iteration, and its distance from the best value.


def training(source: Any, *, title: str = "", ylabel: str = "") -> Any:
    """A figure of the course of training.

    The left panel shows the objective after each iteration, the right one the distance from its best value, with
    logarithmic axes: a rate that is a power of the number of iterations, usual without a tolerance, is a straight line.

    Parameters
    ----------
    source : fitted estimator of `fitting`, or array (n,)
        An estimator with ``history_``, or such a history: the objective at the start and after each iteration, growing
        or falling.  Values that are not finite leave a gap.  Of an estimator, the figure shows the other runs in grey,
        the place where hyperparameters were rounded to the grid, and why training stopped.
    title, ylabel : str, optional
        The defaults name the estimator and its objective.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        for an estimator that is not fitted, or a history without two finite values.

    >>> page = training([3.0, 2.0, 1.5, 1.25])
    >>> [panel.get_xlabel() for panel in page.axes]
    ['Iteration', 'Iteration']
    """
    model = source if hasattr(source, "get_params") else None
    if model is not None and not hasattr(model, "history_"):
        raise ValueError(f"source: expected a fitted estimator, got {type(model).__name__} before fit")
    history = np.asarray(source if model is None else model.history_, dtype=np.float64)
    if history.ndim != 1 or np.isfinite(history).sum() < 2:
        raise ValueError(f"source: expected a history of at least two finite values, got shape {history.shape}")
    values = np.where(np.isfinite(history), history, np.nan)
    certified = hasattr(model, "certificate_")
    page = figure(10.0, 4.4)
    headline(page, title or _title(model))
    left, right = page.subplots(1, 2)
    for ax in (left, right):
        ax.set_xlabel("Iteration", fontsize=TEXT + 1)
        ax.tick_params(labelsize=TEXT)
        ax.grid(True, which="major", color="0.88", linewidth=0.7)
        ax.set_axisbelow(True)
        for spine in ("top", "right"):
            ax.spines[spine].set_visible(False)
    name = ylabel or ("Bound on the risk" if certified else "Objective" + (", nats" if model is not None else ""))
    left.set_ylabel(name, fontsize=TEXT + 1)
    others = _others(model, history, -1.0 if certified else 1.0)
    for i, curve in enumerate(others):
        left.plot(curve, color="0.75", linewidth=1.0, label="" if i else "other runs")
    left.plot(values, color=BLUE, linewidth=1.8, label="this model" if others else "")
    _frame(left, values)
    parts = np.split(values, _roundings(model, history) if certified else [])
    _distances(right, parts)
    right.set_ylabel("Distance from the best value", fontsize=TEXT + 1)
    if len(parts) > 1:
        left.axvline(len(parts[0]), color="0.45", linewidth=1.0, linestyle=(0, (1, 2)), label="rounded to the grid")
        right.legend(fontsize=TEXT, frameon=False)
    if others or len(parts) > 1:
        left.legend(fontsize=TEXT, frameon=False)
    return page


def _title(model: Any) -> str:
    return "Training" if model is None else f"{type(model).__name__}. {model.stop_reason_}"


def _others(model: Any, history: Float, sign: float) -> list[Float]:
    """The runs that are no part of ``history``."""
    curves = [sign * np.asarray(run.values) for run in getattr(model, "runs_", ())]
    shown = {tuple(curve) for curve in np.split(history, _roundings(model, history))}
    return [np.where(np.isfinite(curve), curve, np.nan) for curve in curves if tuple(curve) not in shown]


def _roundings(model: Any, history: Float) -> list[int]:
    """Where a second run begins within ``history``: a PAC-Bayes model is trained again after rounding."""
    for run in getattr(model, "runs_", ()):
        n = len(run.values)
        if n < len(history) and np.array_equal(np.abs(run.values), np.abs(history[:n])):
            return [n]
    return []


def _frame(ax: Any, values: Float) -> None:
    """Vertical limits that show the last nine tenths of the curve; its beginning may be far off."""
    finite = values[np.isfinite(values)]
    late = finite[len(finite) // 10 :]
    low, high = float(late.min()), float(late.max())
    if high > low:
        ax.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))


def _distances(ax: Any, parts: list[Float]) -> None:
    """|value − best| of each part, the last points excepted, where it is 0."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    names = ("before rounding", "on the grid") if len(parts) > 1 else ("",)
    for part, name, color in zip(parts, names, (BLUE, VERMILLION), strict=False):
        finite = part[np.isfinite(part)]
        best = np.fmax.accumulate(part) if finite[-1] >= finite[0] else np.fmin.accumulate(part)
        left = np.abs(best - best[-1])
        ax.plot(np.arange(len(part)), np.where(left > 0.0, left, np.nan), color=color, linewidth=1.8, label=name)
    most = max(len(part) for part in parts)
    ax.set_xlim(1.0, most)
    plain_ticks(ax, 1, most)


@dataclass(frozen=True)
class Range:
    """Numbers of inducing points: so many are needed, so many suffice, of ``N`` rows; None if a number is not known."""

    label: str
    needed: int | None
    suffices: int | None
    N: int


def sufficient(ranges: Sequence[Range], *, title: str, xlabel: str) -> Any:
    """A figure with a line for each of ``ranges``: from the number that is needed to the number that suffices.

    Parameters
    ----------
    ranges : sequence of Range
    title, xlabel : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    page = figure(7.6, 1.3 + 0.5 * max(1, len(ranges)))
    headline(page, title)
    ax = axes(page, "", scale="linear")
    ax.set_xlabel(xlabel, fontsize=TEXT + 1)
    ends = [1, *(end for each in ranges for end in (each.needed, each.suffices) if end is not None)]
    last = max([*ends, *(each.N for each in ranges if each.suffices is None)])
    for place, each in enumerate(ranges):
        first, end = each.needed or 1, each.suffices or each.N
        dashed = "-" if each.suffices is not None else ":"
        ax.plot([first, end], [place, place], color=BLUE, linewidth=2.0, linestyle=dashed)
        if each.needed is not None:
            ax.plot([each.needed], [place], marker="|", markersize=14, color=BLACK)
        if each.suffices is not None:
            ax.plot([each.suffices], [place], marker="o", color=BLUE)
        words = f"{each.suffices} suffice" if each.suffices is not None else f"no number below {each.N}"
        ax.annotate(words, (end, place), xytext=(8, 6), textcoords="offset points", fontsize=TEXT, color=BLUE)
    ax.set_yticks(range(len(ranges)), [each.label for each in ranges])
    ax.set_ylim(len(ranges) - 0.5, -0.7)
    ax.set_xscale("log")
    ax.set_xlim(0.9, 2.2 * last)
    plain_ticks(ax, 1.0, float(last))
    return page
