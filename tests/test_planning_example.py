"""The table of the planning example: what its columns must satisfy on a small set."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import gpbounds
from fitting.study import hyperparameters
from fitting.study.standardised import load

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module("planning_on_data")
    sys.modules.pop("planning_on_data", None)


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_a_priori_law_takes_its_covariance_from_all_rows(example, tmp_path, capsys):
    """The second input is constant on the 20 rows drawn, so their own standard deviations define no law."""
    rng = np.random.default_rng(1)
    table = np.column_stack([rng.standard_normal(60), np.arange(60) == 3, rng.standard_normal(60)])
    file, out = tmp_path / "rare.csv", tmp_path / "table.csv"
    np.savetxt(file, table, delimiter=",")
    data = load(file)
    part = data.subset(20, 1)
    assert part.X[:, 1].std() == pytest.approx(0.0, abs=1e-12)
    fixed = hyperparameters.as_given(np.inf, 1.0, 1.0, 0.5)
    (row,) = example.rows_of(data, part, fixed, [0.5], sets=39, seed=0)
    settings = {"target": 0.5, "noise": 0.5, "delta": 0.05, "draws": 10, "law": "tilted", "simulate": 39, "rng": 0}
    law = gpbounds.Gaussian(cov=np.corrcoef(data.X.T))
    assert row.a_priori == gpbounds.inducing_points(fixed.kernel, 20, 1.0, inputs=law, **settings).M
    example.main([str(file), "--rows", "20", "--seed", "1", "--out", str(out)])
    assert "a priori" in capsys.readouterr().out
