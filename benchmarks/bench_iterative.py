"""The log evidence at large N: ``python benchmarks/bench_iterative.py [FILE.csv] [--N 10000] [--training]``.

Four cases on a table with the target in its last column, columns standardised (the goals are for kin40k), or on
generated rows in eight dimensions: SE with lengthscale 2 and noise .1 (A), 1.5 and .01 (B), 2 and .001 (C), Matérn-3/2
with lengthscale 2 and noise .01 (D).  Beside each time stand half the distance between the bounds, in nats, and, where
N ≤ --dense, log p(y) by a Cholesky factor.  ``--training`` measures a step of `fitting.ExactGP(solver="iterative")`
in place of the bounds: value and derivatives, their standard errors, and the same by a Cholesky factor.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from harness import Case, Timing, arguments, measure, opening, row, save

from fitting.iterative import IterativeEvidence
from fitting.iterative.solution import Cotangent, pulled
from fitting.objectives.objective import Objective, at_point, objective
from fitting.objectives.point import Parameters
from fitting.study.standardised import load
from gpbounds import Matern, SquaredExponential
from gpbounds.iterative import evidence
from gpbounds.iterative.evidence import PROBES
from gpbounds.renyi import log_evidence

CASES = {
    "A": (SquaredExponential(1.0, 2.0), 0.1, 2.5),
    "B": (SquaredExponential(1.0, 1.5), 0.01, 2.5),
    "C": (SquaredExponential(1.0, 2.0), 0.001, 5.0),
    "D": (Matern(1.5, 1.0, 2.0), 0.01, 2.5),
}
"""Kernel, noise, and the half width that the bounds should reach at N = 10 000."""
SECONDS, STEP = 9.0, 4.5
LARGE = 8.0
"""The half width that case A should reach at N = 100 000, within 300 s and 4 GB."""


def table(file: Path | None, N: int) -> tuple[np.ndarray, np.ndarray]:
    if file is not None:
        part = load(file).subset(N, 0)
        return part.X, part.y
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 8))
    return X, np.sin(X @ rng.standard_normal(8)) + 0.1 * rng.standard_normal(N)


def training(options: argparse.Namespace, X: np.ndarray, y: np.ndarray) -> None:
    """Value and derivatives in all log parameters, one lengthscale for each input."""
    about, timings, errors = opening(), [], {}
    for name in options.only:
        kernel, noise, _ = CASES[name]
        point = at_point(replace(kernel, lengthscale=[kernel.lengthscale] * X.shape[1]), noise)
        times, errors[name] = step(name, objective(X, y, "exact"), point, options)
        timings += times
        print(f"   {errors[name]}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GB")
    save(options.json, about, timings, errors=errors, peak_memory_gb=peak)


def step(
    name: str, dense: Objective, point: Parameters, options: argparse.Namespace
) -> tuple[list[Timing], dict[str, float]]:
    """Timings, and standard errors in units of the derivatives of ½log|K + σ²I|."""
    N, results = dense.N, []
    F = IterativeEvidence(dense.data, dense.member).prepared(point, (0,))
    goal = STEP if N == 10_000 else None
    case = Case(f"{name}: value and derivatives at N = {N}", goal, lambda: results.append(F.minimised(point)))
    timings = [measure(case, options.repeats)]
    print(row(timings[-1]), flush=True)
    start = time.perf_counter()
    spread = F.standard_errors(point)
    figures = {"seconds_of_standard_errors": time.perf_counter() - start}
    each, solved = np.append(spread.kernel, spread.noise), F.solved(point)
    (log_det,) = pulled(solved, [Cotangent(solved.columns(range(solved.layout.m)), 0.5)])
    figures |= {"standard_error_nats": float(each.max()), "relative": float(np.abs(each / log_det).max())}
    figures |= {"standard_error_of_value": 0.5 * solved.log_det_error, "steps": solved.tridiagonal.steps}
    F.data.space.release()
    if options.dense >= N:
        case = Case(f"{name}: the same by a Cholesky factor", None, lambda: results.append(dense.minimised(point)))
        timings.append(measure(case, 3))
        print(row(timings[-1]), flush=True)
        dense.data.space.release()
        ours, exact = results[0], results[-1]
        gaps = np.append(ours.gradient.kernel - exact.gradient.kernel, ours.gradient.noise - exact.gradient.noise)
        figures |= {"error_relative": float(np.abs(gaps / log_det).max()), "error_of_value": ours.value - exact.value}
    return timings, figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--N", type=int, default=10_000)
    parser.add_argument("--dense", type=int, default=10_000, help="largest N for a Cholesky factor")
    parser.add_argument("--once", action="store_true", help="one run of each case in place of seven, for large N")
    parser.add_argument("--probes", type=int, default=PROBES)
    parser.add_argument("--training", action="store_true", help="measure a step of training in place of the bounds")
    parser.add_argument("--only", choices=list(CASES), nargs="+", default=list(CASES))
    options = parser.parse_args()

    X, y = table(options.file, options.N)
    if options.training:
        training(options, X, y)
        return
    about, timings, widths = opening(), [], {}
    for name in options.only:
        kernel, noise, goal = CASES[name]
        ends = []

        def run(kernel=kernel, noise=noise, ends=ends) -> None:
            ends.append(evidence(kernel, X, y, noise=noise, probes=options.probes, rng=len(ends)))

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
            "goal": {10_000: goal, 100_000: LARGE}.get(X.shape[0]),
            "probes": ends[0][0].terms["probes"],
            "steps": ends[0][0].terms["steps"],
            "eigenvalues_of_B": ends[0][0].terms["eigenvalues of B"].tolist(),
            "contained": exact if exact is None else sum(bool(lo <= exact <= up) for lo, up in ends) / len(ends),
            "exact": exact,
            "seconds_of_cholesky": seconds,
            "first": [float(ends[0][0]), float(ends[0][1])],
        }
        print(f"   half width {np.median(halves):.2f} nats, {widths[name]}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GB")
    save(options.json, about, timings, widths=widths, peak_memory_gb=peak)


if __name__ == "__main__":
    main()
