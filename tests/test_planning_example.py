"""The table of the planning example: what its columns must satisfy on a small set."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module("planning_on_data")
    sys.modules.pop("planning_on_data", None)


def test_the_truth_lies_between_the_lower_bounds_and_the_plan(example, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (90, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(90)
    file, out = tmp_path / "small.csv", tmp_path / "table.csv"
    np.savetxt(file, np.column_stack([X, y]), delimiter=",")
    example.main([str(file), "--quick", "--out", str(out)])
    (row,) = csv.DictReader(out.read_text(encoding="utf-8").splitlines())
    low, low_prior, true, given_y, a_priori = (
        int(row[name]) for name in ("low", "low_prior", "true", "given_y", "a_priori")
    )
    assert low <= true <= given_y
    assert low <= low_prior <= a_priori
    assert given_y <= 2 * true + 2
    assert (row["tenth"], row["root"]) == ("9", "9")
    assert float(row["plan_seconds"]) > 0.0 < float(row["vfe_seconds"])
    assert "given y" in capsys.readouterr().out
