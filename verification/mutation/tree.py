"""Copies of the working tree, in which mutants are tried, and digests that say what changed."""

from __future__ import annotations

import hashlib
import json
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


def copy(target: Path) -> Path:
    """The working tree in ``target``, times kept, so that what was compiled there before stays valid."""
    for path in files():
        place = target / path
        if not place.exists() or place.read_bytes() != (ROOT / path).read_bytes():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, place)
    return target


def digest(paths: list[Path], begun: str = "") -> str:
    """One number for the contents of files, given relative to the root, and for another digest before them."""
    hashed = hashlib.sha256(begun.encode())
    for path in paths:
        hashed.update(f"{path}\0".encode() + (ROOT / path).read_bytes() + b"\0")
    return hashed.hexdigest()[:16]


class Tests:
    """pytest in a copy of the tree, with `mutation.watch` and its plan: one thread of BLAS, low priority."""

    def __init__(self, tree: Path) -> None:
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        paths = [str(tree), str(tree / "verification"), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            ["nice", "-n", str(NICE), sys.executable, "-m", "mutation.server"],
            cwd=tree,
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, plan: Path, arguments: list[str]) -> tuple[int, str]:
        """pytest's return code, and what it printed."""
        output = plan.with_suffix(".output")
        quiet = ["-q", "--tb=line", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # Hypothesis is there already
        options = ["-p", "mutation.watch", "-p", "no:cacheprovider", *quiet, *arguments]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"plan": str(plan), "output": str(output), "arguments": options}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the server of tests ended")
        return int(answer), output.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> Tests:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
