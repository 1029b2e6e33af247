"""What one noise for all rows costs where each row has its own.

    python examples/noise_per_row.py [--quick] [--seeds 20] [--resume] [--out FILE.png]

Two instruments measure sin(2x) + x/2 at random x in [0, 6]: half of N = 80 rows have the noise variance 1/10, the
others 1/(10·ratio).  One `fitting.ExactGP` is given the variance of each row, the other trains one variance for all;
kernels are trained in both.  Left: the root mean square error of the predicted f on a grid.  Right: how many new
observations of each instrument lie in their 90 % intervals.  A single variance is too small for one instrument and too
large for the other, and the rows of the better one count too little.

Bars are 95 % intervals of means over seeds, which draw the rows; both models of a seed have the same rows.  The CSV
file beside the picture has a line for each seed and grows by each; --resume continues from it.

Claims of the ledger: N-rows-noise.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from dlm_setting import load, markdown, save
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from fitting import ExactGP
from gpbounds.cli import options

RATIOS = (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
NOISE, LEVEL, END = 0.1, 0.9, 6.0


@dataclass(frozen=True)
class Row:
    """One seed: errors of f, and the shares of observations in their intervals, without and with the variances."""

    ratio: float
    seed: int
    one_rmse: float
    own_rmse: float
    one_worse: float
    one_better: float
    own_worse: float
    own_better: float


def truth(x: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * x) + 0.5 * x


def measured(N: int, ratio: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (N, 1), targets and noise variances of N rows, half of them by the better instrument."""
    X = rng.uniform(0.0, END, (N, 1))
    noise = np.where(rng.permutation(N) < N // 2, NOISE, NOISE / ratio)
    return X, truth(X[:, 0]) + np.sqrt(noise) * rng.standard_normal(N), noise


def row(N: int, ratio: float, seed: int) -> Row:
    rng = np.random.default_rng([seed, round(10.0 * ratio)])
    X, y, noise = measured(N, ratio, rng)
    new, observed, variances = measured(2000, ratio, rng)
    grid = np.linspace(0.0, END, 400)[:, None]
    numbers: dict[str, float] = {}
    for name, given in (("one", None), ("own", noise)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ExactGP(noise=given, mean="constant", random_state=seed).fit(X, y)
        numbers[f"{name}_rmse"] = float(np.sqrt(np.mean((model.predict(grid) - truth(grid[:, 0])) ** 2)))
        low, high = model.predict_interval(new, LEVEL, noise=None if given is None else variances)
        inside = (low <= observed) & (observed <= high)
        worse = variances == NOISE  # at ratio 1 both instruments are the same
        better = ~worse if ratio > 1.0 else worse
        numbers |= {f"{name}_worse": float(inside[worse].mean()), f"{name}_better": float(inside[better].mean())}
    return Row(ratio, seed, **numbers)


def means(rows: Sequence[Row], name: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean of a number over seeds, and half of its 95 % interval, for each ratio."""
    each = [[getattr(r, name) for r in rows if r.ratio == ratio] for ratio in ratios_of(rows)]
    halves = [1.96 * np.std(some, ddof=1) / np.sqrt(len(some)) if len(some) > 1 else np.nan for some in each]
    return np.array([np.mean(some) for some in each]), np.array(halves)


def ratios_of(rows: Sequence[Row]) -> list[float]:
    return sorted({each.ratio for each in rows})


def report(rows: Sequence[Row]) -> str:
    """The table."""
    heads = ["ratio", "RMSE, one noise", "RMSE, own noise", "in 90 % intervals, one noise", "own noise"]
    columns = {name: means(rows, name)[0] for name in Row.__dataclass_fields__ if name not in ("ratio", "seed")}
    lines = [
        [
            f"{ratio:g}",
            f"{columns['one_rmse'][i]:.4f}",
            f"{columns['own_rmse'][i]:.4f}",
            f"{columns['one_worse'][i]:.1%}, {columns['one_better'][i]:.1%}",
            f"{columns['own_worse'][i]:.1%}, {columns['own_better'][i]:.1%}",
        ]
        for i, ratio in enumerate(ratios_of(rows))
    ]
    return markdown(heads, lines)


def picture(rows: Sequence[Row]) -> Any:
    from gpbounds.plotting.elements import BLUE, TEXT, VERMILLION, figure, headline

    page, ratios = figure(9.0, 3.9), ratios_of(rows)
    headline(page, "One noise variance for all rows, or that of each row")
    left, right = page.add_subplot(121), page.add_subplot(122)
    for name, color, label in (("one", VERMILLION, "one variance, trained"), ("own", BLUE, "the variance of each row")):
        value, half = means(rows, f"{name}_rmse")
        left.errorbar(ratios, value, half, color=color, marker="o", markersize=3, capsize=2, label=label)
        for part, line in (("worse", "-"), ("better", "--")):
            value, half = means(rows, f"{name}_{part}")
            words = f"{label}, {part} instrument"
            right.errorbar(
                ratios, value, half, color=color, linestyle=line, marker="o", markersize=3, capsize=2, label=words
            )
    right.axhline(LEVEL, color="0.4", linewidth=0.8)
    for ax, label in ((left, "root mean square error of f"), (right, "share of observations in 90 % intervals")):
        ax.set_xscale("log")
        ax.set_xlabel("ratio of the noise variances of the two instruments", fontsize=TEXT - 1)
        ax.set_ylabel(label, fontsize=TEXT - 1)
        ax.tick_params(labelsize=TEXT - 1)
        ax.legend(fontsize=TEXT - 2, frameon=False)
    left.set_yscale("log")
    return page


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--rows", type=options.whole, default=80, help="N (default %(default)s)")
    parser.add_argument("--seeds", type=options.whole, default=20, help="of each ratio (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="40 rows, two ratios, 3 seeds: seconds")
    parser.add_argument("--resume", action="store_true", help="keep the seeds in the CSV file")
    parser.add_argument("--out", type=Path, default=Path("examples/output/noise_per_row.png"))
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    args = arguments().parse_args(argv)
    ratios, N, seeds = (RATIOS[::4], 40, 3) if args.quick else (RATIOS, args.rows, args.seeds)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    path = args.out.with_suffix(".csv")
    rows = load(path, Row) if args.resume and path.exists() else []
    done = {(each.ratio, each.seed) for each in rows}
    todo = [(ratio, seed) for seed in range(seeds) for ratio in ratios if (ratio, seed) not in done]
    for ratio, seed in tqdm(todo, unit="seed"):
        rows.append(row(N, ratio, seed))
        save(path, rows)
    print(f"\n{report(rows)}")
    picture(rows).savefig(args.out)
    print(args.out)


if __name__ == "__main__":
    main()
