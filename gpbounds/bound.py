"""The record that every bound returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any, Literal

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gpbounds.arrays import Float


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


@dataclass(frozen=True, eq=False)
class Bound(NDArrayOperatorsMixin):
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
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain lists, numbers and strings, ready for JSON."""

        def plain(value: Any) -> Any:
            return np.asarray(value).tolist() if isinstance(value, np.ndarray | np.generic | float | int) else value

        return {
            "quantity": self.quantity,
            "side": self.side,
            "value": plain(self.value),
            "confidence": plain(self.confidence),
            "claim": self.claim,
            "terms": {name: plain(term) for name, term in self.terms.items()},
            "assumptions": list(self.assumptions),
            "certified": self.certified,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Bound:
        """The bound whose `to_dict` is ``record``; lists become arrays.

        >>> b = Bound(0.5, "upper", 0.95, "R-thm1", {"t": 0.1}, ("y is drawn from the prior.",), quantity="D_1[q*||p]")
        >>> Bound.from_dict(b.to_dict()).to_dict() == b.to_dict()
        True
        """

        def arrays(value: Any) -> Any:
            return np.array(value) if isinstance(value, list) else value

        return cls(
            value=arrays(record["value"]),
            side=record["side"],
            confidence=arrays(record["confidence"]),
            claim=record["claim"],
            terms={name: arrays(term) for name, term in record["terms"].items()},
            assumptions=tuple(record["assumptions"]),
            certified=record["certified"],
            quantity=record["quantity"],
        )
