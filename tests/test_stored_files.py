"""Files that an earlier version wrote are read, and written again as the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fitting
from fitting.archive import read_archive
from fitting.training import Session
from gpbounds.pacbayes import Certificate
from gpbounds.renyi import Model

FOLDER = Path(__file__).parent / "stored"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".json", ".npz"))


def checkpoint(path: Path, copy: Path) -> None:
    """Read a checkpoint, and write its runs as training does."""
    about, _ = read_archive(path, "checkpoint", 1)
    session = Session(path, about["fingerprint"], 0)
    session.path = copy
    session._write()


REWRITE: dict[str, Callable[[Path, Path], None]] = {
    "certificate": lambda path, copy: Certificate.load(path).save(copy),
    "checkpoint": checkpoint,
    "imported": lambda path, copy: Model.load(path).save(copy),
    "model": lambda path, copy: fitting.load(path).save(copy),
}


@pytest.mark.parametrize("name", FILES)
def test_a_stored_file_is_written_again_as_the_same_bytes(name: str, tmp_path: Path) -> None:
    REWRITE[name.partition("_")[0]](FOLDER / name, tmp_path / name)
    assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


def test_there_are_stored_files_of_every_kind() -> None:
    assert {name.partition("_")[0] for name in FILES} == set(REWRITE)


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("model")])
def test_a_stored_model_predicts(name: str) -> None:
    mean = fitting.load(FOLDER / name).predict(np.zeros((2, 2)))
    assert len(mean) == 2
