"""Pictures of `renyi_study.py`: boxplots by method and order, and errors against the order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dlm_setting import plain
from renyi_setting import CLAIMED, METHODS, Group
from renyi_tables import per_step

from gpbounds.plotting import BLACK, BLUE, GREEN, VERMILLION
from gpbounds.plotting.elements import TEXT, figure, headline

COLORS = dict(zip(METHODS, (BLACK, GREEN, VERMILLION, BLUE), strict=True))
KERNEL_NAMES = {"matern32": "Matérn-3/2", "se": "squared exponential"}
Entry = tuple[str, str, np.ndarray]
"""Label, method and values of one box."""


def entries(group: Group, metric: str = "RMSE") -> list[Entry]:
    """The boxes of one data set: methods without an order, power EP at its best power, and every α."""
    listed = [(method, method, group.values(method, 0.0, metric)) for method in ("EGP", "SGP") if group.orders(method)]
    if group.orders("PEP"):
        power = group.by_test("PEP")
        listed.append((f"PEP\n{power:g}", "PEP", group.values("PEP", power, metric)))
    return listed + [(f"α\n{a:g}", "Rényi", group.values("Rényi", a, metric)) for a in group.orders("Rényi")]


def boxes(ax: Any, group: Group, metric: str) -> None:
    listed = entries(group, metric)
    drawn = ax.boxplot([values for _, _, values in listed], patch_artist=True, widths=0.6, flierprops={"markersize": 3})
    for patch, middle, (_, method, _) in zip(drawn["boxes"], drawn["medians"], listed, strict=True):
        patch.set(facecolor=COLORS[method], alpha=0.35, edgecolor=COLORS[method])
        middle.set(color=COLORS[method], linewidth=1.8)
    ax.set_xticks(range(1, len(listed) + 1), [label for label, _, _ in listed])


def boxplots(groups: Sequence[Group], title: str, metric: str = "RMSE") -> Any:
    """One panel for each data set (columns) and each kernel or M (rows; columns for a single data set)."""
    sets = list(dict.fromkeys(group.data for group in groups))
    lanes = list(dict.fromkeys((group.kernel, group.M) for group in groups))
    across, down = (len(lanes), 1) if len(sets) == 1 else (len(sets), len(lanes))
    page = figure(4.3 * across, 1.2 + 2.9 * down)
    headline(page, title)
    axes = page.subplots(down, across, squeeze=False).reshape(len(lanes), len(sets))
    for group in groups:
        i, j = lanes.index((group.kernel, group.M)), sets.index(group.data)
        boxes(axes[i, j], group, metric)
        plain(axes[i, j], f"{group.data}, {KERNEL_NAMES[group.kernel]}, M = {group.M}", "", metric if j == 0 else "")
        axes[i, j].tick_params(axis="x", labelsize=TEXT - 2)
    for ax in axes.ravel():
        ax.set_visible(ax.has_data())
    return page


def curves(groups: Sequence[Group], title: str) -> Any:
    """RMSE and NLPD against α (Rényi) and 1 − power (PEP): the mean, and its standard error as a band."""
    page = figure(max(5.2 * len(groups), 8.0), 7.5)
    headline(page, title)
    axes = page.subplots(2, len(groups), squeeze=False)
    for j, group in enumerate(groups):
        for ax, metric in zip(axes[:, j], ("RMSE", "NLPD"), strict=True):
            _curve(ax, group, metric)
            plain(ax, f"{group.data}, M = {group.M}" if metric == "RMSE" else "", "α  (PEP: 1 − power)", metric)
            ax.axvline(CLAIMED, color="0.6", linewidth=0.9, linestyle=":", zorder=0)
        axes[0, j].legend(fontsize=TEXT - 1, frameon=False)
    return page


def _curve(ax: Any, group: Group, metric: str) -> None:
    for method in METHODS:
        orders = np.array(group.orders(method))
        if not orders.size:
            continue
        values = np.array([group.values(method, order, metric) for order in orders])
        middle = values.mean(axis=1)
        half = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]) if values.shape[1] > 1 else np.zeros(len(orders))
        color, label = COLORS[method], f"{method}, mean and standard error" if method == "Rényi" else method
        if method in ("EGP", "SGP"):
            ax.axhline(middle[0], color=color, linewidth=1.4, linestyle="--" if method == "EGP" else "-.", label=label)
            continue
        x = orders if method == "Rényi" else 1.0 - orders
        ax.plot(x, middle, color=color, marker="o", markersize=4.0, linewidth=1.6, label=label)
        rising = np.argsort(x)
        ax.fill_between(
            x[rising], (middle - half)[rising], (middle + half)[rising], color=color, alpha=0.14, linewidth=0
        )


def sizes(groups: Sequence[Group], title: str) -> Any:
    """RMSE of every method against the number of training rows, with standard errors, one panel for each data set."""
    sets = list(dict.fromkeys(group.data for group in groups))
    page = figure(4.0 * len(sets), 4.2)
    headline(page, title)
    for ax, data in zip(page.subplots(1, len(sets), squeeze=False)[0], sets, strict=True):
        own = sorted((group for group in groups if group.data == data), key=lambda group: group.rows)
        for shift, method in zip((0.955, 0.985, 1.015, 1.045), METHODS, strict=True):  # bars beside one another
            values = [group.best(method) for group in own]
            errors = [v.std(ddof=1) / np.sqrt(v.size) if v.size > 1 else 0.0 for v in values]
            ends: dict[str, Any] = {"color": COLORS[method], "marker": "o", "markersize": 4.0, "capsize": 2}
            places = [shift * round(0.6 * group.rows) for group in own]
            ax.errorbar(places, [v.mean() for v in values], errors, **ends, label=method)
        ticks = [round(0.6 * group.rows) for group in own]
        ax.set_xscale("log")
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        plain(ax, data, "training rows", "RMSE" if data == sets[0] else "")
    ax.legend(fontsize=TEXT - 1, frameon=False)
    return page


def bars(groups: Sequence[Group], title: str) -> Any:
    """Processor seconds of an iteration by method, with and without learned inducing points."""
    page = figure(4.2 * max(len(groups), 2), 4.0)
    headline(page, title)
    for ax, group in zip(page.subplots(1, len(groups), squeeze=False)[0], groups, strict=True):
        for learned, shift, alpha in ((1, -0.2, 0.8), (0, 0.2, 0.35)):
            heights = [per_step(group, method, learned).mean() for method in METHODS]
            bar = ax.bar(np.arange(4) + shift, heights, 0.38, color=[COLORS[m] for m in METHODS], alpha=alpha)
            ax.bar_label(bar, [f"{h:.2g}" for h in heights], fontsize=TEXT - 2)
        ax.set_xticks(range(4), METHODS)
        plain(ax, f"{group.data}, M = {group.M}; dark: learned Z, light: fixed Z", "", "seconds")
    return page
