"""The course of training: the objective, and what was still to gain, after each iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.plotting.elements import BLUE, TEXT, VERMILLION, figure, headline, plain_ticks


def training(source: Any, *, title: str = "", ylabel: str = "") -> Any:
    """A figure of the course of training.

    The left panel shows the objective after each iteration, the right one the distance from its best value, with
    logarithmic axes: a power of the number of iterations, by which a run without tolerance ends, is a straight line.

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
