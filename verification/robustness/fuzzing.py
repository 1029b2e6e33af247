"""Change files, read them, and count what the readers do."""

from __future__ import annotations

import hashlib
import signal
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robustness.readers import Reader
from robustness.watching import watched

PACKAGES = ("gpbounds", "fitting")
WRITING = ("it did open", "it did os.remove", "it did os.rename", "it did os.chmod")
"""What a reader does that goes on with what it reads."""

TIMEOUT = 120
"""Seconds after which a reader counts as hanging."""


@dataclass
class Tally:
    """Outcomes by name, and faults as (number of the file, sentence)."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, str]] = field(default_factory=list)


class Hangs(BaseException):
    """A reader does not come to an end."""


def changed(reader: Reader, number: int, seed: int) -> tuple[bytes, bytes]:
    """File ``number`` and the original from which it was made."""
    name = int.from_bytes(hashlib.sha256(reader.name.encode()).digest()[:4], "little")
    rng = np.random.default_rng([seed, name, number])
    original = reader.originals[int(rng.integers(len(reader.originals)))]
    bytes_of = original
    for _ in range(1 + int(rng.random() < 0.2)):
        try:
            bytes_of = reader.changes[int(rng.integers(len(reader.changes)))](bytes_of, rng)
        except Exception:  # the second mutation of what the first left in no order
            break
    return bytes_of, original


def tally(reader: Reader, numbers: range, seed: int) -> Tally:
    """Read files ``numbers`` in this process."""
    counts = Tally()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / f"file{reader.suffix}"
        for number in [-1, *numbers]:  # the original first: what is loaded once is loaded then
            data, original = (reader.originals[0],) * 2 if number < 0 else changed(reader, number, seed)
            path.write_bytes(data)
            outcome, faults = one(reader, path, data, original)
            if number >= 0:
                counts.outcomes[outcome] += 1
                counts.faults += [(number, fault) for fault in faults]
            elif not outcome.startswith(("accepted", "exit status 0")):
                counts.faults.append((number, f"the original: {outcome} {faults}"))
    return counts


def one(reader: Reader, path: Path, data: bytes, original: bytes) -> tuple[str, list[str]]:
    """The outcome of one file, and faults."""

    def hangs(*_: Any) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(TIMEOUT)
    try:
        with np.errstate(all="ignore"):
            answer, error, faults = watched(lambda: reader.read(path), reader.unpacks * len(data))
        if reader.writes:
            faults = [each for each in faults if not each.startswith(WRITING)]
        if error is None:
            try:
                return reader.judge(answer, data, original), faults
            except Exception as wrong:
                return "fault", [*faults, f"wrong answer: {type(wrong).__name__}: {str(wrong)[:300]}"]
        if not is_refusal(error):
            return "fault", [*faults, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]
        return "refused", faults
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def is_refusal(error: BaseException) -> bool:
    """Whether an exception is an error of this package, or of the system, with one line of text."""
    plain = type(error) in (ValueError, ArithmeticError)
    known = plain or type(error).__module__.split(".")[0] in PACKAGES or isinstance(error, OSError)
    text = str(error)
    return isinstance(error, Exception) and known and bool(text.strip()) and "\n" not in text and len(text) < 2000
