"""The report of a check: first the declarations, which a file cannot prove, then the lines confirmed or failed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["declared", "confirmed", "failed", "skipped"]
MARKS: dict[State, str] = {"declared": "declared", "confirmed": "ok", "failed": "FAILED", "skipped": "skipped"}
NOT_RIGOROUS = (
    "NOT RIGOROUS: the scaling was computed from the same data, which no penalty covers. This is no guarantee."
)


@dataclass(frozen=True)
class Line:
    """One finding.

    Attributes
    ----------
    name : str
        Subject of the line: "seal", "data", "grid", "posterior", "risk", "kl", "penalty", "bound", or a declaration.
    state : "declared", "confirmed", "failed" or "skipped"
    text : str
    """

    name: str
    state: State
    text: str

    def __str__(self) -> str:
        return _folded(MARKS[self.state], self.name, self.text)


@dataclass(frozen=True)
class Proved:
    """R_S(Q) and KL(Q‖P), each between two proved numbers, and the bound that follows from the upper ones.

    Attributes
    ----------
    risk, kl : float
        Proved upper ends.
    risk_below, kl_below : float
        Proved lower ends.
    bound : float
        kl⁻¹(risk, (kl + ln choices + ln(ξ(N)/δ))/N), rounded up.
    moved : float
        ``bound`` less the stated bound: at most 0 where the stated bound is proved.
    seconds : float
    """

    risk: float
    kl: float
    risk_below: float
    kl_below: float
    bound: float
    moved: float
    seconds: float


@dataclass(frozen=True)
class Report:
    """The outcome of `Certificate.check`.

    Attributes
    ----------
    confirmed : bool
        True when every line that can be checked holds.
    rigorous : bool
        False for a certificate that is marked non-rigorous.
    statement : str
        The claim of the certificate.
    lines : tuple of Line
        Declarations first.
    proved : Proved or None
        Proved ends of R_S and KL, and the bound from them, where `Certificate.check` was asked for a proof.
    """

    confirmed: bool
    rigorous: bool
    statement: str
    lines: tuple[Line, ...]
    proved: Proved | None = None

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the lines that failed."""
        return tuple(line.name for line in self.lines if line.state == "failed")

    def line(self, name: str) -> Line:
        """The first line of this name; ``KeyError`` when there is none."""
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(name)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if not self.confirmed:
            return f"NOT CONFIRMED: {', '.join(self.failed)} failed."
        return "CONFIRMED, given the declarations." if self.rigorous else "The numbers are confirmed, but NOT RIGOROUS."

    def __str__(self) -> str:
        declared = [str(line) for line in self.lines if line.state == "declared"]
        checked = [str(line) for line in self.lines if line.state != "declared"]
        claim = _folded("claimed", "", f"Given the declarations, which no file can prove: {self.statement}")
        return "\n".join([*(() if self.rigorous else (NOT_RIGOROUS,)), *declared, claim, *checked, self.verdict])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        lines = [{"name": line.name, "state": line.state, "text": line.text} for line in self.lines]
        record = {"confirmed": self.confirmed, "rigorous": self.rigorous, "statement": self.statement, "lines": lines}
        return record if self.proved is None else {**record, "proved": asdict(self.proved)}


def _folded(mark: str, name: str, text: str) -> str:
    lead = f"{mark:<8}  {name:<10}  "
    return textwrap.fill(text, 110, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=False)


def conclude(rigorous: bool, statement: str, lines: Iterable[Line], proved: Proved | None = None) -> Report:
    """The `Report` of some lines: confirmed when no line failed and none was skipped."""
    findings = tuple(lines)
    confirmed = all(line.state in ("declared", "confirmed") for line in findings)
    return Report(confirmed, rigorous, statement, findings, proved)
