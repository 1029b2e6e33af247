"""A pytest plugin for runs in a copy of the tree: it measures which test runs which line, or tries a mutant.

The environment variable ``MUTATION_PLAN`` names a JSON file.  ``{"measure": FILE}``: the lines that each test, fixture
and test file runs go to the coverage file FILE, and seconds and outcomes to FILE.json.  ``{"log": FILE, "limits":
{test: seconds}}``: these tests alone are run, in this order, and FILE gets one JSON line a started or failed test.  A
test that takes longer than its limit ends the run.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

MEMORY = 12 << 30
"""Bytes of address space that a mutant may ask for."""
BEGIN = 600.0
"""Seconds that imports may take."""
OURS = ("gpbounds", "fitting", "tests", "verification", "test_")
FILE = "file"
"""The context of what a test file runs when it is imported."""


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    import resource  # not above: a test of its parts imports this file where there is no fork

    plan = json.loads(Path(os.environ["MUTATION_PLAN"]).read_text(encoding="utf-8"))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    watch = Measure(Path(plan["measure"])) if "measure" in plan else Trial(Path(plan["log"]), plan["limits"])
    early_config.pluginmanager.register(watch, "mutation")


def clear_caches(seen: set[str], caches: list[Any]) -> None:
    """Empty the caches of our functions, so that each test runs every line that it rests on."""
    for name, module in list(sys.modules.items()):
        if name not in seen and name.startswith(OURS):
            seen.add(name)
            caches += [f for f in vars(module).values() if isinstance(f, functools._lru_cache_wrapper)]
    for cached in caches:
        if (
            cached.__module__.startswith(OURS) and cached.__module__ != "gpbounds.claims"
        ):  # the ledger is no computation
            cached.cache_clear()


def fixture_key(definition: Any) -> str:
    """The context of what a shared fixture runs."""
    return f"fixture {definition.baseid}::{definition.argname}"


class Measure:
    """Lines by test.  Shared fixtures and test files are contexts of their own: many tests rest on them."""

    def __init__(self, target: Path) -> None:
        from coverage import Coverage

        self.target = target
        self.cover = Coverage(data_file=str(target), source=["gpbounds", "fitting"], config_file=False)
        self.cover.set_option("run:relative_files", True)
        self.cover.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured", "module-not-python"])
        self.tests: dict[str, dict[str, Any]] = {}
        self.contexts: list[str] = []
        self.modules: set[str] = set()
        self.caches: list[Any] = []
        self.cover.start()

    def inside(self, context: str) -> Iterator[None]:
        """What runs while this generator is suspended belongs to ``context``."""
        self.contexts.append(context)
        self.cover.switch_context(context)
        try:
            return (yield)
        finally:
            self.contexts.pop()
            self.cover.switch_context(self.contexts[-1] if self.contexts else "")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        return (yield from self.inside(FILE))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        return (yield from self.inside(fixture_key(fixturedef)))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        clear_caches(self.modules, self.caches)
        definitions = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009
        shared = [fixture_key(definition[-1]) for definition in definitions if definition[-1].scope != "function"]
        self.tests[item.nodeid] = {"seconds": 0.0, "outcome": "passed", "fixtures": shared}
        return (yield from self.inside(item.nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        entry = self.tests[report.nodeid]
        entry["seconds"] += report.duration
        if report.outcome != "passed":
            entry["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self.cover.stop()
        self.cover.save()
        # The file says that all is measured, so it appears whole; not by gpbounds, whose lines are being counted.
        whole = self.target.with_suffix(".part")
        whole.write_text(json.dumps(self.tests), encoding="utf-8")
        whole.replace(self.target.with_suffix(".json"))


class Trial:
    """The tests that a mutant must pass to survive, in the order given."""

    def __init__(self, log: Path, limits: dict[str, float]) -> None:
        self.limits, self.log = limits, log.open("w", encoding="utf-8")
        faulthandler.dump_traceback_later(BEGIN, exit=True, file=self.log)  # until the first test begins

    def say(self, **words: str) -> None:
        self.log.write(json.dumps(words) + "\n")
        self.log.flush()

    def pytest_configure(self) -> None:
        # The same examples are tried, but a failing one is enough: it need not be made small.
        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        hypothesis.settings.register_profile("mutants", hypothesis.settings(), phases=phases)
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        by_id = {item.nodeid: item for item in items}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.limits])
        items[:] = [by_id[name] for name in self.limits if name in by_id]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.say(start=item.nodeid)
        faulthandler.dump_traceback_later(self.limits[item.nodeid], exit=True, file=self.log)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.say(failed=report.nodeid, message=(crash.message if crash else str(report.longrepr)).strip()[:300])

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.say(finished=str(int(exitstatus)))
