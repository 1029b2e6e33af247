"""``gpbounds curve``: a picture of the bound against M, for several alpha or several N."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds import plotting
from gpbounds.bound import Bound
from gpbounds.cli import options, output
from gpbounds.cli.problem import Case, Problem, describe, from_arguments, headline

EPILOG = """\
example:
  gpbounds curve -N 1e4 --alpha 0.1,0.5,1 --out curve.png
  gpbounds curve -N 1e3,1e6,1e9 -M 1:60
  gpbounds curve --data table.csv --out curve.png   (with the bound given the rows beside the a-priori one)

theorem: R-thm1 (y from the prior) or R-thm2 (any y) of `gpbounds claims`, at each M.
"""

FLOOR = 1e-4
"""Where M is not given, curves end at the M that brings the bound below this (in nats), or at N - 1."""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "curve", help="draw the bound against M", description=options.purpose(__doc__), epilog=EPILOG
    )
    parser.add_argument(
        "-N", "--N", dest="sizes", metavar="N", type=options.wholes, help="number(s) of data: 1e3,1e6,1e9"
    )
    parser.add_argument(
        "-M",
        "--M",
        dest="counts",
        metavar="M",
        type=options.wholes,
        help="A:B, A:B:STEP or a list (default: as far as needed)",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=options.picture_file, default=Path("curve.png"), help="default: %(default)s"
    )
    options.add_kernel(parser)
    options.add_inputs(parser)
    options.add_setting(parser, several=True)
    options.add_data(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Draw the curves, save the picture, and say where it is."""
    problem = from_arguments(args)
    several = [len(case.sizes) for case in problem.cases]
    if len(args.alpha) > 1 and max(several, default=1) > 1:
        raise options.UsageError("curve: expected several alpha or several N, not both")
    series: list[tuple[Case, int, float, list[int], Bound]] = []
    for case in problem.cases:
        for N in case.sizes:
            for alpha in args.alpha:
                M = args.counts or default_counts(problem, case, N, alpha)
                series.append((case, N, alpha, M, problem.rate(case, [N], M, [alpha])))
    figure = picture(problem, series, args)
    figure.savefig(args.out)
    notes = [*problem.notes, *(note for case in problem.cases for note in case.notes)]
    if args.json:
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
        output.print_json(
            {
                "command": "curve",
                **output.problem_record(problem),
                "series": records,
                "notes": notes,
                "out": str(args.out),
            }
        )
        return
    print(output.heading(problem))
    for case, N, alpha, M, bound in series:
        values = np.asarray(bound.value).ravel()
        ends = f"{values[0]:.3g} at M = {M[0]} to {values[-1]:.3g} at M = {M[-1]}"
        print(f"{case.kind}, N = {N}, alpha = {alpha:g}: {ends} ({bound.claim})")
    for note in notes:
        print(output.wrapped(f"Note: {note}"))
    print(f"Saved {args.out}")


def default_counts(problem: Problem, case: Case, N: int, alpha: float) -> list[int]:
    """At most 200 numbers from 1 to where the bound has fallen below FLOOR, or to the last M, as the axis has them."""
    from dataclasses import replace

    last = problem.plan(replace(case, sizes=(N,)), alpha, FLOOR).M or case.largest(N)
    spread = np.geomspace if last > plotting.FAR else np.linspace
    return [int(m) for m in np.unique(np.rint(spread(1, last, 200)))]


def picture(problem: Problem, series: list[tuple[Case, int, float, list[int], Bound]], args: argparse.Namespace) -> Any:
    """The figure of all series."""
    orders, sizes = {alpha for _, _, alpha, _, _ in series}, {(case.kind, N) for case, N, *_ in series}
    curves = []
    for case, N, alpha, M, bound in series:
        parts = [case.kind] if len(problem.cases) > 1 else []
        parts += [rf"$\alpha$ = {alpha:g}"] if len(orders) > 1 else []
        parts += [f"$N$ = {power_of_ten(N)}"] if len(sizes) > 1 else []
        style = "--" if case.kind == "data-aware" else "-"
        index = sorted(orders).index(alpha) if len(orders) > 1 else sorted(sizes).index((case.kind, N))
        color = plotting.CYCLE[index % len(plotting.CYCLE)]
        curves.append(plotting.Curve(", ".join(parts) or "bound", M, np.asarray(bound.value).ravel(), color, style))
    case = problem.cases[0]
    where = f"{problem.data.name} (standardised)" if problem.data is not None else describe(case.inputs)
    size = f", N = {power_of_ten(case.sizes[0])}" if len(sizes) == 1 else ""
    y = "y from the prior" if case.y_norm2 is None else "any y with the given norm"
    title = (
        f"{where}{size}, {y}, probability {100 * (1 - args.delta):g} %\n"
        f"{headline(problem.kernels[0], problem.statement.noise)}"
    )
    order = next(iter(orders)) if len(orders) == 1 else None
    return plotting.bound_curves(
        curves, title=title, ylabel=f"Bound on {plotting.divergence_symbol(order, args.direction)} (nats)"
    )


def power_of_ten(N: int) -> str:
    """10^6 rather than 1000000 where N is one of the larger powers."""
    power = len(str(N)) - 1
    return f"$10^{{{power}}}$" if power > 3 and 10**power == N else str(N)
