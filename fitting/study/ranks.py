"""Ranks that four approximations need for one target: inducing points, Fourier, Mercer and Hilbert-space features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fitting.study.afterwards import CHOICES, Afterwards, afterwards
from fitting.study.problem import Case, Problem, fitted_law, worst_plan
from fitting.study.standardised import TableRows
from fitting.study.steps import Steps, WrongArguments, full_stop
from fitting.study.words import Spelling, describe, describe_kernel
from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import UP, Bound, Cost, Plan, outward
from gpbounds.errors import NotConverged
from gpbounds.inputs import Gaussian, Uniform
from gpbounds.kernels import Kernel, Matern, SquaredExponential
from gpbounds.kernels.facts import has_formula
from gpbounds.numerics.search import least
from gpbounds.progress import bar, on_terminal
from gpbounds.texts import short

METHODS = ("inducing", "fourier", "mercer", "hilbert")
_TWO_DIVERGENCES = (
    "The target bounds two different divergences: for inducing points, the divergence between the approximate "
    "posterior q* of f and the exact posterior p; for the others, KL(exact || approximate) between the laws of "
    "all N targets y, noise included (L-11)."
)


@dataclass(frozen=True)
class Aims:
    """What is to be reached, and by which approximations.

    Attributes
    ----------
    nats : float
        Upper limit of the divergence.
    alpha : float
        Order of the divergence.
    methods : sequence of str
        Of `METHODS`.
    width : numbers or None
        Range of the inputs, for Fourier and Hilbert-space features.
    select : str
        How inducing points are chosen after the fact; "none" omits this part.
    most : int or None
        Largest number of inducing points, or rank of a Mercer expansion, to try; None for the default.
    refits : int
        Number of further fits of the hyperparameters, for the spread of M.
    loss, relative : float or None
        In place of nats: upper limits of the log loss lost to the exact GP, in nats a row, and of the rms difference of
        the predicted means over the rms residual of the exact GP.
    """

    nats: float = 1.0
    alpha: float = 1.0
    methods: Sequence[str] = ("inducing",)
    width: Sequence[float] | None = None
    select: str = "greedy"
    most: int | None = None
    refits: int = 3
    loss: float | None = None
    relative: float | None = None

    @property
    def largest(self) -> int:
        """`most`, by default 1000."""
        return 1000 if self.most is None else self.most

    @property
    def about_predictions(self) -> bool:
        """Whether the aim is a level of predictions, not of a divergence."""
        return self.loss is not None or self.relative is not None

    def check(self, spelled: Spelling) -> None:
        """Refuse what no step can answer."""
        validation.scalar(validation.positive, spelled("nats"), self.nats)
        validation.scalar(validation.order, spelled("alpha"), self.alpha)
        for method in self.methods:
            validation.choice(spelled("method"), method, METHODS)
        validation.choice(spelled("select"), self.select, (*CHOICES, "none"))
        if self.most is not None:
            validation.count(spelled("most"), self.most)
        for name, level in (("loss", self.loss), ("relative", self.relative)):
            if level is not None:
                validation.scalar(validation.positive, spelled(name), level)
        validation.count(spelled("refits"), self.refits, 0)


ETA = 0.1
LEAST_WIDTH = 0.0201
"""Width of the box of a Hilbert-space GP in lengthscales, for inputs whose range is less."""

_NO_FUNCTIONS = (
    "gpbounds has no closed form for the eigenfunctions of this kernel and law (MercerFeatures has those of se with "
    "Gaussian inputs): the rank is valid, but you must compute the truncated expansion by other means."
)

TITLES = {
    "inducing": "Inducing points",
    "fourier": "Random Fourier features",
    "mercer": "Mercer expansion",
    "hilbert": "Hilbert-space GP",
}


@dataclass(frozen=True)
class Entry:
    """A plan with its level ("a priori" or "data-aware"), a heading, and a description of the inputs."""

    level: str
    title: str
    inputs: str
    plan: Plan
    y_norm2: float | None = None
    about: str = ""
    points: str = "k-DPP"

    def to_dict(self) -> dict[str, Any]:
        """The record, ready for JSON."""
        return {"case": self.level, "inputs": self.inputs, "y_norm2": self.y_norm2, **self.plan.to_dict()}


Answers = tuple[list[Entry], list[str]]
Rows = Callable[[], tuple[float | None, int]]


def _worst(problem: Problem, make: Callable[[Kernel], Plan]) -> Plan:
    """The plan for the kernel with the largest rank."""
    every = [make(kernel) for kernel in problem.kernels]
    i = worst_plan(every)
    at = (f"The worst kernel of the grid is {describe_kernel(problem.kernels[i])}.",) if len(every) > 1 else ()
    return replace(every[i], notes=(*every[i].notes, *at))


def _explained(plan: Plan, target: float, test_inputs: str, notes: tuple[str, ...]) -> Plan:
    """``plan`` with its target, the meaning of the target, and more notes."""
    from gpbounds.rates.base import total_variation
    from gpbounds.sandwich import predictive

    meaning: tuple[str, ...] = ()
    if plan.bound is not None:
        prediction = predictive(plan.bound, ETA, test_inputs=test_inputs)
        confidence = float(np.asarray(prediction.kl.confidence))
        sandwich = prediction.sandwich
        meaning = (
            f"KL <= {target:g} means: the approximation changes the probability of any event of y by at most "
            f"{outward(total_variation(target, 1.0), 'upper', 3)} (total variation).",
            f"With probability at least {outward(confidence, 'lower', 3)}, predictions of some of the N targets from "
            "the others have means within "
            f"{outward(float(sandwich.mean), 'upper', 3)} approximate standard deviations of the exact ones, and exact "
            f"variances (noise included) are between {outward(float(sandwich.low), 'lower', 3)} and "
            f"{outward(float(sandwich.high), 'upper', 3)} times the approximate ones (L-63, N-tail).",
        )
    return replace(plan, target=target, meaning=meaning, notes=(*plan.notes, *notes))


# Random Fourier features


def fourier(problem: Problem, aims: Aims, rows: Rows) -> Answers:
    """A priori for any inputs of a known width; given the rows, for their range and effective dimension."""
    entries: list[Entry] = []
    reasons: list[str] = []
    for case in problem.cases:
        if case.kind != "a priori":
            continue
        dim = case.inputs.dim
        width = _width(problem, aims, dim)
        if width is None and isinstance(case.inputs, Uniform):
            width = case.inputs.widths
        if width is None and not _plain(problem):
            if problem.data is None:
                law, option = f"{describe(case.inputs)}, which are not bounded", problem.asked.spelled("width")
                reasons.append(f"no bound for {law}; state the range of the data with {option}.")
            continue
        try:
            plan = _fourier_plan(problem, aims, case.sizes[0], width)
        except ValueError as error:
            reasons.append(f"no a priori bound: {full_stop(error)}")
            continue
        title = f"{TITLES['fourier']}, a priori: {_box(width, dim, _plain(problem))}"
        entries.append(Entry("a priori", title, _repr(width), plan))
    if problem.data is not None and _one_kernel(problem, reasons):
        data, width = problem.data, _width_of_rows(problem, problem.data, aims)
        effective_dimension, needed = rows()
        try:
            plan = replace(_fourier_plan(problem, aims, data.N, width, effective_dimension), needed=needed)
        except ValueError as error:
            reasons.append(f"no data-aware bound: {full_stop(error)}")
        else:
            title = f"{TITLES['fourier']}, data-aware: these {data.N} rows; {_box(width, data.D, _plain(problem))}"
            entries.append(Entry("data-aware", title, _repr(width), plan))
    return entries, reasons


def _plain(problem: Problem) -> bool:
    """Whether the features are plain ones, from a spectral density: those of a Matérn kernel are."""
    return not isinstance(problem.kernels[0], SquaredExponential)


def _fourier_plan(
    problem: Problem, aims: Aims, N: int, width: Float | None, effective_dimension: float | None = None
) -> Plan:
    """The rank for N rows of this range, the largest over the kernels."""
    from gpbounds.lowrank.fourier import fourier_rank

    settings, plain = problem.settings, _plain(problem)
    notes = ("A Matérn kernel: plain features from its spectral density (L-29); L-23 is for se.",) if plain else ()

    def plan_for(kernel: Kernel) -> Plan:
        return fourier_rank(
            kernel,
            N,
            noise=settings.noise,
            target=aims.nats,
            width=None if width is None or plain else width.tolist(),
            delta=settings.delta,
            rule="sharpest" if settings.form == "sharpest" else "printed",
            effective_dimension=effective_dimension,
            rigor=problem.asked.rigor,
        )

    return _explained(_worst(problem, plan_for), aims.nats, "fourier", notes)


def _width_of_rows(problem: Problem, data: TableRows, aims: Aims) -> Float:
    """The range that was passed, if the rows keep to it; otherwise their own, rounded up."""
    ranges = np.ptp(data.X, axis=0)
    width = _width(problem, aims, data.D)
    if width is not None and (width < ranges).any():
        j, option = int(np.argmax(width < ranges)), problem.asked.spelled("width")
        raise WrongArguments(
            f"{option}: expected at least the range of the data, {ranges[j]:.4g} in input {j + 1}, got {width[j]:g}"
        )
    return _rounded_up(ranges) if width is None else width


def _width(problem: Problem, aims: Aims, dim: int) -> Float | None:
    """The range that was passed, one for each dimension."""
    if aims.width is None:
        return None
    values = np.asarray(aims.width, dtype=np.float64)
    option = problem.asked.spelled("width")
    if values.size not in (1, dim):
        raise WrongArguments(f"{option}: expected one number or one for each of {dim} dimension(s), got {values.size}")
    if not (np.isfinite(values) & (values > 0.0)).all():
        raise WrongArguments(f"{option}: expected positive numbers, got {short(values)}")
    return np.broadcast_to(np.ravel(values), (dim,))


def _rounded_up(ranges: Float) -> Float:
    """``ranges`` rounded up to four digits, for a readable hypothesis."""
    unit = 10.0 ** (np.floor(np.log10(ranges)) - 3.0)
    return np.maximum(ranges, np.round(np.ceil(ranges / unit * (1.0 + 1e-12)) * unit, 12))


def _box(width: Float | None, dim: int, matern: bool) -> str:
    if width is None or matern:
        return "any inputs"
    same = bool((width == width[0]).all())
    where = "" if dim == 1 else " in each dimension" if same else " in their dimensions"
    return f"any inputs of range {short(width[0] if same else width)}{where}"


def _repr(width: Float | None) -> str:
    return "any" if width is None else f"any of range {width.tolist()}"


# Mercer expansion


def mercer(problem: Problem, aims: Aims, rows: Rows) -> Answers:
    """A priori for inputs from the law; given the rows, from the residual of the features, without probability."""
    from gpbounds.lowrank.truncation import mercer_rank

    entries: list[Entry] = []
    reasons: list[str] = []
    settings, target = problem.settings, aims.nats
    for case in problem.cases:
        if case.kind != "a priori":
            continue
        law, N = case.inputs, case.sizes[0]
        closed = isinstance(law, Gaussian) and isinstance(problem.kernels[0], SquaredExponential)
        notes = (*problem.notes, *case.notes, *(() if closed else (_NO_FUNCTIONS,)))

        def plan_for(kernel: Kernel, law: Any = law, N: int = N) -> Plan:
            return mercer_rank(
                kernel,
                N,
                target,
                inputs=law,
                noise=settings.noise,
                delta=settings.delta,
                form=settings.form,
                rigor=problem.asked.rigor,
            )

        try:
            plan = _explained(_worst(problem, plan_for), target, "mercer", notes)
        except ValueError as error:
            reasons.append(f"no a priori bound: {full_stop(error)}")
            continue
        entries.append(
            Entry("a priori", f"{TITLES['mercer']}, a priori: {describe(law)}, drawn independently", repr(law), plan)
        )
    if problem.data is not None and _one_kernel(problem, reasons):
        if not isinstance(problem.kernels[0], SquaredExponential):
            only = "the squared exponential kernel only"
            reasons.append(f"no data-aware bound: eigenfunctions in closed form are known for {only}.")
        else:
            entries.append(_certificate(problem, aims, rows))
    return entries, reasons


def _certificate(problem: Problem, aims: Aims, rows: Rows) -> Entry:
    """The least rank whose residual on these rows proves the target (L-54), without probability."""
    from gpbounds.lowrank.features import MercerFeatures
    from gpbounds.lowrank.truncation import residual_certificate

    data, target, noise = problem.data, aims.nats, problem.settings.noise
    (kernel,) = problem.kernels
    assert data is not None
    assert isinstance(kernel, SquaredExponential)
    law = fitted_law(data)
    last = min(aims.largest, data.N - 1)
    bounds: dict[int, Any] = {}

    def bound(r: int) -> Any:
        if r not in bounds:
            progress.update()
            residual = MercerFeatures(kernel, r, inputs=law).fit(data.X).residual_diagonal(data.X)
            bounds[r] = residual_certificate(residual * UP, noise=noise)
        return bounds[r]

    with bar("Residual of the Mercer features", None, "rank", on_terminal(problem.asked.progress)) as progress:
        r = least(lambda r: float(bound(r)) <= target, 1, last)
        _, needed = rows()
        plan = Plan.at(r, bound, first=1, method="mercer", N=data.N, target=target, needed=needed)
    notes = [f"Features of {describe(law)}; the bound holds for these {data.N} rows; the kernel may be fitted to them."]
    if r is None:
        notes.append(
            f"No rank up to {last} ({problem.asked.spelled('most')}) meets the target; at this rank the bound is "
            f"{float(bound(last)):.3g}."
        )
    title = f"{TITLES['mercer']}, data-aware: these {data.N} rows, residual of the features"
    return Entry("data-aware", title, f"{data.N} rows", _explained(plan, target, "given", tuple(notes)))


# Hilbert-space GP


def hilbert(problem: Problem, aims: Aims, rows: Rows) -> Answers:
    """For any inputs in a box, whose sides are the width; the rows only say how wide they are."""
    if problem.asked.lengthscale_range:
        option = problem.asked.spelled("lengthscale_range")
        return [], [f"short lengthscales need functions, long ones a wider box: plan for both ends, without {option}."]
    answers: list[Entry | str] = []
    for case in problem.cases:
        if case.kind != "a priori":
            continue
        width = _width(problem, aims, case.inputs.dim)
        if width is None and isinstance(case.inputs, Uniform):
            width = case.inputs.widths
        if width is not None:
            answers.append(_boxed(problem, aims, case.sizes[0], width))
        elif problem.data is None:
            law, option = f"{describe(case.inputs)}, which are not bounded", problem.asked.spelled("width")
            answers.append(f"no bound for {law}; state the range of the data with {option}.")
    if problem.data is not None:
        width = _width_of_rows(problem, problem.data, aims)
        answers.append(_boxed(problem, aims, problem.data.N, width, rows()[1]))
    return [each for each in answers if isinstance(each, Entry)], [each for each in answers if isinstance(each, str)]


def _boxed(problem: Problem, aims: Aims, N: int, width: Float, needed: int | None = None) -> Entry | str:
    """The plan for N inputs in a box of this width, for given rows if ``needed`` is known; or why there is none."""
    from gpbounds.lowrank.hilbert import hilbert_rank

    level = "a priori" if needed is None else "data-aware"
    kernel: Any = problem.kernels[0]
    if has_formula(kernel, SquaredExponential, Matern):  # a wider box contains the inputs, too
        width = np.maximum(width, LEAST_WIDTH * kernel.lengthscales(width.size))
    options: dict[str, Any] = {"noise": problem.settings.noise, "target": aims.nats, "rigor": problem.asked.rigor}
    try:
        rank = hilbert_rank(kernel, N, half_width=width / 2.0, **options)
    except (ValueError, NotConverged) as error:
        return f"no {level} bound: {full_stop(error)}"
    numbers = rank.m if isinstance(rank.m, int) else list(rank.m)
    lengths = short(np.atleast_1d(rank.c) * width / 2.0)
    note = f"m = {numbers}, c = {short(rank.c)}; the functions vanish {lengths} from the middle of the range of x."
    enough = rank.rank < N
    plan = Plan(
        method="hilbert",
        N=N,
        target=aims.nats,
        M=rank.rank if enough else None,
        bound=rank.bound if enough else None,
        bound_before=None,
        needed=needed,
        cost=Cost.of(N, rank.rank) if enough else None,
    )
    about = _box(width, width.size, False)
    about = about if needed is None else f"these {N} rows; {about}"
    notes = (note if enough else f"{note}  These are {rank.rank} functions.",)
    explained = _explained(plan, aims.nats, "hilbert", notes)
    return Entry(level, f"{TITLES['hilbert']}, {level}: {about}", _repr(width), explained)


# Bounds from the rows


def _one_kernel(problem: Problem, reasons: list[str]) -> bool:
    asked = problem.asked
    if asked.lengthscale_range:
        option = asked.spelled("lengthscale_range")
        reasons.append(f"the bound given the rows needs one kernel; it is omitted with {option}.")
    return not asked.lengthscale_range


def _from_rows(problem: Problem, aims: Aims) -> tuple[float | None, int]:
    """(upper bound on tr K(K + σ²I)⁻¹, None beyond ``rows`` rows; rank below which no approximation meets the target).

    The eigenvalues of a subset of the rows are below those of all rows, so the second number holds for all rows (L-10).
    """
    from gpbounds.linalg import eigen
    from gpbounds.lowrank.truncation import optimal_rank

    data = problem.data
    assert data is not None
    part, noise = data.subset(problem.asked.rows, problem.asked.seed), problem.settings.noise
    decomposed = eigen(problem.kernels[0](part.X), "k(X, X)")
    high: NDArray[np.float64] = decomposed.values + decomposed.rounding
    effective_dimension = float((high / (high + noise)).sum()) * (1.0 + 1e-12) if part.N == data.N else None
    return effective_dimension, optimal_rank(
        np.maximum(decomposed.values - decomposed.rounding, 0.0), aims.nats, noise=noise
    )


AFTER = "after the fact"
"""Name of the level of chosen inducing points."""


def after_the_fact(
    problem: Problem, rows: TableRows, aims: Aims, kernel: Kernel, noise: float, *, below: bool = True
) -> Afterwards:
    """The least number of points chosen among these rows, for this kernel and noise."""
    asked = problem.asked
    return afterwards(
        kernel,
        rows,
        noise,
        aims.alpha,
        aims.nats,
        method=aims.select,
        most=aims.largest,
        rows=asked.rows,
        seed=asked.seed,
        direction=problem.settings.direction,
        below=below,
        progress=asked.progress,
        spelled=asked.spelled,
    )


def comparison(entries: Sequence[Entry], after: Afterwards | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of a table of the ranks, including that of inducing points after the fact."""
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        plan, bound = entry.plan, entry.plan.bound
        rank = "none < N" if plan.M is None else str(plan.M)
        made = {
            "inducing": "inducing points",
            "fourier": "features" if plan.M is None else f"cos, sin of {plan.M // 2}",
            "mercer": "eigenfunctions",
            "hilbert": "sines",
        }[plan.method]
        if plan.method == "hilbert" and bound is not None:
            made = f"sines, {_sides(bound)}"
        confidence = "-" if bound is None else _percent(float(np.asarray(bound.confidence)))
        value = "-" if bound is None else f"{float(bound):.3g}"
        needed = "-" if plan.needed is None else str(plan.needed)
        rows.append((plan.method, entry.level, str(plan.N), rank, made, confidence, needed, value))
    if after is not None:
        rank = f"none <= {after.tried}" if after.M is None else str(after.M)
        value = "-" if after.at is None else f"{float(after.at[1]):.3g}"
        row = ("inducing", AFTER, str(after.N), rank, "inducing points", "certain", str(after.needed), value)
        rows.append(row)
    return ("method", "level", "rows", "rank", "basis", "probability", "needed", "bound"), rows


def _sides(bound: Bound) -> str:
    """m and c of a Hilbert-space GP in a few characters: "m 21, c 1.3"."""
    m, c = (np.atleast_1d(bound.terms[name]) for name in ("m", "c"))
    return f"m {'x'.join(f'{n:g}' for n in m)}, c {'|'.join(f'{factor:.3g}' for factor in c)}"


def _percent(confidence: float) -> str:
    return "certain" if confidence == 1.0 else f"{100 * confidence:g} %"


def plans(problem: Problem, aims: Aims, steps: Steps) -> Answers:
    """An entry for each method and level with an answer, and a sentence for each one without."""
    methods, spelled = list(dict.fromkeys(aims.methods)), problem.asked.spelled
    entries: list[Entry] = []
    reasons: list[str] = []
    rows = cache(lambda: _from_rows(problem, aims))
    if aims.width is not None and not {"fourier", "hilbert"} & set(methods):
        raise WrongArguments(f"{spelled('width')} belongs to {spelled('method', 'fourier')} and hilbert")
    for method in methods:
        if method == "inducing":
            entries += _inducing(problem, aims, methods, steps)
            continue
        if aims.alpha != 1.0:
            reasons.append(
                f"{method}: its theorems bound only the Kullback-Leibler divergence; set {spelled('alpha')} to 1."
            )
            continue
        if problem.settings.direction != "q||p":
            reasons.append(f"{method}: its theorems bound only KL(exact || approximate); omit {spelled('direction')}.")
            continue
        ranks = {"fourier": fourier, "mercer": mercer, "hilbert": hilbert}[method]
        more, sentences = steps.take(method, partial(ranks, problem, aims, rows)) or ([], [])
        entries += more
        reasons += [f"{method}: {sentence}" for sentence in sentences]
    if not entries and reasons and not steps.stopped:
        raise WrongArguments(" ".join([*steps.reasons, *reasons]))
    if len({e.plan.method == "inducing" for e in entries}) == 2:
        reasons.insert(0, _TWO_DIVERGENCES)
    if problem.asked.y_norm2 not in (None, "prior") and methods != ["inducing"]:
        others = ", ".join(method for method in methods if method != "inducing")
        reasons.append(f"{others}: these bounds concern the law of y, so they do not use {spelled('y_norm2')}.")
    return entries, reasons


def _inducing(problem: Problem, aims: Aims, methods: list[str], steps: Steps) -> list[Entry]:
    """The plans of `inducing_points` for each case that has one."""

    def title(case: Case) -> str:
        text = case.title
        return text if methods == ["inducing"] else f"{TITLES['inducing']}, {text[0].lower()}{text[1:]}"

    def entry(case: Case) -> Entry:
        return Entry(
            case.kind,
            title(case),
            repr(case.inputs),
            problem.plan(case, aims.alpha, aims.nats),
            case.y_norm2,
            case.about,
            "k-DPP" if case.draws is None else f"best of {case.draws}",
        )

    entries = [steps.take(f"{case.kind}, {case.about}", partial(entry, case)) for case in problem.cases]
    return [item for item in entries if item is not None]
