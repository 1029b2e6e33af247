"""The README: its blocks run on the table that it names and print what it shows, and it is short."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from gpbounds.cli import main

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```|<!--.*?-->|`[^`]+`|\]\([^)]+\)", " ", TEXT, flags=re.DOTALL)
LINES = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the README's first script has written its table."""
    folder = tmp_path_factory.mktemp("readme")
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import borehole
    finally:
        sys.path.remove(str(ROOT / "examples"))
    borehole.write(folder / "borehole.csv")
    lines = (folder / "borehole.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "few").mkdir()
    (folder / "few" / "borehole.csv").write_text("".join(lines[:301]), encoding="utf-8")
    return folder


def test_python_prints_what_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    namespace: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == TEXT.count("```python")
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), namespace)
        number = r"\d+\.?\d*"
        assert re.sub(number, "#", printed.getvalue()) == re.sub(number, "#", shown)
        numbers = [float(each) for each in re.findall(number, printed.getvalue())]
        assert numbers == pytest.approx([float(each) for each in re.findall(number, shown)], rel=0.03)


@pytest.mark.parametrize("place", ["few", pytest.param("", marks=pytest.mark.slow)])
def test_commands_run_one_after_the_other(place: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the quick profile on the first 300 rows."""
    monkeypatch.chdir(folder / place)
    commands = [line for line in LINES if line.startswith("gpbounds ")]
    assert [line.split()[1] for line in commands] == ["plan", "train", "predict", "certify", "certify"]
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0, line


def test_the_readme_is_read_in_five_minutes() -> None:
    """At most a thousand words and one picture, which is there."""
    assert len(TEXT.split()) <= 1000
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT)
    assert len(pictures) == 1
    assert (ROOT / pictures[0]).exists()


@pytest.mark.parametrize(
    ("term", "explained"),
    [
        ("nat", r"Kullback–Leibler \(KL\) divergence, 0 for the exact model"),
        ("inducing point", r"summarises the rows by M \*inducing points\*"),
        ("GP", r"A Gaussian process \(GP\) predicts with error bars"),
        ("certificate", r"A certificate bounds how often"),
        ("Rényi", r"smaller orders give Rényi divergences"),
    ],
)
def test_a_term_is_explained_where_it_is_used_first(term: str, explained: str) -> None:
    """The sentence that explains it contains its first use in prose, or comes before it."""
    first = re.search(rf"(?<!\w){term}s?(?!\w)", PROSE)
    sentence = re.search(explained, PROSE)
    assert first
    assert sentence
    assert sentence.start() <= first.start() + 200, PROSE[first.start() - 80 : first.start() + 80]


@pytest.mark.parametrize("term", ["k-DPP", "ELBO", "D_1", "q*", "R-thm", "N-tilt", "PAC", "a priori", "data-aware"])
def test_terms_of_the_theory_wait_for_the_tutorials(term: str) -> None:
    assert term not in PROSE
