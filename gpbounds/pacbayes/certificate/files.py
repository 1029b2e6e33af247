"""Certificates as JSON files that hold every double exactly, strict reading, and a seal against accidental changes."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any

from gpbounds.strict_json import read_json
from gpbounds.writing import replacing

FORMAT = "gpbounds certificate"
SCHEMA = 1


def seal(record: dict[str, Any]) -> str:
    """SHA-256 of a record's canonical JSON (sorted keys, no spaces, ASCII), without its own field "seal".

    It shows damage and careless edits.  It is not a signature: anybody who changes a record can compute a new seal, and
    then only the check against the data shows that the numbers are false.

    >>> seal({"b": 0.1, "a": 1})[:8], seal({"a": 1, "b": 0.1, "seal": "x"})[:8]
    ('8c5bd7a8', '8c5bd7a8')
    """
    rest = {key: value for key, value in record.items() if key != "seal"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def write(record: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """``record`` as indented JSON, lists of numbers on one line; its decimals give back the same doubles."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    # This matches only lists that json broke into lines, since a JSON string holds no raw newline.
    flat = re.sub(r"\[\n\s*([^\[\]{}\n]*(?:\n[^\[\]{}\n]*)*?)\n\s*\]", lambda m: f"[{_joined(m[1])}]", text)
    with replacing(path) as file:
        file.write(flat + "\n")


def _joined(body: str) -> str:
    return " ".join(line.strip() for line in body.split("\n"))


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The record in a file; only its format and schema are checked.

    Raises
    ------
    ValueError
        for a file that is not JSON, has NaN or a field twice, is not a certificate, or has another schema.
    OSError
        for a file that cannot be read.
    """
    name = os.fspath(path)
    record = read_json(path, "a certificate")
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(f'{name}: expected a certificate, a JSON object with "format": "{FORMAT}"')
    if record.get("schema") != SCHEMA or isinstance(record["schema"], bool):
        got = repr(record.get("schema"))[:60]
        raise ValueError(f"{name}: expected schema {SCHEMA}, got {got}: written by another version of gpbounds")
    return record
