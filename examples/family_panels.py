"""The picture of `every_family.py`, and how often a truth is above its bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, VERMILLION
from gpbounds.plotting.elements import TEXT, figure, headline, plain_ticks
from gpbounds.texts import table

FAMILIES = ("traces", "vfe", "renyi", "mercer", "fourier", "hilbert", "predictions", "pac", "samples")


@dataclass(frozen=True)
class Line:
    """One number that is drawn: between ``lower`` and ``upper``; a bound has NaN where it says nothing.

    ``x`` is M, a rank, or a number of samples or steps.  Divergences are in nats a row.
    """

    family: str
    model: str
    what: str
    x: float
    draw: int
    rows: int
    lower: float
    upper: float


@dataclass(frozen=True)
class Compared:
    """A bound, the truths that it is compared with, and the share of them that may be above it."""

    family: str
    bound: str
    truth: str
    allowed: str


COMPARED = (
    Compared("traces", "bound", "exact mean", "none"),
    Compared("vfe", "bound, given y, best of ten draws", "best of ten draws", "5 %"),
    Compared("vfe", "bound, given y, best of ten draws", "trained", "no theorem"),
    Compared("vfe", "bound, one draw, any y", "trained", "no theorem"),
    Compared("renyi", "bound, given y, best of ten draws", "best of ten draws", "5 %"),
    Compared("renyi", "bound, given y, best of ten draws", "trained", "no theorem"),
    Compared("renyi", "bound, one draw, any y", "trained", "no theorem"),
    Compared("mercer", "bound, after training", "trained", "none"),
    Compared("mercer", "bound, a priori", "trained", "no theorem"),
    Compared("fourier", "bound", "new draw", "5 %"),
    Compared("hilbert", "bound, after training", "trained", "none"),
    Compared("predictions", "bound, means", "means", "none; 5 % of low-rank"),
    Compared("predictions", "bound, variances", "variances", "none; 5 % of low-rank"),
    Compared("pac", "bound", "risk, test rows", "1 %"),
)
"""Also of lower ends: the floors are below every truth."""
COLORS = (VERMILLION, BLUE, GREEN)
LARGEST = 1e15
"""Numbers of samples beyond this one are not drawn."""


def of(lines: Sequence[Line], family: str, what: str, model: str = "") -> list[Line]:
    """In the order of x."""
    those = [e for e in lines if (e.family, e.what) == (family, what) and model in ("", e.model)]
    return sorted(those, key=lambda e: (e.x, e.draw))


def counted(lines: Sequence[Line], pair: Compared) -> tuple[int, int, int]:
    """How many truths have a finite bound, how many an infinite one, and how many are outside of theirs.

    A bound without draws or splits, whose number is 0, is about all of them.
    """
    bounds = {(e.model, e.x, e.draw): e for e in of(lines, pair.family, pair.bound)}
    pairs = []
    for e in of(lines, pair.family, pair.truth):
        bound = bounds.get((e.model, e.x, e.draw)) or bounds.get((e.model, e.x, 0))
        if bound:
            pairs.append((e, bound))
    finite = [(truth, bound) for truth, bound in pairs if np.isfinite(bound.upper)]
    outside = [1 for truth, bound in finite if truth.upper > bound.upper or truth.lower < bound.lower]
    return len(finite), len(pairs) - len(finite), len(outside)


def verdicts(lines: Sequence[Line]) -> str:
    """A table of counts; floors must be below every truth."""
    rows = []
    for pair in COMPARED:
        finite, infinite, outside = counted(lines, pair)
        if finite + infinite:
            rows.append([pair.family, pair.bound, pair.truth, str(finite), str(infinite), str(outside), pair.allowed])
    head = ["family", "bound", "truth", "finite", "infinite", "outside", "allowed"]
    return table(head, rows)


def _finite(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)


def _line(ax: Any, lines: Sequence[Line], color: str, style: str, label: str, end: str = "upper") -> None:
    if lines:
        x, y = [e.x for e in lines], _finite([getattr(e, end) for e in lines])
        ax.plot(x, y, color=color, linestyle=style, linewidth=1.8, label=label)


def _points(ax: Any, lines: Sequence[Line], color: str, marker: str, label: str, shift: float = 1.0) -> None:
    """Hollow markers at the upper ends."""
    x, y = [e.x * shift for e in lines], _finite([e.upper for e in lines])
    ax.plot(x, y, marker, color=color, markersize=5.5, fillstyle="none", markeredgewidth=1.3, label=label)


def _finish(ax: Any, title: str, xlabel: str, ylabel: str, across: Sequence[Line] = ()) -> None:
    """A logarithmic axis below with few ticks, a title of one sentence, a light grid."""
    ax.set_xscale("log")
    if across:
        plain_ticks(ax, min(e.x for e in across), max(e.x for e in across))
    ax.set_title(title, fontsize=TEXT, loc="left")
    ax.set_xlabel(xlabel, fontsize=TEXT)
    ax.set_ylabel(ylabel, fontsize=TEXT)
    ax.tick_params(labelsize=TEXT - 1)
    ax.grid(True, which="major", color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    for edge in ("top", "right"):
        ax.spines[edge].set_visible(False)


def _legend(ax: Any, **where: Any) -> None:
    ax.legend(fontsize=TEXT - 2, frameon=False, **{"loc": "best", **where})


def _traces(ax: Any, lines: Sequence[Line]) -> None:
    _line(ax, of(lines, "traces", "bound"), VERMILLION, "-", "bound on the mean (R-lem3)")
    _line(ax, of(lines, "traces", "exact mean"), BLACK, "--", "exact mean over k-DPPs")
    _points(ax, of(lines, "traces", "k-DPP draw"), GREEN, "o", "draws")
    _line(ax, of(lines, "traces", "floor"), "0.5", ":", "no choice is below", "lower")
    ax.set_yscale("log")
    title = "k-DPPs of a fitted kernel leave traces around\nthe exact mean, which is below its bound"
    label = r"$\mathrm{Tr}(K-Q)\,/\,\mathrm{Tr}\,K$"
    _finish(ax, title, "inducing points M", label, of(lines, "traces", "bound"))


def _sparse(ax: Any, lines: Sequence[Line], family: str) -> None:
    _line(ax, of(lines, family, "bound, one draw, any y"), ORANGE, "--", "one draw, any y (R-thm2)")
    _line(
        ax,
        of(lines, family, "bound, given y, best of ten draws"),
        VERMILLION,
        "-",
        "best of ten, given y (N-tilt-given)",
    )
    _points(ax, of(lines, family, "best of ten draws"), GREEN, "o", "best of ten draws")
    _points(ax, of(lines, family, "trained"), BLUE, "D", "the trained model")
    _line(ax, of(lines, family, "floor"), "0.5", ":", "no choice is below (N-low)", "lower")
    truths = [e.upper for what in ("trained", "best of ten draws") for e in of(lines, family, what)]
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.01 * min(truths))
    model, order = ("VFE", r"$\mathrm{KL}$") if family == "vfe" else ("Rényi GPs (α = ½)", r"$D_{1/2}$")
    total, _, outside = counted(lines, Compared(family, "bound, given y, best of ten draws", "trained", ""))
    title = f"{model}: the best of ten draws is below the bound,"
    title += f"\nand so are {total - outside} of {total} trained models"
    _finish(ax, title, "inducing points M", f"{order}, nats a row", of(lines, family, "trained"))


def _mercer(ax: Any, lines: Sequence[Line]) -> None:
    _line(ax, of(lines, "mercer", "bound, after training"), VERMILLION, "-", "certificate after training (L-54)")
    _line(ax, of(lines, "mercer", "bound, a priori"), ORANGE, "--", "a priori, if inputs were normal (L-43)")
    _points(ax, of(lines, "mercer", "trained"), BLUE, "D", "the trained model")
    ax.set_yscale("log")
    title = "Trained Mercer features are below their certificate,\nand below a bound that is for normal inputs"
    _finish(ax, title, "rank", "KL, nats a row", of(lines, "mercer", "trained"))


def _fourier(ax: Any, lines: Sequence[Line]) -> None:
    models = list(dict.fromkeys(e.model for e in lines if e.family == "fourier"))
    for color, marker, model in zip(COLORS, "osD", models, strict=False):
        bound = of(lines, "fourier", "bound", model)
        short = model.removeprefix("cal_housing, ")
        first = next((e.x for e in bound if np.isfinite(e.upper)), None)
        about = "bound infinite" if first is None else f"bound finite by rank {first:,.0f}".replace(",", " ")
        _line(ax, bound, color, "-", "")
        _points(ax, of(lines, "fourier", "new draw", model), color, marker, f"{short}: {about}")
    ax.set_yscale("log")
    title = "Fourier features by leverage are good long before\ntheir bound (N-rff, lines) is finite"
    _finish(ax, title, "rank", "KL, nats a row")
    powers = [2**k for k in (7, 9, 11, 13, 15)]
    ax.set_ylim(top=30.0 * max(e.upper for e in lines if e.family == "fourier" and np.isfinite(e.upper)))
    ax.set_xticks(powers, [f"{p:,}".replace(",", " ") for p in powers])
    ax.minorticks_off()


def _hilbert(ax: Any, lines: Sequence[Line]) -> None:
    models = list(dict.fromkeys(e.model for e in lines if e.family == "hilbert"))
    for color, marker, model in zip(COLORS, "oD", models, strict=False):
        _line(ax, of(lines, "hilbert", "bound, after training", model), color, "-", f"bound, {model}")
        _points(ax, of(lines, "hilbert", "trained", model), color, marker, f"the trained model, {model}")
    ax.set_yscale("log")
    title = "Trained Hilbert-space GPs are below the bound for any\nrows of the box; the factor c of the box decides"
    _finish(ax, title, "rank", "KL, nats a row", of(lines, "hilbert", "trained"))


def _predictions(page: Any, cell: Any, lines: Sequence[Line]) -> None:
    """Means above variances, for both models."""
    parts = cell.subgridspec(2, 1)
    top = page.add_subplot(parts[0])
    low = page.add_subplot(parts[1], sharex=top)
    models = list(dict.fromkeys(e.model for e in lines if e.family == "predictions"))
    for color, marker, model in zip(COLORS[:2], "oD", models, strict=False):
        _line(top, of(lines, "predictions", "bound, means", model), color, "-", "")
        _points(top, of(lines, "predictions", "means", model), color, marker, model)
        ends, ranges = (of(lines, "predictions", what, model) for what in ("bound, variances", "variances"))
        for end in ("lower", "upper"):
            _line(low, ends, color, "-", "", end)
        x = [e.x for e in ranges]
        low.vlines(x, [e.lower for e in ranges], [e.upper for e in ranges], color=color, linewidth=2.5)
        for end in ("lower", "upper"):
            low.plot(x, [getattr(e, end) for e in ranges], "_", color=color, markersize=8, markeredgewidth=1.8)
    top.set_yscale("log")
    low.set_yscale("log")
    across = of(lines, "predictions", "means")
    title = "Predictions at test rows lie between the ends of Prop. 4\n(lines), by the model's own KL"
    _finish(top, title, "", "largest shift\nof a mean, sd", across)
    _finish(low, "", "inducing points M, or rank", "ratios of\nvariances", across)
    top.tick_params(labelbottom=False)
    low.set_ylim(1e-2, 1e2)
    _legend(top)


def _pac(ax: Any, lines: Sequence[Line]) -> None:
    styles = {"bound": (VERMILLION, "s"), "risk, test rows": (GREEN, "o"), "risk, training rows": (BLUE, "D")}
    labels = {
        "bound": "bound (P-14), δ = .01",
        "risk, test rows": "Gibbs risk, test",
        "risk, training rows": "training",
    }
    for what, (color, marker) in styles.items():
        mine = of(lines, "pac", what)
        sizes = sorted({e.x for e in mine})
        mean = [float(np.mean([e.upper for e in mine if e.x == M])) for M in sizes]
        ax.plot(sizes, mean, color=color, linewidth=1.8, linestyle="-" if what == "bound" else "")
        _points(ax, mine, color, marker, labels[what])
    ax.set_ylim(0.0, None)
    mine = of(lines, "pac", "bound")
    splits, N = len({e.draw for e in mine}), max(e.rows for e in mine)
    title = (
        f"The bound of a trained PAC-SGP is above its risks\n(elevators, {N} rows scaled by others; {splits} splits)"
    )
    _finish(ax, title, "inducing points M", "share of rows off by more than .6 sd", mine)


def _samples(page: Any, cell: Any, lines: Sequence[Line]) -> None:
    """The numbers that are proved to suffice above the losses that others reach."""
    parts = cell.subgridspec(2, 1, height_ratios=(2, 3))
    top = page.add_subplot(parts[0])
    low = page.add_subplot(parts[1], sharex=top)
    rules = {"printed": (ORANGE, "as printed (D-42)"), "chernoff": (VERMILLION, "least proved (N-cher)")}
    steps = sorted({e.x for rule in rules for e in of(lines, "samples", f"proved, {rule}")})
    for k, (rule, (color, label)) in enumerate(rules.items()):
        for e in of(lines, "samples", f"proved, {rule}"):
            height = steps.index(e.x) + 0.22 * (1 - 2 * k)
            ends = [e.lower, min(e.upper, LARGEST)]
            top.plot(
                ends,
                [height] * 2,
                color=color,
                linewidth=4.0,
                solid_capstyle="butt",
                label=label if e.x == steps[0] else "",
            )
    top.set_yticks(range(len(steps)), [f"step {t:.0f}" for t in steps])
    top.set_ylim(-0.6, len(steps) + 0.5)
    top.tick_params(labelbottom=False)
    models = list(dict.fromkeys(e.model for e in of(lines, "samples", "loss reached")))
    for color, marker, shift, model in zip((BLUE, GREEN, PURPLE), "oDs", (0.8, 1.0, 1.25), models, strict=False):
        mine = of(lines, "samples", "loss reached", model)
        sizes = np.array(sorted({e.x for e in mine}))
        mean = [float(np.mean([e.upper for e in mine if e.x == L])) for L in sizes]
        low.plot(sizes * shift, mean, color=color, linewidth=1.2)
        _points(low, mine, color, marker, model, shift)
    low.axhline(0.0, color="0.5", linewidth=1.0, linestyle=":")
    low.set_yscale("symlog", linthresh=0.1, linscale=1.0)
    title = "Ten samples of bMC come near exact gradients;"
    title += "\nproofs ask for far more (bars: rows of abalone)"
    _finish(top, title, "", "")
    _finish(low, "", "samples L for each row and step", "test loss above\nexact gradients', nats")
    low.set_xlim(0.6, LARGEST)
    _legend(top, loc="upper left", ncols=2)
    _legend(low, loc="upper right")


PANELS = {
    "traces": _traces,
    "vfe": lambda ax, lines: _sparse(ax, lines, "vfe"),
    "renyi": lambda ax, lines: _sparse(ax, lines, "renyi"),
    "mercer": _mercer,
    "fourier": _fourier,
    "hilbert": _hilbert,
    "pac": _pac,
}
WHOLE = {"predictions": _predictions, "samples": _samples}
"""Panels of two axes, which share a cell of the grid."""


def picture(lines: Sequence[Line]) -> Any:
    """A panel for each family that has lines."""
    page = figure(15.0, 12.6)
    N = max((e.rows for e in lines if e.family == "vfe"), default=0)
    head = f"Every family of bounds beside trained models of real data: {N} rows of elevators and of cal_housing"
    headline(page, f"{head} (income and age), divergences in nats a row; lines are bounds, markers are truths")
    grid = page.add_gridspec(3, 3)
    there = {e.family for e in lines}
    for at, family in enumerate(FAMILIES):
        if family not in there:
            continue
        cell = grid[at // 3, at % 3]
        if family in WHOLE:
            WHOLE[family](page, cell, lines)
        else:
            ax = page.add_subplot(cell)
            PANELS[family](ax, lines)
            _legend(ax)
    return page
