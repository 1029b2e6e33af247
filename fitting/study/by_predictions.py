"""Planning by predictions: from which M on new rows are predicted as well as by the exact GP (N-solve, N-op)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fitting.study.problem import Problem
from fitting.study.ranks import Aims
from fitting.study.standardised import TableRows
from fitting.study.steps import Steps, WrongArguments
from gpbounds.arrays import Float
from gpbounds.audit.path import Distances, ExactScores, GreedyPath, least_from_on
from gpbounds.kernels import Kernel
from gpbounds.texts import short

HELD_OUT = 2000
"""Most rows that are held out, and at most a fifth of the table."""
WHOLE = 20_000
"""Up to so many training rows the exact GP is computed for all of them."""
SUBSETS = 10_000
"""Above so many training rows M is measured for 1/8, 1/4 and 1/2 of them, too, for its trend."""
LARGEST_M = 5000
"""Most inducing points by default: their factor has 8NM bytes."""
FIRST_M = 128
"""Inducing points of the first part of the path; each further part doubles their number."""
BEYOND = 1.4
"""The path goes on to so many times the M that is found, so that "from M on" is looked at there."""
SHOWN = 24
"""Numbers of inducing points whose differences a record holds."""
MEMORY = 2.0**32
"""Bytes of the exact GP's factor."""


MEASURES: dict[str, Callable[[ExactScores, Float, Float], Distances]] = {
    "loss": ExactScores.loss_lost,
    "relative": ExactScores.relative,
}
"""The distances by the name of the option that asks for them."""


# The least M, for one number of training rows.


@dataclass(frozen=True)
class Point:
    """A distance at one M: the centre of its proved enclosure, the enclosure, and the interval for all such rows."""

    M: int
    value: float
    enclosure: tuple[float, float]
    interval: tuple[float, float]


@dataclass(frozen=True)
class Reached:
    """The M from which on a distance is at most its target.

    Attributes
    ----------
    measure : str
        "loss" (log loss lost to the exact GP, nats a row) or "relative" (rms difference of the means over the rms
        residual of the exact GP).
    target : float
    M : int or None
        The least M from which on the upper end of the interval is at most the target; None if no M tried is.
    above : int
        The greatest M at which the lower end of the interval is above the target; 0 if there is none.
    points : tuple of Point
        The distance at some M.
    """

    measure: str
    target: float
    M: int | None
    above: int
    points: tuple[Point, ...]

    @property
    def opened(self) -> float:
        """The factor between the greatest M that is measured not to do and the M from which on it does."""
        return math.inf if self.M is None else self.M / (self.above + 1)

    def at(self, M: int) -> Point:
        """The distance at an M that the record has."""
        return next(point for point in self.points if point.M == M)


@dataclass(frozen=True)
class Measured:
    """What was measured with one number of training rows.

    Attributes
    ----------
    N : int
        Training rows.
    tried : int
        The largest M tried.
    exhausted : bool
        Whether no other row had a variance left that the points do not explain.
    method : str
        How the exact GP's solves were made.
    certified : bool
        Whether all rounding of its ends is proved.
    width : float
        Largest distance of the two ends of its means, in standard deviations of the noise.
    reached : tuple of Reached
        For each measure that was asked.
    """

    N: int
    tried: int
    exhausted: bool
    method: str
    certified: bool
    width: float
    reached: tuple[Reached, ...]

    @property
    def M(self) -> int | None:
        """The M at which all targets are met; None if one is not."""
        known = [each.M for each in self.reached]
        return None if None in known else max(M for M in known if M is not None)

    @property
    def above(self) -> int:
        """The greatest M at which some target is measured to be missed."""
        return max(each.above for each in self.reached)


def targets_of(aims: Aims) -> dict[str, float]:
    """The targets that were asked for, by measure."""
    asked = {"loss": aims.loss, "relative": aims.relative}
    return {measure: target for measure, target in asked.items() if target is not None}


def exact_at(
    kernel: Kernel, rows: TableRows, noise: float, new: TableRows, tolerance: float, progress: bool
) -> ExactScores:
    """The exact GP of ``rows`` at the inputs of ``new``."""
    from gpbounds.iterative import exact_predictions
    from gpbounds.progress import on_terminal

    made = exact_predictions(
        kernel,
        rows.X,
        rows.y,
        new.X,
        noise=noise,
        tolerance=tolerance,
        memory=MEMORY,
        progress=on_terminal(progress),
    )
    return ExactScores(new.y, made.mean, made.variance, noise, made.method, made.certified)


def measured(
    kernel: Kernel,
    rows: TableRows,
    noise: float,
    new: TableRows,
    targets: dict[str, float],
    *,
    most: int | None = None,
    progress: bool = False,
) -> Measured:
    """The M that reaches each target for the training ``rows``, by predictions at the ``new`` rows.

    The path grows until, for every target, it is `BEYOND` times as long as the M that is found, or cannot grow.
    """
    exact = exact_at(kernel, rows, noise, new, min(1e-3, 0.05 * min(targets.values())), progress)
    limit = min(rows.N, LARGEST_M if most is None else most)
    path, M = GreedyPath(kernel, rows.X, rows.y, noise, new.X), min(FIRST_M, limit)
    while True:
        means, variances = path.grow(M)
        distances = {measure: MEASURES[measure](exact, means, variances) for measure in targets}
        exhausted = len(means) < M
        ends = [least_from_on(distances[measure], target) for measure, target in targets.items()]
        if exhausted or limit == M or all(least and BEYOND * least <= M for least, _ in ends):
            break
        M = min(2 * M, limit)
    reached = tuple(
        Reached(measure, target, least, above, _points(distances[measure], least, above))
        for (measure, target), (least, above) in zip(targets.items(), ends, strict=True)
    )
    width = float((exact.mean[1] - exact.mean[0]).max()) / math.sqrt(noise)
    return Measured(rows.N, len(means), exhausted, exact.method, exact.certified, width, reached)


def _points(distances: Distances, M: int | None, above: int) -> tuple[Point, ...]:
    """The distances at M, at half and at twice of it, at the ends of what is open, and along the path."""
    last = len(distances.interval.low)
    wanted = {round(m) for m in np.geomspace(1, last, SHOWN)} | {above, above + 1, last}
    if M is not None:
        wanted |= {M // 4, M // 2, M - 1, M, 2 * M, 4 * M}
    return tuple(
        Point(
            m,
            float(distances.enclosure.middle[m - 1]),
            (float(distances.enclosure.low[m - 1]), float(distances.enclosure.high[m - 1])),
            (float(distances.interval.low[m - 1]), float(distances.interval.high[m - 1])),
        )
        for m in sorted(wanted)
        if 1 <= m <= last
    )


# Numbers of training rows, and the trend of M.


@dataclass(frozen=True)
class Trend:
    """M for more rows than were measured, from its growth with the number of rows: extrapolated, not proved.

    Attributes
    ----------
    N : int
        All rows of the table.
    slope : float
        Of log M against log N, least squares.
    slopes : (float, float)
        The least and the greatest between neighbouring numbers of rows.
    M : int
        For N rows, by the slope, from the largest number of rows that has an M.
    ends : (int, int)
        From the greatest M that is measured not to do, by the least slope, to the M measured, by the greatest.
    """

    N: int
    slope: float
    slopes: tuple[float, float]
    M: int
    ends: tuple[int, int]


def trend(sizes: Sequence[Measured], N: int) -> Trend | None:
    """The trend of the sizes that have an M, continued to N rows; None for fewer than two of them."""
    known = [(each.N, each.M, each.above + 1) for each in sizes if each.M is not None]
    if len(known) < 2:
        return None
    rows, counts = (np.log([each[k] for each in known]) for k in (0, 1))
    slope = float(np.polyfit(rows, counts, 1)[0])
    each = np.diff(counts) / np.diff(rows)
    slopes = min(float(each.min()), slope), max(float(each.max()), slope)
    last, M, above = known[-1]
    ratio = N / last

    def at(start: int, growth: float) -> int:
        return min(N, max(1, math.ceil(start * ratio**growth - 1e-9)))

    return Trend(N, slope, slopes, at(M, slope), (min(at(above, slopes[0]), at(M, slope)), at(M, slopes[1])))


PROVED = 2500
"""Most training rows for which the proof at the training inputs is looked for."""


@dataclass(frozen=True)
class ByOperator:
    """The least M on the path for which N-op proves the relative level at the training inputs, for every y.

    Attributes
    ----------
    N : int
        Training rows.
    target : float
        Rms difference of the means at the training inputs over the rms residual of the exact GP.
    M : int or None
        The least M found with λ_max(K − Q)/σ² ≤ target; None if no M tried has it.
    bound : float
        The proved upper end at M, or at the last M tried.
    confidence : float
        Less than 1 where the bound is by random probes.
    floor : int
        With fewer inducing points, however they are chosen, λ_max(K − Q)/σ² exceeds the target (N-op-low).
    """

    N: int
    target: float
    M: int | None
    bound: float
    confidence: float
    floor: int


def by_operator(kernel: Kernel, rows: TableRows, noise: float, target: float, most: int) -> ByOperator:
    """The proof of the relative level at the inputs of ``rows``, by bisection on one greedy path.

    λ_max(K − Q) does not increase along a path, so the search is exact up to the width of the bounds.
    """
    from fitting.study.afterwards import Floors
    from gpbounds.numerics.search import least
    from gpbounds.renyi import operator_gap

    path = GreedyPath(kernel, rows.X, rows.y, noise, rows.X[:1])
    last = len(path.grow(min(most, rows.N - 1))[0])
    assert path.chosen is not None
    points, bounds = rows.X[path.chosen.indices], {}

    def proved(M: int) -> bool:
        bounds[M] = operator_gap(kernel, rows.X, points[:M], noise=noise)
        return float(bounds[M]) <= target

    eigenvalues = Floors.of(kernel, rows.X, noise, 1.0).eigenvalues
    floor = int((eigenvalues > target * noise).sum())
    M = least(proved, min(max(floor, 1), last), last)
    at = bounds[last if M is None else M]
    return ByOperator(rows.N, target, M, float(at), float(at.confidence), floor)


@dataclass(frozen=True, eq=False)
class ByPredictions:
    """The plan of a table by predictions at rows held out.

    Attributes
    ----------
    N : int
        Rows of the table.
    held_out : int
        Rows of it at which the predictions are compared; the others are training rows.
    seed : int
        Of the draw of the rows held out.
    targets : dict
        Target of each measure, "loss" or "relative".
    sizes : tuple of Measured
        From few training rows to many.
    spread : (int, tuple of int or None) or None
        Number of training rows, and M there for the kernel and noise of the plan, then for those fitted to other rows.
    all_rows : AllRows or None
        Where M is extrapolated: what was measured with all rows, without the exact GP.
    proved : ByOperator or None
        Of a relative level: the M for which it is proved at training inputs.
    """

    N: int
    held_out: int
    seed: int
    targets: dict[str, float]
    sizes: tuple[Measured, ...]
    spread: tuple[int, tuple[int | None, ...]] | None = None
    all_rows: AllRows | None = None
    proved: ByOperator | None = None

    @property
    def reaches_all(self) -> bool:
        """Whether all rows but those held out were training rows."""
        return self.sizes[-1].N == self.N - self.held_out

    @property
    def whole(self) -> bool:
        """Whether M is measured for all of them."""
        return self.reaches_all and self.sizes[-1].M is not None

    @property
    def caption(self) -> str:
        """What the figure shows."""
        return _CAPTION

    @property
    def saves(self) -> bool:
        """Whether M is known and at most half the number of rows; more points cost as much as the exact GP."""
        return self.M is not None and 2 * self.M <= self.N

    @property
    def trend(self) -> Trend | None:
        """The growth of M with the number of rows, continued to all rows of the table."""
        return trend(self.sizes, self.N)

    @property
    def M(self) -> int | None:
        """The number of inducing points to use: measured where all rows are, else extrapolated.

        An extrapolated one is at least that which `all_rows` needs against more points.
        """
        if self.whole:
            return self.sizes[-1].M
        continued = self.trend
        if continued is None:
            return None
        return continued.M if self.all_rows is None else max(continued.M, self.all_rows.M)

    def question(self) -> str:
        """What is asked, in one line."""
        return "Inducing points that suffice for " + " and ".join(
            _TITLES[measure].format(target=target) for measure, target in self.targets.items()
        )

    def scope(self) -> str:
        """What is measured, on which rows, and what is not."""
        largest = self.sizes[-1]
        text = (
            f"Measured at {self.held_out} rows held out at random (seed {self.seed}) of {self.N}; "
            f"{'all others are' if self.reaches_all else f'at most {largest.N} of the others are'} training rows."
        )
        return text if self.whole or self.trend is None else f"{text} M for all rows is extrapolated."

    def _table_of_sizes(self) -> Table:
        """M for each number of training rows."""
        rows = [_size(each) for each in self.sizes]
        continued = self.trend
        if continued is not None and not self.whole:
            low, high = continued.ends
            rows.append((str(continued.N), f"{continued.M}", f"{low} to {high}", "-", "extrapolated"))
        every = self.all_rows
        if every is not None:
            above = max(each.above for each in every.reached)
            ends = f"{above + 1} to {every.M}"
            rows.append(
                (str(every.N), f"{every.M}", ends, f"{every.M / (above + 1):.1f}", f"against M = {every.points}")
            )
        return ("training rows", "M", "open", "factor", "how"), rows

    def sections(self) -> list[tuple[str, Table]]:
        """Headings with tables: M for each number of rows, and the distances for the largest one."""
        tables = [("M for growing numbers of training rows", self._table_of_sizes())] if len(self.sizes) > 1 else []
        largest = self.sizes[-1]
        for each in largest.reached:
            tables.append((f"{_HEADS[each.measure]}: {largest.N} training rows", distances(each)))
        return tables

    def notes(self) -> list[str]:
        """What is proved, what is measured, and what is extrapolated."""
        largest = self.sizes[-1]
        how = "a Cholesky factor" if largest.method == "cholesky" else largest.method
        texts = [
            "Kernel and noise are the same in both predictions; where they were fitted, to rows of all of the table.",
            "Proved: the ends of the exact GP's predictions at the rows held out (N-solve), by "
            f"{how}; those of its means are at most {short(largest.width)} standard deviations of the noise apart"
            + ("." if largest.certified else "; the error of this kernel's entries is only measured.")
            + " The sparse model's predictions are computed in doubles.",
            "Measured: the differences, with Student's 95 % interval for the mean over all rows like those held out, "
            "which is approximate. M is the least number from which on, along one greedy path of points, the interval "
            "and the ends are below the level: numbers are tested from the largest downwards, up to the first that "
            "fails, so that the choice of M costs no confidence; open: from the largest M that they show to be above "
            "it.",
        ]
        if self.proved is not None:
            texts.append(_proof(self.proved))
        continued = self.trend
        if continued is not None:
            least, most = continued.slopes
            text = f"M grows like N to the power {continued.slope:.2f} ({least:.2f} to {most:.2f} between neighbours)."
            if not self.whole:
                text = f"Extrapolated, nothing is proved: {text} So M for all {self.N} rows."
            texts.append(text)
        every = self.all_rows
        if every is not None:
            texts.append(
                f"Measured with all {every.N} training rows against {every.points} points in place of the exact GP: "
                f"from M = {every.M} on. It is no bound: the exact GP may be farther away than those points."
            )
        if any(each.exhausted for each in self.sizes):
            texts.append("Where no other row has a variance that the points do not explain, the path ends there.")
        return texts

    def recommendation(self, command: str) -> str:
        """One number of inducing points with how it is known, and the ``command`` that trains with it."""
        levels = " and ".join(
            f"{target:g} nats a row" if measure == "loss" else f"{target:g} residuals"
            for measure, target in self.targets.items()
        )
        largest = self.sizes[-1]
        if self.M is None:
            text = f"no M up to {largest.tried} is measured to be within {levels} of the exact GP"
            missed = f"; M = {largest.above} is measured not to be" if largest.above else ""
            return f"Recommendation: {text} with {largest.N} training rows{missed}. {command}"
        use = f"use M = {self.M} greedy inducing points"
        if not self.saves:
            use = f"use the exact GP, as more than half the rows, M = {self.M}, would have to be inducing points"
        if self.whole:
            text = f"{use}: {_measured(largest)}, with {largest.N} training rows."
        else:
            continued = self.trend
            assert continued is not None
            low, high = continued.ends
            based = next(each for each in reversed(self.sizes) if each.M is not None)
            text = (
                f"{use}, extrapolated to all {self.N} rows ({low} to {high}): with "
                f"{based.N} training rows M = {based.M}, {_measured(based)}."
            )
            if self.M > continued.M:
                text += f" The trend says {continued.M}, but with all rows fewer than {self.M} are measured not to do."
        if largest.above:
            text += f" M = {largest.above} is measured not to be within {levels} with {largest.N} training rows."
        return f"Recommendation: {text}{self._said_spread()} {command}"

    def _said_spread(self) -> str:
        if self.spread is None:
            return ""
        N, counts = self.spread
        known = [M for M in counts if M is not None]
        several = f" to {max(known)}" if known and min(known) < max(known) else ""
        ends = f"M = {min(known)}{several}" if known else "no M"
        missing = "" if len(known) == len(counts) else ", or none"
        return f" Kernel and noise fitted to other rows give {ends}{missing} with {N} training rows."

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        continued = self.trend
        return {
            "held out": self.held_out,
            "seed": self.seed,
            "targets": self.targets,
            "M": self.M,
            "how": None if self.M is None else "measured" if self.whole else "extrapolated",
            "sizes": [{**asdict(each), "M": each.M, "above": each.above} for each in self.sizes],
            "all rows": None if self.all_rows is None else {**asdict(self.all_rows), "M": self.all_rows.M},
            "at training inputs": None if self.proved is None else asdict(self.proved),
            "trend": None if continued is None else asdict(continued),
            "spread": None if self.spread is None else {"rows": self.spread[0], "M": self.spread[1]},
        }

    def plot(self) -> Any:
        """The distances against M for the largest number of rows, and M against the number of rows."""
        from gpbounds.plotting.elements import BLUE, GREEN, TEXT, VERMILLION, axes, figure, headline, plain_ticks

        largest, several = self.sizes[-1], len(self.sizes) > 1
        panels = len(largest.reached) + several
        page = figure(7.6, 0.6 + 3.4 * panels)
        headline(page, self.question())
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
            known = [each for each in self.sizes if each.M is not None]
            rows, counts = [each.N for each in known], [each.M for each in known]
            ax.vlines(rows, [each.above + 1 for each in known], counts, color=BLUE, linewidth=1.6, label="open")
            ax.plot(rows, counts, color=BLUE, marker="o", markersize=4.5, linewidth=0.0, label="measured")
            continued = self.trend
            if continued is not None:
                line = [counts[-1] * (N / rows[-1]) ** continued.slope for N in (rows[0], self.N)]
                ax.plot([rows[0], self.N], line, color="0.4", linewidth=1.0, linestyle="--", label="trend")
                if not self.whole:
                    ax.vlines([self.N], *([end] for end in continued.ends), color=VERMILLION, linewidth=1.6)
                    ax.plot([self.N], [continued.M], color=VERMILLION, marker="s", linewidth=0.0, label="extrapolated")
            plain_ticks(ax, self.sizes[0].N, self.N)
            ax.legend(fontsize=TEXT - 1, frameon=False)
        return page


WORK = 3e12
"""Operations for the path on all rows: 4NM² for M points."""


@dataclass(frozen=True)
class AllRows:
    """What was measured with all rows but those held out, against more inducing points in place of the exact GP.

    Attributes
    ----------
    N : int
        Training rows.
    points : int
        The points in place of the exact GP: a sparse model with fewer is farther from the exact GP than from them, if
        these are nearer to it than the target; that is not proved.
    reached : tuple of Reached
    """

    N: int
    points: int
    reached: tuple[Reached, ...]

    @property
    def M(self) -> int:
        """The M from which on all targets are met."""
        return max(each.M or self.points for each in self.reached)


def all_rows(
    kernel: Kernel, rows: TableRows, noise: float, new: TableRows, targets: dict[str, float], M: int
) -> AllRows | None:
    """Measure on all ``rows`` against 4M points, or as many as work and memory allow; None if these are too few."""
    most = min(MEMORY / (8.0 * rows.N), math.sqrt(WORK / (4.0 * rows.N)), 4.0 * M, rows.N)
    if most < BEYOND * M:
        return None
    means, variances = GreedyPath(kernel, rows.X, rows.y, noise, new.X).grow(int(most))
    mean, variance = means[-1], variances[-1]
    reference = ExactScores(new.y, (mean, mean), (variance, variance), noise, "more points", False)
    reached = []
    for measure, target in targets.items():
        distances = MEASURES[measure](reference, means, variances)
        least, above = least_from_on(distances, target)
        reached.append(Reached(measure, target, least, above, _points(distances, least, above)))
    return AllRows(rows.N, len(means), tuple(reached))


def numbers_of_rows(training: int) -> list[int]:
    """The numbers of training rows at which M is measured.

    >>> numbers_of_rows(900), numbers_of_rows(16_000), numbers_of_rows(99_000)
    ([900], [2000, 4000, 8000, 16000], [2500, 5000, 10000, 20000])
    """
    largest = min(training, WHOLE)
    return [largest] if largest <= SUBSETS else [largest // part for part in (8, 4, 2, 1)]


def by_predictions(problem: Problem, aims: Aims, steps: Steps, refits: Sequence[int]) -> ByPredictions | None:
    """Measure M for growing numbers of training rows, then for a fit of kernel and noise to other rows for each seed
    of ``refits``; None if nothing is measured.

    A step that fails, or Ctrl-C, leaves what was measured before.
    """
    data, seed, progress = problem.data, problem.asked.seed, problem.asked.progress
    assert data is not None
    order = np.random.default_rng(seed).permutation(data.N)
    held_out = min(HELD_OUT, data.N // 5)
    new, training = data.part(order[:held_out]), order[held_out:]
    targets, kernel, noise = targets_of(aims), problem.kernels[0], problem.settings.noise
    sizes: list[Measured] = []

    def measure(N: int, kernel: Kernel, noise: float) -> Measured:
        rows = data.part(training[:N])
        return measured(kernel, rows, noise, new, targets, most=aims.most, progress=progress)

    for N in numbers_of_rows(len(training)):
        size = steps.take(f"{N} training rows", partial(measure, N, kernel, noise))
        sizes += [] if size is None else [size]
    spread, refit = None, problem.refit
    if sizes and refit is not None and refits:
        few = sizes[0]

        def again() -> tuple[int | None, ...]:
            hypers = [refit(each) for each in refits]
            return tuple(measure(few.N, hyper.kernel, hyper.noise).M for hyper in hypers)

        counts = steps.take(f"{len(refits)} refits", again)
        spread = None if counts is None else (few.N, (few.M, *counts))
    if not sizes:
        return None
    planned = ByPredictions(data.N, held_out, seed, targets, tuple(sizes), spread)
    if aims.relative is not None:
        some, most = data.part(training[:PROVED]), LARGEST_M if aims.most is None else aims.most
        search = partial(by_operator, kernel, some, noise, aims.relative, most)
        planned = replace(planned, proved=steps.take("the proof at training inputs", search))
    continued = planned.trend
    if planned.whole or continued is None:
        return planned
    every = data.part(training)
    more = steps.take("all rows", lambda: all_rows(kernel, every, noise, new, targets, continued.M))
    return replace(planned, all_rows=more)


FEWEST = 25
"""Rows of a table below which a fifth of them is no sample."""


def check(problem: Problem, aims: Aims) -> None:
    """Refuse what has no exact GP to compare with, and options of the levels in nats."""
    asked, spelled = problem.asked, problem.asked.spelled
    (name, *_), data = targets_of(aims), problem.data
    option = spelled(name)
    if data is None:
        raise WrongArguments(f"{option}: expected --data FILE, a table of which rows are held out, got none")
    if data.N < FEWEST:
        raise WrongArguments(f"{option}: expected at least {FEWEST} rows, a fifth of which is held out, got {data.N}")
    if set(aims.methods) != {"inducing"}:
        others = ", ".join(method for method in aims.methods if method != "inducing")
        raise WrongArguments(
            f"{option}: it compares inducing points with the exact GP, and {others} has no such comparison; omit "
            f"{spelled('method')}, or plan {others} by {spelled('nats')}"
        )
    of_nats = {
        "lengthscale_range": asked.lengthscale_range is not None,
        "alpha": aims.alpha != 1.0,
        "select": aims.select != "greedy",
        "width": aims.width is not None,
        "y_norm2": asked.y_norm2 is not None,
        "tv": asked.tv != 0.0,
        "form": asked.form != "sharpest",
        "direction": asked.direction != "q||p",
        "simulate": bool(asked.simulate),
        "old_forms": asked.old_forms,
    }
    for other, given in of_nats.items():
        if given:
            raise WrongArguments(
                f"{spelled(other)}: it belongs to the levels in nats; {option} measures predictions of one kernel on "
                f"the greedy path; omit one of the two"
            )


# The plan in words, tables and a figure.

_TITLES = {
    "loss": "log loss of the sparse model less that of the exact GP <= {target:g} nats a row",
    "relative": "rms difference of the predicted means <= {target:g} rms residuals of the exact GP",
}
_AXES = {
    "loss": "Log loss lost to the exact GP (nats a row)",
    "relative": "Rms difference of the means / rms residual",
}
_HEADS = {"loss": "Log loss lost to the exact GP, nats a row", "relative": "Rms difference of the means over residual"}
_CAPTION = (
    "The distance of the sparse model from the exact GP at the rows held out; bars are 95 % intervals for all such "
    "rows. Against the number of training rows: from the M that is measured not to do to the M from which on it does."
)

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


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
    return f"{0.0:.4f}" if abs(distance) < 5e-7 else f"{distance:.4f}" if abs(distance) >= 1e-3 else f"{distance:.1e}"


def _proof(proved: ByOperator) -> str:
    """What N-op proves at the training inputs."""
    sure = "" if proved.confidence == 1.0 else f", with probability {proved.confidence:.7g}"
    if proved.M is None:
        answer = f"no M tried is proved to have it: λ_max(K − Q)/σ² <= {proved.bound:.3g} at the last"
    else:
        answer = f"M = {proved.M} has it for every y{sure}, as λ_max(K − Q)/σ² <= {proved.bound:.3g} (N-op)"
    return (
        f"Proved at training inputs, of {proved.N} training rows, in place of rows held out: for rms differences of "
        f"{proved.target:g} residuals {answer}; with fewer than {proved.floor} inducing points no choice proves it so "
        "(N-op-low)."
    )


def _measured(each: Measured) -> str:
    """The distances at the M of a number of rows."""
    assert each.M is not None
    texts = []
    for reached in each.reached:
        assert reached.M is not None
        point = reached.at(reached.M)
        unit = "nats a row" if reached.measure == "loss" else "residuals"
        side = "from" if reached.measure == "relative" else "worse than" if point.value >= 0.0 else "better than"
        most = f"95 %: at most {point.interval[1]:.2g}{' worse' if reached.measure == 'loss' else ''}"
        texts.append(f"{abs(point.value):.2g} {unit} {side} the exact GP ({most})")
    return "measured " + " and ".join(texts)
