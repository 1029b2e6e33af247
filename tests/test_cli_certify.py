"""Checking a certificate from a shell: what it prints, and its exit status."""

from __future__ import annotations

import dataclasses
import gzip
import json

import numpy as np
import pytest

from gpbounds import SquaredExponential
from gpbounds.cli import main
from gpbounds.losses import Band
from gpbounds.pacbayes import Certificate, Exact, HyperGrid, Scaling, issue_certificate
from gpbounds.pacbayes.certificate.rows import raw

GRID = HyperGrid.shared(-3.0, 3.0, 60)


def make(X, y, **changes):
    arguments = {"grid": GRID, "loss": Band(0.5), "delta": 0.05, **changes}
    return issue_certificate(X, y, SquaredExponential(1.1, 0.6), lambda *_: Exact(0.2), **arguments)


def ask(capsys, *words):
    status = main(["certify", "check", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, plain and gzipped, and a certificate of it whose target is scaled by constants fixed in advance."""
    place = tmp_path_factory.mktemp("certify")
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    y = 7.0 + 3.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(60)
    rows = ["a,b,target", *(",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist())]
    (place / "data.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    with gzip.open(place / "data.csv.gz", "wt") as file:
        file.write("\n".join(rows) + "\n")
    (place / "shuffled.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n", encoding="utf-8")
    (place / "text.csv").write_text("1,2,x\n3,4,y\n", encoding="utf-8")
    (place / "column.csv").write_text("1\n2\n", encoding="utf-8")
    certificate = make(X, y, outputs=Scaling("fixed in advance", 7.0, 3.0))
    certificate.save(place / "c.json")
    dataclasses.replace(certificate, bound=0.9 * certificate.bound).sealed().save(place / "forged.json")
    make(X, y, outputs=Scaling("same data", y.mean(), y.std()), nonrigorous=True).save(place / "nonrigorous.json")
    return place


@pytest.mark.parametrize("data", ["data.csv", "data.csv.gz"])
def test_a_certificate_is_confirmed_from_the_raw_table(capsys, folder, data):
    status, out, err = ask(capsys, folder / "c.json", "--data", folder / data)
    assert (status, err) == (0, ""), out
    lines = out.splitlines()
    assert lines[0].startswith("declared  scaling     Inputs were taken as given")
    assert "shift 7, scale 3" in " ".join(out.split())
    assert lines[-1] == "CONFIRMED, given the declarations."
    assert "FAILED" not in out


def test_a_certificate_is_confirmed_from_parquet_files(capsys, folder, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    table = arrow.table(dict(zip(("a", "b", "target"), values.T, strict=True)))
    parts = tmp_path / "parts"
    parts.mkdir()
    parquet.write_table(table, tmp_path / "data.parquet")
    for i, start in enumerate((0, 17)):
        parquet.write_table(table.slice(start, (17, 43)[i]), parts / f"{i}.parquet")
    for data in (tmp_path / "data.parquet", parts):
        status, out, err = ask(capsys, folder / "c.json", "--data", data)
        assert (status, err) == (0, ""), out
    assert Certificate.load(folder / "c.json").data == raw(parts, "target").fingerprint


@pytest.mark.parametrize(
    ("certificate", "data", "line"), [("forged.json", "data.csv", "bound"), ("c.json", "shuffled.csv", "data")]
)
def test_what_is_not_confirmed_exits_with_1_and_names_the_line(capsys, folder, certificate, data, line):
    status, out, _ = ask(capsys, folder / certificate, "--data", folder / data)
    assert status == 1
    assert out.splitlines()[-1] == f"NOT CONFIRMED: {line} failed."
    assert f"FAILED    {line}" in out


def test_a_non_rigorous_certificate_says_so_first_and_does_not_pass(capsys, folder):
    status, out, _ = ask(capsys, folder / "nonrigorous.json", "--data", folder / "data.csv")
    assert status == 1
    assert out.startswith("NOT RIGOROUS")
    assert "FAILED" not in out


def test_the_report_as_json(capsys, folder):
    status, out, _ = ask(capsys, folder / "c.json", "--data", folder / "data.csv", "--json")
    report = json.loads(out)
    assert status == 0
    assert report["confirmed"] is True
    assert report["rigorous"] is True
    bound = next(line for line in report["lines"] if line["name"] == "bound")
    assert bound["state"] == "confirmed"
    assert repr(Certificate.load(folder / "c.json").bound) in bound["text"]
    status, out, _ = ask(capsys, folder / "forged.json", "--data", folder / "data.csv", "--json")
    assert status == 1
    assert json.loads(out)["confirmed"] is False


def test_a_proof_says_how_much_the_bound_moves(capsys, folder):
    status, out, err = ask(capsys, folder / "c.json", "--data", folder / "data.csv", "--rigorous")
    assert (status, err) == (0, ""), out
    words = " ".join(out.split())
    assert "ok kl proof KL(Q‖P) is between " in words
    assert "given the declarations: the bound moves by -" in words
    assert out.splitlines()[-1] == "CONFIRMED, given the declarations."
    status, out, _ = ask(capsys, folder / "forged.json", "--data", folder / "data.csv", "--rigorous", "--json")
    report = json.loads(out)
    assert status == 1
    assert report["proved"]["bound"] > Certificate.load(folder / "forged.json").bound
    states = {line["name"]: line["state"] for line in report["lines"]}
    assert (states["bound"], states["proof"]) == ("failed", "failed")


@pytest.mark.parametrize(
    ("certificate", "data", "words"),
    [
        ("nothing.json", "data.csv", "nothing.json: No such file"),
        ("c.json", "nothing.csv", "nothing.csv: No such file"),
        ("data.csv", "data.csv", "expected a certificate in JSON"),
        ("c.json", "text.csv", "expected numbers, got 'y'"),
        ("c.json", "column.csv", "expected at least two columns"),
    ],
)
def test_questions_without_an_answer_exit_with_2_and_one_sentence(capsys, folder, certificate, data, words):
    status, out, err = ask(capsys, folder / certificate, "--data", folder / data)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["certify"], ["certify", "check"], ["certify", "check", "c.json"], ["certify", "sign"]]
)
def test_incomplete_commands_are_refused(capsys, words):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("gpbounds: ")


def test_help_says_what_the_exit_status_means(capsys):
    assert main(["certify", "check", "--help"]) == 0
    assert "Exit status: 0 confirmed; 1" in capsys.readouterr().out
