"""``gpbounds audit``: a page for a saved model or a new one, the library's numbers, and one sentence for errors."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest

import fitting
from fitting.study.auditing import AuditQuestion
from gpbounds.audit import calibration, enough, subject
from gpbounds.cli import audit, build_parser, main
from gpbounds.kernels import SquaredExponential
from gpbounds.means import LinearMean
from gpbounds.renyi import InducingLaw, Model, exact_gap, from_sklearn, log_evidence, predict, variational_bound

pytestmark = pytest.mark.usefixtures("short_pilots")

N = 90


def ask(capsys, *words):
    status = main(["audit", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def answer(capsys, *words):
    status, out, err = ask(capsys, *words, "--json")
    assert status == 0, err
    return json.loads(out)


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of 90 rows, and models trained on 70 of them."""
    place = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(-2.0, 2.0, N), rng.uniform(100.0, 104.0, N)])
    y = 50.0 + 10.0 * (np.sin(1.5 * X[:, 0]) + 0.3 * (X[:, 1] - 102.0)) + 2.0 * rng.standard_normal(N)
    table = np.column_stack([X, y])
    lines = ["a,b,yield", *(",".join(map(repr, row)) for row in table.tolist())]
    (place / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (place / "part.csv").write_text("\n".join(lines[:50]) + "\n", encoding="utf-8")
    (place / "one.csv").write_text("\n".join(line.partition(",")[2] for line in lines) + "\n", encoding="utf-8")
    (place / "nan.csv").write_text("\n".join([*lines, "1,nan,2"]) + "\n", encoding="utf-8")
    chosen = np.sort(rng.permutation(N)[:70])
    kinds = {
        "sparse": fitting.SparseGP("vfe", n_inducing=6, max_iter=20, normalize_y=True, random_state=0),
        "fitc": fitting.SparseGP("fitc", n_inducing=6, max_iter=10, normalize_y=True, random_state=0),
        "pic": fitting.SparseGP("pic", n_inducing=6, max_iter=3, block_size=20, normalize_y=True, random_state=0),
        "exact": fitting.ExactGP(max_iter=10, normalize_y=True, random_state=0),
        "student": fitting.VariationalGP(likelihood="student-t", n_inducing=6, max_iter=1, random_state=0),
    }
    for name, model in kinds.items():
        fitted(model, X[chosen], y[chosen]).save(place / f"{name}.npz")
    fitted(fitting.SparseGP(n_inducing=6, max_iter=5, normalize_y=True), X, y).save(place / "all.npz")
    Model(SquaredExponential(), 0.1, np.zeros((2, 3))).save(place / "wide.json")
    (place / "other.json").write_text("[1, 2]", encoding="utf-8")
    return place


def law_of(model):
    """Mean and covariance of the inducing variables under the model's posterior."""
    L, q = model.posterior_.inducing.chol.L, model.posterior_.q
    return L @ q.mean, L @ q.covariance @ L.T


@pytest.fixture(scope="module")
def reference(folder):
    """The model, its training rows and the rows held out, all by other means."""
    model = fitting.load(folder / "sparse.npz")
    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    held = [i for i in range(N) if not (model.X_train_ == table[i, :2]).all(axis=1).any()]
    return model, table, np.array(held)


def test_a_saved_model_is_audited_with_the_numbers_of_the_library(folder, reference, tmp_path, capsys):
    model, table, held = reference
    page = tmp_path / "page.html"
    record = answer(
        capsys,
        folder / "data.csv",
        "--model",
        folder / "sparse.npz",
        "--out",
        page,
        "--nats",
        0.1,
        "--certificate",
        5,
    )
    about = subject(model.kernel_, model.X_train_, model.y_train_, model.inducing_, noise=model.noise_)
    expected = enough(about, target=0.1)
    assert [end["value"] for end in record["enough"]["KL"]] == pytest.approx(list(map(float, expected.divergence)))
    assert record["enough"]["suffices"] == expected.suffices
    square = float(model.y_scale_[0]) ** 2
    assert record["model"]["noise"] == pytest.approx(square * model.noise_)
    assert record["model"]["kernel"]["variance"] == pytest.approx(square * model.kernel_.variance)
    gap = exact_gap(model.kernel_, model.X_train_, model.y_train_, model.inducing_, 1.0, noise=model.noise_)
    low, high = (end["value"] for end in record["enough"]["KL"])
    assert low <= gap <= high
    mean, std = model.predict(table[held, :2], return_std=True, noisy=True)
    scores = calibration(table[held, 2], mean, std**2)
    assert len(held) == 20
    assert record["calibration"]["rows"] == 20
    assert record["calibration"]["RMSE"] == pytest.approx(scores.rmse)
    assert record["calibration"]["log loss"] == pytest.approx(scores.log_loss)
    assert [each["share"] for each in record["calibration"]["coverage"]] == [each.share for each in scores.coverage]
    assert 0.0 < record["risk"]["risk"] < record["risk"]["bound"]["value"] <= 1.0
    rows = [each["row"] for each in record["places"]["worst"]]
    for number, each in zip(rows, record["places"]["worst"], strict=True):
        assert table[number - 1, :2].tolist() == each["x"]
    assert [each["name"] for each in record["hyperparameters"]] == [
        "variance",
        "lengthscale[a]",
        "lengthscale[b]",
        "noise",
    ]
    assert record["out"] == str(page)
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_report_says_the_verdict_and_where_the_page_is(folder, tmp_path, capsys):
    status, out, err = ask(
        capsys, folder / "data.csv", "--model", folder / "sparse.npz", "--out", tmp_path / "a.html", "--nats", 1e-3
    )
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    assert "M = 6 is not enough for 0.001 nats" in text
    assert "target yield, 70 training rows" in text
    most = re.search(r"with this kernel and noise (\d+) .*?would do", text)[1]
    keep = f"gpbounds train {folder / 'data.csv'} --keep-kernel {folder / 'sparse.npz'} --inducing {most}"
    assert f"keep both by {keep}, or let M grow along by gpbounds train {folder / 'data.csv'} --inducing auto" in text
    assert f"Saved {tmp_path / 'a.html'}" in out
    assert re.search(r"Intervals of 95 % cover [\d.]+ % of 20 held-out targets", " ".join(out.split()))


def test_a_new_model_is_trained_with_the_number_asked_for(folder, tmp_path, capsys):
    words = (folder / "data.csv", "--target", "yield", "--inducing", 7, "--out", tmp_path / "a.html")
    record = answer(capsys, *words)
    assert record["model"]["M"] == 7
    assert record["data"] == {"name": "data", "N": 72, "D": 2, "inputs": ["a", "b"], "target": "yield"}
    assert record["calibration"]["rows"] == 18
    assert record == answer(capsys, *words)


def test_models_that_predict_otherwise_say_so_and_exact_ones_need_no_points(folder, tmp_path, capsys):
    words = (folder / "data.csv", "--out", tmp_path / "a.html", "--model")
    model = fitting.load(folder / "fitc.npz")
    record = answer(capsys, *words, folder / "fitc.npz")
    assert any("Method fitc counts unexplained variance as noise" in note for note in record["notes"])
    record = record["enough"]
    mean, covariance = (np.ravel(part) if i == 0 else part for i, part in enumerate(law_of(model)))
    data = (model.kernel_, model.X_train_, model.y_train_, model.inducing_)
    bound = variational_bound(*data, mean, covariance, noise=model.noise_, jitter=model.jitter_)
    truth = log_evidence(*data[:3], noise=model.noise_) - float(bound)
    low, high = (end["value"] for end in record["KL"])
    assert low - 1e-6 <= truth <= high + 1e-6
    assert record["excess"] > 0.0
    assert answer(capsys, *words, folder / "sparse.npz")["enough"]["excess"] == 0.0
    pic = answer(capsys, *words, folder / "pic.npz")
    assert any("not given by its inducing points alone" in note for note in pic["notes"])
    record = answer(capsys, *words, folder / "exact.npz")
    assert record["enough"]["verdict"] == "no inducing points"
    assert record["enough"]["suffices"] >= record["enough"]["needed"]
    assert record["places"] is None


def test_without_rows_held_out_the_other_sections_remain(folder, tmp_path, capsys):
    words = ("--model", folder / "all.npz", "--out", tmp_path / "a.html", "--certificate", 3)
    record = answer(capsys, folder / "data.csv", *words)
    assert record["calibration"] is None
    assert record["risk"] is None
    assert record["enough"]["verdict"] in ("enough", "not enough")
    assert sum("is missing" in note for note in record["notes"]) == 2


def test_ctrl_c_leaves_the_page_with_what_was_computed(folder, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpbounds.audit.places", interrupted)
    words = (folder / "data.csv", "--model", folder / "sparse.npz", "--out", tmp_path / "a.html", "--json")
    status, out, _ = ask(capsys, *words)
    record = json.loads(out)
    assert status == 130
    assert record["enough"]["verdict"]
    assert record["calibration"] is None
    assert any("Interrupted; not computed: where it is worst, calibration" in note for note in record["notes"])
    assert 'id="enough"' in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_parquet_files_and_folders_give_the_same_record(folder, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    from gpbounds.rows.tables import write_table

    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    (tmp_path / "data").mkdir()
    write_table(tmp_path / "data.parquet", ["a", "b", "yield"], [table])
    for i, part in enumerate((table[:40], table[40:])):
        write_table(tmp_path / "data" / f"{i}.parquet", ["a", "b", "yield"], [part])
    words = ("--model", folder / "sparse.npz", "--out", tmp_path / "a.html")
    expected = _but_for_commands(answer(capsys, folder / "data.csv", *words))
    for name in ("data.parquet", "data"):
        assert _but_for_commands(answer(capsys, tmp_path / name, *words)) == expected


def _but_for_commands(record):
    """The record without the commands that it proposes, which name its file."""
    again = record.pop("again")
    for each in record["findings"]:
        each["text"] = each["text"].replace(again, "")
    return record


def test_the_former_name_of_the_level_is_read_and_told(folder, tmp_path, capsys):
    words = (folder / "data.csv", "--model", folder / "sparse.npz", "--out", tmp_path / "a.html", "--json")
    status, out, err = ask(capsys, *words, "--enough", 0.1)
    assert (status, err) == (0, "gpbounds audit: --enough is now called --nats\n")
    assert json.loads(out) == answer(capsys, *words[:-1], "--nats", 0.1)


def test_all_rows_may_be_those_of_training_and_a_test_file_holds_the_others(folder, tmp_path, capsys):
    """Coverage is that on the test rows; the divergence is that of all rows of the table."""
    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    lines = (folder / "data.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    for name, part in (("train", lines[1:71]), ("test", lines[71:])):
        (tmp_path / f"{name}.csv").write_text("".join([lines[0], *part]), encoding="utf-8")
    kernel, Z = SquaredExponential(100.0, [1.0, 2.0]), table[:8, :2]
    Model(kernel, 4.0, Z, LinearMean(50.0)).save(tmp_path / "model.json")
    words = (tmp_path / "train.csv", "--model", tmp_path / "model.json", "--out", tmp_path / "a.html")
    alone = answer(capsys, *words)
    assert (alone["data"]["N"], alone["calibration"]) == (70, None)
    assert any("pass rows that were not used in training, --test, or a share" in note for note in alone["notes"])
    record = answer(capsys, *words, "--test", tmp_path / "test.csv")
    assert record["enough"] == alone["enough"]
    mean, variance = predict(
        kernel, table[:70, :2], table[:70, 2] - 50.0, Z, table[70:, :2], 1.0, noise=4.0, noisy=True
    )
    scores = calibration(table[70:, 2], mean + 50.0, variance)
    assert record["calibration"]["rows"] == 20
    assert record["calibration"]["log loss"] == pytest.approx(scores.log_loss)
    new = answer(capsys, words[0], "--inducing", 5, "--test", tmp_path / "test.csv", "--out", tmp_path / "a.html")
    assert (new["data"]["N"], new["calibration"]["rows"]) == (70, 20)
    new = answer(capsys, words[0], "--inducing", 5, "--held-out", 0, "--out", tmp_path / "a.html")
    assert (new["data"]["N"], new["calibration"]) == (70, None)


def test_the_own_posterior_of_an_imported_model_is_audited(folder, tmp_path, capsys):
    """log p(y) − ELBO of its q(u) is the divergence; without q(u) it is that of the best one."""
    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    X, y, Z = table[:, :2], table[:, 2] - 50.0, table[:8, :2]
    kernel = SquaredExponential(100.0, [1.0, 2.0])
    rng = np.random.default_rng(0)
    law = InducingLaw(4.0 * rng.standard_normal(8), np.eye(8) + np.tril(rng.uniform(size=(8, 8)), -1), False, 1e-6)
    Model(kernel, 4.0, Z, LinearMean(50.0), law).save(tmp_path / "model.json")
    words = (folder / "data.csv", "--model", tmp_path / "model.json", "--out", tmp_path / "a.html")
    record = answer(capsys, *words)["enough"]
    covariance = law.factor @ law.factor.T
    bound = variational_bound(kernel, X, y, Z, law.mean, covariance, noise=4.0, jitter=1e-6)
    own = log_evidence(kernel, X, y, noise=4.0) - float(bound)
    low, high = (end["value"] for end in record["KL"])
    assert low - 1e-6 <= own <= high + 1e-6
    assert record["excess"] == pytest.approx(own - exact_gap(kernel, X, y, Z, 1.0, noise=4.0), rel=1e-6)
    Model(kernel, 4.0, Z, LinearMean(50.0)).save(tmp_path / "model.json")
    assert answer(capsys, *words)["enough"]["excess"] == 0.0


def test_a_model_of_another_library_is_read_from_json(folder, tmp_path, capsys):
    """scikit-learn's posterior at the held-out rows is that of the audit, for a model without inducing points."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    regressor = GaussianProcessRegressor(900.0 * RBF([1.0, 2.0]) + WhiteKernel(4.0), optimizer=None)
    from_sklearn(regressor.fit(table[:, :2], table[:, 2])).save(tmp_path / "model.json")
    words = (folder / "data.csv", "--model", tmp_path / "model.json", "--out", tmp_path / "a.html")
    record = answer(capsys, *words, "--held-out", 0.2)
    assert record["enough"]["verdict"] == "no inducing points"
    train, held = (np.sort(part) for part in np.split(np.random.default_rng(0).permutation(N)[::-1], [72]))
    regressor.fit(table[train, :2], table[train, 2])
    expected = regressor.log_marginal_likelihood_value_
    assert record["enough"]["evidence"][0]["value"] == pytest.approx(expected, rel=1e-6)
    mean, std = regressor.predict(table[held, :2], return_std=True)
    scores = calibration(table[held, 2], mean, std**2)
    assert record["calibration"]["RMSE"] == pytest.approx(scores.rmse, rel=1e-6)
    assert record["calibration"]["log loss"] == pytest.approx(scores.log_loss, rel=1e-6)


def test_a_mean_function_is_subtracted_and_added_again(folder, tmp_path, capsys):
    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    train, held = (np.sort(part) for part in np.split(np.random.default_rng(0).permutation(N)[::-1], [72]))
    kernel, mean = SquaredExponential(100.0, [1.0, 2.0]), LinearMean(40.0, [0.5, 0.1])
    model = Model(kernel, 4.0, table[:8, :2], mean)
    model.save(tmp_path / "model.json")
    words = (folder / "data.csv", "--model", tmp_path / "model.json", "--out", tmp_path / "a.html")
    record = answer(capsys, *words, "--held-out", 0.2)
    assert record["model"]["M"] == 8
    X, y = table[train, :2], model.residuals(table[train, :2], table[train, 2])
    gap = exact_gap(kernel, X, y, table[:8, :2], 1.0, noise=4.0)
    low, high = (end["value"] for end in record["enough"]["KL"])
    assert low <= gap <= high
    centre, variance = predict(kernel, X, y, table[:8, :2], table[held, :2], 1.0, noise=4.0, noisy=True)
    scores = calibration(table[held, 2], centre + mean(table[held, :2]), variance)
    assert record["calibration"]["RMSE"] == pytest.approx(scores.rmse)
    assert record["calibration"]["log loss"] == pytest.approx(scores.log_loss)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("data.csv", "--target", "size"), "--target: expected one of a, b, yield or a column's number from 1 to 3"),
        (("one.csv", "--model", "sparse.npz"), "--model: expected a model of 1 inputs, as one has, got one of 2"),
        (("part.csv", "--model", "sparse.npz"), "of its 70 rows in"),
        (("nan.csv", "--model", "sparse.npz"), "got 1 missing cell in 1 row and 1 column, the first in line 92"),
        (("data.csv", "--model", "student.npz"), "got a VariationalGP with a StudentT likelihood"),
        (("data.csv", "--model", "data.csv"), "--model: expected a file .npz or .json"),
        (("data.csv", "--model", "model.pkl"), 'gpbounds.renyi.from_gpflow(model).save("model.json")'),
        (("data.csv", "--model", "wide.json"), "Z: expected inducing points of 2 inputs, as the rows have, got 3"),
        (("data.csv", "--model", "other.json"), "expected a model that gpbounds.renyi.Model.save wrote"),
        (("data.csv", "--model", "none.npz"), "none.npz"),
        (("none.csv",), "none.csv: No such file"),
        (("data.csv", "--out", "page.pdf"), "--out: expected a name that ends in .html"),
        (("data.csv", "--out", "none/page.html"), "--out: expected a file in a folder that exists"),
        (("data.csv", "--delta", "2"), "--delta: expected a number between 0 and 1"),
        (("data.csv", "--certificate", "0"), "--certificate: expected a positive number"),
        (("data.csv", "--model", "sparse.npz", "--nats", "0"), "--nats: expected a positive number"),
        (("data.csv", "--model", "sparse.npz", "--most", "0"), "--most: expected a whole number >= 1"),
        (("data.csv", "--model", "sparse.npz", "--inducing", "5"), "not allowed with argument"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(folder, tmp_path, capsys, words, sentence):
    files = [folder / word if word.endswith((".csv", ".npz", ".json", ".pkl")) else word for word in words]
    out = () if "--out" in words else ("--out", tmp_path / "a.html")
    status, _, err = ask(capsys, *files, *out)
    assert status == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("mean", ["linear", LinearMean(40.0, [0.5, 0.1])])
def test_a_trained_mean_is_subtracted_and_its_predictions_are_kept(folder, tmp_path, mean):
    """The audit of a saved model is one of the residuals; the report says whether the mean was fitted to the rows."""
    table = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    X, y = table[:60, :2], table[:60, 2]
    kernel = SquaredExponential(100.0, [1.0, 2.0])
    model = fitted(fitting.SparseGP(kernel=kernel, n_inducing=8, mean=mean, max_iter=3, random_state=0), X, y)
    model.save(tmp_path / "model.npz")
    about = audit.examined(_arguments(folder, tmp_path), AuditQuestion())
    np.testing.assert_allclose(np.ravel(about.subject.y), y - model.mean_(X), rtol=1e-12)
    centre, spread = model.predict(table[60:, :2], return_std=True)
    np.testing.assert_allclose(about.predicted, [centre, spread**2], rtol=1e-9)
    (note,) = (each for each in about.notes if "mean function" in each)
    assert ("which was trained on the same rows" in note) == (mean == "linear")


def _arguments(folder, tmp_path):
    words = ["audit", str(folder / "data.csv"), "--model", str(tmp_path / "model.npz")]
    return build_parser().parse_args(words)
