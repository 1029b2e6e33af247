"""How long training by a PAC-Bayes bound takes, beside VFE: value and gradient at one point, in one process.

    OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 python benchmarks/bench_pac.py [--json FILE] [--N 32000] [--M 500]

The band loss, every derivative (hyperparameters, noise, inducing inputs; μ and C of a free posterior).  The cases take
turns, so that another load on the machine falls on all of them alike; ratios are medians over the turns.  Shares are of
the time that the products alone would take at the rate of the machine's own matrix product.  In units of NM² flops:
VFE 4, FITC 6, the bound of FITC's posterior 9, of VFE's 7, of a free one 4.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
from harness import Timing, arguments, opening, row, save

from fitting.bounds import free_bound, risk_bound
from fitting.objectives.objective import at_point, objective
from gpbounds import SquaredExponential
from gpbounds.losses import Band

DIM, NOISE, GOAL = 8, 0.1, 1.5


def cases(N: int, M: int) -> Iterator[tuple[str, float, Callable[[float], object]]]:
    """(name, units of NM² flops, evaluation at a noise)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    y = np.sin(X @ rng.standard_normal(DIM)) + np.sqrt(NOISE) * rng.standard_normal(N)
    Z, kernel = X[rng.permutation(N)[:M]], SquaredExponential(1.0, np.full(DIM, 3.0))
    for method, units in (("vfe", 4.0), ("fitc", 6.0)):
        F = objective(X, y, method)
        yield method, units, lambda noise, F=F: F.evaluate(kernel, noise, Z)  # type: ignore[misc]
    for method, units in (("fitc", 9.0), ("vfe", 7.0)):
        B = risk_bound(X, y, Band(0.6), delta=0.01, method=method)
        yield f"bound of {method}'s posterior", units, lambda noise, B=B: B.evaluate(kernel, noise, Z)  # type: ignore[misc]
    free = free_bound(X, y, Band(0.6), delta=0.01)
    start = free.complete(at_point(kernel, NOISE, Z))
    assert start.q is not None
    mean, factor = start.q.mean, start.q.factor
    yield "bound of a free posterior", 4.0, lambda noise: free.evaluate(kernel, noise, Z, mean, factor)


def product_rate() -> float:
    """Flops a second of a large matrix product."""
    A = np.ones((2000, 2000))
    start = time.perf_counter()
    A @ A
    return 2.0 * 2000.0**3 / (time.perf_counter() - start)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=32_000, help="number of data (default %(default)s)")
    parser.add_argument("--M", type=int, default=500, help="inducing points (default %(default)s)")
    options = parser.parse_args()

    about = opening()
    table = list(cases(options.N, options.M))
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in table}
    rates = []
    for turn in range(options.repeats + 1):
        rates.append(product_rate())
        for name, _, run in table:
            start = time.perf_counter()
            run(NOISE * (1.0 + 1e-9 * turn))  # so that no result can come from a cache
            seconds[name].append(time.perf_counter() - start)
    rate = statistics.median(rates[1:])
    base = np.array(seconds["vfe"][1:])
    goal = GOAL * statistics.median(seconds["vfe"][1:])
    timings, ratios = [], {}
    for name, units, _ in table:
        timing = Timing(
            f"{name}, N = {options.N}, M = {options.M}, D = {DIM}", goal if "bound" in name else None, seconds[name][1:]
        )
        timings.append(timing)
        ratios[name] = float(np.median(np.array(timing.seconds) / base))
        share = units * options.N * options.M**2 / rate / timing.median
        print(f"{row(timing)}\n    {ratios[name]:.2f} times VFE; products are {share:.0%}", flush=True)
    print(f"\nmatrix product: {rate / 1e9:.0f} GFLOP/s; the goal is {GOAL} times VFE")
    save(options.json, about, timings, ratios=ratios, gflops=rate / 1e9)


if __name__ == "__main__":
    main()
