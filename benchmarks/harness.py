"""Shared by all benchmarks: cases, medians and quartiles, a description of the machine, and the JSON file."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpbounds.files import replacing

LIBRARIES = ("gpbounds", "numpy", "scipy", "mpmath", "python-flint")
WIDTH = 88
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Case:
    """A timed case: ``run`` does the work; if it measures the time itself, it returns the seconds."""

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


def measure(case: Case, repeats: int) -> Timing:
    """Time ``repeats`` runs of ``case`` after a warm-up run."""
    case.run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        own = case.run()
        seconds.append(time.perf_counter() - start if own is None else own)
    return Timing(case.name, case.goal, seconds)


def processor() -> str:
    """The name of the processor, if the system provides it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def surroundings() -> dict[str, Any]:
    """Hardware, libraries, load and threads, which affect the figures."""
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


def arguments(doc: str | None, repeats: int = 7) -> argparse.ArgumentParser:
    """A parser with ``--json`` and ``--repeats``, to which a benchmark adds its own options."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument(
        "--repeats",
        type=at_least_seven,
        default=repeats,
        help="number of runs per case, at least 7 (default %(default)s)",
    )
    return parser


def opening(heads: str | None = None) -> dict[str, Any]:
    """Print the description of the machine and the header of the table; return the description."""
    about = surroundings()
    libraries = ", ".join(f"{name} {number}" for name, number in about["libraries"].items())
    print(f"{about['processor']}, {about['cores']} cores, load {about['load_average']:.2f}, {about['system']}")
    print(f"Python {about['python']}, {libraries}; threads: {about['threads']}")
    print(heads or f"\n{'':<{WIDTH}} {'median':>8} {'quartiles':>19} {'goal':>8} {'ratio':>6}")
    return about


def save(path: Path | None, about: dict[str, Any], timings: list[Any], **more: Any) -> None:
    """Write the figures as JSON if ``path`` is given."""
    if path is not None:
        plain = [timing.to_dict() if isinstance(timing, Timing) else timing for timing in timings]
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps({"about": about, "timings": plain, **more}, indent=1) + "\n")
