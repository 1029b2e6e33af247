"""One mutant against the tests that run its lines, in a copy of the tree."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path

from mutation import tree
from mutation.operators import Mutant

PATIENCE = 30.0, 15.0
"""A test may take so many seconds and so many times what it took when measured; beyond that the mutant is noticed."""
_stamps = count(1_000_000_000)


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant.

    Attributes
    ----------
    verdict : str
        "killed", "timeout", "crash" (the interpreter's), "import" (no test could begin), "examples" (caught by
        an example's digits only), "survived", or "open": so far, the slowest tests not having been run;
        "error": the tests could not be run, which says nothing.
    by : str
        The test that noticed.
    said : str
        The last line of what it said.
    tests : int
        How many tests run the mutant's lines.
    seconds : float
    """

    verdict: str
    by: str
    said: str
    tests: int
    seconds: float


def in_order(seconds: dict[str, float], is_example: dict[str, bool]) -> list[str]:
    """Fast tests first, examples last; those about as fast stay together by file, for what they share is costly."""

    def place(name: str) -> tuple[bool, int, str, float]:
        spent = seconds[name]
        return is_example[name], sum(spent > limit for limit in (0.03, 0.3, 2.0)), name.split("::")[0], spent

    return sorted(seconds, key=place)


def within(budget: float, seconds: dict[str, float], is_example: dict[str, bool]) -> dict[str, float]:
    """The examples, and the fastest of the other tests, as many as fit into the budget."""
    others = sorted((name for name in seconds if not is_example[name]), key=seconds.__getitem__)
    ends = accumulate(seconds[name] for name in others)
    kept = {name for name, end in zip(others, ends, strict=True) if end <= budget} | set(others[:1])
    return {name: spent for name, spent in seconds.items() if is_example[name] or name in kept}


class Workplace:
    """A copy of the tree, in which one mutant is tried at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.tree, self.folder = tree.copy(folder / "tree"), folder
        self.tests = tree.Tests(self.tree)

    def run(self, seconds: dict[str, float], order: list[str]) -> tuple[list[dict[str, str]], int, str]:
        """The log of `mutation.watch`, pytest's return code, and what it printed."""
        log, plan = self.folder / f"{os.getpid()}.log", self.folder / f"{os.getpid()}.json"
        limits = {name: PATIENCE[0] + PATIENCE[1] * seconds[name] for name in order}
        log.write_text("", encoding="utf-8")
        plan.write_text(json.dumps({"log": str(log), "limits": limits}), encoding="utf-8")
        files = list(dict.fromkeys(name.split("::")[0] for name in order))
        code, said = self.tests.run(plan, ["-x", *files])
        lines = log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")], code, said

    def try_out(
        self,
        mutant: Mutant,
        seconds: dict[str, float],
        first: set[str],
        is_example: dict[str, bool],
        budget: float = math.inf,
    ) -> Verdict:
        """Put the mutant in, run the tests, those in ``first`` before the others, take it out.

        Slow tests that do not fit into ``budget`` seconds are left out, and the verdict may be open.
        """
        if not seconds:
            return Verdict("survived", "", "no test runs this line", 0, 0.0)
        begun = time.monotonic()
        tried = within(budget, seconds, is_example)
        early = {name: spent for name, spent in tried.items() if name in first and spent < 3.0 and not is_example[name]}
        stages = [early, {name: spent for name, spent in tried.items() if name not in early}]
        verdicts = (self.noticed(mutant, stage, is_example) for stage in stages if stage)
        kind, by, said = next((v for v in verdicts if v[0] != "survived"), ("survived", "", ""))
        if len(tried) < len(seconds) and kind in ("survived", "examples"):
            kind, said = "open", f"{len(seconds) - len(tried)} slow tests were not run"
        return Verdict(kind, by, said, len(seconds), round(time.monotonic() - begun, 1))

    def noticed(self, mutant: Mutant, seconds: dict[str, float], is_example: dict[str, bool]) -> tuple[str, str, str]:
        """The verdict, the test that noticed the mutant, and its message."""
        place = self.tree / mutant.file
        kept, times = place.read_bytes(), place.stat()
        try:
            place.write_bytes(mutant.applied(kept))
            stamp = next(_stamps)  # a time of its own: what was compiled from another text must not be taken for this
            os.utime(place, (stamp, stamp))
            log, code, said = self.run(seconds, in_order(seconds, is_example))
        finally:
            place.write_bytes(kept)
            os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
        failed = next((line for line in log if "failed" in line), None)
        finished = any("finished" in line for line in log)
        started = [line["start"] for line in log if "start" in line]
        if failed:
            kind, by, words = "killed", failed["failed"], failed["message"]
        elif finished and code == 0 and len(started) == len(seconds):
            kind, by, words = "survived", "", ""
        elif finished and code in (1, 2, 4) and not started:  # 1 with "-x", which ends the collection, 4 in a conftest
            kind, by, words = "import", "", said.strip().splitlines()[-1]
        elif finished or not started:
            words = f"{len(started)} of {len(seconds)} tests ran, return code {code}: {said[-300:]}"
            kind, by = "error", ""
        else:
            kind, by, words = ("crash" if code < 0 else "timeout"), started[-1], f"return code {code}"
        if by and is_example[by]:
            kind = "examples"
        return kind, by, words
