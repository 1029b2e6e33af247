"""How long `operator_gap` takes: ``python benchmarks/bench_operator.py [--json FILE] [--N 20000 100000]``.

The proved upper end of λ_max(K − Q)/σ², and how far it is above the proved lower one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from harness import Case, arguments, measure, opening, row, save

from gpbounds import SquaredExponential
from gpbounds.renyi import operator_gap

M, DIM, NOISE = 300, 8, 0.1
GOALS = {20_000: 10.0, 100_000: 120.0}
"""Seconds on two cores."""


def cases(sizes: list[int], ratios: dict[str, float]) -> Iterator[Case]:
    """N data in eight dimensions, 300 inducing points among them; ``ratios`` takes upper over lower end."""
    for N in sizes:
        X = np.random.default_rng(0).standard_normal((N, DIM))
        name = f"operator_gap, N = {N}, M = {M}, D = {DIM}"

        def run(X: np.ndarray = X, name: str = name) -> None:
            bound = operator_gap(SquaredExponential(1.0, 2.0), X, X[:M], noise=NOISE)
            ratios[name] = float(bound) / bound.terms["lower"]

        yield Case(name, GOALS.get(N), run)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, nargs="+", default=list(GOALS), help="numbers of data (default %(default)s)")
    options = parser.parse_args()

    about, timings, ratios = opening(), [], dict[str, float]()
    for case in cases(options.N, ratios):
        timings.append(measure(case, options.repeats))
        print(f"{row(timings[-1])}   upper end / lower end = {ratios[case.name]:.3f}", flush=True)
    save(options.json, about, timings, ratios=ratios)


if __name__ == "__main__":
    main()
