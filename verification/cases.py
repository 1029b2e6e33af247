"""Counts property cases: examples that Hypothesis made, that were not rejected, and for which the test held."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest


class PropertyCases:
    """A pytest plugin: counts each run of the body of a property test that comes to its end.

    Attributes
    ----------
    held : int
        Cases for which the test held.  Those that ``assume`` or a filter rejects do not come to the end.
    tests : int
        Property tests that were run; a parametrized one is several.
    violated : int
        Property tests for which a counterexample was found.
    """

    NAME = "property cases"

    def __init__(self) -> None:
        self.held, self.tests, self.violated = 0, 0, 0
        self.begun = time.monotonic()

    @contextmanager
    def counting(self, test: Callable[..., Any]) -> Iterator[None]:
        """Within it, runs of ``test`` are counted; Hypothesis allows its inner test to be wrapped for such ends."""
        handle = test.hypothesis  # type: ignore[attr-defined]
        inner = handle.inner_test

        @functools.wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> Any:
            found = inner(*args, **kwargs)
            self.held += 1
            return found

        handle.inner_test = counted
        self.tests += 1
        try:
            yield
        except hypothesis.errors.HypothesisException:
            raise  # a test that could not be tried says nothing of its statement
        except Exception:
            self.violated += 1
            raise
        finally:
            handle.inner_test = inner

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Iterator[None]:
        if not getattr(pyfuncitem.obj, "is_hypothesis_test", False):
            return (yield)
        with self.counting(pyfuncitem.obj):
            return (yield)

    def record(self) -> dict[str, int | float]:
        """The counts, and the seconds since the run began."""
        seconds = round(time.monotonic() - self.begun, 1)
        return {"cases": self.held, "tests": self.tests, "violations": self.violated, "seconds": seconds}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        found = self.record()
        terminalreporter.write_line(
            f"property cases: {found['cases']:,} in {found['tests']} tests, {found['violations']} violations, "
            f"{found['seconds']:.0f} s"
        )
