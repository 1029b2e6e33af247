"""How long the calculator takes: ``python benchmarks/bench_rate.py [--json FILE] [--repeats 9]``.

Each row is the median of repeated runs after one warm-up, with its spread, beside the goal it should stay below.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from gpbounds import Gaussian, Matern, SquaredExponential, Uniform, inducing_points, rate, spectrum

LIBRARIES = ("gpbounds", "numpy", "scipy", "mpmath", "python-flint")
WIDTH = 88
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Case:
    """Something timed: ``run`` does the work; where it measures by itself it returns the seconds."""

    name: str
    goal: float | None
    run: Callable[[], float | None]


@dataclass(frozen=True)
class Timing:
    """Seconds of the repeated runs of one case."""

    name: str
    goal: float | None
    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def ratio(self) -> float | None:
        return None if self.goal is None else self.median / self.goal

    @property
    def quartiles(self) -> tuple[float, float]:
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "goal_s": self.goal,
            "median_s": self.median,
            "quartiles_s": self.quartiles,
            "least_s": min(self.seconds),
            "most_s": max(self.seconds),
            "ratio_to_goal": self.ratio,
            "repeats": len(self.seconds),
        }


def cases() -> Iterator[Case]:
    """The figures that the project holds itself to."""
    N = np.rint(np.geomspace(2e3, 1e9, 1000))[:, None]
    M = np.arange(1.0, 1001.0)[None, :]
    settings = {
        "1-D": (SquaredExponential(lengthscale=0.5), Gaussian()),
        "5-D, one lengthscale": (SquaredExponential(lengthscale=2.0), Gaussian(dim=5)),
        "5-D, a lengthscale each": (SquaredExponential(lengthscale=[1.0, 1.5, 2.0, 3.0, 5.0]), Gaussian(dim=5)),
    }
    for name, (kernel, inputs) in settings.items():
        for form, y_norm2 in (("y from the prior", None), ("any y", 1e4)):

            def grid(kernel: SquaredExponential = kernel, inputs: Gaussian = inputs, y: float | None = y_norm2) -> None:
                bound = rate(kernel, N, M, 1.0, inputs=inputs, y_norm2=y)
                assert np.shape(bound.value) == (1000, 1000)

            yield Case(f"rate, 1000 x 1000 grid of (N, M), SE x Gaussian {name}, {form}", 1.0, grid)

    for alpha in (1.0, 0.75):

        def plan_gaussian(alpha: float = alpha) -> None:
            assert inducing_points(SquaredExponential(), 10**9, alpha, target=0.1).M

        yield Case(f"inducing_points, N = 1e9, SE x Gaussian 1-D, alpha = {alpha:g}", 0.020, plan_gaussian)

    if importlib.util.find_spec("gpbounds.spectra.matern_uniform"):

        def plan_matern() -> None:
            plan = inducing_points(Matern(1.5, lengthscale=0.2), 10**9, 1.0, target=0.1, inputs=Uniform(0.0, 1.0))
            assert plan.M

        yield Case("inducing_points, N = 1e9, Matern-3/2 x Uniform 1-D", 1.0, plan_matern)

    def eigenvalues() -> None:
        kernel = SquaredExponential(lengthscale=[0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6])
        assert spectrum(kernel, Gaussian(dim=8)).eigenvalues(10_000).shape == (10_000,)

    yield Case("10 000 eigenvalues, SE x Gaussian 8-D, a lengthscale each", 0.5, eigenvalues)
    yield Case("import gpbounds, fresh process", 0.5, lambda: fresh("import gpbounds"))
    first = "from gpbounds import SquaredExponential, rate; rate(SquaredExponential(), 10_000, 30, 1.0)"
    yield Case("import and a first bound, fresh process", None, lambda: fresh(first))


def fresh(program: str) -> float:
    """Seconds that ``program`` takes in an interpreter that has imported nothing else."""
    timed = f"import time; start = time.perf_counter(); {program}; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)


def measure(case: Case, repeats: int) -> Timing:
    """``repeats`` runs of ``case``, after one that is not counted."""
    case.run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        own = case.run()
        seconds.append(time.perf_counter() - start if own is None else own)
    return Timing(case.name, case.goal, seconds)


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def surroundings() -> dict[str, object]:
    """Hardware, libraries and what else could move the figures."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "threads": {name: os.environ.get(name, "not set") for name in THREADS},
    }


def in_units(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"


def row(timing: Timing) -> str:
    low, high = timing.quartiles
    spread = f"{in_units(low)} - {in_units(high)}"
    line = f"{timing.name:<{WIDTH}} {in_units(timing.median):>8} {spread:>19}"
    if timing.goal is None or timing.ratio is None:
        return line
    return f"{line} {in_units(timing.goal):>8} {timing.ratio:>6.2f}{'' if timing.ratio <= 1.0 else '  MISSED'}"


def at_least_seven(text: str) -> int:
    repeats = int(text)
    if repeats < 7:
        raise argparse.ArgumentTypeError(f"expected at least 7 repeats, got {repeats}")
    return repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE, too")
    parser.add_argument("--repeats", type=at_least_seven, default=9, help="runs a case, at least 7 (default 9)")
    options = parser.parse_args()

    about = surroundings()
    libraries = ", ".join(f"{name} {number}" for name, number in about["libraries"].items())  # type: ignore[attr-defined]
    print(f"{about['processor']}, {about['cores']} cores, load {about['load_average']:.2f}, {about['system']}")
    print(f"Python {about['python']}, {libraries}; threads: {about['threads']}")
    print(f"\n{'':<{WIDTH}} {'median':>8} {'quartiles':>19} {'goal':>8} {'ratio':>6}")
    timings = []
    for case in cases():
        timings.append(measure(case, options.repeats))
        print(row(timings[-1]), flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        report = {"about": about, "timings": [timing.to_dict() for timing in timings]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
