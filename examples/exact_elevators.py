"""The exact GP on elevators, with which paper 001 compares its deep kernels (App. D.2).

    python examples/exact_elevators.py [--quick] [--splits 5] [--rows 0] [--resume]

Splits and standardisation are those of `lowrank_tables.py` and `deep_features.py`: 90 % of the rows, 14 939, train.
Squared exponential kernel, one lengthscale for each input; ExactGP trains by iterations, to 0.01 nats per datum, and
ends with an interval that holds log p(y) of the training rows with probability 95 %.  NLPD is the mean of
-log N(y; m, v + noise) over the test rows.  The paper prints an NLPD of 0.377, with a standard deviation of 0.024 over
five splits, and 53 550 seconds.  The CSV file of --out grows by every model; --resume continues from there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from dlm_setting import load
from lowrank_setting import write
from lowrank_tables import scores, split
from regression_sets import UCI
from tqdm import tqdm

from fitting import ExactGP
from gpbounds.cli import options
from gpbounds.rigor import decimal

PRINTED = 0.377, 0.024
"""Mean and standard deviation of the NLPD over five splits."""


@dataclass(frozen=True)
class Score:
    """One trained model; ``lower`` and ``upper`` bound log p(y), ``reason`` tells why training ended."""

    split: int
    rows: int
    nlpd: float
    rmse: float
    noise: float
    lower: float
    upper: float
    iterations: int
    reason: str
    seconds: float


def trained(path: Path, rows: int, seed: int) -> Score:
    begun = time.process_time()
    data = split(path, rows, seed)
    model = ExactGP(solver="iterative", random_state=seed, progress=True)
    nlpd, rmse = scores(model, data)
    spent = round(time.process_time() - begun, 2)
    lower, upper = map(float, model.evidence_bounds_)
    ends = model.n_iter_, model.stop_reason_, spent
    return Score(seed, len(data[1]), nlpd, rmse, model.noise_, lower, upper, *ends)


def table(records: Sequence[Score]) -> str:
    """A line for each split, and the mean with its standard error, in Markdown."""
    lines = ["| split | NLPD | RMSE | σ² | log p(y), 95 % | iterations | seconds |", "|---" * 7 + "|"]
    for s in records:
        interval = f"{decimal(s.lower, False, 6)} … {decimal(s.upper, True, 6)}"
        cells = f"{s.nlpd:.3f}", f"{s.rmse:.3f}", f"{s.noise:.3f}", interval
        lines.append(f"| {s.split} | " + " | ".join((*cells, str(s.iterations), f"{s.seconds:.0f}")) + " |")
    if len(records) > 1:
        columns = np.array([(s.nlpd, s.rmse, s.noise) for s in records])
        errors = columns.std(axis=0, ddof=1) / np.sqrt(len(records))
        means = [f"{mean:.3f} ± {error:.3f}" for mean, error in zip(columns.mean(axis=0), errors, strict=True)]
        seconds = np.mean([s.seconds for s in records])
        lines.append("| mean | " + " | ".join(means) + f" | | | {seconds:.0f} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--splits", type=options.whole, default=5, help="random splits (default %(default)s)")
    parser.add_argument("--rows", type=int, default=0, help="training rows, 0 for 90 %% (default %(default)s)")
    parser.add_argument(
        "--folder", type=Path, default=UCI, help="holds elevators.csv.gz, the target in the last column"
    )
    parser.add_argument("--quick", action="store_true", help="two splits, 400 rows")
    parser.add_argument("--resume", action="store_true", help="keep the models in the CSV file")
    parser.add_argument("--out", type=Path, default=Path("examples/output/exact_elevators.csv"), help="CSV file")
    args = parser.parse_args(argv)
    if args.quick:
        args.splits, args.rows = 2, 400
    path = args.folder / "elevators.csv.gz"
    if not path.exists():
        parser.exit(2, f"exact_elevators.py: no elevators.csv.gz in {args.folder}: pass --folder\n")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    records = load(args.out, Score) if args.resume else []
    N = len(split(path, args.rows, 0)[1])
    there = {score.split for score in records if score.rows == N}
    for seed in tqdm([seed for seed in range(args.splits) if seed not in there], unit="model"):
        records.append(trained(path, args.rows, seed))
        write(args.out, [field.name for field in fields(Score)], [astuple(score) for score in records])
    print(f"\n{table([score for score in records if score.rows == N])}")
    print(f"printed: NLPD {PRINTED[0]}, standard deviation {PRINTED[1]}, 53 550 s")
    print(args.out)


if __name__ == "__main__":
    main()
