"""`plan`: how many inducing points a table needs, before a model is trained; what is asked, and the record."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fitting.study.afterwards import Afterwards, Floors
from fitting.study.hyperparameters import Hyperparameters
from fitting.study.planned import Planned, Spread
from fitting.study.problem import Problem, Question, about_rows, of_rows
from fitting.study.ranks import AFTER, Aims, Entry, after_the_fact, plans
from fitting.study.standardised import TableRows, inputs_and_target, standardise
from fitting.study.steps import Steps, WrongArguments, shown
from fitting.study.trained import about_model
from fitting.study.words import Spelling, argument
from gpbounds import validation
from gpbounds.errors import shown as shown_value
from gpbounds.inputs import Empirical, InputLaw
from gpbounds.kernels import Kernel
from gpbounds.kernels.plain import stationary


def plan(
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    target: str | None = None,
    nats: float | None = None,
    loss: float | None = None,
    relative: float | None = None,
    model: Any = None,
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
    most: int | None = None,
    rows: int = 2000,
    refits: int = 3,
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

    All numbers are in the units of X and y; columns are standardised inside, means subtracted, constant inputs dropped.
    Every M is for *this* kernel and noise: training again moves them, and M with them.  The spread over ``refits``
    shows by how much; ``model`` plans for a model that is trained already.

    Parameters
    ----------
    X : array (N, D), or a data frame (pandas, polars), whose columns name the inputs
    y : array (N,), optional
    target : str, optional
        In place of y: the name of the column of the data frame X that holds the targets.
    nats : float
        Upper limit of the divergence: D_α[q*‖p] for inducing points, KL for other methods; by default 1.
    loss, relative : float, optional
        In place of ``nats``: levels of predictions, at a fifth of the rows, at most 2000, that are held out.
        ``loss``: the log loss of the sparse model is at most so many nats a row above that of the exact GP of the same
        rows, kernel and noise.  ``relative``: the root mean square difference of their means is at most so many root
        mean square residuals of the exact GP.  The exact GP's predictions are between proved ends (N-solve); M is
        measured, with a 95 % interval over the rows held out, along one greedy path; beyond 20 000 training rows it is
        extrapolated from subsets of them.  The record is ``by_predictions``; other arguments about divergences are
        refused.
    model : SparseGP, RenyiGP, ExactGP, VariationalGP with Gaussian noise, or `gpbounds.renyi.Model`, optional
        Its kernel, noise and mean, on its own training rows, which are recognised in the table, as `audit` does; a
        `Model` of another library has no rows, and all are used.
    kernel : SquaredExponential or Matern, optional
        None: marginal likelihood on at most 500 rows fits a variance and a lengthscale for each input.
    nu : float
        Smoothness of a kernel that is fitted: 0.5, 1.5, 2.5, …; infinity is the squared exponential.
    noise : float, optional
        σ² in squared units of y; None: fitted.
    lengthscale_range : (float, float), optional
        Worst case over all lengthscales in this range, in place of those of the kernel; then there is no level after
        the fact.
    alpha : float
        Rényi order of the divergence, in (0, 1]; 1 is KL.
    delta, inputs, y_norm2, tv, form, direction, rigor
        The same as in :func:`gpbounds.rate`.  ``inputs`` is by default the Gaussian with the covariance of the
        columns; ``y_norm2`` None is the squared norm of y less its mean, "prior" takes y from the prior.
    method : str or tuple of str
        Of "inducing", "fourier" (random Fourier features), "mercer" (terms of a Mercer expansion), "hilbert"
        (basis functions of a Hilbert-space GP).
    width : float or list of D floats, optional
        Range of the inputs for "fourier" and "hilbert"; by default that of the rows.
    draws : int
        The draw with the greatest ELBO of so many is kept; 0 for the bounds on one draw.
    simulate : int, optional
        Number of simulated sets of inputs; by default 39 up to 1000 rows, else 0, which omits the bound.
    old_forms : bool
        Add the bounds on one draw, for any y with the norm of this y.
    select : str
        How inducing points are chosen after the fact: "greedy", "kdpp", "best", "rpcholesky", "uniform", "kmeans",
        "leverage"; "none" omits this level.
    most : int, optional
        Largest number of inducing points, or rank of a Mercer expansion, to try; by default 1000, or 5000 with ``loss``
        or ``relative``.
    rows : int
        Number of rows drawn for the data-aware bound; other levels use all of K up to this number.
    refits : int
        Number of further fits, each to other rows, whose least and greatest M are the spread; 0 omits it.  Above 4000
        rows the spread is that of ``rows`` of them.
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
        the `Plan` of each level, ``after`` that after the fact, ``spread`` the refits, ``by_predictions`` what ``loss``
        and ``relative`` ask for, ``recommendation`` the answer in words.  After Ctrl-C it has what was found until
        then.

    Raises
    ------
    ValueError, NonFinite
        for a number as ``target`` (the level is ``nats``), arguments out of range, shapes that do not match,
        text, NaN or infinity, and a constant target.

    >>> import gpbounds
    >>> X = np.linspace(0.0, 6.0, 60)
    >>> kernel = gpbounds.SquaredExponential(1.0, 0.5)
    >>> planned = plan(X, np.sin(X), nats=0.1, kernel=kernel, noise=0.1, simulate=0)
    >>> [(entry.level, entry.plan.M) for entry in planned.entries], planned.after.M
    ([('data-aware', 19), ('given y', 18)], 17)
    >>> plan(X, np.sin(X), loss=0.01, kernel=kernel, noise=0.1).by_predictions.M
    16
    """
    for word, value in (("old_forms", old_forms), ("progress", progress)):
        validation.flag(word, value)
    validation.instance("name", name, str, "a text")
    chosen = _kernel(kernel, nu) | {"noise": None if noise is None else validation.noise_variance(noise)}
    columns, points, targets, name_of_target = inputs_and_target(X, y, target)
    if not (isinstance(method, str) or (isinstance(method, tuple | list) and all(isinstance(m, str) for m in method))):
        raise ValueError(f"method: expected the name of a method, or a tuple of names, got {shown_value(method)}")
    methods = (method,) if isinstance(method, str) else tuple(method)
    asked = Question(
        **chosen,
        lengthscale_range=_range(lengthscale_range),
        delta=delta,
        tv=validation.scalar(validation.closed_unit, "tv", tv),
        form=validation.choice("form", form, ("sharpest", "printed")),
        direction=validation.choice("direction", direction, ("q||p", "p||q")),
        y_norm2=_norm(y_norm2),
        rigor=validation.rigor_of(rigor),
        draws=validation.count("draws", draws, 0) if set(methods) == {"inducing"} else 0,
        simulate=simulated_sets(simulate, loss, relative),
        old_forms=old_forms,
        rows=validation.count("rows", rows, 2),
        seed=validation.count("rng", rng, 0),
        progress=progress,
    )
    widths = None if width is None else np.atleast_1d(validation.positive("width", width)).tolist()
    level = level_of(nats, loss, relative, argument)
    aims = Aims(
        level, alpha, methods, widths, select, most, validation.repetitions("refits", refits, 0), loss, relative
    )
    aims.check(argument)
    with shown("Fitting the kernel" if model is None else "Reading the model", progress):
        if model is None:
            data = standardise(name, points, targets, columns, name_of_target)
            _same_dimension(inputs, data.D)
            problem = about_rows(data, asked, inputs)
        else:
            table = TableRows(name, points, targets, (), columns, name_of_target)
            _same_dimension(inputs, table.D)
            problem = about_model(model, table, asked, inputs)
    return planned(problem, aims)


def simulated_sets(simulate: int | None, loss: float | None, relative: float | None) -> int | None:
    """``simulate``, checked; levels of predictions simulate nothing."""
    if simulate is None:
        return None if loss is None and relative is None else 0
    return validation.repetitions("simulate", simulate, 0)


def level_of(nats: float | None, loss: float | None, relative: float | None, spelled: Spelling) -> float:
    """The level of a divergence, by default 1; refused beside levels of predictions.

    >>> level_of(None, None, None, argument)
    1.0
    """
    if nats is None:
        return 1.0
    for name, value in (("loss", loss), ("relative", relative)):
        if value is not None:
            raise WrongArguments(
                f"{spelled('nats', nats)}: it asks for a divergence, {spelled(name, value)} for predictions: ask one "
                "of the two at a time"
            )
    return nats


def _same_dimension(law: InputLaw | None, D: int) -> None:
    if law is not None:
        validation.instance("inputs", law, InputLaw, "a law of gpbounds.inputs, such as Uniform(0, 1), or None")
    if law is not None and law.dim != D:
        raise ValueError(f"inputs: expected a law of {D} inputs, as X has, got {law.dim}")


def _range(ends: Any) -> tuple[float, float] | None:
    """The two ends of a range of lengthscales, checked."""
    if ends is None:
        return None
    given = np.ravel(validation.positive("lengthscale_range", ends)).tolist()
    low, high = given if len(given) == 2 else (1.0, 0.0)
    if not low <= high:
        raise ValueError(
            f"lengthscale_range: expected two positive numbers (A, B) with A <= B, got {shown_value(ends)}"
        )
    return low, high


def _norm(y_norm2: float | str | None) -> float | str | None:
    if y_norm2 is None or (isinstance(y_norm2, str) and y_norm2 == "prior"):
        return y_norm2
    if isinstance(y_norm2, str):
        raise ValueError(f"y_norm2: expected a number or 'prior', got {shown_value(y_norm2)}")
    return validation.scalar(validation.non_negative, "y_norm2", y_norm2)


def _kernel(kernel: Any, nu: float) -> dict[str, Any]:
    """What a `Question` has of a kernel: its family, and the hyperparameters of one that is given."""
    smoothness = 0.0
    with contextlib.suppress(ValueError):
        smoothness = validation.scalar(validation.extended, "nu", nu)
    if smoothness == 0.0:
        raise ValueError(f"nu: expected a positive number or infinity, got {shown_value(nu)}")
    if kernel is None:
        return {"family": smoothness}
    given: list[Any] = [getattr(kernel, name, None) for name in ("variance", "lengthscale")]
    family = float(getattr(kernel, "nu", math.inf))
    if any(value is None for value in given) or type(stationary(family, *given)) is not type(kernel):
        got = shown_value(kernel)
        raise ValueError(f"kernel: expected a SquaredExponential or a Matern, or None to fit one, got {got}")
    return {"family": family, "variance": given[0], "lengthscale": np.asarray(given[1]).tolist()}


def planned(problem: Problem, aims: Aims) -> Planned:
    """The plan of each case; a case without an answer leaves the others, and so does Ctrl-C."""
    aims.check(problem.asked.spelled)
    if aims.about_predictions:
        return _by_predictions(problem, aims)
    inducing = "inducing" in aims.methods
    if inducing:
        problem.check_numbers(aims.alpha)
    more = len(problem.cases) - 1 if inducing else 0
    steps = Steps(3 + len(aims.methods) + more, problem.asked.progress)
    entries, left_out = plans(problem, aims, steps)
    after, reasons = steps.take("after the fact", lambda: _after_the_fact(problem, aims)) or (None, ())
    steps.stopped |= after is not None and after.interrupted
    lower = steps.take("lower bounds", lambda: _floors(problem, aims))
    known = None
    if problem.refit is not None and aims.refits:
        known = steps.take(f"{aims.refits} refits", lambda: _spread(problem, aims, entries, after))
    steps.finish(bool(entries) or after is not None)
    reasons = (*left_out, *reasons, *steps.reasons)
    return Planned(problem, aims, tuple(entries), after, lower, known, reasons, steps.stopped)


def _by_predictions(problem: Problem, aims: Aims) -> Planned:
    """The plan for levels of predictions."""
    from fitting.study.by_predictions import by_predictions, check

    check(problem, aims)
    steps = Steps(5, problem.asked.progress)
    answer = by_predictions(problem, aims, steps, seeds(problem.asked.seed, aims.refits))
    steps.finish(answer is not None)
    return Planned(
        problem, aims, (), None, None, reasons=tuple(steps.reasons), interrupted=steps.stopped, by_predictions=answer
    )


def _floors(problem: Problem, aims: Aims) -> dict[str, int] | None:
    """The least M that the lower bounds admit for the rows of the data-aware statement."""
    laws = [case.inputs for case in problem.cases if case.kind == "data-aware"]
    if "inducing" not in aims.methods or problem.settings.direction != "q||p" or len(problem.kernels) > 1:
        return None
    for law in laws:
        if isinstance(law, Empirical):
            X = np.asarray(law.X)
            return Floors.of(problem.kernels[0], X, problem.settings.noise, aims.alpha).record(aims.nats)
    return None


def _after_the_fact(problem: Problem, aims: Aims) -> tuple[Afterwards | None, tuple[str, ...]]:
    """The result for chosen inducing points, or the reason why it is omitted."""
    asked = problem.asked
    if problem.data is None or aims.select == "none" or "inducing" not in aims.methods:
        return None, ()
    if len(problem.kernels) > 1 or asked.lengthscale_range:
        option = asked.spelled("lengthscale_range")
        return None, (f"The plan after the fact needs one kernel; it is omitted with {option}.",)
    return after_the_fact(problem, problem.data, aims, problem.kernels[0], problem.settings.noise), ()


LARGEST = 4000
"""Above so many rows the spread is that of a sample of the rows."""


def seeds(seed: int, refits: int) -> list[int]:
    """Seeds of the refits, derived from that of the plan.

    >>> seeds(0, 2) == seeds(0, 3)[:2], len(set(seeds(0, 5) + seeds(1, 5)))
    (True, 10)
    """
    return [int(np.random.SeedSequence([seed, k + 1]).generate_state(1)[0]) for k in range(refits)]


def spread(problem: Problem, aims: Aims, level: str, first: int | None, refits: int) -> Spread | None:
    """The M of ``level`` for each of ``refits`` fits, and ``first``, that of the plan; None where nothing was fitted.

    Above `LARGEST` rows all are computed for the sample of the data-aware level.
    """
    data, refit, settings = problem.data, problem.refit, problem.settings
    if data is None or refit is None or not refits or len(problem.kernels) > 1:
        return None
    rows = data.subset(problem.asked.rows, problem.asked.seed) if data.N > LARGEST else data
    if rows.N < data.N:
        first = _least(problem, rows, level, aims, problem.kernels[0], settings.noise)
    counts = [first]
    for seed in seeds(problem.asked.seed, refits):
        hyper = refit(seed)
        counts.append(_least(problem, rows, level, aims, hyper.kernel, hyper.noise))
    return Spread(level, rows.N, tuple(counts))


def _least(problem: Problem, rows: TableRows, level: str, aims: Aims, kernel: Kernel, noise: float) -> int | None:
    """The M of a level for these rows, kernel and noise."""
    asked = problem.asked
    if level == AFTER:
        return after_the_fact(problem, rows, aims, kernel, noise, below=False).M
    part = of_rows(rows, Hyperparameters(kernel, noise, ""), replace(asked, rows=rows.N, simulate=0, old_forms=False))
    (case,) = (case for case in part.cases if case.kind == level)
    return part.plan(case, aims.alpha, aims.nats).M


def _spread(problem: Problem, aims: Aims, entries: Sequence[Entry], after: Afterwards | None) -> Spread | None:
    """How far the M that is recommended moves with the rows of the fit."""
    if after is not None and after.M is not None:
        return spread(problem, aims, AFTER, after.M, aims.refits)
    for entry in entries:
        if entry.level == "given y" and entry.plan.method == "inducing" and entry.plan.M is not None:
            return spread(problem, aims, entry.level, entry.plan.M, aims.refits)
    return None
