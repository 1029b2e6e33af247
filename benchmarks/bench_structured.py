"""Value and derivatives of the structured bounds beside VFE's: N = 8000, D = 8, M = 100 to 400, blocks of 100 and 200.

    python benchmarks/bench_structured.py [--json FILE] [--N 8000] [--repeats 7]

The goal of each is 1.5 times the median of VFE measured just before.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from harness import Case, Timing, arguments, measure, opening, row, save

TIMES = 1.5
"""Times VFE's that a structured bound may take."""


def problem(N: int, D: int = 8) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    return X, np.sin(X @ rng.standard_normal(D)) + 0.3 * rng.standard_normal(N)


def evaluations(X: Any, y: Any, M: int) -> dict[str, Any]:
    """Name ↦ a function that computes the value and all derivatives."""
    from fitting.objectives.objective import objective
    from gpbounds.kernels import SquaredExponential
    from gpbounds.vecchia.blocks import Blocking

    kernel, lengths = SquaredExponential(1.3, np.full(X.shape[1], 1.5)), np.ones(X.shape[1])
    bounds = {"VFE": objective(X, y), "diagonal": objective(X, y, structure="diagonal")}
    for size in (100, 200):
        blocks = Blocking(lengths, size, 0).of(X)
        bounds[f"blocks of {size}"] = objective(X, y, structure="blocks", blocks=blocks)
    bounds["vecchia, 100 given 100"] = objective(X, y, structure="vecchia", blocks=Blocking(lengths, 100, 100).of(X))
    return {name: partial(bound.evaluate, kernel, 0.1, X[:M].copy()) for name, bound in bounds.items()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=8000, help="number of data (default %(default)s)")
    options = parser.parse_args()
    about = opening()
    timings: list[Timing] = []
    X, y = problem(options.N)
    for M in (100, 200, 400):
        vfe: float | None = None
        for name, evaluate in evaluations(X, y, M).items():

            def run(evaluate: Any = evaluate) -> None:
                evaluate()

            goal = None if vfe is None else TIMES * vfe
            timings.append(measure(Case(f"M = {M}: {name}", goal, run), options.repeats))
            vfe = timings[-1].median if vfe is None else vfe
            print(row(timings[-1]), flush=True)
    save(options.json, about, timings)


if __name__ == "__main__":
    main()
