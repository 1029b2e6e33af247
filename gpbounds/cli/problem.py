"""The problem that a command line or a data set states: kernels, noise, and the cases to bound, with notes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbounds import validation
from gpbounds.arrays import Float
from gpbounds.bound import Bound, Plan
from gpbounds.cli import hyperparameters
from gpbounds.cli.data import Data, load
from gpbounds.cli.options import UsageError, dimension, parsed_inputs, parsed_norm, scalar_or_list
from gpbounds.inputs import Empirical, Gaussian, InputLaw, Sampler, Uniform
from gpbounds.kernels import Kernel, Stationary
from gpbounds.kernels.plain import kernel_to_plain

if TYPE_CHECKING:
    from gpbounds.rates.base import Numbers, Statement

FITTED_LAW = (
    "The theorem holds for a fixed input law; here the law was fitted to the data: the Gaussian with the covariance "
    "of the standardised columns."
)

GIVEN_NOTE = (
    "Given y, these hypotheses remain: the draws are independent of each other and of y, the greatest ELBO is kept, "
    "and kernel and noise are fixed before the draws (they may have been fitted to these data)."
)
GIVEN_ROWS = 20_000
"""Up to here the bound given y is for all rows."""
SIMULATED_ROWS = 1000
"""Up to here inputs are simulated without being asked for."""
OMITTED = (
    "The a-priori bound is omitted for {rows} rows; with --simulate 39 the command decomposes 39 kernel matrices of "
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

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of `gpbounds.rates.theorems.statement` that belong to the case."""
        common: dict[str, Any] = {"inputs": self.inputs, "rigor": self.rigor}
        if self.draws is None:
            return common
        common |= {"draws": self.draws, "law": self.law}
        return (
            {**common, "y": self.y}
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
            return min(N - 1, len(np.unique(np.asarray(self.inputs.X), axis=0)))
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
    """Kernels (several for a worst case on a grid), the settings, and the cases."""

    kernels: tuple[Kernel, ...]
    settings: Settings
    cases: tuple[Case, ...]
    data: Data | None = None
    origin: str = ""
    notes: tuple[str, ...] = ()
    fitted: tuple[str, ...] = ()

    def stated(self, case: Case, N: Sequence[int], alpha: Sequence[float]) -> Statement:
        """What `gpbounds.rate` states of the case, the worst over the kernels, on the grid N x M x alpha."""
        from gpbounds.cli.worst import WorstOf
        from gpbounds.rates.theorems import statement

        numbers = self.numbers(case.y_norm2, np.reshape(alpha, (1, 1, -1)) if len(alpha) > 1 else alpha[0])
        sizes = validation.whole("N", np.reshape(N, (-1, 1, 1)) if len(N) > 1 else N[0], 2)
        choices: dict[str, Any] = {"form": self.settings.form, "direction": self.settings.direction}
        each = [statement(kernel, sizes, numbers, **case.keywords(), **choices) for kernel in self.kernels]
        return WorstOf(numbers, tuple(each), tuple(describe_kernel(kernel) for kernel in self.kernels))

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

    def numbers(self, y_norm2: float | None, alpha: Any) -> Numbers:
        """The numbers of a bound, checked."""
        from gpbounds.rates.base import Numbers

        stated = self.settings
        return Numbers.checked(alpha, stated.noise, stated.delta, y_norm2, stated.tv, stated.direction)

    def notes_on(self, case: Case) -> tuple[str, ...]:
        """The notes of the problem that concern the case: given y, hyperparameters may have been fitted to it."""
        return tuple(note for note in self.notes if case.y is None or note not in self.fitted)


def bounds_at(stated: Statement, N: Sequence[int], M: Sequence[int]) -> Bound:
    """The bounds of `Problem.stated` for the numbers M; scalar for one cell."""
    from gpbounds.rates.theorems import sizes

    _, counts = sizes(np.reshape(N, (-1, 1, 1)), np.reshape(M, (1, -1, 1)))
    return stated.bound(counts if len(M) > 1 else np.asarray(counts[0, 0, 0]))


def short(values: object) -> str:
    """Numbers to three digits; several numbers in brackets.

    >>> short([0.5, 8071.3, 2e-7])
    '[0.5, 8071, 2e-07]'
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim:
        return f"[{', '.join(short(value) for value in array)}]"
    return f"{array:.0f}" if 1e3 <= abs(array) < 1e5 else f"{array:.3g}"


def describe(inputs: InputLaw) -> str:
    """A short description of an input law."""
    if isinstance(inputs, Empirical):
        return f"the {inputs.N} given inputs"
    if isinstance(inputs, Uniform):
        return f"inputs Uniform({short(inputs.low)}, {short(inputs.high)})"
    if isinstance(inputs, Sampler):
        return f"inputs of the law {inputs.name}, dim={inputs.dim}"
    same = np.allclose(inputs.stds, inputs.stds[0], rtol=1e-12, atol=0.0)
    covariance = "with covariances, " if inputs.correlated else ""
    return f"inputs Gaussian({covariance}std={short(inputs.stds[0] if same else inputs.stds)}, dim={inputs.dim})"


def describe_kernel(kernel: Kernel) -> str:
    """A kernel with its hyperparameters to three digits."""
    name = type(kernel).__name__ + (f"({kernel.nu:g}, " if hasattr(kernel, "nu") else "(")
    scale = getattr(kernel, "lengthscale", np.nan)
    return f"{name}variance={short(kernel.max_variance)}, lengthscale={short(scale)})"


def headline(kernel: Kernel, noise: float) -> str:
    """A kernel and its noise as one line for a figure."""
    scale = np.asarray(getattr(kernel, "lengthscale", np.nan))
    if scale.size == 1:
        length = short(scale.item())
    else:
        length = f"{short(scale.min())} to {short(scale.max())} (one per input)"
    name = f"Matérn-{kernel.nu:g}" if hasattr(kernel, "nu") else "Squared exponential"
    return f"{name} kernel, variance {kernel.max_variance:.3g}, lengthscale {length}, noise variance {noise:.3g}"


def kernel_record(kernel: Kernel) -> dict[str, object]:
    """A kernel's parameters, ready for JSON."""
    plain = kernel_to_plain(kernel)
    return {"name": plain["type"], **{name: plain[name] for name in ("nu", "variance", "lengthscale") if name in plain}}


def fitted_law(data: Data) -> Gaussian:
    """The Gaussian with the covariance of all rows, whose means are 0.

    A subset of the rows cannot take their place: an input can be constant on it.

    >>> from gpbounds.cli.data import standardise
    >>> law = fitted_law(standardise("line", [[0.0, 0.0], [1.0, 3.0], [2.0, 3.0]], [0.0, 1.0, 3.0]))
    >>> np.round(law.cov, 4)
    array([[1.   , 0.866],
           [0.866, 1.   ]])
    """
    return Gaussian(cov=data.X.T @ data.X / data.N)


def data_cases(
    data: Data,
    part: Data,
    *,
    law: InputLaw | None = None,
    y_norm2: float | str | None = None,
    every: Data | None = None,
) -> tuple[Case, Case]:
    """(a priori, ``every`` row; data-aware, the rows of ``part``), by default for any y with the data's squared norm.

    ``every`` is by default all of the data.
    """
    rows = f"about {part.N} rows drawn from the {data.N}" if part.N < data.N else f"about these {part.N} rows"
    inputs, fitted = (fitted_law(data), (FITTED_LAW,)) if law is None else (law, ())
    every = data if every is None else every

    def norm(d: Data) -> float | None:
        if isinstance(y_norm2, str):
            return None
        return float((d.y**2).sum()) if y_norm2 is None else y_norm2

    return (
        Case("a priori", inputs, (every.N,), norm(every), fitted),
        Case("data-aware", Empirical(part.X), (part.N,), norm(part), (f"The data-aware statement is {rows}.",)),
    )


def best_cases(
    data: Data,
    part: Data,
    draws: int,
    *,
    simulate: int,
    seed: int,
    law: InputLaw | None = None,
    every: Data | None = None,
) -> tuple[Case, ...]:
    """The best of several draws: a priori by simulation, data-aware (y from the prior), and given y.

    The first two are for as many rows as ``part`` has, the last for ``every`` row, by default all of the data if they
    are at most `GIVEN_ROWS`, else those of ``part``.
    Without ``simulate`` the first is left out.
    """
    from gpbounds.rates.draws.rows import DENSE

    inputs, fitted = (fitted_law(data), (FITTED_LAW,)) if law is None else (law, ())
    rows = f"about {part.N} rows drawn from the {data.N}" if part.N < data.N else f"about these {part.N} rows"
    if every is None:
        every = data if data.N <= GIVEN_ROWS else part

    def law_for(N: int) -> str | None:
        return "tilted" if N <= DENSE else None

    simulated = Case(
        "a priori, simulated", inputs, (part.N,), None, fitted, draws, simulate=simulate, seed=seed, law=law_for(part.N)
    )
    note = (f"The data-aware statement is {rows}.",)
    cases = (
        Case("data-aware", Empirical(part.X), (part.N,), None, note, draws, law=law_for(part.N)),
        Case("given y", Empirical(every.X), (every.N,), None, (GIVEN_NOTE,), draws, every.y, law=law_for(every.N)),
    )
    return (simulated, *cases) if simulate else cases


def default_sets(rows: int) -> int:
    """Default number of simulated sets of inputs; each costs an eigendecomposition."""
    return 39 if rows <= SIMULATED_ROWS else 0


def wants_best(args: argparse.Namespace) -> bool:
    """Whether the command line asks for bounds for the best of several draws."""
    draws = getattr(args, "best", None)
    settings = args.y_norm2 is None and args.tv == 0.0 and args.form == "sharpest"
    inducing = set(getattr(args, "method", ["inducing"])) == {"inducing"}
    return bool(draws) and settings and inducing and not getattr(args, "lengthscale_range", None)


def from_arguments(args: argparse.Namespace) -> Problem:
    """The problem that the command line describes."""
    scale = None if args.lengthscale is None else scalar_or_list(args.lengthscale)
    bounds = getattr(args, "lengthscale_range", None)
    if bounds and scale is not None:
        raise UsageError("--lengthscale-range replaces --lengthscale: use one of the two options")
    norm = parsed_norm(args)
    data = None
    omitted: tuple[str, ...] = ()
    if args.data is None:
        hyper = hyperparameters.from_options(args.kernel, args.variance, scale, args.noise)
        if args.sizes is None:
            raise UsageError("expected -N, the number of data, or --data FILE")
        law = parsed_inputs(args, dimension(args))
        fixed_norm = float(norm) if norm not in (None, "prior") else None
        cases: tuple[Case, ...] = (Case("a priori", law, tuple(args.sizes), fixed_norm, rigor=args.rigor),)
    else:
        if args.sizes is not None:
            raise UsageError("-N and --data FILE exclude each other: the file determines the number of data")
        data = load(args.data)
        law_options = any(option is not None for option in (args.inputs, args.std, args.low, args.high, args.dim))
        inputs = parsed_inputs(args, args.dim or data.D) if law_options else None
        if inputs is not None and inputs.dim != data.D:
            raise UsageError(f"expected a law of {data.D} inputs, as in {args.data}, got {inputs.dim}")
        part = data.subset(args.rows, args.seed)
        hyper = hyperparameters.fit(
            data, args.kernel, variance=args.variance, lengthscale=scale, noise=args.noise, seed=args.seed
        )
        best = wants_best(args)
        cases = data_cases(data, part, law=inputs, y_norm2=norm) if not best or args.old_forms else ()
        if best:
            sets = default_sets(part.N) if args.simulate is None else args.simulate
            cases = (*best_cases(data, part, args.best, simulate=sets, seed=args.seed, law=inputs), *cases)
            omitted = (OMITTED.format(rows=part.N),) if args.simulate is None and not sets else ()
        cases = tuple(case.with_rigor(args.rigor) for case in cases)
    kernels: tuple[Kernel, ...] = (hyper.kernel,)
    notes = (*hyper.warning, *hyper.notes)
    if bounds:
        hyper = replace(hyper, fitted=tuple(name for name in hyper.fitted if name != "lengthscale"))
        notes = (*hyper.warning, *hyper.notes)
        from gpbounds.cli.worst import box

        kernels, note = box(args.kernel, hyper.kernel.max_variance, *bounds)
        notes = (*notes, note)
    notes = (*notes, *omitted)
    settings = Settings(hyper.noise, args.delta, args.tv, args.form, args.direction)
    problem = Problem(kernels, settings, cases, data, hyper.origin, notes, hyper.warning)
    return without_unknown_spectra(problem) if data is not None else problem


def without_unknown_spectra(problem: Problem) -> Problem:
    """``problem`` without the cases whose spectrum no method computes, with a note for each of them."""
    from gpbounds.spectra import spectrum

    kernel = problem.kernels[0]
    assert isinstance(kernel, Stationary)
    cases, notes = [], list(problem.notes)
    for case in problem.cases:
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
