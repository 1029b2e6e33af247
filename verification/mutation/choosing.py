"""Which mutants are tried: those picked by hand in ``mutants.toml``, and a sample, the same each time."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path

from mutation import tree
from mutation.operators import OPERATORS, Mutant, edit, meaning, mutants

LIST = Path(__file__).parents[1] / "mutants.toml"


@dataclass(frozen=True)
class Picked:
    """An entry of the list: what a mutant changes, and what there is to say of it."""

    file: str
    old: str
    new: str
    says: str


@dataclass(frozen=True)
class Settings:
    """The list ``mutants.toml``.

    Attributes
    ----------
    modules : tuple of str
        Files and folders whose mutants are sampled.
    examples : tuple of str
        Tests, or beginnings of their names, that compare printed digits: what they alone notice survives.
    hand : tuple of Picked
    equivalent : dict of Picked
        By (file, line before, line after): ``says`` is the reason why no input can tell it from the original.
    """

    modules: tuple[str, ...]
    examples: tuple[str, ...]
    hand: tuple[Picked, ...]
    equivalent: dict[tuple[str, str, str], Picked]

    @staticmethod
    def read(path: Path = LIST) -> Settings:
        """The list as it stands in the tree."""
        words = tomllib.loads(path.read_text(encoding="utf-8"))
        alike = [Picked(**entry) for entry in words.get("equivalent", [])]
        return Settings(
            tuple(words["modules"]),
            tuple(words["examples"]),
            tuple(Picked(**entry) for entry in words.get("hand", [])),
            {(entry.file, entry.old, entry.new): entry for entry in alike},
        )

    def files(self, wanted: str = "") -> list[str]:
        """The files under mutation, those that begin with ``wanted``."""
        sources = [str(path) for path in tree.files() if path.suffix == ".py"]
        inside = [f for f in sources if any(f == m or f.startswith(f"{m}/") for m in self.modules)]
        return [file for file in inside if file.startswith(wanted)]

    def is_equivalent(self, mutant: Mutant) -> bool:
        """Whether the list states why this mutant is equivalent to the original."""
        return (mutant.file, mutant.before, mutant.after) in self.equivalent

    def is_example(self, test: str) -> bool:
        """Whether a test compares printed digits only."""
        return test.startswith(self.examples)


def by_hand(picked: Picked, source: bytes) -> Mutant:
    """The mutant of an entry; its old text must stand in the file exactly once."""
    old = picked.old.encode()
    if source.count(old) != 1:
        raise ValueError(f"{picked.file}: expected {picked.old!r} once, found it {source.count(old)} times")
    start = source.index(old)
    while source[start : start + 1].isspace():  # the line meant is that of the first word
        start, old = start + 1, old[1:]
    mutant = edit(picked.file, "hand", "", source, start, start + len(old), picked.new.lstrip())
    if meaning(mutant.applied(source)) in (None, meaning(source)):
        raise ValueError(f"{picked.file}: {picked.new!r} is no other program")
    return mutant


def all_by_hand(entries: Iterable[Picked]) -> list[Mutant]:
    """The mutants of all entries; one error names every entry that cannot be put in."""
    chosen, faults = [], []
    for picked in entries:
        place = tree.ROOT / picked.file
        try:
            chosen.append(by_hand(picked, place.read_bytes() if place.exists() else b""))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise ValueError("\n".join((f"{len(faults)} of the faults picked by hand have no place:", *faults)))
    return chosen


def ranked(file: str, source: bytes, seed: int) -> Iterator[Mutant]:
    """All mutants of a file that differ in meaning, kinds taking turns; the order depends on seed and text alone.

    A mutant's place in its kind is a hash of what it changes, so that most of a sample outlives an edit of the file.
    """

    def place(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    kinds: dict[str, list[Mutant]] = {kind: [] for kind in OPERATORS}
    for mutant in sorted(mutants(file, source), key=place):
        kinds[mutant.operator].append(mutant)
    first = hashlib.sha256(f"{seed} {file}".encode()).digest()[0] % len(OPERATORS)
    turns = [kinds[kind] for kind in (*OPERATORS[first:], *OPERATORS[:first])]
    seen = {meaning(source), None}
    for mutant in (m for turn in zip_longest(*turns) for m in turn if m is not None):
        if (changed := meaning(mutant.applied(source))) not in seen:
            seen.add(changed)
            yield mutant


def quota(count: int, density: float) -> int:
    """How many of a module's ``count`` mutants are tried: as the root of the count, so that small modules have some."""
    return min(count, math.ceil(density * math.sqrt(count)))


def sample(file: str, source: bytes, seed: int, density: float) -> list[Mutant]:
    """The mutants of one file that are tried; a higher density adds to them."""
    return list(islice(ranked(file, source, seed), quota(len(mutants(file, source)), density)))


def chosen(settings: Settings, wanted: str, seed: int, density: float, hand_only: bool) -> Iterator[Mutant]:
    """Those picked by hand, then the sample, in the files that begin with ``wanted``; each once."""
    seen = set()
    files = settings.files(wanted)
    for mutant in all_by_hand(settings.hand):
        if mutant.file in files:
            seen.add((mutant.file, mutant.before, mutant.after))
            yield mutant
    for file in [] if hand_only else files:
        for mutant in sample(file, (tree.ROOT / file).read_bytes(), seed, density):
            if (mutant.file, mutant.before, mutant.after) not in seen:
                yield replace(mutant)
