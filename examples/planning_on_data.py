"""How many inducing points tables of data need: proved a priori, proved given y, truly needed, and rules of thumb.

    python examples/planning_on_data.py FILE.csv ... [--rows 2000] [--quick] [--out planning_on_data.csv]

Each FILE is a CSV (or .csv.gz) with the target in its last column; columns are standardised.  Kernel (squared
exponential, one lengthscale for each input) and noise are fitted by marginal likelihood on 500 rows.  For targets of 1
and 0.1 nats and the best of 10 draws, with probability 95 %:

    a priori    inputs iid Gaussian, y from the prior: N-sim, from 39 simulated sets
    given y     these rows and this y: N-tilt-given; kernel and noise may be fitted to them
    true        the least M, to 1 %, of a bisection above the lower bound, with one best of 10 draws for each M, whose
                divergence meets the target
    lower       no choice of fewer inducing variables meets the target: for any y (N-low); on average over y from the
                prior, chosen without y (N-lowprior)

beside 10 % of the rows and their square root, which users of GPflow are told to start with.  The last columns say what
the plan given y costs, in seconds and in evaluations of VFE with its gradient at the M planned.

With --quick: 300 rows of each, 39 sets as before, target 1 only.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import gpbounds
from fitting.objectives.objective import objective
from fitting.study import hyperparameters
from fitting.study.afterwards import Floors
from fitting.study.hyperparameters import Hyperparameters
from fitting.study.problem import fitted_law
from fitting.study.standardised import Standardised, load
from fitting.study.subsets import divergence_of
from gpbounds.cli import options
from gpbounds.errors import NotPositiveDefinite
from gpbounds.files import replacing
from gpbounds.kdpp import sample_eigen
from gpbounds.kdpp.esp import tilted_eigenvalues
from gpbounds.linalg import eigen
from gpbounds.numerics.search import bisected
from gpbounds.renyi import evidence
from gpbounds.texts import table

DRAWS, SETS, DELTA = 10, 39, 0.05


@dataclass(frozen=True)
class Row:
    """One line of the table; None where no M below N is enough, or a column was left out."""

    data: str
    N: int
    target: float
    a_priori: int | None
    given_y: int | None
    true: int | None
    low_prior: int
    low: int
    tenth: int
    root: int
    plan_seconds: float
    vfe_seconds: float

    def cells(self) -> tuple[str, ...]:
        """As text."""
        values = [getattr(self, field.name) for field in fields(self)[2:10]]
        sizes = [f"{values[0]:g}", *("-" if value is None else str(value) for value in values[1:])]
        iterations = "-" if not self.vfe_seconds else f"{self.plan_seconds / self.vfe_seconds:.1f}"
        return (self.data, str(self.N), *sizes, f"{self.plan_seconds:.2f}", iterations)


HEADER = ("data", "N", "target", "a priori", "given y", "true", "low, prior", "low", "10 %", "root N", "plan s", "VFEs")


class Truth:
    """The divergence that the best of 10 draws of the tilted k-DPP reaches; one decomposition serves all M."""

    def __init__(self, part: Standardised, hyper: Hyperparameters, seed: int) -> None:
        self.part, self.kernel, self.noise = part, hyper.kernel, hyper.noise
        self.decomposed = eigen(hyper.kernel(part.X), "k(X, X)", vectors=True)
        self.weights = tilted_eigenvalues(np.maximum(self.decomposed.values, 0.0), noise=hyper.noise)
        self.divergence = divergence_of(hyper.kernel, part, hyper.noise, 1.0)
        self.rng = np.random.default_rng(seed)

    def best(self, M: int) -> float:
        """The divergence of the draw with the greatest ELBO."""
        X, values, vectors = self.part.X, self.decomposed.values, self.decomposed.vectors
        assert vectors is not None
        drawn = [X[sample_eigen(values, vectors, M, self.rng, weights=self.weights)] for _ in range(DRAWS)]

        def elbo(Z: np.ndarray) -> float:
            try:
                lower, _ = evidence(self.kernel, X, self.part.y, Z, noise=self.noise, jitter=0.0, members=("trace",))
            except NotPositiveDefinite:
                return -np.inf
            return float(lower.terms["elbo 1"])

        return self.divergence(max(drawn, key=elbo))

    def needed(self, target: float, lowest: int, highest: int) -> int | None:
        """The least M to 1 %, by a bisection with one best of 10 draws for each M; fewer than ``lowest`` never do."""
        if self.best(highest) > target:
            return None
        return bisected(lambda M: self.best(M) <= target, lowest - 1, highest, share=0.01)


def rows_of(
    data: Standardised, part: Standardised, hyper: Hyperparameters, targets: Sequence[float], *, sets: int, seed: int
) -> list[Row]:
    """The lines of one data set."""
    N, records = part.N, []
    law, rows = fitted_law(data), gpbounds.Empirical(part.X)
    floors, truth = Floors.of(hyper.kernel, part.X, hyper.noise, 1.0), Truth(part, hyper, seed)
    for target in targets:
        shared: dict[str, Any] = {"target": target, "noise": hyper.noise, "delta": DELTA}
        shared |= {"draws": DRAWS, "law": "tilted"}
        start = time.perf_counter()
        M = gpbounds.inducing_points(hyper.kernel, N, 1.0, inputs=rows, y=part.y, **shared).M
        seconds, a_priori, vfe = time.perf_counter() - start, None, 0.0
        if sets:
            a_priori = gpbounds.inducing_points(hyper.kernel, N, 1.0, inputs=law, simulate=sets, rng=seed, **shared).M
        if M is not None:
            problem = objective(part.X, part.y, "vfe")
            problem.evaluate(hyper.kernel, hyper.noise, part.X[:M])
            start = time.perf_counter()
            problem.evaluate(hyper.kernel, hyper.noise * (1.0 + 1e-9), part.X[:M])
            vfe = time.perf_counter() - start
        lower = floors.record(target)
        low = (lower["N-lowprior"], lower["N-low"])
        true = truth.needed(target, low[1], M or N - 1)
        records.append(Row(part.name, N, target, a_priori, M, true, *low, round(0.1 * N), round(N**0.5), seconds, vfe))
    return records


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--rows", type=options.whole, default=2000, help="rows of each table (default %(default)s)")
    parser.add_argument("--simulate", type=options.whole, default=SETS, help="simulated sets of inputs; 0: no a priori")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--quick", action="store_true", help="300 rows, target 1 only")
    parser.add_argument("--out", type=Path, default=Path("planning_on_data.csv"))
    args = parser.parse_args(argv)
    rows, targets = (300, (1.0,)) if args.quick else (args.rows, (1.0, 0.1))
    records: list[Row] = []
    try:
        for file in args.files:
            data = load(file)
            part = data.subset(rows, args.seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                hyper = hyperparameters.fit(data, seed=args.seed)
            records += rows_of(data, part, hyper, targets, sets=args.simulate, seed=args.seed)
            print(table(HEADER, [row.cells() for row in records[-len(targets) :]]), file=sys.stderr, flush=True)
    except (ValueError, OSError, ArithmeticError) as error:
        parser.exit(2, f"{Path(sys.argv[0]).name}: {error}\n")
    print(table(HEADER, [row.cells() for row in records]))
    with replacing(args.out) as opened:
        writer = csv.writer(opened)
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows([[getattr(row, field.name) for field in fields(Row)] for row in records])
    print(f"Saved {args.out}")


if __name__ == "__main__":
    main()
