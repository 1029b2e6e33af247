"""Predictions of the exact GP between proved ends, comparisons of audits with it, and plans by predictions:

    python benchmarks/bench_predictions.py [--quick] [--only solve compare plan operator] [--data FILE] [--json FILE]

Each case runs once, in a process of its own, so that its peak memory is known.  Rows are generated, a smooth function
of eight inputs with noise; `exact_predictions` takes the rows of --data (CSV, the target in the last column: elevators)
in place of them: 14 939 for training, others at which it predicts.  "Width" is the distance of the ends of the exact
GP's mean log loss, in nats a row, for comparisons; of its means, in standard deviations of the noise, for solves; for
`operator_gap` it is upper end over lower end.  --quick has a twentieth of the rows, and no goals.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import arguments, in_units, opening, save

import fitting
from gpbounds import SquaredExponential
from gpbounds.audit import HeldOut, compare, subject
from gpbounds.iterative import exact_predictions
from gpbounds.renyi import operator_gap
from gpbounds.renyi.further import further_rows
from gpbounds.rows import read_table

D, NOISE, POINTS = 8, 0.1, 300
KERNEL = SquaredExponential(1.0, 3.0)
WIDE = 0.001
"""Widest ends of a comparison, nats a row."""
GIGABYTES = 4.0
Rows = tuple[np.ndarray, np.ndarray]


def generated(N: int) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    return X, np.sin(X @ rng.standard_normal(D)) + math.sqrt(NOISE) * rng.standard_normal(N)


def table(path: str) -> Rows:
    """The rows of a table in a random order, standardised."""
    values, _ = read_table(Path(path))
    values = np.random.default_rng(0).permutation(values)
    values = (values - values.mean(axis=0)) / np.where(values.std(axis=0) > 0.0, values.std(axis=0), 1.0)
    return values[:, :-1], values[:, -1]


def solve(N: int, n: int, path: str | None) -> dict[str, Any]:
    X, y = generated(N + n) if path is None else table(path)
    kernel = SquaredExponential(1.0, 3.0 * math.sqrt(X.shape[1] / D))
    begun = time.perf_counter()
    made = exact_predictions(kernel, X[:N], y[:N], X[N : N + n], noise=NOISE)
    seconds = time.perf_counter() - begun
    width = float((made.mean[1] - made.mean[0]).max()) / math.sqrt(NOISE)
    return {"seconds": seconds, "width": width, "what": made.method}


def comparison(N: int, n: int, path: str | None) -> dict[str, Any]:
    """The exact GP beside a sparse one with greedy points; levels M/4 to 4M are part of it."""
    X, y = generated(N + n)
    about = subject(KERNEL, X[:N], y[:N], further_rows(KERNEL, X[:N], None, POINTS), noise=NOISE)
    law = about.law.predict(X[N:])
    begun = time.perf_counter()
    made = compare(about, HeldOut(X[N:], y[N:], np.asarray(law.mean), np.asarray(law.variance)), rows=n)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "width": float(made.log_loss.width), "what": f"{made.method}, {made.verdict}"}


def plan(N: int, n: int, path: str | None) -> dict[str, Any]:
    """With the fit of kernel and noise, and the three refits of the default."""
    X, y = generated(N)
    begun = time.perf_counter()
    made = fitting.plan(X, y, loss=0.01).by_predictions
    seconds = time.perf_counter() - begun
    assert made is not None
    largest = made.sizes[-1]
    return {"seconds": seconds, "width": None, "what": f"M = {made.M}; {largest.above + 1} to {largest.M} are open"}


def operator(N: int, n: int, path: str | None) -> dict[str, Any]:
    X, _ = generated(N)
    Z = further_rows(KERNEL, X, None, POINTS)
    begun = time.perf_counter()
    gap = operator_gap(KERNEL, X, Z, noise=NOISE)
    seconds = time.perf_counter() - begun
    return {
        "seconds": seconds,
        "width": float(gap) / float(gap.terms["lower"]),
        "what": f"λ_max/σ² <= {float(gap):.4g}",
    }


KINDS: dict[str, Callable[[int, int, str | None], dict[str, Any]]] = {
    "solve": solve,
    "compare": comparison,
    "plan": plan,
    "operator": operator,
}
CASES: tuple[tuple[str, int, int, float | None, bool], ...] = (
    ("solve", 14_939, 1660, 120.0, False),
    ("compare", 20_000, 200, 60.0, True),
    ("compare", 100_000, 100, 480.0, True),
    ("plan", 20_000, 0, 120.0, False),
    ("plan", 100_000, 0, 600.0, False),
    ("operator", 20_000, 0, None, False),
    ("operator", 100_000, 0, None, False),
)
"""Kind, training rows, new rows, goal in seconds, and whether width and memory have goals, too."""


def one(kind: str, N: int, n: int, path: str | None) -> None:
    """One case in this process; prints its record."""
    made = KINDS[kind](N, n, path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    print(json.dumps({"kind": kind, "N": N, "n": n, **made, "memory_gb": peak}))


def apart(kind: str, N: int, n: int, path: str | None) -> dict[str, Any]:
    words = [sys.executable, __file__, "--case", kind, str(N), str(n), *(["--data", path] if path else [])]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(ran.stderr)
    record: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return record


def line(record: dict[str, Any]) -> str:
    new = f", {record['n']} new rows" if record["n"] else ""
    width = "" if record["width"] is None else f"{record['width']:.2g}"
    goal = "" if record["goal_s"] is None else in_units(record["goal_s"])
    missed = "  MISSED" if record["missed"] else ""
    name = f"{record['kind']}, N = {record['N']}{new}"
    return (
        f"{name:<44} {in_units(record['seconds']):>9} {goal:>9} {width:>9} {record['memory_gb']:>6.2f} GB"
        f"  {record['what']}{missed}"
    )


def measured(case: tuple[str, int, int, float | None, bool], quick: bool, path: str | None) -> dict[str, Any]:
    kind, N, n, goal, bounded = case
    if quick:
        N, n, goal, bounded = N // 20, n // 20, None, False
    record = apart(kind, N, n, path if kind == "solve" else None)
    missed = goal is not None and record["seconds"] > goal
    missed |= bounded and (record["width"] > WIDE or record["memory_gb"] > GIGABYTES)
    return {**record, "goal_s": goal, "missed": missed}


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows, no goals: seconds")
    parser.add_argument("--only", nargs="+", choices=tuple(KINDS), default=tuple(KINDS), help="some of the cases")
    parser.add_argument("--data", help="table for the solves, CSV or .csv.gz; by default rows are generated")
    parser.add_argument("--case", nargs=3, metavar=("KIND", "N", "NEW"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        kind, N, n = options.case
        one(kind, int(N), int(n), options.data)
        return
    about = opening(f"\n{'':<44} {'time':>9} {'goal':>9} {'width':>9} {'memory':>9}")
    records = []
    for case in CASES:
        if case[0] in options.only:
            records.append(measured(case, options.quick, options.data))
            print(line(records[-1]), flush=True)
    save(options.json, about, records)


if __name__ == "__main__":
    main()
