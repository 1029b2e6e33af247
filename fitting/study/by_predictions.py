"""Planning by predictions: from which M on new rows are predicted as well as by the exact GP (N-solve, N-op)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fitting.study.problem import Problem
from fitting.study.ranks import Aims
from fitting.study.standardised import TableRows
from fitting.study.steps import Steps, WrongArguments
from gpbounds.arrays import EPS, Float
from gpbounds.audit.scores import Ends, average, log_loss_ends, squared_error_ends
from gpbounds.kernels import Kernel
from gpbounds.linalg import cholesky
from gpbounds.linalg.pivoted import Pivoted, pivoted

HELD_OUT = 1000
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
CONFIDENCE = 0.95


# The sparse model's predictions at all prefixes of one path.


class Path:
    """Predictions of the optimal sparse posterior (VFE) whose inducing points are the first M of one greedy path.

    With V = L⁻¹K_Zf of the whole path, L_B the factor of I + VVᵀ/σ², c = L_B⁻¹Vy/σ², and at new rows V* = L⁻¹K_Z*,
    W = L_B⁻¹V*: the first M rows of V, L_B, c, V* and W are those of the first M points.  So sums over the first M of
    cW, of V*² and of W² are means and variances for every M, in one pass of O(NM²).

    >>> from gpbounds.kernels import SquaredExponential
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> path = Path(SquaredExponential(), X, np.sin(X[:, 0]), 0.01, np.array([[2.0], [3.0]]))
    >>> means, variances = path.grow(10)
    >>> means.shape, bool(abs(means[9, 0] - np.sin(2.0)) < 0.01)
    ((10, 2), True)
    """

    def __init__(self, kernel: Kernel, X: Float, y: Float, noise: float, points: Float) -> None:
        from gpbounds.kdpp.record import groups_of, repeated

        self.kernel, self.X, self.y, self.noise, self.points = kernel, X, y, noise, points
        self._groups = repeated(groups_of(X))
        self.chosen: Pivoted | None = None

    def grow(self, M: int) -> tuple[Float, Float]:
        """Means and latent variances (m, n) for 1, …, m points; m < M where no other row has a variance left."""
        self.chosen = pivoted(
            lambda i, columns: self.kernel(self.X[i], self.X[columns]),
            self.kernel.diag(self.X),
            M,
            groups=self._groups,
            before=self.chosen,
        )
        V, order = self.chosen.factor, self.chosen.indices
        L = np.tril(V[:, order].T)
        new = _lower(L, self.kernel(self.X[order], self.points))
        B = V @ V.T / self.noise
        B[np.diag_indices_from(B)] += 1.0
        factor = cholesky(B, name="I + VVᵀ/σ²")
        weights = factor.solve_lower(V @ self.y / self.noise)
        whitened = factor.solve_lower(new)
        means = np.cumsum(whitened * weights[:, None], axis=0)
        drop = np.cumsum(new * new - whitened * whitened, axis=0)
        return means, np.maximum(self.kernel.diag(self.points) - drop, 0.0)


def _lower(L: Float, B: Float) -> Float:
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(L, B, lower=True, check_finite=False))


# How far the sparse predictions are from the exact ones, for many M at a time.


@dataclass(frozen=True, eq=False)
class Distances:
    """A measure of the distance for 1, …, m points.

    Attributes
    ----------
    enclosure : Ends of arrays (m,)
        At the rows held out, whatever the exact predictions between their ends are.
    interval : Ends of arrays (m,)
        Approximate 95 % interval for all such rows (Student), which holds for every value in the enclosures.
    """

    enclosure: Ends
    interval: Ends


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact GP at the rows held out: their targets, and the proved ends of its predictions."""

    y: Float
    mean: tuple[Float, Float]
    variance: tuple[Float, Float]
    noise: float
    method: str
    certified: bool

    @cached_property
    def loss(self) -> Ends:
        """Log losses."""
        return log_loss_ends(self.y, self.mean, self.variance, self.noise)

    @cached_property
    def squares(self) -> Ends:
        """Squared residuals."""
        return squared_error_ends(self.y, self.mean)

    def loss_lost(self, means: Float, variances: Float) -> Distances:
        """Log loss of the sparse model less that of the exact GP, nats a row, for means and variances (m, n)."""
        s = variances + self.noise
        logs, ratios = 0.5 * np.log(2.0 * np.pi * s), (self.y - means) ** 2 / (2.0 * s)
        exact, half = self.loss.middle, 0.5 * self.loss.width
        rows = logs + ratios - exact
        middle = rows.mean(axis=1)
        spread = rows.std(axis=1, ddof=1) + math.sqrt(float(half @ half) / (len(half) - 1))
        rounding = rounded(len(half)) * (1.0 + np.abs(logs) + ratios + np.abs(exact)).mean(axis=1)
        wide, reach = float(half.mean()) + rounding, quantile(len(half)) * spread / math.sqrt(len(half))
        return Distances(
            Ends(middle - wide, middle + wide),
            Ends(middle - reach - wide, middle + reach + wide),
        )

    def relative(self, means: Float, variances: Float) -> Distances:
        """Rms difference of the means over the rms residual of the exact GP, for means (m, n).

        The interval is that of the ratio of two means of squares, linearised: Student's for the mean of δ² − R²e².
        """
        near, far = (np.empty(means.shape) for _ in range(2))
        for m, mean in enumerate(means):
            near[m], far[m] = squared_error_ends(mean, self.mean)
        residual = average(self.squares)
        middle = self.squares.middle
        slack = rounded(len(middle))
        low = (1.0 - slack) * near.mean(axis=1) / residual.high
        high = (1.0 + slack) * far.mean(axis=1) / max(residual.low, np.finfo(float).tiny)
        ratio = 0.5 * (near + far).mean(axis=1) / middle.mean()
        rows = 0.5 * (near + far) - ratio[:, None] * middle
        reach = quantile(len(middle)) * rows.std(axis=1, ddof=1) / (math.sqrt(len(middle)) * middle.mean())
        return Distances(
            Ends(np.sqrt(low), np.sqrt(high)),
            Ends(np.sqrt(np.maximum(low - reach, 0.0)), np.sqrt(high + reach)),
        )


def rounded(n: int) -> float:
    """At least the relative error of a mean of n positive numbers, each a few units in the last place off."""
    return 2.0 * (n + 16) * EPS


def quantile(n: int) -> float:
    """Of Student's law with n − 1 degrees of freedom, for an interval of two sides."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, 0.5 + 0.5 * CONFIDENCE))


MEASURES: dict[str, Callable[[Exact, Float, Float], Distances]] = {
    "loss": Exact.loss_lost,
    "relative": Exact.relative,
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


def exact_at(kernel: Kernel, rows: TableRows, noise: float, new: TableRows, tolerance: float, progress: bool) -> Exact:
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
    return Exact(new.y, made.mean, made.variance, noise, made.method, made.certified)


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
    path, M = Path(kernel, rows.X, rows.y, noise, new.X), min(FIRST_M, limit)
    while True:
        means, variances = path.grow(M)
        distances = {measure: MEASURES[measure](exact, means, variances) for measure in targets}
        exhausted = len(means) < M
        found = [least_from_on(distances[measure], target) for measure, target in targets.items()]
        if exhausted or limit == M or all(least and BEYOND * least <= M for least, _ in found):
            break
        M = min(2 * M, limit)
    reached = tuple(
        Reached(measure, target, least, above, _points(distances[measure], least, above))
        for (measure, target), (least, above) in zip(targets.items(), found, strict=True)
    )
    width = float((exact.mean[1] - exact.mean[0]).max()) / math.sqrt(noise)
    return Measured(rows.N, len(means), exhausted, exact.method, exact.certified, width, reached)


def least_from_on(distances: Distances, target: float) -> tuple[int | None, int]:
    """(least M from which on the upper end of the interval is ≤ target, or None; greatest M whose lower end is above).

    >>> ends = Ends(np.array([2.0, 0.5, 1.5, 0.1]), np.array([3.0, 0.9, 1.7, 0.3]))
    >>> least_from_on(Distances(ends, ends), 1.0), least_from_on(Distances(ends, ends), 0.2)
    ((4, 3), (None, 3))
    """
    missed, above = ~(distances.interval.high <= target), distances.interval.low > target
    last = int(np.flatnonzero(missed)[-1]) + 1 if missed.any() else 0
    below = int(np.flatnonzero(above)[-1]) + 1 if above.any() else 0
    return (None if last == len(missed) else last + 1), below


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
    """

    N: int
    held_out: int
    seed: int
    targets: dict[str, float]
    sizes: tuple[Measured, ...]
    spread: tuple[int, tuple[int | None, ...]] | None = None
    all_rows: AllRows | None = None

    @property
    def whole(self) -> bool:
        """Whether all rows but those held out were training rows."""
        return bool(self.sizes) and self.sizes[-1].N == self.N - self.held_out

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
    means, variances = Path(kernel, rows.X, rows.y, noise, new.X).grow(int(most))
    mean, variance = means[-1], variances[-1]
    reference = Exact(new.y, (mean, mean), (variance, variance), noise, "more points", False)
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
    new, training = _rows(data, order[:held_out]), order[held_out:]
    targets, kernel, noise = targets_of(aims), problem.kernels[0], problem.settings.noise
    sizes: list[Measured] = []

    def measure(N: int, kernel: Kernel, noise: float) -> Measured:
        rows = _rows(data, training[:N])
        return measured(kernel, rows, noise, new, targets, most=aims.most, progress=progress)

    for N in numbers_of_rows(len(training)):
        found = steps.take(f"{N} training rows", lambda N=N: measure(N, kernel, noise))
        sizes += [] if found is None else [found]
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
    found = ByPredictions(data.N, held_out, seed, targets, tuple(sizes), spread)
    continued = found.trend
    if found.whole or continued is None:
        return found
    every = _rows(data, training)
    more = steps.take("all rows", lambda: all_rows(kernel, every, noise, new, targets, continued.M))
    return replace(found, all_rows=more)


def _rows(data: TableRows, which: Any) -> TableRows:
    return TableRows(data.name, data.X[which], data.y[which], (), data.columns, data.target)


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
