"""A file of the user that is named fitting.py hides the package: the command and pickles say so, and do not run it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fitting
from gpbounds.errors import Hidden, check_not_hidden

ROOT = Path(fitting.__path__[0]).parent


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    ran = [sys.executable, *command]
    return subprocess.run(ran, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fitting.py").write_text("print('the file was run')\n", encoding="utf-8")
    return tmp_path


def test_the_command_names_the_file(folder: Path) -> None:
    ran = run_in(folder, "-m", "gpbounds", "claims", "R-thm1")
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"gpbounds: {folder / 'fitting.py'} hides the package fitting")
    assert "rename it" in line


def test_a_folder_of_this_name_is_found_too(tmp_path: Path) -> None:
    (tmp_path / "fitting").mkdir()
    (tmp_path / "fitting" / "__init__.py").write_text("print('the file was run')\n", encoding="utf-8")
    ran = run_in(tmp_path, "-m", "gpbounds", "claims", "R-thm1")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert str(tmp_path / "fitting") in ran.stderr


def test_the_command_works_where_nothing_hides_the_package(tmp_path: Path) -> None:
    ran = run_in(tmp_path, "-m", "gpbounds", "claims", "R-thm1")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_pickle_names_the_file(folder: Path) -> None:
    X = np.linspace(0.0, 6.0, 12)[:, None]
    model = fitting.ExactGP(kernel="rbf", optimizer=None).fit(X, np.sin(X[:, 0]))
    (folder / "model.pickle").write_bytes(pickle.dumps(model))
    ran = run_in(folder, "-c", "import pickle; pickle.load(open('model.pickle', 'rb'))")
    assert ran.returncode == 1
    assert "the file was run" not in ran.stdout
    assert f"{folder / 'fitting.py'} hides the package fitting" in ran.stderr.splitlines()[-1]
    again = pickle.loads((folder / "model.pickle").read_bytes())
    assert np.array_equal(again.predict(X), model.predict(X))


class Own(fitting.ExactGP):
    """An estimator of a user, in a module of the user."""


def test_pickles_of_a_class_of_a_user_name_its_own_module() -> None:
    assert isinstance(pickle.loads(pickle.dumps(Own(tol=0.5))), Own)
    assert pickle.loads(pickle.dumps(Own(tol=0.5))).tol == 0.5


def test_a_module_that_is_loaded_already_is_recognised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_not_hidden()
    other = type(sys)("fitting")
    other.__file__, other.__spec__ = str(tmp_path / "fitting.py"), None
    monkeypatch.setitem(sys.modules, "fitting", other)
    with pytest.raises(Hidden, match=r"fitting\.py hides"):
        check_not_hidden()
