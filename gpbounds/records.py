"""The one codec of files: strict JSON, and tables that turn the objects of a class into plain values and back.

A class states the table of its fields once, `Entry` by `Entry`; a `Format` writes and reads by it.  A `Family` holds
classes that a word in the file tells apart, such as the kernels.  `Fields` reads a stranger's record field by field.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from gpbounds.arrays import Float
from gpbounds.validation import positive, scalar

T = TypeVar("T")

# JSON: each field once, finite numbers unless the caller says otherwise, no more than a double holds.

DIGITS = 1000
"""Largest number of digits of a whole number, more than any double has."""


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
    """``value`` as JSON, whose decimals give back the same doubles.

    Parameters
    ----------
    value : plain values
        As `plain` makes them.
    indent : int, optional
        Spaces of each level; None writes one line.
    sort, compact, ascii : bool
        Names in order; no spaces; only ASCII.
    flat : bool
        With ``indent``: lists of numbers and texts stay on one line.
    finite : bool
        Refuse NaN and infinity; else they are written in Python's words, which `from_json` reads.

    Raises
    ------
    ValueError
        for numbers that are not finite.

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
    """The values of a stranger's JSON in UTF-8.

    Raises
    ------
    ValueError
        for what is not JSON, a field twice, whole numbers of more than 1000 digits, and, if ``finite``, NaN, infinity
        and numbers beyond the doubles.
    RecursionError
        for brackets nested too deep.

    >>> from_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    ValueError: expected each field once, got 'a' twice
    """
    numbers: dict[str, Any] = {"parse_constant": _refused, "parse_float": _double} if finite else {}
    words = text if isinstance(text, str) else text.decode("utf-8")
    return json.loads(words, object_pairs_hook=_unique, parse_int=_whole, **numbers)


def read_json(path: str | os.PathLike[str], what: str) -> Any:
    """The values in a JSON file that holds ``what``, the words for messages.

    Raises
    ------
    ValueError
        for another encoding than UTF-8, brackets nested too deep, and as `from_json`.
    OSError
        for a file that cannot be read.
    """
    name = os.fspath(path)
    try:
        return from_json(Path(path).read_text(encoding="utf-8"))
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
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"expected each field once, got {name[:60]!r} twice")
        found[name] = value
    return found


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
    """``value`` in types of JSON: arrays, tuples and lists as lists, NumPy's numbers as Python's.

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
    return value


# A stranger's record: every field is read by name and kind, and unknown fields are refused.

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
        The object's path, for messages; "" for a record that stands alone.

    >>> fields = Fields({"delta": 0.05}, "certificate")
    >>> fields.number("delta")
    0.05
    >>> fields.done()
    """

    def __init__(self, record: Any, where: str = "") -> None:
        self.where = where
        if not isinstance(record, dict):
            raise ValueError(f"{self._lead}expected an object with named fields, got {shown(record)}")
        self.record = dict(record)

    @property
    def _lead(self) -> str:
        return f"{self.where}: " if self.where else ""

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self.where}.{name}" if self.where else name

    def take(self, name: str) -> Any:
        """The value of a field of any kind."""
        if name not in self.record:
            raise ValueError(f"{self._lead}expected a field {name!r}, got {listed(self.record)}")
        return self.record.pop(name)

    def _kind(self, name: str, *kinds: type) -> Any:
        value = self.take(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ValueError(f"{self.at(name)}: expected {KINDS[kinds[0]]}, got {shown(value)}")
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
            raise ValueError(f"{self.at(name)}: expected a whole number from 1 to 2^53, got {shown(value)}")
        return value

    def digest(self, name: str) -> str:
        """A SHA-256 in hexadecimal."""
        text = self.text(name)
        if not re.fullmatch("[0-9a-f]{64}", text):
            raise ValueError(f"{self.at(name)}: expected 64 hexadecimal digits, got {shown(text)}")
        return text

    def built(self, make: Callable[[], T]) -> T:
        """``make()``; its error messages get this object's path."""
        try:
            return make()
        except (TypeError, ValueError) as error:
            text = str(error)
            raise ValueError(text if text.startswith(self.where) else self.at(text)) from None

    def number(self, name: str) -> float:
        """A finite number that a double holds."""
        return _exact(self._kind(name, float, int), self.at(name))

    def part(self, name: str) -> Fields:
        """An object within this one."""
        return Fields(self.take(name), self.at(name))

    def each(self, name: str) -> list[Any]:
        """A list of any items."""
        value = self.take(name)
        if not isinstance(value, list):
            raise ValueError(f"{self.at(name)}: expected a list, got {shown(value)}")
        return value

    def parts(self, name: str) -> list[Fields]:
        """A list of objects."""
        return [Fields(item, f"{self.at(name)}[{i}]") for i, item in enumerate(self.each(name))]

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        items = self.each(name)
        if not all(isinstance(item, str) for item in items):
            raise ValueError(f"{self.at(name)}: expected a list of texts, got {shown(items)}")
        return tuple(items)

    def named_texts(self, name: str) -> dict[str, str]:
        """An object of texts."""
        part = self.part(name)
        return {key: part.text(key) for key in list(part.record)}

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        items = self.each(name)
        if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
            raise ValueError(f"{self.at(name)}: expected a list of whole numbers, got {shown(items)}")
        return tuple(items)

    def numbers(self, name: str) -> float | tuple[float, ...]:
        """A number or a list of numbers."""
        value, where = self.take(name), self.at(name)
        return tuple(_exact(v, where) for v in value) if isinstance(value, list) else _exact(value, where)

    def vector(self, name: str) -> Float:
        """A list of numbers."""
        where = self.at(name)
        return np.array([_exact(v, where) for v in self.each(name)], dtype=np.float64)

    def matrix(self, name: str) -> Float:
        """A list of rows of equal length."""
        value, where = self.each(name), self.at(name)
        if not value or not all(isinstance(row, list) and len(row) == len(value[0]) for row in value):
            raise ValueError(f"{where}: expected a list of rows of equal length, got {shown(value)}")
        return np.array([[_exact(v, where) for v in row] for row in value], dtype=np.float64)

    def triangle(self, name: str) -> Float:
        """A lower triangular matrix, written row by row up to the diagonal."""
        rows, where = self.each(name), self.at(name)
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != i + 1:
                raise ValueError(f"{where}[{i}]: expected a row of {i + 1} number(s), got {shown(row)}")
        matrix = np.zeros((len(rows), len(rows)))
        for i, row in enumerate(rows):
            matrix[i, : i + 1] = [_exact(v, where) for v in row]
        return matrix

    def symmetric(self, name: str) -> Float:
        """A symmetric matrix, written as its lower triangle."""
        lower = self.triangle(name)
        return np.tril(lower) + np.tril(lower, -1).T

    def done(self) -> None:
        """Refuse fields that were not read."""
        if self.record:
            raise ValueError(f"{self._lead}unknown field(s) {listed(self.record)}")


def _exact(value: Any, where: str) -> float:
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


# Tables: how each field of a class is written and read.


class Entry(NamedTuple):
    """One field of a table: `VALUE`, `NUMBER`, `TEXT`, ... are entries; `of` and ``_replace`` make others of them.

    Attributes
    ----------
    read : function of a `Fields` and a name
        Takes the field.
    write : function
        The attribute in types of JSON.
    attribute : str
        Name of the attribute and of the argument of the class; "" where it is the field's.
    default : bool
        A field that may be missing in a file: the class has a default.
    optional : bool
        A field that is left out where the attribute is None or missing, and may be missing in a file.
    """

    read: Callable[[Fields, str], Any]
    write: Callable[[Any], Any] = plain
    attribute: str = ""
    default: bool = False
    optional: bool = False

    def of(self, attribute: str) -> Entry:
        """The entry for an attribute that has another name than the field."""
        return self._replace(attribute=attribute)


def _triangle(matrix: Float) -> list[list[float]]:
    return [row[: i + 1] for i, row in enumerate(matrix.tolist())]


VALUE = Entry(Fields.take)
"""Any value, which the class checks."""
OBJECT = Entry(Fields.take, lambda value: value)
"""Any value, which the caller writes and reads."""
TEXT, NUMBER, WHOLE, NATURAL = (Entry(read) for read in (Fields.text, Fields.number, Fields.integer, Fields.natural))
NUMBERS, VECTOR, MATRIX = (Entry(read) for read in (Fields.numbers, Fields.vector, Fields.matrix))
TEXTS, WHOLES, DIGEST, NAMED_TEXTS = (
    Entry(read) for read in (Fields.texts, Fields.integers, Fields.digest, Fields.named_texts)
)
TRIANGLE, SYMMETRIC = (Entry(read, _triangle) for read in (Fields.triangle, Fields.symmetric))
TUPLE = Entry(lambda fields, name: tuple(fields.each(name)))


def table_of(kind: Any, entry: Entry) -> dict[str, Entry]:
    """A table of the fields of a dataclass; those with defaults may be missing in a file."""
    return {
        field.name: entry._replace(default=field.default is not MISSING or field.default_factory is not MISSING)
        for field in fields(kind)
    }


Table = Mapping[str, Entry]
"""The entries of a class by the names of the fields, in the order of the file."""


class Format(Generic[T]):
    """How the objects of one class are written: the class, and the entries of its fields in their order.

    Without a table the fields are those of the dataclass, and the class checks their values.

    >>> from gpbounds.means import LinearMean
    >>> Format(LinearMean).write(LinearMean(1.0, [2.0]))
    {'intercept': 1.0, 'slopes': [2.0]}
    """

    def __init__(self, kind: type[T], entries: Table | None = None) -> None:
        self.kind = kind
        self.entries = table_of(kind, VALUE) if entries is None else entries

    def write(self, value: T) -> dict[str, Any]:
        """The fields of ``value`` in types of JSON."""
        record = {}
        for name, entry in self.entries.items():
            attribute = entry.attribute or name
            held = getattr(value, attribute, None) if entry.optional else getattr(value, attribute)
            if held is not None or not entry.optional:
                record[name] = entry.write(held)
        return record

    def read(self, fields: Fields) -> T:
        """The object that `write` wrote.

        Raises
        ------
        ValueError
            for a field that is missing, unknown or wrong; the message names it.
        """
        arguments = self.arguments(fields)
        made = fields.built(lambda: self.kind(**arguments))
        fields.done()
        return made

    def arguments(self, fields: Fields) -> dict[str, Any]:
        """The arguments of the class by name."""
        arguments = {}
        for name, entry in self.entries.items():
            if name in fields.record or not (entry.default or entry.optional):
                arguments[entry.attribute or name] = entry.read(fields, name)
        return arguments


class Record:
    """A class whose objects are records in files, by the table ``stored``."""

    stored: ClassVar[Table]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; `from_dict` reads it back."""
        return Format(type(self), self.stored).write(self)

    @classmethod
    def from_dict(cls, record: Any, where: str = "") -> Self:
        """The object whose `to_dict` is ``record``.

        Raises
        ------
        ValueError
            for a field that is missing, unknown or wrong; the message names it, after the path ``where``.
        """
        return Format(cls, cls.stored).read(Fields(record, where))

    @classmethod
    def entry(cls) -> Entry:
        """The entry of a field that holds one of these objects."""
        return Entry(
            lambda fields, name: cls.from_dict(fields.take(name), fields.at(name)), lambda value: value.to_dict()
        )

    @classmethod
    def entries(cls) -> Entry:
        """The entry of a field that holds a tuple of these objects."""

        def read(fields: Fields, name: str) -> tuple[Any, ...]:
            return tuple(cls.from_dict(part.record, part.where) for part in fields.parts(name))

        return Entry(read, lambda values: [value.to_dict() for value in values])


# Families: classes that a word in the record tells apart.


class Named:
    """A dataclass that can be written as JSON.

    Attributes
    ----------
    name : str
        Its name in records.
    """

    name: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters, ready for JSON; the ``from_dict`` of its package reads them back."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    def _one_positive(self, *parameters: str) -> None:
        """Check that each of these fields is one positive number, and store it as a float."""
        for parameter in parameters:
            object.__setattr__(self, parameter, scalar(positive, parameter, getattr(self, parameter)))


def parameters_of(word: str, expected: Iterable[str], given: Iterable[str]) -> str:
    """The sentence about the parameters of a `Named` class that are missing or unknown."""
    return f"{word}: expected its parameters {', '.join(expected)}, got {sorted(map(str, given))}"


class Family(Generic[T]):
    """Classes whose records hold the word of their class in the field ``tag``.

    Parameters
    ----------
    tag : str
    members : mapping of word to `Format`
    choices : str, optional
        Begins the message about another word; the words by default.
    wrong : function of (word, expected names, given names), optional
        The message about missing and unknown fields; by default that of `Fields` about the first.
    """

    def __init__(
        self,
        tag: str,
        members: Mapping[str, Format[Any]],
        *,
        choices: str = "",
        wrong: Callable[[str, Iterable[str], Iterable[str]], str] | None = None,
    ) -> None:
        self.tag, self.members, self.wrong = tag, dict(members), wrong
        self.choices = choices or f"{tag}: expected one of {', '.join(map(repr, members))}"

    @classmethod
    def named(cls, *kinds: type[Named]) -> Family[Any]:
        """The family of `Named` classes."""
        return cls("name", {kind.name: Format(kind) for kind in kinds}, wrong=parameters_of)

    def word(self, value: Any) -> str | None:
        """The word of the class of ``value``; None for another class."""
        return next((word for word, format in self.members.items() if type(value) is format.kind), None)

    def write(self, value: T) -> dict[str, Any]:
        """The word of the class of ``value``, and its fields.

        Raises
        ------
        ValueError
            for an object of another class.
        """
        word = self.word(value)
        if word is None:
            raise ValueError(f"{self.choices} to save, got {type(value).__name__}")
        return {self.tag: word, **self.members[word].write(value)}

    def read(self, record: Any, where: str = "") -> T:
        """The object that `write` wrote.

        Raises
        ------
        ValueError
            for an unknown word, and parameters that are missing, unknown or wrong.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"expected a record with a {self.tag} and parameters, got {record!r}")
        fields = Fields(dict(record), where)
        word = fields.record.pop(self.tag, None)
        format = self.members.get(word) if isinstance(word, str) else None
        if format is None:
            raise ValueError(f"{fields.at(self.choices)}, got {shown(word)}")
        given, needed = list(fields.record), {name for name, entry in format.entries.items() if not entry.default}
        if self.wrong and not needed <= set(given) <= set(format.entries):
            raise ValueError(fields.at(self.wrong(word, format.entries, given)))
        made: T = format.read(fields)
        return made

    def entry(self) -> Entry:
        """The entry of a field that holds a member."""
        return Entry(lambda fields, name: self.read(fields.take(name), fields.at(name)), lambda value: value.to_dict())


class Tagged:
    """Values of several classes in one field, each as {word: record}; numbers, texts and None stay what they are.

    Parameters
    ----------
    table : mapping of word to (class, function that writes, function that reads)

    >>> from gpbounds.means import LinearMean
    >>> means = Tagged({"mean": (LinearMean, LinearMean.to_dict, LinearMean.from_dict)})
    >>> means.write(LinearMean(1.0)), means.read(means.write(LinearMean(1.0))), means.write(np.float64(2.0))
    ({'mean': {'intercept': 1.0, 'slopes': None}}, LinearMean(intercept=1.0, slopes=None), 2.0)
    """

    def __init__(self, table: Mapping[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]]) -> None:
        self.table = table

    def holds(self, value: Any) -> bool:
        """Whether `write` takes ``value``."""
        kinds = tuple(kind for kind, _, _ in self.table.values())
        return value is None or isinstance(value, (str, bool, int, float, np.generic, *kinds))

    def write(self, value: Any) -> Any:
        """``value`` in types of JSON."""
        for word, (kind, write, _) in self.table.items():
            if isinstance(value, kind):
                return {word: write(value)}
        return plain(value)

    def read(self, value: Any) -> Any:
        """What `write` took.

        Raises
        ------
        ValueError, KeyError
            for other words.
        """
        if not isinstance(value, dict):
            return value
        ((word, record),) = value.items()
        return self.table[word][2](record)
