"""VFE over partitions on a local Dask cluster: overhead, two workers beside one, recovery, and memory at N = 10⁷.

    python benchmarks/bench_scale.py [--json FILE] [--memory FOLDER]

Overhead: evaluations over 8 and 64 partitions of 50 rows, beside the same evaluations in this process.  Speed:
N = 200 000, M = 500, D = 8, one worker and two, one thread each; then what the machine allows without Dask: the same
for two plain processes, which have half of the rows each, and for two that only multiply matrices.  Recovery: both
workers are killed in the middle of a pass; the time beyond that of an undisturbed evaluation.  ``--memory`` writes 10⁷
rows to Parquet files in FOLDER and evaluates once on two workers with M = 500: the largest resident memory of a worker.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import Case, arguments, measure, opening, row, save

ROUNDS = 3
"""How often `speed` starts each of its two clusters."""

GOALS = {"partition": 0.005, "evaluation": 0.05, "speed": 1.7, "recovery": 5.0, "memory": 2.0}


def problem(N: int, D: int = 8) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    return X, np.sin(X @ rng.standard_normal(D)) + 0.3 * rng.standard_normal(N)


def objective(rows: Any) -> Any:
    from fitting.objectives.goals import Evidence
    from fitting.objectives.laws import FamilyLaw
    from fitting.objectives.objective import Objective, member
    from fitting.rows.data import Held

    held = Held(rows.holder, rows.N, rows.D, rows.P, rows.single, np.zeros(rows.P), np.ones(rows.P))
    return Objective(held, FamilyLaw(member("vfe")), Evidence())


def evaluation(rows: Any, M: int) -> Any:
    from gpbounds.kernels import SquaredExponential

    kernel = SquaredExponential(1.0, np.full(rows.D, 3.0))
    Z = np.random.default_rng(1).standard_normal((M, rows.D))
    problem = objective(rows)
    return lambda: problem.evaluate(kernel, 0.1, Z).value


def silent(run: Any) -> Any:
    """``run`` without its result, which `measure` would take for seconds."""

    def timed() -> None:
        run()

    return timed


def on_dask(X: Any, y: Any, parts: int, client: Any) -> Any:
    import dask.array as da

    from gpbounds.rows import source

    size = len(X) // parts
    return source(da.from_array(X, chunks=(size, X.shape[1])), da.from_array(y, chunks=size), client)


def cluster(workers: int, **options: Any) -> Any:
    from distributed import LocalCluster

    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50, **options)


def overhead(client: Any, repeats: int) -> list[Any]:
    from gpbounds.rows import Source
    from gpbounds.rows.engines import Local
    from gpbounds.rows.formats import array_parts

    timings, medians = [], []
    for parts in (8, 64):
        X, y = problem(50 * parts)
        here = Source.of(Local(array_parts(X, y, 50)), single=True)
        pair = [
            measure(Case(f"{parts} partitions of 50 rows, M = 20, {name}", None, silent(evaluation(rows, 20))), repeats)
            for name, rows in (("this process", here), ("two workers", on_dask(X, y, parts, client)))
        ]
        timings += pair
        medians.append(pair[1].median - pair[0].median)
        print(*map(row, pair), sep="\n")
    each = (medians[1] - medians[0]) / 56
    print(f"overhead: {1e3 * each:.2f} ms a partition, {1e3 * (medians[0] - 8 * each):.0f} ms an evaluation")
    return [*timings, {"overhead_partition_s": each, "overhead_evaluation_s": medians[0] - 8 * each, "goals": GOALS}]


def speed(repeats: int, N: int, M: int) -> list[Any]:
    """One worker and two in turn, as the machine changes; one cluster at a time, as idle workers take time, too."""
    from distributed import Client

    X, y = problem(N)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    values: set[float] = set()
    for _ in range(ROUNDS):
        for workers, each in seconds.items():
            with cluster(workers) as these, Client(these) as client:
                run = evaluation(on_dask(X, y, 16, client), M)
                values.add(run())  # loads the partitions
                for _ in range(math.ceil(repeats / ROUNDS)):
                    start = time.perf_counter()
                    values.add(run())
                    each.append(time.perf_counter() - start)
    medians = {workers: float(np.median(each)) for workers, each in seconds.items()}
    ratio, same = medians[1] / medians[2], len(values) == 1
    print(f"N = {N}, M = {M}, 16 partitions: one worker {medians[1]:.2f} s, two {medians[2]:.2f} s")
    print(f"ratio {ratio:.2f} (goal {GOALS['speed']}); {'equal' if same else 'DIFFERENT'} bits")
    rows = [{"N": N, "M": M, "seconds": seconds, "ratio": ratio, "goal": GOALS["speed"], "equal_bits": same}]
    for name, work in (("evaluations of half of the rows", half), ("matrix products", products)):
        alone_s, beside_s = without_dask(work, N // 2, M, repeats)
        twice = 2.0 * float(np.median(alone_s)) / float(np.median(beside_s))
        print(
            f"without Dask, {name}: one process {np.median(alone_s):.2f} s, each of two {np.median(beside_s):.2f} s: "
            f"two are {twice:.2f} times as fast"
        )
        rows.append({"without_dask": name, "alone_s": alone_s, "beside_s": beside_s, "ratio": twice})
    return rows


def half(N: int, M: int) -> Any:
    from gpbounds.rows import Source
    from gpbounds.rows.engines import Local
    from gpbounds.rows.formats import array_parts

    return evaluation(Source.of(Local(array_parts(*problem(N), N // 8)), single=True), M)


def products(N: int, M: int) -> Any:
    A, B = np.ones((M, M)), np.ones((M, 1024))

    def run() -> None:
        for _ in range(N // 1024):
            A @ B

    return run


def repeated(work: Any, N: int, M: int, repeats: int, barrier: Any, seconds: Any) -> None:
    """Put the seconds of each run of one process into the queue; all processes begin each run together."""
    run = work(N, M)
    run()
    for _ in range(repeats):
        barrier.wait()
        start = time.perf_counter()
        run()
        seconds.put(time.perf_counter() - start)


def without_dask(work: Any, N: int, M: int, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of ``work`` in one process alone, and in two at once: the slower one of each pair counts."""
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    times = []
    for count in (1, 2):
        barrier, queue = context.Barrier(count), context.Queue()
        options = (work, N, M, repeats, barrier, queue)
        processes = [context.Process(target=repeated, args=options) for _ in range(count)]
        for process in processes:
            process.start()
        own = [[queue.get() for _ in range(count)] for _ in range(repeats)]
        for process in processes:
            process.join()
        times.append([max(pair) for pair in own])
    return times[0], times[1]


def recovery(client: Any, folder: Path) -> list[Any]:
    from gpbounds.rows import source

    X, y = problem(400_000)
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    run = evaluation(source(folder / "X.npy", folder / "y.npy", client), 200)
    run()
    start = time.perf_counter()
    expected = run()
    undisturbed = time.perf_counter() - start
    pids = list(client.run(os.getpid).values())
    timer = threading.Timer(0.5 * undisturbed, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids])
    start = time.perf_counter()
    timer.start()
    value = run()
    seconds = time.perf_counter() - start
    timer.join()
    more = seconds - undisturbed
    print(
        f"both workers killed in the middle of {undisturbed:.2f} s: result after {seconds:.2f} s, {more:.2f} s more "
        f"(goal {GOALS['recovery']:g} s + recomputation); {'equal' if value == expected else 'DIFFERENT'} bits"
    )
    return [{"undisturbed_s": undisturbed, "killed_s": seconds, "more_s": more, "equal_bits": value == expected}]


def memory(folder: Path, N: int, M: int) -> list[Any]:
    import pyarrow
    import pyarrow.parquet
    from distributed import Client

    from gpbounds.rows import source

    rng = np.random.default_rng(0)
    direction, size = rng.standard_normal(8), 10**6
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(-(-N // size)):
        X = rng.standard_normal((min(size, N - i * size), 8))
        columns = {f"x{j}": X[:, j] for j in range(8)}
        table = pyarrow.table({**columns, "y": np.sin(X @ direction) + 0.3 * rng.standard_normal(len(X))})
        pyarrow.parquet.write_table(table, folder / f"part-{i:03}.parquet", row_group_size=2**17)
    # Dask ends a worker that exceeds its limit
    with cluster(2, memory_limit=f"{GOALS['memory']:g} GB") as both, Client(both) as client:
        start = time.perf_counter()
        rows = source(folder, "y", client)
        first = time.perf_counter() - start
        start = time.perf_counter()
        evaluation(rows, M)()
        seconds = time.perf_counter() - start
        peaks = [peak / 1e9 for peak in client.run(_peak).values()]
    print(
        f"N = {rows.N}, D = 8, M = {M} from Parquet: first pass {first:.0f} s, evaluation {seconds:.0f} s; peaks "
        f"of the workers {', '.join(f'{peak:.2f} GB' for peak in peaks)} (goal {GOALS['memory']:g} GB)"
    )
    return [{"N": rows.N, "M": M, "first_pass_s": first, "evaluation_s": seconds, "peaks_gb": peaks}]


def _peak() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def main() -> None:
    import tempfile

    parser = arguments(__doc__)
    parser.add_argument("--memory", type=Path, metavar="FOLDER", help="only the memory at N = 10⁷")
    parser.add_argument("--N", type=int, default=10**7, help="rows for --memory (default %(default)s)")
    parser.add_argument("--only", choices=("overhead", "speed", "recovery"), help="only this part")
    options = parser.parse_args()
    from distributed import Client

    about = opening()
    results: list[Any] = []
    if options.memory is not None:
        save(options.json, about, memory(options.memory, options.N, 500))
        return
    if options.only in (None, "overhead", "recovery"):
        with cluster(2) as both, Client(both) as client, tempfile.TemporaryDirectory() as folder:
            if options.only != "recovery":
                results += overhead(client, options.repeats)
            if options.only != "overhead":
                results += recovery(client, Path(folder))
    if options.only in (None, "speed"):
        results += speed(options.repeats, 200_000, 500)
    save(options.json, about, results)


if __name__ == "__main__":
    main()
