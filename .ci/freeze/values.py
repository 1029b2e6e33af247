"""Results as JSON in which no digit is lost, and texts without what differs between two runs."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from words import IN_TEXTS

FEW = 4
"""So many first values of an array are shown; arrays up to twice this size are stored whole."""

MASKS = (
    (r"([^\r\n]*(\d%\||\[\d\d:\d\d[<,])[^\r\n]*[\r\n]*)+", "<progress>\n"),
    (r"0x[0-9a-f]{6,}(?![.p\d])", "<address>"),
    (r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?", "<date>"),
    (r"(?<![\w.])\d+(\.\d+)?(e-?\d+)? (ns|µs|ms|s|min|h|seconds?|minutes?)(?![\w²^]| at )", "<duration>"),
    (r"(?<![\w.])\d+(\.\d+)?(ns|µs|ms)(?!\w)", "<duration>"),
    (r"\b\d+\.\d+\.\d+(\.dev\d+|rc\d+|\+\w+)*\b", "<version>"),
    (r"\bPython \d+\.\d+", "Python <version>"),
)


def masked(text: str) -> str:
    """The text without paths of temporary folders, addresses, times, durations, dates, versions, old words."""
    folders = {tempfile.gettempdir(), os.path.realpath(tempfile.gettempdir())}
    for folder in sorted(folders, key=len, reverse=True):
        text = re.sub(re.escape(folder) + r"(/tmp[\w]+)?", "<folder>", text)
    text = re.sub(r"(/[\w.+-]+)+/(?=(gpbounds|fitting)/[\w/]+\.py)", "", text)
    for old, new in IN_TEXTS.items():
        text = text.replace(old, new)
    for pattern, word in MASKS:
        text = re.sub(pattern, word, text)
    return text


def encoded(value: Any) -> Any:
    """A result as JSON: doubles in hex, arrays by their bytes, records by their public fields, texts masked."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": hashlib.sha256(value).hexdigest()}
    if isinstance(value, float | np.floating):
        return float(value).hex() if math.isfinite(value) else str(float(value))
    if isinstance(value, complex | np.complexfloating):
        return [encoded(float(value.real)), encoded(float(value.imag))]
    if isinstance(value, np.generic):
        return encoded(value.item())
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Mapping):
        return {str(key): encoded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted((encoded(entry) for entry in value), key=repr)
    if isinstance(value, Path):
        return masked(str(value))
    if isinstance(value, slice):
        return repr(value)
    return _record(value)


def _array(value: np.ndarray) -> Any:
    """An array of at most 2·FEW entries whole; of a larger one the shape, the first entries and a hash of all bytes."""
    if value.dtype == object or value.dtype.kind in "US":
        return {"array": f"text {value.shape}", "values": [encoded(entry) for entry in value.ravel().tolist()]}
    flat = np.ascontiguousarray(value).ravel()
    whole = flat.size <= 2 * FEW
    found = {
        "array": f"{value.dtype} {value.shape}",
        "values" if whole else "first": [encoded(entry) for entry in flat[: None if whole else FEW]],
    }
    return found if whole else found | {"sha256": hashlib.sha256(flat.tobytes()).hexdigest()}


def _record(value: Any) -> Any:
    """An object by its type and public fields; a `Bound` and other results of the library with their text, too."""
    name = type(value).__name__
    if name == "Bound":
        parts = ("value", "side", "confidence", "certified", "claim", "assumptions", "quantity", "terms")
        return {"type": name} | {part: encoded(getattr(value, part)) for part in parts} | {"text": masked(str(value))}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {"type": name} | {field: encoded(getattr(value, field)) for field in fields}
    if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
        return {"named": getattr(value, "__name__", name)}
    return {"type": name, "text": masked(repr(value))}


def raised(error: BaseException) -> dict[str, str]:
    """A refusal as a result: its type and its text."""
    return {"raises": type(error).__name__, "text": masked(str(error))}
