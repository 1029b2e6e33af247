"""What a command prints as JSON, and how it ends: after Ctrl-C, and by SIGTERM."""

from __future__ import annotations

import codecs
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells use it."""

TERMINATED = 143
"""Exit status after SIGTERM, as shells use it."""


def print_json(record: Mapping[str, Any]) -> None:
    """Print ``record`` to stdout, in ASCII where stdout is not UTF-8: JSON escapes any character."""
    from gpbounds.records import plain, to_json

    others = codecs.lookup(getattr(sys.stdout, "encoding", None) or "utf-8").name != "utf-8"
    print(to_json(plain(record, spelled=True), indent=2, ascii=others))


def leave(interrupted: bool) -> None:
    """Exit with the status of Ctrl-C if it ``interrupted`` the command; for its end, after its output."""
    if interrupted:
        sys.stdout.flush()
        raise SystemExit(INTERRUPTED)


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
