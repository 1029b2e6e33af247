"""Exact and sparse GPs on many rows: test errors and seconds of the models that Yue & Kontar compare.

    python examples/exact_at_scale.py table.csv.gz [--rows 10000] [--inducing 500] [--methods ...] [--out NAME.csv]
    python examples/exact_at_scale.py table.csv.gz --equal --inducing 1000 --methods egp-bbmm sgp

The target is in the last column.  60 % of the rows train, and at most --test others test; inputs and targets are
standardised by the training rows.  Matérn-3/2 kernel, one lengthscale for each input, noise variance at least 1e-4;
every model begins at the same exact fits of some rows (`start="evidence"`).

    egp-batch   ExactGP by Adam on mini-batches of 64 rows, whose covariances alone are factorised
    egp-bbmm    ExactGP by iterations on all rows (solver="iterative"): the papers' EGP by BBMM, with known errors
    sgp         SparseGP: the variational bound
    pep         SparseGP: power EP, power 1/2
    renyi       RenyiGP: the Rényi bound of order 1/2, by iterations

Seconds are those of the processor, for training with its interval for log p(y), and for predictions.  With --equal
the first method trains as usual, at most --steps steps; each other one trains on until it has used as many seconds as
the first one did in all, or until rounding allows no progress, and keeps its best point.
"""

from __future__ import annotations

import _thread
import argparse
import math
import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from lowrank_setting import write
from regression_sets import Split, errors, split, table_source
from sklearn.exceptions import ConvergenceWarning

from fitting import ExactGP, RenyiGP, SparseGP
from gpbounds.cli import options
from gpbounds.texts import table

METHODS = ("egp-batch", "egp-bbmm", "sgp", "pep", "renyi")
LEAST_NOISE = 1e-4
UNLIMITED = 10**6
"""Steps of a training that ends by its time."""


@dataclass(frozen=True)
class Row:
    """One trained model; ``lower`` and ``upper`` are bounds on log p(y) of the exact GP, where there are any."""

    data: str
    N: int
    method: str
    RMSE: float
    NLPD: float
    training: float
    prediction: float
    iterations: int
    noise: float
    lower: float
    upper: float
    reason: str


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Ctrl-C after so much processor time, where training keeps its best point; ∞: never."""
    if math.isinf(seconds):
        yield
        return
    ended, end = threading.Event(), time.process_time() + seconds

    def interrupt() -> None:
        while not ended.wait(0.02):
            if time.process_time() >= end:
                _thread.interrupt_main()
                return

    clock = threading.Thread(target=interrupt, daemon=True)  # a timer of processor time is no part of Windows
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell lets a job behind `&` ignore it
    clock.start()
    try:
        yield
    finally:
        ended.set()
        clock.join()
        signal.signal(signal.SIGINT, before)


def model(method: str, part: Split, M: int, steps: int, batches: int, seed: int) -> Any:
    shared: dict[str, Any] = {"kernel": part.kernel, "noise": 0.1, "start": "evidence", "random_state": seed}
    shared |= {"limits": {"noise": (LEAST_NOISE, 10.0)}, "max_iter": steps}
    if method == "egp-batch":
        own = {"optimizer": "adam", "batch_size": 64, "learning_rate": 0.01, "max_iter": batches}
        return ExactGP(**(shared | own), solver="iterative")
    if method == "egp-bbmm":
        return ExactGP(**shared, solver="iterative")
    if method == "renyi":
        return RenyiGP(0.5, **shared, solver="iterative", n_inducing=M, inducing="kmeans", learn_inducing=False)
    power = {"power": 0.5} if method == "pep" else {}
    return SparseGP("vfe" if method == "sgp" else "pep", **power, **shared, n_inducing=M, inducing="kmeans")


def score(name: str, part: Split, method: str, args: argparse.Namespace, limit: float = math.inf) -> Row:
    """Train and test one model; below ``limit`` seconds of training it goes on after it has settled."""
    start = time.process_time()
    chosen = model(method, part, args.inducing, args.steps, args.batches, args.seed)
    if math.isfinite(limit):
        chosen.set_params(tol=None, max_iter=UNLIMITED)
    with warnings.catch_warnings(), interrupted_after(limit):
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table holds the reason
        fitted = chosen.fit(part.X, part.y)
    trained = time.process_time()
    mean, std = fitted.predict(part.X_test[: args.test], return_std=True, noisy=True)
    predicted = time.process_time()
    rmse, nlpd = errors(part.y_test[: args.test], mean, std)
    lower, upper = getattr(fitted, "evidence_bounds_", (np.nan, np.nan))
    times = trained - start, predicted - trained
    ends = float(lower), float(upper), fitted.stop_reason_
    return Row(name, len(part.y), method, rmse, nlpd, *times, fitted.n_iter_, fitted.noise_, *ends)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--rows", type=options.whole, default=10_000, help="rows in all (default %(default)s)")
    parser.add_argument("--test", type=options.whole, default=1000, help="most test rows (default %(default)s)")
    parser.add_argument("--inducing", type=options.whole, default=500, help="M of sparse models (default %(default)s)")
    parser.add_argument("--steps", type=options.whole, default=100, help="steps of L-BFGS-B (default %(default)s)")
    parser.add_argument("--batches", type=options.whole, default=5000, help="mini-batches (default %(default)s)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--equal", action="store_true", help="give all methods as much time as the first one takes")
    parser.add_argument("--seed", type=options.whole, default=0)
    parser.add_argument("--out", type=Path, default=Path("examples/output/exact_at_scale.csv"))
    args = parser.parse_args(argv)
    name = args.file.name.split(".")[0]
    try:
        part = split(table_source(name, args.file), args.rows, args.seed)
    except (ValueError, OSError) as error:
        parser.exit(2, f"exact_at_scale.py: {error}\n")
    header, rows = [field.name for field in fields(Row)], []
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for method in args.methods:
        limit = rows[0].training + rows[0].prediction if args.equal and rows else math.inf
        try:
            rows.append(score(name, part, method, args, limit))
        except KeyboardInterrupt:
            parser.exit(1, f"exact_at_scale.py: training of {method} had not begun after {limit:.0f} s\n")
        print(rows[-1], flush=True)
        cells = [[getattr(row, column) for column in header] for row in rows]
        write(args.out, header, cells)
    print(table(header, [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row] for row in cells]))


if __name__ == "__main__":
    main()
