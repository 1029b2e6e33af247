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
    TEXT,
    VERMILLION,
    Curve,
    axes,
    figure,
    headline,
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
    lower, upper : array (n,)
        In nats.
    exact : float, optional
        log p(y) itself, where it is known.
    """

    label: str
    M: ArrayLike
    lower: ArrayLike
    upper: ArrayLike
    exact: float | None = None

    def limits(self) -> tuple[float, float]:
        """A range of log p(y) worth looking at: the brackets of the larger half of M, and a little more."""
        lower, upper = (np.asarray(v, dtype=np.float64) for v in (self.lower, self.upper))
        half = slice(lower.size // 2, None)
        low, high = float(lower[half].min()), float(upper[half].max())
        room = 0.08 * (high - low) or 1.0
        return low - room, high + room


def plot_bracket(ax: Any, bracket: Bracket) -> None:
    """Draw ``bracket`` on the axes ``ax``: a band between its bounds, and the exact value as a line."""
    M, lower, upper = (np.asarray(v, dtype=np.float64) for v in (bracket.M, bracket.lower, bracket.upper))
    ax.fill_between(M, lower, upper, color=BLUE, alpha=0.15, linewidth=0)
    ax.plot(M, upper, color=VERMILLION, linewidth=1.6, marker="v", markersize=4.5, label="upper bound")
    if bracket.exact is not None:
        ax.axhline(bracket.exact, color=BLACK, linewidth=1.4, linestyle="--", label=r"exact $\log p(y)$")
    ax.plot(M, lower, color=BLUE, linewidth=1.6, marker="^", markersize=4.5, label="lower bound (ELBO)")
    ax.set_ylim(*bracket.limits())


def _close(values: Float) -> list[str]:
    """Numbers with as many digits as tell the first from the last.

    >>> _close(np.array([-512.31261, -512.30944]))
    ['-512.313', '-512.309']
    """
    width = float(values[-1] - values[0])
    digits = 3 if width <= 0.0 else int(np.clip(-np.floor(np.log10(width)), 0, 12))
    return [f"{value:.{digits}f}" for value in values]


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
    left.legend(fontsize=TEXT, frameon=False)
    right = axes(page, r"$\log p(y)$ (nats)", 122)
    right.set_yscale("linear")
    right.set_xscale("log")
    plot_bracket(right, bracket)
    M = np.asarray(bracket.M, dtype=np.float64)
    plain_ticks(right, M.min(), M.max())
    low, high = _close(np.array([np.asarray(bracket.lower)[-1], np.asarray(bracket.upper)[-1]]))
    right.set_title(f"{bracket.label}; $M$ = {M[-1]:.0f}: {low} to {high}", fontsize=TEXT, loc="left")
    right.legend(fontsize=TEXT, frameon=False, loc="best")
    return page
