"""The claims report of `verification/`: claims, how many cases each was tried on, worst slack and tightness.

Hypothesis draws the examples of a check from the text of its function.  So a claim's figures are held to the stored
ones only where its checks, and what they share, are the same but for imports; else they are told as remarks, and only a
claim that lost cases is a difference.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "verification"


def code(path: Path) -> ast.Module:
    """A file without its imports, which a renaming changes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    return tree


def functions() -> dict[str, str]:
    """The text of every check, by "file::name"."""
    return {
        f"verification/{path.name}::{node.name}": ast.unparse(node)
        for path in sorted(FOLDER.glob("test_*.py"))
        for node in ast.walk(code(path))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def digest(texts: list[str]) -> str:
    """A short hash of some texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def figures(claim: dict[str, Any], texts: dict[str, str], shared: str) -> dict[str, Any]:
    """What is kept of a claim's entry."""
    checks = sorted({check.partition("[")[0] for check in claim["checks"]})
    kept = {name: claim[name] for name in ("state", "verdict")}
    for name in ("cases", "worst_slack", "tightness", "worst_relative_error", "failure_frequencies"):
        kept[name] = claim.get(name)
    kept["counterexamples"] = len(claim.get("counterexamples", ()))
    return kept | {"checks": len(claim["checks"]), "text": digest([shared, *(texts[check] for check in checks)])}


def run(store: Path, writing: bool, select: str = "") -> dict[str, Any]:
    """The whole verification, once."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "claims.json"
        command = ["-m", "pytest", "verification", "-q", "-p", "no:cacheprovider", f"--claims-report={report}"]
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            raise RuntimeError(f"the verification did not run\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        claims = json.loads(report.read_text())
    failed = sorted(line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR ")))
    texts = functions()
    shared = digest(
        [ast.unparse(code(path)) for path in sorted(FOLDER.glob("*.py")) if not path.name.startswith("test_")]
    )
    record = {"pytest": {"rule": "bits", "value": {"status": done.returncode, "failed": failed}}}
    for id, claim in claims.items():
        if "checks" in claim:  # other entries are about the run
            record[id] = {"rule": "claims", "value": figures(claim, texts, shared)}
    return {id: case for id, case in record.items() if select in id}
