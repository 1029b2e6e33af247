"""``gpbounds rate``: the bound for given N, M and alpha."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fitting.study.planned import Once
from fitting.study.problem import Case
from gpbounds.bound import Bound, outward
from gpbounds.cli import options, output
from gpbounds.rates.base import sentences
from gpbounds.texts import table, wrapped

EPILOG = """\
example:
  gpbounds rate -N 10_000 -M 30 --kernel se --lengthscale 1 --inputs gaussian --noise 0.1

  prints D_1[q*||p] <= 1.10699e-05 with probability at least 0.95.  Lists and ranges give a table:
  gpbounds rate -N 1e4 -M 10:60:10 --alpha 0.5,1

theorem: Yue & Kontar, Theorem 1 of both papers, in sharper forms: R-thm1 (y from the prior), R-thm2 (any y) of
`gpbounds claims`.  With --data the command also prints the bound given the rows (R-lem3, exact expectation over a
k-DPP).
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "-N", "--N", dest="sizes", metavar="N", type=options.wholes, help="number(s) of data: 1e6, 40_000"
    )
    parser.add_argument(
        "-M",
        "--M",
        dest="counts",
        metavar="M",
        type=options.wholes,
        required=True,
        help="inducing points: 30, 10,20 or A:B:STEP",
    )
    options.add_kernel(parser)
    options.add_inputs(parser)
    options.add_setting(parser, several=True)
    options.add_data(parser)
    options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the bound, or a table of them, for every case."""
    problem = options.problem(args)
    results = [(case, problem.rate(case, case.sizes, args.counts, args.alpha)) for case in problem.cases]
    if args.json:
        bounds = [_record(case, bound, args.counts, args.alpha) for case, bound in results]
        output.print_json({"command": "rate", **problem.record(), "bounds": bounds, "notes": problem.notes})
        return
    print(problem.heading())
    once = Once()
    for case, bound in results:
        shown = replace(bound, assumptions=()) if len(results) > 1 else bound
        print(f"\n{case.title}\n{wrapped(_text(case, shown, args.counts, args.alpha), '  ')}")
        if len(results) > 1:
            print(f"  Assumes: {once.numbers(bound.assumptions)}")
        for note in case.notes:
            print(wrapped(f"Note: {note}", "  "))
    if problem.notes or once.hypotheses:
        print()
    for number, hypothesis in enumerate(once.hypotheses, 1):
        print(wrapped(f"[{number}] {hypothesis}"))
    for note in problem.notes:
        print(wrapped(f"Note: {note}"))


def _cells(case: Case, counts: list[int], alpha: list[float], values: Any) -> Iterator[tuple[int, int, float, float]]:
    """(N, M, alpha, value) for every cell of the grid."""
    shape = (len(case.sizes), len(counts), len(alpha))
    for (i, j, k), value in np.ndenumerate(np.broadcast_to(values, shape)):
        yield case.sizes[i], counts[j], alpha[k], float(value)


def _text(case: Case, bound: Bound, counts: list[int], alpha: list[float]) -> str:
    if np.ndim(bound.value) == 0:
        return "\n".join([str(bound), *sentences(float(bound), alpha[0])])
    rows = [
        (str(N), str(M), f"{a:g}", outward(value, "upper"))
        for N, M, a, value in _cells(case, counts, alpha, bound.value)
    ]
    confidence = float(np.asarray(bound.confidence).ravel()[0])
    head = f"{bound.quantity} <= bound, each with probability at least {outward(confidence, 'lower')} ({bound.claim}):"
    assumed = [f"  Assumes: {sentence}" for sentence in bound.assumptions]
    return "\n".join([head, table(("N", "M", "alpha", "bound"), rows), *assumed])


def _record(case: Case, bound: Bound, counts: list[int], alpha: list[float]) -> dict[str, Any]:
    terms = {name: list(_cells(case, counts, alpha, term)) for name, term in bound.terms.items()}
    cells = [
        {"N": N, "M": M, "alpha": a, "value": value, "terms": {name: term[i][3] for name, term in terms.items()}}
        for i, (N, M, a, value) in enumerate(_cells(case, counts, alpha, bound.value))
    ]
    record = {name: item for name, item in bound.to_dict().items() if name not in ("value", "terms", "confidence")}
    return {
        "case": case.kind,
        "inputs": repr(case.inputs),
        "y_norm2": case.y_norm2,
        **record,
        "confidence": float(np.asarray(bound.confidence).ravel()[0]),
        "cells": cells,
        "notes": case.notes,
    }
