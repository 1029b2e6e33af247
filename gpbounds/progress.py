"""Progress bars on stderr, which leave nothing behind, and are drawn on terminals that do not tell their width, too."""

from __future__ import annotations

import os
import sys
from typing import Any

from gpbounds.validation import flag

SIZE = 80, 24
"""Columns and lines of a terminal that states 0, as in containers and in ``script``; tqdm alone draws nothing there."""


def bar(name: str, total: int | None, unit: str, shown: bool, **options: Any) -> Any:
    """A bar of tqdm with this ``name``, or one that shows nothing unless it is to be ``shown``.

    Parameters
    ----------
    name : str
    total : int or None
        Number of units at the end, if it is known.
    unit : str
    shown : bool
        Commands pass `on_terminal`; a function with the argument ``progress`` shows a bar in a notebook, too.
    options
        Further arguments of tqdm.

    >>> with bar("Rows", 3, "row", False) as rows:
    ...     rows.update(2)
    """
    from tqdm.auto import tqdm

    if flag("progress", shown) and sys.stderr.isatty():
        options["ncols"], options["nrows"] = _size()
    return tqdm(desc=name, total=total, unit=unit, leave=False, disable=not shown, **options)


def on_terminal(wanted: bool = True) -> bool:
    """Whether bars are ``wanted`` and stderr is a terminal."""
    return flag("progress", wanted) and sys.stderr.isatty()


def _size() -> tuple[int, int]:
    """Columns and lines of the terminal on stderr."""
    try:
        stated = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):  # a stream that only says that it is a terminal
        return SIZE
    return (stated.columns or SIZE[0], stated.lines or SIZE[1])
