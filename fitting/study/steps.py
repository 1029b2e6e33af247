"""The steps of a study: the running one is shown, and answers stay if a later one fails or Ctrl-C ends it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class WrongArguments(ValueError):
    """Arguments that no step can answer; the message is one sentence."""


class Steps:
    """Answers one after another.

    A step that raises leaves its sentence in `reasons`; Ctrl-C ends the running step, and later ones are not begun.
    A `WrongArguments` is not caught, because no step can succeed after it.

    Attributes
    ----------
    reasons : list of str
        Why an answer is missing, one sentence each.
    stopped : bool
        Whether Ctrl-C ended a step.

    >>> steps = Steps(2)
    >>> steps.take("none", lambda: int("x")), steps.take("one", lambda: int("1"))
    (None, 1)
    >>> steps.reasons
    ["none: invalid literal for int() with base 10: 'x'."]
    """

    def __init__(self, total: int, progress: bool = False) -> None:
        self.total, self.begun, self.progress = total, 0, progress
        self.reasons: list[str] = []
        self.stopped = False
        self._first: BaseException | None = None
        self._left: list[str] = []

    def take(self, name: str, compute: Callable[[], T]) -> T | None:
        """The answer of ``compute``, or None if it raises or is not begun."""
        self.begun += 1
        if self.stopped:
            self._left.append(name)
            return None
        try:
            with shown(f"Step {self.begun} of {self.total}: {name}", self.progress):
                return compute()
        except WrongArguments:
            raise
        except KeyboardInterrupt as interrupt:
            self.stopped, self._first = True, self._first or interrupt
            self._left.append(name)
            return None
        except (ValueError, ArithmeticError, MemoryError) as error:
            self._first = self._first or error
            self.reasons.append(f"{name}: {full_stop(error)}")
            return None

    def finish(self, answered: bool) -> None:
        """Add the sentence about an interruption; unless something was ``answered``, raise the first error."""
        if self._first is not None and not answered:
            raise self._first
        if self._left:
            self.reasons.append(f"Interrupted; not computed: {', '.join(self._left)}.")
            self._left = []


def full_stop(error: BaseException) -> str:
    """The message of an error as one sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith(".") else f"{text}."


@contextmanager
def shown(name: str, wanted: bool = True) -> Iterator[None]:
    """``name`` and the seconds since the start, on stderr for the time of the context, if ``wanted`` and a terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield
        return
    from gpbounds.progress import bar

    line = bar(name, None, "", True, bar_format="{desc} [{elapsed}]")
    over = threading.Event()

    def tick() -> None:
        while not over.wait(1.0):
            line.refresh()

    clock = threading.Thread(target=tick, daemon=True)
    clock.start()
    try:
        yield
    finally:
        over.set()
        clock.join()
        line.close()
