"""Kill running work, and check that no file is damaged and that the next run ends as if nothing had happened.

    python verification/kills.py                        # 200 kills; half an hour
    python verification/kills.py --kills 6 --jobs save  # jobs whose names contain a word
    python verification/kills.py --number 17            # one kill again

It needs a system with fork.  ``--store`` writes the counts to ``verification/kills.json``, which the documentation
shows; with ``--jobs`` it adds works that have no stored kills.
"""

from __future__ import annotations

if __name__ == "__main__":
    from robustness import one_thread  # noqa: F401

import argparse
import importlib
import itertools
import json
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import history
from robustness.jobs import JOBS
from robustness.killing import Kill, Reference, kill, reference
from tqdm import tqdm

from gpbounds.files import replacing

STORED = Path(__file__).with_suffix(".json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="number of kills (default %(default)s)")
    parser.add_argument("--number", type=int, help="only this one")
    parser.add_argument("--jobs", default="", metavar="WORD", help="only jobs whose names contain WORD")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    args = parser.parse_args()
    for name in (
        "fitting.estimators",
        "gpbounds.cli.train",
        "gpbounds.plotting.whole",
        "matplotlib.backends.backend_agg",
    ):
        importlib.import_module(name)  # once, not in every process
    tqdm.monitor_interval = 0  # no thread of its own
    jobs = [job for job in JOBS if args.jobs in job.name]
    numbers = itertools.count() if args.number is None else iter([args.number])
    done: list[Kill] = []
    commit = history.commit()
    with tempfile.TemporaryDirectory() as base:
        references: dict[str, Reference] = {}
        bar = tqdm(total=args.kills, unit="kill")
        while sum(each.died for each in done) < args.kills and (number := next(numbers, None)) is not None:
            # Each job is killed once at a random moment and once where it writes, then the next one.
            job = jobs[number // 2 % len(jobs)]
            if job.name not in references:
                references[job.name] = reference(job, Path(base) / str(len(references)))
            done.append(kill(number, job, references[job.name], args.seed))
            bar.update(done[-1].died)
            for fault in done[-1].faults:
                print(f"kill {number}, {job.name}, {done[-1].place} {done[-1].at:.3g}: {fault}", file=sys.stderr)
    table = {"commit": commit} | counted(done)
    print(json.dumps(table, indent=1))
    if args.store:
        stored = table if not args.jobs else merged(json.loads(STORED.read_text(encoding="utf-8")), table)
        with replacing(STORED) as file:
            file.write(json.dumps(stored, indent=1) + "\n")
    return int(any(each.faults for each in done))


def counted(done: list[Kill]) -> dict[str, object]:
    """The number of kills by work and place, and of runs with faults; a run that ended before its kill is none."""
    places: dict[str, Counter[str]] = defaultdict(Counter)
    for each in done:
        places[each.kind][each.place] += each.died
    kinds = dict.fromkeys(each.kind for each in done)
    return {
        "kills": sum(each.died for each in done),
        "ended before": sum(not each.died for each in done),
        "faults": sum(bool(each.faults) for each in done),
        "by work": {kind: dict(places[kind]) for kind in kinds},
    }


def merged(stored: dict[str, Any], part: dict[str, Any]) -> dict[str, object]:
    """The stored counts with those of works that were not killed before; no commit is that of all of them.

    >>> few = {"kills": 1, "ended before": 0, "faults": 0, "by work": {"a": {"after it": 1}}}
    >>> merged(few, few | {"commit": "0", "by work": {"b": {"after it": 1}}})["by work"]
    {'a': {'after it': 1}, 'b': {'after it': 1}}
    """
    if both := stored["by work"].keys() & part["by work"].keys():
        raise ValueError(f"jobs: expected works without stored kills, got {', '.join(sorted(both))}: kill all of them")
    sums = {name: stored[name] + part[name] for name in ("kills", "ended before", "faults")}
    return {**sums, "by work": stored["by work"] | part["by work"]}


if __name__ == "__main__":
    sys.exit(main())
