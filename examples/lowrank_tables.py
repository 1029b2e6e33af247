"""Test log loss and RMSE of trained low-rank GPs against rank (Tables 1 and 2 of paper 001).

    python examples/lowrank_tables.py [--quick] [--splits 5] [--ranks 6 10 50] [--resume] [--minutes 10]

The paper's protocol: random splits with 90 % of the rows for training, inputs and targets standardised by these.
SGPR is SparseGP("vfe") from k-means centres; FGP and MGP are LowRankGP("fourier") and LowRankGP("mercer",
dim=d).  NLPD is the mean of -log N(y; m, v + noise).  Differences from the paper: at most 100 iterations of L-BFGS-B
instead of 300 epochs of Adam; d of MGP is chosen from 3 ... 7 once for ranks up to 10 and once for the others, at ranks
10 and 50, by five-fold cross-validation of the NLPD on 2000 of the training rows, with at most 40 iterations.  The bike
data here have 15 inputs and the logarithm of the counts, keggdirected has 48 827 rows with 20 inputs; the paper's have
57 inputs, and 53 413 rows with 19 inputs, so that its numbers are not comparable.

Each number stands beside the printed one: the mean over the splits, and its standard error.  The frequencies of FGP
are drawn anew in each split.  The CSV file of --out grows by every model; --resume continues from there, and --minutes
limits the processor time of one call.  The picture beside it shows NLPD against the rank, with standard errors, and the
printed numbers where the columns are the paper's.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from dlm_setting import load
from lowrank_setting import write
from paired import paired
from regression_sets import UCI
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import LowRankGP, SparseGP
from gpbounds.cli import options
from gpbounds.rows import read_table

RANKS = (6, 10, 50, 100, 200, 300)
SETS = ("elevators", "protein", "bike", "keggdirected", "super", "sarcos", "3droad")
OTHERS = ("bike", "keggdirected")
"""Sets whose columns are not the paper's: its numbers are about other data."""
DIMS = (3, 4, 5, 6, 7)
FOLDS, FEW, SHORT = 5, 2000, 40
SMALL, MIDDLE = 10, 50
"""Cross-validation of d: folds, rows, iterations, and its rank for models up to rank 10, and for the others."""

PRINTED = {
    ("elevators", "SGPR"): ((0.52, 0.50, 0.46, 0.44, 0.43, 0.42), (0.40, 0.40, 0.38, 0.38, 0.38, 0.37)),
    ("elevators", "FGP"): ((1.13, 1.16, 0.56, 0.53, 0.47, 0.46), (0.77, 0.81, 0.42, 0.41, 0.39, 0.38)),
    ("elevators", "MGP"): ((0.56, 0.48, 0.45, 0.43, 0.41, 0.40), (0.42, 0.40, 0.39, 0.38, 0.37, 0.37)),
    ("protein", "SGPR"): ((1.22, 1.19, 1.11, 1.07, 1.01, 0.97), (0.82, 0.79, 0.73, 0.70, 0.66, 0.64)),
    ("protein", "FGP"): ((1.29, 1.22, 1.19, 1.16, 1.13, 1.10), (0.88, 0.82, 0.79, 0.77, 0.75, 0.73)),
    ("protein", "MGP"): ((1.25, 1.19, 1.15, 1.14, 1.13, 1.02), (0.82, 0.77, 0.75, 0.74, 0.73, 0.70)),
    ("bike", "SGPR"): ((1.43, 0.90, 0.19, 0.05, 0.02, 0.01), (1.01, 0.65, 0.25, 0.25, 0.24, 0.24)),
    ("bike", "FGP"): ((0.97, 0.92, 0.92, 0.87, 0.81, 0.72), (0.61, 0.60, 0.60, 0.55, 0.53, 0.43)),
    ("bike", "MGP"): ((0.99, 0.73, 0.29, 0.04, 0.05, -0.01), (0.33, 0.27, 0.26, 0.25, 0.24, 0.24)),
    ("keggdirected", "SGPR"): ((0.65, 0.58, 0.35, 0.27, 0.20, 0.16), (0.46, 0.43, 0.34, 0.32, 0.30, 0.29)),
    ("keggdirected", "FGP"): ((1.27, 1.06, 0.71, 0.60, 0.47, 0.40), (0.86, 0.70, 0.49, 0.44, 0.39, 0.36)),
    ("keggdirected", "MGP"): ((0.98, 0.67, 0.46, 0.39, 0.36, 0.21), (0.54, 0.47, 0.38, 0.35, 0.34, 0.33)),
    ("super", "SGPR"): ((0.69, 0.64, 0.57, 0.53, 0.50, 0.48), (0.47, 0.45, 0.42, 0.40, 0.39, 0.38)),
    ("super", "FGP"): ((0.76, 0.76, 0.69, 0.64, 0.58, 0.55), (0.52, 0.52, 0.48, 0.46, 0.43, 0.42)),
    ("super", "MGP"): ((0.97, 0.68, 0.51, 0.51, 0.52, 0.50), (0.45, 0.40, 0.39, 0.38, 0.38, 0.38)),
    ("sarcos", "SGPR"): ((0.35, 0.16, -0.21, -0.30, -0.39, -0.45), (0.33, 0.28, 0.19, 0.18, 0.16, 0.15)),
    ("sarcos", "FGP"): ((0.41, 0.34, -0.11, -0.20, -0.30, -0.37), (0.36, 0.34, 0.22, 0.20, 0.18, 0.17)),
    ("sarcos", "MGP"): ((0.33, -0.04, -0.26, -0.29, -0.29, -0.30), (0.24, 0.21, 0.18, 0.18, 0.17, 0.16)),
    ("3droad", "SGPR"): ((1.32, 1.06, 0.92, 0.86, 0.83, 0.82), (0.90, 0.70, 0.61, 0.57, 0.56, 0.55)),
    ("3droad", "FGP"): ((1.28, 1.21, 1.06, 1.01, 0.89, 0.82), (0.87, 0.81, 0.70, 0.66, 0.59, 0.55)),
    ("3droad", "MGP"): ((1.31, 1.15, 1.02, 0.85, 0.81, 0.79), (0.90, 0.75, 0.65, 0.59, 0.55, 0.53)),
}
"""Printed NLPD and RMSE for the ranks 6, 10, 50, 100, 200, 300."""
MODELS = ("SGPR", "FGP", "MGP")
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training inputs and targets, test inputs and targets."""


@dataclass(frozen=True)
class Score:
    """One trained model; ``dim`` is d of MGP, otherwise 0; ``reason`` tells why training ended."""

    data: str
    model: str
    rank: int
    split: int
    rows: int
    dim: int
    nlpd: float
    rmse: float
    noise: float
    iterations: int
    reason: str
    seconds: float


def printed(data: str, model: str, rank: int) -> tuple[float | None, float | None]:
    """NLPD and RMSE of the paper, if it has this rank."""
    if rank not in RANKS:
        return None, None
    nlpd, rmse = PRINTED[data, model]
    return nlpd[RANKS.index(rank)], rmse[RANKS.index(rank)]


@cache
def split(path: Path, rows: int, seed: int) -> Rows:
    """Standardised training rows, all or the first ``rows`` > 0 of the 90 %, and the 10 % for testing."""
    values, _ = read_table(path)
    values = values[np.random.default_rng(seed).permutation(len(values))]
    cut = round(0.9 * len(values))
    first, rest = values[: min(cut, rows or cut)], values[cut:]
    mean, scale = first.mean(axis=0), first.std(axis=0)
    scale[scale == 0.0] = 1.0
    first, rest = (first - mean) / scale, (rest - mean) / scale
    return first[:, :-1], first[:, -1], rest[:, :-1], rest[:, -1]


def estimator(model: str, rank: int, dim: int, iterations: int, seed: int) -> Any:
    settings: dict[str, Any] = {"max_iter": iterations, "random_state": seed}
    if model == "SGPR":
        return SparseGP("vfe", n_inducing=rank, inducing="kmeans", **settings)
    if model == "FGP":
        return LowRankGP("fourier", rank, **settings)
    return LowRankGP("mercer", rank, dim=dim, **settings)


def scores(model: Any, data: Rows) -> tuple[float, float]:
    """Test NLPD and RMSE after training."""
    X, y, X_test, y_test = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    mean, std = model.predict(X_test, return_std=True, noisy=True)
    error = y_test - mean
    nlpd = np.mean(0.5 * np.log(2.0 * np.pi * std**2) + 0.5 * (error / std) ** 2)
    return float(nlpd), float(np.sqrt(np.mean(error**2)))


def dimension(path: Path, rows: int, rank: int, iterations: int, seed: int) -> int:
    """d of MGP with the least cross-validated NLPD at ``rank`` on some of the training rows."""
    X, y = split(path, rows, seed)[:2]
    X, y = X[:FEW], y[:FEW]
    fold = np.arange(len(X)) % FOLDS
    losses = {}
    for dim in DIMS:
        if dim <= X.shape[1]:
            parts = [(X[fold != k], y[fold != k], X[fold == k], y[fold == k]) for k in range(FOLDS)]
            losses[dim] = sum(scores(estimator("MGP", rank, dim, iterations, seed), part)[0] for part in parts)
    return min(losses, key=losses.__getitem__)


def dim_of(args: argparse.Namespace, name: str, model: str, rank: int, seed: int, records: Sequence[Score]) -> int:
    """d of MGP, from ``records`` if they have it; 0 for the other models."""
    if model != "MGP":
        return 0
    small = rank <= SMALL
    known = [s.dim for s in records if (s.data, s.split, s.model, s.rank <= SMALL) == (name, seed, "MGP", small)]
    path, at = args.folder / f"{name}.csv.gz", SMALL if small else MIDDLE
    return known[0] if known else dimension(path, args.rows, at, min(SHORT, args.iterations), seed)


def trained(args: argparse.Namespace, name: str, model: str, rank: int, seed: int, records: Sequence[Score]) -> Score:
    begun = time.process_time()
    data = split(args.folder / f"{name}.csv.gz", args.rows, seed)
    dim = dim_of(args, name, model, rank, seed, records)
    fitted = estimator(model, rank, dim, args.iterations, seed)
    nlpd, rmse = scores(fitted, data)
    spent = round(time.process_time() - begun, 2)
    reason = fitted.stop_reason_
    return Score(name, model, rank, seed, len(data[0]), dim, nlpd, rmse, fitted.noise_, fitted.n_iter_, reason, spent)


def cell(values: Sequence[float], paper: float | None) -> str:
    """Mean and standard error over splits, and the printed number."""
    if not values:
        return ""
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{error}" + ("" if paper is None else f" *({paper:.2f})*")


def table(records: Sequence[Score], what: str) -> str:
    """One line for each model, in Markdown."""
    ranks = sorted({score.rank for score in records})
    lines = [f"| {what.upper()} | " + " | ".join(f"r = {r}" for r in ranks) + " |", "|---" * (len(ranks) + 1) + "|"]
    for name in dict.fromkeys(score.data for score in records):
        for model in MODELS:
            groups = [
                [getattr(s, what) for s in records if (s.data, s.model, s.rank) == (name, model, r)] for r in ranks
            ]
            papers = [printed(name, model, rank)[("nlpd", "rmse").index(what)] for rank in ranks]
            lines.append(f"| {name} {model} | " + " | ".join(map(cell, groups, papers)) + " |")
    return "\n".join(lines)


def claims(records: Sequence[Score]) -> str:
    """Differences of NLPD behind both claims of Sec. 5.2: MGP is like SGPR, and FGP slightly worse than MGP."""
    ranks = sorted({score.rank for score in records})
    lines = ["| NLPD | " + " | ".join(f"r = {r}" for r in ranks) + " |", "|---" * (len(ranks) + 1) + "|"]
    nlpd = {(s.data, s.model, s.rank, s.split): s.nlpd for s in records}
    for name in dict.fromkeys(score.data for score in records):
        for one, other in (("MGP", "SGPR"), ("FGP", "MGP")):
            cells = []
            for rank in ranks:
                splits = [i for *key, i in nlpd if key == [name, one, rank] and (name, other, rank, i) in nlpd]
                sides = ([nlpd[name, model, rank, i] for i in splits] for model in (one, other))
                gap = paired(*sides) if splits else None
                sure = gap is not None and (gap.surely_less or gap.surely_more)
                cells.append("" if gap is None else f"**{gap}**" if sure else str(gap))
            lines.append(f"| {name} {one} − {other} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def picture(records: Sequence[Score]) -> Any:
    """NLPD against the rank, a panel for each data set; open diamonds are the printed numbers."""
    from dlm_setting import plain

    from gpbounds.plotting import BLUE, GREEN, VERMILLION
    from gpbounds.plotting.elements import TEXT, figure, headline

    sets = list(dict.fromkeys(score.data for score in records))
    page = figure(4.6 * max(len(sets), 2), 4.4)
    headline(page, "Test NLPD of low-rank GPs against the rank, means and standard errors over splits. Diamonds: paper")
    for ax, name in zip(page.subplots(1, len(sets), squeeze=False)[0], sets, strict=True):
        for model, color in zip(MODELS, (GREEN, BLUE, VERMILLION), strict=True):
            ranks = sorted({s.rank for s in records if (s.data, s.model) == (name, model)})
            draws = [
                np.array([s.nlpd for s in records if (s.data, s.model, s.rank) == (name, model, r)]) for r in ranks
            ]
            errors = [d.std(ddof=1) / np.sqrt(d.size) if d.size > 1 else 0.0 for d in draws]
            line: dict[str, Any] = {"marker": "o", "markersize": 4.0, "linewidth": 1.6, "capsize": 2, "label": model}
            ax.errorbar(ranks, [d.mean() for d in draws], errors, color=color, **line)
            if name not in OTHERS:
                theirs = [printed(name, model, rank)[0] for rank in ranks]
                shown = [np.nan if value is None else value for value in theirs]
                ax.plot(ranks, shown, "D", color=color, markersize=5.0, markerfacecolor="white")
        ticks = sorted({s.rank for s in records if s.data == name})
        ax.set_xscale("log")
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        count = len({s.split for s in records if s.data == name})
        splits = "one split" if count == 1 else f"{count} splits"
        plain(ax, f"{name}, {splits}", "rank r", "NLPD" if name == sets[0] else "")
    ax.legend(fontsize=TEXT - 1, frameon=False)
    return page


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--rows", type=options.whole, default=0, help="at most so many training rows, 0 for all")
    parser.add_argument("--splits", type=options.whole, default=5, help="random splits (default %(default)s)")
    parser.add_argument(
        "--ranks", type=options.whole, nargs="+", default=list(RANKS), help="columns r (default: the paper's)"
    )
    parser.add_argument("--iterations", type=options.whole, default=100, help="of L-BFGS-B (default %(default)s)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="default: all")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz, the target in the last column")
    parser.add_argument("--quick", action="store_true", help="one split, 300 rows, rank 10, 10 iterations")
    parser.add_argument("--resume", action="store_true", help="keep the models in the CSV file")
    parser.add_argument(
        "--minutes", type=options.number, default=np.inf, help="begin no model after so much processor time"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("examples/output/lowrank_tables.csv"), help="CSV file (default %(default)s)"
    )
    args = parser.parse_args(argv)
    if args.quick:
        args.rows, args.splits, args.ranks, args.iterations = 300, 1, [10], 10
    sets = [name for name in args.sets if (args.folder / f"{name}.csv.gz").exists()]
    for name in sorted(set(args.sets) - set(sets)):
        print(f"No {name}.csv.gz in {args.folder}: pass --folder.")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    records = load(args.out, Score) if args.resume else []
    there = {(s.data, s.model, s.rank, s.split) for s in records}
    work = [(n, m, r, i) for i in range(args.splits) for n in sets for r in args.ranks for m in args.models]
    for job in tqdm([each for each in work if each not in there], unit="model"):
        if time.process_time() > 60.0 * args.minutes:
            break
        records.append(trained(args, *job, records))
        write(args.out, [field.name for field in fields(Score)], [astuple(score) for score in records])
    for what in ("nlpd", "rmse"):
        print(f"\n{table(records, what)}")
    print(f"\n{claims(records)}\nBold: the 95 % interval of Student, over the splits, does not contain 0.")
    print(f"{sum(score.seconds for score in records) / 60.0:.0f} minutes of processor time, {len(records)} models")
    picture(records).savefig(args.out.with_suffix(".png"))
    print(f"{args.out}, {args.out.with_suffix('.png')}")


if __name__ == "__main__":
    main()
