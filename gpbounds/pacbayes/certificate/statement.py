"""The contents of a certificate: numbers, declarations and the record of Q, as a frozen record and as JSON."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from gpbounds.bound import outward
from gpbounds.kernels import Kernel
from gpbounds.losses import LOSSES, Loss
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.declarations import Charge, DeclaredMean, Scaling
from gpbounds.pacbayes.certificate.posteriors import POSTERIORS, Posterior
from gpbounds.pacbayes.certificate.rows import Fingerprint
from gpbounds.pacbayes.grid import HyperGrid
from gpbounds.pacbayes.inverse import kl_inverse
from gpbounds.pacbayes.penalty import xi_ball
from gpbounds.records import DIGEST, NUMBER, TEXT, WHOLES, Record, Slot, Slots, many, named, to_json
from gpbounds.rigor import exact, settled
from gpbounds.validation import finite

# The report of a check: first the declarations, which a file cannot prove, then the lines confirmed or failed.

State = Literal["declared", "confirmed", "failed", "skipped"]
_MARKS: dict[State, str] = {"declared": "declared", "confirmed": "ok", "failed": "FAILED", "skipped": "skipped"}
_NOT_RIGOROUS = (
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
        return _folded(_MARKS[self.state], self.name, self.text)


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
        return "\n".join([*(() if self.rigorous else (_NOT_RIGOROUS,)), *declared, claim, *checked, self.verdict])

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


# The contents of a certificate: numbers, declarations and the record of Q, as a frozen record and as JSON.

NUMBERS = ("delta", "risk", "kl", "log_count", "log_xi", "bound")
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
    return hashlib.sha256(to_json(rest, sort=True, compact=True).encode("ascii")).hexdigest()


@dataclass(frozen=True, eq=False)
class RiskStatement(Record):
    """An upper bound on the Gibbs risk of a GP posterior Q, with everything that a third party needs to recompute it.

    Attributes
    ----------
    loss : Loss
        With its ε, in the units of the scaled outputs.
    delta : float
    grid : HyperGrid
    indices : tuple of int
        θ's place in the grid.
    kernel : Kernel
        The prior's kernel at θ.
    posterior : Posterior
        The record that defines Q.
    inputs, outputs : Scaling
        How the raw data were scaled.
    charges : tuple of Charge
        Choices from lists made in advance.
    data : Fingerprint
        Of the raw data.
    risk, kl : float
        R_S(Q) and KL(Q‖P^θ), with an allowance for rounding above their values.
    log_count, log_xi : float
        ln(|Θ|·charges) and ln(ξ(N)/δ), rounded up.
    bound : float
    versions : dict of str to str
        Versions of the software that issued it.
    seal : str
        See `seal`.
    mean : DeclaredMean or None
        The prior's mean; None is 0.
    """

    loss: Loss
    delta: float
    grid: HyperGrid
    indices: tuple[int, ...]
    kernel: Kernel
    posterior: Posterior
    inputs: Scaling
    outputs: Scaling
    charges: tuple[Charge, ...]
    data: Fingerprint
    risk: float
    kl: float
    log_count: float
    log_xi: float
    bound: float
    versions: dict[str, str]
    seal: str = ""
    mean: DeclaredMean | None = None
    stored: ClassVar[Slots] = {
        "inputs": Slot(Scaling.from_dict),
        "outputs": Slot(Scaling.from_dict),
        "charges": many(Charge.from_dict),
        "loss": Slot(LOSSES.read),
        "grid": Slot(HyperGrid.from_dict),
        "indices": WHOLES,
        "kernel": Slot(priors.from_dict, priors.to_dict),
        "posterior": Slot(POSTERIORS.read),
        "data": Slot(Fingerprint.from_dict),
        **dict.fromkeys(NUMBERS, NUMBER),
        "versions": named(TEXT.read),
        "mean": Slot(DeclaredMean.from_dict, optional=True),
        "seal": DIGEST,
    }

    def __post_init__(self) -> None:
        for name, low, high in (
            *((name, 0.0, 1.0) for name in ("delta", "risk", "bound")),
            *((name, 0.0, np.inf) for name in ("kl", "log_count", "log_xi")),
        ):
            value = float(finite(name, getattr(self, name)))
            if not low <= value <= high or (name == "delta" and value in (0.0, 1.0)):
                raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {value!r}")
            object.__setattr__(self, name, value + 0.0)

    @property
    def rigorous(self) -> bool:
        """False if the scaling was computed from the same data."""
        return self.inputs.rigorous and self.outputs.rigorous

    @property
    def scalings(self) -> tuple[tuple[str, Scaling], ...]:
        """Both scalings, by name."""
        return ("inputs", self.inputs), ("outputs", self.outputs)

    @property
    def count(self) -> int:
        """The number of priors and losses in the union bound: |Θ| times the lengths of all lists."""
        lists = [charge.count for charge in self.charges] + [scaling.count for _, scaling in self.scalings]
        means = 1 if self.mean is None else self.mean.count
        return int(np.prod([self.grid.size, *lists, means], dtype=object))

    @property
    def statement(self) -> str:
        """The claim in one sentence."""
        lead = "" if self.rigorous else "Had the scaling been fixed in advance: "
        return (
            f"{lead}With probability at least 1 − {outward(self.delta, 'upper')} over the draw of the "
            f"{self.data.rows} rows, the Gibbs risk of Q, the mean of {self.loss!r} on a new row, is at most "
            f"{self.bound!r}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The record, schema 1, ready for JSON."""
        return {"format": FORMAT, "schema": SCHEMA, "rigorous": self.rigorous, **super().to_dict()}

    def fresh_seal(self) -> str:
        """The seal of the present record."""
        return seal(self.to_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RiskStatement) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.fresh_seal())

    def __str__(self) -> str:
        lead = "" if self.rigorous else f"{_NOT_RIGOROUS} "
        return f"{lead}{self.statement} KL = {self.kl:.6g}, R_S = {self.risk:.6g}. Q: {self.posterior.describe()}."


# The last step of a certificate, in Arb: the bound from R_S, KL(Q‖P), counts, N and δ, rounded upwards.


def log_count(count: int) -> float:
    """The least double that is not below ln ``count``.

    >>> log_count(1), round(log_count(1201**2), 4)
    (0.0, 14.1818)
    """
    return settled(lambda: _log_count(count), upwards=True) + 0.0  # never −0.0


def log_xi(N: int, delta: float) -> float:
    """The least double that is not below ln(ξ(N)/δ).

    >>> round(log_xi(404, 0.01), 4)
    7.858
    """
    return settled(lambda: _log_xi(N, delta), upwards=True)


def risk_bound(risk: float, kl: float, count: int, N: int, delta: float) -> float:
    """B = kl⁻¹(R_S, (KL + ln count + ln(ξ(N)/δ))/N), the least double proved not to be below it.

    Claims P-12, P-14, P-43, P-47: ``count`` is the product of |Θ| and the lengths of all lists.

    Parameters
    ----------
    risk, kl : float
        R_S in [0, 1] and KL(Q‖P) >= 0, or upper bounds of them: B increases with both.
    count, N : int
    delta : float in (0, 1]

    >>> risk_bound(0.02, 30.0, 1201**2, 1000, 0.01)
    0.10136636474734233
    """
    divergence = settled(lambda: (exact(kl) + _log_count(count) + _log_xi(N, delta)) / N, upwards=True)
    return float(kl_inverse(risk, divergence, rigor="sharp"))


def _log_count(count: int) -> Any:
    from flint import arb

    return arb(count).log()


def _log_xi(N: int, delta: float) -> Any:
    return (xi_ball(float(N)) / exact(delta)).log()
