"""EGP as papers 000 and 003 train it, by mini-batches of 64 rows with the step length .01, beside the exact GP.

    python examples/egp_batches.py [--quick] [--rows 2500 5000] [--splits 5] [--epochs 100] [--resume]

A step of "batches" takes the derivatives of log p of 64 random rows alone (ExactGP(optimizer="adam", batch_size=64)).
A sum of such terms over an epoch is the logarithm of the likelihood of another model, in which batches are independent;
it is no bound on log p(y) of all rows, and its optimum is another one.  "all rows" is L-BFGS-B on log p(y), at most
--steps iterations.  Both start at the same kernel and predict by all training rows.  Matérn-3/2 with one lengthscale
for each input; 60 % of --rows rows train.  The CSV file has log p(y)/N of all training rows at both ends.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from lowrank_setting import write
from paired import paired
from regression_sets import UCI, Split, errors, split, table_source
from sklearn.exceptions import ConvergenceWarning

from fitting import ExactGP
from gpbounds.cli import options
from gpbounds.exact import exact

WAYS = ("all rows", "batches")
BATCH, RATE, LEAST_NOISE = 64, 0.01, 1e-4
HEADER = ("data", "rows", "N", "split", "way", "rmse", "nlpd", "log_evidence_per_row", "noise", "steps", "seconds")


def model(way: str, part: Split, epochs: int, steps: int, seed: int) -> ExactGP:
    shared: dict[str, Any] = {"kernel": part.kernel, "noise": 0.1, "limits": {"noise": (LEAST_NOISE, 10.0)}}
    if way == "all rows":
        return ExactGP(**shared, max_iter=steps, random_state=seed)
    count = max(1, round(epochs * len(part.y) / BATCH))
    how: dict[str, Any] = {"optimizer": "adam", "batch_size": BATCH, "learning_rate": RATE, "max_iter": count}
    return ExactGP(**shared, **how, random_state=seed)


def score(part: Split, way: str, args: argparse.Namespace, seed: int) -> tuple[Any, ...]:
    """What stands behind the split in a row of the CSV file."""
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = model(way, part, args.epochs, args.steps, seed).fit(part.X, part.y)
    spent = time.process_time() - begun
    loss = errors(part.y_test, *fitted.predict(part.X_test, return_std=True, noisy=True))
    value = exact(fitted.kernel_, part.X, part.y[:, None], noise=fitted.noise_).log_evidence
    return way, *loss, float(value) / len(part.y), fitted.noise_, fitted.n_iter_, round(spent, 2)


def results(args: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[tuple[Any, ...]]:
    source = table_source(args.data, args.folder / f"{args.data}.csv.gz")
    for rows in args.rows:
        for seed in range(args.splits):
            part = split(source, rows, seed)
            for way in WAYS:
                if (str(rows), str(seed), way) not in done:
                    yield args.data, rows, len(part.y), seed, *score(part, way, args, seed)


def table(rows: Sequence[Sequence[Any]]) -> str:
    """Means over splits in Markdown, and the mean of the differences with its standard error."""
    heads = ("N", "way", "RMSE", "NLPD", "log p(y)/N", "noise", "seconds", "splits")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for N in sorted({int(row[2]) for row in rows}):
        by_way = {way: {row[3]: row for row in rows if (int(row[2]), row[4]) == (N, way)} for way in WAYS}
        for way, part in by_way.items():
            means = [np.mean([float(row[i]) for row in part.values()]) for i in (5, 6, 7, 8, 10)]
            cells = [*(f"{value:.3f}" for value in means[:4]), f"{means[4]:.0f}", str(len(part))]
            lines.append(f"| {N} | {way} | " + " | ".join(cells) + " |")
        both = sorted(by_way["batches"].keys() & by_way["all rows"].keys())
        gaps = [paired(*([float(by_way[way][i][c]) for i in both] for way in reversed(WAYS))) for c in (5, 6, 7)]
        words = [f"**{gap}**" if gap.surely_less or gap.surely_more else str(gap) for gap in gaps]
        lines.append(f"| {N} | batches − all rows | " + " | ".join(words) + f" | | | {len(both)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--data", default="bike_hourly", help="NAME of NAME.csv.gz (default %(default)s)")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz, the target in the last column")
    parser.add_argument("--rows", type=options.whole, nargs="+", default=[2500, 5000], help="60 %% of them train")
    parser.add_argument("--splits", type=options.whole, default=5, help="random splits (default %(default)s)")
    parser.add_argument("--epochs", type=options.whole, default=100, help="of batches (default %(default)s)")
    parser.add_argument("--steps", type=options.whole, default=40, help="of L-BFGS-B (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="200 rows, one split, 5 epochs")
    parser.add_argument("--resume", action="store_true", help="keep the rows of the CSV file")
    parser.add_argument("--out", type=Path, default=Path("examples/output/egp_batches.csv"), help="CSV file")
    args = parser.parse_args(argv)
    if args.quick:
        args.rows, args.splits, args.epochs = [200], 1, 5
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[Any, ...]] = []
    if args.resume and args.out.exists():
        with args.out.open(encoding="utf-8") as file:
            rows = [tuple(row) for row in list(csv.reader(file))[1:]]
    for each in results(args, {(row[1], row[3], row[4]) for row in rows}):
        rows.append(each)
        write(args.out, HEADER, rows)
    print(table(rows))
    print(args.out)


if __name__ == "__main__":
    main()
