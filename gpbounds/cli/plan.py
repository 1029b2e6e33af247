"""``gpbounds plan``: the least rank that meets a target, for inducing points and two other approximations."""

from __future__ import annotations

import argparse
from typing import Any

from gpbounds.cli import approximations, options, output, selection
from gpbounds.cli.afterwards import Afterwards, afterwards
from gpbounds.cli.comparison import Entry, comparison
from gpbounds.cli.problem import Problem, from_arguments

EPILOG = """\
example:
  gpbounds plan -N 1e6 --lengthscale 1 --noise 0.1 --target 0.01

  prints M = 28 inducing points, the bound there and with one less, what the target means, and what M costs.
  gpbounds plan --data table.csv.gz --target 0.1 plans for real data at three levels: a priori; given the rows; and
  after the fact, for inducing points that --select chooses and for the y of the data.

  gpbounds plan -N 1e6 --inputs uniform --method inducing fourier mercer

  compares the ranks that three approximations need: inducing points, random Fourier features (two real features for
  each frequency), terms of a Mercer expansion.

theorem: R-thm1 (y from the prior) or R-thm2 (any y) of `gpbounds claims`; with --data also R-lem3 (exact expectation
over a k-DPP given the rows), R-lem4 (the gap of one data set, for certain) and N-low: fewer points than `needed`
cannot do, however they are chosen.  fourier: N-rff and N-shell, in place of Theorem 2 of Daskalakis et al.; mercer:
L-42, Theorem 3, in sharper form, and with --data L-54, for certain; `needed` is L-10 for both.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "plan", help="the least M (or rank) that meets a target", description=options.purpose(__doc__), epilog=EPILOG
    )
    parser.add_argument("-N", "--N", dest="size", metavar="N", type=options.whole, help="number of data: 1e6, 40_000")
    parser.add_argument(
        "--target",
        metavar="T",
        type=options.number,
        default=0.1,
        help="what the divergence (D_alpha for inducing points, KL for the others) must not exceed, in nats (default "
        "%(default)s)",
    )
    approximations.add_methods(parser)
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
    entries, reasons = approximations.plans(problem, args)
    after, why = after_the_fact(problem, args)
    why = (*reasons, *why)
    if args.json:
        record = {
            "plans": [entry.to_dict() for entry in entries],
            "after the fact": after and after.to_dict(),
            "notes": [*problem.notes, *why],
        }
        output.print_json({"command": "plan", **output.problem_record(problem), **record})
        return
    print(output.heading(problem))
    if set(args.method) != {"inducing"}:
        print(f"\n{comparison(entries, after, args.target)}")
    elif problem.data is not None:
        print(f"\n{levels(entries, after, args)}")
    for entry in entries:
        print(f"\n{output.wrapped(entry.title)}\n{output.wrapped(str(entry.plan), '  ')}")
    if after is not None:
        name = selection.NAMES.get(after.method, after.method)
        print(f"\nAfter the fact: {name} inducing points among these rows; y as it is")
        print(output.wrapped(str(after), "  "))
    if why:
        print()
    for note in [*why, *(problem.notes if not entries else ())]:
        print(output.wrapped(f"Note: {note}"))
    if args.data is not None and args.y_norm2 is None and "inducing" in args.method:
        print("\nWith --y-norm2 prior the plan is for y drawn from the prior: fewer points, one assumption more.")


def after_the_fact(problem: Problem, args: argparse.Namespace) -> tuple[Afterwards | None, tuple[str, ...]]:
    """What chosen inducing points reach on the data, or why that is left out."""
    if problem.data is None or args.select == "none" or "inducing" not in args.method:
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


def levels(entries: list[Entry], after: Afterwards | None, args: argparse.Namespace) -> str:
    """The levels side by side: the more is known, the fewer points are proved to suffice."""
    rows = []
    for entry in entries:
        plan = entry.plan
        y = "from the prior" if entry.y_norm2 is None else "any of its norm"
        some = f"M = {plan.M}" if plan.M is not None else f"no M < {plan.N}"
        sure = f"{100 * (1 - args.delta):g} %"
        needed = "-" if plan.needed is None else str(plan.needed)
        bound = "-" if plan.bound is None else f"{float(plan.bound):.3g}"
        rows.append((entry.level, str(plan.N), "k-DPP", y, sure, needed, some, bound))
    if after is not None:
        name = selection.NAMES.get(after.method, after.method)
        some = f"M = {after.M}" if after.M is not None else f"no M <= {after.tried}" if after.tried else "-"
        bound = "-" if after.at is None else f"{float(after.at[1]):.3g}"
        rows.append(("after the fact", str(after.N), name, "as it is", "certain", str(after.needed), some, bound))
    order = "KL" if args.alpha == 1.0 else f"D_{args.alpha:g}"
    pair = "q*||p" if args.direction == "q||p" else "p||q*"
    head = f"Inducing points that suffice for {order}[{pair}] <= {args.target:g} nats:"
    return f"{head}\n{output.table(('level', 'rows', 'points', 'y', 'sure', 'needed', 'suffices', 'bound'), rows)}"
