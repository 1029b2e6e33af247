"""Results of long runs, one JSON record a line, appended as they come, so that a run goes on from what it has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def add(path: Path, record: Any) -> None:
    """Append a record."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def records(path: Path) -> list[Any]:
    """All whole records; one that a kill cut short is deleted, and its work is done again."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        os.truncate(path, len(whole))
    return [json.loads(line) for line in whole.splitlines()]
