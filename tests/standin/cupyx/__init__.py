"""``cupyx``: how linear algebra treats failures, per thread."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from cupy import _surface

_state = threading.local()


def _raises() -> bool:
    return getattr(_state, "linalg", "ignore") == "raise"


@contextlib.contextmanager
def errstate(
    *, divide: None = None, over: None = None, under: None = None, invalid: None = None, linalg: str | None = None
) -> Iterator[None]:
    if {divide, over, under, invalid} != {None} or linalg not in (None, "ignore", "raise"):
        raise NotImplementedError("CuPy takes linalg='ignore' or 'raise' only")
    before = getattr(_state, "linalg", "ignore")
    _state.linalg = linalg or before
    try:
        yield
    finally:
        _state.linalg = before


def __getattr__(name: str) -> Any:
    raise _surface.unlearnt("cupyx", name)
