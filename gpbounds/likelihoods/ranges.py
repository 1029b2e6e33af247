"""The record of proved ranges: for every real f they contain p(y|f) and its first two derivatives in f."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Array, namespace
from gpbounds.bound import outward
from gpbounds.validation import choice

Pair = tuple[Any, Any]

FORMS = ("sharpest", "printed")
"""The exact infimum and supremum; Table 1 of Wei et al."""


@dataclass(frozen=True, eq=False)
class DerivativeRange:
    """(low, high) of φ(f) = p(y|f), φ' and φ'' over all real f, one entry a y.

    Attributes
    ----------
    density, first, second : pairs of float or array
        low ≤ φ ≤ high; the same for φ' and φ''.  Limits at ±∞ count.
    form : "sharpest" or "printed"
    repaired : bool
        Whether these are the printed numbers with their misprints corrected.
    claim : str
        Ledger id.
    holds : bool
        False where the printed numbers are not bounds.
    note : str
        What is wrong with the printed form, if anything is.
    """

    density: Pair
    first: Pair
    second: Pair
    form: str
    claim: str
    holds: bool = True
    note: str = ""
    repaired: bool = False

    def __str__(self) -> str:
        def pair(name: str, ends: Pair) -> str:
            low, high = outward(float(np.min(ends[0])), "lower"), outward(float(np.max(ends[1])), "upper")
            return f"{name} in [{low}, {high}]" + (" at most" if np.ndim(ends[0]) or np.ndim(ends[1]) else "")

        rows = [pair(n, e) for n, e in (("φ", self.density), ("φ'", self.first), ("φ''", self.second))]
        form = f"{self.form}, repaired" if self.repaired else self.form
        text = f"{', '.join(rows)} ({self.claim}, {form})."
        return f"{text}\n  {self.note}" if self.note else text


def over(y: Array, *ends: Any) -> tuple[Any, ...]:
    """``ends`` in the shape of y; plain floats where y is a single number in host memory."""
    xp = namespace(y)
    arrays = [xp.broadcast_to(xp.asarray(e, dtype=np.float64), y.shape) for e in ends]
    return tuple(float(a) if xp is np and not y.shape else xp.array(a) for a in arrays)


def record(
    y: Array,
    ends: tuple[Any, ...],
    form: str,
    claim: str,
    *,
    holds: bool = True,
    note: str = "",
    repaired: bool = False,
) -> DerivativeRange:
    """A `DerivativeRange` from six ends: density low, high, first low, high, second low, high."""
    a, b, c, d, e, f = over(y, *ends)
    return DerivativeRange((a, b), (c, d), (e, f), choice("form", form, FORMS), claim, holds, note, repaired)
