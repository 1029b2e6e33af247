"""The log evidence between its bounds, beside the bound on the divergence."""

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
    Curve,
    axes,
    figure,
    headline,
    numbers,
    plain_ticks,
    plot_curves,
    target_line,
)


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
