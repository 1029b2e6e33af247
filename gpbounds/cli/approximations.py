"""Ranks of three approximations for one target: inducing points, random Fourier features, a Mercer expansion."""

from __future__ import annotations

import argparse
from functools import cache

from gpbounds.cli import lowrank, options
from gpbounds.cli.comparison import NAMES, Entry
from gpbounds.cli.problem import Case, Problem
from gpbounds.validation import positive

METHODS = ("inducing", "fourier", "mercer")
TWO_DIVERGENCES = (
    "The target is so many nats of two divergences: for inducing points of the one between the posteriors of f given "
    "y, q* and the exact p; for fourier and mercer of KL(exact || approximate) between the laws of all N targets y, "
    "noise included (L-11)."
)
Found = tuple[list[Entry], list[str]]


def add_methods(parser: argparse.ArgumentParser) -> None:
    """``--method`` and ``--width``."""
    group = parser.add_argument_group("the approximation")
    group.add_argument(
        "--method",
        nargs="+",
        choices=METHODS,
        default=["inducing"],
        help="what the rank is of, one or several side by side: inducing points (default), random fourier features, "
        "terms of a mercer expansion",
    )
    group.add_argument(
        "--width",
        metavar="W[,W,...]",
        type=options.numbers,
        help="range of the inputs, for all dimensions or one for each, in the units of x: for fourier with gaussian "
        "inputs, which have none (default: that of uniform inputs, or of the rows of --data)",
    )


def plans(problem: Problem, args: argparse.Namespace) -> Found:
    """One entry for each method and level that has an answer, and a sentence for each that has none."""
    methods = list(dict.fromkeys(args.method))
    entries: list[Entry] = []
    reasons: list[str] = []
    rows = cache(lambda: lowrank.from_rows(problem, args))
    if args.width is not None and "fourier" not in methods:
        raise options.UsageError("--width belongs to --method fourier")
    if methods != ["inducing"]:
        positive("--target", args.target)
    for method in methods:
        if method == "inducing":
            try:
                entries += _inducing(problem, args, methods)
            except ValueError as error:
                if methods == ["inducing"]:
                    raise
                reasons.append(f"inducing: {lowrank.full_stop(error)}")
            continue
        if args.alpha != 1.0:
            reasons.append(f"{method}: its theorems bound the Kullback-Leibler divergence only; leave --alpha at 1.")
            continue
        if args.direction != "q||p":
            reasons.append(f"{method}: its theorems bound KL(exact || approximate); leave --direction as it is.")
            continue
        more, why = (lowrank.fourier if method == "fourier" else lowrank.mercer)(problem, args, rows)
        entries += more
        reasons += [f"{method}: {sentence}" for sentence in why]
    if not entries and reasons and methods != ["inducing"]:
        raise options.UsageError(" ".join(reasons))
    if len({e.plan.method == "inducing" for e in entries}) == 2:
        reasons.insert(0, TWO_DIVERGENCES)
    if args.y_norm2 not in (None, "prior") and methods != ["inducing"]:
        reasons.append("fourier, mercer: they speak of the laws of y, so --y-norm2 does not enter.")
    return entries, reasons


def _inducing(problem: Problem, args: argparse.Namespace, methods: list[str]) -> list[Entry]:
    """What `inducing_points` says of each case."""

    def title(case: Case) -> str:
        said = case.title
        return said if methods == ["inducing"] else f"{NAMES['inducing']}, {said[0].lower()}{said[1:]}"

    return [
        Entry(case.kind, title(case), repr(case.inputs), problem.plan(case, args.alpha, args.target), case.y_norm2)
        for case in problem.cases
    ]
