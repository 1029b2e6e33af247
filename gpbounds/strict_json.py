"""JSON as it is written by this package: each field once, finite numbers, no more than a double holds."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

DIGITS = 1000
"""Largest number of digits of a whole number, more than any double has."""


def read_json(path: str | os.PathLike[str], what: str) -> Any:
    """The values in a JSON file that holds ``what``, the words for messages.

    Raises
    ------
    ValueError
        for another encoding than UTF-8, what is not JSON, brackets nested too deep, a field twice, NaN, infinity, a
        number beyond the doubles, and whole numbers of more than 1000 digits.
    OSError
        for a file that cannot be read.
    """
    name = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{name}: expected {what}, JSON in UTF-8, got other bytes") from None
    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_constant=_refused, parse_float=_double, parse_int=_whole
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{name}: expected {what} in JSON, but line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise ValueError(f"{name}: expected {what} in JSON, got brackets nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of an object; a field twice is an error.

    >>> unique([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}
    """
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"expected each field once, got {name[:60]!r} twice")
        fields[name] = value
    return fields


def _refused(word: str) -> Any:
    raise ValueError(f"expected finite numbers, got {word}")


def _double(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"expected numbers that a double holds, got {text[:60]}")
    return number


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"expected numbers of at most {DIGITS} digits, got {text[:20]}…")
    return int(text)
