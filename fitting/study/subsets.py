"""Bounds beside the divergences that subsets of real data reach; the demo and an example share this comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.study.afterwards import Floors
from fitting.study.hyperparameters import Hyperparameters
from fitting.study.problem import Case, Problem, Settings, best_cases, data_cases, default_sets
from fitting.study.standardised import Standardised
from fitting.study.words import headline
from gpbounds import plotting
from gpbounds.arrays import Float
from gpbounds.bound import Plan
from gpbounds.inputs import InputLaw
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.numerics.search import bisected

GREY = "0.45"
BEST_OF_SEVERAL = {
    "a priori, simulated": (plotting.BLUE, "-"),
    "data-aware": (plotting.VERMILLION, "-"),
    "given y": (plotting.ORANGE, "--"),
}
"""Colours and line styles of the bounds for the best of several draws, the same in every figure."""

BY_ORDER = {"a priori, simulated": "-", "data-aware": "--", "given y": ":"}
"""Line styles where colours tell the orders apart."""

Progress = Callable[[Sequence[Any]], Iterable[Any]]


@dataclass(frozen=True, eq=False)
class Reached:
    """D_α given the y of the data, for subsets of size M: arrays (draws, len(M)), NaN if no such subset exists.

    ``best`` is that of the greatest ELBO among several draws of the tilted k-DPP, the rule of the bounds.  Where Ctrl-C
    ``interrupted`` the evaluation, subsets that were not evaluated are NaN, too.
    """

    M: Float
    random: Float
    kdpp: Float
    greedy: Float
    best: Float
    interrupted: bool = False


@dataclass(frozen=True, eq=False)
class Line:
    """An upper bound as a function of M: its case, its form, its values in nats."""

    label: str
    case: Case
    form: str
    value: Float

    @property
    def name(self) -> str:
        """The name of the line in JSON."""
        form = self.form if self.case.draws is None else f"best of {self.case.draws}"
        return f"{self.case.kind}, {self.case.about}, {form}"


@dataclass(frozen=True, eq=False)
class Study:
    """The content of the report and of the figure."""

    problem: Problem
    part: Standardised
    alpha: float
    target: float
    plans: tuple[tuple[Case, Plan], ...]
    grid: Float
    lines: tuple[Line, ...]
    lower: Float
    lower_prior: Float
    reached: Reached
    best: int


def counts_to_try(N: int, several: int = 14) -> Float:
    """About ``several`` whole numbers from 5 (or 1) to 0.9·N < N, equally spaced in the logarithm."""
    return np.unique(np.floor(np.geomspace(min(5.0, max(1.0, N / 4)), max(1.0, 0.9 * N), several) + 1e-9))


def reach(
    kernel: Kernel,
    part: Standardised,
    noise: float,
    alpha: float,
    M: Float,
    draws: int,
    seed: int,
    progress: Progress,
    best: int = 10,
) -> Reached:
    """`Reached` for ``draws`` random and k-DPP subsets of each size, for greedy subsets, and for the best of ``best``.

    One eigendecomposition of K serves all draws.  No k-DPP or greedy subset is larger than the numerical rank of K.
    """
    from gpbounds.errors import NotPositiveDefinite
    from gpbounds.kdpp import greedy, sample_eigen
    from gpbounds.kdpp.esp import tilted_eigenvalues
    from gpbounds.renyi import evidence

    K = kernel(part.X)
    decomposed = eigen(K, "k(X, X)", vectors=True)
    vectors: Any = decomposed.vectors
    order = _longest_greedy(greedy, K, int(M.max()))
    rank = int((decomposed.values > decomposed.rounding).sum())
    rng = np.random.default_rng(seed)
    tilted = tilted_eigenvalues(np.maximum(decomposed.values, 0.0), noise=noise)
    gaps = {kind: np.full((draws, M.size), np.nan) for kind in ("random", "kdpp", "best")}
    nested = np.full((1, M.size), np.nan)

    divergence = divergence_of(kernel, part, noise, alpha)

    def gap(rows: Any) -> float:
        try:
            return divergence(part.X[rows])
        except NotPositiveDefinite:  # Kuu is singular in float64, so this subset cannot be used without jitter
            return np.nan

    def elbo(rows: Any) -> float:
        try:
            lower, _ = evidence(kernel, part.X, part.y, part.X[rows], noise=noise, jitter=0.0, members=("trace",))
        except NotPositiveDefinite:
            return -np.inf
        return float(lower.terms["elbo 1"])

    jobs = [("greedy", 0, j) for j in range(M.size)]
    jobs += [(kind, draw, j) for draw in range(draws) for j in range(M.size) for kind in gaps]

    def evaluate(kind: str, draw: int, j: int) -> None:
        size = int(M[j])
        if kind == "random":
            gaps[kind][draw, j] = gap(rng.choice(part.N, size, replace=False))
        elif kind == "kdpp" and size <= rank:
            gaps[kind][draw, j] = gap(sample_eigen(decomposed.values, vectors, size, rng))
        elif kind == "best" and size <= rank and best:
            drawn = [sample_eigen(decomposed.values, vectors, size, rng, weights=tilted) for _ in range(best)]
            gaps[kind][draw, j] = gap(max(drawn, key=elbo))
        elif kind == "greedy" and size <= order.size:
            nested[0, j] = gap(order[:size])

    interrupted = False
    try:
        for job in progress(jobs):
            evaluate(*job)
    except KeyboardInterrupt:
        if np.isnan(nested).all():
            raise
        interrupted = True
    return Reached(M, gaps["random"], gaps["kdpp"], nested, gaps["best"], interrupted)


def divergence_of(kernel: Kernel, part: Standardised, noise: float, alpha: float) -> Callable[[Float], float]:
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
    data: Standardised,
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
    best: int = 10,
    simulate: int | None = None,
    old_forms: bool = False,
    law: InputLaw | None = None,
) -> Study:
    """Plans, bounds and subsets for ``data`` with hyperparameters ``hyper``; dense algebra on ``rows`` rows.

    The bounds are for the best of ``best`` draws: a priori from ``simulate`` sets of inputs of ``law`` (a Gaussian with
    the covariance of the data unless given; 39 sets up to 1000 rows), data-aware, and given y.  With
    ``old_forms``, or if ``best`` is 0, also those on one draw: their a-priori curves are for the number of rows in the
    dense algebra, so that all curves concern the same problem; their a-priori plan is for all rows.
    """
    part = data.subset(rows, seed)
    simulate = default_sets(part.N) if simulate is None else simulate
    fixed = Settings(hyper.noise, delta)
    notes = (*hyper.warning, *hyper.notes)
    problem = Problem((hyper.kernel,), fixed, (), data, hyper.origin, notes, hyper.warning)
    several = best_cases(data, part, best, simulate=simulate, seed=seed, law=law) if best else ()
    single: tuple[Case, ...] = ()
    if old_forms or not best:
        single = tuple(case for norm in ("prior", None) for case in data_cases(data, part, law=law, y_norm2=norm))
    plans = tuple((case, problem.plan(case, alpha, target)) for case in (*several, *single))
    M = counts_to_try(part.N) if counts is None else np.asarray(counts, dtype=np.float64)
    grid = np.unique(np.rint(np.concatenate([M, np.geomspace(M.min(), part.N - 1, 40)])))
    lines = []
    for case in best_cases(data, part, best, simulate=simulate, seed=seed, law=law, every=part) if best else ():
        about = {"y from the prior": ", $y$ from the prior"}.get(case.about, "")
        name = case.kind.replace(" y", " $y$")
        lines.append(Line(f"{name}{about}", case, "sharpest", _values(problem, case, grid, alpha)))
    if single:
        lines += _single(problem, data, part, grid, alpha, law)
    floors = Floors.of(hyper.kernel, part.X, hyper.noise, alpha)
    reached = reach(hyper.kernel, part, hyper.noise, alpha, M, draws, seed, progress, best)
    lower = floors.any_y(grid)
    return Study(problem, part, alpha, target, plans, grid, tuple(lines), lower, floors.prior(grid), reached, best)


def _single(
    problem: Problem, data: Standardised, part: Standardised, grid: Float, alpha: float, law: InputLaw | None
) -> list[Line]:
    """The bounds on one draw, for y from the prior and for any y of the norm of the data."""
    lines = []
    for y in ("any", "prior"):
        apriori, aware = data_cases(data, part, law=law, y_norm2=None if y == "any" else "prior", every=part)
        about = "one draw, any $y$ of this norm" if y == "any" else "one draw, $y$ from the prior"
        lines += [Line(f"a priori, {about}", apriori, "sharpest", _values(problem, apriori, grid, alpha))]
        lines += [Line(f"data-aware, {about}", aware, "sharpest", _values(problem, aware, grid, alpha))]
    printed = Problem(problem.kernels, replace(problem.settings, form="printed"), ())
    lines.append(Line("the same, as printed", aware, "printed", _values(printed, aware, grid, alpha)))
    return lines


def _values(problem: Problem, case: Case, M: Float, alpha: float) -> Float:
    defined = M <= case.largest(case.sizes[0])
    values = np.full(M.size, np.nan)
    values[defined] = np.ravel(problem.rate(case, case.sizes, [int(m) for m in M[defined]], [alpha]).value)
    return values


def smallest_reaching(M: Float, value: Float, target: float) -> int | None:
    """The least of ``M`` from which on ``value`` stays <= target, ignoring NaN; None if no such M exists."""
    defined = ~np.isnan(value)
    M, value = M[defined], value[defined]
    above = np.flatnonzero(value > target)
    first = int(above[-1]) + 1 if above.size else 0
    return int(M[first]) if first < M.size else None


def picture(result: Study) -> Any:
    """The figure of the study: the divergences of subsets and the bounds."""
    bounds = [plotting.Curve(line.label, result.grid, line.value, *_look(line)) for line in result.lines]
    reached, settings = result.reached, result.problem.settings
    draws = reached.random.shape[0]
    best = f"the best of {result.best} draws" if result.best else "k-DPP subsets"
    spread = f"median, range of {draws}" if draws > 1 else "one draw"
    bands = [
        plotting.Band(f"random ({spread})", reached.M, reached.random, plotting.PURPLE, "s"),
        plotting.Band("greedy, after the fact", reached.M, reached.greedy, plotting.SKY, "^"),
    ]
    if result.best:
        bands.insert(
            1, plotting.Band(f"best of {result.best} draws ({spread})", reached.M, reached.best, plotting.GREEN)
        )
    if any(line.case.draws is None for line in result.lines):
        bands.insert(1, plotting.Band(f"one k-DPP draw ({spread})", reached.M, reached.kdpp, GREY, "D"))
    lower = [
        plotting.Curve("$y$ from the prior, on average", result.grid, result.lower_prior, plotting.BLACK, "--"),
        plotting.Curve("any $y$", result.grid, result.lower, plotting.BLACK, ":"),
    ]
    return plotting.bound_vs_empirical(
        bounds,
        bands,
        lower,
        title=title(result),
        ylabel=f"{plotting.divergence_symbol(result.alpha)} to the exact posterior $p$ (nats)",
        confidence=f"Upper bounds for {best},\nprobability {100 * (1 - settings.delta):g} %",
        target=result.target,
    )


def _look(line: Line) -> tuple[str, str]:
    """Colour and style: bold colours for the best of several draws, lighter ones for one draw."""
    if line.case.draws is None:
        light = {"a priori": "#8FB8D8", "data-aware": "#E8A27C"}
        if line.form == "printed":
            return "#E6C27A", "-."
        return light[line.case.kind], "-" if line.case.y_norm2 is None else "--"
    return BEST_OF_SEVERAL[line.case.kind]


def title(result: Study) -> str:
    """Two lines: data and hyperparameters."""
    part, data = result.part, result.problem.data
    assert data is not None
    rows = f"{part.N} of {data.N} rows" if part.N < data.N else f"N = {data.N}"
    settings = headline(result.problem.kernels[0], result.problem.settings.noise)
    return f"{data.name} ({rows}, D = {data.D}, standardised)\n{settings}"
