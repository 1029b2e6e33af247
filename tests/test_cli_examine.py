"""``gpbounds examine``: the library's numbers, from an imported model, a saved one, and tables of claims."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import fitting
from gpbounds.cli import main
from gpbounds.kernels import SquaredExponential
from gpbounds.means import LinearMean
from gpbounds.renyi import Model, log_evidence


def ask(capsys, *words):
    status = main(["examine", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def answer(capsys, *words):
    status, out, err = ask(capsys, *words, "--json")
    assert status == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 40 rows, an imported model of them, a saved exact GP of 30 of them, and claims."""
    place = tmp_path_factory.mktemp("examine")
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (40, 2))
    y = 5.0 + np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(40)
    for name, columns in (("rows", (X, y)), ("new", (X[:7] + 0.1,))):
        header = "a,b,yield" if name == "rows" else "a,b"
        np.savetxt(place / f"{name}.csv", np.column_stack(columns), delimiter=",", header=header, comments="")
    Model(SquaredExponential(1.0, [1.2, 1.2]), 0.01, None, LinearMean(5.0)).save(place / "model.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitting.ExactGP(normalize_y=True, max_iter=5, random_state=0).fit(X[:30], y[:30]).save(place / "exact.npz")
    (place / "truth").write_text(
        repr(log_evidence(SquaredExponential(1.0, 1.2), X, y - 5.0, noise=0.01)), encoding="utf-8"
    )
    return place


@pytest.fixture
def here(folder, tmp_path, monkeypatch):
    """An empty folder for the page, as the working directory."""
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_right_claim_and_a_wrong_one(capsys, here):
    truth = float((here / "truth").read_text(encoding="utf-8"))
    model = here / "model.json", here / "rows.csv"
    right = answer(capsys, *model, "--claimed-evidence", truth)
    assert right["evidence"]["verdict"] == "inside"
    low, high = right["evidence"]["log p(y)"]
    assert low <= truth <= high
    wrong = answer(capsys, *model, "--claimed-evidence", truth + 3.0, "--claimed-jitter", "1e-6", "--dtype", "float32")
    assert wrong["evidence"]["verdict"] == "above"
    assert wrong["evidence"]["error"][0] <= 3.0 <= wrong["evidence"]["error"][1]
    assert [each["cause"] for each in wrong["causes"]["evidence"]] == ["jitter", "dtype", "solver"]
    assert answer(capsys, *model, "--claimed-evidence", truth / 40, "--per-row")["evidence"]["verdict"] == "inside"
    status, out, _ = ask(capsys, *model, "--claimed-evidence", -truth)
    assert status == 0
    assert "As the negative of log p(y) it is right" in " ".join(out.split())
    assert "Saved examined.html" in out


def test_what_predict_writes_is_right(capsys, here):
    """The predictions of a saved exact GP, by `gpbounds predict`, are those of its exact GP; the model has its rows."""
    assert main(["predict", str(here / "exact.npz"), str(here / "rows.csv"), "--out", "said.csv"]) == 0
    capsys.readouterr()
    stated = answer(capsys, here / "exact.npz", here / "rows.csv", "--claimed-predictions", "said.csv")
    assert (stated["predictions"]["points"], stated["predictions"]["outside"]) == (40, 0)
    noisy = answer(capsys, here / "exact.npz", here / "rows.csv", "--claimed-predictions", "said.csv", "--noisy")
    assert (noisy["predictions"]["outside"], noisy["predictions"]["of new targets"]) == (0, True)
    assert main(["predict", str(here / "exact.npz"), str(here / "new.csv"), "--out", "said.csv"]) == 0
    capsys.readouterr()
    words = ["--claimed-predictions", "said.csv", "--test", here / "new.csv"]
    stated = answer(capsys, here / "exact.npz", *words)
    assert (stated["predictions"]["points"], stated["predictions"]["outside"]) == (7, 0)
    assert stated["data"]["N"] == 30
    lines = (here / "new.csv").read_text(encoding="utf-8").split()
    made = np.loadtxt("said.csv", delimiter=",", skiprows=1)
    made[3, 1] += 1.0
    said = [",".join(map(repr, map(float, row[1:3]))) for row in made]
    with open("points.csv", "w", encoding="utf-8") as file:
        file.write("\n".join(f"{left},{right}" for left, right in zip(lines, ["mean,std", *said], strict=True)) + "\n")
    named = answer(capsys, here / "exact.npz", here / "rows.csv", "--claimed-predictions", "points.csv")
    assert named["predictions"]["outside"] == 1
    assert named["predictions"]["worst mean"]["row"] == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.json", "rows.csv"], "expected at least one claim"),
        (["model.json", "--claimed-evidence", "1"], "FILE: expected the rows that"),
        (["rows.csv", "--claimed-evidence", "1"], "MODEL: expected a file .npz or .json"),
        (
            ["model.json", "rows.csv", "--claimed-evidence", "1", "--claimed-jitter", "-1"],
            "--claimed-jitter: expected a number >= 0",
        ),
        (["model.json", "rows.csv", "--claimed-evidence", "1", "--noisy"], "--noisy: expected --claimed-predictions"),
        (["model.json", "rows.csv", "--claimed-predictions", "new.csv"], "a header with the column mean"),
        (["model.json", "new.csv", "--claimed-evidence", "1"], "does not fit new"),
        (["model.json", "rows.csv", "--claimed-evidence", "1", "--out", "page.txt"], "--out: expected a name"),
        (["exact.npz", "new.csv", "--claimed-evidence", "1"], "new"),
    ],
)
def test_wrong_words_are_answered_in_one_sentence(capsys, here, words, message):
    given = [here / word if "." in word and not word.startswith("page") else word for word in words]
    status, out, err = ask(capsys, *given)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
