"""The table of laws: what its columns must satisfy on a small set with columns that depend on each other."""

from __future__ import annotations

import csv
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from gpbounds.kernels import SquaredExponential

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module("input_laws")
    sys.modules.pop("input_laws", None)


def clusters(rows, rng):
    """Two narrow groups on a line in three columns."""
    t = np.where(rng.random(rows) < 0.5, -2.0, 2.0) + 0.2 * rng.standard_normal(rows)
    return t[:, None] * [1.0, -1.0, 0.5] + 0.05 * rng.standard_normal((rows, 3))


def test_laws_that_know_more_give_less(example, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = clusters(220, rng)
    y = np.sin(3.0 * X[:, 0]) + 2.0 * np.cos(2.0 * X[:, 1]) + np.sin(4.0 * X[:, 2]) + 0.1 * rng.standard_normal(220)
    file, out = tmp_path / "small.csv", tmp_path / "laws.csv"
    np.savetxt(file, np.column_stack([X, y]), delimiter=",")
    example.main([str(file), "--quick", "--out", str(out)])
    (row,) = csv.DictReader(out.read_text(encoding="utf-8").splitlines())
    value = {name: float(text) for name, text in row.items() if name != "data"}
    assert (value["N"], value["D"], value["rows"]) == (220, 3, 100)
    assert 0.0 < value["given"] <= 1.0
    assert 0.5 < value["mixture"] < value["covariance"] < value["independent"]
    assert value["components"] >= 2
    assert value["tail_data"] <= value["tail_covariance"] < value["tail_independent"]
    printed = capsys.readouterr().out
    assert "Median over the sets" in printed
    assert "tail, covariance" in printed


def test_the_mixture_follows_the_inputs_that_matter(example):
    rng = np.random.default_rng(1)
    X = np.column_stack([clusters(400, rng), rng.standard_normal(400)])
    law, components = example.mixture(SquaredExponential(1.0, [1.0, 1.0, 1.0, 1e6]), X, 0)
    draws = law.sample(4000, rng)
    assert components >= 2
    assert (draws[:, 3] == 0.0).all()
    np.testing.assert_allclose(np.cov(draws[:, :3].T), np.cov(X[:, :3].T), rtol=0.1)
    assert np.mean(np.abs(draws[:, 0]) > 1.0) > 0.99  # no draw between the groups
    assert repr(law) == f"Sampler(a mixture of {components} Gaussians)"
