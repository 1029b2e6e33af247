"""The oldest dependencies that pyproject.toml allows: what CI installs, and what the library needs of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx

from gpbounds.linalg.psd import eigen

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIREMENT = re.compile(r"([\w-]+)(?:\[([\w,-]+)\])?(?:>=([\d.]+))?")


def floors(requirements: list[str]) -> dict[str, str]:
    """Package -> its oldest release, those of our own extras included."""
    found: dict[str, str] = {}
    for requirement in requirements:
        match = REQUIREMENT.fullmatch(requirement)
        assert match, f"{requirement}: expected the form name[extras]>=release"
        name, extras, release = match.groups()
        if name == PROJECT["name"]:
            for extra in extras.split(","):
                found |= floors(PROJECT["optional-dependencies"][extra])
        else:
            assert release, f"{requirement}: expected a floor"
            found[name] = release
    return found


def test_the_constraints_are_the_floors_of_pyproject() -> None:
    lines = (ROOT / ".ci" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    constraints = [line for line in lines if line and not line.startswith("#")]
    exact = dict(line.split("==") for line in constraints if "==" in line)
    assert exact == floors(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"])
    others = {re.split("[<>=!~]", line)[0] for line in constraints if "==" not in line}
    assert not others & exact.keys()


def test_the_python_of_the_oldest_releases_is_the_oldest_python() -> None:
    python = PROJECT["requires-python"].removeprefix(">=")
    assert f'\npython{python} -m venv "$work/oldest"\n' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_matrix_of_one_row_has_eigenvectors(dtype: type) -> None:
    """SciPy before 1.13.1 refuses the workspace that LAPACK asks for."""
    spectrum = eigen(np.array([[2.0]], dtype), vectors=True)
    assert spectrum.values == 2.0
    assert abs(spectrum.vectors) == 1.0


def test_a_precision_of_balls_ends_with_its_block() -> None:
    """python-flint before 0.7 has no ``workprec``."""
    before = ctx.prec
    with ctx.workprec(before + 200):
        third = arb(1) / 3
    assert third.rad() < 2.0 ** -(before + 195)
    assert ctx.prec == before
