"""Bounds against M, for several orders or numbers of rows, and bounds on log p(y) for chosen inducing points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fitting.study.afterwards import Brackets, Floors, brackets, ladder
from fitting.study.answer import Answer, inline
from fitting.study.problem import Case, Problem, bounds_at
from fitting.study.steps import Steps
from fitting.study.subsets import BEST_OF_SEVERAL, BY_ORDER
from fitting.study.words import describe, headline
from gpbounds import plotting
from gpbounds.bound import Bound
from gpbounds.inputs import Empirical
from gpbounds.records import plain
from gpbounds.texts import table, wrapped

if TYPE_CHECKING:
    from gpbounds.rates.base import Statement

Series = tuple[Case, int, float, list[int], Bound]
"""Case, N, alpha, the values of M, and the bounds there."""

FLOOR = 1e-4
"""Unless M is given, a curve ends where the bound falls below this value (in nats), or at M = N - 1."""


def curves(
    problem: Problem,
    alpha: Sequence[float],
    counts: Sequence[int] | None = None,
    *,
    select: str = "greedy",
    most: int = 1000,
) -> Curves:
    """The bounds of all cases at the numbers M in ``counts``, by default up to where they are negligible.

    A case without an answer leaves the others, and so does Ctrl-C.

    Raises
    ------
    ValueError
        for several orders and several numbers of rows at once.
    """
    case_sizes = [len(case.sizes) for case in problem.cases]
    if len(alpha) > 1 and max(case_sizes, default=1) > 1:
        raise ValueError("curve: expected several alpha or several N, not both")
    problem.check_numbers(alpha)
    series: list[Series] = []
    steps = Steps(sum(case_sizes) * len(alpha) + 1, problem.asked.progress)
    for case in problem.cases:
        for N in case.sizes:
            for order in alpha:
                name = f"{case.kind}, N = {N}, alpha = {order:g}"
                curve = steps.take(name, partial(_curve, problem, case, N, order, counts))
                series += [] if curve is None else [curve]
    bracket, reasons = steps.take("evidence", lambda: _evidence(problem, counts, select, most)) or (None, ())
    steps.finish(bool(series) or bracket is not None)
    notes = (*problem.notes, *(note for case in problem.cases for note in case.notes), *reasons, *steps.reasons)
    return Curves(problem, tuple(series), bracket, notes, steps.stopped)


@dataclass(frozen=True, eq=False)
class Curves(Answer):
    """Bounds against M.

    Attributes
    ----------
    problem : Problem
    series : tuple of Series
    bracket : Brackets or None
        Bounds on log p(y) of the data.
    notes : tuple of str
    interrupted : bool
        Whether Ctrl-C ended the computation.
    """

    problem: Problem
    series: tuple[Series, ...]
    bracket: Brackets | None
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    def to_dict(self) -> dict[str, Any]:
        records = [
            {
                "case": case.kind,
                "N": N,
                "alpha": alpha,
                "M": M,
                "value": np.asarray(bound.value).ravel(),
                "claim": bound.claim,
                "assumptions": bound.assumptions,
                "certified": bound.certified,
            }
            for case, N, alpha, M, bound in self.series
        ]
        drawn = {"series": records, "evidence": self.bracket and self.bracket.to_dict(), "notes": self.notes}
        whole: dict[str, Any] = plain({"command": "curve", **self.problem.record(), **drawn}, spelled=True)
        return whole

    def __str__(self) -> str:
        lines = [self.problem.heading()]
        for case, N, alpha, M, bound in self.series:
            values = np.asarray(bound.value).ravel()
            ends = f"{values[0]:.3g} at M = {M[0]} to {values[-1]:.3g} at M = {M[-1]}"
            best = "" if case.draws is None else f", {case.about}, best of {case.draws}"
            lines.append(f"{case.kind}{best}, N = {N}, alpha = {alpha:g}: {ends} ({bound.claim})")
        bracket = self.bracket
        if bracket is not None:
            exact = "" if bracket.exact is None else f"; exactly {bracket.exact:.8g}"
            lines.append(f"\nlog p(y) with {bracket.method} inducing points, in nats{exact}:")
            lines += [table(("M", "ELBO", "lower", "upper", "width", "upper by"), bracket.rows()), ""]
        return "\n".join([*lines, *(wrapped(f"Note: {note}") for note in self.notes)])

    def page(self) -> str:
        from gpbounds.pages import html

        text = f"<pre>{html.escaped(self)}</pre>"
        return html.document("Bounds", f"<h1>Bounds</h1><main><figure>{inline(self.plot())}</figure>{text}</main>")

    def plot(self) -> Any:
        """The bounds against M; with data, log p(y) between its bounds in a second panel."""
        return picture(self)


def _curve(problem: Problem, case: Case, N: int, alpha: float, counts: Sequence[int] | None) -> Series:
    stated = problem.stated(case, [N], [alpha])
    M = list(counts) if counts else _default_counts(stated, case, N)
    return case, N, alpha, M, bounds_at(stated, [N], M)


def _evidence(
    problem: Problem, counts: Sequence[int] | None, select: str, most: int
) -> tuple[Brackets | None, tuple[str, ...]]:
    """Bounds on the evidence of the data, or the reason why they are omitted."""
    if problem.data is None or select == "none":
        return None, ()
    asked = problem.asked
    if asked.lengthscale_range:
        option = asked.spelled("lengthscale_range")
        return None, (f"The evidence needs one kernel; it is omitted with {option}.",)
    N = problem.data.N
    if counts:
        sizes = sorted({M for M in counts if M <= N})
    else:
        sizes = ladder(min(most, N - 1))
    bracket = brackets(
        problem.kernels[0],
        problem.data,
        problem.settings.noise,
        sizes,
        method=select,
        rows=asked.rows,
        seed=asked.seed,
        rigor=asked.rigor,
        progress=asked.progress,
    )
    if not bracket.M:
        return None, ("The evidence is omitted: the method cannot choose so many points.",)
    return bracket, ()


def _default_counts(stated: Statement, case: Case, N: int) -> list[int]:
    """At most 200 values of M up to where the bound falls below FLOOR, or to the last M; 30 of simulated bounds."""
    last = stated.least(FLOOR).M
    if last is None:
        last = case.largest(N)
        if case.draws is not None:  # rounding keeps the bound up: end where it no longer falls by much
            level = 2.0 * float(bounds_at(stated, [N], [last]))
            last = stated.least(level).M or last
    spread = np.geomspace if last > plotting.FAR else np.linspace
    return [int(m) for m in np.unique(np.rint(spread(1, last, 30 if case.simulate else 200)))]


def picture(drawn: Curves) -> Any:
    """The figure of all series, and of the evidence if there is one."""
    problem, series, bracket = drawn.problem, drawn.series, drawn.bracket
    orders, sizes = {alpha for _, _, alpha, _, _ in series}, {(case.kind, N) for case, N, *_ in series}
    rows = {N for _, N in sizes}
    curves = []
    for case, N, alpha, M, bound in series:
        parts = [case.kind.replace(" y", " $y$")] if problem.data is not None else []
        if case.draws is not None and case.y is None:
            parts.append("$y$ from the prior")
        elif any(other.draws is not None for other, *_ in series) and case.draws is None:
            parts.append("one draw, any $y$ of this norm")
        parts += [rf"$\alpha$ = {alpha:g}"] if len(orders) > 1 else []
        parts += [f"$N$ = {_power_of_ten(N)}"] if len(rows) > 1 else []
        style = "--" if case.kind == "data-aware" else "-"
        index = sorted(orders).index(alpha) if len(orders) > 1 else sorted(sizes).index((case.kind, N))
        color = plotting.CYCLE[index % len(plotting.CYCLE)]
        if case.draws is not None:
            color, style = BEST_OF_SEVERAL[case.kind] if len(orders) == 1 else (color, BY_ORDER[case.kind])
        curves.append(plotting.Curve(", ".join(parts) or "bound", M, np.asarray(bound.value).ravel(), color, style))
    if bracket is not None:
        for alpha in sorted(orders):
            values = bracket.divergence(alpha, problem.settings.direction)
            name = f"after the fact, {bracket.method}"
            name += rf", $\alpha$ = {alpha:g}" if len(orders) > 1 else ""
            name += f", $N$ = {_power_of_ten(bracket.N)}" if len(rows) > 1 else ""
            color = plotting.GREEN if len(orders) == 1 else plotting.CYCLE[sorted(orders).index(alpha)]
            curves.append(plotting.Curve(name, bracket.M, values, color, "-."))
    curves += _lower_curves(problem, series)
    case = problem.cases[0]
    inputs = problem.data.name if problem.data is not None else describe(case.inputs)
    size = f", N = {_power_of_ten(case.sizes[0])}" if len(rows) == 1 else ""
    y = "y from the prior" if case.y_norm2 is None else "any y with the given norm"
    if case.draws is not None:
        y = f"the best of {case.draws} draws"
    title = (
        f"{inputs}{size}, {y}, probability {100 * (1 - problem.settings.delta):g} %\n"
        f"{headline(problem.kernels[0], problem.settings.noise)}"
    )
    order = next(iter(orders)) if len(orders) == 1 else None
    ylabel = f"Bound on {plotting.divergence_symbol(order, problem.settings.direction)} (nats)"
    if bracket is None:
        return plotting.bound_curves(curves, title=title, ylabel=ylabel)
    return plotting.bounds_and_evidence(curves, bracket.drawn, title=title, ylabel=ylabel)


def _lower_curves(problem: Problem, series: Sequence[Series]) -> list[plotting.Curve]:
    """Both lower bounds for the rows of the data-aware statement, down to the least upper bound; for one order only."""
    orders = {alpha for _, _, alpha, _, _ in series}
    aware = [(case, M) for case, _, _, M, _ in series if case.kind == "data-aware" and case.draws is not None]
    if len(orders) > 1 or not aware or problem.settings.direction != "q||p":
        return []
    (case, M), floor = aware[0], min(float(np.min(bound.value)) for *_, bound in series)
    law = case.inputs
    assert isinstance(law, Empirical)
    floors = Floors.of(problem.kernels[0], np.asarray(law.X), problem.settings.noise, orders.pop())
    counts = np.asarray(M, dtype=np.float64)
    return [
        plotting.Curve(
            f"lower bound, {name}", counts, np.where(values >= 0.1 * floor, values, np.nan), "#000000", style
        )
        for name, values, style in (
            ("$y$ from the prior, on average", floors.prior(counts), "--"),
            ("any $y$", floors.any_y(counts), ":"),
        )
    ]


def _power_of_ten(N: int) -> str:
    """N as text: 10^6 instead of 1000000 if N is a power of ten above 1000."""
    power = len(str(N)) - 1
    return f"$10^{{{power}}}$" if power > 3 and 10**power == N else str(N)
