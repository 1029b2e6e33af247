"""How property cases are counted: only those that came to the end of their test."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from cases import MOST, PropertyCases, counts_in, line, of_size, settings_of, store
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.internal.reflection import function_digest

alone = settings(max_examples=60, database=None, derandomize=True)


def test_cases_that_are_rejected_do_not_count() -> None:
    ended, begun = [], []

    @alone
    @given(st.integers(0, 10**6))
    def test(n: int) -> None:
        begun.append(n)
        assume(n % 2 == 0)
        ended.append(n)

    cases = PropertyCases()
    with cases.counting(test):
        test()
    assert cases.held == len(ended) == 60 < len(begun)
    assert cases.violated == 0
    test()  # outside the block no case is counted
    assert cases.held == 60 < len(ended)


def test_a_counterexample_is_a_violation_and_no_case_that_held() -> None:
    @alone
    @given(st.integers(0, 10**6))
    def test(n: int) -> None:
        assert n < 0

    cases = PropertyCases()
    with pytest.raises(AssertionError), cases.counting(test):
        test()
    assert (cases.held, cases.violated) == (0, 1)


def test_counting_does_not_change_which_cases_are_tried() -> None:
    values: list[int] = []

    @alone
    @given(st.integers(0, 10**6))
    def test(n: int) -> None:
        values.append(n)

    test()
    first, digest = list(values), function_digest(test.hypothesis.inner_test)
    values.clear()
    with PropertyCases().counting(test):
        assert function_digest(test.hypothesis.inner_test) == digest  # derandomized runs take their seed from it
        test()
    assert values == first


held: list[int] = []


@given(n=st.integers(0, 10**6))
def test_this_run_is_counted(pytestconfig: pytest.Config, n: int) -> None:
    counted = pytestconfig.pluginmanager.get_plugin(PropertyCases.NAME)
    held.append(counted.held)
    assert held[-1] - held[0] == len(held) - 1  # all earlier cases of this test and no others
    assert set(counted.record()) == {"cases", "tests", "violations", "seconds"}


def test_cheap_properties_are_tried_on_as_many_cases_as_fit_into_the_time() -> None:
    @given(st.integers(0, 10**6))
    def cheap(n: int) -> None:
        pass

    @alone
    @given(st.integers(0, 10**6))
    def stated(n: int) -> None:
        pass

    count = settings_of(cheap).max_examples
    cases = PropertyCases(seconds=10.0)
    assert cases.affordable(cheap, count, 1.0) == 10 * count
    assert cases.affordable(cheap, count, 8.0) == 0  # most of the time is spent
    assert cases.affordable(cheap, count, 1e-9) == MOST
    assert cases.affordable(cheap, count - 1, 1.0) == 0  # Hypothesis found no more
    assert cases.affordable(stated, 60, 1.0) == 0  # 60 were asked for
    assert PropertyCases().affordable(cheap, count, 1.0) == 0
    with cases.counting(cheap), of_size(cheap, 3 * count):
        cheap()
    assert cases.held == 3 * count
    assert settings_of(cheap).max_examples == count


def test_a_thorough_run_in_two_parts_is_stored_as_their_sum(tmp_path):
    first = {"cases": 1_234_567, "tests": 300, "violations": 0, "seconds": 3000.4}
    second = {"cases": 21, "tests": 2, "violations": 1, "seconds": 10.0}
    outputs = [f"...\nproperty cases: {line(counts)}\n1 passed in 2 s" for counts in (first, second)]
    assert counts_in(outputs[0]) == first | {"seconds": 3000}
    with pytest.raises(ValueError, match="expected the output of pytest -v"):
        store(outputs, "abc", tmp_path / "none.json")
    outputs[1] = f"[gw1] [  7%] PASSED tests/test_property_cases.py::test_this_run_is_counted \n{outputs[1]}"
    added = store(outputs, "abc", tmp_path / "thorough.json")
    assert json.loads((tmp_path / "thorough.json").read_text(encoding="utf-8")) == added
    here = "tests/test_property_cases.py::test_this_run_is_counted"
    assert added.pop("properties") == [here]
    assert added == {"commit": "abc", "cases": 1_234_588, "tests": 302, "violations": 1, "seconds": 3010, "mended": 0}
    with pytest.raises(ValueError, match="property cases"):
        counts_in("1 passed in 2 s")
    earlier = added | {"properties": ["tests/test_property_cases.py::test_the_counts_of_worker_processes_add_up"]}
    both = store(outputs, "def", tmp_path / "thorough.json", earlier=earlier)
    assert (both["commits"], both["cases"], both["tests"], both["violations"]) == (["abc", "def"], 2_469_176, 604, 2)
    assert "commit" not in both
    assert store(outputs, "ghi", tmp_path / "thorough.json", earlier=both)["commits"] == ["abc", "def", "ghi"]


def test_a_check_that_is_mended_is_no_violation_and_is_named(tmp_path):
    counts = {"cases": 100, "tests": 2, "violations": 2, "seconds": 10.0}
    names = "FAILED verification/test_a.py::test_x - Assert\nFAILED verification/test_a.py::test_y\n"
    failed = f"property cases: {line(counts)}\n{names}"
    again = {"cases": 50, "tests": 1, "violations": 0, "seconds": 1.0}
    passed = f"verification/test_a.py::test_x PASSED   [100%]\nproperty cases: {line(again)}\n"
    added = store([failed, passed], "abc", tmp_path / "thorough.json")
    assert (added["cases"], added["violations"], added["mended"]) == (150, 1, 1)
    assert line(added).endswith("1 violations, 11 s (1 failing checks mended and run again)")
    assert store([passed, failed], "abc", tmp_path / "other.json")["violations"] == 2  # it failed last
    twice = store([failed, failed, passed], "abc", tmp_path / "other.json")  # test_x failed, failed again, and passed
    assert (twice["violations"], twice["mended"]) == (2, 1)
    with pytest.raises(ValueError, match="test_x"):
        store([failed.replace("2 violations", "0 violations"), passed], "abc", tmp_path / "none.json")


def test_the_counts_of_worker_processes_add_up() -> None:
    whole = PropertyCases()
    for cases, tests, violations in ((60, 2, 0), (25, 1, 1)):
        worker, session = PropertyCases(), SimpleNamespace(config=SimpleNamespace(workeroutput={}))
        worker.held, worker.tests, worker.violated = cases, tests, violations
        worker.pytest_sessionfinish(session)
        node = SimpleNamespace(workeroutput=session.config.workeroutput)
        whole.pytest_testnodedown(node, None)
    whole.pytest_testnodedown(SimpleNamespace(), "crashed")
    assert (whole.held, whole.tests, whole.violated) == (85, 3, 1)
