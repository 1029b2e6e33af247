"""One figure for several bounds that hold together: stacked bars, side by side, with the terms of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpbounds.arrays import Float
from gpbounds.plotting.elements import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, TEXT
from gpbounds.rigor import decimal

COSTS = (BLUE, ORANGE, PURPLE, SKY, BLACK)


class Stack(NamedTuple):
    """A bound and its terms.

    Attributes
    ----------
    name : str
        Below the bar: the accuracy ε, or the form of the certificate with its rows.
    risk : float
        What the rows show: R_S, the mean loss, or the multiple of it that is bounded.
    costs : sequence of (label, nats)
    bound : float
    """

    name: str
    risk: float
    costs: Sequence[tuple[str, float]]
    bound: float


class Wording(NamedTuple):
    """Texts beside a bound.

    Attributes
    ----------
    risk : str
        What the rows show.
    axis : str
        Of what the bound is.
    formula : str
        The bound as a function of the terms.
    """

    risk: str = "$R_S$ on these rows"
    axis: str = "Gibbs risk: mean loss of a new row"
    formula: str = "bound = $\\mathrm{kl}^{-1}(R_S,\\ \\mathrm{nats}/N)$"


def heights(risk: float, costs: Sequence[tuple[str, float]], bound: float) -> Float:
    """The risk, and the parts into which the difference to the bound is divided, in proportion to the nats."""
    nats = np.array([cost for _, cost in costs], dtype=np.float64)
    total = nats.sum()
    return np.array([risk, *((bound - risk) * (nats / total if total > 0.0 else nats))])


def plot_bounds(ax: Any, several: Sequence[Stack], wording: Wording, *, apart: str, title: str, top: float) -> None:
    """Plot bounds as stacked bars on the axes ``ax``, beside one another.

    A term has one colour in all bars.  ``apart`` says in what the bars differ; the axis ends at ``top`` of the largest
    number of 1 and the bounds that it shows, and the trivial bound 1 is drawn where it has room.
    """
    by_length = sorted(several, key=lambda each: -len(each.costs))
    labels = list(dict.fromkeys(name for each in by_length for name, _ in each.costs))
    places, base = np.arange(len(several)), np.zeros(len(several))
    for k, name in enumerate((None, *labels)):
        parts = np.array([_part(each, name) for each in several])
        color = GREEN if name is None else COSTS[(k - 1) % len(COSTS)]
        label = wording.risk if name is None else name
        ax.bar(places, parts, 0.62, base, color=color, edgecolor="white", linewidth=0.6, label=label)
        base = base + parts
    for place, each in zip(places, several, strict=True):
        ax.hlines(each.bound, place - 0.31, place + 0.31, color=BLACK, linewidth=1.6)
        text = decimal(each.bound, True, 3)
        ax.text(place, each.bound + 0.011 * top, text, fontsize=TEXT, ha="center", va="bottom", fontweight="bold")
    if top > 1.0:
        ax.axhline(1.0, color="0.45", linewidth=1.0, linestyle=(0, (4, 2)))
        ax.text(places[-1] + 0.5, 1.012, "trivial bound 1", fontsize=TEXT, ha="right", va="bottom", color="0.3")
    ax.set_xlim(-0.5, places[-1] + 0.5)
    ax.set_ylim(0.0, top)
    ax.set_xticks(places, [each.name for each in several])
    ax.tick_params(labelsize=TEXT)
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel(wording.axis, fontsize=TEXT + 1)
    ax.set_xlabel(apart, fontsize=TEXT + 1)
    ax.set_title(title, fontsize=TEXT, loc="left")
    lines = max(each.name.count("\n") for each in several) + (1 if apart else 0)
    ax.legend(fontsize=TEXT, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08 - 0.045 * lines), ncol=2)


def _part(stack: Stack, name: str | None) -> float:
    """The height of one term, 0 where the bound has none of this name; None is the risk."""
    own = heights(stack.risk, stack.costs, stack.bound)
    if name is None:
        return float(own[0])
    return float(sum(height for height, (each, _) in zip(own[1:], stack.costs, strict=True) if each == name))
