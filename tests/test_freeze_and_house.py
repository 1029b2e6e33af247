"""The tools in .ci that compare two commits in every digit, and that count what makes the house large."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

CI = Path(__file__).resolve().parents[1] / ".ci"


@pytest.fixture(scope="module")
def freeze():
    """The modules of .ci/freeze, under their names there."""
    names = ("words", "values", "comparison", "recording")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(CI / "freeze")
        yield {name: importlib.import_module(name) for name in names}
    for name in names:
        del sys.modules[name]


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house_of_ci", CI / "house.py")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def places(freeze, old, new):
    return [each.name + each.place for each in freeze["comparison"].differences(old, new)]


def test_one_unit_in_the_last_place_is_a_difference(freeze):
    encoded = freeze["values"].encoded
    x = np.linspace(0.0, 1.0, 50)
    y = x.copy()
    y[40] = math.nextafter(y[40], 2.0)
    for old, new in ((0.1, math.nextafter(0.1, 1.0)), (0.0, -0.0), (x, y), (x[:3], x[:3].astype(np.float32)), (1, 1.0)):
        assert places(freeze, {"f": encoded(old)}, {"f": encoded(old)}) == []
        assert places(freeze, {"f": encoded(old)}, {"f": encoded(new)}) != []


def test_missing_calls_and_changed_texts_are_differences(freeze):
    old = {"a": {"value": 1, "terms": [1, 2]}, "b": "x\ny\nz", "gone": None, "true": True}
    new = {"a": {"value": 1, "terms": [1, 3]}, "b": "x\nY\nz", "come": None, "true": 1}
    assert places(freeze, old, new) == ["a.terms[1]", "b:line 2", "gone", "true", "come"]
    assert places(freeze, {"a": [1, 2]}, {"a": [1, 2, 3]}) == ["a"]


def test_named_differences_pass_and_others_do_not(freeze, tmp_path):
    comparison = freeze["comparison"]
    differing = comparison.differences(
        {"rate/se": {"value": "0x1.0p+0", "text": "a"}}, {"rate/se": {"value": "0x1.8p+0"}}
    )
    file = tmp_path / "named.toml"
    file.write_text('[[named]]\npattern = "rate/*.value"\nreason = "sharper"\n', encoding="utf-8")
    text, passed = comparison.report(differing, comparison.named(file))
    assert not passed
    assert "rate/se.text" in text
    assert "1 differences (sharper)" in text
    file.write_text('[[named]]\npattern = "rate/*"\nreason = "sharper"\n', encoding="utf-8")
    assert comparison.report(differing, comparison.named(file))[1]
    assert not comparison.report(differing, [])[1]
    assert comparison.report([], [])[1]
    file.write_text('[[named]]\npattern = "rate/*"\nreason = ""\n', encoding="utf-8")
    with pytest.raises(ValueError, match="a pattern and a reason"):
        comparison.named(file)
    comparison.named(CI / "freeze" / "named.toml")


def test_times_and_dates_are_masked_and_numbers_are_not(freeze):
    masked = freeze["values"].masked
    assert masked("after 1.25 s, on 2026-11-28T10:00:00Z") == "after <duration>, on <date>"
    assert masked("numpy 1.26.4 at 0x7f00aa12bc") == "numpy <version> at <address>"
    bar = "Subsets:  18%|#7        | 10/56 [00:00<00:00, 66.46subset/s]"
    assert masked(f"a\n{bar}\r{bar}\nb") == masked(f"a\n{bar}\nb") == "a\n<progress>\nb"
    for text in ("bound 0.25, N = 10", "0x1.8p+3", "sin² as 2s(1 − s)", "-M 10:40:5", "5.3e-05 GB", "1.96 standard"):
        assert masked(text) == text


def test_outcomes_hold_refusals_warnings_and_output(freeze):
    recording = freeze["recording"]

    def refuses():
        raise ValueError("expected 1, got 2")

    def speaks():
        warnings.warn("slow", UserWarning, stacklevel=2)
        print("done")
        return 0.5

    assert recording.outcome(refuses) == {"raises": "ValueError", "text": "expected 1, got 2"}
    assert recording.outcome(speaks) == {
        "result": "0x1.0000000000000p-1",
        "warnings": ["UserWarning: slow"],
        "printed": "done\n",
    }
    outcomes, entered = recording.record({"refuses": refuses, "typo": lambda: math.nothing})
    assert [text.partition(":")[0] for text in recording.broken(outcomes)] == ["typo"]
    assert refuses.__code__ in entered
    assert speaks.__code__ not in entered


def test_each_commit_is_asked_in_its_own_words(freeze):
    spelled = freeze["words"].spelled

    def old(x, rigor="float"):
        if rigor not in ("float", "arb"):
            raise ValueError(f"rigor: expected one of 'float', 'arb', got {rigor!r}")
        return x, rigor

    def new(x, rigor="auto"):
        if x < 0:
            raise ValueError("rigor: expected 'float' for negative numbers")
        return x, rigor

    assert spelled(old, 1, rigor="sharp") == (1, "arb")
    assert spelled(new, 1, rigor="sharp") == (1, "sharp")
    assert spelled(lambda x, certified: certified, 1, rigor="balls") is True
    with pytest.raises(ValueError, match="negative"):
        spelled(new, -1, rigor="sharp")


FAKE = {
    "gpbounds/__init__.py": "",
    "gpbounds/kernels/__init__.py": "from gpbounds.kernels.base import Kernel, Near\n",
    "gpbounds/kernels/base.py": '"""Kernels."""\nclass Kernel:\n    pass\n\nclass Near(Kernel):\n    """Near."""\n',
    "gpbounds/kernels/far.py": "from gpbounds import kernels\nclass Far(kernels.Near):\n    pass\nBOTH = (Far, int)\n",
    "gpbounds/kernels/enclosed.py": (
        "from .far import BOTH, Far as F\n"
        "from gpbounds.kernels import Kernel, Near\n"
        "import json\n\n"
        "def tests(x):\n"
        "    match x:\n        case F():\n            return 1\n"
        "    json.dumps(x)\n"
        "    return isinstance(x, BOTH) or isinstance(x, Near | float)\n"
        "def none(x):\n    return isinstance(x, Kernel) or isinstance(x, dict) or issubclass(x, json.JSONDecoder)\n"
    ),
    "gpbounds/base.py": "class Near:\n    pass\n\ndef long():\n    '''Two\n    lines.'''\n" + "    x = 1\n" * 61,
    "fitting/__init__.py": "",
    "fitting/estimators/__init__.py": (
        "from typing import Protocol\n\n"
        "class A:\n    def _hook(self): ...\n    def __init__(self): ...\n    def minimised(self): ...\n\n"
        "class B:\n    def _hook(self): ...\n    def _own(self): ...\n    def __init__(self): ...\n\n"
        "class P(Protocol):\n    def minimised(self): ...\n"
    ),
}


@pytest.fixture
def fake(house, tmp_path):
    for name, text in FAKE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return house.House.read(tmp_path)


def test_the_counts_of_a_small_house(house, fake):
    counts = house.static(fake, {})
    assert counts["package files"] == len(FAKE)
    assert counts["package lines"] == sum(len(text.splitlines()) for text in FAKE.values())
    assert counts["docstring lines"] == 4
    assert [name for _, name in sorted(fake.kernels)] == ["Near", "Far"]
    assert counts["kernel isinstance tests"] == ["gpbounds.kernels.enclosed:7", *["gpbounds.kernels.enclosed:10"] * 2]
    assert counts["hooks overridden in several classes"] == ["_hook"]
    assert counts["objectives"] == ["fitting.estimators.A"]
    assert counts["words for rigor"] == ["enclosed"]
    assert counts["modules that call json"] == ["gpbounds.kernels.enclosed"]
    assert counts["function bodies above 60 lines"] == ["gpbounds.base.long"]
    assert counts["class names with two owners"] == ["Near"]
    assert counts["file names with two meanings"] == ["base"]
    assert counts["modules imported by one neighbour"] == ["gpbounds.kernels.base", "gpbounds.kernels.far"]
    named = house.static(fake, {"one_meaning": {"base": "why"}, "concepts": {"gpbounds.kernels.far": "why"}})
    assert named["file names with two meanings"] == []
    assert named["modules imported by one neighbour"] == ["gpbounds.kernels.base"]


def test_a_count_may_fall_and_not_rise(house):
    assert house.exceeded({"a": 3, "b": 2}, {"a": 3, "b": 5}) == []
    assert house.exceeded({"a": 4}, {"a": 3}) == ["a: 4, the ceiling is 3"]
    assert len(house.exceeded({"a": 1, "new": 1}, {"a": 1, "old": 1})) == 2
    text = '# why\n[ceilings]\n"a b" = 5\nc = 2\n\n[concepts]\nd = "why 7"\n'
    assert house.lowered(text, {"a b": 3, "c": 9}) == text.replace("5", "3")


def test_the_stored_ceilings_are_those_of_what_is_counted(house):
    settings = house.tomllib.loads(house.CEILINGS.read_text(encoding="utf-8"))
    assert set(settings["ceilings"]) == set(house.GOALS)
    assert all(isinstance(why, str) and why for part in ("one_meaning", "concepts") for why in settings[part].values())


def test_a_house_without_kernels_is_not_counted(house, fake):
    modules = {name: module for name, module in fake.modules.items() if not name.startswith("gpbounds.kernels")}
    with pytest.raises(ValueError, match="Kernel"):
        house.kernel_tests(house.House(modules))
