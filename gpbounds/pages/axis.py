"""An axis of a chart: its range, its ticks, and the place of a value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """Values from ``low`` to ``high`` on a line from ``start`` to ``end``, in pixels.

    >>> axis = Axis(0.0, 10.0, 0.0, 100.0)
    >>> axis.place(2.5), axis.ticks()
    (25.0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    >>> round(Axis(1.0, 1000.0, 0.0, 90.0, log=True).place(100.0), 9)
    60.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float, *, log: bool = False, zero: bool = False) -> Axis:
        """The axis that holds all finite values (all positive ones if ``log``) with a margin."""
        kept = [v for v in values if math.isfinite(v) and (v > 0.0 or not log)]
        low, high = (min(kept), max(kept)) if kept else (1.0, 10.0)
        if log:
            low, high = (low / 2.0, high * 2.0) if low == high else (low, high)
            factor = (high / low) ** 0.04
            return cls(low / factor, high * factor, start, end, True)
        low = min(low, 0.0) if zero else low
        spread = high - low or abs(high) or 1.0
        return cls(low if zero and low == 0.0 else low - 0.04 * spread, high + 0.04 * spread, start, end)

    def holds(self, value: float) -> bool:
        """Whether the axis has a place for the value."""
        return math.isfinite(value) and self.low <= value <= self.high

    def place(self, value: float) -> float:
        """The pixel of a value."""
        low, high, at = (
            (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (self.end - self.start) * (at - low) / (high - low)

    def ticks(self, several: int = 5) -> list[float]:
        """Round values within the range; powers of ten, with 2 and 5 between them where the range is short."""
        if not self.log:
            return _round_values(self.low, self.high, several)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        step = max(1, math.ceil((last - first) / several))
        shares = (1.0, 2.0, 5.0) if last - first <= 2 else (1.0,)
        powers = [share * 10.0**power for power in range(first, last + 1, step) for share in shares]
        within = [value for value in powers if self.low <= value <= self.high]
        return within if len(within) > 1 else _round_values(self.low, self.high, several)


def _round_values(low: float, high: float, several: int) -> list[float]:
    rough = (high - low) / several
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(share * power for share in (1.0, 2.0, 5.0, 10.0) if share * power >= rough * (1.0 - 1e-12))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """The ticks of one axis as texts of one style: all are decimal numbers, or all are powers of ten.

    >>> labels([0.0, 0.25, 1000.0, 20000.0, -3.0]), labels([0.0, 1e-4, 0.01])
    (['0', '0.25', '1000', '20000', '−3'], ['0', '10⁻⁴', '10⁻²'])
    """
    if all(value == 0.0 or 1e-3 <= abs(value) < 1e6 for value in values):
        return [f"{value:g}".replace("-", "−") for value in values]
    return ["0" if value == 0.0 else _power(value) for value in values]


def _power(value: float) -> str:
    size = abs(value)
    power = math.floor(math.log10(size) + 1e-12)
    lead = f"{size / 10.0**power:.3g}"
    text = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ("−" if value < 0 else "") + ("" if lead == "1" else f"{lead}·") + f"10{text}"
