"""The tool in .ci that counts what makes the house large."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[1] / ".ci"


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house_of_ci", CI / "house.py")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


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
