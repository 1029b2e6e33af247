"""The studies of the Rényi GP (Yue & Kontar, papers 000 and 003), each claim with the verdict of our numbers.

    python examples/renyi_study.py PART [--quick] [--resume] [--minutes 10] [--sets ...] [--seeds 5] [--out DIR]

    boxplots   Fig. 1: RMSE on Gramacy & Lee, Branin and Griewank-4, 1000 points, M = 50, 30 splits, both kernels
    orders     Fig. 2: RMSE and NLPD against 20 orders in [.05, .95] on bike_hourly
    tables     Table 1 and App. F: RMSE and NLPD on four data sets, orders by cross-validation
    inducing   Table 2: M × α on traffic
    sizes      does the advantage of the Rényi GP grow with N?
    sharpness  Table 3: sharpness of the optima by method, bike_hourly and pm25, 150 training rows, 10 splits
    times      Table 4: time of training with and without learned inducing points, on traffic
    large      Table 1 and App. F with 6000 training rows: EGP and Rényi by mini-batches

EGP is the exact GP, SGP the variational sparse GP (VFE), PEP power EP with several powers (1 is FITC).  All train by
L-BFGS-B on all rows, at most 40 iterations, from the same start; the seed draws rows, split (60 % train) and the
starting lengthscale.  Columns and boxes marked * use the order with the least mean *test* error, as the papers do; the
others of `tables` the order that cross-validation on the training rows chooses, for each split.

Smaller than the papers': 500 random rows of a table, 300 of which train (`sizes` 120 to 1500, `sharpness` 150, `times`
1800), M of 12 to 100 instead of 1024, 3 folds, five orders for `tables`, 5 splits of tables.  `--rows` and
`--inducing` ask for more; a step of the Rényi GP takes O(N³) time.  Mini-batches, by which the papers train, would sum
bounds of independent subsets, which is no bound on log p(y) of all rows; only EGP and Rényi of `large` have them, whose
models all begin at an exact GP of 500 of the rows (`renyi_large`), and `--inducing 0` has as many inducing points as
bring the gap below 1 nat: there SGP, PEP and Rényi of one kernel and noise are one GP.  RMSE is in standard deviations
of y: predicting the mean has RMSE 1, and no sensible model reaches the values above 8 that the papers print for
standardised data; so only orders of methods are compared.

A CSV file beside each picture holds every model and grows by each; --resume continues from it, and --minutes limits the
processor time of one call.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import renyi_large
import renyi_pictures
import renyi_sharpness
import renyi_tables
from regression_sets import UCI
from renyi_large import Large, Timed
from renyi_setting import KERNELS, METHODS, TABLES, TOYS, Group, Part, Score, groups, run, source, trained
from renyi_sharpness import Flat, measured

from gpbounds import validation
from gpbounds.cli import options

ORDERS, POWERS = (0.2, 0.35, 0.5, 0.65, 0.8), (0.25, 0.5, 0.75, 1.0)
TWENTY = tuple(float(a) for a in np.linspace(0.05, 0.95, 20).round(4))
PARTS = {
    "boxplots": Part(TOYS, (1000,), (50,), 30, ORDERS, POWERS, kernels=KERNELS),
    "orders": Part(("bike_hourly",), (500,), (50,), 5, TWENTY, POWERS),
    "tables": Part(TABLES, (500,), (50,), 5, (0.1, 0.35, 0.5, 0.65, 0.9), POWERS, folds=3),
    "inducing": Part(
        ("traffic",), (500,), (12, 25, 50, 100), 5, (0.2, 0.4, 0.5, 0.6, 0.8), POWERS, methods=("PEP", "Rényi")
    ),
    "sizes": Part(TABLES, (200, 500, 1000, 2500), (50,), 5, (0.5,), (0.5,)),
    "sharpness": Part(
        ("bike_hourly", "pm25"), (250,), (25,), 10, (0.2, 0.4, 0.5, 0.6, 0.8), (0.5, 1.0), steps=200, tol=1e-5
    ),
    "times": Part(("traffic",), (3000,), (100,), 2, (0.5,), (0.5,), learned=(1, 0), steps=15, tol=None),
    "large": Large(TABLES, (10_000,), (50,), 10, (0.5,), (0.5,), steps=300, tol=0.005),
}
QUICK: dict[str, Any] = {"rows": (120,), "M": (12,), "seeds": 2, "steps": 12}
"""What ``--quick`` changes in every part."""
FEWER: dict[str, Any] = {"pilot": 40, "batch": 30, "batches": 12}
"""What it changes in `Large`, too."""
KINDS = {"sharpness": (measured, Flat), "large": (renyi_large.measured, Timed)}
"""How a model is trained and tested, and the kind of its record; of the other parts `trained` and `Score`."""


def report(part: str, complete: Sequence[Group]) -> list[str]:
    """The tables and verdicts of a part."""
    metrics = ("RMSE", "NLPD")
    if part == "sizes":
        return [renyi_tables.by_size(complete)]
    if part == "times":
        return [renyi_tables.by_time(complete)]
    if part == "large":
        return [f"\n{renyi_large.table(complete, metric)}\n" for metric in metrics] + [renyi_large.by_time(complete)]
    if part == "sharpness":
        tables = [f"\n{renyi_sharpness.table(group)}\n" for group in complete]
        printed = [f"Printed, {data}: {values}." for data, values in renyi_sharpness.PRINTED.items()]
        return [*tables, *printed, *renyi_sharpness.claims(complete)]
    if part == "inducing":
        text = [f"\n{renyi_tables.by_inducing(complete, metric)}\n" for metric in metrics]
    else:
        text = [renyi_tables.line(group, metric) for group in complete for metric in metrics]
    if part == "boxplots":
        text.append(f"\n{renyi_tables.by_function(complete)}\n")
    if part == "tables":
        text += [f"\n{renyi_tables.by_cross_validation(complete, metric)}\n" for metric in metrics]
        text += renyi_tables.ranking(complete)
    return text + renyi_tables.claims(complete)


def picture(part: str, complete: Sequence[Group]) -> Any:
    """The picture of a part."""
    counts = sorted({len(group.seeds) for group in complete})
    splits = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) + (" split" if counts == [1] else " splits")
    N = round(0.6 * complete[0].rows)
    if part == "orders":
        return renyi_pictures.curves(complete, f"Test errors against the order α: {N} training rows, {splits}")
    if part == "sizes":
        return renyi_pictures.sizes(
            complete, f"RMSE against N (mean and standard error), α = ½ and power ½, M = {complete[0].M}, {splits}"
        )
    if part == "times":
        title = f"Processor seconds of an iteration, N = {N}, {splits}"
        return renyi_pictures.bars(complete, title)
    if part == "sharpness":
        return renyi_sharpness.picture(complete, f"Sharpness of the optima (Keskar et al., ε = 0.001), {splits}")
    return renyi_pictures.boxplots(
        complete, f"RMSE over {splits}; PEP at its best power (chosen by the test rows), Rényi by α"
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("part", metavar="PART", choices=tuple(PARTS), help=", ".join(PARTS))
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="toy functions, or NAME.csv.gz in --folder")
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, help="default: both for boxplots, else matern32")
    parser.add_argument(
        "--rows", type=options.wholes, help="rows of a data set, 60 %% of which train, or several numbers"
    )
    parser.add_argument(
        "--inducing", type=options.wholes, help="numbers M of inducing points; 0, for large: as many as theory asks for"
    )
    parser.add_argument("--seeds", type=options.whole, help="number of splits")
    parser.add_argument("--steps", type=options.whole, help="iterations of L-BFGS-B at most")
    parser.add_argument("--batches", type=options.whole, help="mini-batches of EGP and Rényi, for large")
    parser.add_argument("--methods", nargs="+", choices=METHODS, help="default: all")
    parser.add_argument("--orders", type=options.numbers, help="orders α of the Rényi GP, separated by commas")
    parser.add_argument("--folder", type=Path, default=UCI, help="holds NAME.csv.gz, the target in the last column")
    parser.add_argument("--quick", action="store_true", help="72 training rows, 2 splits, 12 iterations: half a minute")
    parser.add_argument("--resume", action="store_true", help="keep the models in the CSV file")
    parser.add_argument(
        "--minutes", type=options.number, default=math.inf, help="begin no model after so much processor time"
    )
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder (default %(default)s)")
    args = parser.parse_args(argv)
    given = {name: getattr(args, name) for name in ("rows", "seeds", "steps", "kernels", "orders", "sets", "methods")}
    given |= {"M": args.inducing, "batches": args.batches}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if value}
    chosen = PARTS[args.part]
    if args.batches and not isinstance(chosen, Large):
        parser.error(f"--batches: only large has mini-batches, got {args.part}")
    smaller = {**QUICK, **(FEWER if isinstance(chosen, Large) else {})} if args.quick else {}
    settings = replace(chosen, **{**smaller, **given})
    try:
        for name, values, least in (
            ("--rows", settings.rows, 10),
            ("--inducing", settings.M, 0 if isinstance(settings, Large) else 1),
            ("--seeds", (settings.seeds,), 1),
            ("--steps", (settings.steps,), 1),
        ):
            for value in values:
                validation.count(name, value, least)
        missing = [name for name in settings.sets if source(name, args.folder) is None]
    except (ValueError, OSError) as error:
        parser.exit(2, f"renyi_study.py: {error}\n")
    if missing:
        print(f"No {', '.join(missing)} in {args.folder}: pass --folder.")
    settings = replace(settings, sets=tuple(name for name in settings.sets if name not in missing))
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"renyi_{args.part}.png"
    train, kind = KINDS.get(args.part, (trained, Score))
    scores = run(
        settings.jobs(),
        path.with_suffix(".csv"),
        kind,
        lambda job: train(job, settings, args.folder),
        args.resume,
        args.minutes,
    )
    complete = groups(scores, settings)
    if not complete:
        parser.exit(
            2, f"renyi_study.py: no split has all its models; {len(scores)} are in {path.with_suffix('.csv')}\n"
        )
    picture(args.part, complete).savefig(path)
    print("\n".join(report(args.part, complete)))
    unfinished = sum("Converged" not in s.stopped and "Stopped" not in s.stopped for s in scores)
    print(f"{unfinished} of {len(scores)} trainings used all their iterations (column `stopped`).")
    print(f"{sum(s.seconds for s in scores) / 60.0:.1f} minutes of processor time for training, without folds.")
    print(path)


if __name__ == "__main__":
    main()
