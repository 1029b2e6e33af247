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

``--course`` follows default fits of VFE, and the same without the steps on random rows, in place of all this:

    python benchmarks/bench_ends.py --course --names kin40k --rows 36000 --inducing 500 --iterations 110
    python benchmarks/bench_ends.py --course --names generated --rows 100000 --inducing 500 --iterations 45

An evaluation of n of N rows counts n/N.  Columns: evaluations, processor seconds since the fit began, pilot fits and
steps included, and −F/N of the best point so far.  Below: the same where each of ``--levels`` is reached, and how many
evaluations the iterations of L-BFGS-B took.
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


def followed(X: Any, y: Any, inducing: int, iterations: int, steps: bool) -> dict[str, Any]:
    """The course of a default fit of VFE: evaluations, processor and wall seconds, and −F/N after each evaluation."""
    from fitting.estimators import trainer
    from fitting.objectives.objective import Objective

    N, many, minimised = len(y), trainer.MANY, Objective.minimised
    course: list[tuple[float, float, float, float]] = []
    counted, best, began = 0.0, np.inf, (time.process_time(), time.perf_counter())

    def watched(self: Any, point: Any, *, gradient: bool = True) -> Any:
        nonlocal counted, best
        evaluation = minimised(self, point, gradient=gradient)
        if self.is_vfe:  # the pilot fits are of an exact GP
            counted += self.N / N
            best = min(best, evaluation.value / N) if self.N == N else best
            course.append((counted, time.process_time() - began[0], time.perf_counter() - began[1], best))
        return evaluation

    trainer.MANY = many if steps else np.inf
    Objective.minimised = watched  # type: ignore[method-assign]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # most fits use all iterations
            model = SparseGP(n_inducing=inducing, random_state=0, max_iter=iterations).fit(X, y)
    finally:
        trainer.MANY, Objective.minimised = many, minimised  # type: ignore[method-assign]
    run = model.runs_[0]
    counts = {"iterations": run.iterations, "evaluations": run.evaluations, "reason": run.reason}
    return {"steps": steps, **counts, "history": (-model.history_ / N).tolist(), "course": course}


def courses(name: str, options: Any) -> dict[str, Any]:
    """A default fit with the steps on random rows beside one without, in lines."""
    X, y = table(name, options.data, options.rows)
    print(f"\nVFE {name}, N = {len(y)}, D = {X.shape[1]}, M = {options.inducing}", flush=True)
    fits = []
    for steps in (True, False)[: 1 if options.steps_only else 2]:
        fit = followed(X, y, options.inducing, options.iterations, steps)
        fits.append(fit)
        counted, processor, _, best = np.array(fit["course"]).T
        print(f"{'with' if steps else 'without'} steps: {'eval.':>8} {'s':>8} {'value':>9}")
        marks = [*np.arange(10.0, counted[-1], 10.0), counted[-1]]
        lines = [("", int(np.searchsorted(counted, mark))) for mark in marks]
        lines += [(f"to {level:g}", int(np.argmax(best <= level))) for level in options.levels if best[-1] <= level]
        for text, i in lines:
            print(f"{text:<14} {counted[i]:>8.1f} {processor[i]:>8.1f} {best[i]:>9.4f}")
        print(f"{fit['evaluations']} evaluations in {fit['iterations']} iterations of L-BFGS-B", flush=True)
    return {"name": name, "N": len(y), "D": X.shape[1], "M": options.inducing, "fits": fits}


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
    parser.add_argument(
        "--course", action="store_true", help="the course of fits with and without steps on random rows"
    )
    parser.add_argument("--levels", type=float, nargs="+", default=[], help="values of --course, in nats per datum")
    parser.add_argument("--steps-only", action="store_true", help="leave the fit without the steps out of --course")
    options = parser.parse_args()
    if options.course:
        about = opening()
        save(options.json, about, [courses(name, options) for name in options.names])
        return
    heads = f"{'near':>5} {'iter.':>5} {'eval.':>6} {'default':>9} {'eval.':>6} {'whole':>9} {'value':>10} {'left':>9}"
    about = opening(f"\n{'':<48} {heads}")
    kinds = tuple(GOALS) if options.only is None else (options.only,)
    rows = [compared(kind, name, options) for kind in kinds for name in options.names]
    save(options.json, about, rows, peers=beside(options) if options.peers else [])


if __name__ == "__main__":
    main()
