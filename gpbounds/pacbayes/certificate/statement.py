"""The contents of a certificate: numbers, declarations and the record of Q, as a frozen record and as JSON."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from gpbounds.bound import outward
from gpbounds.errors import shown
from gpbounds.kernels import Kernel
from gpbounds.losses import LOSSES, Loss
from gpbounds.pacbayes.certificate import priors
from gpbounds.pacbayes.certificate.declarations import Charge, DeclaredMean, Scaling
from gpbounds.pacbayes.certificate.posteriors import POSTERIORS, Posterior, Updated
from gpbounds.pacbayes.certificate.rows import Fingerprint
from gpbounds.pacbayes.certificate.sealed import COMMON, Label, SealedRecord
from gpbounds.pacbayes.certificate.split import Split
from gpbounds.pacbayes.grid import HyperGrid
from gpbounds.pacbayes.inverse import kl_inverse
from gpbounds.pacbayes.penalty import xi_ball
from gpbounds.records import NUMBER, WHOLES, Slot, Slots
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
    tandem, tandem_below : float
        Of T_S, where the certificate states it; NaN elsewhere.
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
    tandem: float = math.nan
    tandem_below: float = math.nan


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
        if self.proved is None:
            return record
        return {**record, "proved": {name: n for name, n in asdict(self.proved).items() if not math.isnan(n)}}


def _folded(mark: str, name: str, text: str) -> str:
    lead = f"{mark:<8}  {name:<10}  "
    return textwrap.fill(text, 110, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=False)


def conclude(rigorous: bool, statement: str, lines: Iterable[Line], proved: Proved | None = None) -> Report:
    """The `Report` of some lines: confirmed when no line failed and none was skipped."""
    findings = tuple(lines)
    confirmed = all(line.state in ("declared", "confirmed") for line in findings)
    return Report(confirmed, rigorous, statement, findings, proved)


# The contents of a certificate: numbers, declarations and the record of Q, as a frozen record and as JSON.

NUMBERS = ("risk", "kl", "log_count", "log_xi", "bound")


@dataclass(frozen=True, eq=False)
class RiskStatement(SealedRecord):
    """An upper bound on a risk of a GP posterior Q, with everything that a third party needs to recompute it.

    Attributes
    ----------
    loss : Loss
        With its ε, in the units of the scaled outputs.
    delta, charges, data, split, classes, versions, seal : see `SealedRecord`
    grid : HyperGrid
    indices : tuple of int
        θ's place in the grid.
    kernel : Kernel
        The prior's kernel at θ.
    posterior : Posterior
        The record that defines Q.
    inputs, outputs : Scaling
        How the raw data were scaled.
    risk, kl : float
        R_S(Q) and KL(Q‖P^θ), with an allowance for rounding above their values.
    log_count, log_xi : float
        ln(|Θ|·charges) and ln(ξ(n)/δ), n the number of certified rows, rounded up.
    bound : float
    mean : DeclaredMean or None
        The prior's mean; None is 0.
    tandem : float or None
        T_S(Q), likewise, in a certificate about the mean prediction; None where it is about the Gibbs risk.
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
    split: Split | None = None
    classes: tuple[Label, ...] | None = None
    tandem: float | None = None
    stored: ClassVar[Slots] = {
        "inputs": Slot(Scaling.from_dict),
        "outputs": Slot(Scaling.from_dict),
        "charges": COMMON["charges"],
        "loss": Slot(LOSSES.read),
        "grid": Slot(HyperGrid.from_dict),
        "indices": WHOLES,
        "kernel": Slot(priors.from_dict, priors.to_dict),
        "posterior": Slot(POSTERIORS.read),
        "data": COMMON["data"],
        "delta": COMMON["delta"],
        **dict.fromkeys(NUMBERS, NUMBER),
        "versions": COMMON["versions"],
        "mean": Slot(DeclaredMean.from_dict, optional=True),
        "seal": COMMON["seal"],
        "tandem": NUMBER._replace(optional=True),
        **{name: COMMON[name] for name in ("split", "classes")},
    }

    def __post_init__(self) -> None:
        for name, low, high in (
            *((name, 0.0, 1.0) for name in ("delta", "risk", "bound", "tandem")),
            *((name, 0.0, np.inf) for name in ("kl", "log_count", "log_xi")),
        ):
            if name == "tandem" and self.tandem is None:
                continue
            value = float(finite(name, getattr(self, name)))
            if not low <= value <= high or (name == "delta" and value in (0.0, 1.0)):
                raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {shown(value)}")
            object.__setattr__(self, name, value + 0.0)
        if self.tandem is not None:
            for_mean_prediction(self.loss)

    @property
    def rigorous(self) -> bool:
        """False if the scaling was computed from the same data."""
        return self.inputs.rigorous and self.outputs.rigorous

    @property
    def scalings(self) -> tuple[tuple[str, Scaling], ...]:
        """Both scalings, by name."""
        return ("inputs", self.inputs), ("outputs", self.outputs)

    @property
    def predictor(self) -> str:
        """Whose risk is bounded: "gibbs", f drawn from Q, or "mean", the mean prediction of Q."""
        return "gibbs" if self.tandem is None else "mean"

    @property
    def method(self) -> str:
        """How the prior came about: "pac-bayes", from a grid, or "data-prior", from other rows."""
        return "data-prior" if isinstance(self.posterior, Updated) else "pac-bayes"

    @property
    def count(self) -> int:
        """The number of statements in the union bound: |Θ| times the lengths of all lists, and 2 for both bounds on
        the risk of the mean prediction."""
        lists = [charge.count for charge in self.charges] + [scaling.count for _, scaling in self.scalings]
        means = 1 if self.mean is None else self.mean.count
        both = 1 if self.tandem is None else 2
        return int(np.prod([self.grid.size, *lists, means, both], dtype=object))

    @property
    def statement(self) -> str:
        """The claim in one sentence."""
        lead = "" if self.rigorous else "Had the scaling been fixed in advance: "
        whose = "the Gibbs risk of Q, the mean of" if self.tandem is None else "the risk of the mean prediction of Q,"
        which = "" if self.split is None else " that are not the prior's"
        return (
            f"{lead}With probability at least 1 − {outward(self.delta, 'upper')} over the draw of the "
            f"{self.rows} rows{which}, {whose} {self.loss!r} on a new row, is at most {self.bound!r}."
        )

    def least_bound(self, risk: float, kl: float, tandem: float | None) -> float:
        """The bound from these numbers: `risk_bound`, or `mean_bound` where ``tandem`` is a number."""
        arguments = (kl, self.count, self.rows, self.delta)
        return risk_bound(risk, *arguments) if tandem is None else mean_bound(risk, tandem, *arguments)

    def __eq__(self, other: object) -> bool:
        return SealedRecord.__eq__(self, other)

    def __hash__(self) -> int:
        return SealedRecord.__hash__(self)

    def __str__(self) -> str:
        lead = "" if self.rigorous else f"{_NOT_RIGOROUS} "
        return f"{lead}{self.statement} KL = {self.kl:.6g}, R_S = {self.risk:.6g}. Q: {self.posterior.describe()}."


def for_mean_prediction(loss: Loss) -> None:
    """Refuse a loss for which the risk of the mean prediction has no bound by the tandem risk (N-tandem)."""
    if not loss.zero_one:
        raise ValueError(f"loss: expected one that is 0 or 1, for the risk of the mean prediction, got {shown(loss)}")


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


def mean_bound(risk: float, tandem: float, kl: float, count: int, N: int, delta: float) -> float:
    """The least of 1, 2B and 4T: bounds on the risk of the mean prediction, rounded up  (P-38, N-tandem).

    B = kl⁻¹(R_S, (KL + ln count + ln(ξ(N)/δ))/N) bounds the Gibbs risk, T = kl⁻¹(T_S, (2KL + ln count + ln(ξ(N)/δ))/N)
    the tandem risk; ``count`` includes the two of them.

    >>> round(2.0 * risk_bound(0.2, 5.0, 2, 1000, 0.01), 3), round(mean_bound(0.2, 0.05, 5.0, 2, 1000, 0.01), 3)
    (0.544, 0.416)
    """
    once = 2.0 * risk_bound(risk, kl, count, N, delta)
    return min(1.0, once, 4.0 * risk_bound(tandem, 2.0 * kl, count, N, delta))


def share_of_delta(delta: float, count: int) -> float:
    """The largest double that is not above δ/count, the part of δ of each of ``count`` statements.

    >>> share_of_delta(0.5, 5)
    0.09999999999999999
    """
    exactly = Fraction(delta) / count
    near = float(exactly)
    return near if Fraction(near) <= exactly else math.nextafter(near, 0.0)


def _log_count(count: int) -> Any:
    from flint import arb

    return arb(count).log()


def _log_xi(N: int, delta: float) -> Any:
    return (xi_ball(float(N)) / exact(delta)).log()
