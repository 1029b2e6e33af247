"""Run a job in a process of its own, kill it, look at the files, and let it run to its end.

A process is killed at a random moment of its known duration, or where it writes: before a temporary file is complete,
before it gets its name, and after.  Each kill is drawn from its number, so that it can be repeated alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robustness.jobs import Job, outcome, quiet, rows

PLACES = ("random moment", "while a file is written", "before the file gets its name", "after it")


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run.

    Attributes
    ----------
    prepared : Path
        The folder before it.
    outcome : dict
    seconds : float
    writes : int
        Number of files that it put into place.
    versions : set of (name, SHA-256)
        All of them.
    """

    prepared: Path
    outcome: dict[str, Any]
    seconds: float
    writes: int
    versions: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Kill:
    """A kill and what it did."""

    number: int
    job: str
    kind: str
    place: str
    at: float
    died: bool
    faults: tuple[str, ...]


def reference(job: Job, base: Path) -> Reference:
    """Prepare the job and run it without a kill.

    Raises
    ------
    RuntimeError
        if it fails.
    """
    prepared = base / "prepared"
    prepared.mkdir(parents=True)
    _must(prepared, job.prepare, base)
    folder = base / "reference"
    shutil.copytree(prepared, folder)
    began = time.perf_counter()
    log = base / "writes"
    _must(folder, job.run, base, log)
    seconds = time.perf_counter() - began
    versions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    before = [(name, _digest(prepared / name)) for name in job.results if (prepared / name).exists()]
    whole = frozenset([*before, *((name, digest) for name, digest in versions)])
    return Reference(prepared, outcome(job, folder), seconds, len(versions), whole)


def kill(number: int, job: Job, of: Reference, seed: int) -> Kill:
    """Kill one run of ``job``; the faults are sentences."""
    rng = np.random.default_rng([seed, number])
    place = PLACES[int(rng.integers(4)) if number % 2 and of.writes else 0]
    at = float(rng.uniform(0.0, of.seconds)) if place == PLACES[0] else float(rng.integers(1, of.writes + 1))
    with tempfile.TemporaryDirectory() as base:
        folder, log = Path(base) / "folder", Path(base) / "writes"
        shutil.copytree(of.prepared, folder)
        child = _started(folder, job.run, Path(base), log, None if place == PLACES[0] else (place, int(at), rng))
        if place == PLACES[0]:
            time.sleep(at)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        faults = [*_damaged(job, of, folder), *_lost(of, folder, log), *_on_other_data(job, folder, Path(base))]
        again = _finished(_started(folder, job.run, Path(base), None, None))
        if again:
            faults.append(f"the run after it failed: {(Path(base) / 'errors').read_text(encoding='utf-8')[-2000:]}")
        else:
            reached = outcome(job, folder)
            changed = [name for name in reached if reached[name] != of.outcome[name]]
            faults += [f"{name} differs from that of a run without a kill" for name in changed]
            faults += [f"{path.name} is left" for path in folder.rglob("*.part") if _name(path.name) in job.results]
    return Kill(number, job.name, job.kind, place, at, died, tuple(faults))


def _on_other_data(job: Job, folder: Path, base: Path) -> list[str]:
    """A checkpoint is refused where it lies beside other data than its own, and no run without one is."""
    if job.other is None:
        return []
    place = base / "other"
    shutil.copytree(folder, place)
    _must(place, job.other, base)
    begun, log = (place / "checkpoint").exists(), base / "errors of others"
    log.mkdir()
    failed = _finished(_started(place, job.run, log, None, None))
    said = (log / "errors").read_text(encoding="utf-8")[-2000:]
    if begun and not failed:
        return ["the run after it continued a checkpoint on other data"]
    refused = begun and "of the same data and settings" in said
    return [f"the run on other data failed: {said}"] if failed and not refused else []


def _name(part: str) -> str:
    return part[: -len(".01234567.part")]


def _damaged(job: Job, of: Reference, folder: Path) -> list[str]:
    """Every file is a whole version: one that the run without a kill wrote too, or that was there before."""
    faults = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or path.suffix == ".part" or ((of.prepared / name).exists() and name not in job.results):
            continue
        if (fault := unreadable(path)) is not None:
            faults.append(f"{name} is damaged: {fault}")
        elif name in job.grows:
            whole, now = of.outcome[name], rows(path)
            if now != whole[: len(now)]:
                faults.append(f"{name} does not hold the first rows of the table")
        elif name in job.results and (name, _digest(path)) not in of.versions:
            faults.append(f"{name} is no version that a run writes")
    return faults


def unreadable(path: Path) -> str | None:
    """Why a file is not whole, or None."""
    try:
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".npz" or path.name == "checkpoint":
            with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
                for name in file.files:
                    file[name]
        elif path.suffix == ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), "no end"
        elif path.suffix == ".html":
            assert path.read_text(encoding="utf-8").rstrip().endswith("</html>"), "no end"
        elif path.suffix == ".csv":
            assert path.read_bytes().endswith(b"\n"), "the last line has no end"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _lost(of: Reference, folder: Path, log: Path) -> list[str]:
    """What was in its place once is there, or a later version of it."""
    last: dict[str, tuple[str, int]] = {}
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            name, digest = json.loads(line)
            last[name] = digest, last.get(name, ("", 0))[1] + 1
    faults = []
    for name, (digest, count) in last.items():
        path = folder / name
        if not path.exists():
            faults.append(f"{name} was written and is gone")
        elif _digest(path) != digest and path.name == "checkpoint" and _steps(path) < count:
            faults.append(f"{name} lost steps")
    return faults


def _steps(path: Path) -> int:
    """At least one number for each checkpoint that was written."""
    with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
        return sum(len(file[name]) for name in file.files if name.endswith("/values"))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _must(folder: Path, work: Callable[[], Any], base: Path, log: Path | None = None) -> None:
    if _finished(_started(folder, work, base, log, None)):
        raise RuntimeError((base / "errors").read_text(encoding="utf-8"))


def _finished(child: int) -> int:
    return os.waitpid(child, 0)[1]


def _started(
    folder: Path, work: Callable[[], Any], base: Path, log: Path | None, fatal: tuple[str, int, Any] | None
) -> int:
    """Number of a new process that does ``work`` in ``folder`` and dies at the n-th file, if ``fatal`` says so."""
    if child := os.fork():
        return child
    status = 1
    try:
        os.chdir(folder)
        with quiet(base / "errors"):
            _watch(folder, log, fatal)
            work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _watch(folder: Path, log: Path | None, fatal: tuple[str, int, Any] | None) -> None:
    """Record each file that is put into place, and die where ``fatal`` says."""
    replace, fsync, count = os.replace, os.fsync, 0
    place, n, rng = fatal or ("", 0, None)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def watched(source: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == n and place == PLACES[2]:
            die()
        replace(source, target)
        if count == n and place == PLACES[3]:
            die()
        if log is not None:
            line = json.dumps([str(Path(target).resolve().relative_to(folder.resolve())), _digest(Path(target))])
            with log.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    def forced(descriptor: int) -> None:
        if count + 1 == n and place == PLACES[1] and (size := os.fstat(descriptor).st_size):
            os.ftruncate(descriptor, int(rng.integers(size)))
            die()
        fsync(descriptor)

    os.replace, os.fsync = watched, forced  # type: ignore[assignment]
