"""A figure of a risk certificate: predictions against truth, and the terms of the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gpbounds.arrays import Float
from gpbounds.plotting.elements import BLACK, BLUE, GREEN, TEXT, VERMILLION, figure, headline, numbers
from gpbounds.plotting.stacks import COSTS, Stack, Wording, heights, plot_bounds
from gpbounds.rigor import decimal

MOST = 2000
"""Largest number of rows in a figure, equally spaced in the order of the targets."""

BARS = 400
"""Largest number of rows for which the figure shows standard deviations."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model at rows with known targets.

    Parameters
    ----------
    truth, mean, std : arrays (n,)
        Targets, and mean and standard deviation of the latent predictions, in the units of the targets.
    half_width : float or array (n,)
        Deviation that the loss tolerates at each target.
    """

    truth: ArrayLike
    mean: ArrayLike
    std: ArrayLike
    half_width: ArrayLike

    def by_truth(self) -> tuple[Float, Float, Float, Float]:
        """The four arrays (n,), sorted by target."""
        columns = (numbers(name, getattr(self, name)) for name in ("truth", "mean", "std", "half_width"))
        truth, mean, std, width = np.broadcast_arrays(*columns)
        order = np.argsort(truth, kind="stable")
        return truth[order], mean[order], std[order], width[order]


@dataclass(frozen=True, eq=False)
class Labels:
    """Predicted labels of rows with known labels.

    Parameters
    ----------
    truth, predicted : sequences of str (n,)
    """

    truth: Sequence[str]
    predicted: Sequence[str]


def certificate_page(
    predictions: Predictions | Labels | None,
    risk: float,
    costs: Sequence[tuple[str, float]],
    bound: float,
    *,
    title: str,
    target: str = "target",
    tolerated: str = "tolerated",
    several: Sequence[Stack] = (),
    forms: Sequence[Stack] = (),
    wording: Wording | None = None,
) -> Any:
    """A figure of two panels: predictions against targets with the tolerated band, and the bound as a stacked bar.

    The bar shows R_S and the difference between bound and R_S.  kl⁻¹ is not a sum, so the figure divides the difference
    in proportion to ``costs``.

    Parameters
    ----------
    predictions : Predictions, Labels or None
        None leaves out the first panel.
    risk, bound : float
        R_S and the bound, 0 ≤ R_S ≤ bound ≤ 1.
    costs : sequence of (label, nats)
        The other terms: KL(Q‖P), ln|Θ|, ...
    title : str
    target : str
        Name of the target.
    tolerated : str
        Label of the band.
    several : sequence of Stack
        Bounds for several ε, which the second panel shows instead; the predictions are those of the first.
    forms : sequence of Stack
        Bounds by several forms of certificate, likewise.
    wording : Wording, optional
        Texts beside the bound; those of a Gibbs risk by default.

    Returns
    -------
    matplotlib.figure.Figure
    """
    words = wording or Wording()
    page = figure(12.0 if predictions is not None else 6.0, 6.4)
    headline(page, title)
    if predictions is None:
        panels = [page.subplots()]
    else:
        panels = list(page.subplots(1, 2, width_ratios=(1.15, 1.0)))
        if isinstance(predictions, Labels):
            plot_labels(panels[0], predictions, "label" if target == "target" else target)
        else:
            plot_predictions(panels[0], predictions, target, tolerated, f", E = {several[0].name}" if several else "")
    if forms:
        highest = max(each.bound for each in forms)
        top = 1.15 * highest if 1.15 * highest < 1.0 else 1.1
        plot_bounds(panels[-1], forms, words, apart="", title="All bounds hold together; the least one counts", top=top)
    elif several:
        apart = "E, the deviation that the loss tolerates"
        plot_bounds(panels[-1], several, words, apart=apart, title="The bound for each E, and its terms", top=1.1)
    else:
        plot_terms(panels[-1], risk, costs, bound, words)
    for ax in panels:
        for spine in ("top", "right"):
            ax.spines[spine].set_visible(False)
    return page


def plot_predictions(
    ax: Any, predictions: Predictions, target: str = "target", tolerated: str = "tolerated", whose: str = ""
) -> None:
    """Plot predictions against targets on the axes ``ax``, with the tolerated band around the diagonal.

    ``whose`` ends the title.
    """
    truth, mean, std, width = predictions.by_truth()
    inside = np.abs(mean - truth) <= width
    low, high = min(truth.min(), mean.min()), max(truth.max(), mean.max())
    margin = 0.04 * (high - low) or 1.0
    ax.set_xlim(truth[0] - margin, truth[-1] + margin)
    ax.set_ylim(low - margin, high + margin)
    edges = np.concatenate([[truth[0] - margin], truth, [truth[-1] + margin]])
    reach = np.concatenate([width[:1], width, width[-1:]])
    ax.fill_between(edges, edges - reach, edges + reach, color="0.87", linewidth=0, label=tolerated)
    ax.plot(edges, edges, color="0.45", linewidth=0.9)
    N = truth.size
    shown = np.unique(np.linspace(0, N - 1, min(N, MOST)).round().astype(int))
    if shown.size <= BARS and std.any():
        bar: dict[str, Any] = {"color": "0.55", "linewidth": 0.7, "alpha": 0.7, "zorder": 0.8}  # behind the points
        ax.vlines(truth[shown], (mean - std)[shown], (mean + std)[shown], label="± 1 std", **bar)
    for kind, color, marker, name in ((inside, BLUE, "o", "mean within"), (~inside, VERMILLION, "^", "mean beyond")):
        rows = shown[kind[shown]]
        size = 16.0 if shown.size <= BARS else 7.0
        label = f"{name}: {100.0 * kind.mean():.3g} % of rows"
        ax.scatter(truth[rows], mean[rows], s=size, color=color, marker=marker, linewidth=0, alpha=0.75, label=label)
    ax.set_xlabel(f"True {target}", fontsize=TEXT + 1)
    ax.set_ylabel(f"Predicted {target}", fontsize=TEXT + 1)
    ax.tick_params(labelsize=TEXT)
    count = f"{N:,} certified rows" if shown.size == N else f"{N:,} certified rows, of which {shown.size:,} are shown"
    ax.set_title(f"Predictions at the {count}{whose}", fontsize=TEXT, loc="left")
    ax.legend(fontsize=TEXT, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=2)


CLASSES = 12
"""Largest number of labels in a figure, those with the most rows."""

LETTERS = 20
"""Largest number of letters of a label in a figure."""


def plot_labels(ax: Any, labels: Labels, target: str = "label") -> None:
    """Plot the number of rows of each label on the axes ``ax``, divided into those predicted right and wrong."""
    truth, predicted = np.asarray(labels.truth, dtype=str), np.asarray(labels.predicted, dtype=str)
    names, counts = np.unique(truth, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:CLASSES])
    right = np.array([int(((truth == name) & (predicted == name)).sum()) for name in names[kept]])
    wrong, places = counts[kept] - right, np.arange(kept.size)
    share = 100.0 * float((truth != predicted).mean())
    ax.barh(places, right, 0.62, color=BLUE, label=f"right: {100.0 - share:.3g} % of rows")
    ax.barh(places, wrong, 0.62, right, color=VERMILLION, label=f"wrong: {share:.3g} % of rows")
    ax.set_xlim(0.0, 1.2 * float(counts.max()))
    for place, one, total in zip(places, wrong, counts[kept], strict=True):
        ax.text(total, place, f" {one:,} wrong", fontsize=TEXT, ha="left", va="center")
    ax.set_yticks(places, [name if len(name) <= LETTERS else f"{name[:LETTERS]}…" for name in names[kept]])
    ax.invert_yaxis()
    ax.tick_params(labelsize=TEXT)
    ax.set_ylabel(f"True {target}", fontsize=TEXT + 1)
    ax.set_xlabel("Number of rows", fontsize=TEXT + 1)
    left = f", of which {kept.size} of {names.size} labels are shown" if kept.size < names.size else ""
    ax.set_title(f"Labels of the {truth.size:,} certified rows{left}", fontsize=TEXT, loc="left")
    ax.legend(fontsize=TEXT, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=2)


def plot_terms(
    ax: Any, risk: float, costs: Sequence[tuple[str, float]], bound: float, wording: Wording | None = None
) -> None:
    """Plot the bound as a stacked bar on the axes ``ax``: relative to the trivial bound 1, and enlarged with labels."""
    words, parts = wording or Wording(), heights(risk, costs, bound)
    added = parts[1:]
    colors = [GREEN, *(COSTS[i % len(COSTS)] for i in range(len(costs)))]
    zoom = 1.0 / bound if bound > 0.0 else 1.0
    tops = np.cumsum(parts)
    for left, scale, line in ((0.15, 1.0, 0.0), (1.15, zoom, 0.6)):
        ax.bar(
            left,
            parts * scale,
            0.5,
            (tops - parts) * scale,
            align="edge",
            color=colors,
            edgecolor="white",
            linewidth=line,
        )
    for low, high in ((0.0, 0.0), (bound, 1.0)):
        ax.plot([0.65, 1.15], [low, high], color="0.6", linewidth=0.8, linestyle=(0, (3, 2)))
    ax.hlines([bound, bound * zoom], [0.15, 1.15], [0.65, 1.65], color=BLACK, linewidth=1.6)
    ax.bar(0.15, 1.0, 0.5, align="edge", fill=False, edgecolor="0.45", linewidth=1.0, linestyle=(0, (4, 2)))
    ax.text(0.4, 1.02, "trivial bound 1", fontsize=TEXT, ha="center", va="bottom", color="0.3")
    texts = [f"{words.risk}: {risk:.4f}"]
    texts += [f"{name}, {cost:,.4g} nats: +{part:.4f}" for (name, cost), part in zip(costs, added, strict=True)]
    places = [*((tops - 0.5 * parts) * zoom), bound * zoom]
    rows = zip(
        (*texts, f"bound: {decimal(bound, True, 4)}"),
        places,
        separated(places, 0.06, 0.02, 1.0),
        (*colors, BLACK),
        strict=True,
    )
    for text, place, spot, color in rows:
        ax.plot([1.67, 1.85], [place, spot], color=color, linewidth=1.0)
        ax.text(1.89, spot, text, fontsize=TEXT, va="center", fontweight="bold" if color == BLACK else "normal")
    ax.set_xlim(0.0, 3.7)
    ax.set_ylim(0.0, 1.08)
    ax.set_xticks([0.4, 1.4], ["up to 1", f"× {zoom:.3g}"])
    ax.tick_params(labelsize=TEXT)
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel(words.axis, fontsize=TEXT + 1)
    ax.set_title("Terms of the bound", fontsize=TEXT, loc="left")
    divided = (
        "" if len(costs) < 2 else f";\nthe bar above {words.risk.split(' on ')[0]} is divided in proportion to the nats"
    )
    ax.set_xlabel(f"{words.formula}{divided}", fontsize=TEXT, loc="left")


def separated(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Increasing ``places`` shifted within ``low`` … ``high`` until neighbours are at least ``gap`` apart.

    >>> [round(place, 2) for place in separated([0.1, 0.11, 0.5], 0.1, 0.0, 1.0)]
    [0.1, 0.2, 0.5]
    >>> [round(place, 2) for place in separated([0.8, 0.95, 1.0], 0.1, 0.0, 1.0)]
    [0.8, 0.9, 1.0]
    """
    moved = [max(place, low) for place in places]
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    ceiling = high
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - gap
    return moved
