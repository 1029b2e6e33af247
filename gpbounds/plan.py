"""The record that every planner returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpbounds.bound import Bound

UNITS = {
    "inducing": ("inducing points", "inducing point"),
    "fourier": ("random Fourier features", "frequency"),
    "mercer": ("eigenfunctions", "eigenfunction"),
}
"""By method: what M counts, and the unit by which it changes."""


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
        Kind of approximation: "inducing", "fourier" or "mercer".
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
        L-10).
    meaning : tuple of str
        Consequences of meeting the target, in words.
    cost : Cost or None
        Time and memory of a sparse GP of rank M.
    notes : tuple of str
        Remarks that restrict or explain the plan.
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
            if self.method == "inducing":
                smaller, claim = f"choice of fewer than {self.needed} {units}", "N-low"
            else:
                smaller, claim = f"approximation of rank below {self.needed}", "L-10"
            lines.append(f"No {smaller} can reach the target ({claim}).")
        if self.cost is not None:
            lines.append(f"Cost: {self.cost}.")
        return "\n".join([*lines, *self.meaning, *(f"Note: {note}" for note in self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """The record as plain lists, numbers and strings, ready for JSON."""
        return {
            "method": self.method,
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
