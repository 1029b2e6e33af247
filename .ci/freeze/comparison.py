"""Two recordings side by side: what differs, and which differences somebody has named."""

from __future__ import annotations

import fnmatch
import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MISSING = "<missing>"
LONGEST = 300


@dataclass(frozen=True)
class Difference:
    """A place inside the result of a call where two recordings differ."""

    name: str
    place: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name}{self.place}\n    old: {readable(self.old)}\n    new: {readable(self.new)}"


@dataclass(frozen=True)
class Named:
    """Differences that are meant: a pattern of names as in a shell, and the reason."""

    pattern: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Whether the pattern matches the name of the call, or the name with the place inside its result."""
        place = difference.name + difference.place
        return any(fnmatch.fnmatchcase(text, self.pattern) for text in (difference.name, place))


def readable(value: Any) -> str:
    """A value in one line, a double also in decimals."""
    if isinstance(value, str) and value.lstrip("-").startswith("0x"):
        try:
            return f"{value} ({float.fromhex(value)!r})"
        except ValueError:
            return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[Difference]:
    """All differences of two recordings, by the names of their calls; a call that one of them lacks is one."""
    names = [*old, *(name for name in new if name not in old)]
    return [each for name in names for each in _inside(name, "", old.get(name, MISSING), new.get(name, MISSING))]


def _inside(name: str, place: str, old: Any, new: Any) -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _inside(name, f"{place}.{key}", old.get(key, MISSING), new.get(key, MISSING))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from _inside(name, f"{place}[{index}]", left, right)
    elif type(old) is not type(new) or old != new:
        yield from _text(name, place, old, new)


def _text(name: str, place: str, old: Any, new: Any) -> Iterator[Difference]:
    """Two texts of many lines differ in the first line that differs; so a page is not printed twice."""
    if isinstance(old, str) and isinstance(new, str) and "\n" in old and "\n" in new:
        left, right = old.splitlines(), new.splitlines()
        first = next(
            (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
        )
        old, new, place = (
            "\n".join(left[first : first + 1]) or MISSING,
            "\n".join(right[first : first + 1]) or MISSING,
            f"{place}:line {first + 1}",
        )
    yield Difference(name, place, old, new)


def named(path: Path) -> list[Named]:
    """The named differences of a file: tables ``[[named]]`` with ``pattern`` and ``reason``, neither of them empty."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("named", [])
    for entry in entries:
        if set(entry) != {"pattern", "reason"} or not all(isinstance(text, str) and text for text in entry.values()):
            raise ValueError(f"{path.name}: expected a pattern and a reason in each [[named]], got {entry}")
    return [Named(**entry) for entry in entries]


def report(found: list[Difference], reasons: list[Named]) -> tuple[str, bool]:
    """The text about the differences, those with a reason in short, and whether each of them has one."""
    lines: list[str] = []
    unnamed = [each for each in found if not any(reason.covers(each) for reason in reasons)]
    for reason in reasons:
        count = sum(reason.covers(each) for each in found)
        lines.append(f"named {reason.pattern}: {count} differences ({reason.reason})")
    lines += [str(each) for each in unnamed]
    calls = len({each.name for each in unnamed})
    lines.append(f"{len(unnamed)} differences without a reason, in {calls} calls" if unnamed else "no other difference")
    return "\n".join(lines), not unnamed
