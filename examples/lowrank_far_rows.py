"""Test rows that lie far from all training rows, and what they do to the RMSE of low-rank and sparse GPs.

    python examples/lowrank_far_rows.py [--quick] [--sets elevators] [--splits 5] [--ranks 50 100] [--far 20]

Models, splits and standardised inputs are those of `lowrank_tables.py`.  A test row is far if its distance from the
nearest training row is more than --far, where each input has the standard deviation 1.  Features without decay, such as
cosines, extrapolate there: the mean is a draw with the standard deviation that the model states, and not 0.  One such
row can decide the RMSE of a split; its part of the NLPD stays small where the stated standard deviation is right.

The CSV file has one line for each model: scores on all test rows and without the far ones, and for the far row with
the largest error its distance, target, mean and standard deviation.  --variance sets the largest variance of the kernel
that training may use (default: that of the library).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from dlm_setting import load
from lowrank_setting import write
from lowrank_tables import MODELS, SETS, Score, dim_of, estimator, scores, split
from regression_sets import UCI
from scipy.spatial import cKDTree
from tqdm import tqdm

from gpbounds.cli import options
from gpbounds.texts import table

LEAST_VARIANCE = 1e-4


@dataclass(frozen=True)
class Far:
    """One trained model; ``limit`` is the largest variance allowed, 0 for that of the library.

    Without far rows the last five are NaN.
    """

    data: str
    model: str
    rank: int
    split: int
    limit: float
    far_rows: int
    nlpd: float
    nlpd_near: float
    rmse: float
    rmse_near: float
    variance: float
    distance: float
    y: float
    mean: float
    std: float
    in_stds: float


def distances(X: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """From each test row to the nearest training row."""
    return np.asarray(cKDTree(X).query(X_test)[0])


def compared(args: argparse.Namespace, name: str, model: str, rank: int, seed: int, records: Sequence[Score]) -> Far:
    data = split(args.folder / f"{name}.csv.gz", args.rows, seed)
    X, _, X_test, y_test = data
    gp: Any = estimator(model, rank, dim_of(args, name, model, rank, seed, records), args.iterations, seed)
    if args.variance:
        gp.set_params(limits={"variance": (LEAST_VARIANCE, args.variance)})
    nlpd, rmse = scores(gp, data)
    mean, std = gp.predict(X_test, return_std=True, noisy=True)
    error, away = y_test - mean, distances(X, X_test)
    far = away > args.far
    losses = 0.5 * np.log(2.0 * np.pi * std**2) + 0.5 * (error / std) ** 2
    near = float(np.mean(losses[~far])), float(np.sqrt(np.mean(error[~far] ** 2)))
    worst: tuple[float, ...] = (np.nan,) * 5
    if far.any():
        i = np.flatnonzero(far)[np.argmax(np.abs(error[far]))]
        worst = tuple(map(float, (away[i], y_test[i], mean[i], std[i], error[i] / std[i])))
    both = (nlpd, near[0], rmse, near[1])
    return Far(name, model, rank, seed, args.variance, int(far.sum()), *both, gp.kernel_.variance, *worst)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--rows", type=options.whole, default=0, help="at most so many training rows, 0 for all")
    parser.add_argument("--splits", type=options.whole, default=5, help="random splits (default %(default)s)")
    parser.add_argument("--ranks", type=options.whole, nargs="+", default=[50, 100], help="columns r (default 50, 100)")
    parser.add_argument("--iterations", type=options.whole, default=100, help="of L-BFGS-B (default %(default)s)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["elevators"], help="default: elevators")
    parser.add_argument("--far", type=options.number, default=20.0, help="distance of a far row (default %(default)s)")
    parser.add_argument("--variance", type=options.number, default=0.0, help="largest variance of the kernel")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz, the target in the last column")
    parser.add_argument("--tables", type=Path, help="CSV file of lowrank_tables.py, for d of MGP")
    parser.add_argument("--quick", action="store_true", help="one split, 300 rows, rank 10, 10 iterations")
    parser.add_argument("--resume", action="store_true", help="keep the models in the CSV file")
    parser.add_argument("--out", type=Path, default=Path("examples/output/lowrank_far_rows.csv"), help="CSV file")
    args = parser.parse_args(argv)
    if args.quick:
        args.rows, args.splits, args.ranks, args.iterations = 300, 1, [10], 10
    sets = [name for name in args.sets if (args.folder / f"{name}.csv.gz").exists()]
    for name in sorted(set(args.sets) - set(sets)):
        print(f"No {name}.csv.gz in {args.folder}: pass --folder.")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    records = load(args.tables, Score) if args.tables else []
    compared_models = load(args.out, Far) if args.resume else []
    there = {(f.data, f.model, f.rank, f.split, f.limit) for f in compared_models}
    work = [(n, m, r, i) for i in range(args.splits) for n in sets for r in args.ranks for m in args.models]
    header = [field.name for field in fields(Far)]
    for job in tqdm([each for each in work if (*each, args.variance) not in there], unit="model"):
        compared_models.append(compared(args, *job, records))
        write(args.out, header, [astuple(each) for each in compared_models])
    lines = [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in astuple(each)] for each in compared_models]
    print(table(header, lines))
    print(args.out)


if __name__ == "__main__":
    main()
