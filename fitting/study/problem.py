"""The problem that a law of the inputs or a table states: kernels, noise, and the cases to bound, with notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fitting.study import hyperparameters
from fitting.study.standardised import Standardised, TableRows
from fitting.study.words import Spelling, argument, describe, describe_kernel, kernel_record, options_of
from gpbounds import validation
from gpbounds.arrays import Float, distinct_rows
from gpbounds.bound import Bound, Plan
from gpbounds.inputs import Empirical, Gaussian, InputLaw
from gpbounds.kernels import Kernel, Stationary
from gpbounds.kernels.pairs import times_power
from gpbounds.kernels.plain import stationary
from gpbounds.rates.base import Numbers, Statement, silent
from gpbounds.texts import short, wrapped

_FITTED_LAW = (
    "The theorem holds for a fixed input law; here the law was fitted to the data: the Gaussian with the covariance "
    "of the columns."
)

_GIVEN_NOTE = (
    "Given y, these hypotheses remain: the draws are independent of each other and of y, the greatest ELBO is kept, "
    "and kernel and noise are fixed before the draws (they may have been fitted to these data)."
)
_GIVEN_ROWS = 20_000
"""Up to here the bound given y is for all rows."""
_SIMULATED_ROWS = 1000
"""Up to here inputs are simulated without being asked for."""
REFIT = 0.8
"""A refit draws at most this share of the rows, so that refits of a small table differ."""
UNITS = "Numbers here are in the table's units; columns are standardised inside."
_OMITTED = (
    "The a-priori bound is omitted for {rows} rows; with {option} the command decomposes 39 kernel matrices of "
    "that size."
)


@dataclass(frozen=True)
class Settings:
    """The numbers and choices that the bounds of all cases share."""

    noise: float
    delta: float = 0.05
    tv: float = 0.0
    form: str = "sharpest"
    direction: str = "q||p"


@dataclass(frozen=True, eq=False)
class Case:
    """An input law with the sizes N to bound; ``y_norm2`` None means that y is drawn from the prior, or is ``y``.

    Attributes
    ----------
    draws : int or None
        The bound is for the best of so many draws; None: for one draw.
    y : array (N,) or None
        The targets, if the bound is for them.
    simulate : int or None
        Number of simulated sets of inputs.
    seed : int
        Seed of the simulation.
    law : str or None
        The law of the draws, "kdpp" or "tilted"; None for the one with the lower bound.
    rigor : str
    """

    kind: str
    inputs: InputLaw
    sizes: tuple[int, ...]
    y_norm2: float | None
    notes: tuple[str, ...] = ()
    draws: int | None = None
    y: Float | None = None
    simulate: int | None = None
    seed: int = 0
    law: str | None = None
    rigor: str = "auto"

    @property
    def about(self) -> str:
        """The hypothesis on y in a few words."""
        if self.y is not None:
            return "y of the data"
        return "y from the prior" if self.y_norm2 is None else "any y"

    def keywords(self, unit: float = 1.0) -> dict[str, Any]:
        """Keyword arguments of `gpbounds.rates.theorems.statement` that belong to the case; y in this ``unit``."""
        common: dict[str, Any] = {"inputs": self.inputs, "rigor": self.rigor}
        if self.draws is None:
            return common
        common |= {"draws": self.draws, "law": self.law}
        return (
            {**common, "y": None if self.y is None else self.y / unit}
            if self.simulate is None
            else {**common, "simulate": self.simulate, "rng": self.seed}
        )

    def with_rigor(self, rigor: str) -> Case:
        """The case with this rigor; "sharp" only about given rows, and the law of the draws is then free given y."""
        if rigor != "sharp":
            return replace(self, rigor=rigor)
        if not isinstance(self.inputs, Empirical):
            return self
        return replace(self, rigor=rigor, law=None if self.y is not None else self.law)

    def largest(self, N: int) -> int:
        """The largest M for which the bound is defined: N - 1, or the number of distinct inputs if that is smaller."""
        if isinstance(self.inputs, Empirical):
            return min(N - 1, distinct_rows(np.asarray(self.inputs.X)))
        return N - 1

    @property
    def title(self) -> str:
        """Heading in reports."""
        if self.y is not None:
            y = "the y of the data"
        else:
            y = "y drawn from the prior" if self.y_norm2 is None else f"any y with |y|^2 = {self.y_norm2:.6g}"
        best = "" if self.draws is None else f"; the best of {self.draws} draws"
        return f"{self.kind[0].upper()}{self.kind[1:]}: {describe(self.inputs)}; {y}{best}"


@dataclass(frozen=True)
class Problem:
    """Kernels (several for a worst case on a grid), the settings, and the cases.

    Attributes
    ----------
    kernels : tuple of Kernel
    settings : Settings
    cases : tuple of Case
    data : TableRows or None
        The rows of a table in its units; the prior mean is 0, so means have been subtracted.
    origin : str
        Where kernel and noise come from, in one sentence.
    notes : tuple of str
    fitted : tuple of str
        Those of the notes that concern hyperparameters which were fitted to the rows.
    asked : Question
    edges : tuple of str
        Names of the hyperparameters that the rows do not determine.
    refit : function or None
        Seed ↦ the hyperparameters fitted to other rows; None where nothing was fitted.
    """

    kernels: tuple[Kernel, ...]
    settings: Settings
    cases: tuple[Case, ...]
    data: TableRows | None = None
    origin: str = ""
    notes: tuple[str, ...] = ()
    fitted: tuple[str, ...] = ()
    asked: Question = field(default_factory=lambda: Question())
    edges: tuple[str, ...] = ()
    refit: Callable[[int], hyperparameters.Hyperparameters] | None = None

    def stated(self, case: Case, N: Sequence[int], alpha: Sequence[float]) -> Statement:
        """What `gpbounds.rate` states of the case, the worst over the kernels, on the grid N x M x alpha."""
        from gpbounds.rates.theorems import statement

        e = 0 if case.draws is None else self.exponent
        numbers = self.numbers(case.y_norm2, np.reshape(alpha, (1, 1, -1)) if len(alpha) > 1 else alpha[0], e)
        sizes = validation.whole("N", np.reshape(N, (-1, 1, 1)) if len(N) > 1 else N[0], 2)
        choices: dict[str, Any] = {"form": self.settings.form, "direction": self.settings.direction}
        kernels: Sequence[Kernel] = self.kernels
        if e and self.data is not None:
            kernels = [times_power(kernel, -2 * e, self.data.X) for kernel in kernels]
        each = [statement(kernel, sizes, numbers, **case.keywords(2.0**e), **choices) for kernel in kernels]
        return _WorstOf(numbers, tuple(each), tuple(describe_kernel(kernel) for kernel in self.kernels))

    def rate(self, case: Case, N: Sequence[int], M: Sequence[int], alpha: Sequence[float]) -> Bound:
        """The bound on the grid N x M x alpha; scalar for one cell."""
        return bounds_at(self.stated(case, N, alpha), N, M)

    def plan(self, case: Case, alpha: float, target: float) -> Plan:
        """The least M for the case, with its notes."""
        (N,) = case.sizes
        plan = self.stated(case, [N], [alpha]).least(target)
        return replace(plan, notes=(*plan.notes, *self.notes_on(case), *case.notes))

    def check_numbers(self, alpha: float | Sequence[float]) -> None:
        """Refuse wrong numbers before the first case, because each of them would fail."""
        for norm in {case.y_norm2 for case in self.cases}:
            self.numbers(norm, alpha)

    def numbers(self, y_norm2: float | None, alpha: Any, exponent: int = 0) -> Numbers:
        """The numbers of a bound, checked; y in units of 2 to the ``exponent``."""
        stated, square = self.settings, 4.0**exponent
        noise, norm = stated.noise / square, None if y_norm2 is None else y_norm2 / square
        return Numbers.checked(alpha, noise, stated.delta, norm, stated.tv, stated.direction)

    @property
    def exponent(self) -> int:
        """2 to this power is the unit of y for several draws, whose bounds take k(x, x) from 1e-50 to 1e50 and depend
        on no unit: near the largest √k(x, x) of a table.
        """
        if self.data is None:
            return 0
        return math.frexp(self.kernels[0].largest_variance(self.data.X))[1] // 2

    def notes_on(self, case: Case) -> tuple[str, ...]:
        """The notes of the problem that concern the case: given y, hyperparameters may have been fitted to it."""
        return tuple(note for note in self.notes if case.y is None or note not in self.fitted)

    def heading(self) -> str:
        """`facts` as wrapped lines, and the line to paste as it is."""
        return "\n".join([wrapped("\n".join(self.facts())), *([self.pasted] if self.pasted else [])])

    @property
    def pasted(self) -> str:
        """The options that state a fitted kernel and its noise with all digits; empty where there are none."""
        options = options_of(self.kernels[0], self.settings.noise)
        if self.data is None or not self.fitted or len(self.kernels) > 1 or options is None:
            return ""
        return f"To use it elsewhere: {options}"

    def facts(self) -> list[str]:
        """Data (if any), and kernel and noise with their origin: a text each."""
        lines, data, noise = [], self.data, self.settings.noise
        columns = () if data is None else data.columns
        if data is not None:
            notes = "".join(f" {note}" for note in data.notes)
            lines.append(f"Data: {data.name}, N = {data.N}, D = {data.D}, target {data.target}.{notes} {UNITS}")
        first, last = (describe_kernel(kernel, columns) for kernel in (self.kernels[0], self.kernels[-1]))
        names = first if len(self.kernels) == 1 else f"{first} ... {last}"
        lines.append(f"Kernel: {names}, noise variance {short(noise)}. {self.origin}")
        if self.edges:
            lines.append(
                f"WARNING: these rows do not determine {', '.join(self.edges)}: training ended at the edge of the "
                "search range. Every M below is about that kernel and noise; others fit as well, with another M."
            )
        return lines

    def record(self) -> dict[str, Any]:
        """Data, kernels and settings, ready for JSON."""
        data = self.data
        return {
            "data": data
            and {
                **{"name": data.name, "N": data.N, "D": data.D, "target": data.target, "columns": data.columns},
                "notes": data.notes,
            },
            "kernels": [kernel_record(kernel) for kernel in self.kernels],
            "statement": vars(self.settings),
            "origin": self.origin,
            "undetermined": self.edges,
        }


def bounds_at(stated: Statement, N: Sequence[int], M: Sequence[int]) -> Bound:
    """The bounds of `Problem.stated` for the numbers M; scalar for one cell."""
    from gpbounds.rates.theorems import sizes

    _, counts = sizes(np.reshape(N, (-1, 1, 1)), np.reshape(M, (1, -1, 1)))
    return stated.bound(counts if len(M) > 1 else np.asarray(counts[0, 0, 0]))


def fitted_law(data: TableRows) -> Gaussian:
    """The Gaussian with mean and covariance of all rows; a mean that is 0 up to rounding is 0.

    A subset of the rows cannot take their place: an input can be constant on it.

    >>> law = fitted_law(TableRows("line", np.array([[-1.0, -2.0], [0.0, 1.0], [1.0, 1.0]]), np.zeros(3)))
    >>> np.round(law.cov, 4)
    array([[0.6667, 1.    ],
           [1.    , 2.    ]])
    """
    mean = data.X.mean(axis=0)
    centred = data.X - mean
    mean = np.where(np.abs(mean) <= 1e-12 * np.abs(data.X).max(axis=0), 0.0, mean)
    return Gaussian(mean=mean if mean.any() else 0.0, cov=centred.T @ centred / data.N)


def data_cases(
    data: TableRows,
    part: TableRows,
    *,
    law: InputLaw | None = None,
    y_norm2: float | str | None = None,
    every: TableRows | None = None,
) -> tuple[Case, Case]:
    """(a priori, ``every`` row; data-aware, the rows of ``part``), by default for any y with the data's squared norm.

    ``every`` is by default all of the data.
    """
    rows = f"about {part.N} rows drawn from the {data.N}" if part.N < data.N else f"about these {part.N} rows"
    inputs, fitted = (fitted_law(data), (_FITTED_LAW,)) if law is None else (law, ())
    every = data if every is None else every

    def norm(d: TableRows) -> float | None:
        if isinstance(y_norm2, str):
            return None
        return float((d.y**2).sum()) if y_norm2 is None else y_norm2

    return (
        Case("a priori", inputs, (every.N,), norm(every), fitted),
        Case("data-aware", Empirical(part.X), (part.N,), norm(part), (f"The data-aware statement is {rows}.",)),
    )


def best_cases(
    data: TableRows,
    part: TableRows,
    draws: int,
    *,
    simulate: int,
    seed: int,
    law: InputLaw | None = None,
    every: TableRows | None = None,
) -> tuple[Case, ...]:
    """The best of several draws: a priori by simulation, data-aware (y from the prior), and given y.

    The first two are for as many rows as ``part`` has, the last for ``every`` row, by default all of the data if they
    are at most `_GIVEN_ROWS`, else those of ``part``.
    Without ``simulate`` the first is left out.
    """
    from gpbounds.rates.draws.rows import DENSE

    inputs, fitted = (fitted_law(data), (_FITTED_LAW,)) if law is None else (law, ())
    rows = f"about {part.N} rows drawn from the {data.N}" if part.N < data.N else f"about these {part.N} rows"
    if every is None:
        every = data if data.N <= _GIVEN_ROWS else part

    def law_for(N: int) -> str | None:
        return "tilted" if N <= DENSE else None

    simulated = Case(
        "a priori, simulated", inputs, (part.N,), None, fitted, draws, simulate=simulate, seed=seed, law=law_for(part.N)
    )
    note = (f"The data-aware statement is {rows}.",)
    cases = (
        Case("data-aware", Empirical(part.X), (part.N,), None, note, draws, law=law_for(part.N)),
        Case("given y", Empirical(every.X), (every.N,), None, (_GIVEN_NOTE,), draws, every.y, law=law_for(every.N)),
    )
    return (simulated, *cases) if simulate else cases


def default_sets(rows: int) -> int:
    """Default number of simulated sets of inputs; each costs an eigendecomposition."""
    return 39 if rows <= _SIMULATED_ROWS else 0


@dataclass(frozen=True)
class Question:
    """What is fixed before a bound is asked for; None as a hyperparameter means that the rows determine it.

    Attributes
    ----------
    family : float
        Smoothness ν of a Matérn kernel; infinity for the squared exponential.
    variance, lengthscale, noise : numbers (or a list of lengthscales) or None
        In the units of the table, or of the law.
    lengthscale_range : (float, float) or None
        The bounds are for the worst lengthscale in this range.
    delta, tv, form, direction, rigor
        As in `gpbounds.rate`.
    y_norm2 : float, "prior" or None
        None: the squared norm of the rows' target.
    draws : int
        The bounds are for the best of so many draws; 0 for one draw.
    simulate : int or None
        Number of simulated sets of inputs.
    old_forms : bool
        Whether those on one draw are added.
    rows, seed : int
        Number of rows in a dense matrix, and the seed of all random choices.
    progress : bool
        Show on stderr what is being computed, if it is a terminal.
    spelled : function
        Spells arguments in notes.
    """

    family: float = math.inf
    variance: float | None = None
    lengthscale: Any = None
    noise: float | None = None
    lengthscale_range: tuple[float, float] | None = None
    delta: float = 0.05
    tv: float = 0.0
    form: str = "sharpest"
    direction: str = "q||p"
    y_norm2: float | str | None = None
    rigor: str = "auto"
    draws: int = 0
    simulate: int | None = None
    old_forms: bool = False
    rows: int = 2000
    seed: int = 0
    progress: bool = False
    spelled: Spelling = argument

    @property
    def best(self) -> int:
        """The number of draws whose best one is bounded: 0 where the other choices leave bounds on one draw only."""
        settings = self.y_norm2 is None and self.tv == 0.0 and self.form == "sharpest"
        return self.draws if settings and not self.lengthscale_range else 0


def about_law(law: InputLaw, sizes: Sequence[int], asked: Question) -> Problem:
    """The problem of as many rows as ``sizes`` has, drawn from a law."""
    fixed = asked.y_norm2
    hyper = hyperparameters.as_given(asked.family, asked.variance, asked.lengthscale, asked.noise)
    norm = None if isinstance(fixed, str) or fixed is None else float(fixed)
    return _stated(hyper, (Case("a priori", law, tuple(sizes), norm, rigor=asked.rigor),), asked)


def about_rows(data: Standardised, asked: Question, law: InputLaw | None = None) -> Problem:
    """The problem of a table: its rows, and inputs to come from ``law``, by default the Gaussian fitted to the rows.

    Hyperparameters, ``law`` and norm of the target are in the units of the table.
    """

    _check_units(data)
    values = {"variance": asked.variance, "lengthscale": asked.lengthscale, "noise": asked.noise}
    hyper = hyperparameters.of_table(data, asked.family, **values, seed=asked.seed, progress=asked.progress)
    rows = min(hyperparameters.FIT_ROWS, max(2, round(REFIT * data.N)))

    def refit(seed: int) -> hyperparameters.Hyperparameters:
        return hyperparameters.of_table(data, asked.family, **values, rows=rows, seed=seed)

    problem = of_rows(data.centred, hyper, asked, law)
    return replace(problem, refit=refit) if problem.fitted else problem


def _check_units(data: Standardised) -> None:
    """Refuse columns in whose units squares are no doubles."""
    names = data.columns or tuple(f"input {j + 1}" for j in range(data.D))
    for name, scale in zip((*names, data.target), (*np.ravel(data.scales), data.scale), strict=True):
        if not 1e-140 < scale < 1e140:
            raise ValueError(
                f"{name}: expected a standard deviation between 1e-140 and 1e140, whose square is a double, got "
                f"{scale:.3g}: multiply the column of X, or y, by a power of ten"
            )


def of_rows(
    data: TableRows, hyper: hyperparameters.Hyperparameters, asked: Question, law: InputLaw | None = None
) -> Problem:
    """The problem of rows with a prior mean of 0 and of hyperparameters in their units."""
    part = data.subset(asked.rows, asked.seed)
    cases: tuple[Case, ...] = ()
    omitted: tuple[str, ...] = ()
    if not asked.best or asked.old_forms:
        cases = data_cases(data, part, law=law, y_norm2=asked.y_norm2)
    if asked.best:
        sets = default_sets(part.N) if asked.simulate is None else asked.simulate
        cases = (*best_cases(data, part, asked.best, simulate=sets, seed=asked.seed, law=law), *cases)
        if asked.simulate is None and not sets:
            omitted = (_OMITTED.format(rows=part.N, option=asked.spelled("simulate", 39)),)
    cases = tuple(case.with_rigor(asked.rigor) for case in cases)
    return _without_unknown_spectra(_stated(hyper, cases, asked, data, omitted))


def _stated(
    hyper: hyperparameters.Hyperparameters,
    cases: tuple[Case, ...],
    asked: Question,
    data: TableRows | None = None,
    omitted: tuple[str, ...] = (),
) -> Problem:
    """The problem with these hyperparameters, or with the worst lengthscale of a range."""
    kernels: tuple[Kernel, ...] = (hyper.kernel,)
    worst: tuple[str, ...] = ()
    if asked.lengthscale_range:
        hyper = replace(hyper, fitted=tuple(name for name in hyper.fitted if name != "lengthscale"))
        kernels, note = box(asked.family, hyper.kernel.max_variance, *asked.lengthscale_range)
        worst = (note,)
    notes = (*hyper.warning, *hyper.notes, *worst, *omitted)
    settings = Settings(hyper.noise, asked.delta, asked.tv, asked.form, asked.direction)
    return Problem(kernels, settings, cases, data, hyper.origin, notes, hyper.warning, asked, hyper.edges)


def _without_unknown_spectra(problem: Problem) -> Problem:
    """``problem`` without the cases whose spectrum no method computes, with a note for each of them."""
    from gpbounds.spectra import spectrum

    kernel = problem.kernels[0]
    cases, notes = [], list(problem.notes)
    for case in problem.cases:
        if isinstance(kernel, Stationary):
            kernel.lengthscales(case.inputs.dim)  # a wrong number of lengthscales is an error, not an unknown spectrum
        if case.draws is not None or isinstance(case.inputs, Empirical):  # they need no spectrum of a law
            cases.append(case)
            continue
        try:
            spectrum(kernel, inputs=case.inputs)
        except ValueError as error:
            notes.append(f"No {case.kind} bound: {error}")
        else:
            cases.append(case)
    return replace(problem, cases=tuple(cases), notes=tuple(notes))


# The worst case over a box of lengthscales: its lower end where a proof says so, else the maximum on a grid.

GRID = 9


def box(nu: float, variance: float, low: float, high: float) -> tuple[tuple[Kernel, ...], str]:
    """(kernels, note): the bound of some kernel among ``kernels`` is the worst for lengthscales in [low, high].

    Squared exponential and Matérn-½: k with the shorter lengthscale is k with the longer one times a correlation
    function, exp(-cr²) or exp(-cr).  A Schur product with a correlation matrix has majorised eigenvalues (Bapat and
    Sunder, 1985).  Tails and e_{M+1}/e_M are Schur-concave, so they do not decrease as the lengthscale falls.  All
    bounds here increase in the trace, so they do not decrease either.
    """
    which = (
        "every choice of lengthscales, one per input or one for all," if nu == np.inf else "every shared lengthscale"
    )
    where = f"in [{low:g}, {high:g}]"
    each = "The statement holds for each kernel in the box that is fixed in advance, not for one that data chose."
    if nu in (np.inf, 0.5):
        proof = "proved: shorter lengthscales multiply k by a correlation function, so eigenvalue tails grow"
        return (
            (stationary(nu, variance, low),),
            f"Worst case over {which} {where}: the least lengthscale ({proof}, Bapat and Sunder 1985). {each}",
        )
    scales = np.unique(np.geomspace(low, high, GRID))
    note = (
        f"Worst case over {scales.size} log-spaced shared lengthscales {where}: evaluated on a grid, not proved. {each}"
    )
    return tuple(stationary(nu, variance, float(scale)) for scale in scales), note


@dataclass(frozen=True, eq=False)
class _WorstOf(Statement):
    """The largest bound over kernels, and the largest of the least M's.

    Attributes
    ----------
    numbers : Numbers
    each : tuple of Statement
        One for each kernel.
    names : tuple of str
        The kernels in words.
    """

    numbers: Numbers
    each: tuple[Statement, ...]
    names: tuple[str, ...]

    def bound(self, M: Float) -> Bound:
        return _largest([statement.bound(M) for statement in self.each])

    def least(self, target: float, advance: Callable[[], Any] = silent) -> Plan:
        plans = [statement.least(target, advance) for statement in self.each]
        i = worst_plan(plans)
        note = f"The worst kernel of the grid is {self.names[i]}."
        return replace(plans[i], notes=(*plans[i].notes, note)) if len(plans) > 1 else plans[i]


def _largest(bounds: Sequence[Bound]) -> Bound:
    """The largest of ``bounds`` in each cell, with its terms."""
    first = bounds[0]
    if len(bounds) == 1:
        return first
    values = np.stack([np.asarray(b.value) for b in bounds])
    index = values.argmax(axis=0)[None]

    def at_worst(parts: Sequence[Any]) -> Any:
        wide = np.stack([np.broadcast_to(np.asarray(part), values.shape[1:]) for part in parts])
        worst = np.take_along_axis(wide, index, axis=0)[0]
        return worst if worst.ndim else float(worst)

    return replace(
        first,
        value=at_worst([b.value for b in bounds]),
        terms={name: at_worst([b.terms[name] for b in bounds]) for name in first.terms},
        certified=False,
    )


def worst_plan(plans: Sequence[Plan]) -> int:
    """Index of the plan that needs the highest rank; a plan without an answer counts as the largest."""
    return max(range(len(plans)), key=lambda i: (plans[i].M is None, plans[i].M or 0))
