"""Time and peak memory of one checkout, or of two of them alternately in one run: this machine's load varies.

    python tests/frozen/bench.py CHECKOUT_A CHECKOUT_B           # ratios B / A: medians, and the least times
    python tests/frozen/bench.py CHECKOUT_A CHECKOUT_B --only vfe --rounds 9 --threads 1
    python tests/frozen/bench.py . --write                       # figures of this checkout into benchmarks.json

Every measurement is a process of its own: the order is A B, B A, A B, ... so that a load that grows or falls favours
neither.  An evaluation is a value with its gradient, after one that warms up.  Names that were renamed are looked up in
each checkout's own ``tests/frozen/renamed.py``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import types
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
N, M, DIM, EXACT = 32_000, 500, 8, 2000
TASKS = ("vfe", "exact", "pac fitc", "import gpbounds", "import fitting", "load gpbounds", "load fitting")
"""To import a package is light; to load it means to ask for each of its public names."""
REPEATS = 2
"""Evaluations a process, after the first."""


def vocabulary(checkout: Path) -> Any:
    """How calls are spelled in a checkout: by its own renamings, or by none where it has no such file."""
    if (checkout / "tests" / "frozen" / "renamed.py").exists():
        sys.path.insert(0, str(checkout / "tests" / "frozen"))
    else:
        empty = types.ModuleType("renamed")
        empty.__dict__.update(PLACES={}, ARGUMENTS={}, ATTRIBUTES={}, CLASSES={})
        sys.modules["renamed"] = empty
    import language

    return language


def problem(task: str, language: Any) -> Any:
    """A function that evaluates once, value and gradient."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = EXACT if task == "exact" else N
    X = rng.standard_normal((rows, DIM))
    y = np.sin(X @ rng.standard_normal(DIM)) + 0.3 * rng.standard_normal(rows)
    Z = X[rng.permutation(rows)[:M]]
    call, then, evaluate = language.call, language.then, language.evaluate
    if task == "pac fitc":
        loss = call("gpbounds.losses.Band", epsilon=0.6)
        source = evaluate(call("fitting.bounds.risk_bound", X=X, y=y, loss=loss, delta=0.01))
    else:
        source = evaluate(call("fitting.objective", X=X, y=y, method=task))
    kernel = evaluate(language.se(1.0, [3.0] * DIM))
    inducing = {} if task == "exact" else {"Z": Z}

    def once(noise: float) -> float:
        return float(
            language.evaluate(language.part(then(source, "evaluate", kernel=kernel, noise=noise, **inducing), "value"))
        )

    return once


def evaluates(task: str) -> bool:
    """Whether a task evaluates an objective, rather than to import."""
    return not task.startswith(("import ", "load "))


def child(task: str, checkout: Path) -> dict[str, Any]:
    """Measure in this process."""
    if not evaluates(task):
        begin, used = time.perf_counter(), time.process_time()
        module = importlib.import_module(task.partition(" ")[2])
        for name in module.__all__ if task.startswith("load ") else ():
            getattr(module, name)
        record = {"seconds": [time.perf_counter() - begin], "cpu": [time.process_time() - used], "value": 0.0}
    else:
        once = problem(task, vocabulary(checkout))
        value, seconds, cpu = once(0.1), [], []
        for i in range(REPEATS):
            begin, used = time.perf_counter(), time.process_time()
            once(0.1 * (1.0 + 1e-9 * (i + 1)))  # so that no result can come from a cache
            seconds.append(time.perf_counter() - begin)
            cpu.append(time.process_time() - used)
        record = {"seconds": seconds, "cpu": cpu, "value": value}
    import gpbounds

    assert Path(gpbounds.__file__).is_relative_to(checkout), f"gpbounds is {gpbounds.__file__}, not that of {checkout}"
    return {**record, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measured(task: str, checkout: Path, threads: int) -> dict[str, Any]:
    """`child` in a fresh process with the code of ``checkout``."""
    numbers = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    ran = subprocess.run(
        [sys.executable, __file__, checkout, "--task", task],
        env={**os.environ, "PYTHONPATH": str(checkout), **numbers},
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        sys.exit(f"{task} in {checkout}: {ran.stderr[-3000:]}")
    return json.loads(ran.stdout.splitlines()[-1])


def rounds(task: str, checkouts: list[Path], count: int, threads: int) -> list[dict[str, Any]]:
    """Figures of each checkout, measured alternately."""
    timings: list[list[dict[str, Any]]] = [[] for _ in checkouts]
    for i in range(count):
        order = range(len(checkouts)) if i % 2 == 0 else reversed(range(len(checkouts)))
        for which in order:
            timings[which].append(measured(task, checkouts[which], threads))
    return [summary(each) for each in timings]


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of several processes."""
    seconds = sorted(second for run in runs for second in run["seconds"])
    cpu = [second for run in runs for second in run["cpu"]]
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else seconds * 3
    return {
        "median_s": statistics.median(seconds),
        "quartiles_s": [low, high],
        "least_s": seconds[0],
        "median_cpu_s": statistics.median(cpu),
        "least_cpu_s": min(cpu),
        "peak_mb": statistics.median(run["peak_mb"] for run in runs),
        "value": runs[0]["value"],
        "measurements": len(seconds),
    }


def surroundings(checkout: Path) -> dict[str, Any]:
    """What else moves the figures."""
    git = ["git", "-C", str(checkout), "log", "-1", "--format=%H", "--", "gpbounds", "fitting"]
    model = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return {
        "commit": subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip(),
        "processor": model[0] if model else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy")},
    }


def row(name: str, figures: dict[str, Any]) -> str:
    """One line of figures."""
    low, high = figures["quartiles_s"]
    return (
        f"{name:<28} {figures['median_s']:>8.3f} s ({low:.3f} to {high:.3f}) {figures['least_s']:>8.3f} s least "
        f"{figures['least_cpu_s']:>8.3f} s of processor {figures['peak_mb']:>7.0f} MB"
    )


def main() -> None:
    """Measure, and print or store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT", help="one, or two to be compared")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=TASKS, metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--rounds", type=int, default=5, help="processes of each checkout and task (default 5)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="BLAS threads, one or several (default 1)")
    parser.add_argument("--write", action="store_true", help="store the figures of one checkout in benchmarks.json")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    checkouts = [path.resolve() for path in options.checkouts]
    if options.task:
        print(json.dumps(child(options.task, checkouts[0])))
        return
    if len(checkouts) > 2 or (options.write and len(checkouts) > 1):
        parser.error("expected one checkout, or two without --write")
    about, stored = surroundings(checkouts[0]), []
    for task in options.only:
        for threads in options.threads if evaluates(task) else [1]:
            label = f"{task}, {threads} thread{'s' * (threads > 1)}" if evaluates(task) else task
            count = options.rounds if evaluates(task) else 3 * options.rounds
            timings = rounds(task, checkouts, count, threads)
            for letter, figures in zip("AB", timings, strict=False):
                print(row(f"{label}, {letter}" if len(timings) > 1 else label, figures), flush=True)
            if len(timings) == 2:
                a, b = timings
                ratios = ", ".join(
                    f"{name} {b[key] / a[key]:.3f}"
                    for name, key in (
                        *(("median", "median_s"), ("least", "least_s"), ("processor", "least_cpu_s")),
                        ("memory", "peak_mb"),
                    )
                )
                apart = abs(b["value"] - a["value"]) / max(abs(a["value"]), 1e-300) if a["value"] else 0.0
                print(f"{label:<28} B / A: {ratios}; values {apart:.1e} apart", flush=True)
            stored.append({"task": task, "threads": threads, **timings[0]})
    if options.write:
        sizes = {"N": N, "M": M, "D": DIM, "exact N": EXACT}
        record = {"about": {**about, "load_average_after": os.getloadavg()[0]}, "sizes": sizes, "figures": stored}
        (HERE / "benchmarks.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
