"""Figures of predictions at rows that were held out: predictions against targets, and their calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float, exactly
from gpbounds.plotting.elements import BLUE, TEXT, VERMILLION, figure, headline, numbers
from gpbounds.rigor import decimal

MOST = 2000
"""Largest number of rows in a figure, equally spaced in the order of the predictions."""

BARS = 400
"""Largest number of rows for which the figure shows intervals."""

BINS = 10
"""Number of equal parts of [0, 1] in which probabilities are compared with shares."""

NORMAL = 1.959963984540054
"""The 0.975 quantile of the standard normal."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """Predictions of real targets or counts.

    Parameters
    ----------
    truth, mean, low, high : arrays (n,)
        Targets, predictive means, and the ends of predictive intervals, in the units of the targets.
    """

    truth: ArrayLike
    mean: ArrayLike
    low: ArrayLike
    high: ArrayLike


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Predictions of labels.

    Parameters
    ----------
    truth : array (n,) of bool
        Whether a row has the second label.
    probability : array (n,)
        The predicted probability of that.
    first, second : str
        The labels.
    """

    truth: ArrayLike
    probability: ArrayLike
    first: str = "0"
    second: str = "1"


def targets_page(
    predictions: Intervals,
    ranks: ArrayLike,
    *,
    level: float,
    counts: bool = False,
    title: str,
    target: str = "target",
) -> Any:
    """A figure of two panels: targets against predictions, and the calibration of the predictive laws.

    Parameters
    ----------
    predictions : Intervals
    ranks : array (n,)
        The probability integral transform of each target, randomised for ``counts``: uniform under a true model.
    level : float
        Probability of the intervals.
    counts : bool
    title, target : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    page, left, right = _page(title)
    plot_intervals(left, predictions, level, target)
    plot_ranks(right, ranks, counts)
    return page


def intervals_page(
    predictions: Intervals,
    scores: ArrayLike,
    *,
    rank: int,
    factor: float,
    level: float,
    title: str,
    target: str = "target",
) -> Any:
    """A figure of two panels: targets against predictions with their intervals m ± κs, and the share that a κ holds.

    Parameters
    ----------
    predictions : Intervals
    scores : array (n,)
        |y − m|/s of the rows.
    rank : int
        k: κ is the k-th smallest score.
    factor : float
        κ.
    level : float
        The share of new targets that the intervals hold.
    title, target : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    page, left, right = _page(title)
    plot_intervals(left, predictions, level, target)
    plot_scores(right, scores, rank, factor, level)
    return page


def labels_page(predictions: Probabilities, *, title: str, target: str = "label") -> Any:
    """A figure of two panels: the predicted probabilities of each label's rows, and their calibration.

    Returns
    -------
    matplotlib.figure.Figure
    """
    page, left, right = _page(title)
    plot_probabilities(left, predictions, target)
    plot_reliability(right, predictions)
    return page


def plot_intervals(ax: Any, predictions: Intervals, level: float, target: str = "target") -> None:
    """Plot targets against predictions on the axes ``ax``, with predictive intervals."""
    columns = (numbers(name, getattr(predictions, name)) for name in ("truth", "mean", "low", "high"))
    truth, mean, low, high = np.broadcast_arrays(*columns)
    order = np.argsort(mean, kind="stable")
    N = truth.size
    shown = order[np.unique(np.linspace(0, N - 1, min(N, MOST)).round().astype(int))]
    ends = [min(truth.min(), mean.min()), max(truth.max(), mean.max())]
    ax.plot(ends, ends, color="0.45", linewidth=0.9, label="prediction = truth")
    if shown.size <= BARS:
        bar: dict[str, Any] = {"color": "0.6", "linewidth": 0.8, "alpha": 0.6, "zorder": 0.8}  # behind the points
        ax.vlines(mean[shown], low[shown], high[shown], label=f"{100 * level:g} % interval", **bar)
    inside = (low <= truth) & (truth <= high)
    for kind, color, marker, name in ((inside, BLUE, "o", "within"), (~inside, VERMILLION, "^", "beyond")):
        rows = shown[kind[shown]]
        label = f"{name}: {100.0 * kind.mean():.3g} % of rows"
        size = 16.0 if shown.size <= BARS else 7.0
        ax.scatter(mean[rows], truth[rows], s=size, color=color, marker=marker, linewidth=0, alpha=0.75, label=label)
    ax.set_xlabel(f"Predicted {target}", fontsize=TEXT + 1)
    ax.set_ylabel(f"True {target}", fontsize=TEXT + 1)
    count = f"{N:,} rows held out" if shown.size == N else f"{N:,} rows held out, of which {shown.size:,} are shown"
    ax.set_title(f"Targets of the {count}", fontsize=TEXT, loc="left")
    _legend(ax)


def plot_scores(ax: Any, scores: ArrayLike, rank: int, factor: float, level: float) -> None:
    """Plot the share of scores |y − m|/s up to each value, with κ, the ``rank``-th smallest, and the stated level."""
    sorted_scores = np.sort(numbers("scores", scores))
    n = sorted_scores.size
    end = max(1.3 * factor, float(np.quantile(sorted_scores, 0.995)), 1e-300)
    ax.step([0.0, *sorted_scores, end], [0.0, *(np.arange(1, n + 1) / n), 1.0], where="post", color=BLUE, linewidth=1.8)
    ax.axhline(level, color="0.45", linewidth=1.0, linestyle=(0, (4, 2)), label=f"stated: {level:g} of new targets")
    reached = rank / n
    ax.plot([factor, factor, 0.0], [0.0, reached, reached], color=VERMILLION, linewidth=1.2)
    label = f"$\\kappa$ = {decimal(factor, True, 3)} holds {rank:,} of {n:,} rows, {reached:.4g}"
    ax.plot([factor], [reached], color=VERMILLION, marker="o", markersize=6.0, linewidth=1.2, label=label)
    ax.set_xlim(0.0, end)
    ax.set_ylim(0.0, 1.03)
    ax.set_xlabel("Deviation in spreads, $|y - m|/s$", fontsize=TEXT + 1)
    ax.set_ylabel("Share of the rows up to it", fontsize=TEXT + 1)
    ax.set_title("The factor $\\kappa$ of the intervals $m \\pm \\kappa s$", fontsize=TEXT, loc="left")
    _legend(ax, columns=1)


def plot_ranks(ax: Any, ranks: ArrayLike, counts: bool = False) -> None:
    """Plot the share of targets below each quantile of their predictive laws.

    The band holds 95 % of the shares at each p alone if targets are independent given the predictions; with the
    dependent targets of a Gaussian process a true model leaves it more often (`gpbounds.audit.calibration` tests by
    the joint law).
    """
    u = np.sort(numbers("ranks", ranks))
    p = np.linspace(0.0, 1.0, 201)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.45", linewidth=0.9)
    reach = NORMAL * np.sqrt(p * (1.0 - p) / u.size)
    low, high = np.clip(p - reach, 0.0, 1.0), np.clip(p + reach, 0.0, 1.0)
    ax.fill_between(p, low, high, color="0.87", linewidth=0, label="95 %, if targets are independent")
    shares = np.searchsorted(u, p, side="right") / u.size
    label = "this model (randomised)" if counts else "this model"
    ax.plot(p, shares, color=BLUE, linewidth=1.8, label=label)
    ax.set_xlabel("Probability $p$", fontsize=TEXT + 1)
    ax.set_ylabel("Share of targets below their $p$ quantile", fontsize=TEXT + 1)
    _square(ax, "Calibration of the predictive laws")


def _truths(predictions: Probabilities) -> tuple[Any, Float]:
    truth = np.asarray(exactly("truth", predictions.truth), dtype=bool)
    return truth, numbers("probability", predictions.probability)


def plot_probabilities(ax: Any, predictions: Probabilities, target: str = "label") -> None:
    """Plot histograms of the predicted probability, one for each label."""
    truth, probability = _truths(predictions)
    edges = np.linspace(0.0, 1.0, 2 * BINS + 1)
    for kind, name, color in ((~truth, predictions.first, VERMILLION), (truth, predictions.second, BLUE)):
        wrong = (probability[kind] > 0.5) != (color == BLUE)
        share = f", {100.0 * wrong.mean():.3g} % of them predicted wrongly" if wrong.size else ""
        ax.hist(
            probability[kind],
            edges,
            histtype="stepfilled",
            color=color,
            alpha=0.35,
            edgecolor=color,
            label=f"{name}: {kind.sum():,} rows{share}",
        )
    ax.axvline(0.5, color="0.45", linewidth=1.0, linestyle=(0, (1, 2)))
    ax.set_xlim(0.0, 1.0)
    ax.set_xlabel(f"Predicted probability of {target} {predictions.second}", fontsize=TEXT + 1)
    ax.set_ylabel("Number of rows", fontsize=TEXT + 1)
    ax.set_title(f"Predictions at the {truth.size:,} rows held out", fontsize=TEXT, loc="left")
    _legend(ax, columns=1)


def plot_reliability(ax: Any, predictions: Probabilities) -> None:
    """Plot the share of the second label against its mean predicted probability, in ten bins.

    The bars hold the 0.025 to the 0.975 quantile of the share, if every row of a bin had the mean probability and
    labels were independent given the predictions.
    """
    from scipy.stats import binom

    truth, probability = _truths(predictions)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.45", linewidth=0.9)
    place = np.minimum((probability * BINS).astype(int), BINS - 1)
    sizes = np.bincount(place, minlength=BINS)
    used = sizes > 0
    n = sizes[used]
    mean = np.bincount(place, probability, BINS)[used] / n
    share = np.bincount(place, truth, BINS)[used] / n
    low, high = (binom.ppf(p, n, mean) / n for p in (0.025, 0.975))
    ax.vlines(mean, low, high, color="0.8", linewidth=7.0, label="95 %, if labels are independent")
    ax.plot(mean, share, color=BLUE, linewidth=0.0, marker="o", markersize=6.0, label="this model")
    for x, size in zip((np.flatnonzero(used) + 0.5) / BINS, n, strict=True):
        ax.text(x, 1.05, f"{size:,}", fontsize=TEXT - 1, ha="center", va="bottom", color="0.35")
    ax.set_xlabel(f"Mean predicted probability of {predictions.second}", fontsize=TEXT + 1)
    ax.set_ylabel(f"Share of {predictions.second}", fontsize=TEXT + 1)
    _square(ax, "Calibration in ten bins, with their numbers of rows")
    ax.set_ylim(-0.02, 1.1)


def _page(title: str) -> tuple[Any, Any, Any]:
    page = figure(12.0, 6.4)
    headline(page, title)
    left, right = page.subplots(1, 2, width_ratios=(1.15, 1.0))
    for ax in (left, right):
        ax.tick_params(labelsize=TEXT)
        for spine in ("top", "right"):
            ax.spines[spine].set_visible(False)
    return page, left, right


def _square(ax: Any, title: str) -> None:
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_title(title, fontsize=TEXT, loc="left")
    _legend(ax)


def _legend(ax: Any, columns: int = 2) -> None:
    ax.legend(fontsize=TEXT, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=columns)
