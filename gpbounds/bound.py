"""The records that bounds and planners return, and shared parts of bounds that are stated before the data are seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gpbounds.arrays import Float, as_number
from gpbounds.inputs import InputLaw
from gpbounds.records import ANY, TEXTS, Record, Slot, Slots, many, named
from gpbounds.texts import in_nats


def outward(value: float, side: str, digits: int = 6) -> str:
    """``value`` with at most ``digits`` digits, rounded up or down, so that the printed number is still a bound.

    >>> outward(0.12345671, "upper"), outward(0.12345679, "lower"), outward(0.1, "upper"), outward(0.1414, "upper", 3)
    ('0.123457', '0.123456', '0.1', '0.142')
    """
    if not math.isfinite(value):
        return f"{value:g}"
    rounding = ROUND_CEILING if side == "upper" else ROUND_FLOOR
    return f"{float(Context(prec=digits, rounding=rounding).create_decimal(repr(value))):.{digits}g}"


def _brief(values: Any, side: str) -> str:
    values = np.asarray(values)
    if values.ndim == 0:
        return outward(float(values), side)
    if not values.size:
        return "[]"
    low, high = (outward(float(end), side) for end in (values.min(), values.max()))
    return f"[{low} .. {high}] of shape {values.shape}"


def _array(value: Any, where: str) -> Any:
    return np.array(value) if isinstance(value, list) else value


@dataclass(frozen=True, eq=False)
class Bound(Record, NDArrayOperatorsMixin):
    """A number (or an array of numbers) with its theorem, hypotheses and confidence.

    ``float(bound)`` and every NumPy function or operator use ``value``; ``print(bound)`` gives a sentence.

    Attributes
    ----------
    value : float or array
        The bound.
    side : "upper" or "lower"
    confidence : float or array
        Probability with which it holds; 1 where it is deterministic.
    claim : str
        Ledger id of the theorem; ``gpbounds claims ID`` prints it.
    terms : mapping of str to float or array
        Named parts of ``value``, or named intermediate values.
    assumptions : tuple of str
        The hypotheses under which the bound holds, one sentence each.
    certified : bool
        True if ``value`` is on the safe side, rounding included, by construction or by a proved count of the roundings.
        An allowance that is only measured does not count: an assumption then names it.
    quantity : str
        The quantity that is bounded.
    notes : tuple of str
        What was left out of the computation, and the argument that includes it; files leave out an empty tuple.

    >>> b = Bound(0.5, "upper", 0.95, "R-thm1", quantity="D_1[q*||p]", assumptions=("y is drawn from the prior.",))
    >>> float(b), bool(b < 1)
    (0.5, True)
    >>> print(b)
    D_1[q*||p] <= 0.5 with probability at least 0.95 (R-thm1).
      Assumes: y is drawn from the prior.
    """

    value: float | Float
    side: Literal["upper", "lower"]
    confidence: float | Float
    claim: str
    terms: Mapping[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    certified: bool = False
    quantity: str = "value"
    notes: tuple[str, ...] = ()
    stored: ClassVar[Slots] = {
        "quantity": ANY,
        "side": ANY,
        "value": Slot(_array),
        "confidence": Slot(_array),
        "claim": ANY,
        "terms": named(_array),
        "assumptions": many(ANY.read),
        "certified": ANY,
        "notes": TEXTS._replace(default=True),
    }

    def to_dict(self) -> dict[str, Any]:
        """The record in types of JSON; `from_dict` reads it back."""
        record = super().to_dict()
        if not self.notes:
            del record["notes"]
        return record

    def __float__(self) -> float:
        return float(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Float:
        return np.array(self.value, dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(out, Bound) for out in kwargs.get("out", ())):
            del kwargs["out"]  # bound += x: the record cannot change, so the name is bound to a plain number
        plain = [i.value if isinstance(i, Bound) else i for i in inputs]
        return getattr(ufunc, method)(*plain, **kwargs)

    def __str__(self) -> str:
        relation = "<=" if self.side == "upper" else ">="
        confidence = np.asarray(self.confidence)
        if (confidence == 1.0).all():
            certainty = "always"
        else:
            certainty = f"with probability at least {outward(float(confidence.min()), 'lower')}"
        rounding = ", rounding included" if self.certified else ""
        lines = [f"{self.quantity} {relation} {_brief(self.value, self.side)} {certainty} ({self.claim}{rounding})."]
        lines += [f"  Assumes: {sentence}" for sentence in self.assumptions]
        lines += [f"  Note: {sentence}" for sentence in self.notes]
        return "\n".join(lines)


def claims_of(*bounds: Bound) -> tuple[str, ...]:
    """Ids of the claims on which bounds rest, each once.

    >>> claims_of(Bound(1.0, "lower", 1.0, "R-elbo*"), Bound(2.0, "upper", 1.0, "N-quad, R-elbo*"))
    ('R-elbo*', 'N-quad')
    """
    return tuple(dict.fromkeys(claim for bound in bounds for claim in bound.claim.split(", ")))


# Shared parts of bounds that are stated before the data are seen: hypotheses, rounding, and their record.

UP = 1.0 + 1e-11
"""Values are multiplied by this number: it allows for ten times the rounding error of their computation."""
MEASURED = (
    "The allowance for rounding, 1e-11 of the value, is measured, not proved; rigor='sharp' proves it where the "
    "eigenvalues are known in balls."
)
"""The assumption of bounds whose roundings are not counted."""
ENCLOSED = (
    "All rounding is enclosed, if the platform's exp errs by at most 4 units in the last place and its matrix products "
    "are sums of products in double precision, in any order."
)
"""The assumption of bounds from an eigendecomposition in doubles whose error is proved."""
SMALLEST = np.finfo(np.float64).tiny

FIXED = "Kernel, input law and noise are fixed in advance, not fitted to these data."
FIXED_IN_ADVANCE = "Kernel and noise are fixed in advance, not fitted to these data."


def drawn_from(inputs: InputLaw) -> str:
    """The hypothesis on the inputs."""
    return f"The N inputs are drawn independently from {inputs!r}."


def given_inputs(N: int) -> str:
    """The hypothesis of a statement about N given rows."""
    return f"The {N} inputs are the given ones: the statement is conditional on X."


def exp_up(log_value: Any) -> Any:
    """e^log_value, raised to the least normal double unless it is 0: an upper bound must not underflow."""
    log_value = np.asarray(log_value)
    return np.where(log_value == -np.inf, 0.0, np.exp(np.maximum(log_value, np.log(SMALLEST))))


def enlargement(roundings: Any) -> Any:
    """The factor that enlarges an upper bound with a relative error of at most ``roundings``·2^-53: 1 + 1e-11 or more.

    It is 1 + 1e-11 where ``roundings`` is inf: they are not counted.

    >>> [bool(enlargement(c) == UP) for c in (1000.0, np.inf)], bool(enlargement(2.0**20) == 1.0 + 2.0**-33)
    ([True, True], True)
    """
    return np.maximum(UP, 1.0 + np.where(np.isfinite(roundings), roundings, 0.0) * 2.0**-53)


def normal_or_zero(value: Any, positive: Any) -> Any:
    """``value`` where ``positive``, raised to the least normal double if it is smaller; 0 elsewhere."""
    return np.where(positive, np.maximum(value, SMALLEST), 0.0)


def upper_bound(
    value: Any,
    delta: Any,
    claim: str,
    terms: Mapping[str, Any],
    assumptions: tuple[str, ...],
    *,
    certified: bool,
    quantity: str,
) -> Bound:
    """The record of an upper bound that fails with probability at most ``delta``."""
    return Bound(
        value=as_number(value),
        side="upper",
        confidence=as_number(np.broadcast_to(1.0 - delta, np.shape(value))),
        claim=claim,
        terms={name: as_number(term) for name, term in terms.items()},
        assumptions=assumptions,
        certified=certified,
        quantity=quantity,
    )


# The record that every planner returns.

UNITS = {
    "inducing": ("inducing points", "inducing point"),
    "fourier": ("random Fourier features", "frequency"),
    "mercer": ("eigenfunctions", "eigenfunction"),
    "hilbert": ("basis functions of a Hilbert space", "function"),
}
"""By method: the meaning of M, and the unit by which it changes."""


@dataclass(frozen=True)
class Cost:
    """Cost of a sparse GP of rank M: flops of one objective with its gradient, bytes of its largest matrices."""

    flops: float
    bytes: float

    @classmethod
    def of(cls, N: int, M: int) -> Cost:
        """4NM² + 2M³/3 flops (whitening, its Gram matrix, their pull-backs), (2NM + 3M²)·8 bytes unless streamed."""
        return cls(flops=4.0 * N * M**2 + 2.0 * M**3 / 3.0, bytes=8.0 * (2.0 * N * M + 3.0 * M**2))

    def __str__(self) -> str:
        seconds, memory = self.flops / 1e11, self.bytes / 1e9
        return f"{self.flops:.2g} flops per gradient ({seconds:.2g} s at 100 GFLOP/s), {memory:.2g} GB unless streamed"


@dataclass(frozen=True)
class Plan:
    """The least rank that meets a target, with its bound and the theorem.

    Attributes
    ----------
    method : str
        Kind of approximation: "inducing", "fourier", "mercer" or "hilbert".
    N : int
    target : float
        The bound must not exceed it.
    M : int or None
        The least rank from which on the bound stays <= target; None if there is no such M < N.
    bound : Bound or None
        The bound at M.
    bound_before : Bound or None
        The bound with one unit (inducing point, eigenfunction, random frequency) fewer, which exceeds the target; None
        if M is the smallest possible, or the method does not compute it.
    needed : int or None
        A lower bound on the rank that any approximation of this kind needs, where one is known (given data; N-low,
        N-op-low, L-10).
    meaning : tuple of str
        Consequences of meeting the target, in words.
    cost : Cost or None
        Time and memory of a sparse GP of rank M.
    notes : tuple of str
        Remarks that restrict or explain the plan.
    criterion : "divergence" or "operator"
        What the target is about: a divergence in nats, or λ_max(K − Q)/σ².
    """

    method: str
    N: int
    target: float
    M: int | None
    bound: Bound | None
    bound_before: Bound | None
    needed: int | None = None
    meaning: tuple[str, ...] = ()
    cost: Cost | None = None
    notes: tuple[str, ...] = ()
    criterion: Literal["divergence", "operator"] = "divergence"

    @classmethod
    def at(cls, M: int | None, bound: Callable[[int], Bound], *, first: int, N: int, **rest: Any) -> Plan:
        """The plan with the least rank M of first, first + 1, ..., the bounds at M and M − 1, and M's cost."""
        return cls(
            N=N,
            M=M,
            bound=None if M is None else bound(M),
            bound_before=None if M is None or M == first else bound(M - 1),
            cost=None if M is None else Cost.of(N, M),
            **rest,
        )

    def __str__(self) -> str:
        units, unit = UNITS[self.method]
        if self.M is None or self.bound is None:
            lines = [f"No number of {units} below N = {self.N} brings the bound down to {self.target:g}."]
        else:
            pairs = f" (cosine and sine of {self.M // 2} frequencies)" if self.method == "fourier" else ""
            lines = [
                f"M = {self.M} {units}{pairs} suffice for a bound <= {self.target:g}; N = {self.N}.",
                str(self.bound),
            ]
        if self.bound_before is not None:
            lines.append(f"With one {unit} fewer, the bound is {float(self.bound_before):.6g}.")
        if self.needed is not None:
            reached, claim = in_nats(self.target), "N-low"
            smaller = f"choice of fewer than {self.needed} {units}"
            if self.method != "inducing":
                smaller, claim = f"approximation of rank below {self.needed}", "L-10"
            elif self.criterion == "operator":
                reached, claim = f"λ_max(K − Q)/σ² <= {self.target:g}", "N-op-low"
            lines.append(f"With this kernel and noise, no {smaller} can reach {reached} ({claim}).")
        if self.cost is not None:
            lines.append(f"Cost: {self.cost}.")
        return "\n".join([*lines, *self.meaning, *(f"Note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """The record as plain lists, numbers and strings, ready for JSON."""
        return {
            "method": self.method,
            "criterion": self.criterion,
            "N": self.N,
            "target": self.target,
            "M": self.M,
            "bound": self.bound.to_dict() if self.bound else None,
            "bound_before": self.bound_before.to_dict() if self.bound_before else None,
            "needed": self.needed,
            "meaning": list(self.meaning),
            "cost": {"flops": self.cost.flops, "bytes": self.cost.bytes} if self.cost else None,
            "notes": list(self.notes),
        }
