"""Fail if pytest does not collect every test function in ``tests/`` and ``verification/``."""

import ast
import subprocess
import sys
from pathlib import Path

root = Path(__file__).parent.parent
written = set()
for folder in ("tests", "verification"):
    for path in sorted((root / folder).rglob("*.py")):
        names = [
            n.name for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.FunctionDef)
        ]
        tests = [name for name in names if name.startswith("test_")]
        if len(tests) != len(set(tests)):
            sys.exit(f"{path.name}: two tests have the same name, so pytest never runs the first")
        if tests and not path.name.startswith("test_"):
            sys.exit(f"{path.name} contains tests, but its name is not test_*.py")
        written |= {(path.relative_to(root).as_posix(), name) for name in tests}
listing = subprocess.run(
    [sys.executable, "-m", "pytest", "--collect-only", "-q"], cwd=root, capture_output=True, text=True, check=False
)
if listing.returncode:
    sys.exit(listing.stdout + listing.stderr)
collected = set()
for line in listing.stdout.splitlines():
    if "::" in line:
        path, *_, name = line.split("::")
        collected.add((path, name.partition("[")[0]))
missing = sorted(written - collected)
if missing:
    sys.exit("written but not collected: " + ", ".join(f"{path}::{name}" for path, name in missing))
print(f"{len(written)} test functions written; pytest collects all of them")
