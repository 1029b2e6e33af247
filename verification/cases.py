"""Count property cases: Hypothesis examples that the test accepted and passed.

    python verification/cases.py [--add] tests.log verification.log

stores the counts of a thorough run, whose output was saved in these files by ``pytest -v``, in
``verification/thorough.json`` for the claims report, with the properties that these files name.  A property that failed
in one file and passed in a later one counts as mended: it is no violation, and the report says how many there were.
With ``--add`` the counts come to those that are stored, as where the two folders are run on different commits.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import history
import hypothesis
import pytest

THOROUGH = Path(__file__).parent / "thorough.json"
"""The counts of the last thorough run."""
MOST = 20_000
"""Largest number of cases of one property."""


class PropertyCases:
    """A pytest plugin that counts the completed runs of the body of each property test.

    Parameters
    ----------
    seconds : float
        A property with cheap cases is run again on as many cases as fit into these seconds of processor time, at most
        `MOST`, so that a million cases take hours instead of days, and a busy machine tries as many.  A property that
        states its own number of cases keeps it.

    Attributes
    ----------
    held : int
        Number of cases that passed.  Cases that ``assume`` or a filter rejects do not complete, so they do not count.
    tests : int
        Number of property tests run; each parameter set of a test counts.
    violated : int
        Number of property tests with a counterexample.
    """

    NAME = "property cases"

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.held, self.tests, self.violated = 0, 0, 0
        self.begun = time.monotonic()

    @contextmanager
    def counting(self, test: Callable[..., Any]) -> Iterator[None]:
        """Count the runs of ``test`` inside this context, by wrapping its inner test, as Hypothesis allows."""
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
            raise  # the test could not run, so there is no counterexample
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
        before, begun = self.held, time.process_time()
        with self.counting(test):
            outcome = yield
        first = self.held - before
        more = self.affordable(test, first, time.process_time() - begun)
        if more:
            arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
            with self.counting(test), of_size(test, more):
                test(**arguments)
            self.held -= first  # the second run may repeat them
        return outcome

    def affordable(self, test: Callable[..., Any], held: int, spent: float) -> int:
        """How many cases fit into the seconds if ``held`` cases cost ``spent``; 0 if a second run gains nothing."""
        own = hasattr(test, "_hypothesis_internal_settings_applied")
        if own or held < settings_of(test).max_examples:  # the second condition: the property has no more cases
            return 0
        fitting = min(MOST, int(held * self.seconds / spent))
        return fitting if fitting > 2 * held else 0

    def record(self) -> dict[str, int | float]:
        """The counts, and the seconds since the start of the run."""
        seconds = round(time.monotonic() - self.begun, 1)
        return {"cases": self.held, "tests": self.tests, "violations": self.violated, "seconds": seconds}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker of pytest-xdist hands its counts over."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[self.NAME] = self.record()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Add the counts of a worker; one that crashed has none, and the run has failed."""
        counts = getattr(node, "workeroutput", {}).get(self.NAME)
        if counts:
            self.held += counts["cases"]
            self.tests += counts["tests"]
            self.violated += counts["violations"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"property cases: {line(self.record())}")


def line(record: dict[str, Any]) -> str:
    """The counts as text, as `counts_in` reads them."""
    return (
        f"{record['cases']:,} in {record['tests']} tests, {record['violations']} violations, {record['seconds']:.0f} s"
        + (f" ({record['mended']} failing checks mended and run again)" if record.get("mended") else "")
    )


def failures_in(output: str) -> set[str]:
    """The tests that failed in the saved output of pytest."""
    return set(re.findall(r"^FAILED (\S+)", output, re.MULTILINE))


def passes_in(output: str) -> set[str]:
    """The tests that passed in the saved output of ``pytest -v``."""
    alone, by_workers = r"^(\S+::\S+) PASSED", r"^\[gw\d+\] \[ *\d+%\] PASSED (\S+::\S+)"
    return {name for pattern in (alone, by_workers) for name in re.findall(pattern, output, re.MULTILINE)}


def counts_in(output: str) -> dict[str, int]:
    """The counts that the saved output of pytest ends with."""
    found = re.findall(r"property cases: ([\d,]+) in (\d+) tests, (\d+) violations, (\d+) s", output)
    if not found:
        raise ValueError("expected the output of a run of pytest with the line 'property cases: ...', found none")
    values = (int(value.replace(",", "")) for value in found[-1])
    return dict(zip(("cases", "tests", "violations", "seconds"), values, strict=True))


def properties(root: Path = history.ROOT) -> list[str]:
    """The property tests that are written in the two folders of tests, as ``FILE::FUNCTION``."""
    decorated = re.compile(r"^@given\(.*?^def (\w+)", re.MULTILINE | re.DOTALL)
    return [
        f"{path.relative_to(root).as_posix()}::{name}"
        for folder in ("tests", "verification")
        for path in sorted((root / folder).rglob("test_*.py"))
        for name in decorated.findall(path.read_text(encoding="utf-8"))
    ]


def store(
    outputs: Sequence[str], commit: str, path: Path = THOROUGH, *, earlier: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Add up the counts of runs of different folders, whose times add up too, and store them with their properties.

    Those of an ``earlier`` record of other tests are added.

    A violation is ``mended`` if its test, which failed in one output, passed in a later one.
    """
    parts = [counts_in(output) for output in outputs]
    record = {"commit": commit} | {name: sum(part[name] for part in parts) for name in parts[0]}
    mended = [
        test
        for i, output in enumerate(outputs)
        for test in failures_in(output)
        if any(test in passes_in(later) for later in outputs[i:])
    ]
    if len(mended) > record["violations"]:
        raise ValueError(f"expected property tests that failed, got others: {', '.join(sorted(mended))}")
    record["violations"] -= len(mended)
    record["mended"] = len(set(mended))
    ran = set(re.findall(r"\w\S*/test_\w+\.py::\w+", "\n".join(outputs)))
    if not ran:
        raise ValueError("expected the output of pytest -v, which names the tests that ran, got none with a name")
    if earlier is not None:
        record |= {name: record[name] + earlier[name] for name in ("cases", "tests", "violations", "seconds", "mended")}
        record["commits"] = [*(earlier.get("commits") or [earlier["commit"]]), record.pop("commit")]
        ran |= set(earlier["properties"])
    record["properties"] = [name for name in properties() if name in ran]
    from gpbounds.files import replacing  # conftest.py imports this file before mutation testing counts lines

    with replacing(path) as file:
        file.write(json.dumps(record, indent=1) + "\n")
    return record


def settings_of(test: Callable[..., Any]) -> hypothesis.settings:
    """The Hypothesis settings of a property test."""
    return test._hypothesis_internal_use_settings  # type: ignore[attr-defined]


@contextmanager
def of_size(test: Callable[..., Any], count: int) -> Iterator[None]:
    """Run the property test on ``count`` cases inside this context; the decorator ``settings`` works only once."""
    true = settings_of(test)
    test._hypothesis_internal_use_settings = hypothesis.settings(true, max_examples=count)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        test._hypothesis_internal_use_settings = true  # type: ignore[attr-defined]


if __name__ == "__main__":
    given = [name for name in sys.argv[1:] if name != "--add"]
    before = json.loads(THOROUGH.read_text(encoding="utf-8")) if "--add" in sys.argv[1:] else None
    texts = [Path(name).read_text(encoding="utf-8") for name in given]
    print(line(store(texts, history.commit(), earlier=before)))
