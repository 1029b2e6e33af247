"""Bounds beside the divergences that subsets of real data reach; the demo and an example share this comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitting.study.afterwards import Floors, sentence
from fitting.study.answer import Answer, inline
from fitting.study.hyperparameters import Hyperparameters, fit
from fitting.study.problem import Case, Problem, Settings, best_cases, data_cases, default_sets, fitted_law
from fitting.study.standardised import Standardised, TableRows, standardise
from fitting.study.words import headline
from gpbounds import plotting, validation
from gpbounds.arrays import Float
from gpbounds.bound import Plan
from gpbounds.inputs import Gaussian, InputLaw
from gpbounds.kernels import Kernel
from gpbounds.linalg import eigen
from gpbounds.numerics.search import bisected
from gpbounds.records import plain
from gpbounds.texts import table, wrapped

_GREY = "0.45"
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
class _Reached:
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
class Study(Answer):
    """Plans, bounds and the divergences that subsets reach: the content of the report and of the figure."""

    problem: Problem
    part: TableRows
    alpha: float
    target: float
    plans: tuple[tuple[Case, Plan], ...]
    grid: Float
    lines: tuple[Line, ...]
    lower: Float
    lower_prior: Float
    reached: _Reached
    best: int

    def to_dict(self) -> dict[str, Any]:
        reached = self.reached
        subsets = {"M": reached.M, "random": reached.random, "k-DPP": reached.kdpp, "greedy": reached.greedy[0]}
        subsets |= {f"best of {self.best}": reached.best} if self.best else {}
        bounds = {"M": self.grid, **{line.name: line.value for line in self.lines}}
        whole: dict[str, Any] = plain(
            {
                **self.problem.record(),
                "rows": self.part.N,
                "alpha": self.alpha,
                "target": self.target,
                "plans": [{"case": case.kind, "y_norm2": case.y_norm2, **plan.to_dict()} for case, plan in self.plans],
                "subsets": subsets,
                "bounds": bounds | {"N-low": self.lower, "N-lowprior": self.lower_prior},
                "notes": notes(self),
            },
            spelled=True,
        )
        return whole

    def __str__(self) -> str:
        return report(self)

    def page(self) -> str:
        from gpbounds.pages import html

        head = f"<h1>{html.escaped(title(self))}</h1>"
        text = f"<pre>{html.escaped(report(self))}</pre>"
        return html.document(title(self), f"{head}<main><figure>{inline(self.plot())}</figure>{text}</main>")

    def plot(self) -> Any:
        """The divergences of subsets and the bounds."""
        return picture(self)


def counts_to_try(N: int, several: int = 14) -> Float:
    """About ``several`` whole numbers from 5 (or 1) to 0.9·N < N, equally spaced in the logarithm."""
    return np.unique(np.floor(np.geomspace(min(5.0, max(1.0, N / 4)), max(1.0, 0.9 * N), several) + 1e-9))


def reach(
    kernel: Kernel,
    part: TableRows,
    noise: float,
    alpha: float,
    M: Float,
    draws: int,
    seed: int,
    progress: Progress,
    best: int = 10,
) -> _Reached:
    """`_Reached` for ``draws`` random and k-DPP subsets of each size, for greedy subsets, and for the best of ``best``.

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
    return _Reached(M, gaps["random"], gaps["kdpp"], nested, gaps["best"], interrupted)


def divergence_of(kernel: Kernel, part: TableRows, noise: float, alpha: float) -> Callable[[Float], float]:
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
    law: Gaussian | None = None,
) -> Study:
    """Plans, bounds and subsets for ``data`` with hyperparameters ``hyper``; dense algebra on ``rows`` rows.

    ``hyper`` and ``law`` are in the units of the standardised rows; the study is in those of the table.
    The bounds are for the best of ``best`` draws: a priori from ``simulate`` sets of inputs of ``law`` (a Gaussian with
    the covariance of the data unless given; 39 sets up to 1000 rows), data-aware, and given y.  With
    ``old_forms``, or if ``best`` is 0, also those on one draw: their a-priori curves are for the number of rows in the
    dense algebra, so that all curves concern the same problem; their a-priori plan is for all rows.
    """
    kernel, noise = data.outside(hyper.kernel, hyper.noise)
    law = None if law is None else data.law_outside(law)
    whole = data.centred
    part = whole.subset(rows, seed)
    simulate = default_sets(part.N) if simulate is None else simulate
    fixed = Settings(noise, delta)
    notes = (*hyper.warning, *hyper.notes)
    problem = Problem((kernel,), fixed, (), whole, hyper.origin, notes, hyper.warning, edges=hyper.edges)
    several = best_cases(whole, part, best, simulate=simulate, seed=seed, law=law) if best else ()
    single: tuple[Case, ...] = ()
    if old_forms or not best:
        single = tuple(case for norm in ("prior", None) for case in data_cases(whole, part, law=law, y_norm2=norm))
    plans = tuple((case, problem.plan(case, alpha, target)) for case in (*several, *single))
    M = counts_to_try(part.N) if counts is None else np.asarray(counts, dtype=np.float64)
    grid = np.unique(np.rint(np.concatenate([M, np.geomspace(M.min(), part.N - 1, 40)])))
    lines = []
    for case in best_cases(whole, part, best, simulate=simulate, seed=seed, law=law, every=part) if best else ():
        about = {"y from the prior": ", $y$ from the prior"}.get(case.about, "")
        name = case.kind.replace(" y", " $y$")
        lines.append(Line(f"{name}{about}", case, "sharpest", _values(problem, case, grid, alpha)))
    if single:
        lines += _single(problem, whole, part, grid, alpha, law)
    floors = Floors.of(kernel, part.X, noise, alpha)
    reached = reach(kernel, part, noise, alpha, M, draws, seed, progress, best)
    lower = floors.any_y(grid)
    return Study(problem, part, alpha, target, plans, grid, tuple(lines), lower, floors.prior(grid), reached, best)


def _single(
    problem: Problem, data: TableRows, part: TableRows, grid: Float, alpha: float, law: InputLaw | None
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
    return f"{data.name} ({rows}, D = {data.D})\n{settings}"


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
        bands.insert(1, plotting.Band(f"one k-DPP draw ({spread})", reached.M, reached.kdpp, _GREY, "D"))
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


def report(result: Study) -> str:
    """The study as text with two tables."""
    problem, part = result.problem, result.part
    divergence = "KL[q*||p]" if result.alpha == 1.0 else f"D_{result.alpha:g}[q*||p]"
    sure = f"{100 * (1 - problem.settings.delta):g} %"
    rows = []
    for case, plan in result.plans:
        y = f"any, |y|^2 = {case.y_norm2:.6g}" if case.about == "any y" else case.about.removeprefix("y ")
        points = "one k-DPP draw" if case.draws is None else f"best of {case.draws}"
        claim = plan.bound.claim if plan.bound else "-"
        rows.append((case.kind, str(plan.N), points, y, _least(plan.M, plan.N), claim))
    lines = [problem.heading(), ""]
    lines += [f"Inducing points that suffice for {divergence} <= {result.target:g} nats, with probability {sure}:"]
    lines += [table(("bound", "N", "points", "y", "suffices", "theorem"), rows), *vacuous(result), ""]
    lines += [_needed(result), *_reaching(result)]
    lines += [
        "",
        f"{divergence} in nats of subsets of {part.N} rows (median; for several of a kind from least to greatest):",
    ]
    lines += [table(*_truth(result)), *_meaning(result), ""]
    lines += [wrapped(f"Note: {note}") for note in notes(result)]
    return "\n".join(lines)


def _least(M: int | None, N: int) -> str:
    return f"no M < {N}" if M is None else f"M = {M}"


def vacuous(result: Study) -> list[str]:
    """A sentence for each bound that does not reach the target, with its value at the last M."""
    lines = []
    for case, plan in result.plans:
        if plan.M is None:
            y = case.about
            M = case.largest(plan.N)
            last = float(result.problem.rate(case, case.sizes, [M], [result.alpha]))
            lines.append(f"The {case.kind} bound, {y}, is vacuous for this target: {last:.3g} nats even at M = {M}.")
    return lines


def _needed(result: Study) -> str:
    problem = result.problem
    floors = Floors.of(problem.kernels[0], result.part.X, problem.settings.noise, result.alpha)
    return wrapped(sentence(floors.record(result.target)))


def _reaching(result: Study) -> list[str]:
    """For each kind of subset, the M tried from which on all of them reach the target."""
    reached = result.reached
    return [
        f"Of the sizes tried, {name} subsets reach it from M = {least} on."
        if (least := smallest_reaching(reached.M, worst, result.target))
        else f"Of the sizes tried, none suffices for {name} subsets to reach it."
        for name, worst in (
            ("greedy", reached.greedy[0]),
            *([(f"all best-of-{result.best}", reached.best.max(axis=0))] if result.best else []),
            ("all k-DPP", reached.kdpp.max(axis=0)),
            ("all random", reached.random.max(axis=0)),
        )
    ]


def _truth(result: Study) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    reached = result.reached
    at = np.searchsorted(result.grid, reached.M)

    def spread(draws: Float) -> str:
        draws = draws[~np.isnan(draws)]
        if not draws.size:
            return "-"
        middle = f"{np.median(draws):.2g}"
        return middle if draws.size == 1 else f"{middle} ({draws.min():.2g} to {draws.max():.2g})"

    lines = [line for line in result.lines if line.form == "sharpest"]
    header = ("M", "N-low", "N-lowprior", "greedy", *([f"best of {result.best}"] if result.best else []), "random")
    if any(line.case.draws is None for line in lines):
        header += ("k-DPP",)
    header += tuple(_heading(line.case) for line in lines)
    kinds = [reached.greedy, *([reached.best] if result.best else []), reached.random]
    if "k-DPP" in header:
        kinds.append(reached.kdpp)
    rows = [
        (
            f"{M:.0f}",
            f"{result.lower[at[j]]:.2g}",
            f"{result.lower_prior[at[j]]:.2g}",
            *(spread(draws[:, j]) for draws in kinds),
            *("-" if np.isnan(line.value[at[j]]) else f"{line.value[at[j]]:.3g}" for line in lines),
        )
        for j, M in enumerate(reached.M)
    ]
    return header, rows


def _heading(case: Case) -> str:
    """The heading of a column of bounds."""
    if case.y is not None:
        return "given y"
    return f"{case.kind}, {case.about}{', one draw' if case.draws is None else ''}"


def _meaning(result: Study) -> list[str]:
    return ["", *(wrapped(sentence) for sentence in result.plans[0][1].meaning)]


def notes(result: Study) -> list[str]:
    """Notes on the validity of the results."""
    sentences = [note for _, plan in result.plans for note in plan.notes]
    sentences.append(
        "The bounds hold for subsets drawn by a k-DPP, not for the random and greedy subsets shown with them."
        if not result.best
        else f"The bounds hold for the best of {result.best} draws of the tilted k-DPP, P(Z) ∝ |(K² + σ²K)_ZZ|, and "
        "for any choice with a greater ELBO; random and greedy subsets are shown with them."
    )
    if any(line.case.simulate for line in result.lines):
        sentences.append(
            "A curve holds at each M by itself; choosing M on a simulated curve is selection, plans allow for it."
        )
    if result.reached.interrupted:
        sentences.append("Interrupted: a missing entry (-) is a subset that was not evaluated.")
    elif any(np.isnan(draws).any() for draws in (result.reached.random, result.reached.kdpp, result.reached.greedy)):
        sentences.append("A missing entry (-): no subset has that size, or k(Z, Z) is singular in double precision.")
    if result.part.N < result.problem.data.N:  # type: ignore[union-attr]
        sentences.append(
            f"All curves, including a priori, are for {result.part.N} rows; the a-priori plan is for all rows."
            if any(case.kind == "a priori" for case, _ in result.plans)
            else f"All curves, including a priori, are for {result.part.N} rows."
        )
    return list(dict.fromkeys(sentences))


def fitted_on_held_out(
    data: Standardised, share: float, seed: int, option: str = "held_out"
) -> tuple[Hyperparameters, Gaussian, Standardised]:
    """(hyperparameters and law of the inputs from a random ``share`` of the rows, the others standardised by those).

    Neither kernel and noise nor the law nor the standardisation depend on the other rows.
    """
    count = round(validation.scalar(validation.open_unit, option, share) * data.N)
    if not 2 <= count <= data.N - 2:
        raise ValueError(f"{option}: expected a share that leaves at least 2 rows in each part, got {share:g}")
    order = np.random.default_rng(seed).permutation(data.N)
    first, rest = np.sort(order[:count]), np.sort(order[count:])
    held = standardise(data.name, data.X[first], data.y[first], data.columns)
    if held.D < data.D:
        raise ValueError(f"{option}: an input is constant on the rows held out; hold out more of them")
    centre, spread = data.X[first].mean(axis=0), data.X[first].std(axis=0)
    middle, scale = data.y[first].mean(), data.y[first].std()
    note = f"Standardised by {count} rows held out, which take no part in the rest."
    others = replace(
        data,
        X=(data.X[rest] - centre) / spread,
        y=(data.y[rest] - middle) / scale,
        notes=(note,),
        scales=data.scales * spread,
        scale=data.scale * float(scale),
    )
    fitted = fit(held, seed=seed, progress=True)
    origin = fitted.origin.replace(f"{held.N} rows", f"{held.N} held-out rows")
    return replace(fitted, fitted=(), origin=origin), fitted_law(held), others
