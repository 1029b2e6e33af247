"""Certificates of every form from a shell: files, tables, checks, and predictions of other programs."""

from __future__ import annotations

import csv
import json
import shlex

import numpy as np
import pytest
from scipy.stats import beta

import fitting
from gpbounds.cli import main, rows
from gpbounds.pacbayes import Certificate, CoverageCertificate, HeldOutCertificate

pytestmark = pytest.mark.usefixtures("short_pilots")

N = 90
QUICK = ("--iterations", 10, "--kernel-lengthscale", "shared")
ONE = (*QUICK, "--epsilon", 0.6, "--delta", 0.05)


def ask(capsys, *words):
    status = main(["certify", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def answer(capsys, *words):
    status, out, err = ask(capsys, *words, "--json")
    assert status == 0, err
    return json.loads(out)


def refused(capsys, *words):
    """The last sentence on stderr of a command that must exit 2."""
    status, out, err = ask(capsys, *words)
    assert (status, out) == (2, "")
    return err.splitlines()[-1]


def checked(capsys, record, *words):
    """The exit status of the command that a record names for the check."""
    return ask(capsys, *shlex.split(record["check"])[2:], *words)[0]


def written(path, names, *columns):
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(names)
        out.writerows(zip(*columns, strict=True))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of numbers and of labels, in units far from 1; predictions of both by another program."""
    place = tmp_path_factory.mktemp("forms")
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (N, 2)) * [1.0, 30.0] + [5.0, 200.0]
    f = 70.0 + 9.0 * np.sin(1.5 * X[:, 0])
    y = f + 2.0 * rng.standard_normal(N)
    labels = np.where(f + 2.0 * rng.standard_normal(N) > 70.0, "good", "bad")
    columns = X.T.tolist()
    written(place / "data.csv", ["a", "b", "yield"], *columns, y.tolist())
    written(place / "labels.csv", ["a", "b", "quality"], *columns, labels.tolist())
    site = np.where(np.arange(N) % 2, "north", "south").tolist()
    written(place / "first.csv", ["quality", "a", "site"], labels.tolist(), columns[0], site)
    written(place / "mean.csv", ["mean"], f.tolist())
    written(place / "std.csv", ["std", "mean"], rng.uniform(1.5, 2.5, N).tolist(), f.tolist())
    written(place / "guess.csv", ["label"], np.where(f > 70.0, "good", "bad").tolist())
    return place


@pytest.fixture(scope="module")
def truth(folder):
    table = rows.read(folder / "data.csv")
    return table.X, table.y


@pytest.fixture(scope="module")
def best(folder):
    """The least of three forms."""
    out = folder / "best"
    assert main(["certify", "train", str(folder / "data.csv"), *map(str, ONE), "--out", str(out)]) == 0
    return out


# Forms


def test_the_best_of_three_forms_is_written_with_the_others_which_hold_together(capsys, folder, best):
    files = {path.name for path in best.iterdir()}
    certificates = {path.name: Certificate.load(path) for path in best.glob("*.json")}
    least = certificates.pop("certificate.json")
    methods = {"best": least.method, **{name: each.method for name, each in certificates.items()}}
    assert sorted(methods.values()) == ["data-prior", "held-out", "pac-bayes"]
    assert all(name == f"certificate-{each.method}.json" for name, each in certificates.items())
    assert all(least.bound <= each.bound for each in certificates.values())
    assert all(each.count % 3 == 0 and each.delta == 0.05 for each in (least, *certificates.values()))
    assert all(
        ask(capsys, "check", best / name, "--data", folder / "data.csv")[0] == 0
        for name in ("certificate.json", *certificates)
    )
    assert files == {*certificates, "certificate.json", "certificate.png", "model.npz"}
    assert (best / "certificate.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_has_a_line_for_each_form_and_says_what_may_be_relied_on(capsys, folder, tmp_path, best):
    status, out, _ = ask(capsys, "train", folder / "data.csv", *ONE, "--out", tmp_path)
    assert status == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.split()[:1]}
    stated = {each.method: each for each in map(Certificate.load, tmp_path.glob("*.json"))}
    for method, each in stated.items():
        assert 0.0 <= float(lines[method].split()[-3]) - each.bound < 1e-3
        assert f"on {each.rows} rows" in lines[method]
    words = " ".join(out.split())
    raw = 0.6 * float(Certificate.load(tmp_path / "certificate.json").outputs.scale)
    assert f"of new targets are more than {raw:.3g} off" in words
    assert "hold together with probability 95 %" in words
    assert "A held-out set is the better choice" in words
    assert ask(capsys, *shlex.split(out.splitlines()[-1])[2:])[0] == 0


@pytest.mark.parametrize("method", ["held-out", "data-prior"])
def test_a_form_alone_pays_for_no_other(capsys, folder, tmp_path, truth, best, method):
    record = answer(capsys, "train", folder / "data.csv", *ONE, "--method", method, "--out", tmp_path)
    made = Certificate.load(tmp_path / "certificate.json")
    assert record["method"] == made.method == method
    assert (record["bound"], record["delta"], record["rows"]) == (made.bound, 0.05, 45)
    assert record["forms"] == [{"method": method, "bound": made.bound, "delta": 0.05, "rows": 45}]
    together = {each.method: each for each in map(Certificate.load, best.glob("*.json"))}
    assert made.bound < together[method].bound
    assert made.count == 1
    assert checked(capsys, record) == 0
    inputs = truth[0][made.split.prior(N)]
    unit = np.std(truth[1][made.split.prior(N)])
    np.testing.assert_allclose(made.outputs.scale, unit, rtol=1e-12)
    if method == "data-prior":
        np.testing.assert_allclose(made.inputs.scale, inputs.std(axis=0), rtol=1e-12)


def test_a_held_out_bound_is_the_quantile_of_a_beta_law_at_the_mistakes_of_the_saved_model(
    capsys, folder, tmp_path, truth
):
    """Its predictions are those of the model file, digit by digit, in raw units."""
    X, y = truth
    record = answer(capsys, "train", folder / "data.csv", *ONE, "--method", "held-out", "--out", tmp_path)
    made = Certificate.load(record["files"]["certificate"])
    apart = ~made.split.prior(N)
    predicted = fitting.load(record["files"]["model"]).predict(X[apart])
    np.testing.assert_array_equal(predicted, made.predictions)
    mistakes = int((np.abs(y[apart] - predicted) > 0.6 * float(made.outputs.scale)).sum())
    assert made.mistakes == mistakes
    assert made.bound == pytest.approx(beta.ppf(0.95, mistakes + 1, apart.sum() - mistakes), rel=1e-9)


def test_predict_reads_the_columns_of_the_file_and_knows_the_rows_of_training(capsys, folder, tmp_path, best):
    out = tmp_path / "p.csv"
    assert main(["predict", str(best / "model.npz"), str(folder / "data.csv"), "--out", str(out), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["rows of the training"] == 45
    assert record["scores"]["new rows"]["RMSE"] < 6.0  # without the units of the file it is above 50


@pytest.mark.slow
def test_several_epsilon_give_a_table_of_all_forms(capsys, folder, tmp_path):
    words = (*QUICK, "--epsilon", "0.6,1", "--posterior", "vfe", "--inducing", 12)
    record = answer(capsys, "train", folder / "data.csv", *words, "--out", tmp_path)
    assert [Certificate.load(tmp_path / f"certificate-{name}.json").loss.epsilon for name in ("0.6", "1")] == [0.6, 1.0]
    assert not (tmp_path / "certificate.json").exists()
    both = (record, *record["others"])
    for each in both:
        assert {form["method"] for form in each["forms"]} == {"pac-bayes", "data-prior", "held-out"}
        assert each["bound"] == min(form["bound"] for form in each["forms"])
        assert checked(capsys, each) == 0
    assert Certificate.load(record["files"]["certificate"]).count % 6 == 0  # two losses, three forms
    status, out, _ = ask(capsys, "train", folder / "data.csv", *words, "--out", tmp_path)
    assert status == 0
    head = next(line for line in out.splitlines() if "in raw units" in line)
    assert set(head.split()) >= {"pac-bayes", "data-prior", "held-out", "least"}
    for each in both:
        stated = Certificate.load(each["files"]["certificate"])
        line = next(line.split() for line in out.splitlines() if line.split()[:1] == [f"{stated.loss.epsilon:g}"])
        assert line[-1] == stated.method
        assert 0.0 <= min(map(float, line[2:-1])) - stated.bound < 1e-3


@pytest.mark.slow
def test_without_epsilon_standard_deviations_are_certified_that_no_data_have_influenced(capsys, folder, tmp_path):
    words = (*QUICK, "--method", "held-out", "--out", tmp_path)
    record = answer(capsys, "train", folder / "data.csv", *words)
    certificates = [Certificate.load(each["files"]["certificate"]) for each in (record, *record["others"])]
    assert [each.loss.epsilon for each in certificates] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert {each.count for each in certificates} == {5}


def test_the_later_rows_of_a_time_series_are_certified(capsys, folder, tmp_path):
    words = (*ONE, "--method", "held-out", "--order", "as-given", "--share", 0.7, "--out", tmp_path)
    record = answer(capsys, "train", folder / "data.csv", *words)
    made = Certificate.load(tmp_path / "certificate.json")
    assert made.split.order == "as given"
    assert np.flatnonzero(~made.split.prior(N)).tolist() == list(range(63, N))
    assert record["rows"] == 27


def test_as_given_declares_the_units_of_the_table(capsys, folder, tmp_path):
    words = (*QUICK, "--method", "held-out", "--epsilon", 4, "--scaling", "as-given", "--out", tmp_path)
    answer(capsys, "train", folder / "data.csv", *words)
    made = Certificate.load(tmp_path / "certificate.json")
    assert (made.outputs.origin, made.loss.epsilon) == ("as given", 4.0)


@pytest.mark.broad
@pytest.mark.parametrize(
    ("posterior", "estimator"),
    [("full", "PACGP"), ("vfe", "SparsePACGP"), ("fitc", "SparsePACGP"), ("free", "VariationalGP")],
)
def test_every_posterior_is_certified_by_rows_that_its_prior_had_not_seen(
    capsys, folder, tmp_path, posterior, estimator
):
    words = (*ONE, "--method", "data-prior", "--posterior", posterior, "--out", tmp_path)
    words += () if posterior == "full" else ("--inducing", 8)
    record = answer(capsys, "train", folder / "data.csv", *words)
    model = fitting.load(record["files"]["model"])
    assert type(model).__name__ == estimator
    if posterior != "free":  # whose file has the law P in place of Q
        assert model.certificate_ == Certificate.load(record["files"]["certificate"])
        assert getattr(model, "posterior", posterior) == posterior
    assert ("The model file predicts by the prior" in " ".join(record["notes"])) == (posterior == "free")
    assert checked(capsys, record) == 0


# Intervals


def test_intervals_hold_the_share_of_the_certified_rows_that_the_rank_says(capsys, folder, tmp_path, truth):
    X, y = truth
    words = (*QUICK, "--coverage", 0.8, "--delta", 0.1, "--out", tmp_path)
    record = answer(capsys, "train", folder / "data.csv", *words)
    made = Certificate.load(tmp_path / "certificate.json")
    assert isinstance(made, CoverageCertificate)
    assert record["method"] == "coverage"
    assert (record["forms"][0]["level"], record["forms"][0]["factor"]) == (0.8, made.factor)
    apart = ~made.split.prior(N)
    mean, std = fitting.load(tmp_path / "model.npz").predict(X[apart], return_std=True, noisy=True)
    np.testing.assert_array_equal(made.spread, std)
    assert (np.abs(y[apart] - mean) <= made.factor * std).sum() == made.rank
    n = made.rows
    assert beta.sf(0.8, made.rank, n + 1 - made.rank) >= 0.9 > beta.sf(0.8, made.rank - 1, n + 2 - made.rank)
    assert checked(capsys, record) == 0
    status, out, _ = ask(capsys, "train", folder / "data.csv", *words)
    assert status == 0
    stated = float(
        next(line.split()[7] for line in out.splitlines() if line.startswith("Interval of a new row: mean +-"))
    )
    assert 0.0 <= stated - made.factor < 1e-2 * made.factor  # rounded up to three digits


# Labels


def test_a_classifier_is_certified_by_its_wrong_labels(capsys, folder, tmp_path):
    words = ("--iterations", 10, "--inducing", 10, "--labels", "--out", tmp_path)
    record = answer(capsys, "train", folder / "labels.csv", *words)
    assert {each["method"] for each in record["forms"]} == {"data-prior", "held-out"}
    for form in (*tmp_path.glob("*.json"),):
        assert Certificate.load(form).classes == ("bad", "good")
        assert ask(capsys, "check", form, "--data", folder / "labels.csv")[0] == 0
    held = next(each for each in map(Certificate.load, tmp_path.glob("*.json")) if isinstance(each, HeldOutCertificate))
    X, labels = rows.certified(folder / "labels.csv", in_memory=True, labels=True)
    apart = ~held.split.prior(N)
    wrong = fitting.load(tmp_path / "model.npz").predict(X[apart]) != labels[apart]
    assert held.mistakes == wrong.sum()
    assert "of new labels" in record["relied on"]


def test_labels_beside_words_in_another_column_are_written_for_the_check(capsys, folder, tmp_path):
    words = ("--iterations", 5, "--inducing", 5, "--labels", "--method", "held-out", "--target", "quality")
    record = answer(capsys, "train", folder / "first.csv", *words, "--out", tmp_path)
    own = tmp_path / "certificate_data.csv"
    assert record["files"]["data"] == str(own)
    with own.open(encoding="utf-8") as file:
        assert next(csv.reader(file)) == ["a", "site=north", "site=south", "quality"]
    assert checked(capsys, record) == 0
    certificate = record["files"]["certificate"]
    assert "expected columns of numbers" in refused(capsys, "check", certificate, "--data", folder / "first.csv")
    lines = own.read_text(encoding="utf-8").splitlines()
    changed = lines[-1].replace("good", "?").replace("bad", "good").replace("?", "bad")
    (tmp_path / "changed.csv").write_text("\n".join([*lines[:-1], changed]) + "\n", encoding="utf-8")
    assert ask(capsys, "check", certificate, "--data", tmp_path / "changed.csv")[0] == 1


# Predictions of other programs


def test_predictions_in_a_file_are_certified_and_compared(capsys, folder, tmp_path, truth):
    words = ("predictions", folder / "mean.csv", "--data", folder / "data.csv", "--epsilon", 3, "--delta", 0.05)
    record = answer(capsys, *words, "--out", tmp_path)
    made = Certificate.load(tmp_path / "certificate.json")
    f = np.loadtxt(folder / "mean.csv", skiprows=1)
    mistakes = int((np.abs(truth[1] - f) > 3.0).sum())
    assert (made.mistakes, made.rows, made.split) == (mistakes, N, None)
    assert record["command"] == "certify predictions"
    assert record["bound"] == made.bound == pytest.approx(beta.ppf(0.95, mistakes + 1, N - mistakes), rel=1e-9)
    assert set(record["files"]) == {"certificate", "picture"}
    assert "--predictions" in record["check"]
    assert checked(capsys, record) == 0
    other = f.copy()
    other[7] = np.nextafter(other[7], np.inf)
    written(tmp_path / "other.csv", ["mean"], other.tolist())
    assert checked(capsys, record, "--predictions", tmp_path / "other.csv") == 1


def test_several_epsilon_share_the_probability_of_failure(capsys, folder, tmp_path):
    words = ("predictions", folder / "mean.csv", "--data", folder / "data.csv", "--epsilon", "3,5")
    record = answer(capsys, *words, "--out", tmp_path)
    for each, name in zip((record, *record["others"]), ("3", "5"), strict=True):
        made = Certificate.load(tmp_path / f"certificate-{name}.json")
        assert each["bound"] == pytest.approx(beta.ppf(1.0 - 0.01 / 2, made.mistakes + 1, N - made.mistakes), rel=1e-9)


def test_intervals_and_labels_in_a_file_are_certified(capsys, folder, tmp_path, truth):
    words = ("predictions", folder / "std.csv", "--data", folder / "data.csv", "--coverage", 0.9)
    record = answer(capsys, *words, "--out", tmp_path / "intervals")
    made = Certificate.load(tmp_path / "intervals" / "certificate.json")
    s, m = np.loadtxt(folder / "std.csv", delimiter=",", skiprows=1).T
    assert made.factor == pytest.approx(np.sort(np.abs(truth[1] - m) / s)[made.rank - 1], rel=1e-14)
    assert checked(capsys, record) == 0
    record = answer(capsys, "predictions", folder / "guess.csv", "--data", folder / "labels.csv", "--out", tmp_path)
    made = Certificate.load(tmp_path / "certificate.json")
    guessed = np.loadtxt(folder / "guess.csv", skiprows=1, dtype=str)
    labels = np.loadtxt(folder / "labels.csv", skiprows=1, dtype=str, delimiter=",")[:, 2]
    assert made.mistakes == (guessed != labels).sum() > 0
    assert checked(capsys, record) == 0


@pytest.mark.broad
@pytest.mark.parametrize("labels", [False, True])
def test_what_predict_has_written_is_certified(capsys, folder, tmp_path, labels):
    """For rows that the model has not seen: the model is trained on the first 60 of them."""
    table = folder / ("labels.csv" if labels else "data.csv")
    lines = table.read_text(encoding="utf-8").splitlines()
    (tmp_path / "old.csv").write_text("\n".join(lines[:61]) + "\n", encoding="utf-8")
    (tmp_path / "new.csv").write_text("\n".join([lines[0], *lines[61:]]) + "\n", encoding="utf-8")
    own = ("--model", "classifier") if labels else ()
    words = ("train", tmp_path / "old.csv", *own, "--inducing", 6, "--max-iter", 5, "--out", tmp_path)
    assert main([str(word) for word in words]) == 0
    assert (
        main(["predict", str(tmp_path / "model.npz"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    )
    capsys.readouterr()
    asked = () if labels else ("--coverage", 0.8)
    words = ("predictions", tmp_path / "p.csv", "--data", tmp_path / "new.csv", *asked, "--out", tmp_path)
    record = answer(capsys, *words)
    made = Certificate.load(tmp_path / "certificate.json")
    with (tmp_path / "p.csv").open(encoding="utf-8") as file:
        written_rows = list(csv.DictReader(file))
    if labels:
        assert made.mistakes == sum(row["label"] != row["target"] for row in written_rows)
    else:
        np.testing.assert_array_equal(made.spread, [float(row["std_y"]) for row in written_rows])
    assert checked(capsys, record) == 0


# Wrong arguments


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--method", "vfe"), "got 'vfe', a value of --posterior: --method pac-bayes --posterior vfe"),
        (("--method", "full"), "a value of --posterior"),
        (("--method", "bayes"), "invalid choice: 'bayes'"),
        (("--method", "best", "--coverage", 0.9), "--coverage is an option of --method held-out, got --method best"),
        (("--coverage", 1.5), "--coverage: expected a share between 0 and 1, got 1.5"),
        (("--coverage", 0.9, "--epsilon", 1), "--epsilon and --coverage exclude each other"),
        (("--coverage", 0.999), "expected at least"),
        (("--labels", "--epsilon", 1), "--epsilon and --labels exclude each other"),
        (("--labels", "--posterior", "vfe"), "--posterior and --labels exclude each other"),
        (("--labels", "--method", "pac-bayes"), "--labels: expected --method best, data-prior or held-out"),
        (("--scaling", "split"), "--scaling split is an option of --method pac-bayes, got --method best"),
        (
            ("--method", "pac-bayes", "--scaling", "prior"),
            "--scaling prior is an option of every --method but pac-bayes",
        ),
        (("--loss", "relative", "--scaling", "prior"), "--scaling: expected as-given for --loss relative"),
        (("--method", "pac-bayes", "--order", "random"), "--order is an option of every --method but pac-bayes"),
        (("--method", "held-out", "--grid", -3, 3, 12), "--grid is an option of --method pac-bayes or best"),
        (("--objective", "kl"), "--objective is an option of --method pac-bayes, got --method best"),
        (("--mean", "linear"), "--mean is an option of --method pac-bayes, got --method best"),
        (("--share", 0), "--share: expected a number between 0 and 1, got 0"),
        (("--inducing", 5), "the full posterior has no inducing points"),
        (("--epsilon", 0.5, "--iterations", 0), "--iterations: expected"),
        (("--epsilon", 0.5, "--tol", -1), "--tol: expected"),
        (("--epsilon", "0.5,0.5"), "--epsilon: expected different numbers"),
        (("--loss", "interval"), "--epsilon: expected the deviation to tolerate"),
    ],
)
def test_questions_without_sense_exit_with_2_and_write_nothing(capsys, folder, tmp_path, words, message):
    assert message in refused(capsys, "train", folder / "data.csv", *words, "--out", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("file", "table", "words", "message"),
    [
        ("mean.csv", "data.csv", (), "--epsilon, --coverage: expected one of them for the column mean"),
        ("mean.csv", "data.csv", ("--coverage", 0.9), "--coverage: expected the columns mean and std"),
        ("guess.csv", "labels.csv", ("--epsilon", 1), "--epsilon: expected not to be given for the column label"),
        ("mean.csv", "data.csv", ("--epsilon", 1, "--coverage", 0.9), "--epsilon and --coverage exclude each other"),
        ("std.csv", "data.csv", ("--coverage", 0.9, "--loss", "band"), "--loss and --coverage exclude each other"),
        ("mean.csv", "labels.csv", ("--epsilon", 1), "labels.csv: expected numbers, got "),
        ("nothing.csv", "data.csv", ("--epsilon", 1), "nothing.csv: No such file"),
        ("data.csv", "data.csv", ("--epsilon", 1), "expected a header line with the column 'mean'"),
    ],
)
def test_predictions_that_do_not_fit_are_refused_in_one_sentence(capsys, folder, tmp_path, file, table, words, message):
    asked = ("predictions", folder / file, "--data", folder / table, *words, "--out", tmp_path / "new")
    assert message in refused(capsys, *asked)
    assert not (tmp_path / "new").exists()


def test_predictions_are_compared_with_certificates_that_record_some(capsys, folder, best):
    words = ("--data", folder / "data.csv", "--predictions", folder / "mean.csv")
    assert "which records predictions, got one of the form pac-bayes" in refused(
        capsys, "check", best / "certificate-pac-bayes.json", *words
    )
    status, out, _ = ask(capsys, "check", best / "certificate.json", *words)
    assert status == 1
    assert "FAILED" in out


def test_what_the_command_reads_is_never_overwritten(capsys, folder, tmp_path):
    text = (folder / "mean.csv").read_text(encoding="utf-8")
    own = tmp_path / "certificate.json"
    own.write_text(text, encoding="utf-8")
    words = ("predictions", own, "--data", folder / "data.csv", "--epsilon", 3, "--out", tmp_path)
    assert "would overwrite" in refused(capsys, *words)
    assert own.read_text(encoding="utf-8") == text


def test_help_has_an_example_for_every_action(capsys):
    for action in ("train", "predictions", "check"):
        status, text, _ = ask(capsys, action, "--help")
        assert status == 0
        assert f"example:\n  gpbounds certify {action}" in text
