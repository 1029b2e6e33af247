"""``gpbounds curve``: plot the bound against M, for several alpha or several N."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fitting.study.afterwards import Brackets, Floors, brackets, ladder
from fitting.study.problem import Case, Problem, bounds_at
from fitting.study.steps import Steps
from fitting.study.subsets import BEST_OF_SEVERAL, BY_ORDER
from fitting.study.words import describe, headline
from gpbounds import plotting
from gpbounds.bound import Bound
from gpbounds.cli import options, output
from gpbounds.inputs import Empirical
from gpbounds.texts import table, wrapped

if TYPE_CHECKING:
    from gpbounds.rates.base import Statement

EPILOG = """\
example:
  gpbounds curve -N 1e4 --alpha 0.1,0.5,1 --out curve.png
  gpbounds curve -N 1e3,1e6,1e9 -M 1:60
  gpbounds curve --data table.csv --out curve.png

  The last command plots the bounds for the best of ten draws: a priori (simulated), given the rows, and given y; lower
  bounds; and bounds on the log evidence of the data for the inducing points that --select chooses.

theorem: R-thm1 (y from the prior) or R-thm2 (any y) of `gpbounds claims`, at each M; with --data N-tilt-given and
N-tilt-prior, N-sim a priori, N-low and N-lowprior from below.  The upper bounds on the evidence
are R-eq8 and others, the lower bounds R-elbo* and others.
"""

Series = tuple[Case, int, float, list[int], Bound]
"""Case, N, alpha, the values of M, and the bounds there."""

FLOOR = 1e-4
"""Without -M, a curve ends where the bound falls below this value (in nats), or at M = N - 1."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "-N", "--N", dest="sizes", metavar="N", type=options.wholes, help="number(s) of data: 1e3,1e6,1e9"
    )
    parser.add_argument(
        "-M",
        "--M",
        dest="counts",
        metavar="M",
        type=options.wholes,
        help="A:B, A:B:STEP or a list (default: up to a negligible bound)",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=options.picture_file, default=Path("curve.png"), help="default: %(default)s"
    )
    options.add_kernel(parser)
    options.add_inputs(parser)
    options.add_setting(parser, several=True)
    options.add_data(parser)
    options.add_best(parser)
    options.add_select(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Draw the curves, save the figure, and print its path."""
    if args.most < 1:
        raise options.UsageError(f"--most: expected a whole number >= 1, got {args.most}")
    problem = options.problem(args)
    case_sizes = [len(case.sizes) for case in problem.cases]
    if len(args.alpha) > 1 and max(case_sizes, default=1) > 1:
        raise options.UsageError("curve: expected several alpha or several N, not both")
    problem.check_numbers(args.alpha)
    series: list[Series] = []
    steps = Steps(sum(case_sizes) * len(args.alpha) + 1, progress=True)
    for case in problem.cases:
        for N in case.sizes:
            for alpha in args.alpha:
                curve = steps.take(
                    f"{case.kind}, N = {N}, alpha = {alpha:g}", partial(_curve, problem, case, N, alpha, args.counts)
                )
                series += [] if curve is None else [curve]
    bracket, reasons = steps.take("evidence", lambda: evidence(problem, args)) or (None, ())
    steps.finish(bool(series) or bracket is not None)
    picture(problem, series, bracket, args).savefig(args.out)
    notes = [*problem.notes, *(note for case in problem.cases for note in case.notes), *reasons, *steps.reasons]
    if args.json:
        output.print_json({**record(problem, series, bracket, notes), "out": str(args.out)})
    else:
        print(report(problem, series, bracket, notes))
        print(f"Saved {args.out}")
    output.leave(steps.stopped)


def record(problem: Problem, series: list[Series], bracket: Brackets | None, notes: list[str]) -> dict[str, Any]:
    """The bounds, ready for JSON."""
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
        for case, N, alpha, M, bound in series
    ]
    drawn = {"series": records, "evidence": bracket and bracket.to_dict(), "notes": notes}
    return {"command": "curve", **problem.record(), **drawn}


def report(problem: Problem, series: list[Series], bracket: Brackets | None, notes: list[str]) -> str:
    """The ends of the curves as text, and the bounds on log p(y)."""
    lines = [problem.heading()]
    for case, N, alpha, M, bound in series:
        values = np.asarray(bound.value).ravel()
        ends = f"{values[0]:.3g} at M = {M[0]} to {values[-1]:.3g} at M = {M[-1]}"
        best = "" if case.draws is None else f", {case.about}, best of {case.draws}"
        lines.append(f"{case.kind}{best}, N = {N}, alpha = {alpha:g}: {ends} ({bound.claim})")
    if bracket is not None:
        exact = "" if bracket.exact is None else f"; exactly {bracket.exact:.8g}"
        lines.append(f"\nlog p(y) with {bracket.method} inducing points, in nats{exact}:")
        lines += [table(("M", "ELBO", "lower", "upper", "width", "upper by"), bracket.rows()), ""]
    return "\n".join([*lines, *(wrapped(f"Note: {note}") for note in notes)])


def _curve(problem: Problem, case: Case, N: int, alpha: float, counts: list[int] | None) -> Series:
    stated = problem.stated(case, [N], [alpha])
    M = counts or default_counts(stated, case, N)
    return case, N, alpha, M, bounds_at(stated, [N], M)


def evidence(problem: Problem, args: argparse.Namespace) -> tuple[Brackets | None, tuple[str, ...]]:
    """Bounds on the evidence of the data, or the reason why they are omitted."""
    if problem.data is None or args.select == "none":
        return None, ()
    if args.lengthscale_range:
        return None, ("The evidence needs one kernel; it is omitted with --lengthscale-range.",)
    N = problem.data.N
    if args.counts:
        counts = sorted({M for M in args.counts if M <= N})
    else:
        counts = ladder(min(args.most, N - 1))
    settings = {"method": args.select, "rows": args.rows, "seed": args.seed, "rigor": args.rigor}
    bracket = brackets(problem.kernels[0], problem.data, problem.settings.noise, counts, progress=True, **settings)
    if not bracket.M:
        return None, ("The evidence is omitted: the method cannot choose so many points.",)
    return bracket, ()


def default_counts(stated: Statement, case: Case, N: int) -> list[int]:
    """At most 200 values of M up to where the bound falls below FLOOR, or to the last M; 30 of simulated bounds."""
    last = stated.least(FLOOR).M
    if last is None:
        last = case.largest(N)
        if case.draws is not None:  # rounding keeps the bound up: end where it no longer falls by much
            level = 2.0 * float(bounds_at(stated, [N], [last]))
            last = stated.least(level).M or last
    spread = np.geomspace if last > plotting.FAR else np.linspace
    return [int(m) for m in np.unique(np.rint(spread(1, last, 30 if case.simulate else 200)))]


def picture(
    problem: Problem,
    series: list[Series],
    bracket: Brackets | None,
    args: argparse.Namespace,
) -> Any:
    """The figure of all series, and of the evidence if there is one."""
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
        parts += [f"$N$ = {power_of_ten(N)}"] if len(rows) > 1 else []
        style = "--" if case.kind == "data-aware" else "-"
        index = sorted(orders).index(alpha) if len(orders) > 1 else sorted(sizes).index((case.kind, N))
        color = plotting.CYCLE[index % len(plotting.CYCLE)]
        if case.draws is not None:
            color, style = BEST_OF_SEVERAL[case.kind] if len(orders) == 1 else (color, BY_ORDER[case.kind])
        curves.append(plotting.Curve(", ".join(parts) or "bound", M, np.asarray(bound.value).ravel(), color, style))
    if bracket is not None:
        for alpha in sorted(orders):
            values = bracket.divergence(alpha, args.direction)
            name = f"after the fact, {bracket.method}"
            name += rf", $\alpha$ = {alpha:g}" if len(orders) > 1 else ""
            name += f", $N$ = {power_of_ten(bracket.N)}" if len(rows) > 1 else ""
            color = plotting.GREEN if len(orders) == 1 else plotting.CYCLE[sorted(orders).index(alpha)]
            curves.append(plotting.Curve(name, bracket.M, values, color, "-."))
    curves += lower_curves(problem, series)
    case = problem.cases[0]
    inputs = f"{problem.data.name} (standardised)" if problem.data is not None else describe(case.inputs)
    size = f", N = {power_of_ten(case.sizes[0])}" if len(rows) == 1 else ""
    y = "y from the prior" if case.y_norm2 is None else "any y with the given norm"
    if case.draws is not None:
        y = f"the best of {case.draws} draws"
    title = (
        f"{inputs}{size}, {y}, probability {100 * (1 - args.delta):g} %\n"
        f"{headline(problem.kernels[0], problem.settings.noise)}"
    )
    order = next(iter(orders)) if len(orders) == 1 else None
    ylabel = f"Bound on {plotting.divergence_symbol(order, args.direction)} (nats)"
    if bracket is None:
        return plotting.bound_curves(curves, title=title, ylabel=ylabel)
    return plotting.bounds_and_evidence(curves, bracket.drawn, title=title, ylabel=ylabel)


def lower_curves(problem: Problem, series: list[Series]) -> list[plotting.Curve]:
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


def power_of_ten(N: int) -> str:
    """N as text: 10^6 instead of 1000000 if N is a power of ten above 1000."""
    power = len(str(N)) - 1
    return f"$10^{{{power}}}$" if power > 3 and 10**power == N else str(N)
