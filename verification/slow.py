"""Store what a run of the slow tests said.

    pytest -v --slow -m "slow or broad" | tee slow.log
    python verification/slow.py slow.log again.log

stores in ``verification/slow.json``, for the claims report, how many tests of these files passed at last, how many of
them had failed before they were mended, and which functions they are.  CI runs a thirtieth of these tests, another one
at each commit.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import history

SLOW = Path(__file__).with_suffix(".json")
"""What the last run said."""
ENDS = "PASSED|FAILED|ERROR"
_ALONE = re.compile(rf"^((?:tests|verification)/\S+?\.py::.+?) ({ENDS})\b", re.MULTILINE)
_BY_WORKERS = re.compile(rf"^\[gw\d+\] \[ *\d+%\] ({ENDS}) ((?:tests|verification)/.+)$", re.MULTILINE)


def ends_in(output: str) -> list[tuple[str, str]]:
    """Each test in the saved output of ``pytest -v``, and how it ended."""
    return _ALONE.findall(output) + [(test, end) for end, test in _BY_WORKERS.findall(output)]


def store(outputs: Sequence[str], commits: Sequence[str], path: Path = SLOW) -> dict[str, Any]:
    """Store the last end of each test, how many of those that passed had failed before, and the commits of the runs."""
    last, failed = dict[str, str](), set[str]()
    for test, end in (each for output in outputs for each in ends_in(output)):
        last[test] = end
        failed |= {test} if end != "PASSED" else set()
    if not last:
        raise ValueError("expected the output of pytest -v, which names the tests that ran, got none with a name")
    passed = {test for test, end in last.items() if end == "PASSED"}
    counts = {"passed": len(passed), "failed": len(last) - len(passed), "mended": len(failed & passed)}
    record = {"commits": [*commits], **counts, "functions": sorted({test.partition("[")[0] for test in last})}
    from gpbounds.files import replacing

    with replacing(path) as file:
        file.write(json.dumps(record, indent=1) + "\n")
    return record


def line(record: dict[str, Any]) -> str:
    """The record as text."""
    mended = f" ({record['mended']} of them failed before they were mended)" if record["mended"] else ""
    return f"{record['passed']:,} passed{mended}, {record['failed']} failed"


@cache
def functions(root: Path = history.ROOT) -> frozenset[str]:
    """All test functions in the two folders, as ``FILE::FUNCTION``."""
    return frozenset(
        f"{path.relative_to(root).as_posix()}::{name}"
        for folder in ("tests", "verification")
        for path in (root / folder).rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )


if __name__ == "__main__":
    print(line(store([Path(name).read_text(encoding="utf-8") for name in sys.argv[1:]], [history.commit()])))
