"""The members of the family, and their names in the literature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpbounds.validation import choice, closed_unit, non_negative

Structure = Literal["diagonal", "blocks", "full", "none"]
METHODS = ("vfe", "dtc", "fitc", "pep", "pic", "renyi", "exact")


@dataclass(frozen=True)
class Member:
    """One member of the family.

    Attributes
    ----------
    structure : "diagonal", "blocks", "full" or "none"
        The part of K − Q that is kept.
    power : float
        The power a of K − Q in [0, 1]: 0 is VFE, 1 is FITC.  For "diagonal" any a ≥ 0: the posterior of Reeb et al.,
        PAC-GP, Eq. 11 (P-27).  `member` has objectives, and takes a in [0, 1] only.
    inside : bool
        Whether the covariance of a new point with the data of its block is K rather than Q: PIC and the exact GP.

    >>> member("pep", power=0.5)
    Member(structure='diagonal', power=0.5, inside=False)
    """

    structure: Structure
    power: float
    inside: bool = False

    def __post_init__(self) -> None:
        choice("structure", self.structure, ("diagonal", "blocks", "full", "none"))
        allowed = non_negative if self.structure == "diagonal" else closed_unit
        object.__setattr__(self, "power", one_number("power", allowed("power", self.power)))
        if self.inside and not (self.structure in ("blocks", "full") and self.power == 1.0):
            raise ValueError(f"inside: expected blocks or full with power 1, got {self.structure!r}, {self.power}")

    @property
    def is_evidence(self) -> bool:
        """True if F = log p(y), since Q + R = K: for the exact GP, and for Rényi at α = 0."""
        return self.structure == "full" and self.power == 1.0

    @property
    def is_diagonal(self) -> bool:
        """True if F depends on K − Q through its diagonal only; at a = 0 any structure gives its trace only."""
        return self.structure in ("diagonal", "none") or self.power == 0.0


def member(method: str, *, power: float | None = None, alpha: float | None = None) -> Member:
    """The member with this name in the literature; "pep" takes ``power``, "renyi" the order ``alpha`` in [0, 1].

    >>> member("renyi", alpha=0.25), member("vfe")
    (Member(structure='full', power=0.75, inside=False), Member(structure='diagonal', power=0.0, inside=False))
    """
    choice("method", method, METHODS)
    for name, value, owner in (("power", power, "pep"), ("alpha", alpha, "renyi")):
        if (value is None) == (method == owner):
            expected = "a number in [0, 1]" if method == owner else "None"
            raise ValueError(f"{name}: expected {expected} for method={method!r}, got {value!r}")
    if method == "pep":
        return Member("diagonal", one_number("power", closed_unit("power", power)))  # type: ignore[arg-type]
    if method == "renyi":
        return Member("full", 1.0 - one_number("alpha", closed_unit("alpha", alpha)))  # type: ignore[arg-type]
    fixed = {
        "vfe": Member("diagonal", 0.0),
        "dtc": Member("none", 0.0),
        "fitc": Member("diagonal", 1.0),
        "pic": Member("blocks", 1.0, inside=True),
        "exact": Member("full", 1.0, inside=True),
    }
    return fixed[method]


def row_by_row(member: Member) -> Member:
    """``member``; refuses one whose K − Q joins several rows."""
    if not member.is_diagonal:
        raise ValueError(
            f"method: expected 'vfe', 'fitc', 'dtc' or 'pep' for rows that are read by partitions, got {member}: its "
            "blocks would straddle partitions"
        )
    return member


def one_number(name: str, value: Any) -> float:
    """``value`` as a float; an array is refused."""
    if np.ndim(value):
        raise ValueError(f"{name}: expected one number, got shape {np.shape(value)}")
    return float(value)
