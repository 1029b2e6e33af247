"""The common part of all certificates: the rows and the split, the labels, the seal, and the file."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from gpbounds.arrays import Float
from gpbounds.files import replacing
from gpbounds.pacbayes.certificate.declarations import Charge
from gpbounds.pacbayes.certificate.rows import Fingerprint
from gpbounds.pacbayes.certificate.split import Split
from gpbounds.records import (
    DIGEST,
    LIST,
    NUMBER,
    TEXT,
    TRUTH,
    Fields,
    Format,
    Record,
    Slot,
    Slots,
    many,
    named,
    read_json,
    shown,
    to_json,
)

FORMAT = "gpbounds certificate"
SCHEMA = 1

Label = str | bool | int | float


def seal(record: dict[str, Any]) -> str:
    """SHA-256 of a record's canonical JSON (sorted keys, no spaces, ASCII), without its own field "seal".

    It shows damage and careless edits.  It is not a signature: anybody who changes a record can compute a new seal, and
    then only the check against the data shows that the numbers are false.

    >>> seal({"b": 0.1, "a": 1})[:8], seal({"a": 1, "b": 0.1, "seal": "x"})[:8]
    ('8c5bd7a8', '8c5bd7a8')
    """
    rest = {key: value for key, value in record.items() if key != "seal"}
    return hashlib.sha256(to_json(rest, sort=True, compact=True).encode("ascii")).hexdigest()


def _labels(value: Any, where: str) -> tuple[Label, ...]:
    items = LIST.read(value, where)
    if len(items) < 2 or not all(isinstance(item, str | bool | int | float) for item in items):
        raise ValueError(f"{where}: expected a list of two labels or more, texts or numbers, got {shown(value)}")
    return tuple(items)


COMMON: Slots = {
    "delta": NUMBER,
    "charges": many(Charge.from_dict),
    "data": Slot(Fingerprint.from_dict),
    "versions": named(TEXT.read),
    "seal": DIGEST,
    "split": Slot(Split.from_dict, optional=True),
    "classes": Slot(_labels, write=list, optional=True),
}
"""The fields that every certificate has."""


class SealedRecord(Record):
    """A statement about a model, with everything that a third party needs to check it against the raw rows.

    Attributes
    ----------
    delta : float
        The probability with which the statement, and those that share δ with it, may fail.
    charges : tuple of Charge
        Choices from lists made in advance; each statement of a list has an equal share of δ.
    data : Fingerprint
        Of all raw rows.
    split : Split or None
        Which of the rows are the prior's; None where all are certified.
    classes : tuple or None
        The labels in their order, where y holds labels.
    versions : dict of str to str
        Versions of the software that issued it.
    seal : str
        See `seal`.
    """

    word: ClassVar[str] = ""
    delta: float
    charges: tuple[Charge, ...]
    data: Fingerprint
    versions: dict[str, str]
    seal: str
    split: Split | None
    classes: tuple[Label, ...] | None

    @property
    def rows(self) -> int:
        """The number of certified rows."""
        return self.data.rows if self.split is None else self.split.certified(self.data.rows)

    @property
    def rigorous(self) -> bool:
        """False if the certificate says itself that it guarantees nothing."""
        return True

    @property
    def count(self) -> int:
        """The number of statements that share δ."""
        return int(np.prod([charge.count for charge in self.charges], dtype=object))

    def encode(self, y: Any) -> Any:
        """``y`` as numbers: labels become their place in ``classes``, or −1 and 1 where a loss of numbers takes them.

        Raises
        ------
        ValueError
            for a label that is not among ``classes``.
        """
        return y if self.classes is None else encoded(y, self.classes, signs=getattr(self, "loss", None) is not None)

    def to_dict(self) -> dict[str, Any]:
        """The record, schema 1, ready for JSON."""
        lead = {"format": FORMAT, "schema": SCHEMA, **({"kind": self.word} if self.word else {})}
        return {**lead, "rigorous": self.rigorous, **super().to_dict()}

    @classmethod
    def from_dict(cls, record: Any, where: str = "certificate") -> Self:
        """The certificate whose `to_dict` is ``record``; a ValueError names the field that is wrong."""
        fields = Fields(record, where)
        for name in ("format", "schema", *(("kind",) if cls.word else ())):
            fields.take(name)
        rigorous = fields.take("rigorous", TRUTH.read)
        arguments = Format(cls, cls.stored).arguments(fields)
        fields.done()
        made = cls(**arguments)
        if rigorous != made.rigorous:
            raise ValueError(f"{where}.rigorous: expected {not rigorous}, as the scalings imply, got {rigorous}")
        return made

    def fresh_seal(self) -> str:
        """The seal of the present record."""
        return seal(self.to_dict())

    def sealed(self) -> Self:
        """The record with a fresh seal."""
        return cast(Self, replace(cast(Any, self), seal=self.fresh_seal()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON; `Certificate.load` gives back the same doubles."""
        text = to_json(self.to_dict(), indent=1, ascii=False, flat=True)
        with replacing(path) as file:
            file.write(text + "\n")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SealedRecord) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.fresh_seal())


def read_record(path: str | os.PathLike[str], kinds: Sequence[type[SealedRecord]]) -> Any:
    """Read a file that `SealedRecord.save` wrote, strictly, as the kind that it names.

    Raises
    ------
    ValueError
        for a file that is not a certificate of this schema; the message names the field and the expected value.
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
    by_word = {kind.word: kind for kind in kinds}
    word = record.get("kind", "")
    if not isinstance(word, str) or word not in by_word:
        words = ", ".join(repr(each) for each in by_word if each) or "none"
        raise ValueError(f"{name}: expected a kind of certificate among {words}, or no field 'kind', got {shown(word)}")
    try:
        return by_word[word].from_dict(record)
    except (ValueError, ArithmeticError, RecursionError) as error:
        words = " ".join(str(error).split())
        raise ValueError(f"{name}: {words if len(words) <= 500 else f'{words[:500]} ...'}") from None


def encoded(y: Any, classes: Sequence[Label], *, signs: bool = False) -> Float:
    """The place of each label of ``y`` (N,) in ``classes``; with ``signs`` −1 for the first of two and 1 for the other.

    >>> encoded(["no", "yes", "no"], ("no", "yes"), signs=True).tolist()
    [-1.0, 1.0, -1.0]
    """
    labels = np.asarray(y).ravel()
    places = {label: place for place, label in enumerate(classes)}
    try:
        found = np.array([places[label] for label in labels.tolist()], dtype=np.float64)
    except (KeyError, TypeError) as error:
        raise ValueError(f"y: expected labels among {list(classes)}, got {error.args[0]!r}") from None
    if not signs:
        return found
    if len(classes) != 2:
        raise ValueError(f"classes: expected two labels for this loss, got {len(classes)}")
    return 2.0 * found - 1.0


def software() -> dict[str, str]:
    """The versions of this software and of what it computes with."""
    import flint
    import scipy

    import gpbounds

    packages = {"gpbounds": gpbounds, "numpy": np, "scipy": scipy, "python-flint": flint}
    return {"python": platform.python_version(), **{name: str(p.__version__) for name, p in packages.items()}}
