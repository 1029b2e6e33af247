"""``gpbounds plan``: the least rank that meets a target, for inducing points and two other approximations."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from gpbounds.cli import approximations, options, output, selection
from gpbounds.cli.afterwards import Afterwards, afterwards
from gpbounds.cli.comparison import Entry, comparison
from gpbounds.cli.floors import Floors, sentence
from gpbounds.cli.problem import Problem, from_arguments
from gpbounds.cli.steps import Steps, shown
from gpbounds.inputs import Empirical
from gpbounds.validation import positive

EPILOG = """\
example:
  gpbounds plan -N 1e6 --lengthscale 1 --noise 0.1 --target 0.01

  prints M = 28 inducing points, the bounds at M and M - 1, the meaning of the target, and the cost.
  gpbounds plan --data table.csv.gz --target 0.1 plans for real data at four levels: a priori (simulated); given the
  rows, for y from the prior; given the rows and y; and after the fact, for the inducing points that --select chooses.
  The first three hold for the best of ten draws.  --old-forms adds the bounds on one draw.

  gpbounds plan -N 1e6 --inputs uniform --method inducing fourier mercer

  compares the ranks that three approximations need: inducing points, random Fourier features (two real features for
  each frequency), terms of a Mercer expansion.

theorem: R-thm1 (y from the prior) or R-thm2 (any y) of `gpbounds claims`; with --data N-given or N-tilt-given
(given y), N-prior or N-tilt-prior (y from the prior), N-sim (a priori), and in the old forms R-lem3 (exact
expectation over a k-DPP given the rows); R-lem4 (the gap of one data set, which holds with certainty); lower bounds:
N-low and N-lowprior.  fourier: N-rff and N-shell instead of Theorem 2 of Daskalakis et al.
mercer: L-42, a sharper form of Theorem 3, and with --data L-54, which holds with certainty.  For both,
the column `needed` is the lower bound L-10.
"""


HINT = (
    'The best of {draws} draws: gpbounds.kdpp.select(..., method="best", draws={draws}), or SparseGP(inducing="best"). '
    "--old-forms adds the bounds on one draw."
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("-N", "--N", dest="size", metavar="N", type=options.whole, help="number of data: 1e6, 40_000")
    parser.add_argument(
        "--target",
        metavar="T",
        type=options.number,
        default=0.1,
        help="upper limit for the divergence in nats: D_alpha for inducing points, KL for the others (default "
        "%(default)s)",
    )
    approximations.add_methods(parser)
    options.add_kernel(parser)
    options.add_inputs(parser)
    options.add_setting(parser, several=False)
    options.add_data(parser)
    options.add_best(parser)
    selection.add_select(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the plan for every case; if no M meets the target, the command says so and exits with status 0.

    A case without an answer leaves the others.  After Ctrl-C the command prints what it has found.
    """
    args.sizes = None if args.size is None else [args.size]
    selection.check_select(args)
    with shown("Reading the data and fitting the kernel"):
        problem = from_arguments(args)
    positive("--target", args.target)
    inducing = "inducing" in args.method
    if inducing:
        problem.check_numbers(args.alpha)
    steps = Steps(2 + len(args.method) + (len(problem.cases) - 1 if inducing else 0))
    entries, left_out = approximations.plans(problem, args, steps)
    after, reasons = steps.take("after the fact", lambda: after_the_fact(problem, args)) or (None, ())
    steps.stopped |= after is not None and after.interrupted
    lower = steps.take("lower bounds", lambda: floors_of(problem, args))
    steps.finish(bool(entries) or after is not None)
    reasons = (*left_out, *reasons, *steps.reasons)
    if args.json:
        record = {
            "plans": [entry.to_dict() for entry in entries],
            "after the fact": after and after.to_dict(),
            "lower bounds": lower,
            "notes": [*problem.notes, *reasons],
        }
        output.print_json({"command": "plan", **output.problem_record(problem), **record})
        steps.leave()
        return
    print(output.heading(problem))
    if set(args.method) != {"inducing"}:
        print(f"\n{comparison(entries, after, args.target)}")
    elif problem.data is not None:
        print(f"\n{levels(entries, after, args)}")
        if lower is not None:
            print(output.wrapped(sentence(lower)))
    for entry in entries:
        print(f"\n{output.wrapped(entry.title)}\n{output.wrapped(str(entry.plan), '  ')}")
    if after is not None:
        name = selection.NAMES.get(after.method, after.method)
        print(f"\nAfter the fact: {name} inducing points among these rows; y as it is")
        print(output.wrapped(str(after), "  "))
    if reasons:
        print()
    for note in [*reasons, *(problem.notes if not entries else ())]:
        print(output.wrapped(f"Note: {note}"))
    if problem.data is not None and "inducing" in args.method:
        if any(case.draws is not None for case in problem.cases):
            print("\n" + output.wrapped(HINT.format(draws=args.best)))
        elif args.y_norm2 is None:
            print("\nWith --y-norm2 prior the plan assumes that y is drawn from the prior, and needs fewer points.")
    steps.leave()


def floors_of(problem: Problem, args: argparse.Namespace) -> dict[str, int] | None:
    """The least M that the lower bounds admit for the rows of the data-aware statement."""
    laws = [case.inputs for case in problem.cases if case.kind == "data-aware"]
    if "inducing" not in args.method or args.direction != "q||p" or len(problem.kernels) > 1:
        return None
    for law in laws:
        if isinstance(law, Empirical):
            X = np.asarray(law.X)
            return Floors.of(problem.kernels[0], X, problem.settings.noise, args.alpha).record(args.target)
    return None


def after_the_fact(problem: Problem, args: argparse.Namespace) -> tuple[Afterwards | None, tuple[str, ...]]:
    """The result for chosen inducing points, or the reason why it is omitted."""
    if problem.data is None or args.select == "none" or "inducing" not in args.method:
        return None, ()
    if len(problem.kernels) > 1 or args.lengthscale_range:
        return None, ("The plan after the fact needs one kernel; it is omitted with --lengthscale-range.",)
    settings = problem.settings
    return afterwards(
        problem.kernels[0],
        problem.data,
        settings.noise,
        args.alpha,
        args.target,
        method=args.select,
        most=args.most,
        rows=args.rows,
        seed=args.seed,
        direction=settings.direction,
    ), ()


def levels(entries: list[Entry], after: Afterwards | None, args: argparse.Namespace) -> str:
    """A table of the levels: with more information about the data, fewer points provably suffice."""
    rows = []
    for entry in entries:
        plan = entry.plan
        y = {"y from the prior": "from the prior", "any y": "any of its norm"}.get(entry.about, "as it is")
        answer = f"M = {plan.M}" if plan.M is not None else f"no M < {plan.N}"
        confidence = f"{100 * (1 - args.delta):g} %"
        needed = "-" if plan.needed is None else str(plan.needed)
        bound = "-" if plan.bound is None else f"{float(plan.bound):.3g}"
        rows.append((entry.level, str(plan.N), entry.points, y, confidence, needed, answer, bound))
    if after is not None:
        name = selection.NAMES.get(after.method, after.method)
        answer = f"M = {after.M}" if after.M is not None else f"no M <= {after.tried}" if after.tried else "-"
        bound = "-" if after.at is None else f"{float(after.at[1]):.3g}"
        rows.append(("after the fact", str(after.N), name, "as it is", "certain", str(after.needed), answer, bound))
    order = "KL" if args.alpha == 1.0 else f"D_{args.alpha:g}"
    pair = "q*||p" if args.direction == "q||p" else "p||q*"
    head = f"Inducing points that suffice for {order}[{pair}] <= {args.target:g} nats:"
    return (
        f"{head}\n{output.table(('level', 'rows', 'points', 'y', 'probability', 'needed', 'suffices', 'bound'), rows)}"
    )
