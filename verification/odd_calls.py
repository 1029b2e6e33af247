"""Call every public callable with odd values in the place of each of its arguments, and list what it does wrong.

    python verification/odd_calls.py                            # gpbounds, about 60,000 calls: half an hour
    python verification/odd_calls.py fitting                    # the functions and estimators of fitting
    python verification/odd_calls.py gpbounds --only kdpp       # callables whose names contain a word
    python verification/odd_calls.py --only kdpp.sample --argument M --kind NaN   # some calls again

Each callable has a process of its own, with a limit on its memory; the system must have fork.  ``--results`` names a
file of faults, one a line, which a later run goes on from.
"""

from __future__ import annotations

if __name__ == "__main__":
    from robustness import one_thread  # noqa: F401

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import appended

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
MEMORY = 2**32
"""Bytes of address space that a process may take beyond its start."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="?", default="gpbounds", choices=("gpbounds", "fitting"))
    parser.add_argument("--only", default="", metavar="WORD", help="only callables whose names contain WORD")
    parser.add_argument("--argument", default="", help="only this argument, in this process")
    parser.add_argument("--kind", default="", help="only this kind of odd value, in this process")
    parser.add_argument("--results", type=Path, help="file of results so far, to go on from")
    args = parser.parse_args()
    from robustness.right_calls import calls

    chosen = list(calls(args.package, only=args.only))
    if args.argument or args.kind:
        return again(chosen, args.argument, args.kind)
    with tempfile.TemporaryDirectory() as folder:
        results = (args.results or Path(folder) / "results.jsonl").absolute()
        done = {each["number"] for each in appended.records(results) if "tried" in each}
        for number, call in enumerate(chosen):
            if number not in done:
                apart(number, call, results)
                print(f"{number + 1}/{len(chosen)} {call.name}", file=sys.stderr)
        records = list(appended.records(results))
    return report(records)


def again(chosen: list[Any], argument: str, kind: str) -> int:
    """Some calls in this process, and what each did."""
    from robustness.odd_arguments import fault
    from robustness.right_calls import allowed

    os.chdir(tempfile.mkdtemp())
    for call in chosen:
        for name, odd in call.odd():
            if argument in ("", name) and kind in ("", odd.name):
                print(call.name, name, odd.name, fault(call, name, odd, allowed) or "right", sep=" | ")
    return 0


def apart(number: int, call: Any, results: Path) -> None:
    """All odd values of one callable, in processes of their own: the next one goes on behind a value that ended one."""
    from robustness.odd_arguments import LIMIT

    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder) / "progress"
        first = 0
        while first is not None:
            progress.write_text(f"{first} start", encoding="utf-8")
            child = os.fork()
            if child == 0:
                one(number, call, first, results, progress, folder)
            status, since, last = None, time.monotonic(), ""
            while status is None:
                ended, code = os.waitpid(child, os.WNOHANG)
                now = progress.read_text(encoding="utf-8")
                if now != last:
                    since, last = time.monotonic(), now
                if ended:
                    status = code
                elif time.monotonic() - since > 3 * LIMIT:
                    os.kill(child, 9)
                    status = os.waitpid(child, 0)[1]
                else:
                    time.sleep(0.01)
            first = None
            if status:
                place, _, kind = progress.read_text(encoding="utf-8").partition(" ")
                appended.add(results, {"number": number, "name": call.name, "kind": kind, "fault": f"dies: {status}"})
                first = int(place) + 1


def one(number: int, call: Any, first: int, results: Path, progress: Path, folder: str) -> None:
    """The odd values of a callable from the ``first`` one; it ends this process."""
    import resource

    from robustness.odd_arguments import fault
    from robustness.right_calls import allowed

    status = 1
    try:
        used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY,) * 2)
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        odd_ones = list(call.odd())
        for place, (name, odd) in enumerate(odd_ones[first:], first):
            progress.write_text(f"{place} {name} | {odd.name}", encoding="utf-8")
            if wrong := fault(call, name, odd, allowed):
                kind = f"{name} | {odd.name}"
                appended.add(results, {"number": number, "name": call.name, "kind": kind, "fault": wrong})
        appended.add(results, {"number": number, "name": call.name, "tried": len(odd_ones)})
        status = 0
    except Exception:
        wrong = f"harness: {traceback.format_exc()[-300:]}"
        appended.add(results, {"number": number, "name": call.name, "kind": "", "fault": wrong})
    finally:
        os._exit(status)


def report(records: list[dict[str, Any]]) -> int:
    """Print the faults and their counts; 1 if there are others than those that `right_calls.UNSETTLED` lists."""
    from robustness.right_calls import known

    every = [" | ".join((each["name"], each["kind"], each["fault"])) for each in records if "fault" in each]
    faults = [each for each in every if not known(each)]
    print(*faults, sep="\n", end="\n" if faults else "")
    tried = sum(each.get("tried", 0) for each in records)
    kinds = Counter(each.split(" | ", 3)[3].partition(":")[0] for each in faults)
    counts = {"faults": len(faults), "unsettled": len(every) - len(faults)}
    print(json.dumps({"calls": tried, "callables": len(records) - len(every), **counts, **kinds}))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
