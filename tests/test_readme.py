"""The examples and commands of the README run and print what the README shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from gpbounds.cli import main
from gpbounds.pacbayes import Certificate

README = Path(__file__).parent.parent / "README.md"


def block(language: str, after: str) -> str:
    """The first block in ``language`` after the heading ``after``."""
    text = README.read_text(encoding="utf-8")
    match = re.search(rf"```{language}\n(.*?)```", text[text.index(after) :], re.DOTALL)
    assert match
    return match[1]


def test_five_lines_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block("python", "## Five lines"), "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    shown = block("", "and what it costs:").splitlines()[:2]
    assert printed[:2] == shown
    assert f"that {re.findall(r'[0-9]+', shown[0])[0]} inducing points" in README.read_text(encoding="utf-8")


def test_the_guarantee_is_confirmed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both models get a bound below 1, and the saved certificate is confirmed."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec(compile(block("python", "## Train a model and certify it"), "README.md", "exec"), namespace)
    *report, other = capsys.readouterr().out.splitlines()
    assert Certificate.load(tmp_path / "certificate.json").check(namespace["X"], namespace["y"]).confirmed
    assert report
    assert 0.0 < namespace["model"].bound_ <= float(other) < 1.0


@pytest.mark.parametrize("line", [line for line in block("sh", "## From the shell").splitlines() if "FILE" not in line])
def test_commands_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line, comments=True)
    assert words[0] == "gpbounds"
    assert main(words[1:]) == 0
