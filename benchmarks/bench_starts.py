"""Where training ends, from the scale of the data, from the default start, and from random ones:

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/bench_starts.py --data DIR [--json FILE]

Sets: every CSV file in DIR (the target in its last column), and generated ones with 2, 8, 30 and 100 inputs of which at
most four matter.  Of each set, --rows rows are trained on and 3/7 as many tested, standardised by the training rows.
Random starts are log-normal about the scale of the data, with a standard deviation of 1 of every logarithm, and no
further than 2.  Figures: F in nats per datum, or the PAC-Bayes bound B; RMSE and log loss of test targets; seconds of
processor time of the whole fit.  A start succeeds where it ends within .01 nats (.001 of B) of the best that any start
reaches.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import arguments, opening, save

from fitting import ExactGP, SparseGP, SparsePACGP
from gpbounds import SquaredExponential
from gpbounds.errors import NonFinite, NotPositiveDefinite
from gpbounds.rows import read_table

WITHIN = {"vfe": 0.01, "fitc": 0.01, "exact": 0.01, "pac": 0.001}
GOAL_SHARE, GOAL_TIME = 0.95, 1.3


def smooth(X: Any, rng: Any) -> Any:
    """A draw of a squared exponential process on the first two or four inputs, by random features."""
    R, features = (2 if X.shape[1] < 30 else 4), 2000
    phases = X[:, :R] @ rng.standard_normal((R, features)) * 2.0 / np.sqrt(R) + 2.0 * np.pi * rng.random(features)
    return np.sqrt(2.0 / features) * np.cos(phases) @ rng.standard_normal(features)


def mixed(X: Any, rng: Any) -> Any:
    """Smooth in one product of inputs, faster in another."""
    a, b, c, d = (X[:, i % X.shape[1]] for i in range(4))
    return np.sin(2.0 * a) * np.cos(b) + np.sin(2.0 * c + d)


def sums(X: Any, rng: Any) -> Any:
    """Two fast sines and a product."""
    a, b, c, d = (X[:, i % X.shape[1]] for i in range(4))
    return np.sin(3.0 * a) + np.sin(3.0 * b) + 0.5 * c * d


def products(X: Any, rng: Any) -> Any:
    """A sine of a product, which no input alone shows."""
    a, b, c, d = (X[:, i % X.shape[1]] for i in range(4))
    return np.sin(2.0 * a * b) + np.cos(2.0 * c + 2.0 * d)


def sets(folder: Path | None, rows: int, seed: int) -> Iterator[tuple[str, Any, Any]]:
    """(name, X, y), rows in random order."""
    total = round(rows / 0.7)
    for D in (2, 8, 30, 100):
        for make in (smooth, mixed, sums, products):
            rng = np.random.default_rng([seed, D, *make.__name__.encode()])
            X = rng.standard_normal((total, D))
            clean = make(X, rng)
            yield f"{make.__name__}, {D} inputs", X, clean + 0.15 * clean.std() * rng.standard_normal(total)
    for path in sorted(folder.glob("*.csv*")) if folder else ():
        name = path.name.partition(".csv")[0]
        if "mask" not in name:
            table, _ = read_table(path)
            table = table[np.random.default_rng([seed, *name.encode()]).permutation(len(table))[:total]]
            yield name, table[:, :-1], table[:, -1]


def halves(X: Any, y: Any) -> tuple[Any, Any, Any, Any]:
    """Training and test rows, standardised by the training rows, without columns that are constant there."""
    N = round(0.7 * len(y))
    varies = X[:N].std(axis=0) > 0.0
    X = (X[:, varies] - X[:N, varies].mean(axis=0)) / X[:N, varies].std(axis=0)
    y = (y - y[:N].mean()) / y[:N].std()
    return X[:N], y[:N], X[N:], y[N:]


def model_of(kind: str, options: Any, **settings: Any) -> Any:
    settings |= {"max_iter": options.steps, "random_state": 0}
    if kind == "exact":
        return ExactGP(**settings)
    if kind == "pac":
        return SparsePACGP(n_inducing=options.M, **settings)
    return SparseGP(kind, n_inducing=options.M, **settings)


def fit(kind: str, options: Any, data: Any, **settings: Any) -> dict[str, Any]:
    """The figures of one fit."""
    X, y, X_test, y_test = data
    begin, wall = time.process_time(), time.perf_counter()
    model = model_of(kind, options, **settings).fit(X, y)
    seconds, wall = time.process_time() - begin, time.perf_counter() - wall
    mean, std = model.predict(X_test, return_std=True, noisy=True)
    z = (y_test - mean) / std
    return {
        "objective": model.objective_ if kind == "pac" else model.objective_ / len(y),
        "rmse": float(np.sqrt(np.mean((mean - y_test) ** 2))),
        "log_loss": float(np.mean(np.log(std) + 0.5 * z**2) + 0.5 * np.log(2.0 * np.pi)),
        "seconds": seconds,
        "wall_seconds": wall,
        "iterations": [run.iterations for run in model.runs_],
        "remarks": [remark.kind for remark in model.remarks_],
    }


def random_start(rng: Any, D: int) -> dict[str, Any]:
    """A kernel and a noise, log-normal about those of ``start="scale"`` for standardised data, within factors of
    e^2, so that lengthscales lie in the grid of the PAC-Bayes estimators."""
    moved = np.exp(np.clip(rng.standard_normal(D + 2), -2.0, 2.0))
    return {"kernel": SquaredExponential(moved[0], np.sqrt(D) * moved[2:]), "noise": 0.1 * moved[1]}


def compared(kind: str, name: str, options: Any, data: Any) -> dict[str, Any] | None:
    """All starts on one set, one printed line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: dict[str, Any] = {start: fit(kind, options, data, start=start) for start in ("scale", "auto")}
        rng, drawn = np.random.default_rng(1), []
        for _ in range(options.random):
            try:
                drawn.append(fit(kind, options, data, **random_start(rng, data[0].shape[1])))
            except (NotPositiveDefinite, NonFinite):  # no value at this start
                continue
    best = max(each["objective"] for each in (*found.values(), *drawn))
    within = [each["objective"] >= best - WITHIN[kind] for each in drawn]
    row = {"model": kind, "set": name, "N": len(data[1]), "D": data[0].shape[1], "best": best, **found, "random": drawn}
    marks = ["*" if found[start]["objective"] < best - WITHIN[kind] else " " for start in ("scale", "auto")]
    columns = [
        f"{found[start]['objective']:9.4f}{mark} {found[start]['rmse']:6.3f} {found[start]['log_loss']:7.3f} "
        f"{found[start]['seconds']:6.1f} s"
        for start, mark in zip(("scale", "auto"), marks, strict=True)
    ]
    print(
        f"{kind:<5} {name:<22} {row['D']:>3} | {' | '.join(columns)} | {best:9.4f}  {sum(within)}/{len(drawn)}",
        flush=True,
    )
    return row


def summary(kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares of sets on which each start succeeds, and the ratio of total times where both do.

    Where one of them ends at a worse optimum, often at noise, its fit is shorter.
    """
    own = [row for row in rows if row["model"] == kind]
    succeeds = {
        start: np.array([row[start]["objective"] >= row["best"] - WITHIN[kind] for row in own])
        for start in ("scale", "auto")
    }
    share = {start: float(where.mean()) for start, where in succeeds.items()}
    both = [row for row, comparable in zip(own, succeeds["scale"] & succeeds["auto"], strict=True) if comparable]
    times = {start: sum(row[start]["seconds"] for row in both) for start in ("scale", "auto")}
    ratio = times["auto"] / times["scale"] if both else float("nan")
    noise = {start: sum("noise" in row[start]["remarks"] for row in own) for start in ("scale", "auto")}
    missed = [
        text
        for text, holds in ((f"{GOAL_SHARE:.0%}", share["auto"] >= GOAL_SHARE), (f"{GOAL_TIME} ×", ratio <= GOAL_TIME))
        if not holds
    ]
    print(
        f"{kind}: within {WITHIN[kind]} of the best on {share['scale']:.0%} of {len(own)} sets from the scale, on "
        f"{share['auto']:.0%} by default; {noise['scale']} and {noise['auto']} end at noise; time {ratio:.2f} × "
        f"on the {len(both)} sets where both succeed"
        f"{'  MISSED: ' + ', '.join(missed) if missed else ''}"
    )
    return {"model": kind, "sets": len(own), "share": share, "noise": noise, "time_ratio": ratio, "both": len(both)}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of CSV files; without it, generated sets only")
    parser.add_argument(
        "--rows", type=int, default=1000, help="training rows of each set, at most (default %(default)s)"
    )
    parser.add_argument("--M", type=int, default=50, help="inducing points (default %(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="iterations of each training (default %(default)s)")
    parser.add_argument("--random", type=int, default=10, help="number of random starts (default %(default)s)")
    parser.add_argument("--models", nargs="+", choices=tuple(WITHIN), default=["vfe", "pac"])
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="sets whose names contain one of these")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    titles = f"{'F or B, * not best':>10} {'rmse':>6} {'loss':>7} {'time':>8}"
    about = opening(
        f"\n{'':<5} {'':<22} {'D':>3} | scale: {titles} | default: the same | best, random ones that reach it"
    )
    rows = [
        row
        for kind in options.models
        for name, X, y in sets(options.data, options.rows, options.seed)
        if any(part in name for part in options.only)
        if (row := compared(kind, name, options, halves(X, y)))
    ]
    totals = [summary(kind, rows) for kind in options.models]
    settings = {key: getattr(options, key) for key in ("rows", "M", "steps", "random", "seed")}
    save(options.json, about, rows, totals=totals, settings=settings)


if __name__ == "__main__":
    main()
