"""Progress on a pseudo-terminal: commands show what they do, and leave on the screen what they print to a pipe."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from fitting.training.ending import LEAST, Ending
from fitting.training.watch import Watch
from gpbounds import progress
from gpbounds.cli import main

UNKNOWN, NARROW = (0, 0), (24, 60)
"""Lines and columns of terminals; containers and ``script`` state none."""


def screen(text):
    """The lines that a terminal shows after ``text``: \\r goes to the left, ESC[A goes up, other text overwrites."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[A|\r|\n|[^\x1b\r\n]+", text):
        if part == "\x1b[A":
            row = max(row - 1, 0)
        elif part == "\r":
            column = 0
        elif part == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        else:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + part + line[column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in lines]


def test_the_screen_of_this_file_is_one():
    assert screen("a\r\nbar 1%\rbar 2%\n\rinner\x1b[A\r      \n\r     \x1b[A\rb\r\n") == ["a", "b", ""]


def on_a_terminal(words, folder, size):
    """The exit status of ``gpbounds`` on a terminal of this many lines and columns, and all that it wrote there."""
    fcntl, pty, termios = map(pytest.importorskip, ("fcntl", "pty", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, np.array([*size, 0, 0], dtype=np.uint16).tobytes())
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "gpbounds", *words]
    ran = subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 65536):
            text += piece
    except OSError:  # Linux says so when the process has closed its end
        pass
    os.close(ours)
    return ran.wait(), text.decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, a model of it and a certificate."""
    place = tmp_path_factory.mktemp("progress")
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (120, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(120)
    np.savetxt(place / "data.csv", np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="")
    data = str(place / "data.csv")
    assert main(["train", data, "--inducing", "5", "--max-iter", "5", "--out", str(place / "m")]) == 0
    words = ("--method", "pac-bayes", "--epsilon", "0.6", "--posterior", "fitc", "--inducing", "5", "--iterations", "5")
    assert main(["certify", "train", data, *words, "--out", str(place / "c")]) == 0
    return place


@pytest.mark.broad
@pytest.mark.parametrize(
    ("words", "shown", "size"),
    [
        ("train data.csv --inducing 6 --max-iter 6 --out t", "sparse start 0: 0it [", UNKNOWN),
        ("predict m/model.npz data.csv", "Predicting:   0%|", NARROW),
        ("curve --data data.csv --rows 50 -M 5,15 --out curve.png", "data-aware, N = 50, alpha = 1 [00:00]", UNKNOWN),
        ("audit data.csv --model m/model.npz --most 20", "KL against M: 0set [", UNKNOWN),
        ("certify check c/certificate.json --data data.csv", "Computing R_S and KL again [00:00]", UNKNOWN),
    ],
)
def test_a_command_shows_progress_and_leaves_nothing_of_it(capsys, monkeypatch, folder, words, shown, size):
    status, text = on_a_terminal(words.split(), folder, size)
    monkeypatch.chdir(folder)
    assert status == main(words.split()) == 0, text
    out, err = capsys.readouterr()
    assert shown in text
    assert "\r" not in out + err
    assert screen(text) == [line.rstrip() for line in (err + out).split("\n")]


# The bar of a training


class Line:
    """A bar that remembers what it showed."""

    def __init__(self, total: int | None, **_: Any) -> None:
        self.total = total
        self.shown: list[int | None] = []
        self.texts: list[str] = []

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        self.texts.append(text)

    def update(self) -> None:
        self.shown.append(self.total)

    def close(self) -> None:
        pass


def test_the_total_of_a_training_is_where_it_is_expected_to_end_and_not_max_iter(monkeypatch):
    lines: list[Line] = []
    monkeypatch.setattr("tqdm.auto.tqdm", lambda **options: lines.append(Line(**options)) or lines[-1])
    watch = Watch(np.zeros(1), max_iter=1000, ending=Ending(0.01, 1.0, "nats"), progress=True)
    watch.keep(np.zeros(1), 1.0)
    watch.begin(1.0)
    for t in range(2, 300):
        watch.keep(np.zeros(1), 1.0 / t)
        watch.step(1.0 / t)
    (line,) = lines
    assert set(line.shown[: LEAST - 1]) == {None}
    assert all(150 < total < 600 for total in line.shown[LEAST - 1 :])
    assert line.texts[0] == "F = -0.5"
    assert re.fullmatch(r"F = -0\.02, to gain 0\.0\d+, tol 0\.01", line.texts[LEAST])


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2


@pytest.mark.parametrize(("stated", "used"), [((0, 0), progress.SIZE), ((40, 0), (40, 24)), (None, progress.SIZE)])
def test_a_terminal_that_states_no_size_has_one(monkeypatch, stated, used):
    def size(descriptor: int) -> os.terminal_size:
        if stated is None:
            raise OSError("inappropriate ioctl for device")
        return os.terminal_size(stated)

    made: list[dict[str, Any]] = []
    monkeypatch.setattr("tqdm.auto.tqdm", lambda **options: made.append(options))
    monkeypatch.setattr(os, "get_terminal_size", size)
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress.bar("name", 3, "row", True)
    assert (made[0]["ncols"], made[0]["nrows"]) == used
    assert made[0]["leave"] is False
