"""Certificates of Parquet files from a shell: those of the same rows in a table, and in passes where they are many."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from gpbounds.cli import main, rows
from gpbounds.pacbayes import Certificate
from gpbounds.pacbayes.certificate.rows import fingerprint

pytestmark = pytest.mark.usefixtures("short_pilots")

QUICK = ("--epsilon", 0.6, "--delta", 0.05, "--kernel-lengthscale", "shared", "--grid", -3, 3, 12, "--iterations", 20)
N = 90


def ask(capsys, action, *words):
    form = ("--method", "pac-bayes") if action == "train" else ()
    status = main(["certify", action, *map(str, (*words, *form))])
    out, err = capsys.readouterr()
    return status, out, err


def sentence(err):
    """The last line on stderr: what went wrong."""
    return err.splitlines()[-1]


def train(capsys, *words):
    status, out, err = ask(capsys, "train", *words, "--json")
    assert status == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with a header."""
    place = tmp_path_factory.mktemp("train")
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (N, 2)) * [1.0, 3.0]
    y = np.sin(1.5 * X[:, 0]) + 0.1 * X[:, 1] + 0.15 * rng.standard_normal(N)
    lines = ["a,b,yield", *(",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist())]
    (place / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def in_parquet(folder, place, files=1, rows=None):
    """The table data.csv in a Parquet file, or in a folder of them."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    place.mkdir()
    for i, part in enumerate(np.array_split(values, files)):
        table = arrow.table(dict(zip(("a", "b", "yield"), part.T, strict=True)))
        parquet.write_table(table, place / f"{i}.parquet", row_group_size=rows)
    return place if files > 1 else place / "0.parquet"


SPARSE = (*QUICK[:-1], 3, "--posterior", "fitc", "--inducing", 8)


def test_a_certificate_from_parquet_is_that_of_the_table(capsys, folder, tmp_path):
    """Every bit."""
    train(capsys, folder / "data.csv", *SPARSE, "--out", tmp_path / "csv")
    train(capsys, in_parquet(folder, tmp_path / "parts", 3), *SPARSE, "--out", tmp_path / "parquet")
    made, expected = (Certificate.load(tmp_path / name / "certificate.json") for name in ("parquet", "csv"))
    assert made == expected
    assert made.bound == expected.bound


@pytest.mark.broad
@pytest.mark.parametrize(
    "words",
    [
        pytest.param((), id=""),
        pytest.param(("--target", "a"), marks=pytest.mark.slow, id="target"),
        pytest.param(("--scaling", "split"), id="split"),
    ],
)
def test_large_parquet_files_are_certified_in_passes(capsys, folder, tmp_path, monkeypatch, words):
    """The statement, the rows and their fingerprint are those of the table; no command holds all rows."""
    data = in_parquet(folder, tmp_path / "parts", 3, 20)
    answer = train(capsys, folder / "data.csv", *SPARSE, *words, "--out", tmp_path / "csv")
    expected = Certificate.load(tmp_path / "csv" / "certificate.json")
    monkeypatch.setattr(rows, "HELD", 0)
    monkeypatch.setattr(rows, "read", None)
    monkeypatch.setattr(rows, "read_rows", None)
    result = train(capsys, data, *SPARSE, *words, "--out", tmp_path / "passes")
    made = Certificate.load(tmp_path / "passes" / "certificate.json")
    assert made.data == expected.data
    assert (made.inputs, made.outputs) == (expected.inputs, expected.outputs)
    assert made.bound == pytest.approx(expected.bound, rel=1e-3)  # sums over partitions round otherwise
    assert result["data"]["notes"] == answer["data"]["notes"]
    assert (tmp_path / "passes" / "certificate.png").exists()
    assert ("data" in result["files"]) == bool(words)
    for certificate_file in (tmp_path / "passes" / "certificate.json", tmp_path / "csv" / "certificate.json"):
        certified = result["files"].get("data", data)
        status, out, err = ask(capsys, "check", certificate_file, "--data", certified)
        assert (status, err) == (0, ""), out
    if words:
        monkeypatch.undo()
        kept, own = rows.read(Path(result["files"]["data"])), rows.read(Path(answer["files"]["data"]))
        assert kept.columns == own.columns
        np.testing.assert_array_equal(kept.data[0], own.data[0])
        np.testing.assert_array_equal(kept.data[1], own.data[1])


def test_all_forms_are_certified_in_passes(capsys, folder, tmp_path, monkeypatch):
    """The same rows are drawn, and scaled by the same constants, as of the table, from which each is checked, too."""
    data = in_parquet(folder, tmp_path / "parts", 3, 20)
    words = ("--epsilon", 0.6, "--posterior", "vfe", "--inducing", 8, "--iterations", 3, "--out")
    assert main(["certify", "train", *map(str, (folder / "data.csv", *words, tmp_path / "csv"))]) == 0
    for name in ("read", "read_rows"):
        monkeypatch.setattr(rows, name, None)
    monkeypatch.setattr(rows, "HELD", 0)
    assert main(["certify", "train", *map(str, (data, *words, tmp_path / "passes"))]) == 0
    capsys.readouterr()
    names = sorted(path.name for path in (tmp_path / "csv").glob("*.json"))
    assert sorted(path.name for path in (tmp_path / "passes").glob("*.json")) == names
    assert len(names) == 3
    for name in names:
        made, expected = (Certificate.load(tmp_path / place / name) for place in ("passes", "csv"))
        assert (made.data, made.split, made.method) == (expected.data, expected.split, expected.method)
        np.testing.assert_allclose(made.outputs.scale, expected.outputs.scale, rtol=1e-12)
        assert made.bound == pytest.approx(expected.bound, rel=1e-2)  # sums over partitions round otherwise
        for certified in (data, folder / "data.csv"):
            assert ask(capsys, "check", tmp_path / "passes" / name, "--data", certified)[0] == 0


def test_a_certificate_of_all_rows_reads_parquet_into_memory(capsys, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "HELD", 0)
    train(capsys, folder / "data.csv", *QUICK, "--posterior", "full", "--out", tmp_path / "csv")
    data = in_parquet(folder, tmp_path / "one")
    train(capsys, data, *QUICK, "--posterior", "full", "--out", tmp_path)
    made = Certificate.load(tmp_path / "certificate.json")
    assert made == Certificate.load(tmp_path / "csv" / "certificate.json")
    assert ask(capsys, "check", tmp_path / "certificate.json", "--data", data)[0] == 0


def test_short_floats_are_certified_as_doubles_and_long_numbers_are_refused(capsys, folder, tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1).astype(np.float32)
    path = tmp_path / "short.parquet"
    parquet.write_table(arrow.table(dict(zip("aby", values.T, strict=True))), path)
    for held in (2**29, 0):
        monkeypatch.setattr(rows, "HELD", held)
        answer = train(capsys, path, *SPARSE, "--out", tmp_path)
        made = Certificate.load(tmp_path / "certificate.json")
        assert made.data == fingerprint(values[:, :2].astype(np.float64), values[:, 2].astype(np.float64))
        assert ask(capsys, *shlex.split(answer["check"])[2:])[0] == 0
    parquet.write_table(arrow.table({"a": [1, 2**53], "b": [0.5, 1.5], "y": [1.0, 2.0]}), path)
    for held in (2**29, 0):
        monkeypatch.setattr(rows, "HELD", held)
        status, _, err = ask(capsys, "train", path, *SPARSE, "--out", tmp_path)
        assert status == 2
        assert "whole numbers below 2^53" in sentence(err)
    assert ask(capsys, "check", tmp_path / "certificate.json", "--data", path)[0] == 2
