"""`plan`: how many inducing points a table needs, before a model is trained; what is asked, and the record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.study.afterwards import NAMES, Afterwards, Floors, afterwards, sentence
from fitting.study.answer import Answer, inline
from fitting.study.problem import Problem, Question, about_rows
from fitting.study.ranks import Aims, Entry, comparison, plans
from fitting.study.standardised import columns_of, standardise
from fitting.study.steps import Steps, shown
from fitting.study.words import argument
from gpbounds import validation
from gpbounds.inputs import Empirical, InputLaw
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import stationary
from gpbounds.records import plain
from gpbounds.texts import table, wrapped

_HINT = (
    'The best of {draws} draws: gpbounds.kdpp.select(..., method="best", draws={draws}), or SparseGP(inducing="best"). '
    "{option} adds the bounds on one draw."
)
EXPLAINED = (
    "Needed: fewer inducing points do not meet the target, by a lower bound. Suffices: so many do, with the stated "
    "probability."
)


def plan(
    X: ArrayLike,
    y: ArrayLike,
    *,
    target: float = 0.1,
    kernel: Kernel | None = None,
    nu: float = math.inf,
    noise: float | None = None,
    lengthscale_range: tuple[float, float] | None = None,
    alpha: float = 1.0,
    delta: float = 0.05,
    inputs: InputLaw | None = None,
    y_norm2: float | str | None = None,
    tv: float = 0.0,
    form: str = "sharpest",
    direction: str = "q||p",
    method: str | tuple[str, ...] = "inducing",
    width: Any = None,
    draws: int = 10,
    simulate: int | None = None,
    old_forms: bool = False,
    select: str = "greedy",
    most: int = 1000,
    rows: int = 2000,
    rigor: str = "auto",
    rng: int = 0,
    name: str = "data",
    progress: bool = False,
) -> Planned:
    """How many inducing points (or features) suffice for a table, at four levels of what is known about it.

    A priori, for inputs to come (simulated); given the rows, for y from the prior; given the rows and y; and after the
    fact, for inducing points that are chosen among these rows.  The first three hold for the best of several draws of
    a k-DPP, with probability 1 − δ.  `gpbounds plan --data` prints the same record.

    Claims N-sim (a priori), N-prior and N-tilt-prior, N-given and N-tilt-given, R-lem4 (after the fact); N-low and
    N-lowprior for what is needed; with ``old_forms`` R-thm1, R-thm2, R-lem3.  Hypotheses: y has Gaussian noise of the
    stated variance, the draws are made as stated, and kernel and noise are fixed before them.

    Columns are standardised to mean 0 and variance 1 and constant inputs dropped; kernel, noise and input law are those
    of the standardised columns.  The bounds are for *these* hyperparameters: a model that is trained with other numbers
    of inducing points may have others.

    Parameters
    ----------
    X : array (N, D), or a data frame (pandas, polars), whose columns name the inputs
    y : array (N,)
    target : float
        Upper limit of the divergence in nats: D_α[q*‖p] for inducing points, KL for other methods.
    kernel : SquaredExponential or Matern, optional
        In standard deviations of the columns, not in the units of X and y: divide the lengthscales of a model by
        ``X.std(axis=0)``, its variance and noise by ``y.var()``.  None: marginal likelihood on at most 500 rows fits a
        variance and a lengthscale for each input.
    nu : float
        Smoothness of a kernel that is fitted: 0.5, 1.5, 2.5, …; infinity is the squared exponential.
    noise : float, optional
        σ² in squared standard deviations of y; None: fitted.
    lengthscale_range : (float, float), optional
        Worst case over all lengthscales in this range, in standard deviations, in place of those of the kernel; then
        there is no level after the fact.
    alpha : float
        Rényi order of the divergence, in (0, 1]; 1 is KL.
    delta, inputs, y_norm2, tv, form, direction, rigor
        The same as in :func:`gpbounds.rate`.  ``inputs`` is by default the Gaussian with the covariance of the
        columns; ``y_norm2`` None is the norm of y, "prior" takes y from the prior.
    method : str or tuple of str
        Of "inducing", "fourier" (random Fourier features), "mercer" (terms of a Mercer expansion).
    width : float or list of D floats, optional
        Range of the inputs for "fourier"; by default that of the rows.
    draws : int
        The draw with the greatest ELBO of so many is kept; 0 for the bounds on one draw.
    simulate : int, optional
        Number of simulated sets of inputs; by default 39 up to 1000 rows, else 0, which omits the bound.
    old_forms : bool
        Add the bounds on one draw, for any y with the norm of this y.
    select : str
        How inducing points are chosen after the fact: "greedy", "kdpp", "best", "rpcholesky", "uniform", "kmeans",
        "leverage"; "none" omits this level.
    most : int
        Largest number of inducing points, or rank of a Mercer expansion, to try.
    rows : int
        Number of rows drawn for the data-aware bound; other levels use all of K up to this number.
    rng : int
        The seed of all random choices.
    name : str
        Name of the data in reports.
    progress : bool
        Show on stderr, if it is a terminal, what is being computed.

    Returns
    -------
    Planned
        ``print()``, ``to_dict()``, ``save("plan.html")``, ``plot()``; a notebook shows its page.  ``entries`` holds
        the `Plan` of each level, ``after`` that after the fact.  After Ctrl-C it has what was found until then.

    Raises
    ------
    ValueError, NonFinite
        for arguments out of range, shapes that do not match, text, NaN or infinity, and a constant target.

    >>> import gpbounds
    >>> X = np.linspace(0.0, 6.0, 60)
    >>> kernel = gpbounds.SquaredExponential(1.0, 0.5)
    >>> planned = plan(X, np.sin(X), target=0.1, kernel=kernel, noise=0.1, simulate=0)
    >>> [(entry.level, entry.plan.M) for entry in planned.entries], planned.after.M
    ([('data-aware', 12), ('given y', 11)], 10)
    """
    columns, points = columns_of(X, "X")
    _, targets = columns_of(y, "y")
    if targets.shape != (len(points), 1):
        raise ValueError(f"y: expected {len(points)} targets, one for each row of X, got shape {targets.shape}")
    data = standardise(name, points, targets[:, 0], columns)
    methods = (method,) if isinstance(method, str) else tuple(method)
    chosen = _kernel(kernel, nu) | {"noise": None if noise is None else validation.noise_variance(noise)}
    if inputs is not None and inputs.dim != data.D:
        raise ValueError(f"inputs: expected a law of {data.D} inputs, as X has, got {inputs.dim}")
    asked = Question(
        **chosen,
        lengthscale_range=_range(lengthscale_range),
        delta=delta,
        tv=tv,
        form=validation.choice("form", form, ("sharpest", "printed")),
        direction=validation.choice("direction", direction, ("q||p", "p||q")),
        y_norm2=_norm(y_norm2),
        rigor=validation.rigor_of(rigor),
        draws=validation.count("draws", draws, 0) if set(methods) == {"inducing"} else 0,
        simulate=None if simulate is None else validation.count("simulate", simulate, 0),
        old_forms=old_forms,
        rows=validation.count("rows", rows, 2),
        seed=validation.count("rng", rng, 0),
        progress=progress,
    )
    aims = Aims(target, alpha, methods, None if width is None else np.atleast_1d(width).tolist(), select, most)
    aims.check(argument)
    with shown("Fitting the kernel", progress):
        problem = about_rows(data, asked, inputs)
    return planned(problem, aims)


def _range(ends: Any) -> tuple[float, float] | None:
    """The two ends of a range of lengthscales, checked."""
    if ends is None:
        return None
    low, high = np.ravel(validation.positive("lengthscale_range", ends)).tolist() if np.size(ends) == 2 else (1.0, 0.0)
    if not low <= high:
        raise ValueError(f"lengthscale_range: expected two positive numbers (A, B) with A <= B, got {ends!r}")
    return low, high


def _norm(y_norm2: float | str | None) -> float | str | None:
    if y_norm2 is None or y_norm2 == "prior":
        return y_norm2
    if isinstance(y_norm2, str):
        raise ValueError(f"y_norm2: expected a number or 'prior', got {y_norm2!r}")
    return validation.scalar(validation.non_negative, "y_norm2", y_norm2)


def _kernel(kernel: Any, nu: float) -> dict[str, Any]:
    """What a `Question` has of a kernel: its family, and the hyperparameters of one that is given."""
    if kernel is None:
        if not nu > 0.0:
            raise ValueError(f"nu: expected a positive number or infinity, got {nu!r}")
        return {"family": float(nu)}
    given: list[Any] = [getattr(kernel, name, None) for name in ("variance", "lengthscale")]
    family = float(getattr(kernel, "nu", math.inf))
    if any(value is None for value in given) or type(stationary(family, *given)) is not type(kernel):
        raise ValueError(f"kernel: expected a SquaredExponential or a Matern, or None to fit one, got {kernel!r}")
    return {"family": family, "variance": given[0], "lengthscale": np.asarray(given[1]).tolist()}


@dataclass(frozen=True, eq=False)
class Planned(Answer):
    """What suffices for a target, level by level.

    Attributes
    ----------
    problem : Problem
        Data, kernel and noise, and the cases that were bounded.
    aims : Aims
        Target, order, methods.
    entries : tuple of Entry
        A `Plan` for each level that has one, with the level's name.
    after : Afterwards or None
        The chosen inducing points that suffice for these rows and their y.
    lower : dict or None
        The least M that the lower bounds admit.
    reasons : tuple of str
        Why an answer is missing, one sentence each.
    interrupted : bool
        Whether Ctrl-C ended the computation.
    """

    problem: Problem
    aims: Aims
    entries: tuple[Entry, ...]
    after: Afterwards | None
    lower: dict[str, int] | None
    reasons: tuple[str, ...] = ()
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        record = {
            "plans": [entry.to_dict() for entry in self.entries],
            "after the fact": self.after and self.after.to_dict(),
            "lower bounds": self.lower,
            "notes": [*self.problem.notes, *self.reasons],
        }
        whole: dict[str, Any] = plain({"command": "plan", **self.problem.record(), **record}, spelled=True)
        return whole

    def __str__(self) -> str:
        problem = self.problem
        lines = [problem.heading()]
        if problem.data is not None or not self._inducing_only:
            lines.append(f"\n{self.question}:\n{table(*self.levels())}")
        if problem.data is not None and self._inducing_only and self.lower is not None:
            lines.append(wrapped(sentence(self.lower)))
        for entry in self.entries:
            lines.append(f"\n{wrapped(entry.title)}\n{wrapped(str(entry.plan), '  ')}")
        if self.after is not None:
            lines += [f"\n{self._chosen()}", wrapped(str(self.after), "  ")]
        lines += [""] if self.reasons else []
        lines += [wrapped(f"Note: {note}") for note in self._notes()]
        return "\n".join([*lines, *self._advice()])

    @property
    def _inducing_only(self) -> bool:
        return set(self.aims.methods) == {"inducing"}

    @property
    def question(self) -> str:
        """What is asked, in one line."""
        if not self._inducing_only:
            return f"Ranks that suffice for KL <= {self.aims.target:g} nats"
        alpha, direction = self.aims.alpha, self.problem.settings.direction
        order = "KL" if alpha == 1.0 else f"D_{alpha:g}"
        pair = "q*||p" if direction == "q||p" else "p||q*"
        return f"Inducing points that suffice for {order}[{pair}] <= {self.aims.target:g} nats"

    def _chosen(self) -> str:
        assert self.after is not None
        name = NAMES.get(self.after.method, self.after.method)
        return f"After the fact: {name} inducing points among these rows; y as it is"

    def _notes(self) -> tuple[str, ...]:
        return (*self.reasons, *(self.problem.notes if not self.entries else ()))

    def _advice(self) -> list[str]:
        """How the points are chosen of which the bounds speak."""
        problem = self.problem
        if problem.data is None or "inducing" not in self.aims.methods:
            return []
        spelled = problem.asked.spelled
        if any(case.draws is not None for case in problem.cases):
            return ["", wrapped(_HINT.format(draws=problem.asked.draws, option=spelled("old_forms", True)))]
        if problem.asked.y_norm2 is not None:
            return []
        option = spelled("y_norm2", "prior")
        return [f"\nWith {option} the plan assumes that y is drawn from the prior, and needs fewer points."]

    def levels(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows of a table: with more information about the data, fewer points provably suffice."""
        if not self._inducing_only:
            return comparison(self.entries, self.after)
        rows: list[tuple[str, ...]] = []
        for entry in self.entries:
            least = entry.plan
            y = {"y from the prior": "from the prior", "any y": "any of its norm"}.get(entry.about, "as it is")
            answer = f"M = {least.M}" if least.M is not None else f"no M < {least.N}"
            confidence = f"{100 * (1 - self.problem.settings.delta):g} %"
            needed = "-" if least.needed is None else str(least.needed)
            bound = "-" if least.bound is None else f"{float(least.bound):.3g}"
            rows.append((entry.level, str(least.N), entry.points, y, confidence, needed, answer, bound))
        after = self.after
        if after is not None:
            answer = f"M = {after.M}" if after.M is not None else f"no M <= {after.tried}" if after.tried else "-"
            bound = "-" if after.at is None else f"{float(after.at[1]):.3g}"
            name = NAMES.get(after.method, after.method)
            rows.append(("after the fact", str(after.N), name, "as it is", "certain", str(after.needed), answer, bound))
        return ("level", "rows", "points", "y", "probability", "needed", "suffices", "bound"), rows

    def plot(self) -> Any:
        """For each level, from the number that is needed to the number that suffices."""
        from gpbounds import plotting

        ranges = [
            plotting.Range(entry.title.partition(":")[0], entry.plan.needed, entry.plan.M, entry.plan.N)
            for entry in self.entries
        ]
        if self.after is not None:
            ranges.append(plotting.Range("After the fact", self.after.needed, self.after.M, self.after.N))
        axis = "Number of inducing points $M$" if self._inducing_only else "Rank"
        return plotting.sufficient(ranges, title=self.question, xlabel=axis)

    def page(self) -> str:
        from gpbounds.pages import html

        data, problem = self.problem.data, self.problem
        title = "Inducing points" if data is None else f"Inducing points for {data.name}"
        facts = "".join(f"<p>{html.escaped(line)}</p>\n" for line in problem.facts())
        names = "" if data is None or not data.columns else f"<p>Inputs: {html.escaped(', '.join(data.columns))}.</p>\n"
        sections = [f"<p>{html.escaped(self.question)}</p>\n", html.table(*self.levels())]
        sections += [f"<figure>{inline(self.plot())}<figcaption>{html.escaped(EXPLAINED)}</figcaption></figure>\n"]
        sections += [] if self.lower is None else [f"<p>{html.escaped(sentence(self.lower))}</p>\n"]
        for entry in self.entries:
            sections.append(
                f"<h2>{html.escaped(entry.title)}</h2>\n<pre>{html.escaped(wrapped(str(entry.plan)))}</pre>\n"
            )
        if self.after is not None:
            text = html.escaped(wrapped(str(self.after)))
            sections.append(f"<h2>{html.escaped(self._chosen())}</h2>\n<pre>{text}</pre>\n")
        notes = "".join(f"<li>{html.escaped(note)}</li>\n" for note in (*self._notes(), *filter(None, self._advice())))
        sections += [f"<h2>Notes</h2>\n<ul>{notes}</ul>\n"] if notes else []
        head = f"<header><h1>{html.escaped(title)}</h1>\n{facts}{names}</header>\n"
        return html.document(title, f"{head}<main>\n{''.join(sections)}</main>", style=STYLE)


STYLE = (
    "figure svg { max-width: 100%; height: auto; background: #fff; } pre { white-space: pre-wrap; font-size: .8rem; }"
)


def planned(problem: Problem, aims: Aims) -> Planned:
    """The plan of each case; a case without an answer leaves the others, and so does Ctrl-C."""
    inducing = "inducing" in aims.methods
    if inducing:
        problem.check_numbers(aims.alpha)
    more = len(problem.cases) - 1 if inducing else 0
    steps = Steps(2 + len(aims.methods) + more, problem.asked.progress)
    entries, left_out = plans(problem, aims, steps)
    after, reasons = steps.take("after the fact", lambda: _after_the_fact(problem, aims)) or (None, ())
    steps.stopped |= after is not None and after.interrupted
    lower = steps.take("lower bounds", lambda: _floors(problem, aims))
    steps.finish(bool(entries) or after is not None)
    reasons = (*left_out, *reasons, *steps.reasons)
    return Planned(problem, aims, tuple(entries), after, lower, reasons, steps.stopped)


def _floors(problem: Problem, aims: Aims) -> dict[str, int] | None:
    """The least M that the lower bounds admit for the rows of the data-aware statement."""
    laws = [case.inputs for case in problem.cases if case.kind == "data-aware"]
    if "inducing" not in aims.methods or problem.settings.direction != "q||p" or len(problem.kernels) > 1:
        return None
    for law in laws:
        if isinstance(law, Empirical):
            X = np.asarray(law.X)
            return Floors.of(problem.kernels[0], X, problem.settings.noise, aims.alpha).record(aims.target)
    return None


def _after_the_fact(problem: Problem, aims: Aims) -> tuple[Afterwards | None, tuple[str, ...]]:
    """The result for chosen inducing points, or the reason why it is omitted."""
    asked, settings = problem.asked, problem.settings
    if problem.data is None or aims.select == "none" or "inducing" not in aims.methods:
        return None, ()
    if len(problem.kernels) > 1 or asked.lengthscale_range:
        option = asked.spelled("lengthscale_range")
        return None, (f"The plan after the fact needs one kernel; it is omitted with {option}.",)
    return afterwards(
        problem.kernels[0],
        problem.data,
        settings.noise,
        aims.alpha,
        aims.target,
        method=aims.select,
        most=aims.most,
        rows=asked.rows,
        seed=asked.seed,
        direction=settings.direction,
        progress=asked.progress,
        spelled=asked.spelled,
    ), ()
