"""Arrays and plain values in one .npz file, without pickle: the format of saved models and checkpoints.

A file is read as if a stranger had written it.  Members are stored without compression, so that they need the bytes of
the file and no more; each header is compared with these bytes before memory is taken; and only numbers and texts are
read, no objects, so that no code in the file runs.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpbounds.files import header, regular, replacing
from gpbounds.records import from_json, to_json

ABOUT = "about"
"""Name of the member of the file that holds the JSON, as bytes."""

_DAMAGED = (
    zipfile.BadZipFile,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    ValueError,
    RuntimeError,  # encrypted members, and JSON nested too deep
    NotImplementedError,
    OverflowError,
    OSError,
)
"""Errors that readers of ZIP files, arrays and JSON raise for invalid bytes."""


def packed(value: Any, *, sort: bool = False) -> Any:
    """Plain values as JSON in an array of bytes; infinite numbers are allowed, as training has them."""
    return np.frombuffer(to_json(value, sort=sort, finite=False).encode(), dtype=np.uint8)


def unpacked(data: Any) -> Any:
    """The inverse of `packed`."""
    return from_json(data.tobytes(), finite=False)


def write_archive(path: str | os.PathLike[str], about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Replace the file in one step: a reader sees either the old file or the complete new one."""
    members: dict[str, Any] = {ABOUT: packed(about, sort=True)}
    with replacing(path, "wb") as file:
        np.savez(file, **(members | dict(arrays)))


def read_archive(path: str | os.PathLike[str], kind: str, version: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plain values and the arrays that `write_archive` wrote; checks ``about["kind"]`` and ``about["version"]``.

    Raises
    ------
    ValueError
        for a file of another kind, or of another version, and for a damaged one.
    OSError
        if the file cannot be read.
    """
    regular(path)
    with open(path, "rb") as file:
        try:
            arrays = _members(file)
            about = unpacked(arrays.pop(ABOUT))
            stored_kind, stored_version = about["kind"], about["version"]
        except _DAMAGED as error:
            raise ValueError(
                f"path: expected a {kind} written by fitting, got {os.fspath(path)!r} ({one_line(error)})"
            ) from error
    if stored_kind != kind:
        raise ValueError(f"path: expected a {kind}, got a {str(stored_kind)[:60]} in {os.fspath(path)!r}")
    if stored_version != version or isinstance(stored_version, bool):
        raise ValueError(
            f"path: expected version {version} of a {kind}, got {str(stored_version)[:60]} in {os.fspath(path)!r}: "
            "read the file with the release that wrote it, or train again"
        )
    return about, arrays


def one_line(error: BaseException) -> str:
    """The message of an error, on one line and not too long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]} …"


def _members(file: Any) -> dict[str, Any]:
    """The arrays by name."""
    whole = os.fstat(file.fileno()).st_size
    arrays: dict[str, Any] = {}
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > whole:
            raise ValueError("its members are larger than the file")
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(f"its member {entry.filename[:60]!r} is compressed")
            name = entry.filename.removesuffix(".npy")
            if name in arrays or name == entry.filename:
                raise ValueError(f"it has a member {entry.filename[:60]!r}, which is no array, or is there twice")
            arrays[name] = _array(archive.read(entry), name)
    return arrays


def _array(data: bytes, name: str) -> Any:
    stated = header(io.BytesIO(data), len(data), f"its member {name[:60]!r}", "biufcSU")
    count, order = math.prod(stated.shape), "F" if stated.fortran else "C"
    flat = np.frombuffer(data, stated.dtype, count, stated.offset)
    return flat.astype(stated.dtype.newbyteorder("=")).reshape(stated.shape, order=order)  # type: ignore[call-overload]
