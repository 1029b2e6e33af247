"""The study of exact and sparse predictions: what its rows must satisfy, and the page that shows them."""

from __future__ import annotations

import csv
import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def script(monkeypatch):
    """The example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before = set(sys.modules)
    yield importlib.import_module("exact_or_sparse")
    for name in set(sys.modules) - before:
        if (EXAMPLES / f"{name}.py").is_file():
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path):
    """Two tables, each with a constant column and a target far from 0."""
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        X = rng.uniform(-2.0, 2.0, (150, 2))
        y = 50.0 + np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(150)
        np.savetxt(tmp_path / f"{name}.csv", np.column_stack([X, np.ones(150), y]), delimiter=",")
    return tmp_path


def test_the_truth_is_between_the_ends_and_more_points_are_nearer(script, folder, capsys):
    out = folder / "study.png"
    script.main(["--quick", "--folder", str(folder), "--names", "one", "two", "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "0 of 60 rows violate the ends of N-solve: holds" in capsys.readouterr().out
    for part in script.of_tables(script.load(out.with_suffix(".csv"), script.Row)):
        at = script.model_of(part)
        assert (at.N, at.D, at.rows, at.violations, at.M) == (120, 2, 30, 0, at.recommended)
        assert at.exact_loss_low - 1e-7 <= at.truth_loss <= at.exact_loss_high + 1e-7
        assert at.exact_rmse_low - 1e-7 <= at.truth_rmse <= at.exact_rmse_high + 1e-7
        assert at.truth_rmse < 0.5  # the mean of the target is added to the exact GP's predictions, too
        for each in part:
            assert each.enclosure_low - 1e-7 <= each.truth_difference <= each.enclosure_high + 1e-7
            assert each.interval_low <= each.enclosure_low <= each.enclosure_high <= each.interval_high
        assert abs(part[-1].truth_difference) < abs(part[0].truth_difference)
        assert part[0].M == max(at.M // 4, 1)


def test_a_truth_outside_its_ends_is_counted(script, folder, monkeypatch):
    def shifted(about, compared, X):
        losses, squares = truth(about, compared, X)
        return losses + 1e-3 * (np.arange(len(losses)) < 5), squares

    truth = script.truth
    monkeypatch.setattr(script, "truth", shifted)
    table = script.divided("one", folder / "one.csv", 0, 0)
    rows = script.rows_of(table, 1000, 1000, 0)
    assert {each.violations for each in rows} == {5}
    assert rows[0].outside == pytest.approx(1e-3, rel=0.01)


def test_a_resumed_study_computes_only_other_tables(script, folder, monkeypatch):
    out = folder / "study.png"
    common = ["--folder", str(folder), "--rows", "120", "--dense", "1", "--out", str(out)]
    script.main([*common, "--names", "one"])
    asked = []
    rows_of = script.rows_of
    monkeypatch.setattr(script, "rows_of", lambda table, *rest: asked.append(table.name) or rows_of(table, *rest))
    script.main([*common, "--names", "one", "two", "--resume"])
    assert asked == ["two"]
    records = script.load(out.with_suffix(".csv"), script.Row)
    assert {each.data for each in records} == {"one", "two"}
    assert all(each.violations == -1 and math.isnan(each.truth_loss) for each in records)  # no dense exact GP


def test_the_page_shows_the_stored_rows_and_none_violates_its_ends(script):
    stored = EXAMPLES / "results" / "exact_or_sparse.csv"
    records = script.load(stored, script.Row)
    assert records
    assert script.table(records) in (EXAMPLES / "RESULTS.md").read_text(encoding="utf-8")
    with stored.open(encoding="utf-8") as file:
        assert all(int(row["violations"]) <= 0 for row in csv.DictReader(file))
    assert any(each.violations == 0 for each in records)
