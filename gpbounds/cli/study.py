"""Compare bounds with the divergences that subsets of real data reach; the demo and an example share this study."""

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
    """D_α given the y of the data, for subsets of size M: arrays (draws, len(M)), NaN if no such subset exists."""

    M: Float
    random: Float
    kdpp: Float
    greedy: Float


@dataclass(frozen=True, eq=False)
class Line:
    """An upper bound as a function of M: its case, its form, its values in nats."""

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
    """The content of the report and of the figure."""

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
    """About ``several`` whole numbers from 5 (or 1) to 0.9·N < N, equally spaced in the logarithm."""
    return np.unique(np.floor(np.geomspace(min(5.0, max(1.0, N / 4)), max(1.0, 0.9 * N), several) + 1e-9))


def reach(
    kernel: Kernel, part: Data, noise: float, alpha: float, M: Float, draws: int, seed: int, progress: Progress
) -> Reached:
    """`Reached` for ``draws`` random and k-DPP subsets of each size, and for greedy subsets.

    One eigendecomposition of K serves all draws.  No k-DPP or greedy subset is larger than the numerical rank of K.
    """
    from gpbounds.errors import NotPositiveDefinite
    from gpbounds.kdpp import greedy, sample_eigen

    K = kernel(part.X)
    decomposed = eigen(K, "k(X, X)", vectors=True)
    vectors: Any = decomposed.vectors
    order = _longest_greedy(greedy, K, int(M.max()))
    rank = int((decomposed.values > decomposed.rounding).sum())
    rng = np.random.default_rng(seed)
    gaps = {"random": np.full((draws, M.size), np.nan), "kdpp": np.full((draws, M.size), np.nan)}
    best = np.full((1, M.size), np.nan)

    divergence = divergence_of(kernel, part, noise, alpha)

    def gap(rows: Any) -> float:
        try:
            return divergence(part.X[rows])
        except NotPositiveDefinite:  # Kuu is singular in float64, so this subset cannot be used without jitter
            return np.nan

    jobs = [("greedy", 0, j) for j in range(M.size)]
    jobs += [(kind, draw, j) for draw in range(draws) for j in range(M.size) for kind in ("random", "kdpp")]
    for kind, draw, j in progress(jobs):
        size = int(M[j])
        if kind == "random":
            gaps[kind][draw, j] = gap(rng.choice(part.N, size, replace=False))
        elif kind == "kdpp" and size <= rank:
            gaps[kind][draw, j] = gap(sample_eigen(decomposed.values, vectors, size, rng))
        elif kind == "greedy" and size <= order.size:
            best[0, j] = gap(order[:size])
    return Reached(M, gaps["random"], gaps["kdpp"], best)


def divergence_of(kernel: Kernel, part: Data, noise: float, alpha: float) -> Callable[[Float], float]:
    """Z ↦ D_α, exactly.

    At α = 1 it is log p(y) − L_VI: one log p(y) in O(N³) for all Z, and O(NM²) for each Z.  If this difference loses
    more than five digits, and for α < 1, `exact_gap` computes it in O(N³) for each Z.
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
    """The greedy order of M points, or of fewer if no other point has residual variance."""

    def too_many(size: int) -> bool:
        try:
            greedy(K, size)
        except ValueError:
            return True
        return False

    return greedy(K, bisected(too_many, 0, M) - 1 if too_many(M) else M)


def study(
    data: Data,
    hyper: Hyperparameters,
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
    """Plans, bounds and subsets for ``data`` with hyperparameters ``hyper``; dense algebra on ``rows`` rows.

    The a-priori curves are for the number of rows in the dense algebra, so that all curves concern the same problem;
    the a-priori plan is for all rows.
    """
    from gpbounds.renyi import minimum_gap

    part = data.subset(rows, seed)
    fixed = Statement(hyper.noise, delta)
    problem = Problem((hyper.kernel,), fixed, (), data, hyper.origin, (*hyper.warning, *hyper.notes))
    cases = {kind: data_cases(data, part, y_norm2=norm) for kind, norm in (("any", None), ("prior", "prior"))}
    plans = tuple((case, problem.plan(case, alpha, target)) for kind in ("prior", "any") for case in cases[kind])
    M = counts_to_try(part.N) if counts is None else np.asarray(counts, dtype=np.float64)
    grid = np.unique(np.rint(np.concatenate([M, np.geomspace(M.min(), part.N - 1, 160)])))
    lines = []
    for y in ("any", "prior"):
        apriori, aware = data_cases(part, part, y_norm2=None if y == "any" else "prior")
        law = "any $y$ of this norm" if y == "any" else "$y$ from the prior"
        lines += [Line(f"a priori, {law}", apriori, "sharpest", _values(problem, apriori, grid, alpha))]
        lines += [Line(f"data-aware, {law}", aware, "sharpest", _values(problem, aware, grid, alpha))]
    printed = Problem(problem.kernels, Statement(hyper.noise, delta, form="printed"), ())
    lines.append(Line("the same, as printed", aware, "printed", _values(printed, aware, grid, alpha)))
    decomposed = eigen(hyper.kernel(part.X), "k(X, X)")
    certain = np.maximum(decomposed.values - decomposed.rounding, 0.0)
    lower = minimum_gap(certain, grid.astype(np.int64), alpha, noise=hyper.noise)
    reached = reach(hyper.kernel, part, hyper.noise, alpha, M, draws, seed, progress)
    return Study(problem, part, alpha, target, plans, grid, tuple(lines), np.asarray(lower), reached)


def _values(problem: Problem, case: Case, M: Float, alpha: float) -> Float:
    defined = M <= case.largest(case.sizes[0])
    values = np.full(M.size, np.nan)
    values[defined] = np.ravel(problem.rate(case, case.sizes, [int(m) for m in M[defined]], [alpha]).value)
    return values


def smallest_reaching(M: Float, value: Float, target: float) -> int | None:
    """The least of ``M`` from which on ``value`` stays <= target, ignoring NaN; None if there is none."""
    defined = ~np.isnan(value)
    M, value = M[defined], value[defined]
    above = np.flatnonzero(value > target)
    first = int(above[-1]) + 1 if above.size else 0
    return int(M[first]) if first < M.size else None


def picture(result: Study) -> Any:
    """The figure of the study: the divergences of subsets and the bounds."""
    colors = {"a priori": plotting.BLUE, "data-aware": plotting.VERMILLION}
    bounds = [
        plotting.Curve(
            line.label,
            result.grid,
            line.value,
            plotting.ORANGE if line.form == "printed" else colors[line.case.kind],
            "-." if line.form == "printed" else "-" if line.case.y_norm2 is None else "--",
        )
        for line in result.lines
    ]
    reached, statement = result.reached, result.problem.statement
    draws = reached.random.shape[0]
    spread = f"median, range of {draws}" if draws > 1 else "one draw"
    bands = [
        plotting.Band(f"random ({spread})", reached.M, reached.random, plotting.PURPLE, "s"),
        plotting.Band(f"k-DPP ({spread})", reached.M, reached.kdpp, plotting.GREEN, "o"),
        plotting.Band("greedy", reached.M, reached.greedy, plotting.SKY, "^"),
    ]
    lower = plotting.Curve("any inducing variables, any $y$", result.grid, result.lower, plotting.BLACK, ":")
    return plotting.bound_vs_empirical(
        bounds,
        bands,
        lower,
        title=title(result),
        ylabel=f"{plotting.divergence_symbol(result.alpha)} to the exact posterior $p$ (nats)",
        confidence=f"Upper bounds for k-DPP subsets,\nprobability {100 * (1 - statement.delta):g} %",
        target=result.target,
    )


def title(result: Study) -> str:
    """Two lines: data and hyperparameters."""
    part, data = result.part, result.problem.data
    assert data is not None
    rows = f"{part.N} of {data.N} rows" if part.N < data.N else f"N = {data.N}"
    settings = headline(result.problem.kernels[0], result.problem.statement.noise)
    return f"{data.name} ({rows}, D = {data.D}, standardised)\n{settings}"
