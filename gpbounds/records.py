"""The one codec of files: strict JSON, and tables that turn the objects of a class into plain values and back.

A class states the table of its fields once, a `Slot` for each; a `Format` writes and reads by it.  `Variants` are
classes that a word in the record tells apart, such as the kernels.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from gpbounds.arrays import Float
from gpbounds.files import content
from gpbounds.validation import positive, scalar

T = TypeVar("T")

# JSON: each field once, finite numbers unless the caller says otherwise, no more than a double holds.

DIGITS = 1000
"""Largest number of digits of a whole number, more than any double has."""


MARK = "\ufeff"
"""The byte-order mark, with which Windows begins a text in UTF-8."""


def to_json(
    value: Any,
    *,
    indent: int | None = None,
    sort: bool = False,
    compact: bool = False,
    ascii: bool = True,
    flat: bool = False,
    finite: bool = True,
) -> str:
    """``value``, of types of JSON, as a text whose decimals give back the same doubles.

    Options: names in order (``sort``), no spaces (``compact``), only ASCII, lists of numbers on one line in spite of
    ``indent`` (``flat``).  NaN and infinity are a ValueError if ``finite``.

    >>> print(to_json({"b": [0.1, 2], "a": None}, indent=1, sort=True, flat=True))
    {
     "a": null,
     "b": [0.1, 2]
    }
    """
    separators = (",", ":") if compact else None
    text = json.dumps(
        value, indent=indent, sort_keys=sort, separators=separators, ensure_ascii=ascii, allow_nan=not finite
    )
    # This matches only lists that json broke into lines, since a JSON string holds no raw newline.
    broken = r"\[\n\s*([^\[\]{}\n]*(?:\n[^\[\]{}\n]*)*?)\n\s*\]"
    return re.sub(broken, _joined, text) if flat else text


def _joined(broken: re.Match[str]) -> str:
    lines = broken[1].split("\n")
    return f"[{' '.join(line.strip() for line in lines)}]"


def from_json(text: str | bytes, *, finite: bool = True) -> Any:
    """The values of a stranger's JSON in UTF-8, which may begin with a byte-order mark.

    Raises
    ------
    ValueError, RecursionError
        for what is not JSON, a field twice, whole numbers of more than 1000 digits, brackets nested too deep, and, if
        ``finite``, NaN, infinity and numbers beyond the doubles.
    """
    numbers: dict[str, Any] = {"parse_constant": _refused, "parse_float": _double} if finite else {}
    words = (text if isinstance(text, str) else text.decode("utf-8")).removeprefix(MARK)
    return json.loads(words, object_pairs_hook=_unique, parse_int=_whole, **numbers)


def read_json(path: str | os.PathLike[str], what: str) -> Any:
    """The values in a JSON file that holds ``what``, the words for messages; errors as of `from_json`."""
    name, text = os.fspath(path), content(path)
    try:
        return from_json(text)
    except UnicodeDecodeError:
        raise ValueError(f"{name}: expected {what}, JSON in UTF-8, got other bytes") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{name}: expected {what} in JSON, but line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise ValueError(f"{name}: expected {what} in JSON, got brackets nested too deep") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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


def plain(value: Any, *, spelled: bool = False) -> Any:
    """``value`` in types of JSON: arrays and tuples as lists, NumPy's numbers as Python's, records by ``to_dict``.

    ``spelled`` turns numbers that are not finite into texts, which ``float`` reads.

    >>> plain({"a": np.array([1.0, np.inf]), "b": (np.int64(3), None)}, spelled=True)
    {'a': [1.0, 'inf'], 'b': [3, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item, spelled=spelled) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), spelled=True) if spelled else value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item, spelled=spelled) for item in value]
    if spelled and isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.to_dict() if hasattr(value, "to_dict") else value


# A stranger's record: every field is read by name, and unknown fields are refused.


def shown(value: Any) -> str:
    """A value for a message, in one line that is cut after 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def listed(names: Iterable[str]) -> str:
    """Names for a message, the first ten of them."""
    all_names = list(map(shown, names))
    return ", ".join(all_names[:10] + ["..."] * (len(all_names) > 10)) or "none"


Read = Callable[[Any, str], Any]
"""A function of a stranger's value and of its path, which begins messages."""


class Fields:
    """The fields of one JSON object at the path ``where``, taken one by one; `done` refuses fields that remain.

    >>> fields = Fields({"delta": 0.05}, "certificate")
    >>> fields.take("delta", NUMBER.read)
    0.05
    >>> fields.done()
    """

    def __init__(self, record: Any, where: str = "") -> None:
        self.where, self.lead = where, where and f"{where}: "
        if not isinstance(record, Mapping):
            raise ValueError(f"{self.lead}expected an object with named fields, got {shown(record)}")
        self.record = dict(record)

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self.where}.{name}" if self.where else name

    def take(self, name: str, read: Read | None = None) -> Any:
        """The value of a field, which ``read`` reads."""
        if name not in self.record:
            raise ValueError(f"{self.lead}expected a field {name!r}, got {listed(self.record)}")
        value = self.record.pop(name)
        return value if read is None else read(value, self.at(name))

    def done(self) -> None:
        """Refuse fields that were not read."""
        if self.record:
            raise ValueError(f"{self.lead}unknown field(s) {listed(self.record)}")


# Slots: how one field is written and read.


class Slot(NamedTuple):
    """One field of a table: `ANY`, `NUMBER`, `TEXT`, ... are slots, `many`, `named` and `or_none` make slots.

    ``attribute`` names the attribute and the argument of the class, if its name is not that of the field.  A field with
    a ``default`` in the class may be missing in a file.  An ``optional`` one is left out where the attribute is None
    or missing.
    """

    read: Read
    write: Callable[[Any], Any] = plain
    attribute: str = ""
    default: bool = False
    optional: bool = False

    def of(self, attribute: str) -> Slot:
        """The slot of another attribute."""
        return self._replace(attribute=attribute)


def _of_kind(words: str, *kinds: type) -> Read:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"{where}: expected {words}, got {shown(value)}")
        return value

    return read


def _list_of(words: str, *kinds: type) -> Read:
    def read(value: Any, where: str) -> tuple[Any, ...]:
        items = LIST.read(value, where)
        if not all(isinstance(item, kinds) and not isinstance(item, bool) for item in items):
            raise ValueError(f"{where}: expected a list of {words}, got {shown(items)}")
        return tuple(items)

    return read


def _number(value: Any, where: str) -> float:
    """A finite number that a double holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}: expected a number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number != value:
        raise ValueError(f"{where}: expected a number that a double holds exactly, got {shown(value)}")
    return number


def _natural(value: Any, where: str) -> int:
    if not 1 <= WHOLE.read(value, where) <= 2**53:  # the formulas take it as a double, which is this number
        raise ValueError(f"{where}: expected a whole number from 1 to 2^53, got {shown(value)}")
    return int(value)


def _digest(value: Any, where: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", TEXT.read(value, where)):
        raise ValueError(f"{where}: expected 64 hexadecimal digits, got {shown(value)}")
    return str(value)


def _numbers(value: Any, where: str) -> float | tuple[float, ...]:
    return tuple(_number(v, where) for v in value) if isinstance(value, list) else _number(value, where)


def _vector(value: Any, where: str) -> Float:
    return np.array([_number(v, where) for v in LIST.read(value, where)], dtype=np.float64)


def _matrix(value: Any, where: str) -> Float:
    """A list of rows of equal length."""
    rows = LIST.read(value, where)
    if not rows or not all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows):
        raise ValueError(f"{where}: expected a list of rows of equal length, got {shown(value)}")
    return np.array([[_number(v, where) for v in row] for row in rows], dtype=np.float64)


def _triangle(value: Any, where: str) -> Float:
    rows = LIST.read(value, where)
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != i + 1:
            raise ValueError(f"{where}[{i}]: expected a row of {i + 1} number(s), got {shown(row)}")
    matrix = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        matrix[i, : i + 1] = [_number(v, where) for v in row]
    return matrix


def _symmetric(value: Any, where: str) -> Float:
    lower = _triangle(value, where)
    return np.tril(lower) + np.tril(lower, -1).T


def _rows(matrix: Float) -> list[list[float]]:
    return [row[: i + 1] for i, row in enumerate(matrix.tolist())]


def many(read: Read) -> Slot:
    """The slot of a tuple of records."""
    return Slot(lambda value, where: tuple(read(v, f"{where}[{i}]") for i, v in enumerate(LIST.read(value, where))))


def named(read: Read) -> Slot:
    """The slot of a mapping from names to values."""
    return Slot(lambda value, where: {n: read(v, f"{where}.{n}") for n, v in Fields(value, where).record.items()})


def or_none(read: Read) -> Slot:
    """The slot of a value or None."""
    return Slot(lambda value, where: None if value is None else read(value, where))


ANY = Slot(lambda value, where: value)
"""Any value, which the class checks."""
OBJECT = ANY._replace(write=lambda value: value)
"""Any value, which the caller writes and reads."""
LIST, TEXT, TRUTH, WHOLE = (
    Slot(_of_kind(*kind))
    for kind in (("a list", list), ("a text", str), ("true or false", bool), ("a whole number", int))
)
NUMBER, NATURAL, DIGEST, NUMBERS = map(Slot, (_number, _natural, _digest, _numbers))
TEXTS, WHOLES = Slot(_list_of("texts", str)), Slot(_list_of("whole numbers", int))
VECTOR, MATRIX = Slot(_vector), Slot(_matrix)
TRIANGLE, SYMMETRIC = Slot(_triangle, _rows), Slot(_symmetric, _rows)
"""Matrices as the rows of their lower triangles, up to the diagonal."""


# Tables: how the objects of a class are written and read.

Slots = Mapping[str, Slot]
"""The slots of a class by the names of the fields, in the order of the file."""


def slots_of(kind: Any, slot: Slot) -> dict[str, Slot]:
    """A table of the fields of a dataclass; those with defaults may be missing in a file."""
    return {
        field.name: slot._replace(default=field.default is not MISSING or field.default_factory is not MISSING)
        for field in fields(kind)
    }


class Format(Generic[T]):
    """How the objects of one class are written; without ``slots`` by the fields of the dataclass, which checks them.

    >>> from gpbounds.losses import Band
    >>> Format(Band).write(Band(0.5)), Format(Band).read({"epsilon": 0.5})
    ({'epsilon': 0.5}, Band(epsilon=0.5))
    """

    def __init__(self, kind: type[T], slots: Slots | None = None) -> None:
        self.kind, self.slots = kind, slots_of(kind, ANY) if slots is None else slots

    def write(self, value: T) -> dict[str, Any]:
        """The fields of ``value`` in types of JSON."""
        record = {}
        for name, slot in self.slots.items():
            attribute = slot.attribute or name
            held = getattr(value, attribute, None) if slot.optional else getattr(value, attribute)
            if held is not None or not slot.optional:
                record[name] = slot.write(held)
        return record

    def arguments(self, fields: Fields) -> dict[str, Any]:
        """The arguments of the class, taken from ``fields``."""
        arguments = {}
        for name, slot in self.slots.items():
            if name in fields.record or not (slot.default or slot.optional):
                arguments[slot.attribute or name] = fields.take(name, slot.read)
        return arguments

    def read(self, record: Any, where: str = "") -> T:
        """The object that `write` wrote; a field that is missing, unknown or wrong is a ValueError with its path."""
        fields = Fields(record, where)
        arguments = self.arguments(fields)
        try:
            made = self.kind(**arguments)
        except (TypeError, ValueError) as error:
            if not where and isinstance(error, ValueError):
                raise
            raise ValueError(fields.at(str(error))) from None
        fields.done()
        return made


class Record:
    """A class whose objects are records in files, by the table ``stored``."""

    stored: ClassVar[Slots]

    def to_dict(self) -> dict[str, Any]:
        """The record in types of JSON; `from_dict` reads it back."""
        return Format(type(self), self.stored).write(self)

    @classmethod
    def from_dict(cls, record: Any, where: str = "") -> Self:
        """The object whose `to_dict` is ``record``; a ValueError names the field that is missing, unknown or wrong."""
        return Format(cls, cls.stored).read(record, where)


class Named:
    """A dataclass whose records hold its ``name``."""

    name: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters, ready for JSON; the ``from_dict`` of its package reads them back."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    def _one_positive(self, *parameters: str) -> None:
        """Check that each of these fields is one positive number, and store it as a float."""
        for parameter in parameters:
            object.__setattr__(self, parameter, scalar(positive, parameter, getattr(self, parameter)))


def _parameters(word: str, expected: Iterable[str], given: Iterable[str]) -> str:
    return f"{word}: expected its parameters {', '.join(expected)}, got {sorted(map(str, given))}"


class Variants(Generic[T]):
    """Classes, ``members`` by their words, whose records hold the word in the field ``tag``.

    ``choices`` begins the message about another word, ``wrong`` of (word, expected names, given names) is that about
    missing and unknown fields; by default `Fields` names the first of these.
    """

    def __init__(
        self,
        tag: str,
        members: Mapping[str, Format[Any]],
        *,
        choices: str = "",
        wrong: Callable[[str, Iterable[str], Iterable[str]], str] | None = None,
    ) -> None:
        self.tag, self.members, self.wrong = tag, members, wrong
        self.choices = choices or f"{tag}: expected one of {', '.join(map(repr, members))}"

    @classmethod
    def named(cls, *kinds: type[Named]) -> Variants[Any]:
        """`Named` classes."""
        return cls("name", {kind.name: Format(kind) for kind in kinds}, wrong=_parameters)

    def word(self, value: Any) -> str | None:
        """The word of the class of ``value``; None for another class."""
        return next((word for word, format in self.members.items() if type(value) is format.kind), None)

    def write(self, value: T) -> dict[str, Any]:
        """The word of the class of ``value``, and its fields; an object of another class is a ValueError."""
        word = self.word(value)
        if word is None:
            raise ValueError(f"{self.choices} to save, got {type(value).__name__}")
        return {self.tag: word, **self.members[word].write(value)}

    def read(self, record: Any, where: str = "") -> T:
        """The object that `write` wrote; an unknown word, and what `Format.read` refuses, is a ValueError."""
        if not where and not isinstance(record, Mapping):
            raise ValueError(f"expected a record with a {self.tag} and parameters, got {shown(record)}")
        fields = Fields(record, where)
        rest, at = fields.record, fields.at
        word = rest.pop(self.tag, None)
        format = self.members.get(word) if isinstance(word, str) else None
        if format is None:
            raise ValueError(f"{at(self.choices)}, got {shown(word)}")
        needed = {name for name, slot in format.slots.items() if not slot.default}
        if self.wrong and not needed <= set(rest) <= set(format.slots):
            raise ValueError(at(self.wrong(word, format.slots, rest)))
        made: T = format.read(rest, where)
        return made
