"""The study of bounds above VFE: the order of its bounds, its conjugate-gradient bound, its tables and files."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example as a module, with its folder on the path, as for a script."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before = set(sys.modules)
    yield importlib.import_module("structured_bounds")
    for name in set(sys.modules) - before:
        if (EXAMPLES / f"{name}.py").is_file():
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tables with a constant column."""
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        X = rng.uniform(-2.0, 2.0, (150, 2))
        y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.standard_normal(150)
        np.savetxt(tmp_path / f"{name}.csv.gz", np.column_stack([X, np.ones(150), y]), delimiter=",")
    return tmp_path


def test_gaps_fall_from_vfe_to_all_of_the_determinant_and_a_run_goes_on(script: Any, folder: Path, capsys: Any) -> None:
    command = ["gaps", "--quick", "--resume", "--folder", str(folder), "--sets", "one", "two", "--out", str(folder)]
    script.main(command)
    assert (folder / "structured_gaps.png").read_bytes().startswith(b"\x89PNG")
    records = script.load(folder / "structured_gaps.csv", script.Gap)
    for data in ("one", "two"):
        gaps = [next(r.gap for r in records if (r.data, r.method) == (data, rung)) for rung in script.RUNGS]
        assert gaps[0] > gaps[1] > gaps[2] > gaps[-1] > 0.0
        assert gaps[3] == pytest.approx(gaps[-1])  # 90 rows are one block of 200
        assert gaps[4] == pytest.approx(gaps[-1])
    assert f"| one | 90 | {records[0].noise:.3g} | {records[0].gap:.1f} |" in capsys.readouterr().out
    stored = (folder / "structured_gaps.csv").read_bytes()
    script.main(command)
    assert (folder / "structured_gaps.csv").read_bytes() == stored


def test_the_bound_with_conjugate_gradients_is_one_and_has_its_derivatives(
    script: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = script.Job("one", 150, 10, 0, "CG")
    part = script.part_of(job, folder)
    start = np.append(part.kernel.log_parameters, np.log(0.1))
    bound = script.Conjugate(part, part.X[:10])

    def at(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = bound(part.kernel.with_log_parameters(x[:-1]), float(np.exp(x[-1])))
        return float(value), slopes

    loose = at(start)[0]
    monkeypatch.setattr(script, "ENOUGH", 1e-9)  # the part that derivatives leave out is negligible
    value, slopes = at(start)
    assert loose <= value + 1e-9
    assert value < script.evidence(part, part.kernel, 0.1)
    assert value > script.fitting.objective(part.X, part.y).evaluate(part.kernel, 0.1, part.X[:10]).value
    step = np.random.default_rng(0).standard_normal(start.size)
    numeric = (at(start + 1e-5 * step)[0] - at(start - 1e-5 * step)[0]) / 2e-5
    assert slopes @ step == pytest.approx(numeric, rel=1e-5)


def test_tables_of_trained_models_are_differences_on_the_same_splits(script: Any) -> None:
    def record(seed: int, method: str, evidence: float, loss: float) -> Any:
        common = {"data": "one", "rows": 150, "M": 10, "seed": seed, "method": method, "N": 100, "objective": 0.0}
        more = {"RMSE": 0.5, "noise": 0.1, "steps": 10, "seconds": 1.0, "chosen": "blocks"}
        return script.Score(**common, evidence=evidence, NLPD=loss, **more)

    records = [record(seed, "VFE", -100.0 - seed, 1.0 + seed) for seed in range(3)]
    records += [record(seed, "blocks", -90.0 - seed - 1e-3 * seed, 0.9 + seed) for seed in range(2)]
    text = script.of_trained(records)
    assert "| one | -1.010 ± 0.006 |  | **+0.100 ± 0.000** |" in text
    assert "blocks above VFE on 1 of 1 tables, surely on 1, surely below on 0" in text
    assert "| one | 2.000 ± 0.577 |  | **-0.100 ± 0.000** |" in text


def test_a_table_that_is_not_there_is_one_sentence(script: Any, folder: Path, capsys: Any) -> None:
    with pytest.raises(SystemExit, match="2"):
        script.main(["trained", "--folder", str(folder), "--sets", "three", "--out", str(folder)])
    assert "no three.csv.gz" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["gaps", "gaps-exact", "trained", "labels", "conjugate"])
def test_the_page_of_results_shows_the_tables_of_the_csv_files(script: Any, part: str) -> None:
    results = EXAMPLES / "results"
    page = (results / "structured.md").read_text(encoding="utf-8").splitlines()
    records = script.load(results / f"structured_{part.replace('-', '_')}.csv", script.KINDS[part])
    rows = [line for line in script.REPORTS[part](records).splitlines() if line.startswith("| ")]
    assert rows
    assert not set(rows) - set(page)
