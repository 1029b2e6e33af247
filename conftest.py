"""Test profiles shared by ``tests/`` and ``verification/``."""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from collections.abc import Iterator
from types import FrameType
from typing import Any

import matplotlib as mpl
import pytest
from cases import PropertyCases
from hypothesis import HealthCheck, settings
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

mpl.use("Agg")
mpl.rcParams["savefig.dpi"] = 40  # nobody looks at the pictures of tests

# Hypothesis counts examples, not seconds: a busy machine must not make a true statement fail.
_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("quick", max_examples=10, derandomize=True, **_common)
settings.register_profile("thorough", max_examples=100, **_common)
SECONDS = {"thorough": 10.0}
"""Processor seconds per property, by profile: a cheap property is tried on as many cases as fit into this time."""
settings.load_profile("quick")


# By default `pytest.approx` adds an absolute tolerance of 1e-12, so that a bias of 1e-30 would equal one of 1e-13.
# In this repository a test has only the tolerance that it states.
type(pytest.approx(1.0)).DEFAULT_ABSOLUTE_TOLERANCE = 0.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the checks marked slow")
    parser.addoption(
        "--part", type=part, metavar="I/N", help="run a fixed N-th of the tests: CRC-32 of the id = I mod N"
    )
    parser.addoption("--gpu", action="store_true", help="fail if a gpu test is skipped, or if none runs")
    parser.addoption("--lanes", type=int, metavar="N", help="N lanes share all work, however small it is")
    parser.addoption("--claims-report", metavar="FILE", help="write cases, slack and tightness of each claim as JSON")
    parser.addoption("--claims-html", metavar="DIR", help="write a page of all claims, DIR/index.html")


def part(text: str) -> tuple[int, int]:
    """I and N of ``I/N``."""
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and int(number) < int(parts)):
        raise argparse.ArgumentTypeError(f"expected I/N with whole numbers 0 <= I < N, got {text!r}")
    return int(number), int(parts)


def pytest_configure(config: pytest.Config) -> None:
    profile = config.getoption("--hypothesis-profile")
    config.pluginmanager.register(PropertyCases(SECONDS.get(profile, 0.0)), PropertyCases.NAME)


@pytest.fixture(scope="session", autouse=True)
def forced_lanes(pytestconfig: pytest.Config) -> Iterator[None]:
    """With ``--lanes N``, N lanes share all work that is cut into tasks, also on a machine with fewer cores."""
    count = pytestconfig.getoption("--lanes")
    if count is None:
        yield
        return
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be limited)

    from gpbounds.linalg import parallel  # not above: mutation testing counts lines from here on

    with threadpool_limits(count, "blas"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "QUIET", 1.0)
        patch.setattr(parallel, "BUSY", 1.0)
        if parallel.lanes() != count:
            raise pytest.UsageError(f"--lanes {count}: threadpoolctl limits BLAS to {parallel.lanes()} threads here")
        yield


ONE_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)
"""A picture as a PNG file."""
TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests")


@pytest.fixture(scope="session")
def drawn_lines(pytestconfig: pytest.Config) -> set[tuple[str, int]] | None:
    """The lines of the packages and examples that have drawn a picture in this process; None if all pictures are."""
    return None if pytestconfig.getoption("--slow") else set()


@pytest.fixture(autouse=True)
def pictures(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, drawn_lines: set[tuple[str, int]] | None
) -> None:
    """A line that saves PNG pictures draws its first one, and all of them under ``drawn`` or ``--slow``.

    The figure is made as ever.  Its pixels, a third of the time of many commands, are left out later on.
    """
    if drawn_lines is None or "drawn" in request.fixturenames:
        return
    true = Figure.savefig

    def savefig(figure: Figure, fname: Any, **options: Any) -> None:
        line = line_that_saves(sys._getframe(1))
        if line in drawn_lines and options.get("format") == "png" and not line[0].startswith(TESTS):
            fname.write(ONE_PIXEL)
        else:
            drawn_lines.add(line)
            true(figure, fname, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)


@pytest.fixture
def drawn() -> None:
    """Every picture of this test is drawn."""


def line_that_saves(frame: FrameType) -> tuple[str, int]:
    """File and line of the call of `savefig`, behind the methods of that name."""
    while frame.f_code.co_name == "savefig" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker begins with a stretch of files, so that it alone makes what a file's tests share; idle ones help."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Beside other workers, BLAS has one thread outside of lanes, too, but for tests marked ``lanes``.

    Two threads of BLAS that wait for each other on a core that another worker uses cost up to 30 times the work.  Lanes
    are as many as in a process of its own.
    """
    alone = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) == 1
    if alone or item.get_closest_marker("lanes"):
        return (yield)
    from gpbounds.linalg.parallel import one_blas_thread

    with one_blas_thread():
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        skip = pytest.mark.skip(reason="slow: run with --slow")
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(skip)
        thin([item for item in items if item.get_closest_marker("broad")])
    if chosen := config.getoption("--part"):  # by id: a new test moves no other in or out, and every file is imported
        number, parts = chosen
        inside = [zlib.crc32(item.nodeid.encode()) % parts == number for item in items]
        config.hook.pytest_deselected(items=[item for item, kept in zip(items, inside, strict=True) if not kept])
        items[:] = [item for item, kept in zip(items, inside, strict=True) if kept]


def thin(items: list[pytest.Item]) -> None:
    """Skip two of three cases of each function marked ``broad``: all but the first and those whose CRC-32 3 divides."""
    skip, begun = pytest.mark.skip(reason="broad: a third of its cases, or all with --slow"), set[str]()
    for item in items:
        function = item.nodeid.partition("[")[0]
        if function in begun and zlib.crc32(item.nodeid.encode()) % 3:
            item.add_marker(skip)
        begun.add(function)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``--gpu``, fail if a gpu test was skipped (other than a slow one) or if there was none."""
    if not session.config.getoption("--gpu") or hasattr(session.config, "workeroutput"):
        return  # of several processes, the one that starts them decides
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    passed, skipped = (
        [r.nodeid for r in reporter.stats.get(outcome, []) if "gpu" in r.keywords and "slow" not in r.keywords]
        for outcome in ("passed", "skipped")
    )
    if skipped or not passed:
        reporter.write_line(f"\n--gpu: expected every gpu test to run, {len(passed)} passed, {len(skipped)} skipped")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
