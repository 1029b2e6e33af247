"""Arrays and plain values in one .npz file, without pickle: what models and checkpoints are written in."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ABOUT = "about"
"""The member that holds JSON, as bytes."""


def write_archive(path: str | os.PathLike[str], about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write at once: a reader finds the old file or the new one, never half of one."""
    target = Path(path)
    members: dict[str, Any] = {ABOUT: np.frombuffer(json.dumps(about, sort_keys=True).encode(), dtype=np.uint8)}
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            np.savez(file, **(members | dict(arrays)))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def read_archive(path: str | os.PathLike[str], kind: str, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `write_archive` wrote, with ``about["kind"]`` and ``about["version"]`` checked.

    Raises
    ------
    ValueError
        for another file, or one of a later version.
    """
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop(ABOUT).tobytes())
        found = about["kind"], about["version"]
    except (zipfile.BadZipFile, KeyError, TypeError, AttributeError, EOFError, ValueError) as error:
        raise ValueError(f"path: expected a {kind} written by fitting, got {os.fspath(path)!r} ({error})") from error
    if found[0] != kind:
        raise ValueError(f"path: expected a {kind}, got a {found[0]} in {os.fspath(path)!r}")
    if found[1] != version:
        raise ValueError(
            f"path: expected version {version} of a {kind}, got {found[1]} in {os.fspath(path)!r}: read it with the "
            "release that wrote it, or train again"
        )
    return about, arrays
