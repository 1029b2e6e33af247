"""Tables and the picture of `certificates.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dlm_setting import markdown
from pac_settings import load as stored_scores

from gpbounds.plotting import BLACK, BLUE, GREEN, PURPLE, VERMILLION
from gpbounds.plotting.elements import TEXT, figure, headline

PAC_BAYES, DATA_PRIOR, HELD_OUT, COVERAGE, VOTE = "pac-bayes", "data-prior", "held-out", "coverage", "vote"
PRINTED = {("housing", 0): (0.333, 0.115), ("pol", 500): (0.083, 0.015), ("kin40k", 500): (0.115, 0.034)}
"""B and test risk of kl-PAC-GP and of kl-PAC-SGP with ARD in Tables 1 and 2 of paper 002; its scaling used all rows."""
OWN = {("housing", 0): (0.332, 0.109)}
"""The same of `pac_gp_housing.py`."""
STORED = Path(__file__).parent / "results" / "pac_sgp_inducing.csv"
SHARE = 0.5
RATIO, GIBBS = 2.5, {("housing", 0): 0.24, ("energy", 200): 0.03, ("kin40k", 500): 0.03}
MEAN = {("housing", 0): 0.16}
"""Goals: for bound over true risk in the median of the sets, for Gibbs risks, and for those of mean predictions."""


@dataclass(frozen=True)
class Row:
    """One statement about one model on one split.

    ``N`` rows train and certify, ``n`` of them certify.  ``risk`` is that of the certified rows, ``truth`` that of
    ``tests`` test rows.  Of coverage, ``bound`` is the level, ``truth`` the share of test targets in their intervals
    and ``factor`` the κ.  M = 0 stands for an exact GP.
    """

    data: str
    model: str
    M: int
    share: float
    seed: int
    form: str
    N: int
    n: int
    bound: float
    risk: float
    kl: float
    truth: float
    tests: int
    factor: float
    seconds: float

    @property
    def key(self) -> tuple[Any, ...]:
        return self.data, self.M, self.share, self.seed


class Mean(NamedTuple):
    """Means over splits, with the standard error of the bound (nan for one split)."""

    splits: int
    n: int
    bound: float
    error: float
    risk: float
    truth: float
    tests: int
    factor: float
    lowest: float

    @property
    def ratio(self) -> float:
        """Bound over the risk at test rows."""
        return self.bound / self.truth if self.truth > 0.0 else np.inf


Setting = tuple[str, int]


def settings(rows: Sequence[Row], share: float = SHARE) -> list[Setting]:
    """The sets and numbers of inducing points, in the order of the rows."""
    return list(dict.fromkeys((row.data, row.M) for row in rows if row.share == share))


def mean(rows: Sequence[Row], setting: Setting, form: str, share: float = SHARE) -> Mean | None:
    """The means of one form of statement, None without rows."""
    mine = [row for row in rows if (row.data, row.M) == setting and row.form == form and row.share == share]
    if not mine:
        return None
    bounds = np.array([row.bound for row in mine])
    average = {name: float(np.mean([getattr(row, name) for row in mine])) for name in ("risk", "truth", "factor")}
    error = float(bounds.std(ddof=1) / np.sqrt(len(mine))) if len(mine) > 1 else np.nan
    lowest = min(row.truth for row in mine)
    return Mean(len(mine), mine[0].n, float(bounds.mean()), error, tests=mine[0].tests, lowest=lowest, **average)


def named(setting: Setting) -> str:
    data, M = setting
    return f"{data}, M = {M}" if M else data


def number(value: float, error: float = np.nan) -> str:
    """Three digits after the point, and the standard error."""
    digits = 4 if abs(value) < 0.0995 else 3
    return f"{value:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}")


def cells(one: Mean | None) -> list[str]:
    """Bound, risk at the certified rows, at the test rows."""
    return ["–"] * 3 if one is None else [number(one.bound, one.error), number(one.risk), number(one.truth)]


def quoted(setting: Setting) -> tuple[float, float] | None:
    """B and test risk of kl-PAC-GP or kl-PAC-SGP in our reproduction of the paper, scaled by all rows: not rigorous."""
    ours = ("kl-PAC-SGP", True, "paper")
    scores = [score for score in stored_scores(STORED) if (score.method, score.ard, score.variant) == ours]
    mine = [(score.B, score.test) for score in scores if (score.data, score.M) == setting]
    return tuple(np.mean(mine, axis=0).tolist()) if mine else OWN.get(setting)


def times(ratio: float) -> str:
    """Bound over risk; of a set where hardly any test row is wrong it says nothing."""
    return f"{ratio:.2f}" if ratio < 100.0 else "> 100"


def is_real(rows: Sequence[Row], setting: Setting) -> bool:
    """Whether the targets of a set are numbers."""
    return mean(rows, setting, DATA_PRIOR) is not None or mean(rows, setting, PAC_BAYES) is not None


def of_the_paper(rows: Sequence[Row]) -> str:
    """The sets of paper 002: its form, printed and ours, and the new ones."""
    heads = ("set", "splits", "printed B", "our B, scaled by all rows", "rigorous B", "n", "data-prior B", "R_S")
    lines = []
    for setting in settings(rows):
        prior, held = mean(rows, setting, DATA_PRIOR), mean(rows, setting, HELD_OUT)
        if setting[0] not in ("housing", "pol", "kin40k") or prior is None:
            continue
        own = mean(rows, setting, PAC_BAYES)
        printed, ours = (number(pair[0]) if pair else "–" for pair in (PRINTED.get(setting), quoted(setting)))
        rigorous = "–" if own is None else number(own.bound, own.error)
        line = [named(setting), str(prior.splits), printed, ours, rigorous, str(prior.n)]
        lines.append([*line, *cells(prior), *cells(held)])
    return markdown((*heads, "test", "held-out B", "risk", "test"), lines)


def of_the_sets(rows: Sequence[Row]) -> str:
    """All sets with numbers as targets: the bounds of all forms, test risks, and their ratios."""
    heads = ("set", "N", "n", "splits", "paper's form B", "test", "data-prior B", "test", "B/test", "held-out B")
    lines: list[list[str]] = []
    ratios: tuple[list[float], ...] = ([], [], [])
    for setting in settings(rows):
        if not is_real(rows, setting) or setting[1] > 200:
            continue
        paper, prior, held = (mean(rows, setting, form) for form in (PAC_BAYES, DATA_PRIOR, HELD_OUT))
        if prior is None or held is None:
            continue
        least = min((prior, held), key=lambda each: each.bound)
        for place, each in enumerate((prior, held, least)):
            ratios[place].append(each.ratio)
        N = next(row.N for row in rows if (row.data, row.M) == setting and row.form == DATA_PRIOR)
        line = [named(setting), str(N), str(prior.n), str(prior.splits)]
        line += ["–", "–"] if paper is None else [number(paper.bound), number(paper.truth)]
        for each in (prior, held):
            line += [number(each.bound), number(each.truth), times(each.ratio)]
        lines.append([*line, times(least.ratio)])
    if lines:
        kept = [[ratio for ratio in each if ratio < 100.0] for each in ratios]
        median = [times(float(np.median(each))) if each else "–" for each in kept]
        apart = sum(ratio >= 100.0 for ratio in ratios[0])
        name = f"median, without {apart} above 100" if apart else "median"
        lines.append([name, *[""] * 7, median[0], "", "", median[1], median[2]])
    return markdown((*heads, "test", "B/test", "smaller"), lines)


def of_labels(rows: Sequence[Row]) -> str:
    """The sets with two labels, and the goal 1.5 × test error + .02."""
    heads = ("set", "share", "n", "splits", "held-out B", "mistakes", "test error", "1.5 × test + .02", "vote B")
    lines = []
    for setting, share in dict.fromkeys(((row.data, row.M), row.share) for row in rows if row.form == VOTE):
        held, vote = mean(rows, setting, HELD_OUT, share), mean(rows, setting, VOTE, share)
        if held is not None and vote is not None:
            line = [named(setting), f"{share:g}", str(held.n), str(held.splits), *cells(held)]
            lines.append([*line, number(1.5 * held.truth + 0.02), *cells(vote)])
    return markdown((*heads, "Gibbs R_S", "test error"), lines)


def of_intervals(rows: Sequence[Row]) -> str:
    """Coverage: the level that is certified, κ, and the share of test targets in their intervals."""
    heads = ("set", "n", "splits", "certified", "κ", "test, mean of splits", "least", "test rows")
    lines = []
    for setting in settings(rows):
        one = mean(rows, setting, COVERAGE)
        if one is not None:
            line = [named(setting), str(one.n), str(one.splits), f"{one.bound:g}", f"{one.factor:.2f}"]
            lines.append([*line, f"{one.truth:.3f}", f"{one.lowest:.3f}", str(one.tests)])
    return markdown(heads, lines)


def of_shares(rows: Sequence[Row]) -> str:
    """The data-prior and held-out bounds by the share of the rows that train."""
    shares = sorted({row.share for row in rows if row.form == DATA_PRIOR})
    lines = []
    others = dict.fromkeys((row.data, row.M) for row in rows if row.share != SHARE and row.form == DATA_PRIOR)
    for setting in others:
        for form in (DATA_PRIOR, HELD_OUT):
            chosen = [mean(rows, setting, form, share) for share in shares]
            if any(chosen):
                texts = ["–" if one is None else number(one.bound, one.error) for one in chosen]
                lines.append([named(setting), form, *texts])
    return markdown(("set", "form", *(f"share {share:g}" for share in shares)), lines) if lines else ""


def goals(rows: Sequence[Row]) -> str:
    """Whether the goals are met, one line each."""
    lines = []
    for form, wanted in ((DATA_PRIOR, GIBBS), (HELD_OUT, MEAN)):
        for setting, goal in wanted.items():
            one = mean(rows, setting, form)
            if one is not None:
                word = "met" if one.bound <= goal else "missed"
                lines.append(f"- {named(setting)}, {form} ≤ {goal:g}: {number(one.bound)}, {word}")
    return "\n".join(lines)


def tables(rows: Sequence[Row]) -> str:
    """All tables, in Markdown."""
    parts = {
        "### The sets of paper 002": of_the_paper(rows),
        "### Bounds and test risks": of_the_sets(rows),
        "### Labels": of_labels(rows),
        "### Intervals": of_intervals(rows),
        "### Other shares of the rows for training": of_shares(rows),
        "### Goals": goals(rows),
    }
    return "\n\n".join(f"{title}\n\n{text}" for title, text in parts.items() if text)


# The picture


FORMS = {
    PAC_BAYES: ("paper 002's form", VERMILLION),
    DATA_PRIOR: ("prior from half of the rows", BLUE),
    HELD_OUT: ("held-out rows, mean prediction", GREEN),
    VOTE: ("prior from half of the rows, vote", PURPLE),
}


ALL_ROWS = "all rows"


def shown_of(rows: Sequence[Row], setting: Setting) -> list[tuple[str, float, float, float]]:
    """For each form the bound, the risk at test rows, and the least risk that is drawn."""
    there = [(form, one) for form in FORMS if (one := mean(rows, setting, form)) is not None]
    # no mistake at all is drawn at half of one
    chosen = [(form, one.bound, one.truth, 0.5 / (one.tests * one.splits)) for form, one in there]
    other = quoted(setting) or PRINTED.get(setting)
    if other is not None and mean(rows, setting, PAC_BAYES) is None:
        chosen.insert(0, (ALL_ROWS, *other, 0.0))
    return chosen


def panel(ax: Any, rows: Sequence[Row], shown: Sequence[Setting]) -> None:
    """For each set a line from the risk at test rows (open) to the bound (filled), of every form."""
    for place, setting in enumerate(shown):
        there = shown_of(rows, setting)
        for turn, (form, bound, truth, least) in enumerate(there):
            y, color = place + 0.22 * (turn - 0.5 * (len(there) - 1)), FORMS.get(form, FORMS[PAC_BAYES])[1]
            ends, marker = [max(truth, least), bound], "D" if form == ALL_ROWS else "o"
            ax.plot(ends, [y, y], color=color, linewidth=2.0, alpha=0.45, zorder=1)
            ax.plot(ends[0], y, marker, color=color, markerfacecolor="white", markersize=5.0)
            ax.plot(ends[1], y, marker, color=color, markersize=6.0 if marker == "o" else 5.0)
    ax.set_xscale("log")
    rungs(ax, shown)
    low, high = ax.get_xlim()
    ticks = [at for at in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if low <= at <= high]
    ax.set_xticks(ticks, [f"{100.0 * t:g} %" for t in ticks])
    ax.minorticks_off()


def rungs(ax: Any, shown: Sequence[Setting]) -> None:
    """A set on each line; M where a set has two."""
    names = [data for data, _ in shown]
    ax.set_yticks(range(len(shown)), [named(each) if names.count(each[0]) > 1 else each[0] for each in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.tick_params(labelsize=TEXT - 1)
    ax.tick_params(axis="y", length=0)
    ax.grid(True, axis="x", color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    for edge in ("top", "right", "left"):
        ax.spines[edge].set_visible(False)


def covered(ax: Any, rows: Sequence[Row], shown: Sequence[Setting]) -> None:
    """The share of test targets in their intervals, on each split, and the certified level."""
    for place, setting in enumerate(shown):
        mine = [row.truth for row in rows if (row.data, row.M, row.share) == (*setting, SHARE) and row.form == COVERAGE]
        ax.plot(mine, [place] * len(mine), "o", color=BLUE, markersize=5.0, alpha=0.6, markeredgewidth=0.0)
    ax.axvline(0.9, color=BLACK, linewidth=1.0, linestyle=(0, (1, 2)))
    rungs(ax, shown)
    ax.xaxis.set_major_formatter(lambda at, _: f"{100.0 * at:.0f} %")


def picture(rows: Sequence[Row]) -> Any:
    """Bounds and risks of numbers, of labels, and coverage."""
    from matplotlib.lines import Line2D

    chosen = settings(rows)
    real = [s for s in chosen if is_real(rows, s)]
    real.sort(key=lambda s: -(mean(rows, s, DATA_PRIOR) or _NONE).bound)
    labelled = [s for s in chosen if s not in real]
    page = figure(12.5, 1.7 + 0.5 * max(len(real), 4))
    headline(page, "What a certificate says (filled) and the risk at test rows (open), δ = .01, means over splits")
    grid = page.add_gridspec(2, 2, width_ratios=[1.5, 1.0], height_ratios=[len(labelled) + 1, len(real) + 1])
    left, upper, lower = (page.add_subplot(place) for place in (grid[:, 0], grid[0, 1], grid[1, 1]))
    panels = ((left, real, "A new target is off by more than .6 sd"), (upper, labelled, "A wrong label"))
    for ax, shown, title in panels:
        panel(ax, rows, shown)
        ax.set_title(title, fontsize=TEXT, loc="left")
    covered(lower, rows, real)
    lower.set_title("Test targets in intervals that are certified to hold 90 %", fontsize=TEXT, loc="left")
    forms = [form for form in FORMS if any(row.form == form for row in rows)]
    handles = [Line2D([], [], color=FORMS[f][1], marker="o", markersize=6.0, label=FORMS[f][0]) for f in forms]
    if any(each[0] == ALL_ROWS for setting in real for each in shown_of(rows, setting)):
        name = "paper 002's form, scaled by all rows: not rigorous"
        handles.insert(0, Line2D([], [], color=VERMILLION, marker="D", markersize=5.0, label=name))
    page.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=TEXT, frameon=False)
    return page


_NONE = Mean(0, 0, 0.0, np.nan, 0.0, 0.0, 0, np.nan, 0.0)
