"""Progress bars on stderr, which leave nothing behind, and are drawn on terminals that do not tell their width, too."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
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
    if not flag("progress", shown):
        return _Hidden(options.get("iterable", ()))
    from tqdm.auto import tqdm

    if sys.stderr.isatty():
        options["ncols"], options["nrows"] = _size()
    return tqdm(desc=name, total=total, unit=unit, leave=False, **options)


class _Hidden:
    """A bar that shows nothing.

    One of tqdm takes its lock even so, and would wait for ever in a process forked while another thread has it.
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        self._iterable = iterable

    def __enter__(self) -> _Hidden:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def update(self, n: float = 1) -> None:
        pass

    def close(self) -> None:
        pass


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
