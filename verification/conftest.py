"""The harness of the checks: ``--claims-report=FILE`` writes the results of every claim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measurements
import mpmath
import pytest
from cases import PropertyCases
from observer import Observer, Record

from gpbounds import claims
from gpbounds.files import replacing
from gpbounds.pages import claims_page

_observer = pytest.StashKey[Observer]()
_marked = pytest.StashKey[dict[str, list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_observer] = Observer()
    config.stash[_marked] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = config.stash[_marked]
    for item in items:
        for marker in item.iter_markers("claim"):
            for claim in marker.args:
                marked.setdefault(claim, []).append(item.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its records over, and the checks of each claim, which all workers collect."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["claims"] = (config.stash[_observer].plain(), config.stash[_marked])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Add the records of a worker; one that crashed has none, and the run has failed."""
    records, marked = getattr(node, "workeroutput", {}).get("claims", ({}, {}))
    node.config.stash[_observer].add(records)
    node.config.stash[_marked].update(marked)


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
