"""Strict reading of a JSON record: every field is read by name and kind, and unknown fields are refused."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from gpbounds.arrays import Float
from gpbounds.files import read_json, replacing

T = TypeVar("T")
KINDS: dict[type, str] = {
    dict: "an object",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


class Fields:
    """The fields of one JSON object, taken one by one; `done` refuses fields that remain.

    Parameters
    ----------
    record : dict
    where : str
        The object's path, for messages.

    >>> fields = Fields({"delta": 0.05}, "certificate")
    >>> fields.number("delta")
    0.05
    >>> fields.done()
    """

    def __init__(self, record: Any, where: str) -> None:
        if not isinstance(record, dict):
            raise ValueError(f"{where}: expected an object with named fields, got {shown(record)}")
        self.record = dict(record)
        self.where = where

    def take(self, name: str) -> Any:
        """The value of a field of any kind."""
        if name not in self.record:
            raise ValueError(f"{self.where}: expected a field {name!r}, got {listed(self.record)}")
        return self.record.pop(name)

    def _kind(self, name: str, *kinds: type) -> Any:
        value = self.take(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"{self.where}.{name}: expected {KINDS[kinds[0]]}, got {shown(value)}")
        return value

    def text(self, name: str) -> str:
        """A text."""
        return str(self._kind(name, str))

    def truth(self, name: str) -> bool:
        """true or false."""
        return bool(self._kind(name, bool))

    def integer(self, name: str) -> int:
        """A whole number."""
        return int(self._kind(name, int))

    def natural(self, name: str) -> int:
        """A whole number from 1 to 2^53; the formulas take it as a double, which is this number."""
        value = self.integer(name)
        if not 1 <= value <= 2**53:
            raise ValueError(f"{self.where}.{name}: expected a whole number from 1 to 2^53, got {shown(value)}")
        return value

    def digest(self, name: str) -> str:
        """A SHA-256 in hexadecimal."""
        text = self.text(name)
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise ValueError(f"{self.where}.{name}: expected 64 hexadecimal digits, got {shown(text)}")
        return text

    def built(self, make: Callable[[], T]) -> T:
        """``make()``; its error messages get this object's path."""
        try:
            return make()
        except ValueError as error:
            text = str(error)
            raise ValueError(text if text.startswith(self.where) else f"{self.where}.{text}") from None

    def number(self, name: str) -> float:
        """A finite number that a double holds."""
        return _double(self._kind(name, float, int), f"{self.where}.{name}")

    def part(self, name: str) -> Fields:
        """An object within this one."""
        return Fields(self.take(name), f"{self.where}.{name}")

    def each(self, name: str) -> list[Any]:
        """A list of any items."""
        value = self.take(name)
        if not isinstance(value, list):
            raise ValueError(f"{self.where}.{name}: expected a list, got {shown(value)}")
        return value

    def parts(self, name: str) -> list[Fields]:
        """A list of objects."""
        return [Fields(item, f"{self.where}.{name}[{i}]") for i, item in enumerate(self.each(name))]

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        items = self.each(name)
        if not all(isinstance(item, str) for item in items):
            raise ValueError(f"{self.where}.{name}: expected a list of texts, got {shown(items)}")
        return tuple(items)

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        items = self.each(name)
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            raise ValueError(f"{self.where}.{name}: expected a list of whole numbers, got {shown(items)}")
        return tuple(items)

    def numbers(self, name: str) -> float | tuple[float, ...]:
        """A number or a list of numbers."""
        value = self.take(name)
        where = f"{self.where}.{name}"
        return tuple(_double(v, where) for v in value) if isinstance(value, list) else _double(value, where)

    def array(self, name: str, ndim: int) -> Float:
        """A list of numbers (``ndim`` 1), or a list of rows of equal length (2)."""
        value, where = self.each(name), f"{self.where}.{name}"
        if ndim == 1:
            return np.array([_double(v, where) for v in value], dtype=np.float64)
        if not value or not all(isinstance(row, list) and len(row) == len(value[0]) for row in value):
            raise ValueError(f"{where}: expected a list of rows of equal length, got {shown(value)}")
        return np.array([[_double(v, where) for v in row] for row in value], dtype=np.float64)

    def triangle(self, name: str) -> Float:
        """A lower triangular matrix, written row by row up to the diagonal."""
        rows, where = self.each(name), f"{self.where}.{name}"
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != i + 1:
                raise ValueError(f"{where}[{i}]: expected a row of {i + 1} number(s), got {shown(row)}")
        matrix = np.zeros((len(rows), len(rows)))
        for i, row in enumerate(rows):
            matrix[i, : i + 1] = [_double(v, where) for v in row]
        return matrix

    def done(self) -> None:
        """Refuse fields that were not read."""
        if self.record:
            raise ValueError(f"{self.where}: unknown field(s) {listed(self.record)}")


def _double(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}: expected a number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number != value:
        raise ValueError(f"{where}: expected a number that a double holds exactly, got {shown(value)}")
    return number


def shown(value: Any) -> str:
    """A value for a message, cut after 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Iterable[str]) -> str:
    """Names for a message, the first ten of them."""
    all_names = list(map(shown, names))
    return ", ".join(all_names[:10] + ["..."] * (len(all_names) > 10)) or "none"


# Certificates as JSON files that hold every double exactly, strict reading, and a seal against accidental changes.

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
