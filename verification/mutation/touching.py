"""Which tests run which lines: one coverage file a test file, measured anew when the packages or the file changed."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tqdm import tqdm

from mutation import tree
from mutation.watch import FILE


def files_with_tests() -> list[Path]:
    """The files that hold tests."""
    return [path for path in tree.files() if path.parts[0] in ("tests", "verification") and path.match("test_*.py")]


def _rests_on(test_files: list[Path]) -> dict[Path, str]:
    """For each test file, a digest of all that decides which lines its tests run."""
    helps = [
        path
        for path in tree.files()
        if path.suffix in (".py", ".toml")
        and path.parts[0] in (*tree.PACKAGES, "examples", "conftest.py", "tests", "verification")
        and not path.match("test_*.py")
        and not path.match("verification/mut*")
        and not path.match("verification/mutation/*")
    ]
    shared = tree.digest(helps)
    return {path: tree.digest([path], shared) for path in test_files}


@dataclass(frozen=True)
class Measured:
    """What one test file runs."""

    store: Path

    @cached_property
    def tests(self) -> dict[str, dict]:
        """Test -> seconds, outcome, shared fixtures."""
        return json.loads(self.store.with_suffix(".json").read_text(encoding="utf-8"))

    @cached_property
    def _contexts(self) -> dict[str, list[tuple[str, bytes]]]:
        contexts: dict[str, list[tuple[str, bytes]]] = {}
        rows = "select path, context, numbits from line_bits join file on file_id = file.id join context on context_id"
        with sqlite3.connect(self.store) as base:
            for path, context, bits in base.execute(f"{rows} = context.id"):
                contexts.setdefault(path, []).append((context, bits))
        return contexts

    def touching(self, file: str, lines: Iterable[int]) -> Iterator[str]:
        """The tests that run one of these lines of ``file``, themselves or by a fixture."""
        wanted = list(lines)
        contexts = {
            context
            for context, bits in self._contexts.get(file, [])
            if any(line // 8 < len(bits) and bits[line // 8] >> line % 8 & 1 for line in wanted)
        }
        if contexts:
            for name, entry in self.tests.items():
                if name in contexts or FILE in contexts or contexts.intersection(entry["fixtures"]):
                    yield name


class Touching:
    """Which tests run which lines, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.measured: dict[Path, Measured] = {}

    def measure(self, workers: int) -> None:
        """Run what is not measured yet, or changed since."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stores = {
            path: self.folder / f"{'.'.join(path.parts)}.{digest}.coverage"
            for path, digest in _rests_on(files_with_tests()).items()
        }
        for old in set(self.folder.iterdir()) - {f for s in stores.values() for f in (s, s.with_suffix(".json"))}:
            old.unlink()
        missing = [path for path, store in stores.items() if not store.with_suffix(".json").exists()]
        copied = tree.copy(self.folder.parent / "measured") if missing else self.folder

        def run(path: Path) -> None:
            plan = stores[path].with_suffix(".plan")
            plan.write_text(json.dumps({"measure": str(stores[path])}), encoding="utf-8")
            with tree.Tests(copied) as tests:
                code, said = tests.run(plan, [str(path)])
            for done in (plan, plan.with_suffix(".output")):
                done.unlink()
            if code not in (0, 1):
                raise RuntimeError(f"{path} could not be measured:\n{said}")

        with ThreadPoolExecutor(workers) as pool:
            running = [pool.submit(run, path) for path in missing]
            for done in tqdm(as_completed(running), "measuring", len(running), unit="file", disable=not running):
                done.result()
        self.measured = {path: Measured(store) for path, store in stores.items()}

    def failing(self) -> list[str]:
        """Tests that fail without any mutant: they give no verdict."""
        return [name for m in self.measured.values() for name, entry in m.tests.items() if entry["outcome"] == "failed"]

    def tests(self, spots: dict[str, set[int]]) -> dict[str, float]:
        """Test -> its seconds, for the tests that pass and run one of the lines given by file."""
        seconds = {}
        for measured in self.measured.values():
            names = {name for file, lines in spots.items() for name in measured.touching(file, lines)}
            seconds |= {n: measured.tests[n]["seconds"] for n in names if measured.tests[n]["outcome"] == "passed"}
        return seconds

    def nearest(self, tests: Iterable[str], names: set[str]) -> set[str]:
        """Those of the tests in the two files that name most of ``names``, the module's own: likeliest to notice."""
        counts = Counter(name.split("::")[0] for name in tests)

        def nearness(file: str) -> tuple[int, float]:
            words = set(re.findall(r"\w+", (tree.ROOT / file).read_text(encoding="utf-8")))
            return len(names & words), counts[file] / len(self.measured[Path(file)].tests)

        files = sorted(counts, key=nearness, reverse=True)[:2]
        return {name for name in tests if name.split("::")[0] in files}
