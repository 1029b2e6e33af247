"""Hold this checkout against a frozen state of the library: a tool for rebuilding, not a part of the test suite.

    python tests/frozen/compare.py                    # run everything, print a table of differences; exit 1 if any
    python tests/frozen/compare.py --only models      # some parts: values, errors, models, commands, traces, claims
    python tests/frozen/compare.py --only values --select "renyi: gap"
    python tests/frozen/compare.py --write            # store today's state (with --only: of some parts)
    python tests/frozen/compare.py --coverage         # which public names the calls reach, and how often

The calls stand in `calls/`, by public names and keywords; what is renamed is entered in `renamed.py`, and the stored
numbers stay.  Each part runs in a process of its own with one BLAS thread and without the instruction sets that only
some x86-64 processors have, so that its numbers are the same to the last bit from run to run.

Each stored case holds its rule: "bits" for calculators; 1e-12 of an array's largest entry for what passes through BLAS
(more where a matrix is badly conditioned, or a number holds an allowance for rounding); 1e-6 for what is trained; of an
exception its type.  Sentences, messages and the text of claims may be worded better: --remarks prints what changed.

Where another machine differs in the last bit, store there what the frozen commit gives, with --write --store DIR in a
checkout of it, and hold the now one against that, with --store DIR.  When the rebuild is done, all of this goes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PARTS = ("claims", "traces", "values", "commands", "models", "errors")
"""In the order in which they are started: the longest first."""
MOST_LINES = 12
"""Differences of one case that are printed."""


def environment(threads: int, native: bool) -> dict[str, str]:
    """Of the process that runs a part."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        variables[name] = str(threads)
    if not native:
        from numpy._core._multiarray_umath import __cpu_dispatch__

        beyond = [name for name in __cpu_dispatch__ if name.startswith("AVX512") or name == "X86_V4"]
        variables |= {"NPY_DISABLE_CPU_FEATURES": " ".join(beyond), "OPENBLAS_CORETYPE": "Haswell"}
    return variables


def work(part: str, store: Path, out: Path, writing: bool, select: str) -> None:
    """Run one part in this process."""
    import importlib

    import gpbounds

    assert Path(gpbounds.__file__).is_relative_to(ROOT), f"gpbounds is {gpbounds.__file__}, not that of {ROOT}"
    module = importlib.import_module(f"parts.{part}")
    out.write_text(dumped(module.run(store, writing, select)))


def dumped(record: dict[str, Any]) -> str:
    """One case a line; Python's floats come back as they were."""
    lines = [
        f"{json.dumps(id, ensure_ascii=False)}: {json.dumps(case, ensure_ascii=False)}" for id, case in record.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def ran(part: str, options: argparse.Namespace) -> tuple[dict[str, Any] | str, float]:
    """A part's record, from a process of its own, or why there is none; and the seconds it took."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "record.json"
        command = [sys.executable, __file__, "--part", part, "--out", out, "--store", options.store]
        command += ["--select", options.select, *(["--write"] if options.write else [])]
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env=environment(options.threads, options.native),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - begin
        if done.returncode:
            return f"{done.stdout[-3000:]}{done.stderr[-5000:]}", seconds
        return json.loads(out.read_text()), seconds


def short(value: Any, width: int = 36) -> str:
    """A value in a column."""
    text = repr(value) if isinstance(value, float | int) else value if isinstance(value, str) else json.dumps(value)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 1] + "…"


def held(stored: dict[str, Any], now: dict[str, Any], select: str, bits: bool) -> Iterator[tuple[str, str, Any]]:
    """(id, rule, change) of one part."""
    from rules import Change, compare, compare_claims

    for id in [*stored, *(id for id in now if id not in stored)]:
        if select not in id:
            continue
        if id not in now:
            yield id, stored[id]["rule"], Change("", "stored", "no longer called")
        elif id not in stored:
            yield id, now[id]["rule"], Change("", "not stored", "called: --write stores it")
        else:
            rule, pair = stored[id]["rule"], (stored[id]["value"], now[id]["value"])
            changes = compare_claims(*pair) if rule == "claims" else compare(*pair, "bits" if bits else rule)
            yield from ((id, rule, change) for change in changes)


def report(stored: dict[str, Any], now: dict[str, Any], options: argparse.Namespace) -> tuple[int, int]:
    """Print the differences of a part; how many cases differ, and how many remarks there are."""
    changes = list(held(stored, now, options.select, options.bits))
    by_case: dict[str, list[Any]] = {}
    for id, rule, change in changes:
        if not change.remark:
            by_case.setdefault(id, []).append((rule, change))
    for id, found_there in by_case.items():
        for rule, change in found_there[:MOST_LINES]:
            error = "" if change.error is None else f"{change.error:.1e}"
            columns = (
                f"{short(change.where, 34):<34} {short(change.stored):<36} {short(change.now):<36} {error:>8} {rule}"
            )
            print(f"  {short(id, 60):<60} {columns}")
        if len(found_there) > MOST_LINES:
            print(f"  {short(id, 60):<60} and {len(found_there) - MOST_LINES} more")
    remarks = [(id, change) for id, _, change in changes if change.remark]
    if options.remarks:
        for id, change in remarks:
            print(f"  remark, {id}, {change.where}:\n    then {change.stored}\n    now  {change.now}")
    return len(by_case), len(remarks)


def faults(part: str, now: dict[str, Any]) -> list[str]:
    """Cases that must not be stored: calls that fail, wrong ones that do not."""
    if part == "errors":
        return [id for id, case in now.items() if case["value"]["raised"] == "nothing"]
    if part == "claims":
        return ["pytest"] if now["pytest"]["value"]["status"] else []
    return [id for id, case in now.items() if isinstance(case["value"], dict) and "raised" in case["value"]]


def about() -> dict[str, Any]:
    """What the stored numbers were made with."""
    git = ["git", "-C", str(ROOT), "log", "-1", "--format=%H", "--", "gpbounds", "fitting", "verification"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    libraries = ("numpy", "scipy", "scikit-learn", "matplotlib", "mpmath", "python-flint", "hypothesis")
    return {"commit": commit, "python": platform.python_version(), **{name: version(name) for name in libraries}}


def main() -> None:
    """Run, and compare or store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--select", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument("--write", action="store_true", help="store instead of comparing")
    parser.add_argument("--store", type=Path, default=HERE / "store", help="where the numbers are (default: store/)")
    parser.add_argument("--remarks", action="store_true", help="print what changed in messages and sentences, too")
    parser.add_argument("--bits", action="store_true", help="hold everything to the last bit (but for claims)")
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads (default 1)")
    parser.add_argument("--native", action="store_true", help="with all instruction sets of this processor")
    parser.add_argument("--coverage", action="store_true", help="print how many calls reach each public name")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.store = options.store.resolve()
    if options.part:
        work(options.part, options.store, options.out, options.write, options.select)
        return
    if options.coverage:
        command = [sys.executable, HERE / "covered.py"]
        sys.exit(subprocess.run(command, env=environment(1, False), check=False).returncode)
    if options.write and options.select:
        parser.error("--select: what is stored is a whole part")
    options.store.mkdir(parents=True, exist_ok=True)
    made_with = about()
    if not options.write and (options.store / "about.json").exists():
        for name, stored in json.loads((options.store / "about.json").read_text()).items():
            if name != "commit" and stored != made_with[name]:
                print(f"note: stored with {name} {stored}, compared with {made_with[name]}")

    different, begin = 0, time.perf_counter()
    print(f"{'part':<10} {'cases':>6} {'differ':>7} {'remarks':>8} {'seconds':>8}")
    with ThreadPoolExecutor(2) as pool:
        chosen = [part for part in PARTS if part in options.only]
        for part, (now, seconds) in zip(chosen, pool.map(lambda part: ran(part, options), chosen), strict=True):
            place = options.store / f"{part}.json"
            if isinstance(now, str):
                print(f"{now}\n{part:<10} {'':>6} {'failed':>7} {'':>8} {seconds:>8.1f}", flush=True)
                different += 1
                continue
            if options.write:
                if refused := faults(part, now):
                    sys.exit(f"{part}: not stored, as these do not do what they should: {'; '.join(refused)}")
                place.write_text(dumped(now))
                print(f"{part:<10} {len(now):>6} {'stored':>7} {'':>8} {seconds:>8.1f}", flush=True)
                continue
            if not place.exists():
                sys.exit(f"{part}: nothing is stored in {options.store}; --write stores")
            stored = json.loads(place.read_text())
            differ, remarks = report(stored, now, options)
            different += differ
            print(f"{part:<10} {len(now):>6} {differ:>7} {remarks:>8} {seconds:>8.1f}", flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.perf_counter() - begin:.0f} s; {used.ru_utime + used.ru_stime:.0f} s of processor time")
    if different:
        sys.exit(1)
    if options.write:
        (options.store / "about.json").write_text(json.dumps(made_with, indent=1) + "\n")


if __name__ == "__main__":
    main()
