"""Every family of bounds beside trained models: the stored numbers, the counts of the table, and a small run."""

from __future__ import annotations

import gzip
import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch):
    """An example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (EXAMPLES / f"{name}.py").is_file():
            del sys.modules[name]


@pytest.fixture
def stored(example):
    panels = example("family_panels")
    return panels, example("dlm_setting").load(EXAMPLES / "results" / "every_family.csv", panels.Line)


def test_no_stored_truth_is_outside_of_a_bound_that_is_about_it(stored):
    panels, lines = stored
    assert {line.family for line in lines} == set(panels.FAMILIES)
    for pair in panels.COMPARED:
        finite, infinite, outside = panels.counted(lines, pair)
        assert finite > 0
        assert outside == 0 or pair.allowed == "no theorem"
        assert infinite == 0 or pair.family == "fourier"
    text = (EXAMPLES / "RESULTS.md").read_text(encoding="utf-8")
    for pair in panels.COMPARED:
        finite, infinite, outside = panels.counted(lines, pair)
        cells = (pair.family, pair.bound, pair.truth, finite, infinite, outside, pair.allowed)
        assert f"| {' | '.join(map(str, cells))} |" in text
    for family in ("vfe", "renyi"):
        floors = {line.x: line.lower for line in panels.of(lines, family, "floor")}
        truths = [*panels.of(lines, family, "trained"), *panels.of(lines, family, "best of ten draws")]
        assert all(floors[truth.x] < truth.lower <= truth.upper for truth in truths)


def test_means_of_drawn_traces_agree_with_the_exact_mean(stored):
    panels, lines = stored
    exact = {line.x: line.upper for line in panels.of(lines, "traces", "exact mean")}
    draws = panels.of(lines, "traces", "k-DPP draw")
    for M in {line.x for line in draws}:
        values = np.array([line.upper for line in draws if line.x == M])
        error = values.std(ddof=1) / np.sqrt(values.size)
        assert abs(values.mean() - exact[M]) < 4.5 * error  # nine draws: Student's law has wide tails


def test_a_truth_above_its_bound_is_counted(stored):
    panels, lines = stored
    pair = next(each for each in panels.COMPARED if each.family == "hilbert")
    truth = panels.of(lines, "hilbert", "trained")[0]
    bound = panels.of(lines, "hilbert", "bound, after training", truth.model)[0]
    above = replace(truth, upper=1.01 * bound.upper)
    changed = [above if line == truth else line for line in lines]
    assert panels.counted(changed, pair)[2] == panels.counted(lines, pair)[2] + 1


@pytest.mark.slow
def test_a_small_run_draws_every_panel(example, tmp_path, capsys):
    """Of tables with the columns that are needed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.standard_normal(900)
    heads = {"elevators": "a,b,c,y", "cal_housing": "income,age,rooms,y", "abalone": "a,b,c,rings"}
    for name, head in heads.items():
        target = np.rint(np.exp(1.0 + 0.5 * y)) if name == "abalone" else y
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as file:
            np.savetxt(file, np.column_stack([X, target]), delimiter=",", header=head, comments="")
    out = tmp_path / "every_family.png"
    script = example("every_family")
    script.main(["--quick", "--folder", str(tmp_path), "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    panels = example("family_panels")
    lines = example("dlm_setting").load(out.with_suffix(".csv"), panels.Line)
    assert {line.family for line in lines} == set(panels.FAMILIES)
    for pair in panels.COMPARED:
        if pair.allowed == "none":
            assert panels.counted(lines, pair)[2] == 0
    before = out.with_suffix(".csv").read_text(encoding="utf-8")
    script.main(["--draw", "--out", str(out)])
    assert out.with_suffix(".csv").read_text(encoding="utf-8") == before
    assert "best of ten draws" in capsys.readouterr().out
