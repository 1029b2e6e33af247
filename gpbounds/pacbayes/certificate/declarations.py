"""Declarations of a certificate, which no check can prove: how data were scaled, which choices were made from lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpbounds.arrays import Float
from gpbounds.validation import choice, count, finite, positive

ORIGINS = {
    "as given": "taken as given: their units were fixed before the data were seen",
    "fixed in advance": "shifted and scaled by constants that were fixed before the data were seen",
    "disjoint split": "shifted and scaled by constants from data disjoint from these",
    "charged": "shifted and scaled by constants from a list of {count} made before the data; ln {count} is paid",
    "same data": "shifted and scaled by constants computed from these very data, which no penalty covers",
}


@dataclass(frozen=True)
class Scaling:
    """How raw inputs or outputs were scaled, (raw − shift)/scale, and the origin of the constants.

    Constants that depend on the data make the prior and the loss depend on the data, and then the bound does not follow
    (P-45).  Valid constants are fixed in advance, computed from disjoint data, or chosen from ``count`` listed in
    advance, which costs ln ``count``.

    Parameters
    ----------
    origin : "as given", "fixed in advance", "disjoint split", "charged" or "same data"
        "as given" has no constants; "same data" makes a certificate non-rigorous.
    shift, scale : float or one for each column
        In the raw units; scale > 0.
    count : int
        Length of the list, for "charged"; otherwise 1.

    Raises
    ------
    ValueError
        for constants or a count that do not fit the origin.

    >>> Scaling("disjoint split", shift=10.0, scale=2.0).apply(np.array([12.0, 7.0])).tolist()
    [1.0, -1.5]
    """

    origin: str = "as given"
    shift: Any = 0.0
    scale: Any = 1.0
    count: int = 1

    def __post_init__(self) -> None:
        choice("origin", self.origin, tuple(ORIGINS))
        for name, values in (("shift", finite("shift", self.shift)), ("scale", positive("scale", self.scale))):
            if values.ndim > 1 or values.size == 0:
                raise ValueError(f"{name}: expected one number or one for each column, got shape {values.shape}")
            object.__setattr__(self, name, tuple(values.tolist()) if values.ndim else float(values))
        object.__setattr__(self, "count", count("count", self.count))
        if (self.count > 1) != (self.origin == "charged"):
            raise ValueError(
                f"count: expected 2 or more with origin 'charged', else 1, got {self.count} with {self.origin!r}"
            )
        if self.origin == "as given" and (
            np.any(np.asarray(self.shift) != 0.0) or np.any(np.asarray(self.scale) != 1.0)
        ):
            raise ValueError("origin: expected 'as given' without constants, got a shift or scale: name their origin")

    @property
    def rigorous(self) -> bool:
        """False if the constants were computed from the same data."""
        return self.origin != "same data"

    def apply(self, raw: Float) -> Float:
        """(raw − shift)/scale for raw values (N,) or (N, D); the same doubles on every machine."""
        columns = raw.shape[1] if raw.ndim == 2 else 1
        for name in ("shift", "scale"):
            size = np.size(getattr(self, name))
            if np.ndim(getattr(self, name)) and size != columns:
                raise ValueError(f"{name}: expected one number or {columns}, one for each column, got {size}")
        if self.origin == "as given":
            return raw
        with np.errstate(over="ignore"):
            scaled = (raw - np.asarray(self.shift)) / np.asarray(self.scale)
        if not np.isfinite(scaled).all():
            raise ValueError("shift, scale: expected finite numbers after scaling, got an overflow")
        return scaled

    def describe(self) -> str:
        """A phrase that follows "Inputs were" or "Outputs were"."""
        constants = "" if self.origin == "as given" else f" (shift {_brief(self.shift)}, scale {_brief(self.scale)})"
        return ORIGINS[self.origin].format(count=self.count) + constants

    def doubt(self, raw: Float) -> str:
        """A warning if the numbers suggest that the scaling constants were computed from these data, else "".

        The warning appears if the scaled columns have mean 0 and variance 1 to nine digits. This may be chance; a
        reader should ask the signer.
        """
        if not self.rigorous:
            return ""
        try:
            scaled = np.atleast_2d(self.apply(raw).T)
        except ValueError:  # the constants are for another number of columns
            return ""
        return _doubted(scaled.mean(axis=1), scaled.std(axis=1), raw.shape[0])

    def doubt_of(self, mean: Float, std: Float, N: int) -> str:
        """As `doubt`, from means and standard deviations of the raw columns over N rows."""
        if not self.rigorous:
            return ""
        try:
            centre = self.apply(np.ravel(mean)[None, :])[0]
        except ValueError:
            return ""
        return _doubted(centre, np.ravel(std) / np.asarray(self.scale), N)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        constants = {n: list(v) if isinstance(v := getattr(self, n), tuple) else v for n in ("shift", "scale")}
        return {"origin": self.origin, **constants, "count": self.count}


@dataclass(frozen=True)
class Charge:
    """A choice, made after seeing the data, from a list of ``count`` fixed before: it costs ln ``count`` nats.

    ln E for one of E accuracies ε (P-47), ln 2 for the better of a shared and separate lengthscales (P-45), and ln
    of the number of kernel families or grids.

    >>> Charge("accuracies ε", 5)
    Charge(choice='accuracies ε', count=5)
    """

    choice: str
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.choice, str) or not self.choice.strip():
            raise ValueError(f"choice: expected words that name the choice, got {self.choice!r}")
        object.__setattr__(self, "count", count("count", self.count))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"what": self.choice, "count": self.count}


def _doubted(means: Float, deviations: Float, N: int) -> str:
    """The warning about scaled columns with these means and standard deviations."""
    ones = (deviations, deviations * np.sqrt(N / (N - 1.0))) if N > 1 else ()
    if any(np.all((np.abs(means) < 1e-9) & (np.abs(each - 1.0) < 1e-9)) for each in ones):
        return "after scaling every column has mean 0 and variance 1 to nine digits, as if scaled by these very data."
    return ""


def _brief(values: Any) -> str:
    numbers = np.atleast_1d(np.asarray(values))
    shown = ", ".join(f"{v:.6g}" for v in numbers[:6]) + (f", ... {numbers.size} in all" if numbers.size > 6 else "")
    return shown if np.ndim(values) == 0 else f"[{shown}]"
