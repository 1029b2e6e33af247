"""The harness of the checks: ``--claims-report=FILE`` writes the results of every claim."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import measurements
import mpmath
import pytest
from cases import PropertyCases
from observer import Observer, Record, note_call, uncalled

from gpbounds import claims
from gpbounds.files import replacing
from gpbounds.pages import claims_page

_observer = pytest.StashKey[Observer]()
_marked = pytest.StashKey[dict[str, list[str]]]()
_called = pytest.StashKey[dict[str, set[str]]]()
"""Claim id -> files with a check under its mark that has called its function."""
_in_part = pytest.StashKey[set[str]]()
"""Files of which not every check runs."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_observer] = Observer()
    config.stash[_marked] = {}
    config.stash[_called] = {}
    config.stash[_in_part] = {arg.partition("::")[0] for arg in config.args if "::" in arg}


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        item.config.stash[_in_part].add(item.nodeid.partition("::")[0])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = config.stash[_marked]
    for item in items:
        for marker in item.iter_markers("claim"):
            for claim in marker.args:
                marked.setdefault(claim, []).append(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Note which claims' functions a check calls under their marks; once for each claim and file."""
    called, file = item.config.stash[_called], item.nodeid.partition("::")[0]
    with contextlib.ExitStack() as patches:
        for claim in {claim for marker in item.iter_markers("claim") for claim in marker.args}:
            files = called.setdefault(claim, set())
            function = next((each.function for each in claims.ledger() if each.id == claim), "")
            if function and file not in files:
                patch = patches.enter_context(pytest.MonkeyPatch.context())
                note_call(function, functools.partial(files.add, file), patch)
        return (yield)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail if a claim's function is called by none of its checks, in files that have run as a whole.

    A worker of pytest-xdist hands its records over, and the checks of each claim, which all workers collect.
    """
    stash = session.config.stash
    if hasattr(session.config, "workeroutput"):
        records = stash[_observer].plain(), stash[_marked], stash[_called], stash[_in_part]
        session.config.workeroutput["claims"] = records
    elif exitstatus == pytest.ExitCode.OK and not session.config.getoption("collectonly"):
        files = {claim: {node.partition("::")[0] for node in nodes} for claim, nodes in stash[_marked].items()}
        whole = {claim: where - stash[_in_part] for claim, where in files.items()}
        if lines := uncalled(stash[_called], whole):
            session.config.pluginmanager.get_plugin("terminalreporter").write_line("\n" + "\n".join(lines), red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Add the records of a worker; one that crashed has none, and the run has failed."""
    records, marked, called, in_part = getattr(node, "workeroutput", {}).get("claims", ({}, {}, {}, set()))
    node.config.stash[_observer].add(records)
    node.config.stash[_marked].update(marked)
    for claim, files in called.items():
        node.config.stash[_called].setdefault(claim, set()).update(files)
    node.config.stash[_in_part].update(in_part)


@pytest.fixture(scope="session")
def observe(request: pytest.FixtureRequest) -> Observer:
    return request.config.stash[_observer]


@pytest.fixture(scope="session")
def marked(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """Claim id -> collected checks that are marked with it."""
    return request.config.stash[_marked]


@pytest.fixture(autouse=True)
def fifty_digits() -> Iterator[None]:
    with mpmath.workdps(50):
        yield


def write_claims_page(folder: Path, records: dict[str, Record], checks: dict[str, list[str]]) -> Path:
    """Write the page of all claims into ``folder``, with the figures of ``records``."""
    observed = {
        claim: {**record.to_dict(), "ratios": record.ratios, "checks": checks.get(claim, [])}
        for claim, record in records.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "index.html"
    page.write_text(
        claims_page(observed, "Claims about Gaussian processes, checked", measurements.lines()), encoding="utf-8"
    )
    return page


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ledger = claims.ledger()
    built = [c for c in ledger if c.built]
    terminalreporter.write_line(
        f"claims: {len(ledger)} in the ledger, {len(built)} built, {len(ledger) - len(built)} not yet"
    )
    earlier = measurements.lines()
    for line in earlier:
        terminalreporter.write_line(line)
    folder = config.getoption("--claims-html")
    if folder:
        page = write_claims_page(Path(folder), config.stash[_observer].records, config.stash[_marked])
        terminalreporter.write_line(f"claims page: {page}")
    target = config.getoption("--claims-report")
    if target:
        records, marked = config.stash[_observer].records, config.stash[_marked]
        report = {
            c.id: {
                "state": "built" if c.built else "not built",
                "verdict": c.verdict,
                "checks": marked.get(c.id, []),
                **(records[c.id].to_dict() if c.id in records else {}),
            }
            for c in ledger
        }
        counted = config.pluginmanager.get_plugin(PropertyCases.NAME)
        report[PropertyCases.NAME] = {"profile": config.getoption("--hypothesis-profile") or "quick"} | counted.record()
        for each in measurements.ALL:
            if each.is_current():
                report[each.name] = each.record()
        report["earlier runs"] = earlier
        with replacing(target) as file:
            file.write(json.dumps(report, indent=1) + "\n")
        terminalreporter.write_line(f"claims report: {target}")
