"""Would the exact GP predict better than M inducing points, and does the plan say how many suffice?

    python examples/exact_or_sparse.py [--quick] [--names pol elevators ...] [--resume] [--out FILE.png]

Of each table up to 2000 random rows, at most a fifth, are held out; the others are training rows.  From these alone
`fitting.plan(..., loss=0.01)` recommends M, with a kernel and noise that it fits to 500 of them.  Nothing is trained
afterwards: the sparse GPs have this kernel and noise, and M greedy points, also M/4, M/2, 2M and 4M.
`gpbounds.audit.compare` puts their log loss and RMSE at rows held out beside the proved ends of those of the exact GP
of all training rows (N-solve), with a 95 % interval over rows for the difference.  Up to --dense training rows a
Cholesky factor of K + σ²I gives the truth; the script counts the rows at which it is outside the ends by more than its
own rounding.  Log losses are in nats in the units of the table.  The CSV file beside the picture grows by each table;
--resume continues from it.

Claims of the ledger: N-solve.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from dlm_setting import load, save
from regression_sets import UCI
from tqdm import tqdm

import fitting
from fitting.study.by_predictions import HELD_OUT
from fitting.study.standardised import standardise
from gpbounds.audit import Compared, HeldOut, PredictionScores, Subject, compare, subject
from gpbounds.audit.scores import log_loss_ends
from gpbounds.cli import options
from gpbounds.exact import exact
from gpbounds.kernels import Kernel
from gpbounds.renyi.further import further_rows
from gpbounds.rows import read_table

NAMES = (
    "pol",
    "elevators",
    "bike_hourly",
    "cal_housing",
    "cmapss_fd001",
    "kin40k",
    "pm25",
    "protein",
    "traffic",
    "keggdirected",
    "bike",
)
"""Tables of at least 10 000 rows."""
LOSS = 0.01
"""Nats a row."""
WORK = 6e11
"""NM² of the largest number of points that is compared."""
ROUNDING = 1e-7
"""Of a log loss and of 1, by which a dense exact GP may miss it: N times the unit roundoff times a condition number."""


@dataclass(frozen=True)
class Row:
    """A table and one number of points; differences are exact − sparse, negative where the exact GP is better.

    ``recommended`` is 0 where no M was found, ``above`` the greatest M that is measured not to do with ``planned_rows``
    training rows; ``outside`` is the greatest distance of a row's truth from its ends, ``violations`` counts the rows
    where it is more than rounding; both are about a dense exact GP, and nan and −1 without it.
    """

    data: str
    seed: int
    N: int
    D: int
    noise: float
    recommended: int
    above: int
    how: str
    planned_rows: int
    planned: float
    planned_worst: float
    plan_seconds: float
    M: int
    points: str
    rows: int
    log_loss: float
    rmse: float
    exact_loss_low: float
    exact_loss_high: float
    exact_rmse_low: float
    exact_rmse_high: float
    method: str
    difference: float
    enclosure_low: float
    enclosure_high: float
    interval_low: float
    interval_high: float
    verdict: str
    kl_low: float
    kl_high: float
    compare_seconds: float
    truth_loss: float
    truth_rmse: float
    truth_difference: float
    outside: float
    violations: int


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows and rows held out, targets less the mean of the training rows."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_held: np.ndarray
    y_held: np.ndarray


def divided(name: str, path: Path, rows: int, seed: int) -> Table:
    values, _ = read_table(path)
    order = np.random.default_rng([seed, *name.encode()]).permutation(len(values))[: rows or None]
    values = values[order]
    held = min(HELD_OUT, len(values) // 5)
    y = values[:, -1]
    X = values[:, list(standardise(name, values[held:, :-1], y[held:]).kept)]  # no constant columns, as in the plan
    mean = y[held:].mean()
    return Table(name, X[held:], y[held:] - mean, X[:held], y[:held] - mean)


def planned(table: Table, seed: int) -> tuple[dict[str, Any], Kernel, float, int]:
    """What the plan says, as columns; its kernel and noise; and the M to compare, the greatest tried without one."""
    begun = time.perf_counter()
    made = fitting.plan(table.X, table.y, loss=LOSS, refits=0, rng=seed, name=table.name)
    seconds, answer = time.perf_counter() - begun, made.by_predictions
    assert answer is not None, made.reasons
    largest = next((each for each in reversed(answer.sizes) if each.M is not None), answer.sizes[-1])
    M = largest.tried if largest.M is None else largest.M
    point = largest.reached[0].at(M)
    columns = {
        "recommended": answer.M or 0,
        "above": largest.above,
        "how": "none" if answer.M is None else "measured" if answer.whole else "extrapolated",
        "planned_rows": largest.N,
        "planned": -point.value,
        "planned_worst": -point.interval[1],
        "plan_seconds": seconds,
    }
    return columns, made.problem.kernels[0], made.problem.settings.noise, answer.M or largest.tried


def truth(about: Subject, compared: Compared, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log losses and squared errors of the exact GP by a Cholesky factor, at the rows that are compared."""
    mean, variance = exact(about.kernel, about.X, about.y[:, None], noise=about.noise).predict(X)
    mean = mean[:, 0]
    losses = log_loss_ends(compared.y, (mean, mean), (variance, variance), about.noise)
    return losses.middle, (compared.y - mean) ** 2


def rows_of(table: Table, tests: int, dense: int, seed: int) -> list[Row]:
    plan, kernel, noise, M = planned(table, seed)
    X, X_held = table.X, table.X_held
    begun = time.perf_counter()
    about = subject(kernel, X, table.y, further_rows(kernel, X, None, M), noise=noise)
    law = about.law.predict(X_held)
    held = HeldOut(X_held, table.y_held, np.asarray(law.mean), np.asarray(law.variance))
    most = min(4 * M, max(M, int(math.sqrt(WORK / len(X)))))
    rows = tests if len(X) <= dense else None  # None: the library's choice
    compared = compare(about, held, loss=LOSS, rows=rows, most=most, rng=seed)
    seconds = time.perf_counter() - begun
    losses, checked = None, {"truth_loss": math.nan, "truth_rmse": math.nan, "outside": math.nan, "violations": -1}
    if len(X) <= dense:
        losses, squares = truth(about, compared, X_held[compared.rows])
        outside = np.maximum(compared.log_losses.low - losses, losses - compared.log_losses.high)
        checked = {
            "truth_loss": float(losses.mean()),
            "truth_rmse": math.sqrt(squares.mean()),
            "outside": max(float(outside.max()), 0.0),
            "violations": int((outside > ROUNDING * (1.0 + np.abs(losses))).sum()),
        }
    common = {"data": table.name, "seed": seed, "N": len(X), "D": X.shape[1], "noise": noise, **plan, **checked}
    common |= {"rows": compared.n, "method": compared.method, "compare_seconds": seconds}
    levels = [each for each in compared.levels if each.kind != "best"]
    return [row(common, compared, each, losses) for each in levels]


def row(common: dict[str, Any], compared: Compared, each: PredictionScores, losses: np.ndarray | None) -> Row:
    low, high = each.kl or (math.nan, math.nan)
    assert each.M is not None
    return Row(
        **common,
        M=each.M,
        points=each.kind,
        log_loss=each.mean_log_loss,
        rmse=float(each.rmse.middle),
        exact_loss_low=compared.log_loss.low,
        exact_loss_high=compared.log_loss.high,
        exact_rmse_low=compared.rmse.low,
        exact_rmse_high=compared.rmse.high,
        difference=each.log_loss.mean,
        enclosure_low=each.log_loss.enclosure.low,
        enclosure_high=each.log_loss.enclosure.high,
        interval_low=each.log_loss.interval.low,
        interval_high=each.log_loss.interval.high,
        verdict=compared.verdict_of(each),
        kl_low=low,
        kl_high=high,
        truth_difference=math.nan if losses is None else float((losses - each.log_losses.middle).mean()),
    )


def of_tables(records: Sequence[Row]) -> list[list[Row]]:
    """The rows of each table, in order of M."""
    names = dict.fromkeys(each.data for each in records)
    return [sorted((each for each in records if each.data == name), key=lambda each: each.M) for name in names]


def model_of(part: Sequence[Row]) -> Row:
    """The row of the model with the recommended number of points."""
    return next(each for each in part if each.points == "model")


def gain(each: Row) -> str:
    """What the exact GP gains: the centre of its interval and half of its width."""
    return (
        f"{-0.5 * (each.interval_low + each.interval_high):.4f} ± {0.5 * (each.interval_high - each.interval_low):.4f}"
    )


def table(records: Sequence[Row]) -> str:
    """A line for each table, in Markdown."""
    heads = ("data", "N", "M", "open from", "how", "plan", "gain at M", "verdict", "gain at M/4", "at the most points")
    lines = [f"| {' | '.join((*heads, 'log loss, exact', 'dense', 'outside'))} |", "|---" * 13 + "|"]
    for part in of_tables(records):
        at = model_of(part)
        known = at.violations >= 0
        cells = (
            at.data,
            str(at.N),
            str(at.recommended) if at.recommended else f"none to {at.M}",
            str(at.above + 1),
            at.how if at.how == "none" else f"{at.how}, {at.planned_rows} rows",
            f"{at.plan_seconds:.0f} s",
            gain(at),
            at.verdict,
            gain(part[0]),
            f"{gain(part[-1])} ({part[-1].M})",
            f"{at.exact_loss_low:.6f} … {at.exact_loss_high:.6f}",
            f"{at.truth_loss:.6f}" if known else "–",
            f"{at.violations} of {at.rows}" if known else "–",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def picture(records: Sequence[Row]) -> Any:
    """What the exact GP gains in log loss, against the number of points over the recommended one."""
    from gpbounds.plotting.elements import BLUE, GREEN, TEXT, VERMILLION, figure, headline

    parts = of_tables(records)
    across = min(3, len(parts))
    down = -(-len(parts) // across)
    page = figure(max(4.2 * across, 7.0), 1.0 + 3.1 * down)
    headline(page, "Log loss, exact GP less sparse GP with the same kernel and noise, and its 95 % interval over rows")
    grid = page.subplots(down, across, squeeze=False).ravel()
    colors = {"enough": GREEN, "not enough": VERMILLION, "open": BLUE}
    for ax, part in zip(grid, parts, strict=False):
        at = model_of(part)
        ax.set_xscale("log", base=2)
        ax.set_yscale("symlog", linthresh=LOSS, linscale=0.8)
        ax.axhline(0.0, color="0.75", linewidth=0.8)
        ax.axhline(-LOSS, color="0.35", linewidth=1.0, linestyle=(0, (1, 2)), label=f"{LOSS:g} nats better")
        ax.plot([e.M / at.M for e in part], [e.difference for e in part], color="0.6", linewidth=0.9, zorder=1)
        for verdict, color in colors.items():
            some = [each for each in part if each.verdict == verdict]
            M = [each.M / at.M for each in some]
            ax.vlines(M, [e.interval_low for e in some], [e.interval_high for e in some], color=color, linewidth=1.6)
            ax.plot(M, [e.difference for e in some], "o", color=color, markersize=5.0, label=verdict)
        ax.set_title(f"{at.data}, N = {at.N}, M = {at.M} ({at.how})", loc="left", fontsize=TEXT)
        ticks = sorted({each.M / at.M for each in part})
        ax.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
        ax.minorticks_off()
        ax.tick_params(labelsize=TEXT - 2)
        ax.set_xlabel("Inducing points over M", fontsize=TEXT - 1)
    for place, ax in enumerate(grid):
        ax.set_visible(ax.has_data())
        ax.set_ylabel("exact − sparse, nats a row" if place % across == 0 else "", fontsize=TEXT - 1)
    grid[0].legend(fontsize=TEXT - 2, frameon=False)
    return page


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--names", nargs="+", default=NAMES, help="tables (default: those of at least 10 000 rows)")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz or NAME.csv, the target last")
    parser.add_argument("--rows", type=int, default=0, help="rows of each table, 0 for all (default %(default)s)")
    parser.add_argument(
        "--tests",
        type=options.whole,
        default=1000,
        help="rows that are compared where the truth is computed, 200 otherwise (default %(default)s)",
    )
    parser.add_argument(
        "--dense",
        type=options.whole,
        default=20_000,
        help="training rows for which the truth is computed; 12 N² bytes (default %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="500 rows of the first two tables")
    parser.add_argument("--seed", type=int, default=0, help="default %(default)s")
    parser.add_argument("--resume", action="store_true", help="keep the tables in the CSV file, and add the others")
    parser.add_argument(
        "--out",
        type=options.picture_file,
        default=Path("examples/output/exact_or_sparse.png"),
        help="picture (default %(default)s)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments()
    args = parser.parse_args(argv)
    if args.quick:
        args.names, args.rows = args.names[:2], 500
    both = {name: [args.folder / f"{name}{end}" for end in (".csv.gz", ".csv")] for name in args.names}
    paths = {name: next((path for path in ends if path.exists()), None) for name, ends in both.items()}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        parser.exit(2, f"exact_or_sparse.py: no {missing[0]}.csv.gz in {args.folder}: pass --folder or --names\n")
    stored = args.out.with_suffix(".csv")
    stored.parent.mkdir(parents=True, exist_ok=True)
    records = load(stored, Row) if args.resume else []
    there = {each.data for each in records if each.seed == args.seed}
    for name, path in tqdm([item for item in paths.items() if item[0] not in there], unit="table"):
        assert path is not None
        records += rows_of(divided(name, path, args.rows, args.seed), args.tests, args.dense, args.seed)
        save(stored, records)
        picture(records).savefig(args.out)
    picture(records).savefig(args.out)
    print(f"\n{table(records)}")
    known = [model_of(part) for part in of_tables(records) if part[0].violations >= 0]
    broken, rows = sum(each.violations for each in known), sum(each.rows for each in known)
    print(f"{broken} of {rows} rows violate the ends of N-solve: {'FAILS' if broken else 'holds'}")
    print(args.out)


if __name__ == "__main__":
    main()
