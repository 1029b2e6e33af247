"""Freeze what the public interface returns, in every hex digit, and compare commits.

    python .ci/freeze record OUT.json           # about five minutes of one core
    python .ci/freeze compare OLD.json NEW.json  # exit status 1 if a difference has no reason in named.toml
    python .ci/freeze against COMMIT            # record COMMIT in a temporary worktree and here, and compare
    python .ci/freeze examples                  # store the examples of today's docstrings as calls

The last digits of a result depend on the machine's BLAS and on the versions of NumPy and SciPy, so recordings are
compared on one machine and in one environment only.  Each recording is made in its own process with one BLAS thread
(hence one lane), a fixed hash seed and a fixed locale.  The calls are those of this checkout also where another
commit is recorded; they use public names only, and `words.py` has the options whose spelling changes.

``--parts`` restricts ``record`` and ``against`` to some modules of ``calls/``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STANDIN = ROOT / "tests" / "standin"
DEVICE = "device"
ONE_THREAD = ("OPENBLAS", "OMP", "MKL", "BLIS", "NUMEXPR", "VECLIB_MAXIMUM")


def environment(tree: Path, folder: Path, part: str) -> dict[str, str]:
    """The variables of a recording: one thread, and everything else that a result or a text may depend on."""
    paths = [str(tree), *([str(STANDIN)] if part == DEVICE else [])]
    fixed = {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder), "PYTHONHASHSEED": "0", "COLUMNS": "100"}
    fixed |= {"TZ": "UTC", "LC_ALL": "C.UTF-8", "MPLBACKEND": "Agg", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    fixed |= {f"{name}_NUM_THREADS": "1" for name in ONE_THREAD}
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | fixed


def recorded(tree: Path, parts: list[str]) -> tuple[dict[str, object], list[str]]:
    """The outcomes of the calls in the packages of ``tree``, and the public names that no call has entered."""
    found: dict[str, object] = {}
    missed: list[str] | None = None
    with tempfile.TemporaryDirectory(prefix="freeze") as folder:
        for part in (",".join(each for each in parts if each != DEVICE), *(each for each in parts if each == DEVICE)):
            if not part:
                continue
            out = Path(folder) / "recording.json"
            words = [sys.executable, str(HERE), "_record", str(out), "--parts", part]
            subprocess.run(words, cwd=folder, env=environment(tree, Path(folder), part), check=True)
            record = json.loads(out.read_text(encoding="utf-8"))
            found |= record["calls"]
            missed = record["missed"] if missed is None else [name for name in missed if name in set(record["missed"])]
    return found, missed or []


def record_here(out: Path, parts: list[str]) -> None:
    """Run the calls in this process, which `recorded` has started."""
    import calls
    import recording

    import fitting
    import gpbounds

    print(f"gpbounds of {Path(gpbounds.__file__).parent}, fitting of {Path(fitting.__file__).parent}", file=sys.stderr)
    every = {name: call for part in parts for name, call in calls.calls(part).items()}
    found, entered = recording.record(every)
    for text in recording.broken(found):
        print(f"  not reached: {text}", file=sys.stderr)
    write(out, {"calls": found, "missed": recording.not_entered(entered)})


def write(path: Path, content: object) -> None:
    """Write JSON, an entry a line, so that a diff of two files can be read."""
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def at_commit(commit: str, parts: list[str]) -> dict[str, object]:
    """The recording of a commit, made in a temporary worktree, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="freeze") as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
        try:
            return recorded(tree, parts)[0]
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def compare(old: dict[str, object], new: dict[str, object], reasons: Path) -> int:
    """Print the differences; 1 if one of them has no reason."""
    import comparison

    text, passed = comparison.report(comparison.differences(old, new), comparison.named(reasons))
    print(text)
    return 0 if passed else 1


def arguments() -> argparse.Namespace:
    """The command's words."""
    parser = argparse.ArgumentParser(prog="python .ci/freeze", description=(__doc__ or "").partition("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    record, inner = actions.add_parser("record"), actions.add_parser("_record")
    against, both = actions.add_parser("against"), actions.add_parser("compare")
    actions.add_parser("examples")
    for each in (record, inner):
        each.add_argument("out", type=Path, metavar="OUT.json")
    against.add_argument("commit")
    both.add_argument("old", type=Path, metavar="OLD.json")
    both.add_argument("new", type=Path, metavar="NEW.json")
    for each in (record, inner, against):
        each.add_argument("--parts", help="modules of calls/, separated by commas (default: all)")
    for each in (both, against):
        each.add_argument("--differences", type=Path, default=HERE / "named.toml", metavar="FILE")
    return parser.parse_args()


def main() -> int:
    """Do what the words ask for; the exit status."""
    words = arguments()
    if words.action == "compare":
        old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (words.old, words.new))
        return compare(old, new, words.differences)
    if words.action == "examples":
        from calls import examples

        return examples.store()
    import calls

    parts = words.parts.split(",") if words.parts else [*calls.PARTS, DEVICE]
    if words.action == "_record":
        record_here(words.out, parts)
    elif words.action == "record":
        found, missed = recorded(ROOT, parts)
        write(words.out, found)
        print(f"{len(found)} calls; {len(missed)} public names entered by none: {', '.join(missed) or 'none'}")
    else:
        return compare(at_commit(words.commit, parts), recorded(ROOT, parts)[0], words.differences)
    return 0


if __name__ == "__main__":
    sys.exit(main())
