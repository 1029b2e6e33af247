"""Verdicts on mutants: stored as JSON lines, counted by module, printed, and stored as a score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import appended

from mutation.choosing import Settings
from mutation.operators import Mutant
from mutation.score import COLUMNS, Count
from mutation.trial import Verdict

NOTICED = ("killed", "timeout", "crash", "import")


class Store:
    """Verdicts by the mutant's key, appended to a file; the last one is valid."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {entry["key"]: entry for entry in appended.records(path)}

    def add(self, mutant: Mutant, verdict: Verdict, commit: str) -> dict[str, Any]:
        words = {k: v for k, v in asdict(mutant).items() if k not in ("start", "end", "text", "copy")}
        entry = {"key": mutant.key, **words, **asdict(verdict), "commit": commit}
        self.entries[mutant.key] = entry
        appended.add(self.path, entry)
        return entry

    def noticed(self, mutant: Mutant) -> bool | None:
        """Whether a test noticed the mutant; None if there is no verdict."""
        entry = self.entries.get(mutant.key)
        return None if entry is None or entry["verdict"] == "error" else entry["verdict"] in NOTICED

    def commits(self, mutants: Iterable[Mutant]) -> dict[str, int]:
        """How many of the verdicts came at which commit, most first."""
        entries = (self.entries.get(mutant.key) for mutant in mutants)
        return dict(Counter(entry["commit"] for entry in entries if entry).most_common())


def counted(settings: Settings, store: Store, mutants: Iterable[Mutant]) -> dict[str, Count]:
    """By file, the mutants that were tried or are equivalent."""
    counts: dict[str, Count] = {}
    for mutant in mutants:
        entry = store.entries.get(mutant.key)
        alike = settings.is_equivalent(mutant)
        if alike or store.noticed(mutant) is not None:
            verdict = "equivalent" if alike else "killed" if store.noticed(mutant) else entry["verdict"]  # type: ignore[index]
            single = Count(mutants=1)
            setattr(single, verdict, 1)
            counts[mutant.file] = counts.get(mutant.file, Count()) + single
    return dict(sorted(counts.items()))


def table(counts: dict[str, Count]) -> str:
    """The counts by module and in all."""
    width = max([len(file) for file in counts] + [6])
    head = f"{'module':{width}}" + "".join(f"{name:>12}" for name in (*COLUMNS, "score"))
    rows = [*counts.items(), ("in all", sum(counts.values(), Count()))]
    return "\n".join(
        [head]
        + [
            f"{file:{width}}" + "".join(f"{getattr(c, name):12d}" for name in COLUMNS) + f"{100.0 * c.score:10.1f} %"
            for file, c in rows
        ]
    )


def survivors(settings: Settings, store: Store, mutants: Iterable[Mutant]) -> list[dict[str, Any]]:
    """The verdicts on non-equivalent mutants that no test noticed, or only an example's digits."""
    return [
        store.entries[m.key] | {"line": m.line}
        for m in mutants
        if store.noticed(m) is False and not settings.is_equivalent(m)
    ]


def description(entry: dict[str, Any]) -> str:
    """The description of a survivor."""
    how = f"caught by digits of {entry['by']} only" if entry["verdict"] == "examples" else entry["verdict"]
    lines = [f"- `{entry['key']}` {entry['file']}:{entry['line']} {entry['scope']} ({entry['operator']}): {how}; "]
    lines[0] += f"{entry['tests']} tests run it" if entry["tests"] else "no test runs it"
    for sign, text in (("-", entry["before"]), ("+", entry["after"])):
        lines += [f"      {sign} {line}" for line in text.splitlines()]
    return "\n".join(lines)
