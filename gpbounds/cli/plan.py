"""``gpbounds plan``: the least number of inducing points that meets a target."""

from __future__ import annotations

import argparse
from typing import Any

from gpbounds.cli import options, output
from gpbounds.cli.problem import from_arguments

EPILOG = """\
example:
  gpbounds plan -N 1e6 --lengthscale 1 --noise 0.1 --target 0.01

  prints M = 29 of N = 1000000, the bound there and at M - 1, what the target means, and what M costs.
  gpbounds plan --data table.csv.gz --target 0.1 plans for real data: a priori, and given the rows.

theorem: R-thm1 (y from the prior) or R-thm2 (any y) of `gpbounds claims`; with --data also R-lem3 (exact expectation
over a k-DPP given the rows) and N-low: fewer points than `needed` cannot do, however they are chosen.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "plan", help="the least M that meets a target", description=options.purpose(__doc__), epilog=EPILOG
    )
    parser.add_argument("-N", "--N", dest="size", metavar="N", type=options.whole, help="number of data: 1e6, 40_000")
    parser.add_argument(
        "--target",
        metavar="T",
        type=options.number,
        default=0.1,
        help="what D_alpha must not exceed, in nats (default %(default)s)",
    )
    options.add_kernel(parser)
    options.add_inputs(parser)
    options.add_setting(parser, several=False)
    options.add_data(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the plan for every case; a target that no M meets is an answer, too."""
    args.sizes = None if args.size is None else [args.size]
    problem = from_arguments(args)
    plans = [(case, problem.plan(case, args.alpha, args.target)) for case in problem.cases]
    if args.json:
        found = [
            {"case": case.kind, "inputs": repr(case.inputs), "y_norm2": case.y_norm2, **plan.to_dict()}
            for case, plan in plans
        ]
        output.print_json({"command": "plan", **output.problem_record(problem), "plans": found, "notes": problem.notes})
        return
    print(output.heading(problem))
    for case, plan in plans:
        print(f"\n{case.title}\n{output.wrapped(str(plan), '  ')}")
    if not plans:
        print(output.wrapped("\n".join(f"Note: {note}" for note in problem.notes)))
    if args.data is not None and args.y_norm2 is None:
        print("\nWith --y-norm2 prior the plan is for y drawn from the prior: fewer points, one assumption more.")
