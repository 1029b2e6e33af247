"""SIGTERM ends a command as an error does, so that it deletes its temporary files."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TERMINATED = 143
"""Exit status after SIGTERM, as shells use it."""


class Terminated(BaseException):
    """SIGTERM has come; it is no `Exception`, and no `KeyboardInterrupt`, after which a command prints what it has."""


@contextmanager
def sigterm_raises() -> Iterator[None]:
    """Raise `Terminated` at SIGTERM for the time of the context; in another thread than the main one, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
