"""Ranks that three approximations need for one target: inducing points, Fourier features, a Mercer expansion."""

from __future__ import annotations

import argparse
from functools import cache, partial

from gpbounds.cli import lowrank, options
from gpbounds.cli.comparison import NAMES, Entry
from gpbounds.cli.problem import Case, Problem
from gpbounds.cli.steps import Steps

METHODS = ("inducing", "fourier", "mercer")
TWO_DIVERGENCES = (
    "The target bounds two different divergences: for inducing points, the divergence between the approximate "
    "posterior q* of f and the exact posterior p; for fourier and mercer, KL(exact || approximate) between the laws of "
    "all N targets y, noise included (L-11)."
)
Answers = tuple[list[Entry], list[str]]


def add_methods(parser: argparse.ArgumentParser) -> None:
    """``--method`` and ``--width``."""
    group = parser.add_argument_group("the approximation")
    group.add_argument(
        "--method",
        nargs="+",
        choices=METHODS,
        default=["inducing"],
        help="one or several approximations to compare: inducing points (default), random Fourier features, "
        "terms of a Mercer expansion",
    )
    group.add_argument(
        "--width",
        metavar="W[,W,...]",
        type=options.numbers,
        help="range of the inputs in the units of x, one number or one for each dimension: fourier needs it with "
        "gaussian inputs (default: the range of uniform inputs, or of the rows of --data)",
    )


def plans(problem: Problem, args: argparse.Namespace, steps: Steps) -> Answers:
    """An entry for each method and level with an answer, and a sentence for each one without."""
    methods = list(dict.fromkeys(args.method))
    entries: list[Entry] = []
    reasons: list[str] = []
    rows = cache(lambda: lowrank.from_rows(problem, args))
    if args.width is not None and "fourier" not in methods:
        raise options.UsageError("--width belongs to --method fourier")
    for method in methods:
        if method == "inducing":
            entries += _inducing(problem, args, methods, steps)
            continue
        if args.alpha != 1.0:
            reasons.append(f"{method}: its theorems bound only the Kullback-Leibler divergence; set --alpha to 1.")
            continue
        if args.direction != "q||p":
            reasons.append(f"{method}: its theorems bound only KL(exact || approximate); omit --direction.")
            continue
        ranks = lowrank.fourier if method == "fourier" else lowrank.mercer
        more, sentences = steps.take(method, partial(ranks, problem, args, rows)) or ([], [])
        entries += more
        reasons += [f"{method}: {sentence}" for sentence in sentences]
    if not entries and reasons and not steps.stopped:
        raise options.UsageError(" ".join([*steps.reasons, *reasons]))
    if len({e.plan.method == "inducing" for e in entries}) == 2:
        reasons.insert(0, TWO_DIVERGENCES)
    if args.y_norm2 not in (None, "prior") and methods != ["inducing"]:
        reasons.append("fourier, mercer: these bounds concern the law of y, so they do not use --y-norm2.")
    return entries, reasons


def _inducing(problem: Problem, args: argparse.Namespace, methods: list[str], steps: Steps) -> list[Entry]:
    """The plans of `inducing_points` for each case that has one."""

    def title(case: Case) -> str:
        text = case.title
        return text if methods == ["inducing"] else f"{NAMES['inducing']}, {text[0].lower()}{text[1:]}"

    def entry(case: Case) -> Entry:
        return Entry(
            case.kind,
            title(case),
            repr(case.inputs),
            problem.plan(case, args.alpha, args.target),
            case.y_norm2,
            case.about,
            "k-DPP" if case.draws is None else f"best of {case.draws}",
        )

    entries = [steps.take(f"{case.kind}, {case.about}", partial(entry, case)) for case in problem.cases]
    return [item for item in entries if item is not None]
