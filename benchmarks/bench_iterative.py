"""The log evidence at large N between its bounds: ``python benchmarks/bench_iterative.py [FILE.csv] [--N 10000]``.

Four cases on a table with the target in its last column, columns standardised (the goals are for kin40k), or on
generated rows in eight dimensions: SE with lengthscale 2 and noise .1 (A), 1.5 and .01 (B), 2 and .001 (C), Matérn-3/2
with lengthscale 2 and noise .01 (D).  Beside each time stand half the distance between the bounds, in nats, and, where
N ≤ --dense, log p(y) by a Cholesky factor.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np
from harness import Case, arguments, measure, opening, row, save

from gpbounds import Matern, SquaredExponential
from gpbounds.cli.data import load
from gpbounds.iterative import evidence
from gpbounds.renyi import log_evidence

CASES = {
    "A": (SquaredExponential(1.0, 2.0), 0.1, 2.5),
    "B": (SquaredExponential(1.0, 1.5), 0.01, 2.5),
    "C": (SquaredExponential(1.0, 2.0), 0.001, 5.0),
    "D": (Matern(1.5, 1.0, 2.0), 0.01, 2.5),
}
"""Kernel, noise, and the half width that the bounds should reach at N = 10 000."""
SECONDS = 9.0


def table(file: Path | None, N: int) -> tuple[np.ndarray, np.ndarray]:
    if file is not None:
        part = load(file).subset(N, 0)
        return part.X, part.y
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 8))
    return X, np.sin(X @ rng.standard_normal(8)) + 0.1 * rng.standard_normal(N)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--N", type=int, default=10_000)
    parser.add_argument("--dense", type=int, default=10_000, help="largest N for a Cholesky factor")
    parser.add_argument("--once", action="store_true", help="one run of each case in place of seven, for large N")
    parser.add_argument("--only", choices=list(CASES), nargs="+", default=list(CASES))
    options = parser.parse_args()

    X, y = table(options.file, options.N)
    about, timings, widths = opening(), [], {}
    for name in options.only:
        kernel, noise, goal = CASES[name]
        ends = []

        def run(kernel=kernel, noise=noise, ends=ends) -> None:
            ends.append(evidence(kernel, X, y, noise=noise, rng=len(ends)))

        title = f"{name}: two bounds at N = {X.shape[0]}, D = {X.shape[1]}"
        if options.once:
            start = time.perf_counter()
            run()
            print(f"{title}: {time.perf_counter() - start:.1f} s, one run")
            timings.append({"name": title, "seconds": time.perf_counter() - start})
        else:
            timings.append(measure(Case(title, SECONDS if X.shape[0] == 10_000 else None, run), options.repeats))
            print(row(timings[-1]), flush=True)
        exact, seconds = None, None
        if X.shape[0] <= options.dense:
            start = time.perf_counter()
            exact = float(log_evidence(kernel, X, y, noise=noise))
            seconds = time.perf_counter() - start
        halves = [0.5 * float(upper - lower) for lower, upper in ends]
        widths[name] = {
            "half_width": float(np.median(halves)),
            "goal": goal,
            "contained": exact if exact is None else sum(bool(lo <= exact <= up) for lo, up in ends) / len(ends),
            "exact": exact,
            "seconds_of_cholesky": seconds,
            "first": [float(ends[0][0]), float(ends[0][1])],
        }
        print(f"   half width {np.median(halves):.2f} nats (goal {goal}), {widths[name]}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GB")
    save(options.json, about, timings, widths=widths, peak_memory_gb=peak)


if __name__ == "__main__":
    main()
