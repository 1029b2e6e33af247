"""Where default fits stop: evaluations, time, and the distance of the objective from what 1000 iterations reach:

    python benchmarks/bench_ends.py [--json FILE] [--data DIRECTORY] [--names NAME ...] [--only vfe|pac]

For each data set, a fit with the defaults of `SparseGP` (VFE, in nats per datum) or `SparsePACGP` (in units of its
bound) beside one without tolerance (``tol=None``).  The goals: no more than .01 nats per datum, or .001 of the bound,
is left, and the default takes a fraction of the time.  The data are CSV files, gzipped or not, with the target in the
last column, of which ``--rows`` random rows are standardised; "generated" has 8 inputs.  The iteration under "near" is
the first whose value is so close to the last one.  Two large cases:

    python benchmarks/bench_ends.py --only vfe --names generated kin40k --rows 32000 --inducing 500 --iterations 300
    python benchmarks/bench_ends.py --only pac --names FILE --rows 12000 --inducing 500 --iterations 0

``--iterations 0`` leaves the fit without tolerance out.  ``--peers`` adds the seconds in which the other libraries of
`bench_fitting.py` reach the value F at which the default VFE fit of its generated data stops: the same objective of the
same model, so that equal values mean equal predictions up to the choice among equally good optima.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import bench_fitting
import numpy as np
from harness import arguments, opening, save
from peers import installed

from fitting import SparseGP, SparsePACGP

GOALS = {"vfe": 0.01, "pac": 0.001}
NAMES = ("generated", "abalone", "bike", "concrete", "elevators", "energy", "housing", "kin40k", "protein")


def table(name: str, folder: Path, rows: int) -> tuple[Any, Any]:
    """X and y of ``rows`` random rows, standardised."""
    if name == "generated":
        X, y, _ = bench_fitting.data(rows, 1, None)
        return X, (y - y.mean()) / y.std()
    path = next((p for p in (folder / f"{name}.csv.gz", folder / f"{name}.csv", Path(name)) if p.exists()), None)
    if path is None:
        raise SystemExit(f"--names: expected data sets in {folder}, got {name!r}")
    numbers = np.genfromtxt(path, delimiter=",", comments="#")
    numbers = numbers[np.isfinite(numbers).all(axis=1)]  # a heading is a row without numbers
    numbers = numbers[np.random.default_rng(0).permutation(len(numbers))[:rows]]
    spread = numbers.std(axis=0)
    numbers = (numbers - numbers.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return numbers[:, :-1], numbers[:, -1]


def fitted(kind: str, X: Any, y: Any, inducing: int, **settings: Any) -> dict[str, Any]:
    """Iterations, evaluations, seconds, and the objective: −F/N or the bound."""
    model = (SparseGP if kind == "vfe" else SparsePACGP)(n_inducing=inducing, random_state=0, **settings)
    start, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the remarks are in the record
        model.fit(X, y)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    value = -model.objective_ / (len(y) if kind == "vfe" else 1.0)
    counts = {"iterations": model.n_iter_, "evaluations": sum(run.evaluations for run in model.runs_)}
    path = np.minimum.accumulate(-model.history_ / (len(y) if kind == "vfe" else 1.0))
    near = int(np.argmax(path <= path[-1] + GOALS[kind]))  # the iteration that brings the value close to the last one
    times = {"seconds": seconds, "processor_seconds": processor}
    return {**counts, **times, "value": value, "near": near, "reason": model.stop_reason_}


def compared(kind: str, name: str, options: Any) -> dict[str, Any]:
    """One line: the default beside a fit without tolerance."""
    X, y = table(name, options.data, options.rows)
    default = fitted(kind, X, y, options.inducing)
    row = {"kind": kind, "name": name, "N": len(y), "D": X.shape[1], "M": options.inducing, "default": default}
    label = f"{kind} {name}, N = {len(y)}, D = {X.shape[1]}, M = {options.inducing}"
    counts = f"{default['near']:>5} {default['iterations']:>5} {default['evaluations']:>6}"
    text = f"{label:<48} {counts} {default['seconds']:>7.1f} s"
    if options.iterations:
        whole = fitted(kind, X, y, options.inducing, tol=None, max_iter=options.iterations)
        left = default["value"] - whole["value"]
        row |= {"whole": whole, "left": left, "goal": GOALS[kind]}
        text += f" {whole['evaluations']:>6} {whole['seconds']:>7.1f} s {default['value']:>10.5f} {left:>9.5f}"
        text += "" if left <= GOALS[kind] else f"  MISSED: {GOALS[kind]:g}"
    else:
        text += f" {default['value']:>10.5f}"
    print(text, flush=True)
    return row


def beside(options: Any) -> list[dict[str, Any]]:
    """Seconds until each library reaches the value of the default fit on the data of `bench_fitting.py`."""
    X, y, _ = bench_fitting.data(options.rows, 1, None)
    default = fitted("vfe", X, y, options.inducing)
    level, rows = -default["value"] * len(y), [{"library": "fitting, default fit", **default}]
    print(f"\nto F = {level:.2f}: the default fit {default['seconds']:.1f} s, {default['evaluations']} evaluations")
    about = type("About", (), {"M": options.inducing, "repeats": 7, "data": None})
    for library in installed("vfe"):
        figures = bench_fitting.apart(library, "vfe", options.rows, about, options.steps)
        if isinstance(figures, str):
            print(f"{library:<20} {figures}")
            continue
        until = next((seconds for seconds, value in figures["curve"] if value >= level), None)
        rows.append({"library": library, "until_s": until, "final": figures["value"]})
        print(
            f"{library:<20} {'not reached' if until is None else f'{until:.1f} s'}, at the end {figures['value']:.2f}"
        )
    return rows


def main() -> None:
    parser = arguments(__doc__)
    folder = Path(__file__).resolve().parents[2] / "shared" / "data" / "uci"
    parser.add_argument("--data", type=Path, default=folder, help="directory of the CSV files (default %(default)s)")
    parser.add_argument("--names", nargs="+", default=NAMES, help="data sets: names, paths, or generated")
    parser.add_argument("--only", choices=tuple(GOALS), help="one of the two estimators")
    parser.add_argument("--rows", type=int, default=2000, help="rows of each data set, at most (default %(default)s)")
    parser.add_argument("--inducing", type=int, default=60, help="inducing points (default %(default)s)")
    parser.add_argument("--iterations", type=int, default=1000, help="of the fit without tolerance; 0 for none")
    parser.add_argument("--peers", action="store_true", help="compare with other libraries on generated data")
    parser.add_argument("--steps", type=int, default=300, help="L-BFGS-B iterations of --peers (default %(default)s)")
    options = parser.parse_args()
    heads = f"{'near':>5} {'iter.':>5} {'eval.':>6} {'default':>9} {'eval.':>6} {'whole':>9} {'value':>10} {'left':>9}"
    about = opening(f"\n{'':<48} {heads}")
    kinds = tuple(GOALS) if options.only is None else (options.only,)
    rows = [compared(kind, name, options) for kind in kinds for name in options.names]
    save(options.json, about, rows, peers=beside(options) if options.peers else [])


if __name__ == "__main__":
    main()
