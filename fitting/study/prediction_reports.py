"""A plan by predictions in words, tables, a record and a figure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fitting.study.by_predictions import ByPredictions, Measured, Point, Reached
from gpbounds.texts import short

_TITLES = {
    "loss": "log loss of the sparse model less that of the exact GP <= {target:g} nats a row",
    "relative": "rms difference of the predicted means <= {target:g} rms residuals of the exact GP",
}
_AXES = {
    "loss": "Log loss lost to the exact GP (nats a row)",
    "relative": "Rms difference of the means / rms residual",
}
_HEADS = {"loss": "Log loss lost to the exact GP, nats a row", "relative": "Rms difference of the means over residual"}
EXPLAINED = (
    "The distance of the sparse model from the exact GP at the rows held out; bars are 95 % intervals for all such "
    "rows. Against the number of training rows: from the M that is measured not to do to the M from which on it does."
)

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def question(found: ByPredictions) -> str:
    """What is asked, in one line."""
    return "Inducing points that suffice for " + " and ".join(
        _TITLES[measure].format(target=target) for measure, target in found.targets.items()
    )


def scope(found: ByPredictions) -> str:
    """What is measured, on which rows, and what is not."""
    largest = found.sizes[-1]
    text = (
        f"Measured at {found.held_out} rows held out at random (seed {found.seed}) of {found.N}; "
        f"{'all others are' if found.whole else f'at most {largest.N} of the others are'} training rows."
    )
    return text if found.whole else f"{text} M for all rows is extrapolated."


def sizes(found: ByPredictions) -> Table:
    """M for each number of training rows."""
    rows = [_size(each) for each in found.sizes]
    continued = found.trend
    if continued is not None and not found.whole:
        low, high = continued.ends
        rows.append((str(continued.N), f"{continued.M}", f"{low} to {high}", "-", "extrapolated"))
    every = found.all_rows
    if every is not None:
        above = max(each.above for each in every.reached)
        ends = f"{above + 1} to {every.M}"
        rows.append((str(every.N), f"{every.M}", ends, f"{every.M / (above + 1):.1f}", f"against M = {every.points}"))
    return ("training rows", "M", "open", "factor", "how"), rows


def _size(each: Measured) -> tuple[str, ...]:
    if each.M is None:
        return str(each.N), "-", f"above {each.above}, none of {each.tried}", "-", "measured"
    return str(each.N), str(each.M), f"{each.above + 1} to {each.M}", f"{each.M / (each.above + 1):.1f}", "measured"


def distances(reached: Reached) -> Table:
    """The distance at M, at parts and at multiples of it, and at the end of what is open."""
    last = reached.points[-1].M
    if reached.M is None:
        wanted = [last // 8, last // 4, last // 2, last]
    else:
        wanted = [reached.M // 4, reached.M // 2, reached.above, reached.M, 2 * reached.M, 4 * reached.M]
    known = {point.M: point for point in reached.points}
    shown = [known[min(known, key=lambda m: (abs(m - M), m))] for M in wanted if M >= 1]
    rows = [_distance(point) for point in sorted(set(shown), key=lambda point: point.M)]
    return ("M", "measured", "proved ends at these rows", "95 % interval for all rows"), rows


def _distance(point: Point) -> tuple[str, ...]:
    return str(point.M), _short(point.value), _range(point.enclosure), _range(point.interval)


def _range(ends: tuple[float, float]) -> str:
    return f"{_short(ends[0])} to {_short(ends[1])}"


def _short(distance: float) -> str:
    """Four decimals, more for small distances, and no minus before zeros."""
    return f"{0.0:g}" if abs(distance) < 5e-7 else f"{distance:.4f}" if abs(distance) >= 1e-3 else f"{distance:.1e}"


def sections(found: ByPredictions) -> list[tuple[str, Table]]:
    """Headings with tables: M for each number of rows, and the distances for the largest one."""
    tables = [("M for growing numbers of training rows", sizes(found))] if len(found.sizes) > 1 else []
    largest = found.sizes[-1]
    for each in largest.reached:
        tables.append((f"{_HEADS[each.measure]}: {largest.N} training rows", distances(each)))
    return tables


def notes(found: ByPredictions) -> list[str]:
    """What is proved, what is measured, and what is extrapolated."""
    largest = found.sizes[-1]
    how = "a Cholesky factor" if largest.method == "cholesky" else largest.method
    texts = [
        "Kernel and noise are the same in both predictions; where they were fitted, to rows of all of the table.",
        "Proved: the ends of the exact GP's predictions at the rows held out (N-solve), by "
        f"{how}; those of its means are at most {short(largest.width)} standard deviations of the noise apart"
        + ("." if largest.certified else "; the error of this kernel's entries is only measured.")
        + " The sparse model's predictions are computed in doubles.",
        "Measured: the differences, with Student's 95 % interval for the mean over all rows like those held out, which "
        "is approximate. M is the least number from which on, along one greedy path of points, the interval and the "
        "ends are below the level; open: from the largest M that they show to be above it.",
    ]
    continued = found.trend
    if continued is not None:
        least, most = continued.slopes
        text = f"M grows like N to the power {continued.slope:.2f} ({least:.2f} to {most:.2f} between neighbours)."
        if not found.whole:
            text = f"Extrapolated, nothing is proved: {text} So M for all {found.N} rows."
        texts.append(text)
    every = found.all_rows
    if every is not None:
        texts.append(
            f"Measured with all {every.N} training rows against {every.points} points in place of the exact GP: from "
            f"M = {every.M} on. It is no bound: the exact GP may be farther away than those points."
        )
    if any(each.exhausted for each in found.sizes):
        texts.append("Where no other row has a variance that the points do not explain, the path ends there.")
    return texts


def recommendation(found: ByPredictions, command: str) -> str:
    """One number of inducing points with how it is known, and the ``command`` that trains with it."""
    levels = " and ".join(
        f"{target:g} nats a row" if measure == "loss" else f"{target:g} residuals"
        for measure, target in found.targets.items()
    )
    largest = found.sizes[-1]
    if found.M is None:
        text = f"no M up to {largest.tried} is measured to be within {levels} of the exact GP"
        text += f" with {largest.N} training rows; M = {largest.above} is measured not to be."
        return f"Recommendation: {text} {command}"
    if found.whole:
        text = f"use M = {found.M} greedy inducing points: {_measured(largest)}, with {largest.N} training rows."
    else:
        continued = found.trend
        assert continued is not None
        low, high = continued.ends
        based = next(each for each in reversed(found.sizes) if each.M is not None)
        text = (
            f"use M = {found.M} greedy inducing points, extrapolated to all {found.N} rows ({low} to {high}): with "
            f"{based.N} training rows M = {based.M}, {_measured(based)}."
        )
        if found.M > continued.M:
            text += f" The trend says {continued.M}, but with all rows fewer than {found.M} are measured not to do."
    if largest.above:
        text += f" M = {largest.above} is measured not to be within {levels} with {largest.N} training rows."
    return f"Recommendation: {text}{_spread(found)} {command}"


def _measured(each: Measured) -> str:
    """The distances at the M of a number of rows."""
    assert each.M is not None
    texts = []
    for reached in each.reached:
        assert reached.M is not None
        point = reached.at(reached.M)
        unit = "nats a row" if reached.measure == "loss" else "residuals"
        texts.append(f"{point.value:.2g} {unit} from the exact GP (95 %: at most {point.interval[1]:.2g})")
    return "measured " + " and ".join(texts)


def _spread(found: ByPredictions) -> str:
    if found.spread is None:
        return ""
    N, counts = found.spread
    known = [M for M in counts if M is not None]
    ends = f"M = {min(known)} to {max(known)}" if known else "no M"
    missing = "" if len(known) == len(counts) else ", or none"
    return f" Kernel and noise fitted to other rows give {ends}{missing} with {N} training rows."


def record(found: ByPredictions) -> dict[str, Any]:
    """All of it, ready for JSON."""
    continued = found.trend
    return {
        "held out": found.held_out,
        "seed": found.seed,
        "targets": found.targets,
        "M": found.M,
        "how": None if found.M is None else "measured" if found.whole else "extrapolated",
        "sizes": [{**asdict(each), "M": each.M, "above": each.above} for each in found.sizes],
        "all rows": None if found.all_rows is None else {**asdict(found.all_rows), "M": found.all_rows.M},
        "trend": None if continued is None else asdict(continued),
        "spread": None if found.spread is None else {"rows": found.spread[0], "M": found.spread[1]},
    }


def plot(found: ByPredictions) -> Any:
    """The distances against M for the largest number of rows, and M against the number of rows."""
    from gpbounds.plotting.elements import BLUE, GREEN, TEXT, VERMILLION, axes, figure, headline, plain_ticks

    largest, several = found.sizes[-1], len(found.sizes) > 1
    panels = len(largest.reached) + several
    page = figure(7.6, 0.6 + 3.4 * panels)
    headline(page, question(found))
    for place, each in enumerate(largest.reached):
        ax = axes(page, _AXES[each.measure], 100 * panels + 11 + place, scale="linear")
        ax.set_yscale("symlog", linthresh=each.target, linscale=0.6)
        ax.set_xscale("log")
        points = [point for point in each.points if point.enclosure[1] < float("inf")]
        M, value = [point.M for point in points], [point.value for point in points]
        low, high = ([point.interval[k] for point in points] for k in (0, 1))
        ax.vlines(M, low, high, color=BLUE, linewidth=1.2, alpha=0.6, label="95 % interval for all rows")
        ax.plot(M, value, color=BLUE, marker="o", markersize=3.6, linewidth=0.9, label="measured")
        ax.axhline(each.target, color="0.35", linewidth=1.0, linestyle=(0, (1, 2)), label=f"level {each.target:g}")
        if each.M is not None:
            ax.axvline(each.M, color=GREEN, linewidth=1.2, label=f"M = {each.M}")
            ax.axvspan(each.above + 1, each.M, color=GREEN, alpha=0.12, linewidth=0.0, label="open")
        plain_ticks(ax, 1, M[-1])
        ax.set_title(f"{largest.N} training rows", fontsize=TEXT, loc="left")
        ax.legend(fontsize=TEXT - 1, frameon=False)
    if several:
        ax = axes(page, "Number of inducing points $M$", 100 * panels + 10 + panels)
        ax.set_xlabel("Training rows $N$", fontsize=TEXT + 1)
        ax.set_xscale("log")
        known = [each for each in found.sizes if each.M is not None]
        rows, counts = [each.N for each in known], [each.M for each in known]
        ax.vlines(rows, [each.above + 1 for each in known], counts, color=BLUE, linewidth=1.6, label="open")
        ax.plot(rows, counts, color=BLUE, marker="o", markersize=4.5, linewidth=0.0, label="measured")
        continued = found.trend
        if continued is not None:
            line = [counts[-1] * (N / rows[-1]) ** continued.slope for N in (rows[0], found.N)]
            ax.plot([rows[0], found.N], line, color="0.4", linewidth=1.0, linestyle="--", label="trend")
            if not found.whole:
                ax.vlines([found.N], *([end] for end in continued.ends), color=VERMILLION, linewidth=1.6)
                ax.plot([found.N], [continued.M], color=VERMILLION, marker="s", linewidth=0.0, label="extrapolated")
        plain_ticks(ax, found.sizes[0].N, found.N)
        ax.legend(fontsize=TEXT - 1, frameon=False)
    return page
