"""How long choosing inducing points takes: ``python benchmarks/bench_select.py [--json FILE] [--repeats 7] [--large]``.

Greedy choice against the matrix-vector products of pivoted Cholesky alone, one with the t × N factor a step; its goal
is twice what those took just before.  Randomly pivoted Cholesky at M = 1000, without the trace Tr(K − Q), against the
same with it, which needs the factor that the sampler of 2026-11 drew with the points; the goal is a fifth of that.
``--large`` adds one run a method at N = 1 000 000, with the peak of resident
memory: 4 GB for the factor of greedy choice, 8 GB and more for that of the k-DPP.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from harness import WIDTH, Case, Timing, arguments, measure, opening, row, save

from gpbounds import Matern, SquaredExponential, kdpp
from gpbounds.kernels import Kernel

N, M, D = 100_000, 500, 8
LARGE = 1_000_000
RANDOM = 1000
KERNEL = SquaredExponential(lengthscale=3.0)


def data(rows: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, D))


def timings(repeats: int) -> Iterator[Timing]:
    X, factor = data(N), np.random.default_rng(1).standard_normal((M, N))
    chosen = np.empty(M, dtype=np.int64)

    def products() -> None:
        for t in range(1, M):
            factor[t, :t] @ factor[:t]

    def one_at_a_time() -> None:
        left = KERNEL.diag(X).copy()
        for t in range(M):
            i = int(left.argmax())
            factor[t] = (KERNEL(X[i : i + 1], X)[0] - factor[:t, i] @ factor[:t]) / np.sqrt(left[i])
            left -= factor[t] ** 2
            chosen[t] = i
            left[chosen[: t + 1]] = 0.0

    def greedy() -> None:
        selection = kdpp.select(KERNEL, X, M)
        assert selection.indices is not None
        assert (selection.indices == chosen).all()

    size = f"N = {N}, M = {M}, D = {D}"
    alone = measure(Case(f"the matrix-vector products alone, {size}", None, products), repeats)
    yield alone
    yield measure(Case(f"pivoted Cholesky one point at a time, {size}", None, one_at_a_time), repeats)
    yield measure(Case(f"select, greedy, {size}", 2.0 * alone.median, greedy), repeats)
    yield from _at_random(X, repeats)


def _at_random(X: np.ndarray, repeats: int) -> Iterator[Timing]:
    """A smooth kernel, whose variances fall to 1/300 and reject most proposals, and a rough one."""
    for name, kernel in (("squared exponential", KERNEL), ("Matérn-3/2", Matern(1.5, 1.0, 2.0))):

        def drawn(kernel: Kernel = kernel) -> kdpp.Selection:
            return kdpp.select(kernel, X, RANDOM, "rpcholesky", 0)

        size = f"{name}, M = {RANDOM}"
        whole = measure(Case(f"select, rpcholesky, with its trace, {size}", None, lambda: _traced(drawn())), repeats)
        yield whole
        yield measure(Case(f"select, rpcholesky, {size}", whole.median / 5.0, lambda: _kept(drawn())), repeats)


def _traced(selection: kdpp.Selection) -> None:
    assert selection.trace > 0.0


def _kept(selection: kdpp.Selection) -> None:
    assert selection.M == RANDOM


def once(method: str) -> dict[str, object]:
    """Seconds, peak of resident memory and trace of one choice at N = 1 000 000."""
    X = data(LARGE)
    start = time.perf_counter()
    selection = kdpp.select(KERNEL, X, M, method, 0)
    trace = selection.trace
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"method": method, "seconds": seconds, "peak_gb": peak / 1e9, "trace": trace, "law": selection.law}


def large() -> Iterator[dict[str, object]]:
    """`once` for each method, in a process of its own: the peak is that of the whole process."""
    for method in ("uniform", "leverage", "greedy", "kdpp"):
        command = [sys.executable, __file__, "--once", method]
        yield json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--large", action="store_true", help="one run a method at N = 1 000 000 as well")
    parser.add_argument("--once", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(once(options.once)))
        return

    about = opening()
    records = []
    for timing in timings(options.repeats):
        records.append(timing)
        print(row(timing), flush=True)
    singles = []
    for single in large() if options.large else ():
        singles.append(single)
        name = f"select, {single['method']}, N = {LARGE}, M = {M}, D = {D}"
        print(f"{name:<{WIDTH}} {single['seconds']:>6.1f} s, peak {single['peak_gb']:.1f} GB", flush=True)
    save(options.json, about, records, large=singles)


if __name__ == "__main__":
    main()
