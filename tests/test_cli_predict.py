"""``gpbounds predict``: what a saved model predicts for a file, to the last digits; no half file; helpful sentences."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fitting
from fitting.study import predicting
from gpbounds.cli import main
from gpbounds.means import LinearMean
from gpbounds.renyi import Model
from gpbounds.renyi.models import InducingLaw
from gpbounds.rows import writing
from gpbounds.rows.table_rows import read_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.usefixtures("short_pilots"),
]
N = 90
QUICK = {"max_iter": 5, "random_state": 0}


def ask(capsys, *words):
    status = main(["predict", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def table(path):
    """The columns of a CSV file by name: numbers with all digits, or texts."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    names, *lines = csv.reader(io.StringIO(text))
    return {name: numbers(cells) for name, cells in zip(names, zip(*lines, strict=True), strict=True)}


def numbers(cells):
    try:
        return [int(cell) if cell.isdecimal() else float(cell) for cell in cells]
    except ValueError:
        return list(cells)


def write(path, header, *columns):
    lines = [header, *(",".join(map(str, row)) for row in zip(*(np.asarray(c).tolist() for c in columns), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def repeated(path, source, times):
    """The rows of ``source``, again and again."""
    header, *lines = source.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([header, *lines * times]) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 6.0, (N, 2)) * [1.0, 50.0]
    f = np.sin(X[:, 0])
    y = 100.0 + 10.0 * f + rng.standard_normal(N)
    return X, y, rng.poisson(np.exp(1.0 + f)), np.where(f > 0.0, "up", "down")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, data):
    """Tables of inputs alone, and of inputs and a target; models."""
    place = tmp_path_factory.mktemp("predict")
    X, y, counts, words = data
    write(place / "inputs.csv", "a,b", *X.T)
    for name, target in (("real", y), ("counts", counts), ("words", words)):
        write(place / f"{name}.csv", "a,b,target", *X.T, target)
    fitting.SparseGP(n_inducing=8, normalize_y=True, **QUICK).fit(X[:60], y[:60]).save(place / "sparse.npz")
    return place


MODELS = {
    "exact": lambda: fitting.ExactGP(normalize_y=True, **QUICK),
    "blocks": lambda: fitting.SparseGP("pic", n_inducing=8, normalize_y=True, **QUICK),
    "low rank": lambda: fitting.LowRankGP(rank=8, normalize_y=True, **QUICK),
    "student": lambda: fitting.VariationalGP(8, likelihood="student-t", normalize_y=True, **QUICK),
    "pac": lambda: fitting.PACGP(scaling="as given", **QUICK),
}


@pytest.mark.parametrize("kind", MODELS)
def test_real_targets_are_predicted_as_by_the_model(capsys, folder, tmp_path, data, kind):
    X, y, *_ = data
    model = MODELS[kind]().fit(X[:60], y[:60])
    model.save(tmp_path / "model.npz")
    out = tmp_path / "p.csv"
    status, printed, err = ask(capsys, tmp_path / "model.npz", folder / "real.csv", "--out", out, "--level", 0.9)
    assert (status, err) == (0, "")
    made = table(out)
    mean, std = getattr(model, "latent", model.predict)(X, return_std=True)
    assert made["row"] == list(range(1, N + 1))
    assert made["target"] == y.tolist()
    assert made["mean"] == mean.tolist()
    assert made["std_f"] == std.tolist()
    for name, end in zip(("low_90", "high_90"), model.predict_interval(X, 0.9), strict=True):
        np.testing.assert_allclose(made[name], end, rtol=1e-13)
    if kind == "student":
        assert "std_y" not in made  # which has infinite variance for few degrees of freedom
    else:
        np.testing.assert_allclose(made["std_y"], model.predict(X, return_std=True, noisy=True)[1], rtol=1e-14)
    for name in made:
        assert f"\n  {name} " in printed


def test_labels_are_words_and_have_a_probability_each(capsys, folder, tmp_path, data):
    X, _, _, words = data
    model = fitting.VariationalGPClassifier(8, **QUICK).set_params(max_iter=30).fit(X[:60], words[:60])
    model.save(tmp_path / "model.npz")
    status, printed, _ = ask(
        capsys, tmp_path / "model.npz", folder / "words.csv", "--out", tmp_path / "p.csv", "--json"
    )
    assert status == 0
    made = table(tmp_path / "p.csv")
    assert list(made) == ["row", "label", "probability_down", "probability_up", "target"]
    assert made["label"] == model.predict(X).tolist()
    for name, expected in zip(("probability_down", "probability_up"), model.predict_proba(X).T, strict=True):
        np.testing.assert_allclose(made[name], expected, rtol=1e-12)
    new = json.loads(printed)["scores"]["new rows"]
    assert new["error"] == pytest.approx(np.mean(model.predict(X[60:]) != words[60:]), abs=1e-12)
    loss = -np.mean(model.predict_log_proba(X[60:])[np.arange(30), (words[60:] == "up").astype(int)])
    assert new["log loss"] == pytest.approx(loss, rel=1e-10)


def test_counts_have_intervals_of_whole_numbers(capsys, folder, tmp_path, data):
    X, _, counts, _ = data
    model = fitting.VariationalGP(8, likelihood="poisson", **QUICK).set_params(max_iter=30)
    model.fit(X, counts).save(tmp_path / "model.npz")
    assert ask(capsys, tmp_path / "model.npz", folder / "counts.csv", "--out", tmp_path / "p.csv")[0] == 0
    made = table(tmp_path / "p.csv")
    np.testing.assert_allclose(made["mean"], model.predict(X), rtol=1e-13)
    for name, end in zip(("low_95", "high_95"), model.predict_interval(X), strict=True):
        assert set(map(type, made[name])) == {int}
        assert made[name] == end.tolist()


def test_a_posterior_without_noise_gives_f_alone_and_says_so(capsys, folder, tmp_path, data):
    X, y, *_ = data
    model = fitting.SparsePACGP(5, posterior="free", epsilon=20.0, **QUICK).set_params(max_iter=20)
    model.fit(X, y).save(tmp_path / "model.npz")
    status, printed, _ = ask(capsys, tmp_path / "model.npz", folder / "real.csv", "--out", tmp_path / "p.csv")
    assert status == 0
    assert list(table(tmp_path / "p.csv")) == ["row", "mean", "std_f", "target"]
    assert "no law of new targets" in " ".join(printed.split())


# From the shell to the end


@pytest.mark.parametrize("model", ["sparse", "classifier"])
def test_train_and_predict_on_the_same_file_agree(capsys, folder, tmp_path, model):
    file = folder / {"sparse": "real.csv", "classifier": "words.csv"}[model]
    words = ("--model", model, "--inducing", "8", "--max-iter", "10", "--seed", "3", "--out", str(tmp_path), "--json")
    assert main(["train", str(file), *words]) == 0
    trained = json.loads(capsys.readouterr().out)
    status, printed, _ = ask(capsys, tmp_path / "model.npz", file, "--out", tmp_path / "p.csv", "--json")
    assert status == 0
    answer = json.loads(printed)
    assert answer["rows of the training"] == trained["data"]["N"]
    assert answer["scores"]["new rows"] == pytest.approx(trained["scores"], rel=1e-12)


def test_certify_train_and_predict_agree_in_the_units_of_the_file(capsys, folder, tmp_path, data):
    words = ("--method", "pac-bayes", "--scaling", "split", "--epsilon", "0.6,1", "--iterations", "5", "--json")
    assert main(["certify", "train", str(folder / "real.csv"), *words, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    for name in ("0.6", "1"):
        assert ask(capsys, tmp_path / f"model-{name}.npz", folder / "inputs.csv", "--out", tmp_path / "p.csv")[0] == 0
        expected = fitting.load(tmp_path / f"model-{name}.npz").predict(data[0])
        assert table(tmp_path / "p.csv")["mean"] == expected.tolist()
        assert 80.0 < expected.mean() < 120.0


# Files


def test_inputs_alone_and_every_format_give_the_same_numbers(capsys, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ask(capsys, folder / "sparse.npz", folder / "inputs.csv")[0] == 0
    expected = table(tmp_path / "predictions.csv")
    assert list(expected) == ["row", "mean", "std_f", "std_y", "low_95", "high_95"]
    with gzip.open("inputs.csv.gz", "wt", encoding="utf-8") as file:
        file.write((folder / "inputs.csv").read_text(encoding="utf-8").partition("\n")[2])
    assert ask(capsys, folder / "sparse.npz", "inputs.csv.gz", "--out", "p.csv.gz")[0] == 0
    assert table(tmp_path / "p.csv.gz") == expected
    parquet = pytest.importorskip("pyarrow.parquet")
    inputs = table(folder / "inputs.csv")
    parquet.write_table(pytest.importorskip("pyarrow").table(inputs), "inputs.parquet")
    assert ask(capsys, folder / "sparse.npz", "inputs.parquet", "--out", "p.parquet")[0] == 0
    assert parquet.read_table("p.parquet").to_pydict() == expected


def test_passes_of_rows_change_no_number(capsys, folder, tmp_path, monkeypatch):
    assert ask(capsys, folder / "sparse.npz", folder / "real.csv", "--out", tmp_path / "one.csv")[0] == 0
    monkeypatch.setattr(predicting, "PASS", 7)
    assert ask(capsys, folder / "sparse.npz", folder / "real.csv", "--out", tmp_path / "many.csv")[0] == 0
    one, many = table(tmp_path / "one.csv"), table(tmp_path / "many.csv")
    assert many["row"] == one["row"]
    for name, values in one.items():
        np.testing.assert_allclose(many[name], values, rtol=1e-12)


def test_stdout_holds_the_table_alone(capsys, folder, tmp_path):
    assert ask(capsys, folder / "sparse.npz", folder / "real.csv", "--out", tmp_path / "p.csv")[0] == 0
    status, out, err = ask(capsys, folder / "sparse.npz", folder / "real.csv", "--out", "-")
    assert status == 0
    assert out == (tmp_path / "p.csv").read_text(encoding="utf-8")
    assert "RMSE" in err
    status, out, err = ask(capsys, folder / "sparse.npz", folder / "real.csv", "--out", "-", "--json")
    assert (status, out) == (2, "")
    assert "both would write to stdout" in err


def test_ctrl_c_leaves_the_earlier_file_and_no_other(capsys, folder, tmp_path, monkeypatch):
    (tmp_path / "p.csv").write_text("before", encoding="utf-8")
    true = predicting.Predictor._columns

    def interrupted(self, X, y, numbers):
        if numbers[0] > 1:
            raise KeyboardInterrupt
        return true(self, X, y, numbers)

    monkeypatch.setattr(predicting, "PASS", 40)
    monkeypatch.setattr(predicting.Predictor, "_columns", interrupted)
    status, out, err = ask(capsys, folder / "sparse.npz", folder / "real.csv", "--out", tmp_path / "p.csv")
    assert (status, out, err) == (130, "", "gpbounds: interrupted\n")
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [("p.csv", "before")]


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_ends_the_command_quietly(folder, tmp_path):
    repeated(tmp_path / "many.csv", folder / "inputs.csv", 300)
    command = [sys.executable, "-m", "gpbounds", "predict", folder / "sparse.npz", tmp_path / "many.csv", "--out", "-"]
    ran = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert ran.stdout is not None
    assert ran.stdout.readline() == b"row,mean,std_f,std_y,low_95,high_95\n"
    ran.stdout.close()
    assert ran.stderr is not None
    assert (ran.wait(), ran.stderr.read()) == (0, b"")
    ran.stderr.close()


# Columns


@pytest.fixture(scope="module")
def flats(tmp_path_factory):
    """A model of a table with words, dates and truth values, which holds its encoding; and the folder."""
    place = tmp_path_factory.mktemp("flats")
    rng = np.random.default_rng(2)
    n = 40
    area, side, lift = rng.uniform(30.0, 90.0, n), rng.choice(["east", "west"], n), rng.choice(["yes", "no"], n)
    when = [f"2024-01-{1 + i % 28:02d}" for i in range(n)]
    rent = 9.0 + 0.1 * area + (side == "east") + 0.1 * rng.standard_normal(n)
    write(
        place / "flats.csv",
        "area,side,when,lift,rent",
        area,
        side,
        when,
        np.where(lift == "yes", "True", "False"),
        rent,
    )
    rows = read_rows(place / "flats.csv")
    model = fitting.ExactGP(normalize_y=True, **QUICK).fit(rows.X, rows.y)
    model.encoding_ = rows.encoding
    model.save(place / "model.npz")
    assert fitting.load(place / "model.npz").encoding_ == rows.encoding
    return place, rows, model


def test_words_dates_and_truth_values_become_the_inputs_of_the_training(capsys, flats, tmp_path):
    place, rows, model = flats
    assert rows.D == 5
    new = ["True", "False"], ["2024-02-01", "2023-12-31"], [50.0, 60.0], ["west", "east"]
    write(tmp_path / "new.csv", "lift,when,area,side", *new)
    assert ask(capsys, place / "model.npz", tmp_path / "new.csv", "--out", tmp_path / "p.csv")[0] == 0
    day = 86400.0
    expected = model.predict([[50.0, 0.0, 1.0, 31 * day, 1.0], [60.0, 1.0, 0.0, -day, 0.0]])
    assert table(tmp_path / "p.csv")["mean"] == expected.tolist()


@pytest.mark.parametrize(
    ("header", "cells", "message"),
    [
        ("area,side,when", ("50", "west", "2024-01-01"), "expected column 'lift' as in the rows for training"),
        ("area,side,when,lift", ("50", "north", "2024-01-01", "True"), "'north'"),
        ("area,side,when,lift", ("50", "west", "yesterday", "True"), "'yesterday'"),
        ("area,side,when,lift", ("large", "west", "2024-01-01", "True"), "'large'"),
        ("area,side,when,lift", ("", "west", "2024-01-01", "True"), "--drop-missing"),
    ],
)
def test_cells_and_columns_that_the_training_did_not_see_are_refused(capsys, flats, tmp_path, header, cells, message):
    write(tmp_path / "new.csv", header, *([cell] for cell in cells))
    err = wrong(capsys, tmp_path, flats[0] / "model.npz", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert message in err


def test_rows_with_missing_inputs_are_left_out_on_request_and_lines_are_told(capsys, flats, tmp_path):
    place, _, model = flats
    lines = [
        "area,side,when,lift,rent",
        "50,west,2024-01-01,True,",
        ",west,2024-01-01,True,9",
        "60,east,2024-01-02,False,8",
    ]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = (place / "model.npz", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    status, out, _ = ask(capsys, *words, "--drop-missing")
    assert status == 0
    made = table(tmp_path / "p.csv")
    assert made["row"] == [2, 4]
    assert "row      line of the row in the file" in out
    assert made["mean"] == model.predict([[50.0, 0.0, 1.0, 0.0, 1.0], [60.0, 1.0, 0.0, 86400.0, 0.0]]).tolist()
    assert "target" not in made  # as one of them is missing
    assert "The targets (rent) are not used" in " ".join(out.split())
    assert "--drop-missing left out 1 of 3 rows" in " ".join(out.split())


def test_columns_of_a_model_that_knows_names_are_found_by_name(capsys, tmp_path, data):
    pandas = pytest.importorskip("pandas")
    X, y, counts, _ = data
    model = fitting.ExactGP(normalize_y=True, **QUICK).fit(pandas.DataFrame(X, columns=["a", "b"]), y)
    model.save(tmp_path / "model.npz")
    write(tmp_path / "one.csv", "b,y,a", X[:, 1], y, X[:, 0])
    write(tmp_path / "more.csv", "b,number,y,a", X[:, 1], counts, y, X[:, 0])
    for words, targets in ((("one.csv",), y), (("more.csv",), None), (("more.csv", "--target", "y"), y)):
        out = tmp_path / "p.csv"
        assert ask(capsys, tmp_path / "model.npz", tmp_path / words[0], *words[1:], "--out", out)[0] == 0
        made = table(out)
        assert made["mean"] == model.predict(pandas.DataFrame(X, columns=["a", "b"])).tolist()
        assert made.get("target") == (None if targets is None else targets.tolist())


@pytest.mark.parametrize("target", ["1", "y"])
def test_the_target_may_stand_anywhere(capsys, folder, tmp_path, data, target):
    X, y, *_ = data
    write(tmp_path / "first.csv", "y,a,b", y, *X.T)
    words = (folder / "sparse.npz", tmp_path / "first.csv", "--target", target, "--out", tmp_path / "p.csv")
    assert ask(capsys, *words)[0] == 0
    made = table(tmp_path / "p.csv")
    assert made["target"] == y.tolist()
    assert made["mean"] == fitting.load(folder / "sparse.npz").predict(X).tolist()


# Sentences


def test_rows_of_the_training_are_told_apart(capsys, folder, tmp_path, data):
    X, y, *_ = data
    status, out, _ = ask(capsys, folder / "sparse.npz", folder / "real.csv", "--out", tmp_path / "p.csv", "--json")
    assert status == 0
    answer = json.loads(out)
    assert answer["rows of the training"] == 60
    model = fitting.load(folder / "sparse.npz")
    for group, rows in (("all rows", slice(None)), ("new rows", slice(60, None))):
        error = np.sqrt(np.mean((model.predict(X[rows]) - y[rows]) ** 2))
        assert answer["scores"][group]["RMSE"] == pytest.approx(error, rel=1e-12)
    low, high = model.predict_interval(X[60:])
    covered = np.mean((low <= y[60:]) & (y[60:] <= high))
    assert answer["scores"]["new rows"]["coverage of 95 % intervals"] == covered


def test_a_certificate_names_its_model(capsys, folder, tmp_path, data):
    X, y, *_ = data
    model = fitting.PACGP(epsilon=20.0).fit(X, y)
    model.certificate_.save(tmp_path / "certificate-20.json")
    lost = ask(capsys, tmp_path / "certificate-20.json", folder / "inputs.csv")
    model.save(tmp_path / "model-20.npz")
    status, _, err = ask(capsys, tmp_path / "certificate-20.json", folder / "inputs.csv")
    assert status == lost[0] == 2
    assert err.startswith("gpbounds: MODEL: expected a model that save wrote (.npz), got a risk certificate in ")
    assert err.endswith(f"its model is in '{tmp_path / 'model-20.npz'}'\n")
    assert lost[2].endswith("its model is in another file, .npz\n")
    with pytest.raises(ValueError, match=r"got a risk certificate .* its model is in '.*model-20.npz'"):
        fitting.load(tmp_path / "certificate-20.json")


def test_an_svgp_of_another_library_predicts_and_a_model_without_q_does_not(capsys, folder, tmp_path, data):
    X, y, *_ = data
    trained = fitting.VariationalGP(8, **QUICK).fit(X, y)
    C, mean = trained.posterior_.q.factor, trained.posterior_.q.mean[:, 0]
    law = InducingLaw(mean, np.tril(C) * np.sign(np.diag(C)), True, trained.posterior_.inducing.chol.jitter)
    own = {"kernel": trained.kernel_, "noise": trained.likelihood_.noise, "Z": trained.inducing_}
    Model(**own, mean=LinearMean(2.0), q=law).save(tmp_path / "svgp.json")
    Model(**own).save(tmp_path / "sgpr.json")
    assert ask(capsys, tmp_path / "svgp.json", folder / "inputs.csv", "--out", tmp_path / "p.csv")[0] == 0
    made = table(tmp_path / "p.csv")
    mean, std = trained.latent(X, return_std=True)
    np.testing.assert_allclose(made["mean"], mean + 2.0, rtol=1e-9)
    np.testing.assert_allclose(made["std_f"], std, rtol=1e-7)
    (tmp_path / "p.csv").unlink()
    err = wrong(capsys, tmp_path, tmp_path / "sgpr.json", folder / "inputs.csv", "--out", tmp_path / "p.csv")
    assert "the rows for training, which the file does not hold" in err


def wrong(capsys, tmp_path, *words):
    status, out, err = ask(capsys, *words)
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "p.csv").exists()
    return err


def test_files_of_another_width_or_kind_are_refused_in_one_sentence(capsys, folder, tmp_path, data):
    out = ("--out", tmp_path / "p.csv")
    model = folder / "sparse.npz"
    wide = tmp_path / "wide.csv"
    X, y, counts, _ = data
    write(wide, "a,b,more,most,y", *X.T, counts, counts, y)
    err = wrong(capsys, tmp_path, model, wide, *out)
    assert "expected 3 columns as in the rows for training of the model, got 5" in err
    assert "expected a model written by fitting" in wrong(capsys, tmp_path, wide, wide, *out)
    assert "No such file" in wrong(capsys, tmp_path, model, tmp_path / "none.csv", *out)
    two = fitting.SparseGP(n_inducing=5, **QUICK)
    two.set_params(optimizer=None).fit(X, X).save(tmp_path / "two.npz")
    assert "one target, got one of 2" in wrong(capsys, tmp_path, tmp_path / "two.npz", wide, *out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--level", "1"), "--level: expected a probability between 0 and 1, got 1"),
        (("--out", "p.txt"), "--out: expected a name that ends in .csv, .csv.gz, .parquet, or -, got p.txt"),
        (("--out", "missing/p.csv"), "--out: expected a file in a folder that exists"),
        (("--target", "c"), "--target: expected"),
    ],
)
def test_options_without_sense_are_refused(capsys, folder, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in wrong(capsys, tmp_path, folder / "sparse.npz", folder / "real.csv", *words)


def test_no_input_is_overwritten(capsys, folder, tmp_path):
    (tmp_path / "p.csv").write_bytes((folder / "inputs.csv").read_bytes())
    status, _, err = ask(capsys, folder / "sparse.npz", tmp_path / "p.csv", "--out", tmp_path / "p.csv")
    assert status == 2
    assert "would overwrite" in err
    assert (tmp_path / "p.csv").read_bytes() == (folder / "inputs.csv").read_bytes()


# The writer


def test_texts_and_numbers_that_are_not_known_are_left_empty():
    stream = io.StringIO()
    write = writing.csv_on(stream)
    write({"a": np.array([1, 2]), "b": np.array(["x, y", ""]), "c": np.array([np.nan, 0.1])})
    write({"a": np.array([3]), "b": np.array(['"']), "c": np.array([1e300])})
    assert stream.getvalue() == 'a,b,c\n1,"x, y",\n2,,0.1\n3,"""",1e+300\n'


@pytest.mark.slow
def test_a_killed_command_leaves_no_half_file(folder, tmp_path):
    repeated(tmp_path / "many.csv", folder / "inputs.csv", 3000)
    command = ["predict", str(folder / "sparse.npz"), str(tmp_path / "many.csv"), "--out", str(tmp_path / "p.csv")]
    ran = subprocess.Popen([sys.executable, "-m", "gpbounds", *command], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60.0
    while ran.poll() is None and not list(tmp_path.glob("*.part")) and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(ran.pid, signal.SIGTERM)
    status = ran.wait()
    assert status in (0, 143)
    assert not list(tmp_path.glob("*.part"))
    assert (tmp_path / "p.csv").exists() == (status == 0)
