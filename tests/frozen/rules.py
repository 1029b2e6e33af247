"""When two plain values are the same: to the last bit, or to a relative tolerance of the largest entry of an array.

Words must be equal; sentences (words with a space between them) are compared, and a change is told, but is no
difference: they may be worded better.  The ledger's ids of a bound, under "claim", must be equal all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

LOOSE = ("function", "check", "reason")
"""Keys whose words may change: places in the code."""
STRICT = ("claim",)
"""Keys whose sentences may not."""


@dataclass(frozen=True)
class Change:
    """One finding: where, what was, what is, how far apart; a remark where it is no difference."""

    where: str
    stored: Any
    now: Any
    error: float | None = None
    remark: bool = False


def compare(stored: Any, now: Any, rule: str, where: str = "", key: str = "") -> Iterator[Change]:
    """The changes from ``stored`` to ``now``."""
    if _failed(now) and not _failed(stored):
        yield Change(where, "a result", f"{now['raised']}: {now['reason']}")
    elif isinstance(stored, str) and isinstance(now, str):
        if stored != now:
            sentence = key in LOOSE or (" " in stored and key not in STRICT)
            yield Change(where, stored, now, remark=sentence)
    elif isinstance(stored, dict) and isinstance(now, dict):
        for name in [*stored, *(name for name in now if name not in stored)]:
            place = f"{where}.{name}" if where else name
            if name not in now:
                yield Change(place, stored[name], "missing")
            elif name not in stored:
                yield Change(place, "nothing", now[name])
            else:
                yield from compare(stored[name], now[name], rule, place, name)
    elif (a := _numbers(stored)) is not None and (b := _numbers(now)) is not None:
        yield from _arrays(a, b, stored, now, rule, where)
    elif isinstance(stored, list) and isinstance(now, list):
        if len(stored) != len(now):
            yield Change(where, f"{len(stored)} entries", f"{len(now)} entries", remark=_prose(stored, key))
            return
        for i, (left, right) in enumerate(zip(stored, now, strict=True)):
            yield from compare(left, right, rule, f"{where}[{i}]", key)
    elif stored != now or type(stored) is not type(now):
        yield Change(where, stored, now)


def _failed(value: Any) -> bool:
    """Whether a call raised an exception."""
    return isinstance(value, dict) and "raised" in value


def _prose(stored: list[Any], key: str) -> bool:
    """Whether a list holds sentences alone."""
    return bool(stored) and all(isinstance(item, str) and " " in item for item in stored) and key not in STRICT


def _numbers(value: Any) -> Any:
    """A number, or nested lists of numbers of equal lengths, as an array; else None."""
    if isinstance(value, bool | int | float):
        return None if isinstance(value, int) and abs(value) >= 2**63 else np.asarray(value)
    if not isinstance(value, list) or not _only_numbers(value):
        return None
    try:
        array = np.array(value)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" and array.size else None


def _only_numbers(value: Any) -> bool:
    return all(
        _only_numbers(item) if isinstance(item, list) else isinstance(item, bool | int | float) for item in value
    )


def _arrays(a: Any, b: Any, stored: Any, now: Any, rule: str, where: str) -> Iterator[Change]:
    if a.shape != b.shape or (a.dtype.kind == "b") != (b.dtype.kind == "b"):
        yield Change(where, f"shape {a.shape}, {a.dtype}", f"shape {b.shape}, {b.dtype}")
        return
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        if (a != b).any():
            yield Change(where, stored, now)
        return
    if np.array_equal(a, b, equal_nan=True):
        return  # to the last bit, but for the sign of zero
    finite = np.isfinite(a) & np.isfinite(b)
    strange = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    apart = np.where(finite, np.abs(np.where(finite, a, 0.0) - np.where(finite, b, 0.0)), 0.0)
    scale, distance = float(np.abs(np.where(finite, a, 0.0)).max()), float(apart.max())
    error = distance / scale if scale else math.inf
    if strange.any():
        error = math.inf
    if rule == "bits" or error > float(rule):
        worst = np.unravel_index(int(np.where(strange, np.inf, apart).argmax()), a.shape)
        place = f"{where}{list(map(int, worst))}" if a.ndim else where
        yield Change(place, a[worst].item(), b[worst].item(), error)


def compare_claims(stored: dict[str, Any], now: dict[str, Any]) -> Iterator[Change]:
    """Figures of one claim: held where its checks read as they did; rounding of the checks themselves may move."""
    for name in ("state", "verdict"):
        yield from compare(stored[name], now[name], "bits", name, "claim")
    same = stored["text"] == now["text"]
    for name in ("cases", "checks", "counterexamples"):
        if stored[name] != now[name]:
            fewer = now[name] is None or (stored[name] is not None and now[name] < 0.9 * stored[name])
            yield Change(name, stored[name], now[name], remark=not (same or fewer))
    if not same:
        yield Change("text", "checks as stored", "checks were edited: figures are not held", remark=True)
    for name, slack in (("worst_slack", 1e-9), ("tightness", 0.0), ("failure_frequencies", 0.0)):
        far = [c for c in compare(stored[name], now[name], "1e-6", name) if not _near(c, slack)]
        yield from (Change(c.where, c.stored, c.now, c.error, remark=not same) for c in far)
    then, now = stored["worst_relative_error"] or 0.0, now["worst_relative_error"] or 0.0
    if now > 10.0 * then + 1e-13:
        yield Change("worst_relative_error", then, now, remark=not same)


def _near(change: Change, slack: float) -> bool:
    numbers = all(isinstance(value, int | float) for value in (change.stored, change.now))
    return numbers and abs(change.stored - change.now) <= slack
