"""Value and gradient of VFE, FITC and the exact GP, and whole fits, beside other libraries where they are installed:

    OPENBLAS_NUM_THREADS=2 OMP_NUM_THREADS=2 python benchmarks/bench_fitting.py [--json FILE] [--data FILE]

The same objective in float64 at the same point, in hyperparameters, noise and inducing inputs; every library in a
process of its own, whose peak memory is reported, too.  Shares are of the time that the products alone would take at
the rate of this machine's own matrix product: 4NM² flops for VFE (solve 1, rank-k 1, product 2), 6NM² for FITC, N³ for
the exact GP (factor ⅓, inverse ⅔).  A fit is SciPy's L-BFGS-B from that point, in each library's own free parameters;
its time is that until F reaches the level which all of them reach.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
from harness import arguments, opening, save
from peers import NOISE, PEERS, Loss, installed

M, DIM = 500, 8
GOALS = {"vfe": 2.5, "exact": 2.5}
FLOPS = {"vfe": lambda N, M: 4.0 * N * M**2, "fitc": lambda N, M: 6.0 * N * M**2, "exact": lambda N, M: float(N) ** 3}


def data(N: int, centres: int, file: str | None) -> tuple[Any, Any, Any]:
    """X (N, 8), y (N,) and Z (centres, 8): smooth and noisy, or the first N rows of a CSV file, standardised."""
    rng = np.random.default_rng(0)
    if file is None:
        X = rng.standard_normal((N, DIM))
        y = np.sin(X @ rng.standard_normal(DIM)) + np.sqrt(NOISE) * rng.standard_normal(N)
    else:
        table = np.genfromtxt(file, delimiter=",", max_rows=N + 1, comments="#")
        table = table[np.isfinite(table).all(axis=1)][:N]  # a heading is a row without numbers
        table = (table - table.mean(axis=0)) / table.std(axis=0)
        X, y = table[:, :-1], table[:, -1]
    return X, y, X[rng.permutation(len(X))[:centres]]


def once(loss: Loss, start: Any, repeats: int) -> dict[str, Any]:
    """Seconds of single evaluations, after one that warms up."""
    value, seconds = -loss(start)[0], []
    for i in range(repeats):
        moved = start + 1e-9 * i  # so that no result can come from a cache
        begin = time.perf_counter()
        loss(moved)
        seconds.append(time.perf_counter() - begin)
    return {"value": value, "seconds": seconds}


def whole(loss: Loss, start: Any, steps: int) -> dict[str, Any]:
    """The curve (seconds, best F so far) of one run of L-BFGS-B, compilation left out."""
    from scipy.optimize import minimize

    loss(start)
    curve: list[tuple[float, float]] = []
    begin = time.perf_counter()

    def watched(x: Any) -> tuple[float, Any]:
        f, g = loss(x)
        best = float(np.fmax(-f, curve[-1][1])) if curve else -f
        curve.append((time.perf_counter() - begin, best))
        return f, g

    minimize(watched, start, jac=True, method="L-BFGS-B", options={"maxiter": steps, "maxcor": 20})
    return {"value": curve[-1][1], "curve": curve}


def child(library: str, task: str, N: int, centres: int, repeats: int, steps: int, file: str | None) -> dict[str, Any]:
    """Times one library on one task in this process."""
    loss, start = PEERS[library][1](task, *data(N, centres, file))
    figures = whole(loss, start, steps) if steps else once(loss, start, repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {**figures, "peak_gb": peak / 1e9}


def product_rate() -> float:
    """Flops a second of a large matrix product."""
    A, rates = np.ones((2000, 2000)), []
    for _ in range(8):
        start = time.perf_counter()
        A @ A
        rates.append(2.0 * 2000.0**3 / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def apart(library: str, task: str, N: int, options: Any, steps: int = 0) -> dict[str, Any] | str:
    """`child` in a process of its own, or why there is no figure."""
    arguments = {
        "child": library,
        "task": task,
        "N": N,
        "centres": options.M,
        "repeats": options.repeats,
        "steps": steps,
    }
    command = [sys.executable, __file__, *(f"--{name}={value}" for name, value in arguments.items())]
    ran = subprocess.run(
        command + ([f"--data={options.data}"] if options.data else []), capture_output=True, text=True, check=False
    )
    if ran.returncode:
        return ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else f"exit status {ran.returncode}"
    figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def compared(seconds: dict[str, float], goal: float | None) -> None:
    """Ours beside the fastest of the others."""
    peers = {name: value for name, value in seconds.items() if name != "fitting"}
    if peers and "fitting" in seconds:
        best = min(peers, key=lambda name: peers[name])
        times = peers[best] / seconds["fitting"]
        verdict = "" if goal is None or times >= goal else f"  MISSED: {goal:g} times"
        print(f"  {times:.2f} times as fast as {best}, the fastest of the others{verdict}", flush=True)


def evaluations(task: str, N: int, options: Any, rate: float) -> list[dict[str, Any]]:
    """One line a library: an evaluation."""
    rows, medians = [], {}
    for name in installed(task):
        figures, label = apart(name, task, N, options), f"{name}, {task}, N = {N}"
        if isinstance(figures, str):
            print(f"{label:<44} {figures}", flush=True)
            continue
        medians[name] = statistics.median(figures["seconds"])
        share = FLOPS[task](N, options.M) / rate / medians[name]
        rows.append({"library": name, "task": task, "N": N, "median_s": medians[name], "share": share, **figures})
        times = f"{1e3 * medians[name]:>6.0f} ms {1e3 * min(figures['seconds']):>6.0f} ms"
        print(f"{label:<44} {times} {figures['peak_gb']:>5.2f} GB {share:>6.0%} {figures['value']:>16.6f}", flush=True)
    compared(medians, GOALS.get(task))
    return rows


def fits(task: str, N: int, options: Any) -> list[dict[str, Any]]:
    """One line a library: a whole fit."""
    curves = {}
    for name in installed(task):
        figures, label = apart(name, task, N, options, options.steps), f"{name}, {task} fit, N = {N}"
        if isinstance(figures, str):
            print(f"{label:<44} {figures}", flush=True)
        else:
            curves[name] = figures
    level = min(figures["value"] for figures in curves.values())
    rows, seconds = [], {}
    for name, figures in curves.items():
        place, (until, _) = next((i, point) for i, point in enumerate(figures["curve"]) if point[1] >= level)
        seconds[name] = until
        rows.append(
            {"library": name, "task": f"{task} fit", "N": N, "level": level, "until_s": until}
            | {"evaluations": place + 1, "final": figures["value"], "peak_gb": figures["peak_gb"]}
        )
        label = f"{name}, {task} fit, N = {N}, to F = {level:.2f}"
        print(
            f"{label:<44} {until:>6.1f} s after {place + 1} evaluations, {figures['peak_gb']:.2f} GB; "
            f"at the end F = {figures['value']:.2f}",
            flush=True,
        )
    compared(seconds, GOALS[task])
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--N", type=int, default=32_000, help="number of data of the sparse tasks (default 32 000)")
    parser.add_argument("--M", dest="M", type=int, default=M, help="inducing points (default %(default)s)")
    parser.add_argument("--exact", type=int, default=2_000, help="number of data of the exact GP (default 2000)")
    parser.add_argument("--steps", type=int, default=60, help="L-BFGS-B iterations of a fit, 0 for none (default 60)")
    parser.add_argument("--data", metavar="FILE", help="CSV file, the target in its last column")
    for name in ("child", "task", "centres"):
        parser.add_argument(f"--{name}", help="for the program's own use")
    options = parser.parse_args()
    if options.child:
        figures = child(
            options.child,
            options.task,
            options.N,
            int(options.centres),
            options.repeats,
            options.steps,
            options.data,
        )
        print(json.dumps(figures))
        return

    about = opening(f"\n{'':<44} {'median':>9} {'least':>9} {'peak':>8} {'share':>6} {'value':>16}")
    rate = product_rate()
    tasks = (("vfe", options.N), ("fitc", options.N), ("exact", options.exact))
    rows = [row for task, N in tasks for row in evaluations(task, N, options, rate)]
    if options.steps:
        rows += fits("vfe", options.N, options) + fits("exact", options.exact, options)
    print(f"\nmatrix product: {rate / 1e9:.0f} GFLOP/s")
    save(options.json, about, rows, gflops=rate / 1e9)


if __name__ == "__main__":
    main()
