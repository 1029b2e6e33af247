"""What subsets of real data truly reach, under the bounds: the study that the demo and the example share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds import plotting
from gpbounds.arrays import Float
from gpbounds.cli.data import Data
from gpbounds.cli.hyperparameters import Hyperparameters
from gpbounds.cli.problem import Case, Problem, Statement, data_cases, headline
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.numerics.search import bisected
from gpbounds.plan import Plan

Progress = Callable[[Sequence[Any]], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class Reached:
    """D_α of the data's own y for subsets of size M: arrays (draws, len(M)), NaN where there is no such subset."""

    M: Float
    random: Float
    kdpp: Float
    greedy: Float


@dataclass(frozen=True, eq=False)
class Line:
    """An upper bound against M: its case, its form, its values in nats."""

    label: str
    case: Case
    form: str
    value: Float

    @property
    def name(self) -> str:
        """Its name in JSON."""
        return f"{self.case.kind}, {'y from the prior' if self.case.y_norm2 is None else 'any y'}, {self.form}"


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that the report and the picture show."""

    problem: Problem
    part: Data
    alpha: float
    target: float
    plans: tuple[tuple[Case, Plan], ...]
    grid: Float
    lines: tuple[Line, ...]
    lower: Float
    reached: Reached


def counts_to_try(N: int, several: int = 14) -> Float:
    """About ``several`` whole numbers from 5 (or 1) to 0.9·N < N, evenly spaced in their logarithm."""
    return np.unique(np.floor(np.geomspace(min(5.0, max(1.0, N / 4)), max(1.0, 0.9 * N), several) + 1e-9))


def reach(
    kernel: Kernel, part: Data, noise: float, alpha: float, M: Float, draws: int, seed: int, progress: Progress
) -> Reached:
    """`Reached` for ``draws`` random and k-DPP subsets of each size, and the greedy one.

    The k-DPP's matrix is decomposed once.  Sizes beyond the numerical rank of K have no k-DPP and no greedy subset.
    """
    from gpbounds.errors import NotPositiveDefinite
    from gpbounds.kdpp import greedy, sample_eigen

    K = kernel(part.X)
    decomposed = eigen(K, "k(X, X)", vectors=True)
    vectors: Any = decomposed.vectors
    order = _longest_greedy(greedy, K, int(M.max()))
    rank = int((decomposed.values > decomposed.rounding).sum())
    rng = np.random.default_rng(seed)
    found = {"random": np.full((draws, M.size), np.nan), "kdpp": np.full((draws, M.size), np.nan)}
    best = np.full((1, M.size), np.nan)

    divergence = divergence_of(kernel, part, noise, alpha)

    def gap(rows: Any) -> float:
        try:
            return divergence(part.X[rows])
        except NotPositiveDefinite:  # Kuu is singular in float64: no such subset can be used as it stands
            return np.nan

    jobs = [("greedy", 0, j) for j in range(M.size)]
    jobs += [(kind, draw, j) for draw in range(draws) for j in range(M.size) for kind in ("random", "kdpp")]
    for kind, draw, j in progress(jobs):
        size = int(M[j])
        if kind == "random":
            found[kind][draw, j] = gap(rng.choice(part.N, size, replace=False))
        elif kind == "kdpp" and size <= rank:
            found[kind][draw, j] = gap(sample_eigen(decomposed.values, vectors, size, rng))
        elif kind == "greedy" and size <= order.size:
            best[0, j] = gap(order[:size])
    return Reached(M, found["random"], found["kdpp"], best)


def divergence_of(kernel: Kernel, part: Data, noise: float, alpha: float) -> Callable[[Float], float]:
    """Z ↦ D_α, exactly.

    At α = 1 it is log p(y) − L_VI, with one O(N³) log p(y) for all Z and O(NM²) for each; `exact_gap`, O(N³) for each,
    serves where that difference has lost more than five of its digits, and for α < 1.
    """
    from gpbounds.renyi import evidence, exact_gap, log_evidence

    X, y = part.X, part.y
    whole = log_evidence(kernel, X, y, noise=noise) if alpha == 1.0 else np.nan

    def divergence(Z: Float) -> float:
        if alpha == 1.0:
            lower, _ = evidence(kernel, X, y, Z, noise=noise, jitter=0.0, members=("trace",))
            difference = whole - float(lower.terms["elbo 1"])
            if difference > 1e-5 * max(1.0, abs(whole)):
                return difference
        return exact_gap(kernel, X, y, Z, alpha, noise=noise)

    return divergence


def _longest_greedy(greedy: Callable[[Any, int], Any], K: Float, M: int) -> Any:
    """The greedy order of M points, or of as many as have any variance left."""

    def too_many(size: int) -> bool:
        try:
            greedy(K, size)
        except ValueError:
            return True
        return False

    return greedy(K, bisected(too_many, 0, M) - 1 if too_many(M) else M)


def study(
    data: Data,
    found: Hyperparameters,
    *,
    alpha: float,
    target: float,
    rows: int,
    draws: int,
    counts: Float | None = None,
    delta: float = 0.05,
    seed: int = 0,
    progress: Progress = iter,
) -> Study:
    """Plans, bounds and subsets for ``data`` with the hyperparameters ``found``; dense algebra on ``rows`` rows.

    Bounds a priori are drawn for as many rows as the dense algebra sees, so that they are about the same thing as
    the rest; the a-priori plan is for all rows.
    """
    from gpbounds.renyi import minimum_gap

    part = data.subset(rows, seed)
    fixed = Statement(found.noise, delta)
    problem = Problem((found.kernel,), fixed, (), data, found.origin, (*found.warning, *found.notes))
    cases = {kind: data_cases(data, part, y_norm2=norm) for kind, norm in (("any", None), ("prior", "prior"))}
    plans = tuple((case, problem.plan(case, alpha, target)) for kind in ("prior", "any") for case in cases[kind])
    M = counts_to_try(part.N) if counts is None else np.asarray(counts, dtype=np.float64)
    grid = np.unique(np.rint(np.concatenate([M, np.geomspace(M.min(), part.N - 1, 160)])))
    lines = []
    for y in ("any", "prior"):
        apriori, aware = data_cases(part, part, y_norm2=None if y == "any" else "prior")
        said = "any $y$ of this norm" if y == "any" else "$y$ from the prior"
        lines += [Line(f"a priori, {said}", apriori, "sharpest", _values(problem, apriori, grid, alpha))]
        lines += [Line(f"data-aware, {said}", aware, "sharpest", _values(problem, aware, grid, alpha))]
    printed = Problem(problem.kernels, Statement(found.noise, delta, form="printed"), ())
    lines.append(Line("the same, as printed", aware, "printed", _values(printed, aware, grid, alpha)))
    decomposed = eigen(found.kernel(part.X), "k(X, X)")
    certain = np.maximum(decomposed.values - decomposed.rounding, 0.0)
    lower = minimum_gap(certain, grid.astype(np.int64), alpha, noise=found.noise)
    reached = reach(found.kernel, part, found.noise, alpha, M, draws, seed, progress)
    return Study(problem, part, alpha, target, plans, grid, tuple(lines), np.asarray(lower), reached)


def _values(problem: Problem, case: Case, M: Float, alpha: float) -> Float:
    defined = M <= case.largest(case.sizes[0])
    values = np.full(M.size, np.nan)
    values[defined] = np.ravel(problem.rate(case, case.sizes, [int(m) for m in M[defined]], [alpha]).value)
    return values


def smallest_reaching(M: Float, value: Float, target: float) -> int | None:
    """The least of ``M`` from which on ``value`` stays <= target, sizes with NaN left out; None if there is none."""
    there = ~np.isnan(value)
    M, value = M[there], value[there]
    above = np.flatnonzero(value > target)
    first = int(above[-1]) + 1 if above.size else 0
    return int(M[first]) if first < M.size else None


def picture(found: Study) -> Any:
    """The figure of the study: what subsets reach, under the bounds."""
    colors = {"a priori": plotting.BLUE, "data-aware": plotting.VERMILLION}
    bounds = [
        plotting.Curve(
            line.label,
            found.grid,
            line.value,
            plotting.ORANGE if line.form == "printed" else colors[line.case.kind],
            "-." if line.form == "printed" else "-" if line.case.y_norm2 is None else "--",
        )
        for line in found.lines
    ]
    reached, statement = found.reached, found.problem.statement
    draws = reached.random.shape[0]
    said = f"median, range of {draws}" if draws > 1 else "one draw"
    bands = [
        plotting.Band(f"random ({said})", reached.M, reached.random, plotting.PURPLE, "s"),
        plotting.Band(f"k-DPP ({said})", reached.M, reached.kdpp, plotting.GREEN, "o"),
        plotting.Band("greedy", reached.M, reached.greedy, plotting.SKY, "^"),
    ]
    lower = plotting.Curve("any inducing variables, any $y$", found.grid, found.lower, plotting.BLACK, ":")
    return plotting.bound_vs_empirical(
        bounds,
        bands,
        lower,
        title=title(found),
        ylabel=f"{plotting.divergence_symbol(found.alpha)} to the exact posterior $p$ (nats)",
        confidence=f"Upper bounds for k-DPP subsets,\nprobability {100 * (1 - statement.delta):g} %",
        target=found.target,
    )


def title(found: Study) -> str:
    """Data and hyperparameters, in two lines."""
    part, data = found.part, found.problem.data
    assert data is not None
    which = f"{part.N} of {data.N} rows" if part.N < data.N else f"N = {data.N}"
    settings = headline(found.problem.kernels[0], found.problem.statement.noise)
    return f"{data.name} ({which}, D = {data.D}, standardised)\n{settings}"
