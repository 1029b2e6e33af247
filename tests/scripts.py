"""Scripts of ``verification/`` that print one JSON record, run as a reader runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def record(script: str, *words: str) -> tuple[Any, str]:
    """What ``verification/SCRIPT WORDS`` prints: the record on stdout, and the text on stderr."""
    ran = subprocess.run(
        [sys.executable, f"verification/{script}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    assert ran.stdout, ran.stderr
    return json.loads(ran.stdout), ran.stderr
