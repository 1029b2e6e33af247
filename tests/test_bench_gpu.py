"""The benchmark for a GPU runs on the stand-in for CuPy, and says in one sentence where there is no device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(path: list[Path], *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT]))}
    command = [sys.executable, "benchmarks/bench_gpu.py", *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_without_a_device_it_says_so(tmp_path) -> None:
    (tmp_path / "cupy.py").write_text("raise ImportError('none here')", encoding="utf-8")
    ran = run([tmp_path])
    assert ran.returncode == 1
    assert ran.stderr.strip() == (
        "bench_gpu needs a GPU that CuPy can use, but CuPy cannot be imported (ImportError: none here): "
        "nothing was measured."
    )


@pytest.mark.standin
def test_every_line_runs_on_the_stand_in(tmp_path) -> None:
    ran = run([ROOT / "tests" / "standin"], "--tiny", "--json", str(tmp_path / "gpu.json"))
    assert ran.returncode == 0, ran.stderr
    record = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert [timing["case"] for timing in record["timings"]] == ["VFE", "exact GP", "PAC-Bayes bound, FITC", "fit"]
    assert all(timing["median_s"] > 0.0 for timing in record["timings"])
    assert record["product_flops_per_s"] > 0.0


@pytest.mark.standin
def test_the_launches_of_every_model_are_counted() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "standin"), str(ROOT)])}
    command = [sys.executable, "benchmarks/bench_launches.py"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rows = {row[1].strip(): row[3].strip() for row in (line.split("|") for line in ran.stdout.splitlines()[2:])}
    assert len(rows) == 20
    assert set(rows.values()) == {"0, 0", "0.125, 0"}
