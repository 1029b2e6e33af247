"""Arrays and plain values in one .npz file, without pickle: the format of saved models and checkpoints."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpbounds.writing import replacing

ABOUT = "about"
"""Name of the member of the file that holds the JSON, as bytes."""


def write_archive(path: str | os.PathLike[str], about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Replace the file in one step: a reader sees either the old file or the complete new one."""
    members: dict[str, Any] = {ABOUT: np.frombuffer(json.dumps(about, sort_keys=True).encode(), dtype=np.uint8)}
    with replacing(path, "wb") as file:
        np.savez(file, **(members | dict(arrays)))


def read_archive(path: str | os.PathLike[str], kind: str, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain values and the arrays that `write_archive` wrote; checks ``about["kind"]`` and ``about["version"]``.

    Raises
    ------
    ValueError
        for a file of another kind, or of another version.
    """
    try:
        with Path(path).open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop(ABOUT).tobytes())
        stored_kind, stored_version = about["kind"], about["version"]
    except (zipfile.BadZipFile, KeyError, TypeError, AttributeError, EOFError, ValueError) as error:
        raise ValueError(f"path: expected a {kind} written by fitting, got {os.fspath(path)!r} ({error})") from error
    if stored_kind != kind:
        raise ValueError(f"path: expected a {kind}, got a {stored_kind} in {os.fspath(path)!r}")
    if stored_version != version:
        raise ValueError(
            f"path: expected version {version} of a {kind}, got {stored_version} in {os.fspath(path)!r}: read the "
            "file with the release that wrote it, or train again"
        )
    return about, arrays
