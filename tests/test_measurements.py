"""Stored results name their commits and what they are about; a number about other sources is not shown as today's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import history
import measurements
import pytest
import slow
from history import age, commit, measured, named, stored_with

from gpbounds.pages import claims_page

git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def repository(tmp_path):
    """A repository with a file of numbers in its first commit, and two commits after it."""

    def run(*words):
        who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        subprocess.run(["git", *words], cwd=tmp_path / "r", check=True, capture_output=True, env={**os.environ, **who})

    (tmp_path / "r" / "tests").mkdir(parents=True)
    run("init", "-q")
    (tmp_path / "r" / "numbers.json").write_text("{}", encoding="utf-8")
    (tmp_path / "r" / "tests" / "a.py").write_text("a", encoding="utf-8")
    run("add", ".")
    for text in ("first", "second", "third"):
        run("commit", "-q", "--allow-empty", "-m", text)
    return tmp_path / "r"


def head(root, name="HEAD"):
    return history.git("rev-parse", name, root=root)


@git
def test_an_age_is_the_number_of_commits_since(repository):
    first = head(repository, "HEAD~2")
    assert commit(repository) == head(repository)
    assert [age(each, repository) for each in (first, first[:12], first + "+", head(repository))] == [2, 2, 2, 0]
    assert named(head(repository, "HEAD~1"), repository).endswith(", 1 commit ago")
    numbers = repository / "numbers.json"
    assert measured([first, "feedface"], numbers, repository) == f"measured on {first[:12]}, 2 commits ago; feedface"
    assert stored_with(numbers, repository) == first
    assert measured(["unknown"], numbers, repository) == (
        f"commit not recorded; stored with {first[:12]}, 2 commits ago"
    )


@git
def test_what_differs_from_its_commit_says_so(repository):
    (repository / "tests" / "a.py").write_text("b", encoding="utf-8")
    assert commit(repository) == head(repository) + "+"
    assert named(commit(repository), repository) == f"{head(repository)[:12]}+, 0 commits ago"
    (repository / "numbers.json").write_text("[]", encoding="utf-8")
    assert stored_with(repository / "numbers.json", repository) is None  # what was stored there is another number


@git
def test_a_shallow_clone_does_not_count(repository, tmp_path):
    """Its history ends: the number of commits that it knows is too small."""
    first = head(repository, "HEAD~1")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "2", repository.as_uri(), clone], check=True, capture_output=True)
    assert history.git("rev-parse", "HEAD~1", root=clone) == first
    assert named(first, clone) == first[:12]
    assert measured([], clone / "numbers.json", clone) == "commit not recorded"


@git
def test_a_folder_without_git_knows_no_commit_even_inside_of_a_repository(repository, tmp_path, monkeypatch):
    inside = repository / "tests"
    assert (commit(inside), age(head(repository), inside)) == ("unknown", None)
    assert commit(tmp_path) == "unknown"
    monkeypatch.setenv("PATH", "")
    assert (commit(repository), named("abc", repository)) == ("unknown", "abc")


def placed(measurement, tmp_path, record):
    path = tmp_path / measurement.path.name
    path.write_text(json.dumps(record), encoding="utf-8")
    return type(measurement)(**{**vars(measurement), "path": path})


CURRENT = {
    "mutation testing": {
        "commits": {"abc": 3},
        "score": 0.5,
        "mutants": 4,
        "equivalent": 2,
        "modules": {"gpbounds/bound.py": {"score": 0.5}},
    },
    "thorough run": {
        "commit": "abc",
        "cases": 20,
        "tests": 2,
        "violations": 0,
        "seconds": 3,
        "properties": ["tests/test_property_cases.py::test_this_run_is_counted"],
    },
    "slow tests": {
        "commits": ["abc"],
        "passed": 3,
        "failed": 0,
        "mended": 1,
        "functions": ["tests/test_property_cases.py::test_this_run_is_counted"],
    },
    "changed files": {
        "commits": {"abc": 20},
        "files": 20,
        "faults": [],
        "by reader": {"certificates": {"refused": 20}},
    },
    "kills": {"commit": "abc", "kills": 7, "faults": 0, "by work": {"training: Adam": {"after it": 7}}},
    "rows against bounds of Hilbert-space GPs": {
        "commit": "abc",
        "cases": 252,
        "bounds": 1,
        "violations": 0,
        "kinds": ["bell"],
    },
}
ABOUT = {
    "mutation testing": "modules",
    "thorough run": "properties",
    "slow tests": "functions",
    "changed files": "by reader",
    "kills": "by work",
    "rows against bounds of Hilbert-space GPs": "kinds",
}
every = pytest.mark.parametrize("measurement", measurements.ALL, ids=lambda each: each.name)


@every
def test_a_result_about_sources_that_are_there_is_shown_with_its_commit(measurement, tmp_path):
    record = CURRENT[measurement.name]
    here = placed(measurement, tmp_path, record)
    assert here.is_current()
    assert here.line() == f"{here.name}: {here.summary(record)} (measured on abc)"


@every
def test_a_result_about_sources_that_are_gone_is_not_shown(measurement, tmp_path):
    record = json.loads(json.dumps(CURRENT[measurement.name]))
    about = record[ABOUT[measurement.name]]
    gone = "tests/test_gone.py::test_gone"
    about.append(gone) if isinstance(about, list) else about.update({gone: {"score": 1.0}})
    here = placed(measurement, tmp_path, record)
    assert not here.is_current()
    line = here.line()
    assert f"not shown, as it is about another layout of the sources, with {gone} (measured on abc)" in line
    assert here.again in line
    assert here.summary(record) not in line


def test_a_result_that_does_not_say_what_it_is_about_is_not_shown(tmp_path):
    record = {name: value for name, value in CURRENT["thorough run"].items() if name != "properties"}
    here = placed(measurements.THOROUGH, tmp_path, record)
    assert not here.is_current()
    assert here.line() == "thorough run: not shown, as thorough.json does not say what it is about (measured on abc)"


def test_nothing_is_said_where_nothing_is_stored(tmp_path):
    here = type(measurements.KILLS)(**{**vars(measurements.KILLS), "path": tmp_path / "none.json"})
    assert (here.line(), here.is_current()) == (None, False)


def test_the_page_of_claims_shows_what_was_measured_and_when():
    lines = measurements.lines()
    assert len(lines) == len(measurements.ALL)
    page = claims_page({}, earlier=["kills: 7 < 8 (measured on abc)"])
    assert page.count("<li>") == claims_page({}).count("<li>") + 1
    assert "<li>kills: 7 &lt; 8 (measured on abc)</li>" in page


def test_a_slow_test_counts_as_it_ended_at_last(tmp_path):
    first = """tests/test_a.py::test_one PASSED [ 25%]
tests/test_a.py::test_two[a b] FAILED [ 50%]
tests/test_a.py::test_three SKIPPED (slow) [ 75%]
FAILED tests/test_a.py::test_two[a b] - assert 1 == 2
"""
    again = "[gw1] [ 50%] PASSED tests/test_a.py::test_two[a b]\n[gw0] [100%] ERROR tests/test_a.py::test_four\n"
    record = slow.store([first, again], ["abc", "def"], tmp_path / "slow.json")
    assert json.loads((tmp_path / "slow.json").read_text(encoding="utf-8")) == record
    assert record == {
        "commits": ["abc", "def"],
        "passed": 2,
        "failed": 1,
        "mended": 1,
        "functions": [f"tests/test_a.py::test_{name}" for name in ("four", "one", "two")],
    }
    assert slow.line(record) == "2 passed (1 of them failed before they were mended), 1 failed"
    with pytest.raises(ValueError, match="expected the output of pytest -v"):
        slow.store(["no tests ran"], ["abc"], tmp_path / "slow.json")
    assert slow.functions() >= {"tests/test_measurements.py::test_a_slow_test_counts_as_it_ended_at_last"}
