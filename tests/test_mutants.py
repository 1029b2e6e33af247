"""Mutation testing itself: which faults are made, that they are the same each time, and which tests they are put to."""

from __future__ import annotations

import json
import math
from pathlib import Path

import appended
import pytest
from mutation import choosing, results, score
from mutation.operators import Mutant, meaning, mutants
from mutation.reach import Sources
from mutation.touching import Measured
from mutation.trial import Verdict, in_order, within

ROOT = Path(__file__).parents[1]


def test_a_run_goes_on_from_the_whole_lines_of_one_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    assert appended.records(path) == []
    for record in ({"key": "a", "verdict": "killed"}, {"key": "ν", "verdict": "survived"}):
        appended.add(path, record)
    path.write_bytes(path.read_bytes()[:-3])  # a kill while the second line is written
    assert list(results.Store(path).entries) == ["a"]
    appended.add(path, {"key": "c", "verdict": "killed"})
    assert [record["key"] for record in appended.records(path)] == ["a", "c"]


def changes(source: str, operator: str) -> set[str]:
    """What the operator makes of the one-line body of a function."""
    text = f"def f(x, y, n) -> float:\n    {source}\n"
    return {m.after for m in mutants("f.py", text.encode()) if m.operator == operator}


@pytest.mark.parametrize(
    ("operator", "source", "expected"),
    [
        ("scaled", "z = 2.0 * x", {"z = 1.998 * x", "z = 2.002 * x"}),
        ("scaled", "z = 2 * x", {"z = 1.998 * x", "z = 2.002 * x"}),
        ("bound", "return x", {"return (0.999 * (x))", "return (1.001 * (x))"}),
        ("bound", "b = Bound(x, 'upper')", {"b = Bound((0.999 * (x)), 'upper')", "b = Bound((1.001 * (x)), 'upper')"}),
        ("dropped", "z = x + y", {"z = (x)", "z = (y)"}),
        ("dropped", "z = x - y", {"z = (x)", "z = (-(y))"}),
        ("dropped", "x += y", {"pass"}),
        ("swapped", "z = (x) + (y)", {"z = (x) - (y)"}),
        ("swapped", "z = x / y", {"z = x * y"}),
        ("swapped", "x *= y", {"x /= y"}),
        ("swapped", "z = -x", {"z = (x)"}),
        ("compared", "z = x < y", {"z = x <= y", "z = x > y"}),
        ("compared", "z = 0 <= x < y", {"z = 0 < x < y", "z = 0 >= x < y", "z = 0 <= x <= y", "z = 0 <= x > y"}),
        ("compared", "z = x == y", {"z = x != y"}),
        ("rounded", "z = np.nextafter(x, np.inf)", {"z = x", "z = np.nextafter(x, -np.inf)"}),
        ("rounded", "z = np.nextafter(x, -inf)", {"z = x", "z = np.nextafter(x, inf)"}),
        ("rounded", "z = x * (1.0 + 1e-11)", {"z = x * ((1.0))", "z = x * (1.0 - 1e-11)"}),
        ("rounded", "z = x * (1.0 - ROUNDING)", {"z = x * ((1.0))", "z = x * (1.0 + ROUNDING)", "z = x * (1.0 - 0.0)"}),
        ("rounded", "z = 4.0 * np.finfo(float).eps", {"z = 4.0 * 0.0"}),
        ("rounded", "z = x * UP", {"z = (x)", "z = x / UP"}),
        ("rounded", "z = problem.rounding(x)", set()),
        ("rounded", "z = ball.upper()", {"z = ball.lower()"}),
        ("rounded", "z = above(x)", {"z = below(x)"}),
        ("rounded", "z = settled(x, upwards=True)", {"z = settled(x, upwards=False)"}),
        ("rounded", "z = math.ceil(x)", {"z = math.floor(x)"}),
        ("extremum", "z = np.maximum(x, y)", {"z = np.minimum(x, y)"}),
        ("extremum", "z = x.max()", {"z = x.min()"}),
        ("exponent", "z = x**2", {"z = x**1.94", "z = x**2.06"}),
        ("exponent", "z = x**n", {"z = x**(0.97 * (n))", "z = x**(1.03 * (n))"}),
    ],
)
def test_each_operator_makes_its_faults_and_no_others(operator: str, source: str, expected: set[str]) -> None:
    assert changes(source, operator) == expected


@pytest.mark.parametrize(
    "source",
    [
        "'''x + 1.0'''",
        "raise ValueError(f'{x + 1.0}: expected at most {2.0 * y}')",
        "assert x < y + 1.0",
        "z = f'{2.0 * x:.3g}'",
        "z: tuple[float, 'x + y']",
        "z = 'a' + x",
        "warnings.warn(x + y)",
        "z = brentq(x, xtol=2.0)",
    ],
)
def test_what_is_no_computation_is_left_alone(source: str) -> None:
    assert not mutants("f.py", f"def f(x, y=1.0 + 2.0) -> None:\n    {source}\n".encode())


def test_functions_that_return_text_are_left_alone() -> None:
    assert not mutants("f.py", b"def f(x) -> str:\n    return g(2.0 * x)\n")


SOURCE = """# Σ α β
def f(x) -> float:
    Ξ = 2.0 * x + 1.0
    Ξ = 2.0 * x + 1.0
    return Ξ if x > 0.0 else -Ξ
""".encode()


def test_edits_are_of_bytes_and_leave_the_rest_as_it_is() -> None:
    mutations = mutants("f.py", SOURCE)
    lines = SOURCE.splitlines()
    assert len(mutations) > 20
    for mutant in mutations:
        changed = mutant.applied(SOURCE).splitlines()
        differing = [i + 1 for i, (a, b) in enumerate(zip(lines, changed, strict=True)) if a != b]
        assert differing == [mutant.line]
        assert changed[mutant.line - 1].decode().strip() == mutant.after
        assert lines[mutant.line - 1].decode().strip() == mutant.before


def test_keys_are_unique_and_do_not_depend_on_where_the_line_stands() -> None:
    keys = [m.key for m in mutants("f.py", SOURCE)]
    assert len(set(keys)) == len(keys)  # even of two lines that read the same
    assert {m.key for m in mutants("f.py", b"import math\n\n\n" + SOURCE)} == set(keys)


def test_a_sample_is_the_same_each_time_and_grows_with_its_density() -> None:
    first, again, other = (choosing.sample("f.py", SOURCE, seed, 1.0) for seed in (0, 0, 1))
    assert first == again
    assert [m.key for m in first] != [m.key for m in other]
    more = choosing.sample("f.py", SOURCE, 0, 2.0)
    assert len(more) > len(first)
    assert more[: len(first)] == first


def test_a_sample_holds_every_kind_and_no_two_faults_alike() -> None:
    every = list(choosing.ranked("f.py", SOURCE, 0))
    kinds = {m.operator for m in mutants("f.py", SOURCE)}
    assert {m.operator for m in every[: len(kinds)]} == kinds
    meanings = [meaning(m.applied(SOURCE)) for m in every]
    assert len({*meanings, meaning(SOURCE), None}) == len(every) + 2


def test_the_list_is_up_to_date() -> None:
    """Each fault of the list can be inserted, and each line that the list calls equivalent stands in its file."""
    settings = choosing.Settings.read()
    assert len(choosing.all_by_hand(settings.hand)) == len(settings.hand)
    assert {picked.file for picked in settings.hand} <= set(settings.files())
    for entry in settings.equivalent.values():
        lines = "\n".join(line.strip() for line in (ROOT / entry.file).read_text(encoding="utf-8").splitlines())
        assert entry.old in lines, f"{entry.file}: {entry.old}"
    assert set(settings.hand).isdisjoint(settings.equivalent.values())
    for module in settings.modules:
        assert (ROOT / module).exists()


def test_a_fault_picked_by_hand_must_be_a_fault_in_one_place() -> None:
    for old, new, message in (
        ("2.0 * x", "1.0", "once, found it 2 times"),
        ("if x > 0.0", "if (x > 0.0)", "no other program"),
        ("x > 0.0", "x >", "no other program"),
    ):
        with pytest.raises(ValueError, match=message):
            choosing.by_hand(choosing.Picked("f.py", old, new, ""), SOURCE)


def test_all_faults_picked_by_hand_that_have_no_place_are_told_at_once() -> None:
    good = choosing.Picked("gpbounds/bound.py", "UP = 1.0 + 1e-11", "UP = 1.0", "")
    gone = choosing.Picked("gpbounds/no_such_file.py", "x", "y", "")
    moved = choosing.Picked("gpbounds/bound.py", "no such line", "y", "")
    assert [m.text for m in choosing.all_by_hand([good])] == ["UP = 1.0"]
    with pytest.raises(ValueError, match=r"2 of the faults .*\n.*no_such_file.py: .*\n.*bound.py: .*no such line"):
        choosing.all_by_hand([gone, good, moved])


A = b"""LIMIT = 2.0
TWICE = 2.0 * LIMIT


def f(x):
    if x > 1.0:
        return x
    return (
        2.0 * x
    )
"""
B = b"""from a import TWICE


def g(x):
    y = x
    return y + TWICE


def h(x):
    return x + 1.0
"""


@pytest.mark.parametrize(
    ("after", "spots"),
    [
        ("if x < 1.0:", {"a.py": {6}}),
        ("1.998 * x", {"a.py": {8, 9, 10}}),
        ("LIMIT = 1.998", {"b.py": {5, 6}}),  # lines that use the constant, directly or through another one
    ],
)
def test_spots_are_the_lines_of_a_statement_or_of_those_who_use_a_constant(after: str, spots: dict) -> None:
    [mutant] = [m for m in mutants("a.py", A) if m.after == after]
    assert Sources({"a.py": A, "b.py": B}).spots(mutant, A) == spots


def test_tests_touch_a_line_by_themselves_by_a_fixture_or_by_their_file(tmp_path: Path) -> None:
    coverage = pytest.importorskip("coverage")
    data = coverage.CoverageData(str(tmp_path / "t.coverage"))
    for context, lines in (("t::one", [3]), ("fixture t::made", [4]), ("file", [5])):
        data.set_context(context)
        data.add_lines({"a.py": lines})
    data.write()
    tests = {"t::one": [], "t::two": ["fixture t::made"], "t::three": []}
    (tmp_path / "t.json").write_text(json.dumps({name: {"fixtures": f} for name, f in tests.items()}), encoding="utf-8")
    measured = Measured(tmp_path / "t.coverage")
    for lines, expected in (({3}, {"t::one"}), ({4}, {"t::two"}), ({5}, set(tests)), ({6}, set())):
        assert set(measured.touching("a.py", lines)) == expected


def test_fast_tests_come_first_and_examples_last() -> None:
    seconds = {"a::slow": 9.0, "b::fast": 0.001, "a::fast": 0.002, "c::example": 0.001}
    order = in_order(seconds, {name: name == "c::example" for name in seconds})
    assert order == ["a::fast", "b::fast", "a::slow", "c::example"]


def test_a_budget_leaves_out_the_slowest_tests_but_no_examples() -> None:
    seconds = {"slow": 9.0, "fast": 0.5, "fair": 1.0, "example": 3.0}
    is_example = {name: name == "example" for name in seconds}
    assert set(within(1.5, seconds, is_example)) == {"fast", "fair", "example"}
    assert set(within(0.1, seconds, is_example)) == {"fast", "example"}  # at least one test is run
    assert set(within(math.inf, seconds, is_example)) == set(seconds)


def test_verdicts_are_kept_and_counted(tmp_path: Path) -> None:
    """A mutant that only the digits of an example notice survives; equivalent mutants are not counted."""
    chosen = list(choosing.ranked("f.py", SOURCE, 0))[:5]
    alike = choosing.Picked("f.py", chosen[4].before, chosen[4].after, "")
    settings = choosing.Settings((), (), (), {(alike.file, alike.old, alike.new): alike})
    store = results.Store(tmp_path / "verdicts")
    for mutant, verdict in zip(chosen, ("killed", "timeout", "examples", "survived", "survived"), strict=True):
        store.add(mutant, Verdict(verdict, "", "", 1, 0.0), "abc")
    store = results.Store(tmp_path / "verdicts")
    counts = results.counted(settings, store, chosen)
    assert counts == {"f.py": score.Count(mutants=5, killed=2, examples=1, survived=1, equivalent=1)}
    assert counts["f.py"].score == 0.5
    assert [entry["key"] for entry in results.survivors(settings, store, chosen)] == [m.key for m in chosen[2:4]]
    record = score.record(counts, store.commits(chosen), 0, 0.4)
    assert record["commits"] == {"abc": 5}
    assert score.summary(record) == "50.0 % of 4 faults noticed; least: 50 % in f.py"


def test_a_mutant_is_a_place_and_a_text() -> None:
    mutant = Mutant("f.py", "hand", "", 1, 0, 1, "b", "a", "b")
    assert mutant.applied(b"ac") == b"bc"
