"""Copies of the working tree, in which mutants are tried, and digests that say what changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gpbounds", "fitting")
NICE = 10


def files() -> list[Path]:
    """The files of the working tree that are under version control or about to be, relative to its root."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return sorted(path for line in set(listed.stdout.splitlines()) if (ROOT / (path := Path(line))).is_file())


def commit() -> str:
    """The commit checked out, with a plus where the packages or their tests differ from it."""
    said = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    changed = subprocess.run(
        ["git", "status", "--porcelain", *PACKAGES, "tests", "verification"], cwd=ROOT, capture_output=True, text=True
    )
    return said.stdout.strip() + ("+" if changed.stdout.strip() else "")


def copy(target: Path) -> Path:
    """The working tree in ``target``, times kept, so that what was compiled there before stays valid."""
    for path in files():
        place = target / path
        if not place.exists() or place.read_bytes() != (ROOT / path).read_bytes():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, place)
    return target


def digest(paths: list[Path]) -> str:
    """One number for the contents of files, given relative to the root."""
    found = hashlib.sha256()
    for path in paths:
        found.update(f"{path}\0".encode() + (ROOT / path).read_bytes() + b"\0")
    return found.hexdigest()[:16]


def pytest(tree: Path, plan: Path, arguments: list[str]) -> subprocess.Popen[str]:
    """pytest, started in a copy of the tree with `mutation.watch` and its plan, one thread of BLAS, at low priority."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = [str(tree), str(tree / "verification"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, **threads, "MUTATION_PLAN": str(plan), "PYTHONPATH": os.pathsep.join(paths)}
    command = [
        "nice",
        "-n",
        str(NICE),
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "mutation.watch",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
