"""How long dense and streamed work takes while other processes use the cores:

    python benchmarks/bench_loaded.py [--json FILE] [--only WORD ...] [--busy 0 1 2] [--data FILE]

Each case runs in a process of its own, with BLAS's default number of threads and with one BLAS thread, on a quiet
machine and beside one and two busy processes.  `ratio` divides by the quiet time with default threads; the goal beside
one busy process is 2.2 on two cores.  `beside one thread` divides by the time with one BLAS thread under the same load;
the goal is 1.  Start it on a quiet machine.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import THREADS, arguments, in_units, opening, save

DIM, NOISE = 8, 0.1
GOALS = {1: 2.2}
SPIN = "while True: pass"


def rows(N: int) -> tuple[Any, Any]:
    """X (N, D) and a smooth y (N,) with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, DIM))
    return X, np.sin(X @ rng.standard_normal(DIM)) + np.sqrt(NOISE) * rng.standard_normal(N)


def kernel(shared: bool = False) -> Any:
    """A lengthscale for each input, or one for all."""
    from gpbounds import SquaredExponential

    return SquaredExponential(1.0, 3.0 if shared else np.full(DIM, 3.0))


def plan(file: str | None) -> Callable[[], object]:
    """`gpbounds plan --data FILE`, or of 768 generated rows with 8 inputs; without the start of Python."""
    from gpbounds.cli import main

    if file is None:
        handle, file = tempfile.mkstemp(suffix=".csv")
        os.close(handle)
        np.savetxt(file, np.column_stack(rows(768)), delimiter=",")

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            status = main(["plan", "--data", str(file)])
        assert status == 0

    return run


def exact(_: str | None) -> Callable[[], object]:
    from fitting.objectives.objective import objective

    F, k = objective(*rows(2000), "exact"), kernel()
    return lambda: F.evaluate(k, NOISE)


def sparse(method: str, N: int = 32_000, M: int = 500) -> Callable[[str | None], Callable[[], object]]:
    def built(_: str | None) -> Callable[[], object]:
        from fitting.objectives.objective import objective

        X, y = rows(N)
        F, k, Z = objective(X, y, method), kernel(), X[:M]
        return lambda: F.evaluate(k, NOISE, Z)

    return built


def eigenvectors(_: str | None) -> Callable[[], object]:
    from gpbounds.linalg import eigen

    K = kernel()(rows(2000)[0])
    return lambda: eigen(K, vectors=True)


def eigenvalues(_: str | None) -> Callable[[], object]:
    from gpbounds.linalg import eigen

    K = kernel()(rows(2000)[0])
    return lambda: eigen(K)


def gap(_: str | None) -> Callable[[], object]:
    from gpbounds import renyi

    X, y = rows(2000)
    return lambda: renyi.gap(kernel(), X, y, X[:100], 0.5, noise=NOISE, method="dense")


def check(_: str | None) -> Callable[[], object]:
    from gpbounds.losses import Band
    from gpbounds.pacbayes import HyperGrid, issue_certificate
    from gpbounds.pacbayes.certificate import Exact

    X, y = rows(1500)
    certificate = issue_certificate(
        X,
        y,
        kernel(shared=True),
        lambda k, points, targets: Exact(NOISE),
        grid=HyperGrid.shared(-3.0, 3.0, 12),
        loss=Band(0.6),
        delta=0.05,
    )
    return lambda: certificate.check(X, y)


CASES: dict[str, tuple[str, Callable[[str | None], Callable[[], object]]]] = {
    "plan": ("gpbounds plan --data, 768 rows", plan),
    "exact": ("exact GP, value and gradient, N = 2000", exact),
    "vfe": ("VFE, value and gradient, N = 32 000, M = 500, D = 8", sparse("vfe")),
    "small": ("VFE, value and gradient, N = 1000, M = 50, D = 8", sparse("vfe", 1000, 50)),
    "eigenvectors": ("eigenvalues and eigenvectors, N = 2000", eigenvectors),
    "eigenvalues": ("eigenvalues, N = 2000", eigenvalues),
    "gap": ("renyi.gap, dense, N = 2000", gap),
    "check": ("check of an exact GP's certificate, N = 1500", check),
}


def child(name: str, repeats: int, seconds: float, file: str | None) -> list[float]:
    """Seconds of single runs after a warm-up, fewer than ``repeats`` after ``seconds``, of which the warm-up is one."""
    run = CASES[name][1](file)
    taken: list[float] = []
    while len(taken) <= repeats and (len(taken) < 2 or sum(taken) < seconds):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
        if taken[0] > seconds:
            return taken
    return taken[1:]


@contextlib.contextmanager
def spinners(count: int) -> Iterator[None]:
    """``count`` processes that use a core each."""
    started = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def apart(name: str, one_thread: bool, options: Any) -> list[float]:
    """`child` in a process of its own, with a user's default threads or with one."""
    environment = {key: value for key, value in os.environ.items() if key not in THREADS}
    if one_thread:
        environment |= dict.fromkeys(THREADS, "1")
    command = [sys.executable, __file__, f"--child={name}", f"--repeats={options.repeats}"]
    command += [f"--seconds={options.seconds}"] + ([f"--data={options.data}"] if options.data else [])
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{name}: {ran.stderr.strip()}")
    taken: list[float] = json.loads(ran.stdout.splitlines()[-1])
    return taken


def line(entry: dict[str, Any]) -> str:
    """One row of the table."""
    ratio, beside = entry["ratio"], entry["median_s"] / entry["one_thread_s"]
    goal = GOALS.get(entry["busy"])
    missed = [f"{ratio:.2f} > {goal:g}"] if goal is not None and ratio is not None and ratio > goal else []
    missed += [f"{beside:.2f} > 1"] if beside > 1.05 else []
    quiet = "" if ratio is None else f"{ratio:.2f}"
    numbers = f"{in_units(entry['median_s']):>9} {in_units(entry['one_thread_s']):>11} {quiet:>6} {beside:>18.2f}"
    return (
        f"{CASES[entry['case']][0]:<52} {entry['busy']:>5} {numbers}{'  MISSED: ' if missed else ''}{', '.join(missed)}"
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), help="some of the cases")
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 1, 2], help="numbers of busy processes")
    parser.add_argument("--seconds", type=float, default=30.0, help="most seconds for one case (default %(default)s)")
    parser.add_argument("--data", metavar="FILE", help="CSV file of the planner's case")
    parser.add_argument("--child", help="for the program's own use")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.repeats, options.seconds, options.data)))
        return
    options.data = options.data and str(Path(options.data).resolve())

    about = opening(f"\n{'':<52} {'busy':>5} {'median':>9} {'one thread':>11} {'ratio':>6} {'beside one thread':>18}")
    entries: list[dict[str, Any]] = []
    for name in options.only or CASES:
        quiet: float | None = None
        for busy in options.busy:
            with spinners(busy):
                one, default = apart(name, True, options), apart(name, False, options)
            median = statistics.median(default)
            quiet = median if busy == 0 else quiet
            entry = {
                "case": name,
                "busy": busy,
                "median_s": median,
                "one_thread_s": statistics.median(one),
                "ratio": None if quiet is None else median / quiet,
                "seconds": default,
                "one_thread_seconds": one,
            }
            entries.append(entry)
            print(line(entry), flush=True)
    save(options.json, about, entries)


if __name__ == "__main__":
    main()
