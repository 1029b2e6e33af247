"""Property cases: examples that Hypothesis made, that were not rejected, and for which the test held; and how many."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import pytest

MOST = 10_000
"""Cases of one property, at most."""


class PropertyCases:
    """A pytest plugin: counts each run of the body of a property test that comes to its end.

    Parameters
    ----------
    seconds : float
        A property whose cases are cheap is tried again, on as many as fit into these seconds, up to `MOST`: a million
        cases cost hours then, not days.  One that states its own number of cases keeps it.

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

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.held, self.tests, self.violated = 0, 0, 0
        self.begun = time.monotonic()

    @contextmanager
    def counting(self, test: Callable[..., Any]) -> Iterator[None]:
        """Within it, runs of ``test`` are counted; Hypothesis allows its inner test to be wrapped for such ends."""
        handle = test.hypothesis  # type: ignore[attr-defined]
        inner = handle.inner_test

        @functools.wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> Any:
            result = inner(*args, **kwargs)
            self.held += 1
            return result

        handle.inner_test = counted
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
        test = pyfuncitem.obj
        if not getattr(test, "is_hypothesis_test", False):
            return (yield)
        self.tests += 1
        before, begun = self.held, time.monotonic()
        with self.counting(test):
            outcome = yield
        first = self.held - before
        more = self.affordable(test, first, time.monotonic() - begun)
        if more:
            arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
            with self.counting(test), of_size(test, more):
                test(**arguments)
            self.held -= first  # they may have been among the others
        return outcome

    def affordable(self, test: Callable[..., Any], held: int, spent: float) -> int:
        """How many cases fit into the seconds, ``held`` having cost ``spent``; 0 where there is nothing to gain."""
        own = hasattr(test, "_hypothesis_internal_settings_applied")
        if own or held < settings_of(test).max_examples:  # the latter: there are no more
            return 0
        fitting = min(MOST, int(held * self.seconds / spent))
        return fitting if fitting > 2 * held else 0

    def record(self) -> dict[str, int | float]:
        """The counts, and the seconds since the run began."""
        seconds = round(time.monotonic() - self.begun, 1)
        return {"cases": self.held, "tests": self.tests, "violations": self.violated, "seconds": seconds}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        record = self.record()
        terminalreporter.write_line(
            f"property cases: {record['cases']:,} in {record['tests']} tests, {record['violations']} violations, "
            f"{record['seconds']:.0f} s"
        )


def settings_of(test: Callable[..., Any]) -> hypothesis.settings:
    """What a property test is run with."""
    return test._hypothesis_internal_use_settings  # type: ignore[attr-defined]


@contextmanager
def of_size(test: Callable[..., Any], count: int) -> Iterator[None]:
    """Within it the property test is run on ``count`` cases; the decorator ``settings`` could do so only once."""
    true = settings_of(test)
    test._hypothesis_internal_use_settings = hypothesis.settings(true, max_examples=count)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        test._hypothesis_internal_use_settings = true  # type: ignore[attr-defined]
