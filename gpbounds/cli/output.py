"""Format results: text with aligned tables, or strict JSON."""

from __future__ import annotations

import codecs
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpbounds.cli.problem import Problem, describe_kernel, kernel_record
from gpbounds.records import plain, to_json


def print_json(record: Mapping[str, Any]) -> None:
    """Print ``record`` to stdout, in ASCII where stdout is not UTF-8: JSON escapes any character."""
    others = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name != "utf-8"
    print(to_json(plain(record, spelled=True), indent=2, ascii=others))


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


def heading(problem: Problem) -> str:
    """Data (if any), kernel and noise, and their origin."""
    lines = []
    if problem.data is not None:
        data = problem.data
        lines.append(f"Data: {data.name}, N = {data.N}, D = {data.D}. {' '.join(data.notes)}")
    names = describe_kernel(problem.kernels[0]) + (
        f" ... {describe_kernel(problem.kernels[-1])}" if len(problem.kernels) > 1 else ""
    )
    lines.append(f"Kernel: {names}, noise variance {problem.settings.noise:.3g}. {problem.origin}")
    return wrapped("\n".join(lines))


def problem_record(problem: Problem) -> dict[str, Any]:
    """The description of a problem, ready for JSON."""
    data = problem.data
    return {
        "data": data and {"name": data.name, "N": data.N, "D": data.D, "notes": data.notes},
        "kernels": [kernel_record(kernel) for kernel in problem.kernels],
        "statement": vars(problem.settings),
        "origin": problem.origin,
    }
