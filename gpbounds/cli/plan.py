"""``gpbounds plan``: the least number of inducing points that meets a target."""

from __future__ import annotations

import argparse
from typing import Any

from gpbounds.cli import options, output, selection
from gpbounds.cli.afterwards import Afterwards, afterwards
from gpbounds.cli.problem import Case, Problem, from_arguments
from gpbounds.plan import Plan

EPILOG = """\
example:
  gpbounds plan -N 1e6 --lengthscale 1 --noise 0.1 --target 0.01

  prints M = 29 of N = 1000000, the bound there and at M - 1, what the target means, and what M costs.
  gpbounds plan --data table.csv.gz --target 0.1 plans for real data at three levels: a priori; given the rows; and
  after the fact, for inducing points that --select chooses and for the y of the data.

theorem: R-thm1 (y from the prior) or R-thm2 (any y) of `gpbounds claims`; with --data also R-lem3 (exact expectation
over a k-DPP given the rows), R-lem4 (the gap of one data set, for certain) and N-low: fewer points than `needed`
cannot do, however they are chosen.
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
    selection.add_select(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the plan for every case; a target that no M meets is an answer, too."""
    args.sizes = None if args.size is None else [args.size]
    selection.check_select(args)
    problem = from_arguments(args)
    plans = [(case, problem.plan(case, args.alpha, args.target)) for case in problem.cases]
    after, why = after_the_fact(problem, args)
    if args.json:
        found = [
            {"case": case.kind, "inputs": repr(case.inputs), "y_norm2": case.y_norm2, **plan.to_dict()}
            for case, plan in plans
        ]
        record = {"plans": found, "after the fact": after and after.to_dict(), "notes": [*problem.notes, *why]}
        output.print_json({"command": "plan", **output.problem_record(problem), **record})
        return
    print(output.heading(problem))
    if problem.data is not None:
        print(f"\n{levels(plans, after, args)}")
    for case, plan in plans:
        print(f"\n{case.title}\n{output.wrapped(str(plan), '  ')}")
    if after is not None:
        name = selection.NAMES.get(after.method, after.method)
        print(f"\nAfter the fact: {name} inducing points among these rows; y as it is")
        print(output.wrapped(str(after), "  "))
    for note in [*why, *(problem.notes if not plans else ())]:
        print(output.wrapped(f"Note: {note}"))
    if args.data is not None and args.y_norm2 is None:
        print("\nWith --y-norm2 prior the plan is for y drawn from the prior: fewer points, one assumption more.")


def after_the_fact(problem: Problem, args: argparse.Namespace) -> tuple[Afterwards | None, tuple[str, ...]]:
    """What chosen inducing points reach on the data, or why that is left out."""
    if problem.data is None or args.select == "none":
        return None, ()
    if len(problem.kernels) > 1 or args.lengthscale_range:
        return None, ("After the fact needs one kernel: it is left out with --lengthscale-range.",)
    statement = problem.statement
    return afterwards(
        problem.kernels[0],
        problem.data,
        statement.noise,
        args.alpha,
        args.target,
        method=args.select,
        most=args.most,
        rows=args.rows,
        seed=args.seed,
        direction=statement.direction,
    ), ()


def levels(plans: list[tuple[Case, Plan]], after: Afterwards | None, args: argparse.Namespace) -> str:
    """The levels side by side: the more is known, the fewer points are proved to suffice."""
    rows = []
    for case, plan in plans:
        y = "from the prior" if case.y_norm2 is None else "any of its norm"
        some = f"M = {plan.M}" if plan.M is not None else f"no M < {plan.N}"
        sure = f"{100 * (1 - args.delta):g} %"
        needed = "-" if plan.needed is None else str(plan.needed)
        bound = "-" if plan.bound is None else f"{float(plan.bound):.3g}"
        rows.append((case.kind, str(plan.N), "k-DPP", y, sure, needed, some, bound))
    if after is not None:
        name = selection.NAMES.get(after.method, after.method)
        some = f"M = {after.M}" if after.M is not None else f"no M <= {after.tried}" if after.tried else "-"
        bound = "-" if after.at is None else f"{float(after.at[1]):.3g}"
        rows.append(("after the fact", str(after.N), name, "as it is", "certain", str(after.needed), some, bound))
    order = "KL" if args.alpha == 1.0 else f"D_{args.alpha:g}"
    pair = "q*||p" if args.direction == "q||p" else "p||q*"
    head = f"Inducing points that suffice for {order}[{pair}] <= {args.target:g} nats:"
    return f"{head}\n{output.table(('level', 'rows', 'points', 'y', 'sure', 'needed', 'suffices', 'bound'), rows)}"
