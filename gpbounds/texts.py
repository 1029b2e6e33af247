"""Text of reports: aligned columns, wrapped lines, numbers to three digits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import numpy as np


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
