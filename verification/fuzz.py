"""Give damaged and hostile files to every reader, and count what it does with them.

    python verification/fuzz.py                                 # 100,000 files; about an hour
    python verification/fuzz.py --files 2000 --readers models   # readers whose names contain a word
    python verification/fuzz.py --readers "tables: CSV" --number 17   # one file again, with its traceback

A file is drawn from its number, so that it can be read again alone.  The results lie in --results, and a run goes on
from them.  Each part is read in a process of its own, with a limit on its memory; the system must have fork.  Sources
that change during a run would mix: run it in a copy (``git worktree add --detach FOLDER``, PYTHONPATH=FOLDER).  The
counts name the commits.
``--store`` writes the counts to ``verification/fuzz.json`` and prints the table of docs/how_to/interruptions.md.
"""

from __future__ import annotations

if __name__ == "__main__":
    from robustness import one_thread  # noqa: F401

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import appended
import history
from robustness import watching
from robustness.fuzzing import changed, tally
from robustness.readers import Reader, readers
from tqdm import tqdm

from gpbounds.files import replacing

STORED = Path(__file__).with_suffix(".json")
PART = 500
KINDS = {
    **dict.fromkeys(("refused", "read, not confirmed", "exit status 1", "exit status 2"), "refused"),
    **dict.fromkeys(("accepted, states the same", "exit status 0"), "same"),
    "fault": "fault",
}
ORDER = ("refused", "same", "else", "fault")
"""Kinds of outcomes, as the documentation shows them."""
MEMORY = 2**32
"""Bytes of address space that a process may take beyond its start."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000, help="number of files (default %(default)s)")
    parser.add_argument("--readers", default="", metavar="WORD", help="only readers whose names contain WORD")
    parser.add_argument("--number", type=int, help="only this file of one reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", type=int, default=PART, help="files of a process (default %(default)s)")
    parser.add_argument("--results", type=Path, help="file of results so far, to go on from")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    args = parser.parse_args()
    tqdm.monitor_interval = 0  # no thread of its own
    chosen = [reader for reader in readers() if args.readers in reader.name]
    if args.number is not None:
        return again(chosen[0], args.number, args.seed)
    with tempfile.TemporaryDirectory() as folder:
        results = args.results or Path(folder) / "results.jsonl"
        done = {(each["reader"], each["first"]) for each in appended.records(results)}
        total = sum(reader.share for reader in chosen)
        work = []
        for reader in chosen:
            files = max(1, round(args.files * reader.share / total))
            work += [(reader, range(a, min(a + args.part, files))) for a in range(0, files, args.part)]
        for reader, numbers in tqdm(work, unit="part"):
            if (reader.name, numbers.start) not in done:
                apart(reader, numbers, args.seed, results)
        table = counted(appended.records(results))
    print(json.dumps(table, indent=1, ensure_ascii=False))
    if args.store:
        with replacing(STORED) as file:
            file.write(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
        print("\n".join(rows(table)), file=sys.stderr)
    return int(bool(table["faults"]))


def apart(reader: Reader, numbers: range, seed: int, results: Path) -> None:
    """Read a part in a new process, which adds a line to ``results``; a crash is a fault of the whole part."""
    part = {"commit": history.commit(), "reader": reader.name, "first": numbers.start}
    child = os.fork()
    if not child:
        status = 1
        try:
            import resource

            size = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
            watching.begin()
            counted = tally(reader, numbers, seed)
            appended.add(results, part | {"outcomes": dict(counted.outcomes), "faults": counted.faults})
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        died = [(numbers.start, "the process of this part died")]
        appended.add(results, part | {"outcomes": {"fault": len(numbers)}, "faults": died})


def counted(parts: list[dict[str, object]]) -> dict[str, object]:
    """The outcomes of each reader, and all faults."""
    table: dict[str, Counter[str]] = {}
    faults, commits = [], Counter[str]()
    for part in parts:
        name = str(part["reader"])
        table.setdefault(name, Counter()).update(part["outcomes"])  # type: ignore[call-overload]
        faults += [[name, *each] for each in part["faults"]]  # type: ignore[attr-defined]
        commits[str(part["commit"])] += sum(part["outcomes"].values())  # type: ignore[attr-defined]
    return {
        "commits": dict(commits.most_common()),
        "files": sum(sum(outcomes.values()) for outcomes in table.values()),
        "faults": faults,
        "by reader": {name: dict(outcomes.most_common()) for name, outcomes in table.items()},
    }


def rows(table: dict[str, Any]) -> list[str]:
    """The counts as rows of Markdown: files, refused, read as before, read and states something else, faults."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in table["by reader"]} | {"all": Counter()}
    for name, outcomes in table["by reader"].items():
        for outcome, number in outcomes.items():
            for each in (name, "all"):
                counts[each][KINDS.get(outcome, "else")] += number
    return [
        f"| {name} | {sum(each.values())} | " + " | ".join(str(each[kind]) for kind in ORDER) + " |"
        for name, each in counts.items()
    ]


def again(reader: Reader, number: int, seed: int) -> int:
    """Read one file without a net."""
    data, original = changed(reader, number, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{reader.suffix}"
        path.write_bytes(data)
        print(f"{reader.name}, file {number}, {len(data)} bytes: {data[:2000]!r}")
        print(reader.judge(reader.read(path), data, original))
    return 0


if __name__ == "__main__":
    sys.exit(main())
