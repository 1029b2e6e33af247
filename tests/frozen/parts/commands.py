"""What every command prints with ``--json``, on small data, and its exit status."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

from calls.commands import COMMANDS, tables
from language import find

from parts.values import attempt


def said(words: str) -> dict[str, Any]:
    """What a command leaves: exit status, JSON, and its last sentence where it refused."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status = find("gpbounds.cli.main")(words.split())
    if not out.getvalue():
        return {"status": status, "reason": (err.getvalue().strip().splitlines() or [""])[-1]}
    return {"status": status, "json": json.loads(out.getvalue())}


def run(store: Path, writing: bool, select: str = "") -> dict[str, Any]:
    """Every command, in a folder of its own."""
    record = {}
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            tables()
            for rule, words in COMMANDS:
                if select in words or words.startswith("certify"):
                    record[words] = {"rule": rule, "value": attempt(functools.partial(said, words))}
        finally:
            os.chdir(before)
    return {words: case for words, case in record.items() if select in words}
