"""What 30 digits cost: ``python benchmarks/bench_proved.py [--json FILE] [--sizes 500,1000,2000]``.

`evidence` with ``rigor="sharp"`` (exact, and with 60 inducing points) and the number of inducing points of a plan, each
in a process of its own: processor seconds, its largest memory, half the distance of the bounds.  One run a case, as
the larger ones take minutes.  Squared exponential kernel with a lengthscale of 0.5, inputs N(0, 1).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from harness import arguments, opening, save

from gpbounds import Empirical, Matern, SquaredExponential, inducing_points
from gpbounds.renyi import evidence

CASES = ("exact", "inducing", "plan", "plan rough")
NOISE = 1e-20
HEADS = f"\n{'':<14} {'N':>6} {'processor':>10} {'memory':>10}   result"


def run(case: str, N: int) -> dict[str, Any]:
    """One case in this process."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.3 * rng.standard_normal(N)
    kernel = SquaredExponential(1.0, 0.5)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    if case.startswith("plan"):
        about: dict[str, Any] = {"target": 1e-8, "inputs": Empirical(X), "noise": 0.1, "draws": 10, "y": y}
        prior = kernel if case == "plan" else Matern(1.5, 1.0, 0.5)
        if case == "plan rough":
            about["target"] = 0.1
        result = f"M = {inducing_points(prior, N, 1.0, rigor='sharp', **about).M}"
    else:
        Z = None if case == "exact" else np.linspace(X.min(), X.max(), 60)[:, None]
        members = "exact" if case == "exact" else "cheap"
        lower, upper = evidence(kernel, X, np.sin(X[:, 0]), Z, noise=NOISE, rigor="sharp", members=members)
        result = f"±{0.5 * (float(upper) - float(lower)):.2g} nats"
    seconds = time.process_time() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"case": case, "N": N, "processor_s": seconds, "memory_mb": grown / 1024.0, "result": result}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sizes", default="500,1000,2000", help="numbers of rows (default %(default)s)")
    parser.add_argument("--one", nargs=2, metavar=("CASE", "N"), help="run one case and print it as JSON")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run(args.one[0], int(args.one[1]))))
        return
    about, rows = opening(HEADS), []
    for case in CASES:
        for N in args.sizes.split(","):
            finished = subprocess.run(
                [sys.executable, __file__, "--one", case, N], check=True, capture_output=True, text=True
            )
            record = json.loads(finished.stdout)
            rows.append(record)
            cost = f"{record['processor_s']:>8.1f} s {record['memory_mb']:>7.0f} MB"
            print(f"{case:<14} {N:>6} {cost}   {record['result']}", flush=True)
    save(args.json, about, rows)


if __name__ == "__main__":
    main()
