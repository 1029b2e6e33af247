"""The codec of files: JSON of strangers, tables of fields, words of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from gpbounds.records import (
    ANY,
    NUMBER,
    SYMMETRIC,
    TEXT,
    WHOLE,
    Format,
    Record,
    Slot,
    Slots,
    Variants,
    from_json,
    many,
    plain,
    read_json,
    to_json,
)


@dataclass(frozen=True)
class Inner(Record):
    power: float
    stored: ClassVar[Slots] = {"alpha": NUMBER.of("power")}

    def __post_init__(self) -> None:
        if self.power < 0.0:
            raise ValueError(f"power: expected a number >= 0, got {self.power}")


@dataclass(frozen=True)
class Outer(Record):
    name: str
    inner: Inner
    others: tuple[Inner, ...] = ()
    note: str | None = None
    stored: ClassVar[Slots] = {
        "name": TEXT,
        "inner": Slot(Inner.from_dict),
        "others": many(Inner.from_dict),
        "note": TEXT._replace(optional=True),
    }


WHOLE_RECORD = {"name": "a", "inner": {"alpha": 0.1}, "others": [{"alpha": 1.0}, {"alpha": 2.0}]}


def test_a_record_is_written_by_its_table_and_read_back() -> None:
    outer = Outer("a", Inner(0.1), (Inner(1.0), Inner(2.0)))
    assert outer.to_dict() == WHOLE_RECORD
    assert Outer.from_dict(from_json(to_json(outer.to_dict()))) == outer
    noted = Outer("a", Inner(0.1), note="b")
    assert noted.to_dict() == {"name": "a", "inner": {"alpha": 0.1}, "others": [], "note": "b"}
    assert Outer.from_dict(noted.to_dict()) == noted


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 1}, "file.name: expected a text, got 1"),
        ({"inner": {"alpha": True}}, "file.inner.alpha: expected a number, got True"),
        ({"inner": {"alpha": 10**400}}, "file.inner.alpha: expected a number that a double holds exactly"),
        ({"inner": {"alpha": -1.0}}, "file.inner.power: expected a number >= 0, got -1.0"),
        ({"inner": {"power": 1.0}}, "file.inner: expected a field 'alpha', got 'power'"),
        ({"inner": []}, r"file.inner: expected an object with named fields, got \[\]"),
        ({"others": [{"alpha": 1.0}, {}]}, r"file.others\[1\]: expected a field 'alpha', got none"),
        ({"others": {}}, "file.others: expected a list, got {}"),
        ({"note": None}, "file.note: expected a text, got None"),
        ({"more": 1}, r"file: unknown field\(s\) 'more'"),
    ],
)
def test_a_wrong_field_is_named_with_its_path(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Outer.from_dict(WHOLE_RECORD | change, "file")


def test_classes_are_told_apart_by_their_words() -> None:
    family: Variants[Inner | Outer] = Variants("form", {"in": Format(Inner, Inner.stored), "out": Format(Outer)})
    assert family.write(Inner(1.0)) == {"form": "in", "alpha": 1.0}
    assert family.read({"form": "in", "alpha": 1.0}) == Inner(1.0)
    with pytest.raises(ValueError, match="form: expected one of 'in', 'out', got 'other'"):
        family.read({"form": "other"})
    with pytest.raises(ValueError, match=r"a\.b\.form: expected one of 'in', 'out', got None"):
        family.read({}, "a.b")
    with pytest.raises(ValueError, match="expected one of 'in', 'out' to save, got int"):
        family.write(3)  # type: ignore[arg-type]


def test_only_fields_with_defaults_may_be_missing() -> None:
    outer = Format(Outer, {"name": ANY, "inner": ANY, "others": ANY._replace(default=True)})
    assert outer.read({"name": "a", "inner": 1}) == Outer("a", 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a field 'inner'"):
        outer.read({"name": "a"})


def test_a_symmetric_matrix_is_its_lower_triangle() -> None:
    matrix = np.array([[1.0, 0.1, 0.2], [0.1, 2.0, 0.3], [0.2, 0.3, 3.0]])
    assert SYMMETRIC.write(matrix) == [[1.0], [0.1, 2.0], [0.2, 0.3, 3.0]]
    np.testing.assert_array_equal(SYMMETRIC.read(SYMMETRIC.write(matrix), ""), matrix)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused_unless_they_are_asked_for(number: float, tmp_path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json([number])
    text = to_json([number], finite=False)
    np.testing.assert_equal(from_json(text, finite=False), [number])
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.json: expected finite numbers, got"):
        read_json(path, "a list")
    assert from_json(to_json(plain([number], spelled=True))) == [str(number)]


def test_lists_stay_on_one_line_whatever_texts_hold() -> None:
    record = {"rows": [[0.1, 2], []], "texts": ["[\n 1,\n 2\n]", "\u2028", "]"], "last": {"a": [1]}}
    text = to_json(record, indent=1, ascii=False, flat=True)
    assert from_json(text) == record
    assert "  [0.1, 2],\n" in text
    assert WHOLE.read(from_json("1"), "") == 1
