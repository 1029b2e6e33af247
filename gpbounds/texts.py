"""Text of reports: aligned columns, wrapped lines, numbers to three digits."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

FEW = 4
"""Numbers of an array, or parts of a tuple, that `in_one_line` spells out; of more it says how many."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Right-aligned columns under their names."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)


def wrapped(text: str, indent: str = "") -> str:
    """``text`` with each line wrapped at 110 characters."""
    folded = []
    for line in text.splitlines():
        lead = indent + " " * (len(line) - len(line.lstrip()))
        folded += textwrap.wrap(
            line.strip(),
            110,
            initial_indent=lead,
            subsequent_indent=lead + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(folded)


def short(values: object) -> str:
    """Numbers to three digits; several numbers in brackets.

    >>> short([0.5, 8071.3, 2e-7])
    '[0.5, 8071, 2e-07]'
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim:
        return f"[{', '.join(short(value) for value in array)}]"
    return f"{array:.0f}" if 1e3 <= abs(array) < 1e5 else f"{array:.3g}"


def in_nats(value: float) -> str:
    """A divergence with its unit.

    >>> in_nats(1.0), in_nats(0.1)
    ('1 nat', '0.1 nats')
    """
    return f"{value:g} nat" if value == 1.0 else f"{value:g} nats"


def in_one_line(record: Any) -> str:
    """A dataclass as Python writes it, with the shapes of arrays in place of their entries; to be its ``__repr__``.

    >>> from gpbounds.linalg import cholesky
    >>> cholesky(np.eye(100))
    Cholesky(L=array of shape (100, 100), jitter=0.0)
    """
    parts = [f"{each.name}={_spelled(getattr(record, each.name))}" for each in dataclasses.fields(record) if each.repr]
    return f"{type(record).__qualname__}({', '.join(parts)})"


def _spelled(value: Any) -> str:
    """``value`` in one line."""
    if hasattr(value, "shape") and hasattr(value, "ndim") and (value.ndim > 1 or value.size > FEW):
        return f"array of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list) and len(value) > FEW:
        return f"{type(value).__name__} of {len(value)}"
    generated = dataclasses.is_dataclass(value) and hasattr(type(value).__repr__, "__wrapped__")  # by @dataclass
    return in_one_line(value) if generated else " ".join(repr(value).split())


def as_written(text: str) -> str:
    """``text`` with dollar signs escaped, because matplotlib would read them as mathematics."""
    return text.replace("$", r"\$")
